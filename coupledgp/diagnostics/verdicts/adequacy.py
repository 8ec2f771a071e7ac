"""Closeness of an approximation to the exact process of the same hyperparameters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from coupledgp.diagnostics.scoring.scores import nats_text
from coupledgp.diagnostics.verdicts.neighbour_residuals import clear_gap
from coupledgp.diagnostics.verdicts.verdict import (
    ADEQUACY,
    LOST,
    MATTERS,
    SERIOUS,
    TOLD,
    Colour,
    Verdict,
)

# Words for a divergence below a bound, in nats per point. A shift of each prediction by 0.045, 0.14
# and 0.45 of its standard deviation gives 1e-3, 1e-2 and 1e-1.
DISTANCES = (
    (1e-3, "indistinguishable from"),
    (1e-2, "close to"),
    (1e-1, "visibly different from"),
)
# A divergence that is rounding.
SAME = 1e-12
# A difference in nats per point that nobody could use.
NOTHING = 1e-5
OWN_REFERENCE = "Nothing is approximated: the model is its own reference."
MEMBER = "which is the exact process of the mixture's heaviest member only"
RULE = (
    f"Green: the KL with its bounds and two standard errors is below {MATTERS} nats per point and "
    f"the exact process predicts no better by {MATTERS}. Red: the KL is above {SERIOUS}, or the "
    f"exact process predicts better by {SERIOUS}; not for the KL alone where it predicts worse."
)


def adequacy(
    kl: float,
    errors: tuple[float, float, float],
    text: str,
    cost: Cost | None,
    closer: str = "",
    beside_a_member: bool = False,
) -> Verdict:
    """The verdict on an approximation.

    Parameters
    ----------
    kl
        `KL(reference || model)`, nats per point.
    errors
        Distances below and above it within which the true value lies, and its standard error.
    text
        Those in words.
    cost
        How much better the reference predicts; None without targets.
    closer
        What would bring it closer, in words.
    beside_a_member
        The reference is that of one member of a mixture, which the mixture need not be near: its
        predictions alone decide.
    """
    below, above, spread = errors
    least, most = kl - below - 2 * spread, kl + above + 2 * spread
    if beside_a_member:
        least, most = 0.0, 0.0
    if kl + above < SAME:  # an exact process, or the same model
        return Verdict(ADEQUACY, "green", OWN_REFERENCE, RULE)
    distance = next((words for bound, words in DISTANCES if kl < bound), "far from")
    detail = f"KL {kl:.3g} nats per point {text}".strip() + closer
    sentence = f"The posterior is {distance} the reference{shift(kl)}"
    if cost is not None:
        sentence += f"; {cost.text()}"
        detail += f"; {cost.amount}" if cost.amount else ""
    if beside_a_member:
        sentence = sentence.replace("the reference", f"the reference, {MEMBER},", 1)
    loss = 0.0 if cost is None else cost.loss
    colour: Colour = "green"
    if loss > MATTERS or most >= MATTERS:
        colour = "amber"
    if loss > SERIOUS or (least > SERIOUS and not (cost is not None and cost.is_gain)):
        colour = "red"
    return Verdict(ADEQUACY, colour, f"{sentence}.", RULE, kl, spread or None, detail=f"{detail}.")


@dataclass(frozen=True)
class Cost:
    """How much better a reference predicts.

    Attributes
    ----------
    nlpd : dict
        Paired difference of the NLPD, model minus reference: its mean and standard error.
    bound : float
        Bound on the error of that mean.
    rmse_ratio : float or None
        RMSE of the model over that of the reference.
    squared_error : dict or None
        Paired difference of the squared errors.
    """

    nlpd: dict[str, Any]
    bound: float = 0.0
    rmse_ratio: float | None = None
    squared_error: dict[str, Any] | None = None

    @property
    def loss(self) -> float:
        """Nats per point by which the reference predicts better, zero where that may be chance."""
        if not clear_gap(self.nlpd, LOST):
            return 0.0
        return max(float(self.nlpd["mean"]) - self.bound, 0.0)

    @property
    def is_gain(self) -> bool:
        """Whether the model predicts better than the reference."""
        reverse = {"mean": -self.nlpd["mean"], "standard_error": self.nlpd["standard_error"]}
        return clear_gap(reverse, LOST)

    def text(self) -> str:
        """Whether the reference would predict better, in words."""
        mean, error = self.nlpd["mean"], self.nlpd["standard_error"]
        if error is None:
            return "one point does not say which of them predicts better"
        if abs(mean) <= max(TOLD * error, NOTHING):
            return "the reference would not predict better"
        found = f"the reference predicts {'better' if mean > 0 else 'worse'}"
        little = ", by little" if abs(mean) < MATTERS else ""
        return found + little + self._rmse_text()

    @property
    def amount(self) -> str:
        """The difference of the NLPD with its error; empty for a single point."""
        mean, error = self.nlpd["mean"], self.nlpd["standard_error"]
        if error is None:
            return ""
        return f"NLPD {nats_text(mean, error, '+.2g')} nats per point above the reference"

    def _rmse_text(self) -> str:
        """The difference of the RMSE, where it is beyond chance."""
        gap, ratio = self.squared_error, self.rmse_ratio
        if gap is None or ratio is None or gap["standard_error"] is None or abs(ratio - 1) < 5e-4:
            return ""
        if abs(gap["mean"]) <= TOLD * gap["standard_error"]:
            return ""
        if ratio > 2:
            return f", and the RMSE is {ratio:.2g} times its"
        kind = "larger" if ratio > 1 else "smaller"
        return f", and the RMSE is {100 * abs(ratio - 1):.2g} % {kind} than its"


def shift(kl: float) -> str:
    """Express a divergence as a shift of the means: z standard deviations give `z^2 / 2` nats."""
    if kl < SAME:
        return ""
    return f", as if each prediction were off by {(2 * kl) ** 0.5:.2g} of its standard deviation"
