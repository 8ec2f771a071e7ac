"""Sensors that a page draws over time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coupledgp.diagnostics.space_time.record import SpaceTimePage

# Number of the worst sensors that are drawn, besides a median one.
N_WORST = 6


@dataclass(frozen=True)
class ChosenSensors:
    """A sensor that is drawn: its number, and why."""

    sensor: int
    why: str


def chosen_sensors(report: SpaceTimePage) -> list[ChosenSensors]:
    """The worst six sensors when they are left out, and a median one; else evenly chosen ones."""
    p = report.sensors.size
    if report.left_out is None:
        few = np.unique(np.linspace(0, p - 1, min(p, N_WORST)).astype(int))
        return [ChosenSensors(int(k), "") for k in few]
    order = report.left_out.order()
    doubtful = report.left_out.is_doubtful()
    known = int(np.isfinite(report.left_out.rmse).sum())
    worst = [
        ChosenSensors(
            int(k), "doubtful: deviates all the time" if doubtful[k] else "among the worst"
        )
        for k in order[: min(N_WORST, known)]
    ]
    by_error = np.argsort(report.left_out.rmse, kind="stable")
    median = int(by_error[max(known - 1, 0) // 2])
    return (
        worst if median in order[:N_WORST] else [*worst, ChosenSensors(median, "the median sensor")]
    )


def drawn_sensors(report: SpaceTimePage) -> list[ChosenSensors]:
    """The chosen sensors whose series is known."""
    given = {one.sensor for one in report.series}
    return [one for one in chosen_sensors(report) if one.sensor in given or not given]
