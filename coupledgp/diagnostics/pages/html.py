"""Reports as HTML: a page in one file that fetches nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import jinja2

from coupledgp.diagnostics.pages.palette import THEME
from coupledgp.diagnostics.verdicts.verdict import SIGNS
from coupledgp.ground.visible import visible

ENVIRONMENT = jinja2.Environment(
    loader=jinja2.PackageLoader("coupledgp.diagnostics.pages"), autoescape=True, trim_blocks=True,
    lstrip_blocks=True,
)  # fmt: skip
ENVIRONMENT.globals |= {"SIGNS": SIGNS, "THEME": THEME}
# Exponents in cells hold together at the ends of lines.
ENVIRONMENT.filters["unbroken"] = lambda cell: re.sub(
    r"(?<=\d)e-0?(?=\d)", "e\N{NON-BREAKING HYPHEN}", f"{cell}"
)


def html_of(report: Mapping[str, Any]) -> str:
    """Return the parts of a report as one HTML document."""
    pictures = [one for part in report["parts"] for _, one in part["pictures"]]
    text = ENVIRONMENT.get_template("page.html").render(
        report, has_scene=any(one.scene is not None for one in pictures),
        has_frames=any(one.scene and one.scene.frames for one in pictures),
    )  # fmt: skip
    return visible(text)
