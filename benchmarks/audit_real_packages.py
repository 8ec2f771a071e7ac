"""Audits of models that other packages fit to the same rows, of those packages that are installed.

    python benchmarks/audit_real_packages.py --data concrete --rows 800 --inducing 50

Each package fits its own hyperparameters, from the same start, to the same rows. The exact process
beside a model is that of its own kernel, so that the KL says how far its approximation is.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.model_selection import cross_val_predict

import coupledgp as cgp
from coupledgp.random import FloatArray
from data_loaders import uci

Rows = tuple[FloatArray, FloatArray, FloatArray, FloatArray]
# Steps of Adam for a variational model.
STEPS, RATE = 800, 0.02


def scikit_learn(rows: Rows, n_inducing: int) -> Iterator[tuple[str, Any]]:
    """An exact process, and boosted trees with the error of cross-validation."""
    X, y, X_test, _ = rows
    kernel = ConstantKernel() * RBF(np.full(X.shape[1], 2.0)) + WhiteKernel(0.1)
    yield "scikit-learn GPR", GaussianProcessRegressor(kernel, random_state=0).fit(X, y)
    trees = HistGradientBoostingRegressor(random_state=0)
    std = np.std(y - cross_val_predict(trees, X, y, cv=5))
    yield "scikit-learn boosted trees", (trees.fit(X, y).predict(X_test), np.full(len(X_test), std))


def gpytorch_models(rows: Rows, n_inducing: int) -> Iterator[tuple[str, Any]]:
    """A sparse variational process, fitted by Adam to all rows at once."""
    import gpytorch

    X, y = (torch.as_tensor(part) for part in rows[:2])

    class Variational(gpytorch.models.ApproximateGP):
        def __init__(self) -> None:
            law = gpytorch.variational.CholeskyVariationalDistribution(n_inducing)
            super().__init__(gpytorch.variational.VariationalStrategy(self, X[:n_inducing], law))
            self.mean_module = gpytorch.means.ConstantMean()
            kernel = gpytorch.kernels.RBFKernel(ard_num_dims=X.shape[1])
            self.covar_module = gpytorch.kernels.ScaleKernel(kernel)

        def forward(self, x: torch.Tensor) -> Any:
            mean, cov = self.mean_module(x), self.covar_module(x)
            return gpytorch.distributions.MultivariateNormal(mean, cov)

    model, likelihood = Variational().double(), gpytorch.likelihoods.GaussianLikelihood().double()
    model.covar_module.base_kernel.lengthscale = 2.0
    likelihood.noise = 0.1
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(y))
    optimizer = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=RATE)
    for _ in range(STEPS):
        optimizer.zero_grad()
        (-bound(model(X), y)).backward()
        optimizer.step()
    yield "gpytorch SVGP", (model, likelihood)


def botorch_models(rows: Rows, n_inducing: int) -> Iterator[tuple[str, Any]]:
    """Its exact process with its own priors of hyperparameters."""
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import SingleTaskGP
    from gpytorch.mlls import ExactMarginalLogLikelihood

    X, y = (torch.as_tensor(part) for part in rows[:2])
    model = SingleTaskGP(X, y[:, None])
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    yield "BoTorch SingleTaskGP", model


def gpflow_models(rows: Rows, n_inducing: int) -> Iterator[tuple[str, Any]]:
    """An exact process, the collapsed bound of Titsias, and a sparse variational process."""
    import gpflow

    X, y = rows[0], rows[1][:, None]

    def kernel() -> Any:
        return gpflow.kernels.SquaredExponential(1.0, np.full(X.shape[1], 2.0))

    def minimised(model: Any, loss: Any) -> Any:
        options = {"maxiter": 300}
        gpflow.optimizers.Scipy().minimize(loss, model.trainable_variables, options=options)
        return model

    exact = gpflow.models.GPR((X, y), kernel(), noise_variance=0.1)
    yield "GPflow GPR", minimised(exact, exact.training_loss)
    collapsed = gpflow.models.SGPR((X, y), kernel(), X[:n_inducing].copy(), noise_variance=0.1)
    yield "GPflow SGPR", minimised(collapsed, collapsed.training_loss)
    likelihood = gpflow.likelihoods.Gaussian(0.1)
    sparse = gpflow.models.SVGP(kernel(), likelihood, X[:n_inducing].copy(), num_data=len(y))
    yield "GPflow SVGP", minimised(sparse, sparse.training_loss_closure((X, y)))


def gpboost_models(rows: Rows, n_inducing: int) -> Iterator[tuple[str, Any]]:
    """An exact process, Vecchia's approximation by 20 neighbours, and inducing points."""
    from gpboost import GPModel

    X, y = rows[:2]
    for text, options in (
        ("exact", {}),
        ("Vecchia", {"gp_approx": "vecchia", "num_neighbors": 20}),
        ("FITC", {"gp_approx": "fitc", "num_ind_points": n_inducing}),
    ):
        model = GPModel(gp_coords=X, cov_function="matern_ard", cov_fct_shape=2.5, **options)
        yield f"GPBoost {text}", model.fit(y=y)


def own_models(rows: Rows, n_inducing: int) -> Iterator[tuple[str, Any]]:
    """The default of this package, with as many frequencies as the others have inducing points."""
    gp = cgp.SparseSpectrumGPRegressor(n_frequencies=n_inducing, random_state=0)
    yield "coupledgp", gp.fit(*rows[:2])


PACKAGES: dict[str, Callable[[Rows, int], Iterator[tuple[str, Any]]]] = {
    "scikit-learn": scikit_learn,
    "gpytorch": gpytorch_models,
    "botorch": botorch_models,
    "gpflow": gpflow_models,
    "gpboost": gpboost_models,
    "coupledgp": own_models,
}


def table(name: str, n_train: int) -> Rows:
    """Training and test rows of a set, drawn at random; all columns of mean 0 and variance 1."""
    data = uci.load(name)
    order = np.random.default_rng(0).permutation(len(data.y))
    X = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
    y = (data.y - data.y.mean()) / data.y.std()
    train, test = order[:n_train], order[n_train:]
    return X[train], y[train], X[test], y[test]


def line(name: str, report: Any, seconds: tuple[float, float]) -> str:
    """One row of the printed table."""
    kl = "" if report.kl_per_point is None else f"{report.kl_per_point:.2g}"
    held = f"{100 * report.coverage[0.95]:.1f} %"
    return (
        f"| {name} | {kl} | {report.rmse:.3f} | {report.nlpd:.3f} | {held} | "
        f"{seconds[0]:.1f} | {seconds[1]:.1f} |"
    )


def main() -> None:
    """Print a table of the audits, and the packages that are not installed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", default="concrete")
    parser.add_argument("--rows", type=int, default=800)
    parser.add_argument("--inducing", type=int, default=50)
    parser.add_argument("--packages", default=",".join(PACKAGES))
    asked = parser.parse_args()
    rows = table(asked.data, asked.rows)
    torch.manual_seed(0)
    print("| model | KL per point | RMSE | NLPD | in 95 % | fit, s | audit, s |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for package in asked.packages.split(","):
        models, start = PACKAGES[package](rows, asked.inducing), time.perf_counter()
        try:
            for name, model in models:
                fitted = time.perf_counter()
                report = cgp.audit(model, *rows, title=name, progress=False)
                done = time.perf_counter()
                print(line(name, report, (fitted - start, done - fitted)), flush=True)
                start = time.perf_counter()
        except ImportError as error:
            print(f"{package} is not installed: {error}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")  # of optimisers that stop at their last step
    main()
