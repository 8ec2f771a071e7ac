"""What choosing a coupling and a size has to know of each kind of model."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import check_X_y

from coupledgp.couplings import parse_coupling
from coupledgp.couplings.walkers.registry import parse_walker_coupling
from coupledgp.diagnostics.laws import Law, law_of
from coupledgp.diagnostics.measures import kl_per_point
from coupledgp.errors import InvalidInputError, NumericalError
from coupledgp.graphs.graph import check_graph
from coupledgp.models.exact import ExactGPRegressor
from coupledgp.models.nodes import ExactGraphGPRegressor, GraphGPRegressor
from coupledgp.models.sparse_spectrum import SparseSpectrumGPRegressor
from coupledgp.progress import reporter
from coupledgp.random import FloatArray
from coupledgp.selection.redraw import kept_hyperparameters, redrawn, size_name, with_parameters

FOURIER = ("iid", "orthogonal", "orthogonal+pnc", "orthogonal+stratified")
LAPLACE = ("iid", "orthogonal+antithetic", "orthogonal+stratified+antithetic")
WALKERS = ("iid", "antithetic", "sigma", "stratified+systematic")
MAX_FREQUENCIES = 8192
MAX_WALKS = 1024
# A query point for at most so many rows.
ROWS_A_QUERY = 4
MIN_ROWS = 8


class Case(ABC):
    """Rows split into training and query rows, and the exact law at the query rows.

    Attributes
    ----------
    size_name
        Parameter of the estimator that the size is.
    couplings
        Texts tried if none are given.
    first_size, last_size
        Where growing starts and ends.
    n_train, n_query, n_rows
        Numbers of rows conditioned on, compared at, and given.
    """

    size_name: str
    couplings: tuple[str, ...]
    first_size: int
    last_size: int
    n_train: int
    n_query: int
    n_rows: int

    _exact: Law
    _query: Any

    @staticmethod
    @abstractmethod
    def check_coupling(coupling: str) -> str:
        """Return the text if it names a coupling."""

    @abstractmethod
    def _fitted(self, coupling: str, size: int, seed: int) -> Any:
        """Model of a draw, at the exact GP's hyperparameters, given the training rows."""

    def kl_per_point(self, coupling: str, size: int, seed: int) -> float:
        """`KL(exact || approximate)` at the query rows, nats per row and output.

        Infinite where the approximation has no posterior, as of walks whose kernel overflows.
        """
        try:
            law = law_of(self._fitted(coupling, size, seed), self._query, "model")
        except NumericalError:
            return float("inf")
        return kl_per_point(self._exact, law)


class EuclideanCase(Case):
    """Sparse-spectrum models."""

    size_name = "n_frequencies"

    def __init__(
        self,
        model: SparseSpectrumGPRegressor,
        X: Any,
        y: ArrayLike,
        split: Any,
        n_rows: int,
        seed: int,
        progress: bool | None,
    ) -> None:
        train, query = split
        inputs, targets = np.asarray(X, dtype=np.float64), np.asarray(y, dtype=np.float64)
        self._X, self._y, self._query = inputs[train], targets[train], inputs[query]
        self._model = model
        dim = inputs.shape[1]
        self.couplings = LAPLACE if model.features == "laplace" else FOURIER
        # With more features than rows the exact GP is the cheaper one.
        self.first_size = min(max(dim, 4), n_rows)
        self.last_size = min(MAX_FREQUENCIES, n_rows)
        self.n_train, self.n_query, self.n_rows = len(train), len(query), n_rows
        exact = exact_regressor(model, self._X, self._y, seed, progress).fit(self._X, self._y)
        self._exact = law_of(exact, self._query, "reference")
        self._kept = kept_hyperparameters(exact)

    @staticmethod
    def check_coupling(coupling: str) -> str:
        return str(parse_coupling(coupling, "couplings"))

    def _fitted(self, coupling: str, size: int, seed: int) -> Any:
        approximate = redrawn(self._model, self._kept, coupling, size, seed)
        return approximate.fit(self._X, self._y)


class GraphCase(Case):
    """Models on the nodes of a graph."""

    size_name = "n_walks"
    couplings = WALKERS
    first_size, last_size = 2, MAX_WALKS

    def __init__(
        self, model: GraphGPRegressor, nodes: Any, y: ArrayLike, split: Any, n_rows: int, seed: int,
        progress: bool | None,
    ) -> None:  # fmt: skip
        train, query = split
        targets = np.asarray(y, dtype=np.float64)
        self._nodes, self._y = [nodes[i] for i in train], targets[train]
        self._query = [nodes[i] for i in query]
        self._model = model
        self.n_train, self.n_query, self.n_rows = len(train), len(query), n_rows
        with reporter("select", progress) as report:
            report("exact GP")
            exact = exact_graph_regressor(model, seed).fit(self._nodes, self._y)
        self._exact = law_of(exact, self._query, "reference")
        self._kept = kept_hyperparameters(exact)

    @staticmethod
    def check_coupling(coupling: str) -> str:
        return str(parse_walker_coupling(coupling, "couplings"))

    def _fitted(self, coupling: str, size: int, seed: int) -> Any:
        approximate = redrawn(self._model, self._kept, coupling, size, seed)
        return approximate.fit(self._nodes, self._y)


def kind_of(model: Any) -> type[EuclideanCase | GraphCase]:
    """The kind of case that a model makes.

    Raises
    ------
    InvalidInputError
        It is of no kind known here.
    """
    return EuclideanCase if size_name(model) == "n_frequencies" else GraphCase


def case_for(
    model: Any,
    X: Any,
    y: ArrayLike,
    n_query: int,
    max_rows: int,
    seed: int,
    progress: bool | None = False,
) -> EuclideanCase | GraphCase:
    """Split the rows and fit the exact GP, whose progress is shown if there is any.

    Raises
    ------
    InvalidInputError
        The model is of no kind known here, or there are fewer than eight rows.
    """
    kind = kind_of(model)
    if kind is GraphCase:
        check_graph(model.graph)
        X = list(X)
    else:
        X, y = check_X_y(X, y, dtype=np.float64, multi_output=True, y_numeric=True)
    n_rows = len(X)
    if n_rows < MIN_ROWS:
        raise InvalidInputError(f"X: expected at least {MIN_ROWS} rows, got {n_rows}")
    used = np.random.default_rng(seed).permutation(n_rows)[:max_rows]
    n_query = min(n_query, len(used) // ROWS_A_QUERY)
    return kind(model, X, y, (np.sort(used[n_query:]), used[:n_query]), n_rows, seed, progress)


def exact_regressor(
    model: SparseSpectrumGPRegressor,
    X: FloatArray,
    y: FloatArray,
    seed: int,
    progress: bool | None = False,
) -> ExactGPRegressor:
    """The exact GP that is fitted, or kept, in what the model would fit or keep on these rows."""
    # A fit of few features without optimizer: it applies the model's rules for what is not given.
    plain = {"n_frequencies": 1, "coupling": "iid", "optimizer": None, "progress": False}
    rules = with_parameters(model, **plain).fit(X, y)
    fixed = rules._default_fixed() if model.fixed is None else model.fixed
    kept = model.lengthscale is not None or "lengthscale" in fixed
    return ExactGPRegressor(
        kernel=model.kernel,
        ard=model.ard,
        lengthscale=rules.lengthscale_ if kept else None,
        outputscale=model.outputscale,
        noise=model.noise,
        normalize_y=model.normalize_y,
        optimizer=model.optimizer,
        fixed=fixed,
        n_restarts=model.n_restarts,
        max_iter=model.max_iter,
        random_state=seed,
        progress=progress,
    )


def exact_graph_regressor(model: GraphGPRegressor, seed: int) -> ExactGraphGPRegressor:
    """The exact GP of the same settings."""
    return ExactGraphGPRegressor(
        model.graph,
        model.kernel,
        normalize_y=model.normalize_y,
        optimizer=model.optimizer,
        outputscale=model.outputscale,
        noise=model.noise,
        fixed=model.fixed,
        solver=model.solver,
        random_state=seed,
    )
