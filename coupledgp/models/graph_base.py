"""What the regressors on graphs share: checks, units, the fit, and predictions."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from coupledgp.errors import InvalidInputError
from coupledgp.gp.units import Targets
from coupledgp.graphs import Graph
from coupledgp.graphs.graph import check_graph, check_nodes
from coupledgp.inference.nodes.cholesky_prior import SolvePrior
from coupledgp.inference.nodes.evidence import (
    DenseEvidence,
    Evidence,
    IterativeEvidence,
    Scales,
)
from coupledgp.inference.nodes.exact_evidence import joint_problem, tolerance_for
from coupledgp.inference.nodes.exact_search import Kept, Point, fit_families
from coupledgp.inference.nodes.leading import LeadingPosterior, LeadingPrior, is_leading
from coupledgp.inference.nodes.posterior import (
    BLOCK,
    DensePosterior,
    GraphPosterior,
    IterativePosterior,
)
from coupledgp.inference.nodes.priors import GraphPrior, SeriesPrior, SpectralPrior
from coupledgp.inference.nodes.rounds import Checkpoint, FitState, fit_kernel
from coupledgp.inference.nodes.system import GraphProblem
from coupledgp.kernels import GraphKernel, GraphKernelLike, parse_graph_kernel
from coupledgp.models.base import unfitted
from coupledgp.progress import reporter
from coupledgp.random import FloatArray
from coupledgp.validation import check_choice, check_memory, check_positive, check_positive_int

IntArray = NDArray[np.int64]
DENSE_EVIDENCE_LIMIT = 1024
DENSE_POSTERIOR_LIMIT = 4096
DENSE_ENTRIES = 2**24
DEFAULT_SCALES = {"outputscale": 1.0, "noise": 0.1}
AUTO_KERNELS = ("heat", "regularized-laplacian", "matern")
HYPERPARAMETERS = ("kernel", "outputscale", "noise")


@dataclass(frozen=True)
class Found:
    """A fitted kernel, and its place in the search if the exact evidence was enough."""

    kernel: GraphKernel
    point: Point | None


class GraphRegressor(RegressorMixin, BaseEstimator):
    """Base of the Gaussian process regressors on the nodes of a graph."""

    graph: Graph
    kernel: GraphKernelLike
    normalize_y: bool
    optimizer: str | None
    outputscale: float | None
    noise: float | None
    fixed: tuple[str, ...]
    solver: str
    n_probes: int
    exact_variances: int
    n_variance_samples: int
    random_state: Any

    @abstractmethod
    def _make_prior(self, kernel: GraphKernel, scales: Scales | None = None) -> GraphPrior:
        """The prior for a kernel, its draw made for it, and for the scales if they are known."""

    @abstractmethod
    def _check_parameters(self) -> None:
        """Refuse bad parameters of the subclass, before anything is computed."""

    def fit(self, nodes: Any, y: ArrayLike, checkpoint: str | Path | None = None) -> Any:
        """Fit the hyperparameters by maximum evidence, then the posterior.

        Parameters
        ----------
        nodes
            Labels of the observed nodes, n of them; a node may be observed more than once.
        y
            Observations (n,), or (n, n_outputs): independent outputs that share the kernel and,
            in units of their own variance, output scale and noise.
        checkpoint
            A JSON file that is written after each round of the fit; an interrupted fit that is
            started again with the same data and settings goes on from it.

        Raises
        ------
        InvalidInputError
            A parameter of the estimator or the data is invalid.
        """
        fitted = unfitted(self)
        fitted._fit(nodes, y, checkpoint)
        self.__dict__ = fitted.__dict__
        return self

    def _fit(self, nodes: Any, y: ArrayLike, checkpoint: str | Path | None) -> None:
        check_graph(self.graph)
        self._check_common()
        self._check_parameters()
        train = check_nodes(self.graph, nodes)
        self._targets = Targets.of(y, train.size, self.normalize_y)
        # Constant targets say nothing about a kernel or scales: their evidence has no maximum.
        self._searches = self.optimizer is not None and not self._targets.are_constant
        self._seed = draw_seed(self.random_state)
        self.n_rounds_, self.n_evaluations_, self.converged_ = 0, 0, True
        kernels = self._candidates()
        found = Found(kernels[0], None)
        # Without an optimizer the search is one evaluation; small sets need none.
        if self._searches or not self._use_dense(train.size, DENSE_EVIDENCE_LIMIT):
            found = self._optimise(kernels, train, self._targets.centred, checkpoint)
        self._condition(found, train, self._targets.centred)

    def _publish(self) -> None:
        """Fitted attributes in the caller's units and labels."""
        self.outputscale_ = self._targets.variance(self._posterior.outputscale)
        self.noise_ = self._targets.variance(self._posterior.noise)
        self.nodes_ = self.graph.label_all(self._posterior.nodes)
        self.y_train_ = self._targets.given

    def save(self, path: str | PathLike[str], include_data: bool = True) -> None:
        """Write the fitted model to a file; see `coupledgp.save_model`.

        The observations are always stored: they are few, and `exact_twin()` needs them.
        """
        from coupledgp.models.persistence import save_model  # it imports this class's children

        save_model(self, path, include_data=include_data)

    def _check_common(self) -> None:
        if self.optimizer is not None:
            check_choice(self.optimizer, ["lbfgs"], "optimizer")
        check_choice(self.solver, ["auto", "dense", "iterative"], "solver")
        for name in self.fixed:
            check_choice(name, HYPERPARAMETERS, "fixed")
        check_positive_int(self.n_probes, "n_probes", minimum=2)
        check_positive_int(self.exact_variances, "exact_variances", minimum=0)
        check_positive_int(self.n_variance_samples, "n_variance_samples", minimum=2)

    def _kept(self, name: str) -> float | None:
        """The given or default value of a scale that is not fitted; None for one that is."""
        if self._searches and name not in self.fixed:
            return None
        given = getattr(self, name)
        return DEFAULT_SCALES[name] if given is None else check_positive(given, name)

    def _use_dense(self, n_train: int, limit: int) -> bool:
        if self.solver != "auto":
            return self.solver == "dense"
        return n_train <= limit and n_train * self.graph.n_nodes <= DENSE_ENTRIES

    def _evidence(self, prior: GraphPrior, train: IntArray, y: FloatArray) -> Evidence:
        if self._use_dense(train.size, DENSE_EVIDENCE_LIMIT):
            return DenseEvidence(prior, train, y)
        return IterativeEvidence(prior, train, y, self.n_probes, seed=self._seed)

    def _candidates(self) -> list[GraphKernel]:
        """Kernels whose families are compared: of `"auto"` several, heat first."""
        if isinstance(self.kernel, str) and self.kernel == "auto":
            several = self._searches and "kernel" not in self.fixed
            return [parse_graph_kernel(name) for name in AUTO_KERNELS[: None if several else 1]]
        return [parse_graph_kernel(self.kernel)]

    def _optimise(
        self,
        kernels: list[GraphKernel],
        train: IntArray,
        Y: FloatArray,
        checkpoint: str | Path | None,
    ) -> Found:
        """By the evidence of the exact kernel, and on by that of redrawn walks where it differs."""
        path = None if checkpoint is None else Path(checkpoint)
        record = Checkpoint(path, self._problem(train, Y))
        stored = record.load()
        families, scan = range(len(kernels)), True
        fixed = not self._searches or "kernel" in self.fixed
        if stored is not None and stored.stage == "rounds":
            whole = self.solver == "iterative"
            families = range(stored.family, len(kernels) if whole else stored.family + 1)
            record.finished = list(stored.finished)
        elif self.solver != "iterative":
            problem = joint_problem(self.graph.closed, train, Y, self._seed)
            kept = Kept(fixed, self._kept("outputscale"), self._kept("noise"))
            with reporter("fit") as report:
                point, state = fit_families(problem.evidence, kernels, kept, record, report)
            if problem.is_whole and self._follows_exact(point.kernel, point.scales):
                self._record(state)
                return Found(point.kernel, point)
            kernels[state.family] = point.kernel
            families, scan = range(state.family, state.family + 1), problem.is_whole
        if fixed:
            return Found(kernels[families[0]], None)
        return Found(self._in_rounds(kernels, families, record, scan, train, Y), None)

    def _in_rounds(
        self,
        kernels: list[GraphKernel],
        families: range,
        record: Checkpoint,
        scan: bool,
        train: IntArray,
        Y: FloatArray,
    ) -> GraphKernel:
        """The best kernel of some families by rounds of redrawn walks, each family in turn."""
        found = dict(enumerate(record.finished))
        states = []
        for family in families:
            record.family = family
            _, state = fit_kernel(
                kernels[family],
                self._make_prior,
                lambda prior: self._evidence(prior, train, Y),
                self._kept("outputscale"),
                self._kept("noise"),
                record,
                scan_starts=scan,
            )
            states.append(state)
            found[family] = state.theta, state.objective
            record.finished = [*record.finished, found[family]]
        best = max(found, key=lambda k: found[k][1])
        self.n_rounds_ = sum(state.n_rounds for state in states)
        self.n_evaluations_ = sum(state.n_evaluations for state in states)
        self.converged_ = all(state.settled for state in states)
        return kernels[best].with_theta(np.array(found[best][0]))

    def _record(self, state: FitState) -> None:
        self.n_rounds_, self.n_evaluations_ = state.n_rounds, state.n_evaluations
        self.converged_ = state.settled

    @abstractmethod
    def _follows_exact(self, kernel: GraphKernel, scales: Scales) -> bool:
        """Whether the model's kernel is the exact one as far as the evidence can tell."""

    def _problem(self, train: IntArray, y: FloatArray) -> dict[str, Any]:
        """What identifies a fit: settings, seed and data."""
        settings = {k: repr(v) for k, v in self.get_params().items() if k != "random_state"}
        graph = self.graph
        data = hashlib.sha256(train.tobytes() + y.tobytes())
        data.update(graph.indptr.tobytes() + graph.indices.tobytes() + graph.weights.tobytes())
        return {"settings": settings, "seed": self._seed, "data": data.hexdigest()}

    def _condition(self, found: Found, train: IntArray, Y: FloatArray) -> None:
        """Posterior at the kernel, with the scales that are free at their best there."""
        self.kernel_ = found.kernel
        known = self._known_scales(found)
        prior = self._make_prior(found.kernel, known)
        scales, error = self._scales(found, prior, train, Y)
        if known is None:
            # Only now is it known how accurate the prior has to be.
            prior = self._make_prior(found.kernel, scales)
            scales, error = self._scales(found, prior, train, Y)
        dense = self._use_dense(train.size, DENSE_POSTERIOR_LIMIT)
        make = posterior_class(prior, dense)
        self._posterior: GraphPosterior = make(prior, train, Y, scales.outputscale, scales.noise)
        self._publish()
        self.log_marginal_likelihood_value_ = scales.log_evidence - self._targets.log_jacobian
        self.log_marginal_likelihood_error_ = error

    def _scales(
        self, found: Found, prior: GraphPrior, train: IntArray, Y: FloatArray
    ) -> tuple[Scales, float]:
        """Scales at their best under a prior, and the error of the log evidence."""
        if found.point is not None and not self._use_dense(train.size, DENSE_EVIDENCE_LIMIT):
            return found.point.scales, found.point.error
        measures = self._evidence(prior, train, Y).measures
        scales = measures.profile(self._kept("outputscale"), self._kept("noise"))
        return scales, measures.log_evidence_error(scales.outputscale, scales.noise)

    def _known_scales(self, found: Found) -> Scales | None:
        """Scales that the prior has to be accurate for: those found, or those given."""
        if found.point is not None:
            return found.point.scales
        outputscale, noise = self._kept("outputscale"), self._kept("noise")
        if outputscale is None or noise is None:
            return None
        return Scales(outputscale, noise, np.nan)

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
            Also return the standard deviation (p,). Exact for at most `exact_variances` nodes;
            for more, from `n_variance_samples` pathwise samples, with relative error
            `sqrt(1 / (2 n_variance_samples))`, unless the solver is dense.
        return_cov
            Also return the covariance, exact, from one solve a node, in blocks.
        latent
            Leave the noise out: the law of the function f instead of observations y.

        Returns
        -------
        FloatArray or (FloatArray, FloatArray)
            Mean, (p,) or (p, n_outputs), and what was asked for; standard deviations have the
            mean's shape, the covariance is (p, p) or (p, p, n_outputs).

        Raises
        ------
        InvalidInputError
            Both are asked for, a node is unknown, or the joint law does not fit in memory.
        """
        check_is_fitted(self)
        if return_std and return_cov:
            raise InvalidInputError("return_std, return_cov: expected at most one to be True")
        wanted = check_nodes(self.graph, nodes)
        targets = self._targets
        mean = targets.mean + targets.scale * self._posterior.mean(wanted)
        mean = targets.shaped(mean, 1)
        noise = 0.0 if latent else self._posterior.noise
        if return_cov:
            self._check_joint_size(wanted.size)
            with reporter("predict") as report:
                covariance = self._posterior.covariance(wanted, report)
            covariance[np.diag_indices_from(covariance)] += noise
            return mean, targets.shaped(np.multiply.outer(covariance, targets.scale**2), 2)
        if return_std:
            std = np.sqrt(self._variance(wanted) + noise)
            return mean, targets.shaped(np.multiply.outer(std, targets.scale), 1)
        return mean

    def _check_joint_size(self, n_wanted: int) -> None:
        """Refuse a joint law that does not fit, before it is begun."""
        block = min(n_wanted, BLOCK) * (2 * self.graph.n_nodes + self._posterior.nodes.size)
        check_memory(
            8.0 * ((2 + self._targets.scale.size) * n_wanted**2 + 3 * block),
            f"nodes: the joint law of {n_wanted} nodes",
            "ask for fewer nodes, for return_std, or for sample_y",
        )

    def _variance(self, wanted: IntArray) -> FloatArray:
        direct = isinstance(self._posterior, (DensePosterior, LeadingPosterior))
        exact = direct or wanted.size <= self.exact_variances
        with reporter("predict") as report:
            if exact:
                return self._posterior.variance(wanted, report)
            rng = np.random.default_rng(self._seed)
            count = self.n_variance_samples
            return self._posterior.sampled_variance(wanted, count, rng, report)

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
        check_is_fitted(self)
        check_positive_int(n_samples, "n_samples")
        wanted = check_nodes(self.graph, nodes)
        rng = np.random.default_rng(draw_seed(random_state))
        with reporter("sample") as report:
            samples = self._posterior.sample(wanted, n_samples, rng, report)
        if not latent:
            samples += np.sqrt(self._posterior.noise) * rng.standard_normal(samples.shape)
        targets = self._targets
        samples = targets.mean[:, None] + targets.scale[:, None] * samples
        return targets.shaped(samples, 1)

    def prior_covariance(self, nodes: Any = None) -> FloatArray:
        """Prior covariance of f at nodes, units of y squared.

        Shape (p, p), or (p, p, n_outputs) for targets of two dimensions.
        """
        check_is_fitted(self)
        wanted = check_nodes(self.graph, nodes)
        self._check_joint_size(wanted.size)
        unit = self._posterior.prior.matrix(wanted, wanted)
        return np.multiply.outer(unit, self.outputscale_)

    def own_problem(self) -> GraphProblem:
        """Return prior, data and scales of this model."""
        check_is_fitted(self)
        posterior = self._posterior
        targets = self._targets
        return GraphProblem(
            posterior.prior, posterior.nodes, targets.centred,
            posterior.outputscale, posterior.noise, targets.mean, targets.scale,
        )  # fmt: skip

    def exact_problem(self) -> GraphProblem:
        """Return those of the exact model at these hyperparameters, to the series' tolerance."""
        own = self.own_problem()
        if isinstance(own.prior, (SpectralPrior, SeriesPrior, SolvePrior)):
            return own
        tolerance = tolerance_for(own.noise / own.outputscale)
        if is_leading(self.graph.closed, self.kernel_, tolerance):
            return replace(own, prior=LeadingPrior(self.graph.closed, self.kernel_, tolerance))
        return replace(own, prior=SeriesPrior(self.graph.closed, self.kernel_, tolerance))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_posterior")


def posterior_class(prior: GraphPrior, dense: bool) -> Callable[..., GraphPosterior]:
    """How the posterior of a prior is computed."""
    if isinstance(prior, LeadingPrior):
        return LeadingPosterior
    return DensePosterior if dense else IterativePosterior


def draw_seed(random_state: Any) -> int:
    """A seed from a scikit-learn random state; the same int gives the same seed."""
    if isinstance(random_state, np.random.Generator):
        return int(random_state.integers(2**31))
    try:
        return int(check_random_state(random_state).randint(2**31 - 1))
    except ValueError:
        raise InvalidInputError(
            f"random_state: expected an int, a RandomState, a Generator or None, "
            f"got {random_state!r}"
        ) from None
