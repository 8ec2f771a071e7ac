"""Gaussian process regression on the nodes of a graph: with walk features, and exact."""

from __future__ import annotations

from dataclasses import KW_ONLY, replace
from typing import Any, ClassVar, Literal, Self

from numpy.typing import ArrayLike

from coupledgp.core.options import estimator
from coupledgp.core.process import Data, GaussianProcess
from coupledgp.couplings import WalkerCouplingLike, parse_walker_coupling
from coupledgp.couplings.walkers.lengths import GeometricLaw
from coupledgp.couplings.walkers.registry import check_length_law
from coupledgp.errors import InvalidInputError
from coupledgp.features import HopPlan, Truncation
from coupledgp.graphs import Graph
from coupledgp.graphs.estimator import NodeRegressor
from coupledgp.graphs.priors import WalkPrior
from coupledgp.graphs.process import NodeGP
from coupledgp.graphs.recipes import SPECTRAL_NODES, ExactRecipe, Method, WalkMethod, WalkRecipe
from coupledgp.ground.devices import CPU, parse_device
from coupledgp.ground.parameters import any_value, one_of, option, options_of, param, positive
from coupledgp.ground.validation import check_positive_int
from coupledgp.kernels import GraphKernelLike
from coupledgp.random import draw_seed
from coupledgp.tables.members import is_auto
from coupledgp.tables.regressor import AutomaticSize

# Couplings that "auto" compares, and the sizes between which it looks.
WALKER_COUPLINGS = ("iid", "antithetic", "sigma", "stratified+systematic")
MIN_WALKS, MAX_WALKS = 2, 1024
# How walkers may be spread over the nodes.
# Parameters that say something about the walks; by default a kernel may be answered without them.
WALK_PARAMETERS = (
    "coupling", "n_walks", "length_law", "p_halt", "exact_hops", "max_length", "hop_nodes",
    "max_hops", "solver",
)  # fmt: skip


@estimator
class GraphGPRegressor(AutomaticSize, NodeRegressor):
    """Graph Gaussian process with coupled random walks and exact hops.

    `y = f + e`, `f ~ N(0, v Phi Phi')`, `e ~ N(0, s I)`, where `Phi` are walk features whose
    kernel estimate is positive semidefinite and unbiased off the diagonal (MATH 9). With
    `exact_hops="auto"` the first terms of the kernel's series are computed and the walkers carry
    the remaining terms. `coupling="sigma", exact_hops=0, options={"length_law": "geometric"}` is
    the estimator of "Variance-reducing couplings".

    Parameters
    ----------
    n_walks
        Number of walkers m per node. `"auto"`: the least number for which the KL from the exact
        posterior to this one falls below `kl_target`; see `selection_`.
    coupling
        Joint law of the walkers of a node: an object or a text `lengths[+steps]`, see
        `couplings.parse_walker_coupling`. `"auto"`: the one that comes closest to the exact
        posterior.
    exact_hops
        A number of hops, or `"auto"`: the fewest that bring the expected relative error of the
        kernel below 1e-3, at most `max_hops` (see `features.plan_hops`). The number in use and the
        reason for it are in `plan_`.
    method
        `"walks"`, or `"auto"`: a regularised Laplacian or Matern kernel of whole exponent on more
        than 1200 nodes is answered exactly, by a sparse factorisation, where its forecast is less
        than that of hops and walks. A parameter or option of the walks rules this out: `coupling`,
        `n_walks`, `exact_hops`, `length_law`, `p_halt`, `max_length`, `hop_nodes`, `max_hops` or
        `solver` other than by default. See `method_reason_`.
    options
        Values by name for specialists: those of `ExactGraphGPRegressor` without `tolerance`, and

        * `length_law`: `"matched"` (to the walked series at half, once and twice the kernel's
          scale), the default, `"geometric"`, another registered name, a `LengthLaw`, or a function
          `(p_halt, series)` that makes one (see `couplings.register_length_law`).
        * `p_halt` (0.1): chance of halting before each step under the geometric law.
        * `max_length`: length, in steps, at which walks end; by default the least with which less
          than 1e-6 of the series is lost.
        * `hop_nodes`: kind of the interpolation nodes of the hops: `"chebyshev"`, the default,
          `"ritz"` or `"power"`, see `features.plan_hops`.
        * `max_hops`: largest number of hops under `"auto"`, each a product with `W~` in every
          product with the features; by default as many as a hundred million multiply-adds pay for,
          from 64 to 960.
        * `kl_target` (0.01): target of the KL for `"auto"`, nats per node. The KL is measured after
          the fit, at each quarter of the observations given the other quarters, of 256 at most. A
          ConvergenceWarning is given if the KL, or its mean plus two standard errors, is above it.
    random_state
        Seed of the walks and probes.
    device
        Where products with exact kernels are computed, which `method="auto"` makes of more than
        1200 nodes, see `ExactGraphGPRegressor`. Walks are on the CPU alone.

    Attributes
    ----------
    method_, method_reason_
        `"walks"`, or for the exact kernel that of `ExactGraphGPRegressor`, and the reason in words.
    plan_
        The exact hops in use, the error that is expected, and the reason for their number
        (`features.HopPlan`); with walks only.
    truncation_
        Size of the part of the walked series that is beyond the longest walk
        (`features.Truncation`); with walks only.
    n_walks_
        Number of walkers per node in use; with walks only.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> ring = cgp.Graph.from_edges(np.arange(24), (np.arange(24) + 1) % 24)
    >>> seen = np.arange(0, 24, 2)
    >>> model = cgp.GraphGPRegressor(ring, "heat", random_state=0)
    >>> model = model.fit(seen, np.cos(np.pi * seen / 12))
    >>> bool(abs(model.predict([1])[0] - np.cos(np.pi / 12)) < 0.1)
    True
    """

    graph: Graph
    kernel: GraphKernelLike = "auto"
    n_walks: int | str = 32
    coupling: WalkerCouplingLike = "stratified+systematic"
    exact_hops: int | Literal["auto"] = "auto"
    normalize_y: bool = True
    optimizer: str | None = "lbfgs"
    random_state: Any = None
    _: KW_ONLY
    method: WalkMethod = param(default="auto", check=one_of("auto", "walks"))
    length_law = option("matched", lambda value, name: check_length_law(value))
    p_halt = option(0.1, lambda value, name: GeometricLaw(value))
    max_length = option(None, any_value)
    hop_nodes = option("chebyshev", one_of("chebyshev", "ritz", "power"))
    max_hops = option(None, any_value)

    size_parameter: ClassVar[str] = "n_walks"

    def fit(self, nodes: Any, y: ArrayLike, exposure: ArrayLike | None = None) -> Self:
        """Fit as `NodeRegressor.fit` does, after choosing the coupling and size if `"auto"`.

        Parameters
        ----------
        nodes, y
            Labels of n nodes and observations (n,) or (n, n_outputs).
        exposure
            Exposures (n,) of the observations, for a likelihood of counts; None: ones.

        Raises
        ------
        InvalidInputError
            A parameter of the estimator or the data is invalid.
        """
        if not self._chooses:
            return super().fit(nodes, y, exposure)
        if self._law() is not None:
            raise InvalidInputError(
                "coupling, n_walks: expected values other than 'auto' beside a likelihood, under "
                "which no KL decides on them"
            )
        if self.hyperparameters == "averaged":
            raise InvalidInputError(
                "hyperparameters: expected 'auto' or 'maximum' where the coupling or the number "
                "of walkers is chosen, got 'averaged'"
            )
        return self._assigned(lambda: self._fit_automatic(nodes, y), y, self.graph, y=y)

    @property
    def n_walks_(self) -> int:
        """Number of walkers per node in use."""
        return self._walk_prior.n_walks

    @property
    def plan_(self) -> HopPlan:
        """The exact hops in use."""
        return self._walk_prior.plan

    @property
    def truncation_(self) -> Truncation:
        """Size of the part of the walked series that is beyond the longest walk."""
        return self._walk_prior.features(self.first_process_.posterior.nodes).truncation

    @property
    def _walk_prior(self) -> WalkPrior:
        prior = self.first_process_.chosen.prior
        if not isinstance(prior, WalkPrior):
            raise AttributeError(
                f"no walks were made, the kernel is exact ({self.method_reason_}); "
                "GraphGPRegressor(method='walks') makes them"
            )
        return prior

    def exact_twin(self) -> ExactGraphGPRegressor:
        """The exact model at these hyperparameters, fitted to the same data."""
        record, process, first = self.fitted_, self.process_, self.first_process_
        hyper = first.hyperparameters
        twin = ExactGraphGPRegressor(
            self._graph,
            hyper.kernel,
            normalize_y=self.normalize_y,
            optimizer=None,
            outputscale=hyper.outputscale,
            noise=hyper.noise,
            solver=self.solver,
            random_state=first.settings.seed,
            progress=self.progress,
            options={
                "n_probes": self.n_probes, "exact_variances": self.exact_variances,
                "n_variance_samples": self.n_variance_samples,
            },
        )  # fmt: skip
        return twin.around(process.exact(), record)

    def check_parameters(self) -> None:
        super().check_parameters()
        if not is_auto(self.n_walks):
            check_positive_int(self.n_walks, "n_walks")
        if not is_auto(self.coupling):
            parse_walker_coupling(self.coupling)
        if self.exact_hops != "auto":
            check_positive_int(self.exact_hops, "exact_hops", minimum=0)
        where = parse_device(self.device)
        if where != CPU and (self._walks or self._graph.n_nodes <= SPECTRAL_NODES):
            raise InvalidInputError(
                "device: expected None where nodes are walked, or may be, which is on the CPU, got "
                f"{str(where)!r}; ExactGraphGPRegressor multiplies on a device"
            )

    def _recipe(self, seed: int) -> WalkRecipe:
        recipe = self._recipe_with(self.coupling, self.n_walks, seed)
        if self._asks_for_walks:
            return recipe
        return replace(recipe, method=self.method, device=parse_device(self.device))

    @property
    def _walks(self) -> bool:
        return self.method == "walks" or self._asks_for_walks

    @property
    def _asks_for_walks(self) -> bool:
        """Whether any parameter of the walks, or of solves with them, differs from its default."""
        kind, known = type(self), options_of(type(self))
        usual = {n: known[n].default if n in known else getattr(kind, n) for n in WALK_PARAMETERS}
        return any(getattr(self, name) != value for name, value in usual.items())

    def _recipe_with(self, coupling: Any, n_walks: Any, seed: int) -> WalkRecipe:
        return WalkRecipe(
            graph=self._graph,
            n_walks=check_positive_int(n_walks, "n_walks"),
            coupling=parse_walker_coupling(coupling),
            length_law=self.length_law,
            p_halt=self.p_halt,
            exact_hops=self.exact_hops,
            max_length=self.max_length,
            hop_nodes=self.hop_nodes,
            max_hops=self.max_hops,
            seed=seed,
        )

    # The methods by which a coupling and a size are chosen, see `selection.members`.

    @property
    def candidate_couplings(self) -> tuple[str, ...]:
        """Couplings that `"auto"` compares."""
        return WALKER_COUPLINGS

    def parse_coupling(self, coupling: Any, name: str) -> Any:
        """Return a coupling of walkers from its text form or an object."""
        return parse_walker_coupling(coupling, name)

    def size_range(self, data: Data) -> tuple[int, int]:
        """Smallest and largest number of walkers that are tried."""
        return MIN_WALKS, MAX_WALKS

    def exact_process(
        self, data: Data, seed: int, progress: bool | None, columns: Any = None
    ) -> GaussianProcess:
        """Fit the exact GP of the same settings on these observations."""
        exact = ExactGraphGPRegressor(
            self._graph,
            self.kernel,
            normalize_y=self.normalize_y,
            optimizer=self.optimizer,
            outputscale=self.outputscale,
            noise=self.noise,
            options={"fixed": self.fixed},
            solver=self.solver,
            random_state=seed,
            progress=progress,
            hyperparameters="maximum",
        )
        return exact.fit_data(data)[0]

    def approximation(
        self, exact: GaussianProcess, coupling: Any, size: int, seed: int
    ) -> GaussianProcess:
        """Return the process of this model at the hyperparameters and data of an exact one."""
        assert isinstance(exact, NodeGP)
        own = draw_seed(seed)
        return exact.remade(self._recipe_with(coupling, size, own), self._settings(own))


@estimator
class ExactGraphGPRegressor(NodeRegressor):
    """Graph Gaussian process with the exact kernel, same interface as `GraphGPRegressor`.

    Parameters
    ----------
    device
        Where products with the kernel, its gradients and draws are computed: None or `"cpu"`,
        `"cuda"`, `"cuda:1"`, `"auto"` (a GPU where torch finds one) or a `torch.device`. On a GPU
        `method="auto"` is the series, whose products it has; the other methods are refused. Columns
        go there and back once for each product; all other steps of a search are on the CPU.
    method
        `"spectral"` (all eigenvectors of `W~`, O(n_nodes^3)), `"series"` (Chebyshev series, cost in
        proportion to the edges), `"cholesky"` (a sparse factorisation, for regularised Laplacian
        and Matern kernels of whole exponent), or `"auto"`. `"auto"` is spectral for up to 1200
        nodes, and for up to 4096 where a kernel is so wide that its series costs more. Elsewhere it
        is the cheaper of the other two; see `method_reason_`.
    options
        Values by name for specialists: those of `NodeRegressor`, and `tolerance` (1e-8), the
        relative spectral error of the series; smaller ones are used for small noises.

    Attributes
    ----------
    method_, method_reason_
        The method in use at the fitted kernel, and the reason for it in words.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> ring = cgp.Graph.from_edges(np.arange(24), (np.arange(24) + 1) % 24)
    >>> seen = np.arange(0, 24, 2)
    >>> model = cgp.ExactGraphGPRegressor(ring, "heat").fit(seen, np.cos(np.pi * seen / 12))
    >>> bool(abs(model.predict([1])[0] - np.cos(np.pi / 12)) < 0.1)
    True
    """

    graph: Graph
    kernel: GraphKernelLike = "auto"
    method: Method = param(default="auto", check=one_of("auto", "spectral", "series", "cholesky"))
    normalize_y: bool = True
    optimizer: str | None = "lbfgs"
    random_state: Any = None

    tolerance = option(1e-8, positive)

    def exact_twin(self) -> ExactGraphGPRegressor:
        """The model itself."""
        return self

    def check_parameters(self) -> None:
        super().check_parameters()
        where = parse_device(self.device)
        if where != CPU and self.method not in ("auto", "series"):
            raise InvalidInputError(
                f"device: expected None beside method={self.method!r}, which computes on the CPU, "
                f"got {str(where)!r}; method='series' multiplies on a device"
            )

    def _recipe(self, seed: int) -> ExactRecipe:
        return ExactRecipe(self._graph, self.method, self.tolerance, parse_device(self.device))

    @property
    def _walks(self) -> bool:
        return False
