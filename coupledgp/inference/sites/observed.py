"""Observations under a likelihood, as sites are found for them."""

from __future__ import annotations

from dataclasses import dataclass

from coupledgp.errors import InvalidInputError
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.inference.evidence.rows import RowWeights
from coupledgp.likelihoods.base import LEAST_PRECISION, Likelihood, Site
from coupledgp.random import FloatArray

# Least precision of a pseudo-observation over the greatest one, and curvatures below zero, over
# the greatest one, that are no rounding.
LEAST_RATIO, NEGATIVE = 1e-8, 1e-6


@dataclass(frozen=True, eq=False)
class Observed:
    """Observations y of k outputs at n points, and their law given the function.

    Attributes
    ----------
    likelihood : Likelihood
        Law of an observation given the function.
    y : Tensor (k, n)
        Observations.
    shift : Tensor (k, n) or (k, 1)
        Prior mean of the function, with the logarithm of the exposure.
    counts : Tensor (n,) or None
        How often each observation counts; None: once.
    """

    likelihood: Likelihood
    y: Tensor
    shift: Tensor
    counts: Tensor | None = None

    @classmethod
    def of(
        cls,
        likelihood: Likelihood,
        targets: FloatArray,
        offset: FloatArray,
        weights: RowWeights | None = None,
    ) -> Observed:
        """Observations (n, k) of prior means (k,), with counts and exposures of rows.

        Raises
        ------
        InvalidInputError
            Observations are none of the likelihood's, rows have noise of their own, or there are
            exposures and the likelihood takes none.
        """
        y = torch.tensor(likelihood.check_targets(targets).T, dtype=torch.float64)
        shift, counts = torch.tensor(offset, dtype=torch.float64)[:, None], None
        if weights is not None:
            if (weights.noise != 1).any():
                raise InvalidInputError(
                    "noise: expected none of single rows with a likelihood, which states the law "
                    "of an observation itself"
                )
            counts = torch.as_tensor(weights.counts, dtype=torch.float64)
            if weights.exposure is not None:
                shift = shift + torch.as_tensor(likelihood.log_exposure(weights.exposure))
        return cls(likelihood, y, shift, counts)

    def counted(self, site: Site) -> Site:
        """A site of each observation as often as it counts."""
        return site if self.counts is None else Site(*(part * self.counts for part in site))

    def precisions(self, site: Site) -> tuple[Tensor, Tensor]:
        """Precisions (k, n) of sites, and which of them (k, n) are not the curvatures.

        Where the law is not log-concave, precisions are sizes of the curvatures: about that of a
        parabola below the log density, in the tails of Student's law. All of them are at least
        `LEAST_RATIO` of the greatest one.
        """
        found = site.curvature.abs()
        greatest = found.amax(1, keepdim=True).clamp_min(LEAST_PRECISION)
        raised = site.curvature < -NEGATIVE * greatest
        return torch.maximum(found, LEAST_RATIO * greatest), raised
