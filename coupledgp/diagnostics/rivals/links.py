"""A network with places on it as further vertices, for ways between them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from coupledgp.geometry.locations import split_points
from coupledgp.geometry.networks import shortest_links
from coupledgp.geometry.operator import LaplaceOperator
from coupledgp.random import FloatArray, IntArray


class Links(NamedTuple):
    """A network with places as vertices: its graph of lengths, and each place's vertex (p,)."""

    graph: sparse.csr_array
    vertices: IntArray


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
