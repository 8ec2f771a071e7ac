"""The result of an audit: the page and figures of a comparison, with baselines and calibration."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from coupledgp.diagnostics.alternatives_table import alternatives_section
from coupledgp.diagnostics.calibration import Calibration
from coupledgp.diagnostics.pages.table import Section
from coupledgp.diagnostics.report import PosteriorReport
from coupledgp.diagnostics.score_table import per_cent
from coupledgp.diagnostics.verdicts.quality import name_of

if TYPE_CHECKING:
    from coupledgp.diagnostics.pages.page import Page


@dataclass(frozen=True)
class AuditReport(PosteriorReport):
    """A `PosteriorReport`, its figures as attributes, with what the data say of the model.

    Attributes
    ----------
    title : str
        Heading of the page.
    n_train : int
        Number of training rows.
    joint : bool
        Whether divergences are those of the joint laws; otherwise they are means of those of the
        single points, and there is no joint NLPD.
    """

    title: str = "Audit of a posterior"
    n_train: int = 0
    joint: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Return the figures, baselines and calibration as plain Python values."""
        return super().to_dict() | {
            "title": self.title,
            "n_train": self.n_train,
            "joint": self.joint,
            "calibration": None if self.calibration is None else asdict(self.calibration),
            "baselines": [asdict(one) for one in self.baselines],
        }

    def _page(self) -> Page:
        from coupledgp.diagnostics.pages.html import render  # matplotlib is slow to import

        kind = "joint laws" if self.joint else "laws of single points"
        return render(
            self,
            title=self.title,
            lead=[
                f"{self.n_train} training rows, {self.figures.n_test} test points; {kind}.",
                self._reference(),
            ],
            sections=evidence_sections(self),
            comparison="Scores" if self.reference is None else "Beside the exact process",
        )

    def _reference(self) -> str:
        """What the reference is, and how its law was computed."""
        if self.reference is None:
            return "Reference: none."
        how = "by dense algebra"
        if self.accuracy.method == "stochastic":
            how = "by iterative solves, whose errors are bounded beside the figures"
        return f"Reference: {self.reference}, {how}."


def evidence_sections(report: PosteriorReport) -> list[Section]:
    """Tables of the baselines and of calibration, as far as there are any."""
    found = [baseline_section(report)] if report.baselines else []
    if report.calibration is not None:
        found.append(calibration_section(report.calibration))
    if report.alternatives is not None:
        found.append(alternatives_section(report.alternatives))
    return found


def baseline_section(report: PosteriorReport) -> Section:
    """Table of the baselines, with the model minus each."""
    rows = []
    for one in report.baselines:
        gaps = [one.differences[name] for name in ("squared_error", "nlpd")]
        rows.append(
            [name_of(one), f"{one.rmse:.4g}", f"{one.nlpd:.4g}", *(_cell(gap) for gap in gaps)]
        )
    columns = ("baseline", "RMSE", "NLPD", "model - it, squared error", "model - it, NLPD")
    return Section("Beside simple predictions", columns, rows, "baselines")


def _cell(gap: dict[str, float | None]) -> str:
    error = "" if gap["standard_error"] is None else f" ± {gap['standard_error']:.2g}"
    return f"{gap['mean']:+.3g}{error}"


def calibration_section(calibration: Calibration) -> Section:
    """Table of coverage with its binomial error, and of the test of the transforms."""
    rows = [
        [
            f"targets in {100 * level:.0f} % intervals",
            f"{per_cent(share)} ± {per_cent(calibration.standard_error[level])}",
            f"{calibration.off(level):+.1f}",
        ]
        for level, share in calibration.coverage.items()
    ]
    distance, p = calibration.pit_distance, calibration.pit_p_value
    rows.append(["PIT, distance from uniform", f"{distance:.3f}", f"p = {p:.2g}"])
    columns = ("", "share ± chance", "standard errors off")
    return Section("Are its intervals honest?", columns, rows, "calibration")
