"""Base of the regressors on graphs: checks, search and results."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.gp.components import ComponentsGP, Part
from coupledgp.gp.mixture import MixtureGP, restored_process
from coupledgp.gp.node_priors import NodePriorRecipe
from coupledgp.gp.node_state import parameter_from, plain_parameter
from coupledgp.gp.nodes import NodeGP, NodeSettings
from coupledgp.gp.protocol import Arrays, Data, GaussianProcess, Header, Points, Problem
from coupledgp.gp.units import Units, are_constant
from coupledgp.graphs import Graph
from coupledgp.graphs.graph import check_graph, check_nodes
from coupledgp.ground.devices import CPU, DeviceLike
from coupledgp.ground.memory import named_exhaustion
from coupledgp.ground.progress import reporter
from coupledgp.ground.validation import (
    check_choice,
    check_magnitude,
    check_positive,
    check_positive_int,
    forward_array,
    plain_array,
    real_array,
)
from coupledgp.inference.nodes.forecast import Budget
from coupledgp.inference.placement.objectives import Criterion
from coupledgp.inference.placement.result import Placement
from coupledgp.kernels import (
    GraphKernel,
    GraphKernelLike,
    RegularizedLaplacianKernel,
    parse_graph_kernel,
)
from coupledgp.models.estimator import (
    FittedModel,
    ProcessRegressor,
    fitted_result,
    plain_seed,
    restored_ndim,
    restored_parameters,
    restored_results,
)
from coupledgp.models.placement import asked_points, place_sensors, without_observed
from coupledgp.random import FloatArray, draw_seed
from coupledgp.search.averaging import HyperparameterPrior, as_hyperparameter_prior
from coupledgp.search.minimise import lbfgs, parse_optimizer
from coupledgp.search.nodes.average import Averaging, fit_average
from coupledgp.search.nodes.components import fit_components
from coupledgp.search.nodes.fitter import NodeFitter, NodeSearch
from coupledgp.selection.member_plans import AVERAGED_ROWS

DEFAULT_SCALES = {"outputscale": 1.0, "noise": 0.1}
# Families that `kernel="auto"` compares, in this order.
AUTO_KERNELS = ("heat", "regularized-laplacian", "matern")
# Exponents of the regularised Laplacians that take the place of a kernel that costs too much.
STAND_IN_EXPONENTS = (1, 2, 3)
HYPERPARAMETERS = ("kernel", "outputscale", "noise")
HYPERPARAMETER_CHOICES = ("auto", "maximum", "averaged")
SEARCHED = ("n_rounds_", "n_evaluations_", "converged_")
STORED_RESULTS = (*SEARCHED, "n_effective_draws_")


class NodeRegressor(ProcessRegressor):
    """Base of the Gaussian process regressors on the nodes of a graph."""

    _slow_predictions: ClassVar[bool] = True

    graph: Graph
    kernel: GraphKernelLike
    outputscale: float | None
    noise: float | None
    fixed: tuple[str, ...] | None
    solver: str
    n_probes: int
    exact_variances: int
    n_variance_samples: int
    budget: float | str | None
    hyperparameters: str
    hyperparameter_prior: HyperparameterPrior | Mapping[str, float] | None
    n_hyperparameter_draws: int
    device: DeviceLike

    n_rounds_ = fitted_result("n_rounds_", "Rounds of the search.")
    steps_ = fitted_result("steps_", "What the fit did, with forecast and true seconds.")
    n_effective_draws_ = fitted_result(
        "n_effective_draws_", "Effective number of draws of averaged hyperparameters."
    )

    @abstractmethod
    def _check_parameters(self) -> None:
        """Refuse invalid parameters of the subclass, before anything is computed."""

    @abstractmethod
    def _recipe(self, seed: int) -> NodePriorRecipe:
        """The settings by which this model makes a prior of a kernel."""

    @property
    @abstractmethod
    def _walks(self) -> bool:
        """Whether something about walks is asked for, so that kernels are not exact."""

    def fit(self, nodes: Any, y: ArrayLike, checkpoint: str | Path | None = None) -> Self:
        """Fit the hyperparameters, or average over them, then the posterior.

        Parameters
        ----------
        nodes
            Labels of the observed nodes, n of them; a node may be observed more than once.
        y
            Observations (n,), or (n, n_outputs): independent outputs that share the kernel and,
            in units of their own variance, output scale and noise.
        checkpoint
            A JSON file that is written after each round of the fit; an interrupted fit that is
            started again with the same data and settings goes on from it. Averages over
            hyperparameters have no rounds.

        Raises
        ------
        InvalidInputError
            A parameter of the estimator or the data is invalid.

        Warns
        -----
        UserWarning
            Observations lie in several components of the graph, which are fitted apart, and some
            of them take the hyperparameters of others (see `component_models_`).
        """
        with named_exhaustion("fit"):
            check_graph(self.graph)
            self._check_common()
            self._check_parameters()
            data, ndim, _ = self.checked(nodes, y)
            process, results = self.fit_data(data, checkpoint)
        self._fitted = FittedModel(process, ndim, results)
        return self

    def partial_fit(self, nodes: Any, y: ArrayLike) -> Self:
        """Add observations (n,) or (n, n_outputs) at nodes, hyperparameters fixed.

        The first call on an unfitted model is `fit`. The posterior is computed again from all
        observations; the normalisation of y follows them. An error leaves the model as it was.
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(nodes, y)
        with named_exhaustion("partial_fit"):
            data = self._further_data(nodes, y)
        return self._updated(data)

    def checked(self, nodes: Any, y: ArrayLike) -> tuple[Data, int, None]:
        """Return node numbers (n,) with targets (n, k), the number of dimensions of y, and None."""
        return self._checked(check_graph(self.graph), nodes, y)

    def _checked(self, graph: Graph, nodes: Any, y: ArrayLike) -> tuple[Data, int, None]:
        numbers = check_nodes(graph, nodes)
        targets = check_node_targets(y, numbers.size)
        return Data.of(numbers, targets.reshape(numbers.size, -1)), targets.ndim, None

    def modelled(self, data: Data, columns: None) -> Data:
        """Return checked data as they are: a graph's process is given the targets themselves."""
        return data

    def points(self, nodes: Any = None) -> Points:
        """Node numbers (p,) of labels, of all nodes if left out."""
        return check_nodes(self.first_process_.graph, nodes)

    def _further_data(self, nodes: Any, y: ArrayLike) -> Data:
        data, _, _ = self._checked(self.first_process_.graph, nodes, y)
        n_outputs = self.process_.units.n_outputs
        if data.targets.shape[1] != n_outputs:
            raise InvalidInputError(
                f"y: expected {n_outputs} outputs as in the first fit, got {data.targets.shape[1]}"
            )
        return data

    def fit_data(
        self, data: Data, checkpoint: str | Path | None = None
    ) -> tuple[Part | ComponentsGP, dict[str, Any]]:
        """Fit hyperparameters and condition on data; return the process and further results."""
        units = Units.of(data.targets, self.normalize_y)
        # Constant targets say nothing about a kernel or scales: their evidence has no maximum.
        searches = self.optimizer is not None and not are_constant(data.targets, units.offset)
        seed = draw_seed(self.random_state)
        recipe = self._recipe(seed)
        with reporter("fit", self.progress) as report:
            fitter = NodeFitter(
                recipe=recipe,
                settings=self._settings(seed),
                kernels=self._candidates(searches),
                searches=searches,
                fixed=frozenset(self.fixed or ()),
                outputscale=self._given("outputscale"),
                noise=self._given("noise"),
                data=data,
                units=units,
                normalize=self.normalize_y,
                report=report,
                checkpoint=None if checkpoint is None else Path(checkpoint),
                identity=self._identity(),
                minimise=parse_optimizer(self.optimizer) if self.optimizer else lbfgs,
                budget=Budget.of(self.budget),
                stand_ins=self._stand_ins(recipe),
            )
            process, search, n_effective = fit_components(fitter, self._fitted_part) or (
                self._fitted_part(fitter)
            )
        self._warn_of_budget(search)
        results = {**dict(zip(SEARCHED, search, strict=False)), "steps_": search.steps}
        if n_effective is not None:
            results["n_effective_draws_"] = n_effective
        return process, results

    def _fitted_part(self, fitter: NodeFitter) -> tuple[Part, NodeSearch, float | None]:
        """Process of averaged hyperparameters or of the best, and effective number of draws."""
        if fitter.searches:
            averaging = self._averaging(len(fitter.data), fitter.checkpoint)
            average = None if averaging is None else fit_average(fitter, averaging)
            if average is not None:
                return average.process, average.search, average.n_effective
        return *fitter.fit(), None

    def _averaging(self, n_rows: int, checkpoint: str | Path | None) -> Averaging | None:
        """How hyperparameters are averaged; None where they are those of greatest evidence."""
        prior = as_hyperparameter_prior(self.hyperparameter_prior)
        if self.hyperparameters == "maximum" or set(self.fixed or ()) == set(HYPERPARAMETERS):
            return None
        asked = self.hyperparameters == "averaged"
        if not asked:
            dear = n_rows > AVERAGED_ROWS or checkpoint is not None
            if dear or self._walks or self.solver == "iterative":
                return None
        return Averaging(self.n_hyperparameter_draws, prior, asked, self._walks)

    def _warn_of_budget(self, search: NodeSearch) -> None:
        """Warn if a search was ended by the budget, or if the fit took more than that."""
        limit = Budget.of(self.budget).seconds
        if limit is None:
            return
        spent = sum(step.seconds for step in search.steps)
        words = []
        if not search.converged:
            words.append(
                f"the search for hyperparameters ended after {search.n_evaluations} evaluations, "
                "the best so far are used"
            )
        if spent > limit:
            words.append(f"the fit took {spent:.2g} s")
        if words:
            text = f"budget of {limit:.3g} s: {'; '.join(words)}"
            warnings.warn(text, ConvergenceWarning, stacklevel=4)

    def _stand_ins(self, recipe: NodePriorRecipe) -> tuple[GraphKernel, ...]:
        """Kernels of sparse precision that `"auto"` may put in place of one that costs too much."""
        if self.kernel != "auto" or not recipe.is_exact or recipe.device != CPU:
            return ()
        return tuple(RegularizedLaplacianKernel(exponent=float(r)) for r in STAND_IN_EXPONENTS)

    def _settings(self, seed: int) -> NodeSettings:
        return NodeSettings(
            self.solver, self.n_probes, self.exact_variances, self.n_variance_samples, seed
        )

    def _identity(self) -> dict[str, str]:
        """Settings of a fit as texts, by which a checkpoint recognises it."""
        ignored = ("random_state", "progress", "device")
        return {k: repr(v) for k, v in self.get_params().items() if k not in ignored}

    def _check_common(self) -> None:
        if self.optimizer is not None:
            parse_optimizer(self.optimizer)
        check_choice(self.solver, ["auto", "dense", "iterative"], "solver")
        for name in self.fixed or ():
            check_choice(name, HYPERPARAMETERS, "fixed")
        check_positive_int(self.n_probes, "n_probes", minimum=2)
        check_positive_int(self.exact_variances, "exact_variances", minimum=0)
        check_positive_int(self.n_variance_samples, "n_variance_samples", minimum=2)
        check_choice(self.hyperparameters, HYPERPARAMETER_CHOICES, "hyperparameters")
        check_positive_int(self.n_hyperparameter_draws, "n_hyperparameter_draws", minimum=2)
        as_hyperparameter_prior(self.hyperparameter_prior)
        Budget.of(self.budget)

    def _given(self, name: str) -> float:
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
    def process_(self) -> Part | ComponentsGP:
        """The fitted process, which never changes: a further fit makes a new one."""
        process = super().process_
        assert isinstance(process, NodeGP | MixtureGP | ComponentsGP)
        return process

    @property
    def first_process_(self) -> NodeGP:
        """The fitted process; of averaged hyperparameters that of greatest posterior density.

        Of several components it is that of the group with most observed nodes.
        """
        first = self.process_.first
        assert isinstance(first, NodeGP)
        return first

    @property
    def component_models_(self) -> list[Self]:
        """Models of groups of components that have hyperparameters or units of their own.

        Node i has the law of model `process_.part_of[i]`. It is the model alone where one group
        has all observations.
        """
        process = self.process_
        if not isinstance(process, ComponentsGP):
            return [self]
        return [self._around(part) for part in process.parts]

    @property
    def members_(self) -> list[Self]:
        """Models whose laws are mixed, in the order of `member_weights_`; else the model alone."""
        process = self.process_
        if not isinstance(process, MixtureGP):
            return [self]
        return [self._around(member) for member in process.members_with_data]

    @property
    def member_weights_(self) -> FloatArray:
        """Weights (K,) of the members, of sum one."""
        process = self.process_
        return process.weights if isinstance(process, MixtureGP) else np.ones(1)

    @property
    def kernel_(self) -> GraphKernel:
        """Fitted kernel; of averaged hyperparameters that of greatest posterior density."""
        return self.first_process_.hyperparameters.kernel

    def explain(self) -> str:
        """Say what the fit did, what each step was forecast to take and what it took, in lines.

        A model from a file says how it answers only: the steps of its fit are not stored.
        """
        first = f"{self.kernel_!r} by {self.method_}: {self.method_reason_}"
        return "\n".join([first, *map(str, self.fitted_.results.get("steps_", ()))])

    @property
    def method_(self) -> str:
        """Method in use: `"walks"`, `"spectral"`, `"leading"`, `"series"` or `"cholesky"`."""
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

    def predict(
        self,
        nodes: Any = None,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        latent: bool = False,
    ) -> Any:
        """Predictive law of observations at nodes.

        Parameters
        ----------
        nodes
            Labels of p nodes; all of the graph if left out.
        return_std
            Also return the standard deviation (p,). Exact for at most `exact_variances` nodes,
            and for any number where the kernel has a sparse precision or the solver is dense;
            otherwise from `n_variance_samples` pathwise samples, with relative error
            `sqrt(1 / (2 n_variance_samples))`.
        return_cov
            Also return the covariance, exact, from one solve a node, in blocks.
        latent
            Leave the noise out: the law of the function f instead of observations y.

        Returns
        -------
        FloatArray or (FloatArray, FloatArray)
            Mean, (p,) or (p, n_outputs), and the standard deviation of the same shape if
            `return_std`, or the covariance (p, p) or (p, p, n_outputs) if `return_cov`.

        Raises
        ------
        InvalidInputError
            Both are asked for, a node is unknown, or the joint law does not fit in memory.
        """
        return self._predict(nodes, return_std, return_cov, latent)

    def sample_y(
        self,
        nodes: Any = None,
        n_samples: int = 1,
        random_state: Any = 0,
        *,
        latent: bool = False,
    ) -> FloatArray:
        """Draw from the posterior at nodes, by pathwise samples.

        Parameters
        ----------
        nodes
            Labels of p nodes; all if left out.
        n_samples
            Number of draws.
        random_state
            Seed of the draws.
        latent
            Draw functions f instead of noisy observations y.

        Returns
        -------
        FloatArray
            Samples (p, n_samples), or (p, n_outputs, n_samples) for targets of two dimensions.
        """
        return self._sample_y(nodes, n_samples, draw_seed(random_state), latent)

    def log_density(self, nodes: Any, y: ArrayLike) -> FloatArray:
        """Log predictive density of observations, each alone; minus its mean is the NLPD.

        Parameters
        ----------
        nodes, y
            Labels of p nodes and observations (p,) or (p, n_outputs), as in `fit`.

        Returns
        -------
        FloatArray
            Log densities (p,), nats, of y in its own units; several outputs, which are independent,
            are scored jointly.
        """
        return self._log_density(nodes, y)

    def conditioned_on(self, nodes: Any, y: ArrayLike) -> Self:
        """Return the same model, hyperparameters in units of y included, given other data.

        Parameters
        ----------
        nodes, y
            Labels of n nodes and observations (n,) or (n, n_outputs), as in `fit`.
        """
        check_is_fitted(self)
        return self._conditioned_on(self._further_data(nodes, y))

    def prior_covariance(self, nodes: Any = None) -> FloatArray:
        """Prior covariance of f at p nodes, units of y squared.

        Shape (p, p), or (p, p, n_outputs) for targets of two dimensions.
        """
        return self._prior_covariance(nodes)

    def next_sensors(
        self,
        k: int,
        criterion: Criterion = "mutual-information",
        candidates: Any = None,
        interest: Any = None,
        *,
        budget: float | str | None = None,
        random_state: Any = 0,
    ) -> Placement:
        """Nodes where the next sensors tell most, by a greedy search; none of them is measured yet.

        With the covariance C of f given the observations, the noise variance s, chosen nodes A:

        * `"mutual-information"`: `I(y_A; y_(V - A))`, with V the candidates and the nodes of
          interest. Sensors lie among nodes that they tell about. Submodular; a greedy choice has at
          least `1 - 1/e` of the best one as long as A is below half of V, but for a small error.
          Krause, Singh and Guestrin (2008).
        * `"variance"`: `1/2 log |I + C_AA / s|`, by the node of greatest variance in each step.
          Submodular, at least `1 - 1/e` of the best. It likes the edges of the graph.
        * `"total-variance"`: `sum_u Var(f_u) - Var(f_u | y_A)` over the nodes of interest u. Not
          submodular in general: no bound, and the only one that is about these nodes alone.

        The covariance of up to some thousands of nodes is formed. On larger graphs `"variance"`
        takes a column of it for each sensor, `"total-variance"` ranks nodes by random products, and
        `"mutual-information"` takes a sample of the nodes unless candidates are named.

        Parameters
        ----------
        k
            Number of sensors.
        criterion
            `"mutual-information"`, `"variance"` or `"total-variance"`.
        candidates
            Labels of nodes where sensors may go; None: all without an observation. A node may be
            measured again.
        interest
            Labels of nodes whose values matter; None: all nodes for `"total-variance"`, else the
            candidates.
        budget
            Seconds that the search may take, as the budget of a fit; None: 300. What is forecast
            to take more is refused before it begins.
        random_state
            Seed of samples of nodes and of random products.

        Returns
        -------
        Placement
            The nodes in order, the gain of each, and the mean variance that is left.

        Raises
        ------
        InvalidInputError
            An argument is invalid, or the search takes more seconds by forecast than it may.
        MemoryLimitError
            The covariance does not fit in memory.
        """
        check_is_fitted(self)
        process = self.process_
        every = np.arange(self.first_process_.graph.n_nodes)
        named = candidates is not None or interest is not None
        open_ = (
            without_observed(process, every)
            if candidates is None
            else asked_points(self.points, candidates, "candidates")
        )
        wanted = every if criterion == "total-variance" else None
        wanted = wanted if interest is None else asked_points(self.points, interest, "interest")
        found = place_sensors(
            process, k, criterion, open_, wanted, named, budget, random_state, self.progress
        )
        return found.with_nodes(self.first_process_.graph.label_all(open_[found.nodes]))

    def own_problem(self) -> Problem | None:
        """Return prior and data of this model; None where it averages over hyperparameters."""
        return self.process_.own_problem()

    def around(self, process: GaussianProcess, record: FittedModel) -> Self:
        """Return this estimator around the process of another fitted model of the same data."""
        results = {"n_rounds_": 0, "n_evaluations_": 0, "converged_": True, "steps_": ()}
        return self.holding(FittedModel(process, record.ndim, results))

    def _stored_parameters(self) -> dict[str, Any]:
        parameters = super()._stored_parameters()
        del parameters["graph"]
        return parameters

    def _state(self, include_data: bool) -> tuple[Header, Arrays]:
        header, arrays = super()._state(include_data)
        results = self.fitted_.results
        stored = {name: results[name] for name in STORED_RESULTS if name in results}
        header["fitted"] = {**stored, **header.get("fitted", {})}
        return header, arrays

    @classmethod
    def from_state(cls, header: Header, arrays: Arrays) -> Any:
        """Return the fitted model of a file, of this version or of 0.1.0."""
        parameters = restored_parameters(cls, header)
        own = ("solver", "n_probes", "exact_variances", "n_variance_samples")
        settings = {name: parameters[name] for name in own if name in parameters}
        header = {
            "recipe": parameters,
            "settings": {**settings, "seed": header.get("seed")},
            "normalize": parameters.get("normalize_y"),
            **header,
        }
        split = header.get("process") == ComponentsGP.__name__
        restored = ComponentsGP.from_state if split else restored_process
        process = restored({"process": "NodeGP", **header}, arrays)
        first = process.first
        if not isinstance(first, NodeGP):
            raise ModelFileError("process: expected one on a graph, got another process")
        graph = process.graph if isinstance(process, ComponentsGP) else first.graph
        model = cls(graph, **{k: parameter_from(k, v) for k, v in parameters.items()})
        results = restored_results(header, "fitted", STORED_RESULTS)
        return model.holding(FittedModel(process, restored_ndim(header, process), results))

    def _plain(self, name: str, value: Any) -> Any:
        if isinstance(value, HyperparameterPrior):
            return asdict(value)
        if name == "hyperparameter_prior" and value is not None:
            return dict(value)
        return plain_seed(value) if name == "random_state" else plain_parameter(name, value)


def check_node_targets(y: ArrayLike, n_rows: int) -> FloatArray:
    """Return finite observations, (n,) or (n, k), as float64."""
    try:
        array = forward_array(real_array(plain_array(y, "y"), "y"))
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"y: expected numbers, got {error}") from None
    if array.ndim not in (1, 2) or array.size == 0:
        raise InvalidInputError(
            f"y: expected a non-empty array, (n,) or (n, n_outputs), got shape {array.shape}"
        )
    if not np.isfinite(array).all():
        raise InvalidInputError("y: expected finite values, got NaN or inf")
    check_magnitude(array, "y")
    if len(array) != n_rows:
        raise InvalidInputError(f"y: expected {n_rows} values to match nodes, got {len(array)}")
    return array
