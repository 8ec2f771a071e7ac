"""Sections of every comparison: predictions, baselines, calibration, scores, distance, models."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from coupledgp.diagnostics.scoring.figures import Accuracy, Figures
from coupledgp.diagnostics.scoring.score_table import (
    PREFIXES,
    SCORES,
    Score,
    paired_scores,
    per_cent,
)
from coupledgp.diagnostics.scoring.scores import nats_text
from coupledgp.diagnostics.sections.place_map import moves, place_map
from coupledgp.diagnostics.sections.section import ReportTable, Row, Section, register_section
from coupledgp.diagnostics.verdicts.quality import as_alternative
from coupledgp.diagnostics.verdicts.result import ComparisonResult

if TYPE_CHECKING:
    from coupledgp.diagnostics.pages.picture import Picture

# Texts and names of the figures that compare the two laws, so that the reference has none.
COMPARED = (
    ("KL(reference || model), nats per point", "kl_per_point"),
    ("KL(model || reference), nats per point", "reverse_kl_per_point"),
    ("KL between the priors, nats per point", "prior_kl_per_point"),
    ("kernel error, relative Frobenius", "kernel_relative_error"),
    ("kernel RMSE, units of y squared", "kernel_rmse"),
)
Draw = Callable[[], "Picture"]


def predictions(report: ComparisonResult) -> Section | None:
    """Targets beside predictions, as a picture; None without targets."""
    if report.predictions.y is None:
        return None

    def draw() -> Picture:
        from coupledgp.diagnostics.pages.pictures import truth

        return truth(report)

    return Section("predictions", pictures=[draw])


def instead(report: ComparisonResult) -> Section | None:
    """What could be picked instead: baselines and other models, with the differences from them."""
    table = rival_table(report)

    def draw() -> Picture:
        from coupledgp.diagnostics.pages.pictures import beside

        return beside(report)

    pictures = [draw] if report.has_others else []
    if table is None and not pictures:
        return None
    figures = {
        one.name: {"rmse": one.rmse, "nlpd": one.nlpd, "differences": one.differences}
        for one in report.baselines
    }
    return Section("instead", figures=figures, tables=[table] if table else [], pictures=pictures)


def rival_table(report: ComparisonResult) -> ReportTable | None:
    """Table of baselines, the greatest gain first."""
    found = [*map(as_alternative, report.baselines)]
    rows = [
        [
            one.action or one.name,
            one.gain_text(),
            f"{one.nlpd:.4g}",
            f"{one.rmse:.4g}",
            f"{one.seconds:.1f} s" if one.seconds else "",
        ]
        for one in sorted(found, key=lambda one: -one.gain)
    ]
    if not rows:
        return None
    columns = ("rival", f"gain in {report.nlpd_is}, nats per point", report.nlpd_is, report.rmse_is,
               "time")  # fmt: skip
    note = "Gains are those of picking it in place of the model; what is negative predicts worse."
    return ReportTable("What else could be used", columns, rows, "rivals", note=note).shown()


def calibration(report: ComparisonResult) -> Section | None:
    """Coverage with its chance, and the transforms of the targets; None without targets."""
    found = report.calibration
    if report.predictions.y is None:
        return None

    def shares() -> Picture:
        from coupledgp.diagnostics.pages.pictures import calibration as drawn

        return drawn(report)

    def transforms() -> Picture:
        from coupledgp.diagnostics.pages.pictures import pit

        return pit(report)

    if found is None:
        return Section("calibration", pictures=[shares, transforms])

    def distribution() -> Picture:
        from coupledgp.diagnostics.pages.pictures import ecdf

        assert found is not None
        assert found.ecdf is not None
        return ecdf(found.ecdf)

    rows = [
        [
            f"targets in {100 * level:.0f} % intervals",
            f"{per_cent(share)} ± {per_cent(found.standard_error[level])}",
            f"{found.off(level):+.1f}",
        ]
        for level, share in found.coverage.items()
    ]
    distance, p = found.pit_distance, found.pit_p_value
    rows.append(["PIT, distance from uniform", f"{distance:.3f}", f"p = {p:.2g}"])
    if found.ecdf is not None:
        rows.append([f"PIT, {100 * found.ecdf.level:.0f} % envelope", found.ecdf.answer, ""])
    columns = ("", "share ± chance", "standard errors off")
    tables = [ReportTable("Are its intervals honest?", columns, rows, "calibration")]
    if report.evidence is not None and report.evidence.conformal:
        tables.append(_conformal(report.evidence.conformal, report.figures))
    figures = asdict(found)
    envelope = figures.pop("ecdf")  # of which the picture is made
    pictures = [shares, transforms]
    if found.ecdf is not None:
        figures["ecdf"] = {"is_inside": found.ecdf.is_inside, "level": envelope["level"]}
        pictures.append(distribution)
    return Section("calibration", "", "", figures, tables, pictures)


def _conformal(found: dict[float, tuple[float, float]], figures: Figures) -> ReportTable:
    """Conformal intervals beside the model's own."""
    shares, widths = figures.coverage or {}, figures.interval_width or {}
    rows = [
        [f"{100 * level:.0f} %", per_cent(shares[level]), f"{widths[level]:.4g}", per_cent(share),
         f"{width:.4g}"]
        for level, (share, width) in found.items()
        if level in shares and level in widths
    ]  # fmt: skip
    columns = ("level", "targets in its own", "mean width", "targets in conformal ones",
               "mean width of these")  # fmt: skip
    note = (
        "Conformal intervals follow from residuals of left-out rows, and hold whatever the kernel "
        "if rows are exchangeable: predict_interval(X, conformal=True)."
    )
    return ReportTable("Its intervals and conformal ones", columns, rows, "conformal", note=note)


def residuals(report: ComparisonResult) -> Section | None:
    """Patterns of the residuals along columns; None where none were looked for."""
    looked = None if report.evidence is None else report.evidence.findings
    if looked is None or not looked.n_looks:
        return None
    rows = [
        [one.text, nats_text(one.gain, one.standard_error), f"{one.p_value:.2g}"]
        for one in looked.found
    ]
    columns = ("pattern", "gain of correcting for it, nats per point", "chance")
    title = "What residuals still show"
    tables = [ReportTable(title, columns, rows, "residuals")] if rows else []
    sentence = "" if rows else looked.text()
    figures = {f"{one.check} along {one.column}": one.gain for one in looked.found}
    return Section("residuals", "" if rows else title, sentence, figures, tables)


def scores(report: ComparisonResult) -> Section | None:
    """Scores of the model, and of a reference that is another one; None without targets."""
    figures = report.figures
    rows = score_rows(figures, report.accuracy)
    if not rows:
        return None
    prefixes = PREFIXES if report.has_other_reference else PREFIXES[:1]
    heads = ("", "model", "reference")[: 1 + len(prefixes)]
    over = "; ± is the standard error over them" if figures.standard_errors else ""
    table = ReportTable(
        report.scores_title, heads, [row[: len(heads)] for row in rows], "scores",
        note=f"At {figures.n_test} {report.points_are}{over}",
    )  # fmt: skip
    names = ["n_test", "n_scored"]
    names += [prefix + name for prefix in prefixes for name in (*SCORES, "standard_errors")]
    return Section("scores", figures=_named(figures, names), tables=[table.shown()])


def distance(report: ComparisonResult) -> Section | None:
    """Distance from the reference; None without one, and for a model that is its own."""
    if not (report.has_other_reference and report.joint_distance):
        return None
    rows = [row[:2] for row in distance_rows(report.figures, report.accuracy)]
    table = ReportTable("Distance from the reference", ("", "value"), rows, "distance")

    def means() -> Picture:
        from coupledgp.diagnostics.pages.pictures import means as drawn

        return drawn(report)

    def kernel_error() -> Picture:
        from coupledgp.diagnostics.pages.pictures import kernel_map

        assert report.kernel_errors is not None
        return kernel_map(report.kernel_errors)

    pictures: list[Draw] = [] if report.predictions.reference_mean is None else [means]
    pictures += [] if report.kernel_errors is None else [kernel_error]
    figures = _named(report.figures, [name for _, name in COMPARED])
    return Section("distance", figures=figures, tables=[table], pictures=pictures)


def differences(report: ComparisonResult) -> Section | None:
    """Losses of the model minus those of a reference that is another one."""
    rows = [row[:2] for row in difference_rows(report.figures, report.accuracy)]
    if not rows or not report.has_other_reference:
        return None
    title = "Model minus reference, point by point"
    table = ReportTable(title, ("", "mean ± s.e."), rows, "differences")
    found = report.figures.differences or {}
    return Section("differences", figures=found, tables=[table])


def models(report: ComparisonResult) -> Section | None:
    """Texts of the model and of the reference, folded."""
    rows = [("model", report.model), ("reference", report.reference or "")]
    shown = [row for row in rows if row[1]]
    if not shown:
        return None
    return Section("models", tables=[ReportTable("Models", ("", ""), shown, "models", folded=True)])


def provenance(report: Any) -> Section | None:
    """Data, settings and versions that the figures depend on, folded."""
    rows = [[name, f"{value}"] for name, value in report.provenance.items() if name != "model"]
    table = ReportTable("How to make this again", ("", "value"), rows, "provenance", folded=True)
    return Section("provenance", tables=[table])


def _named(figures: Figures, names: list[str]) -> dict[str, Any]:
    """Figures that were computed, of some names."""
    found = {name: figures.get(name) for name in names}
    return {name: value for name, value in found.items() if value is not None}


# In the order in which they are read, and those of them that reports of classifiers have.
COMPARISON = (
    predictions, place_map, moves, instead, calibration, residuals, scores, distance, differences,
)  # fmt: skip
OF_CLASSES = (instead, differences)


def register_comparison() -> None:
    """Register the sections of every comparison, and of what tells how it was made."""
    for build in COMPARISON:
        kinds = ("comparison", "classes") if build in OF_CLASSES else "comparison"
        register_section(build.__name__, build, kinds)
    register_section("provenance", provenance, ("study", "left-out", "likelihood"))
    register_section("models", models, ("comparison", "classes"), before="")


def distance_rows(figures: Figures, accuracy: Accuracy) -> list[Row]:
    """Rows (figure, value, nothing) of the distances of the model from the reference."""
    return [
        (text, f"{value:.4g} {accuracy.text(name)}".strip(), "")
        for text, name in COMPARED
        if (value := figures.get(name)) is not None
    ]


def score_rows(figures: Figures, accuracy: Accuracy) -> list[Row]:
    """Rows (score, model, reference) of the scores, and of coverage and widths of intervals."""
    rows = _score_rows(figures, accuracy)
    if figures.n_scored is not None:
        scored = f"{figures.n_scored} of {figures.n_test}"
        rows.append(("points scored, but for the joint NLPD", scored, scored))
    return rows + _level_rows(figures, accuracy)


def _score_rows(figures: Figures, accuracy: Accuracy) -> list[Row]:
    """Rows of the scores that are a number."""
    rows: list[Row] = []
    for score in SCORES.values():
        if isinstance(figures.get(score.name), float):
            own, other = (_score_cell(score, prefix, figures, accuracy) for prefix in PREFIXES)
            rows.append((score.heading(), own, other))
    return rows


def _score_cell(score: Score, prefix: str, figures: Figures, accuracy: Accuracy) -> str:
    """A score of the model or the reference, its standard error over points and its accuracy."""
    value = figures.get(prefix + score.name)
    if value is None:
        return ""
    error = (figures.get(f"{prefix}standard_errors") or {}).get(score.name)
    spread = "" if error is None else f" ± {error:.2g}"
    return f"{score.format(value)}{spread} {accuracy.text(prefix + score.name)}".strip()


def _level_rows(figures: Figures, accuracy: Accuracy) -> list[Row]:
    """Rows of the scores that are a number for each nominal level."""
    rows: list[Row] = []
    for score in SCORES.values():
        own = figures.get(score.name)
        if isinstance(own, dict):
            for level in own:
                cells = [
                    _level_cell(score, prefix, level, figures, accuracy) for prefix in PREFIXES
                ]
                rows.append((score.heading(level), *cells))
    return rows


def _level_cell(
    score: Score, prefix: str, level: float, figures: Figures, accuracy: Accuracy
) -> str:
    """A score of the model or the reference at a nominal level, and its accuracy."""
    values = figures.get(prefix + score.name)
    if not isinstance(values, dict):
        return ""
    error = accuracy.text(prefix + score.name, score.format is per_cent)
    return f"{score.format(values[level])} {error}".strip()


def difference_rows(figures: Figures, accuracy: Accuracy) -> list[Row]:
    """Rows of the paired differences, model minus reference, with their standard errors."""
    rows: list[Row] = []
    for score in paired_scores():
        gap = (figures.differences or {}).get(score.difference_name)
        if gap is not None:
            mean, error = float(gap["mean"] or 0.0), gap["standard_error"]
            cell = f"{mean:+.3g}" + ("" if error is None else f" ± {error:.2g}")
            if score.difference_name == "nlpd":
                cell = nats_text(mean, error, "+.3g")
            text = f"model - reference, {score.difference_label}"
            name = f"differences.{score.difference_name}"
            rows.append((text, f"{cell} {accuracy.text(name)}".strip(), ""))
    return rows
