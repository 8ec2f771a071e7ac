"""Places of the nodes on a page: as they were given, or as the edges alone suggest."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.sparse import csgraph

from coupledgp.diagnostics.space_time.record import SpaceTimePage
from coupledgp.fields.roads import LONLAT
from coupledgp.random import FloatArray, IntArray

# Most nodes of a connected part that springs are computed for; larger parts are laid out by
# eigenvectors.
MAX_SPRINGS = 600
LAID_OUT = (
    "The nodes have no positions: the page lays out the graph by its edges, so that directions "
    "and distances on the map mean nothing."
)


def places_of(report: SpaceTimePage) -> tuple[FloatArray, str]:
    """Places (N, 3) of the nodes, and a sentence on them if they were made up."""
    if report.positions is None:
        return np.pad(laid_out(len(report.nodes), report.edges), ((0, 0), (0, 1))), LAID_OUT
    places = np.asarray(report.positions, dtype=np.float64)
    if places.shape[1] == 2:
        places = np.pad(_upright(report, places), ((0, 0), (0, 1)))
    return places, ""


def _upright(report: SpaceTimePage, places: FloatArray) -> FloatArray:
    """Longitudes shortened as they are at their latitude, if places are degrees."""
    if report.crs != LONLAT:
        return places
    return places * [np.cos(np.radians(np.nanmean(places[:, 1]))), 1.0]


def laid_out(n_nodes: int, edges: IntArray) -> FloatArray:
    """Places (n, 2) of nodes by their edges (m, 2) alone: parts side by side, largest first."""
    links = sparse.coo_array((np.ones(len(edges)), edges.T), shape=(n_nodes, n_nodes)).tocsr()
    links = links + links.T
    _, member = csgraph.connected_components(links, directed=False)
    sizes = np.bincount(member)
    places = np.zeros((n_nodes, 2))
    widest = 1.6 * float(np.sqrt(np.sum((np.sqrt(sizes) + 1.0) ** 2)))
    x, y, height = 0.0, 0.0, 0.0
    for part in np.argsort(-sizes, kind="stable"):
        rows = np.flatnonzero(member == part)
        side = float(np.sqrt(rows.size))
        if x > 0 and x + side > widest:  # parts stand in lines, as words do
            x, y, height = 0.0, y - height - 1.0, 0.0
        places[rows] = side * _connected(links[rows][:, rows]) + [x, y - side]
        x, height = x + side + 1.0, max(height, side)
    return places


def _connected(links: sparse.csr_array) -> FloatArray:
    """Places (k, 2) of the nodes of a connected part, in the unit square."""
    import networkx as nx

    n = links.shape[0]
    if n == 1:
        return np.full((1, 2), 0.5)
    graph = nx.from_scipy_sparse_array(sparse.csr_matrix(links))
    if n <= MAX_SPRINGS:
        found = nx.kamada_kawai_layout(graph, weight=None)
    else:
        found = nx.spectral_layout(graph, weight=None)
    places = np.array([found[k] for k in range(n)])
    low, extent = places.min(axis=0), float(np.ptp(places, axis=0).max()) or 1.0
    return (places - low) / extent
