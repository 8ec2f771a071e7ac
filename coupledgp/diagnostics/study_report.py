"""A posterior report with a study of couplings, a map of the nodes, and its provenance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from coupledgp.diagnostics.figures import Figures
from coupledgp.diagnostics.pages.mesh import NodeMap
from coupledgp.diagnostics.pages.table import Section
from coupledgp.diagnostics.report import PosteriorReport
from coupledgp.diagnostics.study import CouplingStudy

if TYPE_CHECKING:
    from coupledgp.diagnostics.pages.page import Page


@dataclass(frozen=True)
class StudyReport(PosteriorReport):
    """A `PosteriorReport`, its figures as attributes, and a study of couplings.

    Attributes
    ----------
    study : CouplingStudy or None
        Couplings side by side; None if none were asked for.
    picture : NodeMap or None
        The law at the nodes, drawn at their places.
    title : str
        Heading of the page.
    provenance : mapping of str to anything JSON holds
        Data, model, hyperparameters, seed, time and versions.
    """

    study: CouplingStudy | None = None
    picture: NodeMap | None = field(default=None, repr=False)
    title: str = "Posterior report"
    provenance: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures, the study and the provenance as plain Python values."""
        return super().to_dict() | {
            "title": self.title,
            "study": None if self.study is None else self.study.to_dict(),
            "provenance": dict(self.provenance),
        }

    def _page(self) -> Page:
        from coupledgp.diagnostics.pages.html import render  # matplotlib is slow to import
        from coupledgp.diagnostics.pages.study_pictures import study_pictures

        further, after = [], [provenance_section(self.provenance)]
        if self.study is not None:
            after = [study_section(self.study, self.figures), *after]
            further = study_pictures(self.study)
        return render(
            self,
            title=self.title,
            lead=self._lead(),
            opening=None if self.picture is None else self.picture.picture(),
            further=further,
            after=after,
        )

    def _lead(self) -> list[str]:
        """Paragraphs below the heading: data, hyperparameters and reference."""
        made = self.provenance
        how = "by dense algebra"
        if self.accuracy.method == "stochastic":
            how = "by iterative solves, whose errors are bounded beside the figures"
        return [
            f"Data: {made.get('data', 'not stated')}; {made.get('training rows', '?')} training "
            f"rows, {self.figures.n_test} test points.",
            f"Hyperparameters: {made.get('hyperparameters', 'not stated')}.",
            f"Reference: the exact GP of the same hyperparameters and training rows, {how}.",
        ]


def study_section(study: CouplingStudy, own: Figures | None = None) -> Section:
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
        rows.append(["this model", "", f"{own.kl_per_point:.4g}", *scores])
    n_draws = study.rows[0].n_draws
    title = (
        f"Couplings side by side at {study.n_test} test points, means over {n_draws} draws ± "
        "standard errors"
    )
    return Section(title, columns, rows, "couplings", note=study.verdict())


def provenance_section(provenance: Mapping[str, Any]) -> Section:
    """Return the table of data, settings and versions that the figures depend on."""
    rows = [[name, f"{value}"] for name, value in provenance.items() if name != "model"]
    return Section("How to make this again", ("", "value"), rows, "provenance", folded=True)
