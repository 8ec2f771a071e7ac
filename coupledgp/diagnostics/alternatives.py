"""Other models beside a model, as a report holds them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from coupledgp.diagnostics.pages.table import Section


@dataclass(frozen=True)
class Alternative:
    """Another model, fitted to the same training rows and scored at the same test points.

    Attributes
    ----------
    name : str
    action : str
        How to get it, a sentence in the imperative.
    gain : float
        Mean paired decrease of the NLPD, that of the model minus its own, nats per point.
    standard_error : float or None
        Its standard error over test points taken as independent; None for a single point.
    rmse, nlpd : float
        Scores of the alternative, in units of y (of the transformed targets for a model of such)
        and nats per point.
    seconds : float
        Time of its fit and predictions.
    """

    name: str
    action: str
    gain: float
    standard_error: float | None
    rmse: float
    nlpd: float
    seconds: float

    @property
    def advantage(self) -> float:
        """Standard errors by which it is better than the model; negative where it is worse."""
        return self.gain / self.standard_error if self.standard_error else 0.0


@dataclass(frozen=True)
class Skipped:
    """An alternative without scores, and why."""

    name: str
    reason: str


class Alternatives(tuple[Alternative, ...]):
    """Alternatives, the greatest gain first.

    Attributes
    ----------
    skipped : tuple of Skipped
        Models that were not fitted, did not end in time, or failed.
    """

    skipped: tuple[Skipped, ...]

    def __new__(cls, found: Iterable[Alternative] = (), skipped: Iterable[Skipped] = ()) -> Self:
        """Alternatives in the order that they are given."""
        made = super().__new__(cls, found)
        made.skipped = tuple(skipped)
        return made

    def __repr__(self) -> str:
        return f"Alternatives({list(self)!r}, skipped={list(self.skipped)!r})"

    def explain(self) -> str:
        """The alternatives line by line, and those that were skipped with the reason."""
        lines = [
            f"{one.gain:+.3f}{_spread(one)} nats per point, RMSE {one.rmse:.4g}, "
            f"{one.seconds:.1f} s: {one.action}"
            for one in self
        ]
        return "\n".join([*lines, *(f"skipped: {one.name}, {one.reason}" for one in self.skipped)])


def alternatives_section(found: tuple[Alternative, ...]) -> Section:
    """Table of the alternatives of a report, and of those that were skipped."""
    rows = [
        [
            one.action,
            f"{one.gain:+.3f}{_spread(one)}",
            f"{one.nlpd:.4g}",
            f"{one.rmse:.4g}",
            f"{one.seconds:.1f} s",
        ]
        for one in found
    ]
    skipped = found.skipped if isinstance(found, Alternatives) else ()
    rows += [[one.name, f"skipped: {one.reason}", "", "", ""] for one in skipped]
    columns = ("model", "gain in NLPD, nats per point", "NLPD", "RMSE", "time")
    return Section("What else could be used", columns, rows)


def _spread(one: Alternative) -> str:
    return "" if one.standard_error is None else f" ± {one.standard_error:.2g}"
