"""Pages of every kind, made of little, with names that come from hostile files."""

from __future__ import annotations

from dataclasses import replace
from functools import cache, partial

import numpy as np
import trimesh

import coupledgp as cgp
from coupledgp.diagnostics.pages.dependence import left_out, residuals
from coupledgp.diagnostics.pages.field import RoadMap, SurfaceMap
from coupledgp.diagnostics.pages.mesh import NodeLayout, NodeMap
from coupledgp.diagnostics.sections.report import Report
from coupledgp.diagnostics.sections.section import ReportTable, Section
from coupledgp.diagnostics.study_report import StudyReport
from tests.diagnostics.pages import space_time_cases

RNG = np.random.default_rng(4)
HOSTILE = "</script><img src=x onerror='stop()'>$\\frac{&quot;"
LONG = "a_sensor_with_a_name_of_seventy_letters_and_nowhere_to_break_a_line_of_it"
X = RNG.normal(size=(70, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=70)
BALL = trimesh.creation.icosphere(subdivisions=2)
VERTICES, FACES = np.asarray(BALL.vertices), np.asarray(BALL.faces)
SENSORS = VERTICES[::20]
VALUES = SENSORS[:, 2]
NAMES = [HOSTILE, LONG, *(f"=row {k}" for k in range(len(SENSORS) - 2))]


@cache
def table_report_model() -> cgp.SparseSpectrumGPRegressor:
    """A small model of a table."""
    return cgp.SparseSpectrumGPRegressor(n_frequencies=8, optimizer=None).fit(X[:50], Y[:50])


@cache
def table_report() -> StudyReport:
    """A report with couplings side by side."""
    return cgp.posterior_report(
        table_report_model(), X[50:], Y[50:], couplings=["iid", "orthogonal"], sizes=[4, 16],
        n_draws=2, title=HOSTILE, data=LONG,
    )  # fmt: skip


@cache
def mesh_report() -> StudyReport:
    """The same figures, with a law on the faces of a mesh."""
    layout = NodeLayout.of(BALL, cgp.Graph.from_trimesh(BALL, nodes="faces"))
    height = np.asarray(BALL.face_normals)[:, 2]
    error = np.where(np.arange(len(height)) % 3, np.nan, 0.1 * height)
    law = NodeMap(layout, height, 1 + 0.01 * height, error, np.arange(0, len(height), 9))
    return replace(table_report(), node_map=law)


def surface_map() -> SurfaceMap:
    """A law on a sphere, with sensors that are named."""
    mean, std = VERTICES[:, 2], 0.1 + VERTICES[:, 0] ** 2
    return SurfaceMap(VERTICES, FACES, mean, std, SENSORS, VALUES, NAMES, 0.1 * VALUES)


def road_map() -> RoadMap:
    """A law along three roads."""
    lines = [np.array([[0.0, 0], [1, 1], [2, 1]]), np.array([[0.0, 0], [0, 2]]), np.eye(2)]
    places = np.array([[0.0, 0], [2, 1]])
    return RoadMap(lines, np.arange(3.0), np.ones(3), places, np.array([0.5, 1.5]), [LONG, HOSTILE])


def field_page(law: SurfaceMap | RoadMap) -> str:
    """A page of a field with sensors that are left out."""
    loo = VALUES, VALUES + 0.3 * RNG.normal(size=len(VALUES)), np.full(len(VALUES), 0.1), NAMES
    reason = f"by stochastic solves, since {LONG} has more columns than a dense factor takes"
    fit = [("kernel", "0.1", "std 0.2"), (HOSTILE, "2", reason), (LONG, "3", "")]
    tables = [
        ReportTable("Fit", ("", "value", "remark"), fit),
        ReportTable(HOSTILE, ("", "nothing", "share"), [("a", "", "1"), ("b", "", "2")]),
    ]
    pictures = [partial(left_out, *loo, 0.95), partial(residuals, *loo)]
    return Report(
        title="Field",
        lead=[f"values of {HOSTILE}: {LONG}"],
        statements=["The RMSE of the model is 1."],
        warnings=[f"data row 3 of {LONG} is far away"],
        sections=[
            Section("map", pictures=[law.picture]),
            Section("fit", sentence=f"A sentence on {HOSTILE}.", tables=tables),
            Section("left-out", LONG, pictures=pictures),
        ],
    ).to_html()


def audit_page() -> str:
    """A page of an audit of a mean and a standard deviation."""
    law = np.sin(X[50:, 0]), np.full(20, 0.1)
    return cgp.audit(law, X[:50], Y[:50], X[50:], Y[50:], title="Rival").to_html()


@cache
def pages() -> dict[str, str]:
    """All pages by kind."""
    return {
        "table": table_report().to_html(),
        "mesh": mesh_report().to_html(),
        "surface": field_page(surface_map()),
        "roads": field_page(road_map()),
        "audit": audit_page(),
        "time": space_time_cases.report().to_html(),
    }
