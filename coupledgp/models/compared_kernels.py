"""Estimators of places that compare kernels: what they tell of it."""

from __future__ import annotations

from typing import Any

from coupledgp.models.process_estimator import ProcessEstimator
from coupledgp.models.stored import fitted_result


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
