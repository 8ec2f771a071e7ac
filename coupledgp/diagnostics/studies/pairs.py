"""Paired tests between couplings, draw by draw of the same seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from coupledgp.diagnostics.studies.draws import StudyRow, values_of
from coupledgp.errors import InvalidInputError
from coupledgp.random import FloatArray

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
                f"{len(row.draws)}; files of older versions keep means only"
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
