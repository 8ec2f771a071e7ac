"""Fits of functions whose observations follow a likelihood, by the greatest evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from coupledgp.gp.exact import StationaryPrior
from coupledgp.gp.latent import LatentGP
from coupledgp.gp.normalized_process import NormalizedProcess
from coupledgp.gp.protocol import Data
from coupledgp.gp.units import Units
from coupledgp.gp.weight_space import FeaturePrior
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.inference.dense.system import stationary_covariance
from coupledgp.inference.sites.objective import SiteObjective
from coupledgp.inference.sites.priors import DenseSites, DifferentiableSites, FeatureSites
from coupledgp.inference.sites.rules import Observed, rule_of
from coupledgp.likelihoods.base import Likelihood
from coupledgp.random import FloatArray
from coupledgp.search.minimise import Stopping
from coupledgp.search.search import Search


def fit_latent(
    prior: StationaryPrior | FeaturePrior,
    likelihood: Likelihood,
    data: Data,
    offset: FloatArray | None = None,
    max_iterations: int = 100,
    inference: str = "variational",
) -> LatentGP:
    """Maximise the log evidence over lengthscales, outputscale and the likelihood's parameters.

    Parameters
    ----------
    prior
        Kernel or features of f, and the hyperparameters where the search starts; the noise
        variance is the unit of the sites' and is kept.
    likelihood
        Law of observations given f, with the parameters where the search starts.
    data
        Points (n, d) and observations (n, k), which share the hyperparameters.
    offset
        Prior mean (k,) of f; None: zeros.
    max_iterations
        Most iterations of L-BFGS.
    inference
        The rule of the sites, "variational" or "laplace".

    Raises
    ------
    InvalidInputError
        Observations are none of the likelihood's, or rows have noise of their own.
    NumericalError
        The sites do not converge at the start.
    """
    n_outputs, dim = data.targets.shape[1], data.points.shape[1]
    offset = np.zeros(n_outputs) if offset is None else offset
    observed = Observed.of(likelihood, data.targets, offset, data.weights)
    objective = SiteObjective(_sites_of(prior, data.points), dim + 1, observed, rule_of(inference))
    hyper = prior.hyperparameters
    lengthscale = np.broadcast_to(hyper.lengthscale, (dim,))
    start = np.log([*lengthscale, hyper.outputscale, *likelihood.parameters.values()])
    found = Search().improved(objective, start, Stopping(max_iterations)).point
    values = np.exp(found)
    fitted = replace(
        prior,
        hyperparameters=replace(hyper, lengthscale=values[:dim], outputscale=float(values[dim])),
    )
    functions = [one_row(fitted, data, b) for b in offset]
    return LatentGP.given(functions, objective.likelihood_of(found), data, inference)


def one_row(prior: StationaryPrior | FeaturePrior, data: Data, offset: float) -> NormalizedProcess:
    """A process of the prior given one row, which carries prior and units to a `LatentGP`."""
    row = Data.of(data.points[:1], np.full((1, 1), offset))
    found: NormalizedProcess = prior.given(row, Units(np.array([offset]), np.ones(1)), False)
    return found


def _sites_of(
    prior: StationaryPrior | FeaturePrior, points: FloatArray
) -> Callable[[Tensor], DifferentiableSites]:
    """The prior at rows (n, d) as a function of logarithms of lengthscales and outputscale."""
    rows = torch.as_tensor(points)
    if isinstance(prior, StationaryPrior):
        spectrum = prior.spectrum
        middle = rows.median(0).values

        def dense(variables: Tensor) -> DifferentiableSites:
            gram = stationary_covariance(spectrum, rows - middle, variables[:-1])
            return DenseSites(variables[-1].exp() * gram)

        return dense
    feature_map, center = prior.feature_map, torch.as_tensor(prior.center)

    def features(variables: Tensor) -> DifferentiableSites:
        inputs = (rows - center) / variables[:-1].exp()
        values = feature_map(inputs.to(feature_map.dtype)).double()
        scaled = (variables[-1] / 2).exp() * values
        return FeatureSites(lambda: [scaled])

    return features
