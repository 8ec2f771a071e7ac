"""Missing values of METR-LA and PEMS-BAY, hidden as in published studies of imputation.

    python -m benchmarks.published_imputation --data metr-la --days 7

Files are those of `load_metr_la` and `load_pems_bay`: in the folder `traffic` of COUPLEDGP_DATA, or
given by `--speeds` and `--graph`. Readings are hidden as by Cini, Marisca and Alippi ("Filling the
gaps", 2022): `point` hides a quarter of them one by one, `block` a twentieth one by one, and each
reading begins a fault of its sensor with chance 0.0015, which lasts 12 to 47 steps, one length a
sensor. Errors are those of hidden readings:

    MAE = mean |e| ,   RMSE = sqrt(mean e^2) ,   MRE = sum |e| / sum |y| .

Every way is given what is left of the same days, and nothing else; published networks are trained
on four months.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import coupledgp as cgp
from coupledgp.diagnostics.space_time.models import readings_of
from coupledgp.diagnostics.space_time.rivals import SPACE_TIME_RIVALS
from coupledgp.diagnostics.space_time.splits import SensorReadings
from coupledgp.random import FloatArray
from data_loaders.traffic import load_metr_la, load_pems_bay
from data_loaders.traffic_series import SpeedSeries

LOADERS: dict[str, Callable[..., SpeedSeries]] = {
    "metr-la": load_metr_la,
    "pems-bay": load_pems_bay,
}
SINGLE_SHARE = {"point": 0.25, "block": 0.05}
FAULT_CHANCE, SHORTEST, LONGEST = 0.0015, 12, 48
STEPS_OF_DAY = 288
RIVALS = (
    "linear in time", "mean at that time of day", "regression on the other sensors",
    "autoregression", "low rank", "boosted trees",
)  # fmt: skip
BoolArray = NDArray[np.bool_]


def hidden_cells(kind: str, shape: tuple[int, int], rng: np.random.Generator) -> BoolArray:
    """Cells (p, n) that are hidden: faults of sensors, and single readings."""
    p, _n = shape
    hidden = rng.random(shape) < SINGLE_SHARE[kind]
    if kind == "block":
        begins = rng.random(shape) < FAULT_CHANCE
        lengths = rng.integers(SHORTEST, LONGEST, p)
        for row in range(p):
            for first in np.flatnonzero(begins[row]):
                hidden[row, first : first + lengths[row]] = True
    return hidden


def errors_of(mean: FloatArray, truth: FloatArray) -> tuple[float, float, float]:
    """MAE, RMSE and MRE of means (m,) of readings (m,)."""
    error = mean - truth
    size = float(np.abs(error).sum())
    return size / error.size, float(np.sqrt(np.mean(error**2))), size / float(np.abs(truth).sum())


def part_of(data: SpeedSeries, first_day: float, n_days: float | None) -> SensorReadings:
    """Readings of some days."""
    first = round(first_day * STEPS_OF_DAY)
    last = None if n_days is None else first + round(n_days * STEPS_OF_DAY)
    model = cgp.GraphTimeGPRegressor(data.graph)
    return readings_of(model, data.nodes, data.times[first:last], data.speeds[:, first:last])


def model_means(given: SensorReadings) -> tuple[FloatArray, FloatArray, Any]:
    """Means and standard deviations (p, n) of the package's model, and the model."""
    rows = np.flatnonzero(given.seen.any(axis=1))
    labels = [given.labels[row] for row in rows.tolist()]
    model = cgp.GraphTimeGPRegressor(given.domain, progress=False)
    model.fit(labels, times=given.stamps, values=given.values[rows])
    stamps = model.time_axis_.numbers(given.stamps)
    mean, std = model.modelled_law_on_grid(given.sites, stamps)
    return mean, std, model


def shown(readings: SensorReadings, kind: str, seed: int, with_rivals: bool) -> None:
    """Print errors of the model and of what it is compared with."""
    hidden = hidden_cells(kind, readings.values.shape, np.random.default_rng([31, seed]))
    hidden &= readings.seen
    given, truth = readings.without(hidden), readings.values[hidden]
    print(f"{kind}, draw {seed}: {hidden.mean():.1%} hidden, {(~given.seen).mean():.1%} missing")

    def told(name: str, mean: FloatArray, seconds: float, more: str = "") -> None:
        found = mean[hidden]
        there = np.isfinite(found)
        mae, rmse, mre = errors_of(found[there], truth[there])
        print(f"| {kind} | {seed} | {name} | {mae:.3f} | {rmse:.3f} | {100 * mre:.2f} | "
              f"{more} | {seconds:.1f} |", flush=True)  # fmt: skip

    start = time.process_time()
    mean, std, model = model_means(given)
    inside = float((np.abs(mean - readings.values)[hidden] <= 1.959964 * std[hidden]).mean())
    told("GraphTimeGPRegressor", mean, time.process_time() - start, f"{inside:.3f}")
    if not with_rivals:
        print(model.method_reason_)
        return
    with np.errstate(invalid="ignore"):
        center = np.nanmean(given.values, axis=1, keepdims=True)
    told("mean of the sensor", np.broadcast_to(center, mean.shape), 0.0)
    for name in RIVALS:
        start = time.process_time()
        found = SPACE_TIME_RIVALS[name](given)
        told(name, found[0], time.process_time() - start)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", choices=sorted(LOADERS), default="metr-la")
    parser.add_argument("--speeds", help="file of speeds, such as metr-la.h5")
    parser.add_argument("--graph", help="file of weights or distances")
    parser.add_argument("--first-day", type=float, default=0.0)
    parser.add_argument("--days", type=float, help="number of days; all by default")
    parser.add_argument(
        "--masks", nargs="+", choices=sorted(SINGLE_SHARE), default=["point", "block"]
    )
    parser.add_argument("--draws", type=int, default=1)
    parser.add_argument("--sensors", type=int, help="only the first ones")
    parser.add_argument("--model-only", action="store_true")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    data = LOADERS[options.data](speeds=options.speeds, graph=options.graph)
    readings = part_of(data, options.first_day, options.days)
    if options.sensors:
        kept = slice(options.sensors)
        readings = SensorReadings(
            readings.values[kept], readings.times, readings.sites[kept], readings.domain,
            readings.seconds_of_day, readings.labels[kept], readings.stamps, readings.days,
        )  # fmt: skip
    p, n = readings.values.shape
    print(f"{data.source}: {p} sensors, {n} steps, {(~readings.seen).mean():.1%} missing")
    print("| mask | draw | way | MAE | RMSE | MRE, % | in 95 % | CPU s |\n" + "|---" * 8 + "|")
    for kind in options.masks:
        for seed in range(options.draws):
            shown(readings, kind, seed, not options.model_only)


if __name__ == "__main__":
    main()
