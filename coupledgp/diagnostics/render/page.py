"""A report as one page of HTML that fetches nothing, and as one screen of a notebook."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import jinja2
import numpy as np
import pandas as pd

from coupledgp.diagnostics.predictions import Predictions
from coupledgp.diagnostics.render import pictures
from coupledgp.diagnostics.render.figures import THEME, Picture
from coupledgp.diagnostics.render.tables import (
    SIGNS,
    Shown,
    answer,
    do_next,
    label,
    number,
    shown_tables,
    study_table,
)
from coupledgp.diagnostics.tables import Tables
from coupledgp.ground.notebook import Card, Notebook, NotebookTable
from coupledgp.ground.validation import check_choice
from coupledgp.ground.visible import visible

if TYPE_CHECKING:
    from coupledgp.diagnostics.report import Report
    from coupledgp.diagnostics.study import Study

# A section: its heading, a frame or None, and what draws its picture or None; None leaves it out.
Section: TypeAlias = Callable[
    ["Report"], tuple[str, pd.DataFrame | None, Callable[[], Picture] | None] | None
]
# Section whose picture opens the page, rows of a section's frame before the fold, and rows of
# scores in a notebook.
OPENING, OPEN_ROWS, NOTEBOOK_ROWS = "map", 16, 5
ENVIRONMENT = jinja2.Environment(
    loader=jinja2.PackageLoader("coupledgp.diagnostics", "render"), autoescape=True,
    trim_blocks=True, lstrip_blocks=True,
)  # fmt: skip


def model_map(report: Report) -> tuple[str, None, Callable[[], Picture]] | None:
    """The map of a field, of the nodes of a graph, or over two places; None for other models."""
    p, model = report.tables.predictions, getattr(report.tables.source, "model", None)
    draw: Callable[[], Picture] | None = None
    if hasattr(model, "field_map"):
        draw = partial(_field_map, model, p)
    elif model is not None and hasattr(model, "nodes_") and p.times is None:
        draw = model.picture
    elif hasattr(model, "fitted_"):
        from coupledgp.tables.place_maps import PlacesOf  # models import pages

        places = PlacesOf.of(model)
        draw = None if places is None else partial(_places_map, places, p.unit)
    return None if draw is None else ("Map", None, draw)


def _places_map(places: Any, unit: str) -> Picture:
    found: Picture = replace(places.map, unit=unit).picture()
    return found


def _field_map(model: Any, p: Predictions) -> Picture:
    """A field on its surface or roads, with the errors of sensors that were left out."""
    names: list[str] = []
    errors = None
    if p.y is not None and len(p) == len(model.process_.data):
        errors = (p.y - p.law.mean)[:, 0]
        if p.groups is not None:
            names = [label(one) for one in p.groups.iloc[:, 0]]
    found: Picture = model.field_map(names=names, left_out=errors, unit=p.unit).picture()
    return found


# Sections of a report by name, after those of its tables.
SECTIONS: Mapping[str, Section] = {OPENING: model_map}


def picture_of(report: Report, name: str = "opening") -> Picture:
    """The picture that opens the page, that of calibration, or that of a section.

    Raises
    ------
    InvalidInputError
        The report has no such picture.
    """
    t = report.tables
    drawn: dict[str, Callable[[], Picture]] = {}
    for key, section in report.sections.items():
        found = section(report)
        if found is not None and found[2] is not None:
            drawn["opening" if key == OPENING else key] = found[2]
    if "opening" not in drawn and t.predictions.y is not None:
        drawn["opening"] = partial(_drawn, pictures.opening, t)
    if len(t.pit):
        drawn["calibration"] = partial(_drawn, pictures.calibration, t)
    return drawn[check_choice(name, list(drawn), "name")]()


def _drawn(draw: Callable[[Tables], Picture | None], t: Tables) -> Picture:
    found = draw(t)
    assert found is not None
    return found


def html_of(report: Report) -> str:
    """The page of a report: its answer, a picture and three verdicts, then tables."""
    t = report.tables
    found = {name: section(report) for name, section in report.sections.items()}
    sections, opening = [], None
    for name, one in found.items():
        if one is None:
            continue
        heading, frame, draw = one
        picture = None if draw is None else draw()
        if name == OPENING and picture is not None:
            opening, picture = picture, None
        if frame is not None or picture is not None:
            sections.append((name, heading, _shown(name, heading, frame), picture))
    lead, why = answer(t)
    return _page(
        title=report.title, answer=lead, why=why, warnings=report.warnings,
        opening=pictures.opening(t) if opening is None else opening, verdicts=report.verdicts,
        todo=do_next(report), tables=list(shown_tables(report)), sections=sections,
        calibration=pictures.calibration(t), provenance=report.provenance,
    )  # fmt: skip


def study_page(study: Study) -> str:
    """The page of a study of couplings: its verdict, a picture of each figure, and the means."""
    *others, largest = study.verdict_by_size()
    return _page(
        title=f"Couplings of {study.size_name}, beside the exact process of {study.n_train} rows",
        answer=largest, why=" ".join([*others, study.cannot_gain]), warnings=study.warnings,
        opening=study.picture(), verdicts=(), todo="", tables=[study_table(study)],
        sections=[(name, name, None, study.picture(name)) for name in study.figures[1:]],
        calibration=None, provenance={},
    )  # fmt: skip


def _page(opening: Picture | None, **parts: Any) -> str:
    scene = opening is not None and opening.scene is not None
    covered = any(shown.name == "coverage" for shown in parts["tables"])
    text = ENVIRONMENT.get_template("page.html").render(
        parts, opening=opening, scene=scene, has_coverage=covered, THEME=THEME, SIGNS=SIGNS
    )
    return visible(text)


def _shown(name: str, heading: str, frame: pd.DataFrame | None) -> Shown | None:
    """A frame of a section as it is read."""
    if frame is None:
        return None
    rows = [
        [
            number(float(cell)) if isinstance(cell, float | np.floating) else label(cell)
            for cell in row
        ]
        for row in frame.itertuples(index=False)
    ]
    return Shown(name, heading, "", [str(one) for one in frame.columns], rows, OPEN_ROWS)


def notebook_of(report: Report) -> Notebook:
    """One screen of a notebook: answer, verdicts, what to do next, and the leading scores."""
    lead, why = answer(report.tables)
    todo = do_next(report)
    cards = [
        Card(one.question, one.sentence, one.colour, " ".join(SIGNS[one.colour]))
        for one in report.verdicts
    ]
    scores = [one for one in shown_tables(report) if one.name == "scores"]
    tables: list[Any] = [
        NotebookTable(one.title, one.heads, one.rows[:NOTEBOOK_ROWS]) for one in scores
    ]
    sentences = [f"Do next: {todo}"] if todo else []
    return Notebook(lead, [*report.warnings, *filter(None, [why])], cards, sentences, tables)
