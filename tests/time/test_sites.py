"""Covariances between sites against dense kernels, on graphs and operators of every shape."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.errors import InvalidInputError, MemoryLimitError
from coupledgp.graphs import Graph
from coupledgp.kernels import GraphMaternKernel, HeatKernel, dense_kernel
from coupledgp.kernels.fields import FieldKernel, PositionKernel, WhittleMatern
from coupledgp.time import sites as module
from coupledgp.time.sites import FieldSites, GraphSites, sites_of
from tests.graph_cases import plain_graph, weighted_graph

KERNELS = [
    "heat",
    "regularized-laplacian",
    "matern",
    "random-walk",
    "inverse-cosine",
    "learned",
    GraphMaternKernel(lengthscale=30.0, nu=1.5),
    HeatKernel(40.0),
]


def magnitudes_graph() -> Graph:
    """A grid whose weights range over sixteen magnitudes."""
    grid = nx.convert_node_labels_to_integers(nx.grid_2d_graph(6, 7))
    rng = np.random.default_rng(3)
    for _, _, data in grid.edges(data=True):
        data["weight"] = 10.0 ** rng.uniform(-8, 8)
    return Graph.from_networkx(grid)


def scaled_graph() -> Graph:
    """A grid whose nodes have scales."""
    plain = Graph.from_networkx(nx.convert_node_labels_to_integers(nx.grid_2d_graph(8, 5)))
    scale = np.random.default_rng(4).uniform(0.3, 3.0, plain.n_nodes)
    csr = (plain.indptr.copy(), plain.indices.copy(), plain.weights.copy())
    return Graph(cgp.graphs.readers.Csr(*csr), node_scale=scale)


GRAPHS = {
    "disconnected": plain_graph(),
    "weighted": weighted_graph(),
    "one node": Graph.from_edges([], [], n_nodes=1),
    "no edges": Graph.from_edges([], [], n_nodes=4),
    "magnitudes": magnitudes_graph(),
    "scaled": scaled_graph(),
    "path": Graph.from_networkx(nx.path_graph(60)),
}


def dense(graph: Graph, kernel) -> np.ndarray:
    return dense_kernel(graph.closed, kernel)


@pytest.fixture(params=["spectral", "large"])
def way(request, monkeypatch):
    """Both ways; the second takes every graph for a large one."""
    if request.param == "large":
        monkeypatch.setattr(module, "SPECTRAL_LIMIT", 0)
    return request.param


@pytest.mark.parametrize("kernel", KERNELS, ids=str)
@pytest.mark.parametrize("name", GRAPHS)
def test_graph_sites_equal_the_dense_kernel(name, kernel, way):
    graph = GRAPHS[name]
    sites = sites_of(graph, kernel)
    K = dense(graph, sites.kernel)
    n, rng = graph.n_nodes, np.random.default_rng(0)
    chosen, others = rng.permutation(n)[: max(n // 2, 1)], rng.integers(0, n, 5)
    close = {"rtol": 0, "atol": 2e-8 * np.diagonal(K).max()}
    np.testing.assert_allclose(sites.gram(chosen), K[np.ix_(chosen, chosen)], **close)
    assert np.array_equal(sites.gram(chosen), sites.gram(chosen).T)
    np.testing.assert_allclose(sites.gram(others), K[np.ix_(others, others)], **close)
    np.testing.assert_allclose(sites.cross(others, chosen), K[np.ix_(others, chosen)], **close)
    np.testing.assert_allclose(sites.diagonal(np.arange(n)), np.diagonal(K), **close)


@pytest.mark.parametrize("keeps", [True, False])
def test_many_parameters_come_from_one_pass_that_is_continued(monkeypatch, keeps):
    monkeypatch.setattr(module, "SPECTRAL_LIMIT", 0)
    monkeypatch.setattr(module, "KEPT_BYTES", 2.0**31 if keeps else 0.0)
    # Blocks of three columns.
    monkeypatch.setattr(
        module, "column_blocks", lambda n, k: [slice(a, min(a + 3, k)) for a in range(0, k, 3)]
    )
    products = []
    advance = module.ChebyshevColumns.advance
    monkeypatch.setattr(
        module.ChebyshevColumns, "advance", lambda self: products.append(1) or advance(self)
    )
    graph, chosen = GRAPHS["path"], np.array([5, 1, 40, 41, 17, 59, 3])
    sites = sites_of(graph, "heat")
    thetas = [np.array([t]) for t in (4.0, 2.0, 0.5, -1.0)]
    for theta in thetas:
        one = sites.with_theta(theta)
        K = dense(graph, one.kernel)
        np.testing.assert_allclose(one.gram(chosen), K[np.ix_(chosen, chosen)], atol=2e-9)
        assert np.array_equal(one.gram(chosen), one.gram(chosen).T)
    before = len(products)
    sites.with_theta(thetas[1]).gram(chosen)
    assert len(products) == before  # nothing is computed twice


def test_moments_that_do_not_fit_are_replaced_by_columns(monkeypatch):
    monkeypatch.setattr(module, "SPECTRAL_LIMIT", 0)
    monkeypatch.setattr(module, "MOMENT_SHARE", 0.0)
    graph, chosen = GRAPHS["path"], np.arange(0, 60, 7)
    sites = sites_of(graph, "matern")
    K = dense_kernel(graph, sites.kernel)
    np.testing.assert_allclose(sites.gram(chosen), K[np.ix_(chosen, chosen)], rtol=0, atol=2e-9)


def test_a_kernel_too_wide_for_a_series_is_factorised(monkeypatch):
    monkeypatch.setattr(module, "SPECTRAL_LIMIT", 0)
    graph = Graph.from_networkx(nx.path_graph(80))
    sites = sites_of(graph, cgp.kernels.RegularizedLaplacianKernel(scale=1e9, exponent=2.0))
    K = dense(graph, sites.kernel)
    chosen = np.array([0, 40, 79])
    np.testing.assert_allclose(sites.gram(chosen), K[np.ix_(chosen, chosen)], rtol=1e-6)


@pytest.mark.parametrize("kernel", KERNELS[:6], ids=str)
def test_parameters_and_bounds_are_those_of_the_kernel(kernel):
    sites = sites_of(GRAPHS["weighted"], kernel)
    assert len(sites.bounds()) == sites.theta.size
    assert all(low < high for low, high in sites.bounds())
    again = sites.with_theta(sites.theta)
    np.testing.assert_allclose(again.gram(np.arange(9)), sites.gram(np.arange(9)), rtol=1e-12)
    assert all(start.shape == sites.theta.shape for start in sites.starts())


def square_mesh() -> cgp.LaplaceOperator:
    """A bent square of 50 triangles and, apart from it, a triangle with two equal corners more."""
    axis = np.linspace(0.0, 1e4, 6)
    x, y = (a.ravel() for a in np.meshgrid(axis, axis))
    faces = []
    for i in range(5):
        for j in range(5):
            a = 6 * i + j
            faces += [[a, a + 1, a + 6], [a + 1, a + 7, a + 6]]
    vertices = np.column_stack([x, y, 1e-3 * x * y / 1e4])
    far = vertices[[0, 1, 6]] + [0, 0, 1e6]

    class Mesh:
        pass

    mesh = Mesh()
    mesh.vertices = np.vstack([vertices, far])
    mesh.faces = np.array([*faces, [36, 37, 38], [36, 36, 38]])
    return cgp.LaplaceOperator.from_trimesh(mesh)


def roads() -> cgp.LaplaceOperator:
    """Roads in metres with a roundabout, a parallel edge and an island."""
    sources, targets = [0, 1, 2, 2, 3, 5, 1], [1, 2, 3, 0, 3, 6, 2]
    lengths = np.array([120.0, 1e-2, 3400.0, 55.0, 80.0, 900.0, 700.0])
    return cgp.LaplaceOperator.from_edges(sources, targets, lengths, n_nodes=7, max_edge=200.0)


def dense_field(operator: cgp.LaplaceOperator, kernel: WhittleMatern) -> np.ndarray:
    """`K = P (M P)^(alpha - 1)` by dense inverses, of mean variance one by mass."""
    kappa, mass = kernel.kappa(operator.dimension), operator.mass
    P = np.linalg.inv(kappa**2 * np.diag(mass) + operator.stiffness.toarray())
    K = P.copy()
    for _ in range(kernel.alpha - 1):
        K = P @ (mass[:, None] * K)
    return K / (mass @ np.diagonal(K) / mass.sum())


@pytest.mark.parametrize(
    ("operator", "alpha", "range_"),
    [(square_mesh(), 2, 4e3), (square_mesh(), 4, 9e3), (roads(), 2, 700.0)],
)
def test_field_sites_equal_dense_inverses(operator, alpha, range_):
    sites = sites_of(operator, WhittleMatern(range_, alpha))
    K = dense_field(operator, WhittleMatern(range_, alpha))
    n, rng = operator.n_vertices, np.random.default_rng(1)
    chosen, others = rng.permutation(n)[: n // 3], rng.integers(0, n, 6)
    close = {"rtol": 0, "atol": 1e-8 * K.max()}
    np.testing.assert_allclose(sites.gram(chosen), K[np.ix_(chosen, chosen)], **close)
    np.testing.assert_allclose(sites.cross(others, chosen), K[np.ix_(others, chosen)], **close)
    np.testing.assert_allclose(sites.cross(chosen, others), K[np.ix_(chosen, others)], **close)
    np.testing.assert_allclose(sites.diagonal(np.arange(n)), np.diagonal(K), **close)


def test_sums_of_surface_and_position_have_three_parameters():
    operator = square_mesh()
    sites = sites_of(operator, FieldKernel(WhittleMatern(4e3, 2), PositionKernel(None, 2e3), 0.3))
    assert isinstance(sites, FieldSites)
    assert sites.theta.size == len(sites.bounds()) == 3
    moved = sites.with_theta(sites.theta + np.array([0.1, -0.2, 0.5]))
    np.testing.assert_allclose(moved.theta - sites.theta, [0.1, -0.2, 0.5], atol=1e-12)
    assert moved.kernel.position.kernel == sites.kernel.position.kernel


def test_lengths_follow_the_unit():
    near = cgp.LaplaceOperator.from_edges([0, 1, 2], [1, 2, 3], [1.0, 2.0, 0.5])
    far = cgp.LaplaceOperator.from_edges([0, 1, 2], [1, 2, 3], [1e3, 2e3, 500.0])
    for kernel in ("matern", "heat"):
        a, b = sites_of(near, kernel), sites_of(far, kernel)
        every = np.arange(4)
        np.testing.assert_allclose(a.gram(every), b.gram(every), rtol=1e-9)
    a, b = sites_of(near, "matern"), sites_of(far, "matern")
    assert b.theta - a.theta == pytest.approx(np.log(1e3))
    np.testing.assert_allclose(np.subtract(b.bounds(), a.bounds()), np.log(1e3))


def test_every_domain_is_taken_and_others_are_named():
    assert isinstance(sites_of(nx.karate_club_graph(), "heat"), GraphSites)
    assert isinstance(sites_of(roads(), "regularized-laplacian"), GraphSites)
    assert isinstance(sites_of(roads(), "matern"), FieldSites)
    with pytest.raises(InvalidInputError, match=r"or a pair .vertices, faces., got ndarray"):
        sites_of(np.eye(3), "heat")
    with pytest.raises(InvalidInputError, match="kernel: expected a graph kernel on a graph"):
        sites_of(GRAPHS["path"], WhittleMatern(3.0))


def test_too_many_sites_are_refused_before_work(monkeypatch):
    monkeypatch.setattr("coupledgp.ground.memory.UNASKED", 0)
    monkeypatch.setattr("coupledgp.ground.memory.available_bytes", lambda: 1e4)
    with pytest.raises(MemoryLimitError, match="60 nodes"):
        sites_of(GRAPHS["path"], "heat").gram(np.arange(60))
    with pytest.raises(MemoryLimitError, match="columns of covariances"):
        sites_of(roads(), "matern").gram(np.arange(19))


def test_a_named_kernel_starts_alike_however_finely_a_network_is_cut():
    def neighbours(max_edge):
        ends = range(6), range(1, 7)
        operator = cgp.LaplaceOperator.from_edges(*ends, np.ones(6), max_edge=max_edge)
        gram = sites_of(operator, "heat").gram(operator.given_vertices[2:4])
        return gram[0, 1] / np.sqrt(gram[0, 0] * gram[1, 1])

    # By steps of walks it would be smaller by four magnitudes.
    assert neighbours(1 / 16) == pytest.approx(neighbours(1 / 8), rel=0.5)
