"""Forecasts and gaps with a usual day and dynamics, beside what people run today.

    python -m benchmarks.usual_days --data metr-la

Forecasts: models are fitted to all days but the last, and forecast 15, 30 and 60 minutes from
22 times of the last day on, 6:00 to 22:00, each with all values before it. Gaps: the splits of
`space_time.py`. `synthetic` is a city whose days repeat and whose jams move upstream, `counts` has
counts with a daily pattern, and `no-days` is the city without any usual day.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

import coupledgp as cgp
from benchmarks.space_time_data import STEP, Case, metr_la, timed
from coupledgp.diagnostics.space_time.models import fitted_to, law_of
from coupledgp.diagnostics.space_time.rivals import SPACE_TIME_RIVALS, rival_law
from coupledgp.diagnostics.space_time.scoring import SpaceTimeLaw, score_values
from coupledgp.diagnostics.space_time.splits import SensorReadings, SplitPlan
from coupledgp.random import FloatArray

HORIZONS = (3, 6, 12)
N_ORIGINS, FIRST, LAST = 22, 72, 264
STEPS_OF_DAY = 288
HEAD = "model | RMSE | MAE | CRPS | NLPD | in 95 % | CPU s |"
# The package's model by name.
SETTINGS: dict[str, dict[str, Any]] = {"no usual day": {"usual_day": False}, "the law": {}}


def city(n_days: int = 6, seed: int = 0, day: float = 1.0) -> Case:
    """Speeds at 40 of 60 places of a road: a day of each kind, and jams that move upstream."""
    rng = np.random.default_rng([23, seed])
    p, n = 60, n_days * STEPS_OF_DAY
    hours = np.arange(n) % STEPS_OF_DAY / 12.0
    weekend = (np.arange(n) // STEPS_OF_DAY + 3) % 7 >= 5  # the first day is a Thursday
    load = np.exp(-0.5 * ((hours - 8) / 1.2) ** 2)
    load = load + 0.8 * np.exp(-0.5 * ((hours - 17.5) / 1.5) ** 2)
    load = day * np.where(weekend, 0.3, 1.0) * load
    size = rng.uniform(5.0, 25.0, (p, 1))
    jam = np.zeros((p, n))
    for t in range(1, n):
        moved = np.roll(jam[:, t - 1], -1)
        moved[-1] = 0.0
        fresh = (rng.random(p) < 0.004 * (0.3 + load[t])) * rng.gamma(3.0, 6.0, p)
        jam[:, t] = 0.62 * jam[:, t - 1] + 0.33 * moved + fresh
    values = 65.0 - size * load - jam + 1.5 * rng.normal(size=(p, n))
    graph = cgp.Graph.from_edges(np.arange(p - 1), np.arange(1, p))
    sensors = np.sort(rng.choice(p, 40, replace=False))
    return Case(timed(values[sensors], graph, sensors), SplitPlan())


def counts(n_days: int = 6, seed: int = 0) -> Case:
    """Counts of vehicles at 30 places of a ring, with a daily pattern and slow changes."""
    rng = np.random.default_rng([29, seed])
    p, n = 30, n_days * STEPS_OF_DAY
    hours = np.arange(n) % STEPS_OF_DAY / 12.0
    shape = 0.1 + np.exp(np.cos(2 * np.pi * (hours - 14) / 24)) / 2.7
    slow = np.zeros((p, n))
    for t in range(1, n):
        slow[:, t] = 0.98 * slow[:, t - 1] + 0.02 * rng.normal(size=p)
    rate = rng.uniform(30.0, 300.0, (p, 1)) * shape * np.exp(slow)
    graph = cgp.Graph.from_edges(np.arange(p), (np.arange(p) + 1) % p)
    return Case(timed(rng.poisson(rate).astype(float), graph), SplitPlan())


CASES: dict[str, Callable[..., Case]] = {
    "metr-la": metr_la, "synthetic": city, "counts": counts,
    "no-days": lambda n_days=6: city(n_days, day=0.0),
}  # fmt: skip
# Rivals at gaps; low rank is softImpute, the autoregression a ridge regression on lags of all.
RIVALS = ("linear in time", "last value", "regression on the other sensors", "autoregression",
          "low rank", "boosted trees")  # fmt: skip


def scores(law: SpaceTimeLaw, truth: FloatArray, cells: Any) -> str:
    """Scores of a law (p, n) at some cells, those of a law that is none left out."""
    known = cells & np.isfinite(truth) & np.isfinite(law.mean)
    found = score_values(truth[known], law.at(known))
    if law.std.any():
        names = ("rmse", "mae", "crps", "nlpd", "coverage_95")
        return " | ".join(f"{found[name]:.3f}" for name in names)
    return f"{found['rmse']:.3f} | {found['mae']:.3f} | | |"


def alone(mean: FloatArray) -> SpaceTimeLaw:
    """Means without a law."""
    return SpaceTimeLaw(mean, np.zeros(mean.shape))


def part_of(readings: SensorReadings, columns: Any) -> SensorReadings:
    """Readings at some times."""
    assert readings.seconds_of_day is not None
    assert readings.days is not None
    return replace(
        readings, values=readings.values[:, columns], times=readings.times[columns],
        stamps=readings.stamps[columns], seconds_of_day=readings.seconds_of_day[columns],
        days=readings.days[columns],
    )  # fmt: skip


def forecasts_of_model(
    readings: SensorReadings, origins: list[int], how: str
) -> list[SpaceTimeLaw]:
    """Laws (p, origins) of the package's model, updated up to each origin, at each horizon."""
    n_fit = readings.times.size - STEPS_OF_DAY
    labels, values, stamps = readings.labels, readings.values, readings.stamps
    model = cgp.GraphTimeGPRegressor(readings.domain, progress=False, **SETTINGS[how])
    model.fit(labels, times=stamps[:n_fit], values=values[:, :n_fit])
    laws, at, seconds = [], n_fit, []
    for origin in origins:
        model.partial_fit(labels, values[:, at:origin], times=stamps[at:origin])
        start = time.process_time()
        laws.append(law_of(model, part_of(readings, [origin + h - 1 for h in HORIZONS])))
        seconds.append(time.process_time() - start)
        at = origin
    print(how, model.method_reason_, f"; a forecast {np.mean(seconds):.3f} s", flush=True)

    def joined(k: int, name: str) -> Any:
        parts = [getattr(law, name) for law in laws]
        return None if parts[0] is None else np.stack([part[:, k] for part in parts], axis=1)

    names = ("mean", "std", "inner_mean", "inner_std", "tails")
    return [
        SpaceTimeLaw(transform=laws[0].transform, **{name: joined(k, name) for name in names})
        for k in range(len(HORIZONS))
    ]


def forecasts_of_rivals(readings: SensorReadings, origins: list[int]) -> dict[str, FloatArray]:
    """Means (h, p, origins) of the last value, ridge on lags, and boosting about the usual day."""
    v = np.asarray(readings.values)
    p, n = v.shape
    n_fit = n - STEPS_OF_DAY
    v = np.where(np.isnan(v), np.nanmean(v[:, :n_fit], axis=1, keepdims=True), v)
    bins, at = np.arange(n) % STEPS_OF_DAY, np.array(origins) - 1
    days = v[:, :n_fit].reshape(p, -1, STEPS_OF_DAY)
    usual = days.mean(axis=1)[:, bins]
    # Past days have the mean of the others: residuals in the fit are as large as those later.
    others = (days.sum(axis=1, keepdims=True) - days) / max(days.shape[1] - 1, 1)
    usual[:, :n_fit] = others.reshape(p, -1)
    names = ("last value", "ridge on three lags of all", "boosting on the usual day")
    found: dict[str, list[FloatArray]] = {name: [] for name in names}
    center, scale = v[:, :n_fit].mean(axis=1), v[:, :n_fit].std(axis=1)
    x, away = ((v.T - center) / scale).T, v - usual
    lags = np.concatenate([x[:, 2:], x[:, 1:-1], x[:, :-2]])  # at t = 2, 3, ...
    around = (np.abs(np.corrcoef(x[:, :n_fit])) - 2 * np.eye(p)).argsort(axis=1)[:, -4:]
    for h in HORIZONS:
        rows = np.arange(2, n_fit - h)
        H, y = np.vstack([lags[:, rows - 2], np.ones(rows.size)]), x[:, rows + h].T
        weights = ridge_of_last_day(H, y)
        made = np.vstack([lags[:, at - 2], np.ones(at.size)]).T @ weights
        found[names[1]].append((center + scale * made).T)
        found[names[0]].append(v[:, at])

        def table(t: Any, h: int = h) -> FloatArray:
            parts = [away[:, t - k] for k in (0, 1, 2, 3, 6, 12)]
            parts += [away[around[:, k]][:, t] for k in range(4)]
            parts += [usual[:, t + h], usual[:, t], np.broadcast_to(bins[t + h], (p, t.size))]
            return np.stack(parts, axis=-1)

        t = np.arange(12, n_fit - h, 3)
        boosting = HistGradientBoostingRegressor(max_iter=150, random_state=0)
        boosting.fit(table(t).reshape(-1, 13), away[:, t + h].ravel())
        made = boosting.predict(table(at).reshape(-1, 13)).reshape(p, -1)
        found[names[2]].append(usual[:, at + h] + made)
    return {name: np.stack(parts) for name, parts in found.items()}


def ridge_of_last_day(H: FloatArray, y: FloatArray) -> FloatArray:
    """Weights of a ridge regression of y (n, p) on H (k, n), its penalty chosen on the last day."""

    def fitted(n: int, penalty: float) -> FloatArray:
        gram = H[:, :n] @ H[:, :n].T + penalty * np.eye(len(H))
        return np.asarray(np.linalg.solve(gram, H[:, :n] @ y[:n]))

    n = len(y) - STEPS_OF_DAY
    penalties = (1e2, 1e3, 1e4, 3e4)
    errors = [np.mean((H[:, n:].T @ fitted(n, x) - y[n:]) ** 2) for x in penalties]
    return fitted(len(y), penalties[int(np.argmin(errors))])


def shown_forecasts(case: Case, with_rivals: bool) -> None:
    """Print the table of forecasts."""
    readings = case.readings
    n_fit = readings.times.size - STEPS_OF_DAY
    origins = np.linspace(n_fit + FIRST, n_fit + LAST, N_ORIGINS).round().astype(int).tolist()
    laws: list[tuple[str, list[SpaceTimeLaw], float]] = []
    for how in SETTINGS:
        start = time.process_time()
        found = forecasts_of_model(readings, origins, how)
        laws.append((how, found, time.process_time() - start))
    if with_rivals:
        start = time.process_time()
        rivals = forecasts_of_rivals(readings, origins)
        seconds = time.process_time() - start
        laws += [(name, [alone(part) for part in one], seconds) for name, one in rivals.items()]
    print(f"| forecast | {HEAD}\n{'|---' * 8}|")
    for k, h in enumerate(HORIZONS):
        truth = readings.values[:, [origin + h - 1 for origin in origins]]
        for name, found, cost in laws:
            row = scores(found[k], truth, np.ones(truth.shape, bool))
            print(f"| {5 * h} min | {name} | {row} | {cost:.1f} |", flush=True)


def shown_gaps(case: Case, n_splits: int, with_rivals: bool) -> None:
    """Print the table of gaps, of every split."""
    readings = case.readings
    print(f"\n| split | where | {HEAD}\n{'|---' * 9}|")
    for number in range(n_splits):
        split = replace(case.plan, sensors=0.1).draw(readings, np.random.default_rng([17, number]))
        given = readings.without(split.hidden)
        laws: list[tuple[str, SpaceTimeLaw, float]] = []
        for how in SETTINGS:
            start = time.process_time()
            model = cgp.GraphTimeGPRegressor(readings.domain, progress=False, **SETTINGS[how])
            law = law_of(fitted_to(model, given), readings)
            laws.append((how, law, time.process_time() - start))
        for name in RIVALS if with_rivals else ():
            start = time.process_time()
            law = rival_law(SPACE_TIME_RIVALS[name], readings, split, 0)
            laws.append((name, law, time.process_time() - start))
        for kind in ("scattered", "gap", "forecast", "hidden sensor"):
            for name, law, cost in laws:
                mask = split.of_kind(kind)
                if np.isfinite(law.mean[mask]).any():
                    row = scores(law, readings.values, mask)
                    print(f"| {number} | {kind} | {name} | {row} | {cost:.1f} |", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", choices=sorted(CASES), default="metr-la")
    parser.add_argument("--splits", type=int, default=2, help="splits of gaps")
    parser.add_argument("--days", type=int, help="days of a city that is drawn")
    parser.add_argument("--tables", choices=("both", "forecasts", "gaps"), default="both")
    parser.add_argument("--alone", action="store_true", help="without rivals")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    made = CASES[options.data]
    case = made() if options.days is None else made(options.days)
    print(f"{options.data}: {case.readings.values.shape}, steps of {STEP:g} s")
    if options.tables != "gaps":
        shown_forecasts(case, not options.alone)
    if options.tables != "forecasts":
        shown_gaps(case, options.splits, not options.alone)


if __name__ == "__main__":
    main()
