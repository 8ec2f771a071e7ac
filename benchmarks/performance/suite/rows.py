"""Evidence of features, and whole fits of tables."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch

import coupledgp as cgp
from benchmarks.performance.suite.comparison import Call, Comparison, Figures, Method
from coupledgp.features import FourierFeatures
from coupledgp.inference.weights.evidence import FeatureEvidence
from coupledgp.inference.weights.posterior import FeatureStream
from coupledgp.search.search import TableObjective
from coupledgp.search.starts import SearchSpace

N_FEATURES, N_TEST = 256, 2000


class Table(NamedTuple):
    """Standard normal columns and a rough function of some of them, with noise of a tenth."""

    X: np.ndarray
    y: np.ndarray
    X_test: np.ndarray
    y_test: np.ndarray


def table(n_rows: int, n_columns: int = 8) -> Table:
    """A table of a size; smaller ones are the first rows of larger ones in law, not in numbers."""
    rng = np.random.default_rng([n_rows, n_columns])
    X = rng.normal(size=(n_rows + N_TEST, n_columns))
    f = np.sin(2.0 * X[:, 0]) * X[:, 1] + np.cos(X[:, 2] + X[:, 3]) + 0.3 * X[:, 4]
    y = f + 0.1 * rng.normal(size=len(f))
    return Table(X[:n_rows], y[:n_rows], X[n_rows:], y[n_rows:])


def gaussian_figures(y: np.ndarray, mean: np.ndarray, deviation: np.ndarray | float) -> Figures:
    """RMSE, mean negative log density, and share of values in central 95 % intervals."""
    z = (y - mean) / deviation
    return {
        "RMSE": float(np.sqrt(np.mean((y - mean) ** 2))),
        "NLPD": float(np.mean(0.5 * z**2 + 0.5 * np.log(2 * np.pi) + np.log(deviation))),
        "coverage": float(np.mean(np.abs(z) < 1.959964)),
    }


# Evidence and gradient.


def our_evidence(task: Table) -> Call:
    """Evidence, profiled over the variances, and its gradient in the lengthscales."""
    d = task.X.shape[1]
    features = FourierFeatures(d, N_FEATURES // 2, "orthogonal+pnc", generator=0)
    stream = FeatureStream(features, task.X, task.X.mean(axis=0), np.ones(d))
    problem = FeatureEvidence(stream, task.y[:, None])
    space = SearchSpace(np.sqrt(d) * np.ones(d), ard=True)
    objective = TableObjective(problem, space, joint=False)

    def call() -> None:
        objective.value_and_gradient(np.zeros(d))

    return call


def gpytorch_evidence(task: Table) -> Call:
    """Gpytorch's `RFFKernel`, evidence and gradient, as in its documentation."""
    from benchmarks.performance.kin40k_against_gpytorch import make_peer

    _, _, evaluate = make_peer(task.X, task.y, torch.float64, N_FEATURES // 2)

    def call() -> None:
        evaluate()

    return call


EVIDENCE = Comparison(
    "evidence",
    f"One evaluation of the evidence and its gradient, {N_FEATURES} features, 8 lengthscales",
    "rows",
    (1000, 4000, 16_000, 64_000),
    (500, 1000),
    table,
    (
        Method("coupledgp", "ours", our_evidence),
        Method("gpytorch RFFKernel", "peer", gpytorch_evidence),
    ),
)

# Whole fits with predictions.


def our_fit(task: Table) -> Call:
    """The default of the package."""

    def call() -> Figures:
        gp = cgp.GPRegressor(random_state=0, progress=False).fit(task.X, task.y)
        mean, deviation = gp.predict(task.X_test, return_std=True)
        return gaussian_figures(task.y_test, mean, deviation)

    return call


def boosting(task: Table) -> Call:
    """Gradient boosting, its standard deviation from cross-validation."""
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.model_selection import cross_val_predict

    def call() -> Figures:
        model = HistGradientBoostingRegressor(random_state=0)
        deviation = float(np.std(task.y - cross_val_predict(model, task.X, task.y, cv=5)))
        mean = model.fit(task.X, task.y).predict(task.X_test)
        return gaussian_figures(task.y_test, mean, deviation)

    return call


def sklearn_gp(task: Table) -> Call:
    """scikit-learn's exact GP, a lengthscale for each column."""
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, WhiteKernel

    def call() -> Figures:
        kernel = 1.0 * RBF(np.full(task.X.shape[1], 3.0)) + WhiteKernel(0.1)
        model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)
        mean, deviation = model.fit(task.X, task.y).predict(task.X_test, return_std=True)
        return gaussian_figures(task.y_test, mean, deviation)

    return call


def nystroem(task: Table) -> Call:
    """Nystroem features and Bayesian ridge regression, by scikit-learn."""
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import BayesianRidge
    from sklearn.pipeline import make_pipeline

    def call() -> Figures:
        n_components = min(500, len(task.X))
        features = Nystroem(gamma=1 / 18, n_components=n_components, random_state=0)
        model = make_pipeline(features, BayesianRidge()).fit(task.X, task.y)
        return gaussian_figures(task.y_test, *model.predict(task.X_test, return_std=True))

    return call


TABLES = Comparison(
    "tables",
    "A fit by the default settings and predictions of 2000 rows, 8 columns, 3 of them useless",
    "rows",
    (250, 1000, 4000, 16_000, 64_000),
    (20,),
    table,
    (
        Method("coupledgp", "ours", our_fit),
        Method("gradient boosting", "peer", boosting),
        Method("scikit-learn GP", "peer", sklearn_gp, largest=1000),
        Method("Nystroem, Bayesian ridge", "peer", nystroem, largest=64_000),
    ),
)
