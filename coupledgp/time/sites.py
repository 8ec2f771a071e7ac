"""Sites of any domain of the package: a graph, a mesh, or a network with lengths."""

from __future__ import annotations

from typing import Any

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.geometry import LaplaceOperator
from coupledgp.graphs import Graph
from coupledgp.graphs.forms import MESHES, is_mesh
from coupledgp.graphs.graph import check_nodes
from coupledgp.ground.validation import check_positive
from coupledgp.inference.fields.covariance import FieldCovariance
from coupledgp.kernels import GraphKernel
from coupledgp.kernels.fields import (
    FieldKernel,
    KernelOfField,
    PositionKernel,
    WhittleMatern,
    parse_field_kernels,
)
from coupledgp.kernels.graph.registry import GraphKernelLike, parse_graph_kernel
from coupledgp.random import IntArray
from coupledgp.time.field_sites import FieldSites
from coupledgp.time.graph_sites import SITE_TOLERANCE, GraphSites
from coupledgp.time.site_base import Sites as Sites

# Names of kernels with lengths; on an operator every other name is that of a graph kernel.
FIELD_NAMES = ("matern", "position")


def sites_of(
    domain: Any, kernel: GraphKernelLike | KernelOfField, tolerance: float = SITE_TOLERANCE
) -> Sites:
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
    tolerance
        Largest error of covariances on graphs of thousands of nodes, of the mean variance.

    Raises
    ------
    InvalidInputError
        The domain is none of these, the kernel does not belong to it, or the tolerance is not
        positive.
    """
    tolerance = check_positive(tolerance, "tolerance")
    found = as_domain(domain)
    if isinstance(found, Graph):
        if isinstance(kernel, (WhittleMatern, PositionKernel, FieldKernel)):
            raise InvalidInputError(
                "kernel: expected a graph kernel on a graph, got a kernel with lengths; use a "
                "LaplaceOperator (from_edges, from_networkx) for roads with lengths"
            )
        return GraphSites(found, parse_graph_kernel(kernel), tolerance)
    if isinstance(kernel, GraphKernel) or (isinstance(kernel, str) and kernel not in FIELD_NAMES):
        return _on_operator_graph(found, kernel, tolerance)
    placed = found.positions is not None
    family = parse_field_kernels(kernel, found.dimension, placed, found.n_columns)[0]
    return FieldSites(FieldCovariance(found), family)


def _on_operator_graph(
    operator: LaplaceOperator, kernel: GraphKernelLike, tolerance: float
) -> GraphSites:
    """A graph kernel on the graph of an operator; a named one starts in its unit of time."""
    graph, parsed = operator.as_graph(), parse_graph_kernel(kernel)
    if isinstance(kernel, str):
        parsed = parsed.scaled(graph.time_unit)
    return GraphSites(graph, parsed, tolerance)


def domain_of(sites: Sites) -> Graph | LaplaceOperator:
    """The domain of sites."""
    assert isinstance(sites, (GraphSites, FieldSites))
    return sites.operator if isinstance(sites, FieldSites) else sites.graph


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
