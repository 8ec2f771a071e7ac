"""Normal predictive distributions: joint ones, exact or within bounds, and mapped ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import ndtr, ndtri

from coupledgp.core.process import GaussianProcess, Points
from coupledgp.core.target_maps import mapped_back, mapped_moments
from coupledgp.core.transforms import TargetTransform
from coupledgp.errors import InvalidInputError
from coupledgp.linalg.matrices import cholesky
from coupledgp.linalg.system import BoundedLaw
from coupledgp.random import FloatArray, IntArray
from coupledgp.time.spread import student_cdf, student_log_density, student_quantiles

# Quantiles of a mapped distribution that its ranked probability score is summed over.
N_QUANTILES = 64


@dataclass(frozen=True, eq=False)
class Normal:
    """Normal distributions of observations at p points, k outputs, joint where `cov` is known.

    Attributes
    ----------
    mean, std : FloatArray (p, k)
    cov : FloatArray (p, p, k) or None
        Joint covariance of observations; None: only that of single points is known.
    prior : FloatArray (p, p, k) or None
        Prior covariance of the function, where it is known.
    noise : FloatArray (k,) or None
        Noise variances, where they are known.
    slack : FloatArray (p, p, k) or None
        The true covariance lies between `cov - slack` and `cov`; None if it equals `cov`.
    radius : FloatArray (k,) or None
        The error e of a mean has `e e' <= radius^2 slack`.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics.laws import Normal
    >>> law = Normal(np.zeros((2, 1)), np.ones((2, 1)))
    >>> law.log_density(np.zeros((2, 1))).round(4).tolist()  # -log(2 pi) / 2
    [-0.9189, -0.9189]
    """

    mean: FloatArray
    std: FloatArray
    cov: FloatArray | None = None
    prior: FloatArray | None = None
    noise: FloatArray | None = None
    slack: FloatArray | None = None
    radius: FloatArray | None = None

    has_density: ClassVar[bool] = True
    has_moments: ClassVar[bool] = True

    @classmethod
    def joint(cls, mean: FloatArray, cov: FloatArray, **parts: Any) -> Normal:
        """The distribution of means (p, k) and covariances (p, p, k)."""
        return cls(mean, np.sqrt(np.einsum("iik->ik", cov)), cov, **parts)

    @classmethod
    def within(cls, law: BoundedLaw, offset: FloatArray, scale: FloatArray) -> Normal:
        """That of `offset + scale * target`, for one of the target that iterative solves left."""
        square = np.square(scale)
        return cls.joint(
            offset + scale * law.mean,
            np.multiply.outer(law.cov, square),
            prior=np.multiply.outer(law.prior, square),
            noise=law.noise * square,
            slack=np.multiply.outer(law.cov_error, square),
            radius=law.mean_error,
        )

    @classmethod
    def of_process(cls, process: GaussianProcess, points: Points) -> Normal:
        """That of a process at points (p, ...), with its prior and noise.

        Raises
        ------
        InvalidInputError
            The noise of its observations depends on the function.
        """
        if not hasattr(process.noise, "variance"):
            raise InvalidInputError(
                "model: expected observations with noise that does not depend on the function, got "
                f"{type(process.noise).__name__}; process.log_density(points, targets) scores them"
            )
        mean, cov = process.law(points, "covariance")
        assert cov is not None
        noise = process.units.spread(process.noise.variance)
        return cls.joint(mean, cov, prior=process.prior(points), noise=noise)

    def single(self) -> Normal:
        """The distributions of single points, whose errors of the mean are known up to bounds."""
        return Normal(self.mean, self.std)

    def floor(self, k: int) -> FloatArray:
        """Lower bound (p, p) of the covariance of output k."""
        assert self.cov is not None
        return self.cov[..., k] if self.slack is None else self.cov[..., k] - self.slack[..., k]

    def reach(self, k: int) -> float:
        """Factor on the slack that bounds the error of the mean of output k."""
        return 0.0 if self.radius is None else float(self.radius[k])

    def log_density(self, y: FloatArray) -> FloatArray:
        """`-((y - m) / s)^2 / 2 - log s - log(2 pi) / 2`, summed over outputs (p,)."""
        z = (y - self.mean) / self.std
        each = -0.5 * np.square(z) - np.log(self.std) - 0.5 * np.log(2 * np.pi)
        return np.asarray(each.sum(axis=1))

    def joint_log_density(self, y: FloatArray) -> FloatArray:
        """Log densities (k,) of all points of each output together, nats.

        Raises
        ------
        NumericalError
            A covariance is not positive definite.
        """
        assert self.cov is not None
        found = []
        for k in range(y.shape[1]):
            root = np.asarray(cholesky(self.cov[..., k], "predictive covariance"))
            white = solve_triangular(root, y[:, k] - self.mean[:, k], lower=True)
            logdet = 2 * np.log(np.diagonal(root)).sum()
            found.append(-0.5 * (white @ white + logdet + len(y) * np.log(2 * np.pi)))
        return np.array(found)

    def cdf(self, y: FloatArray) -> FloatArray:
        return np.asarray(ndtr((y - self.mean) / self.std))

    def ppf(self, chances: FloatArray) -> FloatArray:
        return self.mean[..., None] + self.std[..., None] * ndtri(chances)

    def crps(self, y: FloatArray) -> FloatArray:
        """`s (z (2 Phi(z) - 1) + 2 phi(z) - pi^(-1/2))`, `z = (y - m) / s` (p, k).

        Gneiting and Raftery (2007), eq. 21, with the sign turned.
        """
        return normal_crps(y - self.mean, self.std)

    def take(self, rows: IntArray) -> Normal:
        square = np.ix_(rows, rows)
        cov, prior, slack = (
            None if one is None else one[square] for one in (self.cov, self.prior, self.slack)
        )
        return replace(
            self, mean=self.mean[rows], std=self.std[rows], cov=cov, prior=prior, slack=slack
        )


def normal_crps(error: FloatArray, std: FloatArray) -> FloatArray:
    """Continuous ranked probability scores of errors of normal distributions, any shape."""
    z = error / std
    density = np.exp(-0.5 * np.square(z)) / np.sqrt(2 * np.pi)
    return np.asarray(std * (z * (2 * ndtr(z) - 1) + 2 * density - 1 / np.sqrt(np.pi)))


@dataclass(frozen=True, eq=False)
class Mapped:
    """Distributions of observations y for which `g(y)` is normal or Student's.

    Attributes
    ----------
    transform : TargetTransform or None
        The map g; None: the identity.
    center, scale : FloatArray (p, k)
        Means and standard deviations of `g(y)`.
    mean, std : FloatArray (p, k)
        Those of y.
    tails : FloatArray (p, k) or None
        Inverse degrees of freedom; zero, and None: normal.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.core.transforms import Log
    >>> from coupledgp.diagnostics import Mapped
    >>> law = Mapped.of(Log(), np.zeros((1, 1)), np.ones((1, 1)))
    >>> law.ppf(np.array([0.5])).ravel().round(9).tolist()  # the median of a lognormal law
    [1.0]
    """

    transform: TargetTransform | None
    center: FloatArray
    scale: FloatArray
    mean: FloatArray
    std: FloatArray
    tails: FloatArray | None = None

    has_density: ClassVar[bool] = True
    has_moments: ClassVar[bool] = True

    @classmethod
    def of(cls, transform: TargetTransform, mean: FloatArray, std: FloatArray) -> Mapped:
        """Distributions of y (p, 1) of which `g(y)` is normal of these moments."""
        own, variance = mapped_moments(transform, mean[:, 0], np.square(std[:, 0]))
        return cls(transform, mean, std, own[:, None], np.sqrt(variance)[:, None])

    @property
    def _tails(self) -> FloatArray:
        return np.zeros(self.center.shape) if self.tails is None else self.tails

    def _z(self, y: FloatArray) -> FloatArray:
        values = y if self.transform is None else self.transform.forward(y)
        return np.asarray((values - self.center) / self.scale)

    def log_density(self, y: FloatArray) -> FloatArray:
        """`log p((g(y) - m) / s) - log s + log g'(y)`, summed over outputs (p,)."""
        density = student_log_density(self._z(y), self._tails) - np.log(self.scale)
        if self.transform is not None:
            density = density + self.transform.log_slope(y)
        return np.asarray(density.sum(axis=1))

    def cdf(self, y: FloatArray) -> FloatArray:
        return student_cdf(self._z(y), self._tails)

    def ppf(self, chances: FloatArray) -> FloatArray:
        found = [self._quantile(float(chance)) for chance in chances]
        return np.stack(found, axis=-1)

    def _quantile(self, chance: float) -> FloatArray:
        full = np.full(self.center.shape, chance)
        found = self.center + self.scale * student_quantiles(full, self._tails)
        return found if self.transform is None else mapped_back(self.transform, found)

    def crps(self, y: FloatArray) -> FloatArray:
        """`2 int (1(y <= q) - t) (q - y) dt` by a midpoint rule over quantiles q(t)."""
        total = np.zeros(y.shape)
        for level in (np.arange(N_QUANTILES) + 0.5) / N_QUANTILES:
            quantile = self._quantile(level)
            total += 2 * ((y <= quantile) - level) * (quantile - y)
        return total / N_QUANTILES

    def take(self, rows: IntArray) -> Mapped:
        tails = None if self.tails is None else self.tails[rows]
        return Mapped(
            self.transform, self.center[rows], self.scale[rows], self.mean[rows], self.std[rows],
            tails,
        )  # fmt: skip
