"""Names and messages before output: control characters made visible, or names on a short line.

Warnings at the line of the caller's own program.
"""

from __future__ import annotations

import re
import sys
import textwrap
import warnings
from collections.abc import Sequence
from typing import Any

# Controls of terminals (C0 without tab and line feed, delete, C1), characters that turn or hide
# text, and surrogates, which stand for bytes of file names that are no UTF-8.
UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff"
    "\ud800-\udfff]"
)


def visible(text: str) -> str:
    r"""Return the text with escapes, such as `\x1b`, in place of characters that nobody sees."""
    return UNSEEN.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found.group())
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a file name
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def printable(name: Any) -> str:
    """A name of printable characters, on one line."""
    return "".join(one if one.isprintable() else " " for one in str(name))


def short(name: Any, most: int = 26) -> str:
    """A printable name, cut where it is longer than `most` characters."""
    name = printable(name)
    return name if len(name) <= most else f"{name[: most - 1]}…"


def in_lines(name: Any, width: int = 26, most: int = 2) -> str:
    """A printable name in lines of at most `width` characters, cut after `most` of them."""
    options: dict[str, Any] = {"max_lines": most, "placeholder": "…", "break_on_hyphens": False}
    return "\n".join(textwrap.wrap(printable(name), width, **options))


def name_of_targets(y: Any, fitted: Sequence[str] = ()) -> str:
    """Name of targets y, a text or what pandas names, else the one of a fit; empty without any."""
    name = y if isinstance(y, str) else getattr(y, "name", None)
    if isinstance(name, str):
        return name
    return fitted[0] if len(fitted) == 1 else ""


def warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line outside this package that led here."""
    level, frame = 1, sys._getframe(0)
    while frame.f_back and frame.f_globals.get("__name__", "").split(".")[0] == "coupledgp":
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)
