"""Errors of gains over simple rivals, and levels of sensors that are their own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coupledgp.diagnostics.space_time.gains import cards, gain_words, is_even
from coupledgp.diagnostics.space_time.record import KindScore, SensorErrors
from coupledgp.diagnostics.space_time.scoring import SpaceTimeLaw, ratio_error
from coupledgp.diagnostics.space_time.splits import SensorReadings
from tests.diagnostics.pages.space_time_cases import report


def laws(
    rng: np.random.Generator, n_sensors: int, n_times: int, shared: float
) -> tuple[SpaceTimeLaw, SpaceTimeLaw, SensorReadings]:
    """Predictions with errors of deviations 1 and 1.2, of which sensors share a part."""
    shape = (n_sensors, n_times)

    def errors() -> np.ndarray:
        own = rng.normal(size=shape)
        return np.sqrt(shared) * rng.normal(size=(n_sensors, 1)) + np.sqrt(1 - shared) * own

    values = np.zeros(shape)
    readings = SensorReadings(values, np.arange(float(n_times)), np.arange(n_sensors), None)
    first, second = SpaceTimeLaw(errors(), np.ones(shape)), SpaceTimeLaw(
        1.2 * errors(), np.ones(shape)
    )  # fmt: skip
    return first, second, readings


@pytest.mark.parametrize("shared", [0.0, 0.6])
def test_errors_of_ratios_are_those_of_simulations(shared: float) -> None:
    rng = np.random.default_rng(0)
    logs, errors = [], []
    for _ in range(300):
        first, second, readings = laws(rng, 20, 15, shared)
        cells = np.ones((20, 15), dtype=bool)
        squares = [np.mean(np.square(one.mean)) for one in (first, second)]
        logs.append(0.5 * np.log(squares[1] / squares[0]))
        errors.append(ratio_error(first, second, readings, cells))
    assert np.mean(errors) == pytest.approx(np.std(logs), rel=0.25)


def test_one_reading_or_none_wrong_has_no_error() -> None:
    first, second, readings = laws(np.random.default_rng(0), 3, 4, 0.0)
    one = np.zeros((3, 4), dtype=bool)
    one[0, 0] = True
    assert ratio_error(first, second, readings, one) is None
    right = SpaceTimeLaw(np.zeros((3, 4)), np.ones((3, 4)))
    assert ratio_error(right, second, readings, np.ones((3, 4), dtype=bool)) is None


def score(rmse: float, model: str = "model", error: float | None = None) -> KindScore:
    return KindScore("gap", model, 50, rmse, rmse, ratio_error=error)


def test_a_gain_within_its_error_is_none() -> None:
    own = score(9.0)
    assert is_even(own, score(10.0, "linear in time", 0.08))
    words = gain_words(own, score(10.0, "linear in time", 0.08))
    assert words == (
        "no better than linear interpolation (10.0), 10\N{NO-BREAK SPACE}% (± 14) below it"
    )
    sure = score(10.0, "linear in time", 0.01)
    assert not is_even(own, sure)
    assert gain_words(own, sure) == (
        "10\N{NO-BREAK SPACE}% (± 1.8) below linear interpolation (10.0)"
    )


def test_cards_are_green_and_red_beyond_chance_alone() -> None:
    def colours(error: float, factor: float) -> list[str]:
        scores = tuple(
            replace(one, rmse=factor * one.rmse) if one.model == "model"
            else replace(one, ratio_error=error)
            for one in report().scores
        )  # fmt: skip
        return [one.colour for one in cards(report(scores=scores))[:3]]

    assert colours(0.01, 0.5) == ["green"] * 3
    assert colours(0.01, 2.0) == ["red"] * 3
    assert colours(0.6, 0.5) == ["amber"] * 3
    assert colours(0.6, 2.0) == ["amber"] * 3


def sensors(bias: np.ndarray, noise: float = 1.0) -> SensorErrors:
    p = bias.size
    rmse = np.sqrt(bias**2 + noise**2)
    covered = np.where(np.abs(bias) > 2 * noise, 0.3, 0.95)
    return SensorErrors(np.full(p, 200), rmse, rmse, bias, covered)


def test_sensors_of_levels_of_their_own_are_not_doubtful() -> None:
    """Normal levels three times the noise: one is called doubtful in one of a hundred sets."""
    rng = np.random.default_rng(1)
    found = [sensors(3.0 * rng.normal(size=20)).is_doubtful().any() for _ in range(200)]
    assert np.mean(found) < 0.06
    bias = 3.0 * rng.normal(size=20)
    bias[4] = 40.0
    assert np.flatnonzero(sensors(bias).is_doubtful()).tolist() == [4]
    few = sensors(np.array([0.1, -0.2, 0.3, 9.0, 0.0]))
    assert np.flatnonzero(few.is_doubtful()).tolist() == [3]


def test_the_card_says_whether_a_level_explains_a_sensor() -> None:
    base = report().left_out
    bias = np.zeros(12)
    bias[2] = 25.0
    steady = replace(base, bias=bias, rmse=np.where(bias > 0, 25.1, 4.0))
    card = cards(report(left_out=steady))[-1]
    assert card.colour == "amber"
    assert "reads 25.0 mph too low" in card.sentence
    assert "calibrate it" in card.sentence
    restless = replace(base, bias=bias, rmse=np.where(bias > 0, 34.0, 4.0))
    assert "look at the sensor" in cards(report(left_out=restless))[-1].sentence
    sound = replace(base, bias=np.linspace(-1, 1, 12), rmse=np.full(12, 4.0))
    assert cards(report(left_out=sound))[-1].sentence.startswith("None of 12 deviates")
