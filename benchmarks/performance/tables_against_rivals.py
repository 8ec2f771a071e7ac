"""The default of `GPRegressor` beside what a user would pick instead, on tables.

Each seed makes one random split, a tenth of the rows for testing; columns and targets are
standardised on the training rows. All systems run in this process, one after the other, on the same
rows and one thread:

* ours: `GPRegressor()` with its defaults;
* gpboost: Vecchia approximation with 20 neighbours, Matern-3/2 with one lengthscale a column
  (exact below 1200 rows), a constant mean; left out where the package is not installed;
* svgp: gpytorch's, as in `fitted_against_svgp.py`, for as long as ours took (at most two minutes);
* boosting: scikit-learn's `HistGradientBoostingRegressor`, its law Gaussian with the variance of
  residuals of five-fold cross-validation;
* nystroem: `Nystroem` features with `BayesianRidge`;
* exact: `ExactGPRegressor()` up to `--exact-rows` rows.

RMSE, NLPD and CRPS (from 99 quantiles) are in units of the standardised target; coverage is that of
central 95 % intervals, wall seconds are of fit and prediction. The generated tables have 2500 rows.

    COUPLEDGP_DATA=... python benchmarks/performance/tables_against_rivals.py [--seeds 5]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from importlib.util import find_spec

import numpy as np
import torch
from fitted_against_svgp import fit_svgp
from rich.console import Console
from rich.table import Table
from scipy import special
from sklearn.datasets import make_friedman1, make_friedman2, make_friedman3
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

import coupledgp as cgp
from coupledgp.datasets import uci

REAL = (
    "kin40k", "protein", "power", "wine", "abalone", "airfoil", "concrete", "boston", "cpu",
    "diabetes",
)  # fmt: skip
LEVELS = np.arange(1, 100) / 100
Rows = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def _uniform(rng: np.random.Generator, dim: int) -> np.ndarray:
    return rng.uniform(-1, 1, (2500, dim))


def linear(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A linear relation of 17 columns and a small smooth part."""
    X = rng.normal(size=(2500, 17)) @ rng.normal(size=(17, 17))
    y = X @ rng.normal(size=17) + np.sin(X[:, 0]) + 0.1 * rng.normal(size=2500)
    return X, y


def useless(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two columns of use and forty of none."""
    X = _uniform(rng, 42)
    return X, np.sin(5 * X[:, 0]) * X[:, 1] + 0.1 * rng.normal(size=2500)


def outliers(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """One row in thirty is off by ten standard deviations of the function."""
    X = _uniform(rng, 4)
    y = np.sin(4 * X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * rng.normal(size=2500)
    return X, y + 10 * (rng.random(2500) < 1 / 30) * rng.normal(size=2500)


def heteroscedastic(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Noise that grows by a factor of twenty along a column."""
    X = _uniform(rng, 3)
    return X, np.sin(4 * X[:, 0]) + X[:, 1] + np.exp(1.5 * X[:, 2] - 2) * rng.normal(size=2500)


def categories(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Two columns of numbers and the levels of two categories, as numbers without an order."""
    X = _uniform(rng, 2)
    levels = rng.integers(0, 8, (2500, 2))
    effect = rng.normal(size=(8, 8))
    y = np.sin(4 * X[:, 0] + effect[levels[:, 0], 0]) + effect[levels[:, 0], levels[:, 1]]
    codes = [levels[:, [k]] == np.arange(8) for k in (0, 1)]
    return np.hstack([X, *codes]).astype(float), y + 0.2 * rng.normal(size=2500)


def steps(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Jumps along axes, which trees are made for."""
    X = _uniform(rng, 5)
    y = np.floor(3 * X[:, 0]) * (X[:, 1] > 0) + np.sign(X[:, 2] + 0.3)
    return X, y + 0.2 * rng.normal(size=2500)


def smooth(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A smooth function of two columns, nearly without noise."""
    X = _uniform(rng, 2)
    return X, np.exp(X[:, 0]) * np.cos(3 * X[:, 1]) + 0.01 * rng.normal(size=2500)


def friedman(make: Callable, noise: float) -> Callable:
    """One of Friedman's functions."""

    def generate(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        return make(2500, noise=noise, random_state=int(rng.integers(2**31)))

    return generate


GENERATED = {
    "friedman1": friedman(make_friedman1, 1.0), "friedman2": friedman(make_friedman2, 100.0),
    "friedman3": friedman(make_friedman3, 0.1), "linear": linear, "useless": useless,
    "outliers": outliers, "heteroscedastic": heteroscedastic, "categories": categories,
    "steps": steps, "smooth": smooth,
}  # fmt: skip


def split(name: str, seed: int, test_rows: int) -> Rows:
    """Standardised training inputs and targets, test inputs and targets."""
    rng = np.random.default_rng(seed)
    if name in GENERATED:
        X, y = GENERATED[name](np.random.default_rng([seed, 1]))
    else:
        data = uci.load(name)
        X, y = data.X, data.y
    order = rng.permutation(len(X))
    n_test = len(X) // 10
    test, train = order[: min(n_test, test_rows)], order[n_test:]
    train = train[np.isfinite(X[train]).all(axis=1)]
    return standardised(X, y, train, test)


def standardised(X: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray) -> Rows:
    """Rows at places of training and of test rows, standardised by the training rows."""
    columns = StandardScaler().fit(X[train])
    center, scale = y[train].mean(), y[train].std()
    return (
        columns.transform(X[train]), (y[train] - center) / scale,
        columns.transform(X[test]), (y[test] - center) / scale,
    )  # fmt: skip


def scores(y: np.ndarray, mean: np.ndarray, densities: np.ndarray, quantiles: np.ndarray,
           interval: tuple[np.ndarray, np.ndarray]) -> dict[str, float]:  # fmt: skip
    """Scores of a predictive law, with its quantiles (p, 99)."""
    gaps = y[:, None] - quantiles
    pinball = np.maximum(LEVELS * gaps, (LEVELS - 1) * gaps)
    return {
        "rmse": float(np.sqrt(np.mean((mean - y) ** 2))),
        "nlpd": float(-densities.mean()),
        "crps": float(2 * pinball.mean()),
        "coverage": float(np.mean((interval[0] < y) & (y < interval[1]))),
    }


def gaussian(y: np.ndarray, mean: np.ndarray, std: np.ndarray) -> dict[str, float]:
    """Scores of a Gaussian law."""
    std = np.broadcast_to(std, mean.shape)
    densities = -0.5 * ((y - mean) / std) ** 2 - np.log(std * np.sqrt(2 * np.pi))
    quantiles = mean[:, None] + std[:, None] * special.ndtri(LEVELS)
    reach = special.ndtri(0.975) * std
    return scores(y, mean, densities, quantiles, (mean - reach, mean + reach))


def ours(rows: Rows, seed: int, options: argparse.Namespace) -> dict[str, float]:
    """The default of the front door."""
    X, y, X_test, y_test = rows
    start = time.perf_counter()
    gp = cgp.GPRegressor(random_state=seed, progress=False).fit(X, y)
    fitted = time.perf_counter()
    mean, interval = gp.predict(X_test), gp.predict_interval(X_test)
    predicted = time.perf_counter()
    law = gp.log_density(X_test, y_test), gp.predict_quantiles(X_test, LEVELS), interval
    return scores(y_test, mean, *law) | {
        "fit": fitted - start, "predict": predicted - fitted, "forecast": gp.forecast_,
    }  # fmt: skip


def gpboost_vecchia(rows: Rows, seed: int, options: argparse.Namespace) -> dict[str, float]:
    """GPBoost's Vecchia approximation."""
    import gpboost

    X, y, X_test, y_test = rows
    settings = {} if len(X) < 1200 else {"gp_approx": "vecchia", "num_neighbors": 20, "seed": seed}
    start = time.perf_counter()
    model = gpboost.GPModel(
        gp_coords=X, cov_function="matern_ard", cov_fct_shape=1.5, likelihood="gaussian",
        num_parallel_threads=1, **settings,
    )  # fmt: skip
    model.fit(y=y, X=np.ones((len(y), 1)))
    fitted = time.perf_counter()
    law = model.predict(
        gp_coords_pred=X_test, X_pred=np.ones((len(X_test), 1)), predict_var=True,
        predict_response=True,
    )  # fmt: skip
    times = {"fit": fitted - start, "predict": time.perf_counter() - fitted}
    return gaussian(y_test, law["mu"], np.sqrt(law["var"])) | times


def boosting(rows: Rows, seed: int, options: argparse.Namespace) -> dict[str, float]:
    """Gradient boosting of histograms."""
    X, y, X_test, y_test = rows
    start = time.perf_counter()
    model = HistGradientBoostingRegressor(random_state=seed)
    spread = np.std(y - cross_val_predict(model, X, y, cv=5))
    model.fit(X, y)
    fitted = time.perf_counter()
    mean = model.predict(X_test)
    times = {"fit": fitted - start, "predict": time.perf_counter() - fitted}
    return gaussian(y_test, mean, spread) | times


def nystroem(rows: Rows, seed: int, options: argparse.Namespace) -> dict[str, float]:
    """Nystroem features of the Gaussian kernel, and Bayesian ridge regression."""
    X, y, X_test, y_test = rows
    features = Nystroem(gamma=0.5 / X.shape[1], n_components=min(500, len(X)), random_state=seed)
    start = time.perf_counter()
    model = make_pipeline(features, BayesianRidge()).fit(X, y)
    fitted = time.perf_counter()
    mean, std = model.predict(X_test, return_std=True)
    times = {"fit": fitted - start, "predict": time.perf_counter() - fitted}
    return gaussian(y_test, mean, std) | times


def exact(rows: Rows, seed: int, options: argparse.Namespace) -> dict[str, float]:
    """The exact GP of the Gaussian kernel."""
    X, y, X_test, y_test = rows
    start = time.perf_counter()
    gp = cgp.ExactGPRegressor(random_state=seed, progress=False).fit(X, y)
    fitted = time.perf_counter()
    mean, std = gp.predict(X_test, return_std=True)
    times = {"fit": fitted - start, "predict": time.perf_counter() - fitted}
    return gaussian(y_test, mean, std) | times


def run(name: str, seed: int, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Figures of all systems on one split."""
    rows = split(name, seed, options.test_rows)
    results = {"ours": ours(rows, seed, options)}
    if find_spec("gpboost"):
        results["gpboost"] = gpboost_vecchia(rows, seed, options)
    seconds = min(results["ours"]["fit"], 120.0)
    if options.svgp:
        svgp = fit_svgp(*rows, n_inducing=128, budget=seconds, seed=seed)
        results["svgp"] = svgp | {"fit": svgp.pop("seconds")}
    results["boosting"] = boosting(rows, seed, options)
    results["nystroem"] = nystroem(rows, seed, options)
    if len(rows[0]) <= options.exact_rows:
        results["exact"] = exact(rows, seed, options)
    return results


def show(results: dict[str, list[dict[str, dict[str, float]]]]) -> None:
    """A row for each table and system, means over splits."""
    table = Table(title="standardised targets, means over splits")
    names = ("rmse", "nlpd", "crps", "coverage", "fit", "predict")
    for title in ("table", "system", *names):
        table.add_column(title, justify="right" if title in names else "left")
    for name, runs in results.items():
        for system in runs[0]:
            values = [np.mean([one[system].get(key, np.nan) for one in runs]) for key in names]
            cells = [f"{v:.4f}" for v in values[:3]] + [f"{values[3]:.3f}"]
            table.add_row(name, system, *cells, *(f"{v:.1f}" for v in values[4:]))
    Console(width=120).print(table)


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=[*REAL, *GENERATED])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--test-rows", type=int, default=4000)
    parser.add_argument("--exact-rows", type=int, default=2000)
    parser.add_argument("--no-svgp", dest="svgp", action="store_false")
    parser.add_argument("--json", help="file that all figures are written to")
    options = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, list[dict[str, dict[str, float]]]] = {}
    with threadpool_limits(1):
        for name in options.tables:
            results[name] = [run(name, seed, options) for seed in range(options.seeds)]
            show({name: results[name]})
            if options.json:
                with open(options.json, "w") as file:
                    json.dump(results, file, indent=1)
    show(results)


if __name__ == "__main__":
    main()
