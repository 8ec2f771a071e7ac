"""Evidence and fit of a sparse-spectrum GP on kin40k, against gpytorch's `RFFKernel`.

Both run in this process on the same rows, with the same number of frequencies and one lengthscale
for each dimension. gpytorch's model is the one in its documentation: ScaleKernel(RFFKernel), a
constant mean, ExactMarginalLogLikelihood. One evaluation is the evidence and its gradient in all
hyperparameters. Evaluations alternate, so that a busy machine slows both alike; medians are given.

    COUPLEDGP_DATA=... python benchmarks/performance/kin40k_against_gpytorch.py [--no-fit]
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable

import gpytorch
import numpy as np
import torch

import coupledgp as cgp
from coupledgp.core.weights_evidence import FeatureEvidence
from coupledgp.core.weights_posterior import FeatureStream
from data_loaders import uci

N_TRAIN, N_FREQUENCIES = 36_000, 512
ADAM_RATE = 0.1


class RandomFeatureGP(gpytorch.models.ExactGP):
    """The peer."""

    def __init__(
        self,
        X: torch.Tensor,
        y: torch.Tensor,
        likelihood: gpytorch.likelihoods.Likelihood,
        n_frequencies: int = N_FREQUENCIES,
    ):
        super().__init__(X, y, likelihood)
        dim = X.shape[1]
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(
            gpytorch.kernels.RFFKernel(n_frequencies, num_dims=dim, ard_num_dims=dim)
        )

    def forward(self, X: torch.Tensor) -> gpytorch.distributions.MultivariateNormal:
        """Prior law at X."""
        return gpytorch.distributions.MultivariateNormal(self.mean_module(X), self.covar_module(X))


def make_peer(
    X: np.ndarray,
    y: np.ndarray,
    dtype: torch.dtype,
    n_frequencies: int = N_FREQUENCIES,
    device: torch.device | str = "cpu",
):
    """Return the peer's model, likelihood and training objective on normalised data."""
    torch.manual_seed(0)
    inputs, targets = (torch.as_tensor(a).to(device, dtype) for a in (X, y))
    likelihood = gpytorch.likelihoods.GaussianLikelihood().to(device, dtype)
    model = RandomFeatureGP(inputs, targets, likelihood, n_frequencies).to(device, dtype)
    model.train()
    objective = gpytorch.mlls.ExactMarginalLogLikelihood(likelihood, model)

    def evaluate() -> torch.Tensor:
        model.zero_grad()
        loss = -objective(model(inputs), targets)
        loss.backward()
        return loss

    return model, likelihood, evaluate


def make_ours(X: np.ndarray, y: np.ndarray, dtype: torch.dtype) -> Callable[[], object]:
    """Return one evaluation of our evidence with its gradient, as the optimizer makes it.

    Eigendecomposition, profile over outputscale and noise, gradient in the lengthscales.
    """
    from coupledgp.core.search import TableObjective
    from coupledgp.core.starts import SearchSpace

    features = cgp.features.FourierFeatures(
        X.shape[1], N_FREQUENCIES, "orthogonal+pnc", generator=0, dtype=dtype
    )
    ones = np.ones(X.shape[1])
    problem = FeatureEvidence(FeatureStream(features, X, X.mean(0), ones), y[:, None])
    space = SearchSpace(np.sqrt(X.shape[1]) * ones, ard=True)
    objective = TableObjective(problem, space, joint=False)
    return lambda: objective.value_and_gradient(np.zeros(X.shape[1]))


def seconds(call: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def time_evaluations(X: np.ndarray, y: np.ndarray, dtype: torch.dtype, repeats: int) -> dict:
    """Median seconds of one evaluation of each, alternating."""
    ours = make_ours(X, y, dtype)
    _, _, peer = make_peer(X, y, dtype)
    ours(), peer()  # the first calls allocate
    pairs = [(seconds(ours), seconds(peer)) for _ in range(repeats)]
    a, b = np.median(np.array(pairs), axis=0)
    return {"ours_s": a, "gpytorch_s": b, "ratio": b / a}


def scores(y: np.ndarray, mean: np.ndarray, std: np.ndarray) -> dict:
    """Held-out RMSE and marginal NLPD, and coverage of 95 % intervals."""
    return {
        "rmse": cgp.diagnostics.rmse(y, mean),
        "nlpd": cgp.diagnostics.nlpd(y, mean, std),
        "coverage_95": cgp.diagnostics.coverage(y, mean, std)[0.95],
    }


def fit_ours(
    X: np.ndarray, y: np.ndarray, X_test: np.ndarray, y_test: np.ndarray, dtype: str
) -> dict:
    """Whole fit with the defaults, and its held-out scores."""
    gp = cgp.SparseSpectrumGPRegressor(
        n_frequencies=N_FREQUENCIES, options={"dtype": dtype}, random_state=0, progress=False
    )
    elapsed = seconds(lambda: gp.fit(X, y))
    mean, std = gp.predict(X_test, return_std=True)
    return {"fit_s": elapsed, "evaluations": gp.n_evaluations_, **scores(y_test, mean, std)}


def fit_peer(
    X: np.ndarray,
    y: np.ndarray,
    X_test: np.ndarray,
    y_test: np.ndarray,
    dtype: torch.dtype,
    steps: int,
    n_frequencies: int = N_FREQUENCIES,
    device: torch.device | str = "cpu",
) -> dict:
    """Adam on the peer's evidence, and its held-out scores."""
    model, likelihood, evaluate = make_peer(X, y, dtype, n_frequencies, device)
    optimizer = torch.optim.Adam(model.parameters(), lr=ADAM_RATE)
    start = time.perf_counter()
    for _ in range(steps):
        loss = evaluate()
        optimizer.step()
    float(loss.detach())  # waits for the device
    elapsed = time.perf_counter() - start
    model.eval(), likelihood.eval()
    with torch.no_grad(), gpytorch.settings.fast_pred_var(False):
        chunks = torch.as_tensor(X_test).to(device, dtype).split(1000)
        laws = [likelihood(model(chunk)) for chunk in chunks]
        mean = torch.cat([law.mean for law in laws]).double().cpu().numpy()
        std = torch.cat([law.variance for law in laws]).double().sqrt().cpu().numpy()
    return {"fit_s": elapsed, "evaluations": steps, **scores(y_test, mean, std)}


def main() -> None:
    """Print one line of JSON for each figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--dtypes", nargs="+", default=["float64", "float32"])
    parser.add_argument("--no-fit", action="store_true", help="time single evaluations only")
    parser.add_argument("--adam-steps", type=int, default=100, help="of the peer's fit")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    data = uci.load("kin40k")
    order = np.random.default_rng(0).permutation(len(data.y))
    train, test = order[:N_TRAIN], order[N_TRAIN:]
    X, X_test = data.X[train], data.X[test]
    shift, scale = data.y[train].mean(), data.y[train].std()
    y, y_test = (data.y[train] - shift) / scale, (data.y[test] - shift) / scale
    result: dict = {
        "rows": N_TRAIN,
        "frequencies": N_FREQUENCIES,
        "threads": torch.get_num_threads(),
    }
    print(json.dumps(result), flush=True)
    for name in arguments.dtypes:
        dtype = getattr(torch, name)
        show(name, "evaluation", time_evaluations(X, y, dtype, arguments.repeats))
        if not arguments.no_fit:
            show(name, "fit, ours", fit_ours(X, y, X_test, y_test, name))
            show(name, "fit, gpytorch", fit_peer(X, y, X_test, y_test, dtype, arguments.adam_steps))


def show(dtype: str, what: str, figures: dict) -> None:
    """Print one line of JSON."""
    print(json.dumps({"dtype": dtype, "what": what, **figures}, default=float), flush=True)


if __name__ == "__main__":
    main()
