"""An audit of a gpytorch SVGP fitted to many rows: its time and the bounds of its figures.

python benchmarks/audit_large.py --data kin40k --train 36000 --inducing 512 --points 128

Rows are drawn at random; inputs and targets have mean 0 and variance 1.
"""

from __future__ import annotations

import argparse
import time
from typing import Any

import gpytorch
import numpy as np
import torch

import coupledgp as cgp
from coupledgp.diagnostics import StochasticOptions
from data_loaders import uci


class Variational(gpytorch.models.ApproximateGP):
    """A sparse variational process with a Matern-5/2 kernel of one lengthscale for each column."""

    def __init__(self, inducing: torch.Tensor) -> None:
        law = gpytorch.variational.CholeskyVariationalDistribution(len(inducing))
        super().__init__(gpytorch.variational.VariationalStrategy(self, inducing, law))
        self.mean_module = gpytorch.means.ConstantMean()
        kernel = gpytorch.kernels.MaternKernel(nu=2.5, ard_num_dims=inducing.shape[1])
        self.covar_module = gpytorch.kernels.ScaleKernel(kernel)

    def forward(self, x: torch.Tensor) -> Any:
        """Prior law at rows (n, d)."""
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def fitted(X: torch.Tensor, y: torch.Tensor, n_inducing: int, n_epochs: int) -> tuple[Any, Any]:
    """A model and its likelihood, fitted by Adam on minibatches of 1024 rows."""
    generator = torch.Generator().manual_seed(0)
    order = torch.randperm(len(y), generator=generator)
    model = Variational(X[order[:n_inducing]].clone())
    likelihood = gpytorch.likelihoods.GaussianLikelihood()
    parameters = [*model.parameters(), *likelihood.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=0.01)
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(y))
    for _ in range(n_epochs):
        for rows in torch.randperm(len(y), generator=generator).split(1024):
            optimizer.zero_grad()
            (-bound(model(X[rows]), y[rows])).backward()
            optimizer.step()
    return model, likelihood


def main() -> None:
    """Print the figures of the audit, their bounds and the seconds."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="kin40k")
    parser.add_argument("--train", type=int, default=36_000)
    parser.add_argument("--inducing", type=int, default=512)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--points", type=int, default=128)
    parser.add_argument("--output", help="HTML page to write")
    asked = parser.parse_args()
    data = uci.load(asked.data)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(data.y))
    y = (data.y - data.y.mean()) / data.y.std()
    X = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
    train, test = order[: asked.train], order[asked.train :]
    start = time.perf_counter()
    torch.manual_seed(0)
    rows = [torch.as_tensor(part[train], dtype=torch.float32) for part in (X, y)]
    model = fitted(*rows, asked.inducing, asked.epochs)
    print(f"fit: {time.perf_counter() - start:.0f} s", flush=True)
    start, used = time.perf_counter(), time.process_time()
    report = cgp.audit(
        model, X[train], y[train], X[test], y[test],
        exact=StochasticOptions(n_columns=asked.points), title=f"SVGP on {data.name}",
    )  # fmt: skip
    print(f"audit: {time.perf_counter() - start:.0f} s, {time.process_time() - used:.0f} CPU s")
    tables = report.to_frame("distance"), report.to_frame("scores").query("group == ''")
    for table in tables:
        print(table.dropna(axis=1, how="all").to_string(index=False))
    print(report)
    if asked.output:
        report.to_html(asked.output)


if __name__ == "__main__":
    main()
