"""The log evidence of observations under a likelihood, as a function of hyperparameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from coupledgp.errors import NumericalError
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.inference.evidence.problem import Box, VectorObjective
from coupledgp.inference.sites.priors import DifferentiableSites
from coupledgp.inference.sites.rules import Observed, SiteRule, Variational, expected_log_density
from coupledgp.inference.sites.steps import HALF, LikelihoodSites, find_sites
from coupledgp.likelihoods.base import Likelihood
from coupledgp.random import FloatArray

# Steps that are differentiated where the sites are not at the greatest bound.
UNROLLED = 24
# Factor by which hyperparameters may leave the start of a run, as a logarithm.
REACH = float(np.log(1e4))


class SiteObjective(VectorObjective):
    """Minus the log evidence by sites, of all outputs together.

    Variables (q,) are those of the prior, then the logarithms of the likelihood's parameters.

    Parameters
    ----------
    prior
        Prior of the function, differentiable, as a function of its variables, a tensor.
    n_variables
        Number of variables of the prior.
    observed
        Observations, and their law with the parameters where a search starts.
    rule
        How sites are found.
    """

    def __init__(
        self,
        prior: Callable[[Tensor], DifferentiableSites],
        n_variables: int,
        observed: Observed,
        rule: SiteRule,
    ) -> None:
        self.prior, self.n_variables = prior, n_variables
        self.observed, self.rule = observed, rule
        self._last: LikelihoodSites | None = None

    def likelihood_at(self, logarithms: Tensor) -> Likelihood:
        """The likelihood with other parameters (q - n_variables,), which may require gradients."""
        values = zip(self.observed.likelihood.parameters, logarithms.exp(), strict=True)
        return self.observed.likelihood.with_parameters(dict(values))

    def likelihood_of(self, variables: FloatArray) -> Likelihood:
        """The likelihood of variables (q,), its parameters numbers."""
        values = np.exp(variables[self.n_variables :]).tolist()
        own = zip(self.observed.likelihood.parameters, values, strict=True)
        return self.observed.likelihood.with_parameters(dict(own))

    def box(self, start: FloatArray) -> Box:
        """Box of the variables in a run, which are logarithms."""
        return [(value - REACH, value + REACH) for value in start]

    def value_and_gradient(self, variables: FloatArray) -> tuple[float, FloatArray]:
        """The objective at variables (q,), and its gradient (q,); none where no mode is found."""
        at = torch.tensor(variables, requires_grad=True)
        own, others = at[: self.n_variables], at[self.n_variables :]
        fixed = replace(self.observed, likelihood=self.likelihood_of(variables))
        prior = self.prior(own)
        sites = self._sites(prior, fixed)
        moving = replace(self.observed, likelihood=self.likelihood_at(others))
        evidence = differentiable_evidence(prior, self.rule, moving, sites).sum()
        (gradient,) = torch.autograd.grad(-evidence, at)
        return -float(evidence.detach()), gradient.numpy()

    def _sites(self, prior: DifferentiableSites, observed: Observed) -> LikelihoodSites:
        """The sites, from the last ones if steps from there converge."""
        try:
            found = find_sites(prior, self.rule, observed, self._last)
        except NumericalError:
            if self._last is None:
                raise
            found = find_sites(prior, self.rule, observed)
        self._last = found
        return found


def differentiable_evidence(
    prior: DifferentiableSites, rule: SiteRule, observed: Observed, sites: LikelihoodSites
) -> Tensor:
    """Log evidence (k,), or the bound, as a function of the tensors of prior and likelihood.

    Parameters
    ----------
    prior, observed
        Prior, observations and law, whose tensors may require gradients.
    rule, sites
        The rule, and its sites at these values.
    """
    if not isinstance(rule, Variational):
        return _of_mode(prior, observed, sites.mean)
    if sites.is_raised:
        return _unrolled(prior, rule, observed, sites)
    # Where the bound is stationary in the sites, its slope in the prior is that of the evidence
    # log N(z; 0, K + L^-1) of the pseudo-observations, and its slope in the likelihood that of
    # E_q log p.
    assert sites.variance is not None
    mean, log_determinant = prior.conditioned(sites.precision, sites.shift)
    moving = 0.5 * ((sites.shift * mean).sum(1) - log_determinant)
    moving = moving + expected_log_density(observed, sites.mean, sites.variance).sum(1)
    return sites.evidence + moving - moving.detach()


def _of_mode(prior: DifferentiableSites, observed: Observed, mode: Tensor) -> Tensor:
    """Laplace's evidence after one Newton step from the mode.

    At the mode the step does not depend on where it starts, so that its derivative is that of the
    mode: implicit differentiation without a further equation. Precisions at the mode depend on it
    by third derivatives of the log density.
    """
    likelihood, shift = observed.likelihood, observed.shift
    start = observed.counted(likelihood.site(observed.y, shift + mode))
    pushed = start.curvature * mode + start.slope
    f = prior.moved(start.curvature, pushed)
    alpha = pushed - start.curvature * f
    site = observed.counted(likelihood.site(observed.y, shift + f))
    precision, _ = observed.precisions(site)
    _, log_determinant = prior.conditioned(precision, pushed.detach())
    return site.log_density.sum(1) - 0.5 * (alpha * f).sum(1) - 0.5 * log_determinant


def _unrolled(
    prior: DifferentiableSites, rule: SiteRule, observed: Observed, sites: LikelihoodSites
) -> Tensor:
    """The bound after further steps from where they end, differentiated one by one."""
    precision, shift = sites.precision, sites.shift
    for _ in range(UNROLLED):
        mean, variance, _ = prior.posterior(precision, shift, True)
        site = rule.site(observed, mean, variance)
        target, _ = observed.precisions(site)
        precision = precision + HALF * (target - precision)
        shift = shift + HALF * (target * mean + site.slope - shift)
    mean, variance, log_determinant = prior.posterior(precision, shift, True)
    density = rule.site(observed, mean, variance).log_density.sum(1)
    cost = 0.5 * ((shift - precision * mean) * mean).sum(1)
    return density - cost + rule.gain(precision, variance, log_determinant)
