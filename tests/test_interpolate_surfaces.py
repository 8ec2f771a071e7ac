"""`coupledgp interpolate` of fields on meshes: sensors anywhere, files, baselines, refusals."""

import json
import re
import sys

import meshio
import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
import trimesh

import coupledgp as cgp
from coupledgp.cli import run
from coupledgp.diagnostics.pages.field import in_front
from coupledgp.models import FieldGPRegressor
from tests.interpolation import read, write

BALL = trimesh.creation.icosphere(subdivisions=2)  # 162 vertices, 320 faces
RNG = np.random.default_rng(7)
POINTS = RNG.normal(size=(24, 3))
POINTS /= np.linalg.norm(POINTS, axis=1)[:, None]
VALUES = 20 + 5 * POINTS[:, 0] + 3 * np.sin(3 * POINTS[:, 2]) + 0.1 * RNG.normal(size=24)
XYZ = dict(zip("xyz", POINTS.T, strict=True))
COARSE = ["--max-edge", "none"]
# For tests of files, not of the model.
QUICK = ["--max-edge", "0.3", "--kernel", "position"]


@pytest.fixture
def mesh(tmp_path):
    path = tmp_path / "ball.ply"
    BALL.export(path)
    return path


@pytest.fixture
def sensors(tmp_path):
    """Table of positions and temperatures; the last row has none."""
    columns = {name: [*values, 9.0] for name, values in XYZ.items()}
    return write(tmp_path / "sensors.csv", {**columns, "temperature": [*VALUES, ""]})


def operator():
    return cgp.LaplaceOperator.from_trimesh(BALL)


def numbers(table, *names):
    return [np.array(table[name], float) for name in names]


def test_the_law_written_is_that_of_the_estimator(mesh, sensors, tmp_path, call):
    call(mesh, "--values", sensors, "-o", tmp_path / "law.csv", *COARSE)
    # The vertices of the file are rounded, and a draw of kernels may hang on the last digits.
    written = cgp.LaplaceOperator.from_trimesh(trimesh.load(mesh, process=False))
    gp = FieldGPRegressor(written, random_state=0).fit(POINTS, VALUES)
    mean, std = gp.predict(return_std=True)
    found = read(tmp_path / "law.csv")
    assert found["vertex"] == [str(k) for k in range(162)]
    np.testing.assert_allclose(np.stack(numbers(found, "x", "y", "z"), 1), BALL.vertices, atol=1e-6)
    for name, values in (("mean", mean), ("std", std)):
        np.testing.assert_allclose(numbers(found, name)[0], values, rtol=1e-4)
    call(mesh, "--values", sensors, "-o", tmp_path / "f.csv", *COARSE, "--latent")
    assert (numbers(read(tmp_path / "f.csv"), "std")[0] < std).all()


def test_json_says_what_was_done(mesh, sensors, tmp_path, call):
    arguments = [mesh, "--values", sensors, "--holdout", "0.25", "--baselines", "--json"]
    result = json.loads(call(*arguments, "-o", tmp_path / "law.parquet"))
    assert result["model"]["model"] == "field"
    assert result["data"] | {"path": "", "values": "", "largest_distance": 0} == {
        "n_observed": 18, "n_places": 18, "n_hidden": 6, "path": "", "values": "",
        "places": "positions", "columns": ["x", "y", "z"], "value": "temperature",
        "share_hidden": 0.25,
        "largest_distance": 0,
    }  # fmt: skip
    domain = result["domain"]
    assert (domain["n_given"], domain["n_components"], domain["dimension"]) == (162, 1, 2)
    assert domain["n_vertices"] > 162  # edges of at most a 25th of the diameter
    fitted = result["fitted"]
    assert 0 <= fitted["surface_share"] <= 1
    assert np.isclose(sum(member["weight"] for member in fitted["members"]), 1)
    rows = {row["name"]: row for row in result["baselines"]["rows"]}
    assert list(rows) == ["model", "mean", "nearest", "harmonic", "position GP"]
    assert result["baselines"]["n_sensors"] == result["scores"]["n_hidden"] == 6
    assert rows["model"]["rmse"] == result["scores"]["rmse"] < 0.7 * rows["nearest"]["rmse"]
    assert len(result["leave_one_out"]["rows"]) == 18
    assert result["output"]["at"] == "vertices"
    table = pa.parquet.read_table(tmp_path / "law.parquet")
    assert table.column_names == ["vertex", "x", "y", "z", "mean", "std"]


def test_hidden_values_do_not_reach_the_fit(mesh, tmp_path, call):
    hidden = np.random.default_rng(3).permutation(24)[:6]
    order = np.lexsort(operator().project(POINTS).points.T[::-1])
    laws = []
    for shift in (0.0, 100.0):
        changed = VALUES.copy()
        changed[order[hidden]] += shift
        table = write(tmp_path / "v.csv", {**XYZ, "value": changed})
        arguments = ["--values", table, "--holdout", "0.25", "--seed", "3", *COARSE]
        call(mesh, *arguments, "-o", tmp_path / "law.csv")
        laws.append(read(tmp_path / "law.csv"))
    assert laws[0] == laws[1]


def test_sensors_by_vertex_and_by_face(mesh, tmp_path, call):
    chosen = np.arange(0, 160, 7)
    height, centres = BALL.vertices[chosen, 2], BALL.triangles_center[chosen, 2]
    at_vertices = write(tmp_path / "v.csv", {"vertex": chosen, "value": height})
    at_faces = write(tmp_path / "f.csv", {"face": chosen, "value": centres})
    named = write(tmp_path / "n.csv", {"node": chosen, "value": height})
    for table, more, name, truth in (
        (at_vertices, [], "vertex", BALL.vertices[:, 2]),
        (at_faces, [], "face", BALL.triangles_center[:, 2]),
        (named, ["--nodes", "vertices"], "vertex", BALL.vertices[:, 2]),
        (at_vertices, ["--at", "faces"], "face", BALL.triangles_center[:, 2]),
        (named, ["--nodes", "vertices", "--node-column", "node"], "vertex", BALL.vertices[:, 2]),
    ):
        call(mesh, "--values", table, "-o", tmp_path / "law.csv", *QUICK, *more)
        found = read(tmp_path / "law.csv")
        assert len(found[name]) == truth.size
        assert np.abs(numbers(found, "mean")[0] - truth).max() < 0.1


def test_meshes_with_the_law(mesh, sensors, tmp_path, call):
    call(mesh, "--values", sensors, "-o", tmp_path / "law.csv", *QUICK)
    mean, std = numbers(read(tmp_path / "law.csv"), "mean", "std")
    call(mesh, "--values", sensors, "-o", tmp_path / "law.vtu", *QUICK)
    found = meshio.read(tmp_path / "law.vtu")
    np.testing.assert_array_equal(found.point_data["mean"], mean)
    np.testing.assert_array_equal(found.point_data["std"], std)
    call(mesh, "--values", sensors, "-o", tmp_path / "law.glb", "--at", "faces", *QUICK)
    (part,) = trimesh.load(tmp_path / "law.glb", process=False).geometry.values()
    assert part.vertex_attributes["_MEAN"].size == 960
    call(mesh, "--values", sensors, "-o", tmp_path / "law.vtk", "--at", "refined", *QUICK)
    refined = meshio.read(tmp_path / "law.vtk")
    np.testing.assert_allclose(refined.point_data["mean"][:162], mean, rtol=1e-9)
    assert len(refined.points) > 162


def test_queries_and_sensors_left_out(mesh, sensors, tmp_path, call):
    query = write(tmp_path / "q.csv", {"id": ["a", "b"], "px": [1, 0], "py": [0, 1], "pz": [0, 0]})
    given = write(
        tmp_path / "p.csv",
        {**dict(zip(("px", "py", "pz"), POINTS.T, strict=True)), "value": VALUES,
         "sensor": [f"T{k}" for k in range(24)]},
    )  # fmt: skip
    arguments = ["--values", given, "--query", query, "--places", "px, py,pz", *COARSE]
    call(mesh, *arguments, "-o", tmp_path / "law.csv", "--left-out", tmp_path / "loo.csv")
    gp = FieldGPRegressor(operator(), random_state=0).fit(POINTS, VALUES)
    found = read(tmp_path / "law.csv")
    assert list(found) == ["id", "px", "py", "pz", "mean", "std"]
    expected = gp.predict(operator().project([[1.0, 0, 0], [0, 1, 0]]))
    np.testing.assert_allclose(numbers(found, "mean")[0], expected, rtol=1e-4)
    table, law = read(tmp_path / "loo.csv"), gp.leave_one_out()
    assert table["sensor"][3] == "T3"
    value, mean, std, residual = numbers(table, "value", "mean", "std", "residual")
    np.testing.assert_allclose(value, VALUES)
    np.testing.assert_allclose(mean, law.mean, rtol=1e-3)
    np.testing.assert_allclose(residual, (value - mean) / std, rtol=1e-9)


def test_the_page(mesh, tmp_path, call):
    """It names the sensor that is off, and says what the field is."""
    off = VALUES.copy()
    off[11] += 8
    table = write(tmp_path / "s.csv", {**XYZ, "value": off})
    page = tmp_path / "page.html"
    arguments = ["--values", table, "-o", tmp_path / "law.csv", "--report", page]
    out = call(mesh, *arguments)
    text = page.read_text()
    for found in (out, text):
        for part in (
            "24 observed by positions", "Variance of the field: ", "mesh units", "position GP",
            "each left out in turn", "Typical error ", "row 12", "Whittle-Matern",
        ):  # fmt: skip
            assert part in found, part
    assert text.count("<svg") == 3
    assert text.count("data:image/png") >= 2
    assert not re.search(r'(src|href)="http', text)
    rows = [line.split() for line in out.splitlines() if line.startswith("row ")]
    assert rows[0][:2] == ["row", "12"]


@pytest.mark.filterwarnings("always")
def test_warnings_reach_the_page_and_the_json(tmp_path, capsys):
    """A part without sensors, a position away from the surface, a range of few edges."""
    apart = trimesh.util.concatenate([BALL, BALL.copy().apply_translation([5, 0, 0])])
    apart.export(tmp_path / "two.ply")
    places = np.concatenate([POINTS[:-1], 1.3 * POINTS[-1:]])
    values = np.where(np.arange(24) % 2, 1.0, -1.0) + VALUES
    table = write(tmp_path / "s.csv", {**dict(zip("xyz", places.T, strict=True)), "value": values})
    page = tmp_path / "page.html"
    arguments = ["interpolate", tmp_path / "two.ply", "--values", table, *COARSE, "--json"]
    code = run([*map(str, arguments), "-o", str(tmp_path / "law.csv"), "--report", str(page)])
    out, err = capsys.readouterr()
    result = json.loads(out)
    assert code == 0
    assert result["domain"]["n_components_without_sensors"] == 1
    assert result["domain"]["n_vertices_without_sensors"] == 162
    text = page.read_text()
    for part in ("data row 24 lies 0.3", "components, with 162 of 324 vertices, have no"):
        assert any(part in line for line in result["warnings"]), part
        assert part in err
        assert part in text


@pytest.mark.filterwarnings("always")
def test_constant_values_and_single_places(mesh, tmp_path, capsys):
    """There is nothing to learn, and nothing to leave out; neither is an error."""
    for columns in (
        {**XYZ, "value": [3.0] * 24},
        {"vertex": [5, 5, 5], "value": [1, 2, 3]},
        {"vertex": [5], "value": [1]},
    ):
        table = write(tmp_path / "s.csv", columns)
        page = tmp_path / "page.html"
        law = tmp_path / "law.csv"
        arguments = ["interpolate", mesh, "--values", table, "-o", law, "--report", page, *COARSE]
        assert run(list(map(str, arguments))) == 0
        out, err = capsys.readouterr()
        found = read(tmp_path / "law.csv")
        assert np.isfinite(np.array([found["mean"], found["std"]], float)).all()
        for text in (out, err, page.read_text()):
            assert "too few places, or observations that are all alike, to compare" in text
        assert "Kernels by evidence" not in out + page.read_text()
        assert "1.000" not in out


def test_coverage_of_sensors_left_out_is_remarked_on():
    from coupledgp.cli.commands.field_run import coverage_remark
    from coupledgp.cli.shared.options import LeftOutPlaces

    y, names = np.linspace(-1, 1, 40), tuple(map(str, range(40)))
    narrow = LeftOutPlaces(y, np.zeros(40), np.full(40, 0.2), names)
    assert "16 of 40 sensors" in coverage_remark(narrow)
    assert "too narrow" in coverage_remark(narrow)
    assert coverage_remark(LeftOutPlaces(y, np.zeros(40), np.full(40, 0.6), names)) is None
    many = np.tile(y, 10)
    wide = LeftOutPlaces(many, 0 * many, np.full(400, 5.0), names * 10)
    assert "too wide" in coverage_remark(wide)


def test_sensors_behind_the_surface_are_not_seen():
    corners = BALL.triangles
    for mesh_point, seen in (([0.5, -0.8, 0.3], True), ([-0.5, 0.8, -0.3], False)):
        unit = np.array(mesh_point) / np.linalg.norm(mesh_point)
        assert in_front(unit[None], corners)[0] == seen


def test_vertices_of_no_face_get_no_value(tmp_path, call):
    lone = trimesh.Trimesh([[9.0, 9, 9], *BALL.vertices], BALL.faces + 1, process=False)
    lone.export(tmp_path / "lone.ply")
    table = write(tmp_path / "s.csv", {**XYZ, "value": VALUES})
    out = call(tmp_path / "lone.ply", "--values", table, "-o", tmp_path / "law.csv", *COARSE)
    assert "vertices of no face, which get no value" in out
    found = read(tmp_path / "law.csv")
    assert (found["mean"][0], found["std"][0]) == ("", "")
    assert "" not in found["mean"][1:]


def test_a_glb_has_the_values_of_all_its_vertices(tmp_path, call, fails, monkeypatch):
    """Vertices of no face are left out of it; corners of faces without area have no value."""
    lone = trimesh.Trimesh([[9.0, 9, 9], *BALL.vertices], BALL.faces + 1, process=False)
    lone.export(tmp_path / "lone.ply")
    table = write(tmp_path / "s.csv", {**XYZ, "value": VALUES})
    for kind in ("glb", "csv"):
        call(tmp_path / "lone.ply", "--values", table, "-o", tmp_path / f"law.{kind}", *QUICK)
    (found,) = trimesh.load(tmp_path / "law.glb", process=False).geometry.values()
    expected = np.array(read(tmp_path / "law.csv")["mean"][1:], float)
    np.testing.assert_allclose(found.vertex_attributes["_MEAN"].ravel(), expected, rtol=1e-6)
    flat = trimesh.Trimesh(lone.vertices, [*lone.faces, [0, 0, 1]], process=False)
    flat.export(tmp_path / "flat.ply")
    monkeypatch.setattr(FieldGPRegressor, "fit", None)  # refused before the fit
    told = fails(tmp_path / "flat.ply", "--values", table, "-o", tmp_path / "f.glb", *QUICK)
    assert "--output: a .glb needs a value at every corner of a face, got 1 corners" in told
    monkeypatch.setitem(sys.modules, "meshio", None)
    for more in (QUICK, ["--model", "graph"]):
        told = fails(tmp_path / "flat.ply", "--values", table, "-o", tmp_path / "f.vtu", *more)
        assert "coupledgp[geo]" in told


def test_wrong_tables(mesh, sensors, tmp_path, fails):
    def told(columns, *more):
        table = write(tmp_path / "s.csv", columns)
        return fails(mesh, "--values", table, "-o", tmp_path / "law.csv", *COARSE, *more)

    node = {"node": [1, 2, 3], "value": [1, 2, 3]}
    line = told(node)
    assert "expected a column 'vertex' or 'face', got 'node'" in line
    assert "--nodes vertices or --nodes faces" in line
    assert "--nodes vertices or" in told({"id": [1], "value": [1]}, "--node-column", "id")
    assert "got both" in told({"vertex": [1], "face": [1], "value": [1]})
    assert "expected columns x, y, z, or vertex, or face, got columns ['a', 'value']" in told(
        {"a": [1], "value": [1]}
    )
    assert "column 'vertex', data row 2: expected one of the vertices 0 to 161, got 162" in told(
        {"vertex": [1, 162], "value": [1, 2]}
    )
    assert "data row 1: expected one of the faces 0 to 319, got 1.5" in told(
        {"face": [1.5], "value": [1]}
    )
    assert "column 'y', data row 2: expected a finite number, got a missing value" in told(
        {"x": [1, 0], "y": [0, "nan"], "z": [0, 0], "value": [1, 2]}
    )
    assert "column 'y', data row 1: expected a finite number, got inf" in told(
        {"x": [1], "y": ["inf"], "z": [0], "value": [1]}
    )
    assert "expected a number in column 'value' somewhere" in told(
        {"vertex": [1, 2], "value": ["", "NaN"]}
    )
    assert "--target" in told({"vertex": [1], "a": [1], "b": [2]})
    assert "--places: expected 3 names" in told(node, "--places", "x,y")
    assert "expected column 'q'" in told(node, "--places", "node,value,q")
    assert "--left-out: expected sensors at two places" in told(
        {"vertex": [1, 1], "value": [1, 2]}, "--left-out", tmp_path / "loo.csv"
    )


def test_wrong_options(mesh, sensors, tmp_path, fails):
    def told(*more, output="law.csv", graph=mesh):
        return fails(graph, "--values", sensors, "-o", tmp_path / output, *more)

    assert "--set n_walks: expected --model graph beside it" in told(
        "--model", "field", "--n-walks", "4"
    )
    assert "--at: expected --model field beside it" in told("--model", "graph", "--at", "faces")
    assert "--set n_walks, --at: expected one of them" in told("--n-walks", "4", "--at", "faces")
    assert "--model: expected one of" in told("--model", "mesh")
    assert "--kernel: expected one of" in told("--model", "field", "--kernel", "heat")
    for name in ("foo", "Matern"):
        line = told("--kernel", name)
        assert "--kernel: expected one of 'auto', 'heat'" in line
        assert "'position'" in line
    assert "--kernel: expected one of" in told("--model", "graph", "--kernel", "position")
    assert "--max-edge: expected auto, none or a length > 0" in told("--max-edge", "-1")
    assert "--max-edge: expected auto" in told("--max-edge", "short")
    assert "max_edge: expected a length that makes" in told("--max-edge", "1e-5")
    assert "--at: expected one of" in told("--at", "edges", *COARSE)
    assert "--nodes: expected one of" in told("--nodes", "edges")
    assert "a .gpkg needs roads" in told(output="law.gpkg")
    assert "--left-out: expected a path ending in" in told("--left-out", tmp_path / "loo.xls")
    assert "--crs: expected it for a network only" in told("--crs", "EPSG:4326")
    assert "--length: expected it for a network only" in told("--length", "length")
    query = write(tmp_path / "q.csv", {"vertex": [1], "mean": [1]})
    assert "expected no column 'mean'" in told("--query", query, *COARSE)
    assert "--at: expected no --query" in told("--query", query, "--at", "faces", *COARSE)
    assert "--output: expected a path ending" in told("--query", query, *COARSE, output="l.vtu")
    assert "--left-out: expected a path of its own" in told("--left-out", tmp_path / "law.csv")
    assert "gone.stl" in told(graph=tmp_path / "gone.stl")
