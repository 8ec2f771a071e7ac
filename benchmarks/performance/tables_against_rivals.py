"""The default of `GPRegressor` beside what a user would pick instead, on tables.

Each seed makes one random split, a tenth of the rows for testing; columns and targets are
standardised on the training rows. All systems run in this process, one after the other, on the same
rows and one thread:

* ours: `GPRegressor()` with its defaults, and with `--members` the same with these members alone,
  each group of them a system by itself;
* gpboost: Vecchia approximation with 20 neighbours, Matern-3/2 with one lengthscale a column
  (exact below 1200 rows), a constant mean; left out where the package is not installed;
* svgp: gpytorch's, as in `fitted_against_svgp.py`, for as long as ours took (at most two minutes);
* catboost: `CatBoostRegressor`, its law as that of boosting; left out where it is not installed;
* boosting: scikit-learn's `HistGradientBoostingRegressor`, its law Gaussian with the variance of
  residuals of five-fold cross-validation;
* nystroem: `Nystroem` features with `BayesianRidge`;
* exact: `ExactGPRegressor()` up to `--exact-rows` rows.

RMSE, NLPD and CRPS (from 99 quantiles) are in units of the standardised target; coverage is that of
central 95 % intervals, wall seconds are of fit and prediction. The generated tables have 2500 rows,
those of deterministic functions 4000.
With `--rows` models are fitted to some random rows of each split. With `--members exact` the ratios
of RMSE and the differences of NLPD are those of the same splits.

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
from sklearn.base import RegressorMixin
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


def step_boxes(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A sum of axis-aligned boxes of one to three columns."""
    X, y = _uniform(rng, 6), np.zeros(2500)
    for _ in range(30):
        columns = rng.choice(6, rng.integers(1, 4), replace=False)
        low = rng.uniform(-1, 1, columns.size)
        inside = (X[:, columns] > low) & (X[:, columns] < low + rng.uniform(0.5, 2, columns.size))
        y += rng.normal() * inside.all(axis=1)
    return X, y + 0.1 * rng.normal(size=2500)


def additive(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Smooth effects of eight columns, without interactions."""
    X = _uniform(rng, 8)
    phases, speeds = rng.uniform(0, 6, 8), rng.uniform(2, 6, 8)
    return X, np.sin(speeds * X + phases).sum(axis=1) + 0.4 * rng.normal(size=2500)


def pairs(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Ten columns, of which four pairs interact."""
    X = _uniform(rng, 10)
    y = sum(np.sin(3 * X[:, i] * X[:, i + 1] + i) for i in (0, 2, 4, 6))
    return X, y + X[:, 8] + 0.1 * rng.normal(size=2500)


def demand(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Hours of a year: a day, a week, a season, weather."""
    hours = np.arange(2500) * 3.5
    cold = np.cos(2 * np.pi * hours / 8766) + 0.3 * rng.normal(size=2500)
    day, week = (hours / 24) % 1, (hours / 168) % 1
    use = np.sin(2 * np.pi * day) + 0.5 * np.sin(4 * np.pi * day) * (week < 5 / 7)
    y = 10 + 2 * use + 1.5 * np.maximum(cold, 0) + 0.2 * rng.normal(size=2500)
    return np.column_stack([hours, 24 * day, 7 * week, cold]), y


def rosenbrock(x: np.ndarray) -> np.ndarray:
    """On the cube from -5 to 10."""
    z = 15 * x - 5
    return (100 * (z[:, 1:] - z[:, :-1] ** 2) ** 2 + (1 - z[:, :-1]) ** 2).sum(axis=1)


def dixon(x: np.ndarray) -> np.ndarray:
    """Dixon and Price's function on the cube from -10 to 10."""
    z = 20 * x - 10
    rest = np.arange(2, x.shape[1] + 1) * (2 * z[:, 1:] ** 2 - z[:, :-1]) ** 2
    return (z[:, 0] - 1) ** 2 + rest.sum(axis=1)


def borehole(x: np.ndarray) -> np.ndarray:
    """Flow of water through a borehole (Harper and Gupta, 1983)."""
    low = np.array([0.05, 100, 63070, 990, 63.1, 700, 1120, 9855])
    high = np.array([0.15, 50000, 115600, 1110, 116, 820, 1680, 12045])
    rw, r, tu, hu, tl, hl, length, kw = (low + x * (high - low)).T
    ratio = np.log(r / rw)
    inner = 1 + 2 * length * tu / (ratio * rw**2 * kw) + tu / tl
    return 2 * np.pi * tu * (hu - hl) / (ratio * inner)


def ishigami(x: np.ndarray) -> np.ndarray:
    """On the cube from -pi to pi, a = 7 and b = .1."""
    a, b, c = (2 * np.pi * x - np.pi).T
    return np.sin(a) + 7 * np.sin(b) ** 2 + 0.1 * c**4 * np.sin(a)


def wing(x: np.ndarray) -> np.ndarray:
    """Weight of a wing (Forrester, Sobester and Keane, 2008)."""
    low = np.array([150, 220, 6, -10, 16, 0.5, 0.08, 2.5, 1700, 0.025])
    high = np.array([200, 300, 10, 10, 45, 1, 0.18, 6, 2500, 0.08])
    area, fuel, aspect, sweep, q, taper, thick, load, gross, paint = (low + x * (high - low)).T
    cosine = np.cos(np.deg2rad(sweep))
    return (
        0.036 * area**0.758 * fuel**0.0035 * (aspect / cosine**2) ** 0.6 * q**0.006
        * taper**0.04 * (100 * thick / cosine) ** -0.3 * (load * gross) ** 0.49 + area * paint
    )  # fmt: skip


def computed(function: Callable, dim: int) -> Callable:
    """A deterministic function of the unit cube, as simulations are."""

    def generate(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        x = rng.uniform(size=(4000, dim))
        return x, function(x)

    return generate


def friedman(make: Callable, noise: float) -> Callable:
    """One of Friedman's functions."""

    def generate(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        return make(2500, noise=noise, random_state=int(rng.integers(2**31)))

    return generate


GENERATED = {
    "friedman1": friedman(make_friedman1, 1.0), "friedman2": friedman(make_friedman2, 100.0),
    "friedman3": friedman(make_friedman3, 0.1), "linear": linear, "useless": useless,
    "outliers": outliers, "heteroscedastic": heteroscedastic, "categories": categories,
    "steps": steps, "smooth": smooth, "boxes": step_boxes, "additive": additive, "pairs": pairs,
    "demand": demand, "rosenbrock": computed(rosenbrock, 10), "dixon": computed(dixon, 20),
    "borehole": computed(borehole, 8), "ishigami": computed(ishigami, 3),
    "wing": computed(wing, 10),
}  # fmt: skip


def split(name: str, seed: int, test_rows: int, n_rows: int | None = None) -> Rows:
    """Standardised training inputs and targets, of at most `n_rows` rows, and those of the test."""
    rng = np.random.default_rng(seed)
    if name in GENERATED:
        X, y = GENERATED[name](np.random.default_rng([seed, 1]))
    else:
        data = uci.load(name)
        X, y = data.X, data.y
    order = rng.permutation(len(X))
    n_test = len(X) // 10
    if n_rows:
        n_test = max(n_test, len(X) - n_rows)
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


def ours(rows: Rows, seed: int, model: str | tuple[str, ...] = "auto") -> dict[str, float]:
    """The front door with its defaults, or with some members."""
    X, y, X_test, y_test = rows
    start = time.perf_counter()
    gp = cgp.GPRegressor(model, random_state=seed, progress=False).fit(X, y)
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


def boosted(rows: Rows, model: RegressorMixin) -> dict[str, float]:
    """A boosted model, whose law is Gaussian with the variance of cross-validated residuals."""
    X, y, X_test, y_test = rows
    start = time.perf_counter()
    spread = np.std(y - cross_val_predict(model, X, y, cv=5))
    model.fit(X, y)
    fitted = time.perf_counter()
    mean = model.predict(X_test)
    times = {"fit": fitted - start, "predict": time.perf_counter() - fitted}
    return gaussian(y_test, mean, spread) | times


def boosting(rows: Rows, seed: int, options: argparse.Namespace) -> dict[str, float]:
    """Gradient boosting of histograms."""
    return boosted(rows, HistGradientBoostingRegressor(random_state=seed))


def catboost(rows: Rows, seed: int, options: argparse.Namespace) -> dict[str, float]:
    """CatBoost with its defaults."""
    from catboost import CatBoostRegressor

    return boosted(rows, CatBoostRegressor(random_seed=seed, thread_count=1, verbose=False,
                                           allow_writing_files=False))  # fmt: skip


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
    rows = split(name, seed, options.test_rows, options.rows)
    results = {"ours": ours(rows, seed)}
    for members in options.members:
        results[members] = ours(rows, seed, tuple(members.split(",")))
    if options.alone:
        return results
    if find_spec("gpboost"):
        results["gpboost"] = gpboost_vecchia(rows, seed, options)
    seconds = min(results["ours"]["fit"], 120.0)
    if options.svgp:
        svgp = fit_svgp(*rows, n_inducing=128, budget=seconds, seed=seed)
        results["svgp"] = svgp | {"fit": svgp.pop("seconds")}
    if find_spec("catboost"):
        results["catboost"] = catboost(rows, seed, options)
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


def gains(results: dict[str, list[dict[str, dict[str, float]]]], members: str) -> None:
    """Print what the front door gains over some of its members, by the same splits."""
    runs = [run for own in results.values() for run in own]
    ratios = np.array([run["ours"]["rmse"] / run[members]["rmse"] for run in runs])
    losses = np.array([run["ours"]["nlpd"] - run[members]["nlpd"] for run in runs])
    seconds = [run["ours"]["fit"] / run[members]["fit"] for run in runs]
    print(
        f"ours beside {members}: RMSE {100 * (np.exp(np.log(ratios).mean()) - 1):+.1f} % "
        f"({100 * (ratios.min() - 1):+.1f} to {100 * (ratios.max() - 1):+.1f} %), NLPD "
        f"{losses.mean():+.4f} +- {losses.std(ddof=1) / np.sqrt(len(losses)):.4f} "
        f"({losses.min():+.3f} to {losses.max():+.3f}), wall {np.median(seconds):.2f} times"
    )


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tables", nargs="+", default=[*REAL, *GENERATED])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--rows", type=int, help="training rows")
    parser.add_argument("--members", nargs="*", default=[], help="such as exact,trees")
    parser.add_argument("--alone", action="store_true", help="only the front door")
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
    for members in options.members:
        gains(results, members)


if __name__ == "__main__":
    main()
