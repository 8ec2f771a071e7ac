"""Chebyshev series of `W~` on a GPU, by products with a sparse matrix of torch."""

from __future__ import annotations

import warnings

from coupledgp.graphs import Graph
from coupledgp.ground.devices import check_device_memory
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.random import FloatArray

# Blocks of as many numbers as there are nodes and columns that are alive at once.
BLOCKS = 6


class DeviceSeries:
    """`sum_k c_k T_k(W~) V` of a graph on a device.

    Parameters
    ----------
    graph
        The graph.
    coefficients
        Coefficients c (degree + 1,).
    device
        The device; the matrix stays there.

    Raises
    ------
    MemoryLimitError
        The matrix does not fit there.
    """

    def __init__(self, graph: Graph, coefficients: FloatArray, device: torch.device) -> None:
        own = graph.normalized_adjacency
        self._check(device, 16.0 * own.nnz, own.shape[0])
        self.coefficients, self.device = coefficients.tolist(), device
        indptr, indices, data = (
            torch.tensor(a, device=device) for a in (own.indptr, own.indices, own.data)
        )
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta", UserWarning)
            self.matrix = torch.sparse_csr_tensor(
                indptr, indices, data, own.shape, device=device, check_invariants=False
            )

    @staticmethod
    def _check(device: torch.device, n_bytes: float, n_nodes: int) -> None:
        what = f"graph: products of {n_nodes} nodes"
        check_device_memory(device, n_bytes, what, "take device=None, which is the CPU")

    def product(self, V: FloatArray) -> FloatArray:
        """The series times V (n_nodes, k)."""
        self._check(self.device, 8.0 * BLOCKS * V.size, V.shape[0])
        before = torch.tensor(V, device=self.device)
        total = self.coefficients[0] * before
        if len(self.coefficients) > 1:
            current: Tensor = self.matrix @ before
            total += self.coefficients[1] * current
            for c in self.coefficients[2:]:
                before, current = current, 2.0 * (self.matrix @ current) - before
                total += c * current
        found: FloatArray = total.cpu().numpy()
        return found
