"""Several outputs of which rows miss some: one model of all beside models of each.

    python -m benchmarks.correlated_outputs

`abalone`: three weights of a shellfish from its sex and sizes; `wine`: acidity, density and pH from
the other measurements; `drawn`: three outputs of two functions. In `scattered`, 40 % of all entries
are missing; in `scarce`, the first output is measured in a tenth of the rows only. Scores are means
over outputs and seeds, errors and densities in standard deviations of each output.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Sequence

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

import coupledgp as cgp
from benchmarks.usual_days import scores
from coupledgp.datasets.files import data_folder
from coupledgp.random import FloatArray

# Columns that are outputs; the others, but for the last one, are inputs.
OUTPUTS = {"abalone": [5, 6, 7], "wine": [0, 7, 8]}
SCATTERED, SCARCE = 0.4, 0.1


def table(name: str) -> tuple[FloatArray, FloatArray]:
    """Inputs and outputs of a table, standardised."""
    if name == "drawn":
        rng = np.random.default_rng(11)
        X = rng.uniform(-2.0, 2.0, (4000, 3))
        a = np.sin(2.0 * X[:, 0]) + 0.5 * X[:, 1]
        b = np.cos(1.5 * X[:, 1]) * X[:, 2]
        Y = np.stack([a, -a + 0.4 * b, b + 0.2 * a], axis=1)
        Y = Y + 0.25 * Y.std(axis=0) * rng.normal(size=Y.shape)
    else:
        folder = data_folder(None, "uci")
        if folder is None:
            raise SystemExit("set COUPLEDGP_DATA to the folder that holds the folder `uci`")
        values = np.loadtxt(folder / f"{name}.csv", delimiter=",", skiprows=1)[:, :-1]
        X, Y = np.delete(values, OUTPUTS[name], axis=1), values[:, OUTPUTS[name]]
        if name == "abalone":  # the whole weight is the sum of the others, nearly
            X = np.delete(X, 4, axis=1)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    return X, (Y - Y.mean(axis=0)) / Y.std(axis=0)


def hidden(Y: FloatArray, pattern: str, rng: np.random.Generator) -> FloatArray:
    """Targets with entries missing."""
    mask = rng.random(Y.shape) < SCATTERED
    if pattern == "scarce":
        mask = np.zeros(Y.shape, dtype=bool)
        mask[:, 0] = rng.random(len(Y)) > SCARCE
    return np.where(mask, np.nan, Y)


def of_scikit_learn(X: FloatArray, Y: FloatArray, at: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Exact independent processes of scikit-learn with a lengthscale for each column."""
    means, stds = [], []
    for column in Y.T:
        there = ~np.isnan(column)
        kernel = ConstantKernel(1.0) * RBF(np.full(X.shape[1], 2.0)) + WhiteKernel(0.1)
        model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)
        model.fit(X[there], column[there])
        mean, std = model.predict(at, return_std=True)
        means.append(mean)
        stds.append(std)
    return np.stack(means, axis=1), np.stack(stds, axis=1)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="+", default=["abalone", "wine", "drawn"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--rows", type=int, default=400)
    parser.add_argument("--frequencies", type=int, default=64)
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    print("| data | missing | model | RMSE | NLPD | in 95 % | RMSE of the scarce one | CPU s |\n"
          + "|---" * 8 + "|")  # fmt: skip
    for name in options.data:
        X, Y = table(name)
        for pattern in ("scattered", "scarce"):
            kept: dict[str, list[list[float]]] = {}
            for seed in range(options.seeds):
                rng = np.random.default_rng([47, seed])
                order = rng.permutation(len(X))
                rows, new = order[: options.rows], order[options.rows : options.rows + 1000]
                seen = hidden(Y[rows], pattern, rng)
                laws = {}
                start = time.process_time()
                base = cgp.SparseSpectrumGPRegressor(
                    n_frequencies=options.frequencies, random_state=seed
                )
                model = cgp.CorrelatedOutputsGPRegressor(base).fit(X[rows], seen)
                laws["correlated outputs"] = (*model.predict(X[new], True), time.process_time())
                apart = [one.predict(X[new], return_std=True) for one in model.models_]
                laws["models apart"] = (
                    np.stack([mean for mean, _ in apart], axis=1),
                    np.stack([std for _, std in apart], axis=1), np.nan,
                )  # fmt: skip
                given = Y[new].copy()
                given[:, 0] = np.nan
                mean, std = model.predict(X[new], True, given=given)
                laws["correlated, others known there"] = (mean[:, :1], std[:, :1], np.nan)
                between = time.process_time()
                mean, std = of_scikit_learn(X[rows], seen, X[new])
                after = time.process_time()
                laws["scikit-learn, exact, apart"] = (mean, std, after)
                for label, (mean, std, end) in laws.items():
                    error = mean - Y[new][:, : mean.shape[1]]
                    found = scores(error.ravel(), std.ravel())
                    begin = between if label.startswith("scikit") else start
                    first = float(np.sqrt(np.mean(error[:, 0] ** 2)))
                    kept.setdefault(label, []).append(
                        [found[0], found[3], found[4], first, end - begin]
                    )
            for label, found_rows in kept.items():
                values = np.mean(found_rows, axis=0)
                print(f"| {name} | {pattern} | {label} | "
                      + " | ".join(f"{v:.3f}" for v in values[:-1])
                      + f" | {values[-1]:.1f} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
