"""Labels of the sites of a domain and their numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.geometry import LaplaceOperator
from coupledgp.graphs import Graph
from coupledgp.graphs.graph import check_nodes
from coupledgp.inference.space_time.quantity_sites import Quantities
from coupledgp.random import IntArray


class SiteLabels:
    """Labels of nodes of a graph, or of given vertices of an operator, and numbers of sites.

    Parameters
    ----------
    domain
        The graph or operator; or several quantities on it, whose labels are (quantity, node).
    """

    def __init__(self, domain: Graph | LaplaceOperator | Quantities) -> None:
        self.domain = domain

    def numbers(self, labels: Any = None) -> IntArray:
        """Numbers (a,) of the sites of labels; of all sites if left out.

        Raises
        ------
        InvalidInputError
            A label is unknown, or there is none.
        """
        if isinstance(self.domain, Quantities):
            return self._numbers_of_quantities(self.domain, labels)
        if isinstance(self.domain, Graph):
            return check_nodes(self.domain, labels)
        if labels is None:
            vertices = self.domain.given_vertices
            return np.asarray(vertices[vertices >= 0], dtype=np.int64)
        points = self.domain.at_vertices(labels).points
        corners = points.shape[1] // 2
        place = points[:, corners:].argmax(axis=1)
        return points[np.arange(len(points)), place].astype(np.int64)

    def _numbers_of_quantities(self, domain: Quantities, labels: Any) -> IntArray:
        """Numbers (a,) of pairs of a quantity and a node; all, by quantity, if left out."""
        inner, n = SiteLabels(domain.domain), n_sites_of(domain.domain)
        if labels is None:
            nodes = inner.numbers()
            return np.concatenate([nodes + q * n for q in range(len(domain.names))])
        pairs = list(labels)
        for pair in pairs:
            if not isinstance(pair, tuple) or len(pair) != 2 or pair[0] not in domain.names:
                raise InvalidInputError(
                    f"nodes: expected pairs of one of {list(domain.names)} and a node, got {pair!r}"
                )
        numbers = inner.numbers([node for _, node in pairs])
        place = {name: q for q, name in enumerate(domain.names)}
        return np.asarray(numbers + n * np.array([place[name] for name, _ in pairs]))

    def labels(self, numbers: IntArray) -> list[Any]:
        """Labels of sites (a,)."""
        if isinstance(self.domain, Quantities):
            n, quantities = n_sites_of(self.domain.domain), self.domain.names
            found = SiteLabels(self.domain.domain).labels(np.asarray(numbers) % n)
            places = (np.asarray(numbers) // n).tolist()
            return [(quantities[q], label) for q, label in zip(places, found, strict=True)]
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
