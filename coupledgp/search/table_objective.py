"""The evidence of a table as an objective, in log lengthscales and log variances."""

from __future__ import annotations

import numpy as np

from coupledgp.inference.evidence.objective import Box, Objective
from coupledgp.inference.evidence.problem import (
    EvidenceAtLengthscale,
    EvidenceProblem,
    Hyperparameters,
)
from coupledgp.linalg.rounding import warn_of_evidence
from coupledgp.random import FloatArray
from coupledgp.search.space import SearchSpace


class TableObjective(Objective[FloatArray]):
    """Minus the log evidence per target, at points theta (q,): log lengthscales over their base.

    The variances are two more variables, so that a Cholesky factor is enough for an evaluation, or
    they are profiled out by an eigendecomposition, which keeps them in bounds where there is no
    such factor. By the envelope theorem the gradient of the profiled evidence is the partial
    derivative at the best variances.

    Parameters
    ----------
    problem
        The evidence.
    space
        Free and kept hyperparameters and bounds.
    title
        Words before each line of progress.
    joint
        Whether the variances are variables.
    falls_back
        Whether they are profiled out where they are variables and a Cholesky factor fails.
    """

    def __init__(
        self,
        problem: EvidenceProblem,
        space: SearchSpace,
        title: str = "",
        *,
        joint: bool = True,
        falls_back: bool = True,
    ) -> None:
        self.problem, self.space, self.title, self.joint = problem, space, title, joint
        self.falls_back = falls_back
        self.size = problem.n_counted * problem.n_outputs

    @property
    def free_scales(self) -> list[str]:
        """Names of the variances that are variables."""
        names = ("outputscale", "noise") if self.joint else ()
        return [name for name in names if name in self.space.free]

    def at(self, theta: FloatArray) -> EvidenceAtLengthscale:
        """The evidence at theta (q,)."""
        return self.problem.at(self.space.lengthscales(theta))

    def variables(self, point: FloatArray) -> FloatArray:
        """Theta, and the logarithms of the best variances there, (q,)."""
        if not self.joint:
            return point
        best = dict(zip(("outputscale", "noise"), self.space.scales(self.at(point)), strict=True))
        return np.concatenate([point, [np.log(best[name]) for name in self.free_scales]])

    def point(self, variables: FloatArray) -> FloatArray:
        """Theta (q,) of a point."""
        return variables[: variables.size - len(self.free_scales)]

    def box(self, start: FloatArray) -> Box:
        """Box of the variables; a start outside of the range of lengthscales widens it."""
        lower, upper = self.space.log_range
        box = [(min(lower, t), max(upper, t)) for t in start]
        ends = [getattr(self.space.bounds, name) for name in self.free_scales]
        return [*box, *((np.log(low), np.log(high)) for low, high in ends)]

    def value(self, point: FloatArray) -> float:
        """The objective with the best variances."""
        here = self.at(point)
        return -here.value(*self.space.scales(here)) / self.size

    def value_and_gradient(self, variables: FloatArray) -> tuple[float, FloatArray]:
        theta = self.point(variables)
        here, names = self.at(theta), self.free_scales
        if self.joint:
            scales = {"outputscale": self.space.outputscale, "noise": self.space.noise}
            scales |= dict(zip(names, np.exp(variables[theta.size :]).tolist(), strict=True))
            evidence = here.evaluate(scales["outputscale"], scales["noise"])
        else:
            evidence = here.evaluate(*self.space.scales(here))
        by_scale = [getattr(evidence, name) for name in names]
        gradient = np.concatenate([self.space.gradient(evidence.lengthscale), by_scale])
        return -evidence.value / self.size, -gradient / self.size

    def safer(self) -> TableObjective | None:
        """The same objective with the variances profiled out, from now on."""
        if not (self.joint and self.falls_back):
            return None
        self.joint = False
        return self

    def finished(self, lengthscale: FloatArray) -> tuple[Hyperparameters, float]:
        """Hyperparameters with the best variances at lengthscales (d,), and the log evidence.

        A PrecisionWarning is given where rounding moves them by more than they are uncertain.
        """
        here = self.problem.at(lengthscale)
        outputscale, noise = self.space.scales(here)
        best = Hyperparameters(lengthscale, outputscale, noise)
        if self.space.free:
            warn_of_evidence(here.error(outputscale, noise), self.size)
        return best, here.value(outputscale, noise)
