"""Local models with features of columns and pairs: dense twin, variances by sums, far points."""

import numpy as np
import pytest

from coupledgp.expressions import Factor
from coupledgp.features.axes.maps import AxisFeatures
from coupledgp.gp.local import LocalGP
from coupledgp.gp.local_prior import LocalPrior
from coupledgp.gp.protocol import Data
from coupledgp.gp.units import Units
from coupledgp.inference.evidence.rows import RowWeights
from coupledgp.inference.neighbours.parameters import Structure
from coupledgp.spectra import parse_spectrum

RNG = np.random.default_rng(8)
# Columns of few values: with all eigenfunctions nothing is approximated at these values.
X = np.column_stack([RNG.integers(0, 6, 60), RNG.integers(0, 5, 60), RNG.integers(0, 3, 60)]) / 2.0
Y = np.column_stack([np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2], X[:, 1]])
Y += 0.1 * RNG.normal(size=(60, 2))
WEIGHTS = RowWeights(RNG.uniform(0.5, 2.0, 60), RNG.integers(1, 4, 60).astype(float))
FACTORS = [Factor((j,), parse_spectrum("matern-3/2"), np.log([0.9])) for j in range(3)]
SUPPORTS = [(0,), (1,), (2,), (0, 1), (1, 2)]
CENTER, SPREAD = X.mean(axis=0), X.std(axis=0)
FEATURES = AxisFeatures.of(FACTORS, (X - CENTER) / SPREAD, SUPPORTS, 20, 400)


def process(kernel, weights=None, trend="constant", known_noise=None):
    spectrum = None if kernel is None else parse_spectrum(kernel)
    structure = Structure(
        3, spectrum, 200 if spectrum else 0, None, False, trend, np.arange(3), known_noise, FEATURES
    )
    prior = LocalPrior(structure, structure.start(), CENTER, SPREAD)
    data = Data.of(X, Y, weights=weights)
    return LocalGP.given(prior, data, Units.of(Y, True, data.counts), True)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["alike", "weighted"])
@pytest.mark.parametrize("kernel", [None, "matern-1/2"])
def test_with_all_eigenfunctions_and_neighbours_it_is_the_dense_process(kernel, weights):
    gp = process(kernel, weights, "linear").refitted()
    exact, places = gp.exact(), X[::7]
    law, expected = gp.law(places, "covariance"), exact.law(places, "covariance")
    np.testing.assert_allclose(law.mean, expected.mean, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(law.spread, expected.spread, atol=1e-7 * expected.spread.max())
    np.testing.assert_allclose(gp.log_evidence, exact.log_evidence, rtol=1e-8)


@pytest.mark.parametrize(
    ("kernel", "weights", "known"),
    [(None, None, None), (None, WEIGHTS, None), (None, WEIGHTS, 0.03), ("matern-1/2", None, None)],
    ids=["alone", "weighted", "known noise", "with a local part"],
)
def test_refitted_variances_raise_the_evidence_of_all_rows_to_its_top(kernel, weights, known):
    before = process(kernel, weights, known_noise=known)
    gp = before.refitted()
    again = LocalGP.given(gp.local_prior, gp.rows, gp.units, True)
    assert gp.log_evidence == pytest.approx(again.log_evidence, rel=1e-9)
    assert gp.log_evidence > before.log_evidence + 1.0
    if known is not None or kernel is not None:
        assert gp.local_prior.noise == before.local_prior.noise
    variances, _ = gp.local_prior.weight_groups
    assert variances.size == 1 + len(SUPPORTS)
    for group in range(0, variances.size, 2 if kernel is None else 5):
        for factor in (0.7, 1.4):
            moved = variances.copy()
            moved[group] *= factor
            prior = gp.local_prior.with_group_variances(moved)
            other = LocalGP.given(prior, gp.rows, gp.units, True)
            assert other.log_evidence < gp.log_evidence + 0.02


def test_far_from_the_rows_what_no_row_informs_has_its_prior_variance():
    gp = process(None).refitted()
    level = float(gp.local_prior.additive_variances[0])
    far = np.array([[40.0, 1.0, 0.5], [40.0, 1.0, 0.5], [80.0, 1.0, 0.5]])
    covariance, variance = gp.latent_law(far, "covariance")[1], gp.latent_law(far, "variance")[1]
    np.testing.assert_allclose(variance, covariance.diagonal(), rtol=1e-9)
    assert (covariance.diagonal() > 0.9 * level).all()
    assert gp.latent_law(X, "variance")[1].max() < 0.2 * level
    # Two equal points have one value; points that are far from each other have different ones.
    assert covariance[0, 1] == pytest.approx(covariance[0, 0], rel=1e-9)
    assert covariance[0, 2] < covariance[0, 0] - 0.8 * level
