"""The regressor of fields: places in every form, warnings, errors, files, and simple truths."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pytest
import trimesh
from scipy.spatial import Delaunay
from sklearn.base import clone

import coupledgp as cgp
from coupledgp.errors import InvalidInputError
from coupledgp.kernels import FieldKernel, PositionKernel, WhittleMatern

MESH = trimesh.creation.icosphere(subdivisions=3)
OPERATOR = cgp.LaplaceOperator.from_trimesh(MESH)
FAST = WhittleMatern(1.5, 2)


def height(X):
    return 20.0 + 5.0 * X[:, 2] + np.sin(3 * X[:, 0])


def sensors(n=40, seed=0, noise=0.05):
    X, _ = trimesh.sample.sample_surface(MESH, n, seed=seed)
    return X, height(X) + noise * np.random.default_rng(seed).normal(size=n)


@pytest.fixture(scope="module")
def fitted():
    return cgp.FieldGPRegressor(OPERATOR).fit(*sensors())


def test_a_field_is_interpolated_with_honest_intervals(fitted):
    mean, std = fitted.predict(return_std=True)
    truth = height(OPERATOR.positions)
    error = np.abs(truth - mean)
    assert np.sqrt(np.mean(error**2)) < 0.1 * truth.std()
    assert np.mean(error < 1.96 * std) > 0.9
    nearest = sensors()[1][np.argmin(((truth_places()[:, None] - sensors()[0]) ** 2).sum(2), 1)]
    assert np.mean(error**2) < 0.1 * np.mean((truth - nearest) ** 2)


def truth_places():
    return OPERATOR.positions


def test_a_mesh_stands_for_its_refined_operator():
    box = trimesh.creation.box((1.0, 1.0, 1.0))
    gp = cgp.FieldGPRegressor(box, FAST).fit([0, 3, 5, 6], [1.0, 2.0, 3.0, 2.0])
    assert gp.operator_.n_vertices > 100
    assert gp.predict().shape == (8,)


def test_places_may_be_positions_vertices_or_locations(fitted):
    vertices = [3, 50, 641]
    by_number = fitted.predict(vertices)
    np.testing.assert_allclose(fitted.predict(MESH.vertices[vertices]), by_number, rtol=1e-9)
    table = pd.DataFrame(MESH.vertices[vertices], columns=["x", "y", "z"])
    np.testing.assert_allclose(fitted.predict(table[["z", "x", "y"]]), by_number, rtol=1e-9)
    table.columns = ["east", "north", "up"]  # no names of axes: in the order that they have
    np.testing.assert_allclose(fitted.predict(table), by_number, rtol=1e-9)
    np.testing.assert_allclose(fitted.predict(OPERATOR.at_vertices(vertices)), by_number)
    np.testing.assert_allclose(fitted.predict(np.array(vertices)), by_number)
    np.testing.assert_allclose(fitted.predict(), fitted.predict(np.arange(642)))
    faces = fitted.predict(OPERATOR.at_faces([7]))
    np.testing.assert_allclose(faces, fitted.predict(MESH.triangles_center[[7]]), rtol=1e-9)


def test_labels_name_nodes_of_a_network():
    roads = cgp.LaplaceOperator.from_edges(
        ["a", "b", "c", "c"], ["b", "c", "a", "d"], [300.0, 500.0, 400.0, 900.0], max_edge=50.0
    )
    gp = cgp.FieldGPRegressor(roads).fit(["a", "b", "d"], [50.0, 55.0, 20.0])
    assert {kernel.surface.alpha for kernel in gp.kernels_} <= {1, 2}
    assert gp.predict(["c"]).shape == (1,)
    on_edge = gp.predict(roads.at_edges([3], [450.0]))
    assert 20.0 < on_edge[0] < 55.0
    with pytest.raises(InvalidInputError, match="unknown"):
        gp.predict(["e"])
    with pytest.raises(InvalidInputError, match="no positions"):
        gp.predict([[0.0, 1.0]])
    with pytest.raises(InvalidInputError, match="no positions"):
        cgp.FieldGPRegressor(roads, "position").fit(["a", "b", "d"], [50.0, 55.0, 20.0])


def test_families_and_members_are_told(fitted):
    names = ["position", "surface", "sum", "position with columns", "sum with columns"]
    assert [family.name for family in fitted.selection_.families] == names
    assert len(fitted.kernels_) == len(fitted.weights_)
    np.testing.assert_allclose(fitted.weights_.sum(), 1.0)
    assert "Whittle-Matern" in fitted.selection_.explain()
    alone = cgp.FieldGPRegressor(OPERATOR, "matern").fit(*sensors())
    assert {kernel.family for kernel in alone.kernels_} == {"surface"}


def test_observations_at_one_place_are_averaged():
    X, y = sensors(15)
    twice = np.concatenate([X, X])
    gp = cgp.FieldGPRegressor(OPERATOR, FAST).fit(twice, np.concatenate([y, y + 0.2]))
    once = cgp.FieldGPRegressor(OPERATOR, FAST).fit(X, y + 0.1)
    assert gp.leave_one_out().mean.shape == (30,)
    # Left out together, both copies have one law.
    np.testing.assert_allclose(*np.split(gp.leave_one_out().mean, 2), rtol=1e-9)
    assert np.abs(gp.predict(X) - once.predict(X)).max() < 0.2


def test_leave_one_out_is_a_refit_with_kernels_kept(fitted):
    X, y = sensors()
    mean, std = fitted.leave_one_out()
    without = fitted.conditioned_on(X[1:], y[1:])
    expected = without.predict(X[:1], return_std=True)
    np.testing.assert_allclose(mean[:1], expected[0], rtol=1e-6)
    np.testing.assert_allclose(std[:1], expected[1], rtol=1e-6)


def test_outputs_have_their_own_units():
    X, y = sensors()
    both = np.column_stack([y, 1e6 - 1e3 * y])
    gp = cgp.FieldGPRegressor(OPERATOR, FAST).fit(X, both)
    mean, std = gp.predict(X[:5], return_std=True)
    np.testing.assert_allclose(mean[:, 1], 1e6 - 1e3 * mean[:, 0], rtol=1e-9)
    np.testing.assert_allclose(std[:, 1], 1e3 * std[:, 0], rtol=1e-9)
    assert gp.sample_y(X[:3], 4).shape == (3, 2, 4)


@pytest.mark.parametrize("scale", [1e5])
@pytest.mark.long
def test_the_unit_of_length_does_not_matter(scale):
    X, y = sensors(20)
    mesh = MESH.copy()
    mesh.apply_scale(scale)
    mesh.apply_translation([10 * scale] * 3)
    moved = cgp.FieldGPRegressor(cgp.LaplaceOperator.from_trimesh(mesh)).fit(
        scale * X + 10 * scale, y
    )
    plain = cgp.FieldGPRegressor(OPERATOR).fit(X, y)
    np.testing.assert_allclose(moved.predict(), plain.predict(), rtol=1e-4)


def test_a_file_restores_the_model_to_the_bit(fitted, tmp_path):
    path = tmp_path / "field.model"
    cgp.save_model(fitted, path)
    restored = cgp.load_model(path)
    for old, new in zip(
        fitted.predict(return_std=True), restored.predict(return_std=True), strict=True
    ):
        np.testing.assert_array_equal(old, new)
    np.testing.assert_array_equal(fitted.leave_one_out().mean, restored.leave_one_out().mean)
    assert restored.get_params()["kernel"] == "auto"
    assert restored.selection_.explain() == fitted.selection_.explain()
    named = cgp.FieldGPRegressor(OPERATOR, FAST + PositionKernel()).fit(*sensors(10))
    cgp.save_model(named, path)
    assert cgp.load_model(path).kernel == FieldKernel(FAST, PositionKernel())


def test_further_observations_are_taken_in(fitted):
    X, y = sensors(50, seed=3)
    gp = cgp.FieldGPRegressor(OPERATOR, FAST).fit(X[:40], y[:40])
    both = gp.conditioned_on(X, y)
    gp.partial_fit(X[40:], y[40:])
    assert len(gp.y_train_) == 50
    error = np.abs(gp.predict(X) - both.predict(X)).max()
    assert error < 0.2  # the units follow the data


def test_compare_finds_a_field_to_be_its_own_reference(fitted):
    X, y = sensors(20, seed=5)
    report = cgp.report(fitted, X, y)
    assert report.score("kl") < 1e-9


@pytest.mark.parametrize(
    ("places", "y", "message"),
    [
        ([0, 1], [1.0], "expected 2 values"),
        ([0, 1], [1.0, np.nan], "finite"),
        ([0, 1, 2, 3], [1e200, 2e200, 3e200, 1e200], "another unit"),
        ([0, 1, 2, 3], [1e-200, 2e-200, 3e-200, 1e-200], "another unit"),
        ([0, 10_000], [1.0, 2.0], "expected numbers from 0 to 641"),
        ([0.5, 1.0], [1.0, 2.0], "expected ints"),
        (np.array([0.5, 1.0]), [1.0, 2.0], "expected positions of shape"),
        ([[1e4, 0.0, 0.0]], [1.0], "check their unit"),
        ([True, False], [1.0, 2.0], "booleans"),
        ([[0.0, 0.0]], [1.0], "shape"),
        ([[0.0, np.nan, 1.0]], [1.0], "finite"),
        ([["a", "b", "c"]], [1.0], "numbers"),
        ([], [], "non-empty"),
    ],
)  # fmt: skip
def test_bad_observations_are_named(places, y, message):
    gp = cgp.FieldGPRegressor(OPERATOR, FAST)
    with pytest.raises(InvalidInputError, match=message):
        gp.fit(places, y)
    assert not gp.__sklearn_is_fitted__()


@pytest.mark.parametrize(
    ("operator", "kernel", "message"),
    [
        ("mesh.stl", "auto", "operator: expected a coupledgp.LaplaceOperator"),
        (OPERATOR, "heat", "kernel"),
        (OPERATOR, 3, "kernel"),
        (OPERATOR, WhittleMatern(alpha=1), "alpha: expected 2 or 4 on a surface"),
    ],
)
def test_bad_parameters_are_named(operator, kernel, message):
    with pytest.raises(InvalidInputError, match=message):
        cgp.FieldGPRegressor(operator, kernel).fit([0, 1, 2], [1.0, 2.0, 4.0])


@pytest.mark.parametrize(
    "bad",
    [
        lambda: WhittleMatern(-1.0),
        lambda: WhittleMatern(alpha=3),
        lambda: PositionKernel("cubic"),
        lambda: PositionKernel(lengthscale=0.0),
        lambda: FieldKernel(),
        lambda: FieldKernel(WhittleMatern(), PositionKernel(), 1.5),
        lambda: WhittleMatern() + WhittleMatern(),
    ],
)
def test_bad_kernels_are_refused(bad):
    with pytest.raises(InvalidInputError):
        bad()


def test_far_positions_are_said():
    X, y = sensors(10)
    with pytest.warns(UserWarning, match=r"places: 1 of 10 positions are farther"):
        cgp.FieldGPRegressor(OPERATOR, FAST).fit(np.vstack([X[:9], 2 * X[9:]]), y)


def test_positions_in_a_larger_unit_are_refused():
    """Metres beside a mesh in millimetres are one place, far from the surface or on it."""
    X, y = sensors(10)
    with pytest.raises(InvalidInputError, match=r"got 10 within 0\.00\d+ of each other: check"):
        cgp.FieldGPRegressor(OPERATOR, FAST).fit(X / 1000, y)
    corner = trimesh.creation.box(bounds=[[0, 0, 0], [1, 1, 1]])
    places = trimesh.sample.sample_surface(corner, 10, seed=0)[0] / 1000
    with pytest.warns(UserWarning, match="places: expected positions all over a surface"):
        cgp.FieldGPRegressor(corner, FAST).fit(places, y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cgp.FieldGPRegressor(OPERATOR, FAST).fit(np.vstack([X, X[:1]]), np.append(y, y[0])).predict(
            X[:1]
        )


def test_parts_without_observations_are_said():
    far = MESH.copy()
    far.apply_translation([4.0, 0.0, 0.0])
    operator = cgp.LaplaceOperator.from_trimesh(trimesh.util.concatenate([MESH, far]))
    X, y = sensors(20)
    with pytest.warns(UserWarning, match="1 of 2 components"):
        gp = cgp.FieldGPRegressor(operator, FAST).fit(X, y)
    _, std = gp.predict([0, 700], return_std=True)
    assert std[1] > 0.9 * np.sqrt(gp.outputscale_)
    assert std[0] < 0.5 * std[1]


def test_ranges_of_few_edges_are_said():
    with pytest.warns(UserWarning, match="refine with max_edge"):
        cgp.FieldGPRegressor(OPERATOR, WhittleMatern(0.4, 2)).fit(*sensors())


def test_vertices_of_no_face_have_no_value():
    vertices = np.vstack([MESH.vertices, [[9.0, 9.0, 9.0]]])
    mesh = trimesh.Trimesh(vertices, MESH.faces, process=False)
    gp = cgp.FieldGPRegressor(cgp.LaplaceOperator.from_trimesh(mesh), FAST).fit(*sensors())
    mean, std = gp.predict(return_std=True)
    assert mean.shape == (643,)
    assert np.isnan(mean[642])
    assert np.isnan(std[642])
    assert np.isfinite(mean[:642]).all()
    with pytest.raises(InvalidInputError, match="belongs to none"):
        gp.predict([642])


@pytest.mark.parametrize("y", [[3.0, 3.0, 3.0, 3.0], [1.0, 2.0]])
def test_data_without_evidence_take_defaults(y):
    with pytest.warns(UserWarning, match="no evidence stands behind"):
        gp = cgp.FieldGPRegressor(OPERATOR).fit(list(range(len(y))), y)
    assert np.isfinite(gp.predict(return_std=True)).all()
    assert "defaults" in gp.selection_.explain()


def test_exact_data_are_interpolated():
    """Observations without noise: the least noise ratio is small enough."""
    X, _ = sensors(60)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gp = cgp.FieldGPRegressor(OPERATOR).fit(X, height(X))
    np.testing.assert_allclose(gp.predict(X), height(X), atol=0.05)


@pytest.mark.long
def test_a_report_is_made_of_a_field(fitted, tmp_path):
    X, y = sensors(20, seed=5)
    report = cgp.report(fitted, X, y)
    report.to_html(tmp_path / "page.html")
    assert "FieldKernel" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_a_pickled_model_predicts_alike(fitted):
    copy = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(copy.predict([0, 5]), fitted.predict([0, 5]))


def test_a_clone_is_unfitted_and_shares_the_operator(fitted):
    copy = clone(fitted)
    assert copy.operator is OPERATOR
    assert not copy.__sklearn_is_fitted__()


def test_many_places_take_the_precision_route(tmp_path):
    X, y = sensors(450)
    gp = cgp.FieldGPRegressor(OPERATOR, n_frequencies=32, random_state=0).fit(X, y)
    assert "sparse precision" in gp.selection_.explain()
    assert len(gp.kernels_) == 1
    assert gp.kernel_.family == "sum"
    truth = height(OPERATOR.positions)
    mean, std = gp.predict(return_std=True)
    assert np.sqrt(np.mean((mean - truth) ** 2)) < 0.05
    assert np.mean(np.abs(mean - truth) < 1.96 * std) > 0.9
    left = gp.leave_one_out()
    assert np.mean(np.abs(y - left.mean) < 1.96 * left.std) > 0.9
    cgp.save_model(gp, tmp_path / "field.model")
    np.testing.assert_array_equal(cgp.load_model(tmp_path / "field.model").predict(), mean)


@pytest.mark.parametrize(
    "kernel", [FAST, FieldKernel(FAST, PositionKernel("matern-5/2", 1.0), 0.5)]
)
def test_both_routes_agree_on_a_field(kernel):
    """Of the same kernel: their laws differ by the uncertainty of hyperparameters alone."""
    X, y = sensors(60)
    laws = [
        cgp.FieldGPRegressor(
            OPERATOR, kernel, route=route, n_frequencies=128, random_state=0
        ).fit(X, y).predict(return_std=True)
        for route in ("columns", "precision")
    ]  # fmt: skip
    gap = np.abs(laws[0][0] - laws[1][0])
    assert np.mean(gap / laws[0][1]) < 0.5
    np.testing.assert_allclose(np.median(laws[0][1] / laws[1][1]), 1.0, atol=0.3)


def test_kernels_without_a_sparse_precision_keep_columns():
    X, y = sensors(420)
    gp = cgp.FieldGPRegressor(OPERATOR, WhittleMatern(1.5, 4)).fit(X, y)
    assert gp.selection_.families
    with pytest.raises(InvalidInputError, match="route"):
        cgp.FieldGPRegressor(OPERATOR, "position", route="precision").fit(X, y)
    with pytest.raises(InvalidInputError, match="route"):
        cgp.FieldGPRegressor(OPERATOR, route="fast").fit(X, y)


def test_one_place_in_two_forms_is_one_place():
    roads = cgp.LaplaceOperator.from_edges(
        [0, 1, 2, 3], [1, 2, 3, 0], [100.0, 200.0, 300.0, 400.0], max_edge=25.0
    )
    same = roads.at_edges([0, 1, 2, 3], [100.0, 0.0, 150.0, 100.0])
    gp = cgp.FieldGPRegressor(roads, WhittleMatern(400.0, 2)).fit(same, [9.0, 9.1, 5.0, 2.0])
    left = gp.leave_one_out()
    np.testing.assert_allclose(left.mean[0], left.mean[1], rtol=1e-6)
    assert left.std[0] > 1.0  # the other observation there does not give it away
    X = MESH.vertices[:4]
    both = cgp.FieldGPRegressor(OPERATOR, FAST)
    both.fit(np.vstack([X, X]), np.arange(8.0))
    from_vertices = cgp.FieldGPRegressor(OPERATOR, FAST).fit([0, 1, 2, 3] * 2, np.arange(8.0))
    np.testing.assert_allclose(
        both.leave_one_out().mean, from_vertices.leave_one_out().mean, rtol=1e-6
    )


def test_labels_that_are_tuples_are_no_positions():
    names = [(0, 5), (5, 0), (5, 5), (0, 0)]
    sources, targets = names, [*names[1:], names[0]]
    places = 100.0 * np.array(names)
    operator = cgp.LaplaceOperator.from_edges(
        sources, targets, [700.0, 500.0, 700.0, 500.0], positions=places, labels=names,
        max_edge=50.0,
    )  # fmt: skip
    gp = cgp.FieldGPRegressor(operator).fit(names, [1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(gp.predict(names), gp.predict(operator.at_vertices(names)))
    assert np.ptp(gp.predict(names)) > 0.5


def test_locations_of_another_operator_are_refused(fitted):
    other = cgp.LaplaceOperator.from_trimesh(trimesh.creation.icosphere(subdivisions=4))
    with pytest.raises(InvalidInputError, match="another operator"):
        fitted.predict(other.at_vertices([2000]))


def test_places_inside_long_edges_are_said():
    roads = cgp.LaplaceOperator.from_edges([0, 1], [1, 2], [300.0, 900.0])
    gp = cgp.FieldGPRegressor(roads, WhittleMatern(200.0, 1))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gp.fit([0, 1, 2], [1.0, 3.0, 2.0]).predict([1])
    with pytest.warns(UserWarning, match="inside edges of length 900"):
        gp.predict(roads.at_edges([1], [450.0]))


def test_pieces_with_few_observations_change_no_kernel_and_no_unit_elsewhere():
    """Twelve small triangles beside a sheet, with values of another unit."""
    side, rng = 9, np.random.default_rng(0)
    grid = np.stack(np.meshgrid(*[np.arange(side) / side] * 2), axis=-1).reshape(-1, 2)
    sheet = Delaunay(grid).simplices
    vertices, faces = [np.column_stack([grid, np.zeros(side**2)])], [sheet]
    for k in range(12):
        vertices.append(np.array([[2.0 + k, 0, 0], [2.2 + k, 0, 0], [2.0 + k, 0.2, 0]]))
        faces.append(np.array([[0, 1, 2]]) + side**2 + 3 * k)
    seen = rng.choice(side**2, 25, replace=False)
    truth = np.sin(4 * grid[:, 0]) + grid[:, 1]
    small = side**2 + 3 * np.arange(12)
    mesh = trimesh.Trimesh(np.concatenate(vertices), np.concatenate(faces), process=False)
    operator, laws = cgp.LaplaceOperator.from_trimesh(mesh), []
    for n_small in (0, 12):
        nodes = np.concatenate([seen, small[:n_small]])
        y = np.concatenate([truth[seen], 3 + 5 * rng.normal(size=n_small)])
        gp = cgp.FieldGPRegressor(operator, "matern", progress=False, random_state=0)
        expected = "12 components have fewer than 8" if n_small else "have no observation"
        with pytest.warns(UserWarning, match=expected):
            gp.fit(nodes, y)
        assert gp.process_.units.offset[0] == pytest.approx(truth[seen].mean())
        laws.append(gp.predict(np.arange(side**2), return_std=True))
    (mean, std), (found, spread) = laws
    # One constant mean is common to all pieces: that alone is told of by the others.
    assert np.abs(found - mean).max() < 0.1 * truth.std()
    np.testing.assert_allclose(spread, std, rtol=0.05)


@pytest.mark.parametrize("value", ["part.stl", trimesh.Scene(MESH)])
def test_files_and_scenes_are_told_how_they_become_meshes(value):
    with pytest.raises(InvalidInputError, match=r"force='mesh'. makes a mesh of a file or a scene"):
        cgp.FieldGPRegressor(value).fit([0, 1], [1.0, 2.0])


def test_names_of_classes_are_told_of_a_classifier():
    with pytest.raises(InvalidInputError, match=r"'cold'.*GraphGPClassifier"):
        cgp.FieldGPRegressor(OPERATOR).fit([0, 1], ["cold", "hot"])
