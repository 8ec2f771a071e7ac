"""An expression of kernels as an estimator of tables is asked to fit it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from coupledgp.errors import InvalidInputError
from coupledgp.expressions import Kernel
from coupledgp.features.sklearn import Columns
from coupledgp.gp.protocol import Data
from coupledgp.gp.units import Units
from coupledgp.ground.devices import CPU, parse_device
from coupledgp.ground.progress import Progress
from coupledgp.ground.validation import check_positive, check_positive_int
from coupledgp.models.local import column_groups, row_columns
from coupledgp.models.rows import known_noise
from coupledgp.random import FloatArray
from coupledgp.search.search import SearchResult
from coupledgp.search.tables.expression import EXPRESSION_ROUNDS, ExpressionProblem
from coupledgp.search.tables.local import Round
from coupledgp.search.tables.local_problem import LocalProblem


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
        n_starts = 1 + check_positive_int(model.n_restarts, "n_restarts", minimum=0)
        most = check_positive_int(model.max_iter, "max_iter")
        return cls(problem, n_starts, most, bool(model.optimizer))

    def rounds(self, given: tuple[Round, ...]) -> tuple[Round, ...]:
        """Rounds with the estimator's number of iterations; none where nothing is searched for."""
        own = tuple(replace(each, max_iterations=self.max_iterations) for each in given)
        return own if self.searches else ()

    def search(self, report: Progress) -> SearchResult[FloatArray]:
        """The search by the dense evidence."""
        return self.problem.search(report, self.rounds(EXPRESSION_ROUNDS), self.n_starts)


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
