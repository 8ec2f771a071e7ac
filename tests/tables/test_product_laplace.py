"""The product Laplace kernel in models of tables, beside plain formulas."""

import numpy as np
import pandas as pd
import pytest
import torch
from scipy.spatial.distance import cdist

import coupledgp as cgp
from coupledgp.diagnostics.checks.kernels import kernels_beside
from coupledgp.errors import InvalidInputError
from coupledgp.features import FourierFeatures
from coupledgp.kernels import PositionKernel, ProductLaplace
from coupledgp.linalg.system import SystemOptions
from coupledgp.spectra import parse_spectrum, spectrum_text
from coupledgp.tables.exact_members import ExactMembers
from coupledgp.tables.local_search import MOST_AXES, TABLE_KERNELS, kernels_for
from coupledgp.tables.member_kinds import Size

RNG = np.random.default_rng(4)
X = RNG.uniform(-1, 1, (90, 3))
Y = np.sign(X[:, 0]) + (X[:, 1] > 0.2) * 0.7 + 0.05 * RNG.normal(size=90)
LENGTHSCALE = np.array([0.8, 1.5, 3.0])


def kernel(a, b, lengthscale=LENGTHSCALE):
    """A product over columns, which no code of the package forms."""
    return np.prod(np.exp(-np.abs(a[:, None] - b) / lengthscale), axis=2)


def fixed(**further):
    return cgp.ExactGPRegressor(
        "laplace", lengthscale=LENGTHSCALE, outputscale=1.3, noise=0.04, optimizer=None,
        normalize_y=False, random_state=0, **further,
    )  # fmt: skip


def test_it_is_registered_and_has_a_text():
    assert parse_spectrum("laplace") == ProductLaplace()
    assert spectrum_text(ProductLaplace()) == "laplace"


@pytest.mark.parametrize("weighted", [False, True])
def test_exact_laws_are_those_of_the_formula(weighted):
    weights = RNG.uniform(0.5, 3, 60) if weighted else np.ones(60)
    model = fixed().fit(X[:60], Y[:60], sample_weight=weights if weighted else None)
    gram = 1.3 * kernel(X[:60], X[:60]) + np.diag(0.04 / weights)
    cross = 1.3 * kernel(X[60:], X[:60])
    mean, std = model.predict(X[60:], return_std=True)
    np.testing.assert_allclose(mean, cross @ np.linalg.solve(gram, Y[:60]), atol=1e-10)
    variance = 1.3 - np.einsum("ij,ji->i", cross, np.linalg.solve(gram, cross.T)) + 0.04
    np.testing.assert_allclose(std**2, variance, rtol=1e-9)


def test_local_laws_with_all_rows_as_neighbours_are_exact():
    model = cgp.LocalGPRegressor("laplace", n_frequencies=0, n_neighbors=30, random_state=0)
    twin = model.fit(X[:30], Y[:30]).exact_twin()
    assert model.kernel_ == "laplace"
    laws = (each.predict(X[30:50], return_std=True) for each in (model, twin))
    for own, other in zip(*laws, strict=True):
        np.testing.assert_allclose(own, other, atol=1e-8)


def test_files_keep_it(tmp_path):
    for model in (fixed(), cgp.LocalGPRegressor("laplace", 4, n_neighbors=8, random_state=0)):
        fitted = model.fit(X[:40], Y[:40])
        cgp.save_model(fitted, tmp_path / "model.safetensors")
        loaded = cgp.load_model(tmp_path / "model.safetensors")
        np.testing.assert_array_equal(loaded.predict(X + 0.1), fitted.predict(X + 0.1))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_iterative_products_are_dense_ones(dtype, monkeypatch):
    for name, size in (("TILE_ROWS", 32), ("TILE_COLUMNS", 20)):
        monkeypatch.setattr(f"coupledgp.core.dense_system.{name}", size)
    system = fixed().fit(X, Y).exact_problem().system(SystemOptions(dtype=dtype))
    V = RNG.normal(size=(90, 2))
    found = system.product(torch.as_tensor(V, dtype=getattr(torch, dtype))).double().numpy()
    expected = (1.3 * kernel(X, X) + 0.04 * np.eye(90)) @ V
    np.testing.assert_allclose(found, expected, atol=1e-12 if dtype == "float64" else 1e-4)


def test_rows_that_are_left_out_are_predicted_by_the_others():
    left_out = fixed().fit(X[:40], Y[:40]).process_.left_out(np.arange(40))
    gram = 1.3 * kernel(X[:40], X[:40]) + 0.04 * np.eye(40)
    inverse = np.linalg.inv(gram)
    expected = Y[:40] - inverse @ Y[:40] / inverse.diagonal()
    np.testing.assert_allclose(np.ravel(left_out.mean), expected, atol=1e-9)


@pytest.mark.parametrize(
    "make",
    [
        lambda: cgp.SparseSpectrumGPRegressor(kernel="laplace").fit(X, Y),
        lambda: cgp.SparseSpectrumGPRegressor(kernel="laplace", frequencies="fitted").fit(X, Y),
        lambda: FourierFeatures(3, 8, "sobol", "laplace"),
        lambda: FourierFeatures(3, 8, "orthogonal+pnc", "laplace"),
    ],
)
def test_random_frequencies_are_refused_with_what_to_use(make):
    with pytest.raises(InvalidInputError, match=r"got 'laplace'.*ExactGPRegressor"):
        make()


def test_kernels_of_position_have_no_axes():
    with pytest.raises(InvalidInputError, match="straight distance"):
        PositionKernel("laplace")


def test_it_is_a_member_where_distances_keep_their_axes():
    assert "laplace" in kernels_for(MOST_AXES, False)
    for dim, shared in ((MOST_AXES + 1, False), (3, True)):
        kept = kernels_for(dim, shared)
        assert kept == tuple(name for name in TABLE_KERNELS if name != "laplace")
    sizes = [Size(1500, dim, 32, 64) for dim in (MOST_AXES, MOST_AXES + 1)]
    many, few = map(ExactMembers().forecast, sizes)
    assert few < 0.9 * many


def test_columns_of_one_lengthscale_are_not_rotated(monkeypatch):
    """A rotation, which Euclidean distances allow, would change sums of columns."""

    def rotated(inputs):
        raise AssertionError("rotated")

    monkeypatch.setattr("coupledgp.tables.local_search.rotated", rotated)
    table = pd.DataFrame({"level": np.arange(4).repeat(5).astype(str)})
    y = np.arange(20) // 5 + 0.1 * RNG.normal(size=20)
    cgp.LocalGPRegressor("laplace", 0, n_neighbors=4, random_state=0).fit(table, y)
    with pytest.raises(AssertionError, match="rotated"):
        cgp.LocalGPRegressor("matern-1/2", 0, n_neighbors=4, random_state=0).fit(table, y)


def test_the_report_tries_it_among_nearby_kernels():
    rows = RNG.uniform(-1, 1, (260, 3))
    boxes = ((rows > 0) * [2.0, 1.0, 1.5]).sum(axis=1) + 0.05 * RNG.normal(size=260)
    model = cgp.ExactGPRegressor("matern-3/2", lengthscale=0.8, optimizer=None, noise=0.05)
    problem = model.fit(rows[:180], boxes[:180]).exact_problem()
    found = kernels_beside(problem, rows[180:], boxes[180:, None], ("a", "b", "c"))
    mine = [one for one in found if one.name.startswith("laplace") and not one.varies]
    assert len(mine) == 2
    assert max(one.evidence for one in mine) > 10
    assert "no random features" in mine[0].remedy
    # Lengthscales that fit: the mean ratio of both distances over all directions.
    steps = RNG.normal(size=(20000, 3))
    ratio = (np.abs(steps).sum(axis=1) / np.linalg.norm(steps, axis=1)).mean()
    assert f"times {4.0 * ratio / 1.8:.2g}" in mine[0].name


def test_distances_of_the_metric_are_sums_of_columns():
    np.testing.assert_allclose(
        ProductLaplace().kernel(cdist(X, X, "cityblock")), kernel(X, X, np.ones(3)), rtol=1e-12
    )
