"""Fused products against scipy's."""

import numpy as np
import pytest

from coupledgp.graphs import Graph
from coupledgp.graphs import spectral as products
from tests.graph_cases import weighted_graph


@pytest.mark.parametrize("work", [0, 10**9])
def test_fused_product_is_the_sum_of_its_parts(work: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "PARALLEL_WORK", work)
    graph: Graph = weighted_graph()
    V, S = np.random.default_rng(0).standard_normal((2, graph.n_nodes, 3))
    W = graph.normalized_adjacency
    expected = 2.0 * (W @ V) - 0.3 * V + 0.7 * S
    found = products.fused_product(graph, V, 2.0, -0.3, 0.7, S)
    np.testing.assert_allclose(found, expected, atol=1e-14)
    np.testing.assert_allclose(products.fused_product(graph, V), W @ V, atol=1e-14)
