"""Road networks of networkx and OSMnx: one edge for both directions of a road."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.geometry.degrees import are_degrees
from coupledgp.geometry.networks import Course
from coupledgp.random import FloatArray

# Relative difference of lengths, and difference of positions relative to the way's extent, of both
# directions of one road.
SAME_LENGTH, SAME_COURSE = 1e-6, 1e-6


class Roads(NamedTuple):
    """Nodes and edges of a road network.

    Attributes
    ----------
    nodes : list
        Labels.
    sources, targets : list
        Labels of the edges' ends.
    lengths : FloatArray (g,)
    positions : FloatArray (n, 2) or None
        Positions x, y of the nodes, as given.
    courses : list of FloatArray (k, 2 or 3) or None
        Each edge's course, where the graph has it.
    is_geographic : bool
        Whether positions are longitudes and latitudes in degrees.
    """

    nodes: list[Hashable]
    sources: list[Hashable]
    targets: list[Hashable]
    lengths: FloatArray
    positions: FloatArray | None
    courses: list[Course]
    is_geographic: bool


def read_networkx(graph: Any, length: str) -> Roads:
    """Read a networkx graph of any kind.

    In a directed graph an edge and one in the other direction between the same nodes are one road
    if their lengths are equal, and their courses (`geometry`) where both have one. Other
    parallel edges are roads of their own.

    Parameters
    ----------
    graph
        `networkx.Graph`, `DiGraph`, `MultiGraph` or `MultiDiGraph`.
    length
        Name of the edge attribute with the length.

    Raises
    ------
    InvalidInputError
        It is no such graph, an edge has no length, or some of the nodes have no position.
    """
    if not hasattr(graph, "is_directed") or not hasattr(graph, "edges"):
        raise InvalidInputError(f"graph: expected a networkx graph, got {type(graph).__name__}")
    edges = list(graph.edges(data=True))
    if not edges:
        raise InvalidInputError(
            f"graph: expected at least one edge, got none between {len(graph)} nodes"
        )
    lengths = np.array([edge_length(a, b, found, length) for a, b, found in edges])
    courses = [course(attributes.get("geometry")) for *_, attributes in edges]
    ends = [(source, target) for source, target, _ in edges]
    if graph.is_directed():
        kept = one_of_both_directions(ends, lengths, courses)
        ends, lengths = [ends[k] for k in kept], lengths[kept]
        courses = [courses[k] for k in kept]
    nodes = list(graph.nodes)
    positions = attribute_positions(graph, nodes)
    number = {node: k for k, node in enumerate(nodes)}
    pairs = np.array([(number[a], number[b]) for a, b in ends], dtype=np.int64)
    return Roads(
        nodes=nodes,
        sources=[source for source, _ in ends],
        targets=[target for _, target in ends],
        lengths=lengths,
        positions=positions,
        courses=courses,
        is_geographic=positions is not None
        and are_degrees(positions, pairs, lengths, graph.graph.get("crs")),
    )


def edge_length(source: Any, target: Any, attributes: dict[str, Any], name: str) -> float:
    """The length of an edge; texts of numbers, as GraphML may have them, are read."""
    if name not in attributes:
        raise InvalidInputError(
            f"length: expected an attribute {name!r} of every edge, edge {source!r}-{target!r} has "
            f"{sorted(map(str, attributes)) or 'none'}"
        )
    try:
        return float(attributes[name])
    except (TypeError, ValueError):
        raise InvalidInputError(
            f"length: expected a number, edge {source!r}-{target!r} has {attributes[name]!r}"
        ) from None


def course(geometry: Any) -> Course:
    """Positions along a line of shapely, or None."""
    points = np.array(getattr(geometry, "coords", []), dtype=np.float64)
    return points if points.ndim == 2 and len(points) > 1 else None


def one_of_both_directions(
    ends: list[tuple[Any, Any]], lengths: FloatArray, courses: Sequence[Course]
) -> list[int]:
    """Numbers of the edges, ascending, with one number for both directions of a road.

    Every edge is the other direction of one other edge at most; the first edge of a pair counts.
    """
    waiting: dict[tuple[Any, Any], list[int]] = defaultdict(list)
    kept = []
    for number, (source, target) in enumerate(ends):
        others = waiting[target, source]
        match = next((k for k in others if is_reverse(k, number, lengths, courses)), None)
        if match is None:
            kept.append(number)
            waiting[source, target].append(number)
        else:
            others.remove(match)
    return kept


def is_reverse(a: int, b: int, lengths: FloatArray, courses: Sequence[Course]) -> bool:
    """Whether two edges with exchanged ends are one road."""
    if not abs(lengths[a] - lengths[b]) <= SAME_LENGTH * max(lengths[a], lengths[b]):
        return False
    one, other = courses[a], courses[b]
    if one is None or other is None:
        return True
    if one.shape != other.shape:
        return False
    size = np.ptp(one, axis=0).max()
    return bool(np.abs(one - other[::-1]).max() <= SAME_COURSE * size)


def attribute_positions(graph: Any, nodes: list[Hashable]) -> FloatArray | None:
    """Positions (n, 2) of node attributes x and y; None if no node has them."""
    found = [(attributes.get("x"), attributes.get("y")) for _, attributes in graph.nodes(data=True)]
    missing = [node for node, pair in zip(nodes, found, strict=True) if None in pair]
    if len(missing) == len(nodes):
        return None
    if missing:
        raise InvalidInputError(
            f"graph: expected attributes x and y of every node or of none, node {missing[0]!r} has "
            f"none ({len(missing)} such nodes)"
        )
    try:
        return np.array(found, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(f"graph: expected numbers x and y of nodes: {error}") from None
