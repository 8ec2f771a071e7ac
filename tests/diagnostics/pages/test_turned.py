"""Maps as scenes and meshes of PyVista, which a plain installation of tests leaves out."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.diagnostics.pages.turned import mesh_of, turned
from coupledgp.errors import InvalidInputError, MissingLibraryError
from tests.diagnostics.page_cases import (
    BALL,
    FACES,
    SENSORS,
    VALUES,
    VERTICES,
    mesh_report,
    road_map,
    surface_map,
    table_report,
)


class PolyData(SimpleNamespace):
    """What the code needs of `pyvista.PolyData`: points, cells after their sizes, and data."""

    length = 1.0

    def __init__(self, points, **cells):
        super().__init__(points=points, point_data={}, cell_data={}, **cells)

    def copy(self, deep):
        return self


@pytest.fixture
def pretended(monkeypatch):
    """A module in the place of PyVista, whose plotter lists its calls."""
    module = SimpleNamespace(PolyData=PolyData, Plotter=MagicMock())
    monkeypatch.setitem(sys.modules, "pyvista", module)
    return module


def drawn(plotter):
    """Arguments of each mesh that a plotter was given, by name."""
    return {call.kwargs["name"]: call for call in plotter.add_mesh.call_args_list}


def test_a_surface_is_a_mesh_with_the_law_as_data(pretended):
    law = surface_map()
    mesh = law.to_pyvista()
    assert np.array_equal(mesh.points, VERTICES)
    assert np.array_equal(mesh.faces.reshape(-1, 4), np.insert(FACES, 0, 3, axis=1))
    assert np.array_equal(mesh.point_data["mean"], law.mean)
    assert np.array_equal(mesh.point_data["std"], law.std)
    assert set(mesh.point_data) == {"mean", "std"}  # errors are known at sensors alone


def test_roads_are_lines_and_faces_have_values_of_their_own(pretended):
    mesh = mesh_of(road_map().scene())
    assert mesh.lines.reshape(-1, 3)[:, 0].tolist() == [2, 2, 2, 2]
    assert mesh.cell_data["mean"].tolist() == [0.0, 0.0, 1.0, 2.0]
    nodes = mesh_of(mesh_report().node_map.scene())
    assert len(nodes.cell_data["mean"]) == len(BALL.faces)


def test_a_scene_has_a_panel_for_each_quantity_with_the_unit_and_the_sensors(pretended):
    law = surface_map()
    object.__setattr__(law, "unit", "°C")
    plotter = law.plot(backend="pyvista")
    assert pretended.Plotter.call_args.kwargs["shape"] == (1, 2)
    found = drawn(plotter)
    assert list(found) == ["mean", "mean sensors", "std", "std sensors"]
    titles = [call.args[0].strip() for call in plotter.add_scalar_bar.call_args_list]
    assert titles == ["mean, °C", "standard deviation, °C"]
    assert np.array_equal(found["mean sensors"].args[0].points, SENSORS)
    assert np.array_equal(found["mean sensors"].kwargs["scalars"], VALUES)
    assert found["mean sensors"].kwargs["clim"] == found["mean"].kwargs["clim"]
    assert found["std sensors"].kwargs["color"] == "white"
    plotter.link_views.assert_called_once_with()


def test_maps_of_reports_can_be_turned_and_other_pictures_cannot(pretended):
    assert "mean" in drawn(mesh_report().plot("map", backend="pyvista"))
    with pytest.raises(InvalidInputError, match="backend: expected 'matplotlib' for a picture"):
        table_report().plot("pit", backend="pyvista")
    with pytest.raises(InvalidInputError, match="backend: expected one of 'matplotlib', 'pyvista'"):
        table_report().plot("pit", backend="plotly")


def test_without_pyvista_the_error_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pyvista", None)
    with pytest.raises(MissingLibraryError, match="pip install pyvista"):
        surface_map().plot(backend="pyvista")
    with pytest.raises(MissingLibraryError, match="pip install pyvista"):
        surface_map().to_pyvista()


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")
def test_pyvista_draws_and_its_meshes_are_taken_and_given_back(tmp_path):
    pyvista = pytest.importorskip("pyvista", reason="an extra that takes 570 megabytes")
    pyvista.OFF_SCREEN = True
    part = pyvista.wrap(BALL)
    gp = cgp.FieldGPRegressor(part, random_state=0).fit(SENSORS, VALUES)
    part["mean"], part["std"] = gp.predict(return_std=True)
    law = gp.field_map(unit="mm")
    given = gp.operator_.given_vertices
    np.testing.assert_allclose(law.to_pyvista()["std"][given], part["std"], rtol=1e-6)
    for kind in (part, part.cast_to_unstructured_grid()):
        cgp.write_mesh(tmp_path / "law.vtu", kind, mean=np.asarray(part["mean"]))
        assert np.array_equal(pyvista.read(tmp_path / "law.vtu")["mean"], part["mean"])
    for one in (law, road_map(), mesh_report().node_map):
        pixels = turned(one.scene()).screenshot(return_img=True)
        assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 100
