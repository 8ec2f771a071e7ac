"""The result of an audit: the page and figures of a comparison, with baselines and calibration."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from coupledgp.diagnostics.calibration import Calibration
from coupledgp.diagnostics.pages.table import Section
from coupledgp.diagnostics.report import PosteriorReport
from coupledgp.diagnostics.rivals.beside import CLEAR, BesideBaseline
from coupledgp.diagnostics.score_table import per_cent

# Names of the baselines in sentences.
NAMES = {"mean": "the mean", "nearest": "the nearest row", "linear": "a linear model"}


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
    calibration : Calibration
        Coverage with its binomial error, and a test of the probability integral transforms.
    baselines : tuple of BesideBaseline
        Simple predictions, and the paired differences of the model from them.
    """

    title: str = "Audit of a posterior"
    n_train: int = 0
    joint: bool = True
    calibration: Calibration = field(default=None, repr=False)  # type: ignore[assignment]
    baselines: tuple[BesideBaseline, ...] = ()

    def conclusions(self) -> list[str]:
        """Return whether the model is good, honest, and close to the exact process if known."""
        first = beside_baselines(self.baselines), self.calibration.verdict()
        return [*first, *super().conclusions()]

    def to_dict(self) -> dict[str, Any]:
        """Return the figures, baselines and calibration as plain Python values."""
        return super().to_dict() | {
            "title": self.title,
            "n_train": self.n_train,
            "joint": self.joint,
            "calibration": asdict(self.calibration),
            "baselines": [asdict(one) for one in self.baselines],
        }

    def _page(self) -> str:
        from coupledgp.diagnostics.pages.html import render  # matplotlib is slow to import

        kind = "joint laws" if self.joint else "laws of single points"
        return render(
            self,
            title=self.title,
            lead=[
                f"{self.n_train} training rows, {self.figures.n_test} test points; {kind}.",
                self._reference(),
            ],
            sections=[baseline_section(self), calibration_section(self.calibration)],
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


def beside_baselines(baselines: tuple[BesideBaseline, ...]) -> str:
    """Whether a model predicts better than simple baselines, by the NLPD of each point."""
    if not baselines:
        return "There are too few training rows for baselines to tell their error."
    lost = [one for one in baselines if one.advantage() < -CLEAR]
    equal = [one for one in baselines if abs(one.advantage()) <= CLEAR]
    if lost:
        worst = min(lost, key=lambda one: one.advantage())
        return f"It predicts worse than {NAMES[worst.name]}, by {_gap(worst)}."
    if equal:
        names = " and ".join(NAMES[one.name] for one in equal)
        return f"It does not predict better than {names}, beyond chance."
    least = max(baselines, key=lambda one: one.differences["nlpd"]["mean"] or 0.0)
    return f"It predicts better than every baseline, than {NAMES[least.name]} by {_gap(least)}."


def _gap(one: BesideBaseline) -> str:
    gap = one.differences["nlpd"]
    mean, error = gap["mean"], gap["standard_error"]
    spread = "" if error is None else f" (standard error {error:.1g})"
    return f"{abs(mean or 0.0):.3g}{spread} nats per point"


def baseline_section(report: AuditReport) -> Section:
    """Table of the baselines, with the model minus each."""
    rows = []
    for one in report.baselines:
        gaps = [one.differences[name] for name in ("squared_error", "nlpd")]
        rows.append(
            [NAMES[one.name], f"{one.rmse:.4g}", f"{one.nlpd:.4g}", *(_cell(gap) for gap in gaps)]
        )
    columns = ("baseline", "RMSE", "NLPD", "model - it, squared error", "model - it, NLPD")
    return Section("Beside simple predictions", columns, rows)


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
    return Section("Are its intervals honest?", ("", "share ± chance", "standard errors off"), rows)
