"""What the site adds to Sphinx: pages of the reference, and docstrings as reStructuredText."""

from __future__ import annotations

import inspect
import re
from typing import Any

import site_reference

# Code between backticks stays. Elsewhere a trailing underscore, a bar or a star is no markup.
CODE = re.compile(r"(``.*?``|`[^`]*`)", re.DOTALL)
MARKUP = re.compile(r"(?<=\w)_(?!\w)|\||(?<![\\\w*])\*+(?=\w)(?![^\s*](?:[^*\n]*[^\s*])?\*)")


def plain(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    """Escape what reads as markup in a docstring and is none."""
    parts = CODE.split("\n".join(lines))
    parts[::2] = [MARKUP.sub(lambda found: "\\" + found[0], part) for part in parts[::2]]
    lines[:] = "".join(parts).split("\n")


def foreign(app: Any, what: str, name: str, obj: Any, skip: bool, options: Any) -> bool | None:
    """Leave out members that are inherited from other packages, which document them."""
    body = inspect.unwrap(getattr(obj, "fget", None) or getattr(obj, "func", obj))
    home = getattr(body, "__module__", None) or "coupledgp"
    return None if home.partition(".")[0] == "coupledgp" else True


def setup(app: Any) -> dict[str, bool]:
    """Write the reference before pages are read."""
    app.connect("builder-inited", lambda app: site_reference.write())
    app.connect("autodoc-skip-member", foreign)
    app.connect("autodoc-process-docstring", plain, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
