"""Counts of ten tables beside rivals: deviance, log score, coverage, CPU seconds.

* ours: a Matern-3/2 process of the log mean, `GPRegressor`, with the Poisson or the negative
  binomial law, whichever gives counts that are left out more probability;
* boosting, stopped: `HistGradientBoostingRegressor(loss="poisson")` with its defaults, and with
  early stopping, their laws Poisson;
* regression: `PoissonRegressor` on standardised columns;
* rounded: `GPRegressor`, its law rounded to whole numbers;
* rate: one rate for all rows.

Rings of abalones, grades of wines and the age of concrete in days are those of UCI; other counts
are drawn from `exp(a + b f)` of generated tables, Poisson or negative binomial, one of them with
exposures. Deviance is Poisson's, a row's mean; log score is minus the log chance of a count, nats;
coverage is of central 80 % intervals by randomised transforms.

    COUPLEDGP_DATA=... python benchmarks/performance/counts_against_rivals.py --splits 2
"""

from __future__ import annotations

import argparse
import os
import time
import warnings

os.environ |= {"OMP_NUM_THREADS": "1"}

import numpy as np
from generated_tables import GENERATED
from scipy import stats
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import PoissonRegressor

import coupledgp as cgp
from coupledgp.likelihoods import NegativeBinomial, Poisson
from data_loaders import uci

# Column of the counts of tables of UCI (None: the target), and generated tables with the mean and
# the spread of the log mean, the dispersion, and whether rows have exposures.
UCI = {"abalone": None, "wine": None, "concrete": 7}
DRAWN = {
    "additive": (0.0, 0.7, 0.0, False), "pairs": (0.5, 0.8, 0.0, False),
    "friedman1": (1.0, 0.7, 0.5, False), "steps": (0.0, 0.8, 0.0, False),
    "boxes": (1.0, 0.8, 0.3, False), "robot": (0.5, 0.8, 1.0, False),
    "smooth": (-0.5, 1.0, 0.0, True),
}  # fmt: skip
TABLES = (*UCI, *DRAWN)
Rows = tuple[np.ndarray, np.ndarray, np.ndarray]


def table(name: str, seed: int, n_rows: int, n_test: int) -> tuple[Rows, Rows]:
    """Inputs, counts and exposures of training and test rows."""
    rng = np.random.default_rng(seed)
    if name in UCI:
        data, column = uci.load(name), UCI[name]
        X, y = data.X, data.y
        if column is not None:
            X, y = np.column_stack([np.delete(X, column, axis=1), y]), X[:, column]
        y, exposure = np.round(y), np.ones(len(y))
    else:
        mean, spread, dispersion, exposed = DRAWN[name]
        X, f = GENERATED[name](rng, n_rows + n_test)
        exposure = rng.uniform(0.3, 3.0, len(f)) if exposed else np.ones(len(f))
        law = NegativeBinomial(dispersion) if dispersion else Poisson()
        y = law.draw(mean + spread * (f - f.mean()) / f.std() + np.log(exposure), rng)
    order = rng.permutation(len(y))
    n = min(n_rows, 2 * len(y) // 3)
    parts = (order[:n], order[n : n + n_test])
    return tuple((X[own], y[own], exposure[own]) for own in parts)


def deviance(y: np.ndarray, mean: np.ndarray) -> float:
    """Mean Poisson deviance."""
    log = np.where(y > 0, y * np.log(np.maximum(y, 1) / mean), 0.0)
    return float(2 * (log - y + mean).mean())


def scores(y: np.ndarray, mean: np.ndarray, below: np.ndarray, upto: np.ndarray) -> list[float]:
    """Deviance, log score and coverage from `F(y - 1)` and `F(y)`."""
    u = below + np.random.default_rng(0).random(len(y)) * (upto - below)
    log = -np.log(np.maximum(upto - below, 1e-15)).mean()
    return [deviance(y, mean), float(log), float((np.abs(u - 0.5) < 0.4).mean())]


def ours(train: Rows, test: Rows, seed: int) -> list[float]:
    """A process of the log mean."""
    X, y, exposure = train
    found = []
    for law in ("poisson", "negative-binomial"):
        model = cgp.GPRegressor(likelihood=law, kernel="matern-3/2", random_state=seed)
        model.fit(X, y, exposure=exposure)
        left = model.process_.left_out_marginals(np.arange(len(y)))
        found.append((float(left.log_density(y[:, None]).sum()), model))
    model = max(found, key=lambda pair: pair[0])[1]
    at = model.process_.marginals(model.points(test[0]), exposure=test[2])
    mean = at.likelihood.marginal_moments(at.mean, at.variance)[0][:, 0]
    ends = np.stack([test[1] - 1, test[1]], axis=1)[:, None]
    below, upto = at.cdf(ends)[:, 0].T
    return scores(test[1], mean, below, upto)


def of_means(test: Rows, mean: np.ndarray) -> list[float]:
    """Scores of Poisson laws of given means."""
    y, law = test[1], stats.poisson(mean)
    return scores(y, mean, law.cdf(y - 1), law.cdf(y))


def boosted(train: Rows, test: Rows, seed: int, stopped: bool) -> list[float]:
    """Boosted trees of the rate, weighted by exposure."""
    X, y, exposure = train
    model = HistGradientBoostingRegressor(
        loss="poisson", early_stopping=stopped, random_state=seed
    ).fit(X, y / exposure, sample_weight=exposure)
    return of_means(test, np.maximum(model.predict(test[0]), 1e-6) * test[2])


def regression(train: Rows, test: Rows, seed: int) -> list[float]:
    """Poisson regression."""
    X, y, exposure = train
    center, scale = X.mean(axis=0), np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    model = PoissonRegressor(alpha=1 / len(X), max_iter=1000)
    model.fit((X - center) / scale, y / exposure, sample_weight=exposure)
    return of_means(test, np.maximum(model.predict((test[0] - center) / scale), 1e-6) * test[2])


def rounded(train: Rows, test: Rows, seed: int) -> list[float]:
    """The front door of regression; exposures are a column."""
    inputs = [np.column_stack([own[0], own[2]]) for own in (train, test)]
    if np.ptp(train[2]) == 0:
        inputs = [train[0], test[0]]
    model = cgp.GPRegressor(random_state=seed, budget=60).fit(inputs[0], train[1])
    mean, std = model.predict(inputs[1], return_std=True)
    y, law = test[1], stats.norm(mean, std)
    below = np.where(y <= 0, 0.0, law.cdf(y - 0.5))
    return scores(y, np.maximum(mean, 1e-3), below, law.cdf(y + 0.5))


def rate(train: Rows, test: Rows, seed: int) -> list[float]:
    """One rate."""
    return of_means(test, train[1].sum() / train[2].sum() * test[2])


def run(name: str, seed: int, options: argparse.Namespace) -> dict[str, list[float]]:
    """Scores and CPU seconds of every system on one split."""
    train, test = table(name, seed, options.rows, options.test_rows)
    systems = {
        "ours": ours, "rounded": rounded, "regression": regression, "rate": rate,
        "boosting": lambda *split: boosted(*split, stopped=False),
        "stopped": lambda *split: boosted(*split, stopped=True),
    }  # fmt: skip
    results = {}
    for system, work in systems.items():
        if system == "rounded" and options.alone:
            continue
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = work(train, test, seed)
        results[system] = [*found, time.process_time() - start]
    return results


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=list(TABLES))
    parser.add_argument("--splits", type=int, default=2)
    parser.add_argument("--rows", type=int, default=500, help="training rows")
    parser.add_argument("--test-rows", type=int, default=1000)
    parser.add_argument("--alone", action="store_true", help="without the rounded regressor")
    options = parser.parse_args()
    print("| table | system | deviance | log score | in 80 % | CPU s |")
    print("|---|---|---|---|---|---|")
    ratios: dict[str, list[float]] = {"boosting": [], "stopped": []}
    for name in options.tables:
        runs = [run(name, seed, options) for seed in range(options.splits)]
        means = {system: np.mean([one[system] for one in runs], axis=0) for system in runs[0]}
        for system, own in means.items():
            cells = " | ".join(f"{value:.3f}" for value in own[:3])
            print(f"| {name} | {system} | {cells} | {own[3]:.1f} |", flush=True)
        for rival, found in ratios.items():
            found.append(means["ours"][0] / means[rival][0])
    for rival, found in ratios.items():
        near = sum(ratio <= 1.02 for ratio in found)
        print(f"deviance at most 1.02 times that of {rival} on {near} of {len(found)} tables, "
              f"median ratio {np.median(found):.3f}")  # fmt: skip


if __name__ == "__main__":
    main()
