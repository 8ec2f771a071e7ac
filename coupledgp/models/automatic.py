"""Estimators whose coupling and size may be `"auto"`."""

from __future__ import annotations

from dataclasses import KW_ONLY, replace
from typing import Any, ClassVar, Self

from numpy.typing import ArrayLike

from coupledgp.models.estimator import ProcessRegressor
from coupledgp.models.options import estimator
from coupledgp.models.record import FittedModel
from coupledgp.selection.automatic import fit_automatic
from coupledgp.selection.protocol import is_auto, with_parameters


@estimator
class AutomaticSize(ProcessRegressor):
    """Part of an estimator that chooses its own coupling and number of features.

    Parameters
    ----------
    kl_target
        Target of the KL for `"auto"`, nats per point. The KL is measured after the fit, at each
        quarter of the observations given the other quarters. For 1024 rows or more, and on graphs,
        it is measured at 256 observations at most. A ConvergenceWarning is given if the KL, or its
        mean plus two standard errors, is above the target.

    Attributes
    ----------
    selection_, kl_per_point_
        With `"auto"` only: the trials of the search and the reason for its choice
        (`selection_.explain()`), and the KL that was measured after the fit, nats per point.
    """

    # The parameter that is the number of frequencies or walkers.
    size_parameter: ClassVar[str]

    _: KW_ONLY
    kl_target: float = 0.01

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
