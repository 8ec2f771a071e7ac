"""Labels of the sites of a domain and their numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from coupledgp.geometry import LaplaceOperator
from coupledgp.graphs import Graph
from coupledgp.graphs.graph import check_nodes
from coupledgp.random import IntArray


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


def n_sites_of(domain: Graph | LaplaceOperator) -> int:
    """Number of sites of a graph or operator."""
    return domain.n_nodes if isinstance(domain, Graph) else domain.n_vertices
