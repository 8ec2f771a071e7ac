"""Whether the noise of a fitted model varies: decided by the density of what is left out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np
from scipy import special, stats
from scipy.optimize import minimize

from coupledgp.core.frozen_mean import BoostedTrees, folds_of
from coupledgp.core.left_out import LeftOut
from coupledgp.core.process import Data, GaussianProcess
from coupledgp.core.units import Tail, are_constant
from coupledgp.core.varying_noise import VaryingNoiseGP, inner_parts, variance_columns
from coupledgp.errors import InvalidInputError, NumericalError
from coupledgp.ground.codec import stored
from coupledgp.random import FloatArray, IntArray
from coupledgp.tables.discrete_targets import discrete_outputs

NOISES = ("auto", "constant", "varying")
# Fewest rows at which the noise may vary, and most rows that a factor is fitted to.
LEAST_ROWS, MOST_ROWS = 50, 1500
# Folds of trees, least gain in nats a row, and standard errors by which it exceeds zero.
FOLDS, LEAST_GAIN, ERRORS = 5, 0.01, 2.5
# Trees of a log variance: their greatest number, size, and what keeps Newton's steps short where
# squares are far smaller than expected; and fewest rows of a fold's fit.
N_TREES, LEARNING_RATE, LEAVES, LEAST_IN_LEAF, REGULARIZATION = 60, 0.15, 8, 15, 10.0
FEWEST_ROWS = 30
# Least square and chance by which normal scores are bounded.
LEAST_SQUARE, LEAST_CHANCE = 1e-6, 1e-15
# Normal laws of the level, and of the logarithm of the degrees of freedom above the least ones.
LEAST_DEGREES, TAIL_MEANS, TAIL_DEVIATIONS = 2.5, np.array([0.0, np.log(10)]), np.array([1.0, 1.5])
TAIL_BOX = [(-3.0, 3.0), (-3.0, 7.0)]
# Shares of the rows between whose deviations a choice is told.
ENDS = (5, 95)
# Seconds of one core of 2023: of trees of a fold, of an entry of its table with all trees, and of
# one row in the law of each of the others.
FIT_SECONDS, ENTRY_SECONDS, PAIR_SECONDS = 0.03, 1e-6, 1e-7


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
    return 2 * FOLDS * (FIT_SECONDS + ENTRY_SECONDS * n * dim) + PAIR_SECONDS * n_rows * n


def with_noise(
    process: GaussianProcess, wanted: str, seed: int
) -> tuple[GaussianProcess, NoiseChoice]:
    """A process whose noise varies if that is wanted, or if it pays; and the comparison.

    The factor on the variance, and the tail, are fitted to the laws of rows that are left out of
    the process one at a time (`fit_noise`). They are judged by folds of these rows, each by trees
    that were fitted to the other folds, against the process as it is. With `"auto"` the gain has to
    exceed 2.5 of its standard errors, and .01 nats a row.

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


@dataclass(frozen=True, eq=False)
class LeftOutRows:
    """Observations of one output with laws that have not seen them.

    Attributes
    ----------
    points : FloatArray (n, d)
        Rows of the table; equal rows share a fold.
    law : LeftOut
        Laws of the n observations.
    targets : FloatArray (n, 1)
        The observations.
    """

    points: FloatArray
    law: LeftOut
    targets: FloatArray

    @property
    def squares(self) -> FloatArray:
        """Squared normal scores (n,) of the observations."""
        chances = self.law.transforms(self.targets)[:, 0]
        return np.square(special.ndtri(np.clip(chances, LEAST_CHANCE, 1 - LEAST_CHANCE)))

    def log_density(self, log_factor: FloatArray, tail: Tail) -> FloatArray:
        """Log densities (n,) under laws with factors of these logarithms (n,) and a tail."""
        return self.law.scaled(np.exp(log_factor)[:, None], tail).log_density(self.targets)

    def tail(self, log_factor: FloatArray) -> tuple[float, Tail]:
        """The level that is added to logarithms of factors (n,), and the tail, by the density."""

        def value(variables: FloatArray) -> float:
            tail = Tail(LEAST_DEGREES + float(np.exp(variables[1])))
            prior = np.square((variables - TAIL_MEANS) / TAIL_DEVIATIONS).sum()
            density = self.log_density(log_factor + variables[0], tail).sum()
            return float(0.5 * prior - density)

        found = minimize(value, TAIL_MEANS, method="L-BFGS-B", bounds=TAIL_BOX).x
        return float(found[0]), Tail(LEAST_DEGREES + float(np.exp(found[1])))


class FittedNoise(NamedTuple):
    """A factor on the variance and a tail, and the gain of each row by trees that did not see it.

    Attributes
    ----------
    log_factor : BoostedTrees
        Logarithm of the factor.
    tail : Tail
        Law of the residuals.
    gains : FloatArray (n,)
        Gains of the log density of each row, nats.
    """

    log_factor: BoostedTrees
    tail: Tail
    gains: FloatArray


def fit_noise(rows: LeftOutRows, seed: int) -> FittedNoise:
    """Fit a factor on the variance, and a tail, to observations with laws that have not seen them.

    Squared normal scores have `z^2 ~ exp(h) chi^2_1` where variances are off by a factor `exp(h)`,
    a Gamma law of shape one half, so that boosted trees under the deviance of Gamma laws maximise
    the likelihood of h. Each fold of rows has trees that were fitted to the others; their number is
    that of least deviance over all folds. Level and degrees of freedom are those of greatest
    density of the observations, each by trees that have not seen it. Then squares are weighed as
    under Student's law, `z^2 (nu + 1) / (nu + z^2 exp(-h))`, a step of expectation and
    maximisation, and h is fitted again.

    Raises
    ------
    NumericalError
        Too few rows lie outside of a fold.
    """
    columns, folds = variance_columns(rows.points, rows.law), folds_of(rows.points, FOLDS)
    squares = own = np.maximum(rows.squares, LEAST_SQUARE)
    for _ in range(2):
        trees, left_out = _trees(columns, own, folds, seed)
        level, tail = rows.tail(left_out)
        z = squares * np.exp(-left_out - level)
        own = squares * (tail.degrees + 1) / (tail.degrees + z)
    flat = rows.law.log_density(rows.targets)
    gains = rows.log_density(left_out + level, tail) - flat
    return FittedNoise(replace(trees, base=trees.base + level), tail, gains)


def _trees(
    columns: FloatArray, squares: FloatArray, folds: IntArray, seed: int
) -> tuple[BoostedTrees, FloatArray]:
    """Trees of the log variance of squares (n,) for each fold, and their sums (n,) out of fold."""
    from sklearn.ensemble import HistGradientBoostingRegressor  # slow to import
    from threadpoolctl import threadpool_limits

    models, staged = [], np.empty((1 + N_TREES, len(squares)))
    with threadpool_limits(1, user_api="openmp"):
        for fold in range(FOLDS):
            held, others = np.flatnonzero(folds == fold), np.flatnonzero(folds != fold)
            if others.size < FEWEST_ROWS:
                raise NumericalError(f"{others.size} different rows lie outside of a fold")
            model = HistGradientBoostingRegressor(
                loss="gamma", learning_rate=LEARNING_RATE, max_iter=N_TREES, max_leaf_nodes=LEAVES,
                min_samples_leaf=LEAST_IN_LEAF, l2_regularization=REGULARIZATION,
                early_stopping=False, random_state=seed,
            ).fit(columns[others], squares[others])  # fmt: skip
            models.append(model)
            staged[0, held] = model._baseline_prediction[0, 0]
            if held.size:
                for stage, found in enumerate(model.staged_predict(columns[held])):
                    staged[1 + stage, held] = np.log(found)
    deviances = (staged + squares * np.exp(-staged)).mean(axis=1)
    best = int(np.argmin(deviances))
    trees = BoostedTrees.of(models, FOLDS, max(best, 1))
    return (trees if best else replace(trees, value=np.zeros_like(trees.value))), staged[best]


def standard_error(gains: FloatArray) -> float:
    """Standard error of the mean of gains (n,) of rows."""
    return float(gains.std(ddof=1) / np.sqrt(len(gains)))


def pays(gains: FloatArray) -> bool:
    """Whether the mean of gains (n,) exceeds `LEAST_GAIN` and `ERRORS` standard errors."""
    return bool(gains.mean() > max(LEAST_GAIN, ERRORS * standard_error(gains)))


def _tried(
    process: GaussianProcess, seed: int, always: bool
) -> tuple[GaussianProcess, NoiseChoice]:
    rows = _left_out_rows(process, seed)
    points = rows.points
    log_factor, tail, gains = fit_noise(rows, seed)
    choice = NoiseChoice(
        always or pays(gains),
        gain=float(gains.mean()),
        error=standard_error(gains),
        n_scored=len(gains),
    )
    if not choice.varies:
        return process, choice
    varying = VaryingNoiseGP(process, process.data, log_factor, tail)
    std = np.sqrt(varying.scaled(points, rows.law).variance[:, 0])
    ranks = [_rank_correlation(column, std) for column in points.T]
    column = int(np.argmax(np.abs(ranks)))
    low, high = (float(end) for end in np.percentile(std, ENDS))
    return varying, replace(
        choice, low=low, high=high, column=column, correlation=ranks[column], degrees=tail.degrees
    )


def _left_out_rows(process: GaussianProcess, seed: int) -> LeftOutRows:
    """Observations with their laws given all others; some of a large table."""
    data = process.data
    order = np.random.default_rng([seed, 6]).permutation(len(data))
    chosen = np.sort(order[:MOST_ROWS])
    law = inner_parts(process, np.arange(len(data)), chosen)
    return LeftOutRows(data.points[chosen], law, data.targets[chosen])


def _rank_correlation(column: FloatArray, std: FloatArray) -> float:
    if np.ptp(column) == 0:
        return 0.0
    return float(stats.spearmanr(column, std).statistic)
