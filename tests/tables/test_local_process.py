"""The process of features, trend and local part keeps the contract and is its dense twin."""

from dataclasses import replace

import numpy as np
import pytest

from coupledgp.core.problem import RowWeights
from coupledgp.core.process import Data
from coupledgp.core.units import Units
from coupledgp.errors import InvalidInputError
from coupledgp.spectra import parse_spectrum
from coupledgp.tables.local_parameters import Structure
from coupledgp.tables.local_prior import LocalPrior
from coupledgp.tables.local_process import LocalGP
from coupledgp.testing import ProcessContract

RNG = np.random.default_rng(5)
X, X_MORE = RNG.normal(size=(60, 2)), RNG.normal(size=(20, 2))
X_TEST = X[:7] + 0.05 * RNG.normal(size=(7, 2))
FREQUENCIES = RNG.normal(size=(4, 2))
EVERY = np.arange(2)
MATERN = parse_spectrum("matern-1/2")
PARTS = {
    "local": Structure(2, parse_spectrum("matern-3/2"), 100, None, False, "none", EVERY),
    "local and trend": Structure(
        2, parse_spectrum("matern-1/2"), 100, None, False, "linear", EVERY
    ),
    "all parts": Structure(2, parse_spectrum("gaussian"), 100, FREQUENCIES, False, "linear", EVERY),
    "fitted": Structure(2, parse_spectrum("matern-5/2"), 100, FREQUENCIES, True, "constant", EVERY),
    "features and trend": Structure(2, None, 0, FREQUENCIES, False, "linear", EVERY),
}


def targets(X, n_outputs):
    y = np.sin(2 * X[:, :1]) + 0.5 * X[:, 1:] + 0.2 * RNG.normal(size=(len(X), n_outputs))
    return 4.0 + 3.0 * y * (1 + np.arange(n_outputs))


Y, Y_MORE = targets(X, 2), targets(X_MORE, 2)
WEIGHTS = RowWeights(RNG.uniform(0.5, 2.0, 60), RNG.integers(1, 4, 60).astype(float))


def process(name, weights=None, **changes):
    structure = replace(PARTS[name], **changes)
    prior = LocalPrior(structure, structure.start(), X.mean(0), X.std(0))
    data = Data.of(X, Y, weights=weights)
    return LocalGP.given(prior, data, Units.of(Y, True, data.counts), True)


class TestContract(ProcessContract):
    @pytest.fixture(autouse=True, params=[*PARTS, "weighted"])
    def _choose(self, request, seed):
        weighted = request.param == "weighted"
        self.process = process("all parts" if weighted else request.param,
                               WEIGHTS if weighted else None)  # fmt: skip
        self.points, self.further, self.seed = X_TEST, Data.of(X_MORE, Y_MORE), seed
        # Without rows at the ends of the range, the range is another one and features fade.
        self.inner = np.flatnonzero(((X.min(0) < X) & (X.max(0) > X)).all(axis=1))
        has_features = self.process.local_prior.structure.frequencies is not None
        self.coupling = "orthogonal" if has_features else None


@pytest.mark.parametrize("name", ["local", "local and trend", "fitted"])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["alike", "weighted"])
def test_with_all_rows_as_neighbours_it_is_the_dense_process(name, weights):
    gp = process(name, weights)
    exact = gp.exact()
    inside = X_TEST.clip(X.min(0), X.max(0))
    law, expected = gp.law(inside, "covariance"), exact.law(inside, "covariance")
    np.testing.assert_allclose(law.mean, expected.mean, rtol=1e-9)
    np.testing.assert_allclose(law.spread, expected.spread, atol=1e-9 * expected.spread.max())
    np.testing.assert_allclose(gp.log_evidence, exact.log_evidence, rtol=1e-10)


def test_features_alone_are_the_finite_sum_of_their_kernel():
    """By the dense law of the kernel `psi(x)'psi(x')`, which is what the features define."""
    gp = process("features and trend")
    psi = gp.local_prior.features(gp.local_prior.standardised(X), np.ones(60)).numpy()
    at = gp.local_prior.features(gp.local_prior.standardised(X_TEST), np.ones(7)).numpy()
    inside = X_TEST.clip(X.min(0), X.max(0))
    at = gp.local_prior.features(gp.local_prior.standardised(inside), np.ones(7)).numpy()
    gram = psi @ psi.T + gp.local_prior.noise * np.eye(60)
    y = gp.units.normalized(Y)
    mean, covariance = gp.latent_law(inside, "covariance")
    np.testing.assert_allclose(mean, at @ psi.T @ np.linalg.solve(gram, y), rtol=1e-8)
    expected = at @ at.T - at @ psi.T @ np.linalg.solve(gram, psi @ at.T)
    np.testing.assert_allclose(covariance, expected, atol=1e-9)


def test_few_neighbours_come_near_the_dense_process():
    exact = process("local and trend").exact().law(X_TEST, "variance")
    gaps = []
    for k in (2, 8, 30):
        law = process("local and trend", n_neighbours=k).law(X_TEST, "variance")
        gaps.append(np.abs((law.mean - exact.mean) / np.sqrt(exact.spread)).max())
    assert gaps[2] < gaps[1] < gaps[0] < 3
    assert gaps[2] < 0.05


def test_the_joint_law_of_few_neighbours_is_a_covariance():
    gp = process("all parts", n_neighbours=5)
    _, covariance = gp.law(RNG.normal(size=(50, 2)), "covariance", latent=True)
    for k in range(2):
        assert np.linalg.eigvalsh(covariance[:, :, k]).min() > -1e-10


def test_rows_added_later_become_neighbours():
    gp = process("local", n_neighbours=3)
    place = np.array([[6.0, 6.0]])
    more = Data.of(place + 0.01, np.array([[40.0, 40.0]]))
    updated = gp.updated(more)
    before, after = (p.latent_law(place, "variance")[1] for p in (gp, updated))
    assert (after < 0.5 * before).all()
    gaps = [np.abs(p.law(place, "mean").mean - 40) for p in (gp, updated)]
    assert (gaps[1] < 0.5 * gaps[0]).all()


@pytest.mark.parametrize("name", ["all parts", "fitted", "features and trend"])
def test_far_away_the_law_is_that_of_trend_and_prior(name):
    """Features fade outside the range of the data, so that their weights cannot run away.

    The trend goes on for one range of each column; beyond it has the slopes of the prior.
    """
    gp = process(name)
    far = np.array([[1e3, -1e3], [-5e3, 0.0]])
    prior = gp.local_prior
    mean, variance = gp.latent_law(far, "variance")
    inputs, box = prior.standardised(far), gp.table.box
    room = box.high - box.low
    bounded = np.clip(inputs, box.low - room, box.high + room)
    columns = prior.features(bounded, np.zeros(2))
    np.testing.assert_allclose(mean, (columns @ gp.posterior.mean).numpy(), atol=1e-8)
    trend = gp.posterior.root(columns).square().sum(1).numpy()
    if prior.structure.trend == "linear":
        trend += prior.hyperparameters.trend * np.square(inputs - bounded).sum(axis=1)
    np.testing.assert_allclose(variance, prior.hyperparameters.outputscale + trend, rtol=1e-8)
    covariance = gp.latent_law(far, "covariance")[1]
    assert np.linalg.eigvalsh(covariance)[0] > 0
    twin = gp.exact().latent_law(far, "covariance")
    if name == "all parts":  # the same kernel, whose features fade in one of the two
        np.testing.assert_allclose(twin[1], covariance, rtol=0.05)
    np.testing.assert_allclose(twin[1].diagonal(), gp.exact().latent_law(far, "variance")[1])


def test_the_features_are_whole_inside_the_range_of_the_data():
    gp = process("all parts")
    assert (gp.table.box.fading(gp.table.inputs, np.ones(2)) == 1).all()


def test_a_local_model_without_features_draws_nothing():
    with pytest.raises(InvalidInputError, match="frequencies to draw again"):
        process("local").redrawn("iid", 4, 0)


def test_a_table_that_is_standardised_otherwise_is_refused():
    gp = process("local")
    moved = replace(gp.local_prior, center=gp.local_prior.center + 1)
    with pytest.raises(InvalidInputError, match="the center of the columns"):
        LocalGP.given(moved, gp.data, gp.units, True, gp.table)


def test_lengthscales_are_in_the_units_of_the_columns():
    structure = PARTS["all parts"]
    units = np.array([1e3, 0.01])
    own, other = (
        LocalPrior(structure, structure.start(), np.zeros(2), spread).hyperparameters
        for spread in (np.ones(2), units)
    )
    np.testing.assert_allclose(other.lengthscale, units * own.lengthscale)
    np.testing.assert_allclose(other.feature_lengthscale, units * own.feature_lengthscale)
