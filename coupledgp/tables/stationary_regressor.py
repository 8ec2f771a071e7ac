"""Regressors of tables with one stationary kernel, whose hyperparameters the evidence decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from coupledgp.core.averaging import (
    Average,
    as_hyperparameter_prior,
    average_hyperparameters,
)
from coupledgp.core.column_moments import HYPERPARAMETERS
from coupledgp.core.minimise import lbfgs, parse_optimizer
from coupledgp.core.optimize import OptimizationResult
from coupledgp.core.options import estimator
from coupledgp.core.problem import EvidenceProblem, Hyperparameters
from coupledgp.core.process import Data
from coupledgp.core.starts import SearchSpace
from coupledgp.core.stored import fitted_result
from coupledgp.core.units import Units, are_constant
from coupledgp.ground.parameters import at_least, one_of, option, param, some_of
from coupledgp.ground.validation import (
    check_lengthscale,
    check_positive,
)
from coupledgp.ground.visible import warn
from coupledgp.random import FloatArray, IntArray
from coupledgp.spectra import SpectrumLike
from coupledgp.tables.regressor_base import TableRegressor
from coupledgp.tables.rows import known_noise

HYPERPARAMETER_CHOICES = ("maximum", "averaged")
# Values kept when the optimizer is off and none was given, in units of the normalised targets.
DEFAULT_SCALES = {"outputscale": 1.0, "noise": 0.1}


class StationaryParameters:
    """Parameters of one stationary kernel, among the positional ones of each estimator."""

    kernel: SpectrumLike
    lengthscale: ArrayLike | None
    outputscale: float | None
    noise: float | None
    optimizer: str | None


@estimator
class StationaryRegressor(StationaryParameters, TableRegressor):
    """Base of the regressors of tables with one stationary kernel.

    Parameters
    ----------
    kernel
        `"gaussian"`, `"matern-1/2"`, `"matern-3/2"`, `"matern-5/2"`, `"matern-NU"` or a Spectrum;
        exact models take `"laplace"` too, `exp(-sum_j |x_j - x'_j| / l_j)`.
    ard
        One lengthscale for each column of X; otherwise one for all.
    lengthscale
        Lengthscale, one or (d,), in units of X: where the optimizer starts, or kept if it is None.
        None takes it from the spread of the data; for Laplace features, and others whose class has
        `lengthscale_by_rule`, by the rule `2 mean_ij |x_i + x_j|` of "Variance-reducing couplings"
        (A1), on standardised columns if `ard`.
    outputscale, noise
        Variances of f and of the noise, in units of the normalised y; kept if the optimizer is
        None (None: 1 and 0.1).
    optimizer
        `"lbfgs"`, or None to keep the given hyperparameters.
    hyperparameters
        `"maximum"`: the hyperparameters of greatest evidence. `"averaged"`: averaged over their
        posterior by importance sampling, which keeps intervals honest on few rows, where the
        maximum is over-confident. The law is then a mixture. Its first member has the
        hyperparameters of greatest posterior density, which `lengthscale_`, `outputscale_` and
        `noise_` state.
    options
        Values by name for specialists; None: none.

        * `fixed`: names of hyperparameters that the optimizer leaves alone. None, the default:
          nothing, but `("lengthscale",)` for Laplace features, whose evidence would trade the
          rule's low variance for an easier kernel.
        * `n_restarts` (1): number of starting points, besides the best one, from which L-BFGS is
          run as well. Without a `lengthscale` they come from a coarse profile of the evidence on
          at most 128 rows; on tables that are searched whole twice as many are tried for a few
          steps.
        * `max_iter` (100): largest number of iterations of L-BFGS, on each rung of a long table's
          ladder of rows. A ConvergenceWarning is given if the search on the last rung ends there.
        * `hyperparameter_prior`: laws of the logarithms of the hyperparameters where they are
          averaged, a `HyperparameterPrior` or its fields by name. None, the default: normal laws
          for the normalised y. `log l` has standard deviation 1 about the log of the data-driven
          lengthscale, `log v` has 1 about 0, and `log s` has 1.7 about -3.
        * `n_hyperparameter_draws` (48): draws of averaged hyperparameters: each costs an
          evaluation of the evidence, and a member of the mixture unless its weight is below 1e-4.

    Attributes
    ----------
    n_effective_draws_
        Effective number of draws of averaged hyperparameters, `1 / sum w^2` of their weights.
    search_
        Rows that the lengthscales come from, and the reason (`search_.explain()`). On a table of
        more than 2048 rows the search takes 1024 rows, then four times as many, and so on, as long
        as the log density of held-out rows rises by more than its error. The variances and the
        posterior always come from every row.
    """

    _: KW_ONLY
    hyperparameters: str = param(default="maximum", check=one_of(*HYPERPARAMETER_CHOICES))
    options: Mapping[str, Any] | None = None
    fixed = option(None, some_of(*HYPERPARAMETERS))
    n_restarts = option(1, at_least(0))
    max_iter = option(100, at_least(1))
    hyperparameter_prior = option(None, lambda value, name: as_hyperparameter_prior(value))
    n_hyperparameter_draws = option(48, at_least(2))

    n_iter_ = fitted_result("n_iter_", "Iterations of the last run of the search.")
    search_ = fitted_result("search_", "Rows that the lengthscales come from; see `Ladder`.")

    def _warn_if_stopped(self, results: Mapping[str, Any]) -> None:
        """Warn where the search ended at its limit, or in the middle, not by its tolerances."""
        if results.get("converged_", True) or "n_iter_" not in results:
            return
        if results["n_iter_"] < self.max_iter:
            warn(
                f"optimizer: the search for hyperparameters ended after {results['n_iter_']} "
                "iterations before it converged: no step uphill had a greater evidence, though its "
                "gradient is not zero, which rounding may cause; give a lengthscale to start from, "
                "raise n_restarts, or raise a noise that is far below the targets' variance",
                ConvergenceWarning,
            )
            return
        warn(
            f"max_iter: the search for hyperparameters stopped after {self.max_iter} iterations "
            "before it converged; raise max_iter, give a lengthscale to start from, or, if columns "
            "are many, set ard=False",
            ConvergenceWarning,
        )

    def _search_space(
        self, data: Data, units: Units, base: FloatArray, groups: IntArray | None = None
    ) -> SearchSpace:
        """Free hyperparameters and starts of the search, from the parameters and the data."""
        varies = not are_constant(data.targets, units.offset)
        return self._space(varies, known_noise(data, units, self.noise), base, groups)

    def _space(
        self, varies: bool, known: float | None, base: FloatArray, groups: IntArray | None
    ) -> SearchSpace:
        """Free hyperparameters and starts of the search.

        `base` are data-driven lengthscales (D,), equal in each of the `groups` of columns. All
        hyperparameters are fixed for targets that do not vary, which say nothing about scales:
        their evidence has no maximum. Noise of the rows that is `known`, in normalised units, is
        kept unless `fixed` is given without it.
        """
        dim = base.size
        searched = varies and self.optimizer is not None
        minimise = lbfgs if self.optimizer is None else parse_optimizer(self.optimizer)
        fixed = set(self._default_fixed() if self.fixed is None else self.fixed)
        if self.fixed is None and known is not None:
            fixed.add("noise")
        given = None
        if self.lengthscale is not None:
            given = column_lengthscales(self.lengthscale, dim, groups)
            base = base if self.ard else given
        scales = {
            name: default
            if getattr(self, name) is None
            else check_positive(getattr(self, name), name)
            for name, default in DEFAULT_SCALES.items()
        }
        return SearchSpace(
            base=base,
            ard=self.ard,
            lengthscale=given,
            outputscale=scales["outputscale"],
            noise=scales["noise"] if known is None else known,
            free=frozenset(HYPERPARAMETERS) - fixed if searched else frozenset(),
            minimise=minimise,
            groups=groups,
        )

    def _averaged(
        self,
        problem: EvidenceProblem,
        space: SearchSpace,
        found: Hyperparameters,
        rng: np.random.Generator,
    ) -> Average | None:
        """Draws of the hyperparameters with weights; None if not averaged or if none is free."""
        if self.hyperparameters == "maximum" or not space.free:
            return None
        prior, n_draws = (
            as_hyperparameter_prior(self.hyperparameter_prior),
            self.n_hyperparameter_draws,
        )
        return average_hyperparameters(problem, space, found, prior, n_draws, rng)

    @property
    def _transform_kernel(self) -> SpectrumLike:
        return self.kernel

    def _default_fixed(self) -> tuple[str, ...]:
        """Names of hyperparameters that stay at their defaults unless `fixed` says otherwise."""
        return ()


def column_lengthscales(value: ArrayLike, dim: int, groups: IntArray | None) -> FloatArray:
    """Lengthscales (dim,) of columns, from one, or from one for each group of columns."""
    if groups is None:
        return check_lengthscale(value, dim)
    return check_lengthscale(value, int(groups[-1]) + 1)[groups]


def search_results(search: OptimizationResult) -> dict[str, Any]:
    """Fitted attributes that describe a search: its costs, convergence, and rows."""
    return {
        "n_evaluations_": search.n_evaluations,
        "n_iter_": search.n_iterations,
        "converged_": search.converged,
        "search_": search.ladder,
    }


def averaged_results(search: OptimizationResult, average: Average) -> dict[str, Any]:
    """Fitted attributes of a search whose hyperparameters were averaged."""
    results = search_results(search)
    results["n_evaluations_"] += average.n_evaluations
    return {**results, "n_effective_draws_": average.n_effective}
