"""Directions of the edges of a graph: along which edges, and how often, traffic moves.

Counts `C_ij` of moves from node i to node j make a chain: from i the next node is j with the
probability `C_ij / sum_k C_ik`. Sensors are some of its nodes. The first sensor that a walk from a
sensor reaches is downstream of it; the same chain backwards, with the counts transposed, leads
upstream. With the sensors S and the other nodes H,

    D = P_SS + P_SH (I - P_HH)^-1 P_HS .
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import real_array
from coupledgp.random import FloatArray, IntArray

# Attribute of an edge with the number, or share, of moves along it.
COUNT = "count"
# Chance of a step that a walk goes on: ways round without a sensor come to an end.
GOES_ON = 0.999


def read_directions(
    given: Any, numbers: Callable[[Any], IntArray], n_nodes: int, name: str = "directions"
) -> sparse.csr_array:
    """Counts (n_nodes, n_nodes) of moves from the node of a row to the node of a column.

    Parameters
    ----------
    given
        A directed networkx graph over labels of the graph, whose edges have an attribute `"count"`,
        one where it is missing, and parallel edges of which add up; or a matrix of counts
        (n_nodes, n_nodes), sparse or dense.
    numbers
        Function of labels (a,): numbers (a,) of their nodes.
    n_nodes
        Number of nodes.
    name
        Name of the argument in messages.

    Raises
    ------
    InvalidInputError
        It is neither of these, a label is unknown, the shape is another one, or a count is
        negative or not finite.
    """
    if hasattr(given, "is_directed") and hasattr(given, "edges"):
        if not given.is_directed():
            raise InvalidInputError(f"{name}: expected a directed graph, got an undirected one")
        edges = list(given.edges(data=True))
        values = real_array([data.get(COUNT, 1.0) for *_, data in edges], name)
        if not edges:
            raise InvalidInputError(f"{name}: expected at least one edge, got none")
        ends = tuple(numbers([edge[side] for edge in edges]) for side in (0, 1))
        found = sparse.csr_array(sparse.coo_array((values, ends), (n_nodes, n_nodes)))
    else:
        if not (sparse.issparse(given) or isinstance(given, np.ndarray)):
            raise InvalidInputError(
                f"{name}: expected a directed networkx graph, or a matrix of counts from rows to "
                f"columns, got {type(given).__name__}"
            )
        if given.shape != (n_nodes, n_nodes):
            raise InvalidInputError(
                f"{name}: expected the shape {(n_nodes, n_nodes)} of all nodes, got {given.shape}"
            )
        found = sparse.csr_array(given, dtype=np.float64)
    bad = np.flatnonzero(~((found.data >= 0) & np.isfinite(found.data)))
    if bad.size:
        raise InvalidInputError(
            f"{name}: expected counts of at least 0, got {found.data[bad[0]]:g}"
        )
    found.eliminate_zeros()
    return found


def next_sensors_of(counts: sparse.csr_array, sensors: IntArray) -> FloatArray:
    """Chances (p, p) that a walk from the sensor of a row meets that of a column as its next one.

    Rows have a sum of at most one: walks may end, or return.

    Parameters
    ----------
    counts
        Moves (n_nodes, n_nodes) from rows to columns; transposed for walks backwards.
    sensors
        Distinct node numbers (p,).
    """
    totals = counts.sum(axis=1)
    shares = np.divide(GOES_ON, totals, out=np.zeros(totals.size), where=totals > 0)
    P = sparse.csr_array(sparse.diags_array(shares) @ counts)
    others = np.setdiff1d(np.arange(totals.size), sensors)
    chances: FloatArray = P[sensors][:, sensors].toarray()
    if others.size:
        into, out = P[others][:, sensors], P[sensors][:, others]
        rest = sparse.eye_array(others.size) - P[others][:, others]
        chances = chances + out @ splu(sparse.csc_array(rest)).solve(into.toarray())
    np.fill_diagonal(chances, 0.0)
    return chances
