"""Reports as HTML: a page in one file that fetches nothing, and tables for a notebook."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import jinja2

from coupledgp.diagnostics.pages.palette import THEME
from coupledgp.ground.visible import visible

# Signs and words of the colours of verdicts: nobody has to tell colours apart.
SIGNS = {
    "green": ("✓", "good"),
    "amber": ("!", "look at it"),
    "red": ("✕", "do not use as it is"),
    "grey": ("–", "not judged"),
}


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


def notebook_of(report: Mapping[str, Any]) -> str:
    """Return the verdict and the tables of a report as HTML, for notebooks."""
    return visible(ENVIRONMENT.get_template("notebook.html").render(report))
