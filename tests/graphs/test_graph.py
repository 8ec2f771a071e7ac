"""The graph, its readers and every decision about odd input."""

import copy
import warnings
from types import ModuleType

import networkx as nx
import numpy as np
import pytest
import torch
import trimesh
from scipy import sparse

import coupledgp as cgp
from coupledgp.errors import InvalidInputError
from coupledgp.graphs import Graph, lengths_to_weights


def test_parallel_edges_add_up_whatever_their_direction() -> None:
    graph = Graph.from_edges([0, 1, 0], [1, 0, 2], [1.0, 2.0, 5.0])
    expected = np.array([[0, 3, 5], [3, 0, 0], [5, 0, 0]])
    np.testing.assert_array_equal(graph.adjacency.toarray(), expected)
    assert graph.n_edges == 2


def test_parallel_sums_are_symmetric_to_the_bit() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.integers(0, 4, (2, 300))
    matrix = Graph.from_edges(a, b, rng.random(300) + 0.1).adjacency.toarray()
    np.testing.assert_array_equal(matrix, matrix.T)


def test_labels_of_any_type_are_kept_and_accepted() -> None:
    graph = Graph.from_edges(["a", ("x", 1), 7], [("x", 1), 7, "a"])
    assert graph.labels == ("a", ("x", 1), 7)
    np.testing.assert_array_equal(graph.index([7, "a"]), [2, 0])
    with pytest.raises(InvalidInputError, match="1 unknown: 'b'"):
        graph.index(["a", "b"])


def test_numpy_labels_equal_python_labels() -> None:
    graph = Graph.from_edges(np.array(["a", "b"]), np.array(["b", "c"]))
    np.testing.assert_array_equal(graph.index(["c", np.str_("a")]), [2, 0])


def test_isolated_nodes_are_kept_with_zero_rows() -> None:
    graph = Graph.from_edges([0], [1], n_nodes=4)
    assert graph.n_nodes == 4
    assert graph.components()[0] == 3
    np.testing.assert_array_equal(graph.normalized_adjacency.toarray()[2:], 0.0)
    named = Graph.from_edges(["a"], ["b"], labels=["b", "lonely", "a"])
    np.testing.assert_array_equal(named.degrees, [1, 0, 1])


def test_closed_gives_nodes_alone_a_loop_and_changes_nothing_else() -> None:
    graph = Graph.from_edges(["a", "c"], ["b", "c"], [2.0, 5.0], labels=["a", "b", "c", "d"])
    expected = graph.adjacency.toarray()
    expected[3, 3] = 1.0
    np.testing.assert_array_equal(graph.closed.adjacency.toarray(), expected)
    assert graph.closed.labels == graph.labels
    assert graph.closed.closed is graph.closed


def test_self_loop_counts_once_in_degree_and_matrix() -> None:
    graph = Graph.from_edges([0, 0], [0, 1], [2.0, 3.0])
    np.testing.assert_array_equal(graph.adjacency.toarray(), [[2, 3], [3, 0]])
    np.testing.assert_array_equal(graph.degrees, [5, 3])
    assert graph.n_edges == 2


@pytest.mark.parametrize("bad", [0.0, -1.0, np.nan, np.inf])
def test_bad_weight_names_the_edge(bad: float) -> None:
    with pytest.raises(InvalidInputError, match=r"weights.*edge 'b'-'c' has"):
        Graph.from_edges(["a", "b"], ["b", "c"], [1.0, bad])
    with pytest.raises(InvalidInputError, match="lengths"):
        Graph.from_edges([0], [1], lengths=[bad])


def test_bad_edge_lists_are_refused() -> None:
    with pytest.raises(InvalidInputError, match="targets: expected 2"):
        Graph.from_edges([0, 1], [1])
    with pytest.raises(InvalidInputError, match="n_nodes = 2, got 2 in edge 1"):
        Graph.from_edges([0, 2], [1, 1], n_nodes=2)
    with pytest.raises(InvalidInputError, match="got -1 in edge 0"):
        Graph.from_edges([-1], [1])
    with pytest.raises(InvalidInputError, match="weights: expected shape"):
        Graph.from_edges([0], [1], [1.0, 2.0])
    with pytest.raises(InvalidInputError, match="weights or lengths"):
        Graph.from_edges([0], [1], [1.0], lengths=[2.0])
    with pytest.raises(InvalidInputError, match="at least one node"):
        Graph.from_edges([], [])
    with pytest.raises(InvalidInputError, match="distinct labels, got 'a' twice"):
        Graph.from_edges(["a"], ["a"], labels=["a", "a"])
    with pytest.raises(InvalidInputError, match="hashable"):
        Graph.from_edges([[1]], [[2]])
    with pytest.raises(InvalidInputError, match="sequence of nodes"):
        Graph.from_edges("ab", "bc")


def test_road_lengths_become_weights() -> None:
    lengths = np.array([100.0, 300.0])
    np.testing.assert_allclose(lengths_to_weights(lengths), [2.0, 2 / 3])
    graph = Graph.from_edges([0, 1], [1, 2], lengths=lengths)
    np.testing.assert_allclose(graph.weights, [2.0, 2.0, 2 / 3, 2 / 3])


def test_arrays_cannot_be_written() -> None:
    graph = Graph.from_edges([0], [1])
    with pytest.raises(ValueError, match="read-only"):
        graph.weights[0] = 2.0
    with pytest.raises(ValueError, match="read-only"):
        graph.degrees[0] = 2.0
    assert copy.deepcopy(graph) is graph


def test_normalized_adjacency_has_spectrum_in_unit_interval() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 30, (2, 90))
    graph = Graph.from_edges(a, b, rng.random(90) + 0.01, n_nodes=31)
    matrix = graph.normalized_adjacency.toarray()
    np.testing.assert_array_equal(matrix, matrix.T)
    assert np.abs(np.linalg.eigvalsh(matrix)).max() <= 1 + 1e-12


def test_scipy_matrix_round_trip() -> None:
    matrix = sparse.csr_array(np.array([[0.0, 2, 0], [2, 1, 3], [0, 3, 0]]))
    graph = Graph.from_scipy(matrix, labels="abc")
    np.testing.assert_array_equal(graph.adjacency.toarray(), matrix.toarray())
    np.testing.assert_array_equal(graph.index(["c"]), [2])


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.ones((2, 3)), "square"),
        (np.array([[0, 1.0], [0, 0]]), r"symmetric.*edge 0-1"),
        (np.array([[0, -1.0], [-1, 0]]), r"edge 0-1 \(-1"),
        (np.array([[0, np.nan], [np.nan, 0]]), "edge 0-1"),
    ],
)
def test_bad_scipy_matrix_is_refused(matrix: np.ndarray, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        Graph.from_scipy(matrix)


def test_networkx_graph_keeps_nodes_and_weights() -> None:
    source = nx.MultiGraph()
    source.add_nodes_from(["lonely", "a"])
    source.add_edge("a", "b", weight=2.0)
    source.add_edge("b", "a")
    graph = Graph.from_networkx(source)
    assert graph.labels == ("lonely", "a", "b")
    np.testing.assert_array_equal(graph.degrees, [0, 3, 3])
    np.testing.assert_array_equal(Graph.from_networkx(source, weight=None).degrees, [0, 2, 2])


def road(weight: str | None = None) -> nx.Graph:
    """A road whose third piece is fifty times as long as the others."""
    graph = nx.path_graph(6)
    for (*_, edge), length in zip(graph.edges(data=True), [100, 100, 5000, 100, 100], strict=True):
        edge["length"] = length
        if weight:
            edge["weight"] = {"length": length, "near": 100 / length}[weight]
    return graph


def test_lengths_of_a_networkx_graph_couple_near_nodes_most() -> None:
    graph = Graph.from_networkx(road(), lengths="length")
    expected = Graph.from_edges(range(5), range(1, 6), lengths=[100, 100, 5000, 100, 100])
    np.testing.assert_allclose(graph.adjacency.toarray(), expected.adjacency.toarray())
    model = cgp.GraphGPRegressor(graph, random_state=0).fit([0, 1, 4, 5], [0.0, 0.1, 9.9, 10.0])
    assert model.predict([2])[0] < 3
    assert model.predict([3])[0] > 7


def test_lengths_that_are_not_used_are_named() -> None:
    with pytest.warns(UserWarning, match="all 5 edges weigh 1, .*'length'; lengths='length'"):
        Graph.from_networkx(road())
    assert not Graph.from_networkx(road(), weight=None).is_weighted
    assert Graph.from_networkx(road("near")).is_weighted


@pytest.mark.parametrize("weight", ["length", "weight"])
def test_weights_that_are_lengths_are_refused(weight: str) -> None:
    with pytest.raises(InvalidInputError, match=f"weight: .*got '{weight}', which grows with 'len"):
        Graph.from_networkx(road("length"), weight=weight)


def test_every_edge_has_a_length() -> None:
    graph = road()
    del graph.edges[2, 3]["length"]
    with pytest.raises(InvalidInputError, match=r"lengths: .*every edge, got none of edge 2-3"):
        Graph.from_networkx(graph, lengths="length")
    with pytest.raises(InvalidInputError, match=r"lengths: .*\['length'\], got 'metres'"):
        Graph.from_networkx(road(), lengths="metres")


def test_a_directed_networkx_graph_loses_its_directions_with_a_warning() -> None:
    one_way = nx.DiGraph([(0, 1), (1, 0), (1, 2)])
    with pytest.warns(UserWarning, match="got a directed one"):
        found = Graph.from_networkx(one_way)
    expected = Graph.from_networkx(nx.path_graph(3))
    np.testing.assert_array_equal(found.adjacency.toarray(), expected.adjacency.toarray())
    with pytest.raises(InvalidInputError, match="networkx graph, got int"):
        Graph.from_networkx(3)


def test_watertight_mesh_agrees_with_trimesh() -> None:
    mesh = trimesh.creation.icosphere(subdivisions=2)
    graph = Graph.from_trimesh(mesh)
    assert graph.n_nodes == len(mesh.faces)
    assert set(np.diff(graph.indptr)) == {3}
    pairs = sparse.triu(graph.adjacency).tocoo()
    ours = set(zip(pairs.row.tolist(), pairs.col.tolist(), strict=True))
    assert ours == {tuple(sorted(pair)) for pair in mesh.face_adjacency.tolist()}
    vertices = Graph.from_trimesh(mesh, nodes="vertices")
    assert vertices.n_nodes == len(mesh.vertices)
    assert vertices.n_edges == len(mesh.edges_unique)


def test_odd_meshes_keep_every_face() -> None:
    # A strip of two faces, a duplicate of the first, a degenerate face, and a face far away.
    vertices = np.array(
        [[0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0], [5, 5, 5], [6, 5, 5], [5, 6, 5]]
    )
    faces = np.array([[0, 1, 2], [1, 3, 2], [2, 0, 1], [0, 0, 1], [4, 5, 6]])
    mesh = trimesh.Trimesh(vertices, faces, process=False)
    matrix = Graph.from_trimesh(mesh).adjacency.toarray()
    expected = np.zeros((5, 5))
    for a, b in [(0, 1), (0, 2), (1, 2), (0, 3), (2, 3)]:
        expected[a, b] = expected[b, a] = 1.0
    np.testing.assert_array_equal(matrix, expected)
    assert Graph.from_trimesh(mesh).components()[0] == 2


def test_unmerged_vertices_are_joined_by_position() -> None:
    mesh = trimesh.creation.box()
    soup = trimesh.Trimesh(
        mesh.triangles.reshape(-1, 3), np.arange(36).reshape(12, 3), process=False
    )
    np.testing.assert_array_equal(
        Graph.from_trimesh(soup).adjacency.toarray(), Graph.from_trimesh(mesh).adjacency.toarray()
    )


def test_bad_mesh_is_refused() -> None:
    with pytest.raises(InvalidInputError, match=r"trimesh\.Trimesh"):
        Graph.from_trimesh("mesh.stl")
    with pytest.raises(InvalidInputError, match="'faces', 'vertices'"):
        Graph.from_trimesh(trimesh.creation.box(), nodes="edges")


def test_torch_geometric_like_data() -> None:
    class Data:
        edge_index = np.array([[0, 1, 1, 2], [1, 0, 2, 1]])
        edge_weight = np.array([2.0, 2.0, 3.0, 3.0])
        num_nodes = 4

    graph = Graph.from_torch_geometric(Data())
    np.testing.assert_array_equal(graph.degrees, [2, 5, 3, 0])
    with pytest.raises(InvalidInputError, match="edge_index"):
        Graph.from_torch_geometric(object())


@pytest.fixture(scope="module")
def geometric() -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it uses parts of torch that are deprecated
        return pytest.importorskip("torch_geometric")


def test_torch_geometric_data_is_the_networkx_graph(geometric: ModuleType) -> None:
    source = nx.karate_club_graph()
    expected = Graph.from_networkx(source).adjacency.toarray()
    data = geometric.utils.from_networkx(source)  # attributes of edges by name
    data.edge_weight = data.weight.double()
    weighted = Graph.from_torch_geometric(data)
    np.testing.assert_array_equal(weighted.adjacency.toarray(), expected)
    column = geometric.data.Data(
        edge_index=data.edge_index,
        edge_attr=data.weight.double()[:, None].requires_grad_(),
        num_nodes=36,
    )
    graph = Graph.from_torch_geometric(column)
    assert (graph.n_nodes, graph.n_edges) == (36, source.number_of_edges())
    np.testing.assert_array_equal(graph.adjacency.toarray()[:34, :34], expected)
    plain = geometric.data.Data(edge_index=data.edge_index, num_nodes=34)
    np.testing.assert_array_equal(
        Graph.from_torch_geometric(plain).adjacency.toarray(), (expected > 0).astype(float)
    )


def test_torch_geometric_data_with_loops_or_one_direction(geometric: ModuleType) -> None:
    utils, Data = geometric.utils, geometric.data.Data
    one_way = torch.tensor([[0, 1, 2], [1, 2, 2]])
    with pytest.raises(InvalidInputError, match="symmetric matrix"):
        Graph.from_torch_geometric(Data(edge_index=one_way, num_nodes=3))
    both = utils.to_undirected(one_way)
    graph = Graph.from_torch_geometric(Data(edge_index=both, num_nodes=3))
    np.testing.assert_array_equal(graph.degrees, [1, 2, 2])
    attributes = torch.ones(both.shape[1], 2)
    with pytest.raises(InvalidInputError, match=r"one weight an edge \(5\), got \(5, 2\)"):
        Graph.from_torch_geometric(Data(edge_index=both, edge_attr=attributes, num_nodes=3))
    bad = torch.tensor([1.0, 1.0, float("nan"), 1.0, 1.0])
    with pytest.raises(InvalidInputError, match="finite weights"):
        Graph.from_torch_geometric(Data(edge_index=both, edge_weight=bad, num_nodes=3))


def test_nearest_neighbours_of_a_line() -> None:
    graph = Graph.from_points(np.arange(5.0)[:, None], n_neighbors=1)
    assert graph.n_nodes == 5
    assert (np.diff(graph.indptr) >= 1).all()
    with pytest.raises(InvalidInputError, match="fewer than the 5 points"):
        Graph.from_points(np.arange(5.0)[:, None], n_neighbors=5)
    with pytest.raises(InvalidInputError, match="finite positions"):
        Graph.from_points([[np.nan, 1.0]])


def test_node_numbers_are_checked() -> None:
    graph = Graph.from_edges([0, 1], [1, 2])
    with pytest.raises(InvalidInputError, match=r"from 0 to 2, got \[3\]"):
        graph.index([0, 3])
    with pytest.raises(InvalidInputError, match="no labels"):
        graph.index(["a"])
    np.testing.assert_array_equal(graph.index(), [0, 1, 2])


def test_a_mask_is_refused_as_a_list_of_nodes() -> None:
    """`True == 1`: a mask passed for nodes 0 and 1, again and again."""
    mask = np.array([True, False, True])
    for graph in (Graph.from_edges([0, 1], [1, 2]), Graph.from_edges([0], [1], labels=[0, 1, 2])):
        for given in (mask, mask.tolist()):
            with pytest.raises(InvalidInputError, match=r"booleans; numpy\.flatnonzero"):
                graph.index(given)
    flags = Graph.from_edges([True], [False], labels=[True, False])
    np.testing.assert_array_equal(flags.index([False, True]), [1, 0])


def test_what_is_no_node_number_is_shown() -> None:
    with pytest.raises(InvalidInputError, match=r"ints from 0 to 2.*got 1\.5"):
        Graph.from_edges([0, 1], [1, 2]).index([0, 1.5])


def test_tensors_are_read_as_arrays_of_numbers() -> None:
    """Tensors hash by identity: as labels each end would be a node of its own."""
    graph = Graph.from_edges(torch.tensor([0, 1]), torch.tensor([1, 2]))
    assert (graph.n_nodes, graph.labels) == (3, None)
    np.testing.assert_array_equal(graph.index(torch.tensor([2, 0])), [2, 0])


def test_numbers_far_above_the_number_of_edges_are_labels() -> None:
    """Such as those of a map: a node for each number below would take all memory."""
    ends = [5_000_000_000, 5_000_000_007], [5_000_000_007, 17]
    with pytest.raises(InvalidInputError, match=r"up to 5000000007 in 2 edges.*`labels`"):
        Graph.from_edges(*ends)
    named = Graph.from_edges(*ends, labels=sorted(set(ends[0] + ends[1])))
    assert (named.n_nodes, named.n_edges) == (3, 2)
    assert Graph.from_edges([0], [2_000_000], n_nodes=2_000_001).n_nodes == 2_000_001


@pytest.mark.parametrize("n_nodes", [-1, 0, 2.5, True])
def test_number_of_nodes_is_a_positive_int(n_nodes) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidInputError, match="n_nodes: expected an int >= 1"):
        Graph.from_edges([0], [1], n_nodes=n_nodes)


@pytest.mark.parametrize(
    ("matrix", "message"),
    [
        (np.array([[0, 1j], [1j, 0]]), "matrix: expected real numbers, got complex128"),
        (np.array([[0, "x"], ["x", 0]], dtype=object), "matrix: expected a matrix of numbers"),
        ("abc", "matrix: expected a matrix of numbers"),
        # A weak edge in one direction beside a strong one: not to be taken for rounding.
        (np.array([[0, 0, 0], [1e-4, 0, 1e9], [0, 1e9, 0]]), "symmetric matrix.*edge 0-1"),
    ],
)
def test_matrices_that_would_lose_something_are_refused(matrix, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(InvalidInputError, match=message):
        Graph.from_scipy(matrix)


def test_rounding_between_the_triangles_is_allowed() -> None:
    matrix = np.array([[0, 0.1 + 0.2], [0.3, 0]])
    assert Graph.from_scipy(matrix).n_edges == 1


def test_weights_that_are_no_numbers_are_refused() -> None:
    for make in (
        lambda: Graph.from_edges([0], [1], weights=["x"]),
        lambda: Graph.from_networkx(nx.Graph([("a", "b", {"weight": "x"})])),
    ):
        with pytest.raises(InvalidInputError, match="weights: expected numbers, one an edge"):
            make()


def test_an_attribute_that_no_edge_has_is_a_mistake() -> None:
    """It gave an unweighted graph without a word."""
    source = nx.Graph([("a", "b", {"weight": 2.0})])
    with pytest.raises(InvalidInputError, match=r"weight: .*\['weight'\], got 'wieght'"):
        Graph.from_networkx(source, weight="wieght")
    assert not Graph.from_networkx(nx.path_graph(3)).is_weighted


@pytest.mark.parametrize("nodes", ["faces", "vertices"])
@pytest.mark.parametrize("number", [9, -1])
def test_faces_of_vertices_that_are_not_there(nodes: str, number: int) -> None:
    mesh = ModuleType("mesh")
    mesh.faces, mesh.vertices = np.array([[0, 1, number]]), np.eye(3)  # type: ignore[attr-defined]
    with pytest.raises(InvalidInputError, match=f"from 0 to 2 in its faces, got {number}"):
        Graph.from_trimesh(mesh, nodes=nodes)  # type: ignore[arg-type]


def test_points_say_which_row_is_bad() -> None:
    with pytest.raises(InvalidInputError, match="in row 1"):
        Graph.from_points([[0.0, 0.0], [np.nan, 1.0]], 1)
    with pytest.raises(InvalidInputError, match=r"shape \(n, d\), got shape \(5, 0\)"):
        Graph.from_points(np.zeros((5, 0)), 2)
