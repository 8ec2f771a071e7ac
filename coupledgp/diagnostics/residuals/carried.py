"""Columns that carry the targets: those that equal them, and those that do so in training only."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coupledgp.random import FloatArray

# Fewest rows, groups of equal size within which targets are averaged, and digits of rounding.
FEWEST, N_GROUPS, DIGITS = 20, 10, range(-12, 13)
# Share of the variance of the training targets that a column explains by itself at least; share of
# the correlation that is left at test rows at most; least growth of the squared error, and least
# squared error over the variance of the training targets.
EXPLAINED, LEFT, GROWTH, LARGE = 0.5, 0.5, 2.5, 0.5


@dataclass(frozen=True)
class Carried:
    """A column that is related to y in training, and not at test.

    Attributes
    ----------
    number : int
        Number of the column.
    column : str
        Its name.
    trained, tested : float
        Correlation of the targets with what the column by itself says of them, at the training
        rows and at the test rows.
    gain : float
        Nats per point that the best rival without the column gains over the model.
    standard_error : float or None
        Its standard error.
    """

    number: int
    column: str
    trained: float
    tested: float
    gain: float = 0.0
    standard_error: float | None = None

    @classmethod
    def of(
        cls,
        known: FloatArray,
        targets: FloatArray,
        points: FloatArray,
        y: FloatArray,
        names: tuple[str, ...] = (),
    ) -> Carried | None:
        """The clearest one of the columns of training rows (n, d) with targets (n,), or None.

        Targets are averaged within tenths of the training rows by the column, and interpolated at
        the test rows (p, d) within its range. The relation is lost if it explained half of the
        variance, the correlation with the test targets (p,) is at most half of that in training,
        and the errors about their mean have grown 2.5 times and to half of the targets' variance.
        """
        spread = float(targets.var())
        if min(len(targets), len(y)) < FEWEST or not spread > 0:
            return None
        found: list[Carried] = []
        for k in range(known.shape[1]):
            x, own = known[:, k], points[:, k]
            inside = (own >= x.min()) & (own <= x.max())
            if inside.sum() < FEWEST or not np.ptp(x) > 0:
                continue
            parts = np.array_split(np.argsort(x, kind="stable"), N_GROUPS)
            places, means = (np.array([v[part].mean() for part in parts]) for v in (x, targets))
            there, here = (np.interp(v, places, means) for v in (x, own[inside]))
            left = float((targets - there).var()) / spread
            lost = float((y[inside] - here).var()) / spread
            trained, tested = _correlation(there, targets), _correlation(here, y[inside])
            grown = lost >= max(LARGE, GROWTH * left)
            if left <= 1 - EXPLAINED and grown and tested <= LEFT * trained:
                name = names[k] if len(names) == known.shape[1] else f"input {k + 1}"
                found.append(cls(k, name, trained, tested))
        return max(found, key=lambda one: one.trained - one.tested, default=None)

    def text(self) -> str:
        """The relation in a sentence, without its full stop."""
        return (
            f"Column `{self.column}` is related to y in training, not at test: what it says of y "
            f"correlates with y by {self.trained:.2g} there and by {self.tested:.2g} here"
        )


def equal_columns(
    points: FloatArray, y: FloatArray, names: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Names of the columns of rows (p, d) that equal targets (p,) but for rounding."""
    if len(y) < FEWEST or not np.ptp(y) > 0:
        return ()
    known = names if len(names) == points.shape[1] else tuple(
        f"input {k + 1}" for k in range(points.shape[1])
    )  # fmt: skip
    return tuple(name for name, x in zip(known, points.T, strict=True) if _equals(x, y))


def _equals(x: FloatArray, y: FloatArray) -> bool:
    """Whether one of two columns is the other, rounded to some digit or to single precision."""
    rounding = 1e-6 * float(np.abs(y).max())
    gap = float(np.abs(x - y).max())
    if gap <= rounding:
        return True
    if gap > 0.5 * float(y.std()):
        return False
    return any(
        float(np.abs(np.round(a, digit) - b).max()) <= rounding and 10.0**-digit < y.std()
        for digit in DIGITS
        for a, b in ((x, y), (y, x))
    )


def _correlation(a: FloatArray, b: FloatArray) -> float:
    """Correlation of two columns; zero where one is constant."""
    if not (np.ptp(a) > 0 and np.ptp(b) > 0):
        return 0.0
    return float(np.corrcoef(a, b)[0, 1])
