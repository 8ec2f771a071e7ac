"""Operators of walks and series under linear_operator's own contract, against dense matrices."""

import unittest

import numpy as np
import pytest
import torch
from linear_operator.test.linear_operator_test_case import (
    LinearOperatorTestCase,
    RectangularLinearOperatorTestCase,
)

from coupledgp.features import HopPlan, WalkFeatures, plan_hops, sample_walks
from coupledgp.graphs import Graph
from coupledgp.graphs.hops import split_series
from coupledgp.graphs.spectral import chebyshev_coefficients
from coupledgp.kernels import HeatKernel
from coupledgp.kernels.gpytorch.walk_operators import (
    GraphSeriesLinearOperator,
    WalkFeatureLinearOperator,
)
from tests.graph_cases import karate, weighted_graph

# torch warns of sparse tensors that linear_operator's own indexing makes.
pytestmark = pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning")

TERMS = 7


def small_graph() -> Graph:
    """Weighted ring of five nodes with one chord."""
    return Graph.from_edges([0, 1, 2, 3, 4, 0], [1, 2, 3, 4, 0, 2], [1.0, 2.0, 0.5, 1.0, 1.5, 0.7])


def dense_powers(graph: Graph, n_terms: int) -> torch.Tensor:
    """Dense matrices `T_k(W~)`, shape (n_terms, n, n)."""
    matrix = graph.normalized_adjacency.toarray()
    terms = [np.eye(graph.n_nodes), matrix]
    while len(terms) < n_terms:
        terms.append(2 * matrix @ terms[-1] - terms[-2])
    return torch.as_tensor(np.stack(terms[:n_terms]), dtype=torch.get_default_dtype())


class TestGraphSeries(LinearOperatorTestCase, unittest.TestCase):
    seed = 0
    graph = small_graph()

    def create_linear_op(self) -> GraphSeriesLinearOperator:
        # Positive on [-1, 1]: the operator is a covariance.
        c = chebyshev_coefficients(lambda x: 0.2 + np.exp(x), 1e-4)[:TERMS]
        return GraphSeriesLinearOperator(
            torch.tensor(c, dtype=torch.float32, requires_grad=True), graph=self.graph
        )

    def evaluate_linear_op(self, linear_op: GraphSeriesLinearOperator) -> torch.Tensor:
        c = linear_op.coefficients
        return torch.einsum("...k,kij->...ij", c, dense_powers(self.graph, c.shape[-1]).to(c))


class TestGraphSeriesBatch(TestGraphSeries):
    should_test_sample = False

    def create_linear_op(self) -> GraphSeriesLinearOperator:
        rows = [
            chebyshev_coefficients(lambda x, t=t: 0.2 + np.exp(t * x), 1e-4)[:TERMS]
            for t in (0.5, 1.0, 1.5)
        ]
        c = torch.zeros(3, TERMS)
        for k, row in enumerate(rows):
            c[k, : row.size] = torch.as_tensor(row)
        return GraphSeriesLinearOperator(c.requires_grad_(), graph=self.graph)


class TestWalkFeatures(RectangularLinearOperatorTestCase, unittest.TestCase):
    seed = 0
    transposed = False
    batch: tuple[int, ...] = ()

    def create_linear_op(self) -> WalkFeatureLinearOperator:
        graph = weighted_graph()
        walks = sample_walks(graph, 4, 0.3, max_length=4, generator=1)
        plan = plan_hops(graph, HeatKernel(1.0), 4, 3)
        rng = np.random.default_rng(2)
        head, series = rng.standard_normal((*self.batch, 3)), rng.standard_normal((*self.batch, 5))
        positions = rng.integers(0, 14, (*self.batch, 6))
        return WalkFeatureLinearOperator(
            torch.tensor(head, dtype=torch.float32, requires_grad=True),
            torch.tensor(series, dtype=torch.float32, requires_grad=True),
            torch.as_tensor(positions),
            walks=walks,
            plan=plan,
            transposed=self.transposed,
        )

    def evaluate_linear_op(self, linear_op: WalkFeatureLinearOperator) -> torch.Tensor:
        # Features are linear in (head, series): one dense matrix for each coefficient.
        walks, plan = linear_op.walks, linear_op.plan
        unit = np.eye(8)
        parts = [
            WalkFeatures.from_parts(walks, row[:3].copy(), row[3:].copy(), plan).rows()
            for row in unit
        ]
        basis = torch.as_tensor(np.stack(parts), dtype=linear_op.dtype)
        both = torch.cat([linear_op.head, linear_op.series], dim=-1)
        dense = torch.einsum("...k,kij->...ij", both, basis)
        index = linear_op.positions.unsqueeze(-1).expand(*linear_op.positions.shape, 14)
        rows = torch.gather(dense, -2, index)
        return rows.mT if linear_op.transposed else rows


class TestWalkFeaturesTransposed(TestWalkFeatures):
    transposed = True


class TestWalkFeaturesBatch(TestWalkFeatures):
    batch = (3,)


class TestWalkFeaturesManyBatches(TestWalkFeatures):
    batch = (2, 3)


def test_parts_give_the_features_of_the_series() -> None:
    graph, kernel = karate(), HeatKernel(3.0)
    plan: HopPlan = plan_hops(graph, kernel, 8, 4)
    walks = sample_walks(graph, 8, modulation=kernel, generator=0)
    f = kernel.modulation(30)
    whole = WalkFeatures(walks, f, plan)
    head, series = split_series(f, np.array(plan.nodes))
    np.testing.assert_array_equal(
        WalkFeatures.from_parts(walks, head, series, plan).rows(), whole.rows()
    )
    rng = np.random.default_rng(0)
    left, right = rng.standard_normal((34, 3)), rng.standard_normal((34, 3))
    heads, slopes = whole.slopes(left, right)
    # The product is linear in the coefficients.
    total = np.vdot(left, whole.matmat(right))
    assert heads @ head + slopes @ series == pytest.approx(total)
    for k in (0, 1, 5):
        unit = (np.arange(series.size) == k).astype(float)
        part = WalkFeatures.from_parts(walks, np.zeros(4), unit, plan)
        assert slopes[k] == pytest.approx(np.vdot(left, part.matmat(right)), abs=1e-12)
