"""The log evidence of observations under a likelihood, as a function of hyperparameters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from coupledgp.inference.evidence.objective import Box, VectorObjective
from coupledgp.inference.sites.laplace import laplace_evidence, laplace_sites
from coupledgp.inference.sites.priors import SitePrior
from coupledgp.likelihoods.base import Likelihood
from coupledgp.random import FloatArray

# Factor by which hyperparameters may leave the start of a run, as a logarithm.
REACH = float(np.log(1e4))


class LaplaceObjective(VectorObjective):
    """Minus the log evidence by Laplace's approximation, of all outputs together.

    Variables (q,) are those of the prior, then the logarithms of the likelihood's parameters.

    Parameters
    ----------
    prior
        Prior of the function, differentiable, as a function of its variables, a tensor.
    n_variables
        Number of variables of the prior.
    likelihood
        Law of observations given the function; its own parameters are where a search starts.
    targets
        Observations (n, k).
    offset
        Prior mean (k,) of each output.
    """

    def __init__(
        self,
        prior: Callable[[Tensor], SitePrior],
        n_variables: int,
        likelihood: Likelihood,
        targets: FloatArray,
        offset: FloatArray,
    ) -> None:
        self.prior = prior
        self.n_variables = n_variables
        self.likelihood = likelihood
        self.targets = torch.as_tensor(targets.T.copy(), dtype=torch.float64)
        self.offset = torch.as_tensor(offset)

    def likelihood_at(self, logarithms: Tensor) -> Likelihood:
        """The likelihood with other parameters (q - n_variables,), which may require gradients."""
        values = zip(self.likelihood.parameters, logarithms.exp(), strict=True)
        return self.likelihood.with_parameters(dict(values))

    def likelihood_of(self, variables: FloatArray) -> Likelihood:
        """The likelihood of variables (q,), its parameters numbers."""
        values = np.exp(variables[self.n_variables :]).tolist()
        own = zip(self.likelihood.parameters, values, strict=True)
        return self.likelihood.with_parameters(dict(own))

    def box(self, start: FloatArray) -> Box:
        """Box of the variables in a run, which are logarithms."""
        return [(value - REACH, value + REACH) for value in start]

    def value_and_gradient(self, variables: FloatArray) -> tuple[float, FloatArray]:
        """The objective at variables (q,), and its gradient (q,); none where no mode is found."""
        at = torch.tensor(variables, requires_grad=True)
        own, others = at[: self.n_variables], at[self.n_variables :]
        with torch.no_grad():
            sites = laplace_sites(
                self.prior(own), self.likelihood_of(variables), self.targets, self.offset
            )
        likelihood = self.likelihood_at(others)
        evidence = laplace_evidence(
            self.prior(own), likelihood, self.targets, self.offset, sites.mode
        ).sum()
        (gradient,) = torch.autograd.grad(-evidence, at)
        return -float(evidence.detach()), gradient.numpy()
