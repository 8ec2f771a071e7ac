"""Gaussian process regression on the nodes of a graph: with walk features, and exact."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.couplings import (
    GeometricLaw,
    LengthLaw,
    MatchedLaw,
    WalkerCoupling,
    WalkerCouplingLike,
    parse_walker_coupling,
)
from coupledgp.errors import InvalidInputError
from coupledgp.features import HopPlan, plan_hops, walked_series
from coupledgp.features.walks.hops import (
    AFFORDABLE_COST,
    HOP_TOLERANCE,
    MIN_AFFORDABLE_HOPS,
    HopNodes,
)
from coupledgp.graphs import Graph
from coupledgp.graphs.spectrum import lanczos_density
from coupledgp.inference.nodes.cholesky_prior import SolveChoice, SolvePrior, choose_solve
from coupledgp.inference.nodes.evidence import Scales
from coupledgp.inference.nodes.exact_evidence import tolerance_for
from coupledgp.inference.nodes.leading import LeadingPrior, is_leading
from coupledgp.inference.nodes.priors import GraphPrior, SeriesPrior, SpectralPrior, WalkPrior
from coupledgp.kernels import GraphKernel, GraphKernelLike
from coupledgp.models.graph_base import GraphRegressor
from coupledgp.validation import check_choice, check_positive, check_positive_int

SPECTRAL_LIMIT = 1200
WALK_TOLERANCE = 1e-6
LAW_FACTORS = (0.5, 1.0, 2.0)
HIDDEN_BY_NOISE = 0.01
# Walkers behind a wide kernel make thousands of steps each, hops are a few milliseconds. The
# product of r hops is as small as 2^-r: beyond this the least float is near.
MAX_HOPS = 960


class GraphGPRegressor(GraphRegressor):
    """Graph Gaussian process with coupled random walks and exact hops.

    `y = f + e`, `f ~ N(0, v Phi Phi')`, `e ~ N(0, s I)`, where `Phi` are walk features whose
    kernel estimate is positive semidefinite and unbiased off the diagonal (MATH 9). With
    `exact_hops="auto"` the first terms of the kernel's series are computed and the walkers carry
    what is left. `coupling="sigma", length_law="geometric", exact_hops=0` is the estimator of
    "Variance-reducing couplings".

    Parameters
    ----------
    graph
        The graph.
    kernel
        `"heat"`, `"regularized-laplacian"`, `"matern"`, `"random-walk"`, `"inverse-cosine"`,
        `"learned"`, or a `GraphKernel`, which is then where the fit starts; `"auto"` takes the one
        of heat, regularised Laplacian and Matern whose exact evidence is greatest.
    n_walks
        Walkers m per node. `"auto"`: as many as it takes for the KL from the exact posterior to
        this one to fall below `kl_target`; see `selection_`.
    coupling
        `lengths[+steps]`, see `couplings.parse_walker_coupling`. `"auto"`: the one that comes
        closest to the exact posterior.
    length_law
        `"matched"` (to the walked series at half, once and twice the kernel's scale),
        `"geometric"`, or a `LengthLaw`.
    p_halt
        Chance of halting before each step under the geometric law.
    exact_hops
        A number of hops, or `"auto"`: the fewest that bring the expected relative error of the
        kernel below 1e-3, at most `max_hops` (see `features.plan_hops`). What was chosen, and
        why, is in `plan_`.
    hop_nodes
        `"chebyshev"`, `"ritz"` or `"power"`, see `features.plan_hops`.
    max_hops
        Cost bound of `"auto"`, in products with `W~` per product with the features; by default
        as many as a hundred million multiply-adds pay for, from 64 to 960.
    max_length
        Longest walk; by default so long that less than 1e-6 of the series is lost.
    normalize_y
        Centre y and scale it to unit variance.
    optimizer
        `"lbfgs"` maximises the evidence; None keeps the given hyperparameters.
    outputscale, noise
        Variances v and s in units of the normalised y, kept if the optimizer is None or if they
        are named in `fixed`; 1.0 and 0.1 if left out then.
    fixed
        Which of `"kernel"`, `"outputscale"`, `"noise"` the optimizer leaves alone.
    solver
        `"dense"` (eigenvectors and Cholesky of the training covariance), `"iterative"` (Lanczos
        and conjugate gradients), or `"auto"`: a dense evidence for up to 1024 observations, which
        is evaluated often, and a dense posterior for up to 4096.
    n_probes
        Random vectors of the iterative log-determinant; what error they leave is in
        `log_marginal_likelihood_error_`.
    exact_variances, n_variance_samples
        For more nodes than `exact_variances` the iterative solver takes standard deviations from
        `n_variance_samples` pathwise samples.
    random_state
        Seed of the walks and probes.
    kl_target
        Nats per point, for `"auto"`. It is measured at a quarter of the observed nodes, at most
        256, given the others; a ConvergenceWarning says if it could not be met.

    Attributes
    ----------
    kernel_, outputscale_, noise_
        Fitted kernel, and variances in units of y squared.
    plan_
        The exact hops in use, the error expected, and why (`features.HopPlan`).
    truncation_
        What the longest walk neglects of the walked series (`features.Truncation`).
    log_marginal_likelihood_value_, log_marginal_likelihood_error_
        Log evidence of y in original units, and its standard error (zero for a dense solver).
    selection_, kl_per_point_
        Of `"auto"`: what was tried and why it was chosen (`selection_.explain()`), and the KL that
        was measured after the fit.
    n_walks_
        Walkers per node in use.
    n_rounds_, n_evaluations_, converged_
        Rounds of redrawn walks, evaluations of the evidence, and whether the last round stayed.
    """

    def __init__(
        self,
        graph: Graph,
        kernel: GraphKernelLike = "auto",
        n_walks: int | str = 32,
        coupling: WalkerCouplingLike = "stratified+systematic",
        length_law: str | LengthLaw = "matched",
        p_halt: float = 0.1,
        exact_hops: int | Literal["auto"] = "auto",
        max_length: int | None = None,
        normalize_y: bool = True,
        optimizer: str | None = "lbfgs",
        random_state: Any = None,
        *,
        hop_nodes: HopNodes = "chebyshev",
        max_hops: int | None = None,
        outputscale: float | None = None,
        noise: float | None = None,
        fixed: tuple[str, ...] = (),
        solver: str = "auto",
        n_probes: int = 16,
        exact_variances: int = 512,
        n_variance_samples: int = 256,
        kl_target: float = 0.01,
    ) -> None:
        self.graph = graph
        self.kernel = kernel
        self.n_walks = n_walks
        self.coupling = coupling
        self.length_law = length_law
        self.p_halt = p_halt
        self.exact_hops = exact_hops
        self.max_length = max_length
        self.normalize_y = normalize_y
        self.optimizer = optimizer
        self.random_state = random_state
        self.hop_nodes = hop_nodes
        self.max_hops = max_hops
        self.outputscale = outputscale
        self.noise = noise
        self.fixed = fixed
        self.solver = solver
        self.n_probes = n_probes
        self.exact_variances = exact_variances
        self.n_variance_samples = n_variance_samples
        self.kl_target = kl_target

    def _fit(self, nodes: Any, y: ArrayLike, checkpoint: str | Path | None) -> None:
        if "auto" not in (self.n_walks, self.coupling):
            super()._fit(nodes, y, checkpoint)
            return
        if checkpoint is not None:
            raise InvalidInputError("checkpoint: expected None where something is 'auto'")
        from coupledgp.selection.automatic import fit_automatic  # it imports this class

        fitted = fit_automatic(self, nodes, y, lambda candidate: candidate.fit(nodes, y))
        self.__dict__ = fitted.__dict__

    @property
    def n_walks_(self) -> int:
        """Walkers per node in use."""
        return self._walk_prior.n_walks

    def _check_parameters(self) -> None:
        check_positive_int(self.n_walks, "n_walks")
        parse_walker_coupling(self.coupling)
        check_choice(self.hop_nodes, ("chebyshev", "ritz", "power"), "hop_nodes")
        if self.exact_hops != "auto":
            check_positive_int(self.exact_hops, "exact_hops", minimum=0)
        if not isinstance(self.length_law, LengthLaw):
            check_choice(self.length_law, ("matched", "geometric"), "length_law")

    def _plan(self, kernel: GraphKernel, scales: Scales | None) -> HopPlan:
        """Hops whose walked rest the noise hides: an error e adds e^2 of the variance of f."""
        tolerance = HOP_TOLERANCE
        if scales is not None:
            density = lanczos_density(self.graph.closed)
            mean = float(density.weights @ kernel.spectral(density.nodes))
            share = scales.noise / max(scales.outputscale * mean, np.finfo(float).tiny)
            tolerance = min(tolerance, HIDDEN_BY_NOISE * float(np.sqrt(share)))
        return plan_hops(
            self.graph.closed,
            kernel,
            check_positive_int(self.n_walks, "n_walks"),
            self.exact_hops,
            self.hop_nodes,
            self._most_hops() if self.max_hops is None else self.max_hops,
            tolerance,
        )

    def _most_hops(self) -> int:
        """As many as cost some milliseconds a product; `plan_hops` stops earlier by itself."""
        affordable = AFFORDABLE_COST // max(self.graph.indices.size, 1)
        return max(MIN_AFFORDABLE_HOPS, min(affordable, MAX_HOPS))

    def _follows_exact(self, kernel: GraphKernel, scales: Scales) -> bool:
        return self._plan(kernel, scales).predicted_error <= HOP_TOLERANCE

    def _make_prior(self, kernel: GraphKernel, scales: Scales | None = None) -> WalkPrior:
        return self._walks_behind(kernel, self._plan(kernel, scales))

    def _walks_behind(self, kernel: GraphKernel, plan: HopPlan) -> WalkPrior:
        """The prior of walkers behind given hops."""
        law = self._law(kernel, plan)
        series = walked_series(kernel, plan, WALK_TOLERANCE)
        longest = self.max_length
        if longest is None:
            natural = law.natural_length()
            longest = natural if isinstance(law, MatchedLaw) else max(series.size - 1, 0)
        parsed = parse_walker_coupling(self.coupling)
        padded = np.zeros(longest + 1)
        padded[: min(series.size, longest + 1)] = series[: longest + 1]
        lengths = parsed.lengths.prepare(law, padded, longest)
        coupling = WalkerCoupling(lengths, parsed.steps)
        n_walks = check_positive_int(self.n_walks, "n_walks")
        return WalkPrior(
            self.graph.closed, kernel, plan, n_walks, coupling, law, longest, self._seed
        )

    def _law(self, kernel: GraphKernel, plan: HopPlan) -> LengthLaw:
        """The length law; a matched one is the mean over neighbouring scales."""
        if isinstance(self.length_law, LengthLaw):
            return self.length_law
        if self.length_law == "geometric":
            return GeometricLaw(self.p_halt)
        series = [
            walked_series(kernel.scaled(factor), plan, WALK_TOLERANCE) for factor in LAW_FACTORS
        ]
        rows = np.zeros((len(series), max(row.size for row in series)))
        for k, row in enumerate(series):
            rows[k, : row.size] = row
        return MatchedLaw(rows)

    @property
    def plan_(self) -> HopPlan:
        """The exact hops in use."""
        return self._walk_prior.plan

    @property
    def truncation_(self) -> Any:
        """What the longest walk neglects of the walked series."""
        return self._walk_prior.features(self._posterior.nodes).truncation

    @property
    def _walk_prior(self) -> WalkPrior:
        prior = self._posterior.prior
        assert isinstance(prior, WalkPrior)
        return prior

    def exact_twin(self) -> ExactGraphGPRegressor:
        """The exact model at these hyperparameters, fitted to the same data."""
        twin = ExactGraphGPRegressor(
            self.graph,
            self.kernel_,
            normalize_y=self.normalize_y,
            optimizer=None,
            outputscale=self._posterior.outputscale,
            noise=self._posterior.noise,
            solver=self.solver,
            n_probes=self.n_probes,
            exact_variances=self.exact_variances,
            n_variance_samples=self.n_variance_samples,
            random_state=self._seed,
        )
        return twin.fit(self.nodes_, self.y_train_)


class ExactGraphGPRegressor(GraphRegressor):
    """Graph Gaussian process with the exact kernel, same interface as `GraphGPRegressor`.

    Parameters
    ----------
    graph, kernel, normalize_y, optimizer, random_state, outputscale, noise, fixed, solver
        As for `GraphGPRegressor`.
    n_probes, exact_variances, n_variance_samples
        As for `GraphGPRegressor`.
    method
        `"spectral"` (all eigenvectors of `W~`, O(n_nodes^3)), `"series"` (Chebyshev series, cost
        in proportion to the edges), `"cholesky"` (a sparse factorisation, for regularised
        Laplacian and Matern kernels of whole exponent), or `"auto"`: spectral for up to 1200
        nodes; the leading eigenpairs for kernels so wide that those are all of them; then the
        cheaper of the other two, see `method_reason_`.
    tolerance
        Relative spectral error of the series; smaller ones are used for small noises.

    Attributes
    ----------
    method_, method_reason_
        The method in use at the fitted kernel, and why.
    """

    def __init__(
        self,
        graph: Graph,
        kernel: GraphKernelLike = "auto",
        method: Literal["auto", "spectral", "series", "cholesky"] = "auto",
        tolerance: float = 1e-8,
        normalize_y: bool = True,
        optimizer: str | None = "lbfgs",
        random_state: Any = None,
        *,
        outputscale: float | None = None,
        noise: float | None = None,
        fixed: tuple[str, ...] = (),
        solver: str = "auto",
        n_probes: int = 16,
        exact_variances: int = 512,
        n_variance_samples: int = 256,
    ) -> None:
        self.graph = graph
        self.kernel = kernel
        self.method = method
        self.tolerance = tolerance
        self.normalize_y = normalize_y
        self.optimizer = optimizer
        self.random_state = random_state
        self.outputscale = outputscale
        self.noise = noise
        self.fixed = fixed
        self.solver = solver
        self.n_probes = n_probes
        self.exact_variances = exact_variances
        self.n_variance_samples = n_variance_samples

    def _check_parameters(self) -> None:
        check_choice(self.method, ("auto", "spectral", "series", "cholesky"), "method")
        check_positive(self.tolerance, "tolerance")

    def _follows_exact(self, kernel: GraphKernel, scales: Scales) -> bool:
        return True

    def _make_prior(self, kernel: GraphKernel, scales: Scales | None = None) -> GraphPrior:
        if self.method == "spectral" or (
            self.method == "auto" and self.graph.n_nodes <= SPECTRAL_LIMIT
        ):
            self._chosen = "spectral", f"{self.graph.n_nodes} nodes"
            return SpectralPrior(self.graph.closed, kernel)
        tolerance = self.tolerance
        if scales is not None:  # what the noise does not hide counts
            tolerance = min(tolerance, tolerance_for(scales.noise / scales.outputscale))
        if self.method == "auto" and is_leading(self.graph.closed, kernel, tolerance):
            prior = LeadingPrior(self.graph.closed, kernel, tolerance)
            self._chosen = "leading", f"{prior.rank} eigenpairs are all of it, to {tolerance:.2g}"
            return prior
        choice, order = SolveChoice(self.method == "cholesky", "as asked"), None
        if self.method == "auto":
            choice, order = choose_solve(self.graph.closed, kernel, tolerance)
        self._chosen = "cholesky" if choice.factorise else "series", choice.reason
        if choice.factorise:
            return SolvePrior(self.graph.closed, kernel, order)
        return SeriesPrior(self.graph.closed, kernel, tolerance)

    @property
    def method_(self) -> str:
        """Method in use: `"spectral"`, `"leading"`, `"series"` or `"cholesky"`."""
        return self._chosen[0]

    @property
    def method_reason_(self) -> str:
        """Why."""
        return self._chosen[1]

    def exact_twin(self) -> ExactGraphGPRegressor:
        """The model itself."""
        return self
