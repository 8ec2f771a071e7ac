"""The graph kernel of walk features for gpytorch models."""

from __future__ import annotations

import hashlib
from copy import deepcopy
from functools import partial
from typing import Any, Literal, Self

import gpytorch
import numpy as np
from gpytorch.models.exact_prediction_strategies import (
    DefaultPredictionStrategy,
    LinearPredictionStrategy,
)
from linear_operator.operators import (
    LinearOperator,
    LowRankRootLinearOperator,
    MatmulLinearOperator,
    RootLinearOperator,
)

from coupledgp.couplings import WalkerCouplingLike, parse_walker_coupling
from coupledgp.couplings.walkers.registry import LengthLawLike, parse_length_law
from coupledgp.errors import InvalidInputError
from coupledgp.features import HopPlan, Truncation, Walks, plan_hops, sample_walks, walked_series
from coupledgp.graphs import Graph
from coupledgp.graphs.graph import check_graph
from coupledgp.graphs.hops import series_at_scales, split_series
from coupledgp.graphs.walk_lengths import SERIES_TOLERANCE, n_terms_for
from coupledgp.graphs.walk_visits import Expanded, form_of, packed
from coupledgp.ground.tensors import Differentiable, Tensor, torch
from coupledgp.ground.validation import check_positive_int
from coupledgp.kernels.gpytorch.walk_operators import WalkFeatureLinearOperator
from coupledgp.kernels.graph import GraphKernel
from coupledgp.kernels.graph_families import GraphKernelLike, parse_graph_kernel
from coupledgp.random import FloatArray, Seed

# Multiples of the scale that the length law is made for. Training moves the scale and draws no
# walks anew: walks too short for it are ruinous, walks too long cost little.
TRAINING_FACTORS = (0.5, 1.0, 2.0, 4.0)
# Entries of feature rows that are formed at once: 128 MiB.
DENSE_ENTRIES = 2**24
VISIT_NAMES = Expanded._fields


class GraphFeatureKernel(gpytorch.kernels.Kernel):
    """`k(i, j) = Phi_i . Phi_j` from walk features, inputs being node numbers (MATH 9).

    The kernel's parameters theta are trained with the model: gradients pass through the
    modulation coefficients, the walks and the number of hops stay as they are. Wrap it in a
    `ScaleKernel` for the output scale.

    Parameters
    ----------
    graph
        The graph. Isolated nodes are taken with a self-loop (`graph.closed`), as in the models.
    kernel
        Name or `GraphKernel`, at whose parameters training starts, for every member of a batch.
    n_walks, coupling, max_length, generator
        See `features.sample_walks`.
    length_law
        `"matched"` to the walked series at half to four times the kernel's scale, `"geometric"`,
        or others, as in `features.sample_walks`.
    p_halt
        Chance of halting before each step under the geometric law.
    exact_hops
        A number, `"auto"` (see `features.plan_hops`) or a `HopPlan`.
    nodes
        Labels of the nodes that will be asked for; all if left out.
    walks
        Walks sampled before on `graph` as it is. Of the arguments above only `kernel` and
        `exact_hops` are used beside them.
    **kwargs
        Arguments of `gpytorch.kernels.Kernel`: `batch_shape`, `active_dims`.

    Attributes
    ----------
    theta
        Parameters, unconstrained, shape (*batch_shape, n_parameters).
    walks, plan
        The walks and the exact hops. Both are part of the `state_dict`, to the last bit and
        whatever the kernel's dtype. The graph is not, but its fingerprint is, and states of other
        graphs are refused.

    Raises
    ------
    InvalidInputError
        An argument is invalid; inputs are not numbers of walked nodes; a `state_dict` is of
        another graph.

    Notes
    -----
    `Phi` is an operator: a product with n of its rows costs some products with `W~`. With more
    rows than nodes, training and prediction factorise matrices of the number of nodes only.

    Examples
    --------
    >>> import torch
    >>> import coupledgp as cgp
    >>> from coupledgp.kernels import GraphFeatureKernel, dense_kernel
    >>> path = cgp.Graph.from_edges([0, 1, 2], [1, 2, 3])
    >>> kernel = GraphFeatureKernel(path, "heat", n_walks=16, exact_hops=3, generator=0)
    >>> gram = kernel(torch.arange(4.0, dtype=torch.float64)[:, None]).to_dense()
    >>> exact = torch.as_tensor(dense_kernel(path, "heat"))
    >>> bool((gram - exact).abs().max() < 0.01)
    True
    """

    def __init__(
        self,
        graph: Graph,
        kernel: GraphKernelLike = "heat",
        n_walks: int = 32,
        coupling: WalkerCouplingLike = "stratified+systematic",
        length_law: LengthLawLike = "matched",
        p_halt: float = 0.1,
        exact_hops: int | Literal["auto"] | HopPlan = "auto",
        max_length: int | None = None,
        nodes: Any = None,
        generator: Seed = None,
        *,
        walks: Walks | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.graph = check_graph(graph).closed if walks is None else check_graph(graph)
        self.start = parse_graph_kernel(kernel)
        theta = torch.as_tensor(self.start.theta.copy())
        self.register_parameter(
            "theta", torch.nn.Parameter(theta.expand(*self.batch_shape, theta.numel()).clone())
        )
        m = check_positive_int(n_walks, "n_walks") if walks is None else walks.n_walks
        if not isinstance(m, int):
            raise InvalidInputError(
                "walks: expected one number of walkers for all nodes, got a number for each node; "
                "sample_walks(graph, n_walks) with a single number makes such walks"
            )
        plan = (
            exact_hops
            if isinstance(exact_hops, HopPlan)
            else plan_hops(self.graph, self.start, m, exact_hops)
        )
        if walks is None:
            scales = partial(series_at_scales, self.start, plan, TRAINING_FACTORS)
            law = parse_length_law(length_law, p_halt, scales)
            series = walked_series(self.start, plan, SERIES_TOLERANCE)
            walks = sample_walks(
                self.graph,
                n_walks,
                p_halt,
                coupling,
                law,
                max_length,
                nodes,
                generator,
                modulation=series,
            )
        elif not np.array_equal(fingerprint(walks.graph), fingerprint(graph)):
            raise InvalidInputError("walks: expected walks on `graph`, got walks on another one")
        self.coupling = parse_walker_coupling(walks.coupling)
        for name, tensor in as_buffers(walks, plan).items():
            self.register_buffer(name, tensor)
        self._restore()
        self.plan = plan

    def _restore(self) -> None:
        """Make walks and hops of the buffers, whose memory they share."""
        found = {name: getattr(self, name).cpu().numpy() for name in BUFFERS}
        self.plan, self.walks = from_buffers(found, self.graph, self.coupling)
        self._position = np.full(self.graph.n_nodes, -1, dtype=np.int64)
        self._position[self.walks.nodes] = np.arange(self.walks.nodes.size)

    @property
    def graph_kernel(self) -> GraphKernel:
        """The kernel at the present parameters, of the first member of a batch."""
        return self._kernels()[0]

    @property
    def truncation(self) -> Truncation:
        """Part of the walked series that the longest walk neglects, at the present parameters."""
        return self.walks.truncation(walked_series(self.graph_kernel, self.plan, 0.0))

    def _kernels(self) -> list[GraphKernel]:
        rows = self.theta.detach().cpu().double().reshape(-1, self.theta.shape[-1]).numpy()
        return [self.start.with_theta(row) for row in rows]

    def forward(
        self, x1: Tensor, x2: Tensor, diag: bool = False, **params: Any
    ) -> Tensor | LinearOperator:
        """Kernel between node numbers x1 (..., n, 1) and x2 (..., p, 1), or its diagonal."""
        left = self.features(x1)
        if x1.shape == x2.shape and torch.equal(x1, x2):
            if diag:
                return row_products(left, left)
            low_rank = left.shape[-1] < left.shape[-2]
            if low_rank:
                return LowRankRootLinearOperator(left.to_dense())
            return RootLinearOperator(left)
        right = self.features(x2)
        return row_products(left, right) if diag else MatmulLinearOperator(left, right.mT)

    def features(self, x: Tensor) -> WalkFeatureLinearOperator:
        """Rows of `Phi` of node numbers x (..., n, 1), shape (..., n, n_nodes).

        Differentiable in theta. Leading dimensions are those of x and of the kernel's batch,
        broadcast.
        """
        positions = self._positions(x)
        head, series = self._parts()
        batch = torch.Size(np.broadcast_shapes(positions.shape[:-1], self.batch_shape))
        dtype = x.dtype if x.is_floating_point() else self.theta.dtype
        return WalkFeatureLinearOperator(
            head.to(x.device, dtype).expand(*batch, head.shape[-1]),
            series.to(x.device, dtype).expand(*batch, series.shape[-1]),
            positions.expand(*batch, positions.shape[-1]),
            walks=self.walks,
            plan=self.plan,
        )

    def _positions(self, x: Tensor) -> Tensor:
        """Rows of the walks that belong to node numbers x (..., n, 1), shape (..., n)."""
        if x.ndim < 2 or x.shape[-1] != 1:
            raise InvalidInputError(
                f"x: expected node numbers of shape (..., n, 1), got shape {tuple(x.shape)}"
            )
        given = x.detach().squeeze(-1).cpu().double().numpy()
        numbers = np.where(np.isfinite(given), given, -1.0).astype(np.int64)
        inside = (numbers == given) & (numbers >= 0) & (numbers < self.graph.n_nodes)
        if not inside.all():
            bad = ", ".join(f"{value:g}" for value in given[~inside][:3])
            raise InvalidInputError(
                f"x: expected node numbers from 0 to {self.graph.n_nodes - 1}, got {bad} "
                f"({np.count_nonzero(~inside)} such); Graph.index gives the numbers of labels"
            )
        positions = self._position[numbers]
        if (positions < 0).any():
            bad = ", ".join(str(value) for value in np.unique(numbers[positions < 0])[:3])
            raise InvalidInputError(
                f"x: expected nodes that were walked from ({self.walks.nodes.size} of "
                f"{self.graph.n_nodes}), got {bad}; name them in `nodes`"
            )
        return torch.as_tensor(positions, device=x.device)

    def _parts(self) -> tuple[Tensor, Tensor]:
        """Divided differences and walked series, (*batch_shape, r) and (*batch_shape, n)."""
        parts: tuple[Tensor, Tensor] = _SplitSeries.apply(
            self.theta, self._kernels(), np.array(self.plan.nodes)
        )
        return parts

    def prediction_strategy(
        self, train_inputs: Any, train_prior_dist: Any, train_labels: Tensor, likelihood: Any
    ) -> DefaultPredictionStrategy:
        """Strategy in the space of the nodes, if there are fewer of these than rows."""
        operator = train_prior_dist.lazy_covariance_matrix.evaluate_kernel()
        low_rank = isinstance(operator, LowRankRootLinearOperator)
        strategy = LinearPredictionStrategy if low_rank else DefaultPredictionStrategy
        return strategy(train_inputs, train_prior_dist, train_labels, likelihood)

    def __getitem__(self, index: Any) -> Self:
        """The kernel of some members of the batch; they share the walks."""
        if not self.batch_shape:
            return self
        index = index if isinstance(index, tuple) else (index,)
        return self._rebatched(self.theta.data[index])

    def expand_batch(self, *sizes: Any) -> Self:
        """The kernel whose members are repeated to fill a larger batch."""
        shape = torch.Size(sizes if isinstance(sizes[0], int) else sizes[0])
        return self._rebatched(self.theta.data.expand(*shape, self.theta.shape[-1]))

    def _rebatched(self, theta: Tensor) -> Self:
        """A copy with other members; gpytorch's own way would cut the buffers too."""
        other = deepcopy(self)
        other.theta.data = theta
        other._batch_shape = theta.shape[:-1]
        return other

    def _load_from_state_dict(
        self, state_dict: dict[str, Tensor], prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        """Restore walks of any size, on this graph only."""
        stored = {name: state_dict.get(f"{prefix}{name}") for name in BUFFERS}
        complete = {name: tensor for name, tensor in stored.items() if tensor is not None}
        if len(complete) == len(stored):
            if not torch.equal(complete["fingerprint"].cpu(), self.fingerprint.cpu()):
                raise InvalidInputError(
                    f"state_dict: expected walks on this graph ({self.graph!r}), got walks on "
                    "another one; make the kernel with the graph that was used then"
                )
            for name, tensor in complete.items():
                setattr(self, name, torch.empty_like(tensor, device=self.theta.device))
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
        self._restore()


BUFFERS = (*VISIT_NAMES, "start_nodes", "survival_bits", "hop_bits", "scalars", "fingerprint")


def as_buffers(walks: Walks, plan: HopPlan) -> dict[str, Tensor]:
    """Walks and hops as integer tensors, which no change of dtype can round."""
    visits = walks.visits.expanded()
    arrays = {
        **visits._asdict(),
        "steps": visits.steps.view(np.int16),
        "counts": visits.counts.view(np.int32),
        "start_nodes": walks.nodes,
        "survival_bits": walks.survival.view(np.int64),
        "hop_bits": np.array(plan.nodes, dtype=np.float64).view(np.int64),
        "scalars": np.array([walks.n_walks, walks.seed], dtype=np.int64),
        "fingerprint": fingerprint(walks.graph),
    }
    return {name: torch.as_tensor(array.copy()) for name, array in arrays.items()}


def from_buffers(arrays: dict[str, Any], graph: Graph, coupling: Any) -> tuple[HopPlan, Walks]:
    """Plan and walks from the arrays of `as_buffers`; the plan comes without its predictions."""
    hops: FloatArray = arrays["hop_bits"].view(np.float64)
    plan = HopPlan(tuple(hops.tolist()), float("nan"), hops.size * graph.indices.size, "as given")
    unsigned = {"steps": np.uint16, "counts": np.uint32}
    visits = Expanded(
        **{name: arrays[name].view(unsigned.get(name, arrays[name].dtype)) for name in VISIT_NAMES}
    )
    n_walks, seed = arrays["scalars"].tolist()
    survival = arrays["survival_bits"].view(np.float64)
    form = form_of(n_walks, survival.size - 1)
    return plan, Walks(
        graph, arrays["start_nodes"], n_walks, coupling, survival, packed(visits, form), seed
    )


def fingerprint(graph: Graph) -> Any:
    """SHA-256 of the graph's arrays, shape (32,)."""
    digest = hashlib.sha256()
    for array in (graph.indptr, graph.indices, graph.weights):
        digest.update(np.ascontiguousarray(array).tobytes())
    if graph.node_scale is not None:
        digest.update(graph.node_scale.tobytes())
    return np.frombuffer(digest.digest(), dtype=np.uint8)


def row_products(left: LinearOperator, right: LinearOperator) -> Tensor:
    """`sum_k left_ik right_ik`, shape (..., n), some rows at a time."""
    block = max(1, DENSE_ENTRIES // left.shape[-1])
    parts = []
    for start in range(0, left.shape[-2], block):
        rows = slice(start, start + block)
        one = left[..., rows, :].to_dense()
        other = one if right is left else right[..., rows, :].to_dense()
        parts.append((one * other).sum(-1))
    return torch.cat(parts, dim=-1)


class _SplitSeries(Differentiable):
    """Divided differences and walked series as functions of the kernel's parameters."""

    @staticmethod
    def forward(
        ctx: Any, theta: Tensor, kernels: list[GraphKernel], nodes: FloatArray
    ) -> tuple[Tensor, Tensor]:
        n_terms = max(n_terms_for(kernel) for kernel in kernels)
        values = np.stack([kernel.modulation(n_terms) for kernel in kernels])
        slopes = np.stack([kernel.modulation_gradient(n_terms) for kernel in kernels])
        ctx.slopes = [torch.as_tensor(part) for part in split_series(slopes, nodes)]
        batch = theta.shape[:-1]
        head, series = (
            torch.as_tensor(part).reshape(*batch, -1 if part.shape[-1] else 0).to(theta.device)
            for part in split_series(values, nodes)
        )
        return head, series

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        total = torch.zeros(())
        for grad, slopes in zip(grads, ctx.slopes, strict=True):
            flat = grad.reshape(slopes.shape[0], slopes.shape[-1]).to("cpu", slopes.dtype)
            total = total + torch.einsum("bk,bpk->bp", flat, slopes)
        return total.reshape(*grads[1].shape[:-1], -1).to(grads[1].device), None, None
