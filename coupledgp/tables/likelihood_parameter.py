"""The law of observations as estimators take it, and fits of functions under a law."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, replace
from typing import Any, TypeAlias

from coupledgp.core.budget import current_budget
from coupledgp.core.latent import LatentGP
from coupledgp.core.options import estimator
from coupledgp.core.process import Data
from coupledgp.core.process_estimator import ProcessEstimator, in_words
from coupledgp.core.stored import fitted_result
from coupledgp.core.units import Units
from coupledgp.errors import InvalidInputError
from coupledgp.ground.progress import reporter, tell
from coupledgp.kernels.expressions import parse_kernel
from coupledgp.likelihoods.base import Likelihood
from coupledgp.likelihoods.registry import LIKELIHOODS
from coupledgp.tables.latent_kernels import (
    KernelSearch,
    LatentSize,
    plan_kernels,
)
from coupledgp.tables.local_problem import LocalProblem
from coupledgp.tables.rows import column_groups, row_columns
from coupledgp.tables.samplers import Columns

LikelihoodLike: TypeAlias = Likelihood | str
# Cost of an evaluation under a law that is not log-concave, over that under one that is.
UNROLLED_COST = 12.0
# Seconds of one core that a fit of nodes may take where no budget is given.
LATENT_SECONDS = 600.0
# What the figures of compared kernels are, in words.
EVIDENCE = "Minus the log evidence an observation, of {n} observations"


@estimator
class LikelihoodOption:
    """The parameter `likelihood` of a regressor.

    Parameters
    ----------
    likelihood
        Law of an observation given the function f (docs/likelihoods.md): `"gaussian"`,
        `"student-t"` (f plus heavy tails), `"poisson"` and `"negative-binomial"` (counts of mean
        `exp(f)`, times an `exposure`), or a `coupledgp.likelihoods.Likelihood`, whose own
        parameters are where their search starts. All but the first have one output.
    """

    _: KW_ONLY
    likelihood: LikelihoodLike = "gaussian"

    def _law(self) -> Likelihood | None:
        """The law that observations follow; None for a Gaussian one.

        Raises
        ------
        InvalidInputError
            The name is not known.
        """
        law = LIKELIHOODS.parse(self.likelihood, "likelihood")
        return None if law.is_gaussian else law


def law_of(law: Likelihood, data: Data) -> Likelihood:
    """The law with the parameters where a search for observations (n, 1) starts.

    Raises
    ------
    InvalidInputError
        There are several outputs, observations are none of the law's, rows have noise of their own,
        or there are exposures and the law takes none.
    """
    if data.targets.shape[1] != 1:
        raise InvalidInputError(
            f"y: expected one output under a likelihood, got {data.targets.shape[1]}; fit each "
            "output alone"
        )
    law.check_targets(data.targets)
    weights = data.weights
    if weights is not None and (weights.level is not None or (weights.noise != 1).any()):
        raise InvalidInputError(
            "sample_noise: expected None beside a likelihood, which states the law of an "
            "observation itself"
        )
    if weights is not None and weights.exposure is not None:
        law.log_exposure(weights.exposure)
    return law


def law_and_units(given: LikelihoodLike, law: Likelihood, data: Data) -> tuple[Likelihood, Units]:
    """The law where its search starts, prior mean of the function, and its unit.

    Parameters of a law that is given by name are for targets of unit one.
    """
    exposure = None if data.weights is None else data.weights.exposure
    unit = law.unit(data.targets)
    center = law.rescaled(1 / float(unit[0])).center(data.targets / unit, exposure)
    units = Units(unit * center, unit)
    return law.rescaled(float(unit[0])) if isinstance(given, str) else law, units


def refuse_beside(fitted: Any, likelihood: str, usual: dict[str, Any]) -> None:
    """Refuse parameters of an estimator that are for a Gaussian law, but with their usual values.

    Raises
    ------
    InvalidInputError
        One has another value.
    """
    for name, value in usual.items():
        if getattr(fitted, name) != value:
            raise InvalidInputError(
                f"{name}: expected {value!r} beside likelihood={likelihood!r}, got "
                f"{getattr(fitted, name)!r}; it is for a Gaussian law"
            )


class ComparesKernels(ProcessEstimator):
    """An estimator whose kernels are compared by evidence where observations follow a law."""

    choice_ = fitted_result("choice_", "The kernels that were compared, with their evidence.")
    forecast_ = fitted_result("forecast_", "Forecast of the cost of the fit, seconds of one core.")

    def _explained(self) -> list[str]:
        lines, choice = super()._explained(), self.fitted_.results.get("choice_")
        if choice is None:
            return lines
        process: Any = self.process_
        return [*lines, *choice.explain().splitlines(), *process.remarks]


def fit_latent_table(
    model: Any, data: Data, columns: Columns, law: Likelihood, units: Units, n_frequencies: int
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
    law
        Law of an observation given its function, with the parameters where the search starts.
    units
        Prior means of the functions, and their units.
    n_frequencies
        Frequencies of features of large tables.

    Raises
    ------
    InvalidInputError
        Not even one kernel is within the budget.
    """
    cost = 1.0 if law.is_log_concave else UNROLLED_COST
    n_rows, dim = data.points.shape
    size = LatentSize(n_rows, dim, data.targets.shape[1], n_frequencies, cost)
    given = None if model.kernel is None else parse_kernel(model.kernel)
    kernels = plan_kernels(size, current_budget().seconds, given)
    seed, groups = int(model._rng().integers(2**31)), column_groups(data, columns)
    problem = LocalProblem.of(data, units, groups, seed, 1.0)
    problem = replace(problem, columns=row_columns(columns, groups))
    with reporter("fit", model.progress):
        seconds = size.forecast(len(kernels))
        tell(f"{len(kernels)} kernels: about {seconds:.0f} s of one core")
        search = KernelSearch(problem, law, n_frequencies, size.is_exact)
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
