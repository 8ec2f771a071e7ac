"""The table of other models on the page of a report."""

from __future__ import annotations

from coupledgp.diagnostics.alternatives import Alternatives
from coupledgp.diagnostics.pages.table import Section


def alternatives_section(found: Alternatives) -> Section:
    """Table of the alternatives of a report, and of those that were skipped."""
    rows = [
        [
            one.action,
            f"{one.gain:+.3f}{one.text_of_error()}",
            f"{one.nlpd:.4g}",
            f"{one.rmse:.4g}",
            f"{one.seconds:.1f} s",
        ]
        for one in found
    ]
    rows += [[one.name, f"skipped: {one.reason}", "", "", ""] for one in found.skipped]
    columns = ("model", "gain in NLPD, nats per point", "NLPD", "RMSE", "time")
    return Section("What else could be used", columns, rows, "alternatives")
