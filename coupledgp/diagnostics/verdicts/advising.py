"""What to do next, the greatest gain first."""

from __future__ import annotations

import numpy as np

from coupledgp.diagnostics.residuals.columns import Carried
from coupledgp.diagnostics.rivals.contest import BesideBaseline
from coupledgp.diagnostics.scoring.scores import nats_text
from coupledgp.diagnostics.verdicts.evidence import Evidence
from coupledgp.diagnostics.verdicts.quality import REFITS, better_flexible, loses, name_of
from coupledgp.diagnostics.verdicts.verdict import LOST, MATTERS, WORSE_RMSE, Advice

# What to do where a baseline is better.
BASELINE_ACTIONS = {
    "nearest": "the model does not use what near observations say: give it distances (positions, a "
    "mesh with FieldGPRegressor, edge weights), a rougher kernel or a local part",
    "linear": "give it a trend (trend='linear'), or more restarts of the search",
    "harmonic": "the kernel is too rough, too smooth or knows no distances: leave the choice of "
    "the kernel to the fit, weight edges by distance, or use FieldGPRegressor on a mesh or roads",
    "position GP": "position says more than the surface does: add the coordinates as inputs",
    "mean": "its signal is not there: look for mistakes in inputs or units, or fit again",
}
# What to do where a flexible rival is better.
FLEXIBLE_ACTIONS = {
    "plain process": "An exact process of one lengthscale, fitted anew, does better: use an exact "
    "process (ExactGPRegressor), or fit this one with more steps or restarts.",
    "same kernel": "The same kernel does better with other hyperparameters: fit again, with more "
    "steps, restarts or rows.",
    "additive kernel": "The function is additive, or nearly so: fit kernel='additive(1)' or "
    "'additive(2)' by ExactGPRegressor or GPRegressor.",
    "boosted trees": "Boosted trees find steps or interactions that the kernel does not: use them, "
    "or GPRegressor, which has trees and a local part among its members.",
}
# Nats per point by which a plain process may be behind another rival that says the same.
NEARLY = 0.03
# What to do where the exact process of another package's model is better.
EXACT_OR_FINER = (
    "Use the exact process of this kernel, or approximate it more closely: more inducing points, "
    "features or neighbours."
)


# Factor on standard deviations below which targets equal predictions to rounding.
NOTHING = 1e-6
# What to do where errors have heavier tails than the law.
TAILS = (
    "Look at the largest residuals: leave mistakes out, or try target_transform='auto'; no scale "
    "of the standard deviations is right for these tails."
)
# How the gain of a correction of residuals is known.
ON_OTHER_ROWS = "measured by a correction that was learned on other rows"
WITHOUT_COLUMN = "measured by a rival without the column"
# Share of a gain that explains another one.
ENOUGH = 1.1
# What to try where near points share errors.
TABLE = (
    "Try a rougher or a smoother kernel, a local part (LocalGPRegressor, GPRegressor), a trend or "
    "other inputs."
)
NETWORK = "Try another kernel, weights of edges that follow distance, or more observations."


def advise(evidence: Evidence, rmse: float | None, own_nlpd: float | None) -> tuple[Advice, ...]:
    """What is known to gain what matters, in nats per point, the greatest gain first.

    Where one kind of cure (the exact process, the right place, a nearby kernel, another scale of
    the standard deviations) gains nearly as much as any of the others, these are left out: the
    faults that they name would go with it.
    """
    if evidence.carried is not None and evidence.carried.gain >= MATTERS:
        return (_without(evidence.carried),)
    mean = next((one for one in evidence.baselines if one.name == "mean"), None)
    if (
        mean is not None
        and rmse is not None
        and rmse > WORSE_RMSE * mean.rmse
        and loses(mean, rmse)
    ):
        # Nothing on deviations or kernels is known of predictions that are elsewhere.
        found = [*_beyond(evidence), *_shift(evidence), *_closing(evidence, own_nlpd)]
        return _sorted([*_refits(evidence), *found, *_of_baseline(mean, rmse)])
    scale = _rescaling(evidence)
    cures = [
        _transform(evidence), _beyond(evidence), _latent(evidence), _closing(evidence, own_nlpd),
        _shift(evidence), _flexible(evidence), _variations(evidence), _patterns(evidence), scale,
    ]  # fmt: skip
    signs = [*_baselines(evidence, rmse), *_misfit(evidence)]
    found = [*signs, *(one for cure in cures for one in cure)]
    if scale and _is_factor(evidence):
        kept = _closing(evidence, own_nlpd)
        found = [one for one in found if one in scale + kept or _is_beyond(one, scale[0])]
        cures = [scale, *([one for one in cure if one in found] for cure in cures)]
    for cure in cures:
        if _explains(cure, found):
            found = cure
            break
    return _sorted([*_refits(evidence), *found])


def _sorted(found: list[Advice]) -> tuple[Advice, ...]:
    """Advice that gains what matters, the greatest gain first."""
    return tuple(sorted((one for one in found if one.gain >= MATTERS), key=lambda one: -one.gain))


def _is_factor(evidence: Evidence) -> bool:
    """Whether another factor on the deviations is what is advised of them."""
    return not (_counts(evidence) or _latent(evidence) or _tails(evidence))


def _is_beyond(one: Advice, factor: Advice) -> bool:
    """Whether advice gains more than another factor on the deviations does, beyond chance."""
    return one.gain - factor.gain > max(LOST * (one.error or 0.0), MATTERS)


def _without(found: Carried) -> Advice:
    """The model without a column whose relation to y is lost; other faults follow from it."""
    action = f"{found.text()}. Leave the column out, or look how it was made."
    return Advice(action, found.gain, found.standard_error, WITHOUT_COLUMN)


def _explains(cure: list[Advice], faults: list[Advice]) -> bool:
    """Whether one advice gains nearly as much as each of some others."""
    gain = max((one.gain for one in cure), default=0.0)
    return bool(cure) and all(one.gain <= ENOUGH * gain for one in faults)


def _refits(evidence: Evidence) -> list[Advice]:
    return [Advice(one.action, one.gain, one.standard_error) for one in evidence.better_refits]


def _variations(evidence: Evidence) -> list[Advice]:
    return [
        Advice(one.action, one.gain, one.standard_error)
        for one in evidence.better_variations[:1]
        if one.is_advised
    ]


def _flexible(evidence: Evidence) -> list[Advice]:
    """What the best of the flexible rivals that win has, and the model lacks.

    A process of the same kernel or a plain one that does nearly as well as the best says that the
    kernel is not at fault; of another the gain is that over these, since it is fitted, too. It is
    not advised where more inducing points do nearly as well as it.
    """
    found = better_flexible(evidence)
    if not found:
        return []
    refitted = max((one.gain for one in evidence.refits), default=0.0)
    if refitted > found[0].gain - NEARLY and evidence.better_refits:
        return []
    refits = [one for one in found if one.name in REFITS]
    best = refits[0] if refits and refits[0].gain > found[0].gain - NEARLY else found[0]
    explained = 0.0
    if best.name not in REFITS:
        explained = max([0.0, *(one.gain for one in evidence.baselines if one.name in REFITS)])
    basis = (
        f"beyond what a new fit gains, {nats_text(explained)}, measured"
        if explained
        else "measured"
    )
    return [Advice(FLEXIBLE_ACTIONS[best.name], best.gain - explained, best.standard_error, basis)]


def _patterns(evidence: Evidence) -> list[Advice]:
    """What patterns of the residuals ask for, each with what its correction gains."""
    return [
        Advice(one.remedy, one.gain, one.standard_error, ON_OTHER_ROWS)
        for one in evidence.findings.found
    ]


def _baselines(evidence: Evidence, rmse: float | None) -> list[Advice]:
    """What the best of the baselines that win has, and the model lacks."""
    lost = [one for one in evidence.baselines if loses(one, rmse)]
    if not lost:
        return []
    return _of_baseline(max(lost, key=lambda one: one.gain), rmse)


def _of_baseline(best: BesideBaseline, rmse: float | None) -> list[Advice]:
    gain, error, basis = best.gain, best.standard_error, "measured"
    if gain <= 0 and rmse is not None:  # it is the RMSE that is worse: the nats of its square
        gain, error, basis = float(np.log(rmse / max(best.rmse, 1e-6 * rmse))), None, "estimated"
    elif "nlpd" not in best.differences:
        basis = "estimated"
    reason = BASELINE_ACTIONS.get(best.name, "look for what it uses and the model does not")
    action = f"{name_of(best).capitalize()} predicts better: {reason}."
    return [Advice(action, gain, error, basis)]


def _rescaling(evidence: Evidence) -> list[Advice]:
    """A factor on all standard deviations, where coverage is off on the whole."""
    found = evidence.calibration
    told = _counts(evidence) or _latent(evidence) or _tails(evidence)
    if told or found is None or found.rescaling_gain < MATTERS:
        return told
    if not (found.is_off or found.is_spread_off):
        return []
    if found.rescaling < NOTHING:  # the targets are the predictions: no scale would do
        return []
    if remedy := evidence.remedies[found.rescaling < 1]:
        return [Advice(remedy, found.rescaling_gain, None, "estimated")]
    if found.tails == "heavier":
        return [Advice(TAILS, found.rescaling_gain, None, "estimated")]
    shapes = evidence.shapes
    how = " (hyperparameters='averaged')" if evidence.is_own else ""
    return [
        Advice(
            f"Multiply its standard deviations by {found.rescaling:.2g}: fit the noise again, on "
            f"rows put aside, or average over hyperparameters{how}.",
            found.rescaling_gain if shapes is None else shapes.scale.gain,
            None,
            "estimated" if shapes is None else ON_OTHER_ROWS,
        )
    ]


def _transform(evidence: Evidence) -> list[Advice]:
    """A transform of the targets, where errors are skewed."""
    found = evidence.transform
    if found is None or found.standard_error is None or found.mean <= LOST * found.standard_error:
        return []
    action = "Its errors are skewed: transform the targets, target_transform='auto'."
    return [Advice(action, found.mean, found.standard_error, "measured by a new fit")]


def _latent(evidence: Evidence) -> list[Advice]:
    """The noise, where variances are those of the function."""
    found = evidence.shapes
    if found is None or not found.is_latent:
        return []
    action = (
        f"Add the noise {found.noise.value:.2g} to its variances: they are those of the function, "
        "not of observations (latent=True says so to an audit)."
    )
    return [Advice(action, found.noise.gain, None, ON_OTHER_ROWS)]


def _beyond(evidence: Evidence) -> list[Advice]:
    """Training rows where test rows lie beyond all of them."""
    reach = evidence.reach
    if reach is None or not reach.is_fault:
        return []
    action = (
        f"{reach.n_beyond} of {reach.n_points} test rows lie beyond the training rows in column "
        f"`{reach.column}`, where the RMSE is {reach.rmse_beyond:.3g} in place of "
        f"{reach.rmse_inside:.3g}: take training rows from there, or predict within them alone."
    )
    return [Advice(action, reach.gain, None, "measured as what rows within have")]


def _counts(evidence: Evidence) -> list[Advice]:
    """A law of counts, where the targets are counts."""
    found = evidence.counts
    if found is None or not found.is_better:
        return []
    action = f"The targets are counts: give them a law of counts, likelihood={found.name!r}."
    return [Advice(action, found.gain, found.lead_error, ON_OTHER_ROWS)]


def _tails(evidence: Evidence) -> list[Advice]:
    """A law of heavy tails, where it is better than a normal one of any scale."""
    found = evidence.shapes
    if found is None or not found.is_heavy:
        return []
    tails = found.tails
    action = (
        f"Give observations heavy tails, those of Student's law of {tails.value:.2g} degrees of "
        "freedom: GPRegressor(noise='varying'), or likelihood='student-t'. Look at the largest "
        "residuals, and leave mistakes out."
    )
    return [Advice(action, tails.gain, tails.lead_error, ON_OTHER_ROWS)]


def _shift(evidence: Evidence) -> list[Advice]:
    """Test rows that differ from training rows; the right place gains half the squared shift."""
    found = evidence.calibration
    if found is None or not found.is_shifted:
        return []
    action = "Look for how test rows differ from training rows (units, period, sensor): {}."
    return [Advice(action.format(found.shift_text), 0.5 * found.shift**2)]


def _closing(evidence: Evidence, own_nlpd: float | None) -> list[Advice]:
    """More features or another coupling, where these were tried, and the exact process."""
    cost, found = evidence.cost, []
    if cost is not None and cost.loss > 0:
        gain, error = float(cost.nlpd["mean"]), cost.nlpd["standard_error"]
        action = "Use the exact process: exact_twin()." if evidence.is_own else EXACT_OR_FINER
        found.append(Advice(action, gain, error))
    for one in evidence.closings:
        if one.nlpd is not None and own_nlpd is not None and one.nlpd < own_nlpd:
            action = f"{one.action} Its KL from the reference is {one.kl_per_point:.2g}."
            found.append(Advice(action, own_nlpd - one.nlpd))
    return found


def _misfit(evidence: Evidence) -> list[Advice]:
    """A guess from the residuals that neighbours share, where no other model was found better."""
    found = evidence.misfit
    if found is None or not found.is_misfit or evidence.better_refits:
        return []
    return [Advice(NETWORK if _is_network(evidence) else TABLE, found.gain, None, "estimated")]


def _is_network(evidence: Evidence) -> bool:
    """Whether points are nodes or places, which have a harmonic function."""
    return any(one.name == "harmonic" for one in evidence.baselines)
