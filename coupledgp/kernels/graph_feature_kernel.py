"""The graph kernel of walk features for gpytorch models. Needs the extra `gpytorch`."""

from __future__ import annotations

from typing import Any

import gpytorch
import numpy as np
import torch
from linear_operator.operators import LinearOperator, RootLinearOperator
from torch import Tensor

from coupledgp.features import HopPlan, Walks
from coupledgp.features.hops import split_series
from coupledgp.features.modulation import n_terms_for
from coupledgp.kernels.graph_base import GraphKernel
from coupledgp.kernels.graph_kernels import GraphKernelLike, parse_graph_kernel
from coupledgp.random import FloatArray


class GraphFeatureKernel(gpytorch.kernels.Kernel):
    """`k(i, j) = Phi_i . Phi_j` from walk features, inputs being node numbers (MATH 9).

    The kernel's parameters theta are trained with the model: gradients pass through the
    modulation coefficients, the walks stay as they are. Wrap it in a `ScaleKernel` for the output
    scale.

    Parameters
    ----------
    walks
        Walks of every node that will be asked for.
    kernel
        Name or `GraphKernel` whose parameters are where training starts.
    plan
        Exact hops; none if left out.

    Notes
    -----
    Rows of `Phi` are dense, (n, n_nodes): for graphs of some thousands of nodes. The regressors
    scale further.
    """

    def __init__(
        self,
        walks: Walks,
        kernel: GraphKernelLike = "heat",
        plan: HopPlan | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.walks = walks
        self.start = parse_graph_kernel(kernel)
        self.hop_nodes = np.array(plan.nodes if plan is not None else ())
        self.register_parameter("theta", torch.nn.Parameter(torch.as_tensor(self.start.theta)))
        self._position = {int(node): row for row, node in enumerate(walks.nodes)}

    @property
    def graph_kernel(self) -> GraphKernel:
        """The kernel at the present parameters."""
        return self.start.with_theta(self.theta.detach().cpu().numpy().astype(np.float64))

    def forward(
        self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any
    ) -> Tensor | LinearOperator:
        """Kernel between node numbers x1 (n, 1) and x2 (p, 1), or its diagonal."""
        left = self.features(x1)
        if x1.shape == x2.shape and torch.equal(x1, x2):
            return (left**2).sum(dim=-1) if diag else RootLinearOperator(left)
        right = self.features(x2)
        return (left * right).sum(dim=-1) if diag else left @ right.mT

    def features(self, x: Tensor) -> Tensor:
        """`Phi` of node numbers x (n, 1), shape (n, n_nodes), differentiable in theta."""
        rows = [self._position[int(node)] for node in x.detach().reshape(-1).tolist()]
        out: Tensor = _Rows.apply(self.theta, self, np.array(rows))  # type: ignore[no-untyped-call]
        return out.to(x.dtype) if x.is_floating_point() else out

    def rows_of(self, f: FloatArray, rows: FloatArray) -> FloatArray:
        """Rows of the features of a series f."""
        head, rest = split_series(f, self.hop_nodes)
        matrix = self.walks.graph.normalized_adjacency
        current = self.walks.features(rest)[rows].toarray().T
        places = np.zeros_like(current)
        places[self.walks.nodes[rows], np.arange(rows.size)] = 1.0
        for coefficient, node in zip(head[::-1], self.hop_nodes[::-1], strict=True):
            current = matrix @ current - node * current + coefficient * places
        return np.ascontiguousarray(current.T)


class _Rows(torch.autograd.Function):
    """Rows of walk features as a function of the kernel's parameters."""

    @staticmethod
    def forward(ctx: Any, theta: Tensor, module: GraphFeatureKernel, rows: Any) -> Tensor:
        kernel = module.graph_kernel
        n_terms = n_terms_for(kernel)
        ctx.slopes = [module.rows_of(f, rows) for f in kernel.modulation_gradient(n_terms)]
        values = module.rows_of(kernel.modulation(n_terms), rows)
        return torch.as_tensor(values, device=theta.device)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        (grad,) = grads
        parts = [(grad * torch.as_tensor(slope, device=grad.device)).sum() for slope in ctx.slopes]
        return torch.stack(parts), None, None
