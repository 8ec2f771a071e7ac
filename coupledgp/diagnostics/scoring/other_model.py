"""Other models as a report compares them with its own."""

from __future__ import annotations

from dataclasses import dataclass

from coupledgp.diagnostics.scoring.scores import nats_text


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
    >>> from coupledgp.diagnostics.scoring.other_model import Alternative
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
