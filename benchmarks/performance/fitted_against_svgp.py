"""Spectra fitted to the evidence, beside sampled ones, gpytorch's SVGP and the exact GP.

Each seed makes one random split; inputs and targets are standardised on the training rows. All
systems run in this process, one after the other, on the same rows and threads:

* sampled: the defaults of `SparseSpectrumGPRegressor`;
* fitted: the same with `frequencies="fitted"`, with the RMSE of its point prediction and the NLPD
  of its mixture;
* SVGP: as in gpytorch's documentation (Cholesky variational distribution, learned inducing points,
  ARD kernel, Adam at rate 0.03, batches of 1024), with M = 2 m inducing points, the number of
  features of a member. It stops after the wall time that `fitted` took; its last state is scored;
* exact: the exact GP, if there are at most `--exact-rows` training rows.

The figures are RMSE, marginal NLPD and coverage of central 95 % intervals, in units of the
standardised target, and the seconds of the fit. On a busy machine only the times of fitted and
SVGP are comparable.

    COUPLEDGP_DATA=... python benchmarks/performance/fitted_against_svgp.py [--rows 2000]
"""

from __future__ import annotations

import argparse
import json
import time

import gpytorch
import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from sklearn.preprocessing import StandardScaler

import coupledgp as cgp
from data_loaders import uci

DATASETS = (
    "kin40k", "protein", "power", "wine", "abalone", "airfoil", "concrete", "boston", "cpu",
    "diabetes",
)  # fmt: skip
SYSTEMS = ("sampled", "fitted", "svgp", "exact")
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


def fit_ours(gp, X, y, X_test, y_test) -> dict[str, float]:
    """Figures of one of our estimators; the NLPD is that of its own density."""
    start = time.perf_counter()
    gp.fit(X, y)
    seconds = time.perf_counter() - start
    result = scores(y_test, *gp.predict(X_test, return_std=True), seconds)
    result["nlpd_gaussian"] = result["nlpd"]
    result["nlpd"] = float(-gp.log_density(X_test, y_test).mean())
    return result


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


def run(name: str, seed: int, options: argparse.Namespace) -> dict[str, dict[str, float]]:
    """Figures of every system on one split."""
    data = X, _, _, _ = split(name, seed, options.rows, options.test_rows)
    ours = {"n_frequencies": options.frequencies, "random_state": seed, "progress": False}
    result = {"sampled": fit_ours(cgp.SparseSpectrumGPRegressor(**ours), *data)}
    result["fitted"] = fit_ours(cgp.SparseSpectrumGPRegressor(frequencies="fitted", **ours), *data)
    budget = result["fitted"]["seconds"]
    result["svgp"] = fit_svgp(*data, 2 * options.frequencies, budget, seed)
    if len(X) <= options.exact_rows:
        result["exact"] = fit_ours(cgp.ExactGPRegressor(random_state=seed, progress=False), *data)
    return result


def add_row(table: Table, name: str, runs: list[dict[str, dict[str, float]]]) -> None:
    """Means over seeds."""
    cells = []
    for system in SYSTEMS:
        if system not in runs[0]:
            cells.append("-")
            continue
        mean = {f: np.mean([r[system][f] for r in runs]) for f in runs[0][system]}
        cells.append(
            f"{mean['rmse']:.3f} {mean['nlpd']:+.3f} {mean['coverage']:.3f} {mean['seconds']:.0f}s"
        )
    nlpd = {s: np.mean([r[s]["nlpd"] for r in runs]) for s in ("sampled", "fitted", "svgp")}
    difference = f"{nlpd['fitted'] - nlpd['sampled']:+.3f} {nlpd['fitted'] - nlpd['svgp']:+.3f}"
    table.add_row(name, *cells, difference)


def main() -> None:
    """Run every set; print one line a set as it ends, and the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2000, help="most training rows")
    parser.add_argument("--test-rows", type=int, default=2000)
    parser.add_argument("--frequencies", type=int, default=100)
    parser.add_argument("--exact-rows", type=int, default=2000)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--datasets", nargs="+", default=DATASETS, choices=DATASETS)
    parser.add_argument("--json")
    options = parser.parse_args()
    table = Table(title="RMSE, NLPD, coverage of 95 %, fit; last: NLPD fitted - sampled, - SVGP")
    for heading in ("set", *SYSTEMS, "fitted -"):
        table.add_column(heading)
    results = {}
    for name in options.datasets:
        results[name] = [run(name, seed, options) for seed in range(options.seeds)]
        add_row(table, name, results[name])
        print(json.dumps({name: results[name]}), flush=True)
    Console(width=150).print(table)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
