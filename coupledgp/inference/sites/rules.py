"""Observations under a likelihood, and rules of their sites: Laplace's, and the variational one.

A site is a factor `exp(-L (z - f)^2 / 2)` of the posterior in place of that of an observation. With
q the normal law of moments m, v of the function at the observation,

    Laplace's       L = -d^2 log p(y | f) ,      L (z - m) = d log p(y | f)       at f = m
    variational     L = -2 d/dv E_q log p ,      L (z - m) = d/dm E_q log p .

Both climb: Laplace's sites the log density of observations and function, variational ones the bound

    sum_i E_q log p(y_i | f_i) - KL(q, prior)    <=    log p(y) .
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.ground.validation import unknown_choice
from coupledgp.inference.evidence.problem import RowWeights
from coupledgp.likelihoods.base import LEAST_PRECISION, Likelihood, Site
from coupledgp.random import FloatArray

# Least precision of a pseudo-observation over the greatest one, and curvatures below zero, over
# the greatest one, that are no rounding.
LEAST_RATIO, NEGATIVE = 1e-8, 1e-6
# Nodes of the Gauss-Hermite rule, and least variance of the function in it.
N_NODES, LEAST_VARIANCE = 32, 1e-16
# Values at nodes of the rule that are in memory at once.
AT_ONCE = 2**22


class SiteRule(ABC):
    """How sites follow from moments of the function at the observations.

    Attributes
    ----------
    name : str
        Name in options and files.
    is_averaged : bool
        Whether sites depend on the variances of the function.
    """

    name: ClassVar[str]
    is_averaged: ClassVar[bool]

    @abstractmethod
    def site(self, observed: Observed, mean: Tensor, variance: Tensor | None) -> Site:
        """Log densities, slopes and curvatures (k, n), from moments (k, n) of f less its mean.

        They are differentiable where the moments are.
        """

    @abstractmethod
    def gain(self, precision: Tensor, variance: Tensor | None, log_determinant: Tensor) -> Tensor:
        """What the objective (k,) of the steps has beside log densities and the mean's cost."""


class Laplace(SiteRule):
    """Sites of the second order at the mode (Rasmussen and Williams 2006, section 3.4)."""

    name = "laplace"
    is_averaged = False

    def site(self, observed: Observed, mean: Tensor, variance: Tensor | None) -> Site:
        return observed.counted(observed.likelihood.site(observed.y, observed.shift + mean))

    def gain(self, precision: Tensor, variance: Tensor | None, log_determinant: Tensor) -> Tensor:
        return torch.zeros_like(log_determinant)


class Variational(SiteRule):
    """Sites of the normal law that is nearest to the posterior (Opper and Archambeau 2009).

    Averages are those of a Gauss-Hermite rule, and slopes and curvatures are the derivatives of the
    averages by it, so that the bound that is computed is stationary to rounding.
    """

    name = "variational"
    is_averaged = True

    def site(self, observed: Observed, mean: Tensor, variance: Tensor | None) -> Site:
        assert variance is not None
        if mean.requires_grad or variance.requires_grad:
            return observed.counted(_averaged(observed, mean, variance, slice(None)))
        step = max(1, AT_ONCE // (N_NODES * mean.shape[0]))
        parts = [
            _averaged(observed, mean, variance, slice(start, start + step))
            for start in range(0, mean.shape[1], step)
        ]
        whole = Site(*(torch.cat(part, dim=1) for part in zip(*parts, strict=True)))
        return observed.counted(whole)

    def gain(self, precision: Tensor, variance: Tensor | None, log_determinant: Tensor) -> Tensor:
        assert variance is not None
        return 0.5 * (precision * variance).sum(1) - 0.5 * log_determinant


RULES: dict[str, SiteRule] = {rule.name: rule for rule in (Variational(), Laplace())}


def rule_of(name: str) -> SiteRule:
    """The rule of a name.

    Raises
    ------
    InvalidInputError
        There is none of this name.
    """
    if name not in RULES:
        raise InvalidInputError(unknown_choice(name, RULES, "inference"))
    return RULES[name]


@cache
def _nodes() -> tuple[Tensor, Tensor]:
    """Nodes (q,) and weights (q,) of averages over a standard normal variable."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(N_NODES)
    return torch.as_tensor(nodes), torch.as_tensor(weights / weights.sum())


def _at_nodes(
    observed: Observed, mean: Tensor, variance: Tensor, rows: slice
) -> tuple[Tensor, ...]:
    """Observations (k, b, 1), values (k, b, q) of the function with its mean, deviations (k, b)."""
    shift = observed.shift if observed.shift.shape[1] == 1 else observed.shift[:, rows]
    std = variance[:, rows].clamp_min(LEAST_VARIANCE).sqrt()
    values = (shift + mean[:, rows])[..., None] + std[..., None] * _nodes()[0]
    return observed.y[:, rows, None], values, std


def expected_log_density(observed: Observed, mean: Tensor, variance: Tensor) -> Tensor:
    """`E_q log p(y | f)` (k, n), as often as observations count; moments (k, n) of q.

    It is differentiable in parameters of the likelihood.
    """
    y, values, _ = _at_nodes(observed, mean, variance, slice(None))
    found = observed.likelihood.log_density(y, values) @ _nodes()[1]
    return found if observed.counts is None else found * observed.counts


def _averaged(observed: Observed, mean: Tensor, variance: Tensor, rows: slice) -> Site:
    """Averages over normal laws of moments (k, n), of some rows."""
    nodes, weights = _nodes()
    y, values, std = _at_nodes(observed, mean, variance, rows)
    differentiable = values.requires_grad
    with torch.enable_grad():
        at = values if differentiable else values.requires_grad_()
        density = observed.likelihood.log_density(y, at)
        (slope,) = torch.autograd.grad(density.sum(), at, create_graph=differentiable)
    density = density if differentiable else density.detach()
    return Site(density @ weights, slope @ weights, -(slope * nodes) @ weights / std)


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
