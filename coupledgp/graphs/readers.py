"""Edges out of other libraries' graphs, meshes and points. None of those libraries is needed.

From an edge list to the arrays of a compressed sparse row matrix, with every check of edges.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse
from scipy.spatial import cKDTree

from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.ground.forms import mesh_arrays
from coupledgp.ground.validation import (
    LARGEST,
    SMALLEST,
    check_choice,
    check_magnitude,
    check_positive_int,
    real_array,
    wrong,
)
from coupledgp.ground.visible import warn
from coupledgp.random import FloatArray, IntArray

# Relative difference of an entry and the one across the diagonal that passes for rounding.
SYMMETRY = 1e-12
# Attributes of edges that are lengths, and the rank correlation with them from which weights are
# lengths, too.
LENGTHS = ("length", "distance", "travel_time")
LENGTH_LIKE = 0.5
# Least distance of linked nodes of a mesh, relative to the mean one, in weights by distance.
LEAST_DISTANCE = 1e-3


def scipy_edges(matrix: Any) -> tuple[IntArray, IntArray, FloatArray, int]:
    """Edges of a symmetric adjacency matrix (n, n), from its upper triangle.

    Returns
    -------
    (IntArray, IntArray, FloatArray, int)
        Sources, targets and weights (n_edges,), and n.

    Raises
    ------
    InvalidInputError
        The matrix is not square, not symmetric, or has a weight that is negative, NaN or
        infinite; the message names the edge.
    """
    try:
        coo = sparse.coo_array(matrix)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"matrix: expected a matrix of numbers: {error}") from None
    if coo.dtype.kind not in "biuf":
        raise InvalidInputError(f"matrix: expected real numbers, got {coo.dtype}")
    if coo.ndim != 2 or coo.shape[0] != coo.shape[1]:
        raise InvalidInputError(f"matrix: expected a square matrix, got shape {coo.shape}")
    if coo.shape[0] > MOST_NODES:
        raise wrong("matrix", f"at most {MOST_NODES} rows", coo.shape[0])
    csr = coo.astype(np.float64).tocsr()
    csr.sum_duplicates()
    csr.eliminate_zeros()
    coo = csr.tocoo()
    refuse_matrix(coo, ~(np.isfinite(coo.data) & (coo.data > 0)), "finite weights >= 0")
    far = (coo.data < LEAST_WEIGHT) | (coo.data > LARGEST_WEIGHT)
    refuse_matrix(coo, far, f"weights from {LEAST_WEIGHT:g} to {LARGEST_WEIGHT:g}")
    # Each entry is compared with the one across the diagonal, not with the largest: a weak edge in
    # one direction only is no rounding error.
    gap = abs(csr - csr.T).tocsr()
    gap = (gap - SYMMETRY * (csr + csr.T)).tocoo()
    refuse_matrix(gap, gap.data > 0, "a symmetric matrix (A + A.T makes one of a directed graph's)")
    upper = coo.row <= coo.col
    rows, columns = coo.row[upper].astype(np.int64), coo.col[upper].astype(np.int64)
    return rows, columns, coo.data[upper], coo.shape[0]


def refuse_matrix(coo: sparse.coo_array, bad: Any, expected: str) -> None:
    """Raise naming the first entry that is `bad`, if there is one."""
    found = np.flatnonzero(bad)
    if found.size:
        row, column = coo.row[found[0]], coo.col[found[0]]
        raise InvalidInputError(
            f"matrix: expected {expected}, got a bad entry at edge {row}-{column} "
            f"({coo.data[found[0]]:g}; {found.size} such entries)"
        )


def networkx_edges(
    graph: Any, weight: str | None, lengths: str | None = None
) -> tuple[list[Any], list[Any], list[float], list[Hashable]]:
    """Sources, targets, and weights or lengths of the edges of a networkx graph, and its nodes.

    Directions are dropped with a warning; an edge and the one back are one, as networkx has it.
    """
    if not hasattr(graph, "is_directed") or not hasattr(graph, "edges"):
        raise wrong("graph", "a networkx graph", type(graph))
    if graph.is_directed():
        warn(
            "graph: expected an undirected graph, got a directed one; a kernel has no directions, "
            "the edges of graph.to_undirected() are taken"
        )
        graph = graph.to_undirected()
    edges = list(graph.edges(data=True))
    for argument, name in (("weight", weight), ("lengths", lengths)):
        default = argument == "weight" and name == "weight"
        if name is not None and not default and edges and not any(name in e[-1] for e in edges):
            names = sorted({str(name) for *_, attributes in edges for name in attributes})
            raise wrong(argument, f"an attribute of edges, {names}", name)
    ends = [e[0] for e in edges], [e[1] for e in edges]
    if lengths is not None:
        for source, target, attributes in edges:
            if lengths not in attributes:
                raise InvalidInputError(
                    f"lengths: expected an attribute {lengths!r} of every edge, got none of edge "
                    f"{source!r}-{target!r}"
                )
        return *ends, [attributes[lengths] for *_, attributes in edges], list(graph.nodes)
    if weight is None:
        return *ends, [1.0] * len(edges), list(graph.nodes)
    values = [attributes.get(weight, 1.0) for *_, attributes in edges]
    _check_unused_lengths([attributes for *_, attributes in edges], weight, values)
    return *ends, values, list(graph.nodes)


def _check_unused_lengths(edges: list[dict[Any, Any]], weight: str, values: list[Any]) -> None:
    """Warn of lengths that no weight comes from, and refuse weights that grow with them."""
    for name in LENGTHS:
        if len(edges) < 2 or not all(isinstance(each.get(name), Real) for each in edges):
            continue
        found = np.array([float(each[name]) for each in edges])
        if not np.isfinite(found).all() or np.ptp(found) == 0:
            continue
        if not any(weight in each for each in edges):
            warn(
                f"graph: all {len(edges)} edges weigh 1, though they have an attribute {name!r}; "
                f"lengths={name!r} lets long edges couple less, weight=None says that all are alike"
            )
            return
        weights = real_array(values, "weight")
        ranks = np.array(
            [np.unique(each, return_inverse=True)[1] for each in (weights, found)], dtype=np.float64
        )
        rank = 0.0 if np.ptp(weights) == 0 else float(np.corrcoef(ranks[0], ranks[1])[0, 1])
        if rank > LENGTH_LIKE:
            raise InvalidInputError(
                f"weight: expected weights that couple near nodes most, got {weight!r}, which "
                f"grows with {name!r} (rank correlation {rank:.2f}); lengths={name!r} makes "
                "weights of lengths, from_edges takes weights as they are"
            )


def mesh_edges(mesh: Any, nodes: str, weights: str) -> tuple[IntArray, IntArray, FloatArray, int]:
    """Links between the faces or the vertices of a mesh, each once.

    Returns
    -------
    (IntArray, IntArray, FloatArray, int)
        Both ends (n_edges,), the weights (n_edges,), and the number of nodes.
    """
    check_choice(nodes, ("faces", "vertices"), "nodes")
    check_choice(weights, ("unit", "inverse-distance"), "weights")
    given, found = mesh_arrays(mesh)
    faces, vertices = np.asarray(found, dtype=np.int64), real_array(given, "mesh")
    if faces.ndim != 2 or faces.shape[1] < 3 or faces.shape[0] == 0:
        raise wrong("mesh", "faces of shape (f, 3)", faces.shape)
    outside = faces[(faces < 0) | (faces >= vertices.shape[0])]
    if outside.size:
        raise wrong(
            "mesh", f"vertex numbers from 0 to {vertices.shape[0] - 1} in its faces", outside[0]
        )
    check_magnitude(vertices, "mesh")
    if nodes == "vertices":
        ends, places = unique_pairs(face_edges(faces)), vertices
    else:
        _, same = np.unique(vertices, axis=0, return_inverse=True)
        ends, places = face_links(same.reshape(-1)[faces]), vertices[faces].mean(axis=1)
    values = np.ones(len(ends)) if weights == "unit" else inverse_distances(places, ends)
    return ends[:, 0], ends[:, 1], values, places.shape[0]


def inverse_distances(places: FloatArray, ends: IntArray) -> FloatArray:
    """Weights (n_edges,) of links, mean distance / distance, from the nodes' places (n, 3).

    Distances below `LEAST_DISTANCE` of the mean count as that: nodes at one place would else be cut
    off from all others.
    """
    distances = np.linalg.norm(places[ends[:, 0]] - places[ends[:, 1]], axis=1)
    if not np.isfinite(distances).all():
        raise InvalidInputError("mesh: expected finite positions for weights by distance")
    mean = distances.mean() if distances.size else 1.0
    if mean == 0.0:  # all nodes at one place
        return np.ones(distances.size)
    weights: FloatArray = mean / np.maximum(distances, LEAST_DISTANCE * mean)
    return weights


def face_edges(faces: IntArray) -> IntArray:
    """Every side of every face as a vertex pair, face by face, shape (f * k, 2)."""
    return np.stack([faces, np.roll(faces, -1, axis=1)], axis=-1).reshape(-1, 2)


def face_links(faces: IntArray) -> IntArray:
    """Pairs of different faces that share a mesh edge, each pair once, shape (n, 2)."""
    sides = np.sort(face_edges(faces), axis=1)
    owner = np.repeat(np.arange(faces.shape[0]), faces.shape[1])
    proper = sides[:, 0] != sides[:, 1]
    if not proper.any():
        return np.empty((0, 2), dtype=np.int64)
    _, edge = np.unique(sides[proper], axis=0, return_inverse=True)
    edge = edge.reshape(-1)
    owner = owner[proper]
    # Incidence of faces and edges; two faces share an edge where B B' is not zero.
    incidence = sparse.csr_array((np.ones(owner.size), (owner, edge)))
    incidence.resize((faces.shape[0], incidence.shape[1]))
    shared = (incidence @ incidence.T).tocoo()
    return unique_pairs(np.stack([shared.row, shared.col], axis=1).astype(np.int64))


def unique_pairs(pairs: IntArray) -> IntArray:
    """Distinct unordered pairs of different numbers, shape (n, 2)."""
    ordered = np.sort(pairs, axis=1)
    return np.unique(ordered[ordered[:, 0] != ordered[:, 1]], axis=0)


def torch_geometric_matrix(data: Any) -> sparse.coo_array:
    """Adjacency matrix (n, n) of a torch_geometric `Data`."""
    edge_index = getattr(data, "edge_index", None)
    if edge_index is None:
        raise wrong("data", "a torch_geometric Data with edge_index", type(data))
    ends = plain_array(edge_index)
    values = getattr(data, "edge_weight", None)
    if values is None:
        values = getattr(data, "edge_attr", None)
    weights = np.ones(ends.shape[1]) if values is None else plain_array(values).astype(np.float64)
    if weights.size != ends.shape[1]:
        raise wrong("data", f"one weight an edge ({ends.shape[1]})", weights.shape)
    size = int(data.num_nodes)
    return sparse.coo_array((weights.reshape(-1), (ends[0], ends[1])), shape=(size, size))


def plain_array(values: Any) -> np.ndarray:
    """Return an array, or a tensor of any device with or without gradient, as an array."""
    return np.asarray(values.detach().cpu() if hasattr(values, "detach") else values)


def neighbour_edges(points: ArrayLike, n_neighbors: int) -> tuple[IntArray, IntArray, int]:
    """Links of the symmetrised k-nearest-neighbour graph of points (n, d), each once.

    Returns
    -------
    (IntArray, IntArray, int)
        Both ends (n_edges,), and n.
    """
    positions = real_array(points, "points")
    if positions.ndim != 2 or not positions.size:
        raise InvalidInputError(
            f"points: expected an array of shape (n, d), got shape {positions.shape}"
        )
    bad = np.flatnonzero(~np.isfinite(positions).all(axis=1))
    if bad.size:
        raise InvalidInputError(
            f"points: expected finite positions, got {positions[bad[0]]} in "
            f"row {bad[0]} ({bad.size} such rows)"
        )
    size = positions.shape[0]
    check_positive_int(n_neighbors, "n_neighbors")
    if n_neighbors >= size:
        raise wrong("n_neighbors", f"fewer than the {size} points", n_neighbors)
    # A power of two that leaves the squares of distances finite.
    _, exponent = np.frexp(np.abs(positions).max())
    scaled = np.ldexp(positions, -int(exponent))
    _, found = cKDTree(scaled).query(scaled, k=n_neighbors + 1)
    rows = np.repeat(np.arange(size), n_neighbors + 1)
    pairs = unique_pairs(np.stack([rows, found.reshape(-1)], axis=1).astype(np.int64))
    return pairs[:, 0], pairs[:, 1], size


# Least and largest weight or length of an edge.
LEAST_WEIGHT, LARGEST_WEIGHT = SMALLEST, LARGEST
# Largest number of nodes: columns of matrices are of 32 bits.
MOST_NODES = 2**31 - 1
LARGEST_NUMBER = 2**63 - 1
Labels = tuple[Hashable, ...]
# Asymmetry of a matrix, over its largest entry, that sums in another order can leave.
ROUNDING = 1e-9


class Csr(NamedTuple):
    """Arrays of a symmetric sparse matrix in row form, columns sorted within each row.

    Attributes
    ----------
    indptr : IntArray (n_nodes + 1,)
    indices : NDArray (nnz,)
    weights : FloatArray (nnz,)
    """

    indptr: IntArray
    indices: NDArray[np.int32]
    weights: FloatArray


def check_symmetric_csr(
    indptr: IntArray, indices: NDArray[Any], values: FloatArray, name: str
) -> None:
    """Refuse arrays of a file that are no symmetric matrix in row form, columns in rising order.

    Raises
    ------
    ModelFileError
        The pointers do not divide the entries into rows, columns of a row are not in rising order,
        or an entry differs by more than rounding from the one across the diagonal.
    """
    n, lengths = indptr.size - 1, np.diff(indptr)
    if indptr[0] != 0 or indptr[-1] != indices.size or (lengths < 0).any():
        raise ModelFileError(f"{name}: expected pointers from 0 to {indices.size}, got others")
    rising = np.diff(indices.astype(np.int64)) > 0
    starts = indptr[1:-1]
    rising[starts[(starts > 0) & (starts < indices.size)] - 1] = True
    if not rising.all():
        raise ModelFileError(f"{name}: expected columns in rising order in each row, got others")
    matrix = sparse.csr_array((values, indices, indptr), shape=(n, n))
    across = matrix.T.tocsr()
    across.sort_indices()
    same = np.array_equal(across.indptr, indptr) and np.array_equal(across.indices, indices)
    gap = np.abs(across.data - values) if same else np.array([np.inf])
    if gap.size and not (gap <= ROUNDING * np.abs(values).max()).all():
        raise ModelFileError(f"{name}: expected a symmetric matrix, got another one")


def lengths_to_weights(lengths: ArrayLike) -> FloatArray:
    """Turn road lengths into edge weights, `mean(length) / length`.

    The rule of the traffic experiment of "Variance-reducing couplings" (appendix F.2): near
    junctions are strongly tied. Weights have no unit; their harmonic mean is one.

    Parameters
    ----------
    lengths
        Positive finite lengths, shape (n_edges,).

    Raises
    ------
    InvalidInputError
        A length is not a positive finite number; the message names the edge.

    Examples
    --------
    >>> import coupledgp as cgp
    >>> from coupledgp.graphs import lengths_to_weights
    >>> weights = lengths_to_weights([100.0, 300.0])  # metres
    >>> weights.round(3).tolist()
    [2.0, 0.667]
    >>> cgp.Graph.from_edges([0, 1], [1, 2], weights).n_edges
    2
    """
    values = real_array(lengths, "lengths")
    check_edge_values(values, "lengths", lambda edge: f"edge {edge}")
    if not values.size:
        return values
    weights: FloatArray = values.mean() / values
    check_edge_values(weights, "mean(lengths) / lengths", lambda edge: f"edge {edge}")
    return weights


def check_edge_values(
    values: FloatArray,
    name: str,
    edge_name: Callable[[int], str],
    sizes: tuple[float, float] = (SMALLEST, LARGEST),
) -> None:
    """Refuse values (n_edges,) other than positive finite numbers, naming the first bad edges.

    Numbers have to lie between the two `sizes`: beyond the default ones, products of four weights
    are infinite or zero.
    """
    least, largest = sizes
    far = np.flatnonzero((values < least) | (values > largest))
    bad = np.flatnonzero(~(np.isfinite(values) & (values > 0)))
    if far.size and not bad.size:
        raise InvalidInputError(
            f"{name}: expected numbers from {least:g} to {largest:g}, "
            f"{edge_name(int(far[0]))} has {values[far[0]]} ({far.size} such edges); use another "
            "unit"
        )
    if bad.size:
        shown = ", ".join(f"{edge_name(int(edge))} has {values[edge]}" for edge in bad[:3])
        more = f" and {bad.size - 3} more" if bad.size > 3 else ""
        raise InvalidInputError(
            f"{name}: expected finite numbers > 0, got {shown}{more}; leave such edges out or "
            "give them a positive value"
        )


def index_labels(
    sources: Iterable[Any], targets: Iterable[Any]
) -> tuple[IntArray, IntArray, Labels]:
    """Number node labels in order of first appearance, source before target, edge by edge.

    Returns
    -------
    (IntArray, IntArray, Labels)
        Numbers (n_edges,) of both ends, and the labels in the order of their numbers.
    """
    index: dict[Hashable, int] = {}
    pairs = [(number(index, a), number(index, b)) for a, b in zip(sources, targets, strict=True)]
    ends = np.array(pairs, dtype=np.int64).reshape(-1, 2)
    return ends[:, 0], ends[:, 1], tuple(index)


def number(index: dict[Hashable, int], label: Any) -> int:
    """The number of `label` in `index`, a new one if it is not there yet."""
    value = plain_label(label)
    try:
        return index.setdefault(value, len(index))
    except TypeError:
        raise wrong("labels", "hashable node labels", type(label)) from None


def plain_label(label: Any) -> Any:
    """A label as a Python object: `numpy.str_("a")` and `"a"` are the same node."""
    return label.item() if isinstance(label, np.generic) else label


def check_labels(labels: Iterable[Any], n_nodes: int) -> Labels:
    """Return distinct labels, one for each node."""
    found = tuple(plain_label(label) for label in labels)
    if len(found) != n_nodes:
        raise wrong("labels", f"{n_nodes} (one a node)", len(found))
    seen: dict[Hashable, int] = {}
    for label in found:
        before = len(seen)
        if number(seen, label) != before:
            raise InvalidInputError(f"labels: expected distinct labels, got {label!r} twice")
    return found


def assemble(sources: IntArray, targets: IntArray, weights: FloatArray, n_nodes: int) -> Csr:
    """Add up parallel edges into a symmetric matrix; a self-loop counts once on the diagonal.

    Parameters
    ----------
    sources, targets
        Node numbers (n_edges,).
    weights
        Weights (n_edges,).
    n_nodes
        Number of nodes.
    """
    loops = sources == targets
    rows = np.concatenate([sources, targets[~loops]])
    columns = np.concatenate([targets, sources[~loops]])
    values = np.concatenate([weights, weights[~loops]])
    matrix = sparse.coo_array((values, (rows, columns)), shape=(n_nodes, n_nodes)).tocsr()
    matrix.sum_duplicates()
    # Sums of parallel edges may be added in another order in the two triangles: make them equal.
    matrix = ((matrix + matrix.T) / 2).tocsr() if rows.size > matrix.nnz else matrix
    matrix.sort_indices()
    return Csr(matrix.indptr.astype(np.int64), matrix.indices.astype(np.int32), matrix.data)


def integer_ends(values: Any, name: str, n_nodes: int | None) -> IntArray:
    """Return edge ends (n_edges,) as non-negative integers, below `n_nodes` unless it is None."""
    given = np.asarray(values)
    bound = "" if n_nodes is None else f" and < n_nodes = {n_nodes}"
    most = LARGEST_NUMBER if n_nodes is None else n_nodes
    bad = np.flatnonzero((given < 0) | (given >= most))
    if bad.size:
        hint = "; larger numbers are labels" if given[bad[0]] >= LARGEST_NUMBER else ""
        raise InvalidInputError(
            f"{name}: expected node numbers >= 0{bound}, got {given[bad[0]]} in edge {bad[0]}{hint}"
        )
    return given.astype(np.int64)
