"""Nadaraya-Watson kernel regression in time linear in the rows, by random features.

`f(x) = sum_i k(x, x_i) y_i / sum_i k(x, x_i)`. With `k(x, y)` estimated by `q(x) . s(y)`, both sums
are `q(x)` times a sum over the training rows, which is formed once: O(n M C) to fit and O(p M C)
to predict, M features and C outputs or classes; no kernel matrix. "Simplex random features",
section 5.3.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MultiOutputMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from coupledgp.couplings import CouplingLike
from coupledgp.errors import InvalidInputError
from coupledgp.features import FeatureMap, SoftmaxFeatures
from coupledgp.features.hybrid.registry import make_kernel_features
from coupledgp.features.sklearn import seed_from_random_state
from coupledgp.random import FloatArray
from coupledgp.spectra import SpectrumLike, parse_spectrum
from coupledgp.validation import check_lengthscale, check_positive_int

CHUNK_ROWS = 4096
Features: TypeAlias = FeatureMap | SoftmaxFeatures
FeaturesLike: TypeAlias = str | Callable[..., Features]


class _KernelRegression(BaseEstimator):
    """Base of the classifier and the regressor: sums of features over the training rows."""

    lengthscale: ArrayLike | None
    features: FeaturesLike
    n_frequencies: int
    coupling: CouplingLike
    kernel: SpectrumLike
    random_state: Any

    def _fit(self, inputs: FloatArray, targets: FloatArray) -> None:
        """Sum features times targets (n, C), and features alone, over the rows (n, d)."""
        dim = inputs.shape[1]
        scale = scott_lengthscale(inputs) if self.lengthscale is None else self.lengthscale
        self.lengthscale_ = check_lengthscale(scale, dim)
        self._center = inputs.mean(axis=0)
        self.features_ = self._make_features(dim)
        weighted = np.column_stack([targets, np.ones(len(targets))])
        self._peak, self._sums = self._sum_over_rows(inputs, torch.as_tensor(weighted))

    def _make_features(self, dim: int) -> Features:
        m = check_positive_int(self.n_frequencies, "n_frequencies")
        spectrum = parse_spectrum(self.kernel, "kernel")
        seed = seed_from_random_state(self.random_state)
        return make_kernel_features(self.features, dim, m, self.coupling, spectrum, seed)

    @property
    def _in_logarithms(self) -> bool:
        """Whether the features are positive and are computed by their logarithms."""
        positive = getattr(self.features_, "is_positive", False)
        return bool(positive) or hasattr(self.features_, "log_features")

    def _chunks(self, inputs: FloatArray) -> Iterator[tuple[slice, Tensor]]:
        """Centred and scaled rows (b, d), at most CHUNK_ROWS at a time, with their slices."""
        for start in range(0, len(inputs), CHUNK_ROWS):
            rows = slice(start, start + CHUNK_ROWS)
            yield rows, torch.as_tensor((inputs[rows] - self._center) / self.lengthscale_)

    def _sum_over_rows(self, inputs: FloatArray, weighted: Tensor) -> tuple[Tensor, Tensor]:
        """`sum_i s(x_i) weighted_i` (M, C + 1), relative to `exp(peak)` for each feature.

        The peak is the running maximum of the logarithm of a positive feature: far from the
        origin all features of a row would underflow otherwise. It is zero for other features.
        """
        peak, sums = torch.zeros(()), torch.zeros(())
        for rows, scaled in self._chunks(inputs):
            if self._in_logarithms:
                logs = self._log_features(scaled, "keys")
                top = logs.amax(0)
                new_peak = top if rows.start == 0 else torch.maximum(peak, top)
                part = (logs - new_peak).exp().T @ weighted[rows]
                sums = part + (0 if rows.start == 0 else (peak - new_peak).exp()[:, None] * sums)
                peak = new_peak
            else:
                sums = sums + self._signed_features(scaled, "keys").T @ weighted[rows]
        return peak, sums

    def _log_features(self, scaled: Tensor, side: str) -> Tensor:
        one_map = isinstance(self.features_, FeatureMap)
        logs: Tensor = getattr(self.features_, "log_features" if one_map else f"log_{side}")(scaled)
        return logs

    def _signed_features(self, scaled: Tensor, side: str) -> Tensor:
        features: Any = self.features_
        one_map = isinstance(features, FeatureMap)
        values: Tensor = features(scaled) if one_map else getattr(features, side)(scaled)
        return values.double()

    def _weighted_sums(self, inputs: FloatArray) -> FloatArray:
        """Estimates of `sum_i k(x, x_i) (y_i, 1)` for each row, (p, C + 1), up to its scale."""
        parts = []
        for _, scaled in self._chunks(inputs):
            if self._in_logarithms:
                exponent = self._log_features(scaled, "queries") + self._peak
                query = (exponent - exponent.amax(-1, keepdim=True)).exp()
            else:
                query = self._signed_features(scaled, "queries")
            parts.append(query @ self._sums)
        return torch.cat(parts).numpy()


class KernelRegressionRegressor(MultiOutputMixin, RegressorMixin, _KernelRegression):
    """Nadaraya-Watson regression with random features, linear in the number of rows.

    Exact kernel regression averages the targets with positive weights. Positive features
    ("laplace") keep that: their denominators are positive. Estimates by Fourier or hybrid features
    can be negative: a prediction is clipped to the range of the training targets, which no
    average leaves, and where the denominator is not positive, the estimate carries no information
    and the mean of the training targets stands.

    Parameters
    ----------
    lengthscale
        One positive number, or one for each column. None: Scott's rule, the standard deviation of
        each column times `n^(-1 / (d + 4))`.
    features
        `"laplace"` (positive), `"fourier"`, `"angular-hybrid"`, `"gaussian-hybrid"` or another
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

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(-1, 1, 200)[:, None]
    >>> model = KernelRegressionRegressor(random_state=0).fit(X, X[:, 0] ** 2)
    >>> bool(abs(model.predict([[0.5]])[0] - 0.25) < 0.1)
    True
    """

    def __init__(
        self,
        lengthscale: ArrayLike | None = None,
        features: FeaturesLike = "laplace",
        n_frequencies: int = 256,
        coupling: CouplingLike = "orthogonal+pnc",
        kernel: SpectrumLike = "gaussian",
        random_state: Any = None,
    ) -> None:
        self.lengthscale = lengthscale
        self.features = features
        self.n_frequencies = n_frequencies
        self.coupling = coupling
        self.kernel = kernel
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> KernelRegressionRegressor:
        """Sum the features over the rows of X (n, d), with targets y (n,) or (n, k)."""
        inputs, targets = validate_data(
            self, X, y, dtype=np.float64, multi_output=True, y_numeric=True
        )
        targets = np.asarray(targets, dtype=np.float64)
        self._y_ndim = targets.ndim
        targets = targets.reshape(len(targets), -1)
        # Relative to the mean, so that errors of the kernel are multiplied by deviations of y only.
        self._y_mean = targets.mean(axis=0)
        self._low, self._high = targets.min(axis=0), targets.max(axis=0)
        self._fit(inputs, targets - self._y_mean)
        return self

    def predict(self, X: ArrayLike) -> FloatArray:
        """Predictions (p,) or (p, k) at the rows of X (p, d)."""
        check_is_fitted(self)
        inputs = validate_data(self, X, dtype=np.float64, reset=False)
        sums = self._weighted_sums(inputs)
        numerator, denominator = sums[:, :-1], sums[:, -1:]
        usable = denominator > 0
        quotient = np.divide(numerator, denominator, where=usable, out=np.zeros_like(numerator))
        mean = np.clip(self._y_mean + quotient, self._low, self._high)
        return mean[:, 0] if self._y_ndim == 1 else mean

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        # scikit-learn asks for R^2 > 0.5 on 10 columns of which one counts: a local average with
        # one lengthscale for all reaches that by memorising only.
        tags.regressor_tags.poor_score = True
        return tags


class KernelRegressionClassifier(ClassifierMixin, _KernelRegression):
    """Classification by kernel regression of the classes' indicators, linear in the rows.

    The probability of a class is the share of its rows in the sum of kernel values. Positive
    features ("laplace") keep it a probability. Fourier and hybrid features can give a class a
    negative sum, which is taken as zero; where no class is left, the shares of the classes in the
    training set stand. The predicted class is that of the largest sum either way.

    Parameters
    ----------
    lengthscale, features, n_frequencies, coupling, kernel, random_state
        As in `KernelRegressionRegressor`.

    Attributes
    ----------
    classes_
        Labels of the classes.
    features_, lengthscale_, n_features_in_, feature_names_in_
        As in `KernelRegressionRegressor`.
    """

    def __init__(
        self,
        lengthscale: ArrayLike | None = None,
        features: FeaturesLike = "laplace",
        n_frequencies: int = 256,
        coupling: CouplingLike = "orthogonal+pnc",
        kernel: SpectrumLike = "gaussian",
        random_state: Any = None,
    ) -> None:
        self.lengthscale = lengthscale
        self.features = features
        self.n_frequencies = n_frequencies
        self.coupling = coupling
        self.kernel = kernel
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: ArrayLike) -> KernelRegressionClassifier:
        """Sum the features over the rows of X (n, d) of each class of y (n,)."""
        inputs, labels = validate_data(self, X, y, dtype=np.float64)
        check_classification_targets(labels)
        self.classes_, codes = np.unique(labels, return_inverse=True)
        if len(self.classes_) < 2:
            raise InvalidInputError(
                f"y: expected two classes or more, got one class: {self.classes_[0]!r}"
            )
        indicators = np.eye(len(self.classes_))[codes]
        self._prior = indicators.mean(axis=0)
        self._fit(inputs, indicators)
        return self

    def predict_proba(self, X: ArrayLike) -> FloatArray:
        """Probabilities (p, n_classes) of the classes, in the order of `classes_`."""
        check_is_fitted(self)
        inputs = validate_data(self, X, dtype=np.float64, reset=False)
        sums = np.clip(self._weighted_sums(inputs)[:, :-1], 0.0, None)
        total = sums.sum(axis=1, keepdims=True)
        prior = np.broadcast_to(self._prior, sums.shape).copy()
        return np.divide(sums, total, where=total > 0, out=prior)

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """The most probable class (p,) at the rows of X (p, d)."""
        probabilities = self.predict_proba(X)
        predicted: NDArray[Any] = self.classes_[probabilities.argmax(axis=1)]
        return predicted


def scott_lengthscale(inputs: FloatArray) -> FloatArray:
    """Scott's rule (d,): standard deviations times `n^(-1 / (d + 4))`; one for constant columns."""
    n, dim = inputs.shape
    spread = inputs.std(axis=0)
    return np.where(spread > 0, spread, 1.0) * n ** (-1.0 / (dim + 4))
