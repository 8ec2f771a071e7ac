"""The sites of a graph, mesh or network that a map shows, and where they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.errors import InvalidInputError
from coupledgp.fields import LaplaceOperator
from coupledgp.fields.networks import local_degrees
from coupledgp.fields.roads import LONLAT
from coupledgp.graphs import Graph
from coupledgp.random import FloatArray, IntArray

# Most nodes of a graph on a map.
MAX_NODES = 20_000
# Most edges a node of a graph in the plane whose edges are taken for roads, as junctions of three
# roads have.
ROAD_EDGES = 1.5


@dataclass(frozen=True, eq=False)
class MapSites:
    """Sites of a map.

    Attributes
    ----------
    sites : IntArray (N,)
        Rising numbers of the sites.
    labels : list
        Label of each; empty for vertices of refinement.
    edges : IntArray (m, 2)
        Ends of the edges between them, as rows of the sites.
    positions : FloatArray (N, 2) or (N, 3), or None
    crs : str or None
        Coordinate reference system of the positions, if a domain knows it.
    faces : IntArray (f, 3) or None
    is_network : bool
        Whether edges are pieces of roads.
    notes : tuple of str
    """

    sites: IntArray
    labels: list[Any]
    edges: IntArray
    positions: FloatArray | None = None
    crs: str | None = None
    faces: IntArray | None = None
    is_network: bool = False
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls, domain: Graph | LaplaceOperator, positions: ArrayLike | None, sensors: IntArray
    ) -> MapSites:
        """The sites of a domain; of a large graph those of the sensors and evenly chosen others.

        Raises
        ------
        InvalidInputError
            Positions are not finite numbers (n_nodes, 2) or (n_nodes, 3).
        """
        if isinstance(domain, LaplaceOperator):
            return cls._of_operator(domain)
        places = None if positions is None else _checked(positions, domain.n_nodes)
        return cls._of_graph(domain, places, sensors)

    @classmethod
    def _of_graph(cls, graph: Graph, places: FloatArray | None, sensors: IntArray) -> MapSites:
        n = graph.n_nodes
        sites, notes = np.arange(n), list[str]()
        if n > MAX_NODES:
            some = np.unique(np.linspace(0, n - 1, MAX_NODES - sensors.size).astype(np.int64))
            sites = np.union1d(sensors, some)
            notes.append(f"The map has {sites.size} of {n} nodes, those with a sensor among them.")
        row = np.full(n, -1)
        row[sites] = np.arange(sites.size)
        found = graph.adjacency.tocoo()
        ends = row[np.column_stack([found.row, found.col])]
        edges = ends[(ends >= 0).all(axis=1) & (ends[:, 0] < ends[:, 1])]
        flat = places is not None and places.shape[1] == 2
        return cls(
            sites, list(graph.label_all(sites)), edges, None if places is None else places[sites],
            is_network=flat and 0 < len(edges) <= ROAD_EDGES * sites.size, notes=tuple(notes),
        )  # fmt: skip

    @classmethod
    def _of_operator(cls, operator: LaplaceOperator) -> MapSites:
        n = len(operator.mass)
        labels: list[Any] = [""] * n
        for k, vertex in enumerate(operator.given_vertices.tolist()):
            if vertex >= 0:
                labels[vertex] = k if operator.labels is None else operator.labels[k]
        surface = operator.dimension == 2
        edges = np.empty((0, 2), np.int64) if surface else operator.elements
        positions, crs = operator.positions, None
        if positions is not None and operator.origin is not None:
            positions, crs = local_degrees(positions, operator.origin), LONLAT
        return cls(
            np.arange(n), labels, edges, positions, crs, operator.elements if surface else None,
            not surface,
        )  # fmt: skip

    def rows_of(self, sites: IntArray) -> IntArray:
        """Rows of some of the sites."""
        return np.searchsorted(self.sites, sites)


def _checked(positions: ArrayLike, n_nodes: int) -> FloatArray:
    places = np.asarray(positions, dtype=np.float64)
    if places.shape not in ((n_nodes, 2), (n_nodes, 3)) or not np.isfinite(places).all():
        raise InvalidInputError(
            f"positions: expected finite numbers ({n_nodes}, 2) or ({n_nodes}, 3), one row for "
            f"each node of the graph, got shape {places.shape}"
        )
    return places
