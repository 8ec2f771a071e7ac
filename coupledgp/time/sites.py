"""Covariances between sites: nodes of a graph, or vertices of a mesh or network.

A graph of up to `SPECTRAL_LIMIT` nodes has all its eigenvectors. On larger ones the covariance of
some nodes T is `sum_k c_k T_k(W~)[T, T]`, Chebyshev moments that all parameters of a kernel share.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.special import expit, logit

from coupledgp.errors import InvalidInputError, ModelFileError, NumericalError
from coupledgp.fields import LaplaceOperator
from coupledgp.fields.covariance import FieldCovariance, check_kernel
from coupledgp.fields.locations import at_corners
from coupledgp.graphs import Graph
from coupledgp.graphs.evidence import SPECTRAL_LIMIT
from coupledgp.graphs.graph import check_nodes
from coupledgp.graphs.laplacian_power import SolvePrior, choose_solve
from coupledgp.graphs.priors import GraphPrior, SeriesPrior, SpectralPrior, scaled
from coupledgp.graphs.spectral import DEGREE_LIMIT, ChebyshevColumns, column_blocks, expanded
from coupledgp.ground.codec import stored
from coupledgp.ground.forms import MESHES, is_mesh
from coupledgp.ground.memory import available_bytes, check_memory
from coupledgp.kernels import GraphKernel
from coupledgp.kernels.fields import (
    ALPHAS,
    LEAST_SCALE,
    POSITION_KERNELS,
    RANGES,
    FieldKernel,
    KernelOfField,
    PositionKernel,
    WhittleMatern,
    parse_field_kernels,
)
from coupledgp.kernels.graph_families import GraphKernelLike, parse_graph_kernel
from coupledgp.random import FloatArray, IntArray

# Error of covariances on large graphs, of the kernel's maximum.
TOLERANCE = 1e-11
# Memory of recurrences that are kept to be continued at a higher degree: at most this, and at most
# this share of what is available. Those that are not kept start again, at degrees that grow by the
# factor.
KEPT_BYTES, KEPT_SHARE, REGROWTH = 2.0**31, 0.25, 1.5
# Share of the available memory that moments may take.
MOMENT_SHARE = 0.4
# Range and lengthscale where none is given, and the longest ones of a search, over the diameter.
START_LENGTH, MOST_LENGTH = 0.4, 10.0
# Logits of the share of the surface in a search.
SHARE_BOUNDS = (-6.0, 6.0)
# Names of kernels with lengths; on an operator every other name is that of a graph kernel.
FIELD_NAMES = ("matern", "position")
ADVICE = "ask for fewer nodes at a time"


@dataclass
class _MomentPart:
    """Moments of a block of columns: rows `first:` of `T_k[T, T]`, (degree + 1, rows, columns)."""

    columns: slice
    moments: list[FloatArray] = field(default_factory=list)
    recurrence: ChebyshevColumns | None = None


class SiteMoments:
    """Blocks of functions of `W~` on distinct nodes (p,), from moments extended on demand."""

    def __init__(self, graph: Graph, nodes: IntArray) -> None:
        self.graph, self.nodes = graph, nodes
        self._parts = [_MomentPart(block) for block in column_blocks(graph.n_nodes, nodes.size)]
        self._n_moments = 0
        states = 8.0 * 3 * graph.n_nodes * nodes.size
        self._keeps = states <= min(KEPT_BYTES, KEPT_SHARE * available_bytes())

    def bytes(self, n_moments: int) -> float:
        """Memory of `n_moments` moments and of the arrays that are alive while they are made."""
        p, columns = self.nodes.size, [part.columns for part in self._parts]
        entries = sum((p - s.start) * (s.stop - s.start) for s in columns)
        running = 5.0 * self.graph.n_nodes * max(s.stop - s.start for s in columns)
        kept = 3.0 * self.graph.n_nodes * p if self._keeps else 0.0
        return 8.0 * (n_moments * entries + running + kept)

    def block(self, coefficients: FloatArray) -> FloatArray:
        """`sum_k c_k T_k(W~)[T, T]` (p, p) of coefficients (degree + 1,).

        Raises
        ------
        MemoryLimitError
            The moments do not fit in memory.
        """
        self._extend(coefficients.size)
        p = self.nodes.size
        out = np.empty((p, p))
        for part in self._parts:
            first, last = part.columns.start, part.columns.stop
            stack = np.stack(part.moments[: coefficients.size])
            found = (coefficients @ stack.reshape(len(stack), -1)).reshape(p - first, last - first)
            out[first:, first:last] = found
            out[first:last, first:] = found.T
            # The square on the diagonal was overwritten by its transpose: both halves the same.
            square = found[: last - first]
            out[first:last, first:last] = 0.5 * (square + square.T)
        return out

    def _extend(self, n_moments: int) -> None:
        if n_moments <= self._n_moments:
            return
        if not self._keeps and self._n_moments:
            n_moments = min(max(n_moments, int(REGROWTH * self._n_moments)), DEGREE_LIMIT + 1)
        check_memory(
            self.bytes(n_moments) - self.bytes(self._n_moments),
            f"nodes: {n_moments} Chebyshev moments of {self.nodes.size} sensors",
            "use fewer sensors, or a kernel of a shorter scale",
        )
        for part in self._parts:
            recurrence = part.recurrence
            if recurrence is None:
                chosen = self.nodes[part.columns]
                E = np.zeros((self.graph.n_nodes, chosen.size))
                E[chosen, np.arange(chosen.size)] = 1.0
                recurrence, part.moments = ChebyshevColumns(self.graph, E), []
            rows = self.nodes[part.columns.start :]
            while len(part.moments) < n_moments:
                part.moments.append(recurrence.advance()[rows])
            part.recurrence = recurrence if self._keeps else None
        self._n_moments = n_moments


@stored
@dataclass(frozen=True, eq=False, repr=False)
class GraphSites:
    """Nodes of a graph: `K = S g(W~) S` with the nodes' scales S.

    Isolated nodes have a self-loop, see `Graph.closed`.
    """

    domain: Graph
    kernel: GraphKernel
    shared: list[SiteMoments] = field(default_factory=list, metadata={"stored": False})

    @property
    def n_sites(self) -> int:
        """Number of nodes."""
        return self.domain.n_nodes

    @property
    def theta(self) -> FloatArray:
        """Free parameters of the kernel, logarithms."""
        return self.kernel.theta

    def with_theta(self, theta: FloatArray) -> GraphSites:
        """The same nodes and family of kernels at other parameters."""
        return GraphSites(self.domain, self.kernel.with_theta(theta), self.shared)

    def components(self) -> IntArray:
        """Number (n_sites,) of the component of each node; different ones are independent."""
        return self.domain.components()[1]

    def bounds(self) -> list[tuple[float, float]]:
        """Range of each free parameter in a search."""
        return self.kernel.bounds_on(self.domain)

    def starts(self) -> list[FloatArray]:
        """Parameters at which a search may start, from local to wide kernels."""
        return [kernel.theta for kernel in self.kernel.scan_on(self.domain)]

    @cached_property
    def prior(self) -> GraphPrior:
        """The exact prior by the way that costs least, scales of nodes included."""
        graph = self.domain.closed
        if graph.n_nodes <= SPECTRAL_LIMIT:
            return scaled(SpectralPrior(graph, self.kernel))
        if choose_solve(graph, self.kernel, TOLERANCE).factorise:
            return scaled(SolvePrior(graph, self.kernel))
        return scaled(SeriesPrior(graph, self.kernel, TOLERANCE))

    def gram(self, sites: IntArray) -> FloatArray:
        """`K[sites, sites]` (p, p), symmetric to the bit."""
        nodes, places = np.unique(sites, return_inverse=True)
        check_memory(24.0 * sites.size**2, f"nodes: covariances of {sites.size} nodes", ADVICE)
        found = None
        if self.n_sites > SPECTRAL_LIMIT:
            found = self._moment_gram(nodes)
        if found is None:
            found = self.prior.matrix(nodes, nodes)
            found = 0.5 * (found + found.T)
        return np.asarray(found[np.ix_(places, places)])

    def _moment_gram(self, nodes: IntArray) -> FloatArray | None:
        """`K[nodes, nodes]` (p, p) by moments; None if it needs too many of them."""
        try:
            series = expanded([self.kernel.spectral], [TOLERANCE])[0]
        except NumericalError:
            return None
        if not self.shared or not np.array_equal(self.shared[0].nodes, nodes):
            self.shared[:] = [SiteMoments(self.domain.closed, nodes)]
        moments = self.shared[0]
        if moments.bytes(series.size) > MOMENT_SHARE * available_bytes():
            return None
        found, scale = moments.block(series), self.domain.closed.node_scale
        return found if scale is None else found * np.outer(scale[nodes], scale[nodes])

    def cross(self, a: IntArray, b: IntArray) -> FloatArray:
        """`K[a, b]`."""
        text = f"nodes: covariances of {a.size} with {b.size} nodes"
        check_memory(16.0 * a.size * b.size, text, ADVICE)
        return self.prior.matrix(a, b)

    def diagonal(self, sites: IntArray) -> FloatArray:
        """Variances (p,)."""
        return self.prior.diagonal(sites)


@stored
@dataclass(frozen=True, eq=False, repr=False)
class FieldSites:
    """Vertices of an operator: covariances of a field with lengths in the operator's unit.

    The mean variance over the surface or network, by mass or length, is one.
    """

    covariance: FieldCovariance
    kernel: FieldKernel

    def read_back(self) -> FieldSites:
        """The sites of a file; ModelFileError where they are none."""
        check_kernel(self.kernel, self.domain)
        if self.kernel.surface is not None and self.kernel.surface.alpha is None:
            raise ModelFileError("kernel: expected an alpha, got none")
        return self

    @property
    def domain(self) -> LaplaceOperator:
        """The surface or network."""
        return self.covariance.operator

    @property
    def n_sites(self) -> int:
        """Number of vertices."""
        return self.domain.n_vertices

    @property
    def theta(self) -> FloatArray:
        """Logarithm of range or lengthscale (1,), or both and the logit of the share (3,)."""
        surface, position, share = self.kernel.surface, self.kernel.position, self.kernel.share
        lengths = [
            *([] if surface is None else [surface.range_]),
            *([] if position is None else [position.lengthscale]),
        ]
        found = np.log(np.array(lengths, dtype=np.float64))
        return found if found.size == 1 else np.append(found, logit(share))

    def with_theta(self, theta: FloatArray) -> FieldSites:
        """The same vertices and family of kernels at other parameters."""
        values = theta.tolist()
        surface, position, share = self.kernel.surface, self.kernel.position, self.kernel.share
        if surface is not None:
            surface = replace(surface, range_=float(np.exp(values.pop(0))))
        if position is not None:
            position = replace(position, lengthscale=float(np.exp(values.pop(0))))
        if values:
            share = float(expit(values.pop(0)))
        return FieldSites(self.covariance, FieldKernel(surface, position, share))

    def components(self) -> IntArray:
        """Number (n_sites,) of the component of each vertex; different ones are independent."""
        if self.kernel.surface is None:  # a kernel of positions reaches across
            return np.zeros(self.n_sites, dtype=np.int64)
        return self.domain.components()[1]

    def bounds(self) -> list[tuple[float, float]]:
        """Range of each free parameter in a search."""
        size = self.domain.diameter
        length = (float(np.log(LEAST_SCALE * size)), float(np.log(MOST_LENGTH * size)))
        n_lengths = (self.kernel.surface is not None) + (self.kernel.position is not None)
        return [length] * n_lengths + [SHARE_BOUNDS] * (n_lengths == 2)

    def starts(self) -> list[FloatArray]:
        """Parameters at which a search may start, from local to wide kernels."""
        found = []
        for share in RANGES:
            theta = self.theta
            theta[: 2 if theta.size == 3 else 1] = np.log(share * self.domain.diameter)
            found.append(theta)
        return found

    def gram(self, sites: IntArray) -> FloatArray:
        """`K[sites, sites]` (p, p), symmetric to the bit."""
        return self.covariance.gram(self.kernel, self._points(sites, len(sites)))

    def cross(self, a: IntArray, b: IntArray) -> FloatArray:
        """`K[a, b]`."""
        count = min(len(a), len(b))
        rows, columns = self._points(a, count), self._points(b, count)
        if len(rows) < len(columns):  # columns are solved for from the side with fewer
            return self.covariance.cross(self.kernel, columns, rows).T
        return self.covariance.cross(self.kernel, rows, columns)

    def diagonal(self, sites: IntArray) -> FloatArray:
        """Variances (p,)."""
        return self.covariance.variance(self.kernel, self._points(sites, 1))

    def _points(self, sites: IntArray, n_columns: int) -> FloatArray:
        check_memory(
            32.0 * self.n_sites * n_columns,
            f"nodes: {n_columns} columns of covariances of {self.n_sites} vertices",
            ADVICE,
        )
        return at_corners(sites, self.domain.dimension + 1)


Sites = GraphSites | FieldSites


def started(kernel: FieldKernel, operator: LaplaceOperator) -> FieldKernel:
    """A kernel with starting values in place of free parameters."""
    length, surface, position = START_LENGTH * operator.diameter, kernel.surface, kernel.position
    if surface is not None:
        alpha = surface.alpha or ALPHAS[operator.dimension][0]
        surface = WhittleMatern(surface.range_ or length, alpha)
    if position is not None:
        name = position.kernel or POSITION_KERNELS[0]
        columns = position.columns or ()
        position = PositionKernel(name, position.lengthscale or length, columns)
    return FieldKernel(surface, position, kernel.share or 0.5)


def sites_of(domain: Any, kernel: GraphKernelLike | KernelOfField) -> Sites:
    """Covariances between the nodes of a graph, or the vertices of a mesh or network.

    Parameters
    ----------
    domain
        A `Graph` or networkx graph, whose sites are its nodes; a `LaplaceOperator` or a triangle
        mesh, whose sites are the vertices of the operator (`operator.given_vertices` has the given
        ones).
    kernel
        On a graph a graph kernel or its name. On an operator `"matern"` (Whittle-Matern, with a
        range in units of length), `"position"`, a kernel of fields, or a graph kernel or the name
        of another one: that is a function of the operator, on `operator.as_graph()`.

    Raises
    ------
    InvalidInputError
        The domain is none of these, or the kernel does not belong to it.
    """
    found = as_domain(domain)
    if isinstance(found, Graph):
        if isinstance(kernel, (WhittleMatern, PositionKernel, FieldKernel)):
            raise InvalidInputError(
                "kernel: expected a graph kernel on a graph, got a kernel with lengths; use a "
                "LaplaceOperator (from_edges, from_networkx) for roads with lengths"
            )
        return GraphSites(found, parse_graph_kernel(kernel))
    if isinstance(kernel, GraphKernel) or (isinstance(kernel, str) and kernel not in FIELD_NAMES):
        # A named one starts in the operator's unit of time.
        graph, parsed = found.as_graph(), parse_graph_kernel(kernel)
        named = isinstance(kernel, str)
        return GraphSites(graph, parsed.scaled(graph.time_unit) if named else parsed)
    placed = found.positions is not None
    family = parse_field_kernels(kernel, found.dimension, placed, found.n_columns)[0]
    return FieldSites(FieldCovariance(found), started(family, found))


def as_domain(domain: Any) -> Graph | LaplaceOperator:
    """A graph or an operator, from a graph, an operator, a networkx graph or a triangle mesh.

    Raises
    ------
    InvalidInputError
        The domain is neither.
    """
    if isinstance(domain, (Graph, LaplaceOperator)):
        return domain
    if is_mesh(domain):
        return LaplaceOperator.from_trimesh(domain, max_edge="auto")
    if hasattr(domain, "nodes") and hasattr(domain, "edges"):
        return Graph.from_networkx(domain)
    raise InvalidInputError(
        "graph: expected a coupledgp.Graph, a networkx graph, a coupledgp.LaplaceOperator or "
        f"{MESHES}, got {type(domain).__name__}"
    )


class SiteLabels:
    """Labels of nodes of a graph, or of given vertices of an operator, and numbers of sites.

    Parameters
    ----------
    domain
        The graph or operator.
    """

    def __init__(self, domain: Graph | LaplaceOperator) -> None:
        self.domain = domain

    def numbers(self, labels: Any = None) -> IntArray:
        """Numbers (a,) of the sites of labels; of all sites if left out.

        Raises
        ------
        InvalidInputError
            A label is unknown, or there is none.
        """
        if isinstance(self.domain, Graph):
            return check_nodes(self.domain, labels)
        if labels is None:
            vertices = self.domain.given_vertices
            return np.asarray(vertices[vertices >= 0], dtype=np.int64)
        points = self.domain.at_vertices(labels).points
        corners = points.shape[1] // 2
        place = points[:, corners:].argmax(axis=1)
        return points[np.arange(len(points)), place].astype(np.int64)

    def labels(self, numbers: IntArray) -> list[Any]:
        """Labels of sites (a,)."""
        if isinstance(self.domain, Graph):
            return list(self.domain.label_all(numbers))
        given = self.domain.given_vertices
        place = {int(vertex): k for k, vertex in enumerate(given) if vertex >= 0}
        names = self.domain.labels
        found = [place[int(number)] for number in numbers]
        return found if names is None else [names[k] for k in found]
