"""Exact GP regression, the reference of every approximation: dense, or solved by iteration.

An expression of kernels as an estimator of tables is asked to fit it.
"""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

from numpy.typing import ArrayLike

from coupledgp.core.column_moments import HYPERPARAMETERS, spread_lengthscale
from coupledgp.core.dense_evidence import ExactEvidence
from coupledgp.core.mixture import MixtureGP
from coupledgp.core.optimize import maximise_evidence
from coupledgp.core.options import estimator
from coupledgp.core.problem import Hyperparameters
from coupledgp.core.process import Data, GaussianProcess
from coupledgp.core.search import SearchResult
from coupledgp.core.stored import FittedModel
from coupledgp.core.units import Units
from coupledgp.errors import InvalidInputError
from coupledgp.expressions import Kernel
from coupledgp.ground.devices import CPU, parse_device
from coupledgp.ground.parameters import check_declared, one_of, option, param, positive
from coupledgp.ground.progress import reporter
from coupledgp.ground.tensors import torch
from coupledgp.ground.validation import check_choice, check_positive
from coupledgp.kernels.expressions import parse_kernel
from coupledgp.linalg.system import SystemOptions
from coupledgp.random import FloatArray
from coupledgp.spectra import Spectrum, SpectrumLike
from coupledgp.tables.exact_process import (
    MATRICES_AT_ONCE,
    Dense,
    ExactGP,
    StationaryPrior,
    check_dense_size,
)
from coupledgp.tables.expression_search import EXPRESSION_ROUNDS, ExpressionProblem
from coupledgp.tables.local_problem import LocalProblem
from coupledgp.tables.local_search import Round
from coupledgp.tables.regressor_base import SOLVERS
from coupledgp.tables.rows import column_groups, known_noise, row_columns
from coupledgp.tables.samplers import Columns
from coupledgp.tables.stationary_regressor import (
    StationaryRegressor,
    averaged_results,
    column_lengthscales,
    search_results,
)


@dataclass(frozen=True, eq=False)
class AskedExpression:
    """The table and expression of an estimator, and how its hyperparameters are searched for.

    Attributes
    ----------
    problem : ExpressionProblem
    n_starts, max_iterations : int
    searches : bool
        Whether the hyperparameters are searched for at all.
    """

    problem: ExpressionProblem
    n_starts: int
    max_iterations: int
    searches: bool

    @classmethod
    def of(
        cls,
        model: Any,
        kernel: Kernel,
        data: Data,
        columns: Columns,
    ) -> AskedExpression:
        """What an estimator asks for.

        Parameters
        ----------
        model
            The estimator.
        kernel
            Its expression.
        data, columns
            The encoded table.

        Raises
        ------
        InvalidInputError
            A parameter states scales of a single kernel.
        """
        check_beside(model, kernel)
        units = Units.of(data.targets, model.normalize_y, data.counts)
        seed = int(model._rng().integers(2**31))
        known = known_noise(data, units, None)
        if model.noise is not None and (model.optimizer is None or "noise" in (model.fixed or ())):
            known = check_positive(model.noise, "noise")
        groups = column_groups(data, columns)
        table = LocalProblem.of(data, units, groups, seed, known)
        problem = ExpressionProblem(replace(table, columns=row_columns(columns, groups)), kernel)
        n_starts = 1 + model.n_restarts
        most = model.max_iter
        return cls(problem, n_starts, most, bool(model.optimizer))

    def rounds(self, given: tuple[Round, ...]) -> tuple[Round, ...]:
        """Rounds with the estimator's number of iterations; none where nothing is searched for."""
        own = tuple(replace(each, max_iterations=self.max_iterations) for each in given)
        return own if self.searches else ()

    def search(self) -> SearchResult[FloatArray]:
        """The search by the dense evidence."""
        return self.problem.search(self.rounds(EXPRESSION_ROUNDS), self.n_starts)


def results_of(search: SearchResult[FloatArray]) -> dict[str, Any]:
    """Results of a search by their names in an estimator."""
    return {
        "n_evaluations_": search.n_evaluations,
        "n_iter_": search.n_iterations,
        "converged_": search.converged,
    }


def check_beside(model: Any, kernel: Kernel) -> None:
    """Refuse parameters that state scales of a single kernel beside an expression."""
    given = {
        "ard": not model.ard,
        "lengthscale": model.lengthscale is not None,
        "outputscale": model.outputscale is not None,
        "fixed": bool(set(model.fixed or ()) - {"noise"}),
        "hyperparameters": model.hyperparameters != "maximum",
        "device": parse_device(model.device) != CPU,
    }
    wrong = [name for name, is_given in given.items() if is_given]
    if wrong:
        raise InvalidInputError(
            f"{wrong[0]}: expected its default beside the expression kernel={str(kernel)!r}, "
            f"whose kernels have scales of their own, got {getattr(model, wrong[0])!r}"
        )


@estimator
class ExactGPRegressor(StationaryRegressor):
    """Gaussian process regression without approximation.

    `y = f(x) + e`, `f ~ GP(0, v kappa(|x - x'| / l))`, `e ~ N(0, s)`. Same interface and
    conventions as `SparseSpectrumGPRegressor`, whose `exact_twin` it is.

    Parameters
    ----------
    kernel
        A stationary kernel as in `SparseSpectrumGPRegressor`, or an expression of kernels or its
        text, such as `"matern(1.5) + additive(2)"` (docs/kernels.md). The hyperparameters of an
        expression are those of greatest posterior density under weak priors, for standardised
        columns. They are searched for on at most 2000 rows; the posterior has all.
    device
        Where matrices of the rows are (docs/models.md, "On a GPU"): None or `"cpu"`, `"cuda"`,
        `"cuda:1"`, `"auto"` (a GPU where torch finds one) or a `torch.device`. Kernels besides the
        Gaussian one and those of Matern of orders 1/2, 3/2 and 5/2 are computed on the CPU.
    solver
        `"dense"`: a Cholesky factor, O(n^3) time and O(n^2) memory. `"iterative"`: conjugate
        gradients in O(n) memory, for at most 50 000 rows and hyperparameters that are given
        (`lengthscale`, `outputscale`, `noise`), since a search would take days. Those of a fitted
        model are carried over by its `exact_twin(solver="iterative")`. Every 256 standard
        deviations, and every observation left out, take further solves; the evidence is estimated
        when it is asked for. A bound of the errors of means is in reports (docs/kriging.md).
    options
        As for `SparseSpectrumGPRegressor`: `fixed`, `n_restarts`, `max_iter`,
        `hyperparameter_prior`, `n_hyperparameter_draws`; and `tolerance` (1e-6), the largest
        relative residual of these solves.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> model = cgp.ExactGPRegressor("matern-5/2", random_state=0).fit(X, y)
    >>> mean, std = model.predict([[1.5]], return_std=True, latent=True)
    >>> bool(abs(mean[0] - np.sin(1.5)) < 4 * std[0])
    True
    """

    kernel: SpectrumLike | Kernel = "gaussian"  # type: ignore[assignment]
    ard: bool = True
    lengthscale: ArrayLike | None = None
    outputscale: float | None = None
    noise: float | None = None
    normalize_y: bool = True
    optimizer: str | None = "lbfgs"
    random_state: Any = None
    _: KW_ONLY
    solver: str = param(default="dense", check=one_of(*SOLVERS))
    tolerance = option(1e-6, positive)

    def exact_twin(self, solver: str = "dense") -> ExactGPRegressor:
        """Return this model: it is its own exact counterpart, whatever solves its equations."""
        check_choice(solver, SOLVERS, "solver")
        return self

    def around(self, process: GaussianProcess, record: FittedModel) -> ExactGPRegressor:
        """Return this estimator around the exact process of a fitted model."""
        return self.holding(replace(record, process=process, results={}, digests=None, seen=None))

    def fit_data(
        self, data: Data, columns: Columns, **further: Any
    ) -> tuple[GaussianProcess, dict[str, Any]]:
        where = parse_device(self.device)
        check_declared(self)
        kernel = parse_kernel(self.kernel)
        if self.solver == "iterative":
            return self._iterated(kernel, where, data, columns), {"converged_": True}
        check_dense_size(len(data), MATRICES_AT_ONCE, where)
        if not isinstance(kernel, Spectrum):
            asked = AskedExpression.of(self, kernel, data, columns)
            with reporter("fit", self.progress):
                search = asked.search()
                return asked.problem.process(search.point, self.normalize_y), results_of(search)
        rng = self._rng()
        spectrum = kernel
        units = Units.of(data.targets, self.normalize_y, data.counts)
        groups = columns.groups
        base = spread_lengthscale(data.points, self.ard, groups, counts=data.counts)
        space = self._search_space(data, units, base, groups)
        with reporter("fit", self.progress):
            normalized = units.normalized(data.targets)
            problem = ExactEvidence(spectrum, data.points, normalized, data.weights, where)
            found = maximise_evidence(
                problem,
                space,
                n_restarts=self.n_restarts,
                max_iterations=self.max_iter,
                rng=rng,
            )
            average = self._averaged(problem, space, found.hyperparameters, rng)

        def given(hyperparameters: Hyperparameters) -> ExactGP:
            prior, solver = StationaryPrior(spectrum, hyperparameters), Dense(device=where)
            return ExactGP.given(prior, data, units, self.normalize_y, solver)

        if average is None:
            return given(found.hyperparameters), search_results(found)
        members = [given(hyperparameters) for hyperparameters in average.hyperparameters]
        process = MixtureGP.of(members, average.weights, data, "hyperparameters")
        return process, averaged_results(found, average)

    def _iterated(
        self, kernel: Spectrum | Kernel, where: torch.device, data: Data, columns: Columns
    ) -> ExactGP:
        """The process at given hyperparameters, by conjugate gradients."""
        units = Units.of(data.targets, self.normalize_y, data.counts)
        given = {name: getattr(self, name) for name in HYPERPARAMETERS}
        given["noise"] = known_noise(data, units, self.noise) or self.noise
        missing = [name for name, value in given.items() if value is None]
        if not isinstance(kernel, Spectrum) or missing or where != CPU:
            got = f"no {' and no '.join(missing)}" if missing else f"kernel={self.kernel!r}"
            raise InvalidInputError(
                "solver: expected 'dense', or a stationary kernel with lengthscale, outputscale "
                f"and noise given, on the CPU, got 'iterative' with {got}; the exact_twin(solver="
                "'iterative') of a fitted model carries its kernel and hyperparameters over"
            )
        lengthscale = column_lengthscales(
            given["lengthscale"], data.points.shape[1], columns.groups
        )
        hyper = Hyperparameters(
            lengthscale,
            check_positive(given["outputscale"], "outputscale"),
            check_positive(given["noise"], "noise"),
        )
        solver = Dense(SystemOptions(tolerance=self.tolerance))
        prior = StationaryPrior(kernel, hyper)
        with reporter("fit", self.progress):
            return ExactGP.given(prior, data, units, self.normalize_y, solver)
