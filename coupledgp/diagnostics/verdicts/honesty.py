"""Are the intervals honest? They are judged against draws of the model's own joint law."""

from __future__ import annotations

from collections.abc import Sequence

from coupledgp.diagnostics.residuals.findings import Finding
from coupledgp.diagnostics.scoring.calibration import FAR, SURE, SURE_OF_DETAIL, Calibration
from coupledgp.diagnostics.verdicts.rules import SERIOUS, SERIOUS_SHARE, SERIOUS_TAIL
from coupledgp.diagnostics.verdicts.verdict import HONESTY, Colour, Verdict

RULE = (
    "Coverage of 50, 80 and 95 % intervals, the worst group and the shape (PIT) are each beside "
    f"2000 draws of the joint law, and off where {SURE:.0%} of them or fewer are as far (group and "
    f"shape: {SURE_OF_DETAIL:.1%}), or coverage by more than {FAR:.0f} standard errors. Red where "
    f"intervals hold {SERIOUS_SHARE:.0%} too few targets, the 95 % ones {SERIOUS_TAIL:.0%}, or "
    f"another scale of the standard deviations gains {SERIOUS} nats per point."
)


def honesty(
    found: Calibration, width: float | None = None, spreads: Sequence[Finding] = ()
) -> Verdict:
    """The verdict on intervals.

    Parameters
    ----------
    found
        Coverage and transforms.
    width
        Mean width of the 95 % intervals, in units of y.
    spreads
        Patterns of the size of residuals along columns, the greatest gain first.
    """
    level = found.worst_level
    gap, error = found.coverage[level] - level, found.standard_error[level]
    if spreads:
        return _uneven(found, spreads[0])
    if found.is_off:
        colour: Colour = "red" if is_serious(found) else "amber"
        return _verdict(colour, f"{_kind(found)}: {found.text()}.", gap, error)
    worst = found.worst_group
    if found.is_group_off and worst is not None:
        sentence = f"Its intervals are honest on the whole but not everywhere: {worst.text()}."
        return _verdict("amber", sentence, worst.share - worst.level, worst.standard_error)
    if found.is_shape_off:
        place = f", {found.shift_text}" if found.is_shifted else ""
        sentence = (
            f"Its intervals hold the right shares, but its law is off in shape or place{place}: "
            f"transforms are {found.pit_distance:.2g} from uniform (PIT, p = "
            f"{found.pit_p_value:.1g})."
        )
        return _verdict("amber", sentence, found.pit_distance, None, "distance of PIT")
    wide = "" if width is None else f"; those of 95 % are {width:.3g} units of y wide on average"
    return _verdict("green", f"Its intervals are honest: {found.text()}{wide}.", gap, error)


def _uneven(found: Calibration, best: Finding) -> Verdict:
    """The verdict where the size of errors has a pattern along a column."""
    off = found.is_off
    whole = f"not honest ({found.text()})" if off else "honest on the whole but not everywhere"
    return _verdict(
        "red" if best.gain > SERIOUS or (off and is_serious(found)) else "amber",
        f"Its intervals are {whole}: {best.text[:1].lower()}{best.text[1:]}; knowing it gains "
        f"{best.gain:.2g} nats per point.",
        best.gain,
        best.standard_error,
        "nats per point",
    )


def _kind(found: Calibration) -> str:
    """How intervals are off, in words."""
    if found.is_shifted:
        return f"Its law is off in place, {found.shift_text}"
    if found.tails:
        return f"Its errors have {found.tails} tails than its law"
    worst = found.off(found.worst_level)
    return f"Its intervals are too {'narrow' if worst < 0 else 'wide'}"


def is_serious(found: Calibration) -> bool:
    """Whether intervals hold far too few targets, or are on the wrong scale."""
    last = max(found.coverage)
    lacking = max(level - share for level, share in found.coverage.items())
    short = last - found.coverage[last] > SERIOUS_TAIL
    return lacking > SERIOUS_SHARE or short or found.rescaling_gain > SERIOUS


def _verdict(
    colour: Colour, sentence: str, figure: float, error: float | None, unit: str = "share"
) -> Verdict:
    return Verdict(HONESTY, colour, sentence, RULE, figure, error, unit)
