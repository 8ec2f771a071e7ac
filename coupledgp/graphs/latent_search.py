"""The search for the kernel of a function of nodes whose observations follow a likelihood.

Of each kernel on a grid of ranges the outputscale and the likelihood's parameters have the greatest
posterior density, and the kernel of greatest evidence is refined by ranges between.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from coupledgp.core.budget import current_budget
from coupledgp.core.latent import LatentGP
from coupledgp.core.minimise import Stopping
from coupledgp.core.problem import Box, VectorObjective
from coupledgp.core.process import Data, Points
from coupledgp.core.search import Search, SearchResult
from coupledgp.core.sites import REACH, DenseRows, Observed, Pull, SiteObjective
from coupledgp.core.units import Units
from coupledgp.errors import InvalidInputError, NumericalError
from coupledgp.graphs.evidence import Scales
from coupledgp.graphs.priors import GraphPrior
from coupledgp.graphs.process import DENSE_POSTERIOR_LIMIT, NodeGP, NodeSettings
from coupledgp.graphs.recipes import SPECTRAL_NODES, ExactRecipe, NodePriorRecipe, WalkRecipe
from coupledgp.ground.progress import tell
from coupledgp.kernels import GraphKernel
from coupledgp.likelihoods.base import Likelihood
from coupledgp.random import FloatArray, IntArray

# Multiply-adds of sparse products of a column of a kernel over those of one product, and their
# seconds; seconds of a cubed node of an eigendecomposition.
PRODUCTS, SECONDS, EIGEN_SECONDS = 200, 2e-9, 1e-9
# Mean and standard deviation of the prior of the logarithm of the variance of f, at a mean node,
# over the square of its unit.
LOG_VARIANCE, WIDTH = 1.0, 1.5
# Observations of the search over all kernels, and of that for the last hyperparameters; iterations.
SEARCHED_ROWS, LAST_ROWS = 250, 600
ITERATIONS, LAST_ITERATIONS = 6, 25
# Tolerance of the evidence an observation, nats.
TOLERANCE = 1e-5
# Factors on the range around the best kernel so far, and rounds of these.
FINER, MOST_ROUNDS = (2**-0.5, 2**0.5), 4
# Seconds of one core of a cubed row of an evaluation or a step, and evaluations of a kernel.
CUBE_SECONDS, EVALUATIONS = 1.5e-9, 8
# Seconds of an evaluation beside those of its matrices, and steps to a posterior.
LEAST_SECONDS, STEPS = 0.02, 12


@dataclass(frozen=True, eq=False)
class KernelsOfNodes:
    """Graph kernels of some families.

    Attributes
    ----------
    recipe : NodePriorRecipe
        Settings by which a kernel becomes the prior of the process; the search has exact kernels.
    settings : NodeSettings
        Settings of posteriors.
    families : sequence of GraphKernel
        A kernel of each family.
    is_free : bool
        Whether their parameters are searched for.
    """

    recipe: NodePriorRecipe
    settings: NodeSettings
    families: Sequence[GraphKernel]
    is_free: bool = True
    _priors: dict[Any, GraphPrior] = field(default_factory=dict)

    @property
    def _exact(self) -> NodePriorRecipe:
        recipe = self.recipe
        return ExactRecipe(recipe.graph) if isinstance(recipe, WalkRecipe) else recipe

    def kernels(self) -> Sequence[GraphKernel]:
        """Kernels on a grid."""
        graph = self.recipe.graph
        if not self.is_free:
            return self.families
        return [kernel for own in self.families for kernel in own.scan_on(graph)]

    def scaled(self, kernel: GraphKernel, factor: float) -> GraphKernel:
        """The kernel with another range; itself where that is not free."""
        return kernel.scaled(factor) if self.is_free else kernel

    def gram(self, kernel: GraphKernel, points: Points) -> FloatArray:
        """Covariances (n, n) of a function of outputscale one."""
        if kernel not in self._priors:
            self._priors.clear()  # one at a time: eigenvectors are as many as nodes squared
            self._priors[kernel] = self._exact.make(kernel).prior
        found: FloatArray = np.asarray(self._priors[kernel].matrix(points, points))
        return 0.5 * (found + found.T)

    def gram_seconds(self, n_points: int) -> float:
        """Forecast of the seconds of one core of such a matrix."""
        graph = self.recipe.graph
        if graph.n_nodes <= SPECTRAL_NODES:
            return EIGEN_SECONDS * graph.n_nodes**3
        return SECONDS * PRODUCTS * n_points * (graph.indices.size + graph.n_nodes)

    def function(
        self, kernel: GraphKernel, outputscale: float, unit: float, row: Data, units: Units
    ) -> NodeGP:
        """A process given one row, which carries the prior of a function to a `LatentGP`."""
        noise = unit**2
        scales = Scales(outputscale, noise, 0.0)
        chosen = self.recipe.make(kernel, scales)
        return NodeGP.given(self.recipe, chosen, self.settings, scales, row, units, False)


def mean_variance(gram: FloatArray, counts: FloatArray | None) -> float:
    """Mean of the variances of covariances (n, n), each as often as its row counts."""
    return float(np.average(gram.diagonal(), weights=counts))


class NodeEvidence(VectorObjective):
    """Minus the log posterior of outputscale and likelihood's parameters, per observation.

    Variables (1 + l,) are the logarithm of the variance of f over its unit, at a mean node, and
    logarithms of the parameters.

    Parameters
    ----------
    gram
        Covariances (n, n) of outputscale one.
    observed
        Observations of each function over its unit.
    """

    def __init__(self, gram: FloatArray, observed: Sequence[Observed]) -> None:
        counts = observed[0].counts
        n = gram.shape[0] if counts is None else counts.sum()
        self.level, self.size = mean_variance(gram, counts), float(n * len(observed))
        matrix = gram / self.level

        def prior(variables: FloatArray) -> tuple[DenseRows, Pull]:
            own = np.exp(variables[0]) * matrix
            return DenseRows(own), lambda cotangent: np.array([np.vdot(cotangent, own)])

        self.sites = SiteObjective(prior, 1, observed)

    def box(self, start: FloatArray) -> Box:
        return [
            (LOG_VARIANCE - REACH, LOG_VARIANCE + REACH),
            *self.sites.likelihood.log_box(start[1:], REACH),
        ]

    def value_and_gradient(self, variables: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = self.sites.value_and_gradient(variables)
        gap = (variables[0] - LOG_VARIANCE) / WIDTH
        gradient[0] += gap / WIDTH
        return (value + 0.5 * float(gap**2)) / self.size, gradient / self.size


@dataclass(frozen=True, eq=False)
class LatentNodes:
    """A function of nodes for each output, whose kernel is searched for.

    Attributes
    ----------
    nodes : KernelsOfNodes
        Kernels of the graph.
    likelihood : Likelihood
        Law of an observation, with the parameters where the search starts.
    data : Data
        Points and observations (n, k), which share the hyperparameters.
    units : Units
        Prior means of the functions, and their units, which are all the same.
    seed : int
        Seed of the observations of the search.
    """

    nodes: KernelsOfNodes
    likelihood: Likelihood
    data: Data
    units: Units
    seed: int

    def check(self) -> float:
        """Seconds of one core that the fit takes by forecast.

        Raises
        ------
        InvalidInputError
            They exceed the budget, or there are too many observations.
        """
        n, k = self.data.targets.shape
        most = DENSE_POSTERIOR_LIMIT
        if n > most:
            raise InvalidInputError(
                f"y: expected at most {most} observations under a likelihood for this model, got "
                f"{n}; fit on a sample of them"
            )
        few, last = min(n, SEARCHED_ROWS), min(n, LAST_ROWS)
        kernels = len(self.nodes.kernels())
        each = EVALUATIONS * self._seconds(few, k) + self.nodes.gram_seconds(few)
        near = 1 + MOST_ROUNDS
        end = near * (EVALUATIONS * self._seconds(last, k) + self.nodes.gram_seconds(last))
        own = STEPS * self._seconds(n, 1) + self.nodes.gram_seconds(n)
        seconds = kernels * each + end + k * own
        budget = current_budget().seconds
        if budget is not None and seconds > budget:
            raise InvalidInputError(
                f"budget: a function of {n} observations under a likelihood and {kernels} kernels "
                f"would take about {seconds:.0f} s of one core, more than the budget of "
                f"{budget:g} s; raise the budget, name one kernel, or fit on a sample"
            )
        return seconds

    @staticmethod
    def _seconds(n_rows: int, n_outputs: int) -> float:
        return LEAST_SECONDS + n_outputs * CUBE_SECONDS * n_rows**3

    @property
    def unit(self) -> float:
        """Unit of the functions."""
        return float(self.units.scale[0])

    def fit(self) -> tuple[LatentGP, tuple[tuple[str, float], ...], int, SearchResult[FloatArray]]:
        """Find the kernel, the outputscale and the likelihood's parameters, then the posterior.

        Returns
        -------
        process : LatentGP
            The process given all observations.
        tried : tuple of (str, float)
            Kernels that were compared, with minus the log posterior of an observation, nats.
        n_searched : int
            Observations by which they were compared.
        search : SearchResult
            The last search, with the evaluations of all.

        Raises
        ------
        NumericalError
            Sites converge for no kernel.
        """
        search, rows = Search(), self._rows(SEARCHED_ROWS)
        found: dict[Any, SearchResult[FloatArray]] = {}
        self._compare(search, self.nodes.kernels(), rows, found)
        n_searched = len(rows)
        best = min(found, key=lambda kernel: found[kernel].value)
        tried = tuple((str(kernel), own.value) for kernel, own in found.items())
        finer: dict[Any, SearchResult[FloatArray]] = {}
        kernel, start = best, found[best].point
        for _ in range(MOST_ROUNDS):
            near = [kernel, *(self.nodes.scaled(kernel, factor) for factor in FINER)]
            new = [own for own in near if own not in finer]
            if not new:
                break
            self._compare(search, new, self._rows(LAST_ROWS), finer, start)
            kernel = min(finer, key=lambda own: finer[own].value)
            start = finer[kernel].point
        tell("posterior")
        process = self._process(kernel, finer[kernel].point)
        last = replace(finer[kernel], n_evaluations=search.n_evaluations)
        return process, tried, n_searched, last

    def _rows(self, size: int) -> IntArray:
        n = len(self.data)
        if size >= n:
            return np.arange(n)
        return np.sort(np.random.default_rng([self.seed, size]).choice(n, size, replace=False))

    def _compare(
        self,
        search: Search,
        kernels: Sequence[Any],
        rows: IntArray,
        found: dict[Any, SearchResult[FloatArray]],
        start: FloatArray | None = None,
    ) -> None:
        """Add searches of kernels by observations of some rows; each starts where one ended."""
        data, failed = self.data.take(rows), None
        law = self.likelihood.rescaled(1 / self.unit)
        offset = self.units.offset / self.unit
        observed = Observed.of(law, data.targets / self.unit, offset, data.weights)
        first = np.array([LOG_VARIANCE, *np.log(list(law.parameters.values()))])
        most = ITERATIONS if start is None else LAST_ITERATIONS
        point = first if start is None else start
        for kernel in dict.fromkeys(kernels):
            gram = self.nodes.gram(kernel, data.points)
            try:
                own = self._searched(search, gram, observed, (point, first), most)
            except NumericalError as error:
                failed = error
                continue
            found[kernel], point = own, own.point
        if not found:
            raise failed or NumericalError("kernel: no kernel has an evidence")

    def _searched(
        self,
        search: Search,
        gram: FloatArray,
        observed: Sequence[Observed],
        starts: tuple[FloatArray, FloatArray],
        most: int,
    ) -> SearchResult[FloatArray]:
        objective = NodeEvidence(gram, observed)
        for start in starts:
            try:
                return search.improved(objective, start, Stopping(most, TOLERANCE))
            except NumericalError as error:
                failed = error
        raise failed

    def _process(self, kernel: Any, point: FloatArray) -> LatentGP:
        """The process given all observations."""
        law = self.likelihood.with_parameters(
            dict(zip(self.likelihood.parameters, np.exp(point[1:]).tolist(), strict=True))
        ).rescaled(self.unit)
        rows = self._rows(LAST_ROWS)
        few = self.data.take(rows)
        level = mean_variance(self.nodes.gram(kernel, few.points), few.counts)
        outputscale = float(np.exp(point[0])) * self.unit**2 / level
        functions = [
            self.nodes.function(
                kernel, outputscale, self.unit,
                Data.of(self.data.points[:1], np.full((1, 1), offset)),
                Units(np.array([offset]), np.ones(1)),
            )
            for offset in self.units.offset
        ]  # fmt: skip
        return LatentGP.given(functions, law, self.data)
