"""Base of the regressors on graphs: checks, search and results."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from coupledgp.core.averaging import as_hyperparameter_prior
from coupledgp.core.budget import Budget, within_budget
from coupledgp.core.estimator import ANSWERS
from coupledgp.core.latent import LatentGP
from coupledgp.core.minimise import lbfgs, parse_optimizer
from coupledgp.core.mixture import MixtureGP
from coupledgp.core.options import estimator, points_named
from coupledgp.core.process import Data, GaussianProcess, Points, Problem
from coupledgp.core.process_estimator import ProcessEstimator
from coupledgp.core.stored import FittedModel, fitted_result
from coupledgp.core.units import Units, are_constant
from coupledgp.couplings.walkers.registry import length_law_text
from coupledgp.errors import ModelFileError
from coupledgp.graphs import Graph
from coupledgp.graphs.average import Averaging, fit_average
from coupledgp.graphs.fitter import Fitted, NodeFitter, fit_components
from coupledgp.graphs.graph import as_graph, check_nodes
from coupledgp.graphs.latent_search import KernelsOfNodes
from coupledgp.graphs.likelihood import NodeLikelihood, fit_latent_nodes
from coupledgp.graphs.observations import OMIT, informative_rows, node_data
from coupledgp.graphs.process import NodeGP, NodeSettings, NodesGP
from coupledgp.graphs.recipes import NodePriorRecipe
from coupledgp.ground.codec import named
from coupledgp.ground.devices import CPU, DeviceLike
from coupledgp.ground.parameters import at_least, check_declared, one_of, option, param, some_of
from coupledgp.ground.progress import reporter
from coupledgp.ground.validation import check_choice, check_positive, wrong
from coupledgp.ground.visible import warn
from coupledgp.kernels import (
    GraphKernel,
    GraphKernelLike,
    RegularizedLaplacianKernel,
    parse_graph_kernel,
)
from coupledgp.likelihoods.base import Likelihood
from coupledgp.random import draw_seed
from coupledgp.tables.exact_members import AVERAGED_ROWS
from coupledgp.tables.likelihood_parameter import (
    law_and_units,
    law_of,
    refuse_beside,
)

DEFAULT_SCALES = {"outputscale": 1.0, "noise": 0.1}
# Families that `kernel="auto"` compares, in this order.
AUTO_KERNELS = ("heat", "regularized-laplacian", "matern")
# Exponents of the regularised Laplacians that take the place of a kernel that costs too much.
STAND_IN_EXPONENTS = (1, 2, 3)
HYPERPARAMETERS = ("kernel", "outputscale", "noise")
HYPERPARAMETER_CHOICES = ("auto", "maximum", "averaged")
# Parameters that are for a Gaussian law, with their values beside another one; and the seconds of
# one core that a fit under it may take where no budget is given.
BESIDE_LAW = {"noise": None, "outputscale": None, "hyperparameter_prior": None}
LATENT_SECONDS = 600.0
SEARCHED = ("n_rounds_", "n_evaluations_", "converged_")


class NodeParameters:
    """Parameters among the positional ones of both estimators on graphs."""

    graph: Graph
    kernel: GraphKernelLike
    optimizer: str | None


@points_named("nodes", "partial_fit", *ANSWERS)
@estimator
class NodeRegressor(NodeParameters, NodeLikelihood):
    """Base of the Gaussian process regressors on the nodes of a graph.

    Parameters
    ----------
    graph
        A `coupledgp.Graph`, or an undirected networkx graph, whose nodes are the labels.
    kernel
        `"heat"`, `"regularized-laplacian"`, `"matern"`, `"random-walk"`, `"inverse-cosine"`,
        `"learned"`, another registered name, or a `GraphKernel`, which is then where the fit
        starts; `"auto"` takes the one of heat, regularised Laplacian and Matern whose exact
        evidence is greatest.
    optimizer
        `"lbfgs"` maximises the evidence; None keeps the given hyperparameters.
    outputscale, noise
        Variances v and s in units of the normalised y, kept if the optimizer is None or if they
        are named in the option `fixed`; 1.0 and 0.1 if left out then.
    solver
        `"dense"` (eigenvectors and Cholesky of the training covariance), `"iterative"` (Lanczos
        and conjugate gradients), or `"auto"`: a dense evidence for up to 1024 observations, which
        is evaluated often, and a dense posterior for up to 4096.
    hyperparameters
        `"averaged"`: averaged over their posterior by quadrature, with `kernel="auto"` over the
        families too. The law is then a mixture, and its members are exact unless a parameter of
        walks is set. `"maximum"`: the hyperparameters of greatest evidence. `"auto"`: averaged for
        at most 200 observations if the forecast is at most 8 seconds, the kernel has one free
        parameter, no parameter of walks is set and the solver is not `"iterative"`.
    options
        Values by name for specialists; None: none.

        * `budget`: seconds that the fit may take, or a text such as `"90s"` or `"5min, 6GB"`. A
          step whose forecast is above the budget is refused before it begins; a search that reaches
          its part of the seconds ends with a ConvergenceWarning. None, the default: no limit but a
          patience of 12 seconds, and a tenth of a millisecond for each node, for a search with all
          observations of a large graph.
        * `fixed`: which of `"kernel"`, `"outputscale"`, `"noise"` the optimizer leaves alone.
        * `n_probes` (16): number of random vectors of the iterative log-determinant; the standard
          error that they leave is in `log_marginal_likelihood_error_`.
        * `exact_variances`, `n_variance_samples` (1024 each): without a factor, standard deviations
          at up to `exact_variances` nodes come from a solve for each, to 1e-3 of the noise
          variance, and at more nodes from `n_variance_samples` pathwise samples, with a relative
          standard error of `1 / sqrt(2 n_variance_samples)`: 2.2 %.
        * `hyperparameter_prior`: laws of the logarithms of the variances of the function and the
          noise where they are averaged, a `HyperparameterPrior` or its values by name, in units of
          the variance of y. The parameter of the kernel has a uniform law over the range in which
          kernels differ on the graph (docs/graphs.md).
        * `n_hyperparameter_draws` (24): draws of averaged hyperparameters; each different one is a
          member.

    Attributes
    ----------
    kernel_, outputscale_, noise_
        Fitted kernel, and variances in units of y squared; with averaged hyperparameters, the
        values of greatest posterior density.
    n_effective_draws_
        Effective number of draws of averaged hyperparameters, `1 / sum w^2` of their weights.
    members_, member_weights_
        The models whose laws are mixed, and their weights.
    log_marginal_likelihood_value_, log_marginal_likelihood_error_
        Log evidence of y in original units, and its standard error (zero for a dense solver).
    steps_
        Steps of the fit, with forecast and true seconds (see `explain`).
    n_rounds_, n_evaluations_, converged_
        Number of rounds of redrawn walks, number of evaluations of the evidence, and whether the
        last round left the hyperparameters where they were.
    """

    _slow_predictions: ClassVar[bool] = True
    _stored: ClassVar[tuple[str, ...]] = (
        *ProcessEstimator._stored, *SEARCHED, "n_effective_draws_",
    )  # fmt: skip

    _: KW_ONLY
    outputscale: float | None = None
    noise: float | None = None
    solver: str = param(default="auto", check=one_of("auto", "dense", "iterative"))
    hyperparameters: str = param(default="auto", check=one_of(*HYPERPARAMETER_CHOICES))
    device: DeviceLike = None
    options: Mapping[str, Any] | None = None
    budget = option(None, lambda value, name: Budget.of(value))
    fixed = option(None, some_of(*HYPERPARAMETERS))
    n_probes = option(16, at_least(2))
    exact_variances = option(1024, at_least(0))
    n_variance_samples = option(1024, at_least(2))
    hyperparameter_prior = option(None, lambda value, name: as_hyperparameter_prior(value))
    n_hyperparameter_draws = option(24, at_least(2))

    n_rounds_ = fitted_result("n_rounds_", "Rounds of the search.")
    steps_ = fitted_result("steps_", "What the fit did, with forecast and true seconds.")

    @abstractmethod
    def _recipe(self, seed: int) -> NodePriorRecipe:
        """The settings by which this model makes a prior of a kernel."""

    @property
    @abstractmethod
    def _walks(self) -> bool:
        """Whether any parameter of the walks is set, so that kernels are not exact."""

    def fit(self, nodes: Any, y: ArrayLike, exposure: ArrayLike | None = None) -> Self:
        """Fit or average over the hyperparameters, then compute the posterior.

        Parameters
        ----------
        nodes
            Labels (n,) of the observed nodes; a node may be observed more than once.
        y
            Observations (n,), or (n, n_outputs): independent outputs that share the kernel and,
            in units of their own variance, output scale and noise.
        exposure
            Exposures (n,) of the observations, for a likelihood of counts; None: ones.

        Raises
        ------
        InvalidInputError
            A parameter of the estimator or the data is invalid, or a fit under a likelihood takes
            more seconds by forecast than its budget, ten minutes by default.

        Warns
        -----
        UserWarning
            Components of the graph have fewer than 8 observed nodes each: their observations do
            not enter the hyperparameters, which all components share.
        """
        return self._assigned(lambda: self._fit(nodes, y, exposure), y, self.graph, y=y)

    def _fit(self, nodes: Any, y: ArrayLike, exposure: ArrayLike | None = None) -> FittedModel:
        data, ndim, _ = self.checked(nodes, y)
        law = self._law()
        if law is not None:
            return FittedModel(*self._fit_under(law, self._exposed(data, exposure, y)))
        self._exposed(data, exposure, y)
        process, results = self.fit_data(data)
        return FittedModel(process, ndim, results)

    @property
    def _graph(self) -> Graph:
        """The graph that the parameter stands for."""
        return as_graph(self.graph)

    def checked(self, nodes: Any, y: ArrayLike) -> tuple[Data, int, None]:
        """Return node numbers (n,) with targets (n, k), the number of dimensions of y, and None."""
        return self._checked(self._graph, nodes, y)

    def _checked(self, graph: Graph, nodes: Any, y: ArrayLike) -> tuple[Data, int, None]:
        return *node_data(check_nodes(graph, nodes), y, self.missing), None

    def modelled(self, data: Data, columns: None) -> Data:
        """Return checked data unchanged: a graph's process takes the targets themselves."""
        return data

    def points(self, nodes: Any = None) -> Points:
        """Node numbers (p,) of labels, of all nodes if left out."""
        return check_nodes(self.first_process_.graph, nodes)

    def _further_data(self, nodes: Any, y: ArrayLike, exposure: ArrayLike | None = None) -> Data:
        data = self._check_outputs(self._checked(self.first_process_.graph, nodes, y)[0])
        return self._exposed(data, exposure, y)

    def _fit_under(self, law: Likelihood, data: Data) -> tuple[LatentGP, int, dict[str, Any]]:
        """Fit one function of the nodes whose observations follow a law that is not Gaussian."""
        refuse_beside(self, str(self.likelihood), BESIDE_LAW)
        seed = draw_seed(self.random_state)
        kept = self.optimizer is None or "kernel" in (self.fixed or ())
        chosen = KernelsOfNodes(
            self._recipe(seed), self._settings(seed), self._candidates(not kept), not kept
        )
        with within_budget(Budget.of(self.budget).seconds or LATENT_SECONDS):
            law, units = law_and_units(self.likelihood, law_of(law, data), data)
            process, results = fit_latent_nodes(self, chosen, law, data, units, seed)
        return process, 1, {**results, "n_rounds_": 1, "steps_": ()}

    def fit_data(self, data: Data) -> tuple[NodesGP, dict[str, Any]]:
        """Fit hyperparameters and condition on data; return the process and further results."""
        usable = informative_rows(self._graph.components()[1][data.points], data.points)
        targets = data.targets[usable]
        units = Units.of(targets, self.normalize_y)
        # Constant targets say nothing about a kernel or scales: their evidence has no maximum.
        searches = self.optimizer is not None and not are_constant(targets, units.offset)
        seed = draw_seed(self.random_state)
        recipe = self._recipe(seed)
        with reporter("fit", self.progress), within_budget(self.budget):
            fitter = NodeFitter(
                recipe=recipe,
                settings=self._settings(seed),
                kernels=self._candidates(searches),
                searches=searches,
                fixed=frozenset(self.fixed or ()),
                outputscale=self._scale("outputscale"),
                noise=self._scale("noise"),
                data=data,
                units=units,
                normalize=self.normalize_y,
                minimise=parse_optimizer(self.optimizer) if self.optimizer else lbfgs,
                stand_ins=self._stand_ins(recipe),
            )
            process, search, n_effective = fit_components(fitter, usable, self._fitted_process)
        beyond = search.beyond(Budget.of(self.budget).seconds)
        if beyond is not None:
            warn(beyond, ConvergenceWarning)
        results = {**dict(zip(SEARCHED, search, strict=False)), "steps_": search.steps}
        if n_effective is not None:
            results["n_effective_draws_"] = n_effective
        return process, results

    def _fitted_process(self, fitter: NodeFitter) -> Fitted:
        """Process of averaged hyperparameters or of the best, and effective number of draws."""
        if fitter.searches:
            averaging = self._averaging(len(fitter.data))
            average = None if averaging is None else fit_average(fitter, averaging)
            if average is not None:
                return average
        return *fitter.fit(), None

    def _averaging(self, n_rows: int) -> Averaging | None:
        """Settings of the average over hyperparameters; None if the greatest evidence decides."""
        prior = as_hyperparameter_prior(self.hyperparameter_prior)
        if self.hyperparameters == "maximum" or set(self.fixed or ()) == set(HYPERPARAMETERS):
            return None
        asked = self.hyperparameters == "averaged"
        if not asked and (n_rows > AVERAGED_ROWS or self._walks or self.solver == "iterative"):
            return None
        return Averaging(self.n_hyperparameter_draws, prior, asked, self._walks)

    def _stand_ins(self, recipe: NodePriorRecipe) -> tuple[GraphKernel, ...]:
        """Kernels of sparse precision that `"auto"` may put in place of one that costs too much."""
        if self.kernel != "auto" or not recipe.is_exact or recipe.device != CPU:
            return ()
        return tuple(RegularizedLaplacianKernel(exponent=float(r)) for r in STAND_IN_EXPONENTS)

    def _settings(self, seed: int) -> NodeSettings:
        return NodeSettings(
            self.solver, self.n_probes, self.exact_variances, self.n_variance_samples, seed
        )

    def check_parameters(self) -> None:
        check_choice(self.missing, ("raise", OMIT), "missing")
        self._law()
        if self.optimizer is not None:
            parse_optimizer(self.optimizer)
        check_declared(self)

    def _scale(self, name: str) -> float:
        """The given or default value of a scale."""
        given = getattr(self, name)
        return DEFAULT_SCALES[name] if given is None else check_positive(given, name)

    def _candidates(self, searches: bool) -> tuple[GraphKernel, ...]:
        """Kernels whose families are compared: one, or for `"auto"` several, heat first."""
        if isinstance(self.kernel, str) and self.kernel == "auto":
            several = searches and "kernel" not in (self.fixed or ())
            names = AUTO_KERNELS if several else AUTO_KERNELS[:1]
            return tuple(parse_graph_kernel(name) for name in names)
        return (parse_graph_kernel(self.kernel),)

    @property
    def process_(self) -> NodesGP | LatentGP:
        """The fitted process, which never changes: a further fit makes a new one."""
        process: Any = super().process_
        assert isinstance(process, NodeGP | MixtureGP | LatentGP)
        return process

    @property
    def first_process_(self) -> NodeGP:
        """The fitted process; of averaged hyperparameters the one of greatest posterior density."""
        first = self.process_.first
        first = first.functions[0] if isinstance(first, LatentGP) else first
        assert isinstance(first, NodeGP)
        return first

    @property
    def kernel_(self) -> GraphKernel:
        """Fitted kernel; with averaged hyperparameters the one of greatest posterior density."""
        return self.first_process_.hyperparameters.kernel

    def _explained(self) -> list[str]:
        return [f"method: {self.method_}: {self.method_reason_}", *super()._explained()]

    @property
    def method_(self) -> str:
        """Method in use: `"walks"`, `"spectral"`, `"series"` or `"cholesky"`."""
        return self.first_process_.chosen.method

    @property
    def method_reason_(self) -> str:
        """The reason for the method in use, in words."""
        return self.first_process_.chosen.reason

    @property
    def nodes_(self) -> Any:
        """Labels of the observed nodes."""
        return self.first_process_.graph.label_all(self.process_.data.points)

    @property
    def log_marginal_likelihood_error_(self) -> float:
        """Standard error of the log evidence, zero for a dense solver."""
        return self.first_process_.node_evidence.error

    def _picture(self, X: Any) -> Any:
        from coupledgp.diagnostics.render.maps import NodeLayout, NodeMap  # slow

        graph, data = self._graph, self.process_.data
        mean, std = self.predict(return_std=True)
        if mean.ndim > 1:
            raise wrong("y", "one output to draw a map", mean.shape[1])
        layout = NodeLayout.of(X, graph)
        return NodeMap(layout, mean, std, None, np.unique(data.points)).picture()

    def _indexed(self, X: Any) -> tuple[Any, Any]:
        return X, {"node": list(self.first_process_.graph.label_all(self.points(X)))}

    def own_problem(self) -> Problem | None:
        """Return prior and data of this model; None where it averages over hyperparameters."""
        return self.process_.own_problem()

    def around(self, process: GaussianProcess, record: FittedModel) -> Self:
        """Return this estimator around the process of another fitted model of the same data."""
        results = {"n_rounds_": 0, "n_evaluations_": 0, "converged_": True, "steps_": ()}
        return self.holding(replace(record, process=process, results=results))

    def _plain(self, name: str, value: Any) -> Any:
        if name == "length_law" and callable(value):
            return named(length_law_text(value), name, value)
        return self.first_process_.graph if name == "graph" else super()._plain(name, value)

    def check_restored(self) -> None:
        if not isinstance(self.first_process_, NodeGP):
            raise ModelFileError("process: expected one on a graph, got another process")
