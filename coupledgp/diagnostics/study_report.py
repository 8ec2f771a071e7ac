"""A posterior report with a study of couplings, a map of the nodes, and its provenance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

from coupledgp.diagnostics.pages.mesh import NodeMap
from coupledgp.diagnostics.scoring.figures import Figures
from coupledgp.diagnostics.sections.posterior import PosteriorReport
from coupledgp.diagnostics.sections.section import ReportTable, Section, register_section
from coupledgp.diagnostics.studies.study import CouplingStudy

if TYPE_CHECKING:
    from coupledgp.diagnostics.pages.picture import Picture


@dataclass(frozen=True)
class StudyReport(PosteriorReport):
    """A `PosteriorReport`, its figures as attributes, and a study of couplings.

    Attributes
    ----------
    study : CouplingStudy or None
        Couplings side by side; None if none were asked for.
    node_map : NodeMap or None
        The law at the nodes, drawn at their places.
    title : str
        Heading of the page.
    provenance : mapping of str to anything JSON holds
        Data, model, hyperparameters, seed, time and versions.
    """

    report_kinds: ClassVar[tuple[str, ...]] = ("comparison", "study")
    beside_title: ClassVar[str] = "Beside the exact GP"
    study: CouplingStudy | None = None
    node_map: NodeMap | None = field(default=None, repr=False)
    title: str = "Posterior report"
    provenance: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures, the study and the provenance as plain Python values."""
        return super().to_dict() | {
            "title": self.title,
            "study": None if self.study is None else self.study.to_dict(),
            "provenance": dict(self.provenance),
        }

    def lead(self) -> list[str]:
        """Paragraphs below the heading: data, hyperparameters and reference."""
        made = self.provenance
        drawn = made.get("frequencies")
        return [
            f"Data: {made.get('data', 'not stated')}; {made.get('training rows', '?')} training "
            f"rows, {self.figures.n_test} test points.",
            f"Hyperparameters: {made.get('hyperparameters', 'not stated')}.",
            *([f"The model has {drawn['text']}."] if drawn else []),
            f"Reference: the exact GP of the same hyperparameters and training rows, "
            f"{self.accuracy.how}.",
        ]


def map_section(report: StudyReport) -> Section | None:
    """The law at the nodes, drawn where they are; None without places."""
    return None if report.node_map is None else Section("map", pictures=[report.node_map.picture])


def couplings_section(report: StudyReport) -> Section | None:
    """Couplings side by side, beside the exact GP and the model itself; None without a study."""
    study = report.study
    if study is None:
        return None
    figures = {
        row.coupling: {
            str(other.size): {name: other.mean_of(name).mean for name in study.figures}
            for other in study.of(row.coupling)
        }
        for row in study.at()
    }
    drawn = report.provenance.get("frequencies")
    own = "this model" if drawn is None else f"this model ({drawn['name']})"
    draw = [partial(_drawn, study, name) for name in ("kl_per_point", "rmse")[
        : 1 + (study.reference_rmse is not None)]]  # fmt: skip
    pictures = [*draw, partial(_drawn, study, "")]
    return Section("couplings", figures=figures, tables=[study_table(study, report.figures, own)],
                   pictures=pictures)  # fmt: skip


def _drawn(study: CouplingStudy, figure: str) -> Picture:
    """A picture of a figure against the size, or of the couplings at the largest size."""
    from coupledgp.diagnostics.studies.study_pictures import against_size, side_by_side

    return against_size(study, figure) if figure else side_by_side(study)


def study_table(
    study: CouplingStudy, own: Figures | None = None, name: str = "this model"
) -> ReportTable:
    """Return the table of every coupling and size, the exact GP, and the model itself.

    The model's own figures are left out if they belong to other test points.
    """
    with_scores = study.reference_rmse is not None
    columns = ["coupling", study.size_name, "KL, nats per point"]
    columns += ["RMSE", "NLPD"] if with_scores else []
    rows = []
    for row in sorted(study.rows, key=lambda row: (row.size, row.kl_per_point.mean)):
        scores = [str(row.rmse), str(row.nlpd)] if with_scores else []
        rows.append([row.coupling, f"{row.size}", str(row.kl_per_point), *scores])
    if with_scores:
        rows.append(["exact GP", "", "0", f"{study.reference_rmse:.4g}",
                     f"{study.reference_nlpd:.4g}"])  # fmt: skip
    if own is not None and own.n_test == study.n_test:
        scores = [f"{own.rmse:.4g}", f"{own.nlpd:.4g}"] if with_scores else []
        rows.append([name, "", f"{own.kl_per_point:.4g}", *scores])
    n_draws = study.rows[0].n_draws
    title = (
        f"Couplings side by side at {study.n_test} test points, means over {n_draws} draws ± "
        "standard errors"
    )
    return ReportTable(title, columns, rows, "couplings", note=study.verdict())


register_section("map", map_section, "study", before="predictions")
register_section("couplings", couplings_section, "study")
