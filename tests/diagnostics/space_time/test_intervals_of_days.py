"""Whether intervals of days are honest, beyond the chance of few values that go together."""

from dataclasses import replace

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.diagnostics.space_time.gains import cards
from coupledgp.diagnostics.space_time.scoring import SpaceTimeLaw, coverage_error
from coupledgp.diagnostics.space_time.splits import SensorReadings
from tests.diagnostics.pages.space_time_cases import report

P, N = 30, 40
ROAD = cgp.Graph.from_edges(np.arange(P - 1), np.arange(1, P))


def readings(values):
    return SensorReadings(values, np.arange(float(values.shape[1])), np.arange(P), ROAD)


def law(shape=(P, N), std=1.0):
    return SpaceTimeLaw(np.zeros(shape), np.full(shape, std))


def test_the_error_of_a_share_is_at_least_binomial():
    values = 0.1 * np.ones((P, N))  # all inside, so that nothing varies
    everywhere = np.ones((P, N), dtype=bool)
    expected = np.sqrt(0.95 * 0.05 / (P * N))
    assert coverage_error(law(), readings(values), everywhere) == pytest.approx(expected)


def test_values_that_go_together_make_a_share_less_sure():
    rng = np.random.default_rng(0)
    everywhere = np.ones((P, N), dtype=bool)
    alone = coverage_error(law(), readings(rng.normal(size=(P, N))), everywhere)
    at_sensors = readings(np.repeat(rng.normal(size=(P, 1)), N, axis=1))
    at_times = readings(np.repeat(rng.normal(size=(1, N)), P, axis=0))
    # A sensor's share is zero or one, so that the error is that of P independent sensors.
    share = np.mean(np.abs(at_sensors.values) < 0.5 * 1.959964)
    expected = np.sqrt(share * (1 - share) / (P - 1))
    assert 0.3 < share < 0.95
    assert coverage_error(law(std=0.5), at_sensors, everywhere) == pytest.approx(expected, rel=1e-6)
    assert coverage_error(law(), at_times, everywhere) > 2 * alone


def card(share, error):
    scores = tuple(
        replace(one, coverage={0.95: share}, coverage_error=error) if one.model == "model" else one
        for one in report().scores
    )
    found = cards(report(scores=scores))
    return next(one for one in found if one.question.startswith("Are its intervals"))


@pytest.mark.parametrize(
    ("share", "error", "colour"),
    [
        (0.95, 0.0, "green"),
        (0.91, 0.0, "amber"),
        (0.91, 0.02, "green"),  # two standard errors bring it within three per cent
        (0.85, 0.0, "red"),
        (0.85, 0.02, "amber"),
        (1.0, 0.001, "amber"),
    ],
)
def test_chance_is_taken_off_before_a_share_is_judged(share, error, colour):
    found = card(share, error)
    assert found.colour == colour
    assert f"chance ± {200 * error:.0f}" in found.sentence


def test_right_laws_are_green_in_nearly_all_of_many_days():
    rng = np.random.default_rng(5)
    off = 0
    for _ in range(200):
        # Neighbours share three quarters of their variance at a time, as forecasts do.
        shared = np.sqrt(0.75) * rng.normal(size=(1, N))
        data = readings(shared + 0.5 * rng.normal(size=(P, N)))
        cells = rng.random((P, N)) < 0.1
        share = np.mean(np.abs(data.values[cells]) < 1.959964)
        off += abs(share - 0.95) - 2 * coverage_error(law(), data, cells) > 0.03
    assert off <= 4
