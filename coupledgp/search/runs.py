"""Runs of an optimiser on the evidence of one problem."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from coupledgp.ground.progress import Progress
from coupledgp.inference.evidence.problem import (
    EvidenceAtLengthscale,
    EvidenceGradient,
    EvidenceProblem,
    Hyperparameters,
)
from coupledgp.linalg.rounding import warn_of_evidence
from coupledgp.random import FloatArray
from coupledgp.search.minimise import Minimum, Stopping, around_failures
from coupledgp.search.profile import profile_scales
from coupledgp.search.space import SearchSpace


class Search:
    """Search on one problem, over log lengthscales alone or together with the log variances.

    The variances are two more variables, so that a Cholesky factor is enough for an evaluation, or
    they are profiled out by an eigendecomposition, which keeps them in bounds where there is no
    such factor.

    Parameters
    ----------
    problem
        The evidence.
    space
        Free and kept hyperparameters, bounds and the optimiser.
    report
        Called with a line of progress after each evaluation.
    joint
        Whether the variances are variables.
    """

    def __init__(
        self,
        problem: EvidenceProblem,
        space: SearchSpace,
        report: Progress,
        joint: bool = True,
    ) -> None:
        self.problem, self.space, self.report = problem, space, report
        self.n_evaluations = 0
        self.count = problem.n_counted * problem.n_outputs
        self.free_scales = [name for name in ("outputscale", "noise") if name in space.free]
        self.joint = joint

    def scales(self, here: EvidenceAtLengthscale) -> tuple[float, float]:
        """Return the best (outputscale, noise) at fixed lengthscales; those that are kept stay."""
        space = self.space
        kept = space.kept_outputscale, space.kept_noise
        if kept[0] is not None and kept[1] is not None:
            return kept[0], kept[1]
        return profile_scales(here.spectral(), space.bounds, *kept)

    def value(self, theta: FloatArray) -> float:
        """Minus the profiled log evidence per target."""
        here = self.problem.at(self.space.lengthscales(theta))
        self.n_evaluations += 1
        return -here.value(*self.scales(here)) / self.count

    def profiled(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """Minus the profiled log evidence per target, and its gradient."""
        here = self.problem.at(self.space.lengthscales(theta))
        evidence = self._evaluate(here, *self.scales(here))
        return -evidence.value / self.count, -self.space.gradient(evidence.lengthscale) / self.count

    def jointly(self, variables: FloatArray) -> tuple[float, FloatArray]:
        """Minus the log evidence per target, and its gradient, in theta and the log variances."""
        theta, logs = np.split(variables, [variables.size - len(self.free_scales)])
        scales = {"outputscale": self.space.outputscale, "noise": self.space.noise}
        scales |= dict(zip(self.free_scales, np.exp(logs).tolist(), strict=True))
        here = self.problem.at(self.space.lengthscales(theta))
        evidence = self._evaluate(here, scales["outputscale"], scales["noise"])
        by_scale = [getattr(evidence, name) for name in self.free_scales]
        gradient = np.concatenate([self.space.gradient(evidence.lengthscale), by_scale])
        return -evidence.value / self.count, -gradient / self.count

    def _evaluate(
        self, here: EvidenceAtLengthscale, outputscale: float, noise: float
    ) -> EvidenceGradient:
        evidence = here.evaluate(outputscale, noise)
        self.n_evaluations += 1
        per_row = evidence.value / self.count
        self.report(f"evaluation {self.n_evaluations}, log evidence {per_row:.4f} a row")
        return evidence

    def run(self, start: FloatArray, stopping: Stopping) -> Minimum:
        """Minimise from theta (q,); the point of the result is a theta too."""
        lower, upper = self.space.log_range
        bounds = [(min(lower, t), max(upper, t)) for t in start]
        variables = start
        if self.joint:
            here = self.problem.at(self.space.lengthscales(start))
            best = dict(zip(("outputscale", "noise"), self.scales(here), strict=True))
            logs = [np.log(best[name]) for name in self.free_scales]
            variables = np.concatenate([start, logs])
            for name in self.free_scales:
                low, high = getattr(self.space.bounds, name)
                bounds.append((np.log(low), np.log(high)))
        function = around_failures(self.jointly if self.joint else self.profiled)
        found = self.space.minimise(function, variables, bounds, stopping)
        return replace(found, point=found.point[: start.size])

    def finish(self, lengthscale: FloatArray) -> tuple[Hyperparameters, float]:
        """Hyperparameters with the best variances at lengthscales (d,), and the log evidence.

        A PrecisionWarning is given where rounding moves them by more than they are uncertain.
        """
        here = self.problem.at(lengthscale)
        outputscale, noise = self.scales(here)
        self.n_evaluations += 1
        best = Hyperparameters(lengthscale, outputscale, noise)
        if self.space.free:
            warn_of_evidence(here.error(outputscale, noise), self.count)
        return best, here.value(outputscale, noise)
