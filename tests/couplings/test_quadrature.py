"""The quadrature rule: exact for polynomials, within its bound for kernels, refused elsewhere."""

import numpy as np
import pytest

from coupledgp import SparseSpectrumGPRegressor, load_model
from coupledgp.couplings import QuadratureFrequencies, parse_coupling
from coupledgp.couplings.frequencies.quadrature import tensor_rule
from coupledgp.errors import InvalidInputError
from coupledgp.features import FourierFeatures, LaplaceFeatures
from coupledgp.theory import expected_mse

FULL = QuadratureFrequencies(antithetic=True)


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("q", [1, 2, 5, 6])
def test_moments_are_exact(dim: int, q: int) -> None:
    points, weights = tensor_rule(q, dim, True)
    assert len(points) == q**dim
    half, doubled = tensor_rule(q, dim, False)
    assert len(half) == -(-(q**dim) // 2)
    moments = {0: 1.0, 2: 1.0, 4: 3.0, 6: 15.0, 8: 105.0}
    for degree in range(min(2 * q, 9)):
        expected = moments.get(degree, 0.0)
        np.testing.assert_allclose(weights @ points**degree, expected, atol=1e-11)
        if degree % 2 == 0:
            np.testing.assert_allclose(doubled @ half**degree, expected, atol=1e-11)
    if dim > 1 and q > 1:
        assert weights @ (points[:, 0] ** 2 * points[:, 1] ** 2) == pytest.approx(1.0)


@pytest.mark.parametrize("dim", [1, 2, 3])
@pytest.mark.parametrize("m", [1, 2, 7, 40, 200])
@pytest.mark.parametrize("coupling", [FULL, QuadratureFrequencies()], ids=str)
def test_the_error_is_within_the_bound(
    coupling: QuadratureFrequencies, m: int, dim: int, rng: np.random.Generator
) -> None:
    feature_map = FourierFeatures(dim, m, coupling)
    assert feature_map.frequencies.shape == (m, dim)
    weights = coupling.weights(m, dim)
    assert weights.sum() == pytest.approx(1.0)
    assert (weights >= 0).all()
    X = rng.normal(size=(30, dim))
    phi = feature_map(X).numpy()
    z = X[:, None] - X
    error = np.abs(phi @ phi.T - np.exp(-0.5 * np.square(z).sum(-1)))
    assert (error <= coupling.error_bound(m, z) + 1e-13).all()


def test_it_beats_every_draw() -> None:
    x, y = np.array([0.5, 0.5]), np.array([-0.5, 0.3])
    k = np.exp(-0.5 * (x - y) @ (x - y))
    for m in (8, 32):
        phi = FourierFeatures(2, m, "quadrature")(np.stack([x, y])).numpy()
        assert (phi[0] @ phi[1] - k) ** 2 < 1e-3 * expected_mse(
            "fourier", "orthogonal+pnc", m, x, y
        )


def test_half_a_rule_is_the_whole_one_for_cosines() -> None:
    q = 6
    whole, half = QuadratureFrequencies(antithetic=True), QuadratureFrequencies()
    X = np.linspace(-1, 1, 12).reshape(6, 2)
    grams = []
    for coupling, m in ((whole, q**2), (half, q**2 // 2)):
        assert coupling.n_nodes(m, 2) == q
        phi = FourierFeatures(2, m, coupling)(X)
        grams.append((phi @ phi.T).numpy())
    np.testing.assert_allclose(grams[0], grams[1], rtol=1e-12)


def test_laplace_features_take_the_whole_rule() -> None:
    X = np.linspace(-0.5, 0.5, 8).reshape(4, 2)
    phi = LaplaceFeatures(2, 200, "quadrature+antithetic")(X).numpy()
    exact = np.exp(-0.5 * np.square(X[:, None] - X).sum(-1))
    np.testing.assert_allclose(phi @ phi.T, exact, atol=1e-6)
    with pytest.raises(InvalidInputError, match=r"no even functions.*append '\+antithetic'"):
        LaplaceFeatures(2, 200, "quadrature")


def test_more_frequencies_never_do_worse() -> None:
    z = np.array([1.5, 1.0, 0.5])
    bounds = [FULL.error_bound(m, z) for m in range(1, 400, 7)]
    nodes = [FULL.n_nodes(m, 3) for m in range(1, 400, 7)]
    assert nodes == sorted(nodes)
    assert bounds[-1] < 1e-3 * bounds[0]


def test_what_it_cannot_serve() -> None:
    with pytest.raises(InvalidInputError, match=r"dim: quadrature expects at most 3 dim.*got 4"):
        parse_coupling("quadrature").sample(5, 4)
    with pytest.raises(InvalidInputError, match=r"spectrum: quadrature expects 'gaussian'.*matern"):
        FourierFeatures(2, 5, "quadrature", "matern-3/2")


def test_models_keep_the_weights(tmp_path) -> None:  # type: ignore[no-untyped-def]
    X = np.linspace(-1, 1, 60).reshape(30, 2)
    y = np.sin(3 * X[:, 0])
    gp = SparseSpectrumGPRegressor(
        coupling="quadrature", n_frequencies=20, random_state=0, options={"max_iter": 10}
    ).fit(X, y)
    gp.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    np.testing.assert_array_equal(loaded.features_.weights, gp.features_.weights)
    np.testing.assert_array_equal(loaded.predict(X), gp.predict(X))
