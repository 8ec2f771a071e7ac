"""Pieces of graphs and clusters of observations: their laws by definition."""

import networkx as nx
import numpy as np
import pytest
from scipy import stats

from coupledgp.errors import NumericalError
from coupledgp.graphs import Graph
from coupledgp.graphs.evidence import ObservedEvidence
from coupledgp.graphs.pieces import (
    ClusterEvidence,
    PiecesEvidence,
    ball,
    choose_clusters,
    choose_pieces,
    cluster_size,
    piece_of,
    piece_sizes,
)
from coupledgp.graphs.spectral import SpectralMoments
from coupledgp.kernels import HeatKernel, RegularizedLaplacianKernel, dense_kernel
from tests.graph_cases import weighted_graph


def grid(side: int) -> nx.Graph:
    return nx.convert_node_labels_to_integers(nx.grid_2d_graph(side, side))


@pytest.mark.parametrize("size", [1, 20, 57])
def test_a_ball_holds_the_nearest_nodes(size: int) -> None:
    plain = grid(12)
    found = ball(Graph.from_networkx(plain), np.array([40]), size)
    assert found.size == np.unique(found).size == size
    steps = nx.single_source_shortest_path_length(plain, 40)
    outside = set(plain) - set(found.tolist())
    assert max(steps[k] for k in found.tolist()) <= min(steps[k] for k in outside)


def test_a_ball_goes_on_in_another_component() -> None:
    graph = Graph.from_networkx(nx.disjoint_union(nx.path_graph(5), nx.path_graph(9)))
    assert set(ball(graph, np.array([2, 7]), 9).tolist()) >= {0, 1, 2, 3, 4, 7}
    assert ball(graph, np.array([2, 3]), 9).size == 5  # no centre in the other one


def test_a_hub_does_not_cost_its_degree() -> None:
    n = 200_000
    star = Graph.from_edges(np.zeros(n, np.int64), np.arange(1, n + 1))
    piece = piece_of(star, ball(star, np.array([77]), 50))
    assert piece.nodes.size == 50
    assert piece.cut > 0.9


def test_edges_that_leave_a_piece_become_loops() -> None:
    graph = weighted_graph()
    nodes = np.arange(0, graph.n_nodes, 2)
    piece = piece_of(graph, nodes)
    np.testing.assert_allclose(piece.graph.degrees, graph.closed.degrees[nodes])
    off = ~np.eye(nodes.size, dtype=bool)
    whole = graph.normalized_adjacency.toarray()[np.ix_(nodes, nodes)]
    np.testing.assert_allclose(piece.graph.normalized_adjacency.toarray()[off], whole[off])
    weights = graph.adjacency.toarray()
    outside = np.setdiff1d(np.arange(graph.n_nodes), nodes)
    share = weights[np.ix_(nodes, outside)].sum() / weights[nodes].sum()
    assert piece.cut == pytest.approx(share)


def test_pieces_begin_at_observations_that_no_other_has() -> None:
    graph = Graph.from_networkx(grid(14))
    nodes = np.arange(30)
    sizes = piece_sizes(196, 30)._replace(n_pieces=8, n_nodes=40)
    pieces = choose_pieces(graph, nodes, sizes, seed=0)
    assert len(pieces) < 8  # the observations were used up
    for k, piece in enumerate(pieces):
        before = np.concatenate([np.empty(0, int), *(p.nodes for p in pieces[:k])])
        assert np.setdiff1d(np.intersect1d(nodes, piece.nodes), before).size
    assert np.isin(nodes, np.concatenate([piece.nodes for piece in pieces])).all()
    assert PiecesEvidence(graph, pieces, nodes, np.ones((30, 1))).n_targets == 30


def test_a_piece_of_everything_is_the_graph() -> None:
    graph = Graph.from_networkx(grid(6))
    piece = piece_of(graph, np.arange(36))
    assert piece.cut == 0.0
    np.testing.assert_array_equal(piece.graph.adjacency.toarray(), graph.adjacency.toarray())


@pytest.mark.parametrize("share", [0.3, 0.9])
@pytest.mark.parametrize("scaled", [False, True])
def test_pieces_are_independent(share: float, scaled: bool) -> None:
    rng = np.random.default_rng(0)
    plain = Graph.from_networkx(grid(14))
    scale = rng.uniform(0.5, 2.0, 196) if scaled else None
    graph = Graph((plain.indptr, plain.indices, plain.weights), node_scale=scale)
    nodes = rng.permutation(196)[: round(share * 196)]
    Y = rng.standard_normal((nodes.size, 2))
    sizes = piece_sizes(196, nodes.size)._replace(n_pieces=3, n_nodes=40)
    pieces = choose_pieces(graph, nodes, sizes, seed=5)
    evidence = PiecesEvidence(graph, pieces, nodes, Y)
    kernel, ratio = HeatKernel(3.0), 0.2
    expected, taken = 0.0, np.zeros(nodes.size, dtype=bool)
    for piece in pieces:
        rows = np.flatnonzero(np.isin(nodes, piece.nodes) & ~taken)
        taken[rows] = True
        places = np.array([np.flatnonzero(piece.nodes == k)[0] for k in nodes[rows]])
        A = dense_kernel(piece.graph, kernel)[np.ix_(places, places)] + ratio * np.eye(rows.size)
        law = stats.multivariate_normal(np.zeros(rows.size), A)
        expected += sum(law.logpdf(y) for y in Y[rows].T)

    def log_density(theta: float, log_ratio: float) -> float:
        terms = evidence.terms(kernel.with_theta(np.array([theta])), np.exp(log_ratio))
        constant = evidence.n_targets * np.log(2 * np.pi)
        return -0.5 * (terms.fit + 2 * (terms.log_determinant + constant))

    assert evidence.n_targets == taken.sum()
    v = 1.7  # by piece, and all together
    total = -0.5 * (
        2 * evidence.n_targets * np.log(2 * np.pi * v)
        + 2 * evidence.terms(kernel, ratio).log_determinant
        + evidence.terms(kernel, ratio).fit / v
    )
    assert evidence.log_evidences(kernel, v, ratio * v).sum() == pytest.approx(total)
    at = kernel.theta[0], np.log(ratio)
    assert log_density(*at) == pytest.approx(expected)
    terms, step = evidence.terms(kernel, ratio), 1e-5
    slope = -0.5 * (terms.fit_slope + 2 * terms.log_determinant_slope)
    for k, move in enumerate(step * np.eye(2)):
        up, down = log_density(*(at + move)), log_density(*(at - move))
        assert slope[k] == pytest.approx((up - down) / (2 * step), rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("n_observed", [30, 5_000, 90_000])
def test_sizes_of_pieces_keep_to_their_bounds(n_observed: int) -> None:
    sizes = piece_sizes(100_000, n_observed)
    assert 600 <= sizes.n_nodes <= 1200
    assert 3 <= sizes.n_pieces <= 8
    assert 0 < sizes.forecast().seconds < 60
    assert piece_sizes(300, 200).n_nodes == 300
    assert piece_sizes(300, 200).n_pieces == 1


def test_the_innermost_observations_of_a_piece_count(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, nodes = Graph.from_networkx(grid(14)), np.random.default_rng(0).permutation(196)[:150]
    Y = np.random.default_rng(1).standard_normal((150, 1))
    monkeypatch.setattr("coupledgp.graphs.pieces.MOST_OBSERVATIONS", 20)
    piece = piece_of(graph, ball(graph, np.array([100]), 60))
    place = {int(node): k for k, node in enumerate(piece.nodes)}
    rows = sorted(
        (k for k in range(150) if int(nodes[k]) in place), key=lambda k: place[int(nodes[k])]
    )[:20]
    found = PiecesEvidence(graph, [piece], nodes, Y)
    places = np.array([place[int(nodes[k])] for k in rows])
    A = dense_kernel(piece.graph, HeatKernel(3.0))[np.ix_(places, places)] + 0.2 * np.eye(20)
    terms = found.terms(HeatKernel(3.0), 0.2)
    assert found.n_targets == 20
    assert terms.fit == pytest.approx(float(Y[rows, 0] @ np.linalg.solve(A, Y[rows, 0])))
    assert terms.log_determinant == pytest.approx(np.linalg.slogdet(A)[1])


def test_clusters_are_near_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = Graph.from_networkx(grid(60))
    rng = np.random.default_rng(1)
    nodes = rng.integers(0, 3600, 2000)  # some of them twice
    monkeypatch.setattr("coupledgp.graphs.pieces.MOST", 96)
    chosen = choose_clusters(graph, nodes, seed=0)
    assert chosen.size == np.unique(chosen).size == cluster_size(graph, nodes.size) == 96
    places = np.array(np.divmod(nodes[chosen], 60)).T
    steps = np.abs(places[:, None] - places[None]).sum(axis=2) + 1000 * np.eye(96, dtype=int)
    assert np.median(steps.min(axis=1)) <= 2  # at random it would be about 5
    np.testing.assert_array_equal(choose_clusters(graph, nodes[:50], 0), np.arange(50))


def test_evidence_of_clusters_is_that_of_their_observations() -> None:
    graph = Graph.from_networkx(nx.barabasi_albert_graph(400, 4, seed=1))
    nodes = np.random.default_rng(2).permutation(400)[:120]
    Y = np.random.default_rng(3).standard_normal((120, 1))
    rough = ClusterEvidence(graph, nodes, Y)
    dense = ObservedEvidence(graph, nodes, Y, SpectralMoments)
    for kernel in (HeatKernel(5.0), RegularizedLaplacianKernel(20.0)):
        for ratio in (1e-3, 0.3):
            one, other = rough.terms(kernel, ratio), dense.terms(kernel, ratio)
            for a, b in zip(one[:2], other[:2], strict=True):
                assert a == pytest.approx(b, abs=0.1)
            size = abs(other.fit) + abs(other.log_determinant)
            np.testing.assert_allclose(one.fit_slope, other.fit_slope, atol=1e-3 * size)
    traces = rough.traces(HeatKernel(5.0)) / dense.traces(HeatKernel(5.0))
    np.testing.assert_allclose(traces, 1.0, atol=0.2)  # a few probes of 400 nodes
    with pytest.raises(NumericalError, match="too wide"):
        rough.terms(RegularizedLaplacianKernel(1e7), 1e-3)
