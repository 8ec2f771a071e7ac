"""What could be picked instead of a process under a likelihood, fitted to the same rows.

| points | classes | counts and others |
|---|---|---|
| rows of a table | shares, logistic regression, boosted trees | law of one rate, Poisson regression, boosted trees, rounded least squares |
| nodes, places | shares, nearest observation, harmonic function (label propagation) | those of normal observations, rounded for counts |
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri
from scipy.stats import nbinom, poisson

from coupledgp.core.process import Data
from coupledgp.diagnostics.laws import Chances, Distribution, Normal
from coupledgp.diagnostics.predictions import Law
from coupledgp.diagnostics.sources.own import some_rows
from coupledgp.random import FloatArray, IntArray

# Rows that rivals of tables are fitted to at most, and iterations of their regressions.
MOST_ROWS, ITERATIONS = 20_000, 1000
# Least mean of a count law, and least chance of one count under a rounded normal law.
LEAST_MEAN, LEAST_CHANCE = 1e-6, 1e-12
# Rivals of nodes and places whose predicted indicators are chances.
OF_LABELS = {
    "nearest": "the label of the nearest observation",
    "harmonic": "label propagation (the harmonic function of the labels)",
}


@dataclass(frozen=True, eq=False)
class Rounded:
    """Normal laws (p, 1) rounded to whole numbers from zero on."""

    mean: FloatArray
    std: FloatArray

    has_density: ClassVar[bool] = True
    has_moments: ClassVar[bool] = True

    def _below(self, y: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Chances below and up to counts (p, k)."""
        above = ndtr((y + 0.5 - self.mean) / self.std)
        return np.where(y <= 0, 0.0, ndtr((y - 0.5 - self.mean) / self.std)), above

    def log_density(self, y: FloatArray) -> FloatArray:
        below, above = self._below(y)
        return np.log(np.maximum(above - below, LEAST_CHANCE)).sum(axis=1)

    def cdf(self, y: FloatArray) -> FloatArray:
        below, above = self._below(y)
        return below + np.random.default_rng(0).uniform(size=y.shape) * (above - below)

    def ppf(self, chances: FloatArray) -> FloatArray:
        found = self.mean[..., None] + self.std[..., None] * ndtri(chances)
        return np.maximum(np.round(found), 0.0)

    def crps(self, y: FloatArray) -> FloatArray:
        return Normal(self.mean, self.std).crps(y)

    def take(self, rows: IntArray) -> Rounded:
        return Rounded(self.mean[rows], self.std[rows])


def of_labels(
    name: str, mean: FloatArray, std: FloatArray | None, n: int, classes: NDArray[Any]
) -> Chances:
    """Chances from predicted indicators: not surer than their error among n observations allows.

    Predictions of zero and one alone are as sure as their share of errors; others have one more
    observation of each kind.
    """
    least = np.full(mean.shape[1], 1 / (n + 2))
    if name == "nearest" and std is not None:
        least = np.clip(np.square(np.broadcast_to(std, mean.shape)), 1 / (n + 2), 0.5)
    found = np.clip(mean, least, 1 - least)
    if found.shape[1] == 1:
        found = np.hstack([1 - found, found])
    return Chances(found / found.sum(axis=1, keepdims=True), classes)


def shares(
    codes: IntArray, n_points: int, classes: NDArray[Any], counts: FloatArray | None = None
) -> Chances:
    """The shares of the classes, one more of each counted."""
    found = np.bincount(codes, weights=counts, minlength=len(classes)) + 1.0
    return Chances(np.tile(found / found.sum(), (n_points, 1)), classes)


def table_rivals(
    X: FloatArray, codes: IntArray, X_test: FloatArray, classes: NDArray[Any],
    counts: FloatArray | None = None,
) -> dict[str, Law]:  # fmt: skip
    """Shares, logistic regression and boosted trees of rows (n, d), at rows (p, d)."""
    rows = some_rows(len(X), MOST_ROWS, 0)
    X, codes = X[rows], codes[rows]
    counts = None if counts is None else counts[rows]
    found: dict[str, Law] = {"shares": shares(codes, len(X_test), classes, counts)}
    if np.bincount(codes).max() == len(codes) or not X.shape[1]:
        return found
    center, scale = X.mean(axis=0), np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    for name, model in _classifiers():
        is_line = name == "logistic regression"
        own, at = ((X - center) / scale, (X_test - center) / scale) if is_line else (X, X_test)
        model.fit(own, codes, sample_weight=counts)
        chances = np.full((len(X_test), len(classes)), 0.0)
        chances[:, model.classes_] = model.predict_proba(at)
        # One observation more of each class that a model may never have seen.
        chances = (chances + 1 / (len(X) * len(classes))) / (1 + 1 / len(X))
        found[name] = Chances(chances, classes)
    return found


def left_out_table_rivals(
    X: FloatArray, codes: IntArray, classes: NDArray[Any], parts: IntArray
) -> dict[str, Law]:
    """The same of every one of parts (n,) of rows (n, d), fitted to the others."""
    found: dict[str, FloatArray] = {}
    for part in np.unique(parts):
        own, others = np.flatnonzero(parts == part), np.flatnonzero(parts != part)
        for name, law in table_rivals(X[others], codes[others], X[own], classes).items():
            chances = found.setdefault(name, np.full((len(X), len(classes)), np.nan))
            chances[own] = law.mean
    # Where the other parts have one class alone, there are its shares and nothing else.
    return {
        name: Chances(chances, classes)
        for name, chances in found.items()
        if not np.isnan(chances).any()
    }


def _classifiers() -> Iterator[tuple[str, Any]]:
    """Models of scikit-learn on one thread, so that no sum hangs on how threads share rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    yield "logistic regression", LogisticRegression(max_iter=ITERATIONS)
    with threadpool_limits(1, user_api="openmp"):
        yield "boosted trees", HistGradientBoostingClassifier(random_state=0, early_stopping=True)


def count_rivals(
    data: Data, points: FloatArray | None, n_points: int, exposure: FloatArray | None
) -> dict[str, Law]:
    """A law of one rate and dispersion, and of rows (p, d) Poisson regression and boosted trees."""
    own, weights = data.targets[:, 0], data.weights
    at = np.ones(n_points) if exposure is None else exposure
    seen = np.ones(len(own)) if weights is None or weights.exposure is None else weights.exposure
    counts = np.ones(len(own)) if data.counts is None else data.counts
    rate = max(float((counts * own).sum() / (counts * seen).sum()), LEAST_MEAN)
    square = float(np.average(np.square(own - rate * seen) - rate * seen, weights=counts))
    spread = max(square / float(np.average(np.square(rate * seen), weights=counts)), 0.0)
    found: dict[str, Law] = {"a law of one rate": _count_law(rate * at, spread)}
    if points is None or own.max() <= 0:
        return found
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import PoissonRegressor
    from threadpoolctl import threadpool_limits

    rows = some_rows(len(own), MOST_ROWS, 0)
    X, rates, w = data.points[rows], (own / seen)[rows], (seen * counts)[rows]
    center, scale = X.mean(axis=0), np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    regression = PoissonRegressor(alpha=1 / len(rows), max_iter=ITERATIONS)
    regression.fit((X - center) / scale, rates, sample_weight=w)
    boosted = HistGradientBoostingRegressor(loss="poisson", random_state=0, early_stopping=True)
    with threadpool_limits(1, user_api="openmp"):
        boosted.fit(X, rates, sample_weight=w)
        predicted = boosted.predict(points)
    line = regression.predict((points - center) / scale)
    for name, one in (("Poisson regression", line), ("boosted trees, Poisson", predicted)):
        found[name] = _count_law(np.maximum(one, LEAST_MEAN) * at, 0.0)
    return found


def _count_law(mean: FloatArray, dispersion: float) -> Law:
    """Counts of means (p,) and variances `mean + dispersion mean^2`."""
    if dispersion < 1e-9:
        frozen = poisson(mean)
    else:
        frozen = nbinom(1 / dispersion, 1 / (1 + dispersion * mean))
    return Distribution(frozen, np.arange(len(mean)), len(mean))
