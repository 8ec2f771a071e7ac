"""The nearest observation: in space, or along the edges of a graph, also of other groups only."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.csgraph import dijkstra

from coupledgp.diagnostics.rivals.observed import (
    Fitted,
    Observations,
    ObservedUnits,
    Predicted,
)
from coupledgp.random import FloatArray, IntArray
from coupledgp.tables.nearest import BRUTE_ROWS, TREE_DIM, nearest

# Neighbours among which one of another group is looked for before all others are.
CANDIDATES = 8
# Sites, drawn at random, at which the error of the nearest other row of a table is measured.
MEASURED = 4000
# Products of rows, queries and columns beyond which the nearest of fewer rows is taken, drawn at
# random: a few seconds.
MOST_WORK = 1e11
# Number that stands for no site.
NONE = -1


class Near(NamedTuple):
    """Distance (p,) of the nearest of some sites, and its number (p,); -1 where there is none."""

    distance: FloatArray
    number: IntArray


class Finder(ABC):
    """Distances between sites."""

    @abstractmethod
    def nearest(self, sources: IntArray, wanted: IntArray) -> Near:
        """Nearest of some sites (s,), by their number, to each of others (p,)."""

    @abstractmethod
    def nearest_other(self, wanted: IntArray) -> IntArray:
        """Number (p,) of the site nearest to each of some sites (p,); -1 where it is alone."""

    def of_other_groups(self, units: ObservedUnits) -> IntArray:
        """Number (u,) of the unit nearest to each one among those of other groups, or -1.

        Two groups differ in some bit of their numbers. So the nearest is found among the units
        whose groups have the other value of a bit, for one of the bits: twice as many searches as
        the number of groups has bits.
        """
        number, left = self._first_guesses(units)
        distance = np.full(len(units), np.inf)
        for bit in range(int(units.group.max()).bit_length()):
            side = (units.group >> bit) & 1 == 1
            for part in (side, ~side):
                sources, wanted = np.flatnonzero(part), left[~part[left]]
                if not (sources.size and wanted.size):
                    continue
                near = self._of_units(units, sources, wanted)
                better = (near.number >= 0) & (near.distance < distance[wanted])
                number[wanted[better]] = near.number[better]
                distance[wanted[better]] = near.distance[better]
        return number

    def _of_units(self, units: ObservedUnits, sources: IntArray, wanted: IntArray) -> Near:
        """Nearest of some units (s,), by their number, to each of others (p,)."""
        found = self.nearest(units.site[sources], units.site[wanted])
        at = np.full(int(units.site.max()) + 1, NONE)
        at[units.site[sources]] = sources
        return Near(found.distance, np.where(found.number >= 0, at[found.number], NONE))

    def _first_guesses(self, units: ObservedUnits) -> tuple[IntArray, IntArray]:
        """The units (u,) that are found at once, -1 elsewhere, and the numbers of the others."""
        return np.full(len(units), NONE), np.arange(len(units))


@dataclass(frozen=True, eq=False)
class RowFinder(Finder):
    """Euclidean distances between rows (g, d), the sites."""

    rows: FloatArray

    def nearest(self, sources: IntArray, wanted: IntArray) -> Near:
        return self.nearest_to(self.rows[wanted], sources)

    def nearest_to(self, queries: FloatArray, sources: IntArray | None = None) -> Near:
        """Nearest of some rows, or of all, to queries (p, d); of a random part where it is dear."""
        sources = np.arange(len(self.rows)) if sources is None else sources
        sources = self._affordable(sources, len(queries))
        number = sources[nearest(self.rows[sources], queries, 1)[:, 0]]
        return Near(np.linalg.norm(self.rows[number] - queries, axis=1), number)

    def nearest_other(self, wanted: IntArray) -> IntArray:
        if len(self.rows) < 2:
            return np.full(len(wanted), NONE)
        sources = self._affordable(np.arange(len(self.rows)), len(wanted))
        near = sources[nearest(self.rows[sources], self.rows[wanted], 2)]
        # Rows of equal inputs may find themselves second.
        found: IntArray = np.where(near[:, 0] == wanted, near[:, -1], near[:, 0])
        return found

    def _affordable(self, sources: IntArray, n_queries: int) -> IntArray:
        width = self.rows.shape[1]
        most = max(int(MOST_WORK / (max(n_queries, 1) * width)), 1000)
        if width >= TREE_DIM:  # trees would visit nearly every row
            most = min(most, BRUTE_ROWS)
        if sources.size <= most:
            return sources
        chosen: IntArray = np.random.default_rng(0).choice(sources, most, replace=False)
        return chosen

    def _first_guesses(self, units: ObservedUnits) -> tuple[IntArray, IntArray]:
        """See the base class: the first of another group among the nearest few units."""
        size = len(units)
        sources = self._affordable(np.arange(size), size)
        rows = self.rows[units.site]
        near = sources[nearest(rows[sources], rows, CANDIDATES)]
        other = units.group[near] != units.group[:, None]
        number = np.where(other.any(axis=1), near[np.arange(size), other.argmax(axis=1)], NONE)
        return number, np.flatnonzero(number < 0)


@dataclass(frozen=True, eq=False)
class WayFinder(Finder):
    """Lengths of the shortest ways along the edges of a graph.

    Attributes
    ----------
    graph : sparse.csr_array (n, n)
        Lengths of the edges, symmetric.
    vertices : IntArray (g,)
        Distinct vertices, the sites.
    """

    graph: sparse.csr_array
    vertices: IntArray

    def nearest(self, sources: IntArray, wanted: IntArray) -> Near:
        return self.nearest_to(self.vertices[wanted], sources)

    def nearest_to(self, queries: IntArray, sources: IntArray | None = None) -> Near:
        """Nearest of some sites, or of all, to vertices (p,)."""
        sources = np.arange(len(self.vertices)) if sources is None else sources
        distance, source = self._ways(sources)
        return Near(distance[queries], self._sites(source[queries]))

    def nearest_other(self, wanted: IntArray) -> IntArray:
        """See the base class.

        The way to the nearest other site leaves the set of vertices nearest to the one by an edge
        into that of the other.
        """
        distance, source = self._ways(np.arange(len(self.vertices)))
        edges = self.graph.tocoo()
        a, b = source[edges.row], source[edges.col]
        between = (a != b) & (a >= 0) & (b >= 0)
        a, b = a[between], b[between]
        ways = (distance[edges.row] + edges.data + distance[edges.col])[between]
        ends = np.concatenate([np.stack([a, b]), np.stack([b, a])], axis=1)
        order = np.lexsort([np.tile(ways, 2), ends[0]])
        first_ends, first = np.unique(ends[0][order], return_index=True)
        other = np.full(self.graph.shape[0], NONE)
        other[first_ends] = ends[1][order][first]
        return self._sites(other[self.vertices[wanted]])

    def _ways(self, sources: IntArray) -> tuple[FloatArray, IntArray]:
        """Distance of every vertex to the nearest of some sites, and that one's vertex, or -1."""
        distance, _, source = dijkstra(
            self.graph,
            directed=False,
            indices=np.unique(self.vertices[sources]),
            min_only=True,
            return_predecessors=True,
        )
        return distance, np.where(np.isfinite(distance), source, NONE).astype(np.int64)

    def _sites(self, vertices: IntArray) -> IntArray:
        """Site of each vertex; -1 where it is negative."""
        order = np.argsort(self.vertices, kind="stable")
        places = np.searchsorted(self.vertices[order], vertices)
        found = order[np.minimum(places, len(order) - 1)]
        return np.where(vertices >= 0, found, NONE)


def by_nearest(
    observations: Observations, finder: Finder, number: Callable[[Any], IntArray]
) -> Fitted:
    """Observations at the nearest site, whose number (p,) is -1 for points without one."""
    return Fitted(
        lambda points: _predicted(observations, finder, number(points)),
        lambda groups: _left_out(observations, finder, groups),
    )


def _predicted(observations: Observations, finder: Finder, number: IntArray) -> Predicted:
    """Observations at the nearest site (p,), the mean of all where it is -1.

    The standard deviation is the error between the observations of a site and of its nearest one.
    """
    sites = np.unique(observations.site)
    means = observations.site_means
    mean = np.where((number >= 0)[:, None], means[number], observations.mean)
    if sites.size < 2:
        return Predicted(mean)
    chosen = sites
    if sites.size > MEASURED and isinstance(finder, RowFinder):
        chosen = np.random.default_rng(0).permutation(sites.size)[:MEASURED]
    other = np.full(sites.size, NONE)
    other[chosen] = finder.nearest_other(chosen)
    rows = np.flatnonzero(np.isin(observations.site, chosen))
    at = observations.site[rows]
    others = observations.others_mean(observations.site)[at]
    guessed = np.where((other[at] >= 0)[:, None], means[other[at]], others)
    std = observations.error(rows, guessed)
    return Predicted(mean, np.tile(std, (len(number), 1)))


def _left_out(observations: Observations, finder: Finder, groups: IntArray) -> Predicted:
    """Observations at the nearest site among those of other groups (n,), the mean where none is."""
    units = observations.units(groups)
    if units.are_sites:
        at = np.empty(len(units), dtype=np.int64)
        at[units.site] = np.arange(len(units))
        site = finder.nearest_other(units.site)
        chosen = np.where(site >= 0, at[site], NONE)
    else:
        chosen = finder.of_other_groups(units)
    others = observations.others_mean(groups)[units.group]
    found = others.copy()
    some = np.flatnonzero(chosen >= 0)
    found[some] = units.means_without(units.group[some], chosen[some])
    mean = found[units.number]
    return Predicted(mean, observations.errors_of_others(mean, groups))
