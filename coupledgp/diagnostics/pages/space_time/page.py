"""The page of a space-time model on a graph."""

from __future__ import annotations

from coupledgp.diagnostics.pages.page import Page
from coupledgp.diagnostics.pages.space_time.gains import (
    cards,
    headline,
    where_time_adds_nothing,
)
from coupledgp.diagnostics.pages.space_time.maps import TimeMaps
from coupledgp.diagnostics.pages.space_time.record import SpaceTimeRecord
from coupledgp.diagnostics.pages.space_time.series import hours_picture, series_pictures
from coupledgp.diagnostics.pages.space_time.tables import (
    calibration_sections,
    fact_section,
    gain_section,
    provenance_section,
    score_section,
    sensor_sections,
    term_section,
)
from coupledgp.diagnostics.pages.space_time.words import (
    duration_words,
    time_texts,
    zone_sentence,
)


def page_of(report: SpaceTimeRecord) -> Page:
    """Return the page: verdict, map over time, small maps, series, and tables."""
    maps = TimeMaps(report)
    drawn = [maps.small_multiples()] if report.times.size > 1 else []
    drawn += series_pictures(report)
    if report.hours:
        drawn.append(hours_picture(report))
    above = [gain_section(report), score_section(report), term_section(report)]
    after = [
        *sensor_sections(report), *calibration_sections(report), fact_section(report),
        provenance_section(report),
    ]  # fmt: skip
    return Page(
        title=report.title,
        lead=[_lead(report)],
        headline=headline(report),
        warnings=report.warnings,
        verdicts=cards(report),
        statements=where_time_adds_nothing(report),
        opening=maps.interactive(),
        sections=[one for one in above if one is not None],
        pictures=drawn,
        after=[one for one in after if one is not None],
    )


def _lead(report: SpaceTimeRecord) -> str:
    """What the data are: nodes, sensors, times, step and zone."""
    axis = report.axis
    first, *_, last = time_texts(axis, axis.values[[0, -1]])
    step = (
        "irregular steps" if axis.step is None else f"a step of {duration_words(axis.step, axis)}"
    )
    return (
        f"{len(report.nodes)} nodes, {report.sensors.size} of them with a sensor; "
        f"{axis.values.size} times from {first} to {last}, {step}. {zone_sentence(axis)}"
    )
