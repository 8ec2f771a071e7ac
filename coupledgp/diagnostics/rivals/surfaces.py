"""Rivals on the nodes of a graph and the places of a surface or network.

| name | prediction |
|---|---|
| nearest | observations at the nearest observed node or sensor: straight, or along edges |
| harmonic | the solution of `S f = 0` away from the observations |
| position GP | scikit-learn's `GaussianProcessRegressor` of the positions (surfaces) |

On graphs edges have the length 1 / weight. With a matrix A (n, N) that interpolates f (N,) at the
sites and stiff springs W to the observations the harmonic function is that of
`(S + A' W A) f = A' W y`, on the parts of the domain that have any. Standard deviations of nearest
and harmonic are the errors of the same predictions of sites that are left out.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse import csgraph

from coupledgp.core.budget import factor_seconds
from coupledgp.core.left_out import rows_of_groups
from coupledgp.core.problem import RowWeights
from coupledgp.diagnostics.rivals.near import Finder, RowFinder, WayFinder, by_nearest
from coupledgp.diagnostics.rivals.observed import (
    Fitted,
    Kind,
    Observations,
    ObservedUnits,
    Predicted,
)
from coupledgp.errors import NumericalError
from coupledgp.fields.locations import location_positions, location_rows, split_points
from coupledgp.fields.networks import shortest_links
from coupledgp.fields.operator import LaplaceOperator
from coupledgp.graphs import Graph
from coupledgp.graphs.laplacian_power import precision_work
from coupledgp.ground.memory import available_bytes
from coupledgp.linalg.conjugate_gradients import solve_columns
from coupledgp.linalg.sparse_cholesky import SparseFactor, elimination_order
from coupledgp.random import FloatArray, IntArray

# Stiffness of the spring to an observation of weight one, in units of a node's degree; seconds that
# a sparse factor may take, beyond which equations are solved by conjugate gradients.
STIFF, MOST_SECONDS = 1e6, 3.0
# Variance of the noise of harmonic functions on fields, in units of 1 / (median diagonal entry of
# S): without it, more sensors in an element than it has corners would contradict each other.
NUGGET = 1e-6
# Observations from which the position GP is fitted at most, and its hyperparameters are found, and
# restarts of that.
MAX_POSITIONS, SEARCHED, RESTARTS = 2000, 300, 4
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

    def predict(self, queries: sparse.csr_array) -> Predicted:
        """Predictions at places, rows (p, N) that interpolate there.

        The standard deviation is the error of the same predictions of sites left out: of each one,
        or of a tenth of very many.
        """
        units = self.observations.units(np.zeros(len(self.observations), dtype=np.int64))
        mean = queries @ self._through(units, np.arange(len(units)), self.observations.mean)
        n_sites = self.sites.shape[0]
        if n_sites < 2:
            return Predicted(mean)
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
        return Predicted(mean, np.tile(std, (len(mean), 1)))

    def left_out(self, groups: IntArray) -> Predicted:
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
        return Predicted(mean, self.observations.errors_of_others(mean, groups))

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


def node_kind(
    graph: Graph, nodes: IntArray, y: FloatArray, weights: RowWeights | None = None
) -> Kind:
    """Rivals given observations (n, k) at nodes (n,)."""
    distinct, site = np.unique(nodes, return_inverse=True)
    observations = Observations.of(y, site.reshape(-1), weights)
    adjacency = graph.adjacency.tocoo()
    links = adjacency.row != adjacency.col
    parts = (adjacency.data[links], (adjacency.row[links], adjacency.col[links]))
    edges = sparse.csr_array(sparse.coo_array(parts, shape=adjacency.shape))

    def picked(some: IntArray) -> sparse.csr_array:
        """Rows (p, n_nodes) that pick the values at nodes (p,)."""
        ones = (np.ones(len(some)), (np.arange(len(some)), some))
        return sparse.csr_array(ones, shape=(len(some), graph.n_nodes))

    def nearest() -> Fitted:
        lengths = edges.copy()
        lengths.data = lengths.data.mean() / lengths.data if lengths.nnz else lengths.data
        finder = WayFinder(lengths, distinct)
        return by_nearest(observations, finder, lambda some: finder.nearest_to(some).number)

    def harmonic() -> Fitted:
        degrees = edges.sum(axis=1)
        laplacian = sparse.csr_array(sparse.diags_array(degrees) - edges)
        held = np.where(degrees > 0, degrees, 1.0)  # an isolated node has nothing to be held by
        domain = HarmonicDomain(laplacian, STIFF * held, None, _is_factorised(graph))
        found = HarmonicRival(domain, observations, picked(distinct))
        return Fitted(lambda some: found.predict(picked(some)), found.left_out)

    return Kind(observations, {"nearest": nearest, "harmonic": harmonic})


def _is_factorised(graph: Graph) -> bool:
    """Whether a sparse factor of the Laplacian costs little; a factor of an expander fills in."""
    work = precision_work(graph.closed, 1)
    if not np.isfinite(work.flops):
        return False
    return factor_seconds(work.flops) < MOST_SECONDS and work.bytes < available_bytes()


def field_kind(
    operator: LaplaceOperator, rows: FloatArray, y: FloatArray, weights: RowWeights | None = None
) -> Kind:
    """Rivals given observations (n, k) at canonical places (n, 2 (dimension + 1))."""
    places, site = np.unique(rows, axis=0, return_inverse=True)
    observations = Observations.of(y, site.reshape(-1), weights)
    n_vertices = operator.n_vertices

    def positions(some: FloatArray) -> FloatArray:
        assert operator.positions is not None
        return location_positions(some, operator.positions)

    def nearest() -> Fitted:
        finder: Finder
        if operator.dimension == 1:
            links = linked(operator, places)
            finder = WayFinder(links.graph, links.vertices)
        else:
            finder = RowFinder(positions(places))
        return by_nearest(
            observations, finder, lambda some: _nearest_places(operator, places, some)
        )

    def harmonic() -> Fitted:
        diagonal = operator.stiffness.diagonal()
        stiff = float(np.median(diagonal[diagonal > 0])) / NUGGET
        springs = np.full(n_vertices, stiff)
        domain = HarmonicDomain(operator.stiffness, springs, operator.positions, True)
        found = HarmonicRival(domain, observations, location_rows(places, n_vertices))
        return Fitted(lambda some: found.predict(location_rows(some, n_vertices)), found.left_out)

    def position() -> Fitted | str:
        n = len(observations)
        if n < 2 or n > MAX_POSITIONS:
            return f"expected from 2 to {MAX_POSITIONS} observations, got {n}"
        vertices = operator.positions
        assert vertices is not None
        center, extent = vertices.mean(axis=0), operator.extent or 1.0
        gp = PositionGP((positions(places) - center)[observations.site] / extent, observations.y)
        return Fitted(lambda some: gp.predict((positions(some) - center) / extent), gp.left_out)

    makers: dict[str, Callable[[], Fitted | str]] = {"nearest": nearest, "harmonic": harmonic}
    if operator.dimension > 1:
        makers["position GP"] = position
    return Kind(observations, makers)


def _nearest_places(
    operator: LaplaceOperator, sensors: FloatArray, queries: FloatArray
) -> IntArray:
    """Number (p,) of the sensor (g, ...) nearest to each query (p, ...), straight or by network.

    -1 where no sensor is in the query's part of a network.
    """
    if operator.dimension == 1:
        links = linked(operator, np.concatenate([sensors, queries]))
        own, others = np.split(links.vertices, [len(sensors)])
        return WayFinder(links.graph, own).nearest_to(others).number
    assert operator.positions is not None
    ends = (location_positions(places, operator.positions) for places in (sensors, queries))
    rows, wanted = ends
    return RowFinder(rows).nearest_to(wanted).number


class PositionGP:
    """`sqrt(v) Matern-5/2` of positions with noise, one process for each output.

    Parameters
    ----------
    positions
        Positions (n, d) of the observations, about zero and of about unit extent.
    y
        Observations (n, k).
    """

    def __init__(self, positions: FloatArray, y: FloatArray) -> None:
        self.positions, self.y = positions, y
        self.models = [_position_model(positions, column) for column in y.T]

    def predict(self, positions: FloatArray) -> Predicted:
        """Predictions (p, k) at positions (p, d), and standard deviations of observations."""
        laws = [model.predict(positions, return_std=True) for model in self.models]
        mean, std = (np.column_stack(columns) for columns in zip(*laws, strict=True))
        return Predicted(mean, std)

    def left_out(self, groups: IntArray) -> Predicted:
        """Predictions (n, k) of observations from those of other groups (n,), in closed form.

        Hyperparameters, mean and scale are those of all observations.
        """
        members = rows_of_groups(groups)
        mean, std = np.empty_like(self.y), np.empty_like(self.y)
        for k, model in enumerate(self.models):
            column = self.y[:, k]
            inverse = np.linalg.inv(model.kernel_(self.positions))
            pulls = inverse @ (column - column.mean())
            for rows in members:
                covariance = np.linalg.inv(inverse[np.ix_(rows, rows)])
                mean[rows, k] = column[rows] - covariance @ pulls[rows]
                std[rows, k] = _scale(column) * np.sqrt(covariance.diagonal())
        return Predicted(mean, std)


def _position_model(inputs: FloatArray, y: FloatArray) -> Any:
    """A process of inputs (n, d) and y (n,), its hyperparameters found from some of them."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, Matern, WhiteKernel

    kernel = ConstantKernel(1.0, (1e-3, 1e4)) * Matern(0.3, (1e-2, 1e1), nu=2.5) + WhiteKernel(
        1e-2, (1e-6, 1e1)
    )
    chosen = np.random.default_rng(0).permutation(y.size)[:SEARCHED]
    search = GaussianProcessRegressor(
        kernel, normalize_y=True, n_restarts_optimizer=RESTARTS, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        search.fit(inputs[chosen], y[chosen])
    model = GaussianProcessRegressor(search.kernel_, normalize_y=True, optimizer=None)
    return model.fit(inputs, y)


def _scale(y: FloatArray) -> float:
    """Standard deviation that scikit-learn divides y by."""
    return float(np.std(y)) or 1.0
