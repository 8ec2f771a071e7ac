"""Rules by which sites follow from moments of the function: Laplace's, and the variational one.

A site is a factor `exp(-L (z - f)^2 / 2)` of the posterior in place of that of an observation. With
q the normal law of moments m, v of the function at the observation,

    Laplace's       L = -d^2 log p(y | f) ,      L (z - m) = d log p(y | f)       at f = m
    variational     L = -2 d/dv E_q log p ,      L (z - m) = d/dm E_q log p .

Both climb: Laplace's sites the log density of observations and function, variational ones the bound

    sum_i E_q log p(y_i | f_i) - KL(q, prior)    <=    log p(y) .
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache
from typing import ClassVar

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.ground.validation import unknown_choice
from coupledgp.inference.sites.observed import Observed
from coupledgp.likelihoods.base import Site

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
