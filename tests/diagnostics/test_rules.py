"""Thresholds of the rules from both sides, and what verdicts and advice make of checks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.diagnostics import Check, Normal, Predictions, Rival, Tables
from coupledgp.diagnostics.calibration.coverage import calibration_of
from coupledgp.diagnostics.calibration.whitened import Whitened
from coupledgp.diagnostics.rules import (
    advice_of,
    baseline,
    closeness,
    flexible,
    intervals,
    joint_law,
    known_rows,
    optimism,
    the_mean,
    verdicts_of,
)
from coupledgp.diagnostics.tables import BETTER, CLOSE, HONEST, Overlap, table_of

Z = np.random.default_rng(0).normal(size=(400, 1))
P = Predictions(Normal(np.zeros_like(Z), np.ones_like(Z)), Z)


def beside(kind: str, gain: float, error: float, name: str = "other", worse: float = 1.0) -> Tables:
    """Tables with one rival whose gain is known."""
    rows = [
        {"rival": name, "part": "", "metric": "nlpd", "gain": gain, "error": error},
        {"rival": name, "part": "", "metric": "rmse", "gain": worse - 1, "error": 1e-3},
    ]
    scores = [
        {"model": one, "part": "", "group": "", "metric": "rmse", "value": value, "unit": ""}
        for one, value in ((P.name, worse), (name, 1.0))
    ]
    rival = Rival(replace(P, name=name), kind, remedy="Use it.")
    return Tables(
        P, rivals=(rival,), gains=table_of("gains", rows), scores=table_of("scores", scores)
    )


def fired(checks: list[Check]) -> list[str]:
    return [one.colour for one in checks if one.fired]


@pytest.mark.parametrize(
    ("gain", "error", "worse", "expected"),
    [
        (0.026, 0.01, 1.0, ["red"]), (0.024, 0.01, 1.0, []),  # two and a half standard errors
        (0.0101, 1e-4, 1.0, ["red"]), (0.0099, 1e-4, 1.0, []),  # a hundredth of a nat
        (-0.5, 0.01, 1.011, ["red"]), (-0.5, 0.01, 1.009, []),  # one per cent of the RMSE
    ],
)  # fmt: skip
def test_a_simple_rival(gain: float, error: float, worse: float, expected: list[str]) -> None:
    assert fired(baseline(beside("simple", gain, error, worse=worse))) == expected


@pytest.mark.parametrize(
    ("gain", "error", "expected"),
    [(0.026, 0.01, ["amber"]), (0.024, 0.01, []), (0.101, 0.01, ["red"]), (0.099, 0.01, ["amber"])],
)
def test_a_flexible_rival(gain: float, error: float, expected: list[str]) -> None:
    assert fired(flexible(beside("flexible", gain, error))) == expected


@pytest.mark.parametrize(
    ("gain", "error", "colour"),
    [
        (-0.021, 0.01, "green"), (-0.019, 0.01, "grey"),  # two standard errors
        (-0.001, 0.0094, "amber"), (-0.001, 0.0096, "grey"),  # the lead is known to be small
    ],
)  # fmt: skip
def test_the_mean(gain: float, error: float, colour: str) -> None:
    (check,) = the_mean(beside("simple", gain, error, "mean"))
    assert check.colour == colour


def calibrated(**changes: Any) -> Tables:
    """Tables of a right law, of which some figures are changed."""
    found = calibration_of(P)
    shares = {"coverage_p": 1.0, "spread_p": 1.0, "shift_p": 1.0, "pit_p": 1.0, "worst_p": 1.0}
    changed = type(found)(**{**vars(found), **shares, "rescaling_gain": 0.0, **changes})
    return Tables(P, judged=P, calibration=changed)


@pytest.mark.parametrize(
    ("changes", "rules"),
    [
        ({"coverage_p": 0.001}, ["coverage"]), ({"coverage_p": 0.0011}, []),
        ({"spread_p": 0.003, "rescaling_gain": 0.011}, ["scale"]),
        ({"spread_p": 0.0031, "rescaling_gain": 0.011}, []),
        ({"spread_p": 0.001, "rescaling_gain": 0.009}, []),
        ({"shift_p": 0.001, "shift": 0.15}, ["place"]), ({"shift_p": 0.0011, "shift": 0.15}, []),
        ({"shift_p": 0.001, "shift": 0.14}, []),
        ({"pit_p": 0.001}, ["shape"]), ({"pit_p": 0.0011}, []),
    ],
)  # fmt: skip
def test_intervals(changes: dict[str, Any], rules: list[str]) -> None:
    assert [one.rule for one in intervals(calibrated(**changes)) if one.fired] == rules


@pytest.mark.parametrize(
    ("changes", "colour"),
    [
        ({"shares": (0.41, 0.8, 0.95)}, "amber"), ({"shares": (0.39, 0.8, 0.95)}, "red"),
        ({"shares": (0.5, 0.8, 0.901)}, "amber"), ({"shares": (0.5, 0.8, 0.899)}, "red"),
        ({"rescaling_gain": 0.099}, "amber"), ({"rescaling_gain": 0.101}, "red"),
    ],
)  # fmt: skip
def test_seriously_wrong_intervals(changes: dict[str, Any], colour: str) -> None:
    checks = intervals(calibrated(coverage_p=0.0005, **changes))
    assert checks[0].colour == colour


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"spread_p": 0.003, "rescaling_gain": 0.011}, ["amber"]),
        ({"spread_p": 0.003, "rescaling_gain": 0.11}, ["red"]),
        ({"spread_p": 0.003, "rescaling_gain": 0.009}, []), ({"spread_p": 0.0031}, []),
        ({"joint_p": 0.001, "joint_gain": 0.2}, ["amber"]), ({"joint_p": 0.0011}, []),
        ({"neighbour_p": 0.001, "neighbour": 0.16}, ["amber"]),
        ({"neighbour_p": 0.001, "neighbour": 0.13}, []),
        ({"pit_p": 0.001}, ["amber"]), ({"pit_p": 0.0011}, []),
    ],
)  # fmt: skip
def test_the_joint_law(changes: dict[str, Any], expected: list[str]) -> None:
    quiet = {
        "rescaling": 1.1, "rescaling_gain": 0.0, "spread_p": 1.0, "pit_distance": 0.1, "pit_p": 1.0,
        "joint_gain": 0.1, "expected_gain": 0.1, "gain_error": 0.01, "joint_p": 1.0,
        "neighbour": 0.0, "neighbour_error": 0.1, "neighbour_p": 1.0,
    }  # fmt: skip
    assert fired(joint_law(Tables(P, whitened=Whitened(**{**quiet, **changes})))) == expected


@pytest.mark.parametrize(
    ("kl", "error", "gain", "colour"),
    [
        (0.0099, 0.0, 0.0, "green"), (0.0101, 0.0, 0.0, "amber"), (0.009, 0.0006, 0.0, "amber"),
        (0.099, 0.0, 0.0, "amber"), (0.101, 0.0, 0.0, "red"), (0.2, 0.0, -0.1, "amber"),
        (0.005, 0.0, 0.011, "amber"), (0.005, 0.0, 0.101, "red"), (1e-13, 0.0, 0.0, "green"),
    ],
)  # fmt: skip
def test_closeness(kl: float, error: float, gain: float, colour: str) -> None:
    row = {"metric": "kl", "value": kl, "below": 0.0, "above": 0.0, "error": error}
    gains = [{"rival": "exact process", "part": "", "metric": "nlpd", "gain": gain, "error": 1e-4}]
    tables = Tables(
        P, replace(P, name="exact process"), distance=table_of("distance", [row]),
        gains=table_of("gains", gains),
    )  # fmt: skip
    assert closeness(tables)[0].colour == colour


def test_what_is_not_judged() -> None:
    assert not known_rows(replace(Tables(P), overlap=Overlap(400, 20, 0)))
    assert len(known_rows(replace(Tables(P), overlap=Overlap(400, 21, 0)))) == 2
    assert not known_rows(replace(Tables(P), overlap=Overlap(400, 99, 0, left_out=True)))
    assert not known_rows(Tables(P.take(np.arange(8))))
    assert len(known_rows(Tables(P.take(np.arange(7))))) == 2
    assert not optimism(Tables(P))


def check(rule: str, gain: float, colour: str = "amber", question: str = BETTER) -> Check:
    return Check(question, rule, colour, f"It is {rule}.", True, rule, gain=gain, gain_error=0.001,
                 remedy=f"Cure {rule}.")  # fmt: skip


def test_verdicts_are_the_worst_check_of_each_question() -> None:
    found = verdicts_of([
        check("next", 0.2), check("baseline", 0.1, "red"), check("scale", 0.1, "amber", HONEST),
        Check(CLOSE, "closeness", "green", "It is close."),
    ])  # fmt: skip
    assert [one.colour for one in found] == ["red", "amber", "green"]
    assert found[0].sentence == "It is baseline."
    grey = Check(BETTER, "few points", "grey", "Too few.", True)
    assert verdicts_of([check("baseline", 0.1, "red"), grey])[0].sentence == "Too few."
    assert [one.colour for one in verdicts_of([])] == ["grey"] * 3


def test_advice_leaves_out_what_another_remedy_explains() -> None:
    reach, look, scale = check("reach", 0.3), check("next", 0.31), check("scale", 0.05)
    assert [one.rule for one in advice_of([look, reach])] == ["reach"]
    assert [one.rule for one in advice_of([check("next", 0.4), reach])] == ["next"]
    # Another factor on the deviations does not help predictions that gain more than it.
    assert [one.rule for one in advice_of([scale, check("next", 0.052)])] == ["scale"]
    assert "next" in [one.rule for one in advice_of([scale, look])]
    assert not advice_of([check("next", 0.009)])
    assert [one.rule for one in advice_of([look, check("carried", 0.02)])] == ["carried"]


def test_right_laws_raise_no_alarm() -> None:
    """Of thirty right forecasters one at most has any fired check."""
    rng, alarms = np.random.default_rng(5), 0
    for _ in range(30):
        X = rng.uniform(-2, 2, (120, 2))
        f = np.sin(2 * X[:, 0])
        y = f + 0.2 * rng.normal(size=120)
        found = cgp.audit((f[60:], np.full(60, 0.2)), X[:60], y[:60], X[60:], y[60:],
                          depth="checks")  # fmt: skip
        alarms += any(one.fired for one in found.checks)
    assert alarms <= 1
