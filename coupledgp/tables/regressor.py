"""The estimator that chooses its own model of a table.

Estimators whose coupling and size may be `"auto"`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.core.budget import seconds_of, within_budget
from coupledgp.core.estimator import ProcessRegressor
from coupledgp.core.options import estimator
from coupledgp.core.process import Data, GaussianProcess
from coupledgp.core.stored import FittedModel, fitted_result
from coupledgp.core.units import Units
from coupledgp.errors import (
    DiscreteTargetsWarning,
    InvalidInputError,
    MissingModelsWarning,
    ModelFileError,
)
from coupledgp.expressions import Kernel
from coupledgp.ground.memory import named_exhaustion
from coupledgp.ground.parameters import option, positive
from coupledgp.ground.progress import reporter, tell
from coupledgp.ground.tensors import has_torch
from coupledgp.ground.threads import LIGHT, numbers_of
from coupledgp.ground.validation import check_choice, check_positive_int, wrong
from coupledgp.ground.visible import warn
from coupledgp.kernels.expressions import parse_kernel
from coupledgp.likelihoods.base import Likelihood
from coupledgp.likelihoods.registry import LIKELIHOODS
from coupledgp.tables.coupling_fit import KINDS, fit_automatic, plan_members
from coupledgp.tables.discrete_targets import discrete_outputs
from coupledgp.tables.expression_members import ExpressionMembers
from coupledgp.tables.globe import GeographicLike
from coupledgp.tables.latent_kernels import KernelChoice
from coupledgp.tables.likelihood_parameter import (
    LikelihoodOption,
    explained_table,
    fit_latent_table,
    law_and_units,
    law_of,
    refuse_beside,
)
from coupledgp.tables.local_parameters import TRENDS
from coupledgp.tables.local_problem import LocalProblem
from coupledgp.tables.member_kinds import MemberPlan, Size
from coupledgp.tables.members import Choice, MemberSearch, is_auto, with_parameters
from coupledgp.tables.noise_choice import (
    NOISES,
    check_varying,
    noise_seconds,
    with_noise,
)
from coupledgp.tables.regressor_base import TableRegressor
from coupledgp.tables.rows import column_groups, known_noise, row_columns
from coupledgp.tables.samplers import Columns

# Place of exposures among the weights of rows; and sampled frequencies for a fitted one.
EXPOSURE_PLACE, SAMPLED_A_FITTED = 2, 8
# Parameters that are for a Gaussian law, with their values beside another one.
BESIDE_LAW = {"model": "auto", "noise": "auto", "target_transform": None, "device": None}


@estimator
class GPRegressor(LikelihoodOption, TableRegressor):
    """Gaussian process regression that chooses its model and says why.

    On up to 2000 rows it is an exact GP, a mixture over five kernels and three additive ones; on up
    to 5000 a mixture of the best one of each with features of fitted frequencies, and with local
    GPs that have them (`LocalGPRegressor`); on more rows a mixture of features, of local GPs
    without and with them, and of features of columns and pairs. From 100 rows on boosted trees
    stand beside these, with a GP of their residuals, and from 30 rows on models of a transform of y
    where evidence prefers one. A member whose means err more than a constant has no weight. All
    have a linear trend whose size the evidence decides. The weights of the members are those of
    greatest density of rows that the fit did not see (Yao and others, 2018), where a copy of the
    best member with more noise makes heavy tails possible; on at most 200 rows hyperparameters are
    averaged over their posterior.

    Under another `likelihood` the model is one function of the rows, exact on up to 3000 rows and
    with coupled Fourier features on more. Kernels are compared by the densities of observations
    that are left out, on at most 1000 rows, and hyperparameters have the greatest posterior density
    on at most 600 rows.

    Parameters
    ----------
    model
        `"auto"`, or one or several of `"exact"`, `"additive"` (exact, with additive kernels),
        `"local"`, `"hybrid"` (local and features), `"sparse-spectrum"` (features alone),
        `"lattice"` (frequencies on a lattice, one to three columns),
        `"trees"` (boosted trees as a mean) and `"transformed"` (models of a transform of y).
    budget
        Seconds of one core, or a text such as `"5min"`, that the fit may take by a forecast. A
        member beyond it has a search of fewer iterations, at least a quarter, or is left out. If no
        whole member fits in, all columns share one lengthscale (10 000 columns of 100 rows do). The
        names of the members state both. `fit` refuses if even a quarter of the cheapest search is
        too much. The forecast does not look at a clock, so that the same data give the same model
        on every machine.
    trend
        `"linear"`, `"constant"` or `"none"`, see `LocalGPRegressor`.
    n_neighbors
        Rows that each row is conditioned on in local models.
    n_frequencies
        Fitted frequencies of features. Under a likelihood eight times as many that are sampled.
    noise
        `"constant"`: noise of one variance. `"varying"`: the variance of an observation is a smooth
        function of the columns, and tails may be heavy. `"auto"`: the noise varies where it pays by
        the density of rows that are left out, clearly, on 200 rows or more (docs/noise.md).
    kernel
        An expression of kernels, or its text (docs/kernels.md): the one model is an exact process
        with this kernel, and `model` must be `"auto"`. None: the models choose their kernels.
    geographic
        Columns of latitude and longitude in degrees, which become kilometres, as in
        `LatticeGPRegressor`.
    device
        Where rows are whitened by features and neighbours, as in `LocalGPRegressor`; exact members
        are on the CPU.

    Attributes
    ----------
    choice_
        The members (`choice_.members`: name, weight, log density of rows that were left out, and
        why one was left out), the log density of the mixture, and remarks on the targets. Under a
        likelihood the kernels that were compared (`choice_.explain()`).
    forecast_
        Forecast of the cost in seconds, as it was before the fit.
    noise_choice_
        Whether the noise varies, and what this gains (`noise_choice_.explain(names)`).
    lengthscale_, outputscale_, noise_
        Hyperparameters of the member of greatest weight; see `LocalGPRegressor`.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> X = np.linspace(0, 6, 20)[:, None]
    >>> gp = cgp.GPRegressor(random_state=0).fit(X, np.sin(X[:, 0]))
    >>> low, high = gp.predict_interval([[1.0]])
    >>> bool(low[0] < np.sin(1.0) < high[0])
    True
    """

    model: str | Sequence[str] = "auto"
    budget: float | str = 600.0
    trend: str = "linear"
    n_neighbors: int = 32
    n_frequencies: int = 64
    normalize_y: bool = True
    random_state: Any = None
    _: KW_ONLY
    missing: str = "indicator"
    kernel: str | Kernel | None = None
    noise: str = "auto"
    geographic: GeographicLike = "auto"

    choice_ = fitted_result("choice_", "The members that were fitted, with weights and scores.")
    forecast_ = fitted_result("forecast_", "Forecast of the cost of the fit, seconds of one core.")
    noise_choice_ = fitted_result("noise_choice_", "Whether the noise varies, and what this gains.")

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        sample_noise: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
    ) -> Self:
        """Fit the hyperparameters, then the posterior given all rows; see `TableRegressor.fit`.

        Parameters
        ----------
        X, y, sample_weight, sample_noise
            Rows, targets, and weights or noise variances of rows. Noise of rows is for a Gaussian
            law.
        exposure
            Exposures (n,), positive: hours, areas or people that counts are of. The mean of a count
            is `exposure * exp(f)`. None: ones.

        Raises
        ------
        InvalidInputError
            A parameter of the estimator or the data is invalid, targets are none of the
            likelihood's, or no model is within the budget.

        Warns
        -----
        DiscreteTargetsWarning
            Targets are discrete under a Gaussian law; or counts vary less than their law says.
        """
        return self._assigned(
            lambda: self._fit(X, y, *_given(sample_weight, sample_noise, exposure)),
            numbers_of(y) / LIGHT,
            y=y,
        )

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        sample_noise: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
    ) -> Self:
        """Add rows to the data, hyperparameters kept; see `TableRegressor.partial_fit`.

        Parameters
        ----------
        X, y, sample_weight, sample_noise, exposure
            As in `fit`.
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(X, y, sample_weight, sample_noise, exposure)
        with named_exhaustion("partial_fit"):
            data = self._further_data(X, y, *_given(sample_weight, sample_noise, exposure))
        return self._updated(data)

    def forecast(self, n_rows: int, n_columns: int) -> tuple[MemberPlan, ...]:
        """Members that a fit to a table of this size would try, with their cost in seconds.

        Raises
        ------
        InvalidInputError
            No member is within the budget, or a parameter of the estimator is invalid.
        """
        self.check_parameters()
        size = Size(n_rows, n_columns, self.n_neighbors, self.n_frequencies)
        budget, wanted = seconds_of(self.budget), self._kinds()
        if self.noise == "varying":
            budget -= noise_seconds(n_rows, n_columns)
        if self.kernel is None:
            transforms = self.target_transform is None and not self.targets_are_given
            return plan_members(size, wanted, budget, transforms)
        if wanted != ("auto",):
            raise InvalidInputError(
                f"kernel: expected None beside model={self.model!r}, got {str(self.kernel)!r}; the "
                "kernel is that of an exact model"
            )
        kind = ExpressionMembers("kernel", (parse_kernel(self.kernel),))
        return plan_members(size, (kind.name,), budget, known={kind.name: kind})

    def _explained(self) -> list[str]:
        choice = self.choice_
        if isinstance(choice, KernelChoice):
            return explained_table(self, ["f"])
        assert isinstance(choice, Choice)
        return [*choice.explain().splitlines(), *self._noise_in_words()]

    def _noise_in_words(self) -> list[str]:
        found = self.fitted_.results.get("noise_choice_")
        columns = self._columns
        names = columns.part_names
        own = range(len(names)) if columns.groups is None else columns.groups
        return [] if found is None else [found.explain([names[group] for group in own])]

    def _fit(self, X: ArrayLike, y: ArrayLike, *weights: Any, **further: Any) -> FittedModel:
        law = self._law()
        if law is None and len(weights) > EXPOSURE_PLACE:
            LIKELIHOODS.parse(self.likelihood, "likelihood").log_exposure(np.ones(1))  # refuses
        record = super()._fit(X, y, *weights, **further)
        if law is not None or self.noise == "constant" or self.targets_are_given:
            return record
        seconds = record.results["forecast_"] + noise_seconds(*record.process.data.points.shape)
        if self.noise == "auto" and seconds > seconds_of(self.budget):
            return record
        with reporter("fit", self.progress):
            tell("noise that varies")
            seed = int(self._rng().integers(2**31))
            process, choice = with_noise(record.process, self.noise, seed)
        results = {**record.results, "noise_choice_": choice, "forecast_": seconds}
        return replace(record, process=process, results=results)

    def fit_data(
        self, data: Data, columns: Columns, **further: Any
    ) -> tuple[GaussianProcess, dict[str, Any]]:
        law = self._law()
        if law is not None:
            return self._fit_under(law_of(law, data), data, columns)
        if self.noise == "varying":
            check_varying(data)
        plans = self.forecast(*data.points.shape)
        self._warn_if_fewer(plans)
        units = Units.of(data.targets, self.normalize_y, data.counts)
        seed = int(self._rng().integers(2**31))
        noise = known_noise(data, units, None)
        problem = LocalProblem.of(data, units, column_groups(data, columns), seed, noise)
        problem = problem.on(self.device, self.n_neighbors)
        problem = replace(problem, columns=row_columns(columns, problem.groups))
        if plans[0].shared:
            problem = problem.sharing_lengthscale()
        with reporter("fit", self.progress):
            seconds = sum(plan.seconds for plan in plans)
            kinds = ", ".join(plan.kind.name for plan in plans)
            tell(f"{kinds}: about {seconds:.0f} s of one core")
            search = MemberSearch(
                problem, self.normalize_y, self.trend, self.n_neighbors, self.n_frequencies
            )
            process, choice = search.choose(plans)
        self._warn_if_discrete(data)
        results = {
            "choice_": choice,
            "forecast_": seconds,
            "n_evaluations_": choice.n_evaluations,
        }
        return process, results

    def _warn_if_fewer(self, plans: tuple[MemberPlan, ...]) -> None:
        if self.kernel is None and self._kinds() == ("auto",) and not has_torch():
            names = ", ".join(plan.kind.name for plan in plans)
            warn(
                f"model: 'auto' tries {names} alone, since torch is not installed; pip install "
                '"coupledgp[torch]" for local models, random features, trees and transforms',
                MissingModelsWarning,
            )

    def _fit_under(
        self, law: Likelihood, data: Data, columns: Columns
    ) -> tuple[GaussianProcess, dict[str, Any]]:
        """Fit one function whose observations follow a law that is not Gaussian."""
        n_frequencies = SAMPLED_A_FITTED * check_positive_int(self.n_frequencies, "n_frequencies")
        law, units = law_and_units(self.likelihood, law, data)
        with within_budget(seconds_of(self.budget)):
            return fit_latent_table(self, data, columns, law, units, n_frequencies)

    @staticmethod
    def _warn_if_discrete(data: Data) -> None:
        """Warn of targets between whose values a Gaussian law puts chance."""
        for name, one in discrete_outputs(data.targets).items():
            warn(one.explain(name), DiscreteTargetsWarning)

    def check_parameters(self) -> None:
        super().check_parameters()
        check_choice(self.noise, NOISES, "noise")
        check_choice(self.trend, TRENDS, "trend")
        seconds_of(self.budget)
        check_positive_int(self.n_neighbors, "n_neighbors")
        check_positive_int(self.n_frequencies, "n_frequencies")
        if self.kernel is not None:
            parse_kernel(self.kernel)
        self._kinds()
        if self._law() is not None:
            refuse_beside(self, str(self.likelihood), BESIDE_LAW)

    def _kinds(self) -> tuple[str, ...]:
        names = (self.model,) if isinstance(self.model, str) else tuple(self.model)
        if names == ("auto",):
            return names
        for name in names:
            check_choice(name, ("auto", *KINDS), "model")
        if not names or "auto" in names:
            raise wrong("model", f"'auto' alone, or some of {', '.join(KINDS)}", self.model)
        return names

    def check_restored(self) -> None:
        super().check_restored()
        choice = self.fitted_.results.get("noise_choice_")
        if choice is not None and not 0 <= choice.column < self._columns.n_encoded:
            raise ModelFileError(f"noise_choice.column: expected a column, got {choice.column}")


def _given(*rows: ArrayLike | None) -> tuple[ArrayLike | None, ...]:
    """Weights, noise and exposures of rows, without the exposures where there are none."""
    return rows if rows[EXPOSURE_PLACE] is not None else rows[:EXPOSURE_PLACE]


@estimator
class AutomaticSize(ProcessRegressor):
    """Part of an estimator that chooses its own coupling and number of features.

    Parameters
    ----------
    options
        Values by name for specialists; None: none.

    Attributes
    ----------
    selection_, kl_per_point_
        With `"auto"` only: the trials of the search and the reason for its choice
        (`selection_.explain()`), and the KL that was measured after the fit, nats per point.
    """

    # The parameter that is the number of frequencies or walkers.
    size_parameter: ClassVar[str]

    _: KW_ONLY
    options: Mapping[str, Any] | None = None
    kl_target = option(0.01, positive)

    @property
    def _chooses(self) -> bool:
        """Whether the coupling or the size is `"auto"`."""
        return any(is_auto(getattr(self, name)) for name in ("coupling", self.size_parameter))

    @property
    def has_closed_form(self) -> bool:
        """Whether a closed form of the expected KL may choose the size."""
        return False

    def chosen(self, coupling: Any, size: int) -> Self:
        """Return an unfitted copy with a coupling and a size as its parameters."""
        changes = {"coupling": coupling, self.size_parameter: size}
        copy: Self = with_parameters(self, **changes)
        return copy

    def _fit_automatic(self, X: Any, y: ArrayLike, *weights: Any) -> FittedModel:
        """Choose the coupling and least size that meet the target of the KL, and fit with them."""
        fitted, selection, measured = fit_automatic(self, X, y, *weights)
        record: FittedModel = fitted.fitted_
        chosen = {"selection_": selection, "kl_per_point_": measured.kl_per_point}
        return replace(record, results={**record.results, **chosen})
