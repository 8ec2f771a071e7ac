"""Figures, maps and scenes: drawn into axes, for the viewer of pages, and by PyVista."""

from __future__ import annotations

import base64
import json
import sys
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest
import trimesh
from matplotlib import pyplot
from matplotlib.axes import Axes

import coupledgp as cgp
from coupledgp.diagnostics.render.figures import (
    COLOURS,
    MODEL,
    REFERENCE,
    THEME,
    Picture,
    Quantity,
    axes_of,
    drawn_into,
    log_axis,
    mean_scale,
    number,
    panels_of,
    plotted,
    spread_scale,
)
from coupledgp.diagnostics.render.maps import NodeLayout, NodeMap, RoadMap, SurfaceMap
from coupledgp.diagnostics.render.scenes import Scene, mesh_of, thinned, turned
from coupledgp.errors import InvalidInputError, MissingLibraryError
from tests.diagnostics.report_cases import HOSTILE, LONG, report_of

BALL = trimesh.creation.icosphere(subdivisions=2)
VERTICES, FACES = np.asarray(BALL.vertices), np.asarray(BALL.faces)
SENSORS = VERTICES[::20]
VALUES = SENSORS[:, 2]
NAMES = [HOSTILE, LONG, *(f"=row {k}" for k in range(len(SENSORS) - 2))]


def face_map() -> NodeMap:
    """A law on the faces of a mesh."""
    layout = NodeLayout.of(BALL, cgp.Graph.from_trimesh(BALL, nodes="faces"))
    height = np.asarray(BALL.face_normals)[:, 2]
    error = np.where(np.arange(len(height)) % 3, np.nan, 0.1 * height)
    return NodeMap(layout, height, 1 + 0.01 * height, error, np.arange(0, len(height), 9))


def surface_map() -> SurfaceMap:
    """A law on a sphere, with sensors that are named."""
    mean, std = VERTICES[:, 2], 0.1 + VERTICES[:, 0] ** 2
    return SurfaceMap(VERTICES, FACES, mean, std, SENSORS, VALUES, NAMES, 0.1 * VALUES)


def road_map() -> RoadMap:
    """A law along three roads."""
    lines = [np.array([[0.0, 0], [1, 1], [2, 1]]), np.array([[0.0, 0], [0, 2]]), np.eye(2)]
    places = np.array([[0.0, 0], [2, 1]])
    return RoadMap(lines, np.arange(3.0), np.ones(3), places, np.array([0.5, 1.5]), [LONG, HOSTILE])


@pytest.fixture(autouse=True)
def _closed():
    yield
    pyplot.close("all")


def line():
    figure, axes = axes_of(3.0, 2.0)
    axes.plot([0, 1], [2, 5])
    return Picture("A line", figure)


def pair():
    figure, axes = panels_of(5.0, 2.0, 1, 2, sharey=True)
    for one in axes[0]:
        one.plot([0, 1], [2, 5])
    return Picture("Two lines", figure)


def test_a_picture_is_drawn_into_axes_that_are_given():
    figure, (first, second) = pyplot.subplots(1, 2)
    assert plotted(line, second) is second
    assert not first.lines
    assert second.lines[0].get_ydata().tolist() == [2, 5]
    assert len(figure.axes) == 2


def test_several_panels_divide_the_axes():
    figure, axes = pyplot.subplots(1, 3)
    found = plotted(pair, axes[1])
    assert found.shape == (2,)
    assert not axes[1].axison
    place, inner = axes[1].get_position(), [one.get_position() for one in found]
    assert place.x0 <= inner[0].x0 < inner[0].x1 <= inner[1].x0 < inner[1].x1 <= place.x1 + 1e-9
    assert all(one.lines for one in found)
    assert set(figure.axes) == {*axes, *found}


def test_without_axes_a_figure_of_pyplot_has_the_size_of_the_picture():
    axes = plotted(line)
    assert isinstance(axes, Axes)
    assert pyplot.get_fignums() == [axes.figure.number]
    assert axes.figure.get_size_inches().tolist() == [3.0, 2.0]
    assert plotted(pair).shape == (2,)


def test_pages_draw_figures_of_their_own_afterwards():
    plotted(line)
    assert len(pyplot.get_fignums()) == 1
    assert line().figure is not pyplot.gcf()
    with pytest.raises(ZeroDivisionError), drawn_into(pyplot.gca()):
        raise ZeroDivisionError
    line()
    assert len(pyplot.get_fignums()) == 1


def test_colour_bars_are_no_panels():
    assert surface_map().plot().shape == (2,)


def test_axes_of_no_grid_are_refused_where_panels_need_one():
    axes = pyplot.figure().add_axes((0, 0, 1, 1))
    plotted(line, axes)
    with pytest.raises(InvalidInputError, match="ax: expected axes of a grid of a figure for 2"):
        plotted(pair, axes)
    with pytest.raises(InvalidInputError, match="ax: expected axes of matplotlib, got str"):
        plotted(line, "axes")


@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
def test_files_have_the_same_bytes_each_time(ending, tmp_path):
    for name in "ab":
        line().save(tmp_path / f"{name}.{ending}")
    first, second = ((tmp_path / f"{name}.{ending}").read_bytes() for name in "ab")
    assert first == second
    assert first.startswith({"svg": b"<?xml", "png": b"\x89PNG", "pdf": b"%PDF"}[ending])
    with pytest.raises(InvalidInputError, match=r"path: expected an ending of .svg, .png, .pdf"):
        line().save(tmp_path / "a.gif")


@pytest.mark.parametrize("drawn", [surface_map(), road_map()], ids=["surface", "roads"])
def test_a_field_says_where_it_is_highest_and_where_to_measure(drawn):
    told = drawn.told()
    for k in (int(np.nanargmax(drawn.mean)), int(np.nanargmax(drawn.std))):
        nearest = int(np.argmin(np.linalg.norm(drawn.sensors - drawn.places[k], axis=1)))
        assert f"near sensor {drawn.names[nearest]}" in told
    assert told.index(f"{drawn.mean.max():.4g} ± ") < told.index("least certain")
    assert drawn.picture().caption.endswith("measure there next.")


def test_bad_geometry():
    graph = cgp.Graph.from_trimesh(BALL, nodes="faces")
    with pytest.raises(InvalidInputError, match="geometry: expected 320 faces or vertices"):
        NodeLayout.of(trimesh.creation.box(), graph)
    with pytest.raises(InvalidInputError, match="geometry: expected a mesh or finite positions"):
        NodeLayout.of(np.full((320, 2), np.nan), graph)


def test_one_colour_for_each_model():
    assert len({MODEL, REFERENCE, *COLOURS}) == len(COLOURS) + 2
    assert len({name for name, _ in THEME.values()}) == len(THEME)


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
    nodes = mesh_of(face_map().scene())
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


def test_pictures_that_are_no_maps_cannot_be_turned(pretended):
    report = report_of("table")
    with pytest.raises(InvalidInputError, match="backend: expected 'matplotlib' for a picture"):
        report.tables.source.model.plot(backend="pyvista")
    with pytest.raises(InvalidInputError, match="backend: expected one of 'matplotlib', 'pyvista'"):
        surface_map().plot(backend="plotly")


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
    for one in (law, road_map(), face_map()):
        pixels = turned(one.scene()).screenshot(return_img=True)
        assert len(np.unique(pixels.reshape(-1, 3), axis=0)) > 100


class TestAxes:
    @pytest.mark.parametrize("span", [(1.1e-9, 1.9e-9), (3.0, 40.0), (1e-8, 1e3)])
    def test_axes_of_logarithms_have_more_than_one_label(self, span):
        figure, axes = axes_of(4, 3)
        axes.set_yscale("log")
        axes.plot([0, 1], span)
        log_axis(axes.yaxis)
        figure.draw_without_rendering()
        low, high = axes.get_ylim()
        assert 2 <= sum(low <= tick <= high for tick in axes.get_yticks()) <= 9

    def test_numbers_of_axes(self):
        found = [number(value) for value in (0.25, -1500.0, 2e-9, 1e-8, -3.5e12)]
        assert found == ["0.25", "−1500", "2·10⁻⁹", "10⁻⁸", "−3.5·10¹²"]


class TestScales:
    def test_a_standard_deviation_starts_at_zero_and_says_that_it_hardly_varies(self):
        scale = spread_scale(np.array([0.98, 1.0, np.nan]))
        assert (scale.low, scale.high) == (0.0, 1.0)
        assert scale.note == "nearly constant: 0.98 to 1"
        assert spread_scale(np.array([0.1, 1.0])).note == ""

    def test_a_mean_that_hardly_varies_has_a_scale_of_its_uncertainty(self):
        flat = mean_scale(np.array([5.0, 5.0001]), np.ones(2))
        assert flat.high - flat.low == pytest.approx(0.1)
        assert "nearly constant" in flat.note
        assert mean_scale(np.array([1.0, 2.0]), np.ones(2)).note == ""
        assert mean_scale(np.zeros(3), np.zeros(3)).high > 0


def array(text: str, kind: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), kind)


class TestScene:
    def test_data_of_the_viewer_are_those_of_the_law(self):
        law = surface_map()
        scene = law.scene().to_dict()
        places = array(scene["positions"], "<u2").reshape(-1, 3) / 65534
        np.testing.assert_allclose(2 * places - 1, law.vertices, atol=1e-4)
        np.testing.assert_array_equal(array(scene["cells"], "<u2").reshape(-1, 3), law.faces)
        mean, std, error = scene["layers"]
        steps = array(mean["values"], "<u2") / 65534
        np.testing.assert_allclose(mean["low"] + steps * (mean["high"] - mean["low"]), law.mean,
                                   atol=1e-4)  # fmt: skip
        assert std["from"] == 0.0
        assert (array(error["values"], "<u2") == 65535).all()
        assert scene["sensors"]["values"]["mean"] == pytest.approx(law.values, rel=1e-5)
        assert scene["sensors"]["names"][:1] == [NAMES[0]]
        assert len(LONG) > len(scene["sensors"]["names"][1]) == 60

    def test_roads_and_faces(self):
        roads = road_map().scene().to_dict()
        pairs = array(roads["cells"], "<u2").reshape(-1, 2).tolist()
        assert pairs == [[0, 1], [1, 2], [3, 4], [5, 6]]
        assert array(roads["layers"][0]["values"], "<u2").tolist() == [0, 0, 32767, 65534]
        faces = face_map().scene().to_dict()
        assert faces["at_cells"]
        assert len(array(faces["layers"][0]["values"], "<u2")) == 320
        assert faces["sensors"]["names"][1] == "observed node 9"

    @pytest.mark.parametrize("at_cells", [False, True])
    def test_large_meshes_are_thinned_and_say_so(self, at_cells):
        grid = np.stack(np.meshgrid(*2 * [np.linspace(0, 1, 200)]), axis=-1).reshape(-1, 2)
        places = np.pad(grid, ((0, 0), (0, 1)))
        corner = np.arange(39800)[np.arange(39800) % 200 < 199]
        faces = np.concatenate([np.stack([corner, corner + 1, corner + 200], 1),
                                np.stack([corner + 1, corner + 201, corner + 200], 1)])  # fmt: skip
        values = places[faces].mean(axis=1)[:, 0] if at_cells else places[:, 0]
        quantity = Quantity("mean", "mean", values, mean_scale(values, values))
        scene = thinned(Scene("faces", places, faces, at_cells, [quantity]), 100_000)
        assert scene.n_bytes <= 100_000
        assert 3000 < len(scene.cells) < len(faces)
        assert scene.note == (
            f"This view is simplified to {len(scene.cells)} of {len(faces)} faces; figures use "
            "them all."
        )
        law, x = scene.quantities[0].values, scene.positions[:, 0]
        expected = x[scene.cells].mean(axis=1) if at_cells else x
        np.testing.assert_allclose(law, expected, atol=0.03)

    def test_hostile_meshes(self):
        """Corners nowhere, faces of one point, huge coordinates, values that are unknown."""
        places = 1e12 + np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [np.nan, 0, 0], [5, 5, 5.0]])
        faces = np.array([[0, 1, 2], [0, 0, 0], [0, 1, 3]])
        values = np.full(5, np.nan)
        quantity = Quantity("mean", HOSTILE, values, mean_scale(values, np.ones(5)))
        found = Scene("faces", places, faces, False, [quantity]).to_dict()
        assert array(found["cells"], "<u2").tolist() == [0, 1, 2, 0, 0, 0]
        assert (array(found["layers"][0]["values"], "<u2") == 65535).all()
        json.dumps(found, allow_nan=False)
