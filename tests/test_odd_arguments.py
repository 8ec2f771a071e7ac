"""Odd arrays and files given to Python are as plain ones, or an error says what is odd."""

from decimal import Decimal
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

import coupledgp as cgp
from coupledgp.errors import DataNotFoundError, InvalidInputError
from coupledgp.fields import LaplaceOperator, read_roads
from coupledgp.fields.mesh_files import read_mesh
from coupledgp.graphs import Graph
from coupledgp.ground.visible import visible
from coupledgp.spectra import parse_spectrum

RNG = np.random.default_rng(2)
X = np.round(RNG.normal(size=(12, 2)), 2)
Y = np.round(RNG.normal(size=12), 2)
RING = np.arange(8)


def table(points, y, **parameters):
    model = cgp.SparseSpectrumGPRegressor(n_frequencies=4, optimizer=None, random_state=0)
    return model.set_params(**parameters).fit(points, y).predict(X)


def frozen(array):
    array = array.copy()
    array.flags.writeable = False
    return array


@pytest.mark.parametrize(
    "odd",
    [
        lambda a: a[::-1][::-1],
        lambda a: np.flip(np.flip(a).copy()),
        np.asfortranarray,
        frozen,
        lambda a: np.repeat(a, 2, axis=0)[::2],
        lambda a: a.astype(">f8"),
        lambda a: a.astype(object),
        lambda a: a.astype(np.longdouble),
        lambda a: np.ma.masked_array(a),
        lambda a: a.tolist(),
        torch.tensor,
        lambda a: torch.tensor(a, requires_grad=True),
    ],
)
def test_odd_arrays_are_the_numbers_that_they_hold(odd):
    plain = table(X, Y)
    assert np.array_equal(table(odd(X), odd(Y)), plain)
    reverse = table(X[::-1].copy(), Y[::-1].copy())
    assert np.array_equal(table(X[::-1], Y[::-1]), reverse)


def test_targets_of_nodes_may_run_backwards():
    graph = Graph.from_edges(RING, (RING + 1) % 8)
    kernel = cgp.kernels.HeatKernel(1.0)
    for y in (np.arange(8.0)[::-1], np.arange(8)[::-1].astype(">i4"), frozen(np.arange(8.0))[::-1]):
        model = cgp.ExactGraphGPRegressor(graph, kernel, optimizer=None)
        found = model.fit(RING, y).predict()
        again = model.fit(RING, np.arange(8.0)[::-1].copy()).predict()
        assert np.array_equal(found, again)


def test_what_is_masked_is_missing():
    masked = np.ma.masked_array(X, mask=np.arange(24).reshape(12, 2) == 3)
    with pytest.raises(ValueError, match="X: column 2, row 2: expected a finite number, got NaN"):
        table(masked, Y)
    filled = np.where(masked.mask, np.nan, X)
    assert np.array_equal(
        table(masked, Y, missing="indicator"), table(filled, Y, missing="indicator")
    )
    with pytest.raises(ValueError, match="y, row 4: expected a finite number, got NaN; leave rows"):
        table(X, np.ma.masked_array(Y, mask=np.arange(12) == 3))


@pytest.mark.parametrize(
    ("points", "y", "message"),
    [
        (X, np.array([10**400] * 12, dtype=object), "y: expected numbers up to"),
        (np.array([[10**400, 1]] * 12, dtype=object), Y, "X: expected numbers up to"),
        (X, np.arange(12).astype("M8[D]"), "y: expected numbers, got datetime64"),
        (X, np.arange(12).astype("m8[D]"), "y: expected numbers, got timedelta64"),
        (np.ma.masked_array(X.astype(str)), Y, "X: expected numbers, got masked values"),
    ],
)
def test_what_is_no_number_is_refused(points, y, message):
    with pytest.raises(InvalidInputError, match=message):
        table(points, y)


def test_small_types_and_decimals_are_numbers():
    whole = np.arange(12) % 5
    plain = table(X, whole.astype(float))
    for y in (whole.astype(np.int8), whole.astype(np.float16), whole.astype("u2"),
              np.array([Decimal(int(v)) for v in whole], dtype=object)):  # fmt: skip
        assert np.array_equal(table(X, y), plain)


@pytest.mark.parametrize("scale", [1e300, 1e-300, 1.7e308])
def test_neighbours_do_not_depend_on_the_unit(scale):
    points = RNG.uniform(-1, 1, size=(20, 3))
    graph, scaled = Graph.from_points(points, 3), Graph.from_points(points * scale, 3)
    assert np.array_equal(graph.indices, scaled.indices)


@pytest.mark.parametrize("value", [1e-310, 5e-324, 1e308, 1e151])
def test_weights_and_lengths_have_limits(value):
    values = np.where(RING == 2, value, 1.0)
    for name in ("weights", "lengths"):
        with pytest.raises(InvalidInputError, match=f"{name}: expected numbers from 1e-75 to 1e"):
            Graph.from_edges(RING, (RING + 1) % 8, **{name: values})
    with pytest.raises(InvalidInputError, match=r"lengths: expected numbers from 1e-30"):
        LaplaceOperator.from_edges(RING, (RING + 1) % 8, values)
    with pytest.raises(InvalidInputError, match="expected weights from 1e-75"):
        Graph.from_scipy(np.diag([value, 1.0]))
    apart = np.where(RING == 2, 1e-60, 1e60)
    with pytest.raises(InvalidInputError, match=r"mean\(lengths\) / lengths: expected numbers"):
        Graph.from_edges(RING, (RING + 1) % 8, lengths=apart)


def test_numbers_of_nodes_have_limits_and_labels_have_none():
    with pytest.raises(InvalidInputError, match="larger numbers are labels"):
        Graph.from_edges([0, 2**70], [1, 2])
    with pytest.raises(InvalidInputError, match="n_nodes: expected at most"):
        Graph.from_edges([0], [1], n_nodes=10**12)
    graph = Graph.from_edges([0, 2**70], [1, 2**70 + 1], labels=[0, 1, 2**70, 2**70 + 1])
    assert graph.label(2) == 2**70


@pytest.mark.parametrize(
    "name", ["matern-1e400", "matern-1e99999999", "matern-1e-400", "matern-" + "9" * 5000]
)
def test_smoothness_is_a_finite_number(name):
    with pytest.raises(InvalidInputError, match="kernel: expected matern-NU of a finite NU > 0"):
        parse_spectrum(name)


def test_parameters_that_a_fit_does_not_use_are_checked():
    for value in (np.nan, 0.0, -1.0, np.inf, "x"):
        with pytest.raises(InvalidInputError, match="kl_target: expected a"):
            table(X, Y, options={"kl_target": value})
        graph = Graph.from_edges(RING, (RING + 1) % 8)
        with pytest.raises(InvalidInputError, match="kl_target: expected a"):
            cgp.GraphGPRegressor(graph, options={"kl_target": value}).fit(RING, Y[:8])


def refused_or(read, errors, named):
    """What is read, or None after one of the errors, which has to name a text."""
    try:
        return read()
    except errors as error:
        named_so = named in str(error)
    assert named_so
    return None


def test_corners_of_a_mesh_may_be_tensors_that_require_a_gradient():
    corners = torch.eye(3, dtype=torch.float64, requires_grad=True)
    faces = torch.tensor([[0, 1, 2]])
    found = LaplaceOperator.from_trimesh(SimpleNamespace(vertices=corners, faces=faces))
    assert np.array_equal(found.positions, np.eye(3))


@pytest.mark.parametrize("factor", [1e-3, 1e-9, 1e-30])
def test_small_meshes_keep_their_vertices(factor, tmp_path):
    import trimesh

    ball = trimesh.creation.icosphere(subdivisions=1)
    ball.apply_scale(factor)
    ball.export(tmp_path / "ball.stl")
    found = read_mesh(tmp_path / "ball.stl")
    assert (len(found.vertices), len(found.faces)) == (42, 80)


def test_readers_name_what_is_not_there(tmp_path):
    with pytest.raises(DataNotFoundError, match=r"no file .*none\.ply"):
        read_mesh(tmp_path / "none.ply")
    for name in ("none.geojson", "none.graphml"):
        with pytest.raises(FileNotFoundError, match=name):
            read_roads(tmp_path / name)


def test_control_characters_are_shown_as_escapes():
    shown = visible("a\x1b[31m\x00\r\x9b\u202eb\udcff\ud800 ä🦆\t\n")
    assert shown == "a\\x1b[31m\\x00\\x0d\\x9b\\u202eb\\xff\\ud800 ä🦆\t\n"


BEYOND = 10**400
PATH = cgp.Graph.from_edges([0, 1, 2], [1, 2, 3])


def corner(vertex):
    vertices = [vertex, [1, 0, 0], [0, 1, 0]]
    return LaplaceOperator.from_trimesh(SimpleNamespace(vertices=vertices, faces=[[0, 1, 2]]))


def fitted():
    return cgp.SparseSpectrumGPRegressor(n_frequencies=4, optimizer=None).fit(X, Y)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("noise", lambda: table(X, Y, noise=BEYOND)),
        ("lengthscale", lambda: table(X, Y, lengthscale=BEYOND)),
        ("n_frequencies", lambda: table(X, Y, n_frequencies=BEYOND)),
        ("y", lambda: table(X, [BEYOND] * len(Y))),
        ("y", lambda: fitted().partial_fit(X, [BEYOND] * len(Y))),
        ("sample_weight", lambda: fitted().partial_fit(X, Y, sample_weight=[BEYOND] * len(Y))),
        ("level", lambda: fitted().predict_interval(X, BEYOND)),
        ("y", lambda: cgp.GraphGPRegressor(PATH).fit([0, 2], [BEYOND, 1])),
        (
            "budget",
            lambda: cgp.GraphGPRegressor(PATH, options={"budget": BEYOND}).fit([0, 2], [1, 2]),
        ),
        ("weights", lambda: cgp.Graph.from_edges([0], [1], weights=[BEYOND])),
        ("lengths", lambda: cgp.LaplaceOperator.from_edges([0], [1], [BEYOND])),
        ("mesh", lambda: corner([BEYOND, 0, 0])),
        ("mesh", lambda: corner([0, 0])),
        ("nodes", lambda: cgp.GraphGPRegressor(PATH).fit([[0], [2]], [1, 2])),
    ],
)
def test_numbers_beyond_floats_and_other_shapes_are_refused_by_name(name, call):
    with pytest.raises(InvalidInputError, match=f"^{name}"):
        call()


@pytest.mark.parametrize("kind", ["Int64", "Float64", "boolean"])
def test_nullable_targets_are_numbers_with_gaps(kind):
    y = pd.Series(np.arange(12) % 2, dtype=kind)
    assert np.array_equal(table(X, y), table(X, np.arange(12.0) % 2))
    y[4] = pd.NA
    with pytest.raises(InvalidInputError, match="y, row 5: expected a finite number, got NaN"):
        table(X, y)
