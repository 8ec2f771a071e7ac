"""An offset of all inputs, exact in float64, changes no prediction; lost digits are warned of."""

from __future__ import annotations

import warnings
from fractions import Fraction

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.diagnostics.foreign.kernel import StatedKernel
from coupledgp.errors import ExtrapolationWarning, PrecisionWarning
from coupledgp.gp.columns import column_moments
from coupledgp.inference.dense.evidence import in_lengthscales
from coupledgp.random import FloatArray
from coupledgp.spectra import parse_spectrum
from tests.numbers.cases import SLOW, TABLES, X_TEST, X, Y

STEP = 2.0**-11  # a multiple of the last digit of 2^40
# Estimates that depend on where their centre is, which has the digits of the offset.
CENTRED = {"sparse, laplace", "kernel regression"}


def on_grid(values: FloatArray) -> FloatArray:
    """Values rounded to what stays exact under the offsets of these tests."""
    return np.asarray(np.round(values / STEP) * STEP)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TABLES)
def test_offsets_do_not_matter(name: str) -> None:
    rows, points = on_grid(X), on_grid(X_TEST)
    expected = TABLES[name]().fit(rows, Y).predict(points)
    offsets = (2.0**40, np.array([-(2.0**40), 2.0**20]))
    for offset in offsets[: 1 if name in SLOW else 2]:
        found = TABLES[name]().fit(rows + offset, Y).predict(points + offset)
        tolerance = 1e-3 if name in CENTRED else 1e-5
        np.testing.assert_allclose(found, expected, atol=tolerance)


def test_a_kernel_of_a_reference_does_not_see_an_offset() -> None:
    rows, points = on_grid(X), on_grid(X_TEST)
    stated = StatedKernel.stationary("matern-3/2", [0.5, 2.0], 1.3, 0.01, 0.2, 2)
    expected = stated.process(rows, Y).law(points, "variance")
    found = stated.process(rows + 2.0**40, Y).law(points + 2.0**40, "variance")
    for after, before in zip(found, expected, strict=True):
        assert after is not None
        assert before is not None
        np.testing.assert_array_equal(after, before)


def test_one_far_point_leaves_the_law_of_the_others() -> None:
    """The centre is that of the rows, whatever else is asked for."""
    model = cgp.ExactGPRegressor(lengthscale=1.0, optimizer=None).fit(X, Y)
    far = np.vstack([np.full((3, 2), 1e60), X_TEST])
    with pytest.warns(ExtrapolationWarning, match="3 of"):
        found = model.predict(far)
    # Products with other numbers of rows are rounded otherwise.
    np.testing.assert_allclose(found[3:], model.predict(X_TEST), rtol=1e-12, atol=1e-13)


def test_moments_have_the_digits_of_the_spread() -> None:
    rng = np.random.default_rng(0)
    gaps = 0.125 * rng.integers(0, 200, (500, 2)).astype(float)
    counts = rng.integers(1, 4, 500).astype(float)
    for weights in (None, counts):
        mean, variance = column_moments(gaps + 1e15, weights)
        exact = np.average(gaps, axis=0, weights=weights)
        np.testing.assert_allclose(mean - 1e15, exact, atol=0.07)
        expected = np.average(np.square(gaps - exact), axis=0, weights=weights)
        np.testing.assert_allclose(variance, expected, rtol=1e-12)
    constant = np.full((180, 1), -0.0019)
    assert column_moments(constant)[1] == 0.0


def test_the_middle_is_a_row_value() -> None:
    rows = on_grid(X)
    np.testing.assert_array_equal(
        in_lengthscales(X_TEST, np.ones(2), rows), X_TEST - np.sort(rows, axis=0)[len(rows) // 2]
    )


def exact_law(
    rows: FloatArray, y: FloatArray, points: FloatArray, lengthscale: float, noise: float, name: str
) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation (p,) of normalised targets, from differences without rounding."""

    def kernel(a: FloatArray, b: FloatArray) -> FloatArray:
        gaps = [[float(abs(Fraction(p) - Fraction(q))) for q in b[:, 0]] for p in a[:, 0]]
        return parse_spectrum(name).kernel(np.array(gaps) / lengthscale)

    gram, cross = kernel(rows, rows) + noise * np.eye(len(rows)), kernel(points, rows)
    z, spread = (y - y.mean()) / y.std(), np.linalg.solve(gram, cross.T)
    variance = 1.0 - (cross * spread.T).sum(axis=1)
    return y.mean() + y.std() * (spread.T @ z), y.std() * np.sqrt(np.maximum(variance, 1e-18))


def test_offsets_are_exact_or_warned_of() -> None:
    """Milliseconds after 10^6 to 10^15 seconds, in one group of rows or in two far apart."""
    rng, n_warned = np.random.default_rng(0), 0
    for trial in range(24):
        offset, n = 10.0 ** rng.uniform(6, 15), 16
        step = max(2.0**-10, float(np.spacing(2 * offset)))
        rows = offset + step * np.sort(rng.integers(0, 60, n))[:, None]
        if trial % 2:
            rows[n // 2 :] += rng.choice([1e3, 1e8, 1e12])
        points = rows + step * rng.integers(-2, 3, (n, 1))
        y, lengthscale = rng.normal(size=n), step * rng.uniform(3, 20)
        noise, name = 10.0 ** rng.uniform(-5, -1), ("gaussian", "matern-1/2")[trial % 3 > 0]
        mean, std = exact_law(rows, y, points, lengthscale, noise, name)
        model = cgp.ExactGPRegressor(
            name, lengthscale=lengthscale, outputscale=1.0, noise=noise, optimizer=None
        )
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            error = np.abs((model.fit(rows, y).predict(points) - mean) / std).max()
        warned = any(issubclass(each.category, PrecisionWarning) for each in caught)
        n_warned += warned
        assert error < 0.01 or warned
        if not trial % 2:
            assert not warned
            assert error < 1e-6
    assert 3 <= n_warned < 12


def test_the_origin_of_a_time_axis_does_not_matter() -> None:
    """Times on a grid and off it."""
    graph = cgp.Graph.from_edges(np.arange(3), np.arange(1, 4))
    rng = np.random.default_rng(0)
    for times in (np.arange(40.0), np.cumsum(rng.integers(1, 9, 40) / 16)):
        y = np.sin(0.7 * times) * np.array([[1.0], [0.8], [1.1], [0.9]])
        y += 0.1 * rng.normal(size=y.shape)
        found = []
        for offset in (0.0, 2.0**40):
            model = cgp.GraphTimeGPRegressor(graph, random_state=0)
            model.fit(np.arange(4), y, times=times + offset)
            asked = np.array([3.125, times[-1] + 2.0]) + offset
            found.append(np.asarray(model.predict(np.arange(4), asked)))
        np.testing.assert_allclose(found[1], found[0], atol=1e-6)
