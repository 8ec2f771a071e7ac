"""What a space-time model gains over what anybody could do instead, in sentences and cards."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coupledgp.diagnostics.space_time.record import (
    AHEAD,
    GAPS,
    HIDDEN,
    MODEL_NAME,
    SCATTERED,
    KindScore,
    SensorErrors,
    SpaceTimePage,
)
from coupledgp.diagnostics.space_time.words import (
    ahead_words,
    cell,
    duration_words,
    joined,
    kind_words,
    share_words,
    with_unit,
)
from coupledgp.diagnostics.verdicts.verdict import Colour, Verdict
from coupledgp.ground.visible import printable
from coupledgp.time.panel import ConstantRun, constant_runs

# Share of a rival's RMSE below which a difference is called none.
EVEN = 0.03
# Rivals that are Gaussian processes themselves, and the one that knows no time.
GRAPH_ALONE, TIME_ALONE = "graph GP per time step", "GP in time alone"
LAST_VALUE = "last value"
# Rivals in a sentence; others are called by their names.
RIVALS = {
    "linear in time": "linear interpolation",
    LAST_VALUE: "the last value",
    "nearest sensor": "the nearest sensor",
    "mean of all sensors": "the mean of all sensors",
    "mean at that time of day": "the sensor's mean at that time of day",
    "mean at that time of the week": "the sensor's mean at that time of the week",
    "boosted trees": "boosted trees on lags and other sensors",
    "regression on the other sensors": "a regression on the other sensors",
    "autoregression": "a regression on the last readings of all sensors",
    "low rank": "a matrix of low rank",
    GRAPH_ALONE: "the graph alone, one time at a time",
    TIME_ALONE: "each sensor's time alone",
}
# Level of the intervals that a card judges, deviations from it that are near and far, and how many
# standard errors are chance.
LEVEL, NEAR, FAR, SURE = 0.95, 0.03, 0.08, 2.0
# Names of the worst sensors in a card.
NAMED = 3


def best_simple(scores: dict[str, KindScore]) -> KindScore | None:
    """The rival with the least RMSE that needs no model; None if there is none."""
    rivals = [
        one for name, one in scores.items() if name not in (MODEL_NAME, GRAPH_ALONE, TIME_ALONE)
    ]
    # Lines that end at the last value are the last value.
    return min(rivals, key=lambda one: (one.rmse, one.model != LAST_VALUE), default=None)


def gain_of(own: KindScore, other: KindScore) -> float:
    """Share of the other's RMSE that the model saves; negative where it is worse."""
    return 1 - own.rmse / other.rmse if other.rmse > 0 else 0.0


def gain_error(own: KindScore, other: KindScore) -> float:
    """Standard error of that share; zero where it is not known."""
    return (other.ratio_error or 0.0) * (1 - gain_of(own, other))


def is_even(own: KindScore, other: KindScore) -> bool:
    """Whether a difference is too small to matter, or within two of its standard errors."""
    even = abs(gain_of(own, other)) < EVEN
    return even or abs(_log_ratio(own, other)) < SURE * (other.ratio_error or 0.0)


def _log_ratio(own: KindScore, other: KindScore) -> float:
    """Logarithm of the rival's RMSE over the model's, whose errors are alike on both sides."""
    return float(np.log(max(other.rmse, 1e-300) / max(own.rmse, 1e-300)))


def gain_words(own: KindScore, other: KindScore) -> str:
    """The gain over a rival: `28 % (± 4) below linear interpolation (9.09)`, two errors."""
    gain, name, error = gain_of(own, other), rival_words(other.model), gain_error(own, other)
    chance = f" (± {100 * SURE * error:.2g})" if error else ""
    if is_even(own, other):
        away = f", {share_words(abs(gain))}{chance} {_side(gain)} it" if abs(gain) >= EVEN else ""
        return f"no better than {name} ({cell(other.rmse)}){away}"
    return f"{share_words(abs(gain))}{chance} {_side(gain)} {name} ({cell(other.rmse)})"


def _side(gain: float) -> str:
    return "below" if gain > 0 else "above"


def rival_words(name: str) -> str:
    """A rival, or the model, in a sentence."""
    return RIVALS.get(name, printable(name))


def answer(report: SpaceTimePage) -> str:
    """How far a value is typically off, at hidden sensors if they were scored; empty if unknown."""
    kinds = scored_kinds(report)
    if not kinds:
        left_out = report.left_out
        typical = "" if left_out is None else with_unit(left_out.typical(), report.unit)
        return f"Typical error {typical} at a sensor left out." if typical else ""
    kind, ahead = min(kinds, key=lambda one: one[0] != HIDDEN)
    scores = report.scores_of(kind, ahead)
    own, other = scores[MODEL_NAME], best_simple(scores)
    beside = "" if other is None else f"; {rival_words(other.model)} {cell(other.rmse)}"
    where = kind_words(own, report.axis)
    return f"Typical error {with_unit(own.rmse, report.unit)} {where}{beside}."


def headline(report: SpaceTimePage) -> str:
    """One sentence: gaps, gains by kind, and a sensor that is left out."""
    parts = [_gaps(report), *_kinds(report)]
    if report.left_out is not None:
        typical = with_unit(report.left_out.typical(), report.unit)
        parts.append(f"a sensor left out is predicted from the others to {typical} (median RMSE)")
    return "; ".join(part for part in parts if part) + "."


def _gaps(report: SpaceTimePage) -> str:
    gaps, axis = report.gaps, report.axis
    if not gaps.n_gaps:
        return "No value is missing"
    share = share_words(gaps.n_gaps / gaps.n_cells)
    longest = f"{gaps.longest} steps" if axis.step is None else duration_words(
        gaps.longest * axis.step, axis
    )  # fmt: skip
    return f"{share} of the values are missing, the longest gap is {longest}"


def _kinds(report: SpaceTimePage) -> list[str]:
    found = []
    for kind, ahead in scored_kinds(report):
        scores = report.scores_of(kind, ahead)
        own, other = scores[MODEL_NAME], best_simple(scores)
        if kind == SCATTERED or (kind == AHEAD and ahead not in _told(report)):
            continue
        text = f"{kind_words(own, report.axis)} the RMSE is {with_unit(own.rmse, report.unit)}"
        found.append(text if other is None else f"{text}, {gain_words(own, other)}")
    return found


def _told(report: SpaceTimePage) -> tuple[int, ...]:
    """Steps ahead that a sentence names: the first and the last."""
    steps = report.steps_ahead
    return tuple({*steps[:1], *steps[-1:]})


def scored_kinds(report: SpaceTimePage) -> list[tuple[str, int | None]]:
    """Kinds of hidden cells at which the model was scored, in the order of the page."""
    present = {(one.kind, one.ahead) for one in report.scores if one.model == MODEL_NAME}
    first = [(kind, None) for kind in (GAPS, SCATTERED, HIDDEN) if (kind, None) in present]
    ahead = [(AHEAD, one) for one in [None, *report.steps_ahead] if (AHEAD, one) in present]
    others = sorted(key for key in present if key[0] not in (GAPS, SCATTERED, HIDDEN, AHEAD))
    return [*first, *ahead, *others]


def where_time_adds_nothing(report: SpaceTimePage) -> list[str]:
    """Sentences on kinds at which the model is no better than what knows no time, or no model."""
    return [one for one in (_hidden_sentence(report), _ahead_sentence(report)) if one]


def _hidden_sentence(report: SpaceTimePage) -> str:
    scores = report.scores_of(HIDDEN)
    own, alone = scores.get(MODEL_NAME), scores.get(GRAPH_ALONE)
    if own is None or alone is None or gain_of(own, alone) >= EVEN:
        return ""
    much = "nothing" if gain_of(own, alone) < EVEN / 3 else "next to nothing"
    return (
        f"Time adds {much} at hidden sensors: the same graph, one time at a time, predicts them "
        f"with an RMSE of {with_unit(alone.rmse, report.unit)}, the model with {cell(own.rmse)}."
    )


def _ahead_sentence(report: SpaceTimePage) -> str:
    even = []
    for steps in report.steps_ahead:
        scores = report.scores_of(AHEAD, steps)
        own, other = scores.get(MODEL_NAME), best_simple(scores)
        if own is not None and other is not None and gain_of(own, other) < EVEN:
            even.append((steps, own, other))
    if not even:
        return ""
    times = joined([ahead_words(one[0], report.axis).removesuffix(" ahead") for one in even])
    last, own, other = even[-1]
    return (
        f"{times} ahead the model is no better than {rival_words(other.model)} (RMSE "
        f"{ahead_words(last, report.axis)}: {with_unit(own.rmse, report.unit)} and "
        f"{cell(other.rmse)}): there a forecast adds its interval, not a better value."
    )


def cards(report: SpaceTimePage) -> list[Verdict]:
    """Answers with colours: gaps, hidden sensors, forecasts, intervals and sensors."""
    found = [
        _card(report, "Does it fill gaps?", [(GAPS, None)]),
        _card(report, "Does it reach places without a sensor?", [(HIDDEN, None)]),
        _card(report, "Does it look ahead?", [(AHEAD, one) for one in report.steps_ahead]),
        _intervals(report),
        _sensors(report),
    ]
    return [one for one in found if one is not None]


def _card(
    report: SpaceTimePage, question: str, kinds: Sequence[tuple[str, int | None]]
) -> Verdict | None:
    """The answer for one or several kinds, coloured by their mean gain over the best rival."""
    gains, logs, errors, texts = [], [], [], []
    for kind, ahead in kinds:
        scores = report.scores_of(kind, ahead)
        own, other = scores.get(MODEL_NAME), best_simple(scores)
        if own is not None and other is not None:
            gains.append(gain_of(own, other))
            logs.append(_log_ratio(own, other))
            errors.append(other.ratio_error or 0.0)
            texts.append(
                f"{kind_words(own, report.axis)} {with_unit(own.rmse, report.unit)}, "
                f"{gain_words(own, other)}"
            )
    if not gains:
        return None
    # Steps ahead go together: their mean has the mean of their errors.
    gain, error = float(np.mean(gains)), float(np.mean(errors))
    sure = abs(gain) >= EVEN and abs(float(np.mean(logs))) >= SURE * error
    colour: Colour = "amber" if not sure else "green" if gain > 0 else "red"
    chosen = texts if len(texts) < 3 else [texts[0], texts[-1]]
    return Verdict(
        question, colour, f"RMSE {'; '.join(chosen)}.",
        f"Green from a gain of {100 * EVEN:.0f} % and two standard errors over the best of the "
        "other ways, red where it is as much worse. RMSE is that at values that were hidden from "
        "the model; errors are those of values that go together at a sensor or a time.",
        gain, error * (1 - gain) or None, "share",
    )  # fmt: skip


def _intervals(report: SpaceTimePage) -> Verdict | None:
    """The card on intervals: each kind of hidden values, forecasts of all steps together."""
    shares = _shares_inside(report)
    if not shares:
        return None
    # Farthest beyond chance: two standard errors of the share are taken off.
    far = max(shares, key=lambda one: abs(one[1] - LEVEL) - SURE * one[2])
    off = abs(far[1] - LEVEL) - SURE * far[2]
    colour: Colour = "green" if off <= NEAR else "amber" if off <= FAR else "red"
    low, high = min(one for _, one, _ in shares), max(one for _, one, _ in shares)
    span = share_words(low) if low == high else f"{100 * low:.0f} to {100 * high:.0f} %"
    return Verdict(
        "Are its intervals honest?", colour,
        f"95 % intervals hold {span} of hidden values; farthest off {far[0]}, "
        f"{share_words(far[1])} (chance ± {100 * SURE * far[2]:.0f}).",
        f"Green where every kind of hidden value is within {100 * NEAR:.0f} % of 95 %, red beyond "
        f"{100 * FAR:.0f} %, after two standard errors of values that go together.",
        far[1], far[2], "share",
    )  # fmt: skip


def _shares_inside(report: SpaceTimePage) -> list[tuple[str, float, float]]:
    """Words, share inside 95 % intervals and its error, of each kind of hidden values.

    Steps of a forecast begin at one time and go together: they count as one kind, whose error is
    the mean of theirs.
    """
    found, ahead = [], []
    for key in scored_kinds(report):
        one = report.scores_of(*key)[MODEL_NAME]
        if LEVEL not in one.coverage:
            continue
        if one.kind == AHEAD:
            ahead.append(one)
        else:
            words = kind_words(one, report.axis)
            found.append((words, one.coverage[LEVEL], one.coverage_error))
    if ahead:
        share = float(np.mean([one.coverage[LEVEL] for one in ahead]))
        error = float(np.mean([one.coverage_error for one in ahead]))
        found.append(("ahead", share, error))
    return found


def _sensors(report: SpaceTimePage) -> Verdict | None:
    runs, found = constant_runs(report.observed, report.times, report.axis), report.left_out
    if found is None and not runs:
        return None
    sentences, doubtful = [_run_sentence(report, runs)] if runs else [], 0
    if found is not None:
        order = [k for k in found.order().tolist() if found.is_doubtful()[k]]
        doubtful = len(order)
        sentences.append(_level_sentence(report, found, order))
    return Verdict(
        "Are all sensors sound?", "amber" if doubtful or runs else "green", " ".join(sentences),
        "A sensor is doubtful if half of its squared error is bias, its RMSE is 1.5 times the "
        "median sensor's, fewer than 85 % of its values are inside their 95 % interval, and its "
        "bias is beyond what levels of sensors differ by. Or if it reads the same, for a day at "
        "least where times are dates, while others change, longer than chance makes in 1 of 100 "
        "records.",
        float(doubtful + len(runs)), None, "sensors",
    )  # fmt: skip


def _run_sentence(report: SpaceTimePage, runs: list[ConstantRun]) -> str:
    """The longest run of one reading, and how many sensors have one."""
    one = runs[0]
    more = "" if len(runs) == 1 else f" {len(runs) - 1} more stand still for long."
    return (
        f"{printable(report.sensor_names[one.sensor])} reads {with_unit(one.value, report.unit)} "
        f"without a change for {duration_words(one.stop - one.start, report.axis)}, {one.n} "
        f"readings: look whether it works.{more}"
    )


def _level_sentence(report: SpaceTimePage, found: SensorErrors, order: list[int]) -> str:
    """Which sensors deviate all the time, and how."""
    names = [printable(report.sensor_names[k]) for k in order[:NAMED]]
    more = "" if len(order) <= NAMED else f" and {len(order) - NAMED} more"
    if not order:
        return (
            f"None of {found.bias.size} deviates all the time by more than levels of sensors "
            f"differ, {with_unit(found.level_spread(), report.unit)}."
        )
    worst, steady = order[0], found.is_steady()
    side = "low" if found.bias[worst] > 0 else "high"
    rest = (
        "without that level it is as good as others: calibrate it, or let it have its level"
        if steady[worst]
        else "without that level its errors stay large: look at the sensor"
    )
    return (
        f"{len(order)} of {found.bias.size} deviate all the time from what the others say: "
        f"{', '.join(names)}{more}. {names[0]} reads "
        f"{with_unit(abs(float(found.bias[worst])), report.unit)} too {side}, where levels of "
        f"sensors differ by {cell(found.level_spread())}; {rest}."
    )
