"""Counts under a law of counts, beside a rounded Gaussian law: under-dispersed counts lose."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from scipy.special import log_ndtr

from coupledgp.expressions import Kernel
from coupledgp.gp.protocol import Data
from coupledgp.gp.units import Units
from coupledgp.ground.progress import silent
from coupledgp.inference.evidence.rows import RowWeights
from coupledgp.random import FloatArray
from coupledgp.search.tables.expression import ExpressionProblem
from coupledgp.search.tables.local import Round
from coupledgp.search.tables.local_problem import LocalProblem
from coupledgp.selection.exact_members import leave_one_out

# Rows of the search of the Gaussian law, with its iterations.
GAUSSIAN_ROUNDS = (Round(250, 25), Round(600, 6))
# Mean loss, nats, and standard errors of it, above which the law of counts is said to be worse.
LEAST_LOSS, ERRORS = 0.01, 2.0


@dataclass(frozen=True)
class RoundedGaussian:
    """Log losses of counts that are left out, each under two laws.

    Attributes
    ----------
    log_loss : float
        Mean of minus the log chance of a count under the model's law, nats.
    gaussian_log_loss : float
        That of its interval (y - 1/2, y + 1/2) under a Gaussian process with the same kernel.
    standard_error : float
        Standard error of the difference, nats.
    """

    log_loss: float
    gaussian_log_loss: float
    standard_error: float

    @classmethod
    def of(cls, own: FloatArray, gaussian: FloatArray, counts: FloatArray | None) -> Self:
        """The comparison of log chances (m,) of counts, which count so often (m,)."""
        error = float((gaussian - own).std(ddof=1) / np.sqrt(own.size)) if own.size > 1 else np.inf
        log_loss, other = (-float(np.average(each, weights=counts)) for each in (own, gaussian))
        return cls(log_loss, other, error)

    @property
    def is_better(self) -> bool:
        """Whether the rounded Gaussian law is clearly the better one."""
        gain = self.log_loss - self.gaussian_log_loss
        return gain > max(LEAST_LOSS, ERRORS * self.standard_error)

    def explain(self) -> str:
        """Both figures, and what follows, in words."""
        found = (
            f"Counts left out have a log loss of {self.log_loss:.4f} nats, and of "
            f"{self.gaussian_log_loss:.4f} under a rounded Gaussian law with the same kernel"
        )
        if not self.is_better:
            return f"{found}."
        return f"{found}, which is better: {ADVICE}."


ADVICE = (
    "the counts vary less than this law of counts says, so that its intervals are too wide; take "
    'likelihood="gaussian" and round its quantiles, or likelihood="ordinal" for few values'
)


def rounded_log_densities(table: LocalProblem, kernel: Kernel, data: Data) -> FloatArray:
    """Log chances (m,) of counts, each given all others, under a rounded Gaussian law.

    The rate `y / e` has a Gaussian process with noise of variance `s / e`, where e is the exposure,
    and the chance of a count is that of `((y - 1/2) / e, (y + 1/2) / e)`, for zero of all below.

    Parameters
    ----------
    table
        The table of all rows.
    kernel
        The kernel.
    data
        The rows that are left out one by one.
    """
    whole, own = _rates(table.data), _rates(data)
    units = Units.of(whole.targets, True, whole.counts)
    problem = ExpressionProblem(replace(table, data=whole, units=units, known_noise=None), kernel)
    vector = problem.search(silent, GAUSSIAN_ROUNDS, 1).point
    given = replace(problem, table=replace(problem.table, data=own))
    process = given.process(vector, False, warns=False)
    scores = leave_one_out(process, units.normalized(own.targets))
    exposure = _exposures(data)
    mean = units.mean(scores.means)[:, 0]
    std = np.sqrt(scores.variances) * units.scale[0]
    count = data.targets[:, 0]
    low, high = (((count + half) / exposure - mean) / std for half in (-0.5, 0.5))
    return _log_chance(np.where(count == 0, -np.inf, low), high)


def _rates(data: Data) -> Data:
    """Counts over their exposures, with the noise that rates have."""
    exposure = _exposures(data)
    counts = np.ones(len(data)) if data.counts is None else data.counts
    return Data.of(
        data.points, data.targets / exposure[:, None], weights=RowWeights(1 / exposure, counts)
    )


def _exposures(data: Data) -> FloatArray:
    known = None if data.weights is None else data.weights.exposure
    return np.ones(len(data)) if known is None else known


def _log_chance(low: FloatArray, high: FloatArray) -> FloatArray:
    """Logarithm (m,) of the chance of (low, high) under a standard normal law."""
    # In the upper tail both ends are mirrored, so that the difference keeps its digits.
    upper = low > 0
    low, high = np.where(upper, -high, low), np.where(upper, -low, high)
    over, under = log_ndtr(high), log_ndtr(low)
    return np.asarray(over + np.log1p(-np.exp(np.minimum(under - over, -1e-300))))
