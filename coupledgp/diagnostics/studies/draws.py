"""Draws of a coupling, and their means."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coupledgp.random import FloatArray

# Numbers that need more decimals than this are written with exponents.
MAX_DECIMALS = 6
# Figures of a draw, and how tables and axes name them.
FIGURES = {
    "kl_per_point": "KL, nats per point",
    "rmse": "RMSE",
    "nlpd": "NLPD",
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
