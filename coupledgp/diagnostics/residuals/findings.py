"""Patterns in residuals beyond what draws of the model's own law have, and what they cost.

All checks along all columns are one family: the statistic of each is compared in standard
deviations of its draws, and the largest over the family with the largest of each draw. So the
chance that a true law has any finding is `ALARM`, however many columns are looked at (Westfall and
Young, 1993). A finding matters besides: its correction, learned on other folds, gains a hundredth
of a nat per point and two standard errors. Findings are taken one at a time, the greatest gain
first; each is corrected for, and what the others say is asked again, so that one that explains
others stands alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtri

from coupledgp.diagnostics.residuals.checks import CHECKS, ResidualCheck
from coupledgp.diagnostics.residuals.columns import ORDER, PREDICTED, UNSEEN, Column
from coupledgp.diagnostics.scoring.divergences import covariance_root
from coupledgp.diagnostics.scoring.scores import MeanOverPoints, paired_difference
from coupledgp.errors import NumericalError
from coupledgp.random import FloatArray, IntArray

# Share of true laws with a finding, before what a finding gains is asked.
ALARM = 0.005
# Nats per point and standard errors that the correction of a finding gains at least.
MATTERS, TOLD = 0.01, 2.0
# Draws of the law, folds of the corrections, and findings at most.
N_DRAWS, FOLDS, MOST_FINDINGS = 1000, 5, 4
# Fewest points at which patterns are looked for, and rows that are looked at together.
FEWEST, RUN = 20, 10
# Residuals of transforms nearer to 0 or 1 than this are bounded.
EDGE = 1e-15


@dataclass(frozen=True)
class Finding:
    """A pattern of residuals along a column.

    Attributes
    ----------
    check, column, origin, concerns : str
        Names of the check and of the column, where that comes from, and whether means or spreads
        are concerned.
    text, remedy : str
        The pattern, and what to do, as sentences.
    p_value : float
        Share of draws of the law with a pattern as clear anywhere.
    gain, standard_error : float, float or None
        Nats per point that the correction learned on other folds gains, and its error.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import audit
    >>> X = np.linspace(0, 6, 100)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=100)
    >>> flat = (np.zeros(50), np.full(50, 0.8))  # which misses the sine
    >>> report = audit(flat, X[::2], y[::2], X[1::2], y[1::2])
    >>> first = report.evidence.findings.found[0]
    >>> first.check, first.column, first.gain > 0.5
    ('next', 'row order', True)
    >>> first.text.split(":")[0]
    'Errors of rows next to each other in the row order go together'
    """

    check: str
    column: str
    origin: str
    concerns: str
    text: str
    remedy: str
    p_value: float
    gain: float
    standard_error: float | None


@dataclass(frozen=True)
class Findings:
    """What was found, and how many looks were taken.

    Attributes
    ----------
    found : tuple of Finding
    n_looks, n_points : int
        Numbers of checks along columns, and of points.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> model = cgp.ExactGPRegressor(optimizer=None, lengthscale=1.5, noise=0.02)
    >>> report = cgp.diagnostics.compare(model.fit(X[::2], y[::2]), X[1::2], y[1::2])
    >>> report.evidence.findings.text()
    'No pattern in 9 looks at the residuals of 30 rows.'
    """

    found: tuple[Finding, ...] = ()
    n_looks: int = 0
    n_points: int = 0

    def text(self) -> str:
        """What was found, in a sentence or more."""
        if not self.found:
            return f"No pattern in {self.n_looks} looks at the residuals of {self.n_points} rows."
        return " ".join(f"{one.text}." for one in self.found)


@dataclass(frozen=True, eq=False)
class Residuals:
    """Residuals `Phi^-1(F(y))` of p points and k outputs, with draws of what their law gives.

    Attributes
    ----------
    values : FloatArray (p, k)
    scale : FloatArray (k,)
        Units of y of one residual.
    draws : FloatArray (N, p, k)
    columns : tuple of Column
    is_joint : bool
        Whether the draws are as correlated as the law says; independent draws tell nothing on
        means along what the model saw, where true errors go together.
    """

    values: FloatArray
    scale: FloatArray
    draws: FloatArray
    columns: tuple[Column, ...]
    is_joint: bool = True

    @classmethod
    def of(
        cls,
        values: FloatArray,
        scale: FloatArray,
        correlation: FloatArray | None,
        columns: Sequence[Column],
        seed: int = 0,
    ) -> Residuals:
        """Residuals with correlations (p, p) or (p, p, k); None where these are unknown."""
        p, k = values.shape
        draws = np.random.default_rng([seed, 17]).standard_normal((k, N_DRAWS, p))
        if correlation is not None:
            matrices = correlation.reshape(p, p, -1)
            for j in range(k):
                root = covariance_root(matrices[..., min(j, matrices.shape[2] - 1)], "correlation")
                draws[j] = draws[j] @ root.T
        moved = draws.transpose(1, 2, 0)
        return cls(values, scale, moved, tuple(columns), correlation is not None)

    def findings(self) -> Findings:
        """The patterns beyond chance that matter, the greatest gain first."""
        looks = self._looks()
        if len(self.values) < FEWEST or not looks:
            return Findings((), 0, len(self.values))
        chance = [self._statistic(look, self.draws) for look in looks]
        center = np.array([one.mean() for one in chance])
        spread = np.array([max(float(one.std()), 1e-12) for one in chance])
        furthest = ((np.array(chance) - center[:, None]) / spread[:, None]).max(axis=0)
        values = self.values
        found: list[Finding] = []
        while len(found) < MOST_FINDINGS:
            own = np.array([self._statistic(look, values[None])[0] for look in looks])
            far = (own - center) / spread
            shares = (1 + (furthest[None] >= far[:, None]).sum(axis=1)) / (1 + len(furthest))
            best = None
            for k in np.flatnonzero(shares <= ALARM).tolist():
                gap, corrected = corrected_gain(*looks[k], values)
                error = gap.standard_error
                clear = error is not None and gap.mean > max(MATTERS, TOLD * error)
                if clear and (best is None or gap.mean > best[1].mean):
                    best = k, gap, corrected
            if best is None:
                break
            found.append(self._finding(looks[best[0]], values, float(shares[best[0]]), best[1]))
            values = best[2]
        return Findings(tuple(found), len(looks), len(values))

    def _looks(self) -> list[tuple[ResidualCheck, Column]]:
        return [
            (check, column)
            for column in self.columns
            for check in CHECKS.values()
            if check.applies(column) and (self.is_joint or _is_told_alone(check, column))
        ]

    def _statistic(self, look: tuple[ResidualCheck, Column], values: FloatArray) -> FloatArray:
        """Mean (m,) over the outputs of the statistic of residuals (m, p, k)."""
        check, column = look
        each = [check.statistic(column, values[..., j]) for j in range(values.shape[2])]
        return np.asarray(np.mean(each, axis=0))

    def _finding(
        self,
        look: tuple[ResidualCheck, Column],
        values: FloatArray,
        share: float,
        gap: MeanOverPoints,
    ) -> Finding:
        """A look in words, at the output where it is clearest."""
        check, column = look
        each = [check.statistic(column, values[None, :, j])[0] for j in range(values.shape[1])]
        j = int(np.argmax(each))
        return Finding(
            check.name, column.name, column.origin, check.concerns,
            check.text(column, values[:, j], float(self.scale[j])),
            check.remedy(column, values[:, j]), share, float(gap.mean), gap.standard_error,
        )  # fmt: skip


def _is_told_alone(check: ResidualCheck, column: Column) -> bool:
    """Whether a look says something of points that are taken as independent."""
    return check.concerns == "spread" or column.origin in (UNSEEN, ORDER)


def corrected_gain(
    check: ResidualCheck, column: Column, values: FloatArray
) -> tuple[MeanOverPoints, FloatArray]:
    """Gain of a correction learned on other folds, a `MeanOverPoints`, and what it leaves (p, k).

    Both the law as it is and the corrected one have the scale that is best on the other folds.
    """
    folds = np.random.default_rng(23).permutation(len(values)) % FOLDS
    before, after, left = [], [], np.empty_like(values)
    for j in range(values.shape[1]):
        r = values[:, j]
        shift, spread = np.empty_like(r), np.empty_like(r)
        for fold in range(FOLDS):
            held = folds == fold
            moved, scale = check.correction(column, r, np.flatnonzero(~held))
            shift[held], spread[held] = moved[held], scale[held]
        left[:, j] = (r - shift) / spread
        before.append(_losses(r, np.ones_like(r), folds))
        after.append(_losses(left[:, j], spread, folds))
    gap = paired_difference(np.mean(before, axis=0), np.mean(after, axis=0))
    return gap, left


def _losses(residuals: FloatArray, spread: FloatArray, folds: IntArray) -> FloatArray:
    """Negative log densities (p,), constants aside, each by the scale of the other folds."""
    squares = np.square(residuals)
    others = squares.sum() - np.bincount(folds, squares)
    scale = np.sqrt(np.maximum(others / (folds.size - np.bincount(folds)), 1e-300))[folds]
    return np.asarray(0.5 * np.square(residuals / scale) + np.log(scale * spread))


def look(
    residuals: FloatArray,
    std: FloatArray,
    correlation: Callable[[IntArray], FloatArray | None],
    columns: Sequence[Column],
    most: int,
    seed: int = 0,
) -> Findings:
    """Look for patterns along columns, of more points than some at so many in runs.

    Parameters
    ----------
    residuals, std
        Residuals `Phi^-1(F(y))` and standard deviations in units of y, (p, k).
    correlation
        Correlations (m, m, k) of the residuals of some points, by their numbers; None: unknown.
    columns
        Columns of the p points.
    most
        Most points of one output at which residuals are looked at.
    seed
        Seed of the choice of points and of the draws.
    """
    p, k = residuals.shape
    rows = rows_in_runs(p, max(most // k, 100), seed)
    if rows.size < p:
        columns = [one for one in (column.take(rows) for column in columns) if one is not None]
    try:
        found = Residuals.of(
            residuals[rows], std[rows].mean(axis=0), correlation(rows), columns, seed
        )
    except NumericalError:
        return Findings((), 0, rows.size)
    return found.findings()


def normal_scores(transforms: FloatArray) -> FloatArray:
    """Residuals (p, k) of transforms `F(y)`, within eight standard deviations."""
    return np.asarray(ndtri(np.clip(transforms, EDGE, 1 - EDGE)))


def predicted_columns(mean: FloatArray, std: FloatArray) -> list[Column]:
    """The prediction and its standard deviation (p, k) as columns, where they vary."""
    named = {"prediction": mean.mean(axis=1), "stated standard deviation": std.mean(axis=1)}
    some = [
        Column.of(name, values, PREDICTED)
        for name, values in named.items()
        if np.ptp(values) > 0.05 * np.abs(values).mean()
    ]
    return [one for one in some if one is not None]


def rows_in_runs(n_rows: int, most: int, seed: int) -> IntArray:
    """Numbers below n, or about so many of them in runs at random, ascending."""
    if n_rows <= most:
        return np.arange(n_rows)
    n_runs = most // RUN
    starts = np.random.default_rng([seed, 19]).choice(n_rows // RUN, n_runs, replace=False)
    found: IntArray = (np.sort(starts)[:, None] * RUN + np.arange(RUN)).ravel()
    return found
