"""The Gaussian process on the nodes of a graph, given data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np

from coupledgp.core.inverse_covariance import InverseCovariance
from coupledgp.core.mixture import MixtureGP
from coupledgp.core.normalized_process import NormalizedProcess
from coupledgp.core.process import Data, Points, Want
from coupledgp.core.units import Units
from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.features import HopPlan
from coupledgp.graphs import Graph
from coupledgp.graphs.evidence import (
    DenseEvidence,
    GraphEvidence,
    IterativeEvidence,
    Scales,
    tolerance_for,
)
from coupledgp.graphs.laplacian_power import SolvePrior, precision_pays
from coupledgp.graphs.observations import informative_rows
from coupledgp.graphs.posterior import (
    BLOCK,
    DensePosterior,
    GraphPosterior,
    GraphProblem,
    IterativePosterior,
    PrecisionNodePosterior,
    error_of_direct,
    node_inverse,
)
from coupledgp.graphs.priors import GraphPrior, ScaledPrior, SeriesPrior, WalkPrior, unscaled
from coupledgp.graphs.recipes import ChosenPrior, ExactRecipe, NodePriorRecipe, WalkRecipe
from coupledgp.ground.codec import check_range, check_shapes, stored
from coupledgp.ground.memory import check_memory
from coupledgp.ground.tensors import torch
from coupledgp.ground.validation import LARGEST_PRODUCT, SMALLEST_PRODUCT, check_choice
from coupledgp.kernels import GraphKernel
from coupledgp.likelihoods.base import Likelihood
from coupledgp.likelihoods.gaussian import Gaussian
from coupledgp.linalg.low_rank import warn_if_imprecise
from coupledgp.random import FloatArray, draw_seed

# Most random vectors that a file may ask for.
MOST_VECTORS = 2**16
METHODS = ("spectral", "series", "cholesky")
# Largest numbers of observations for which a Cholesky factor is used: for the evidence, which is
# evaluated often, and for the posterior, which is computed once.
DENSE_EVIDENCE_LIMIT = 1024
DENSE_POSTERIOR_LIMIT = 4096
# Most entries of the covariances between the observations and all nodes that are formed at once,
# 128 MiB.
DENSE_ENTRIES = 2**26
# Seconds, by forecast, that exact variances may take where samples are the other way.
VARIANCE_SECONDS = 30.0
# Names of posteriors in a file, where those that follow from the prior are called iterative.
SOLVERS: dict[type[GraphPosterior], Literal["dense", "precision"]] = {
    DensePosterior: "dense",
    PrecisionNodePosterior: "precision",
}


@stored
@dataclass(frozen=True)
class NodeSettings:
    """Settings of computations on nodes; the attributes are parameters of `GraphGPRegressor`.

    Attributes
    ----------
    solver : str
        `"auto"`, `"dense"` or `"iterative"`.
    n_probes : int
        Number of random vectors of the iterative evidence.
    exact_variances : int
        Largest number of nodes whose variances are computed by a solve each.
    n_variance_samples : int
        Number of pathwise samples from which the variances of more nodes are estimated.
    seed : int
        Seed of probes and of pathwise samples.
    """

    solver: str = "auto"
    n_probes: int = 16
    exact_variances: int = 1024
    n_variance_samples: int = 1024
    seed: int = 0

    def read_back(self) -> NodeSettings:
        """The settings of a file."""
        check_choice(self.solver, ("auto", "dense", "iterative"), "solver")
        check_range(self, 1, MOST_VECTORS, "n_probes", "n_variance_samples")
        check_range(self, 0, 2**63, "exact_variances", "seed")
        return self

    def is_dense(self, n_observed: int, n_nodes: int, limit: int) -> bool:
        """Whether to use a Cholesky factor of the observations' covariance."""
        if self.solver != "auto":
            return self.solver == "dense"
        return n_observed <= limit and n_observed * n_nodes <= DENSE_ENTRIES

    def evidence(self, prior: GraphPrior, nodes: Points, targets: FloatArray) -> GraphEvidence:
        """Evidence of normalised targets (n, k) at nodes (n,)."""
        if self.is_dense(nodes.size, prior.graph.n_nodes, DENSE_EVIDENCE_LIMIT):
            return DenseEvidence(prior, nodes, targets)
        return IterativeEvidence(prior, nodes, targets, self.n_probes, seed=self.seed)


@stored
class NodeEvidence(NamedTuple):
    """Log evidence of y in its own units.

    Attributes
    ----------
    value : float
        Log evidence, nats.
    error : float
        Its standard error, nats; zero where it is exact.
    """

    value: float
    error: float


@dataclass(frozen=True)
class NodeHyperparameters:
    """Fitted kernel, and the variances of f and of the noise in normalised units."""

    kernel: GraphKernel
    outputscale: float
    noise: float


@dataclass(frozen=True, eq=False, repr=False)
class NodeGP(NormalizedProcess):
    """`f ~ N(0, v K)` on the nodes, `y = f + e`, given data.

    Attributes
    ----------
    recipe : NodePriorRecipe
        Settings from which the prior was made, and is made again for another draw.
    chosen : ChosenPrior
        Prior of f, with its method.
    settings : NodeSettings
        Settings of the computation of evidence and posterior.
    posterior : GraphPosterior
        Posterior of f in normalised units.
    units : Units
        Units of y.
    normalize : bool
        Whether the units follow the data when observations are added.
    rows : Data
        Node numbers (n,) and targets (n, k).
    known_evidence : NodeEvidence or None
        Log evidence if it is known already; None: it is computed when asked for.
    """

    points_are: ClassVar[str] = "nodes"
    recipe: NodePriorRecipe
    chosen: ChosenPrior
    settings: NodeSettings
    posterior: GraphPosterior
    units: Units
    normalize: bool
    rows: Data
    known_evidence: NodeEvidence | None = None

    @classmethod
    def given(
        cls,
        recipe: NodePriorRecipe,
        chosen: ChosenPrior,
        settings: NodeSettings,
        scales: Scales,
        data: Data,
        units: Units,
        normalize: bool,
        known_evidence: NodeEvidence | None = None,
    ) -> NodeGP:
        """Condition a prior on data, with the scales v and s in normalised units.

        Raises
        ------
        InvalidInputError
            Observations count other than once.
        """
        if data.counts is not None and (data.counts != 1).any():
            raise InvalidInputError("data: expected observations that count once each on a graph")
        nodes, relative = data.points, data.relative_noise
        dense = settings.is_dense(nodes.size, recipe.graph.n_nodes, DENSE_POSTERIOR_LIMIT)
        make = posterior_class(chosen.prior, settings.solver, dense)
        if relative is not None:  # other classes have one noise for all
            make = DensePosterior if dense else IterativePosterior
        targets = units.normalized(data.targets)
        posterior = make(
            chosen.prior, nodes, targets, scales.outputscale, scales.noise,
            **({} if relative is None else {"relative": relative}),
        )  # fmt: skip
        if not isinstance(posterior, IterativePosterior):  # whose tolerance is its own
            subject = f"noise: {scales.noise / scales.outputscale:.1g} of the outputscale"
            warn_if_imprecise(error_of_direct(posterior, targets), subject, "raise the noise")
        return cls(recipe, chosen, settings, posterior, units, normalize, data, known_evidence)

    @property
    def graph(self) -> Graph:
        """The graph as it was given."""
        return self.recipe.graph

    @property
    def prior_of_nodes(self) -> GraphPrior:
        """The prior of f, of unit output scale."""
        return self.chosen.prior

    @property
    def noise(self) -> Likelihood:
        return Gaussian(self.posterior.noise)

    @property
    def hyperparameters(self) -> NodeHyperparameters:
        posterior = self.posterior
        return NodeHyperparameters(posterior.prior.kernel, posterior.outputscale, posterior.noise)

    @property
    def log_evidence(self) -> float:
        return self.node_evidence.value

    @cached_property
    def node_evidence(self) -> NodeEvidence:
        """Log evidence of y in its own units and its standard error, nats."""
        if self.known_evidence is not None:
            return self.known_evidence
        if isinstance(self.posterior, PrecisionNodePosterior):
            jacobian = self.units.log_jacobian(len(self.rows))
            return NodeEvidence(self.posterior.log_evidence() - jacobian, 0.0)
        if self.rows.weights is not None and isinstance(self.posterior, DensePosterior):
            targets = self.units.normalized(self.rows.targets)
            jacobian = self.units.log_jacobian(len(self.rows))
            return NodeEvidence(self.posterior.log_evidence(targets) - jacobian, 0.0)
        return self._measured(self.rows, self.units)

    def _measured(self, data: Data, units: Units) -> NodeEvidence:
        """Log evidence of data under this prior.

        Raises
        ------
        NumericalError
            The kernel's diagonal has overflowed, as happens with walks that are far too long.
        """
        prior, nodes, targets = self.prior_of_nodes, data.points, units.normalized(data.targets)
        jacobian = units.log_jacobian(len(data))
        relative = data.relative_noise
        if relative is not None:
            if np.unique(nodes).size < nodes.size:
                raise InvalidInputError(
                    "data: expected one observation of a node for an evidence without a Cholesky "
                    "factor where rows have noise of their own; use solver='dense'"
                )
            # The law of rows over the roots of their relative noise has one noise for all.
            root = np.ones(prior.graph.n_nodes)
            root[nodes] = 1 / np.sqrt(relative)
            prior, targets = ScaledPrior(prior, root), targets * root[nodes, None]
            jacobian -= targets.shape[1] * float(np.log(root[nodes]).sum())
        measures = self.settings.evidence(prior, nodes, targets).measures
        scales = self.posterior.outputscale, self.posterior.noise
        value = measures.profile(*scales).log_evidence - jacobian
        return NodeEvidence(value, measures.log_evidence_error(*scales))

    def latent_law(self, points: Points, want: Want) -> tuple[FloatArray, FloatArray | None]:
        """Mean (p, k) of f, and its variance (p,), covariance (p, p) or None, normalised units.

        Variances are exact for at most `settings.exact_variances` nodes, and for more where the
        posterior has a factor from which they follow within `VARIANCE_SECONDS`. Else they come from
        pathwise samples: standard deviations then have a relative error of
        `1 / sqrt(2 settings.n_variance_samples)`.
        """
        mean = self.posterior.mean(points)
        if want == "mean":
            return mean, None
        if want == "covariance":
            self._check_joint_size(points.size)
            return mean, self.posterior.covariance(points)
        if points.size <= self.settings.exact_variances or self._has_variances(points.size):
            return mean, self.posterior.variance(points)
        rng = np.random.default_rng(self.settings.seed)
        count = self.settings.n_variance_samples
        return mean, self.posterior.sampled_variance(points, count, rng)

    def _has_variances(self, n_wanted: int) -> bool:
        """Whether exact variances of many nodes follow from a factor and the prior's diagonal."""
        prior = unscaled(self.posterior.prior)
        if not self.posterior.has_all_variances or self.settings.solver == "dense":
            return self.posterior.has_all_variances
        return (
            not isinstance(prior, SeriesPrior)
            or prior.diagonal_seconds(n_wanted) <= VARIANCE_SECONDS
        )

    def inverse_covariance(self) -> InverseCovariance:
        """Inverse covariance of the observations; without a factor, by a solve for each.

        There are at most `settings.exact_variances` of these.
        """
        posterior = self.posterior
        errors = self.units.normalized(self.rows.targets) - posterior.mean(posterior.nodes)
        return node_inverse(posterior, errors, self.settings.exact_variances)

    def _check_joint_size(self, n_wanted: int) -> None:
        """Refuse a joint law that does not fit in memory, before it is computed."""
        block = min(n_wanted, BLOCK) * (2 * self.graph.n_nodes + self.posterior.nodes.size)
        check_memory(
            8.0 * ((2 + self.units.n_outputs) * n_wanted**2 + 3 * block),
            f"nodes: the joint law of {n_wanted} nodes",
            "ask for fewer nodes, for return_std, or for sample_y",
        )

    def latent_samples(
        self, points: Points, n_samples: int, rng: np.random.Generator
    ) -> FloatArray:
        """Draws (p, k, n_samples) of f in normalised units, by pathwise sampling."""
        return self.posterior.sample(points, n_samples, rng)

    def latent_prior(self, points: Points) -> FloatArray:
        self._check_joint_size(points.size)
        return self.posterior.outputscale * self.prior_of_nodes.matrix(points, points)

    def own_problem(self) -> GraphProblem:
        posterior, units = self.posterior, self.units
        return GraphProblem(
            posterior.prior, posterior.nodes, units.normalized(self.rows.targets),
            posterior.outputscale, posterior.noise, units.offset, units.scale,
            self.rows.relative_noise,
        )  # fmt: skip

    def exact_problem(self) -> GraphProblem:
        """Prior and data of the exact process, accurate to a small share of the noise."""
        own = self.own_problem()
        if not isinstance(own.prior, WalkPrior):
            return own
        graph, kernel = self.graph.closed, own.prior.kernel
        tolerance = tolerance_for(own.noise / own.outputscale)
        if graph.node_scale is not None:
            scales = Scales(own.outputscale, own.noise, np.nan)
            return replace(own, prior=ExactRecipe(self.graph).make(kernel, scales).prior)
        return replace(own, prior=SeriesPrior(graph, kernel, tolerance))

    def exact(self) -> NodeGP:
        if isinstance(self.recipe, ExactRecipe):
            return self
        return self.remade(ExactRecipe(self.graph), self.settings)

    def on(self, device: torch.device) -> NodeGP:
        """The process with its tensors on a device, where the posterior is computed again.

        Raises
        ------
        InvalidInputError
            The prior is no series: other methods compute on the CPU.
        """
        recipe = self.recipe
        if device == recipe.device:
            return self
        if not isinstance(unscaled(self.prior_of_nodes), SeriesPrior):
            raise InvalidInputError(
                f"device: expected None, since the method {self.chosen.method!r} computes on the "
                f"CPU, got {device}; fit ExactGraphGPRegressor(method='series', device=...)"
            )
        assert isinstance(recipe, (ExactRecipe, WalkRecipe))
        return self.remade(replace(recipe, device=device), self.settings)

    def redrawn(self, coupling: Any, size: int, seed: int) -> NodeGP:
        """Return the process with another draw of `size` walkers per node, given its data."""
        own = draw_seed(seed)
        recipe = self.recipe.redrawn(coupling, size, own)
        return self.remade(recipe, replace(self.settings, seed=own))

    def remade(self, recipe: NodePriorRecipe, settings: NodeSettings) -> NodeGP:
        """Return the process with a prior made by another recipe, kernel, scales and data kept."""
        hyper = self.hyperparameters
        chosen = recipe.make(hyper.kernel, Scales(hyper.outputscale, hyper.noise, np.nan))
        made = replace(self, recipe=recipe, chosen=chosen, settings=settings)
        return made.given_data(self.rows, self.units)

    def given_data(self, data: Data, units: Units) -> NodeGP:
        """The prior of this process given other data, scales kept in normalised units."""
        known = None
        n_nodes = self.graph.n_nodes
        dense = self.settings.is_dense(len(data), n_nodes, DENSE_EVIDENCE_LIMIT)
        alike = data.weights is None
        if dense and alike and not isinstance(unscaled(self.prior_of_nodes), SolvePrior):
            # It costs little, and refuses kernels that overflow.
            known = self._measured(data, units)
        scales = Scales(self.posterior.outputscale, self.posterior.noise, np.nan)
        return NodeGP.given(
            self.recipe, self.chosen, self.settings, scales, data, units, self.normalize, known
        )

    def conditioned(self, data: Data, *, renormalize: bool = False) -> NodeGP:
        units = units_of(self.graph, data, self.normalize) if renormalize else self.units
        return self.given_data(data, units)

    def as_stored(self) -> StoredNodes:
        """What a file holds, from which the prior is made again, and every walk is drawn again."""
        posterior = self.posterior
        prior = posterior.prior
        return StoredNodes(
            self.recipe, self.settings, prior.kernel, float(posterior.outputscale),
            float(posterior.noise), self.chosen.method, self.chosen.reason,
            prior.plan if isinstance(prior, WalkPrior) else None,
            SOLVERS.get(type(posterior), "iterative"), posterior.weights,
            self.rows.as_one_batch(), self.units, self.normalize, self.known_evidence,
        )  # fmt: skip


@stored
class StoredNodes(NamedTuple):
    """A process on nodes in a file."""

    recipe: NodePriorRecipe
    settings: NodeSettings
    kernel: GraphKernel
    outputscale: float
    noise: float
    method: str
    reason: str
    plan: HopPlan | None
    solver: Literal["dense", "precision", "iterative"]
    weights: FloatArray
    rows: Data
    units: Units
    normalize: bool
    evidence: NodeEvidence | None

    def read_back(self) -> NodeGP:
        """The process.

        Raises
        ------
        ModelFileError
            Nodes, walks or the method are none that a fit has.
        """
        n, k = len(self.rows), self.units.n_outputs
        nodes, relative = self.rows.points, self.rows.relative_noise
        check_range(self, SMALLEST_PRODUCT, LARGEST_PRODUCT, "outputscale", "noise")
        check_shapes(self, weights=(n, k))
        check_shapes(self.rows, points=(n,), targets=(n, k))
        check_range(self.rows, 0, self.recipe.graph.n_nodes - 1, "points")
        if nodes.dtype.kind != "i":
            raise ModelFileError(f"nodes: expected integers, got {nodes.dtype}")
        chosen = self._prior()
        is_dense = self.solver == "dense"
        solver = "auto" if self.solver == "precision" else self.solver
        make = posterior_class(chosen.prior, solver, is_dense)
        own = {}
        if relative is not None:
            make = DensePosterior if is_dense else IterativePosterior
            own = {"relative": relative}
        posterior = make(
            chosen.prior, nodes, self.units.normalized(self.rows.targets), self.outputscale,
            self.noise, weights=self.weights, **own,
        )  # fmt: skip
        return NodeGP(
            self.recipe, chosen, self.settings, posterior, self.units, self.normalize, self.rows,
            self.evidence,
        )  # fmt: skip

    def _prior(self) -> ChosenPrior:
        """The prior, by the method that was chosen when the file was written."""
        recipe = self.recipe
        check_choice(self.method, (*METHODS, "walks"), "method")
        if self.plan is not None:
            if not isinstance(recipe, WalkRecipe):
                raise ModelFileError("plan: expected none for a model without walks, got one")
            return ChosenPrior(recipe.behind(self.kernel, self.plan), "walks", self.reason)
        if isinstance(recipe, WalkRecipe) or self.solver == "precision":
            recipe = ExactRecipe(recipe.graph, self.method)  # type: ignore[arg-type]
        scales = Scales(self.outputscale, self.noise, float("nan"))
        return recipe.make(self.kernel, scales)._replace(reason=self.reason)


def units_of(graph: Graph, data: Data, normalize: bool) -> Units:
    """Units of observations; of components with few observed nodes none enters them."""
    usable = informative_rows(graph.components()[1][data.points], data.points)
    return Units.of(data.targets[usable], normalize)


def posterior_class(prior: GraphPrior, solver: str, dense: bool) -> Callable[..., GraphPosterior]:
    """Return the class that computes the posterior of a prior.

    Parameters
    ----------
    prior
        The prior.
    solver
        The solver that was asked for; with `"auto"` sparse precisions are used where they pay.
    dense
        Whether a Cholesky factor of the observations' covariance is affordable.
    """
    own = unscaled(prior)
    if solver == "auto" and isinstance(own, SolvePrior) and precision_pays(own):
        return PrecisionNodePosterior
    return DensePosterior if dense else IterativePosterior


NodesGP: TypeAlias = NodeGP | MixtureGP
