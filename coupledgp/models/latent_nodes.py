"""Fits of functions of nodes whose observations follow a likelihood."""

from __future__ import annotations

from typing import Any

from coupledgp.gp.latent import LatentGP
from coupledgp.gp.protocol import Data
from coupledgp.gp.units import Units
from coupledgp.ground.progress import reporter, tell
from coupledgp.likelihoods.base import Likelihood
from coupledgp.models.likelihood_option import law_of, named_law, units_under
from coupledgp.search.nodes.latent import KernelsOfNodes, LatentNodes
from coupledgp.selection.latent_kernels import KernelChoice, TriedKernel

# Seconds of one core that a fit may take where no budget is given.
LATENT_SECONDS = 600.0
# What the figures of compared kernels are, in words.
EVIDENCE = "Minus the log evidence an observation, of {n} observations"


def fit_latent_nodes(
    model: Any,
    nodes: KernelsOfNodes,
    law: Likelihood,
    data: Data,
    seed: int,
) -> tuple[LatentGP, dict[str, Any]]:
    """Fit one function of nodes to values (n, 1); return the process and results of the search.

    Parameters
    ----------
    model
        The regressor, whose `likelihood` and `progress` are used.
    nodes
        Kernels of the graph.
    law
        Law of an observation.
    data
        Nodes and observations, with exposures.
    seed
        Seed of the observations of the search.

    Raises
    ------
    InvalidInputError
        Observations are none of the law's, or the fit takes longer by forecast.
    """
    law = law_of(law, data)
    units = units_under(law, data)
    law = named_law(law, model.likelihood, units)
    return search_nodes(model, nodes, law, data, units, seed)


def search_nodes(
    model: Any,
    nodes: KernelsOfNodes,
    law: Likelihood,
    data: Data,
    units: Units,
    seed: int,
) -> tuple[LatentGP, dict[str, Any]]:
    """Search for the kernel of functions of nodes; see `fit_latent_nodes`."""
    with reporter("fit", model.progress):
        problem = LatentNodes(nodes, law, data, units, seed)
        seconds = problem.check()
        tell(f"kernels under a likelihood: about {seconds:.0f} s of one core")
        found = problem.fit()
    best = min(value for _, value in found.tried)
    kernels = tuple(TriedKernel(name, value, value == best) for name, value in found.tried)
    return found.process, {
        "choice_": KernelChoice(kernels, found.n_searched, EVIDENCE),
        "forecast_": seconds,
        "n_evaluations_": found.n_evaluations,
        "converged_": found.converged,
    }
