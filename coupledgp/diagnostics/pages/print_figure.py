"""Figures for print: their letters, sizes and files."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

from coupledgp.ground.output import write_bytes
from coupledgp.ground.validation import wrong

# Letters of a figure are as large as the captions of most journals, its fonts are embedded whole,
# and texts of an SVG stay texts.
PRINT: Any = {  # matplotlib's stubs name every key
    "font.size": 8, "axes.titlesize": 8, "legend.fontsize": 7, "lines.linewidth": 1.1,
    "lines.markersize": 3.5, "axes.linewidth": 0.6, "pdf.fonttype": 42, "svg.fonttype": "none",
    "svg.hashsalt": "coupledgp",
}  # fmt: skip
FORMATS = ("pdf", "png", "svg")
DPI = 600
PANEL = (2.5, 2.2)  # inches; three of them fit across a page


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure as PDF, PNG or SVG, by the ending of the path, of the same bytes each time.

    Raises
    ------
    InvalidInputError
        The path has another ending.
    """
    kind = Path(path).suffix.lstrip(".").lower()
    if kind not in FORMATS:
        endings = ", ".join(f".{one}" for one in FORMATS)
        raise wrong("path", f"an ending of {endings}", str(path))
    undated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}, "png": {}}[kind]
    buffer = io.BytesIO()  # compressors stumble over a full disk in ways of their own
    with mpl.rc_context(PRINT):
        figure.savefig(buffer, format=kind, dpi=DPI, metadata=undated)
    write_bytes(path, buffer.getvalue())
