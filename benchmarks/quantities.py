"""Several quantities over time: one model of all beside a model of each.

    python -m benchmarks.quantities --data synthetic
    python -m benchmarks.quantities --data metr-la

`synthetic` is a city of `usual_days.py` whose flow follows from its speed and a demand of its own.
`metr-la` has real speeds; its flow is drawn: what Greenshields' law makes of the speed, times a
demand that differs between sensors and days, with the noise of counts. Half of the sensors lose the
speed for three hours, the other half the flow; 5 % of cells are missing at random; the last day is
forecast.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

import coupledgp as cgp
from benchmarks.space_time_data import metr_la
from benchmarks.usual_days import FIRST, HORIZONS, LAST, STEPS_OF_DAY, city, scores
from coupledgp.random import FloatArray

GAP, SCATTERED, N_ORIGINS = 36, 0.05, 12
JAM_DENSITY, FREE_SPEED = 120.0, 75.0
HEAD = "| quantity | where | model | RMSE | MAE | CRPS | NLPD | in 95 % | CPU s |"


def flow_of(speed: FloatArray, rng: np.random.Generator) -> FloatArray:
    """Vehicles an hour (p, n) on a lane: Greenshields' law times a slow demand, as counts."""
    p, n = speed.shape
    slow = np.zeros((p, n))
    for t in range(1, n):
        slow[:, t] = 0.995 * slow[:, t - 1] + 0.02 * rng.normal(size=p)
    v = np.clip(speed, 3.0, FREE_SPEED - 1.0)
    rate = JAM_DENSITY * v * (1.0 - v / FREE_SPEED) * np.exp(slow)
    # Counts of five minutes.
    return 12.0 * rng.poisson(np.maximum(rate / 12.0, 0.1)).astype(np.float64)


class Case:
    """Speeds and flows with gaps.

    Parameters
    ----------
    data
        `"synthetic"` or `"metr-la"`.
    seed
        Seed of flows, gaps and the city.
    days
        Days of a city.
    sensors
        Most sensors, chosen by the seed.
    """

    def __init__(self, data: str, seed: int, days: int, sensors: int) -> None:
        rng = np.random.default_rng([43, seed])
        case = city(days, seed) if data == "synthetic" else metr_la()
        readings = case.readings
        self.graph, self.times = readings.domain, np.asarray(readings.stamps)
        some = np.sort(rng.permutation(len(readings.labels))[:sensors])
        self.nodes = [readings.labels[k] for k in some.tolist()]
        speed = np.asarray(readings.values)[some]
        self.truth = {"speed": speed, "flow": flow_of(speed, rng)}
        p, n = speed.shape
        self.n_fit = n - STEPS_OF_DAY
        self.long = {name: np.zeros((p, n), dtype=bool) for name in self.truth}
        for k, row in enumerate(rng.permutation(p)):
            start = rng.integers(STEPS_OF_DAY // 2, self.n_fit - GAP)
            self.long["speed" if k % 2 else "flow"][row, start : start + GAP] = True
        self.values = {}
        for name, values in self.truth.items():
            hidden = self.long[name] | (rng.random((p, n)) < SCATTERED)
            self.values[name] = np.where(hidden, np.nan, values)

    @property
    def origins(self) -> list[int]:
        """Steps from which forecasts are made."""
        places = np.linspace(self.n_fit + FIRST, self.n_fit + LAST, N_ORIGINS)
        return places.round().astype(int).tolist()

    def part(self, steps: slice) -> dict[str, FloatArray]:
        """Values of some steps."""
        return {name: values[:, steps] for name, values in self.values.items()}


class Apart:
    """A model of each quantity alone, with the methods of one of all."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def fit(self, data: dict[str, FloatArray], nodes: Any, times: Any) -> Apart:
        """Fit each."""
        from sklearn.base import clone

        self.models = {
            name: clone(self.model).fit(nodes, values, times=times)
            for name, values in data.items()
        }  # fmt: skip
        return self

    def partial_fit(self, data: dict[str, FloatArray], nodes: Any, times: Any) -> None:
        """Update each."""
        for name, values in data.items():
            self.models[name].partial_fit(nodes, values, times=times)

    def predict(self, nodes: Any, times: Any, return_std: bool) -> dict[str, Any]:
        """Laws of each."""
        return {k: m.predict(nodes, times, return_std) for k, m in self.models.items()}

    def forecast(self, ahead: str, nodes: Any) -> dict[str, Any]:
        """Laws of each ahead."""
        return {k: m.forecast(ahead, nodes) for k, m in self.models.items()}


def rows_of(case: Case, model: Any) -> list[tuple[str, str, FloatArray, FloatArray]]:
    """Quantity, where, errors and standard deviations of a model."""
    n, nodes = case.n_fit, case.nodes
    model.fit(case.part(slice(n)), nodes, case.times[:n])
    found = []
    laws = model.predict(nodes, case.times[:n], True)
    for name, (mean, std) in laws.items():
        error = np.asarray(mean) - case.truth[name][:, :n]
        missing = np.isnan(case.values[name][:, :n])
        for where, in_run in (("gaps of 3 hours", True), ("single gaps", False)):
            mask = missing & (case.long[name][:, :n] == in_run)
            found.append((name, where, error[mask], np.asarray(std)[mask]))
    ahead: dict[str, list[list[FloatArray]]] = {name: [[], []] for name in case.truth}
    at = n
    for origin in case.origins:
        model.partial_fit(case.part(slice(at, origin)), nodes, case.times[at:origin])
        later = slice(origin, origin + max(HORIZONS))
        for name, (mean, std) in model.forecast("1h", nodes).items():
            ahead[name][0].append(np.asarray(mean) - case.truth[name][:, later])
            ahead[name][1].append(np.asarray(std))
        at = origin
    for name, parts in ahead.items():
        for h in HORIZONS:
            error, std = (np.stack(part)[:, :, h - 1].ravel() for part in parts)
            found.append((name, f"{5 * h} min ahead", error, std))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", choices=("synthetic", "metr-la"), default="synthetic")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--days", type=int, default=6)
    parser.add_argument("--sensors", type=int, default=100, help="most sensors")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    kept: dict[tuple[str, str, str], list[list[float]]] = {}
    for seed in range(options.seeds):
        case = Case(options.data, seed, options.days, options.sensors)
        plain = cgp.GraphTimeGPRegressor(case.graph, random_state=0, progress=False)
        models = {"apart": Apart(plain), "one model": cgp.QuantitiesGPRegressor(plain)}
        for name, model in models.items():
            start = time.process_time()
            rows = rows_of(case, model)
            seconds = time.process_time() - start
            if isinstance(model, cgp.QuantitiesGPRegressor):
                print(f"seed {seed}: correlation {model.correlation_[0, 1]:.3f}; "
                      f"{model.model_.method_reason_}", flush=True)  # fmt: skip
            for quantity, where, error, std in rows:
                row = [*scores(error, std), seconds]
                kept.setdefault((quantity, where, name), []).append(row)
    print(f"{HEAD}\n{'|---' * 9}|")
    for (quantity, where, name), found in sorted(kept.items()):
        mean = np.mean(found, axis=0)
        print(f"| {quantity} | {where} | {name} | " + " | ".join(f"{v:.3f}" for v in mean[:-1])
              + f" | {mean[-1]:.1f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
