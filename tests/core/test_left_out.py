"""Laws of observations that are left out, beside dense algebra and beside fits without them."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.core.mixture import MixtureGP
from coupledgp.core.problem import RowWeights
from coupledgp.core.process import Data
from coupledgp.core.units import Units
from coupledgp.errors import CoupledGPError, InvalidInputError
from coupledgp.graphs.posterior import DensePosterior, IterativePosterior, PrecisionNodePosterior
from coupledgp.spectra import parse_spectrum
from coupledgp.tables.local_parameters import Structure
from coupledgp.tables.local_prior import LocalPrior
from coupledgp.tables.local_process import LocalGP
from coupledgp.tables.nearest import nearest_earlier, nearest_outside
from coupledgp.tables.standardized import TablePair
from coupledgp.tables.weight_space import WeightSpaceGP

RNG = np.random.default_rng(7)
X = RNG.normal(size=(60, 2))
Y = np.column_stack([np.sin(2 * X[:, 0]), X[:, 1]]) + 0.2 * RNG.normal(size=(60, 2))
WEIGHTS = RowWeights(RNG.uniform(0.3, 3.0, 60), RNG.integers(1, 5, 60).astype(float))
# A group of more than half of the rows, one of more than 18 features, pairs and single rows.
MIXED = np.concatenate([np.zeros(31), np.ones(20), 2 + np.arange(9) // 2]).astype(int)
GROUPS = {"each alone": np.arange(60), "pairs": np.arange(60) // 2, "large": MIXED}
RING = cgp.Graph.from_edges(np.arange(50), (np.arange(50) + 1) % 50)
PLACES = np.arange(60) // 2 + 15  # each node is observed twice, some are not


def table(weights=None, **settings):
    fitted = cgp.SparseSpectrumGPRegressor(
        **{"n_frequencies": 9, "random_state": 3, "optimizer": None, **settings}
    ).fit(X, Y)
    return fitted.process_.conditioned(Data.of(X, 3 + 5 * Y, weights=weights), renormalize=True)


def exact(weights=None):
    fitted = cgp.ExactGPRegressor(optimizer=None).fit(X, Y).process_
    return fitted.conditioned(Data.of(X, Y, weights=weights))


def local(weights=None, n_neighbours=100, frequencies=4):
    drawn = None if not frequencies else np.random.default_rng(1).normal(size=(frequencies, 2))
    structure = Structure(
        2, parse_spectrum("matern-3/2"), n_neighbours, drawn, False, "linear", np.arange(2)
    )
    prior = LocalPrior(structure, structure.start(), X.mean(0), X.std(0))
    data = Data.of(X, Y, weights=weights)
    return LocalGP.given(prior, data, Units.of(Y, True, data.counts), True)


def nodes(method, kernel="regularized-laplacian", graph=RING, places=PLACES, y=Y):
    model = cgp.ExactGraphGPRegressor(graph, kernel, method=method, optimizer=None, random_state=3)
    return model.fit(places, y).process_


PROCESSES = {
    "features": table,
    "more features than rows": lambda weights=None: table(weights, n_frequencies=64),
    "exact": exact,
    "local": local,
    "nodes, spectral": lambda: nodes("spectral"),
    "nodes, series": lambda: nodes("series"),
    "nodes, cholesky": lambda: nodes("cholesky"),
}
WEIGHTED = ("features", "more features than rows", "exact", "local")


def dense_reference(process, groups):
    """Residuals (n, k), variances (n,) and correlations (n, n) by inverses of whole matrices."""
    data, noise = process.data, process.noise.variance
    entered = np.ones(len(data)) if data.relative_noise is None else data.relative_noise
    own = np.ones(len(data)) if data.weights is None else data.weights.noise
    C = process.latent_prior(data.points) + noise * np.diag(entered)
    y = process.units.normalized(data.targets)
    map_to_residuals = np.zeros_like(C)
    variance = np.empty(len(data))
    for group in np.unique(groups):
        out, rest = groups == group, groups != group
        gain = np.linalg.solve(C[np.ix_(rest, rest)], C[np.ix_(rest, out)]).T
        map_to_residuals[np.ix_(out, out)] = np.eye(out.sum())
        map_to_residuals[np.ix_(out, rest)] = -gain
        left = C[np.ix_(out, out)] - gain @ C[np.ix_(rest, out)]
        variance[out] = left.diagonal() + noise * (own - entered)[out]
    joint = map_to_residuals @ C @ map_to_residuals.T + noise * np.diag(
        np.maximum(own - entered, 0)
    )
    std = np.sqrt(joint.diagonal())
    return map_to_residuals @ y, variance, joint / np.outer(std, std)


@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("name", PROCESSES)
def test_laws_and_correlations_are_those_of_dense_algebra(name, groups):
    check(PROCESSES[name](), GROUPS[groups])


@pytest.mark.parametrize("groups", GROUPS)
@pytest.mark.parametrize("name", WEIGHTED)
def test_rows_that_differ(name, groups):
    check(PROCESSES[name](WEIGHTS), GROUPS[groups])


def check(process, groups):
    residual, variance, correlation = dense_reference(process, groups)
    law = process.left_out_law(groups)
    expected = process.units.mean(process.units.normalized(process.data.targets) - residual)
    np.testing.assert_allclose(law.mean, expected, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(law.spread, process.units.spread(variance), rtol=1e-6)
    rows = np.array([33, 0, 58, 7, 59, 40])
    few = process.left_out_law(groups, rows)
    np.testing.assert_allclose(few.mean, law.mean[rows], rtol=1e-9)
    np.testing.assert_allclose(few.spread, law.spread[rows], rtol=1e-9)
    found = process.left_out_correlation(groups, rows)
    np.testing.assert_allclose(found, correlation[np.ix_(rows, rows)], atol=1e-6)


def test_residuals_of_rows_that_are_left_out_are_correlated():
    found = exact().left_out_correlation(np.arange(60), np.arange(60))
    off = found[~np.eye(60, dtype=bool)]
    assert off.min() < -0.3


def test_rows_that_count_twice_are_rows_that_are_there_twice():
    twice = np.repeat(np.arange(60), np.where(np.arange(60) < 20, 2, 1))
    counts = RowWeights(np.ones(60), np.where(np.arange(60) < 20, 2.0, 1.0))
    counted = table(counts)
    repeated = counted.conditioned(Data.of(X[twice], 3 + 5 * Y[twice]))
    law, expected = counted.left_out_law(np.arange(60)), repeated.left_out_law(twice)
    first = np.searchsorted(twice, np.arange(60))
    np.testing.assert_allclose(law.mean, expected.mean[first], rtol=1e-9)
    np.testing.assert_allclose(law.spread, expected.spread[first], rtol=1e-9)


def chained(process):
    """Covariance of the local part and noise, from rows given near earlier ones one by one."""
    prior, chain = process.local_prior, process.table
    K = prior.local_covariance(TablePair(chain.inputs, chain.inputs))
    K += prior.noise * np.diag(chain.noise)
    near = nearest_earlier(chain.inputs / prior.local_lengthscale, np.arange(60), 6)
    W = np.zeros((60, 60))
    for row in range(60):
        own = near[row][near[row] >= 0]
        gain = np.linalg.solve(K[np.ix_(own, own)], K[own, row])
        W[row, row], W[row, own] = 1.0, -gain
        W[row] /= np.sqrt(K[row, row] - gain @ K[own, row])
    found = np.empty((60, 60))
    found[np.ix_(chain.order, chain.order)] = np.linalg.inv(W.T @ W)
    return found


def test_few_neighbours_are_rows_of_other_groups():
    """Weights given other groups by dense algebra, and kriging from the nearest of their rows."""
    process = local(WEIGHTS, n_neighbours=6)
    prior, y = process.local_prior, process.units.normalized(process.data.targets)
    inputs = prior.standardised(X)
    psi = prior.features(inputs, np.ones(60)).numpy()
    K = prior.local_covariance(TablePair(inputs, inputs))
    S = K + prior.noise * np.diag(WEIGHTS.relative_noise)
    C = chained(process) + psi @ psi.T
    law = process.left_out_law(MIXED)
    for row in range(60):
        rest = np.flatnonzero(MIXED[row] != MIXED)
        gain = np.linalg.solve(C[np.ix_(rest, rest)], psi[rest]).T
        mean, cov = gain @ y[rest], np.eye(psi.shape[1]) - gain @ psi[rest]
        far = np.square((inputs[rest] - inputs[row]) / prior.local_lengthscale).sum(1)
        near = rest[np.argsort(far)[:6]]
        b = np.linalg.solve(S[np.ix_(near, near)], K[near, row])
        error = psi[row] - b @ psi[near]
        expected = process.units.mean(error @ mean + b @ y[near])
        np.testing.assert_allclose(law.mean[row], expected, rtol=1e-7, atol=1e-9)
        variance = error @ cov @ error + K[row, row] - b @ K[near, row]
        variance += prior.noise * WEIGHTS.noise[row]
        np.testing.assert_allclose(law.spread[row], process.units.spread(variance), rtol=1e-7)
    alike = process.conditioned(Data.of(X, Y))
    inverse = np.linalg.inv(chained(alike) + psi @ psi.T)
    std = np.sqrt(inverse.diagonal())
    found = alike.left_out_correlation(np.arange(60), np.arange(60))
    np.testing.assert_allclose(found, inverse / np.outer(std, std), atol=1e-8)


def test_neighbours_outside_of_a_group_are_the_nearest_ones():
    rows = np.random.default_rng(3).normal(size=(300, 2))
    order = np.random.default_rng(4).permutation(300)
    groups = [*np.split(order, [1, 3, 10, 150])[:4], order[299:]]
    for group, near in zip(groups, nearest_outside(rows, groups, 7), strict=True):
        others = np.setdiff1d(np.arange(300), group)
        for row, found in zip(group, near, strict=True):
            far = np.square(rows[others] - rows[row]).sum(axis=1)
            assert set(found) == set(others[np.argsort(far)[:7]])
    few = nearest_outside(rows[:5], [np.arange(2), np.arange(2, 3)], 4)
    assert [(part == -1).sum(axis=1).tolist() for part in few] == [[1, 1], [0]]


REPRESENTATIONS = {
    "dense": DensePosterior,
    "by solves": IterativePosterior,
    "sparse precision": PrecisionNodePosterior,
}


@pytest.mark.parametrize("name", REPRESENTATIONS)
def test_every_representation_of_a_posterior_of_nodes(name):
    places = np.arange(40)
    process = nodes("series", places=places, y=Y[:40])
    prior = nodes("cholesky", places=places, y=Y[:40]) if "sparse" in name else process
    own = process.posterior
    made = REPRESENTATIONS[name](
        prior.posterior.prior, places, process.units.normalized(Y[:40]), own.outputscale, own.noise
    )
    other = replace(process, posterior=made, settings=replace(process.settings, solver="iterative"))
    groups = MIXED[20:]
    _, variance, correlation = dense_reference(process, groups)
    law = other.left_out_law(groups)
    expected = process.left_out_law(groups)
    np.testing.assert_allclose(law.mean, expected.mean, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(law.spread, process.units.spread(variance), rtol=1e-4)
    found = other.left_out_correlation(groups, np.arange(25, 40))
    np.testing.assert_allclose(found, correlation[25:, 25:], atol=1e-4)


def test_many_solves_are_refused_and_few_groups_are_conditioned_anew():
    process = cgp.GraphGPRegressor(
        RING, "heat", n_walks=8, solver="iterative", random_state=3, optimizer=None,
        options={"exact_variances": 20},
    ).fit(PLACES, Y).process_  # fmt: skip
    more = process.conditioned(Data.of(np.tile(PLACES, 2), np.tile(Y, (2, 1))))
    with pytest.raises(InvalidInputError, match=r"at most 20; raise exact_variances"):
        more.left_out_law(np.arange(120))
    few = process.left_out_law(np.arange(60), np.arange(10))
    assert few.mean.shape == (10, 2)
    folds = process.left_out_law(np.arange(60) % 4)
    groups = np.arange(60) % 4
    rest = process.conditioned(process.data.take(np.flatnonzero(groups != 1)))
    expected = rest.law(PLACES[groups == 1], "variance")
    np.testing.assert_allclose(folds.mean[groups == 1], expected.mean, rtol=1e-4, atol=1e-5)


@dataclass(frozen=True, eq=False, repr=False)
class Plain(WeightSpaceGP):
    """A process that knows no inverse covariance."""

    def inverse_covariance(self):
        return None


def test_processes_without_an_inverse_are_conditioned_anew_for_few_groups():
    process = table(WEIGHTS)
    plain = Plain(**vars(process))
    law, expected = plain.left_out_law(MIXED), process.left_out_law(MIXED)
    np.testing.assert_allclose(law.mean, expected.mean, rtol=1e-7)
    np.testing.assert_allclose(law.spread, expected.spread, rtol=1e-7)
    assert plain.left_out_correlation(MIXED, np.arange(5)) is None
    more = Data.of(np.tile(X, (2, 1)), np.tile(Y, (2, 1)))
    with pytest.raises(InvalidInputError, match="at most 64 groups"):
        Plain(**vars(process.conditioned(more))).left_out_law(np.arange(120))


def test_a_mixture_mixes_the_laws_of_its_members():
    members = [table(n_frequencies=9), exact(), local()]
    data = Data.of(X, Y, weights=WEIGHTS)
    members = [replace(m.conditioned(data), units=members[1].units) for m in members]
    members[0] = table(WEIGHTS).conditioned(data, renormalize=True)
    mixture = MixtureGP.of(members, np.array([0.2, 0.5, 0.3]), data)
    found = mixture.left_out(MIXED)
    for part, member in zip(found.means, members, strict=True):
        np.testing.assert_allclose(part, member.left_out_law(MIXED).mean)
    precision = np.array([0.2, 0.5, 0.3])[:, None, None] / found.variances
    center = (precision * found.means).sum(0) / precision.sum(0)
    np.testing.assert_allclose(mixture.left_out_law(MIXED).mean, center)
    densities = [m.left_out(MIXED).log_density(Y) for m in members]
    expected = np.log(np.array([0.2, 0.5, 0.3]) @ np.exp(densities))
    np.testing.assert_allclose(found.log_density(Y), expected)
    chances = [m.left_out(MIXED).transforms(Y) for m in members]
    np.testing.assert_allclose(
        found.transforms(Y), np.tensordot([0.2, 0.5, 0.3], chances, axes=1), atol=1e-12
    )
    correlation = mixture.left_out_correlation(MIXED, np.arange(5))
    parts = [m.left_out_correlation(MIXED, np.arange(5)) for m in members]
    np.testing.assert_allclose(correlation, np.tensordot([0.2, 0.5, 0.3], parts, axes=1))


def test_a_transformed_process_leaves_out_in_its_own_units():
    y = np.exp(Y[:, 0])
    fitted = cgp.SparseSpectrumGPRegressor(
        n_frequencies=9, target_transform="log", optimizer=None, random_state=3
    ).fit(X, y)
    process = fitted.process_
    found = process.left_out(MIXED)
    inner = process.inner.left_out(MIXED)
    np.testing.assert_array_equal(found.mean, inner.mean)
    law = process.left_out_law(MIXED)
    z, v = found.mean, found.variance
    np.testing.assert_allclose(law.mean, np.exp(z + v / 2), rtol=1e-6)
    np.testing.assert_allclose(law.spread, np.exp(2 * z + v) * np.expm1(v), rtol=1e-4)


@pytest.mark.parametrize(
    ("groups", "rows", "message"),
    [
        (np.zeros(60), None, "two groups at least"),
        (np.arange(59), None, "each of 60 observations"),
        (np.arange(60), [60], "from 0 to 59"),
        (np.arange(60), [-1], "from 0 to 59"),
        (np.arange(60), [0.5], "numbers of observations"),
        (np.arange(60), [], "numbers of observations"),
    ],
)
def test_what_is_asked_for_is_checked(groups, rows, message):
    with pytest.raises(InvalidInputError, match=message):
        table().left_out_law(groups, rows)


def test_groups_may_have_names():
    process = table()
    named = np.array([f"group {k}" for k in MIXED])
    np.testing.assert_array_equal(
        process.left_out_law(named).mean, process.left_out_law(MIXED).mean
    )


def test_rows_that_were_not_kept_cannot_be_left_out():
    with pytest.raises(CoupledGPError, match="training rows"):
        table().without_data().left_out_law(MIXED)


def test_a_group_of_nearly_all_rows_loses_no_digits():
    """What is left is summed by itself: a difference of two sums would hold rounding alone."""
    inputs = np.random.default_rng(8).normal(size=(400, 2))
    y = np.sin(inputs[:, :1])
    process = table(lengthscale=1.0, noise=1e-9, normalize_y=False).conditioned(Data.of(inputs, y))
    groups = np.where(np.arange(400) < 4, np.arange(400), 4)
    law = process.left_out_law(groups)
    rest = process.conditioned(Data.of(inputs[:4], y[:4]))
    expected = rest.law(inputs[4:], "variance")
    np.testing.assert_allclose(law.spread[4:], expected.spread, rtol=1e-6)
    assert np.abs((law.mean[4:] - expected.mean) / np.sqrt(expected.spread)).max() < 2e-4


@pytest.mark.parametrize("n_groups", [2, 3, 10])
def test_groups_larger_than_the_rank_keep_the_noise_of_their_rows(n_groups):
    """Eight features: groups of 20 and of 14 rows are downdated, those of four are inverted."""
    rng = np.random.default_rng(5)
    X, y, noise = rng.normal(size=(40, 2)), rng.normal(size=(40, 1)), np.geomspace(0.05, 2.0, 40)
    process = cgp.SparseSpectrumGPRegressor(
        n_frequencies=4, lengthscale=1.0, outputscale=1.0, optimizer=None, random_state=0
    ).fit(X, y[:, 0], sample_noise=noise).process_  # fmt: skip
    groups = np.arange(40) % n_groups
    found = process.left_out(groups)
    relative = process.data.weights.noise
    for group in range(n_groups):
        own, rest = np.flatnonzero(groups == group), np.flatnonzero(groups != group)
        mean, spread = process.conditioned(process.data.take(rest)).law(
            X[own], "variance", latent=True
        )
        variance = spread + np.outer(process.noise.variance * relative[own], process.units.scale**2)
        np.testing.assert_allclose(found.mean[own], mean, rtol=1e-7, atol=1e-9)
        np.testing.assert_allclose(found.variance[own], variance, rtol=1e-7)


@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["alike", "weighted"])
def test_features_of_all_rows_and_the_prior_are_the_identity(weights):
    inverse = table(weights, noise=0.3, outputscale=5.0).inverse_covariance()
    E = inverse.rows(np.arange(60))
    np.testing.assert_allclose((E.T @ E + inverse.prior()).numpy(), np.eye(18), atol=1e-12)
