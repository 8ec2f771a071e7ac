"""Other models beside a model, as a report holds them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

from coupledgp.diagnostics.scoring.scores import nats_text
from coupledgp.errors import InvalidInputError
from coupledgp.ground.notebook import ExplainedChoice


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
        Its standard error; where the model's joint law is known it allows for errors that near
        points share. None for a single point.
    rmse, nlpd : float
        Scores of the alternative, in units of y (of the transformed targets for a model of such)
        and nats per point.
    seconds : float
        Time of its fit and predictions.

    Examples
    --------
    >>> from coupledgp.diagnostics import Alternative
    >>> trees = Alternative(
    ...     "trees", "Fit boosted trees.", 0.5, 0.25, rmse=0.3, nlpd=0.2, seconds=1.5
    ... )
    >>> trees.advantage  # standard errors by which it is better
    2.0
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

    def gain_text(self) -> str:
        """The gain with its sign and its standard error."""
        return nats_text(self.gain, self.standard_error, "+.3f")


@dataclass(frozen=True)
class Skipped:
    """An alternative without scores, and why."""

    name: str
    reason: str


class Alternatives(ExplainedChoice, tuple[Alternative, ...]):
    """Alternatives, the greatest gain first.

    Attributes
    ----------
    skipped : tuple of Skipped
        Models that were not fitted, did not end in time, or failed.

    Examples
    --------
    >>> from coupledgp.diagnostics import Alternative, Alternatives
    >>> trees = Alternative(
    ...     "trees", "Fit boosted trees.", 0.5, 0.25, rmse=0.3, nlpd=0.2, seconds=1.5
    ... )
    >>> print(Alternatives([trees]))
    +0.500 ± 0.2 nats per point, RMSE 0.3, 1.5 s: Fit boosted trees.
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
            f"{one.gain_text()} nats per point, RMSE {one.rmse:.4g}, "
            f"{one.seconds:.1f} s: {one.action}"
            for one in self
        ]
        return "\n".join([*lines, *(f"skipped: {one.name}, {one.reason}" for one in self.skipped)])


# Finds the alternatives of a model, or of predictions, from what it is given.
FindAlternatives: TypeAlias = Callable[..., Alternatives]


def asked_alternatives(asked: bool | FindAlternatives, *given: Any) -> Alternatives | None:
    """Alternatives by the function that was asked for, if one was.

    Raises
    ------
    InvalidInputError
        They were asked for by True from a function that cannot fit models.
    """
    if asked is True:
        raise InvalidInputError(
            "alternatives: expected a function such as coupledgp.alternatives; True is for "
            "coupledgp.posterior_report and coupledgp.audit"
        )
    return asked(*given) if asked else None
