"""The gpytorch kernel of walk features against the features themselves."""

import numpy as np
import pytest
import torch

from coupledgp.features import WalkFeatures, plan_hops, sample_walks
from coupledgp.kernels import HeatKernel
from tests.graph_cases import karate

gpytorch = pytest.importorskip("gpytorch", reason="the extra gpytorch is not installed")
from coupledgp.kernels.graph_feature_kernel import GraphFeatureKernel  # noqa: E402

HEAT = HeatKernel(3.0)


def make() -> tuple[GraphFeatureKernel, np.ndarray]:
    graph = karate()
    plan = plan_hops(graph, HEAT, 8, 3)
    walks = sample_walks(graph, 8, modulation=HEAT, generator=0)
    return GraphFeatureKernel(walks, HEAT, plan), WalkFeatures(walks, HEAT, plan).rows()


def test_kernel_matrix_is_the_gram_of_the_features() -> None:
    kernel, rows = make()
    x1, x2 = torch.tensor([[0.0], [5.0], [33.0]]), torch.tensor([[5.0], [2.0]])
    x1, x2 = x1.double(), x2.double()
    with torch.no_grad():
        cross = kernel(x1, x2).to_dense().numpy()
        own = kernel(x1).to_dense().numpy()
        diagonal = kernel(x1, diag=True).numpy()
    np.testing.assert_allclose(cross, rows[[0, 5, 33]] @ rows[[5, 2]].T, atol=1e-12)
    np.testing.assert_allclose(own, rows[[0, 5, 33]] @ rows[[0, 5, 33]].T, atol=1e-12)
    np.testing.assert_allclose(diagonal, np.diag(own), atol=1e-12)


def test_gradient_is_a_finite_difference() -> None:
    kernel, _ = make()
    x = torch.arange(10, dtype=torch.float64)[:, None]

    def total(theta: torch.Tensor) -> torch.Tensor:
        kernel.theta.data = theta
        return (kernel(x).to_dense() * torch.arange(100.0).reshape(10, 10)).sum()

    theta = kernel.theta.data.clone()
    total(theta).backward()
    step = 1e-6
    slope = ((total(theta + step) - total(theta - step)) / (2 * step)).detach()
    assert kernel.theta.grad is not None
    assert float(kernel.theta.grad[0]) == pytest.approx(float(slope), rel=1e-6)


def test_trains_inside_a_gpytorch_model() -> None:
    kernel, rows = make()
    x = torch.arange(34, dtype=torch.float64)[:, None]
    noise = torch.randn(34, 34, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    y = torch.as_tensor(rows) @ noise[:, 0]

    class Model(gpytorch.models.ExactGP):
        def __init__(self) -> None:
            super().__init__(x, y, gpytorch.likelihoods.GaussianLikelihood())
            self.mean_module = gpytorch.means.ZeroMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(kernel)

        def forward(self, nodes: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(nodes), self.covar_module(nodes)
            )

    model = Model().double()
    model.train()
    mll = gpytorch.mlls.ExactMarginalLogLikelihood(model.likelihood, model)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    losses = []
    for _ in range(15):
        optimizer.zero_grad()
        loss = -mll(model(x), y)
        loss.backward()
        losses.append(float(loss.detach()))
        optimizer.step()
    assert losses[-1] < losses[0]
    assert "covar_module.base_kernel.theta" in model.state_dict()
