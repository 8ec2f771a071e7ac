"""Couplings side by side: divergences and scores at several sizes, over several draws."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

# Two couplings differ if their means are this many standard errors of the difference apart: about
# one pair in twenty that are equal is told apart.
CLEAR = 2.0
# Numbers that need more decimals than this are written with exponents.
MAX_DECIMALS = 6


@dataclass(frozen=True)
class MeanOverDraws:
    """Mean over draws of a coupling, and its standard error; NaN for a single draw."""

    mean: float
    standard_error: float

    @classmethod
    def of(cls, draws: Sequence[float]) -> MeanOverDraws:
        """Return the mean of the values of several draws."""
        values = np.asarray(draws, dtype=np.float64)
        error = values.std(ddof=1) / np.sqrt(values.size) if values.size > 1 else np.nan
        return cls(float(values.mean()), float(error))

    def __str__(self) -> str:
        """Return the mean to the second digit of its standard error."""
        error = self.standard_error
        if not (np.isfinite(error) and error > 0):
            return f"{self.mean:.4g}"
        decimals = 1 - int(np.floor(np.log10(error)))
        if decimals > MAX_DECIMALS:
            return f"{self.mean:.3g} ± {error:.1e}"
        return f"{self.mean:.{max(decimals, 0)}f} ± {error:.{max(decimals, 0)}f}"


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
    """

    coupling: str
    size: int
    n_draws: int
    kl_per_point: MeanOverDraws
    rmse: MeanOverDraws | None
    nlpd: MeanOverDraws | None


@dataclass(frozen=True)
class CouplingStudy:
    """Rows of all couplings and sizes, at the hyperparameters of one model.

    Attributes
    ----------
    size_name : str
        Name of the estimator's parameter that the sizes are values of.
    rows : tuple of StudyRow
    n_train, n_test : int
        Numbers of training rows and of test points.
    reference_rmse, reference_nlpd : float or None
        Scores of the exact GP; None without targets.
    """

    size_name: str
    rows: tuple[StudyRow, ...]
    n_train: int
    n_test: int
    reference_rmse: float | None
    reference_nlpd: float | None

    @property
    def couplings(self) -> list[str]:
        """Texts of the couplings in the order in which they were given."""
        return list(dict.fromkeys(row.coupling for row in self.rows))

    @property
    def sizes(self) -> list[int]:
        """Sizes in ascending order."""
        return sorted({row.size for row in self.rows})

    def of(self, coupling: str) -> list[StudyRow]:
        """Return the rows of a coupling, by ascending size."""
        return sorted((r for r in self.rows if r.coupling == coupling), key=lambda r: r.size)

    def verdict(self) -> str:
        """Return in words which coupling is closest at the largest size, and by which factor."""
        rows = sorted(
            (row for row in self.rows if row.size == self.sizes[-1]),
            key=lambda row: row.kl_per_point.mean,
        )
        best, rest = rows[0], rows[1:]
        text = (
            f"With {self.size_name}={best.size}, {best.coupling} is closest to the exact GP: "
            f"{best.kl_per_point} nats per point."
        )
        equal = [row.coupling for row in rest if not _clear(best, row)]
        if equal:
            text += f" Not distinguishable from it: {', '.join(equal)}."
        if rest and rest[-1].coupling not in equal:
            ratio = rest[-1].kl_per_point.mean / max(best.kl_per_point.mean, 1e-300)
            text += f" {rest[-1].coupling} is {ratio:.2g} times as far."
        return text

    def to_dict(self) -> dict[str, Any]:
        """Return all rows and the verdict as plain Python values."""
        return asdict(self) | {"verdict": self.verdict()}


def _clear(a: StudyRow, b: StudyRow) -> bool:
    """Return whether the divergences of two rows differ by more than chance."""
    error = np.hypot(a.kl_per_point.standard_error, b.kl_per_point.standard_error)
    return bool(abs(a.kl_per_point.mean - b.kl_per_point.mean) > CLEAR * error)
