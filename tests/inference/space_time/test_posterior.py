"""Law of f given data with gaps, against dense algebra."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from coupledgp.inference.space_time import gap_variances
from coupledgp.inference.space_time.basis import Basis
from coupledgp.inference.space_time.filters import Term
from coupledgp.inference.space_time.posterior import Cells, SpaceTimePosterior
from coupledgp.kernels.time import Constant, Matern12
from tests.inference.space_time.dense import Dense, PlainSites, gram_of_places, made

CASES = {
    "regular": {},
    "irregular": {"irregular": True},
    "weights": {"weights": True},
    "shared": {"own": False},
    "graph alone": {"terms": (Term("graph", Matern12(6.0), 1.0),)},
    "node alone": {"terms": (Term("node", Matern12(6.0), 1.0),)},
    "one time": {"n": 1, "observed": np.arange(9)[:, None] > 2},
}
# Largest number of standard errors of an estimate.
MOST = 5.5
M = 400


def everywhere(dense):
    return Cells(np.arange(len(dense.gram)), dense.times)


@pytest.fixture(scope="module", params=CASES)
def dense(request):
    return made(**CASES[request.param])


def standard_error(dense, cells, m):
    """Standard errors (a, b) of variances of which the part over the gaps is from m draws."""
    exact = dense.variance(cells.sites, cells.times)
    complete = dense.filled().variance(cells.sites, cells.times)
    return exact, np.sqrt(2 / m) * (exact - complete) + 1e-6


def test_means_are_exact_on_and_off_the_grid(dense):
    posterior = dense.posterior()
    found = posterior.means(everywhere(dense))[0]
    sites = np.arange(len(dense.gram))
    np.testing.assert_allclose(found, dense.mean(sites, dense.times), atol=1e-7)
    sites, times = np.array([2, 11, 3]), np.array([-3.0, 5.5, 45.0])
    found = posterior.means(Cells(sites, times))[0]
    np.testing.assert_allclose(found, dense.mean(sites, times), atol=1e-7)


def test_means_of_terms_sum_to_the_mean():
    dense = made()
    posterior, cells = dense.posterior(), everywhere(dense)
    alpha, total = posterior.alpha[None], 0.0
    for number, term in enumerate(dense.terms):
        which = ((number,), ()) if term.where == "graph" else ((), (number,))
        part = posterior.term_means(cells, *which, alpha)
        alone = replace(dense, terms=(term,))
        cross = alone.covariance(cells.sites, dense.times, dense.sensors, dense.times)
        expected = cross @ dense.alpha.reshape(-1)
        np.testing.assert_allclose(part.reshape(-1), expected, atol=1e-7)
        total = total + part
    np.testing.assert_allclose(total, posterior.means(cells), atol=1e-12)


def test_variances_of_complete_data_are_exact(dense):
    complete = dense.filled()
    cells = Cells(np.arange(len(dense.gram)), np.union1d(dense.times, [-4.0, 0.3, 50.0]))
    found = complete.posterior().variances(cells)
    np.testing.assert_allclose(found, complete.variance(cells.sites, cells.times), atol=1e-9)


def test_variances_with_gaps_are_those_of_dense_algebra_within_their_error(dense):
    cells = everywhere(dense)
    exact, error = standard_error(dense, cells, M)
    posterior = dense.posterior(M)
    z = (posterior.variances(cells) - exact) / error
    known = posterior.gap_variances
    # In a gap the error is at most that of draws of the cell; what is exact there is tested below.
    z[: len(known)][~np.isnan(known)] = 0.0
    assert np.abs(z).max() < MOST
    own = dense.gaps().unknown if dense.extra is None else dense.data.gaps
    part = (known - exact[: len(known)])[own]
    noisy = (exact[: len(known)] + dense.noise * dense.roots[:, None] ** 2)[own]
    assert np.abs(part / noisy).max(initial=0.0) < MOST * np.sqrt(2 / M)
    assert (np.isnan(known) == ~own).all()


def test_variances_off_the_grid_are_those_of_dense_algebra():
    dense = made()
    cells = Cells(np.array([2, 3, 11]), np.array([-3.0, 5.5, 17.5, 45.0]))
    exact, error = standard_error(dense, cells, M)
    assert np.abs((dense.posterior(M).variances(cells) - exact) / error).max() < MOST


def lone_gaps(noise, lengthscale, n=60):
    """Few sensors with runs of gaps away from the ends."""
    observed = np.ones((4, n), dtype=bool)
    observed[0, 20:24] = observed[1, 30] = observed[2, 26:34] = False
    terms = (Term("graph", Matern12(lengthscale), 1.0), Term("graph", Constant(), 0.3),
             Term("node", Matern12(lengthscale / 4), 0.2))  # fmt: skip
    times = np.arange(n, dtype=float)
    return Dense(gram_of_places(4), terms, noise, np.ones(4), times, observed)


@pytest.mark.parametrize(("noise", "lengthscale"), [(0.05, 8.0), (1.0, 8.0), (1.0, 100.0)])
def test_in_a_gap_only_what_lies_outside_its_run_is_estimated(noise, lengthscale, monkeypatch):
    dense = lone_gaps(noise, lengthscale)
    gaps = dense.data.gaps
    exact = dense.variance(dense.sensors, dense.times)
    few = dense.posterior(64, seed=1).gap_variances
    np.testing.assert_allclose(few[gaps], exact[gaps], rtol=1e-6)
    monkeypatch.setattr(gap_variances, "INVERTED", 0)
    for solved, rtol in ((1, 0.025), (0, 0.04)):
        monkeypatch.setattr(gap_variances, "SOLVED", solved)
        found = dense.posterior(64, seed=1).gap_variances
        # Draws of the cells alone would have an error of 18 % of the variance with the noise.
        np.testing.assert_allclose(found[gaps], exact[gaps], rtol=rtol)


@pytest.mark.parametrize("noise", [0.05, 1.0])
@pytest.mark.parametrize("uneven", [False, True])
def test_at_the_ends_and_on_uneven_axes_blocks_are_formed(noise, uneven, monkeypatch):
    n = 60
    observed = np.ones((4, n), dtype=bool)
    observed[0, :12] = observed[1, -9:] = observed[2, 25:34] = observed[3, -20:] = False
    steps = np.random.default_rng(0).exponential(size=n) ** 3 if uneven else np.ones(n)
    terms = (Term("graph", Matern12(50.0), 1.0), Term("node", Matern12(12.0), 0.2))
    roots = np.array([1.0, 0.7, 1.5, 1.2])
    dense = Dense(gram_of_places(4), terms, noise, roots, np.cumsum(steps), observed)
    exact, error = standard_error(dense, Cells(dense.sensors, dense.times), M)
    gaps = dense.data.gaps
    few = dense.posterior(64, seed=1).gap_variances
    np.testing.assert_allclose(few[gaps], exact[gaps], rtol=1e-6)
    monkeypatch.setattr(gap_variances, "INVERTED", 0)
    monkeypatch.setattr(gap_variances, "SOLVED", 0)
    formed = dense.posterior(M, seed=1).gap_variances
    monkeypatch.setattr(gap_variances, "FORMED", 0)
    drawn = dense.posterior(M, seed=1).gap_variances
    assert np.abs((drawn - exact) / error)[gaps].max() < MOST
    off = [np.abs(found[gaps] / exact[gaps] - 1).mean() for found in (formed, drawn)]
    assert off[0] < 0.4 * off[1]
    monkeypatch.setattr(gap_variances, "SOLVED", 1)
    solved = dense.posterior(64, seed=1).gap_variances
    np.testing.assert_allclose(solved[gaps], exact[gaps], rtol=0.025)


def test_draws_have_the_law_of_f(dense):
    m = 400
    cells = Cells(np.array([0, 3, 5, 12]), np.union1d(dense.times[::13], [-2.0, 48.5]))
    mean, covariance = dense.law(cells.sites, cells.times)
    drawn = dense.posterior().draws(cells, m, np.random.default_rng(1)).reshape(m, -1)
    spread = np.sqrt(covariance.diagonal())
    z = (drawn - mean.reshape(-1)) / spread
    assert np.abs(z.mean(axis=0)).max() < MOST / np.sqrt(m)
    error = z.T @ z / m - covariance / np.outer(spread, spread)
    assert np.abs(error).max() < MOST * np.sqrt(2 / m)


def test_the_variance_is_that_within_and_that_over_imputations():
    """Law of total variance, with the dense covariance of what is imputed."""
    dense = made()
    complete, cells = dense.filled(), everywhere(dense)
    within = complete.posterior().variances(cells)
    gaps = np.flatnonzero(dense.data.gaps)
    f = dense.law(dense.sensors, dense.times)[1]
    noise = np.diag(np.repeat(dense.noise * dense.roots**2, dense.times.size))
    of_gaps = (f + noise)[np.ix_(gaps, gaps)]
    unit = np.zeros((gaps.size, dense.observed.size))
    unit[np.arange(gaps.size), gaps] = 1.0
    posterior = complete.posterior()
    alphas = posterior.system.solve(unit.reshape(-1, *dense.shape))
    means = posterior.means(cells, alphas).reshape(gaps.size, -1)
    over = np.einsum("ga,gh,ha->a", means, of_gaps, means).reshape(within.shape)
    np.testing.assert_allclose(within + over, dense.variance(cells.sites, cells.times), atol=1e-10)


def test_order_and_number_of_what_is_asked_do_not_matter():
    dense = made()
    posterior = dense.posterior(8)
    cells = everywhere(dense)
    mean, variance = posterior.means(cells)[0], posterior.variances(cells)
    some = Cells(np.array([11, 2]), dense.times[5:9])
    np.testing.assert_allclose(posterior.means(some)[0], mean[[11, 2], 5:9], atol=1e-12)
    np.testing.assert_allclose(posterior.variances(some), variance[[11, 2], 5:9], atol=1e-12)


def test_a_leading_basis_gives_the_law_where_nothing_is_lost(monkeypatch):
    rng = np.random.default_rng(5)
    factor = rng.normal(size=(14, 3))
    dense = made(gram=factor @ factor.T)
    posterior = dense.posterior(M)
    monkeypatch.setattr(Basis.of.__func__, "__defaults__", (None, 3))
    leading = dense.posterior(M)
    assert leading.system.basis.vectors.shape == (9, 3)
    cells = everywhere(dense)
    np.testing.assert_allclose(leading.means(cells), posterior.means(cells), atol=1e-6)
    exact, error = standard_error(dense, cells, M)
    z = (leading.variances(cells) - exact) / error
    z[:9][dense.data.gaps] = 0.0
    assert np.abs(z).max() < MOST
    m = 1000
    drawn = leading.system.drawn(m, np.random.default_rng(0)).reshape(m, -1)
    spread = np.sqrt(dense.system.diagonal())
    assert np.abs(drawn.var(axis=0) / spread**2 - 1).max() < MOST * np.sqrt(2 / m)


def test_one_seed_gives_the_same_bits():
    dense = made()
    cells = everywhere(dense)
    first, again, other = (dense.posterior(4, seed).variances(cells) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_sites_may_come_in_any_order_and_twice():
    dense = made()
    posterior = dense.posterior(4)
    assert isinstance(posterior, SpaceTimePosterior)
    assert isinstance(posterior.sites, PlainSites)
    some = Cells(np.array([3, 12, 3, 0]), dense.times)
    variance = posterior.variances(some)
    np.testing.assert_allclose(variance[0], variance[2], rtol=1e-12)
    drawn = posterior.draws(some, 2, np.random.default_rng(0))
    np.testing.assert_array_equal(drawn[:, 0], drawn[:, 2])
