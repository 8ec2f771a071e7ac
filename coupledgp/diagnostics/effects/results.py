"""What `effects` and `importance` return."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from coupledgp.diagnostics.plotted import Plotted
from coupledgp.diagnostics.studies.tables import frame_of
from coupledgp.ground.notebook import Notebook, NotebookTable, Shown
from coupledgp.random import FloatArray

if TYPE_CHECKING:
    import pandas as pd

    from coupledgp.diagnostics.pages.picture import Picture

CONDITIONAL = (
    "Intervals are conditional on the hyperparameters and on the columns' own laws: they hold what "
    "the rows leave open about the function, and nothing else."
)


class Listed(Plotted, Shown):
    """What has a mean and an interval for each of its entries.

    Attributes
    ----------
    level : float
        Probability of the intervals.
    method : str
        How the entries were computed.
    remarks : tuple of str
        What to know before reading them.
    """

    level: float
    method: str
    remarks: tuple[str, ...]

    @abstractmethod
    def entries(self) -> Iterator[tuple[dict[str, Any], Sequence[Any]]]:
        """Names of each entry; its mean, low and high end, each a number or (k,)."""

    def rows(self) -> list[dict[str, Any]]:
        """One mapping for each entry, and output: its names, mean, low and high."""
        found = []
        for names, parts in self.entries():
            single = np.ndim(parts[0]) == 0
            for k, values in enumerate(zip(*map(np.ravel, parts), strict=True)):
                output = {} if single else {"output": k}
                ends = zip(("mean", "low", "high"), map(float, values), strict=True)
                found.append({**names, **output, **dict(ends)})
        return found

    def to_frame(self) -> pd.DataFrame:
        """`rows` as a data frame.

        Raises
        ------
        MissingLibraryError
            pandas is not installed.
        """
        rows = self.rows()
        return frame_of((list(rows[0]), [list(row.values()) for row in rows]))

    frame = to_frame

    def notebook(self) -> Notebook:
        """Its picture, what to know before reading it, and its entries, for a notebook."""
        rows = sorted(self.rows(), key=lambda row: -abs(row["mean"]))
        table = NotebookTable("Entries", list(rows[0]), [list(row.values()) for row in rows])
        shown = self.picture().in_notebook()
        title = f"{type(self).__name__}, {self.level:.0%} intervals, by {self.method}"
        return Notebook(title, sentences=self.remarks, tables=[table], picture=shown)


@dataclass(frozen=True, eq=False)
class Effects(Listed):
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

    def entries(self) -> Iterator[tuple[dict[str, Any], Sequence[Any]]]:
        """Name and value of each point of a grid; see the base class."""
        every = zip(self.names, self.grid, self.mean, self.low, self.high, strict=True)
        for name, grid, *parts in every:
            for value, *ends in zip(grid, *parts, strict=True):
                yield {"name": name, "value": value}, ends

    def picture(self) -> Picture:
        """A panel for each of the six that reach the farthest, on one scale."""
        from coupledgp.diagnostics.pages.effects import effect_panels

        reach = {name: -np.ptp(mean) for name, mean in zip(self.names, self.mean, strict=True)}
        return effect_panels(self, sorted(self.names, key=reach.__getitem__))

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
class Importance(Listed):
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

    def entries(self) -> Iterator[tuple[dict[str, Any], Sequence[Any]]]:
        """Kind and name of each share; see the base class."""
        listed = [("first", name, share) for name, share in self.first.items()]
        listed += [("pair", " x ".join(names), share) for names, share in self.pairs.items()]
        listed += [("total", name, share) for name, share in self.total.items()]
        for kind, name, share in [*listed, ("rest", "", self.rest)]:
            yield {"kind": kind, "name": name}, (share.mean, share.low, share.high)

    def picture(self) -> Picture:
        """Bars of the shares, the greatest on top."""
        from coupledgp.diagnostics.pages.effects import share_bars

        return share_bars(self)

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


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
