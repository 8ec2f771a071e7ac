"""Walks and their features: unbiased for every coupling, law and number of hops."""

import numpy as np
import pytest

from coupledgp.couplings import MatchedLaw, available_walker_couplings
from coupledgp.errors import InvalidInputError, MemoryLimitError
from coupledgp.features import (
    WalkFeatures,
    plan_hops,
    sample_walks,
    walked_series,
)
from coupledgp.graphs import Graph, walk_features
from coupledgp.graphs.hops import filter_norm, hop_nodes, predicted_error, split_series
from tests.graph_cases import assert_mean_is, blocks, copies, karate, plain_graph, weighted_graph

HEAT = np.exp(-1.0) * np.cumprod(np.concatenate([[1.0], 1.0 / np.arange(1, 12)]))  # t = 2
N_COPIES = 400


def exact_features(graph: Graph, f: np.ndarray) -> np.ndarray:
    matrix = graph.normalized_adjacency.toarray()
    return sum(c * np.linalg.matrix_power(matrix, t) for t, c in enumerate(f))


@pytest.mark.parametrize("law", ["geometric", "matched"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("coupling", available_walker_couplings())
def test_features_are_unbiased(coupling: str, weighted: bool, law: str) -> None:
    graph = weighted_graph() if weighted else plain_graph()
    walks = sample_walks(
        copies(graph, N_COPIES), 3, 0.3, coupling, law, HEAT.size - 1, generator=1, modulation=HEAT
    )
    draws = blocks(walks.features(HEAT), N_COPIES)
    assert_mean_is(draws, exact_features(graph, HEAT))


@pytest.mark.parametrize("kind", ["power", "chebyshev"])
@pytest.mark.parametrize("n_hops", [1, 3, 4])
@pytest.mark.parametrize("coupling", ["iid", "sigma", "stratified+systematic"])
def test_hops_keep_features_and_kernel_unbiased(coupling: str, n_hops: int, kind: str) -> None:
    graph = plain_graph()
    _, c = split_series(HEAT, hop_nodes(graph, n_hops, kind))
    many = copies(graph, N_COPIES)
    walks = sample_walks(
        many, 4, coupling=coupling, length_law=MatchedLaw(np.abs(c) + 1e-3), generator=2
    )
    operator = WalkFeatures(walks, HEAT, exact_hops=n_hops, hop_nodes=kind)
    stacked = np.tile(np.eye(graph.n_nodes), (N_COPIES, 1))
    draws = operator.matmat(stacked).reshape(N_COPIES, graph.n_nodes, graph.n_nodes)
    truth = exact_features(graph, HEAT)
    assert_mean_is(draws, truth)
    off = ~np.eye(graph.n_nodes, dtype=bool)
    assert_mean_is((draws @ draws.transpose(0, 2, 1))[:, off], (truth @ truth.T)[off])


@pytest.mark.parametrize("coupling", available_walker_couplings())
def test_different_nodes_are_independent(coupling: str) -> None:
    graph = karate()
    walks = sample_walks(copies(graph, N_COPIES), 4, 0.3, coupling, max_length=6, generator=3)
    draws = blocks(walks.features(np.ones(7)), N_COPIES)[:, :, 0]
    moving = draws.std(axis=0) > 0
    correlation = np.corrcoef(draws[:, moving].T) - np.eye(moving.sum())
    # 561 pairs: the largest of 561 normal correlations stays below 5 standard errors
    assert np.abs(correlation).max() < 5 / np.sqrt(N_COPIES)


def test_stratified_systematic_walkers_have_less_variance() -> None:
    graph = karate()
    many = copies(graph, N_COPIES)
    spread = {}
    for coupling in ("iid", "stratified+systematic"):
        walks = sample_walks(many, 16, 0.1, coupling, modulation=HEAT, generator=4)
        spread[coupling] = blocks(walks.features(HEAT), N_COPIES).var(axis=0).sum()
    assert spread["stratified+systematic"] < 0.5 * spread["iid"]


def test_gram_is_positive_semidefinite() -> None:
    graph = weighted_graph()
    walks = sample_walks(graph, 4, generator=0)
    dense = WalkFeatures(walks, HEAT, exact_hops=2).rows()
    assert np.linalg.eigvalsh(dense @ dense.T).min() > -1e-12


@pytest.mark.parametrize("kind", ["power", "chebyshev", "ritz"])
@pytest.mark.parametrize("n_hops", [0, 1, 5])
def test_operator_products_agree_with_dense_features(n_hops: int, kind: str) -> None:
    graph = karate()
    nodes = [4, 0, 33, 4]
    walks = sample_walks(graph, 5, nodes=nodes, modulation=HEAT, generator=5)
    operator = WalkFeatures(walks, HEAT, n_hops, kind)
    matrix = graph.normalized_adjacency.toarray()
    x = np.array(operator.plan.nodes)
    series, filtered = np.zeros_like(matrix), np.eye(graph.n_nodes)
    for a, node in zip(operator.head, x, strict=True):
        series += a * filtered
        filtered = filtered @ (matrix - node * np.eye(graph.n_nodes))
    dense = series[nodes] + walks.features(operator.series).toarray() @ filtered
    rng = np.random.default_rng(0)
    right, left = rng.standard_normal((graph.n_nodes, 3)), rng.standard_normal((4, 2))
    np.testing.assert_allclose(operator.matmat(right), dense @ right, atol=1e-12)
    np.testing.assert_allclose(operator.rmatmat(left), dense.T @ left, atol=1e-12)
    np.testing.assert_allclose(operator @ right[:, 0], dense @ right[:, 0], atol=1e-12)
    np.testing.assert_allclose(operator.rmatvec(left[:, 0]), dense.T @ left[:, 0], atol=1e-12)
    np.testing.assert_allclose(operator.rows([2, 0]), dense[[2, 0]], atol=1e-12)


@pytest.mark.parametrize("share", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("n_hops", [0, 1, 4])
def test_rows_are_the_same_sparse_or_dense(
    n_hops: int, share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk_features, "DENSE_SHARE", share)
    graph = weighted_graph()
    nodes = [4, 0, 13, 4, 6]
    walks = sample_walks(graph, 3, nodes=nodes, modulation=HEAT, generator=5)
    operator = WalkFeatures(walks, HEAT, n_hops)
    dense = operator.matmat(np.eye(graph.n_nodes))
    for chosen in (None, [3, 1], np.array([2]), []):
        expected = dense if chosen is None else dense[np.asarray(chosen, dtype=int)]
        if isinstance(chosen, list) and not chosen:
            chosen = np.empty(0, dtype=int)
        np.testing.assert_allclose(operator.rows(chosen), expected, atol=1e-13)
        found = operator.sparse_rows(chosen)
        assert found.format == "csr"
        np.testing.assert_allclose(found.toarray(), expected, atol=1e-13)
    with pytest.raises(InvalidInputError, match="positions: expected numbers from 0 to 4, got 5"):
        operator.rows([0, 5])
    with pytest.raises(InvalidInputError, match="positions: expected a 1-D sequence of integers"):
        operator.sparse_rows([0.5])


def test_local_rows_touch_a_neighbourhood_only() -> None:
    n = 2000
    path = Graph.from_edges(np.arange(n - 1), np.arange(1, n))
    walks = sample_walks(path, 4, max_length=3, nodes=[500, 1500], generator=0)
    rows = WalkFeatures(walks, HEAT, exact_hops=5).sparse_rows()
    assert rows.nnz <= 2 * (2 * (3 + 5) + 1)
    assert abs(rows.indices[rows.indptr[0] : rows.indptr[1]] - 500).max() <= 8


def test_split_series_restores_the_series() -> None:
    rng = np.random.default_rng(1)
    f = rng.standard_normal((2, 9))
    nodes = hop_nodes(karate(), 4)
    head, rest = split_series(f, nodes)
    x = np.linspace(-1, 1, 7)
    for k in range(2):
        filtered, total = np.ones_like(x), np.zeros_like(x)
        for a, node in zip(head[k], nodes, strict=True):
            total, filtered = total + a * filtered, filtered * (x - node)
        total += np.polynomial.polynomial.polyval(x, rest[k]) * filtered
        np.testing.assert_allclose(total, np.polynomial.polynomial.polyval(x, f[k]), atol=1e-12)


def test_enough_hops_make_the_series_exact() -> None:
    graph = karate()
    walks = sample_walks(graph, 1, generator=0)
    operator = WalkFeatures(walks, HEAT, exact_hops=HEAT.size)
    np.testing.assert_allclose(operator.rows(), exact_features(graph, HEAT), atol=1e-12)


def test_chebyshev_nodes_have_the_least_filter_norm() -> None:
    for n in (3, 8, 17):
        assert filter_norm(hop_nodes(karate(), n)) == pytest.approx(2.0 ** (1 - n), rel=1e-3)


def test_auto_hops_reach_the_tolerance_and_say_so() -> None:
    graph = karate()
    plan = plan_hops(graph, HEAT, n_walks=16)
    assert plan.predicted_error <= 1e-3
    assert "tolerance" in plan.reason
    assert plan.cost == plan.n_hops * graph.indices.size
    assert plan_hops(graph, HEAT, 16, max_hops=1).n_hops <= 1
    asked = plan_hops(graph, HEAT, 16, exact_hops=3)
    assert (asked.n_hops, asked.reason) == (3, "as asked for")


@pytest.mark.parametrize(("n_hops", "least"), [(0, 0.5), (1, 0.2), (3, 0.5), (5, 0.5)])
def test_predicted_error_is_within_a_factor_of_two(n_hops: int, least: float) -> None:
    """Behind one hop or two the error is less than predicted by up to a factor of five."""
    graph = karate()
    truth = exact_features(graph, HEAT)
    plan = plan_hops(graph, HEAT, 16, exact_hops=n_hops)
    errors = []
    for seed in range(10):
        series = walked_series(HEAT, plan, 1e-6)
        walks = sample_walks(graph, 16, length_law=MatchedLaw(series), generator=seed)
        dense = WalkFeatures(walks, HEAT, plan).rows()
        errors.append(np.linalg.norm(dense @ dense.T - truth @ truth.T))
    error = np.mean(errors) / np.linalg.norm(truth @ truth.T)
    assert least < error / plan.predicted_error < 2


def test_predicted_error_by_hand() -> None:
    """Zeros as nodes leave the tail of the series, `|x^r| = 1` at most."""
    f = np.array([1.0, -0.5, 0.25, 0.125])
    for n_hops, rest in ((0, 0.875), (1, 0.375), (2, 0.125)):
        found = predicted_error(f, np.zeros(n_hops), 16, 2.0)
        assert found == pytest.approx(rest / 4 / 2.0, rel=1e-12)


def test_truncation_is_reported() -> None:
    walks = sample_walks(karate(), 2, max_length=3, generator=0)
    report = walks.truncation(HEAT)
    assert report.tail == pytest.approx(HEAT[4:].sum())
    assert report.relative == pytest.approx(HEAT[4:].sum() / HEAT.sum())
    truth = exact_features(karate(), HEAT)
    cut = exact_features(karate(), HEAT[:4])
    bias = np.linalg.norm(truth @ truth - cut @ cut, 2)
    assert bias <= report.kernel_bound * (1 + 1e-12)


def test_default_length_follows_the_series() -> None:
    assert sample_walks(karate(), 2, modulation=HEAT, generator=0).max_length == HEAT.size - 1
    geometric = sample_walks(karate(), 2, 0.5, generator=0)
    assert geometric.max_length == 20  # 2^-20 < 1e-6


def test_loads_are_the_parts_of_features() -> None:
    walks = sample_walks(karate(), 3, generator=1)
    f = np.array([0.5, 2.0, -1.0])
    total = sum(c * walks.loads(t) for t, c in enumerate(f))
    np.testing.assert_allclose(walks.features(f).toarray(), total.toarray(), atol=1e-14)
    np.testing.assert_array_equal(walks.loads(0).toarray(), np.eye(34))


def test_bad_arguments_are_refused() -> None:
    graph = karate()
    with pytest.raises(InvalidInputError, match=r"p_halt: expected a number in \(0, 1\), got 1"):
        sample_walks(graph, p_halt=1)
    with pytest.raises(InvalidInputError, match="n_walks"):
        sample_walks(graph, 0)
    with pytest.raises(InvalidInputError, match="n_walks: expected at most 65535, got 65536"):
        sample_walks(graph, 2**16)
    with pytest.raises(InvalidInputError, match="'stratified'"):
        sample_walks(graph, coupling="stratifed")
    with pytest.raises(InvalidInputError, match="'systematic'"):
        sample_walks(graph, coupling="iid+sistematic")
    with pytest.raises(InvalidInputError, match="length_law"):
        sample_walks(graph, length_law="poisson")
    with pytest.raises(InvalidInputError, match="modulation: expected coefficients or a kernel"):
        sample_walks(graph, length_law="matched")
    with pytest.raises(InvalidInputError, match="max_length"):
        sample_walks(graph, max_length=70_000)
    with pytest.raises(InvalidInputError, match=r"coupledgp\.Graph"):
        sample_walks(np.eye(3))


def test_what_cannot_fit_is_refused_with_advice() -> None:
    with pytest.raises(MemoryLimitError, match="n_walks <= "):
        sample_walks(karate(), 1000, memory_limit=1e5)
