"""Lanczos quadratures against functions of the matrix."""

import numpy as np
import pytest

from coupledgp.errors import NumericalError
from coupledgp.linalg import lanczos
from coupledgp.linalg.lanczos import Lanczos, gauss, inverse_root, lanczos_quadrature, with_node


def test_lanczos_quadrature_is_exact_for_few_distinct_eigenvalues() -> None:
    rng = np.random.default_rng(0)
    q = np.linalg.qr(rng.standard_normal((30, 30)))[0]
    values = np.repeat([0.1, 1.0, 3.0], 10)
    G = (q * values) @ q.T
    b = rng.standard_normal((30, 2))
    quadrature = lanczos_quadrature(lambda V: G @ V, b, 20)
    found = (quadrature.weights * np.log(quadrature.values + 0.5)).sum(axis=1)
    expected = [c @ (q * np.log(values + 0.5)) @ q.T @ c / (c @ c) for c in b.T]
    np.testing.assert_allclose(found, expected, rtol=1e-8)


def test_lanczos_rules_bound_the_inverse_and_the_logarithm() -> None:
    rng = np.random.default_rng(3)
    root = rng.standard_normal((60, 60)) * np.geomspace(1.0, 1e-4, 60)
    G, b = root @ root.T, rng.standard_normal((60, 2))
    values, vectors = np.linalg.eigh(G)
    for n_steps in (4, 12):
        rule = lanczos_quadrature(lambda V: G @ V, b, n_steps)
        for k, column in enumerate(b.T):
            weights = (vectors.T @ column) ** 2 / (column @ column)
            for h, sign in ((lambda x: 1 / (x + 1e-3), 1.0), (lambda x: -np.log(x + 1e-3), 1.0)):
                exact = sign * (weights * h(values)).sum()
                slack = 1e-6 * abs(exact)
                assert (rule.weights[k] * h(rule.values[k])).sum() <= exact + slack
                assert (rule.radau_weights[k] * h(rule.radau_values[k])).sum() >= exact - slack


@pytest.mark.parametrize("reorthogonalise", [False, True])
def test_rules_with_and_without_stored_vectors_integrate_the_same(reorthogonalise: bool) -> None:
    rng = np.random.default_rng(5)
    root = rng.standard_normal((40, 40))
    G, starts = root @ root.T, rng.standard_normal((40, 2))
    lanczos = Lanczos(lambda V: G @ V, starts, reorthogonalise=reorthogonalise)
    for _ in range(40):
        lanczos.step()
    values, vectors = np.linalg.eigh(G)
    for k, start in enumerate(starts.T):
        d, e = lanczos.jacobi(k)
        nodes, weights = gauss(d, e[:-1])
        expected = (vectors.T @ start) ** 2 @ np.log(values + 1.0) / (start @ start)
        assert weights @ np.log(np.maximum(nodes, 0) + 1.0) == pytest.approx(expected, rel=1e-9)
    assert (lanczos._past is not None) == reorthogonalise


def test_a_node_is_where_it_was_put() -> None:
    rng = np.random.default_rng(6)
    d, e = rng.uniform(1, 2, 5), rng.uniform(0.1, 0.2, 5)
    nodes, weights = gauss(*with_node(d, e, 0.3))
    assert nodes[0] == pytest.approx(0.3, rel=1e-12)
    assert weights.sum() == pytest.approx(1.0)


def test_inverse_roots_are_those_of_eigenvectors(monkeypatch: pytest.MonkeyPatch) -> None:
    """Columns in several groups, to the tolerance; a matrix that is not definite is refused."""
    monkeypatch.setattr(lanczos, "ROOT_COLUMNS", 2)
    rng = np.random.default_rng(7)
    vectors = np.linalg.qr(rng.normal(size=(60, 60)))[0]
    values = np.geomspace(0.02, 3.0, 60)
    starts = rng.normal(size=(60, 5))
    wanted = (vectors / np.sqrt(values)) @ vectors.T @ starts
    found = inverse_root(lambda V: (vectors * values) @ (vectors.T @ V), starts, 1e-5, 60)
    gaps = np.linalg.norm(found - wanted, axis=0) / np.linalg.norm(wanted, axis=0)
    assert gaps.max() < 1e-4
    with pytest.raises(NumericalError, match="not found in 4 products"):
        inverse_root(lambda V: (vectors * values) @ (vectors.T @ V), starts, 1e-5, 4)
    with pytest.raises(NumericalError, match="not positive definite"):
        inverse_root(lambda V: -V, starts, 1e-5, 60)
    one = inverse_root(lambda V: 4 * V, starts, 1e-5, 60)  # a Krylov space of one vector
    np.testing.assert_allclose(one, starts / 2, rtol=1e-6)
