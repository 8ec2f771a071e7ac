"""Noise that varies beside constant noise, a heavy tail alone, and rivals, on ten tables.

    python benchmarks/performance/varying_noise.py --splits 5 --folder /tmp/laws
    python benchmarks/performance/varying_noise.py --few 40

Each split fits the default front door to 350 to 600 rows and scores at most 1000 others. Targets
have unit variance. `constant` is the fit; `tail` gives its laws a scale and Student's tail;
`varying` is the factor of `noise="varying"`, and `auto` takes it where its gain on rows left out is
clear. Rivals are boosted quantiles of scikit-learn and CatBoost with uncertainty, where it is
installed. Columns: NLPD in nats, CRPS, and coverage of 95 % intervals in thirds of the predicted
spread. `--few` counts how often `auto` takes noise to vary on drawn tables of 50 to 200 rows, and
what this gains on 1000 others. A folder keeps the laws of each
fit for the next run.
"""

from __future__ import annotations

import argparse
import os
import pickle
import time
import warnings
from pathlib import Path

os.environ |= {"OMP_NUM_THREADS": "1"}

import numpy as np
from generated_tables import GENERATED
from sklearn.datasets import load_diabetes
from sklearn.ensemble import HistGradientBoostingRegressor

import coupledgp as cgp
from coupledgp.core.left_out import LeftOut
from coupledgp.core.varying_noise import variance_columns
from coupledgp.tables.noise_choice import LeftOutRows, fit_noise, pays, with_noise
from data_loaders import uci

TABLES = (
    "boston", "diabetes", "concrete", "airfoil", "power", "protein", "kin40k", "heteroscedastic",
    "positive", "outliers",
)  # fmt: skip
ROWS, TEST_ROWS = {"boston": 400, "diabetes": 350}, 1000
LEVELS = np.array([0.025, 0.975])
CHANCES = (np.arange(99) + 1) / 100


def table(name: str, split: int) -> tuple[np.ndarray, np.ndarray, int]:
    """Inputs, targets of unit variance, and the number of training rows, which come first."""
    rng = np.random.default_rng(split)
    if name in GENERATED:
        X, y = GENERATED[name](rng, 400 + TEST_ROWS)
        n = 400
    else:
        n = ROWS.get(name, 600)
        if name == "diabetes":
            X, y = load_diabetes(return_X_y=True)
        else:
            X, y = (data := uci.load(name)).X, data.y
        order = rng.permutation(len(y))[: n + TEST_ROWS]
        X, y = X[order], y[order]
    return X, (y - y[:n].mean()) / y[:n].std(), n


def laws(name: str, split: int, folder: Path | None) -> tuple[LeftOutRows, LeftOutRows, float]:
    """Training rows with their left-out laws, test rows with theirs, and the seconds of a fit."""
    X, y, n = table(name, split)
    path = None if folder is None else folder / f"{name}.{split}.pkl"
    if path is not None and path.exists():
        kept = pickle.loads(path.read_bytes())
    else:
        start = time.process_time()
        model = cgp.GPRegressor(noise="constant", random_state=split).fit(X[:n], y[:n])
        seconds = time.process_time() - start
        process = model.process_
        kept = {
            "left": process.targets_left_out(np.arange(n)),
            "test": process.parts_of_law(model.points(X[n:])), "seconds": seconds,
        }  # fmt: skip
        if path is not None:
            path.write_bytes(pickle.dumps(kept))
    rows = [
        LeftOutRows(X[own], law, y[own, None])
        for own, law in ((slice(0, n), kept["left"]), (slice(n, None), kept["test"]))
    ]
    return rows[0], rows[1], kept["seconds"]


def scores(law: LeftOut, y: np.ndarray) -> list[float]:
    """NLPD, CRPS, and coverage in thirds of the spread."""
    ends = law.quantiles(LEVELS)[:, 0]
    return [-law.log_density(y).mean(), law.crps(y).mean(), *thirds(ends, y[:, 0])]


def thirds(ends: np.ndarray, y: np.ndarray) -> list[float]:
    """Coverage of intervals (n, 2) in thirds of their widths, the narrowest first."""
    inside = (ends[:, 0] <= y) & (y <= ends[:, 1])
    return [inside[part].mean() for part in np.array_split(np.argsort(np.diff(ends)[:, 0]), 3)]


def boosted_quantiles(X: np.ndarray, y: np.ndarray, at: np.ndarray, y_at: np.ndarray) -> list:
    """Scores of boosted quantiles, whose density is not known."""
    wanted = (0.025, 0.1, 0.25, 0.5, 0.75, 0.9, 0.975)
    found = np.sort([
        HistGradientBoostingRegressor(loss="quantile", quantile=one, max_iter=100, random_state=0)
        .fit(X, y).predict(at) for one in wanted
    ], axis=0)  # fmt: skip
    every = np.array([np.interp(CHANCES, wanted, column) for column in found.T])
    gaps = every - y_at[:, None]
    crps = 2 * (((gaps > 0) - CHANCES) * gaps).mean()
    return [np.nan, crps, *thirds(found[[0, -1]].T, y_at)]


def catboost(X: np.ndarray, y: np.ndarray, at: np.ndarray, y_at: np.ndarray) -> list | None:
    """Scores of CatBoost with a normal law of each row."""
    try:
        from catboost import CatBoostRegressor
    except ImportError:
        return None
    model = CatBoostRegressor(
        loss_function="RMSEWithUncertainty", iterations=500, verbose=False, random_seed=0,
        thread_count=1, allow_writing_files=False,
    )  # fmt: skip
    mean, variance = model.fit(X, y).predict(at).T
    return scores(LeftOut.single(mean[:, None], variance[:, None]), y_at[:, None])


def systems(name: str, split: int, arguments: argparse.Namespace) -> dict[str, list[float]]:
    """Scores of every system on one split; the last number is CPU seconds."""
    rows, at, seconds = laws(name, split, arguments.folder)
    found = {"constant": [*scores(at.law, at.targets), seconds]}
    level, tail = rows.tail(np.zeros(len(rows.targets)))
    factor = np.full((len(at.targets), 1), np.exp(level))
    found["tail"] = [*scores(at.law.scaled(factor, tail), at.targets), seconds]
    start = time.process_time()
    log_factor, tail, gains = fit_noise(rows, split)
    seconds = time.process_time() - start
    factor = np.exp(log_factor.at(variance_columns(at.points, at.law)))
    found["varying"] = [*scores(at.law.scaled(factor, tail), at.targets), seconds]
    accepted = pays(gains)
    found["auto"] = [*found["varying" if accepted else "constant"][:-1], seconds]
    if arguments.rivals:
        X, y, n = table(name, split)
        for rival in (boosted_quantiles, catboost):
            start = time.process_time()
            answer = rival(X[:n], y[:n], X[n:], y[n:])
            if answer is not None:
                found[rival.__name__] = [*answer, time.process_time() - start]
    return found


FEW = {
    "constant, .4": (0.4, 0.4), "from .2 to .6": (0.2, 0.6), "from .05 to 1.2": (0.05, 1.2)
}  # fmt: skip


def of_few_rows(n_seeds: int) -> None:
    """Print how often noise is taken to vary on few rows, and the mean gain, by its true spread."""
    print("| deviation along a column | rows | taken | gain of `auto` | its least | always |")
    print("|---|---|---|---|---|---|")
    for told, (low, high) in FEW.items():
        for n in (50, 100, 150, 200):
            taken, gains = [], []
            for seed in range(n_seeds):
                rng = np.random.default_rng([seed, n])
                X = rng.uniform(-1, 1, (n + TEST_ROWS, 3))
                spread = low * (high / low) ** ((X[:, 1] + 1) / 2)
                y = np.sin(3 * X[:, 0]) + spread * rng.normal(size=len(X))
                model = cgp.ExactGPRegressor("gaussian", random_state=0).fit(X[:n], y[:n])
                constant, at = model.process_, (X[n:], y[n:, None])
                taken.append(with_noise(constant, "auto", seed)[1].varies)
                varying = with_noise(constant, "varying", seed)[0]
                gain = varying.log_density(*at) - constant.log_density(*at)
                gains.append(float(gain.mean()))
            own = np.where(taken, gains, 0.0)
            print(
                f"| {told} | {n} | {np.mean(taken):.3f} | {own.mean():+.4f} | {own.min():+.3f} "
                f"| {np.mean(gains):+.4f} |", flush=True,
            )  # fmt: skip


def main() -> None:
    """Print a table for each data set, then gains and coverage over all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--rivals", action="store_true")
    parser.add_argument("--few", type=int, metavar="SEEDS")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    if arguments.few:
        of_few_rows(arguments.few)
        return
    gains: dict[str, list[float]] = {}
    covered: dict[str, list[list[float]]] = {}
    print(f"{'table':16} {'system':18} {'NLPD':>7} {'CRPS':>7}  thirds               {'s':>6}")
    for name in arguments.tables:
        every = [systems(name, split, arguments) for split in range(arguments.splits)]
        for system in every[0]:
            nlpd, crps, *thirds_, seconds = np.mean([one[system] for one in every], axis=0)
            told = " ".join(f"{part:.3f}" for part in thirds_)
            print(
                f"{name:16} {system:18} {nlpd:7.3f} {crps:7.4f}  {told}  {seconds:6.1f}", flush=True
            )
            base = np.mean([one["constant"][0] for one in every])
            gains.setdefault(system, []).append(float(base - nlpd))
            covered.setdefault(system, []).append(thirds_)
    print(
        "\nGain in nats a row: median, least, greatest over tables; tables with all thirds in range"
    )
    for system, own in gains.items():
        inside = sum(all(0.93 <= part <= 0.97 for part in parts) for parts in covered[system])
        print(
            f"{system:18} {np.median(own):7.3f} {np.min(own):7.3f} {np.max(own):7.3f}   "
            f"{inside} of {len(own)}; mean thirds {np.mean(covered[system], axis=0).round(3)}"
        )


if __name__ == "__main__":
    main()
