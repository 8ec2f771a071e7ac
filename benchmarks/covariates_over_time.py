"""Values over time with covariates: the model with and without them, beside what people run.

    python -m benchmarks.covariates_over_time

A city whose speeds fall with rain, more at some sensors than at others, and rise with lanes.
Forecasts and gaps are those of `usual_days.py`; ridge and boosting have the same covariates, rain
at the predicted time included. Some sensors are hidden altogether, so that lanes matter.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Sequence

import numpy as np
from sklearn.ensemble import HistGradientBoostingRegressor

import coupledgp as cgp
from benchmarks.usual_days import (
    FIRST,
    HORIZONS,
    LAST,
    N_ORIGINS,
    STEPS_OF_DAY,
    city,
    ridge_of_last_day,
    scores,
)
from coupledgp.random import FloatArray

HEAD = "| where | model | RMSE | MAE | CRPS | NLPD | in 95 % | CPU s |"
# Steps of a gap, and share of cells missing at random.
GAP, SCATTERED = 36, 0.03


class WetCity:
    """Speeds of `usual_days.city` with rain and lanes, the last day for forecasts.

    Parameters
    ----------
    n_days
        Days.
    seed
        Seed of the draw.
    effect
        Miles an hour that a sensor loses in full rain, on average.
    """

    def __init__(self, n_days: int, seed: int, effect: float = 6.0) -> None:
        rng = np.random.default_rng([41, seed])
        case = city(n_days, seed)
        readings = case.readings
        self.graph, self.times = readings.domain, np.asarray(readings.stamps)
        self.nodes = np.asarray(readings.labels)
        p, n = readings.values.shape
        episodes = (rng.random(n) < 0.006).astype(float) * rng.uniform(0.3, 1.0, n)
        self.rain = np.clip(np.convolve(episodes, np.hanning(30))[:n], 0.0, 1.5)
        self.lanes = rng.integers(1, 5, self.graph.n_nodes).astype(float)
        self.slopes = -effect * rng.gamma(9.0, 1.0 / 9.0, (p, 1))
        self.truth = readings.values + self.slopes * self.rain
        self.truth = self.truth + 4.0 * (self.lanes[self.nodes][:, None] - 2.5)
        self.hidden = np.sort(rng.choice(p, p // 8, replace=False))
        self.shown = np.setdiff1d(np.arange(p), self.hidden)
        self.values = self.truth.copy()
        self.values[rng.random((p, n)) < SCATTERED] = np.nan
        self.long = np.zeros((p, n), dtype=bool)
        for row in rng.permutation(p)[: p // 2]:
            start = rng.integers(STEPS_OF_DAY, n - STEPS_OF_DAY - GAP)
            self.long[row, start : start + GAP] = True
        self.values[self.long] = np.nan

    @property
    def n_fit(self) -> int:
        """Steps before the last day."""
        return self.times.size - STEPS_OF_DAY

    @property
    def origins(self) -> list[int]:
        """Steps from which forecasts are made."""
        return np.linspace(
            self.n_fit + FIRST, self.n_fit + LAST, N_ORIGINS
        ).round().astype(int).tolist()  # fmt: skip


Rows = list[tuple[str, FloatArray, FloatArray | None]]


def of_model(case: WetCity, with_covariates: bool) -> tuple[Rows, str]:
    """Errors and standard deviations of the package's model by what is predicted."""
    model = cgp.GraphTimeGPRegressor(case.graph, random_state=0, progress=False)
    nodes, shown, n = case.nodes, case.shown, case.n_fit

    def given(part: slice) -> dict[str, FloatArray] | None:
        return {"rain": case.rain[part]} if with_covariates else None

    first = given(slice(n))
    if first is not None:
        first["lanes"] = case.lanes
    model.fit(nodes[shown], case.values[shown, :n], times=case.times[:n], covariates=first)
    mean, std = model.predict(nodes, case.times[:n], return_std=True)
    error = mean - case.truth[:, :n]
    unseen = np.isnan(case.values[:, :n])
    rows: Rows = []
    for name, sensors in (("gaps of 3 hours", True), ("single gaps", False)):
        mask = unseen & (case.long[:, :n] == sensors)
        mask[case.hidden] = False
        rows.append((name, error[mask], std[mask]))
    hidden = case.hidden
    rows.append(("hidden sensors", error[hidden].ravel(), std[hidden].ravel()))
    found: list[list[FloatArray]] = [[], []]
    at = n
    for origin in case.origins:
        part = slice(at, origin)
        model.partial_fit(
            nodes[shown], case.values[shown, part], times=case.times[part], covariates=given(part)
        )
        later = slice(origin, origin + max(HORIZONS))
        mean, std = model.forecast("1h", covariates=given(later))
        found[0].append(mean - case.truth[shown, later])
        found[1].append(std)
        at = origin
    for h in HORIZONS:
        error, std = (np.stack(part)[:, :, h - 1].ravel() for part in found)
        rows.append((f"{5 * h} min ahead", error, std))
    effects = model.covariate_effects_
    words = "" if effects is None else "; ".join(
        f"{name} {word}: {b:.3g} (sd {sd:.2g}, own {own:.2g})"
        for name, word, b, sd, own in zip(*effects[:5], strict=True)
    )  # fmt: skip
    return rows, words


def filled(values: FloatArray) -> FloatArray:
    """Values (p, n) with gaps joined by straight lines."""
    places = np.arange(values.shape[1])
    out = values.copy()
    for row in out:
        known = np.flatnonzero(~np.isnan(row))
        row[:] = np.interp(places, known, row[known])
    return out


def of_rivals(case: WetCity) -> dict[str, Rows]:
    """Errors of ridge and boosting, given rain at the predicted time and lanes."""
    shown, n = case.shown, case.n_fit
    v, truth = filled(case.values[shown]), case.truth[shown]
    p = len(v)
    bins = np.arange(v.shape[1]) % STEPS_OF_DAY
    usual = v[:, :n].reshape(p, -1, STEPS_OF_DAY).mean(axis=1)
    lanes = case.lanes[case.nodes[shown]][:, None]
    rain, at = case.rain, np.array(case.origins) - 1
    center, scale = v[:, :n].mean(axis=1), v[:, :n].std(axis=1)
    x = ((v.T - center) / scale).T
    around = (np.abs(np.corrcoef(x[:, :n])) - 2 * np.eye(p)).argsort(axis=1)[:, -4:]
    found: dict[str, Rows] = {"ridge": [], "boosting": [], "last value": []}
    for h in HORIZONS:
        steps = np.arange(2, n - h)

        def lags(t: FloatArray, h: int = h) -> FloatArray:
            angle = 2 * np.pi * bins[t + h] / STEPS_OF_DAY
            more = [np.cos(angle), np.sin(angle), np.cos(2 * angle), np.sin(2 * angle)]
            known = [rain[t + h], rain[t], rain[t + h] - rain[t], np.ones(t.size)]
            return np.vstack([x[:, t], x[:, t - 1], x[:, t - 2], *more, *known])

        weights = ridge_of_last_day(lags(steps), x[:, steps + h].T)
        made = center[:, None] + scale[:, None] * (lags(at).T @ weights).T
        truths = truth[:, at + h]
        found["ridge"].append((f"{5 * h} min ahead", (made - truths).ravel(), None))
        found["last value"].append((f"{5 * h} min ahead", (v[:, at] - truths).ravel(), None))

        def table(t: FloatArray, h: int = h) -> FloatArray:
            parts = [v[:, t - k] for k in (0, 1, 2, 3, 6, 12)]
            parts += [v[around[:, k]][:, t] for k in range(4)]
            parts += [usual[:, bins[t + h]], usual[:, bins[t]]]
            same = [bins[t + h], rain[t + h], rain[t], rain[t + h] - rain[t]]
            parts += [np.broadcast_to(one, (p, t.size)) for one in same]
            return np.stack([*parts, np.broadcast_to(lanes, (p, t.size))], axis=-1)

        t = np.arange(12, n - h, 3)
        boosting = HistGradientBoostingRegressor(max_iter=150, random_state=0)
        columns = table(t)
        boosting.fit(columns.reshape(-1, columns.shape[2]), v[:, t + h].ravel())
        made = boosting.predict(table(at).reshape(-1, columns.shape[2])).reshape(p, -1)
        found["boosting"].append((f"{5 * h} min ahead", (made - truths).ravel(), None))
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=6)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--effect", type=float, default=6.0, help="miles an hour lost in full rain")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    kept: dict[tuple[str, str], list[list[float]]] = {}
    for seed in range(options.seeds):
        case = WetCity(options.days, seed, options.effect)
        for name, with_covariates in (("without covariates", False), ("with covariates", True)):
            start = time.process_time()
            rows, words = of_model(case, with_covariates)
            seconds = time.process_time() - start
            if words:
                print(f"seed {seed}: {words}; slopes {case.slopes[case.shown].mean():.3f} "
                      f"(sd {case.slopes[case.shown].std():.3f}), lanes 4", flush=True)  # fmt: skip
            for where, error, std in rows:
                kept.setdefault((where, name), []).append([*scores(error, std), seconds])
        start = time.process_time()
        rivals = of_rivals(case)
        seconds = time.process_time() - start
        for name, rows in rivals.items():
            for where, error, std in rows:
                kept.setdefault((where, name), []).append([*scores(error, std), seconds])
    print(f"{HEAD}\n{'|---' * 8}|")
    for (where, name), found in sorted(kept.items()):
        mean = np.mean(found, axis=0)
        print(f"| {where} | {name} | " + " | ".join(f"{v:.3f}" for v in mean[:-1])
              + f" | {mean[-1]:.1f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
