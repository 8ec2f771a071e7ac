"""Tables and the picture of what verdicts rest on: baselines, other models, calibration."""

from __future__ import annotations

from coupledgp.diagnostics.alternatives_table import alternatives_section
from coupledgp.diagnostics.calibration import Calibration
from coupledgp.diagnostics.pages.table import Section
from coupledgp.diagnostics.result import ComparisonResult
from coupledgp.diagnostics.score_table import per_cent
from coupledgp.diagnostics.verdicts.quality import name_of


def evidence_sections(report: ComparisonResult) -> list[Section]:
    """Tables of the baselines, of other models and of calibration, as far as there are any."""
    found = [baseline_section(report)] if report.baselines else []
    if report.alternatives is not None:
        found.append(alternatives_section(report.alternatives))
    if report.calibration is not None:
        found.append(calibration_section(report.calibration))
    return found


def baseline_section(report: ComparisonResult) -> Section:
    """Table of the baselines, with the model minus each."""
    rows: list[list[str]] = []
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
