"""Patterns in residuals beyond those of draws of the law, and what knowing them is worth.

Residuals are `r = Phi^-1(F(y))`: standard normal under a right law, and as correlated as its joint
law says. A look has a statistic that knows no scale, and a correction: the law `N(a_i, b_i^2)` of r
that the pattern implies, learned on other folds of the points.

| look | statistic | correction |
|---|---|---|
| repeats | largest share of a period, four cycles or more, with its overtone | sines and cosines |
| groups | share of the variance between groups | means of groups, shrunk by their variance |
| next | correlation of each residual with the next one along the column | regression on both |
| course | share of the variance that four cosines of the rank explain | ridge regression on them |
| spread | share of the variance of absolute residuals along two cosines | log variance |
| group spread | share of the variance of absolute residuals between groups | variances, shrunk |

All looks along all columns are one family: each statistic is taken in standard deviations of its
draws, and compared with the largest over the family in each draw (Westfall and Young, 1993). So a
right law has any pattern with probability .005, however many columns there are. A pattern is found
if its correction gains a hundredth of a nat per point and two standard errors besides. Patterns are
taken one at a time, the greatest gain first, and corrected for before the others are asked again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtr

from coupledgp.diagnostics.calibration.coverage import residuals_of
from coupledgp.diagnostics.checks.data import (
    INPUT,
    ORDER,
    PREDICTED,
    UNSEEN,
    Column,
    columns_of,
    taken,
)
from coupledgp.diagnostics.distance.divergences import root_of
from coupledgp.diagnostics.laws import Chances, Draws, Observed
from coupledgp.diagnostics.render.tables import number
from coupledgp.diagnostics.scores import MeanOverPoints, paired_difference
from coupledgp.diagnostics.tables import (
    AMBER,
    BETTER,
    GREEN,
    HONEST,
    MATTERS,
    RED,
    SERIOUS,
    TOLD,
    Check,
    Tables,
)
from coupledgp.errors import NumericalError
from coupledgp.random import FloatArray, IntArray

# Share of right laws with a pattern, before its gain is asked, and points at most.
ALARM, MOST_POINTS = 0.005, 1000
# Draws of the law, folds of the corrections, and patterns at most.
N_DRAWS, FOLDS, MOST_FOUND = 1000, 5, 4
# Fewest points at which patterns are looked for, and rows that are looked at together.
FEWEST, RUN = 20, 10
# Cosines of the rank of a course in the mean, and in the spread; absolute residuals count as no
# more than `MOST_SIZE`, so that heavy tails are no spread.
N_COSINES, N_SPREAD, MOST_SIZE = 4, 2, 2.5
# Fewest cycles of a period, most frequencies, and the share of the power at half a period that
# counts for it: less than one, so that twice a period has less than the period itself.
LEAST_CYCLES, MOST_FREQUENCIES, OVERTONE = 4, 400, 0.5
# Penalty of regressions on cosines, in rows, and least standard deviation of a correction.
PENALTY, LEAST_SPREAD = 4.0, 0.05

# Shifts and standard deviations (p,) of residuals that a pattern implies.
Correction = tuple[FloatArray, FloatArray]


@dataclass(frozen=True)
class Look:
    """A pattern that residuals may have along a column.

    Attributes
    ----------
    name : str
    statistic : callable
        Of a column and residuals (m, p): statistics (m,), larger where the pattern is clearer.
    correction : callable
        Of a column, residuals (p,) and the numbers of some rows: shifts and standard deviations
        (p,) of residuals that the pattern implies, learned from those rows.
    sentence : callable
        Of a column, residuals (p,) and the size of one residual in units of y: the pattern in
        words, without a full stop.
    remedy : callable
        Of a column and residuals (p,): what to do, as a sentence.
    concerns : str
        `"mean"` where the pattern shifts residuals, `"spread"` where it scales them.
    of_groups : bool
        Whether it is a pattern of groups, or of numbers.
    origins : tuple of str
        Kinds of columns along which it is looked for.
    least_values : int
        Fewest different values of a column.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import LOOKS, Look, audit
    >>> def signs(column):
    ...     return 1 - 2 * (np.arange(len(column.values)) % 2)
    >>> def correction(column, residuals, rows):
    ...     mean = (residuals * signs(column))[rows].mean()
    ...     return mean * signs(column), np.ones(len(residuals))
    >>> alternating = Look(
    ...     "alternating",
    ...     lambda column, residuals: abs((residuals * signs(column)).mean(axis=1)),
    ...     correction,
    ...     lambda column, residuals, scale: "Errors alternate",
    ...     lambda column, residuals: "Add what alternates as an input.",
    ...     origins=("order",),
    ... )
    >>> X = np.linspace(0, 6, 50)[:, None]
    >>> y = np.random.default_rng(0).normal(size=50) + np.tile([1.0, -1.0], 25)
    >>> stated = np.zeros(50), np.full(50, 1.5)
    >>> report = audit(stated, X + 0.01, y, X, y, looks=(*LOOKS, alternating), rivals=None)
    >>> report.to_frame("checks").query("fired").column.tolist()
    ['row order']
    """

    name: str
    statistic: Callable[[Column, FloatArray], FloatArray]
    correction: Callable[[Column, FloatArray, IntArray], Correction]
    sentence: Callable[[Column, FloatArray, float], str]
    remedy: Callable[[Column, FloatArray], str]
    concerns: str = "mean"
    of_groups: bool = False
    origins: tuple[str, ...] = (INPUT, UNSEEN, ORDER, PREDICTED)
    least_values: int = 2

    def applies(self, column: Column, is_joint: bool) -> bool:
        """Whether it is taken along a column; `is_joint`: correlations of residuals are known.

        Means along what the model saw, where errors of a right law go together, say nothing of
        points that are taken as independent.
        """
        kind = column.origin in self.origins and column.is_groups == self.of_groups
        told = is_joint or self.concerns == "spread" or column.origin in (UNSEEN, ORDER)
        return kind and told and np.unique(column.values).size >= self.least_values


class Looked(NamedTuple):
    """What a look along a column found.

    `statistic` and `expected` are the pattern and its mean over draws of the law, `p` the share of
    draws with any pattern as clear, `gain` the nats per point of the correction with its error; NaN
    of looks that are within chance.
    """

    look: Look
    column: Column
    statistic: float
    expected: float
    p: float
    gain: float
    gain_error: float
    sentence: str
    remedy: str
    fired: bool


def look_at(
    residuals: FloatArray,
    scale: FloatArray,
    correlation: FloatArray | None,
    columns: Sequence[Column],
    looks: Sequence[Look],
    seed: int = 0,
) -> list[Looked]:
    """Look at residuals (p, k) along columns: patterns found, in their order, and other looks.

    Parameters
    ----------
    residuals
        Residuals of p points and k outputs.
    scale
        Units of y of one residual, (k,).
    correlation
        Their correlations (p, p) or (p, p, k); None: unknown.
    """
    pairs = [
        (look, column)
        for column in columns
        for look in looks
        if look.applies(column, correlation is not None)
    ]
    if len(residuals) < FEWEST or not pairs:
        return []
    draws = _draws(residuals.shape, correlation, seed)
    chance = np.array([_statistic(pair, draws) for pair in pairs])
    center, spread = chance.mean(axis=1), np.maximum(chance.std(axis=1), 1e-12)
    furthest = ((chance - center[:, None]) / spread[:, None]).max(axis=0)

    def judged(values: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Statistics of all looks, and shares of draws with one as far from its mean."""
        own = np.array([_statistic(pair, values[None])[0] for pair in pairs])
        beyond = furthest[None] >= ((own - center) / spread)[:, None]
        return own, (1 + beyond.sum(axis=1)) / (1 + furthest.size)

    values, found, gains = residuals, dict[int, Looked](), dict[int, MeanOverPoints]()
    first, shares = judged(values)
    own, p = first, shares
    while len(found) < MOST_FOUND:
        best: tuple[int, FloatArray] | None = None
        for k in np.flatnonzero(p <= ALARM).tolist():
            gains[k], corrected = corrected_gain(*pairs[k], values)
            if is_clear(gains[k]) and (best is None or gains[k].mean > gains[best[0]].mean):
                best = k, corrected
        if best is None:
            break
        k = best[0]
        found[k] = _looked(pairs[k], values, scale, own[k], center[k], p[k], gains[k], True)
        values = best[1]
        own, p = judged(values)
    others = [
        _looked(pair, residuals, scale, first[k], center[k], shares[k], gains.get(k), False)
        for k, pair in enumerate(pairs)
        if k not in found
    ]
    return [*found.values(), *sorted(others, key=lambda one: one.p)]


def rows_in_runs(n_rows: int, most: int, seed: int) -> IntArray:
    """Numbers below n, or about so many of them in runs at random, ascending."""
    if n_rows <= most:
        return np.arange(n_rows)
    starts = np.random.default_rng([seed, 19]).choice(n_rows // RUN, most // RUN, replace=False)
    found: IntArray = (np.sort(starts)[:, None] * RUN + np.arange(RUN)).ravel()
    return found


def is_clear(gain: MeanOverPoints) -> bool:
    """Whether a gain matters and is beyond chance."""
    error = gain.standard_error
    return bool(np.isfinite(error)) and gain.mean > max(MATTERS, TOLD * error)


def corrected_gain(
    look: Look, column: Column, values: FloatArray
) -> tuple[MeanOverPoints, FloatArray]:
    """Gain of a correction learned on other folds, and what it leaves of residuals (p, k).

    Both the law as it is and the corrected one have the scale that is best on the other folds.
    """
    folds = np.random.default_rng(23).permutation(len(values)) % FOLDS
    before, after, left = [], [], np.empty_like(values)
    for j, r in enumerate(values.T):
        shift, spread = np.empty_like(r), np.empty_like(r)
        for fold in range(FOLDS):
            held = folds == fold
            moved, scale = look.correction(column, r, np.flatnonzero(~held))
            shift[held], spread[held] = moved[held], scale[held]
        left[:, j] = (r - shift) / spread
        before.append(_losses(r, np.ones_like(r), folds))
        after.append(_losses(left[:, j], spread, folds))
    return paired_difference(np.mean(before, axis=0), np.mean(after, axis=0)), left


def _losses(residuals: FloatArray, spread: FloatArray, folds: IntArray) -> FloatArray:
    """Negative log densities (p,), constants aside, each by the scale of the other folds."""
    squares = np.square(residuals)
    others = squares.sum() - np.bincount(folds, squares)
    scale = np.sqrt(np.maximum(others / (folds.size - np.bincount(folds)), 1e-300))[folds]
    return np.asarray(0.5 * np.square(residuals / scale) + np.log(scale * spread))


def _draws(shape: tuple[int, ...], correlation: FloatArray | None, seed: int) -> FloatArray:
    """Draws (N, p, k) of residuals of a right law."""
    p, k = shape
    draws = np.random.default_rng([seed, 17]).standard_normal((k, N_DRAWS, p))
    if correlation is not None:
        matrices = correlation.reshape(p, p, -1)
        for j in range(k):
            root = root_of(matrices[..., min(j, matrices.shape[2] - 1)], "correlation")
            draws[j] = draws[j] @ root.T
    return draws.transpose(1, 2, 0)


def _statistic(pair: tuple[Look, Column], values: FloatArray) -> FloatArray:
    """Mean (m,) over the outputs of the statistic of residuals (m, p, k)."""
    look, column = pair
    each = [look.statistic(column, values[..., j]) for j in range(values.shape[2])]
    return np.asarray(np.mean(each, axis=0))


def _looked(
    pair: tuple[Look, Column],
    values: FloatArray,
    scale: FloatArray,
    own: float,
    expected: float,
    p: float,
    gain: MeanOverPoints | None,
    fired: bool,
) -> Looked:
    """A look in words, at the output where it is clearest."""
    look, column = pair
    j = int(np.argmax([look.statistic(column, values[None, :, j])[0] for j in range(len(scale))]))
    return Looked(
        look, column, float(own), float(expected), float(p),
        np.nan if gain is None else gain.mean, np.nan if gain is None else gain.standard_error,
        look.sentence(column, values[:, j], float(scale[j])), look.remedy(column, values[:, j]),
        fired,
    )  # fmt: skip


# Residuals of neighbours.


class Neighbours(NamedTuple):
    """Moran's I of residuals, its mean and standard deviation for a right law, and the p-value.

        I = sum_i r_i r_j(i) / sum_i r_i^2,    j(i) the nearest neighbour of i (Moran, 1950).

    A right law has `I != 0`, since neighbours share the uncertainty of the function.
    """

    value: float
    expected: float
    error: float
    p: float

    @property
    def gain(self) -> float:
        """Estimate of what a model without the excess r gains, `-log(1 - r^2) / 2` nats."""
        excess = min(max(self.value - self.expected, 0.0), 0.99)
        return float(-0.5 * np.log1p(-(excess**2)))


def neighbours(
    residuals: FloatArray, correlation: FloatArray, near: IntArray, seed: int = 0
) -> Neighbours:
    """Residuals (p, k) of neighbours (p,) beside 2000 draws of correlations (p, p, k)."""
    rng = np.random.default_rng(seed)
    values, draws = [], []
    for k in range(residuals.shape[1]):
        matrix = correlation[..., min(k, correlation.shape[2] - 1)]
        root = root_of(matrix, "predictive covariance")
        values.append(_moran(residuals[:, k : k + 1], near)[0])
        draws.append(_moran(root @ rng.standard_normal((len(residuals), 2 * N_DRAWS)), near))
    value, others = float(np.mean(values)), np.mean(draws, axis=0)
    p = (1 + (others >= value).sum()) / (1 + others.size)
    return Neighbours(value, float(others.mean()), float(others.std(ddof=1)), float(p))


def exchanged_neighbours(scores: FloatArray, near: IntArray) -> Neighbours:
    """Normal scores (m + 1, p) of targets, first, and of m draws that they are exchangeable with.

    The p-value is that of Student's law of m - 1 degrees of freedom: few draws do not tell the
    correlations of the points.
    """
    values = _moran(scores.T, near)
    own, others = float(values[0]), values[1:]
    m, mean = len(others), float(others.mean())
    error = max(float(others.std(ddof=1)) * np.sqrt(1 + 1 / m), 1e-300)
    return Neighbours(own, mean, error, float(stdtr(m - 1, -(own - mean) / error)))


def nearest_by_prior(prior: FloatArray) -> IntArray:
    """Number (p,) of the other point that each has the largest correlation with; prior (p, p)."""
    std = np.sqrt(np.diagonal(prior))
    correlation = prior / np.multiply.outer(std, std)
    np.fill_diagonal(correlation, -np.inf)
    return correlation.argmax(axis=1).astype(np.int64)


def _moran(residuals: FloatArray, near: IntArray) -> FloatArray:
    """Moran's I (m,) of residuals (p, m)."""
    return _ratio((residuals * residuals[near]).sum(axis=0), np.square(residuals).sum(axis=0))


# Parts of the looks.


def _ratio(part: FloatArray, whole: FloatArray) -> FloatArray:
    """Quotients, zero where the whole is."""
    part, whole = np.broadcast_arrays(part, whole)
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


def _away(values: FloatArray) -> FloatArray:
    """Values (m, p) less their means: a shift of all of them is no pattern."""
    return values - values.mean(axis=1, keepdims=True)


def _cosines(column: Column, n: int) -> FloatArray:
    """Cosines (p, n) of the ranks, each of mean zero."""
    waves = np.cos(np.pi * np.multiply.outer(column.ranks, np.arange(1, n + 1)))
    return waves - waves.mean(axis=0)


def _explained(design: FloatArray, values: FloatArray) -> FloatArray:
    """Cube root (m,) of the share of the variance of values (m, p) that columns explain."""
    basis, away = np.linalg.qr(design)[0], _away(values)
    return np.cbrt(_ratio(np.square(away @ basis).sum(axis=1), np.square(away).sum(axis=1)))


def _ridge(design: FloatArray, residuals: FloatArray, rows: IntArray) -> FloatArray:
    """Fitted values (p,) of a ridge regression with a constant, learned from some rows."""
    full = np.column_stack([np.ones(len(design)), design])
    gram = full[rows].T @ full[rows] + PENALTY * np.eye(full.shape[1])
    found: FloatArray = full @ np.linalg.solve(gram, full[rows].T @ residuals[rows])
    return found


def _sizes(residuals: FloatArray) -> FloatArray:
    """Absolute residuals (m, p) over their root mean square, bounded."""
    root = np.sqrt(np.square(residuals).mean(axis=1, keepdims=True))
    return np.minimum(_ratio(np.abs(residuals), root), MOST_SIZE)


def _between(column: Column, values: FloatArray) -> FloatArray:
    """Cube root (m,) of the share of the variance of values (m, p) that lies between groups."""
    groups, n = column.groups, len(column.values)
    counts, away = np.bincount(groups), _away(values)
    member = np.zeros((n, counts.size))
    member[np.arange(n), groups] = 1 / np.sqrt(counts[groups])
    return np.cbrt(_ratio(np.square(away @ member).sum(axis=1), np.square(away).sum(axis=1)))


def _components(groups: IntArray, values: FloatArray) -> tuple[float, float]:
    """Variances within and between groups by the analysis of variance (Searle, 1971)."""
    counts = np.bincount(groups)
    some = counts > 0
    n, g = values.size, int(some.sum())
    means = np.bincount(groups, values)[some] / counts[some]
    grand = values.mean()
    between = float((counts[some] * np.square(means - grand)).sum())
    within = max(float(np.square(values - grand).sum()) - between, 0.0) / max(n - g, 1)
    size = (n - float(np.square(counts).sum()) / n) / max(g - 1, 1)
    return within, max(between / max(g - 1, 1) - within, 0.0) / max(size, 1e-12)


def _shrunk(groups: IntArray, values: FloatArray, n_groups: int) -> FloatArray:
    """Means (g,) of groups about zero, shrunk by their own variance beside that within."""
    within, between = _components(groups, values)
    counts = np.bincount(groups, minlength=n_groups)
    sums = np.bincount(groups, values, n_groups)
    return np.asarray(sums / (counts + (within / between if between > 0 else np.inf)))


def _log_variance(design: FloatArray, residuals: FloatArray) -> FloatArray:
    """Coefficients of `log E r^2` by Newton's steps for the Gaussian likelihood, with a penalty."""
    floor = LEAST_SPREAD**2 * np.square(residuals).mean()
    squares = np.maximum(np.square(residuals), 1e-300)
    beta = np.zeros(design.shape[1])
    beta[0] = np.log(max(squares.mean(), 1e-300))
    ridge = 0.5 * PENALTY * np.eye(len(beta))
    ridge[0, 0] = 0.0
    for _ in range(25):
        weight = squares / np.maximum(np.exp(design @ beta), floor)
        gradient = 0.5 * design.T @ (weight - 1) - ridge @ beta
        # Fisher's information of a log variance is a half.
        step = np.linalg.solve(0.5 * design.T @ design + ridge, gradient)
        beta = beta + np.clip(step, -1, 1)
        if np.abs(step).max() < 1e-8:
            break
    return beta


def _label(value: Any) -> str:
    """A label in a sentence; whole numbers without a decimal point."""
    try:
        number = float(value)
    except (TypeError, ValueError):
        return str(value)
    return str(int(number)) if number.is_integer() else str(value)


def _all(residuals: FloatArray) -> IntArray:
    return np.arange(len(residuals))


# The looks.


def _next(column: Column, residuals: FloatArray) -> FloatArray:
    r = _away(residuals)[:, column.order]
    return _ratio((r[:, 1:] * r[:, :-1]).sum(axis=1), np.square(r).sum(axis=1))


def _next_correction(column: Column, residuals: FloatArray, rows: IntArray) -> Correction:
    order = column.order
    r = (residuals - residuals[rows].mean())[order]
    near = np.zeros((len(r), 2))
    near[1:, 0], near[:-1, 1] = r[:-1], r[1:]
    beside = np.empty_like(near)
    beside[order] = near
    gram = beside[rows].T @ beside[rows] + PENALTY * np.eye(2)
    weights = np.linalg.solve(gram, beside[rows].T @ residuals[rows])
    return beside @ weights, np.ones(len(r))


def _next_sentence(column: Column, residuals: FloatArray, scale: float) -> str:
    value = float(_next(column, residuals[None])[0])
    return (
        f"Errors of rows next to each other in {column.text} go together: their correlation is "
        f"{value:.2g}"
    )


def _next_remedy(column: Column, residuals: FloatArray) -> str:
    if column.origin == INPUT:
        return (
            f"Near rows along {column.text} share errors: give the kernel a shorter lengthscale or "
            "a rougher term there."
        )
    what = "the row number or the time" if column.origin == ORDER else column.text
    return (
        f"Errors persist along {column.text}: add {what} as an input, with a term of its own such "
        "as matern-1/2, and score whole blocks of it by cross_validate(groups=...)."
    )


def _course(column: Column, residuals: FloatArray) -> FloatArray:
    return _explained(_cosines(column, N_COSINES), residuals)


def _course_correction(column: Column, residuals: FloatArray, rows: IntArray) -> Correction:
    return _ridge(_cosines(column, N_COSINES), residuals, rows), np.ones(len(residuals))


def _course_sentence(column: Column, residuals: FloatArray, scale: float) -> str:
    course = scale * _course_correction(column, residuals, _all(residuals))[0]
    return (
        f"Errors have a course along {column.text}: on average they go from "
        f"{number(course.min(), 2)} to {number(course.max(), 2)}"
    )


def _course_remedy(column: Column, residuals: FloatArray) -> str:
    return {
        UNSEEN: f"Add {column.text} as an input: predictions are off by its value.",
        ORDER: "Errors drift with the row order: add the row number or the time as an input.",
        PREDICTED: f"Predictions are off by {column.text}: try target_transform='auto'.",
        INPUT: f"Give the kernel a further term of {column.text}, or a trend.",
    }[column.origin]


def _cycles(column: Column) -> FloatArray:
    """Numbers (f,) of cycles over the range, in halves, up to a third of the points."""
    most = min(len(column.values) / 3, LEAST_CYCLES + MOST_FREQUENCIES / 2)
    return np.arange(LEAST_CYCLES, max(most, LEAST_CYCLES + 1), 0.5)


def _angles(column: Column) -> FloatArray:
    """Angles (p, f) of the points at each number of cycles."""
    place = (column.values - column.values.min()) / np.ptp(column.values)
    return 2 * np.pi * np.multiply.outer(place, _cycles(column))


def _power(column: Column, residuals: FloatArray) -> FloatArray:
    """Share (m, f) of the squares of residuals (m, p) of a period and of half of it."""
    angles, residuals = _angles(column), _away(residuals)
    size = np.square(residuals).sum(axis=1)[:, None] * len(column.values) / 2
    waves = np.square(residuals @ np.cos(angles)) + np.square(residuals @ np.sin(angles))
    # Twice the frequency of place k, which is `LEAST_CYCLES + k / 2`, is that of this place.
    twice = 2 * LEAST_CYCLES + 2 * np.arange(angles.shape[1])
    inside = twice < angles.shape[1]
    waves[:, inside] += OVERTONE * waves[:, twice[inside]]
    return _ratio(waves, size)


def _repeats(column: Column, residuals: FloatArray) -> FloatArray:
    return np.cbrt(_power(column, residuals).max(axis=1))


def _repeats_correction(column: Column, residuals: FloatArray, rows: IntArray) -> Correction:
    seen = np.zeros_like(residuals)
    seen[rows] = residuals[rows]
    angle = _angles(column)[:, _power(column, seen[None])[0].argmax()]
    waves = np.column_stack([f(k * angle) for k in (1, 2) for f in (np.cos, np.sin)])
    return _ridge(waves, residuals, rows), np.ones(len(residuals))


def _period(column: Column, residuals: FloatArray) -> str:
    """The clearest period in words, in the unit of the column."""
    best = _power(column, residuals[None])[0].argmax()
    value = float(np.ptp(column.values) / _cycles(column)[best])
    if not column.is_time:
        return f"{value:.3g}"
    sizes = ((86_400.0, "days"), (3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))
    size, unit = next((one for one in sizes if value >= 2 * one[0]), sizes[-1])
    return f"{value / size:.3g} {unit}"


def _repeats_sentence(column: Column, residuals: FloatArray, scale: float) -> str:
    return f"Errors repeat with period {_period(column, residuals)} of {column.text}"


def _repeats_remedy(column: Column, residuals: FloatArray) -> str:
    term = "a periodic term" if column.origin == INPUT else "it as an input with a periodic term"
    period = _period(column, residuals)
    return (
        f"Errors repeat along {column.text} with period {period}: give the kernel {term} of that "
        "period."
    )


def _groups(column: Column, residuals: FloatArray) -> FloatArray:
    return _between(column, residuals)


def _groups_correction(column: Column, residuals: FloatArray, rows: IntArray) -> Correction:
    groups = column.groups
    means = _shrunk(groups[rows], residuals[rows], int(groups.max()) + 1)
    return means[groups], np.ones(len(residuals))


def _groups_sentence(column: Column, residuals: FloatArray, scale: float) -> str:
    assert column.labels is not None
    between = _components(column.groups, residuals)[1]
    means = _shrunk(column.groups, residuals, column.labels.size)
    worst = int(np.abs(means).argmax())
    return (
        f"Groups of {column.text} differ by {number(scale * np.sqrt(between), 2)} (standard "
        f"deviation of their offsets); group {_label(column.labels[worst])} is off by "
        f"{'+' if means[worst] > 0 else ''}{number(scale * means[worst], 2)}"
    )


def _groups_remedy(column: Column, residuals: FloatArray) -> str:
    if column.origin == INPUT:
        return f"Give the kernel a term of {column.text} alone: its groups are off."
    return (
        f"Add {column.text} as a categorical input, since its groups have offsets. For groups that "
        "are not seen yet, judge by cross_validate(groups=...)."
    )


def _spread(column: Column, residuals: FloatArray) -> FloatArray:
    return _explained(_cosines(column, N_SPREAD), _sizes(residuals))


def _spread_correction(column: Column, residuals: FloatArray, rows: IntArray) -> Correction:
    design = np.column_stack([np.ones(len(residuals)), _cosines(column, N_SPREAD)])
    log_variance = design @ _log_variance(design[rows], residuals[rows])
    return np.zeros(len(residuals)), np.exp(0.5 * log_variance)


def _spread_sentence(column: Column, residuals: FloatArray, scale: float) -> str:
    spread = _spread_correction(column, residuals, _all(residuals))[1]
    low, high = spread[column.order[0]], spread[column.order[-1]]
    ends, ratio = max(high / low, low / high), float(spread.max() / spread.min())
    if ratio > 1.5 * ends:
        return (
            f"Errors beside their stated standard deviations differ {ratio:.2g} times along "
            f"{column.text}"
        )
    grow = "grow" if high > low else "shrink"
    return f"Errors {grow} with {column.text}, {ends:.2g} times beside what the law says"


def _spread_remedy(column: Column, residuals: FloatArray) -> str:
    if column.origin == PREDICTED:
        return (
            f"Errors change with {column.text}: try target_transform='auto', or noise that varies."
        )
    seen = f"Errors change along {column.text}: "
    if column.origin != INPUT:
        seen = f"Give the noise {column.text}: "
    return f"{seen}fit noise that varies (docs/noise.md), or weigh rows by their own noise."


def _group_spread(column: Column, residuals: FloatArray) -> FloatArray:
    return _between(column, _sizes(residuals))


def _group_spread_correction(column: Column, residuals: FloatArray, rows: IntArray) -> Correction:
    squares, groups = np.square(residuals), column.groups
    n_groups, total = int(groups.max()) + 1, squares[rows].mean()
    counts = np.bincount(groups[rows], minlength=n_groups)
    sums = np.bincount(groups[rows], squares[rows], n_groups)
    variance = (sums + PENALTY * total) / (counts + PENALTY)
    return np.zeros(len(residuals)), np.sqrt(variance)[groups]


def _group_spread_sentence(column: Column, residuals: FloatArray, scale: float) -> str:
    assert column.labels is not None
    spread = _group_spread_correction(column, residuals, _all(residuals))[1]
    worst = int(spread.argmax())
    return (
        f"Groups of {column.text} have errors of different size: those of "
        f"{_label(column.labels[column.groups[worst]])} are {spread[worst]:.2g} of their stated "
        f"standard deviations, those of others {spread.min():.2g} or more"
    )


def _group_spread_remedy(column: Column, residuals: FloatArray) -> str:
    return (
        f"Give each group of {column.text} its own noise: fit noise that varies (docs/noise.md), "
        "or weigh rows by their own noise."
    )


LOOKS: tuple[Look, ...] = (
    Look(
        "repeats", _repeats, _repeats_correction, _repeats_sentence, _repeats_remedy,
        origins=(INPUT, UNSEEN, ORDER), least_values=8 * LEAST_CYCLES,
    ),
    Look("groups", _groups, _groups_correction, _groups_sentence, _groups_remedy, of_groups=True),
    Look("next", _next, _next_correction, _next_sentence, _next_remedy),
    Look("course", _course, _course_correction, _course_sentence, _course_remedy),
    Look("spread", _spread, _spread_correction, _spread_sentence, _spread_remedy, "spread"),
    Look(
        "group spread", _group_spread, _group_spread_correction, _group_spread_sentence,
        _group_spread_remedy, "spread", of_groups=True,
    ),
)  # fmt: skip


def residual_checks(tables: Tables) -> list[Check]:
    """All looks at the residuals of predictions, along what the model saw and what it did not.

    None where errors go together in an unknown way (`cluster` without `correlation`), and of
    classes and likelihoods. Of many points those of runs of ten are taken.
    """
    p, left_out = tables.predictions, tables.left_out
    unknown = left_out is None and p.correlation is None and p.cluster is not None
    if p.y is None or unknown or isinstance(p.law, Chances | Observed):
        return []
    residuals, std, k = residuals_of(p.law, p.y), p.law.std, p.y.shape[1]
    rows = rows_in_runs(len(p), max(MOST_POINTS // k, 100), tables.seed)
    columns: Sequence[Column] = columns_of(p)
    if rows.size < len(p):
        columns = taken(columns, rows)
    # Correlations of few draws are no more than those of chance.
    correlation = None
    if left_out is not None:
        correlation = left_out.correlation(rows)
    elif p.correlation is not None and not isinstance(p.law, Draws):
        correlation = p.correlation[np.ix_(rows, rows)]
    scale, looks = std[rows].mean(axis=0), tables.looks
    try:
        found = look_at(residuals[rows], scale, correlation, columns, looks, tables.seed)
    except NumericalError:
        return []
    return [_check(one) for one in found]


def _check(one: Looked) -> Check:
    colour = GREEN
    if one.fired:
        colour = RED if one.gain > SERIOUS else AMBER
    return Check(
        BETTER if one.look.concerns == "mean" else HONEST, one.look.name, colour,
        f"{one.sentence}.", one.fired, one.column.name, one.statistic, one.expected, one.p, ALARM,
        one.gain, one.gain_error, "held out", one.remedy,
    )  # fmt: skip
