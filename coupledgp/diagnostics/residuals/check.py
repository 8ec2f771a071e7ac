"""What a check of residuals is: a statistic, a correction, and its words."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar, NamedTuple

from coupledgp.diagnostics.residuals.columns import INPUT, ORDER, PREDICTED, UNSEEN, Column
from coupledgp.random import FloatArray, IntArray


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
