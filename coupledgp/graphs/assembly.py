"""From an edge list to the arrays of a compressed sparse row matrix, with every check of edges."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import sparse

from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.ground.validation import LARGEST, SMALLEST, real_array, wrong
from coupledgp.random import FloatArray, IntArray

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
