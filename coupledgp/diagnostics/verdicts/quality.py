"""Is the model good? It is judged against what its user would pick instead."""

from __future__ import annotations

from typing import Any

from coupledgp.diagnostics.residuals.findings import Finding
from coupledgp.diagnostics.rivals.contest import BesideBaseline
from coupledgp.diagnostics.scoring.figures import Alternative
from coupledgp.diagnostics.scoring.scores import nats_text
from coupledgp.diagnostics.verdicts.evidence import Evidence
from coupledgp.diagnostics.verdicts.neighbour_residuals import Gaining, clear_gap, is_better
from coupledgp.diagnostics.verdicts.verdict import (
    EVIDENCE,
    HINTED,
    LOST,
    MATTERS,
    QUALITY,
    SERIOUS,
    TOLD,
    WORSE_RMSE,
    Colour,
    Verdict,
    narrower,
)

# Names of the baselines in sentences.
NAMES = {
    "mean": "the mean of the known targets",
    "nearest": "the nearest observation",
    "linear": "a linear model",
    "harmonic": "harmonic interpolation",
    "position GP": "a GP of the positions",
    "plain process": "an exact process of one lengthscale",
    "same kernel": "the same kernel, fitted anew",
    "additive kernel": "a process of functions of single columns and pairs",
    "boosted trees": "boosted trees",
}
# Rivals that are fitted as a model is: a loss to one is judged by its size. The first two are what
# a fit gains, whatever the model.
REFITS = ("plain process", "same kernel")
FLEXIBLE = (*REFITS, "additive kernel", "boosted trees")
# Baselines that ask for no fit worth the name: to lose to one is a red verdict.
LINEAR = "Better than a linear model?"
LINEAR_DOES = "A linear model does as well as it"
NOT_THE_BEST = "Its kernel or its fit is not the best"
CARRIED = (
    "By itself the column explains half of the variance of the training targets; at the test rows "
    f"its correlation is half as large or less, and a rival without it gains {MATTERS} nats per "
    f"point (red: {SERIOUS})."
)
NO_SIGN = "Beside the baselines, no sign of structure that it misses."


def quality(evidence: Evidence, rmse: float | None) -> Verdict:
    """The verdict on predictions.

    Red: a baseline is clearly better in NLPD or in RMSE, or another model or a nearby kernel by a
    tenth of a nat. Amber: those by a hundredth, it is clearly no better than the mean, or the
    residuals of neighbours go together. Grey: too few points to tell.
    """
    if evidence.carried is not None and evidence.carried.gain > MATTERS:
        return _beaten(evidence.carried, f"{evidence.carried.text()}.", CARRIED)
    lost = [one for one in evidence.baselines if loses(one, rmse)]
    if lost:
        return _lost(max(lost, key=lambda one: one.gain), rmse, evidence.rmse_is)
    flexible = better_flexible(evidence)
    best = _strongest_refit(evidence)
    if best is not None:
        return best
    if flexible:
        return _beaten_by_flexible(flexible[0])
    nearby = _better_variation(evidence)
    if nearby is not None:
        return nearby
    patterns = evidence.findings_on("mean")
    if patterns:
        return _patterned(patterns, evidence.findings.n_looks)
    if evidence.misfit is not None and evidence.misfit.is_misfit:
        return _misfit(evidence)
    if not evidence.baselines:
        return Verdict(QUALITY, "grey", "There is no baseline to judge it by.", "No baseline.")
    return _beside_the_baselines(evidence.baselines, rmse, evidence.rmse_is)


def loses(one: BesideBaseline, rmse: float | None) -> bool:
    """Whether a baseline is better, beyond chance and by an amount that matters."""
    if one.name in FLEXIBLE:
        return False
    if is_better(one, LOST):
        return True
    larger = rmse is not None and rmse > WORSE_RMSE * one.rmse
    gap = one.differences.get("squared_error")  # quantiles state no mean
    return larger and gap is not None and clear_gap(gap, LOST)


def better_flexible(evidence: Evidence) -> list[BesideBaseline]:
    """Flexible rivals that are better beyond chance, by an amount that matters; the best first."""
    found = [one for one in evidence.baselines if one.name in FLEXIBLE and is_better(one, LOST)]
    return sorted(found, key=lambda one: -one.gain)


def _beaten_by_flexible(best: BesideBaseline) -> Verdict:
    return _beaten(
        best,
        "Another kind of model, fitted to the same rows, predicts better: "
        f"{name_of(best)}, worth {narrower(best.gain)}.",
        f"A plain or additive process or boosted trees are better by more than {LOST} standard "
        "errors and "
        f"{MATTERS} nats per point (red: {SERIOUS}).",
    )


def _lost(one: BesideBaseline, rmse: float | None, rmse_is: str) -> Verdict:
    by_density = is_better(one, LOST)
    amount = f", worth {narrower(one.gain)}"
    if rmse is not None and not by_density:
        amount = f": {rmse_is} {rmse:.3g} against {one.rmse:.3g}"
    return Verdict(
        QUALITY,
        "red",
        f"{name_of(one).capitalize()} predicts better than this model{amount}.",
        f"A baseline is better by more than {LOST} standard errors, and by {MATTERS} nats per "
        f"point or one per cent of the RMSE.",
        one.gain if by_density else rmse,
        one.standard_error if by_density else None,
        one.unit if by_density else "units of y",
        f"It gains {gap_text(one)} {one.unit}." if by_density else "",
    )


def _strongest_refit(evidence: Evidence) -> Verdict | None:
    """The verdict where another model is better."""
    clear = evidence.better_refits
    if not clear:
        return None
    best = max(clear, key=lambda one: one.gain)
    return _beaten(
        best,
        f"Another model predicts better: {best.name}, worth {narrower(best.gain)}.",
        f"Of {len(evidence.refits)} refits one is better beyond chance by "
        f"{MATTERS} nats per point (red: {SERIOUS}).",
    )


def _better_variation(evidence: Evidence) -> Verdict | None:
    """The verdict where a nearby kernel is better."""
    clear = evidence.better_variations
    if not clear:
        return None
    best = max(clear, key=lambda one: one.gain)
    fault = "Its kernel is stationary, the function is not" if best.remedy else NOT_THE_BEST
    return _beaten(
        best,
        f"{fault}: {best.name} and no other change is worth {narrower(best.gain)}.",
        f"A nearby kernel has a log evidence higher by {EVIDENCE} nats, and predicts better by "
        f"{MATTERS} nats per point (red: {SERIOUS}) and {HINTED if best.remedy else TOLD} standard "
        "errors.",
        f" The log evidence of {best.n_rows} rows is higher by {best.evidence_gain:.3g}.",
    )


def _beaten(best: Any, sentence: str, reason: str, more: str = "") -> Verdict:
    """The verdict where something with a `gain` and its `standard_error` is better."""
    colour: Colour = "red" if best.gain > SERIOUS else "amber"
    unit = getattr(best, "unit", "nats per point")  # laws without density have a CRPS
    detail = f"It gains {gap_text(best)} {unit}.{more}"
    return Verdict(QUALITY, colour, sentence, reason, best.gain, best.standard_error, detail=detail)


def _patterned(found: list[Finding], n_looks: int) -> Verdict:
    """The verdict where residuals have a pattern along a column."""
    best = found[0]
    more = f" {found[1].text}." if len(found) > 1 else ""
    return _beaten(
        best,
        f"It misses what its residuals still show. {best.text}; correcting for it is worth "
        f"{narrower(best.gain)}.{more}",
        f"Of {n_looks} looks at residuals along columns one is beyond 995 of 1000 draws of the "
        f"model's own law, and gains {MATTERS} nats per point (red: {SERIOUS}) on rows put aside.",
    )


def _misfit(evidence: Evidence) -> Verdict:
    found = evidence.misfit
    assert found is not None
    return Verdict(
        QUALITY,
        "amber",
        f"Its kernel misses structure that near points share: residuals of neighbours correlate by "
        f"{found.value:.2g}, a true model's by {found.expected:.2g} ± {found.standard_error:.1g}.",
        "Moran's I of the standardised residuals is above that of 997 in 1000 draws of the model's "
        "own joint law, by what is worth a hundredth of a nat per point.",
        found.value - found.expected,
        found.standard_error,
        "correlation",
    )


def _beside_the_baselines(
    baselines: tuple[BesideBaseline, ...], rmse: float | None, rmse_is: str
) -> Verdict:
    """The verdict on a model that no rival beats, in units of y first."""
    mean = next((one for one in baselines if one.name == "mean"), baselines[0])
    if mean.standard_error is None:
        return Verdict(
            QUALITY, "grey", "One point does not say whether it is good.", "One test point."
        )
    if not _gains(mean):
        return _no_better(mean)
    least = max(baselines, key=lambda one: one.gain)
    gains = f"{_beside(least)}."
    if _gains(least):
        sentence = (
            f"It predicts better than every simple baseline, the best of them {name_of(least)}."
        )
    else:
        sentence = (
            f"It predicts better than {name_of(mean)}, and {name_of(least)} does as well as it."
        )
        gains = f"{_beside(least)}. {_beside(mean)}."
    if rmse is not None:
        sentence += (
            f" It is typically off by {rmse:.3g} ({rmse_is}), {name_of(least)} by {least.rmse:.3g}."
        )
    linear = next((one for one in baselines if one.name == "linear"), None)
    if linear is not None and linear is not least and not _gains(linear):
        sentence += f" {LINEAR_DOES}."
        gains += f" {_beside(linear)}."
    return Verdict(
        QUALITY,
        "green",
        sentence,
        f"No baseline is better, and it is better than the mean by more than {TOLD} standard "
        f"errors. {NO_SIGN}",
        -least.gain,
        least.standard_error,
        detail=gains,
    )


def _no_better(mean: BesideBaseline) -> Verdict:
    most = TOLD * (mean.standard_error or 0.0) - mean.gain
    sure = most < 2 * MATTERS
    return Verdict(
        QUALITY,
        "amber" if sure else "grey",
        f"It predicts no better than {name_of(mean)}."
        if sure
        else f"The test points do not tell whether it predicts better than {name_of(mean)}.",
        f"Its advantage over the mean is below {2 * MATTERS} nats per point with its error "
        "(amber), or not known to be above zero (grey).",
        -mean.gain,
        mean.standard_error,
        detail=f"{_beside(mean)}.",
    )


def linear_badge(evidence: Evidence, rmse: float | None) -> Verdict | None:
    """Whether the model is better than a linear one; None where there is none."""
    one = next((one for one in evidence.baselines if one.name == "linear"), None)
    if one is None or one.standard_error is None:
        return None
    off = ""
    if rmse is not None:
        off = f": {evidence.rmse_is} {rmse:.3g}, the linear one's {one.rmse:.3g}"
    colour: Colour = "amber"
    answer = "No, a linear model does as well"
    if loses(one, rmse):
        colour, answer = "red", "No, a linear model is better"
    elif _gains(one):
        colour, answer = "green", "Yes"
    return Verdict(
        LINEAR,
        colour,
        f"{answer}{off}.",
        f"Yes: it is better by more than {TOLD} standard errors. Red: a linear model is, by "
        f"{LOST} of them and {MATTERS} nats per point, or by one per cent of the RMSE.",
        -one.gain,
        one.standard_error,
        detail=f"{_beside(one)}.",
    )


def _gains(one: BesideBaseline) -> bool:
    """Whether the model is clearly better than a baseline."""
    return one.standard_error is not None and -one.gain > TOLD * one.standard_error


def name_of(one: BesideBaseline) -> str:
    """Name of a baseline in a sentence."""
    return NAMES.get(one.name, one.name)


def as_alternative(one: BesideBaseline) -> Alternative:
    """A baseline as one of the models that could be picked instead; it takes no time."""
    return Alternative(name_of(one), "", one.gain, one.standard_error, one.rmse, one.nlpd, 0.0)


def _beside(one: BesideBaseline) -> str:
    """A sentence, without its full stop, of how much the model gains or loses beside another."""
    verb, to = ("gains", "over") if one.gain <= 0 else ("loses", "to")
    return f"It {verb} {gap_text(one)} {one.unit} {to} {name_of(one)}"


def gap_text(one: Gaining) -> str:
    """Amount of a gain, or of a loss, with its standard error."""
    return nats_text(abs(one.gain), one.standard_error)
