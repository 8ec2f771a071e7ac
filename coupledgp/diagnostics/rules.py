"""Rules of a report: what of its tables is a fault, and what to do next.

A rule fires on a figure that is beyond chance and matters, MATTERS nats per point at least (amber;
red from SERIOUS). Thresholds of looks, cures and nearby kernels stand beside these in `checks`.

| rule | statistic, null | fires at |
|---|---|---|
| baseline | paired NLPD of a simple rival, or log CRPS | > max(2.5 se, .01), or RMSE > 1.01 x and 2.5 se |
| flexible rival | the same | > max(2.5 se, .01) |
| the mean | the same | lead + 2 se < .02: amber, else grey; green from 2 se |
| neighbours | Moran's I, draws of the joint distribution | p <= .003, gain > .01 |
| coverage | largest of (share - level) / se | p <= .001 |
| scale | sum of squared residuals | p <= .003, gain > .01 |
| joint law | whitened residuals | .003, .001 x 3 |
| worst group, shape, place | largest over groups; Kolmogorov distance; mean | p <= .001 |
| classes | slope and shift; calibration error; worst class | .003, .001, .001 |
| closeness | KL(exact || model) with bounds and 2 se; paired NLPD | .01; red from .1 |
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from scipy.spatial import cKDTree

from coupledgp.core.column_moments import column_spread
from coupledgp.core.dense_evidence import in_lengthscales
from coupledgp.diagnostics.calibration.coverage import SURE, SURE_OF_DETAIL, residuals_of
from coupledgp.diagnostics.checks import RULES as CHECKS
from coupledgp.diagnostics.checks.residuals import (
    Neighbours,
    exchanged_neighbours,
    nearest_by_prior,
    neighbours,
)
from coupledgp.diagnostics.checks.shapes import cures_of
from coupledgp.diagnostics.distance.divergences import joint_of
from coupledgp.diagnostics.laws import Chances, Draws, Observed
from coupledgp.diagnostics.remedies import RULES as REMEDIES
from coupledgp.diagnostics.render.tables import (
    amount,
    count,
    number,
    p_text,
    per_cent,
    with_error,
    worth,
)
from coupledgp.diagnostics.tables import (
    AMBER,
    BETTER,
    CLOSE,
    FEWEST,
    GREEN,
    GREY,
    HONEST,
    LOST,
    MATTERS,
    QUESTIONS,
    RED,
    SERIOUS,
    TOLD,
    Check,
    Rival,
    Rule,
    Tables,
    Verdict,
)
from coupledgp.errors import MemoryLimitError, NumericalError
from coupledgp.random import IntArray

# Ratio of the RMSE to a rival's from which copying the rival is better.
WORSE_RMSE = 1.01
# Intervals are seriously off that hold this share too few at any level, or at the widest.
SERIOUS_SHARE, SERIOUS_TAIL = 0.10, 0.05
# Mean standardised residual from which test rows differ from training rows.
SHIFTED = 0.3
# Share of right distributions whose neighbours are called correlated, and fewest points.
ALARM, MIN_NEIGHBOURS, MOST_NEIGHBOURS = 0.003, 10, 1000
# Calibration error beyond chance from which chances are seriously off.
SERIOUS_ERROR = 0.1
# Nats per point by which a plain process may be behind another rival that says the same.
NEARLY = 0.03
# Rivals that say what a new fit gains, whatever the model.
REFITS = ("plain process", "same kernel")
# A divergence that is rounding, and a difference that nobody could use.
SAME, NOTHING = 1e-12, 1e-5
# Test rows for each training row among them above which verdicts stand.
OVERLAP = 20
# Hyperparameters per row above which rows that are left out flatter a model.
MANY = 0.05
# Share of a gain that explains another one.
ENOUGH = 1.1
DISTANCES = (
    (1e-3, "indistinguishable from"),
    (1e-2, "close to"),
    (1e-1, "visibly different from"),
)
TABLE = (
    "Try a rougher or a smoother kernel, a local part (LocalGPRegressor, GPRegressor), a trend or "
    "other inputs."
)
NETWORK = "Try another kernel, weights of edges that follow distance, or more observations."
COUNTS = (
    "Counts vary more than their law says: take a negative binomial law in place of Poisson's, or "
    "inputs and kernels that tell more.",
    "Counts vary less than their law says, which no law of more dispersion mends: compare "
    "GPRegressor, whose normal law is rounded.",
)
OBSERVED = (
    "Observations vary more than their law says: take a law of heavier tails, or another kernel.",
    "Observations vary less than their law says: take a law of lighter tails.",
)
TAILS = (
    "Look at the largest residuals: leave mistakes out, or try target_transform='auto'; no scale "
    "of the standard deviations is right for these tails."
)


def fault_colour(gain: float) -> str:
    """Amber, or red where a gain is serious."""
    return RED if gain > SERIOUS else AMBER


def in_errors(gain: float, error: float) -> float:
    """A gain in standard errors; NaN without an error, as of a rival with the model's own law."""
    return float(gain / error) if error else np.nan


def loses(t: Tables, rival: Rival) -> bool:
    """Whether a simple rival is better, beyond chance and by an amount that matters."""
    found = t.gain(rival.name)
    if found is None:
        return False
    if found.gain > max(LOST * found.error, MATTERS):
        return True
    squares = t.figure("gains", rival=rival.name, part="", metric="rmse")
    return _worse_rmse(t, rival) and squares is not None and squares.gain > LOST * squares.error


def _worse_rmse(t: Tables, rival: Rival) -> bool:
    own, other = (t.figure("scores", model=name, part="", group="", metric="rmse")
                  for name in (t.predictions.name, rival.name))  # fmt: skip
    return own is not None and other is not None and own.value > WORSE_RMSE * other.value


def baseline(t: Tables) -> list[Check]:
    """Simple rivals, the best one first: to lose to one is a red verdict."""
    simple = [one for one in t.rivals if one.kind == "simple" and t.gain(one.name) is not None]
    simple.sort(key=lambda one: -float(t.gain(one.name).gain))
    lost = [one for one in simple if loses(t, one)]
    return [_of_baseline(t, one, one in lost, one in lost[:1]) for one in simple]


def _of_baseline(t: Tables, rival: Rival, lost: bool, is_best: bool) -> Check:
    found, name = t.gain(rival.name), rival.uses or rival.name
    gain, error, basis = found.gain, found.error, "paired"
    own, other = (t.figure("scores", model=one, part="", group="", metric="rmse")
                  for one in (t.predictions.name, rival.name))  # fmt: skip
    if not lost:
        sentence = f"{_start(name)} predicts no better: {with_error(gain, error, sign=True)} nats."
        return Check(BETTER, "baseline", GREEN, sentence, column=rival.name,
                     statistic=in_errors(gain, error), limit=LOST, gain=gain, gain_error=error,
                     basis=basis)  # fmt: skip
    amount_of = worth(gain, isinstance(t.predictions.law, Chances))
    if (
        gain <= max(LOST * error, MATTERS) and own is not None and other is not None
    ):  # it is the RMSE that is worse
        amount_of = f"RMSE {amount(own.value, own.unit)} against {amount(other.value, own.unit)}"
        if gain <= 0:
            ratio = own.value / max(other.value, 1e-6 * own.value)
            gain, error, basis = float(np.log(ratio)), np.nan, "estimated"
    sentence = f"{_start(name)} predicts better than this model ({amount_of})."
    return Check(BETTER, "baseline", RED, sentence, True, rival.name,
                 in_errors(found.gain, found.error), limit=LOST, gain=gain, gain_error=error,
                 basis=basis, remedy=rival.remedy if is_best else "")  # fmt: skip


def flexible(t: Tables) -> list[Check]:
    """Rivals that are fitted as the model is: a loss to one is judged by its size.

    A process of the same kernel or a plain one that does nearly as well as the best says that the
    kernel is not at fault; the gain of another one is that over these, since it is fitted, too.
    """
    every = [(one, t.gain(one.name)) for one in t.rivals if one.kind == "flexible"]
    known = [(one, found) for one, found in every if found is not None]
    better = [pair for pair in known if pair[1].gain > max(LOST * pair[1].error, MATTERS)]
    better.sort(key=lambda pair: -pair[1].gain)
    refits = [pair for pair in better if pair[0].name in REFITS]
    best = better[0] if better else None
    if best is not None and refits and refits[0][1].gain > best[1].gain - NEARLY:
        best = refits[0]
    explained = 0.0
    if best is not None and best[0].name not in REFITS:
        explained = max([0.0, *(found.gain for one, found in known if one.name in REFITS)])
    checks = []
    for one, found in known:
        fired, name = (one, found) in better, one.uses or one.name
        gain = found.gain - (explained if best is not None and one is best[0] else 0.0)
        beyond = f", {number(explained)} of it by a new fit" if gain < found.gain else ""
        checks.append(Check(
            BETTER, "flexible rival", fault_colour(found.gain) if fired else GREEN,
            f"{_start(name)}, fitted to the same rows, predicts "
            f"{'better' if fired else 'no better'}: {with_error(found.gain, found.error, True)} "
            f"nats per point{beyond}.",
            fired, one.name, in_errors(found.gain, found.error), limit=LOST, gain=gain,
            gain_error=found.error, basis="paired",
            remedy=one.remedy if fired and best is not None and one is best[0] else "",
        ))  # fmt: skip
    return sorted(checks, key=lambda one: -one.gain)


def the_mean(t: Tables) -> list[Check]:
    """Whether the model is better than the mean: green from two standard errors."""
    rival = next((one for one in t.rivals if one.name in ("mean", "shares")), None)
    rival = rival or next((one for one in t.rivals if one.kind == "simple"), None)
    found = None if rival is None else t.gain(rival.name)
    if rival is None or found is None:
        reason = "There is no rival to compare it with." if t.predictions.y is not None else (
            "There are no targets to judge it by.")  # fmt: skip
        return [Check(BETTER, "the mean", GREY, reason)]
    lead, error, name = -found.gain, found.error, rival.uses or rival.name
    parts: dict[str, Any] = {
        "column": rival.name, "statistic": in_errors(lead, error), "limit": TOLD,
        "gain": found.gain, "gain_error": error, "basis": "paired",
    }  # fmt: skip
    if not np.isfinite(error):
        sentence = "One test point does not say whether it is good."
        return [Check(BETTER, "the mean", GREY, sentence, **parts)]
    if lead > TOLD * error:
        return [Check(BETTER, "the mean", GREEN, _best(t), **parts)]
    if lead + TOLD * error < 2 * MATTERS:
        sentence = f"It predicts no better than {name} ({with_error(lead, error, True)} nats)."
        return [Check(BETTER, "the mean", AMBER, sentence, True, **parts)]
    sentence = (
        f"The test points do not tell whether it predicts better than {name} "
        f"({with_error(lead, error, True)} nats per point)."
    )
    return [Check(BETTER, "the mean", GREY, sentence, **parts)]


def _best(t: Tables) -> str:
    """A sentence on a model that no rival beats: the best of the others."""
    simple = [one for one in t.rivals if one.kind == "simple" and t.gain(one.name) is not None]
    rival = max(simple, key=lambda one: float(t.gain(one.name).gain))
    found, name = t.gain(rival.name), rival.uses or rival.name
    if -found.gain > TOLD * found.error:
        lead = f"It predicts better than every simple rival, the best of them {name}"
    else:
        lead = f"{_start(name)} does as well as it"
    return f"{lead} ({with_error(-found.gain, found.error, True)} nats per point)."


def neighbour_errors(t: Tables) -> list[Check]:
    """Residuals of neighbours that go together more than those of the joint distribution."""
    found = moran(t)
    if found is None:
        return []
    fired = found.p <= ALARM and found.gain > MATTERS
    is_network = any(one.name == "harmonic" for one in t.rivals)
    sentence = (
        f"Residuals of neighbours correlate by {number(found.value, 2)}, those of a right model by "
        f"{number(found.expected, 2)} ± {number(found.error, 1)}."
    )
    return [
        Check(
            BETTER, "neighbours", AMBER if fired else GREEN, sentence, fired,
            statistic=found.value, expected=found.expected, p=found.p, limit=ALARM,
            gain=found.gain, basis="estimated",
            remedy=(NETWORK if is_network else TABLE) if fired else "",
        )
    ]  # fmt: skip


def moran(t: Tables) -> Neighbours | None:
    """Moran's I of the residuals, beside draws of their joint distribution; None if unknown."""
    p = t.judged
    if p is None or p.y is None or isinstance(p.law, Chances | Observed):
        return None
    try:
        if t.left_out is None and not getattr(t.source, "is_own", False):
            return _moran_of_rows(t)
        if p.correlation is None or len(p) < MIN_NEIGHBOURS:
            return None
        joint = joint_of(p.law)
        prior = joint.prior
        if t.left_out is not None:
            prior = t.left_out.process.prior(t.source.take(_places(t)).points)
        if prior is None:
            return None
        residuals = (p.y - p.law.mean) / p.law.std
        return neighbours(residuals, p.correlation, nearest_by_prior(prior.mean(axis=2)), t.seed)
    except (NumericalError, MemoryLimitError):
        return None


def _places(t: Tables) -> IntArray:
    """Places of the judged points among all."""
    return t.left_out.judged(judged_points(t.predictions), t.seed)


def judged_points(p: Any) -> int:
    """Most points at which calibration is measured: draws of more cost seconds."""
    return max(MOST_NEIGHBOURS // p.law.mean.shape[1], 100)


def _moran_of_rows(t: Tables) -> Neighbours | None:
    """Residuals of the nearest rows of a table, in the metric of the kernel or unit variances."""
    p, source = t.predictions, t.source
    joint = p.correlation
    if joint is None and t.exact is not None:
        joint = t.exact.correlation
    if p.y is None or joint is None or source is None or source.X is None:
        return None
    rows = np.random.default_rng(0).permutation(len(p))[:MOST_NEIGHBOURS]
    if rows.size < MIN_NEIGHBOURS:
        return None
    if source.kernel is not None and t.exact is not None:
        inputs = source.kernel.in_its_metric(source.X)
    else:
        known = source.X if source.train_X is None else source.train_X
        inputs = in_lengthscales(source.X, column_spread(known, True), source.X)
    _, near = cKDTree(inputs[rows]).query(inputs[rows], k=2)
    # A row that has equal ones may find itself second.
    own = np.arange(rows.size)
    other = np.where(near[:, 1] == own, near[:, 0], near[:, 1])
    some = p.take(rows)
    assert some.y is not None
    if isinstance(some.law, Draws):
        return exchanged_neighbours(some.law.scores_with(some.y)[..., 0], other)
    return neighbours(residuals_of(some.law, some.y), joint[np.ix_(rows, rows)], other)


def intervals(t: Tables) -> list[Check]:
    """Coverage, scale, shape and place of the distribution, and its worst group."""
    c = t.calibration
    if c is None:
        reason = "There are no targets to judge them by."
        return [] if t.reliability is not None else [Check(HONEST, "coverage", GREY, reason)]
    width = t.figure("coverage", grouping="", level=max(c.levels))
    worst = int(np.abs(c.off).argmax())
    shares = ", ".join(f"{per_cent(one)} of the targets in the {per_cent(level)} intervals"
                       for one, level in zip(c.shares, c.levels, strict=True))  # fmt: skip
    serious = is_serious(t)
    heavy = c.tails == "heavier"
    shift = 0.5 * c.shift**2
    factor, cures = _factor(t), cures_of(t)
    gain, basis = c.rescaling_gain, "closed form"
    if cures is not None:
        gain, basis = cures.scale.gain, "held out"
    is_off = c.coverage_p <= SURE_OF_DETAIL
    wide = (
        ""
        if width is None or t.judged is None or len(t.judged) < len(t.predictions)
        else (
            f"; those of {per_cent(width.level)} are {amount(width.width, t.predictions.unit)} wide"
        )
    )
    kind = f"Errors have {c.tails} tails than stated" if c.tails else (
        f"Intervals are too {'narrow' if c.off[worst] < 0 else 'wide'}")  # fmt: skip
    coverage = Check(
        HONEST, "coverage", (RED if serious else AMBER) if is_off else GREEN,
        f"{kind}: {shares}." if is_off else f"Its intervals hold what they say: {shares}{wide}.",
        is_off, statistic=float(c.off[worst]), expected=0.0, p=c.coverage_p, limit=SURE_OF_DETAIL,
        gain=gain, basis=basis, remedy=factor if is_off else "",
    )  # fmt: skip
    spread_off = c.spread_p <= SURE and c.rescaling_gain > MATTERS
    scale = Check(
        HONEST, "scale", (RED if serious else AMBER) if spread_off else GREEN,
        f"Standard deviations are too {'small' if c.rescaling > 1 else 'large'}: errors have a "
        f"root mean square of {number(c.rescaling)} of them ({p_text(c.spread_p)})."
        if spread_off else f"Errors have a root mean square of {number(c.rescaling)} standard "
        f"deviations ({p_text(c.spread_p)}).",
        spread_off, statistic=c.rescaling, expected=1.0, p=c.spread_p, limit=SURE,
        gain=gain, basis=basis, remedy=factor if spread_off else "",
    )  # fmt: skip
    place_off = c.shift_p <= SURE_OF_DETAIL and shift > MATTERS
    far = abs(c.shift) > SHIFTED * max(c.rescaling, 1.0)
    side = "above" if c.shift > 0 else "below"
    place = Check(
        HONEST, "place", AMBER if place_off else GREEN,
        f"Targets lie {number(abs(c.shift), 2)} standard deviations {side} the predictions on "
        f"average ({p_text(c.shift_p)}).",
        place_off, statistic=c.shift, expected=0.0, p=c.shift_p, limit=SURE_OF_DETAIL, gain=shift,
        basis="estimated",
        remedy="Look for how test rows differ from training rows: units, period, sensor."
        if place_off and far else "",
    )  # fmt: skip
    shape_off = c.pit_p <= SURE_OF_DETAIL
    shape = Check(
        HONEST, "shape", AMBER if shape_off else GREEN,
        f"The transforms F(y) are {number(c.pit_distance, 2)} from uniform "
        f"({p_text(c.pit_p)}).",
        shape_off, statistic=c.pit_distance, p=c.pit_p, limit=SURE_OF_DETAIL,
        remedy=TAILS if shape_off and heavy else "",
    )  # fmt: skip
    return [coverage, scale, *_worst_group(t), shape, place]


def _worst_group(t: Tables) -> list[Check]:
    c = t.calibration
    if c is None or c.worst is None:
        return []
    one, fired = c.worst, c.worst_p <= SURE_OF_DETAIL
    sentence = (
        f"{per_cent(one.level)} intervals hold {per_cent(one.share)} (chance ± "
        f"{per_cent(one.error)}) of {count(one.n)} targets where {one.grouping} is {one.group}."
    )
    return [
        Check(HONEST, "worst group", AMBER if fired else GREEN, sentence, fired, one.grouping,
              one.off, 0.0, c.worst_p, SURE_OF_DETAIL)
    ]  # fmt: skip


def is_serious(t: Tables) -> bool:
    """Whether intervals hold far too few targets, or are on the wrong scale."""
    c = t.calibration
    if c is None:
        return False
    lacking = np.subtract(c.levels, c.shares)
    short = lacking[int(np.argmax(c.levels))] > SERIOUS_TAIL
    return bool(lacking.max() > SERIOUS_SHARE or short or c.rescaling_gain > SERIOUS)


def _factor(t: Tables) -> str:
    """What to do about the scale of all standard deviations."""
    c, law = t.calibration, t.predictions.law
    if c is None or c.rescaling < 1e-6:  # the targets are the predictions: no scale would do
        return ""
    if isinstance(law, Observed):
        texts = COUNTS if law.likelihood.is_discrete else OBSERVED
        return texts[c.rescaling < 1]
    if c.tails == "heavier":
        return TAILS
    own = getattr(t.source, "is_own", False)
    how = " (hyperparameters='averaged')" if own else ""
    return (
        f"Multiply its standard deviations by {number(c.rescaling)}: fit the noise again, on rows "
        f"put aside, or average over hyperparameters{how}."
    )


def joint_law(t: Tables) -> list[Check]:
    """Residuals whitened by the stated covariance: four tests, the first that is off."""
    w = t.whitened
    if w is None:
        return []
    lost = w.expected_gain - w.joint_gain
    shared = float(-0.5 * np.log1p(-min(w.neighbour**2, 0.99)))
    size = "small" if w.rescaling > 1 else "large"
    strong = "strong" if lost > 0 else "weak"
    tests = [
        (w.spread_p, SURE, w.rescaling_gain, w.rescaling, 1.0,
         f"The joint covariance is too {size}: residuals whitened by it have a root mean square of "
         f"{number(w.rescaling)} in place of 1 ({p_text(w.spread_p)})."),
        (w.joint_p, SURE_OF_DETAIL, abs(lost), w.joint_gain, w.expected_gain,
         f"Correlations are too {strong}: the joint density exceeds that of independent points by "
         f"{number(w.joint_gain, 2)} nats per point, that of a right law by "
         f"{with_error(w.expected_gain, w.gain_error)}."),
        (w.neighbour_p, SURE_OF_DETAIL, shared, w.neighbour, 0.0,
         f"Errors of neighbours correlate by {number(w.neighbour, 2)} beyond what is stated "
         f"(chance ± {number(w.neighbour_error, 1)})."),
        (w.pit_p, SURE_OF_DETAIL, np.inf, w.pit_distance, np.nan,
         "Residuals whitened by the covariance are not normal: their transforms are "
         f"{number(w.pit_distance, 2)} from uniform ({p_text(w.pit_p)})."),
    ]  # fmt: skip
    off = [one for one in tests if one[0] <= one[1] and one[2] > MATTERS]
    p, limit, gain, value, expected, sentence = off[0] if off else tests[0]
    colour = fault_colour(max(w.rescaling_gain, lost)) if off else GREEN
    if not off:
        sentence = (
            "Residuals whitened by the stated covariance are as those of a right one (root mean "
            f"square {number(w.rescaling)}, {p_text(w.spread_p)})."
        )
    return [
        Check(HONEST, "joint law", colour, sentence, bool(off), statistic=value, expected=expected,
              p=p, limit=limit, gain=gain if np.isfinite(gain) else np.nan, basis="estimated")
    ]  # fmt: skip


def class_chances(t: Tables) -> list[Check]:
    """Chances of classes beside labels that are drawn from them."""
    r = t.reliability
    if r is None:
        return []
    serious = r.error - r.error_by_chance > SERIOUS_ERROR or r.gain > SERIOUS
    beside = (
        f"calibration error {number(r.error, 2)}, {with_error(r.error_by_chance, r.error_spread)} "
        "for labels drawn from the model"
    )
    fault = "Its chances hold what they say"
    if r.is_scale_off and r.slope < 1:
        fault = f"Its chances are too sure (logits times {number(r.slope)} fit better)"
    elif r.is_scale_off and abs(r.slope - 1) > abs(r.shift):
        fault = f"Its chances are not sure enough (logits times {number(r.slope)} fit better)"
    elif r.is_scale_off:
        fault = f"Its chances of {r.event} are too {'low' if r.shift > 0 else 'high'}"
    elif r.class_p <= SURE_OF_DETAIL:
        fault = (
            f"Class {r.worst} has the mean chance {per_cent(r.worst_chance, 1)} and the share "
            f"{per_cent(r.worst_share, 1)}"
        )
    elif r.is_off:
        fault = "Its chances are off"
    remedy = (
        f"Recalibrate the chances on rows put aside: multiply logits by {number(r.slope)} and add "
        f"{number(r.shift)}."
    )
    p = min(r.recalibration_p, r.slope_p)
    return [
        Check(HONEST, "classes", (RED if serious else AMBER) if r.is_off else GREEN,
              f"{fault}: {beside}.", r.is_off, statistic=r.error, expected=r.error_by_chance, p=p,
              limit=SURE, gain=r.gain, basis="estimated",
              remedy=remedy if r.is_off and r.gain >= MATTERS else "")
    ]  # fmt: skip


def closeness(t: Tables) -> list[Check]:
    """The KL from the exact process with its bounds, and whether that predicts better."""
    kl = t.figure("distance", metric="kl")
    if t.left_out is not None:
        reason = (
            "Rows that are left out say how well the model predicts, not how close it is to its "
            "exact process; report() measures that."
        )
        return [Check(CLOSE, "closeness", GREY, reason)]
    if kl is None or t.exact is None:
        reason = getattr(t.source, "reason", "") or "There is no exact process beside it."
        return [Check(CLOSE, "closeness", GREY, reason)]
    error = 0.0 if np.isnan(kl.error) else kl.error
    least, most = kl.value - kl.below - 2 * error, kl.value + kl.above + 2 * error
    parts: dict[str, Any] = {"statistic": kl.value, "expected": 0.0, "limit": MATTERS}
    if kl.value + kl.above < SAME:
        sentence = "Nothing is approximated: the model is its own exact process."
        return [Check(CLOSE, "closeness", GREEN, sentence, **parts)]
    member = getattr(t.exact, "remarks", ())
    if member:
        least, most = 0.0, 0.0
    paired = t.gain(t.exact.name)
    loss, wins, beside = 0.0, False, ""
    if paired is not None and np.isfinite(paired.error):
        bound = t.figure("distance", metric="nlpd")
        slack = 0.0 if bound is None else max(bound.below, bound.above)
        loss = max(paired.gain - slack, 0.0) if paired.gain > LOST * paired.error else 0.0
        wins = -paired.gain > LOST * paired.error
        if abs(paired.gain) <= max(TOLD * paired.error, NOTHING):
            beside = "; the exact process would not predict better"
        else:
            how = "better" if paired.gain > 0 else "worse"
            little = " by little" if abs(paired.gain) < MATTERS else ""
            beside = f"; the exact process predicts {how}{little}"
    words = next((text for bound, text in DISTANCES if kl.value < bound), "far from")
    colour = AMBER if loss > MATTERS or most >= MATTERS else GREEN
    if loss > SERIOUS or (least > SERIOUS and not wins):
        colour = RED
    which = f"the exact process{', ' + member[0] if member else ''}"
    sentence = (
        f"The posterior is {words} {which}, as if each prediction were off by "
        f"{number((2 * max(kl.value, 0.0)) ** 0.5, 2)} of its standard deviation (KL "
        f"{with_error(kl.value, error)} nats per point){beside}."
    )
    gain = paired.gain if paired is not None and loss > 0 else np.nan
    own = getattr(t.source, "is_own", False)
    remedy = "Use the exact process: exact_twin()." if own else (
        "Use the exact process of this kernel, or approximate it more closely: more inducing "
        "points, features or neighbours.")  # fmt: skip
    return [
        Check(CLOSE, "closeness", colour, sentence, colour != GREEN, gain=gain,
              gain_error=paired.error if loss > 0 and paired is not None else np.nan,
              basis="paired", remedy=remedy if loss > 0 else "", **parts)
    ]  # fmt: skip


def known_rows(t: Tables) -> list[Check]:
    """Test rows that are training rows, and too few rows: questions that are not judged."""
    found, n = [], len(t.predictions)
    o = t.overlap
    if o.n_rows and not o.left_out and OVERLAP * o.n_rows > o.n_test:
        sentence = (
            f"Not judged: {count(o.n_rows)} of {count(o.n_test)} test rows are training rows, "
            "which leave_out_overlap=True leaves out."
        )
        found += [Check(one, "duplicates", GREY, sentence, True, statistic=o.n_rows / o.n_test,
                        limit=1 / OVERLAP) for one in (BETTER, HONEST)]  # fmt: skip
    if t.predictions.y is not None and n < FEWEST:
        sentence = f"Not judged: {n} test points are too few."
        found += [Check(one, "few points", GREY, sentence, True, statistic=n, limit=FEWEST)
                  for one in (BETTER, HONEST)]  # fmt: skip
    return found


def optimism(t: Tables) -> list[Check]:
    """Hyperparameters that were fitted to the rows that are left out flatter the model."""
    p = t.predictions
    if t.left_out is None or not p.n_parameters:
        return []
    n = t.left_out.process.data.targets.size
    ratio = p.n_parameters / n
    mean = next((t.gain(one.name) for one in t.rivals if one.name == "mean"), None)
    lead = 0.0 if mean is None else -mean.gain
    fired = ratio > MANY
    sentence = (
        f"Hyperparameters: {count(p.n_parameters)} of {count(n)} targets. If they were fitted to "
        f"these, rows left out flatter the model by {number(ratio, 2)} nats per point or more: "
        "score it on new rows."
    )
    colours = {HONEST: GREY if fired else GREEN, BETTER: GREY if fired and lead <= 2 * ratio else
               GREEN}  # fmt: skip
    return [
        Check(question, "optimism", colour, sentence, False, statistic=ratio, limit=MANY)
        for question, colour in colours.items()
        if fired
    ]


def verdicts_of(checks: Iterable[Check]) -> tuple[Verdict, ...]:
    """The worst fired check of each question, the first in the order of the rules.

    Without any it is the sentence of the rule that vouches, or of one that says why it cannot.
    """
    every = list(checks)
    return tuple(_verdict(one, [c for c in every if c.question == one]) for one in QUESTIONS)


SEVERITY = {RED: 0, AMBER: 1, GREY: 2, GREEN: 3}
# Rules whose sentence answers a question where none fires.
VOUCHING = ("the mean", "coverage", "classes", "closeness")
# Rules that say that a question is not judged, whatever else was found.
UNJUDGED = ("duplicates", "few points")


def _verdict(question: str, checks: list[Check]) -> Verdict:
    unjudged = [one for one in checks if one.rule in UNJUDGED and one.fired]
    fired = sorted((one for one in checks if one.fired), key=lambda one: SEVERITY[one.colour])
    vouching = [one for one in checks if one.rule in VOUCHING]
    grey = [one for one in checks if one.colour == GREY]
    chosen = next(iter([*unjudged, *fired, *grey, *vouching]), None)
    if chosen is None:
        return Verdict(question, GREY, "There is nothing to judge it by.")
    numbers = {name: float(getattr(chosen, name)) for name in
               ("statistic", "expected", "p", "limit", "gain", "gain_error")
               if np.isfinite(getattr(chosen, name))}  # fmt: skip
    return Verdict(question, chosen.colour, chosen.sentence, numbers)


def advice_of(checks: Sequence[Check]) -> tuple[Check, ...]:
    """What is known to gain what matters, the greatest gain first.

    Where one kind of cure (rows, noise, the exact process, the right place, a rival, a nearby
    kernel, patterns, another scale) gains nearly as much as any of the others, within 10 %, these
    are left out: the faults that they name would go with it.
    """
    if any(one.rule in UNJUDGED and one.fired for one in checks):
        return ()
    known = [one for one in checks if one.fired and one.remedy and not one.gain < MATTERS]

    def by(*rules: str) -> list[Check]:
        return [one for one in known if one.rule in rules]

    if by("carried"):
        return tuple(by("carried"))
    refits = by("refit")
    if any(one.column == "mean" and one.basis == "estimated" for one in by("baseline")):
        # Nothing on deviations or kernels is known of predictions that are elsewhere.
        return _sorted([*refits, *by("reach", "place", "closeness", "closer", "baseline")])
    rest = [one for one in known if one.rule not in NAMED]
    scale = by("counts", "noise missing", "tails") or by("coverage", "scale")[:1]
    cures = [
        by("transform"), by("reach"), by("noise missing"), by("closeness", "closer"), by("place"),
        by("flexible rival"), by("nearby kernel")[:1], rest, scale,
    ]  # fmt: skip
    signs = [*by("baseline"), *by("neighbours"), *by("classes"), *by("shape")]
    found = signs + [one for cure in cures for one in cure]
    if scale and scale[0].rule in ("coverage", "scale"):
        kept = by("closeness", "closer")
        found = [one for one in found if one in scale + kept or _is_beyond(one, scale[0])]
        cures = [scale, *([one for one in cure if one in found] for cure in cures)]
    for cure in cures:
        gain = max((one.gain for one in cure), default=0.0)
        if cure and all(one.gain <= ENOUGH * gain for one in found):
            found = cure
            break
    return _sorted([*refits, *found])


# Rules whose remedies are not those of a pattern of the residuals.
NAMED = (
    "carried", "refit", "baseline", "reach", "place", "closeness", "closer", "transform",
    "noise missing", "flexible rival", "nearby kernel", "counts", "tails", "coverage", "scale",
    "neighbours", "classes", "shape", "worst group", "joint law",
)  # fmt: skip


def _sorted(found: list[Check]) -> tuple[Check, ...]:
    unique = list(dict.fromkeys(found))
    return tuple(sorted(unique, key=lambda one: -one.gain if np.isfinite(one.gain) else 0.0))


def _is_beyond(one: Check, factor: Check) -> bool:
    """Whether advice gains more than another factor on the deviations does, beyond chance."""
    error = one.gain_error if np.isfinite(one.gain_error) else 0.0
    return bool(one.gain - factor.gain > max(LOST * error, MATTERS))


def _start(text: str) -> str:
    return text[:1].upper() + text[1:]


# In the order in which verdicts prefer them.
RULES: tuple[Rule, ...] = (
    Rule(BETTER, "few points", known_rows, "scores"),
    Rule(BETTER, "baseline", baseline, "scores"),
    Rule(BETTER, "flexible rival", flexible, "scores"),
    *(
        one._replace(depth="full" if one.name == "nearby kernel" else "checks")
        for one in CHECKS
        if one.question == BETTER
    ),
    Rule(BETTER, "neighbours", neighbour_errors),
    Rule(BETTER, "the mean", the_mean, "scores"),
    *(one for one in CHECKS if one.question == HONEST),
    Rule(HONEST, "coverage", intervals),
    Rule(HONEST, "joint law", joint_law),
    Rule(HONEST, "classes", class_chances),
    Rule(CLOSE, "closeness", closeness, "scores"),
    Rule(BETTER, "optimism", optimism),
    *(one._replace(depth="full") for one in REMEDIES),
)
