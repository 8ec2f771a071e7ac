"""Categories, codes of many levels and missing values: what the encoding of tables is worth.

Three parts, each a table of test RMSE and NLPD in standard units of y, means over seeds:

* `categories`: a category as points at equal distances with one lengthscale (what the regressors
  do), beside its ordinal codes (alphabetical numbers), and indicator columns with a lengthscale
  each, by the exact GP; and scikit-learn's HistGradientBoosting, which is told of the categories.
  Tables: simulated, and abalone, chess endgames and car ratings, whose files `--data` names.
* `levels`: points of many levels in a dimension for each, and in few dimensions.
* `missing`: the mean with an indicator in the number's part, in a part of its own, and no indicator.

    python benchmarks/reproduction/table_columns.py categories --data $COUPLEDGP_DATA
    python benchmarks/reproduction/table_columns.py levels
    python benchmarks/reproduction/table_columns.py missing
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor

import coupledgp as cgp
from coupledgp.columns.codes import category_points, polynomial_points
from coupledgp.gp.columns import spread_lengthscale
from coupledgp.gp.exact import StationaryPrior
from coupledgp.gp.protocol import Data
from coupledgp.gp.units import Units
from coupledgp.inference.dense.evidence import ExactEvidence
from coupledgp.random import FloatArray, IntArray
from coupledgp.search.optimize import maximise_evidence
from coupledgp.search.starts import SearchSpace
from coupledgp.spectra import parse_spectrum

TRAIN, TEST = 400, 1000
Table = tuple[pd.DataFrame, FloatArray]
# Outcomes of chess endgames and ratings of cars, in their order.
DEPTHS = "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
DEPTHS += "fifteen sixteen"
RATINGS = "unacc acc good vgood"


def additive(rng: np.random.Generator) -> Table:
    """Additive effects of 30 levels."""
    group, x = rng.integers(0, 30, TRAIN + TEST), rng.uniform(-2, 2, TRAIN + TEST)
    y = np.sin(3 * x) + rng.normal(size=30)[group] + 0.1 * rng.normal(size=len(x))
    return pd.DataFrame({"x": x, "group": [f"g{g}" for g in group]}), y


def interacting(rng: np.random.Generator) -> Table:
    """Two categories, of 8 and 5 levels, that shift and scale a curve."""
    a, b = (rng.integers(0, k, TRAIN + TEST) for k in (8, 5))
    x = rng.uniform(-2, 2, TRAIN + TEST)
    scale, shift = rng.normal(size=8)[a], rng.normal(size=5)[b]
    y = np.sin(3 * x + shift) * (1 + 0.5 * scale) + shift + 0.1 * rng.normal(size=len(x))
    names = {"a": [f"a{k}" for k in a], "b": [f"b{k}" for k in b]}
    return pd.DataFrame({"x": x} | names), y


def read(path: Path, names: list[str], outcomes: str | None) -> Callable[..., Table]:
    """A table of a file whose last column is y, or a word of `outcomes`, which are ordered."""

    def table(rng: np.random.Generator) -> Table:
        frame = pd.read_csv(path, header=None, names=[*names, "y"])
        if outcomes is not None:
            frame = frame[frame["y"].isin(outcomes.split())]
            frame["y"] = frame["y"].map({word: k for k, word in enumerate(outcomes.split())})
        frame = frame.iloc[rng.permutation(len(frame))[: TRAIN + TEST]].reset_index(drop=True)
        return frame[names], frame["y"].to_numpy(dtype=np.float64)

    return table


def tables(folder: Path) -> Iterator[tuple[str, Callable[..., Table]]]:
    """Names and makers of all tables."""
    yield "30 additive levels", additive
    yield "2 interacting", interacting
    folder = folder / "classification"
    yield "abalone", read(folder / "abalone.data", ["sex", *"abcdefg"], None)
    yield "chess", read(folder / "chess.data", list("abcdef"), DEPTHS)
    yield "car", read(folder / "car.data", list("abcdef"), RATINGS)


def ways(X: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The same table with its text as categories, as ordinal codes and as indicator columns."""
    yield "category", X
    text = [name for name in X if not pd.api.types.is_numeric_dtype(X[name])]
    ordinal = {name: pd.Categorical(X[name]).codes.astype(float) for name in text}
    yield "ordinal codes", X.assign(**ordinal)
    yield "indicators", pd.get_dummies(X, columns=text, dtype=float)


def categories(folder: Path, n_seeds: int) -> None:
    """Print the comparison of categories."""
    for name, make in tables(folder):
        found: dict[str, list[tuple[float, float]]] = {}
        for seed in range(n_seeds):
            X, y = make(np.random.default_rng(seed))
            y = (y - y[:TRAIN].mean()) / y[:TRAIN].std()
            for way, Z in ways(X):
                gp = cgp.ExactGPRegressor(random_state=0).fit(Z[:TRAIN], y[:TRAIN])
                error = np.sqrt(np.mean((gp.predict(Z[TRAIN:]) - y[TRAIN:]) ** 2))
                nlpd = -gp.log_density(Z[TRAIN:], y[TRAIN:]).mean()
                found.setdefault(way, []).append((error, nlpd))
            told = X.apply(lambda c: c if c.dtype.kind in "if" else c.astype("category"))
            boosting = HistGradientBoostingRegressor(
                categorical_features="from_dtype", random_state=0
            ).fit(told[:TRAIN], y[:TRAIN])
            error = np.sqrt(np.mean((boosting.predict(told[TRAIN:]) - y[TRAIN:]) ** 2))
            found.setdefault("boosting", []).append((error, np.nan))
        show(name, found)


def dense(X: FloatArray, y: FloatArray, groups: IntArray) -> tuple[float, float]:
    """RMSE and NLPD of the exact GP with the Gaussian kernel and one lengthscale for each group."""
    data, spectrum = Data.of(X[:TRAIN], y[:TRAIN, None]), parse_spectrum("gaussian")
    units = Units.of(data.targets, True)
    problem = ExactEvidence(spectrum, data.points, units.normalized(data.targets))
    space = SearchSpace(spread_lengthscale(data.points, True, groups), True, groups=groups)
    best = maximise_evidence(problem, space, max_iterations=40, rng=np.random.default_rng(0))
    gp = StationaryPrior(spectrum, best.hyperparameters).given(data, units, True)
    mean = gp.law(X[TRAIN:], "mean").mean[:, 0]
    error = float(np.sqrt(np.mean((mean - y[TRAIN:]) ** 2)))
    return error, float(-gp.log_density(X[TRAIN:], y[TRAIN:, None]).mean())


def levels(n_seeds: int, n_levels: int = 150) -> None:
    """Print the comparison of points of many levels."""
    points = {
        "a dimension each": category_points(n_levels, exact=True),
        "62 dimensions": polynomial_points(n_levels, 31),
        "26 dimensions": polynomial_points(n_levels, 13),
    }
    for effects in ("additive", "phases"):
        found: dict[str, list[tuple[float, float]]] = {}
        for seed in range(n_seeds):
            rng = np.random.default_rng(seed)
            effect, n = rng.normal(size=n_levels), TRAIN + TEST
            group, x = rng.integers(0, n_levels, n), rng.uniform(-3, 3, n)
            curve = np.sin(2 * x) + effect[group]
            if effects == "phases":
                curve = np.sin(2 * x + effect[group])
            y = curve + 0.1 * rng.normal(size=n)
            y = (y - y[:TRAIN].mean()) / y[:TRAIN].std()
            for way, code in points.items():
                groups = np.append(0, np.ones(code.shape[1], dtype=np.int64))
                result = dense(np.column_stack([x, code[group]]), y, groups)
                found.setdefault(way, []).append(result)
        show(f"{n_levels} levels, {effects}", found)


def missing(n_seeds: int) -> None:
    """Print the comparison of missing values."""
    for kind in ("at random", "beside a correlated column", "informative", "large values"):
        found: dict[str, list[tuple[float, float]]] = {}
        for seed in range(n_seeds):
            x, y, gone = with_gaps(kind, np.random.default_rng(seed))
            y = (y - y[:TRAIN].mean()) / y[:TRAIN].std()
            known = x[:TRAIN, 0][~gone[:TRAIN]]
            filled = np.where(gone, known.mean(), x[:, 0])
            for way, columns, groups in (
                ("mean", [filled], [0, 1, 2]),
                ("same lengthscale", [filled, known.std() * gone], [0, 0, 1, 2]),
                ("lengthscale of its own", [filled, 1.0 * gone], [0, 1, 2, 3]),
            ):
                X = np.column_stack([*columns, x[:, 1:]])
                found.setdefault(way, []).append(dense(X, y, np.array(groups)))
        show(f"missing {kind}", found)


def with_gaps(kind: str, rng: np.random.Generator) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Inputs (n, 3), targets (n,) and which of the first column are missing (n,)."""
    x = rng.normal(size=(TRAIN + TEST, 3))
    if kind == "beside a correlated column":
        x[:, 1] = 0.8 * x[:, 0] + 0.6 * x[:, 1]
    gone = x[:, 0] > 0.8 if kind == "large values" else rng.random(len(x)) < 0.2
    f = np.sin(2 * x[:, 0]) + x[:, 1] + 0.5 * x[:, 2] ** 2
    f += 1.5 * gone if kind == "informative" else 0.0
    return x, f + 0.2 * rng.normal(size=len(x)), gone


def show(title: str, found: dict[str, list[tuple[float, float]]]) -> None:
    """Print RMSE and NLPD, means over seeds, of each way."""
    print(title)
    for way, results in found.items():
        error, nlpd = np.mean(results, axis=0)
        print(f"  {way:24s} RMSE {error:.3f}   NLPD {nlpd:.3f}", flush=True)


def main() -> None:
    """Run the part that the arguments name."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("part", choices=["categories", "levels", "missing"])
    parser.add_argument("--data", type=Path, help="folder of the data sets")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    if options.part == "categories":
        categories(options.data, options.seeds)
    elif options.part == "levels":
        levels(options.seeds)
    else:
        missing(options.seeds)


if __name__ == "__main__":
    main()
