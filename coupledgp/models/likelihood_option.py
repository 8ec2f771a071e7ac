"""The law of observations as regressors take it: a name, or an object."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.errors import InvalidInputError
from coupledgp.gp.protocol import Data
from coupledgp.gp.units import Units
from coupledgp.ground.memory import named_exhaustion
from coupledgp.likelihoods.base import Likelihood
from coupledgp.likelihoods.registry import LIKELIHOODS
from coupledgp.models.compared_kernels import ComparesKernels
from coupledgp.models.estimator import ProcessRegressor
from coupledgp.models.node_targets import reporting_rows
from coupledgp.models.options import estimator
from coupledgp.models.table_rows import RowArguments

LikelihoodLike: TypeAlias = Likelihood | str


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


def units_under(law: Likelihood, data: Data) -> Units:
    """Prior mean of the function, and its unit."""
    exposure = None if data.weights is None else data.weights.exposure
    unit = law.unit(data.targets)
    center = law.rescaled(1 / float(unit[0])).center(data.targets / unit, exposure)
    return Units(unit * center, unit)


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


@estimator
class NodeLikelihood(LikelihoodOption, ComparesKernels, ProcessRegressor):
    """A regressor of values at nodes whose observations may follow a likelihood."""

    def partial_fit(self, X: Any, y: ArrayLike, exposure: ArrayLike | None = None) -> Self:
        """Add observations, hyperparameters kept; the first call on an unfitted model is `fit`.

        The posterior is that of all observations, and the normalisation of y follows them. An
        error leaves the model as it was.

        Parameters
        ----------
        X, y
            Further nodes and observations, as in `fit`.
        exposure
            Exposures (n,) of the observations, for a likelihood of counts; None: ones.
        """
        if not self.__sklearn_is_fitted__():
            model: Any = self
            found: Self = model.fit(X, y, exposure=exposure)
            return found
        with named_exhaustion("partial_fit"):
            data = self._further_data(X, y, *(() if exposure is None else (exposure,)))
        return self._updated(data)

    def _exposed(self, data: Data, exposure: ArrayLike | None, y: ArrayLike) -> Data:
        """Observations with exposures of all rows of y, checked against their law."""
        kept = reporting_rows(y, self.missing)
        if exposure is not None and kept is not None and np.shape(exposure) == kept.shape:
            exposure = np.asarray(exposure)[kept]
        law = LIKELIHOODS.parse(self.likelihood, "likelihood")
        if exposure is not None and not law.takes_exposure:
            law.log_exposure(np.ones(1))  # refuses
        return RowArguments(None, None, exposure=exposure).data(data.points, data.targets)


def named_law(law: Likelihood, given: LikelihoodLike, units: Units) -> Likelihood:
    """The law where its search starts: parameters of a named one are for targets of unit one."""
    return law.rescaled(float(units.scale[0])) if isinstance(given, str) else law
