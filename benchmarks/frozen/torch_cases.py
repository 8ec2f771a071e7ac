"""Cases of the gpytorch kernels and linear attention."""

from __future__ import annotations

from typing import Any

import gpytorch
import numpy as np
import torch

import coupledgp as cgp
from coupledgp.attention import CoupledAttention, attend, attention_loss, causal_attention
from frozen.cases import X_NEW, Figures, X, Y, case
from frozen.graph_cases import grid, split, values

INPUTS, OUTCOMES, POINTS = (torch.as_tensor(array) for array in (X, Y, X_NEW))


class KernelGP(gpytorch.models.ExactGP):
    """Exact GP of gpytorch with a kernel of this package."""

    def __init__(self, inputs: Any, y: Any, kernel: Any) -> None:
        super().__init__(inputs, y, gpytorch.likelihoods.GaussianLikelihood().double())
        self.mean_module = gpytorch.means.ConstantMean().double()
        self.covar_module = gpytorch.kernels.ScaleKernel(kernel).double()

    def forward(self, inputs: torch.Tensor) -> Any:
        """Prior law at inputs (n, d)."""
        return gpytorch.distributions.MultivariateNormal(
            self.mean_module(inputs), self.covar_module(inputs)
        )


def gpytorch_law(
    kernel: Any, inputs: torch.Tensor, y: torch.Tensor, points: torch.Tensor
) -> Figures:
    """Loss, its gradients and the predictive law of a gpytorch model, and the kernel's matrix."""
    model = KernelGP(inputs, y, kernel)
    model.train()
    loss = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)(model(inputs), y)
    loss.backward()
    gradients = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
    model.eval()
    with torch.no_grad():
        law = model(points)
        return {
            "gram": kernel(points[:9], inputs[:7]).to_dense().numpy(),
            "loss": float(loss),
            "gradients": torch.cat(gradients).numpy(),
            "mean": law.mean.numpy(),
            "std": law.variance.sqrt().numpy(),
            "covariance": law.covariance_matrix.numpy(),
        }


def feature_kernel(name: str, m: int, **settings: Any) -> Figures:
    """Fourier or Laplace kernel."""
    kernel = getattr(cgp.kernels, name)(m, ard_num_dims=3, generator=5, **settings).double()
    kernel.lengthscale = torch.tensor([[1.4, 0.9, 2.2]]).double()
    return gpytorch_law(kernel, INPUTS, OUTCOMES[:, 0], POINTS)


def walk_kernel(**settings: Any) -> Figures:
    """Kernel of walk features on a grid."""
    graph = grid(10)
    seen, hidden = split(graph.n_nodes, 60)
    kernel = cgp.kernels.GraphFeatureKernel(graph, generator=3, **settings).double()
    nodes = [torch.as_tensor(part, dtype=torch.float64)[:, None] for part in (seen, hidden)]
    return gpytorch_law(kernel, nodes[0], torch.as_tensor(values(100)[seen, 0]), nodes[1])


def attention(**settings: Any) -> Figures:
    """Output of a layer, causal and not, and its gradient."""
    torch.manual_seed(0)
    layer = CoupledAttention(16, 2, batch_first=True, generator=0, dtype=torch.float64, **settings)
    tokens = torch.as_tensor(np.random.default_rng(3).normal(size=(2, 20, 16)))
    out, _ = layer(tokens, tokens, tokens)
    out.square().sum().backward()
    gradient = layer.out_proj.weight.grad
    with torch.no_grad():
        causal, _ = layer(tokens, tokens, tokens, is_causal=True)
        layer.redraw(1)
        again, _ = layer(tokens, tokens, tokens)
    return {
        "out": out.detach().numpy(),
        "causal": causal.numpy(),
        "redrawn": again.numpy(),
        "gradient": gradient.numpy(),
    }


def linear_attention() -> Figures:
    """The functions behind the layer."""
    features = cgp.features.ComplexExponentialFeatures(3, 16, generator=0)
    with torch.no_grad():
        queries, keys = features.log_queries(INPUTS), features.log_keys(INPUTS)
        frequencies = torch.as_tensor(np.random.default_rng(2).normal(size=(12, 3)))
        return {
            "attend": attend(queries, keys, OUTCOMES).numpy(),
            "causal": causal_attention(queries, keys, OUTCOMES).numpy(),
            "loss": float(attention_loss(X, X_NEW)(frequencies)),
        }


case("gpytorch fourier", feature_kernel, "FourierFeatureKernel", 12)
case("gpytorch fourier wide", feature_kernel, "FourierFeatureKernel", 128)
case("gpytorch laplace", feature_kernel, "LaplaceFeatureKernel", 24)
case(
    "gpytorch matern",
    lambda: feature_kernel("FourierFeatureKernel", 12, spectrum="matern-3/2", coupling="simplex"),
)
case("gpytorch walks", walk_kernel)
case("gpytorch walks matern", lambda: walk_kernel(kernel="matern", exact_hops=2, coupling="sigma"))
case("gpytorch walks geometric", lambda: walk_kernel(length_law="geometric", exact_hops=0))
case("attention", attention)
case("attention simplex", lambda: attention(coupling="simplex+monotone", n_frequencies=32))
case("attention functions", linear_attention)
