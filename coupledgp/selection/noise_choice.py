"""Whether the noise of a fitted model varies: decided by the density of what is left out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np
from scipy import stats

from coupledgp.core.codec import stored
from coupledgp.errors import InvalidInputError, NumericalError
from coupledgp.gp.frozen_mean import folds_of
from coupledgp.gp.protocol import Data, GaussianProcess
from coupledgp.gp.units import are_constant
from coupledgp.gp.varying_noise import VaryingNoiseGP, inner_parts, variance_columns
from coupledgp.ground.tensors import has_torch
from coupledgp.random import FloatArray
from coupledgp.search.tables.variance_field import LeftOutRows, fit_variance
from coupledgp.selection.discrete_targets import discrete_outputs

NOISES = ("auto", "constant", "varying")
# Fewest rows at which the noise may vary, and most rows that a factor is fitted to.
LEAST_ROWS, MOST_ROWS = 50, 1500
# Folds of the second stage, least gain in nats a row, and standard errors by which it exceeds zero.
FOLDS, LEAST_GAIN, ERRORS = 5, 0.01, 2.0
# Shares of the rows between whose deviations a choice is told.
ENDS = (5, 95)
# Seconds of one core of 2023: of a fit, of an entry of its features with all evaluations, and of
# one row in the law of each of the others.
FIT_SECONDS, ENTRY_SECONDS, PAIR_SECONDS = 0.2, 4e-8, 1e-7


@stored
@dataclass(frozen=True)
class NoiseChoice:
    """The comparison of constant noise with noise that varies.

    Attributes
    ----------
    varies : bool
        Whether the noise of the model varies.
    reason : str
        Why it was not tried; empty where it was.
    gain, error : float
        Mean gain of the log density of rows that neither process nor factor has seen, nats a row,
        and its standard error.
    n_scored : int
        Number of these rows.
    low, high : float
        Standard deviations of observations that 5 % and 95 % of the rows are below.
    column : int
        Column of X, as encoded, with which the deviation has the largest rank correlation.
    correlation : float
        This correlation.
    degrees : float
        Degrees of freedom of the residuals.
    """

    varies: bool
    reason: str = ""
    gain: float = 0.0
    error: float = 0.0
    n_scored: int = 0
    low: float = 0.0
    high: float = 0.0
    column: int = 0
    correlation: float = 0.0
    degrees: float = field(default=0.0, metadata={"finite": False})

    def explain(self, names: list[str]) -> str:
        """The choice in words, with names (d,) of the encoded columns."""
        if self.reason:
            return f"Noise is constant: {self.reason}."
        scored = f"{self.gain:+.3f} ± {self.error:.3f} nats a row on {self.n_scored} rows left out"
        if not self.varies:
            return f"Noise is constant: letting it vary gains {scored}, too little to be clear."
        way = "grows" if self.correlation > 0 else "falls"
        return (
            f"Noise {way} with column `{names[self.column]}` (rank correlation "
            f"{self.correlation:.2f}): standard deviation {self.low:.3g} to {self.high:.3g} "
            f"(90 % of rows), {self.degrees:.3g} degrees of freedom; it gains {scored}."
        )


def noise_seconds(n_rows: int, dim: int) -> float:
    """Forecast of the seconds of one core that the choice takes, on a table of d columns."""
    n = min(n_rows, MOST_ROWS)
    n_features = 67 + dim
    each = FIT_SECONDS + ENTRY_SECONDS * n * n_features**2
    return (1 + FOLDS) * each + PAIR_SECONDS * n_rows * n


def with_noise(
    process: GaussianProcess, wanted: str, seed: int
) -> tuple[GaussianProcess, NoiseChoice]:
    """A process whose noise varies if that is wanted, or if it pays; and the comparison.

    The factor on the variance, and the tail, are fitted to the laws of rows that are left out of
    the process one at a time. They are judged by folds of these rows, each by a factor and a tail
    that were fitted to the other folds, against the process as it is. With `"auto"` the gain has to
    exceed two of its standard errors, and .01 nats a row.

    Parameters
    ----------
    process
        A process of a table.
    wanted
        `"auto"` or `"varying"`.
    seed
        Seed of rows and frequencies.

    Raises
    ------
    InvalidInputError
        The noise is to vary, and the targets or the process do not allow it.
    """
    if wanted == "varying":
        check_varying(process.data)
        return _tried(process, seed, always=True)
    reason = reason_against(process.data)
    if not reason and not has_torch():
        reason = "torch, which it takes, is not installed"
    if reason:
        return process, NoiseChoice(False, reason)
    try:
        return _tried(process, seed, always=False)
    except NumericalError as error:
        return process, NoiseChoice(False, f"no factor on it was found ({error})")


def reason_against(data: Data) -> str:
    """Why noise of observations of these data cannot vary; empty if nothing is against it."""
    if len(data) < LEAST_ROWS:
        return f"{len(data)} rows are less than {LEAST_ROWS}"
    if are_constant(data.targets):
        return "y does not vary"
    if discrete_outputs(data.targets):
        return "y takes few values, on which a density has no bound"
    if data.targets.shape[1] > 1:
        return "y has several outputs"
    if data.weights is not None:
        return "rows have weights or known noise"
    return ""


def check_varying(data: Data) -> None:
    """Refuse data on which noise cannot vary, even where that is asked for.

    Raises
    ------
    InvalidInputError
        There are few rows, few values, several outputs, or weights of rows.
    """
    reason = reason_against(data)
    if reason:
        raise InvalidInputError(f"noise: expected 'constant' or 'auto', since {reason}, got "
                                "'varying'")  # fmt: skip


def noise_gains(rows: LeftOutRows, points: FloatArray, seed: int) -> FloatArray:
    """Gains (n,) of the log density of rows by factors and tails that have not seen them.

    Rows are in folds by the values of their points (n, d), so that equal rows share a fold.
    """
    gains, folds = np.empty(len(points)), folds_of(points, FOLDS)
    for fold in np.unique(folds):
        own = np.flatnonzero(folds == fold)
        field, tail = fit_variance(rows.take(np.flatnonzero(folds != fold)), seed)
        held = rows.take(own)
        flat = held.law.log_density(held.targets)
        gains[own] = held.log_density(field.log_factor(held.columns), tail) - flat
    return gains


def standard_error(gains: FloatArray) -> float:
    """Standard error of the mean of gains (n,) of rows."""
    return float(gains.std(ddof=1) / np.sqrt(len(gains)))


def pays(gains: FloatArray) -> bool:
    """Whether the mean of gains (n,) exceeds `LEAST_GAIN` and `ERRORS` standard errors."""
    return bool(gains.mean() > max(LEAST_GAIN, ERRORS * standard_error(gains)))


def _tried(
    process: GaussianProcess, seed: int, always: bool
) -> tuple[GaussianProcess, NoiseChoice]:
    rows, points = _left_out_rows(process, seed)
    gains = noise_gains(rows, points, seed)
    choice = NoiseChoice(
        always or pays(gains),
        gain=float(gains.mean()),
        error=standard_error(gains),
        n_scored=len(gains),
    )
    if not choice.varies:
        return process, choice
    field, tail = fit_variance(rows, seed)
    varying = VaryingNoiseGP(process, process.data, field, tail)
    std = np.sqrt(varying.scaled(points, rows.law).variance[:, 0])
    ranks = [_rank_correlation(column, std) for column in points.T]
    column = int(np.argmax(np.abs(ranks)))
    low, high = (float(end) for end in np.percentile(std, ENDS))
    return varying, replace(
        choice, low=low, high=high, column=column, correlation=ranks[column], degrees=tail.degrees
    )


def _left_out_rows(process: GaussianProcess, seed: int) -> tuple[LeftOutRows, FloatArray]:
    """Observations with their laws given all others, and their points; some of a large table."""
    data = process.data
    order = np.random.default_rng([seed, 6]).permutation(len(data))
    chosen = np.sort(order[:MOST_ROWS])
    law = inner_parts(process, np.arange(len(data)), chosen)
    points = data.points[chosen]
    return LeftOutRows(variance_columns(points, law), law, data.targets[chosen]), points


def _rank_correlation(column: FloatArray, std: FloatArray) -> float:
    if np.ptp(column) == 0:
        return 0.0
    return float(stats.spearmanr(column, std).statistic)
