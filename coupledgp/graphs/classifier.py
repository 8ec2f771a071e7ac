"""Classifier of the nodes of a graph."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.core.budget import seconds_of, within_budget
from coupledgp.core.latent import LatentGP
from coupledgp.core.options import estimator, points_named
from coupledgp.core.process import Data, Points
from coupledgp.core.stored import FittedModel
from coupledgp.core.units import Units
from coupledgp.errors import ModelFileError
from coupledgp.graphs import Graph
from coupledgp.graphs.estimator import AUTO_KERNELS
from coupledgp.graphs.graph import as_graph, check_nodes
from coupledgp.graphs.latent_search import KernelsOfNodes
from coupledgp.graphs.likelihood import fit_latent_nodes
from coupledgp.graphs.process import NodeGP, NodeSettings
from coupledgp.graphs.recipes import ExactRecipe
from coupledgp.kernels import GraphKernel, GraphKernelLike, parse_graph_kernel
from coupledgp.likelihoods.counts import Bernoulli
from coupledgp.random import draw_seed
from coupledgp.tables.classifier import ProcessClassifier, learn_classes, logits_of_shares
from coupledgp.tables.discrete_targets import left_out_power
from coupledgp.tables.likelihood_parameter import ComparesKernels

# Answers whose first argument is nodes.
CHANCES = ("predict", "predict_proba", "predict_log_proba", "decision_function", "partial_fit")


@points_named("nodes", *CHANCES)
@estimator
class GraphGPClassifier(ComparesKernels, ProcessClassifier):
    """Gaussian process classification of the nodes of a graph.

    `P(y = 1) = sigmoid(f)`, `f ~ N(b, v K)` with an exact graph kernel K, of each class against all
    others. Posteriors are normal laws by sites, of at most 4096 observations. The kernel has the
    greatest evidence of at most 250 observations, and its range that of at most 600.

    Parameters
    ----------
    graph
        The graph.
    kernel
        `"auto"` (heat, regularised Laplacian, Matern), a name, whose range is searched for, or a
        `coupledgp.kernels.GraphKernel`, which is kept as it is.
    random_state
        Seed of the observations of the search.
    budget
        Seconds of one core, or a text such as `"5min"`, that the fit may take by a forecast;
        `fit` refuses if it is too much.

    Attributes
    ----------
    kernel_
        Fitted kernel, which all classes share.
    choice_
        The kernels that were compared, with minus their log evidence an observation
        (`choice_.explain()`).
    forecast_
        Forecast of the cost in seconds, as it was before the fit.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> ring = cgp.Graph.from_edges(np.arange(30), (np.arange(30) + 1) % 30)
    >>> y = np.where(np.arange(0, 30, 2) < 15, "east", "west")
    >>> model = cgp.GraphGPClassifier(ring, "heat", random_state=0).fit(np.arange(0, 30, 2), y)
    >>> model.predict([7, 23]).tolist()
    ['east', 'west']
    """

    graph: Graph
    kernel: GraphKernelLike = "auto"
    random_state: Any = None
    _: KW_ONLY
    budget: float | str = 600.0

    def fit(self, nodes: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Compare kernels by their evidence, and condition on the labels of nodes.

        Parameters
        ----------
        nodes
            Labels (n,) of the observed nodes; a node may be observed more than once.
        y
            Labels (n,) of two classes or more: numbers, texts or Booleans.
        sample_weight
            Weights (n,), not negative: the log chance of a label counts so often. Observations of
            weight zero are left out.

        Raises
        ------
        InvalidInputError
            A parameter or the data are invalid, or the fit takes longer by forecast than its
            budget.
        MemoryLimitError
            Matrices do not fit into memory.
        NumericalError
            A matrix is not positive definite to working precision.
        """
        return self._assigned(lambda: self._fit(nodes, y, sample_weight), y, self.graph, y=y)

    @property
    def _graph(self) -> Graph:
        """The graph that the parameter stands for."""
        return as_graph(self.graph)

    def _fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None) -> FittedModel:
        seed = draw_seed(self.random_state)
        points = check_nodes(self._graph, X)
        classes, codes = learn_classes(y)
        data = self._observed(points, y, codes, len(classes), sample_weight)
        units = Units(logits_of_shares(data.targets, data.counts), np.ones(data.targets.shape[1]))
        with within_budget(seconds_of(self.budget)):
            process, results = fit_latent_nodes(
                self, self._kernels(seed), Bernoulli(), data, units, seed
            )
        results |= {"classes_": classes, "power_": left_out_power(process, seed)}
        return FittedModel(process, min(data.targets.shape[1], 2), results)

    def _further_data(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Data:
        codes = self._codes(y)
        return self._observed(self.points(X), y, codes, len(self.classes_), sample_weight)

    @property
    def first_process_(self) -> NodeGP:
        """The process of the function of the first class, or of the second one of two."""
        process = self.process_
        assert isinstance(process, LatentGP)
        function = process.functions[0]
        assert isinstance(function, NodeGP)
        return function

    @property
    def kernel_(self) -> Any:
        """Fitted kernel, which all classes share."""
        return self.first_process_.hyperparameters.kernel

    def _kernels(self, seed: int) -> KernelsOfNodes:
        names = AUTO_KERNELS if isinstance(self.kernel, str) and self.kernel == "auto" else None
        families = [parse_graph_kernel(name) for name in names or (self.kernel,)]
        is_free = not isinstance(self.kernel, GraphKernel)
        settings = NodeSettings(seed=seed)
        return KernelsOfNodes(ExactRecipe(self._graph), settings, families, is_free)

    def points(self, nodes: Any = None) -> Points:
        """Node numbers (p,) of labels, of all nodes if left out."""
        return check_nodes(self.first_process_.graph, nodes)

    def _plain(self, name: str, value: Any) -> Any:
        return self.first_process_.graph if name == "graph" else super()._plain(name, value)

    def check_restored(self) -> None:
        if not isinstance(self.first_process_, NodeGP):
            raise ModelFileError("process: expected one on a graph, got another process")
        self._check_classes()
