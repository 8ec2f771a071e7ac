"""What the regressors on graphs share: checks, units, the fit, and predictions."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from coupledgp.errors import InvalidInputError
from coupledgp.graphs import Graph
from coupledgp.graphs.graph import check_graph, check_nodes
from coupledgp.inference.graph_evidence import (
    DenseEvidence,
    Evidence,
    IterativeEvidence,
    Measures,
    Scales,
)
from coupledgp.inference.graph_fit import Checkpoint, fit_kernel
from coupledgp.inference.graph_posterior import DensePosterior, GraphPosterior, IterativePosterior
from coupledgp.inference.graph_priors import GraphPrior, SeriesPrior, SpectralPrior
from coupledgp.inference.graph_system import GraphProblem
from coupledgp.kernels import GraphKernel, GraphKernelLike, parse_graph_kernel
from coupledgp.random import FloatArray
from coupledgp.validation import check_choice, check_positive, check_positive_int, check_vector

IntArray = NDArray[np.int64]
DENSE_EVIDENCE_LIMIT = 1024
DENSE_POSTERIOR_LIMIT = 4096
DENSE_ENTRIES = 2**24
DEFAULT_SCALES = {"outputscale": 1.0, "noise": 0.1}
HYPERPARAMETERS = ("kernel", "outputscale", "noise")


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
    def _make_prior(self, kernel: GraphKernel) -> GraphPrior:
        """The prior for a kernel, its draw made for it."""

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
            Observations (n,).
        checkpoint
            A JSON file that is written after each round of the fit; an interrupted fit that is
            started again with the same data and settings goes on from it.

        Raises
        ------
        InvalidInputError
            A parameter of the estimator or the data is invalid.
        """
        check_graph(self.graph)
        self._check_common()
        self._check_parameters()
        train, targets = self._validate(nodes, y)
        self._seed = draw_seed(self.random_state)
        self._y_mean = float(targets.mean()) if self.normalize_y else 0.0
        spread = float(targets.std()) if self.normalize_y else 1.0
        self._y_scale = spread if spread > 0 else 1.0
        centred = (targets - self._y_mean) / self._y_scale
        kernel = parse_graph_kernel(self.kernel)
        if self.optimizer is not None:
            kernel = self._optimise(kernel, train, centred, checkpoint)
        self._condition(kernel, train, centred)
        self.nodes_, self.y_train_ = self.graph.label_all(train), targets
        return self

    def _check_common(self) -> None:
        if self.optimizer is not None:
            check_choice(self.optimizer, ["lbfgs"], "optimizer")
        check_choice(self.solver, ["auto", "dense", "iterative"], "solver")
        for name in self.fixed:
            check_choice(name, HYPERPARAMETERS, "fixed")
        check_positive_int(self.n_probes, "n_probes", minimum=2)
        check_positive_int(self.exact_variances, "exact_variances", minimum=0)
        check_positive_int(self.n_variance_samples, "n_variance_samples", minimum=2)

    def _validate(self, nodes: Any, y: ArrayLike) -> tuple[IntArray, FloatArray]:
        train = check_nodes(self.graph, nodes)
        targets = check_vector(y, "y")
        if targets.size != train.size:
            raise InvalidInputError(
                f"y: expected {train.size} values to match nodes, got {targets.size}"
            )
        return train, targets

    def _kept(self, name: str) -> float | None:
        """The given or default value of a scale that is not fitted; None for one that is."""
        if self.optimizer is not None and name not in self.fixed:
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

    def _optimise(
        self, kernel: GraphKernel, train: IntArray, y: FloatArray, checkpoint: str | Path | None
    ) -> GraphKernel:
        if "kernel" in self.fixed:
            return kernel
        record = Checkpoint(
            None if checkpoint is None else Path(checkpoint), self._problem(train, y)
        )
        kernel, state = fit_kernel(
            kernel,
            self._make_prior,
            lambda prior: self._evidence(prior, train, y),
            self._kept("outputscale"),
            self._kept("noise"),
            record,
        )
        self.n_rounds_, self.n_evaluations_ = state.n_rounds, state.n_evaluations
        self.converged_ = state.settled
        return kernel

    def _problem(self, train: IntArray, y: FloatArray) -> dict[str, Any]:
        """What identifies a fit: settings, seed and data."""
        settings = {k: repr(v) for k, v in self.get_params().items() if k != "random_state"}
        graph = self.graph
        data = hashlib.sha256(train.tobytes() + y.tobytes())
        data.update(graph.indptr.tobytes() + graph.indices.tobytes() + graph.weights.tobytes())
        return {"settings": settings, "seed": self._seed, "data": data.hexdigest()}

    def _condition(self, kernel: GraphKernel, train: IntArray, y: FloatArray) -> None:
        """Posterior at the kernel, with the scales that are free at their best there."""
        prior = self._make_prior(kernel)
        evidence = self._evidence(prior, train, y)
        scales = evidence.measures.profile(self._kept("outputscale"), self._kept("noise"))
        dense = self._use_dense(train.size, DENSE_POSTERIOR_LIMIT)
        make = DensePosterior if dense else IterativePosterior
        self._posterior: GraphPosterior = make(prior, train, y, scales.outputscale, scales.noise)
        self.kernel_ = kernel
        self._set_evidence(evidence.measures, scales, train.size)

    def _set_evidence(self, measures: Measures, scales: Scales, n_train: int) -> None:
        self.outputscale_ = scales.outputscale * self._y_scale**2
        self.noise_ = scales.noise * self._y_scale**2
        jacobian = n_train * float(np.log(self._y_scale))
        self.log_marginal_likelihood_value_ = scales.log_evidence - jacobian
        self.log_marginal_likelihood_error_ = measures.log_evidence_error(
            scales.outputscale, scales.noise
        )

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
            Also return the covariance (p, p), exact.
        latent
            Leave the noise out: the law of the function f instead of observations y.

        Returns
        -------
        FloatArray or (FloatArray, FloatArray)
            Mean (p,), and what was asked for.
        """
        check_is_fitted(self)
        if return_std and return_cov:
            raise InvalidInputError("return_std, return_cov: expected at most one to be True")
        wanted = check_nodes(self.graph, nodes)
        mean = self._y_mean + self._y_scale * self._posterior.mean(wanted)
        noise = 0.0 if latent else self._posterior.noise
        if return_cov:
            covariance = self._posterior.covariance(wanted)
            covariance[np.diag_indices_from(covariance)] += noise
            return mean, self._y_scale**2 * covariance
        if return_std:
            return mean, self._y_scale * np.sqrt(self._variance(wanted) + noise)
        return mean

    def _variance(self, wanted: IntArray) -> FloatArray:
        if wanted.size <= self.exact_variances or isinstance(self._posterior, DensePosterior):
            blocks = np.array_split(wanted, -(-wanted.size // 1024))
            return np.concatenate([self._posterior.variance(block) for block in blocks])
        rng = np.random.default_rng(self._seed)
        return self._posterior.sampled_variance(wanted, self.n_variance_samples, rng)

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
            Samples (p, n_samples).
        """
        check_is_fitted(self)
        check_positive_int(n_samples, "n_samples")
        wanted = check_nodes(self.graph, nodes)
        rng = np.random.default_rng(draw_seed(random_state))
        samples = self._posterior.sample(wanted, n_samples, rng)
        if not latent:
            samples += np.sqrt(self._posterior.noise) * rng.standard_normal(samples.shape)
        return self._y_mean + self._y_scale * samples

    def prior_covariance(self, nodes: Any = None) -> FloatArray:
        """Prior covariance of f at nodes, units of y squared, shape (p, p)."""
        check_is_fitted(self)
        wanted = check_nodes(self.graph, nodes)
        return self.outputscale_ * self._posterior.prior.matrix(wanted, wanted)

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
        if isinstance(own.prior, (SpectralPrior, SeriesPrior)):
            return own
        return replace(own, prior=SeriesPrior(self.graph, self.kernel_))

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_posterior")


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
