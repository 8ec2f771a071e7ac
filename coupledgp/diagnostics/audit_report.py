"""The result of an audit: the page and figures of a comparison, with baselines and calibration."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

import numpy as np

from coupledgp.diagnostics.scoring.score_table import per_cent
from coupledgp.diagnostics.sections.posterior import PosteriorReport
from coupledgp.diagnostics.sections.section import ReportTable, Section, register_section
from coupledgp.diagnostics.verdicts.result import ComparisonResult


def stated(report: ComparisonResult) -> Section | None:
    """Energy scores of draws, and reliability of quantiles; None for other laws."""
    own = report.predictions.own
    if own is None or not (own.energy or own.below):
        return None
    if own.energy is not None:
        joint, alone = own.energy
        rows = [("joint draws", f"{joint:.4g}"), ("the same, points independent", f"{alone:.4g}")]
        table = ReportTable("Energy score, units of y", ("", "value"), rows, "energy")
        figures = {"energy": joint, "energy_of_independent_points": alone}
        return Section("stated", figures=figures, tables=[table])
    n = len(own.transforms)
    cells = [
        (
            f"{chance:g}", f"{per_cent(share)} ± {per_cent(np.sqrt(chance * (1 - chance) / n))}",
            f"{loss:.4g}",
        )
        for chance, (share, loss) in own.below.items()
    ]  # fmt: skip
    columns = ("chance", "share of targets at most it ± chance", "pinball loss, units of y")
    table = ReportTable("Quantiles", columns, cells, "quantiles")
    shares: dict[str, Any] = {
        f"{chance:g}": {"share": share, "pinball": loss}
        for chance, (share, loss) in own.below.items()
    }
    return Section("stated", figures=shares, tables=[table])


def register_stated() -> None:
    """Register the section for audits."""
    register_section("stated", stated, "audit", before="scores")


@dataclass(frozen=True)
class AuditReport(PosteriorReport):
    """A `PosteriorReport`, its figures as attributes, with what the data say of the model.

    Attributes
    ----------
    title : str
        Heading of the page.
    n_train : int
        Number of training rows; zero where none are given.
    joint : bool
        Whether divergences are those of the joint laws; otherwise they are means of those of the
        single points, and there is no joint NLPD.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import audit
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> report = audit((np.sin(X[1::2, 0]), np.full(30, 0.1)), X[::2], y[::2], X[1::2], y[1::2])
    >>> [one.name for one in report.baselines]
    ['mean', 'nearest', 'linear', 'plain process']
    >>> report.n_train, report.joint, report.reference is None
    (30, False, True)
    """

    report_kinds: ClassVar[tuple[str, ...]] = ("comparison", "audit")
    beside_title: ClassVar[str] = "Beside the exact process"
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

    def lead(self) -> list[str]:
        """Numbers of rows, the kind of the laws, and the reference."""
        kind = "joint laws" if self.joint else "laws of single points"
        known = f"{self.n_train} training rows" if self.n_train else "No training rows"
        return [
            f"{known}, {self.figures.n_test} test points; {kind}.",
            self._reference(),
        ]

    def _reference(self) -> str:
        """What the reference is, and how its law was computed."""
        if self.reference is None:
            return "Reference: none."
        return f"Reference: {self.reference}, {self.accuracy.how}."


register_stated()
