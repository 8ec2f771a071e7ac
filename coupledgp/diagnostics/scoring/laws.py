"""Predictive laws of observations: joint ones, exact or within bounds, and each alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.core.process import GaussianProcess, Points
from coupledgp.core.target_maps import mapped_back
from coupledgp.core.transforms import TargetTransform
from coupledgp.diagnostics.scoring.score_table import OwnLaws, PointScore
from coupledgp.diagnostics.scoring.subject import Subject
from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import LARGEST_PRODUCT, check_magnitude, real_array, wrong
from coupledgp.linalg.system import BoundedLaw
from coupledgp.random import FloatArray, IntArray
from coupledgp.time.spread import student_cdf, student_log_density, student_quantiles

# Quantiles of a transformed law that its ranked probability score is summed over.
N_QUANTILES = 64
# Quantiles of a law that a ranked probability score is summed over.
QUANTILES = 400


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
        Noise variances, where they are known.
    cov_error : FloatArray (p, p, k) or None
        The true covariance lies between `cov - cov_error` and `cov`; None if it equals `cov`.
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

    def single(self, own: OwnLaws | None = None) -> PointLaws:
        """The laws of single points, whose own laws are given where they are mixtures."""
        return PointLaws(self.mean, self.std, own)

    def take(self, chosen: IntArray) -> Law:
        """The law at some of the points, by their numbers (m,)."""
        square = np.ix_(chosen, chosen)
        return Law(
            self.mean[chosen],
            self.cov[square],
            None if self.prior is None else self.prior[square],
            self.noise,
            None if self.cov_error is None else self.cov_error[square],
            self.mean_error,
        )

    def floor(self, k: int) -> FloatArray:
        """Lower bound (p, p) of the covariance of output k."""
        if self.cov_error is None:
            return self.cov[..., k]
        return self.cov[..., k] - self.cov_error[..., k]

    def radius(self, k: int) -> float:
        """Factor on the covariance's error that bounds the error of the mean of output k."""
        return 0.0 if self.mean_error is None else float(self.mean_error[k])

    def mean_bounds(self) -> FloatArray:
        """Bounds (p, k) of the errors of the means."""
        if self.cov_error is None or self.mean_error is None:
            return np.zeros_like(self.mean)
        return self.mean_error * np.sqrt(np.einsum("iik->ik", self.cov_error))


def law_of(subject: Subject, name: str) -> Law:
    """Joint law of a model at its test points; `name` is that of the argument in messages."""
    if subject.process is not None:
        return law_of_process(subject.process, subject.points)
    return law_of_estimator(subject.model, subject.points, name)


def law_of_process(process: GaussianProcess, points: Points) -> Law:
    """Joint law of a process at points (p, ...), with its prior and noise.

    Raises
    ------
    InvalidInputError
        The noise of its observations depends on the function.
    """
    if not hasattr(process.noise, "variance"):
        raise InvalidInputError(
            f"model: expected observations with noise that does not depend on the function, got "
            f"{type(process.noise).__name__}; process.log_density(points, targets) scores them"
        )
    mean, cov = process.law(points, "covariance")
    assert cov is not None
    noise = process.units.spread(process.noise.variance)
    return Law(mean, cov, process.prior(points), noise)


def law_of_estimator(estimator: Any, X: Any, name: str) -> Law:
    """Joint law at points X (p, d) that an estimator's `predict(X, return_cov=True)` returns.

    Raises
    ------
    InvalidInputError
        The estimator has no such method, or its results do not fit together.
    """
    try:
        mean, cov = estimator.predict(X, return_cov=True)
    except TypeError as error:
        raise InvalidInputError(
            f"{name}: expected an estimator with predict(X, return_cov=True), "
            f"got {type(estimator).__name__} ({error})"
        ) from error
    mean, cov = real_array(mean, "mean"), real_array(cov, "cov")
    p = mean.shape[0]
    if cov.shape[:2] != (p, p):
        raise wrong(name, f"a covariance of shape ({p}, {p})", cov.shape)
    if not (np.isfinite(mean).all() and np.isfinite(cov).all()):
        raise InvalidInputError(f"{name}: expected finite predictions, got NaN or inf")
    check_magnitude(mean, name)
    check_magnitude(cov, name, LARGEST_PRODUCT)
    return Law(mean.reshape(p, -1), cov.reshape(p, p, -1))


@dataclass(frozen=True, eq=False)
class ProcessLaws:
    """Laws of single observations of a process that are no mixtures of Gaussians.

    Attributes
    ----------
    process : GaussianProcess
    points : Points (p, ...)
    """

    process: GaussianProcess
    points: Points

    def log_density(self, targets: FloatArray) -> FloatArray:
        """Log density (p,) of targets (p, k), outputs jointly."""
        return self.process.log_density(self.points, targets)

    def transforms(self, targets: FloatArray) -> FloatArray:
        """Probability integral transforms `F(y)` (p, k) of targets (p, k)."""
        return self.process.cdf(self.points, targets)

    def interval_widths(self, levels: Sequence[float]) -> FloatArray:
        """Widths (p, k, l) of the central intervals of l nominal levels."""
        tails = 0.5 - 0.5 * np.array(levels)
        ends = self.process.quantiles(self.points, np.concatenate([tails, 1 - tails]))
        below, above = np.split(ends, 2, axis=-1)
        return np.asarray(above - below)

    def crps(self, targets: FloatArray) -> FloatArray:
        """Continuous ranked probability scores (p, k), by the mean pinball loss of 400 quantiles.

        It is `2 int (1[y < q(u)] - u) (q(u) - y) du` over u from 0 to 1, by the middles of steps.
        """
        chances = (np.arange(QUANTILES) + 0.5) / QUANTILES
        gaps = self.process.quantiles(self.points, chances) - targets[..., None]
        return np.asarray(2 * (((gaps > 0) - chances) * gaps).mean(axis=-1))


def mixture_of(subject: Subject | None) -> OwnLaws | None:
    """Laws of a model's points where they are not Gaussian; None where they are."""
    if subject is None or subject.process is None or not subject.is_mixture:
        return None
    parts = subject.process.parts_of_law(subject.points)
    return ProcessLaws(subject.process, subject.points) if parts is None else parts


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
        y = real_array(y_test, "y_test")
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"y_test: expected numbers, {error}") from None
    if y.shape != shape and (y.ndim != 1 or (y.size, 1) != shape):
        raise wrong("y_test", f"shape {shape} or {shape[:1]}", y.shape)
    if not np.isfinite(y).all():
        raise InvalidInputError("y_test: expected finite values, got NaN or inf")
    check_magnitude(y, "y_test")
    return y.reshape(shape)


@dataclass(frozen=True, eq=False)
class PointLaws:
    """Laws of single observations at p points, k outputs.

    Attributes
    ----------
    mean, std : FloatArray (p, k)
        Means and standard deviations of observations, noise included, in units of y.
    own : OwnLaws or None
        The laws themselves where they are not normal.
    """

    mean: FloatArray
    std: FloatArray
    own: OwnLaws | None = None

    def losses(self, score: PointScore, y: FloatArray) -> FloatArray:
        """Losses of targets (p, k) by a score, (p, k), or (p,) of laws that are not normal."""
        return score.losses(y, self.mean, self.std, self.own)

    def beside(self, other: PointLaws) -> PointLaws:
        """These laws in the form of others: normal ones by quantiles where these are all known."""
        reduced = getattr(other.own, "of_normal", None)
        if self.own is not None or reduced is None:
            return self
        return PointLaws(self.mean, self.std, reduced(self.mean, self.std))


@dataclass(frozen=True, eq=False)
class TransformedLaws:
    """Laws of single observations y for which `g(y)` is normal or Student's; see `OwnLaws`.

    Attributes
    ----------
    transform : TargetTransform or None
        The map g; None: the identity.
    mean, std : FloatArray (p, k)
        Means and standard deviations of `g(y)`.
    tails : FloatArray (p, k) or None
        Inverse degrees of freedom; zero, and None: normal.
    """

    transform: TargetTransform | None
    mean: FloatArray
    std: FloatArray
    tails: FloatArray | None = None

    @property
    def _tails(self) -> FloatArray:
        return np.zeros(self.mean.shape) if self.tails is None else self.tails

    def _z(self, targets: FloatArray) -> FloatArray:
        values = targets if self.transform is None else self.transform.forward(targets)
        return np.asarray((values - self.mean) / self.std)

    def _quantile(self, chance: float) -> FloatArray:
        found = self.mean + self.std * student_quantiles(
            np.full(self.mean.shape, chance), self._tails
        )
        return found if self.transform is None else mapped_back(self.transform, found)

    def log_density(self, targets: FloatArray) -> FloatArray:
        """`log p((g(y) - mean) / std) - log std + log g'(y)`, summed over outputs (p,)."""
        density = student_log_density(self._z(targets), self._tails) - np.log(self.std)
        if self.transform is not None:
            density = density + self.transform.log_slope(targets)
        return np.asarray(density.sum(axis=1))

    def transforms(self, targets: FloatArray) -> FloatArray:
        """Distribution functions `F(y)` (p, k)."""
        return student_cdf(self._z(targets), self._tails)

    def interval_widths(self, levels: Sequence[float]) -> FloatArray:
        """Widths (p, k, l) of the central intervals of l nominal levels."""
        ends = [self._quantile(0.5 + k / 2) - self._quantile(0.5 - k / 2) for k in levels]
        return np.stack(ends, axis=-1)

    def crps(self, targets: FloatArray) -> FloatArray:
        """`2 int (1(y <= q) - tau) (q - y) dtau` by a midpoint rule over quantiles q(tau)."""
        total = np.zeros(targets.shape)
        for level in (np.arange(N_QUANTILES) + 0.5) / N_QUANTILES:
            quantile = self._quantile(level)
            total += 2 * ((targets <= quantile) - level) * (quantile - targets)
        return total / N_QUANTILES
