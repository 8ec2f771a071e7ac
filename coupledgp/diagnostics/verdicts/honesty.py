"""Are the intervals honest? They are judged against draws of the model's own joint law."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from coupledgp.diagnostics.residuals.counts import CountLaw
from coupledgp.diagnostics.residuals.findings import Finding
from coupledgp.diagnostics.residuals.shapes import Shapes
from coupledgp.diagnostics.scoring.calibration import SURE, SURE_OF_DETAIL, Calibration
from coupledgp.diagnostics.scoring.scores import nats_text
from coupledgp.diagnostics.verdicts.verdict import (
    HONESTY,
    MATTERS,
    SERIOUS,
    SERIOUS_SHARE,
    SERIOUS_TAIL,
    Colour,
    Verdict,
    narrower,
)

RULE = (
    "Coverage, the worst group, the shape (PIT) and the mean squared residual are each beside 2000 "
    f"draws of the joint law, and off where {SURE_OF_DETAIL:.1%} of them or fewer are as far "
    f"(mean square: {SURE:.1%}). A spread is off by {MATTERS} nats per point at least. "
    "Residuals whitened by the stated covariance are beside independent ones. Red where intervals "
    "hold "
    f"{SERIOUS_SHARE:.0%} too few targets, the 95 % ones {SERIOUS_TAIL:.0%}, or another scale of "
    f"the standard deviations gains {SERIOUS} nats per point."
)


def honesty(
    found: Calibration,
    widths: Mapping[float, float] | None = None,
    spreads: Sequence[Finding] = (),
    shapes: Shapes | None = None,
    counts: CountLaw | None = None,
) -> Verdict:
    """The verdict on intervals.

    Parameters
    ----------
    found
        Coverage and transforms.
    widths
        Mean widths of the intervals by nominal level, in units of y.
    spreads
        Patterns of the size of residuals along columns, the greatest gain first.
    shapes
        What another scale, added noise and heavier tails gain.
    counts
        What a law of counts gains.
    """
    level = found.worst_level
    gap, error = found.coverage[level] - level, found.standard_error[level]
    if counts is not None and counts.is_better:
        return _of_counts(counts)
    is_scale_off = found.is_off or found.is_spread_off
    if spreads and not (is_scale_off and found.rescaling_gain > spreads[0].gain):
        return _uneven(found, spreads[0])
    if shapes is not None and shapes.is_tails_alone:
        return _of_tails(found, shapes)
    if found.is_off:
        colour: Colour = "red" if is_serious(found) else "amber"
        return _verdict(colour, f"{_kind(found)}: {found.text()}.", gap, error)
    if found.is_spread_off and found.rescaling_gain > MATTERS:
        return _of_spread(found)
    if shapes is not None and shapes.is_heavy:
        return _of_tails(found, shapes)
    joint = "" if found.whitened is None else found.whitened.fault(MATTERS)
    if joint:
        return _of_joint(found, joint)
    worst = found.worst_group
    if found.is_group_off and worst is not None:
        sentence = f"Its intervals are honest on the whole but not everywhere: {worst.text()}."
        return _verdict("amber", sentence, worst.share - worst.level, worst.standard_error)
    if found.is_shape_off or (found.is_place_off and 0.5 * found.shift**2 > MATTERS):
        place = f", {found.shift_text}" if found.is_place_off else ""
        sentence = (
            f"Its intervals hold the right shares, but its law is off in shape or place{place}: "
            f"transforms are {found.pit_distance:.2g} from uniform (PIT, p = "
            f"{found.pit_p_value:.1g})."
        )
        return _verdict("amber", sentence, found.pit_distance, None, "distance of PIT")
    last = max(widths, default=0.0) if widths else 0.0
    wide = (
        f"; those of {100 * last:.3g} % are {widths[last]:.3g} units of y wide on average"
        if widths
        else ""
    )
    return _verdict("green", f"Its intervals are honest: {found.text()}{wide}.", gap, error)


def _of_counts(counts: CountLaw) -> Verdict:
    """The verdict where targets are counts and the law is one of real numbers."""
    law = "Poisson's law" if counts.excess == 0.0 else "a negative binomial law"
    return _verdict(
        "red" if counts.gain > SERIOUS else "amber",
        f"Its law is one of real numbers, but the targets are counts: {law} of its means is worth "
        f"{narrower(counts.gain)}.",
        counts.gain, counts.lead_error, "nats per point", _nats(counts.gain),
    )  # fmt: skip


def _of_tails(found: Calibration, shapes: Shapes) -> Verdict:
    """The verdict where Student's law is better than any normal one of this scale."""
    tails = shapes.tails
    serious = tails.gain > SERIOUS or (found.is_off and is_serious(found))
    return _verdict(
        "red" if serious else "amber",
        f"Its errors have heavier tails than its law: Student's law of {tails.value:.2g} degrees "
        f"of freedom is worth {narrower(tails.gain)} ({found.text()}).",
        tails.gain,
        tails.lead_error,
        "nats per point",
        _nats(tails.gain),
    )


def _uneven(found: Calibration, best: Finding) -> Verdict:
    """The verdict where the size of errors has a pattern along a column."""
    off = found.is_off
    whole = f"not honest ({found.text()})" if off else "honest on the whole but not everywhere"
    return _verdict(
        "red" if best.gain > SERIOUS or (off and is_serious(found)) else "amber",
        f"Its intervals are {whole}: {best.text[:1].lower()}{best.text[1:]}; knowing it is worth "
        f"{narrower(best.gain)}.",
        best.gain,
        best.standard_error,
        "nats per point",
        _nats(best.gain),
    )


def _of_spread(found: Calibration) -> Verdict:
    """The verdict where squared residuals are off on the whole, which shares do not show."""
    colour: Colour = "red" if is_serious(found) else "amber"
    detail, unit = _nats(found.rescaling_gain), "standard deviations"
    if found.is_shifted:  # squares are large for their mean
        sentence = f"{_kind(found)}: {found.text()}."
        return _verdict(colour, sentence, found.shift, None, unit, detail)
    size = "small" if found.rescaling > 1 else "large"
    sentence = (
        f"Its standard deviations are too {size}: residuals have a root mean square of "
        f"{found.rescaling:.3g} of them (p = {found.spread_p_value:.1g})."
    )
    return _verdict(colour, sentence, found.rescaling, None, unit, detail)


def _of_joint(found: Calibration, fault: str) -> Verdict:
    """The verdict where the joint law is off, as residuals show that are whitened by it."""
    assert found.whitened is not None
    lost = found.whitened.expected_gain - found.whitened.joint_gain
    serious = max(found.whitened.rescaling_gain, lost) > SERIOUS
    shares = "" if found.is_group_off or found.is_shape_off else ", which intervals do not show"
    sentence = f"Its joint law is off{shares}: {fault}."
    return _verdict("red" if serious else "amber", sentence, found.whitened.rescaling, None,
                    "standard deviations")  # fmt: skip


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


def _nats(gain: float) -> str:
    """What curing it gains, for the fold of a page."""
    return f"It costs {nats_text(gain, form='.2g')} nats per point."


def _verdict(
    colour: Colour,
    sentence: str,
    figure: float,
    error: float | None,
    unit: str = "share",
    detail: str = "",
) -> Verdict:
    return Verdict(HONESTY, colour, sentence, RULE, figure, error, unit, detail)
