"""Eigenvectors of sensors: complete, leading, and with scales of the sensors."""

from __future__ import annotations

import numpy as np
import pytest

from coupledgp.inference.space_time import basis as module
from coupledgp.inference.space_time.basis import Basis
from coupledgp.inference.space_time.filters import SeriesFilter, Term
from coupledgp.inference.space_time.gaps import CompleteSystem
from coupledgp.kernels.time import Matern12
from tests.inference.space_time.dense import gram_of_places

P, N, RANK = 9, 12, 4
RNG = np.random.default_rng(0)
ROOTS = np.exp(0.4 * RNG.normal(size=P))
FACTOR = RNG.normal(size=(P, RANK))
OF_LOW_RANK = FACTOR @ FACTOR.T
TIMES = np.arange(N, dtype=float)
TERMS = (Term("graph", Matern12(5.0), 1.0), Term("node", Matern12(2.0), 0.4))


def system_of(gram, roots, **options):
    basis = Basis.of(gram, roots, **options)
    return CompleteSystem(basis, SeriesFilter(TERMS, 0.3, basis.eigenvalues, TIMES))


def dense_of(gram, roots):
    kernels = [term.kernel.covariance(TIMES[:, None] - TIMES) * term.variance for term in TERMS]
    own = np.diag(roots**2)
    return np.kron(gram, kernels[0]) + np.kron(own, kernels[1] + 0.3 * np.eye(N))


def test_complete_eigenvectors_give_the_covariance_back():
    gram = gram_of_places(P)
    basis = Basis.of(gram, ROOTS)
    scaled = basis.vectors * basis.values @ basis.vectors.T
    np.testing.assert_allclose(ROOTS[:, None] * scaled * ROOTS, gram, atol=1e-13)
    assert basis.is_complete
    assert basis.lost == 0.0
    np.testing.assert_allclose(basis.shares.sum(axis=1), 1.0, rtol=1e-13)


def test_rotating_there_and_back_divides_by_the_scales():
    Y = RNG.normal(size=(2, P, N))
    for most in (P, RANK):
        basis = Basis.of(gram_of_places(P), ROOTS, most)
        back = basis.unrotated(basis.rotated(Y))
        np.testing.assert_allclose(back, Y / ROOTS[:, None] ** 2, atol=1e-13)


@pytest.mark.parametrize("roots", [np.ones(P), ROOTS], ids=["shared", "own"])
def test_leading_eigenvectors_are_exact_where_the_others_belong_to_zeros(roots):
    gram = OF_LOW_RANK
    found, dense = system_of(gram, roots, most=RANK), dense_of(gram, roots)
    assert found.basis.vectors.shape == (P, RANK)
    assert found.basis.lost < 1e-12
    Y = RNG.normal(size=(1, P, N))
    expected = np.linalg.solve(dense, Y.reshape(-1)).reshape(P, N)
    np.testing.assert_allclose(found.solve(Y)[0], expected, atol=1e-10)
    assert found.log_determinant == pytest.approx(np.linalg.slogdet(dense)[1], abs=1e-10)
    diagonal = np.diag(np.linalg.inv(dense)).reshape(P, N)
    np.testing.assert_allclose(found.diagonal, diagonal, atol=1e-10)


def test_leading_eigenvectors_state_what_they_lose():
    gram = gram_of_places(P)
    values = np.linalg.eigvalsh(gram)
    basis = Basis.of(gram, most=RANK)
    assert basis.lost == pytest.approx(values[: P - RANK].sum() / values.sum(), rel=1e-10)
    np.testing.assert_allclose(basis.values, values[P - RANK :], rtol=1e-12)
    assert basis.multiplicities.sum() == pytest.approx(P)
    np.testing.assert_allclose(basis.shares.sum(axis=1), 1.0, rtol=1e-13)


def test_lanczos_iterations_find_the_same_leading_eigenvectors(monkeypatch):
    gram = gram_of_places(40, reach=3.0)
    expected = Basis.of(gram, most=6)
    monkeypatch.setattr(module, "DENSE_EIGENVECTORS", 20)
    found, again = Basis.of(gram, most=6), Basis.of(gram, most=6)
    np.testing.assert_allclose(np.sort(found.values), expected.values, rtol=1e-10)
    np.testing.assert_allclose(
        found.vectors @ found.vectors.T, expected.vectors @ expected.vectors.T, atol=1e-8
    )
    np.testing.assert_array_equal(found.vectors, again.vectors)
    assert found.lost == pytest.approx(expected.lost, rel=1e-6)


def test_negative_eigenvalues_are_rounding():
    gram = np.ones((5, 5))
    values = Basis.of(gram).values
    np.testing.assert_allclose(values, [0, 0, 0, 0, 5.0], atol=0, rtol=1e-13)


def test_draws_of_the_graphs_part_have_its_covariance():
    basis = Basis.of(OF_LOW_RANK, ROOTS, RANK)
    root = basis.spread(np.eye(RANK)[None])[0]
    np.testing.assert_allclose(root @ root.T, OF_LOW_RANK, atol=1e-12)
