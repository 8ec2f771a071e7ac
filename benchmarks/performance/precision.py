"""Errors of predictive means against sixty digits, by ratio of noise to output scale.

Errors are in exact latent standard deviations, the largest of ten points among, near and far from
the data, and in brackets those of the deviations as shares. `sums` is the plain Cholesky solve of
the Gram matrix (of single products in float32), `now` the model, with `*` where it gives a
PrecisionWarning. `exact` is ExactGPRegressor, beside scikit-learn and gpytorch on the same kernel,
each against the exact law of that kernel. The last lines compare the time of the orthogonal solve
with that of a pass over the same rows.

    python -m benchmarks.performance.precision [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import math
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gpytorch
import mpmath
import numpy as np
import torch
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern

from coupledgp.errors import CoupledGPError, PrecisionWarning
from coupledgp.features import FourierFeatures
from coupledgp.gp.exact import StationaryPrior
from coupledgp.gp.protocol import Data
from coupledgp.gp.units import Units
from coupledgp.gp.weight_space import FeaturePrior
from coupledgp.inference.evidence.problem import Hyperparameters
from coupledgp.inference.weights.posterior import WeightPosterior
from coupledgp.inference.weights.statistics import Moments
from coupledgp.spectra import parse_spectrum
from tests.reference import DIGITS, dense_law, errors, fourier_law

RATIOS = {"float64": [10.0**-p for p in range(2, 15, 2)], "float32": [1e-2, 1e-3, 1e-4, 1e-5, 1e-6]}
KERNELS = ("gaussian", "matern-3/2")
LENGTHSCALE = np.array([1.5, 2.0])
UNITS = Units(np.zeros(1), np.ones(1))
Law = tuple[np.ndarray, np.ndarray]


def told(make: Callable[[], Law]) -> tuple[Law | None, bool]:
    """A law, None where there is none, and whether there was a warning."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            law = make()
        except (CoupledGPError, np.linalg.LinAlgError, RuntimeError):
            return None, True
    return law, any(issubclass(w.category, PrecisionWarning) for w in caught)


def by_sums(prior: FeaturePrior, X: np.ndarray, y: np.ndarray, points: np.ndarray) -> Law:
    """The plain solve: products in the precision of the features, one Cholesky factor."""
    zero, hyper = torch.zeros(1, dtype=torch.float64), prior.hyperparameters
    chunks = [(f.clone(), torch.as_tensor(y[r])) for r, _, f in prior.stream(X)]
    moments = Moments.of(chunks, prior.feature_map.n_features, zero)
    equations = moments.normalized(zero, torch.ones_like(zero))
    posterior = WeightPosterior.from_moments(equations, hyper.outputscale, hyper.noise)
    features = prior.stream(points).dense()
    return posterior.predict(features).numpy(), posterior.root(features).norm(dim=1).numpy()


def by_process(make: Callable[[], Any], points: np.ndarray) -> Law:
    """The law of a process of this package."""
    mean, variance = make().latent_law(points, "variance")
    return mean, np.sqrt(variance)


def by_sklearn(
    kernel: str, X: np.ndarray, y: np.ndarray, points: np.ndarray, v: float, s: float
) -> Law:
    """The law of scikit-learn's regressor."""
    shape = RBF(LENGTHSCALE) if kernel == "gaussian" else Matern(LENGTHSCALE, nu=1.5)
    model = GaussianProcessRegressor(ConstantKernel(v) * shape, alpha=s, optimizer=None)
    mean, std = model.fit(X, y[:, 0]).predict(points, return_std=True)
    return mean[:, None], std


class _Exact(gpytorch.models.ExactGP):
    def __init__(self, X, y, likelihood, kernel: str, v: float) -> None:
        super().__init__(X, y, likelihood)
        self.mean_module = gpytorch.means.ZeroMean()
        base = gpytorch.kernels.RBFKernel if kernel == "gaussian" else gpytorch.kernels.MaternKernel
        options = {} if kernel == "gaussian" else {"nu": 1.5}
        self.covar_module = gpytorch.kernels.ScaleKernel(base(ard_num_dims=2, **options))
        self.covar_module.base_kernel.lengthscale = LENGTHSCALE
        self.covar_module.outputscale = v

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def by_gpytorch(
    kernel: str, X: np.ndarray, y: np.ndarray, points: np.ndarray, v: float, s: float
) -> Law:
    """The law of gpytorch's exact process in double precision."""
    likelihood = gpytorch.likelihoods.GaussianLikelihood(
        noise_constraint=gpytorch.constraints.Positive()
    )
    rows = torch.as_tensor(X), torch.as_tensor(y[:, 0])
    model = _Exact(*rows, likelihood, kernel, v).double().eval()
    model.covar_module.base_kernel.lengthscale = torch.as_tensor(LENGTHSCALE)
    model.covar_module.outputscale = torch.tensor(v, dtype=torch.float64)
    likelihood.noise = torch.tensor(s, dtype=torch.float64)
    with torch.no_grad(), gpytorch.settings.fast_computations(False, False, False):
        law = model(torch.as_tensor(points))
        return law.mean.numpy()[:, None], law.variance.clamp_min(0).sqrt().numpy()


def kernel_matrix(kernel: str, a: np.ndarray, b: np.ndarray, v: float) -> Any:
    """Covariances in sixty digits."""
    with mpmath.workdps(DIGITS):
        scale = [mpmath.mpf(float(u)) for u in LENGTHSCALE]

        def entry(x: np.ndarray, z: np.ndarray) -> Any:
            gaps = [
                (mpmath.mpf(float(p)) - float(q)) / u for p, q, u in zip(x, z, scale, strict=True)
            ]
            square = mpmath.fdot(gaps, gaps)
            if kernel == "gaussian":
                return v * mpmath.exp(-square / 2)
            r = mpmath.sqrt(3 * square)
            return v * (1 + r) * mpmath.exp(-r)

        return mpmath.matrix([[entry(x, z) for z in b] for x in a])


def measure(kernel: str, dtype: str, ratio: float) -> dict[str, Any]:
    """Errors of all solves of one problem."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2))
    y = np.sin(X @ [1, 2])[:, None] + 0.3 * math.sqrt(ratio) * rng.normal(size=(60, 1))
    points = np.concatenate([X[:4], X[4:7] + 0.1, 3 * X[7:9], 20 * X[9:10]])
    v, s = 2.0, 2.0 * ratio
    hyper = Hyperparameters(LENGTHSCALE, v, s)
    spectrum = parse_spectrum(kernel)
    drawn = FourierFeatures(2, 20, spectrum=spectrum, generator=0, dtype=getattr(torch, dtype))
    prior, data = FeaturePrior(drawn, np.zeros(2), hyper), Data.of(X, y)
    means, variances, _ = fourier_law(
        drawn.frequencies.double().numpy(), X, y, points, v, s, LENGTHSCALE, np.zeros(2)
    )
    dense = StationaryPrior(spectrum, hyper)
    grams = [kernel_matrix(kernel, rows, X, v) for rows in (X, points)]
    exact = dense_law(*grams, [mpmath.mpf(v)] * len(points), y, s)
    laws = {
        "sums": (lambda: by_sums(prior, X, y, points), (means, variances)),
        "now": (
            lambda: by_process(lambda: prior.given(data, UNITS, False), points),
            (means, variances),
        ),
        "exact": (lambda: by_process(lambda: dense.given(data, UNITS, False), points), exact),
        "scikit-learn": (lambda: by_sklearn(kernel, X, y, points, v, s), exact),
        "gpytorch": (lambda: by_gpytorch(kernel, X, y, points, v, s), exact),
    }
    result: dict[str, Any] = {"kernel": kernel, "dtype": dtype, "ratio": ratio}
    for name, (make, truth) in laws.items():
        law, warned = told(make)
        found = (math.nan, math.nan) if law is None else errors(*law, *truth, [1.0])
        result |= {name: found[0], f"{name} std": found[1], f"{name} warned": warned}
    return result


def cost(n_rows: int, n_frequencies: int, repeats: int = 5) -> float:
    """Median time of the orthogonal solve over that of a pass of sums and its solve."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 4))
    data = Data.of(X, np.sin(X[:, :1]))
    drawn = FourierFeatures(4, n_frequencies, generator=0)
    prior = FeaturePrior(drawn, np.zeros(4), Hyperparameters(np.ones(4), 1.0, 0.1))
    ratios = []
    for _ in range(repeats):
        start = time.thread_time()
        process = prior.given(data, UNITS, False)
        middle = time.thread_time()
        prior._posterior_of_rows(data, UNITS, process.statistics.rounding(1.0))
        ratios.append((time.thread_time() - middle) / (middle - start))
    return float(np.median(ratios))


def main() -> None:
    """Print one line for each problem."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    names = ("sums", "now", "exact", "scikit-learn", "gpytorch")
    print("errors of means in latent standard deviations (and of deviations, as shares)")
    results = []
    for dtype, ratios in RATIOS.items():
        for kernel in KERNELS:
            for ratio in ratios:
                one = measure(kernel, dtype, ratio)
                results.append(one)
                shown = [
                    f"{name} {one[name]:.0e} ({one[name + ' std']:.0e})"
                    + ("*" if one[f"{name} warned"] else "")
                    for name in names[: 2 if dtype == "float32" else 5]
                ]
                print(f"{dtype} {kernel:10} {ratio:.0e}:", ", ".join(shown), flush=True)
    costs = {f"{n} rows, {2 * m} features": cost(n, m) for n, m in ((20000, 128), (20000, 512))}
    for name, value in costs.items():
        print(f"time of the orthogonal solve over a pass and its solve, {name}: {value:.2f}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"errors": results, "costs": costs}, indent=1))


if __name__ == "__main__":
    main()
