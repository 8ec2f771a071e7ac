"""Are chances of classes honest? They are judged against labels drawn from the model."""

from __future__ import annotations

from coupledgp.diagnostics.likelihoods.reliability import Reliability
from coupledgp.diagnostics.scoring.calibration import SURE, SURE_OF_DETAIL
from coupledgp.diagnostics.verdicts.rules import SERIOUS
from coupledgp.diagnostics.verdicts.verdict import HONESTY, Colour, Verdict

# Calibration error beyond chance from which chances are seriously off.
SERIOUS_ERROR = 0.1
RULE = (
    "The calibration error, a recalibration of the logits, a factor on them alone and the share of "
    "each class are each "
    f"beside 2000 draws of labels from the model, and off where {SURE_OF_DETAIL:.2%} of them or "
    f"fewer are as far (recalibration and factor: {SURE:.1%}). Red where the error is "
    f"{SERIOUS_ERROR} beyond chance, or recalibration "
    f"gains {SERIOUS} nats per point."
)


def chances_honesty(found: Reliability) -> Verdict:
    """The verdict on chances."""
    if not found.is_off:
        return _verdict("green", f"Its chances are honest: {found.text()}.", found)
    serious = found.excess > SERIOUS_ERROR or found.recalibration_gain > SERIOUS
    colour: Colour = "red" if serious else "amber"
    return _verdict(colour, f"{fault(found)}: {found.text()}.", found)


def fault(found: Reliability) -> str:
    """How chances are off, in words."""
    if found.is_scale_off:
        if found.slope < 1:
            return f"Its chances are too sure (logits times {found.slope:.2g} fit better)"
        if found.slope > 1 and abs(found.slope - 1) > abs(found.shift):
            return (
                f"Its chances are not sure enough (logits times {found.slope:.2g} fit the labels "
                "better)"
            )
        side = "low" if found.shift > 0 else "high"
        return f"Its chances of {found.event} are too {side}"
    if found.class_p_value <= SURE_OF_DETAIL:
        return (
            f"Class {found.worst_class} has the mean chance {found.worst_class_chance:.3f} and the "
            f"share {found.worst_class_share:.3f}"
        )
    return "Its chances are off"


def _verdict(colour: Colour, sentence: str, found: Reliability) -> Verdict:
    return Verdict(HONESTY, colour, sentence, RULE, found.error, found.error_spread, "share")
