"""Nadaraya-Watson kernel regression in time linear in the rows, by random features.

`f(x) = sum_i k(x, x_i) y_i / sum_i k(x, x_i)`. With `k(x, y)` estimated by `q(x) . s(y)`, both sums
are `q(x)` times a sum over the training rows, which is formed once: O(n M C) to fit and O(p M C)
to predict, M features and C outputs or classes; no kernel matrix. "Simplex random features",
section 5.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from coupledgp.couplings import CouplingLike
from coupledgp.errors import InvalidInputError
from coupledgp.features import FeatureMap, SoftmaxFeatures
from coupledgp.features.directions import check_directions
from coupledgp.features.hybrid.registry import make_kernel_features
from coupledgp.features.sklearn import Columns, FittedToTable, TableColumns, seed_from_random_state
from coupledgp.gp.columns import column_means, column_spread
from coupledgp.ground.memory import named_exhaustion
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.ground.validation import (
    check_lengthscale,
    check_magnitude,
    check_positive_int,
    check_spread,
)
from coupledgp.models.options import estimator
from coupledgp.random import FloatArray
from coupledgp.spectra import SpectrumLike, parse_spectrum

# Rows whose features (b, M) are held at once.
CHUNK_ROWS = 4096
Features: TypeAlias = FeatureMap | SoftmaxFeatures
FeaturesLike: TypeAlias = str | Callable[..., Features]


@dataclass(frozen=True, eq=False)
class FittedAverages:
    """Sums over the rows of a table for targets.

    Attributes
    ----------
    columns : Columns
    sums : FeatureSums
    ndim : int
        Number of dimensions of y.
    mean, low, high : FloatArray
        Mean and range of the targets, each (k,).
    """

    columns: Columns
    sums: FeatureSums
    ndim: int
    mean: FloatArray
    low: FloatArray
    high: FloatArray


@dataclass(frozen=True, eq=False)
class FittedShares:
    """Sums over the rows of a table for classes.

    Attributes
    ----------
    columns : Columns
    sums : FeatureSums
    classes, shares : NDArray
        Labels of the classes and their shares of the rows, each (n_classes,).
    """

    columns: Columns
    sums: FeatureSums
    classes: NDArray[Any]
    shares: FloatArray


Found = TypeVar("Found", FittedAverages, FittedShares)


@estimator
class _KernelRegression(FittedToTable[Found], BaseEstimator):
    """Base of the classifier and the regressor: a fit assigns one frozen record last.

    Parameters
    ----------
    lengthscale
        One positive number, or one for each column. None: Scott's rule, the standard deviation of
        each column times `n^(-1 / (d + 4))`.
    features
        `"laplace"` (positive), `"importance-laplace"` (positive, drawn where the training rows need
        them), `"fourier"`, `"angular-hybrid"`, `"gaussian-hybrid"` or another
        registered name; a subclass of `FeatureMap` or `SoftmaxFeatures`; or a function
        `(dim, n_frequencies, coupling, generator=...)` that makes one, of the Gaussian kernel.
    n_frequencies
        Number of frequencies m.
    coupling
        Joint law of the frequencies.
    kernel
        Stationary kernel, as in `parse_spectrum`; the Gaussian one only for all but Fourier
        features.
    random_state
        Seed, `RandomState` or None.

    Attributes
    ----------
    features_, lengthscale_
        The features, of unit lengthscale, and the lengthscales (d,).
    n_features_in_, feature_names_in_
        Number and names of the columns of X, as in scikit-learn.
    """

    lengthscale: ArrayLike | None = None
    features: FeaturesLike = "laplace"
    n_frequencies: int = 256
    coupling: CouplingLike = "orthogonal+pnc"
    kernel: SpectrumLike = "gaussian"
    random_state: Any = None

    def _summed(self, inputs: FloatArray, targets: FloatArray) -> FeatureSums:
        """Sum features times targets (n, C), and features alone, over the rows (n, d)."""
        check_magnitude(inputs, "X")
        check_spread(inputs, "X", "column")
        dim = inputs.shape[1]
        scale = scott_lengthscale(inputs) if self.lengthscale is None else self.lengthscale
        lengthscale, center = check_lengthscale(scale, dim), column_means(inputs)
        features = self._make_features((inputs - center) / lengthscale)
        return FeatureSums.over(ScaledFeatures(features, lengthscale, center), inputs, targets)

    def _make_features(self, rows: FloatArray) -> Features:
        m = check_positive_int(self.n_frequencies, "n_frequencies")
        spectrum = parse_spectrum(self.kernel, "kernel")
        seed = seed_from_random_state(self.random_state)
        made = make_kernel_features(
            self.features, rows.shape[1], m, self.coupling, spectrum, seed, rows
        )
        check_directions(made)
        return made

    def _weighted_sums(self, X: ArrayLike) -> FloatArray:
        """Estimates of `sum_i k(x, x_i) (y_i, 1)` for each row, (p, C + 1), up to its scale."""
        sums = self.fitted_.sums
        rows = validate_data(self, X, dtype=np.float64, reset=False)
        check_magnitude(rows, "X")
        return sums.at(rows)

    @property
    def features_(self) -> Features:
        """The features, of unit lengthscale."""
        return self.fitted_.sums.scaled.features

    @property
    def lengthscale_(self) -> FloatArray:
        """Lengthscales (d,) of the columns."""
        return self.fitted_.sums.scaled.lengthscale


@estimator
class KernelRegressionRegressor(
    MultiOutputMixin, RegressorMixin, _KernelRegression[FittedAverages]
):
    """Nadaraya-Watson regression with random features, linear in the number of rows.

    Exact kernel regression averages the targets with positive weights. Positive features
    ("laplace") keep that: their denominators are positive. Estimates by Fourier or hybrid features
    can be negative: a prediction is clipped to the range of the training targets, which no
    average leaves, and where the denominator is not positive, the estimate carries no information
    and the mean of the training targets stands.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> model = cgp.KernelRegressionRegressor(lengthscale=0.5, random_state=0).fit(X, X[:, 0] ** 2)
    >>> bool(abs(model.predict([[0.5]])[0] - 0.25) < 0.1)
    True
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> KernelRegressionRegressor:
        """Sum the features over the rows of X (n, d), with targets y (n,) or (n, k)."""
        carrier = TableColumns()
        inputs, targets = validate_data(
            carrier, X, y, estimator=self, dtype=np.float64, multi_output=True, y_numeric=True
        )
        targets = np.asarray(targets, dtype=np.float64)
        ndim = targets.ndim
        targets = targets.reshape(len(targets), -1)
        check_magnitude(targets, "y")
        # Relative to the mean, so that errors of the kernel are multiplied by deviations of y only.
        mean, low, high = targets.mean(axis=0), targets.min(axis=0), targets.max(axis=0)
        with named_exhaustion("fit"):
            sums = self._summed(inputs, targets - mean)
        self._fitted = FittedAverages(carrier.columns(), sums, ndim, mean, low, high)
        return self

    def predict(self, X: ArrayLike) -> FloatArray:
        """Predictions (p,) or (p, k) at the rows of X (p, d)."""
        found = self.fitted_
        with named_exhaustion("predict"):
            sums = self._weighted_sums(X)
        numerator, denominator = sums[:, :-1], sums[:, -1:]
        usable = denominator > 0
        quotient = np.divide(numerator, denominator, where=usable, out=np.zeros_like(numerator))
        mean = np.clip(found.mean + quotient, found.low, found.high)
        return mean[:, 0] if found.ndim == 1 else mean

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # scikit-learn asks for R^2 > 0.5 on 10 columns of which one counts: a local average with
        # one lengthscale for all reaches that by memorising only.
        tags.regressor_tags.poor_score = True
        return tags


@estimator
class KernelRegressionClassifier(ClassifierMixin, _KernelRegression[FittedShares]):
    """Classification by kernel regression of the classes' indicators, linear in the rows.

    The probability of a class is the share of its rows in the sum of kernel values. Positive
    features ("laplace") keep it a probability. Fourier and hybrid features can give a class a
    negative sum, which is taken as zero; where no class is left, the shares of the classes in the
    training set stand. The predicted class is that of the largest sum either way.

    Attributes
    ----------
    classes_
        Labels of the classes.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.models import KernelRegressionClassifier
    >>> X, y = np.array([[0.0], [0.2], [5.0], [5.2]]), ["low", "low", "high", "high"]
    >>> model = KernelRegressionClassifier(lengthscale=1.0, random_state=0).fit(X, y)
    >>> model.predict([[0.1], [5.1]]).tolist()
    ['low', 'high']
    >>> bool(np.allclose(model.predict_proba([[0.1], [2.0]]).sum(axis=1), 1.0))
    True
    """

    def fit(self, X: ArrayLike, y: ArrayLike) -> KernelRegressionClassifier:
        """Sum the features over the rows of X (n, d) of each class of y (n,)."""
        carrier = TableColumns()
        inputs, labels = validate_data(carrier, X, y, estimator=self, dtype=np.float64)
        check_classification_targets(labels)
        classes, codes = np.unique(labels, return_inverse=True)
        if len(classes) < 2:
            raise InvalidInputError(
                f"y: expected two classes or more, got one class: {classes[0]!r}"
            )
        indicators = np.eye(len(classes))[codes]
        with named_exhaustion("fit"):
            sums = self._summed(inputs, indicators)
        self._fitted = FittedShares(carrier.columns(), sums, classes, indicators.mean(axis=0))
        return self

    @property
    def classes_(self) -> NDArray[Any]:
        """Labels (n_classes,) of the classes, ascending."""
        return self.fitted_.classes

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Probabilities (p, n_classes) of the classes, in the order of `classes_`."""
        found = self.fitted_
        with named_exhaustion("predict"):
            sums = np.clip(self._weighted_sums(X)[:, :-1], 0.0, None)
        total = sums.sum(axis=1, keepdims=True)
        shares = np.broadcast_to(found.shares, sums.shape).copy()
        return np.divide(sums, total, where=total > 0, out=shares)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The most probable class (p,) at the rows of X (p, d)."""
        probabilities = self.predict_proba(X)
        predicted: NDArray[Any] = self.classes_[probabilities.argmax(axis=1)]
        return predicted


def scott_lengthscale(inputs: FloatArray) -> FloatArray:
    """Scott's rule (d,): standard deviations times `n^(-1 / (d + 4))`; one for constant columns."""
    n, dim = inputs.shape
    spread: FloatArray = column_spread(inputs, True)
    return spread * n ** (-1.0 / (dim + 4))


@dataclass(frozen=True, eq=False)
class ScaledFeatures:
    """Features of rows that are shifted and divided by lengthscales.

    Attributes
    ----------
    features : FeatureMap or SoftmaxFeatures
        Features of unit lengthscale.
    lengthscale, center : FloatArray
        Shapes (d,).
    """

    features: Features
    lengthscale: FloatArray
    center: FloatArray

    @property
    def in_logarithms(self) -> bool:
        """Whether the features are positive and are computed by their logarithms."""
        positive = getattr(self.features, "is_positive", False)
        return bool(positive) or hasattr(self.features, "log_features")

    def chunks(self, inputs: FloatArray) -> Iterator[tuple[slice, Tensor]]:
        """Centred and scaled rows (b, d), at most CHUNK_ROWS at a time, with their slices."""
        for start in range(0, len(inputs), CHUNK_ROWS):
            rows = slice(start, start + CHUNK_ROWS)
            yield rows, torch.as_tensor((inputs[rows] - self.center) / self.lengthscale)

    def logarithms(self, scaled: Tensor, side: str) -> Tensor:
        """Logarithms (b, M) of the features of scaled rows (b, d), as "queries" or "keys"."""
        one_map = isinstance(self.features, FeatureMap)
        logs: Tensor = getattr(self.features, "log_features" if one_map else f"log_{side}")(scaled)
        return logs

    def values(self, scaled: Tensor, side: str) -> Tensor:
        """Features (b, M) of scaled rows (b, d), as "queries" or "keys"."""
        features: Any = self.features
        one_map = isinstance(features, FeatureMap)
        values: Tensor = features(scaled) if one_map else getattr(features, side)(scaled)
        return values.double()


@dataclass(frozen=True, eq=False)
class FeatureSums:
    """`sum_i s(x_i) (y_i, 1)` over the training rows, relative to `exp(peak)` for each feature.

    The peak is the maximum over the rows of the logarithm of a positive feature: far from the
    origin all features of a row would underflow otherwise. It is zero for other features.

    Attributes
    ----------
    scaled : ScaledFeatures
    peak : Tensor
        Shape (M,), or () for features that are not positive.
    sums : Tensor
        Shape (M, C + 1); the last column is the sum of the features alone.
    """

    scaled: ScaledFeatures
    peak: Tensor
    sums: Tensor

    @classmethod
    def over(cls, scaled: ScaledFeatures, inputs: FloatArray, targets: FloatArray) -> FeatureSums:
        """Sum over rows (n, d) with targets (n, C)."""
        weighted = torch.as_tensor(np.column_stack([targets, np.ones(len(targets))]))
        peak, sums = torch.zeros(()), torch.zeros(())
        for rows, part in scaled.chunks(inputs):
            if scaled.in_logarithms:
                logs = scaled.logarithms(part, "keys")
                top = logs.amax(0)
                new_peak = top if rows.start == 0 else torch.maximum(peak, top)
                more = (logs - new_peak).exp().T @ weighted[rows]
                sums = more + (0 if rows.start == 0 else (peak - new_peak).exp()[:, None] * sums)
                peak = new_peak
            else:
                sums = sums + scaled.values(part, "keys").T @ weighted[rows]
        return cls(scaled, peak, sums)

    def at(self, inputs: FloatArray) -> FloatArray:
        """Estimates (p, C + 1) of `sum_i k(x, x_i) (y_i, 1)` for rows (p, d), up to their scale."""
        parts = []
        for _, part in self.scaled.chunks(inputs):
            if self.scaled.in_logarithms:
                exponent = self.scaled.logarithms(part, "queries") + self.peak
                query = (exponent - exponent.amax(-1, keepdim=True)).exp()
            else:
                query = self.scaled.values(part, "queries")
            parts.append(query @ self.sums)
        return torch.cat(parts).numpy()
