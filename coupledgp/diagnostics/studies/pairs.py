"""Paired tests between couplings, draw by draw of the same seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from coupledgp.errors import InvalidInputError
from coupledgp.random import FloatArray

# Numbers that need more decimals than this are written with exponents.
MAX_DECIMALS = 6
# Figures of a draw, and how tables and axes name them.
FIGURES = {
    "kl_per_point": "KL, nats per point",
    "rmse": "RMSE",
    "nlpd": "NLPD",
}
# Couplings are told apart where the paired t-test, corrected for all pairs, is below this.
LEVEL = 0.05


@dataclass(frozen=True)
class PairedComparison:
    """A figure of two couplings at one size, compared draw by draw.

    Attributes
    ----------
    a, b : str
        Couplings.
    figure : str
        `"kl_per_point"`, `"rmse"` or `"nlpd"`.
    size, n_draws : int
        Size of both, and number of common seeds.
    mean_difference, standard_error : float
        Mean over seeds of the figure of a minus that of b, and its standard error.
    ratio, ratio_standard_error : float
        Mean of a over mean of b, and its standard error by the delta method on paired draws.
    correlation : float
        Of the two figures over seeds: above zero pairing makes the difference more certain. NaN
        where one of them does not vary.
    p_t, p_wilcoxon : float
        Two-sided p-values of the paired t-test and of Wilcoxon's signed-rank test. The latter is at
        least `2^(1 - n_draws)`.
    p_t_holm, p_wilcoxon_holm : float
        The same after Holm's correction for all pairs of couplings at this size.
    """

    a: str
    b: str
    figure: str
    size: int
    n_draws: int
    mean_difference: float
    standard_error: float
    ratio: float
    ratio_standard_error: float
    correlation: float
    p_t: float
    p_wilcoxon: float
    p_t_holm: float
    p_wilcoxon_holm: float

    @property
    def is_clear(self) -> bool:
        """Whether the couplings are told apart at the level of 5 % after Holm's correction."""
        return self.p_t_holm < LEVEL


def all_pairs(rows: Sequence[StudyRow], figure: str) -> tuple[PairedComparison, ...]:
    """Compare every pair of rows of one size.

    Raises
    ------
    InvalidInputError
        Rows have no draws, or draws of other seeds.
    """
    _check_seeds(rows)
    pairs = list(combinations(rows, 2))
    tested = [_tests(a, b, figure) for a, b in pairs]
    corrected = [holm([one[name] for one in tested]) for name in ("p_t", "p_wilcoxon")]
    return tuple(
        PairedComparison(
            a.coupling, b.coupling, figure, a.size, len(a.draws), **one,
            p_t_holm=float(by_t), p_wilcoxon_holm=float(by_rank),
        )
        for (a, b), one, by_t, by_rank in zip(pairs, tested, *corrected, strict=True)
    )  # fmt: skip


def holm(p_values: ArrayLike) -> FloatArray:
    """Correct p-values (n,) of n tests for their number.

    The k-th smallest is multiplied by `n - k + 1`, made at least that before it and at most one:
    the chance of any false rejection at a level is at most the level, whatever the dependence.
    S. Holm, "A simple sequentially rejective multiple test procedure" (1979).
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p, kind="stable")
    corrected = np.empty_like(p)
    corrected[order] = np.maximum.accumulate(p[order] * np.arange(p.size, 0, -1)).clip(max=1.0)
    return corrected


def _check_seeds(rows: Sequence[StudyRow]) -> None:
    for row in rows:
        if len(row.draws) < 2:
            raise InvalidInputError(
                f"draws: expected two or more of {row.coupling}, {row.size} for paired tests, got "
                f"{len(row.draws)}"
            )
        if [draw.seed for draw in row.draws] != [draw.seed for draw in rows[0].draws]:
            raise InvalidInputError(
                f"draws: expected the seeds of {rows[0].coupling}, got others of {row.coupling}"
            )


def _tests(a: StudyRow, b: StudyRow, figure: str) -> dict[str, float]:
    """Figures of a pair, before p-values are corrected."""
    first, second = values_of(a.draws, figure), values_of(b.draws, figure)
    difference = first - second
    mean, n = difference.mean(), difference.size
    error = difference.std(ddof=1) / np.sqrt(n)
    ratio = first.mean() / second.mean() if second.mean() else np.nan
    of_ratio = (first - ratio * second).std(ddof=1) / np.sqrt(n) / abs(second.mean() or np.nan)
    varying = first.std() > 0 and second.std() > 0
    return {
        "mean_difference": float(mean),
        "standard_error": float(error),
        "ratio": float(ratio),
        "ratio_standard_error": float(of_ratio),
        "correlation": float(np.corrcoef(first, second)[0, 1]) if varying else float("nan"),
        "p_t": float(2 * stats.t.sf(abs(mean) / error, n - 1)) if error > 0 else float(mean == 0),
        "p_wilcoxon": float(stats.wilcoxon(difference).pvalue) if difference.any() else 1.0,
    }


@dataclass(frozen=True)
class Draw:
    """Figures of one draw of a coupling.

    Attributes
    ----------
    seed : int
        Seed of the frequencies or walks. Draws of one seed belong together across couplings.
    kl_per_point : float
        `KL(reference || model)`, nats per test point.
    rmse, nlpd : float or None
        Scores; None without targets.
    """

    seed: int
    kl_per_point: float
    rmse: float | None = None
    nlpd: float | None = None


@dataclass(frozen=True)
class MeanOverDraws:
    """Mean over draws of a coupling, and its standard error; NaN for a single draw."""

    mean: float
    standard_error: float

    @classmethod
    def of(cls, draws: Sequence[float] | FloatArray) -> MeanOverDraws:
        """Return the mean of the values of several draws."""
        values = np.asarray(draws, dtype=np.float64)
        error = values.std(ddof=1) / np.sqrt(values.size) if values.size > 1 else np.nan
        return cls(float(values.mean()), float(error))

    def __str__(self) -> str:
        """Return the mean to the second digit of its standard error."""
        return " ± ".join(self.digits())

    def digits(self) -> tuple[str, ...]:
        """Return the mean to the second digit of its standard error, and that error if it has one.

        Both have the same number of decimals, or an exponent each.
        """
        error = self.standard_error
        if not (np.isfinite(error) and error > 0):
            return (f"{self.mean:.4g}",)
        decimals = 1 - int(np.floor(np.log10(error)))
        if decimals > MAX_DECIMALS:
            return f"{self.mean:.3g}", f"{error:.1e}"
        return f"{self.mean:.{max(decimals, 0)}f}", f"{error:.{max(decimals, 0)}f}"


@dataclass(frozen=True)
class StudyRow:
    """Figures of one coupling at one size.

    Attributes
    ----------
    coupling : str
    size : int
        Number of frequencies, or of walkers for each node.
    n_draws : int
    kl_per_point : MeanOverDraws
        `KL(reference || model)`, nats per test point.
    rmse, nlpd : MeanOverDraws or None
        Scores; None without targets.
    draws : tuple of Draw
        The draws themselves; empty for a row read from a file that has none.
    """

    coupling: str
    size: int
    n_draws: int
    kl_per_point: MeanOverDraws
    rmse: MeanOverDraws | None
    nlpd: MeanOverDraws | None
    draws: tuple[Draw, ...] = ()

    @classmethod
    def of(cls, coupling: str, size: int, draws: Sequence[Draw]) -> StudyRow:
        """Return the row of the means of some draws."""
        means = {
            name: None
            if getattr(draws[0], name) is None
            else MeanOverDraws.of(values_of(draws, name))
            for name in ("rmse", "nlpd")
        }
        divergence = MeanOverDraws.of(values_of(draws, "kl_per_point"))
        return cls(coupling, size, len(draws), divergence, **means, draws=tuple(draws))

    def mean_of(self, figure: str) -> MeanOverDraws:
        """Return the mean of a figure, which the row must have."""
        found = getattr(self, figure)
        assert isinstance(found, MeanOverDraws)
        return found


def values_of(draws: Sequence[Draw], figure: str) -> FloatArray:
    """Return a figure (n_draws,) of each draw, in the order of the draws."""
    return np.array([getattr(draw, figure) for draw in draws], dtype=np.float64)
