"""Exact GP regression, the reference of every approximation: O(n^3) time, O(n^2) memory."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from numpy.typing import ArrayLike

from coupledgp.errors import InvalidInputError
from coupledgp.expressions import Kernel
from coupledgp.features.sklearn import Columns
from coupledgp.gp.columns import spread_lengthscale
from coupledgp.gp.exact import MATRICES_AT_ONCE, ExactGP, StationaryPrior, check_dense_size
from coupledgp.gp.mixture import MixtureGP
from coupledgp.gp.protocol import Data, GaussianProcess
from coupledgp.gp.units import Units
from coupledgp.ground.devices import CPU, parse_device
from coupledgp.ground.progress import reporter
from coupledgp.ground.validation import check_positive, check_positive_int
from coupledgp.inference.dense.evidence import ExactEvidence
from coupledgp.inference.evidence.problem import Hyperparameters
from coupledgp.kernels.expressions import parse_kernel
from coupledgp.models.local import column_groups, row_columns
from coupledgp.models.options import estimator
from coupledgp.models.record import FittedModel
from coupledgp.models.rows import known_noise
from coupledgp.models.stationary import StationaryRegressor, averaged_results, search_results
from coupledgp.search.optimize import maximise_evidence
from coupledgp.search.tables.expression import EXPRESSION_ROUNDS, ExpressionProblem
from coupledgp.search.tables.local import LocalProblem
from coupledgp.spectra import Spectrum, SpectrumLike


@estimator
class ExactGPRegressor(StationaryRegressor):
    """Gaussian process regression without approximation.

    `y = f(x) + e`, `f ~ GP(0, v kappa(|x - x'| / l))`, `e ~ N(0, s)`, by Cholesky. Same interface
    and conventions as `SparseSpectrumGPRegressor`, whose `exact_twin` it is.

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
    """

    kernel: SpectrumLike | Kernel = "gaussian"  # type: ignore[assignment]
    ard: bool = True
    lengthscale: ArrayLike | None = None
    outputscale: float | None = None
    noise: float | None = None
    normalize_y: bool = True
    optimizer: str | None = "lbfgs"
    random_state: Any = None

    def exact_twin(self) -> ExactGPRegressor:
        """Return this model: it is its own exact counterpart."""
        return self

    def around(self, process: GaussianProcess, record: FittedModel) -> ExactGPRegressor:
        """Return this estimator around the exact process of a fitted model."""
        return self.holding(FittedModel(process, record.ndim, {}, record.columns))

    def fit_data(
        self, data: Data, columns: Columns, **further: Any
    ) -> tuple[GaussianProcess, dict[str, Any]]:
        where = parse_device(self.device)
        check_dense_size(len(data), MATRICES_AT_ONCE, where)
        self._check_averaging()
        kernel = parse_kernel(self.kernel)
        if not isinstance(kernel, Spectrum):
            return self._fit_expression(kernel, data, columns)
        rng = self._rng()
        spectrum = kernel
        units = Units.of(data.targets, self.normalize_y, data.counts)
        groups = columns.groups
        base = spread_lengthscale(data.points, self.ard, groups, counts=data.counts)
        space = self._search_space(data, units, base, groups)
        with reporter("fit", self.progress) as report:
            normalized = units.normalized(data.targets)
            problem = ExactEvidence(spectrum, data.points, normalized, data.weights, where)
            found = maximise_evidence(
                problem,
                space,
                n_restarts=check_positive_int(self.n_restarts, "n_restarts", minimum=0),
                max_iterations=check_positive_int(self.max_iter, "max_iter"),
                rng=rng,
                report=report,
            )
            average = self._averaged(problem, space, found.hyperparameters, rng, report)

        def given(hyperparameters: Hyperparameters) -> ExactGP:
            prior = StationaryPrior(spectrum, hyperparameters, device=where)
            return prior.given(data, units, self.normalize_y)

        if average is None:
            return given(found.hyperparameters), search_results(found)
        members = [given(hyperparameters) for hyperparameters in average.hyperparameters]
        process = MixtureGP.of(members, average.weights, data, "hyperparameters")
        return process, averaged_results(found, average)

    def _fit_expression(
        self, kernel: Kernel, data: Data, columns: Columns
    ) -> tuple[GaussianProcess, dict[str, Any]]:
        """Fit an expression of kernels, by its dense evidence."""
        self._check_expression(kernel)
        units = Units.of(data.targets, self.normalize_y, data.counts)
        seed = int(self._rng().integers(2**31))
        known = known_noise(data, units, None)
        if self.noise is not None and (self.optimizer is None or "noise" in (self.fixed or ())):
            known = check_positive(self.noise, "noise")
        groups = column_groups(data, columns)
        table = LocalProblem.of(data, units, groups, seed, known)
        problem = ExpressionProblem(replace(table, columns=row_columns(columns, groups)), kernel)
        with reporter("fit", self.progress) as report:
            n_starts = 1 + check_positive_int(self.n_restarts, "n_restarts", minimum=0)
            most = check_positive_int(self.max_iter, "max_iter")
            rounds = [replace(each, max_iterations=most) for each in EXPRESSION_ROUNDS]
            found = problem.search(report, rounds if self.optimizer else (), n_starts)
            process = problem.process(found.point, self.normalize_y)
        return process, {
            "n_evaluations_": found.n_evaluations,
            "n_iter_": found.n_iterations,
            "converged_": found.converged,
        }

    def _check_expression(self, kernel: Kernel) -> None:
        """Refuse parameters that state scales of a single kernel beside an expression."""
        given = {
            "ard": not self.ard,
            "lengthscale": self.lengthscale is not None,
            "outputscale": self.outputscale is not None,
            "fixed": bool(set(self.fixed or ()) - {"noise"}),
            "hyperparameters": self.hyperparameters != "maximum",
            "device": parse_device(self.device) != CPU,
        }
        wrong = [name for name, is_given in given.items() if is_given]
        if wrong:
            raise InvalidInputError(
                f"{wrong[0]}: expected its default beside the expression kernel={str(kernel)!r}, "
                f"whose kernels have scales of their own, got {getattr(self, wrong[0])!r}"
            )
