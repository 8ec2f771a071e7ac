"""The graph: immutable, weighted, undirected, in compressed sparse rows."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.sparse import csgraph

from coupledgp.errors import InvalidInputError
from coupledgp.graphs import readers
from coupledgp.graphs.readers import (
    LARGEST_WEIGHT,
    LEAST_WEIGHT,
    MOST_NODES,
    Csr,
    Labels,
    assemble,
    check_edge_values,
    check_labels,
    check_symmetric_csr,
    index_labels,
    integer_ends,
    lengths_to_weights,
    plain_label,
)
from coupledgp.ground.codec import check_range, check_shapes, stored
from coupledgp.ground.validation import (
    check_positive,
    check_positive_int,
    check_sizes,
    real_array,
    wrong,
)
from coupledgp.random import FloatArray, IntArray

# Node numbers above a million and above a hundred times the number of edges can only be labels.
SPARSE_NUMBERS, NODES_PER_EDGE = 1_000_000, 100
# Largest difference of weights that are the same, over the largest weight.
SAME_WEIGHTS = 1e-9


@stored
class StoredGraph(NamedTuple):
    """A graph in a file."""

    indptr: IntArray
    indices: NDArray[np.int32]
    weights: FloatArray
    labels: Labels | None
    node_scale: FloatArray | None
    time_unit: float

    def read_back(self) -> Graph:
        """The graph, whose arrays are a symmetric matrix in row form."""
        n = check_shapes(self, indptr=("n",), indices=("m",), weights=("m",))["n"] - 1
        check_range(self, 0, n - 1, "indices")
        check_range(self, LEAST_WEIGHT, LARGEST_WEIGHT, "weights")
        csr = Csr(self.indptr, self.indices, self.weights)
        check_symmetric_csr(*csr, "indices")
        return Graph(csr, self.labels, node_scale=self.node_scale, time_unit=self.time_unit)


class Graph:
    """A weighted undirected graph whose arrays cannot be written to.

    Nodes are numbered `0..n_nodes-1`; `labels` are their names outside of this package. The
    arguments called `nodes` of public functions take labels, or numbers if there are no labels.

    Parameters
    ----------
    csr
        Arrays of the symmetric adjacency matrix. Use a reader (`from_edges`, `from_networkx`,
        `from_scipy`, `from_trimesh`, `from_torch_geometric`, `from_points`) instead.
    labels
        One distinct hashable label for each node, or None for numbers.
    node_scale
        Positive numbers s (n_nodes,): kernels on this graph are `diag(s) g(W~) diag(s)`. None means
        ones. Graphs of operators have them, see `LaplaceOperator.as_graph`.
    time_unit
        Number of steps, at least one, in which diffusion crosses a part of the graph. Fits begin at
        multiples of this number, and their bounds are wider by it as a factor; one for graphs
        without lengths.

    Notes
    -----
    Isolated nodes are kept: their row of `W~` is zero, so that `L~ = 1` there, a walker halts
    there, and any kernel makes them independent of all others; the models take them with a
    self-loop (`closed`), so that `L~ = 0`. Components are independent of each other. A
    self-loop of weight w adds w to its node's degree, once.

    Examples
    --------
    >>> import coupledgp as cgp
    >>> graph = cgp.Graph.from_edges(["a", "b", "c"], ["b", "c", "d"])
    >>> graph.n_nodes
    4
    """

    def __init__(
        self,
        csr: Csr,
        labels: Iterable[Any] | None = None,
        *,
        node_scale: ArrayLike | None = None,
        time_unit: float = 1.0,
    ) -> None:
        for array in csr:
            array.flags.writeable = False
        self.indptr, self.indices, self.weights = csr
        self.n_nodes = int(self.indptr.size - 1)
        if self.n_nodes == 0:
            raise InvalidInputError("graph: expected at least one node, got none")
        self.labels: Labels | None = None if labels is None else check_labels(labels, self.n_nodes)
        self.node_scale = None if node_scale is None else check_node_scale(node_scale, self.n_nodes)
        self.time_unit = max(check_positive(time_unit, "time_unit"), 1.0)

    def as_stored(self) -> StoredGraph:
        """The arrays and labels of which it is made."""
        return StoredGraph(
            self.indptr, self.indices, self.weights, self.labels, self.node_scale, self.time_unit
        )

    @classmethod
    def from_edges(
        cls,
        sources: Any,
        targets: Any,
        weights: ArrayLike | None = None,
        n_nodes: int | None = None,
        *,
        lengths: ArrayLike | None = None,
        labels: Iterable[Any] | None = None,
    ) -> Graph:
        """Build a graph from an edge list.

        Edges have no direction: `(a, b)` and `(b, a)` are the same edge. Parallel edges add up.

        Parameters
        ----------
        sources, targets
            Ends of the edges, equally long. Non-negative ints are node numbers (unless `labels`
            are given); anything else hashable is a label, numbered in order of appearance.
        weights
            Positive finite weights (n_edges,); ones if left out.
        n_nodes
            Number of nodes, if some of the last ones have no edge. For node numbers only.
        lengths
            Lengths (n_edges,) of roads instead of weights: weights are `mean(length) / length`.
        labels
            Every node's label, in order, isolated nodes included. The ends are then labels.

        Raises
        ------
        InvalidInputError
            Lengths differ, a weight is not positive and finite (the edge is named), a node number
            is out of range, or a label is unknown; or node numbers are so far above the number of
            edges that they must be labels, such as those of a map, and `n_nodes` is not given.
        """
        sources, targets = list_like(sources, "sources"), list_like(targets, "targets")
        if len(sources) != len(targets):
            raise wrong("targets", f"{len(sources)} ends to match sources", len(targets))
        values = edge_weights(weights, lengths, sources, targets)
        start, end, size, found = number_ends(sources, targets, n_nodes, labels)
        return cls(assemble(start, end, values, size), found)

    @classmethod
    def from_scipy(cls, matrix: Any, labels: Iterable[Any] | None = None) -> Graph:
        """Build a graph from a symmetric adjacency matrix, sparse or dense.

        Parameters
        ----------
        matrix
            Symmetric matrix (n, n) of weights; stored zeros are no edges.
        labels
            One label for each node.

        Raises
        ------
        InvalidInputError
            The matrix is not square or not symmetric, or a weight is negative or not finite.
        """
        start, end, values, size = readers.scipy_edges(matrix)
        return cls(assemble(start, end, values, size), labels)

    @classmethod
    def from_networkx(
        cls, graph: Any, weight: str | None = "weight", *, lengths: str | None = None
    ) -> Graph:
        """Build a graph from a networkx graph; parallel edges of a multigraph add up.

        Parameters
        ----------
        graph
            `networkx.Graph` or `networkx.MultiGraph`. Its nodes become the labels. Of a directed
            one the directions are dropped.
        weight
            Edge attribute with the weight, one where it is missing; None for an unweighted graph.
            Only the default may be missing from every edge.
        lengths
            Edge attribute with a length, distance or travel time, which every edge has. Weights
            are then `mean(length) / length`, as in `from_edges`, and `weight` is not used.

        Raises
        ------
        InvalidInputError
            No edge has the attribute that was asked for, an edge has no length, a weight or a
            length is not a positive finite number, or weights grow with an attribute `length`,
            `distance` or `travel_time`: the longest edges would couple their ends most.

        Warns
        -----
        UserWarning
            The graph is directed, or its edges have an attribute of lengths and no weights.

        Examples
        --------
        >>> import coupledgp as cgp
        >>> import networkx as nx
        >>> roads = nx.Graph([("a", "b", {"length": 100.0}), ("b", "c", {"length": 300.0})])
        >>> cgp.Graph.from_networkx(roads, lengths="length").adjacency.toarray().round(2)
        array([[0.  , 2.  , 0.  ],
               [2.  , 0.  , 0.67],
               [0.  , 0.67, 0.  ]])
        """
        sources, targets, values, nodes = readers.networkx_edges(graph, weight, lengths)
        given: dict[str, Any] = {"weights" if lengths is None else "lengths": values}
        return cls.from_edges(sources, targets, labels=nodes, **given)

    @classmethod
    def from_trimesh(
        cls,
        mesh: Any,
        nodes: Literal["faces", "vertices"] = "faces",
        weights: Literal["unit", "inverse-distance"] = "unit",
    ) -> Graph:
        """Build the graph of a mesh: faces linked over shared edges, or vertices over edges.

        Works for open meshes, several bodies, and edges shared by more than two faces, which are
        all linked. Vertices at the same position are one vertex when faces are the nodes. Two faces
        are linked once, however many edges they share, so duplicate faces are neighbours; a
        degenerate face keeps its node.

        Parameters
        ----------
        mesh
            `trimesh.Trimesh`, or anything with arrays `faces` (f, 3) and `vertices` (v, 3).
        nodes
            Nodes of the graph: `"faces"` or `"vertices"`.
        weights
            `"unit"`, or `"inverse-distance"`: the mean distance of linked nodes (centroids of
            faces) over their own. `choose_graph` lets the evidence decide between graphs.
        """
        start, end, values, size = readers.mesh_edges(mesh, nodes, weights)
        return cls(assemble(start, end, values, size))

    @classmethod
    def from_torch_geometric(cls, data: Any) -> Graph:
        """Build a graph from a `torch_geometric.data.Data` (both directions stored, as usual).

        Edge weights come from `edge_weight`, or from a one-column `edge_attr`.
        """
        return cls.from_scipy(readers.torch_geometric_matrix(data))

    @classmethod
    def from_points(cls, points: ArrayLike, n_neighbors: int = 8) -> Graph:
        """Link points of which either is among the k nearest neighbours of the other.

        Parameters
        ----------
        points
            Positions (n, d), finite; duplicates are neighbours of each other.
        n_neighbors
            k, below the number of points.
        """
        start, end, size = readers.neighbour_edges(points, n_neighbors)
        return cls(assemble(start, end, np.ones(start.size), size))

    @property
    def n_edges(self) -> int:
        """Number of edges, each counted once, self-loops included."""
        loops = int((self.adjacency.diagonal() != 0).sum())
        return (self.indices.size + loops) // 2

    @cached_property
    def is_weighted(self) -> bool:
        """Whether any two edges differ in weight."""
        return bool(self.weights.size and np.ptp(self.weights) > 0)

    @cached_property
    def degrees(self) -> FloatArray:
        """Weighted degrees `D_i = sum_j W_ij`, shape (n_nodes,)."""
        degrees: FloatArray = np.asarray(self.adjacency.sum(axis=1)).ravel()
        degrees.flags.writeable = False
        return degrees

    @cached_property
    def adjacency(self) -> sparse.csr_array:
        """Weighted adjacency matrix `W`, shape (n_nodes, n_nodes)."""
        return self._matrix(self.weights)

    @cached_property
    def normalized_adjacency(self) -> sparse.csr_array:
        """`W~ = D^-1/2 W D^-1/2`, spectrum in [-1, 1]; isolated nodes have zero rows (MATH 8)."""
        scale = np.zeros(self.n_nodes)
        np.divide(1.0, np.sqrt(self.degrees), out=scale, where=self.degrees > 0)
        rows = np.repeat(np.arange(self.n_nodes), np.diff(self.indptr))
        return self._matrix(self.weights * (scale[rows] * scale[self.indices]))

    @cached_property
    def closed(self) -> Graph:
        """The graph with a self-loop on each isolated node; itself if there is none.

        There `W~ = 1` and `L~ = 0`, as in any other component: the convention of Chung (1997)
        and of the models. Without it a kernel's value at an isolated node is that at `L~ = 1`,
        next to nothing for a wide kernel, and a model would be sure of a value that no observation
        bears on.
        """
        alone = np.flatnonzero(self.degrees == 0)
        if not alone.size:
            return self
        edges = self.adjacency.tocoo()
        upper = edges.row <= edges.col
        rows = np.concatenate([edges.row[upper].astype(np.int64), alone])
        columns = np.concatenate([edges.col[upper].astype(np.int64), alone])
        weights = np.concatenate([edges.data[upper], np.ones(alone.size)])
        return Graph(
            assemble(rows, columns, weights, self.n_nodes), self.labels,
            node_scale=self.node_scale, time_unit=self.time_unit,
        )  # fmt: skip

    @cached_property
    def combinatorial(self) -> Graph:
        """The graph whose kernels are functions of the combinatorial Laplacian `L = D - W`.

        Its weights are `c I - L` with the largest degree c, so that `W~ = I - L / c` and
        `L~ = L / c`: self-loops make all degrees equal. A heat kernel `exp(-t L)` is
        `HeatKernel(c t)`. On graphs of unequal degrees it spreads from nodes of high degree
        faster than the normalised one, and has equal variances where degrees differ.
        """
        largest = float(self.degrees.max())
        if largest == 0.0:  # no edges: L is zero
            largest = 1.0
        eye = sparse.diags_array(largest - self.degrees, format="csr")
        matrix = sparse.csr_array(self.adjacency + eye)
        matrix.eliminate_zeros()
        matrix.sort_indices()
        csr = Csr(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data)
        mean = float(self.degrees.mean())
        return Graph(csr, self.labels, time_unit=largest / mean if mean else 1.0)

    def index(self, nodes: Any = None) -> IntArray:
        """Return the numbers of nodes given by label, shape (n,); of all nodes for None.

        Raises
        ------
        InvalidInputError
            A label is unknown or a number out of range; the message names the first ones.
        """
        if nodes is None:
            return np.arange(self.n_nodes)
        wanted = list_like(nodes, "nodes")
        self._refuse_mask(wanted)
        if self.labels is not None:
            return self._index_labels(wanted)
        if not all_integers(wanted):
            odd = next(v for v in wanted if not all_integers([v]))
            raise wrong(
                "nodes", f"ints from 0 to {self.n_nodes - 1}, as this graph has no labels", odd
            )
        numbers = np.asarray(wanted, dtype=np.int64).reshape(-1)
        bad = numbers[(numbers < 0) | (numbers >= self.n_nodes)]
        if bad.size:
            raise wrong("nodes", f"numbers from 0 to {self.n_nodes - 1}", bad[:3].tolist())
        return numbers

    def _refuse_mask(self, wanted: list[Any] | IntArray) -> None:
        """Refuse a mask of booleans: it would pass for nodes 0 and 1, since `True == 1`."""
        if len(wanted) and all(isinstance(v, (bool, np.bool_)) for v in wanted):
            if any(isinstance(label, bool) for label in self.labels or ()):
                return
            raise InvalidInputError(
                "nodes: expected node labels, got booleans; numpy.flatnonzero(mask) gives the "
                "numbers that a mask selects"
            )

    def label(self, number: int) -> Any:
        """The label of a node number; the number itself if there are no labels."""
        return number if self.labels is None else self.labels[number]

    def label_all(self, numbers: IntArray) -> list[Any] | IntArray:
        """The labels of node numbers (n,)."""
        return numbers if self.labels is None else [self.labels[k] for k in numbers.tolist()]

    def components(self) -> tuple[int, IntArray]:
        """Number of connected components, and each node's component (n_nodes,)."""
        count, member = csgraph.connected_components(self.adjacency, directed=False)
        return int(count), member.astype(np.int64)

    def __repr__(self) -> str:
        kind = "weighted" if self.is_weighted else "unweighted"
        return f"Graph({self.n_nodes} nodes, {self.n_edges} edges, {kind})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Graph:
        return self  # nothing in it can change

    @cached_property
    def _numbers(self) -> dict[Hashable, int]:
        return {label: number for number, label in enumerate(self.labels or ())}

    def _index_labels(self, wanted: list[Any] | IntArray) -> IntArray:
        try:
            found = [self._numbers.get(plain_label(label), -1) for label in wanted]
        except TypeError as error:
            raise InvalidInputError(f"nodes: expected a 1-D sequence of labels: {error}") from None
        missing = [
            plain_label(label) for label, number in zip(wanted, found, strict=True) if number < 0
        ]
        if missing:
            raise InvalidInputError(
                f"nodes: expected labels of this graph (such as {self.label(0)!r}), "
                f"got {len(missing)} unknown: {', '.join(map(repr, missing[:3]))}"
            )
        return np.array(found, dtype=np.int64)

    def _matrix(self, values: FloatArray) -> sparse.csr_array:
        matrix = sparse.csr_array(
            (values, self.indices, self.indptr), shape=(self.n_nodes, self.n_nodes)
        )
        matrix.has_sorted_indices = True
        return matrix


def check_node_scale(values: ArrayLike, n_nodes: int) -> FloatArray:
    """Return positive finite numbers (n_nodes,) that cannot be written to."""
    scale = np.array(real_array(values, "node_scale"))
    if scale.shape != (n_nodes,) or not (np.isfinite(scale).all() and (scale > 0).all()):
        raise InvalidInputError(
            f"node_scale: expected {n_nodes} positive finite numbers, one a node, got shape "
            f"{scale.shape}"
        )
    check_sizes(scale, "node_scale")
    scale.flags.writeable = False
    return scale


def list_like(values: Any, name: str) -> list[Any] | IntArray:
    """Return a sequence of nodes: integer arrays unchanged, any other sequence as a list.

    A text or a single number is refused. Tensors are read as arrays.
    """
    if hasattr(values, "detach"):
        values = readers.plain_array(values)
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise wrong(name, "a sequence of nodes", values)
    if isinstance(values, np.ndarray) and values.ndim != 1:
        raise InvalidInputError(f"{name}: expected a 1-D sequence, got shape {values.shape}")
    if isinstance(values, np.ndarray) and values.dtype.kind in "iu":
        return values
    return list(values)


def all_integers(values: list[Any] | IntArray) -> bool:
    """Whether every entry is an int; a bool does not count as one."""
    return isinstance(values, np.ndarray) or all(
        isinstance(v, (int, np.integer)) and not isinstance(v, bool) for v in values
    )


def number_ends(
    sources: list[Any] | IntArray,
    targets: list[Any] | IntArray,
    n_nodes: int | None,
    labels: Iterable[Any] | None,
) -> tuple[IntArray, IntArray, int, Labels | None]:
    """Node numbers of both ends (n_edges,), the number of nodes, and their labels or None.

    Non-negative ints are numbers unless `labels` name the nodes; anything else hashable is a label,
    numbered in order of appearance.
    """
    if n_nodes is not None:
        n_nodes = check_positive_int(n_nodes, "n_nodes")
        if n_nodes > MOST_NODES:
            raise wrong("n_nodes", f"at most {MOST_NODES}", n_nodes)
    found: Labels | None = None
    if labels is not None:
        found = tuple(plain_label(label) for label in labels)
        empty = Graph(assemble(*no_edges(), len(found)), found)
        start, end = empty.index(sources), empty.index(targets)
    elif all_integers(sources) and all_integers(targets):
        start = integer_ends(sources, "sources", n_nodes)
        end = integer_ends(targets, "targets", n_nodes)
    else:
        start, end, found = index_labels(sources, targets)
    if n_nodes is not None and found is not None and n_nodes != len(found):
        raise InvalidInputError(
            f"n_nodes: expected {len(found)}, the number of labels, got {n_nodes}; "
            "name isolated nodes in `labels`"
        )
    largest = int(max(start.max(initial=-1), end.max(initial=-1))) + 1
    if found is None and n_nodes is None:
        refuse_sparse_numbers(largest, start.size)
    return start, end, len(found) if found is not None else (n_nodes or largest), found


def refuse_sparse_numbers(n_nodes: int, n_edges: int) -> None:
    """Refuse node numbers that can only be labels: a node for every lower number is not meant."""
    if n_nodes > max(SPARSE_NUMBERS, NODES_PER_EDGE * n_edges):
        raise InvalidInputError(
            f"sources, targets: expected node numbers that count the nodes, got numbers up to "
            f"{n_nodes - 1} in {n_edges} edges; if they are labels give the distinct ones as "
            "`labels`, else `n_nodes`"
        )


def edge_weights(
    weights: ArrayLike | None,
    lengths: ArrayLike | None,
    sources: list[Any] | IntArray,
    targets: list[Any] | IntArray,
) -> FloatArray:
    """Return checked weights (n_edges,), from weights, lengths or neither."""
    if weights is not None and lengths is not None:
        raise InvalidInputError("lengths: expected weights or lengths, got both")
    given, name = (weights, "weights") if lengths is None else (lengths, "lengths")
    if given is None:
        return np.ones(len(sources))
    try:
        values = np.array(real_array(given, name))
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidInputError(f"{name}: expected numbers, one an edge: {error}") from None
    if values.shape != (len(sources),):
        raise wrong(name, f"shape ({len(sources)},), one an edge", values.shape)
    check_edge_values(values, name, lambda edge: f"edge {sources[edge]!r}-{targets[edge]!r}")
    return values if lengths is None else lengths_to_weights(values)


def no_edges() -> tuple[IntArray, IntArray, FloatArray]:
    """An empty edge list."""
    return np.empty(0, np.int64), np.empty(0, np.int64), np.empty(0)


def as_graph(graph: Any, name: str = "graph") -> Graph:
    """A graph, or that of an undirected networkx graph; the error says how to make one."""
    if hasattr(graph, "nodes") and hasattr(graph, "edges") and hasattr(graph, "is_directed"):
        return Graph.from_networkx(graph)
    return check_graph(graph, name)


def check_graph(graph: Any, name: str = "graph") -> Graph:
    """Return `graph` if it is a `Graph`; the error says how to make one."""
    if isinstance(graph, Graph):
        return graph
    raise InvalidInputError(
        f"{name}: expected a coupledgp.Graph (see Graph.from_edges, from_networkx, from_scipy, "
        f"from_trimesh), got {type(graph).__name__}"
    )


def check_nodes(graph: Graph, nodes: Any) -> IntArray:
    """Return node numbers (n,) of a non-empty selection of labels, all nodes for None."""
    numbers = graph.index(nodes)
    check_positive_int(numbers.size, "nodes (their number)")
    return numbers
