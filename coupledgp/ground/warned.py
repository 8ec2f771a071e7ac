"""Warnings at the line of the caller's own program."""

from __future__ import annotations

import sys
import warnings


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line outside this package that led here."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] == "coupledgp":
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)
