"""A process by the law of f in normalised units, from which all its answers follow."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.core.inverse_covariance import InverseCovariance
from coupledgp.core.left_out import (
    MOST_CONDITIONED,
    Groups,
    LeftOut,
    correlation_of,
    own_noise,
)
from coupledgp.core.process import (
    Data,
    GaussianProcess,
    Marginals,
    Points,
    PredictiveLaw,
    Want,
    finite_answer,
)
from coupledgp.core.sites import GivenMoments, GivenRows, RowsPrior
from coupledgp.errors import CoupledGPError, NumericalError
from coupledgp.likelihoods.base import Likelihood
from coupledgp.likelihoods.gaussian import Gaussian
from coupledgp.random import FloatArray, symmetric_root

# Names of the hyperparameters that are variances, which a summary states in units of y squared.
VARIANCES = ("outputscale", "noise", "mean_variance")


class NormalizedProcess(GaussianProcess):
    """A process whose outputs share one law of f in normalised units, which subclasses compute."""

    def summary(self) -> dict[str, Any]:
        return {
            name: self.units.spread(value) if name in VARIANCES else value
            for name, value in vars(self.hyperparameters).items()
        }

    @property
    def noise(self) -> Likelihood:
        return Gaussian(self.hyperparameters.noise)

    @abstractmethod
    def latent_law(self, points: Points, want: Want) -> tuple[FloatArray, FloatArray | None]:
        """Mean (p, k) of f, and its variance (p,), covariance (p, p) or None, normalised units."""

    def for_sites(self) -> NormalizedProcess:
        """The process as it takes pseudo-observations of any noise.

        Here itself. Where rows may not have less noise than the process's own, that is made small:
        it is but the unit of the noise of pseudo-observations.
        """
        return self

    def site_prior(self, points: Points) -> RowsPrior:
        """Prior of f at points (n, ...), by which a `LatentGP` finds its sites.

        Here by the process itself, given pseudo-observations there. Processes with a covariance or
        features at hand override it.
        """
        noise, offset = self.noise.variance, self.units.offset

        def given(targets: FloatArray, precision: FloatArray) -> GivenMoments:
            relative = 1.0 / (noise * precision)
            found = self.conditioned(Data.of(points, targets[:, None] + offset, relative))
            mean, variance = found.law(points, "variance", latent=True)
            assert variance is not None
            return mean[:, 0] - offset, variance[:, 0], found.log_evidence

        return GivenRows(given)

    def latent_samples(
        self, points: Points, n_samples: int, rng: np.random.Generator
    ) -> FloatArray:
        """Draws (p, k, n_samples) of f in normalised units, here by the joint law in O(p^3)."""
        mean, covariance = self.latent_law(points, "covariance")
        assert covariance is not None
        # The covariance of near inputs is singular to rounding, where a Cholesky factor fails.
        root = symmetric_root(covariance)
        draws = rng.standard_normal((len(points), mean.shape[1] * n_samples))
        return mean[:, :, None] + (root @ draws).reshape(len(points), -1, n_samples)

    @abstractmethod
    def latent_prior(self, points: Points) -> FloatArray:
        """Prior covariance (p, p) of f in normalised units."""

    def law(self, points: Points, want: Want, *, latent: bool = False) -> PredictiveLaw:
        with named_breakdown(f"predictive {want}"):
            mean, shared = self.latent_law(points, want)
        spread = None if shared is None else self._of_outputs(shared)
        if spread is not None and not latent:
            mean, spread = self.noise.marginal_moments(mean, spread)
        mean = finite_answer(self.units.mean(mean), "predictive mean")
        if spread is None:
            return PredictiveLaw(mean, None)
        spread = spread * self.units.scale**2
        return PredictiveLaw(mean, finite_answer(spread, f"predictive {want}"))

    def _of_outputs(self, shared: FloatArray) -> FloatArray:
        """Variances (p, k) or covariances (p, p, k) of outputs from the shared (p,) or (p, p)."""
        return np.broadcast_to(shared[..., None], (*shared.shape, self.units.n_outputs))

    def marginals(self, points: Points) -> Marginals:
        """Laws of observations at points, each alone, by the likelihood from normal laws of f."""
        with named_breakdown("predictive variance"):
            mean, variance = self.latent_law(points, "variance")
        assert variance is not None
        return Marginals(
            self.noise,
            finite_answer(mean, "predictive mean"),
            finite_answer(self._of_outputs(variance), "predictive variance"),
            self.units,
        )

    def sample(
        self,
        points: Points,
        n_samples: int,
        rng: np.random.Generator,
        *,
        latent: bool = False,
    ) -> FloatArray:
        with named_breakdown("sample"):
            samples = self.latent_samples(points, n_samples, rng)
        if not latent:
            samples = self.noise.draw(samples, rng)
        return finite_answer(self.units.samples(samples), "sample")

    def prior(self, points: Points) -> FloatArray:
        return finite_answer(self.units.spread(self.latent_prior(points)), "prior covariance")

    def inverse_covariance(self) -> InverseCovariance | None:
        """Inverse covariance of the observations in normalised units; None where it is not kept."""
        return None

    def left_out(self, groups: ArrayLike, rows: ArrayLike | None = None) -> LeftOut:
        """Laws of observations given other groups, by the inverse covariance if there is one."""
        wanted = Groups.of(groups, len(self.data), rows)
        inverse = self.inverse_covariance()
        few = len(wanted.members) <= MOST_CONDITIONED
        if inverse is None or (few and not inverse.serves(wanted.members)):
            return self._left_out_anew(wanted, wanted.members)
        large = [group for group in wanted.members if group.size > inverse.most_rows]
        small = [group for group in wanted.members if group.size <= inverse.most_rows]
        residual, variance = inverse.moments(small)
        noise, entered = own_noise(self.noise.variance, self.data.weights)
        # The noise bounds the variance from below, which rounding of the difference might not.
        variance = np.maximum(variance - entered, 0.0) + noise
        mean = self.units.normalized(self.data.targets) - residual
        found = np.array([self.units.mean(mean), self.units.spread(variance)])[:, wanted.rows]
        if large:
            anew = self._left_out_anew(wanted, large)
            known = np.array([anew.means[0], anew.variances[0]])
            found = np.where(np.isnan(known), found, known)
        return LeftOut.single(*(finite_answer(part, "law of what is left out") for part in found))

    def left_out_correlation(self, groups: ArrayLike, rows: ArrayLike) -> FloatArray | None:
        """Correlations (m, m) of the residuals of observations (m,), which all outputs share."""
        wanted, inverse = Groups.of(groups, len(self.data), rows), self.inverse_covariance()
        covariance = None if inverse is None else inverse.covariance(wanted)
        if covariance is None:
            return None
        noise, entered = own_noise(self.noise.variance, self.data.weights)
        further = np.broadcast_to(np.maximum(noise - entered, 0.0), len(self.data))
        covariance[np.diag_indices_from(covariance)] += further[wanted.rows]
        return correlation_of(covariance)


@contextmanager
def named_breakdown(name: str) -> Iterator[None]:
    """Let errors by which arithmetic ends before there is an answer be a `NumericalError`.

    Raises
    ------
    NumericalError
        A number overflowed or was divided by zero, or a library met NaN or a singular matrix.
    """
    try:
        yield
    except CoupledGPError:
        raise
    except (ArithmeticError, ValueError) as error:
        broken = isinstance(error, (ArithmeticError, np.linalg.LinAlgError))
        if not broken and "infs or NaNs" not in str(error):  # as SciPy says it
            raise
        raise NumericalError(
            f"{name}: no number is left ({error}): hyperparameters, inputs or targets differ too "
            "much in magnitude; check their units"
        ) from error
