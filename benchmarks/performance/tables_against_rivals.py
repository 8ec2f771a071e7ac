"""The default of `GPRegressor` beside what a user would pick instead, on tables.

Each seed makes one random split for each number of training rows, of at most `--test-rows` other
rows for testing; columns and targets are standardised on the training rows. Every system runs in a
process of its own, forked from this one after all imports, on the same rows and one thread:

* ours: `GPRegressor()` with its defaults, and with `--members` the same with these members alone,
  each group of them a system by itself;
* gpboost: Vecchia approximation with 20 neighbours, Matern-3/2 with one lengthscale a column
  (exact below 1200 rows), a constant mean; left out where the package is not installed;
* svgp: gpytorch's, as in `svgp.py`, as long as ours took, at most `--svgp-seconds`;
* catboost: `CatBoostRegressor`, its law as that of boosting; left out where it is not installed;
* boosting: scikit-learn's `HistGradientBoostingRegressor`, its law Gaussian with the variance of
  residuals of five-fold cross-validation;
* nystroem: `Nystroem` features with `BayesianRidge`;
* exact: `ExactGPRegressor()` up to `--exact-rows` rows.

RMSE, NLPD and CRPS (from 99 quantiles) are in units of the standardised target; coverage is that of
central 95 % intervals. CPU seconds and the growth of memory (MB) are of fit and prediction in a new
process, code that is compiled or loaded at first use included. With `--members exact` the ratios of
RMSE and the differences of NLPD are those of the same splits. The goals that are counted at the
end: NLPD the best or within .02 of it, RMSE the best or within 3 %.

    COUPLEDGP_DATA=... python benchmarks/performance/tables_against_rivals.py [--rows 400]
"""

from __future__ import annotations

import argparse
import itertools
import json
import multiprocessing
import resource
import time
import warnings
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch
from generated_tables import GENERATED
from rich.console import Console
from rich.table import Table
from scipy import special
from sklearn.base import RegressorMixin
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.kernel_approximation import Nystroem
from sklearn.linear_model import BayesianRidge
from sklearn.model_selection import cross_val_predict
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from svgp import fit_svgp
from threadpoolctl import threadpool_limits

import coupledgp as cgp
from data_loaders import uci

REAL = (
    "kin40k", "protein", "power", "wine", "abalone", "airfoil", "concrete", "boston", "cpu",
    "diabetes",
)  # fmt: skip
LEVELS = np.arange(1, 100) / 100
Rows = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def split(name: str, seed: int, n_test: int, n_rows: int) -> Rows | None:
    """Standardised training inputs and targets, and those of the test; None for small tables."""
    rng = np.random.default_rng(seed)
    if name in GENERATED:
        X, y = GENERATED[name](np.random.default_rng([seed, 1]), n_rows + n_test)
    else:
        data = uci.load(name)
        X, y = data.X, data.y
    if len(X) < 1.1 * n_rows:
        return None
    order = rng.permutation(len(X))
    return standardised(X, y, order[:n_rows], order[n_rows : n_rows + n_test])


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


def svgp(rows: Rows, seed: int, options: argparse.Namespace) -> dict[str, float]:
    """SVGP with 128 inducing points, for as long as ours took."""
    found = fit_svgp(*rows, n_inducing=128, budget=options.budget, seed=seed)
    return found | {"fit": found.pop("seconds")}


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


def systems(rows: Rows, seed: int, options: argparse.Namespace) -> dict[str, Callable]:
    """What runs on a split; SVGP takes as long as ours did."""
    n_rows = len(rows[0])
    found: dict[str, Callable] = {"ours": partial(ours, rows, seed)}
    for members in options.members:
        found[members] = partial(ours, rows, seed, tuple(members.split(",")))
    if options.alone:
        return found
    peers = {
        "gpboost": gpboost_vecchia, "svgp": svgp, "catboost": catboost, "boosting": boosting,
        "nystroem": nystroem, "exact": exact,
    }  # fmt: skip
    limits = {"gpboost": options.gpboost_rows, "exact": options.exact_rows,
              "svgp": np.inf if options.svgp_seconds else 0}  # fmt: skip
    for name, peer in peers.items():
        missing = name in ("gpboost", "catboost") and not find_spec(name)
        if not missing and n_rows <= limits.get(name, np.inf):
            found[name] = partial(peer, rows, seed, options)
    return found


def measured(work: Callable, options: argparse.Namespace, channel: Any) -> None:
    """Send figures of a system with its CPU seconds and growth of memory, from this process."""
    before = resource.getrusage(resource.RUSAGE_SELF)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = work()
    after = resource.getrusage(resource.RUSAGE_SELF)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    channel.send(found | {"cpu": cpu, "memory": (after.ru_maxrss - before.ru_maxrss) / 1024})


def run(rows: Rows, seed: int, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Figures of all systems on one split; a system that fails has none, and is told."""
    forks, results = multiprocessing.get_context("fork"), {}
    for name, work in systems(rows, seed, options).items():
        if name == "svgp":
            options.budget = min(results["ours"]["fit"], options.svgp_seconds)
        ours_end, theirs = forks.Pipe(duplex=False)
        child = forks.Process(target=measured, args=(work, options, theirs))
        child.start()
        theirs.close()
        try:
            results[name] = ours_end.recv()
        except EOFError:
            print(f"{name} failed")
        child.join()
    return results


def show(results: dict[str, list[dict[str, dict[str, float]]]]) -> None:
    """A row for each table and system, means over splits."""
    table = Table(title="standardised targets, means over splits")
    names = ("rmse", "nlpd", "crps", "coverage", "fit", "predict", "cpu", "memory")
    for title in ("table", "system", *names):
        table.add_column(title, justify="right" if title in names else "left")
    for name, runs in results.items():
        for system in runs[0]:
            own = [one[system] for one in runs if system in one]
            values = [np.mean([one.get(key, np.nan) for one in own]) for key in names]
            cells = [f"{v:.4f}" for v in values[:3]] + [f"{values[3]:.3f}"]
            table.add_row(name, system, *cells, *(f"{v:.1f}" for v in values[4:]))
    Console(width=140).print(table)


def beside_the_best(results: dict[str, list[dict[str, dict[str, float]]]]) -> None:
    """Print a Markdown row for each table: the front door's figures and the best of its peers."""
    print("| table, rows | NLPD | best peer | RMSE | best peer | coverage | CRPS | CPU s | MB |")
    print("|---|---|---|---|---|---|---|---|---|")
    for key, runs in results.items():
        mean = {
            name: {figure: np.mean([one[name][figure] for one in runs if name in one])
                   for figure in ("nlpd", "rmse", "coverage", "crps", "cpu", "memory")
                   if figure in runs[0][name]}
            for name in runs[0]
        }  # fmt: skip
        own, peers = mean.pop("ours"), mean
        cells = []
        for figure in ("nlpd", "rmse"):
            best = min(peers, key=lambda name: peers[name][figure])
            cells += [f"{own[figure]:.3f}", f"{peers[best][figure]:.3f} {best}"]
        rest = [f"{own['coverage']:.3f}", f"{own['crps']:.3f}", f"{own['cpu']:.0f}",
                f"{own['memory']:.0f}"]  # fmt: skip
        print(" | ".join([f"| {key}", *cells, *rest]) + " |")


def goals(results: dict[str, list[dict[str, dict[str, float]]]]) -> None:
    """Print by numbers of rows on how many splits the front door is best or nearly so."""
    by_rows: dict[str, list[dict[str, dict[str, float]]]] = {}
    for key, runs in results.items():
        by_rows.setdefault(key.split(", ")[1], []).extend(runs)
        by_rows.setdefault("all", []).extend(runs)
    for rows, runs in by_rows.items():
        near = np.zeros((len(runs), 2), dtype=bool)
        for k, one in enumerate(runs):
            nlpd, rmse = ([own[key] for own in one.values()] for key in ("nlpd", "rmse"))
            near[k] = (one["ours"]["nlpd"] <= min(nlpd) + 0.02,
                       one["ours"]["rmse"] <= 1.03 * min(rmse))  # fmt: skip
        count = near.sum(axis=0)
        print(f"{rows}: NLPD best or within .02 on {count[0]} of {len(runs)}, "
              f"RMSE best or within 3 % on {count[1]}")  # fmt: skip


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
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--rows", type=int, nargs="+", default=[400], help="training rows")
    parser.add_argument("--members", nargs="*", default=[], help="such as exact,trees")
    parser.add_argument("--alone", action="store_true", help="only the front door")
    parser.add_argument("--test-rows", type=int, default=2000)
    parser.add_argument("--exact-rows", type=int, default=1000)
    parser.add_argument("--gpboost-rows", type=int, default=20000)
    parser.add_argument("--svgp-seconds", type=float, default=30.0, help="at most; 0: leave out")
    parser.add_argument("--json", type=Path, help="file of all figures, to which a run adds")
    options = parser.parse_args()
    torch.set_num_threads(1)
    results: dict[str, list[dict[str, dict[str, float]]]] = {}
    if options.json and options.json.exists():
        results = json.loads(options.json.read_text())
    with threadpool_limits(1):
        for n_rows, name in itertools.product(options.rows, options.tables):
            key = f"{name}, {n_rows} rows"
            if key in results:
                continue
            splits = [split(name, seed, options.test_rows, n_rows) for seed in range(options.seeds)]
            runs = [run(rows, k, options) for k, rows in enumerate(splits) if rows is not None]
            if not runs:
                continue
            results[key] = runs
            show({key: runs})
            if options.json:
                options.json.write_text(json.dumps(results, indent=1))
    show(results)
    if not options.alone:
        beside_the_best(results)
    goals(results)
    for members in options.members:
        gains(results, members)


if __name__ == "__main__":
    main()
