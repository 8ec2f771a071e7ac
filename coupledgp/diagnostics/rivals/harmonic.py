"""Harmonic functions through observations: `S f = 0` away from them.

With a matrix A (n, N) that interpolates f (N,) at the sites and stiff springs W to the
observations, `(S + A' W A) f = A' W y` on the parts of the domain that have any.

A network with places on it as further vertices, for ways between them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from coupledgp.core.left_out import rows_of_groups
from coupledgp.diagnostics.rivals.observations import (
    BaselinePrediction,
    Observations,
    ObservedUnits,
)
from coupledgp.errors import NumericalError
from coupledgp.fields.locations import split_points
from coupledgp.fields.networks import shortest_links
from coupledgp.fields.operator import LaplaceOperator
from coupledgp.linalg.conjugate_gradients import solve_columns
from coupledgp.linalg.sparse_cholesky import SparseFactor, elimination_order
from coupledgp.random import FloatArray, IntArray

# Most units of site and group that are left out in closed form, which is cubic in them.
CLOSED = 1000
# Parts into which groups are split at random where there are more units.
FOLDS = 10
# Columns of the domain's size that are solved for at once.
BLOCK_COLUMNS = 64
# Residual at which conjugate gradients stop: far below the error of the baseline.
TOLERANCE, MOST_STEPS = 1e-6, 2000

Solve = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class HarmonicDomain:
    """A domain on which functions may be harmonic.

    Attributes
    ----------
    stiffness : sparse.csr_array (N, N)
        S, positive semidefinite, zero for functions that are constant on each connected part.
    springs : FloatArray (N,)
        Stiffness at each vertex of a spring to an observation of weight one there.
    positions : FloatArray (N, d) or None
        Positions of the vertices, which help to put them in order.
    by_factor : bool
        Whether equations are solved by a sparse factor, or by conjugate gradients.
    """

    stiffness: sparse.csr_array
    springs: FloatArray
    positions: FloatArray | None
    by_factor: bool

    @cached_property
    def parts(self) -> IntArray:
        """Number of the connected part of each vertex, (N,)."""
        found: IntArray = csgraph.connected_components(self.stiffness, directed=False)[1]
        return found.astype(np.int64)

    def solver(self, matrix: sparse.csr_array, vertices: IntArray) -> Solve:
        """`V -> A^-1 V` for a positive definite matrix on some vertices."""
        if self.by_factor:
            positions = None if self.positions is None else self.positions[vertices]
            return SparseFactor(matrix, elimination_order(matrix, positions)).solve
        inverse = 1 / matrix.diagonal()[:, None]

        def solve(V: FloatArray) -> FloatArray:
            # Springs would hide all else in the residual: where they are, this is the solution.
            first = inverse * V
            return first + solve_columns(
                lambda X: matrix @ X,
                lambda R: inverse * R,
                V - matrix @ first,
                TOLERANCE,
                MOST_STEPS,
            )

        return solve


@dataclass(frozen=True, eq=False)
class HarmonicRival:
    """Harmonic functions through observations at sites of a domain.

    Attributes
    ----------
    domain : HarmonicDomain
    observations : Observations
    sites : sparse.csr_array (g, N)
        Rows that interpolate at the sites.
    """

    domain: HarmonicDomain
    observations: Observations
    sites: sparse.csr_array

    def predict(self, queries: sparse.csr_array) -> BaselinePrediction:
        """Predictions at places, rows (p, N) that interpolate there.

        The standard deviation is the error of the same predictions of sites left out: of each one,
        or of a tenth of very many.
        """
        units = self.observations.units(np.zeros(len(self.observations), dtype=np.int64))
        mean = queries @ self._through(units, np.arange(len(units)), self.observations.mean)
        n_sites = self.sites.shape[0]
        if n_sites < 2:
            return BaselinePrediction("harmonic", mean)
        site = self.observations.site
        alone = self.observations.units(site)
        rows = np.arange(len(site))
        if self._is_closed(alone):
            left_out = self._closed(alone, site)[alone.number]
        else:
            hidden = folds_of(n_sites, min(FOLDS, n_sites)) == 0
            rows = np.flatnonzero(hidden[site])
            left_out = self._from_others(alone, hidden[alone.group])[alone.number[rows]]
        std = self.observations.error(rows, left_out)
        return BaselinePrediction("harmonic", mean, np.tile(std, (len(mean), 1)))

    def left_out(self, groups: IntArray) -> BaselinePrediction:
        """Predictions (n, k) of observations from those of other groups (n,).

        In closed form for few; of more, the groups of a tenth are left out together.
        """
        units = self.observations.units(groups)
        if self._is_closed(units):
            found = self._closed(units, groups)
        else:
            found = np.empty_like(units.means)
            n_groups = int(groups.max()) + 1
            folds = folds_of(n_groups, min(FOLDS, n_groups))[units.group]
            for fold in np.unique(folds):
                found[folds == fold] = self._from_others(units, folds == fold)[folds == fold]
        mean = found[units.number]
        return BaselinePrediction(
            "harmonic", mean, self.observations.errors_of_others(mean, groups)
        )

    def _is_closed(self, units: ObservedUnits) -> bool:
        return self.domain.by_factor and len(units) <= CLOSED

    def _from_others(self, units: ObservedUnits, hidden: NDArray[np.bool_]) -> FloatArray:
        """Predictions (u, k) at all units from those that are not hidden (u,)."""
        known = np.flatnonzero(~hidden)
        weights = units.weights[known]
        centre = weights @ units.means[known] / weights.sum()
        found: FloatArray = self.sites[units.site] @ self._through(units, known, centre)
        return found

    def _springs(self, units: ObservedUnits) -> FloatArray:
        """Stiffness (u,) of the spring to each unit, taken from the vertices around it."""
        around: FloatArray = self.sites[units.site] @ self.domain.springs
        return units.weights / self.observations.weights.max() * around

    def _through(self, units: ObservedUnits, chosen: IntArray, centre: FloatArray) -> FloatArray:
        """Harmonic function (N, k) through some units, `centre` (k,) on parts without any."""
        rows = self.sites[units.site[chosen]]
        seen = np.unique(self.domain.parts[rows.indices])
        inside = np.flatnonzero(np.isin(self.domain.parts, seen))
        used = rows[:, inside]
        springs = sparse.diags_array(self._springs(units)[chosen])
        matrix = self.domain.stiffness[inside][:, inside] + used.T @ springs @ used
        pull = used.T @ (springs @ (units.means[chosen] - centre))
        field = np.tile(centre, (self.domain.stiffness.shape[0], 1))
        field[inside] += self.domain.solver(sparse.csr_array(matrix), inside)(pull)
        return field

    def _closed(self, units: ObservedUnits, groups: IntArray) -> FloatArray:
        """`mean_G - (B_GG)^-1 (B y)_G`, B the precision of the units with a constant left free.

        Within a part of the domain one vertex is held at zero, which adds a constant to
        covariances of differences that B does not see.

        Raises
        ------
        NumericalError
            A matrix is singular in float64.
        """
        rows = self.sites[units.site]
        part = self.domain.parts[rows.indices[rows.indptr[:-1]]]
        covariance = self._covariance(rows)
        covariance += np.diag(1 / self._springs(units))
        found = self.observations.others_mean(groups)[units.group]
        try:
            for members in rows_of_groups(part):
                precision = free_precision(covariance[np.ix_(members, members)])
                pulls = precision @ units.means[members]
                for own in rows_of_groups(units.group[members]):
                    if own.size < members.size:
                        block = precision[np.ix_(own, own)]
                        residual = np.linalg.solve(block, pulls[own])
                        found[members[own]] = units.means[members[own]] - residual
        except np.linalg.LinAlgError:
            raise NumericalError(
                "harmonic baseline: its equations are singular in float64; weights or lengths of "
                "edges differ by too many orders of magnitude"
            ) from None
        return found

    def _covariance(self, rows: sparse.csr_array) -> FloatArray:
        """`A S^-1 A'` (u, u) of rows (u, N), one vertex of each part held at zero."""
        parts = self.domain.parts
        inside = np.flatnonzero(np.isin(parts, np.unique(parts[rows.indices])))
        _, first = np.unique(parts[inside], return_index=True)
        free = np.delete(inside, first)
        found = np.zeros((rows.shape[0], rows.shape[0]))
        if not free.size:
            return found
        matrix = sparse.csr_array(self.domain.stiffness[free][:, free])
        solve = self.domain.solver(matrix, free)
        used = sparse.csr_array(rows[:, free])
        for start in range(0, rows.shape[0], BLOCK_COLUMNS):
            block = used[start : start + BLOCK_COLUMNS].T.toarray()
            found[:, start : start + block.shape[1]] = used @ solve(block)
        return found


def free_precision(covariance: FloatArray) -> FloatArray:
    """Precision (g, g) of observations with a covariance and a free mean."""
    # Any constant may be added; the largest variance keeps the matrix positive definite.
    inverse = np.linalg.inv(covariance + covariance.diagonal().max())
    sums = inverse.sum(axis=1)
    found: FloatArray = inverse - np.outer(sums, sums) / sums.sum()
    return found


def folds_of(n_groups: int, n_folds: int) -> IntArray:
    """Number of the random fold of each group, (g,); folds are of about equal size."""
    found: IntArray = np.random.default_rng(0).permutation(n_groups) % n_folds
    return found


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
