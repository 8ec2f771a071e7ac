"""Feature maps as scikit-learn transformers, for pipelines that use `RBFSampler` today."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from coupledgp.couplings import CouplingLike
from coupledgp.features.base import FeatureMap
from coupledgp.features.fourier import FourierFeatures
from coupledgp.features.laplace import LaplaceFeatures
from coupledgp.random import FloatArray
from coupledgp.spectra import SpectrumLike
from coupledgp.validation import check_lengthscale, check_positive_int


def seed_from_random_state(random_state: Any) -> int:
    """Turn scikit-learn's `random_state` into one int seed; an int stays itself."""
    if isinstance(random_state, Integral) and not isinstance(random_state, bool):
        return check_positive_int(random_state, "random_state", minimum=0)
    return int(check_random_state(random_state).randint(2**31 - 1))


class _Sampler(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Shared part of the two transformers."""

    _feature_map: ClassVar[type[FeatureMap]]

    lengthscale: ArrayLike
    n_frequencies: int
    coupling: CouplingLike
    kernel: SpectrumLike
    random_state: Any

    def fit(self, X: ArrayLike, y: Any = None) -> _Sampler:
        """Draw the frequencies for the dimension of `X`; its values are not used."""
        rows: FloatArray = validate_data(self, X, dtype=np.float64)
        dim = rows.shape[1]
        self.lengthscale_ = check_lengthscale(self.lengthscale, dim)
        self.features_ = self._feature_map(
            dim,
            self.n_frequencies,
            self.coupling,
            self.kernel,
            seed_from_random_state(self.random_state),
        )
        self._n_features_out = self.features_.n_features
        return self

    def transform(self, X: ArrayLike) -> FloatArray:
        """Features (n, n_features) of the rows of `X` (n, d)."""
        check_is_fitted(self)
        rows: FloatArray = validate_data(self, X, dtype=np.float64, reset=False)
        features: FloatArray = self.features_(rows / self.lengthscale_).numpy()
        return features


class FourierSampler(_Sampler):
    """Approximate a stationary kernel by coupled random Fourier features.

    Stands where `sklearn.kernel_approximation.RBFSampler(gamma, n_components)` does, with
    `lengthscale = (2 gamma)^{-1/2}` and `n_components = 2 * n_frequencies`; see `FourierFeatures`.

    Parameters
    ----------
    lengthscale
        One positive number, or one for each column.
    n_frequencies
        Number of frequencies m; the output has 2 m columns.
    coupling
        Joint law of the frequencies.
    kernel
        Stationary kernel, as in `parse_spectrum`.
    random_state
        Seed, `RandomState` or None.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0, 1, 5)[:, None]
    >>> FourierSampler(n_frequencies=3, random_state=0).fit_transform(X).shape
    (5, 6)
    """

    _feature_map = FourierFeatures

    def __init__(
        self,
        lengthscale: ArrayLike = 1.0,
        n_frequencies: int = 50,
        coupling: CouplingLike = "orthogonal+pnc",
        kernel: SpectrumLike = "gaussian",
        random_state: Any = None,
    ) -> None:
        self.lengthscale = lengthscale
        self.n_frequencies = n_frequencies
        self.coupling = coupling
        self.kernel = kernel
        self.random_state = random_state


class LaplaceSampler(_Sampler):
    """Approximate the Gaussian kernel by coupled positive features; see `LaplaceFeatures`.

    The inputs should be centred, for instance by a `StandardScaler` before it in the pipeline.

    Parameters
    ----------
    lengthscale
        One positive number, or one for each column.
    n_frequencies
        Number of frequencies m; the output has m columns.
    coupling
        Joint law of the frequencies.
    random_state
        Seed, `RandomState` or None.
    """

    _feature_map = LaplaceFeatures
    kernel = "gaussian"

    def __init__(
        self,
        lengthscale: ArrayLike = 1.0,
        n_frequencies: int = 100,
        coupling: CouplingLike = "orthogonal+pnc+antithetic",
        random_state: Any = None,
    ) -> None:
        self.lengthscale = lengthscale
        self.n_frequencies = n_frequencies
        self.coupling = coupling
        self.random_state = random_state
