"""gpytorch's SVGP, the rival of several benchmarks, with rows and scores in standardised units.

As in gpytorch's documentation: Cholesky variational distribution, learned inducing points, ARD
kernel, Adam at rate 0.03, batches of 1024. It is trained for given seconds; its last state counts.
"""

from __future__ import annotations

import time

import gpytorch
import numpy as np
import torch
from sklearn.preprocessing import StandardScaler

import coupledgp as cgp
from data_loaders import uci

BATCH_ROWS, RATE = 1024, 0.03


class VariationalGP(gpytorch.models.ApproximateGP):
    """The peer."""

    def __init__(self, inducing: torch.Tensor):
        distribution = gpytorch.variational.CholeskyVariationalDistribution(len(inducing))
        super().__init__(
            gpytorch.variational.VariationalStrategy(
                self, inducing, distribution, learn_inducing_locations=True
            )
        )
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(
            gpytorch.kernels.RBFKernel(ard_num_dims=inducing.shape[1])
        )
        self.covar_module.base_kernel.lengthscale = inducing.shape[1] ** 0.5

    def forward(self, X: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        """Prior law at X."""
        return gpytorch.distributions.MultivariateNormal(self.mean_module(X), self.covar_module(X))


def split(name: str, seed: int, rows: int, test_rows: int) -> tuple[np.ndarray, ...]:
    """Standardised training and test rows; a fifth of a small table is for testing."""
    data = uci.load() if name == "diabetes" else uci.load(name)
    order = np.random.default_rng(seed).permutation(len(data.y))
    n_train = min(rows, round(0.8 * len(order)))
    train, test = order[:n_train], order[n_train : n_train + test_rows]
    scaler = StandardScaler().fit(data.X[train])
    mean, std = data.y[train].mean(), data.y[train].std()
    return (
        scaler.transform(data.X[train]), (data.y[train] - mean) / std,
        scaler.transform(data.X[test]), (data.y[test] - mean) / std,
    )  # fmt: skip


def scores(y: np.ndarray, mean: np.ndarray, std: np.ndarray, seconds: float) -> dict[str, float]:
    """Figures of Gaussian laws."""
    return {
        "rmse": cgp.diagnostics.rmse(y, mean),
        "nlpd": cgp.diagnostics.nlpd(y, mean, std),
        "coverage": cgp.diagnostics.coverage(y, mean, std)[0.95],
        "seconds": seconds,
    }


def trained_svgp(
    X, y, n_inducing: int, budget: float, seed: int, device: object = "cpu"
) -> tuple[VariationalGP, gpytorch.likelihoods.GaussianLikelihood, int, float]:
    """The peer after `budget` seconds of training, its likelihood, steps and seconds."""
    torch.manual_seed(seed)
    rng = np.random.default_rng(seed)
    inputs, targets = torch.tensor(X, device=device), torch.tensor(y, device=device)
    inducing = inputs[rng.choice(len(X), min(n_inducing, len(X)), replace=False)].clone()
    likelihood = gpytorch.likelihoods.GaussianLikelihood().double().to(device)
    model = VariationalGP(inducing).double().to(device).train()
    objective = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(X))
    optimizer = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=RATE)
    start, steps = time.perf_counter(), 0
    while time.perf_counter() - start < budget:
        chosen = rng.choice(len(X), min(BATCH_ROWS, len(X)), replace=False)
        rows = torch.tensor(chosen, device=device)
        optimizer.zero_grad()
        (-objective(model(inputs[rows]), targets[rows])).backward()
        optimizer.step()
        steps += 1
    seconds = time.perf_counter() - start
    model.eval(), likelihood.eval()
    return model, likelihood, steps, seconds


def fit_svgp(
    X, y, X_test, y_test, n_inducing: int, budget: float, seed: int, device: object = "cpu"
) -> dict[str, float]:
    """Figures of the peer after `budget` seconds of training."""
    model, likelihood, steps, seconds = trained_svgp(X, y, n_inducing, budget, seed, device)
    with torch.no_grad():
        law = likelihood(model(torch.tensor(X_test, device=device)))
    mean, std = law.mean.cpu().numpy(), law.variance.sqrt().cpu().numpy()
    result = scores(y_test, mean, std, seconds)
    return result | {"steps": steps}
