"""A learned covariance of the sensors against dense algebra, and sites that carry it elsewhere."""

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.errors import InvalidInputError
from coupledgp.inference.space_time.filters import Term
from coupledgp.inference.space_time.learned import Spectra, learned_covariance
from coupledgp.inference.space_time.learned_sites import LearnedSites
from coupledgp.inference.space_time.sites import sites_of
from coupledgp.inference.space_time.whittle import SpaceTimeParameters
from coupledgp.kernels import GraphMaternKernel
from coupledgp.kernels.time import Matern12

SENSORS = np.array([1, 3, 4, 8, 11])
EVERY = np.arange(14)


def sites(n_nodes=14):
    nodes = np.arange(n_nodes - 1)
    return sites_of(cgp.Graph.from_edges(nodes, nodes + 1), GraphMaternKernel(3.0))


def covariance(p, seed=0):
    root = np.random.default_rng(seed).normal(size=(p, p + 2))
    return root @ root.T / p


def parameters(p, roots=None):
    terms = (Term("graph", Matern12(6.0), 1.0), Term("node", Matern12(3.0), 0.2))
    return SpaceTimeParameters(np.zeros(1), terms, 0.1, np.ones(p) if roots is None else roots)


def test_the_covariance_of_the_kernel_changes_nothing():
    inner = sites()
    found = LearnedSites(inner, SENSORS, inner.gram(SENSORS))
    np.testing.assert_allclose(found.gram(EVERY), inner.gram(EVERY), atol=1e-8)
    np.testing.assert_allclose(found.diagonal(EVERY), inner.diagonal(EVERY), atol=1e-8)
    assert found.theta.size == 0
    assert found.with_theta(np.zeros(0)) is found


def test_other_sites_have_the_law_of_the_kernel_given_the_sensors():
    inner, C = sites(), covariance(5)
    found = LearnedSites(inner, SENSORS, C)
    K = inner.gram(EVERY)
    B = np.linalg.solve(K[np.ix_(SENSORS, SENSORS)], K[SENSORS]).T
    dense = K - B @ K[SENSORS] + B @ C @ B.T
    np.testing.assert_allclose(found.gram(EVERY), dense, atol=1e-7)
    np.testing.assert_allclose(found.gram(SENSORS), C, atol=1e-12)
    np.testing.assert_allclose(found.diagonal(EVERY), np.diagonal(dense), atol=1e-7)
    out, into = np.array([3, 0, 8, 13]), np.array([2, 4, 4, 12])
    V = np.random.default_rng(1).normal(size=(4, 2))
    np.testing.assert_allclose(found.product(out, into, V), dense[np.ix_(out, into)] @ V, atol=1e-7)
    assert np.linalg.eigvalsh(dense)[0] > -1e-9
    drawn = found.sample(out, 40_000, np.random.default_rng(2))
    wanted = dense[np.ix_(out, out)]
    np.testing.assert_allclose(np.cov(drawn), wanted, atol=0.03 * wanted.max())


def test_refusals():
    with pytest.raises(InvalidInputError, match="covariance: expected shape"):
        LearnedSites(sites(), SENSORS, np.eye(3))
    with pytest.raises(InvalidInputError, match="rising sensors"):
        LearnedSites(sites(), SENSORS[::-1], np.eye(5))


@pytest.mark.parametrize("n", [8, 9])
def test_the_expectation_and_the_evidence_are_those_of_dense_algebra(n):
    rng, roots = np.random.default_rng(0), np.array([0.7, 1.0, 1.4])
    Z, C = rng.normal(size=(2, 3, n)), covariance(3)
    spectra = Spectra(Z, 1.0, parameters(3, roots))
    D = np.diag(roots**2)
    moment, loss = np.zeros((3, 3)), 0.0
    counts = [0] + [1 if 2 * w == n else 2 for w in range(1, n // 2 + 1)]
    for z in Z:
        x = np.fft.rfft(z) / np.sqrt(n)
        for w, count in enumerate(counts):
            signal, total = C * spectra.graph[w], C * spectra.graph[w] + D * spectra.node[w]
            mean = signal @ np.linalg.solve(total, x[:, w])
            left = signal - signal @ np.linalg.solve(total, signal)
            second = (np.outer(mean, mean.conj()).real + left) / spectra.graph[w]
            moment += 0.5 * count * second
            power = (x[:, w].conj() @ np.linalg.solve(total, x[:, w])).real
            loss += 0.25 * count * (np.linalg.slogdet(total)[1] + power)
    np.testing.assert_allclose(spectra.moment(C), moment, rtol=1e-9, atol=1e-9)
    loss -= 0.25 * 2 * sum(counts) * np.log(np.prod(roots**2))
    assert spectra.loss(C) == pytest.approx(loss)


def drawn(C, n, seed=3):
    rng, lags = np.random.default_rng(seed), np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    slow, own = (np.linalg.cholesky(np.exp(-lags / scale)) for scale in (6.0, 3.0))
    f = np.linalg.cholesky(C) @ rng.normal(size=(len(C), n)) @ slow.T
    f += np.sqrt(0.2) * rng.normal(size=f.shape) @ own.T
    return (f + np.sqrt(0.1) * rng.normal(size=f.shape))[None]


def test_a_covariance_that_the_kernel_lacks_is_learned():
    gram, truth = sites().gram(SENSORS), covariance(5, 4)
    truth *= np.trace(gram) / np.trace(truth)
    found = learned_covariance(drawn(truth, 600), 1.0, parameters(5), gram)
    assert found is not None
    assert found.gain > 0
    assert np.trace(found.covariance) == pytest.approx(np.trace(gram))
    error, before = (np.linalg.norm(C - truth) for C in (found.covariance, gram))
    assert error < 0.5 * before


def test_the_kernel_stays_where_it_is_true_and_where_steps_are_few():
    gram = sites().gram(SENSORS)
    assert learned_covariance(drawn(gram, 600), 1.0, parameters(5), gram) is None
    assert learned_covariance(drawn(covariance(5), 40), 1.0, parameters(5), gram) is None


@pytest.fixture(scope="module")
def pairs():
    """Six sensors of a road: draws of the kernel, to which the first and the last add the same."""
    graph = cgp.Graph.from_edges(np.arange(7), np.arange(1, 8))
    C = sites_of(graph, GraphMaternKernel(3.0)).gram(np.arange(6))
    C[np.ix_([0, 5], [0, 5])] += 1.5
    Y = drawn(C, 300)[0]
    hidden = np.zeros(Y.shape, dtype=bool)
    hidden[0, 150:180] = True
    return graph, Y, hidden


def fitted(pairs, how):
    graph, Y, hidden = pairs
    model = cgp.GraphTimeGPRegressor(graph, sensor_covariance=how, progress=False)
    return model.fit(np.arange(6), np.arange(300.0), np.where(hidden, np.nan, Y))


@pytest.mark.filterwarnings("ignore:round . of the search")
def test_what_is_learned_fills_gaps_and_is_kept_in_files(pairs, tmp_path):
    _, Y, hidden = pairs
    model = fitted(pairs, "learned")
    sites = model.process_.sites
    assert isinstance(sites, LearnedSites)
    assert sites.covariance[0, 5] > 3 * sites.inner.gram(np.arange(6))[0, 5]
    mean, std = model.predict(np.arange(8), np.arange(300.0), return_std=True)
    error = (mean[:6] - Y)[hidden]
    assert np.sqrt(np.mean(error**2)) < 0.8 * Y[0].std()
    assert np.mean(np.abs(error) < 1.96 * std[:6][hidden]) > 0.8
    model.save(tmp_path / "learned.model")
    loaded = cgp.load_model(tmp_path / "learned.model")
    again = loaded.predict(np.arange(8), np.arange(300.0), return_std=True)
    np.testing.assert_allclose(again, (mean, std), rtol=1e-6)


@pytest.mark.filterwarnings("ignore:round . of the search")
def test_sensors_left_out_know_nothing_of_what_was_learned_of_them(pairs):
    learned, plain = fitted(pairs, "learned"), fitted(pairs, "kernel")
    assert learned.grid_process_.under_kernel() is not learned.grid_process_
    assert plain.grid_process_.under_kernel() is plain.grid_process_
    found, expected = learned.leave_one_sensor_out(), plain.leave_one_sensor_out()
    assert found.node == expected.node
    np.testing.assert_allclose(found.mean, expected.mean, rtol=1e-6)
    np.testing.assert_allclose(found.std, expected.std, rtol=1e-6)


def test_a_choice_of_covariance_is_checked(pairs):
    with pytest.raises(InvalidInputError, match="did you mean 'learned'"):
        fitted(pairs, "learn")
