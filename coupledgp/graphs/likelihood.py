"""Values at nodes whose observations follow a likelihood."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.core.estimator import ProcessRegressor
from coupledgp.core.latent import LatentGP
from coupledgp.core.options import estimator
from coupledgp.core.process import Data
from coupledgp.core.units import Units
from coupledgp.graphs.latent_search import KernelsOfNodes, LatentNodes
from coupledgp.graphs.observations import reporting_rows
from coupledgp.ground.memory import named_exhaustion
from coupledgp.ground.progress import reporter, tell
from coupledgp.likelihoods.base import Likelihood
from coupledgp.likelihoods.registry import LIKELIHOODS
from coupledgp.tables.latent_kernels import KernelChoice, TriedKernel
from coupledgp.tables.likelihood_parameter import EVIDENCE, ComparesKernels, LikelihoodOption
from coupledgp.tables.rows import RowArguments


@estimator
class NodeLikelihood(LikelihoodOption, ComparesKernels, ProcessRegressor):
    """A regressor of values at nodes whose observations may follow a likelihood."""

    def partial_fit(self, X: Any, y: ArrayLike, exposure: ArrayLike | None = None) -> Self:
        """Add observations, hyperparameters kept; the first call on an unfitted model is `fit`.

        The posterior is that of all observations, and the normalisation of y follows them. An
        error leaves the model as it was.

        Parameters
        ----------
        X, y
            Further nodes and observations, as in `fit`.
        exposure
            Exposures (n,) of the observations, for a likelihood of counts; None: ones.
        """
        if not self.__sklearn_is_fitted__():
            model: Any = self
            found: Self = model.fit(X, y, exposure=exposure)
            return found
        with named_exhaustion("partial_fit"):
            data = self._further_data(X, y, *(() if exposure is None else (exposure,)))
        return self._updated(data)

    def _exposed(self, data: Data, exposure: ArrayLike | None, y: ArrayLike) -> Data:
        """Observations with exposures of all rows of y, checked against their law."""
        kept = reporting_rows(y, self.missing)
        if exposure is not None and kept is not None and np.shape(exposure) == kept.shape:
            exposure = np.asarray(exposure)[kept]
        law = LIKELIHOODS.parse(self.likelihood, "likelihood")
        if exposure is not None and not law.takes_exposure:
            law.log_exposure(np.ones(1))  # refuses
        return RowArguments(None, None, exposure=exposure).data(data.points, data.targets)


def fit_latent_nodes(
    model: Any,
    nodes: KernelsOfNodes,
    law: Likelihood,
    data: Data,
    units: Units,
    seed: int,
) -> tuple[LatentGP, dict[str, Any]]:
    """Fit functions of nodes to values (n, k); return the process and results of the search.

    Parameters
    ----------
    model
        The estimator, whose `progress` is used.
    nodes
        Kernels of the graph.
    law, units
        Law of an observation, prior means of the functions, and their unit.
    data
        Nodes and observations, with exposures.
    seed
        Seed of the observations of the search.

    Raises
    ------
    InvalidInputError
        Observations are none of the law's, or the fit takes longer by forecast.
    """
    with reporter("fit", model.progress):
        problem = LatentNodes(nodes, law, data, units, seed)
        seconds = problem.check()
        tell(f"kernels under a likelihood: about {seconds:.0f} s of one core")
        process, tried, n_searched, search = problem.fit()
    best = min(value for _, value in tried)
    kernels = tuple(TriedKernel(name, value, value == best) for name, value in tried)
    return process, {
        "choice_": KernelChoice(kernels, n_searched, EVIDENCE),
        "forecast_": seconds,
        "n_evaluations_": search.n_evaluations,
        "converged_": search.converged,
    }
