"""Reports that may fit other models beside the one they are on."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial, wraps
from typing import ParamSpec, TypeVar

from coupledgp.diagnostics import auditing
from coupledgp.diagnostics.scoring.alternatives import FindAlternatives
from coupledgp.models.other_models.judge import (
    DEFAULT_BUDGET,
    alternatives,
    alternatives_of_predictions,
)
from coupledgp.selection import study

P = ParamSpec("P")
R = TypeVar("R")


def fitting(report: Callable[P, R], find: FindAlternatives) -> Callable[P, R]:
    """A report for which `alternatives=True` stands for a function that fits other models."""

    @wraps(report)
    def made(*args: P.args, **kwargs: P.kwargs) -> R:
        if kwargs.get("alternatives") is True:
            shown, budget = kwargs.get("progress"), kwargs.get("budget", DEFAULT_BUDGET)
            kwargs["alternatives"] = partial(find, budget=budget, progress=shown)
        return report(*args, **kwargs)

    made.__module__ = __name__
    return made


posterior_report = fitting(study.posterior_report, alternatives)
audit = fitting(auditing.audit, alternatives_of_predictions)
