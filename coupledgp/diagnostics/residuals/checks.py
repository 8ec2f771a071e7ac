"""Checks of residuals along a column, each with the statistic, its words and its correction.

Residuals are `r = Phi^-1(F(y))`, standard normal under a true law and as correlated as its joint
law says. A check has a statistic that knows no scale, which is compared with the same of draws. It
has a correction, the law `N(a_i, b_i^2)` of r that the pattern implies, learned on other folds of
the points. The gain of the correction in log density is measured, and so what a model could gain
that knows of the pattern.

| check | statistic | correction |
|---|---|---|
| next | correlation of each residual with the next one along the column | regression on both next ones |
| course | share of the variance that four cosines of the rank explain | ridge regression on them |
| repeats | largest share of a period, four cycles or more, with its overtone | sines and cosines of both |
| groups | share of the variance between groups | means of groups, shrunk by their variance |
| spread | share of the variance of absolute residuals along two cosines of the rank | log variance |
| group spread | share of the variance of absolute residuals between groups | variances, shrunk |
"""  # noqa: E501

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar, NamedTuple

import numpy as np

from coupledgp.diagnostics.residuals.columns import INPUT, ORDER, PREDICTED, UNSEEN, Column
from coupledgp.ground.validation import wrong
from coupledgp.random import FloatArray, IntArray
from coupledgp.registry import add, remove


class Correction(NamedTuple):
    """Means and standard deviations (p,) of residuals that a pattern implies."""

    shift: FloatArray
    spread: FloatArray


class ResidualCheck(ABC):
    """A pattern that residuals may have along a column; `checks` has a table of them.

    Attributes
    ----------
    name : str
    concerns : str
        `"mean"` where the pattern shifts residuals, `"spread"` where it scales them.
    origins : tuple of str
        Kinds of columns along which it is looked for.
    of_groups : bool
        Whether it is a pattern of groups, or of numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import ResidualCheck, audit, register_residual_check
    >>> class Alternating(ResidualCheck):
    ...     name, origins = "alternating", ("order",)
    ...     def signs(self, column):
    ...         return 1 - 2 * (np.arange(len(column.values)) % 2)
    ...     def statistic(self, column, residuals):
    ...         return abs((residuals * self.signs(column)).mean(axis=1))
    ...     def correction(self, column, residuals, rows):
    ...         mean = (residuals * self.signs(column))[rows].mean()
    ...         return mean * self.signs(column), np.ones(len(residuals))
    ...     def text(self, column, residuals, scale):
    ...         return "Errors alternate"
    ...     def remedy(self, column, residuals):
    ...         return "Add what alternates as an input."
    >>> register_residual_check(Alternating())
    >>> X = np.linspace(0, 6, 50)[:, None]
    >>> y = np.random.default_rng(0).normal(size=50) + np.tile([1.0, -1.0], 25)
    >>> report = audit((np.zeros(50), np.full(50, 1.5)), X + 0.01, y, X, y)
    >>> report.evidence.findings.text()
    'Errors alternate.'
    """

    name: ClassVar[str]
    concerns: ClassVar[str] = "mean"
    origins: ClassVar[tuple[str, ...]] = (INPUT, UNSEEN, ORDER, PREDICTED)
    of_groups: ClassVar[bool] = False

    def applies(self, column: Column) -> bool:
        """Whether the pattern is looked for along a column."""
        return column.origin in self.origins and column.is_groups == self.of_groups

    @abstractmethod
    def statistic(self, column: Column, residuals: FloatArray) -> FloatArray:
        """Statistics (m,) of residuals (m, p), larger where the pattern is clearer."""

    @abstractmethod
    def correction(self, column: Column, residuals: FloatArray, rows: IntArray) -> Correction:
        """What the pattern implies for residuals (p,), learned from those of some rows.

        It is a pair of arrays (p,): the shifts of the residuals, and their standard deviations.
        """

    @abstractmethod
    def text(self, column: Column, residuals: FloatArray, scale: float) -> str:
        """The pattern in residuals (p,) as a sentence; one residual is `scale` in units of y."""

    @abstractmethod
    def remedy(self, column: Column, residuals: FloatArray) -> str:
        """What to do, as a sentence."""


# Cosines of the rank of a course in the mean, and in the spread.
N_COSINES, N_SPREAD = 4, 2
# Absolute residuals count as no more than this, so that heavy tails are no spread.
MOST_SIZE = 2.5
# Fewest cycles of a period, and most frequencies.
LEAST_CYCLES, MOST_FREQUENCIES = 4, 400
# Share of the power at half a period that counts for it: less than one, so that twice a period
# has less than the period itself.
OVERTONE = 0.5
# Penalty of regressions on cosines, in rows.
PENALTY = 4.0
# Standard deviation below which no correction goes, over that of all.
LEAST_SPREAD = 0.05


class NextCheck(ResidualCheck):
    """Residuals that go with those before and after them along a column."""

    name = "next"

    def statistic(self, column: Column, residuals: FloatArray) -> FloatArray:
        r = _away(residuals)[:, column.order]
        return _ratio((r[:, 1:] * r[:, :-1]).sum(axis=1), np.square(r).sum(axis=1))

    def correction(self, column: Column, residuals: FloatArray, rows: IntArray) -> Correction:
        order = column.order
        r = (residuals - residuals[rows].mean())[order]
        near = np.zeros((len(r), 2))
        near[1:, 0], near[:-1, 1] = r[:-1], r[1:]
        beside = np.empty_like(near)
        beside[order] = near
        gram = beside[rows].T @ beside[rows] + PENALTY * np.eye(2)
        weights = np.linalg.solve(gram, beside[rows].T @ residuals[rows])
        return Correction(beside @ weights, np.ones(len(r)))

    def text(self, column: Column, residuals: FloatArray, scale: float) -> str:
        value = float(self.statistic(column, residuals[None])[0])
        return (
            f"Errors of rows next to each other in {column.text()} go together: their correlation "
            f"is {value:.2g}"
        )

    def remedy(self, column: Column, residuals: FloatArray) -> str:
        if column.origin == INPUT:
            return (
                f"Near rows along {column.text()} share errors: give the kernel a shorter "
                "lengthscale or a rougher term there."
            )
        what = "the row number or the time" if column.origin == ORDER else column.text()
        return (
            f"Errors persist along {column.text()}: add {what} as an input, with a term of its own "
            "such as matern-1/2, and score whole blocks of it by cross_validate(groups=...)."
        )


class CourseCheck(ResidualCheck):
    """A mean of residuals that changes along a column."""

    name = "course"

    def statistic(self, column: Column, residuals: FloatArray) -> FloatArray:
        return np.cbrt(_explained(_cosines(column, N_COSINES), residuals))

    def correction(self, column: Column, residuals: FloatArray, rows: IntArray) -> Correction:
        shift = _ridge(_cosines(column, N_COSINES), residuals, rows)
        return Correction(shift, np.ones(len(residuals)))

    def text(self, column: Column, residuals: FloatArray, scale: float) -> str:
        course = scale * _ridge(_cosines(column, N_COSINES), residuals, np.arange(len(residuals)))
        return (
            f"Errors have a course along {column.text()}: on average they go from "
            f"{course.min():.2g} to {course.max():.2g}"
        )

    def remedy(self, column: Column, residuals: FloatArray) -> str:
        if column.origin == UNSEEN:
            return f"Add {column.text()} as an input: predictions are off by its value."
        if column.origin == ORDER:
            return "Errors drift with the row order: add the row number or the time as an input."
        if column.origin == PREDICTED:
            return f"Predictions are off by {column.text()}: try target_transform='auto'."
        return f"Give the kernel a further term of {column.text()}, or a trend."


class RepeatsCheck(ResidualCheck):
    """Residuals that repeat with a period along a column."""

    name = "repeats"
    origins = (INPUT, UNSEEN, ORDER)

    def applies(self, column: Column) -> bool:
        return super().applies(column) and np.unique(column.values).size >= 8 * LEAST_CYCLES

    def statistic(self, column: Column, residuals: FloatArray) -> FloatArray:
        return np.cbrt(self._power(column, residuals).max(axis=1))

    def correction(self, column: Column, residuals: FloatArray, rows: IntArray) -> Correction:
        seen = np.zeros_like(residuals)
        seen[rows] = residuals[rows]
        angle = self._angles(column)[:, self._power(column, seen[None])[0].argmax()]
        waves = np.column_stack([f(k * angle) for k in (1, 2) for f in (np.cos, np.sin)])
        return Correction(_ridge(waves, residuals, rows), np.ones(len(residuals)))

    def text(self, column: Column, residuals: FloatArray, scale: float) -> str:
        return f"Errors repeat with period {self.period(column, residuals)} of {column.text()}"

    def remedy(self, column: Column, residuals: FloatArray) -> str:
        period = self.period(column, residuals)
        term = (
            "a periodic term" if column.origin == INPUT else "it as an input with a periodic term"
        )
        return (
            f"Errors repeat along {column.text()} with period {period}: give the kernel {term} of "
            "that period."
        )

    def period(self, column: Column, residuals: FloatArray) -> str:
        """The period in words, in the unit of the column."""
        best = self._power(column, residuals[None])[0].argmax()
        value = float(np.ptp(column.values) / self._cycles(column)[best])
        if not column.is_time:
            return f"{value:.3g}"
        sizes = ((86_400.0, "days"), (3600.0, "hours"), (60.0, "minutes"), (1.0, "seconds"))
        size, unit = next((one for one in sizes if value >= 2 * one[0]), sizes[-1])
        return f"{value / size:.3g} {unit}"

    def _cycles(self, column: Column) -> FloatArray:
        """Numbers (f,) of cycles over the range, in halves, up to a third of the points."""
        most = min(len(column.values) / 3, LEAST_CYCLES + MOST_FREQUENCIES / 2)
        return np.arange(LEAST_CYCLES, max(most, LEAST_CYCLES + 1), 0.5)

    def _angles(self, column: Column) -> FloatArray:
        """Angles (p, f) of the points at each number of cycles."""
        place = (column.values - column.values.min()) / np.ptp(column.values)
        return 2 * np.pi * np.multiply.outer(place, self._cycles(column))

    def _power(self, column: Column, residuals: FloatArray) -> FloatArray:
        """Share (m, f) of the squares of residuals (m, p) of a period and of half of it."""
        angles, residuals = self._angles(column), _away(residuals)
        size = np.square(residuals).sum(axis=1)[:, None] * len(column.values) / 2
        waves = np.square(residuals @ np.cos(angles)) + np.square(residuals @ np.sin(angles))
        n = angles.shape[1]
        # Twice the frequency of place k, which is `LEAST_CYCLES + k / 2`, is that of this place.
        twice = 2 * LEAST_CYCLES + 2 * np.arange(n)
        inside = twice < n
        waves[:, inside] += OVERTONE * waves[:, twice[inside]]
        return _ratio(waves, size)


class GroupsCheck(ResidualCheck):
    """Residuals whose mean differs between groups."""

    name = "groups"
    of_groups = True

    def statistic(self, column: Column, residuals: FloatArray) -> FloatArray:
        return np.cbrt(_between(column, residuals))

    def correction(self, column: Column, residuals: FloatArray, rows: IntArray) -> Correction:
        groups = column.groups
        means = _shrunk(groups[rows], residuals[rows], int(groups.max()) + 1)
        return Correction(means[groups], np.ones(len(residuals)))

    def text(self, column: Column, residuals: FloatArray, scale: float) -> str:
        between = _components(column.groups, residuals)[1]
        labels = column.labels
        assert labels is not None
        means = _shrunk(column.groups, residuals, labels.size)
        worst = int(np.abs(means).argmax())
        return (
            f"Groups of {column.text()} differ by {scale * np.sqrt(between):.2g} (standard "
            f"deviation of their offsets); group {_label(labels[worst])} is off by "
            f"{scale * means[worst]:+.2g}"
        )

    def remedy(self, column: Column, residuals: FloatArray) -> str:
        if column.origin == INPUT:
            return f"Give the kernel a term of {column.text()} alone: its groups are off."
        return (
            f"Add {column.text()} as a categorical input, since its groups have offsets. For "
            "groups that are not seen yet, judge by cross_validate(groups=...)."
        )


class SpreadCheck(ResidualCheck):
    """Residuals whose size changes along a column."""

    name = "spread"
    concerns = "spread"

    def statistic(self, column: Column, residuals: FloatArray) -> FloatArray:
        return np.cbrt(_explained(_cosines(column, N_SPREAD), _sizes(residuals)))

    def correction(self, column: Column, residuals: FloatArray, rows: IntArray) -> Correction:
        design = np.column_stack([np.ones(len(residuals)), _cosines(column, N_SPREAD)])
        log_variance = design @ _log_variance(design[rows], residuals[rows])
        return Correction(np.zeros(len(residuals)), np.exp(0.5 * log_variance))

    def text(self, column: Column, residuals: FloatArray, scale: float) -> str:
        spread = self.correction(column, residuals, np.arange(len(residuals))).spread
        low, high = spread[column.order[0]], spread[column.order[-1]]
        ratio = float(spread.max() / spread.min())
        if ratio > 1.5 * max(high / low, low / high):
            return (
                f"Errors beside their stated standard deviations differ {ratio:.2g} times along "
                f"{column.text()}"
            )
        grow = "grow" if high > low else "shrink"
        return (
            f"Errors {grow} with {column.text()}, {max(high / low, low / high):.2g} times beside "
            "what the law says"
        )

    def remedy(self, column: Column, residuals: FloatArray) -> str:
        seen = "" if column.origin in (INPUT, PREDICTED) else f"Give the noise {column.text()}: "
        if column.origin == PREDICTED:
            return (
                f"Errors change with {column.text()}: try target_transform='auto', or noise that "
                "varies."
            )
        return (
            f"{seen or f'Errors change along {column.text()}: '}fit noise that varies "
            "(docs/noise.md), or weigh rows by their own noise."
        )


class GroupSpreadCheck(ResidualCheck):
    """Residuals whose size differs between groups."""

    name = "group spread"
    concerns = "spread"
    of_groups = True

    def statistic(self, column: Column, residuals: FloatArray) -> FloatArray:
        return np.cbrt(_between(column, _sizes(residuals)))

    def correction(self, column: Column, residuals: FloatArray, rows: IntArray) -> Correction:
        squares, groups = np.square(residuals), column.groups
        n_groups = int(groups.max()) + 1
        total = squares[rows].mean()
        counts = np.bincount(groups[rows], minlength=n_groups)
        sums = np.bincount(groups[rows], squares[rows], n_groups)
        variance = (sums + PENALTY * total) / (counts + PENALTY)
        return Correction(np.zeros(len(residuals)), np.sqrt(variance)[groups])

    def text(self, column: Column, residuals: FloatArray, scale: float) -> str:
        labels = column.labels
        assert labels is not None
        spread = self.correction(column, residuals, np.arange(len(residuals))).spread
        worst = int(spread.argmax())
        return (
            f"Groups of {column.text()} have errors of different size: those of "
            f"{labels[column.groups[worst]]} are {spread[worst]:.2g} of their stated standard "
            f"deviations, those of others {spread.min():.2g} or more"
        )

    def remedy(self, column: Column, residuals: FloatArray) -> str:
        return (
            f"Give each group of {column.text()} its own noise: fit noise that varies "
            "(docs/noise.md), or weigh rows by their own noise."
        )


CHECKS: dict[str, ResidualCheck] = {
    check.name: check
    for check in (
        RepeatsCheck(), GroupsCheck(), NextCheck(), CourseCheck(), SpreadCheck(),
        GroupSpreadCheck(),
    )
}  # fmt: skip


def register_residual_check(check: ResidualCheck, *, replace: bool = False) -> None:
    """Add a check of one's own to all reports that are made from now on.

    Parameters
    ----------
    check
        The check.
    replace
        Put it in the place of the check that has its name, if there is one.

    Raises
    ------
    InvalidInputError
        It is no `ResidualCheck`, or there is one of its name.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import ResidualCheck, audit, register_residual_check
    >>> class Later(ResidualCheck):  # whether later rows are above earlier ones
    ...     name, origins = "later", ("order",)
    ...     def statistic(self, column, residuals):
    ...         return residuals @ (column.values - column.values.mean())
    ...     def correction(self, column, residuals, rows):
    ...         line = np.polyfit(column.values[rows], residuals[rows], 1)
    ...         return np.polyval(line, column.values), np.ones(len(residuals))
    ...     text = remedy = lambda self, *given: "Later rows are above earlier ones"
    >>> X, y = np.zeros((30, 1)), np.random.default_rng(0).normal(size=30)
    >>> given = (np.zeros(30), np.ones(30)), X, y, X + 1, y
    >>> before = audit(*given).evidence.findings.n_looks
    >>> register_residual_check(Later())
    >>> audit(*given).evidence.findings.n_looks - before
    1
    """
    if not isinstance(check, ResidualCheck):
        raise wrong("check", "an object of a subclass of ResidualCheck", check)
    add(CHECKS, check.name, check, "name", replace)


def unregister_residual_check(name: str) -> None:
    """Take a check out of all reports that are made from now on.

    Raises
    ------
    InvalidInputError
        There is none of that name.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import audit, unregister_residual_check
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> given = (np.sin(X[1::2, 0]), np.full(30, 0.1)), X[::2], y[::2], X[1::2], y[1::2]
    >>> before = audit(*given).evidence.findings.n_looks
    >>> unregister_residual_check("spread")
    >>> audit(*given).evidence.findings.n_looks < before
    True
    """
    remove(CHECKS, name, "name")


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
    """Share (m,) of the variance of values (m, p) about their means that columns explain."""
    basis = np.linalg.qr(design)[0]
    away = _away(values)
    return _ratio(np.square(away @ basis).sum(axis=1), np.square(away).sum(axis=1))


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
    """Share (m,) of the variance of values (m, p) that lies between groups."""
    groups, n = column.groups, len(column.values)
    counts = np.bincount(groups)
    member = np.zeros((n, counts.size))
    member[np.arange(n), groups] = 1 / np.sqrt(counts[groups])
    away = _away(values)
    return _ratio(np.square(away @ member).sum(axis=1), np.square(away).sum(axis=1))


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
    ratio = within / between if between > 0 else np.inf
    return np.asarray(sums / (counts + ratio))


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
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        return str(int(value))
    return str(value)
