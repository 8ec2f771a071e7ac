"""How often reports on hidden readings find fault with the right law of sensors over time.

    python benchmarks/hiding_alarms.py --seeds 20

Readings of sensors are drawn from a covariance that is a product over sensors and times, and
predicted by their own conditional law. Its correlations are known to the report, or they are not.
"""

from __future__ import annotations

import argparse
import warnings
from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

import coupledgp as cgp
from coupledgp.diagnostics.hiding import hide
from coupledgp.diagnostics.readings import SensorReadings, SplitPlan
from coupledgp.random import FloatArray

N_SENSORS, N_TIMES = 16, 120
MEAN = 50.0
RIVALS = ("last value", "linear in time", "nearest sensor", "regression on the others")


def covariance(points: FloatArray, other: FloatArray) -> FloatArray:
    """Covariances (m, q) of readings at sensors and times, rows (m, 2) and (q, 2)."""
    apart = np.abs(points[:, None] - other[None])
    return np.exp(-apart[..., 0] / 4 - apart[..., 1] / 8) + 0.05 * (apart.max(axis=2) == 0)


class Law(NamedTuple):
    """Means and a covariance as a process has them."""

    mean: FloatArray
    spread: FloatArray


@dataclass
class Conditional:
    """The conditional law of readings, in the form of a process."""

    known: FloatArray
    y: FloatArray

    def law(self, points: FloatArray, want: str) -> Law:
        """Means (m, 1) and the covariance (m, m, 1) at points (m, 2)."""
        K, across = covariance(self.known, self.known), covariance(points, self.known)
        gain = np.linalg.solve(K, across.T)
        mean = MEAN + gain.T @ (self.y - MEAN)
        return Law(mean[:, None], (covariance(points, points) - across @ gain)[..., None])

    def grid_tails(self, sites: Any, times: FloatArray) -> FloatArray:
        """Zero: normal."""
        return np.zeros((len(sites), len(times)))


class Axis:
    """Times are numbers."""

    def numbers(self, times: Any) -> FloatArray:
        """Times as they are."""
        return np.asarray(times, dtype=float)


class Right(BaseEstimator):
    """An estimator of the law that readings are drawn from."""

    graph = cgp.Graph.from_edges(range(N_SENSORS - 1), range(1, N_SENSORS))
    transform_ = None
    time_axis_ = Axis()

    def fit(self, nodes: Any, *, times: Any, values: FloatArray) -> Right:
        """Condition on readings."""
        rows, columns = np.nonzero(np.isfinite(values))
        points = np.column_stack([np.asarray(nodes)[rows], np.asarray(times)[columns]])
        self.grid_process_ = Conditional(points.astype(float), values[rows, columns])
        self.nodes_ = list(nodes)
        return self

    def partial_fit(self, nodes: Any, *, times: Any, values: FloatArray) -> Right:
        """Condition on further readings."""
        before = self.grid_process_
        self.fit(nodes, times=times, values=values)
        own = self.grid_process_
        self.grid_process_ = Conditional(
            np.vstack([before.known, own.known]), np.concatenate([before.y, own.y])
        )
        self.nodes_ = list(range(N_SENSORS))
        return self

    def modelled_law_on_grid(self, sites: Any, times: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Means and deviations (a, b)."""
        points = np.column_stack([np.repeat(sites, len(times)), np.tile(times, len(sites))])
        law = self.grid_process_.law(points.astype(float), "covariance")
        shape = (len(sites), len(times))
        std = np.sqrt(law.spread[..., 0].diagonal())
        return law.mean.reshape(shape), std.reshape(shape)


class RightAlone(Right):
    """The same, whose joint law is not known."""

    def predict(self, nodes: Any, times: Any, return_std: bool) -> tuple[FloatArray, FloatArray]:
        """Means and deviations (a, b)."""
        return Right.modelled_law_on_grid(self, np.asarray(nodes), np.asarray(times, dtype=float))

    @property
    def modelled_law_on_grid(self) -> Any:
        """None: it is no model of the package."""
        raise AttributeError

    def __getattribute__(self, name: str) -> Any:
        if name == "grid_process_" and _asked_by_report():
            raise AttributeError(name)
        return super().__getattribute__(name)


def _asked_by_report() -> bool:
    """Whether the caller is the report, which is not to know the joint law."""
    import sys

    return sys._getframe(2).f_code.co_name == "_correlation"


def drawn(seed: int) -> SensorReadings:
    """Readings of the law."""
    rng = np.random.default_rng(seed)
    points = np.column_stack(
        [np.repeat(np.arange(N_SENSORS), N_TIMES), np.tile(np.arange(N_TIMES), N_SENSORS)]
    ).astype(float)
    space, step = points[::N_TIMES, :1], points[:N_TIMES, 1:]
    A = np.linalg.cholesky(np.exp(-np.abs(space - space.T) / 4))
    B = np.linalg.cholesky(np.exp(-np.abs(step - step.T) / 8))
    values = MEAN + A @ rng.normal(size=(N_SENSORS, N_TIMES)) @ B.T
    values += np.sqrt(0.05) * rng.normal(size=values.shape)
    times = np.arange(float(N_TIMES))
    sites = np.arange(N_SENSORS)
    return SensorReadings(values, times, sites, Right.graph, sites.tolist(), times)


def main() -> None:
    """Count false alarms."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20)
    n = parser.parse_args().seeds
    warnings.simplefilter("ignore")
    for name, model in (("single readings", RightAlone()), ("joint law", Right())):
        rules: Counter[str] = Counter()
        alarms = 0
        for seed in range(n):
            plan = SplitPlan(gap=8, horizon=3)
            found = hide(model, drawn(seed), plan=plan, rivals=RIVALS, random_state=seed)
            fired = [one.rule for one in found.checks if one.fired]
            rules.update(set(fired))
            alarms += bool(fired)
        print(f"{name}: {alarms} of {n} reports find a fault; {dict(rules)}")


if __name__ == "__main__":
    main()
