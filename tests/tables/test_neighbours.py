"""Neighbours, kriging and the Vecchia evidence, beside dense references."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy import stats
from scipy.optimize import approx_fprime
from scipy.spatial.distance import cdist

from coupledgp.core.problem import RowWeights
from coupledgp.errors import NumericalError
from coupledgp.spectra import parse_spectrum
from coupledgp.tables import nearest as module
from coupledgp.tables.conditionals import Neighbourhoods, conditionals
from coupledgp.tables.local_evidence import BatchEvidence, OrderedRows
from coupledgp.tables.local_parameters import LocalScales, Structure
from coupledgp.tables.nearest import MISSING, nearest, nearest_earlier

KERNELS = ["gaussian", "matern-1/2", "matern-3/2", "matern-5/2", "matern-0.8", "laplace"]
RNG = np.random.default_rng(2)


@pytest.fixture(params=["trees", "blocks"])
def _either_way(request, monkeypatch):
    """Trees, or blocks of distances, for every table."""
    by_trees = request.param == "trees"
    monkeypatch.setattr(module, "TREE_DIM", 99 if by_trees else 0)
    monkeypatch.setattr(module, "BRUTE_ROWS", 10**9)
    monkeypatch.setattr(module, "BLOCK_QUERIES", 7)
    monkeypatch.setattr(module, "BLOCK_ROWS", 50)


def test_many_equal_rows_leave_room_for_nearer_ones(monkeypatch):
    """Of equal distances the first places win, however many there are; nearer rows come later."""
    monkeypatch.setattr(module, "TREE_DIM", 0)
    monkeypatch.setattr(module, "BLOCK_ROWS", 100)
    rows = np.ones((700, 2))
    rows[650] = 0.5
    found = nearest(rows, np.zeros((1, 2)), 5)
    np.testing.assert_array_equal(found, [[650, 0, 1, 2, 3]])
    np.testing.assert_array_equal(
        nearest_earlier(rows, np.array([650, 651]), 3)[:, :3], [[0, 1, 2], [0, 1, 2]]
    )


@pytest.mark.usefixtures("_either_way")
@pytest.mark.parametrize("k", [1, 7, 300])
def test_nearest_rows_are_those_of_all_distances(k):
    rows, queries = RNG.normal(size=(200, 3)), RNG.normal(size=(30, 3))
    found = nearest(rows, queries, k)
    distances = cdist(queries, rows)
    expected = np.sort(distances, axis=1)[:, : min(k, 200)]
    taken = np.take_along_axis(distances, found, axis=1)
    np.testing.assert_allclose(np.sort(taken, axis=1), expected, rtol=1e-5)


@pytest.mark.usefixtures("_either_way")
def test_neighbours_come_before_a_row_and_are_near():
    rows, wanted, k = RNG.normal(size=(900, 3)), np.array([0, 1, 5, 64, 65, 130, 500, 899]), 6
    found = nearest_earlier(rows, wanted, k)
    assert found.shape == (8, k)
    hits = total = 0
    for place, near in zip(wanted, found, strict=True):
        present = near[near != MISSING]
        assert len(present) == len(set(present)) == min(k, place)
        assert (present < place).all()
        best = np.argsort(np.linalg.norm(rows[:place] - rows[place], axis=1))[:k]
        hits, total = hits + len(set(best) & set(present)), total + len(present)
    assert hits >= 0.95 * total


@pytest.mark.usefixtures("_either_way")
def test_equal_rows_are_each_others_neighbours():
    rows = np.zeros((50, 2))
    found = nearest_earlier(rows, np.arange(50), 4)
    assert all(len(set(near[:place])) == min(4, place) for place, near in enumerate(found))


def hoods(n=5, k=4, d=3, missing=True):
    present = np.ones((n, k))
    if missing:
        present[0], present[1, 2:] = 0.0, 0.0
    noise = RNG.uniform(0.5, 2.0, (n, k + 1))
    parts = RNG.normal(size=(n, k, d)), present, noise[:, 0], noise[:, 1:]
    return Neighbourhoods(*(torch.as_tensor(part) for part in parts))


def dense_laws(kernel, hood, lengthscale, v, s):
    """Conditional laws of the joint normal, one row at a time."""
    weights, variances, p = [], [], kernel.metric.order
    for i in range(len(hood.own_noise)):
        there = hood.present[i].numpy() > 0
        u = hood.differences[i].numpy()[there] / lengthscale
        gram = v * kernel.kernel(cdist(u, u, "minkowski", p=p)) + s * np.diag(
            hood.noise[i].numpy()[there]
        )
        cross = v * kernel.kernel(np.linalg.norm(u, p, axis=1))
        b = np.zeros(len(there))
        b[there] = np.linalg.solve(gram, cross)
        weights.append(b)
        variances.append(v + s * hood.own_noise[i].item() - b[there] @ cross)
    return np.array(weights), np.array(variances)


@pytest.mark.parametrize("name", KERNELS)
def test_conditional_laws_are_those_of_the_joint_normal(name):
    hood, lengthscale = hoods(), np.array([0.7, 1.5, 1.1])
    logs = [torch.as_tensor(np.log(v)) for v in (lengthscale, 1.7, 0.2)]
    found = conditionals(parse_spectrum(name), hood, *logs)
    weights, variances = dense_laws(parse_spectrum(name), hood, lengthscale, 1.7, 0.2)
    np.testing.assert_allclose(found.weights, weights, atol=1e-12)
    np.testing.assert_allclose(found.variances, variances, rtol=1e-12)


@pytest.mark.parametrize("name", KERNELS)
def test_gradients_of_conditional_laws_are_those_of_differences(name):
    hood, spectrum = hoods(), parse_spectrum(name)
    by_weights, by_variances = torch.randn(5, 4).double(), torch.randn(5).double()

    def value(vector):
        x = torch.as_tensor(vector)
        laws = conditionals(spectrum, hood, x[:3], x[3], x[4])
        return (laws.weights * by_weights).sum() + (laws.variances * by_variances).sum()

    start = torch.tensor([0.1, -0.3, 0.4, 0.2, -1.0], dtype=torch.float64, requires_grad=True)
    (found,) = torch.autograd.grad(value(start), start)
    expected = approx_fprime(start.detach().numpy(), lambda x: float(value(x)), 1e-6)
    np.testing.assert_allclose(found, expected, atol=2e-5)


def test_chunks_do_not_change_conditional_laws(monkeypatch):
    hood = hoods(n=40)
    logs = torch.zeros(3).double(), torch.zeros(()).double(), torch.zeros(()).double()
    whole = conditionals(parse_spectrum("matern-3/2"), hood, *logs)
    monkeypatch.setattr("coupledgp.tables.conditionals.CHUNK_ENTRIES", 64)
    parts = conditionals(parse_spectrum("matern-3/2"), hood, *logs)
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(one, other)


def test_equal_neighbours_without_noise_are_an_error_that_says_so():
    hood = replace(hoods(missing=False), differences=torch.zeros(5, 4, 3).double())
    logs = torch.zeros(3).double(), torch.zeros(()).double(), torch.tensor(-80.0).double()
    with pytest.raises(NumericalError, match="covariance of neighbours"):
        conditionals(parse_spectrum("gaussian"), hood, *logs)


def structure(name="matern-3/2", n_neighbours=6, fits=True, trend="linear"):
    return Structure(
        3, parse_spectrum(name) if name else None, n_neighbours, RNG.normal(size=(4, 3)), fits,
        trend, np.array([0, 1, 1]),
    )  # fmt: skip


X, Y = RNG.normal(size=(80, 3)), RNG.normal(size=(80, 2))
WEIGHTS = RowWeights(RNG.uniform(0.5, 2, 80), RNG.integers(1, 4, 80).astype(float))


@pytest.mark.parametrize("name", [*KERNELS[:4], "laplace", None])
@pytest.mark.parametrize("trend", ["none", "constant", "linear"])
def test_the_gradient_of_the_evidence_is_that_of_differences(name, trend):
    own = structure(name, trend=trend)
    vector = own.start() + 0.2 * RNG.normal(size=own.start().size)
    rows = OrderedRows.of(X, Y, WEIGHTS)
    batch = BatchEvidence.of(own, rows, np.arange(0, 80, 2), np.ones(3))
    found = batch.value_and_gradient(vector)[1]
    expected = approx_fprime(vector, lambda x: batch.value_and_gradient(x)[0], 1e-6)
    np.testing.assert_allclose(found, expected, atol=2e-5)


@pytest.mark.parametrize("name", ["matern-3/2", "laplace"])
def test_the_evidence_given_all_earlier_rows_is_that_of_the_joint_normal(name):
    own = structure(name, n_neighbours=80)
    rows = OrderedRows.of(X, Y)
    batch = BatchEvidence.of(own, rows, np.arange(80), np.ones(3))
    scales = LocalScales.of(own, own.named(own.start()))
    psi = scales.features(torch.as_tensor(X), "linear").numpy()
    u = X / scales.log_lengthscale.exp().numpy()
    v, s = float(scales.log_outputscale.exp()), float(scales.log_noise.exp())
    distances = cdist(u, u, "minkowski", p=own.spectrum.metric.order)
    gram = psi @ psi.T + v * own.spectrum.kernel(distances) + s * np.eye(80)
    expected = stats.multivariate_normal(np.zeros(80), gram).logpdf(Y.T).sum()
    np.testing.assert_allclose(float(batch.log_evidence(scales)), expected, rtol=1e-10)


@pytest.mark.parametrize("name", ["matern-3/2", "laplace"])
def test_gradients_agree_with_central_differences_to_eight_digits(name):
    own = replace(structure(name, trend="none"), frequencies=None, fits_frequencies=False)
    batch = BatchEvidence.of(own, OrderedRows.of(X, Y, WEIGHTS), np.arange(80), np.ones(3))
    vector = own.start() + np.array([0.2, -0.1, 0.3, 0.1])
    found = batch.value_and_gradient(vector)[1]
    steps = 1e-4 * np.eye(vector.size)

    def value(x):
        return batch.value_and_gradient(x)[0]

    def slope(step, size):
        return (value(vector + size * step) - value(vector - size * step)) / (2e-4 * size)

    expected = [(4 * slope(step, 0.5) - slope(step, 1.0)) / 3 for step in steps]  # Richardson's
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-9)


def test_a_batch_is_a_part_of_the_whole_likelihood():
    """Without features the whole is the sum of disjoint batches, whose rows count once each."""
    own = replace(structure(), frequencies=None, fits_frequencies=False, trend="none")
    rows, scales = OrderedRows.of(X, Y), LocalScales.of(own, own.named(own.start()))
    batches = [np.arange(80), np.arange(0, 80, 2), np.arange(1, 80, 2)]
    whole, even, odd = (
        float(BatchEvidence.of(own, rows, b, np.ones(3)).log_evidence(scales)) for b in batches
    )
    np.testing.assert_allclose(whole, even + odd, rtol=1e-10)


def test_rows_that_count_twice_are_rows_that_stand_twice():
    """Up to a constant, which no hyperparameter changes."""
    own = structure(n_neighbours=200)
    counts = WEIGHTS.counts.astype(int)
    twice = OrderedRows.of(np.repeat(X, counts, axis=0), np.repeat(Y, counts, axis=0))
    once = OrderedRows.of(X, Y, RowWeights(np.ones(80), WEIGHTS.counts))
    gaps = []
    for shift in (0.0, 0.3):
        scales = LocalScales.of(own, own.named(own.start() + shift))
        values = [
            float(
                BatchEvidence.of(own, rows, np.arange(len(rows)), np.ones(3)).log_evidence(scales)
            )
            for rows in (once, twice)
        ]
        gaps.append(values[0] - values[1])
    np.testing.assert_allclose(gaps[0], gaps[1], rtol=1e-8)


def test_a_known_noise_stays():
    own = replace(structure(), known_noise=0.3)
    place = list(own.shapes).index("noise")
    assert place == 0
    assert own.box()[0] == (np.log(0.3), np.log(0.3))
    assert own.start()[0] == np.log(0.3)
