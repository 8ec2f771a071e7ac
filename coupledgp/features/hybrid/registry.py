"""Names of features with a map for queries and another one for keys."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from coupledgp.couplings import CouplingLike
from coupledgp.errors import InvalidInputError
from coupledgp.features.base import FeatureMap
from coupledgp.features.hybrid.base import NOT_A_COVARIANCE, SoftmaxFeatures
from coupledgp.features.hybrid.hybrid import AngularHybridFeatures, GaussianHybridFeatures
from coupledgp.features.registry import (
    FEATURE_MAPS,
    WORDS,
    FeatureFactory,
    FeatureRegistry,
    make_features,
    parse_features,
)
from coupledgp.ground.tensors import is_module
from coupledgp.ground.validation import unknown_choice
from coupledgp.random import FloatArray, Seed
from coupledgp.spectra import GaussianSpectrum, Spectrum

SOFTMAX_FEATURES: FeatureRegistry[SoftmaxFeatures] = FeatureRegistry(
    SoftmaxFeatures,
    "coupledgp.softmax_features",
    {"angular-hybrid": AngularHybridFeatures, "gaussian-hybrid": GaussianHybridFeatures},
    vocabulary=WORDS,
)


def register_softmax_features(
    name: str, make: Callable[..., SoftmaxFeatures], *, replace: bool = False
) -> None:
    """Make a subclass of `SoftmaxFeatures`, or a function of its arguments, known under `name`.

    It is called as `make(dim, n_frequencies, coupling=..., generator=..., kernel="gaussian")`.
    See `Registry.register` for the rest.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from coupledgp.features import ComplexExponentialFeatures, register_softmax_features
    >>> def waves(dim, n_frequencies, **options):
    ...     return ComplexExponentialFeatures(dim, n_frequencies, 1j, **options)
    >>> register_softmax_features("waves", waves)
    >>> X = np.linspace(-1, 1, 20)[:, None]
    >>> model = cgp.KernelRegressionRegressor(features="waves", lengthscale=0.3, random_state=0)
    >>> bool(np.abs(model.fit(X, X[:, 0]).predict(X[8:12]) - X[8:12, 0]).max() < 0.2)
    True
    """
    SOFTMAX_FEATURES.register(name, make, replace=replace)


def make_kernel_features(
    features: str | Callable[..., FeatureMap | SoftmaxFeatures],
    dim: int,
    n_frequencies: int,
    coupling: CouplingLike,
    spectrum: Spectrum,
    generator: Seed,
    rows: FloatArray | None = None,
) -> FeatureMap | SoftmaxFeatures:
    """Draw features of a kernel, of either kind, for estimators that need no covariance.

    Parameters
    ----------
    features
        A registered name of either kind; a subclass of `FeatureMap` or `SoftmaxFeatures`; or a
        function `(dim, n_frequencies, coupling, generator=...)` that makes one.
    dim, n_frequencies, coupling, generator
        As in `FeatureMap`.
    spectrum
        The kernel; `SoftmaxFeatures` exist for the Gaussian one only, and for a function it is not
        asked for.
    rows
        As in `make_features`.

    Raises
    ------
    InvalidInputError
        The text names no features, they do not exist for the kernel, or a function makes something
        else.
    """
    if callable(features) and not (isinstance(features, type) or is_module(features)):
        return _checked(features(dim, n_frequencies, coupling, generator=generator))
    softmax = _softmax_features(features)
    make = None if softmax is not None else _feature_map(features)
    only_gaussian = make is None or getattr(make, "gaussian_only", False)
    if only_gaussian and not isinstance(spectrum, GaussianSpectrum):
        raise InvalidInputError(
            f"kernel: {_shown(features)!r} features exist for 'gaussian' only, got "
            f"{str(spectrum)!r}; use features='fourier'"
        )
    if make is not None:
        return make_features(make, dim, n_frequencies, coupling, spectrum, generator, rows=rows)
    assert softmax is not None
    made = softmax(dim, n_frequencies, coupling=coupling, generator=generator, kernel="gaussian")
    return _checked(made)


def _feature_map(features: Any) -> FeatureFactory:
    """The class or function of a feature map, given itself or its name; errors list all names."""
    if not isinstance(features, str):
        return parse_features(features)
    make = FEATURE_MAPS.find(features)
    if make is None:
        choices = [*FEATURE_MAPS.choices(), *SOFTMAX_FEATURES.choices()]
        raise InvalidInputError(unknown_choice(features, choices, "features"))
    return make


def _checked(made: Any) -> FeatureMap | SoftmaxFeatures:
    """Return the features that a function has made, and refuse anything else."""
    if not isinstance(made, (FeatureMap, SoftmaxFeatures)):
        raise InvalidInputError(
            "features: expected a function that makes a FeatureMap or SoftmaxFeatures, got one "
            f"that makes {type(made).__name__}"
        )
    return made


def refuse_as_covariance(features: object, name: str = "features") -> None:
    """Raise if `features` is, or names, features that give no positive semidefinite Gram matrix.

    For everything that makes a Gaussian process of feature maps.
    """
    if _softmax_features(features) is not None or isinstance(features, SoftmaxFeatures):
        raise InvalidInputError(f"{name}: {_shown(features)}: {NOT_A_COVARIANCE}")


def _softmax_features(features: object) -> Callable[..., SoftmaxFeatures] | None:
    """The class or function that a value is, or names; None for features of another kind."""
    if isinstance(features, str) and features not in FEATURE_MAPS.known:
        return SOFTMAX_FEATURES.find(features)
    if isinstance(features, type) and issubclass(features, SoftmaxFeatures):
        return features
    return None


def _shown(features: object) -> str:
    """The name of a value in error messages."""
    named = features if isinstance(features, str) else getattr(features, "__name__", None)
    return named or type(features).__name__
