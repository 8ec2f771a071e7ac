"""Walk features and exact series as operators of `linear_operator`, differentiable in the series.

gpytorch multiplies with them and never forms them; gradients of its results reach the coefficients,
and through these the kernel's parameters.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import numpy as np
from linear_operator.operators import LinearOperator
from linear_operator.utils.getitem import _is_noop_index

from coupledgp.features import HopPlan, WalkFeatures, Walks
from coupledgp.graphs import Graph
from coupledgp.graphs.spectral import fused_product
from coupledgp.ground.tensors import Differentiable, Tensor, torch
from coupledgp.random import FloatArray


class WalkFeatureLinearOperator(LinearOperator):
    """Rows of `Phi = sum_k a_k prod_j (W~ - x_j) + (sum_t c_t Psi_t) prod_j (W~ - x_j)` (MATH 9).

    Parameters
    ----------
    head
        Divided differences `a`, shape (*batch, r).
    series
        The walked series `c`, shape (*batch, n_terms).
    positions
        Positions (*batch, n) of the rows in `walks.nodes`.
    walks
        The walks.
    plan
        The exact hops.
    transposed
        Whether this is `Phi'` instead.
    """

    def __init__(
        self,
        head: Tensor,
        series: Tensor,
        positions: Tensor,
        *,
        walks: Walks,
        plan: HopPlan,
        transposed: bool = False,
    ) -> None:
        super().__init__(head, series, positions, walks=walks, plan=plan, transposed=transposed)
        self.head, self.series, self.positions = head, series, positions
        self.walks, self.plan, self.transposed = walks, plan, transposed
        self._members: dict[tuple[int, ...], WalkFeatures] = {}

    @property
    def dtype(self) -> torch.dtype:
        """Data type of the coefficients."""
        return self.series.dtype

    @property
    def device(self) -> torch.device:
        """Device of the coefficients."""
        return self.series.device

    def _size(self) -> torch.Size:
        shape = self.positions.shape[-1], self.walks.graph.n_nodes
        return self.positions.shape[:-1] + (shape[::-1] if self.transposed else shape)

    def _transpose_nonbatch(self) -> WalkFeatureLinearOperator:
        return self._like(self.positions, not self.transposed)

    def _like(self, positions: Tensor, transposed: bool) -> WalkFeatureLinearOperator:
        other = WalkFeatureLinearOperator(
            self.head,
            self.series,
            positions,
            walks=self.walks,
            plan=self.plan,
            transposed=transposed,
        )
        other._members = self._members
        return other

    def _matmul(self, rhs: Tensor) -> Tensor:
        if rhs.ndim == 1:
            return self._matmul(rhs.unsqueeze(-1)).squeeze(-1)
        if not self.batch_shape:
            columns = rhs.movedim(-2, 0).reshape(rhs.shape[-2], -1)
            found = self._member_product((), columns)
            shape = (found.shape[0], *rhs.shape[:-2], rhs.shape[-1])
            return found.reshape(shape).movedim(0, -2)
        batch = torch.Size(np.broadcast_shapes(self.batch_shape, rhs.shape[:-2]))
        wide = rhs.expand(*batch, *rhs.shape[-2:])
        parts = []
        for index in product(*map(range, batch)):
            own = index[len(batch) - len(self.batch_shape) :]
            own = tuple(k if n > 1 else 0 for k, n in zip(own, self.batch_shape, strict=True))
            parts.append(self._member_product(own, wide[index]))
        return torch.stack(parts).reshape(*batch, *parts[0].shape)

    def _member_product(self, index: tuple[int, ...], rhs: Tensor) -> Tensor:
        head, series = self.head[index], self.series[index]
        if index not in self._members:
            self._members[index] = WalkFeatures.from_parts(
                self.walks, as_array(head), as_array(series), self.plan
            )
        rows = self.positions[index].cpu().numpy()
        found: Tensor = _WalkProduct.apply(
            head, series, rhs, self._members[index], rows, self.transposed
        )
        return found

    def _getitem(self, row_index: Any, col_index: Any, *batch_indices: Any) -> LinearOperator:
        chosen, other = (col_index, row_index) if self.transposed else (row_index, col_index)
        whole = all(map(_is_noop_index, (other, *batch_indices)))
        if not whole or _is_noop_index(chosen):
            return super()._getitem(row_index, col_index, *batch_indices)
        return self._like(self.positions[..., chosen], self.transposed)

    def _get_indices(self, row_index: Tensor, col_index: Tensor, *batch_indices: Tensor) -> Tensor:
        return self.to_dense()[(*batch_indices, row_index, col_index)]


class GraphSeriesLinearOperator(LinearOperator):
    """A function of `W~` as a Chebyshev series `sum_k c_k T_k(W~)`, (n_nodes, n_nodes) (MATH 8).

    Parameters
    ----------
    coefficients
        `c`, shape (*batch, degree + 1), such as `graphs.spectral.chebyshev_coefficients` of a
        kernel.
    graph
        The graph.
    """

    def __init__(self, coefficients: Tensor, *, graph: Graph) -> None:
        super().__init__(coefficients, graph=graph)
        self.coefficients, self.graph = coefficients, graph

    def _size(self) -> torch.Size:
        n = self.graph.n_nodes
        return torch.Size((*self.coefficients.shape[:-1], n, n))

    def _transpose_nonbatch(self) -> GraphSeriesLinearOperator:
        return self

    def _matmul(self, rhs: Tensor) -> Tensor:
        if rhs.ndim == 1:
            return self._matmul(rhs.unsqueeze(-1)).squeeze(-1)
        batch = torch.Size(np.broadcast_shapes(self.batch_shape, rhs.shape[:-2]))
        if not self.batch_shape:
            columns = rhs.movedim(-2, 0).reshape(rhs.shape[-2], -1)
            found = self._member_product(self.coefficients, columns)
            return found.reshape(rhs.shape[-2], *batch, rhs.shape[-1]).movedim(0, -2)
        wide = rhs.expand(*batch, *rhs.shape[-2:])
        c = self.coefficients.expand(*batch, self.coefficients.shape[-1])
        parts = [
            self._member_product(c[index], wide[index]) for index in product(*map(range, batch))
        ]
        return torch.stack(parts).reshape(*batch, *parts[0].shape)

    def _member_product(self, coefficients: Tensor, rhs: Tensor) -> Tensor:
        found: Tensor = _SeriesProduct.apply(coefficients, rhs, self.graph)
        return found


class _WalkProduct(Differentiable):
    """`Phi[rows] V`, or `Phi[rows]' V`, for V (.., k)."""

    @staticmethod
    def forward(
        ctx: Any,
        head: Tensor,
        series: Tensor,
        rhs: Tensor,
        features: WalkFeatures,
        rows: Any,
        transposed: bool,
    ) -> Tensor:
        ctx.features, ctx.rows, ctx.transposed = features, rows, transposed
        ctx.save_for_backward(head, rhs)
        return like(rhs, _times(features, rows, transposed, as_array(rhs)))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        (grad,) = grads
        head, rhs = ctx.saved_tensors
        left, right = as_array(grad), as_array(rhs)
        back = None
        if ctx.needs_input_grad[2]:
            back = like(rhs, _times(ctx.features, ctx.rows, not ctx.transposed, left))
        if not any(ctx.needs_input_grad[:2]):
            return None, None, back, None, None, None
        if ctx.transposed:
            left, right = right, left
        heads, series = ctx.features.slopes(_scatter(ctx.features, ctx.rows, left), right)
        return like(head, heads), like(head, series), back, None, None, None


class _SeriesProduct(Differentiable):
    """`sum_k c_k T_k(W~) V` for V (n_nodes, k)."""

    @staticmethod
    def forward(ctx: Any, coefficients: Tensor, rhs: Tensor, graph: Graph) -> Tensor:
        ctx.graph = graph
        ctx.save_for_backward(coefficients, rhs)
        return like(rhs, _sum_of_terms(graph, as_array(coefficients), as_array(rhs)))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        coefficients, rhs = ctx.saved_tensors
        left, c = as_array(grads[0]), as_array(coefficients)
        slopes, back = None, None
        if ctx.needs_input_grad[0]:
            terms = chebyshev_terms(ctx.graph, as_array(rhs), c.size)
            slopes = like(coefficients, np.array([np.vdot(left, term) for term in terms]))
        if ctx.needs_input_grad[1]:
            back = like(rhs, _sum_of_terms(ctx.graph, c, left))
        return slopes, back, None


def chebyshev_terms(graph: Graph, V: FloatArray, n_terms: int) -> Iterator[FloatArray]:
    """`T_0(W~) V, T_1(W~) V, ...`, each (n_nodes, k)."""
    before, current = V, V
    for k in range(n_terms):
        if k == 1:
            current = fused_product(graph, V)
        elif k > 1:
            before, current = current, fused_product(graph, current, 2.0, 0.0, -1.0, before)
        yield current


def _sum_of_terms(graph: Graph, c: FloatArray, V: FloatArray) -> FloatArray:
    total = np.zeros_like(V)
    for weight, term in zip(c, chebyshev_terms(graph, V, c.size), strict=True):
        total += weight * term
    return total


def _times(features: WalkFeatures, rows: Any, transposed: bool, V: FloatArray) -> FloatArray:
    if transposed:
        return np.asarray(features.rmatmat(_scatter(features, rows, V)))
    return np.asarray(features.matmat(V))[rows]


def _scatter(features: WalkFeatures, rows: Any, V: FloatArray) -> FloatArray:
    """Rows V (n, k) added up at their places among all walked rows."""
    spread = np.zeros((features.shape[0], V.shape[1]))
    np.add.at(spread, rows, V)
    return spread


def as_array(tensor: Tensor) -> FloatArray:
    """Return a tensor's values as an array of its shape, in float64."""
    return np.ascontiguousarray(tensor.detach().cpu().numpy(), dtype=np.float64)


def like(tensor: Tensor, values: FloatArray) -> Tensor:
    """Return values as a tensor of their shape, with the dtype and device of another one."""
    return torch.as_tensor(values).to(tensor)
