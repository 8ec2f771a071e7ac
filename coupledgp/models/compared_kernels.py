"""Estimators of places that compare kernels: what they tell of it, and store in a file."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from coupledgp.gp.protocol import Arrays, Header
from coupledgp.gp.schema import check_number
from coupledgp.models.process_estimator import ProcessEstimator
from coupledgp.models.stored import fitted_result
from coupledgp.selection.latent_kernels import KernelChoice


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

    def _state(self, include_data: bool) -> tuple[Header, Arrays]:
        header, arrays = super()._state(include_data)
        results = self.fitted_.results
        if "choice_" in results:
            header |= {"choice": asdict(results["choice_"]), "forecast": results["forecast_"]}
        return header, arrays


def restored_choice(header: Header) -> dict[str, Any]:
    """Results of the entries that `ComparesKernels` puts into a header."""
    if "choice" not in header:
        return {}
    return {
        "choice_": KernelChoice.from_state(header["choice"]),
        "forecast_": check_number(header.get("forecast"), "forecast", low=0.0),
    }
