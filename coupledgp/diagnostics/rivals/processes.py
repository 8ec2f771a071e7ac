"""Flexible rivals of tables: boosted trees, a plain and an additive process, by folds of rows.

All are cheap: at most `MOST_ROWS` rows, of more a random part, and five fits. Rows that are left
out are predicted from those of the other folds, which keep groups together.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.spatial import cKDTree
from scipy.spatial.distance import cdist

from coupledgp.diagnostics.rivals.observed import Fitted, Observations, Predicted, positive
from coupledgp.errors import NumericalError
from coupledgp.linalg.matrices import solve_lower
from coupledgp.random import FloatArray, IntArray

# Folds of rows.
FOLDS = 5
# Boosted trees of a model.
TREES = 60
# Levels of a category at most, of more the columns of its code are numbers, and the distance of
# rows of one level by rounding.
MOST_LEVELS, SAME_LEVEL = 250, 1e-6
# Lengthscales of kernels, in standard deviations of the columns.
LENGTHSCALES = (0.4, 0.65, 1.0, 1.6, 2.5, 6.0)
# Noise variances over that of the signal.
NOISES = np.geomspace(1e-4, 1e2, 25)

# Means and standard deviations (p, k) at rows (p, d); deviations are None where there are none.
Predict = Callable[[FloatArray], tuple[FloatArray, FloatArray | None]]


@dataclass(frozen=True, eq=False)
class FlexibleRival(ABC):
    """A rival that is fitted to parts of the rows.

    Attributes
    ----------
    rows : FloatArray (n, d)
        Columns of mean zero and unit variance.
    observations : Observations
    categories : tuple of IntArray
        Numbers of the columns that are the code of each category.
    """

    name: ClassVar[str]
    # Fewest rows of a fit, and most: of more a random part.
    fewest: ClassVar[int]
    most: ClassVar[int]

    rows: FloatArray
    observations: Observations
    categories: tuple[IntArray, ...] = ()

    def made(self) -> Fitted | str:
        """The rival as a baseline, or why there is none."""
        if len(self.rows) < self.fewest:
            return f"expected {self.fewest} rows at least, got {len(self.rows)}"
        if not np.ptp(self.observations.y, axis=0).all():
            return "expected targets that vary"
        return Fitted(self.predict, self.left_out)

    @abstractmethod
    def fitted(self, chosen: IntArray) -> Predict:
        """Fit it to some of the rows."""

    def predict(self, queries: FloatArray) -> Predicted:
        """Predictions at rows (p, d), standardised: the mean of those of the folds' models."""
        folds = np.random.default_rng(3).permutation(len(self.rows)) % FOLDS
        models = [self.fitted(self._others(folds, fold)) for fold in range(FOLDS)]
        laws = [_Law.of(model(queries)) for model in models]
        mean = np.mean([one.mean for one in laws], axis=0)
        variances = [np.square(one.std) for one in laws if one.std is not None]
        if variances:
            std = np.sqrt(np.mean(variances, axis=0))
        else:
            std = np.tile(self._held_errors(folds, models), (len(queries), 1))
        return Predicted(mean, std)

    def left_out(self, groups: IntArray) -> Predicted:
        """Predictions of each observation from the folds without its group (n,)."""
        numbers = np.unique(groups, return_inverse=True)[1].reshape(-1)
        n_groups = int(numbers.max()) + 1
        folds = (np.random.default_rng(3).permutation(n_groups) % FOLDS)[numbers]
        mean = np.empty_like(self.observations.y)
        spread = np.empty_like(mean)
        has_law = True
        for fold in np.unique(folds).tolist():
            held = folds == fold
            if (~held).sum() < self.fewest // 2:
                raise NumericalError(f"{(~held).sum()} rows lie outside of a group")
            law = _Law.of(self.fitted(self._others(folds, fold))(self.rows[held]))
            mean[held] = law.mean
            has_law = has_law and law.std is not None
            if law.std is not None:
                spread[held] = law.std
        std = spread if has_law else self.observations.errors_of_others(mean, numbers)
        return Predicted(mean, std)

    def _others(self, folds: IntArray, fold: int) -> IntArray:
        """Numbers of rows outside of a fold, at most so many of them."""
        rows = np.flatnonzero(folds != fold)
        if rows.size > self.most:
            rows = np.sort(np.random.default_rng(fold).choice(rows, self.most, replace=False))
        return rows

    def _held_errors(self, folds: IntArray, models: list[Predict]) -> FloatArray:
        """Root mean squared error (k,) of the models at rows of their own folds."""
        predicted = np.empty_like(self.observations.y)
        for fold, model in enumerate(models):
            predicted[folds == fold] = model(self.rows[folds == fold])[0]
        return self.observations.error(np.arange(len(predicted)), predicted)


class _Law(NamedTuple):
    mean: FloatArray
    std: FloatArray | None

    @classmethod
    def of(cls, found: tuple[FloatArray, FloatArray | None]) -> _Law:
        return cls(*found)


class BoostedRival(FlexibleRival):
    """Sixty boosted trees of at most 15 leaves, with the error of the other folds.

    They are scikit-learn's `HistGradientBoostingRegressor` (Ke and others, 2017) on one thread.
    """

    name = "boosted trees"
    fewest, most = 60, 4000

    def fitted(self, chosen: IntArray) -> Predict:
        from sklearn.ensemble import HistGradientBoostingRegressor  # slow to import
        from threadpoolctl import threadpool_limits

        X, y = self._columns(self.rows[chosen]), self.observations.y[chosen]
        weights = self.observations.weights[chosen]
        models = []
        with threadpool_limits(1, user_api="openmp"):
            for targets in y.T:
                model = HistGradientBoostingRegressor(
                    max_iter=TREES, max_leaf_nodes=15, min_samples_leaf=min(20, len(X) // 8),
                    early_stopping=False, random_state=0,
                    categorical_features=range(X.shape[1] - len(self._levels), X.shape[1]),
                )  # fmt: skip
                models.append(model.fit(X, targets, sample_weight=weights))

        def predict(rows: FloatArray) -> tuple[FloatArray, FloatArray | None]:
            with threadpool_limits(1, user_api="openmp"):
                given = self._columns(rows)
                return np.column_stack([model.predict(given) for model in models]), None

        return predict

    @cached_property
    def _levels(self) -> list[tuple[IntArray, FloatArray]]:
        """Columns of each category of at most `MOST_LEVELS` levels, and the codes of these."""
        found = [(one, np.unique(self.rows[:, one], axis=0)) for one in self.categories]
        return [(one, levels) for one, levels in found if len(levels) <= MOST_LEVELS]

    def _columns(self, rows: FloatArray) -> FloatArray:
        """Rows (p, d) with the number of its level for each category; NaN for a level unseen."""
        if not self._levels:
            return rows
        coded = np.concatenate([one for one, _ in self._levels])
        numbers = []
        for columns, levels in self._levels:
            distance, number = cKDTree(levels).query(rows[:, columns])
            numbers.append(np.where(distance < SAME_LEVEL, number, np.nan))
        return np.column_stack([np.delete(rows, coded, axis=1), *numbers])


class KernelRival(FlexibleRival):
    """A process whose kernel has the greatest evidence on a grid.

    A kernel has one lengthscale in standard deviations of the columns and a structure: additive
    with a share of pairs, or of all columns together. The noise over the
    signal's variance is that of the greatest evidence, too.
    """

    structures: ClassVar[tuple[float | None, ...]]
    most = 400

    def made(self) -> Fitted | str:
        """See the base class."""
        if np.ptp(self.observations.weights) > 0:
            return "expected rows of equal weights"
        return super().made()

    @cached_property
    def _chosen(self) -> tuple[list[tuple[float, float | None, float]], FloatArray]:
        """Lengthscale, share of pairs and relative noise of each output, and signal variances."""
        rows = self._others(np.zeros(len(self.rows), dtype=np.int64), 1)
        X, y = self.rows[rows], self.observations.y[rows]
        y = y - y.mean(axis=0)
        best = np.full(y.shape[1], -np.inf)
        found: list[tuple[float, float | None, float]] = [(1.0, None, 1.0)] * y.shape[1]
        signal = np.ones(y.shape[1])
        for length in LENGTHSCALES:
            for share in self.structures:
                values, vectors = np.linalg.eigh(_kernel(X, X, length, share))
                squares = np.square(vectors.T @ y)
                spread = np.maximum(values, 0)[:, None] + NOISES
                variance = np.einsum("ik,in->kn", squares, 1 / spread) / len(y)
                logs = -0.5 * (len(y) * np.log(np.maximum(variance, 1e-300))
                               + np.log(spread).sum(axis=0))  # fmt: skip
                for k, place in enumerate(logs.argmax(axis=1).tolist()):
                    if logs[k, place] > best[k]:
                        best[k], signal[k] = logs[k, place], variance[k, place]
                        found[k] = (length, share, float(NOISES[place]))
        return found, signal

    def fitted(self, chosen: IntArray) -> Predict:
        X, y = self.rows[chosen], self.observations.y[chosen]
        center = y.mean(axis=0)
        settings, signal = self._chosen
        factors = []
        for length, share, noise in settings:
            matrix = _kernel(X, X, length, share) + noise * np.eye(len(X))
            factors.append(np.asarray(np.linalg.cholesky(matrix), dtype=np.float64))

        def predict(rows: FloatArray) -> tuple[FloatArray, FloatArray | None]:
            means, variances = [], []
            for k, (length, share, noise) in enumerate(settings):
                cross = solve_lower(factors[k], _kernel(X, rows, length, share))
                own = solve_lower(factors[k], y[:, k] - center[k])
                means.append(center[k] + cross.T @ own)
                left = np.maximum(1 - np.square(cross).sum(axis=0), 0)
                variances.append(signal[k] * (left + noise))
            least = np.square(positive(np.zeros(y.shape[1]), y))
            std = np.sqrt(np.maximum(np.column_stack(variances), least))
            return np.column_stack(means), std

        return predict


class PlainRival(KernelRival):
    """An exact process of the Matern-5/2 kernel of all columns together, of one lengthscale.

    To lose to it is to be a coarse approximation, or badly fitted.
    """

    name = "plain process"
    fewest = 30
    structures = (None,)


class AdditiveRival(KernelRival):
    """A process whose kernel is a sum over columns, with products of pairs or without.

        k(x, x') = s [(1 - a) e_1 / d + a e_2 / (d (d - 1) / 2)] + noise,

    e_1 and e_2 the elementary symmetric polynomials of the Matern-5/2 kernels of the d columns
    (Duvenaud, Nickisch and Rasmussen, 2011). One lengthscale in standard deviations of the
    columns, the share a and the noise over s are those of the greatest evidence on a grid.
    """

    name = "additive kernel"
    fewest = 30
    structures = (0.0, 0.5)

    def made(self) -> Fitted | str:
        """See the base class."""
        if self.rows.shape[1] < 2:
            return "expected two columns at least, got one"
        return super().made()


def _matern(distances: FloatArray, length: float) -> FloatArray:
    """Matern-5/2 kernel of distances."""
    r = distances * (np.sqrt(5) / length)
    found: FloatArray = (1 + r + np.square(r) / 3) * np.exp(-r)
    return found


def _kernel(X: FloatArray, Z: FloatArray, length: float, share: float | None) -> FloatArray:
    """Kernel (n, p) of variance one: additive with a share of pairs, or None for all together."""
    d = X.shape[1]
    if share is None:  # distances in d columns are longer by d^1/2
        return _matern(cdist(X, Z), length * np.sqrt(d))
    total, squares = np.zeros((len(X), len(Z))), np.zeros((len(X), len(Z)))
    for j in range(d):
        one = _matern(np.abs(X[:, j, None] - Z[None, :, j]), length)
        total += one
        if share:
            squares += np.square(one)
    if not share:
        return total / d
    pairs = 0.5 * (np.square(total) - squares)
    found: FloatArray = (1 - share) * total / d + share * pairs / (d * (d - 1) / 2)
    return found
