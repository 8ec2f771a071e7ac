"""Colours and markers by which couplings are told apart."""

from __future__ import annotations

from typing import Any

# Colours of couplings, distinguishable without colour vision; on paper their markers are.
COLOURS = ("#0b6e99", "#d9730d", "#448361", "#9065b0", "#c14c8a", "#787774", "#cb912f", "#1f2328")
MARKERS = "osD^vPX*"


def coupling_style(k: int) -> dict[str, Any]:
    """Return colour and marker of coupling k."""
    return {"color": COLOURS[k % len(COLOURS)], "marker": MARKERS[k % len(MARKERS)]}
