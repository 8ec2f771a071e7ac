"""Fits of functions of a table's rows whose observations follow a likelihood."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from coupledgp.features.sklearn import Columns
from coupledgp.gp.latent import LatentGP
from coupledgp.gp.protocol import Data
from coupledgp.gp.units import Units
from coupledgp.ground.progress import reporter, tell
from coupledgp.inference.nodes.forecast import current_budget
from coupledgp.kernels.expressions import parse_kernel
from coupledgp.likelihoods.base import Likelihood
from coupledgp.models.local import column_groups, row_columns
from coupledgp.models.process_estimator import in_words
from coupledgp.search.tables.local_problem import LocalProblem
from coupledgp.selection.latent_kernels import KernelSearch, LatentSize, plan_kernels

# Cost of an evaluation under a law that is not log-concave, over that under one that is.
UNROLLED_COST = 12.0


@dataclass(frozen=True)
class LatentTable:
    """What a fit of functions of a table needs beside the table.

    Attributes
    ----------
    likelihood : Likelihood
        Law of an observation given its function, with the parameters where the search starts.
    units : Units
        Prior means of the functions, and their units.
    n_frequencies : int
        Frequencies of features of large tables.
    """

    likelihood: Likelihood
    units: Units
    n_frequencies: int


def fit_latent_table(
    model: Any, data: Data, columns: Columns, table: LatentTable
) -> tuple[LatentGP, dict[str, Any]]:
    """Choose a kernel and fit its hyperparameters; return the process and results of the search.

    Parameters
    ----------
    model
        The estimator, whose `kernel`, `random_state` and `progress` are used.
    data
        Rows and observations (n, k), one function for each output.
    columns
        Columns of the table.
    table
        Likelihood, units and settings.

    Raises
    ------
    InvalidInputError
        Not even one kernel is within the budget.
    """
    cost = 1.0 if table.likelihood.is_log_concave else UNROLLED_COST
    n_rows, dim = data.points.shape
    size = LatentSize(n_rows, dim, data.targets.shape[1], table.n_frequencies, cost)
    given = None if model.kernel is None else parse_kernel(model.kernel)
    kernels = plan_kernels(size, current_budget().seconds, given)
    seed, groups = int(model._rng().integers(2**31)), column_groups(data, columns)
    problem = LocalProblem.of(data, table.units, groups, seed, 1.0)
    problem = replace(problem, columns=row_columns(columns, groups))
    with reporter("fit", model.progress):
        seconds = size.forecast(len(kernels))
        tell(f"{len(kernels)} kernels: about {seconds:.0f} s of one core")
        search = KernelSearch(problem, table.likelihood, table.n_frequencies, size.is_exact)
        process, choice, n_evaluations, converged = search.choose(kernels)
    return process, {
        "choice_": choice, "forecast_": seconds, "n_evaluations_": n_evaluations,
        "converged_": converged,
    }  # fmt: skip


def explained_table(model: Any, names: Sequence[Any]) -> list[str]:
    """Lines of `explain` of a fitted model: kernels, hyperparameters of named functions, search."""
    process = model.process_
    own = [each.summary() for each in process.functions]
    ended = "converged" if model.converged_ else "ended before it converged"
    return [
        *model.choice_.explain().splitlines(),
        *(
            f"{name}: {in_words(each.get('parameters', each))}"
            for name, each in zip(names, own, strict=True)
        ),
        f"{model.n_evaluations_} evaluations; the search {ended}",
        *process.remarks,
    ]
