"""The log evidence of observations under a likelihood, as a function of hyperparameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from coupledgp.errors import NumericalError
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.inference.evidence.objective import Box, VectorObjective
from coupledgp.inference.sites.evidence import differentiable_evidence
from coupledgp.inference.sites.observed import Observed
from coupledgp.inference.sites.priors import DifferentiableSites
from coupledgp.inference.sites.rules import SiteRule
from coupledgp.inference.sites.steps import LikelihoodSites, find_sites
from coupledgp.likelihoods.base import Likelihood
from coupledgp.random import FloatArray

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
