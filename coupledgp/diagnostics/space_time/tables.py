"""Tables of a page on a space-time model: scores by kind, sensors, calibration and terms."""

from __future__ import annotations

import json
from collections.abc import Mapping

from coupledgp.diagnostics.scoring.scores import nats_text
from coupledgp.diagnostics.sections.section import ReportTable, Row
from coupledgp.diagnostics.space_time.gains import rival_words, scored_kinds
from coupledgp.diagnostics.space_time.record import MODEL_NAME, KindScore, SpaceTimePage
from coupledgp.diagnostics.space_time.words import (
    PLACES,
    cell,
    figure,
    kind_words,
    signed,
)
from coupledgp.ground.visible import printable

# Sensors that are listed openly, and in the folded table of more.
LISTED, MOST_LISTED = 20, 500


def gain_table(report: SpaceTimePage) -> ReportTable | None:
    """RMSE of the model and its rivals, a column for each kind of hidden value; None without."""
    keys = scored_kinds(report)
    if not keys:
        return None
    found = [report.scores_of(*key) for key in keys]
    heads = [kind_words(one[MODEL_NAME], report.axis) for one in found]
    names = dict.fromkeys(name for one in found for name in one)
    rows = [
        (rival_words(name), *(cell(one[name].rmse) if name in one else "" for one in found))
        for name in names
    ]
    unit = f" in {report.unit}" if report.unit else ""
    return ReportTable(
        "What is gained, by kind of hidden value", ("predicted by", *heads), rows, "gains",
        note=f"RMSE{unit} at values that were hidden from the model and from what it is compared "
        "with.",
    )  # fmt: skip


def score_table(report: SpaceTimePage) -> ReportTable | None:
    """All scores of the model and its rivals by kind of hidden value, folded; None without any."""
    rows: list[Row] = []
    for kind, ahead in scored_kinds(report):
        scores = report.scores_of(kind, ahead)
        order = sorted(scores.values(), key=lambda one: (one.model != MODEL_NAME, one.rmse))
        rows += [_score_row(one, report) for one in order]
    if not rows:
        return None
    unit = f", {report.unit}" if report.unit else ""
    heads = ("hidden values", "predicted by", "values", f"RMSE{unit}", f"MAE{unit}",
             f"CRPS{unit}", "NLPD, nats", "in 50 %", "in 95 %", "gain in NLPD, nats")  # fmt: skip
    table = ReportTable("All scores by kind of hidden value", heads, rows, "scores", folded=True)
    return table.shown()


def _score_row(one: KindScore, report: SpaceTimePage) -> Row:
    return (
        kind_words(one, report.axis), rival_words(one.model), str(one.n), cell(one.rmse),
        cell(one.mae), cell(one.crps), cell(one.nlpd), _covered(one.coverage, 0.5),
        _covered(one.coverage, 0.95), _gain(one),
    )  # fmt: skip


def _gain(one: KindScore) -> str:
    return "" if one.gain is None else nats_text(one.gain, one.gain_error, "+.3f")


def _covered(coverage: Mapping[float, float], level: float) -> str:
    share = coverage.get(level)
    return "" if share is None else f"{100 * share:.1f} %"


def sensor_tables(report: SpaceTimePage) -> list[ReportTable]:
    """Sensors by their error when they are left out: the first ones, and all of them folded."""
    found = report.left_out
    if found is None:
        return []
    names, doubtful, order = report.sensor_names, found.is_doubtful(), found.order()
    order = order[found.n[order] > 0]
    rows = [
        (
            printable(names[k]), str(int(found.n[k])), cell(float(found.rmse[k])),
            cell(float(found.mae[k])), signed(float(found.bias[k])),
            f"{100 * found.coverage_95[k]:.0f} %",
            _remark(float(found.bias[k]), report.unit) if doubtful[k] else "",
        )
        for k in order.tolist()
    ]  # fmt: skip
    unit = f", {report.unit}" if report.unit else ""
    heads = ("sensor", "values", f"RMSE{unit}", f"MAE{unit}", f"bias{unit}", "in 95 %", "remark")
    note = (
        "Each sensor predicted from all the others; doubtful ones first, then by error. Bias is "
        "predicted minus observed: positive where a sensor reads lower than the others say."
    )
    if len(rows) < len(names):
        note += (
            f" {len(rows)} of {len(names)} sensors, spread over a first estimate of the errors of "
            "all of them, and those that deviate all the time by that estimate."
        )
    head = ReportTable("Sensors by their error when left out", heads, rows[:LISTED], "sensors",
                   note=note)  # fmt: skip
    if len(rows) <= LISTED:
        return [head]
    title = f"All {len(rows)} sensors"
    if len(rows) > MOST_LISTED:
        title = f"The first {MOST_LISTED} of {len(rows)} sensors"
    every = ReportTable(title, heads, rows[:MOST_LISTED], "all-sensors", folded=True)
    return [head, every]


def _remark(bias: float, unit: str) -> str:
    side = "below" if bias > 0 else "above"
    return f"doubtful: reads {figure(abs(bias))} {unit} {side} the others".replace("  ", " ")


def calibration_tables(report: SpaceTimePage) -> list[ReportTable]:
    """Shares inside intervals by kind of hidden value, and by time of day."""
    rows: list[Row] = []
    for key in scored_kinds(report):
        one = report.scores_of(*key)[MODEL_NAME]
        if one.coverage:
            rows.append((kind_words(one, report.axis), str(one.n), _covered(one.coverage, 0.5),
                         _covered(one.coverage, 0.95)))  # fmt: skip
    found = []
    if rows:
        heads = ("hidden values", "values", "in 50 %", "in 95 %")
        note = "Shares of hidden values inside the model's central intervals."
        found.append(ReportTable("Calibration by kind", heads, rows, "calibration", note=note))
    return found + _hour_tables(report)


def _hour_tables(report: SpaceTimePage) -> list[ReportTable]:
    """Share inside 95 % intervals: a row for each part of the day, a column for each kind."""
    kinds = list(dict.fromkeys(one.kind for one in report.hours))
    parts = sorted({(one.start, one.stop) for one in report.hours})
    by = {(one.kind, one.start): one.coverage for one in report.hours}
    rows = [
        (f"{_clock(start)} to {_clock(stop)}",
         *(_covered(by.get((kind, start), {}), 0.95) for kind in kinds))
        for start, stop in parts
    ]  # fmt: skip
    if not rows:
        return []
    heads = ("local time", *(PLACES.get(kind, printable(kind)) for kind in kinds))
    note = "Shares of hidden values inside the model's 95 % intervals."
    return [ReportTable("Calibration by time of day", heads, rows, "calibration-day", note=note)]


def _clock(hour: float) -> str:
    minutes = round(60 * hour)
    return f"{minutes // 60}:{minutes % 60:02d}"


def fact_table(report: SpaceTimePage) -> ReportTable | None:
    """Iterations, samples and errors of the computation; None without any."""
    if not report.facts:
        return None
    return ReportTable("How it was computed", ("", "value", "remark"), report.facts, "computation")


def provenance_table(report: SpaceTimePage) -> ReportTable | None:
    """Data, settings and versions, folded; None without any."""
    if not report.provenance:
        return None
    rows = [
        (name, value if isinstance(value, str) else json.dumps(value, default=str))
        for name, value in report.provenance.items()
    ]
    return ReportTable("To make it again", ("", "value"), rows, "provenance", folded=True)
