"""Exact posteriors by iteration, beside a Cholesky factor, GPyTorch and the models they check.

A function of `--columns` columns under a Matern-3/2 kernel, with known hyperparameters. For each
number of rows a line of JSON for each system: CPU seconds of the mean, of 256 standard deviations
after it, RMSE of f and NLPD of y at 256 new rows, the largest differences from the iterated law in
units of its deviations, and the peak of memory. `--gpytorch` runs GPyTorch's conjugate gradients.

    python benchmarks/performance/iterated.py --rows 2000 5000 10000 20000
"""

from __future__ import annotations

import argparse
import json
import resource
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import coupledgp as cgp
from coupledgp.core.dense_system import StationarySystem
from coupledgp.core.problem import Hyperparameters
from coupledgp.linalg.system import SystemOptions
from coupledgp.spectra import parse_spectrum

Law = tuple[np.ndarray, np.ndarray]
NOISE, N_NEW = 0.05, 256


class Problem:
    """Rows of a drawn function with known hyperparameters.

    Parameters
    ----------
    rows, columns
        Numbers of rows and columns.
    seed
        Of the rows and the function.
    """

    def __init__(self, rows: int, columns: int, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self.X = rng.normal(size=(rows + N_NEW, columns))
        self.lengthscale = 2.0 * np.sqrt(columns)
        # Frequencies of a Matern-3/2 kernel have Student's law of three degrees of freedom.
        normal = rng.normal(size=(columns, 4096))
        waves = normal * np.sqrt(3.0 / rng.chisquare(3, size=4096))
        phases = self.X @ (waves / self.lengthscale)
        weights = rng.normal(size=(2, 4096)) / np.sqrt(4096)
        f = np.cos(phases) @ weights[0] + np.sin(phases) @ weights[1]
        self.f = f
        self.y = f + np.sqrt(NOISE) * rng.normal(size=len(f))
        self.n = rows

    @property
    def given(self) -> dict[str, Any]:
        """Hyperparameters, and the normalisation that keeps them."""
        return {
            "lengthscale": self.lengthscale, "outputscale": 1.0, "noise": NOISE,
            "optimizer": None, "normalize_y": False,
        }  # fmt: skip

    @property
    def new(self) -> np.ndarray:
        """New rows."""
        return self.X[self.n :]

    def fitted(self, model: Any) -> Any:
        """The model fitted to the rows."""
        return model.fit(self.X[: self.n], self.y[: self.n])


def exact(problem: Problem, solver: str) -> tuple[Law, float, float]:
    """Law of f at new rows, CPU seconds of the mean and of deviations after it."""
    start = time.process_time()
    model = problem.fitted(
        cgp.ExactGPRegressor("matern-3/2", solver=solver, progress=False, **problem.given)
    )
    model.predict(problem.new)
    middle = time.process_time()
    law = model.predict(problem.new, return_std=True, latent=True)
    return law, middle - start, time.process_time() - middle


def ours(problem: Problem, model: Any) -> tuple[Law, float, float]:
    """Law of f of a model of ours, with its own hyperparameters where it takes none."""
    start = time.process_time()
    law = problem.fitted(model).predict(problem.new, return_std=True, latent=True)
    return law, time.process_time() - start, 0.0


def gpytorch(problem: Problem) -> tuple[Law, float, float]:
    """Law of f by GPyTorch's conjugate gradients, at the same hyperparameters."""
    import gpytorch as peer

    X, y = (torch.as_tensor(part[: problem.n]).float() for part in (problem.X, problem.y))

    class Model(peer.models.ExactGP):
        def __init__(self) -> None:
            likelihood = peer.likelihoods.GaussianLikelihood()
            likelihood.noise = NOISE
            super().__init__(X, y, likelihood)
            self.mean_module = peer.means.ZeroMean()
            self.covar_module = peer.kernels.MaternKernel(nu=1.5)
            self.covar_module.lengthscale = problem.lengthscale

        def forward(self, x: Any) -> Any:
            return peer.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

    start = time.process_time()
    model = Model().eval()
    settings = peer.settings
    with (
        torch.no_grad(), settings.max_cholesky_size(0), settings.eval_cg_tolerance(1e-4),
        settings.max_cg_iterations(1000), settings.max_preconditioner_size(100),
    ):  # fmt: skip
        law = model(torch.as_tensor(problem.new).float())
        mean, variance = law.mean.double().numpy(), law.variance.clamp_min(0).double().numpy()
    return (mean, np.sqrt(variance)), time.process_time() - start, 0.0


def products(problem: Problem) -> None:
    """Print CPU nanoseconds an entry of products with the covariance, by precision and columns."""
    X = problem.X[: problem.n]
    scales = Hyperparameters(np.full(X.shape[1], problem.lengthscale), 1.0, NOISE)
    spectrum, targets = parse_spectrum("matern-3/2"), np.zeros((problem.n, 1))
    system = StationarySystem(spectrum, scales, X, targets, None, SystemOptions())
    for dtype in (torch.float32, torch.float64):
        for columns in (1, 17):
            right = torch.ones(problem.n, columns, dtype=dtype)
            start = time.process_time()
            system.product(right)
            spent = 1e9 * (time.process_time() - start) / problem.n**2
            print(f"{problem.n} rows, {dtype}, {columns} columns: {spent:.1f} ns", flush=True)


def main() -> None:
    """Print a line for each system and number of rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[2000, 5000, 10_000])
    parser.add_argument("--columns", type=int, default=8)
    parser.add_argument("--dense-up-to", type=int, default=10_000)
    parser.add_argument("--gpytorch-up-to", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--products", action="store_true", help="time products alone")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.products:
        for rows in options.rows:
            products(Problem(rows, options.columns, options.seed))
        return
    for rows in options.rows:
        problem = Problem(rows, options.columns, options.seed)
        sparse = cgp.SparseSpectrumGPRegressor(
            "matern-3/2", n_frequencies=512, random_state=0, progress=False, **problem.given
        )
        local = cgp.LocalGPRegressor("matern-3/2", 0, random_state=0, progress=False)
        systems: dict[str, Callable[[], tuple[Law, float, float]]] = {
            "exact, iterative": lambda p=problem: exact(p, "iterative"),
            "exact, dense": lambda p=problem: exact(p, "dense"),
            "GPyTorch, conjugate gradients": lambda p=problem: gpytorch(p),
            "sparse spectrum, 512": lambda p=problem, m=sparse: ours(p, m),
            "local, own hyperparameters": lambda p=problem, m=local: ours(p, m),
        }
        reference: Law | None = None
        for name, call in systems.items():
            if (name == "exact, dense" and rows > options.dense_up_to) or (
                name.startswith("GPyTorch") and rows > options.gpytorch_up_to
            ):
                continue
            (mean, std), first, second = call()
            reference = reference or (mean, std)
            spread, target = std**2 + NOISE, problem.y[rows:]
            nlpd = 0.5 * np.mean(np.log(2 * np.pi * spread) + (target - mean) ** 2 / spread)
            figures = {
                "rows": rows, "system": name, "mean_s": first, "std_s": second,
                "rmse": np.sqrt(np.mean((mean - problem.f[rows:]) ** 2)), "nlpd": nlpd,
                "mean_off": np.abs((mean - reference[0]) / reference[1]).max(),
                "std_off": np.abs(std / reference[1] - 1).max(),
                "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
            }  # fmt: skip
            print(
                json.dumps(
                    {k: v if isinstance(v, str) else float(f"{v:.4g}") for k, v in figures.items()}
                ),
                flush=True,
            )


if __name__ == "__main__":
    main()
