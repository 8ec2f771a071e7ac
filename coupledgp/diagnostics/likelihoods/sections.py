"""Sections of a `ClassReport` and a `LikelihoodReport`, which the functions here take."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from coupledgp.diagnostics.scoring.score_table import per_cent
from coupledgp.diagnostics.sections.section import ReportTable, Section, register_section

if TYPE_CHECKING:
    from coupledgp.diagnostics.pages.picture import Picture

# Classes whose confusion is shown; of more, the most frequent ones.
SHOWN_CLASSES = 12


def chances(report: Any) -> Section | None:
    """The picture of shares beside chances, with which the page opens; None without labels."""
    found = report.reliability
    if found is None:
        return None

    def draw() -> Picture:
        from coupledgp.diagnostics.pages.pictures import reliability_diagram

        return reliability_diagram(found)

    return Section("chances", pictures=[draw])


def reliability(report: Any) -> Section | None:
    """Shares of an event beside its chances, in bins; None without labels."""
    found = report.reliability
    if found is None:
        return None
    rows = [
        [
            f"{one.low:.3f} to {one.high:.3f}", f"{one.chance:.3f}",
            f"{one.share:.3f} ({one.interval[0]:.3f} to {one.interval[1]:.3f})",
            f"{one.n_points}",
        ]
        for one in found.bins
    ]  # fmt: skip
    columns = ("chances", "mean chance", "share and its 95 % interval", "points")
    bins = ReportTable(f"Are its chances of {found.event} honest?", columns, rows, "reliability")
    tests = [
        ["expected calibration error", f"{found.error:.4f}",
         f"{found.error_by_chance:.4f} ± {found.error_spread:.2g}", f"{found.error_p_value:.2g}"],
        ["slope of the logits that fits best", f"{found.slope:.3f}", "1",
         f"{found.recalibration_p_value:.2g}"],
        ["shift of the logits that fits best", f"{found.shift:+.3f}", "0", ""],
        [f"share of class {found.worst_class}", f"{found.worst_class_share:.4f}",
         f"{found.worst_class_chance:.4f}", f"{found.class_p_value:.2g}"],
    ]  # fmt: skip
    beside = ReportTable(
        "Calibration beside labels drawn from the model", ("", "value", "expected", "p-value"),
        tests, "calibration",
        note=f"p-values are shares of {found.n_draws} draws of the labels that are as far off",
    )  # fmt: skip
    return Section("reliability", figures=asdict(found), tables=[bins, beside])


def class_scores(report: Any) -> Section | None:
    """Log loss, Brier score with its parts, accuracy; None without labels."""
    laws, codes, found, figures = report.laws, report.codes, report.reliability, report.figures
    if laws is None or codes is None or found is None:
        return None
    losses, briers = laws.log_losses(codes), laws.brier_losses(codes)
    right = (laws.predicted == codes).astype(float)
    reference = report.has_other_reference and figures.reference_nlpd is not None
    other = {
        "log loss, nats": figures.reference_nlpd,
        "Brier score": None if figures.reference_rmse is None else figures.reference_rmse**2,
    }
    rows: list[list[str]] = []
    values: dict[str, Any] = {}
    for name, each in (("log loss, nats", losses), ("Brier score", briers), ("accuracy", right)):
        error = each.std(ddof=1) / len(each) ** 0.5 if len(each) > 1 else 0.0
        beside = other.get(name)
        shown = f"{beside:.4f}" if reference and beside is not None else ""
        rows.append([name, f"{each.mean():.4f} ± {error:.2g}", shown])
        values[name.partition(",")[0].replace(" ", "_").lower()] = float(each.mean())
    parts = found.brier
    values["brier_of_event"] = asdict(parts)
    table = ReportTable(
        report.scores_title, ("", "model", "exact"), rows, "scores",
        note=f"At {figures.n_test} test points; ± is the standard error over them",
    ).shown()  # fmt: skip
    names = {
        "reliability": "reliability (0 where shares equal chances)",
        "resolution": "resolution (how far shares of bins differ)",
        "uncertainty": "uncertainty (of the share of all)",
        "within": "differences within bins",
    }
    rows = [[text, f"{getattr(parts, name):.5f}"] for name, text in names.items()]
    rows.append([f"Brier score of {found.event}", f"{parts.score:.5f}"])
    brier = ReportTable(
        "Parts of the Brier score", ("", "value"), rows, "brier",
        note="score = reliability - resolution + uncertainty + differences within bins",
    )  # fmt: skip
    return Section("class-scores", figures=values, tables=[table, brier])


def confusion(report: Any) -> Section | None:
    """How often points of each class have each class as the most probable one."""
    laws, codes = report.laws, report.codes
    if laws is None or codes is None:
        return None
    matrix = laws.confusion(codes)
    order = matrix.sum(axis=1).argsort(kind="stable")[::-1][:SHOWN_CLASSES]
    order.sort()
    names = [str(one) for one in laws.classes]
    rows = [
        [names[i], *(f"{matrix[i, j]}" for j in order),
         per_cent(matrix[i, i] / max(matrix[i].sum(), 1))]
        for i in order
    ]  # fmt: skip
    columns = ("class", *(f"predicted {names[j]}" for j in order), "of them right")
    left = len(names) - len(order)
    note = f"{left} less frequent classes are not shown" if left else ""
    table = ReportTable("Classes and the most probable ones", columns, rows, "confusion", note=note)

    def draw() -> Picture:
        from coupledgp.diagnostics.pages.pictures import confusion_map

        return confusion_map(matrix[order][:, order], [names[j] for j in order])

    figures = {names[i]: dict(zip(names, matrix[i].tolist(), strict=True)) for i in order}
    return Section("confusion", figures=figures, tables=[table], pictures=[draw])


def latent_distance(report: Any) -> Section | None:
    """Distance of the function's posterior from the exact one; None for a model that is exact."""
    found = report.divergence
    if found is None or not report.has_other_reference:
        return None
    whose = "of its own" if found.sites == "own" else "of the model"
    rows = [
        ["KL(exact || model) with the noise of one observation, nats per point",
         f"{found.kl_per_point:.4g}"],
        ["KL(model || exact) with the noise of one observation, nats per point",
         f"{found.reverse_kl_per_point:.4g}"],
        ["mean KL(exact || model) of single points, nats", f"{found.marginal:.4g}"],
        ["largest change of a mean observation", f"{found.largest_change:.4g}"],
    ]  # fmt: skip
    note = (
        f"The exact posterior has sites {whose}. The joint law of the function without noise is "
        "nearly singular, and its divergence is not told"
    )
    table = ReportTable("Distance from the exact posterior", ("", "value"), rows, "distance",
                        note=note)  # fmt: skip
    figures = {name: value for name, value in asdict(found).items() if name != "sites"}

    def means() -> Picture:
        from coupledgp.diagnostics.pages.pictures import means as drawn

        return drawn(report)

    pictures = [] if report.predictions.reference_mean is None else [means]
    return Section("latent-distance", figures=figures, tables=[table], pictures=pictures)


def register_likelihoods() -> None:
    """Register the sections of classifiers, and of all laws that are not normal."""
    register_section("chances", chances, "classes", before="instead")
    register_section("reliability", reliability, "classes", before="instead")
    register_section("class-scores", class_scores, "classes", before="scores")
    register_section("confusion", confusion, "classes", before="scores")
    register_section("latent-distance", latent_distance, "likelihood", before="differences")
