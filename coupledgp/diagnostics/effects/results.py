"""What `effects` and `importance` return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from coupledgp.diagnostics.studies.tables import frame_of
from coupledgp.random import FloatArray

if TYPE_CHECKING:
    import pandas as pd

CONDITIONAL = (
    "Intervals are conditional on the hyperparameters and on the columns' own laws: they hold what "
    "the rows leave open about the function, and nothing else."
)


@dataclass(frozen=True, eq=False)
class Effects:
    """Main effects of columns: `E[f | x_j] - E[f]` under the product of the columns' laws.

    Attributes
    ----------
    names : tuple of str
        Names of the parts of the table.
    grid : tuple of tuples
        Values or levels of each, at which its effect is stated.
    mean, low, high : tuple of FloatArray (g,) or (g, k)
        Posterior mean of each effect and ends of its interval, units of y.
    level : float
        Probability of the intervals, each point alone.
    method : str
        How the effects were computed.
    remarks : tuple of str
        What to know before reading them.
    """

    names: tuple[str, ...]
    grid: tuple[tuple[Any, ...], ...]
    mean: tuple[FloatArray, ...]
    low: tuple[FloatArray, ...]
    high: tuple[FloatArray, ...]
    level: float
    method: str
    remarks: tuple[str, ...]

    def rows(self) -> list[dict[str, Any]]:
        """One mapping for each point, and output, with name, value, mean, low and high."""
        found = []
        for name, grid, *parts in zip(
            self.names, self.grid, self.mean, self.low, self.high, strict=True
        ):
            for k in range(1 if parts[0].ndim == 1 else parts[0].shape[1]):
                columns = [part if part.ndim == 1 else part[:, k] for part in parts]
                output = {} if parts[0].ndim == 1 else {"output": k}
                for value, mean, low, high in zip(grid, *columns, strict=True):
                    found.append(
                        {"name": name, **output, "value": value, "mean": float(mean),
                         "low": float(low), "high": float(high)}
                    )  # fmt: skip
        return found

    def frame(self) -> pd.DataFrame:
        """`rows` as a data frame.

        Raises
        ------
        MissingLibraryError
            pandas is not installed.
        """
        return _frame(self.rows())

    def __str__(self) -> str:
        lines = [f"Main effects, {self.level:.0%} intervals, by {self.method}."]
        for name, grid, mean in zip(self.names, self.grid, self.mean, strict=True):
            values = mean if mean.ndim == 1 else mean[:, 0]
            low, high = int(values.argmin()), int(values.argmax())
            lines.append(
                f"{name}: from {values[low]:.4g} at {_text(grid[low])} to {values[high]:.4g} at "
                f"{_text(grid[high])}"
            )
        return "\n".join([*lines, *self.remarks])


@dataclass(frozen=True, eq=False)
class Share:
    """A share of the variance of f with its interval, each a number or (k,).

    Attributes
    ----------
    mean, low, high : float or FloatArray (k,)
        Mean over posterior draws, and quantiles of these.
    """

    mean: Any
    low: Any
    high: Any

    @classmethod
    def of(cls, draws: FloatArray, level: float, single: bool) -> Share:
        """The share of draws (k, S)."""
        low, high = np.quantile(draws, [(1 - level) / 2, (1 + level) / 2], axis=1)
        parts = (draws.mean(axis=1), low, high)
        return cls(*(float(part[0]) if single else part for part in parts))


@dataclass(frozen=True, eq=False)
class Importance:
    """Shares of the variance of f under the product of the columns' laws: Sobol indices.

    Attributes
    ----------
    first : mapping of str to Share
        Main effect of each part.
    pairs : mapping of (str, str) to Share
        Interaction of each pair.
    total : mapping of str to Share
        What hangs on each part, alone or with others.
    rest : Share
        What no main effect and no listed pair explains.
    level : float
        Probability of the intervals.
    method : str
        How the shares were computed.
    remarks : tuple of str
        What to know before reading them.
    """

    first: Mapping[str, Share]
    pairs: Mapping[tuple[str, str], Share]
    total: Mapping[str, Share]
    rest: Share
    level: float
    method: str
    remarks: tuple[str, ...]

    def rows(self) -> list[dict[str, Any]]:
        """One mapping for each share, and output, with kind, name, mean, low and high."""
        listed: list[tuple[str, str, Share]] = [
            ("first", name, share) for name, share in self.first.items()
        ]
        listed += [("pair", " x ".join(names), share) for names, share in self.pairs.items()]
        listed += [("total", name, share) for name, share in self.total.items()]
        listed.append(("rest", "", self.rest))
        found = []
        for kind, name, share in listed:
            single = np.ndim(share.mean) == 0
            for k in range(1 if single else len(share.mean)):
                own = [float(np.ravel(part)[k]) for part in (share.mean, share.low, share.high)]
                output = {} if single else {"output": k}
                found.append(
                    {"kind": kind, "name": name, **output}
                    | dict(zip(("mean", "low", "high"), own, strict=True))
                )
        return found

    def frame(self) -> pd.DataFrame:
        """`rows` as a data frame.

        Raises
        ------
        MissingLibraryError
            pandas is not installed.
        """
        return _frame(self.rows())

    def __str__(self) -> str:
        lines = [
            f"Shares of the variance of f, {self.level:.0%} intervals, by {self.method}.",
            "kind   share   interval        name",
        ]
        for row in sorted(self.rows(), key=lambda row: -row["mean"]):
            if row["mean"] >= 0.005 or row["kind"] == "rest":
                interval = f"{row['low']:.3f}-{row['high']:.3f}"
                lines.append(f"{row['kind']:6} {row['mean']:6.3f}   {interval:14}  {row['name']}")
        return "\n".join([*lines, *self.remarks])


def _frame(rows: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    return frame_of((list(rows[0]), [list(row.values()) for row in rows]))


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
