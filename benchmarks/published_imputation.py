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
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

import coupledgp as cgp
from coupledgp.diagnostics import SpaceTimeSplit
from data_loaders.traffic import load_metr_la, load_pems_bay
from data_loaders.traffic_series import SpeedSeries

LOADERS: dict[str, Callable[..., SpeedSeries]] = {
    "metr-la": load_metr_la,
    "pems-bay": load_pems_bay,
}
SINGLE_SHARE = {"point": 0.25, "block": 0.05}
FAULT_CHANCE, SHORTEST, LONGEST = 0.0015, 12, 48
STEPS_OF_DAY = 288
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


def shown(data: SpeedSeries, kind: str, seed: int, rivals: Any) -> list[str]:
    """Rows of a table: errors of the model and of what it is compared with."""
    rng, seen = np.random.default_rng([31, seed]), np.isfinite(data.speeds)
    hidden = hidden_cells(kind, data.speeds.shape, rng) & seen
    size = float(np.abs(data.speeds[hidden]).mean())
    missing = (hidden | ~seen).mean()
    print(f"{kind}, draw {seed}: {hidden.mean():.1%} hidden, {missing:.1%} missing")
    start = time.process_time()
    model = cgp.GraphTimeGPRegressor(data.graph, progress=False)
    split = SpaceTimeSplit.of_masks({kind: hidden})
    report = cgp.hide(model, data.nodes, data.times, data.speeds, splits=split, rivals=rivals)
    print(f"{time.process_time() - start:.0f} CPU s in all")
    seconds = {one.name: f"{one.seconds:.1f}" for one in report.tables.rivals}
    rows = []
    for name in [report.tables.predictions.name, *seconds]:
        mae, rmse, inside = (
            report.score(metric, name, kind) for metric in ("mae", "rmse", "coverage_95")
        )
        figures = f"{mae:.3f} | {rmse:.3f} | {100 * mae / size:.2f} | {inside:.3f}"
        rows.append(f"| {kind} | {seed} | {name} | {figures} | {seconds.get(name, '')} |")
    return rows


def part_of(
    data: SpeedSeries, first_day: float, n_days: float | None, n: int | None
) -> SpeedSeries:
    """Readings of some days, of the first sensors."""
    first = round(first_day * STEPS_OF_DAY)
    last = None if n_days is None else first + round(n_days * STEPS_OF_DAY)
    return replace(
        data, nodes=data.nodes[:n], times=data.times[first:last], speeds=data.speeds[:n, first:last]
    )


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
    data = part_of(data, options.first_day, options.days, options.sensors)
    p, n = data.speeds.shape
    print(f"{data.source}: {p} sensors, {n} steps, {np.isnan(data.speeds).mean():.1%} missing")
    rivals = None if options.model_only else "auto"
    rows = [
        row
        for kind in options.masks
        for seed in range(options.draws)
        for row in shown(data, kind, seed, rivals)
    ]
    print("| mask | draw | way | MAE | RMSE | MRE, % | in 95 % | s |\n" + "|---" * 8 + "|")
    print("\n".join(rows))


if __name__ == "__main__":
    main()
