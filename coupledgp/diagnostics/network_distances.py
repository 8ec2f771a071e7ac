"""Nearest places along a network, by Dijkstra's algorithm with the places as further vertices."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import dijkstra

from coupledgp.geometry.locations import split_points
from coupledgp.geometry.networks import shortest_links
from coupledgp.geometry.operator import LaplaceOperator
from coupledgp.random import FloatArray, IntArray


class Links(NamedTuple):
    """A network with places as vertices: its graph of lengths, and each place's vertex (p,)."""

    graph: sparse.csr_array
    vertices: IntArray


def nearest_on_network(
    operator: LaplaceOperator, sensors: FloatArray, queries: FloatArray
) -> IntArray:
    """Number (p,) of the sensor place (g, 4) nearest to each query (p, 4) along the network.

    -1 where no sensor is in the query's component.
    """
    links = linked(operator, np.concatenate([sensors, queries]))
    own, others = np.split(links.vertices, [len(sensors)])
    _, source = _distances(links.graph, own)
    return _numbers(source[others], own)


def nearest_other_on_network(operator: LaplaceOperator, sensors: FloatArray) -> IntArray:
    """Number (g,) of the sensor nearest to each of distinct sensors (g, 4); -1 if it is alone.

    The way to the nearest other sensor leaves the set of vertices nearest to the one by an edge
    into that of the other.
    """
    links = linked(operator, sensors)
    distance, source = _distances(links.graph, links.vertices)
    edges = links.graph.tocoo()
    a, b = source[edges.row], source[edges.col]
    between = (a != b) & (a >= 0) & (b >= 0)
    a, b = a[between], b[between]
    ways = (distance[edges.row] + edges.data + distance[edges.col])[between]
    ends = np.concatenate([np.stack([a, b]), np.stack([b, a])], axis=1)
    order = np.lexsort([np.tile(ways, 2), ends[0]])
    first_ends, first = np.unique(ends[0][order], return_index=True)
    nearest = np.full(links.graph.shape[0], -1)
    nearest[first_ends] = ends[1][order][first]
    return _numbers(nearest[links.vertices], links.vertices)


def linked(operator: LaplaceOperator, places: FloatArray) -> Links:
    """The network's graph of lengths with a vertex for each place that is none of its vertices."""
    assert operator.element_lengths is not None
    ends, weights = split_points(places)
    swapped = ends[:, 0] > ends[:, 1]
    low = np.where(swapped, ends[:, 1], ends[:, 0])
    high = np.where(swapped, ends[:, 0], ends[:, 1])
    share = np.where(swapped, weights[:, 0], weights[:, 1])  # of the way from low to high
    n = operator.n_vertices
    vertices = np.where(share >= 0.5, high, low)
    inner = np.flatnonzero((share > 0) & (share < 1) & (low != high))
    spots, number = np.unique(
        np.stack([low[inner], high[inner], share[inner]], axis=1), axis=0, return_inverse=True
    )
    whole = shortest_links(operator.elements, operator.element_lengths, n)
    if not inner.size:
        return Links(whole, vertices)
    vertices[inner] = n + number.reshape(-1)
    start, end = spots[:, :2].T.astype(np.int64)
    length = np.asarray(whole[start, end]).reshape(-1)
    own = n + np.arange(len(spots))
    # Spots of one element follow each other from its lower end to its higher one.
    after = np.append((start[1:] == start[:-1]) & (end[1:] == end[:-1]), False)
    before = np.roll(after, 1)
    step = (np.append(spots[1:, 2], 0.0) - spots[:, 2]) * length
    elements = np.concatenate(
        [
            operator.elements,
            np.stack([start, own], axis=1)[~before],
            np.stack([own, end], axis=1)[~after],
            np.stack([own, own + 1], axis=1)[after],
        ]
    )
    lengths = np.concatenate(
        [
            operator.element_lengths,
            (spots[:, 2] * length)[~before],
            ((1 - spots[:, 2]) * length)[~after],
            step[after],
        ]
    )
    return Links(shortest_links(elements, lengths, n + len(spots)), vertices)


def _distances(graph: sparse.csr_array, sources: IntArray) -> tuple[FloatArray, IntArray]:
    """Distance of every vertex to the nearest of some, and that one's number; negative: none."""
    distance, _, source = dijkstra(
        graph, directed=False, indices=np.unique(sources), min_only=True, return_predecessors=True
    )
    return distance, np.where(np.isfinite(distance), source, -1).astype(np.int64)


def _numbers(vertices: IntArray, places: IntArray) -> IntArray:
    """Place whose vertex each one is; -1 where it is negative."""
    order = np.argsort(places, kind="stable")
    found = order[np.minimum(np.searchsorted(places[order], vertices), len(places) - 1)]
    return np.where(vertices >= 0, found, -1)
