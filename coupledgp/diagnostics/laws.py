"""Joint predictive laws of observations, exact or known up to bounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.errors import InvalidInputError
from coupledgp.inference.linalg.system import BoundedLaw
from coupledgp.random import FloatArray


@dataclass(frozen=True)
class Law:
    """Joint law of observations at p points, k outputs, in units of y.

    Attributes
    ----------
    mean : FloatArray (p, k)
    cov : FloatArray (p, p, k)
    prior : FloatArray (p, p, k) or None
        Prior covariance of f, where it is known.
    noise : FloatArray (k,) or None
        Noise variances, likewise.
    cov_error : FloatArray (p, p, k) or None
        The true covariance lies between `cov - cov_error` and `cov`. None: it is `cov`.
    mean_error : FloatArray (k,) or None
        The error e of a mean has `e e' <= mean_error^2 cov_error`.
    """

    mean: FloatArray
    cov: FloatArray
    prior: FloatArray | None = None
    noise: FloatArray | None = None
    cov_error: FloatArray | None = None
    mean_error: FloatArray | None = None

    @property
    def std(self) -> FloatArray:
        """Standard deviations (p, k)."""
        return np.sqrt(np.einsum("iik->ik", self.cov))

    def floor(self, k: int) -> FloatArray:
        """Lower bound (p, p) of the covariance of output k."""
        if self.cov_error is None:
            return self.cov[..., k]
        return self.cov[..., k] - self.cov_error[..., k]

    def mean_bounds(self) -> FloatArray:
        """Bound of the error of each mean, (p, k)."""
        if self.cov_error is None or self.mean_error is None:
            return np.zeros_like(self.mean)
        return self.mean_error * np.sqrt(np.einsum("iik->ik", self.cov_error))


def law_of(estimator: Any, X: Any, name: str) -> Law:
    """Law at points X (p, d) that an estimator's `predict(X, return_cov=True)` states."""
    try:
        mean, cov = estimator.predict(X, return_cov=True)
    except TypeError as error:
        raise InvalidInputError(
            f"{name}: expected an estimator with predict(X, return_cov=True), "
            f"got {type(estimator).__name__} ({error})"
        ) from error
    mean, cov = np.asarray(mean, dtype=np.float64), np.asarray(cov, dtype=np.float64)
    p = mean.shape[0]
    if cov.shape[:2] != (p, p):
        raise InvalidInputError(
            f"{name}: expected a covariance of shape ({p}, {p}), got {cov.shape}"
        )
    prior = noise = None
    if hasattr(estimator, "prior_covariance") and hasattr(estimator, "noise_"):
        prior = np.asarray(estimator.prior_covariance(X), dtype=np.float64).reshape(p, p, -1)
        noise = np.atleast_1d(estimator.noise_)
    return Law(mean.reshape(p, -1), cov.reshape(p, p, -1), prior, noise)


def is_mixture(estimator: Any) -> bool:
    """Whether an estimator's law is a mixture of several Gaussian laws."""
    return len(getattr(estimator, "member_weights_", ())) > 1


def mixture_nlpd(estimator: Any, X: Any, y: FloatArray | None) -> FloatArray | None:
    """Negative log density (p,) of targets (p, k) under a mixture, nats per output.

    None without targets, and for a Gaussian law, whose densities follow from its `Law`.
    """
    if y is None or not is_mixture(estimator):
        return None
    targets = y[:, 0] if y.shape[1] == 1 else y
    return -np.asarray(estimator.log_density(X, targets)) / y.shape[1]


def in_units(law: BoundedLaw, offset: FloatArray, scale: FloatArray) -> Law:
    """Law of `offset + scale * target` for a law of the target; offset and scale (k,)."""
    square = np.square(scale)
    return Law(
        offset + scale * law.mean,
        np.multiply.outer(law.cov, square),
        np.multiply.outer(law.prior, square),
        law.noise * square,
        np.multiply.outer(law.cov_error, square),
        law.mean_error,
    )


def check_shapes(model: tuple[int, ...], reference: tuple[int, ...]) -> None:
    """Refuse laws at different numbers of points or outputs; shapes (p, k)."""
    if model != reference:
        raise InvalidInputError(f"reference: predicts shape {reference}, model predicts {model}")


def check_targets(y_test: ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    """Return finite targets of the given shape (p, k)."""
    try:
        y = np.asarray(y_test, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"y_test: expected numbers, {error}") from None
    if y.shape != shape and (y.ndim != 1 or (y.size, 1) != shape):
        raise InvalidInputError(f"y_test: expected shape {shape} or {shape[:1]}, got {y.shape}")
    if not np.isfinite(y).all():
        raise InvalidInputError("y_test: expected finite values, got NaN or inf")
    return y.reshape(shape)
