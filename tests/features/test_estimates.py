"""The kernel estimates of all couplings: unbiased, and with exactly the error of MATH section 3."""

from functools import lru_cache

import numpy as np
import pytest
import torch

from coupledgp.couplings import available_couplings, parse_coupling
from coupledgp.features import FeatureMap, FourierFeatures, LaplaceFeatures
from coupledgp.spectra import MaternSpectrum, parse_spectrum
from coupledgp.theory import expected_mse
from tests.theory import assert_mean, z_score

MAPS: dict[str, type[FeatureMap]] = {"fourier": FourierFeatures, "laplace": LaplaceFeatures}
SEQUENCES, HALVES = ("halton", "sobol"), ("halton-half", "sobol-half")
OLD = ("iid", "orthogonal")
# Every law of directions with a closed form, with and without pairs and signs.
COMPOSED = [
    text
    for text in available_couplings()
    if text.split("+")[0] not in (*SEQUENCES, *HALVES, "simplex-plus", "quadrature")
    and (text.split("+")[0] in OLD or text.split("+")[1:] in ([], ["pnc", "antithetic"]))
]
REPETITIONS = 1500
FEWER = 600  # for scrambled sequences, whose draws are slow
# m in dimension d: a whole block and a cut one, an odd number of pairs, a stratum each.
SIZES = {2: 5, 3: 5, 8: 12}


@lru_cache(maxsize=4)
def ensembles(
    text: str, m: int, dim: int, spectrum: str, seed: int, most: int = REPETITIONS
) -> np.ndarray:
    """Independent ensembles of frequencies, shape (repetitions, m, d)."""
    rng = np.random.default_rng([seed, m, dim])
    coupling, law = parse_coupling(text), parse_spectrum(spectrum)
    repetitions = FEWER if text in SEQUENCES else most
    return np.stack([coupling.sample(m, dim, law, rng) for _ in range(repetitions)])


def estimates(features: str, frequencies: np.ndarray, X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Dot products of the package's own features, shape (repetitions, pairs)."""
    n, m, dim = frequencies.shape
    feature_map = MAPS[features](dim, n * m, "iid", generator=0)
    feature_map.frequencies.copy_(torch.as_tensor(frequencies.reshape(n * m, dim)))
    # All ensembles at once: the features of ensemble r are those of its own m columns.
    phi, psi = (feature_map(points).numpy() * np.sqrt(n) for points in (X, Y))
    products = (phi * psi).reshape(len(X), -1, n, m)
    return products.sum(axis=(1, 3)).T


def pairs(features: str, dim: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of inputs with the same `|x - y|`, or `|x + y|`, in all directions.

    The error depends on that length only (and on a factor, for Laplace features), so that averages
    over directions sharpen the test. Laplace estimates have heavy tails, and so a shorter length.
    """
    length = 1.1 if features == "fourier" else 0.5
    directions = rng.normal(size=(12, dim))
    directions *= length / np.linalg.norm(directions, axis=1, keepdims=True)
    if features == "fourier":
        X = rng.normal(size=(12, dim))
        return X, X - directions
    return 0.3 * directions, 0.7 * directions


@pytest.mark.parametrize("features", MAPS)
@pytest.mark.parametrize(
    ("text", "dim"),
    [
        (text, dim)
        for text in COMPOSED
        for dim in SIZES
        if dim == 3 or text.split("+")[0] == "iid" or (dim == 8 and text.split("+")[0] in OLD)
    ],
)
def test_bias_and_error(
    text: str, dim: int, features: str, seed: int, rng: np.random.Generator
) -> None:
    m = SIZES[dim]
    X, Y = pairs(features, dim, rng)
    exact = np.exp(-0.5 * np.square(X - Y).sum(axis=1))
    deviations = estimates(features, ensembles(text, m, dim, "gaussian", seed), X, Y) - exact
    assert_mean(deviations, 0.0)
    assert_mean(deviations.mean(axis=1), 0.0)
    expected = expected_mse(features, text, m, X[0], Y[0])
    assert_mean(np.square(deviations).mean(axis=1), expected)


@pytest.mark.parametrize("features", MAPS)
@pytest.mark.parametrize(("m", "dim"), [(1, 1), (3, 1), (2, 8), (4, 2)])
@pytest.mark.parametrize("text", ["iid", "orthogonal+pnc", "orthogonal+stratified+antithetic"])
def test_error_at_other_sizes(
    text: str, m: int, dim: int, features: str, seed: int, rng: np.random.Generator
) -> None:
    X, Y = pairs(features, dim, rng)
    exact = np.exp(-0.5 * np.square(X - Y).sum(axis=1))
    deviations = estimates(features, ensembles(text, m, dim, "gaussian", seed), X, Y) - exact
    expected = expected_mse(features, text, m, X[0], Y[0])
    assert_mean(np.square(deviations).mean(axis=1), expected)


@pytest.mark.parametrize(
    ("text", "spectrum"),
    [
        *[(text, "matern-0.7") for text in (*COMPOSED, *SEQUENCES, "simplex-plus")],
        *[(text, "matern-1/2") for text in ("iid", "orthogonal+pnc", "halton")],
    ],
)
def test_matern_estimates_are_unbiased(
    text: str, spectrum: str, seed: int, rng: np.random.Generator
) -> None:
    dim, m = 3, 4
    # At small distances most cosines are one and a few are not: too skewed for a z-test.
    X, steps = rng.normal(size=(2, 8, dim))
    Y = X + np.linspace(0.5, 3, 8)[:, None] * steps / np.linalg.norm(steps, axis=1, keepdims=True)
    exact = parse_spectrum(spectrum).kernel(np.linalg.norm(X - Y, axis=1))
    drawn = ensembles(text, m, dim, spectrum, seed, FEWER)
    assert_mean(estimates("fourier", drawn, X, Y), exact)


def test_matern_error_of_independent_frequencies(seed: int, rng: np.random.Generator) -> None:
    """`Var cos(w . z) = (1 + kappa(2 z)) / 2 - kappa(z)^2`, for any spectrum."""
    dim, m = 3, 4
    for spectrum in (MaternSpectrum(0.5), MaternSpectrum(2.5)):
        X, Y = pairs("fourier", dim, rng)
        one, two = spectrum.kernel([1.1, 2.2])
        drawn = ensembles("iid", m, dim, str(spectrum), seed)
        squares = np.square(estimates("fourier", drawn, X, Y) - one)
        assert_mean(squares.mean(axis=1), ((1 + two) / 2 - one**2) / m)


@pytest.mark.parametrize("features", MAPS)
def test_adapted_simplex_is_unbiased_and_better_for_laplace_features(
    features: str, seed: int, rng: np.random.Generator
) -> None:
    dim, m = 3, 3
    X, Y = pairs(features, dim, rng)
    exact = np.exp(-0.5 * np.square(X - Y).sum(axis=1))
    drawn = ensembles("simplex-plus", m, dim, "gaussian", seed)
    deviations = estimates(features, drawn, X, Y) - exact
    assert_mean(deviations, 0.0)
    if features == "laplace":
        simplex = expected_mse(features, "simplex", m, X[0], Y[0])
        assert z_score(np.square(deviations).mean(axis=1), simplex) < -5


@pytest.mark.parametrize("features", MAPS)
@pytest.mark.parametrize("text", ["halton", "sobol"])
def test_quasi_monte_carlo_is_unbiased_and_beats_independent_draws(
    text: str, features: str, seed: int, rng: np.random.Generator
) -> None:
    dim, m = 2, 16
    X, Y = pairs(features, dim, rng)
    exact = np.exp(-0.5 * np.square(X - Y).sum(axis=1))
    drawn = ensembles(text, m, dim, "gaussian", seed)
    deviations = estimates(features, drawn, X, Y) - exact
    assert_mean(deviations, 0.0)
    squares = np.square(deviations).mean(axis=1)
    half_of_iid = expected_mse(features, "iid", m, X[0], Y[0]) / 2
    assert z_score(squares, half_of_iid) < -5


@pytest.mark.parametrize("features", MAPS)
def test_couplings_lower_the_error(features: str, rng: np.random.Generator) -> None:
    """The claim of the papers, on the exact figures that the estimates were checked against."""
    for dim in (2, 3, 8):
        X, Y = pairs(features, dim, rng)

        def error(text: str, dim: int = dim, X: np.ndarray = X, Y: np.ndarray = Y) -> float:
            return expected_mse(features, text, dim, X[0], Y[0])

        assert error("orthogonal") < error("iid")
        assert error("orthogonal+pnc") < error("orthogonal")
        assert error("orthogonal+stratified") < error("orthogonal")
        assert error("orthogonal+monotone") > error("orthogonal")
        if features == "laplace":
            assert error("iid+antithetic") < error("iid")
        else:
            assert error("iid+antithetic") > error("iid")


def test_pairwise_norms_serve_fourier_features_at_small_distance_only() -> None:
    """PNC is optimal for two orthogonal frequencies at small z; the theory shows where it ends."""
    for dim in (2, 4):
        ratios = []
        for z in (0.05, 1.0, 3.0):
            x, y = np.zeros(dim), np.full(dim, z / np.sqrt(dim))
            coupled = expected_mse("fourier", "orthogonal+pnc", 2, x, y)
            ratios.append(coupled / expected_mse("fourier", "orthogonal", 2, x, y))
        assert max(ratios[:2]) < 0.85
        assert ratios[2] > 1.05
