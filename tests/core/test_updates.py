"""A process given more rows, other rows, another seed or several outputs, beside one made anew."""

from dataclasses import replace

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.core.process import Data
from coupledgp.core.units import Units

RNG = np.random.default_rng(3)
X = RNG.normal(size=(60, 2))
Y = np.column_stack([np.sin(X[:, 0]), 40.0 * X[:, 1] + 7.0]) + 0.1 * RNG.normal(size=(60, 2))
Y[40:] *= 5.0  # the later rows have other units
POINTS = RNG.normal(size=(6, 2))


def fitted(rows, n_frequencies=10, seed=0):
    return cgp.SparseSpectrumGPRegressor(
        n_frequencies=n_frequencies, lengthscale=1.0, outputscale=1.7, noise=0.1, optimizer=None,
        random_state=seed,
    ).fit(X[rows], Y[rows]).process_  # fmt: skip


@pytest.mark.parametrize("n_frequencies", [10, 40])
def test_more_rows_are_all_rows(n_frequencies):
    """Sums and rows alike: units, law, evidence and data are those of a fit to everything."""
    # The centre of the inputs is that of the first rows.
    first, whole = fitted(slice(0, 40), n_frequencies), fitted(slice(0, 60), n_frequencies)
    whole = replace(whole, feature_prior=first.feature_prior).conditioned(
        whole.data, renormalize=True
    )
    grown = first.updated(Data.of(X[40:], Y[40:]))
    np.testing.assert_allclose(grown.units.offset, Y.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(grown.units.scale, Y.std(axis=0), rtol=1e-9)
    assert len(grown.data) == 60
    np.testing.assert_array_equal(grown.data.targets, Y)
    for want in ("variance", "covariance"):
        for found, expected in zip(grown.law(POINTS, want), whole.law(POINTS, want), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
    assert grown.log_evidence == pytest.approx(whole.log_evidence, rel=1e-9)
    bare = first.without_data().updated(Data.of(X[40:], Y[40:]))
    assert bare.rows is None


def test_other_rows_bring_their_units_if_they_are_asked_for():
    process, data = fitted(slice(0, 40)), Data.of(X[40:], Y[40:])
    kept = process.conditioned(data)
    np.testing.assert_array_equal(kept.units.scale, process.units.scale)
    renewed = process.conditioned(data, renormalize=True)
    expected = Units.of(Y[40:], True)
    np.testing.assert_allclose(renewed.units.scale, expected.scale)
    np.testing.assert_allclose(renewed.units.offset, expected.offset)


def test_the_prior_is_the_kernel_of_the_features():
    process = fitted(slice(0, 40))
    features = process.feature_prior.stream(POINTS).dense().numpy()
    expected = 1.7 * np.multiply.outer(features @ features.T, process.units.scale**2)
    np.testing.assert_allclose(process.prior(POINTS), expected, rtol=1e-12)


def test_draws_of_outputs_are_independent():
    process, n = fitted(slice(0, 40)), 4000
    draws = process.sample(POINTS, n, np.random.default_rng(2), latent=True)
    mean, spread = process.law(POINTS, "variance", latent=True)
    normal = (draws - mean[..., None]) / np.sqrt(spread)[..., None]
    together = (normal[:, 0] * normal[:, 1]).mean(axis=1)
    assert (np.abs(together) < 5 / np.sqrt(n)).all()
    np.testing.assert_allclose(normal.std(axis=2), 1.0, atol=5 / np.sqrt(2 * n))


def test_another_seed_draws_other_frequencies():
    process = fitted(slice(0, 40))
    drawn = [process.redrawn("iid", 10, seed).feature_map.frequencies for seed in (0, 1, 1)]
    assert not np.allclose(drawn[0], drawn[1])
    np.testing.assert_array_equal(drawn[1], drawn[2])
