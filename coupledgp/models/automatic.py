"""Estimators whose coupling and size may be `"auto"`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from coupledgp.models.estimator import FittedModel, ProcessRegressor
from coupledgp.selection.automatic import fit_automatic
from coupledgp.selection.protocol import is_auto


class AutomaticSize(ProcessRegressor):
    """Part of an estimator that chooses its own coupling and number of features.

    Attributes
    ----------
    size_parameter : str
        Name of the parameter that is the number of frequencies or walkers.
    default_coupling : str
        Text of the coupling that is used where `"auto"` would choose only the size.
    """

    size_parameter: ClassVar[str]
    default_coupling: ClassVar[str]

    coupling: Any
    kl_target: float

    @property
    def _chooses(self) -> bool:
        """Whether the coupling or the size is `"auto"`."""
        return is_auto(self.coupling) or is_auto(getattr(self, self.size_parameter))

    def _fit_automatic(self, X: Any, y: ArrayLike, *weights: ArrayLike | None) -> FittedModel:
        """Choose the coupling and size that meet the target of the KL, and fit with them."""
        fitted, selection, measured = fit_automatic(self, X, y, *weights)
        record: FittedModel = fitted.fitted_
        chosen = {"selection_": selection, "kl_per_point_": measured.kl_per_point}
        return replace(record, results={**record.results, **chosen})
