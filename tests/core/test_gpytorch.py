"""The same models in gpytorch: evidence, gradient and predictive law to eight digits."""

import math
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from coupledgp import ExactGPRegressor
from coupledgp.core.dense_evidence import ExactEvidence
from coupledgp.core.problem import EvidenceGradient
from coupledgp.core.statistics import DataStatistics
from coupledgp.core.weights_evidence import FeatureEvidence
from coupledgp.core.weights_posterior import FeatureStream
from coupledgp.features import FourierFeatures
from coupledgp.spectra import parse_spectrum

gpytorch = pytest.importorskip("gpytorch")

DIM, M, V, S = 3, 10, 1.5, 0.25  # V and S exact in float32 too
LENGTHSCALE = np.array([1.4, 0.9, 2.2])


@pytest.fixture(autouse=True)
def _exact_settings() -> Iterator[None]:
    """Cholesky factors without jitter, no iterative shortcuts, no cast to float32."""
    settings = gpytorch.settings
    with ExitStack() as stack:
        stack.enter_context(settings.fast_computations(False, False, False))
        stack.enter_context(settings.max_cholesky_size(10_000))
        stack.enter_context(settings.cholesky_jitter(1e-14, 1e-14, 1e-14))
        stack.enter_context(settings.min_variance(1e-14, 1e-14, 1e-14))
        yield


class TheirModel(gpytorch.models.ExactGP):
    """Exact GP of gpytorch with covariance `v kernel + s I`, zero mean and given parameters."""

    def __init__(self, X: Tensor, y: Tensor, kernel: Any) -> None:
        likelihood = gpytorch.likelihoods.GaussianLikelihood()
        super().__init__(X, y, likelihood)
        self.mean_module = gpytorch.means.ZeroMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(kernel)
        self.double()
        likelihood.noise = S
        self.covar_module.outputscale = V
        kernel.lengthscale = torch.as_tensor(LENGTHSCALE)[None]

    def forward(self, X: Tensor) -> Any:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(X), self.covar_module(X))

    def evidence(self) -> EvidenceGradient:
        """Evidence and its gradient in log hyperparameters, from raw ones behind a softplus."""
        self.train()
        mll = gpytorch.mlls.ExactMarginalLogLikelihood(self.likelihood, self)
        value = mll(self(*self.train_inputs), self.train_targets) * len(self.train_targets)
        value.backward()

        def by_log(raw: Tensor, number: Tensor) -> np.ndarray:
            slope = torch.sigmoid(raw.detach())
            return (raw.grad / slope * number.detach()).numpy().ravel()

        scale, noise = self.covar_module, self.likelihood.noise_covar
        kernel = scale.base_kernel
        return EvidenceGradient(
            value.item(),
            by_log(kernel.raw_lengthscale, kernel.lengthscale),
            float(by_log(scale.raw_outputscale, scale.outputscale).item()),
            float(by_log(noise.raw_noise, noise.noise).item()),
        )

    def law(self, X: Tensor) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of observations."""
        self.eval()
        with torch.no_grad():
            law = self.likelihood(self(X))
        return law.mean.numpy(), law.covariance_matrix.numpy()


def assert_same(ours: EvidenceGradient, theirs: EvidenceGradient) -> None:
    assert ours.value == pytest.approx(theirs.value, rel=1e-8)
    # Their distances are clamped at about 3e-8, which a rough kernel's gradient feels.
    np.testing.assert_allclose(ours.lengthscale, theirs.lengthscale, rtol=1e-6, atol=1e-6)
    assert ours.outputscale == pytest.approx(theirs.outputscale, rel=1e-6, abs=1e-6)
    assert ours.noise == pytest.approx(theirs.noise, rel=1e-6, abs=1e-6)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("n", [12, 50])
def test_random_fourier_features(n: int, rng: np.random.Generator) -> None:
    X, y, X_test = rng.normal(size=(n, DIM)), rng.normal(size=n), rng.normal(size=(7, DIM))
    feature_map = FourierFeatures(DIM, M, generator=3)
    kernel = gpytorch.kernels.RFFKernel(num_samples=M, num_dims=DIM, ard_num_dims=DIM)
    theirs = TheirModel(torch.as_tensor(X), torch.as_tensor(y), kernel)
    kernel.randn_weights = feature_map.frequencies.T.clone()

    stream = FeatureStream(feature_map, X, np.zeros(DIM), LENGTHSCALE)
    evidence = FeatureEvidence(stream, y[:, None]).at(LENGTHSCALE).evaluate(V, S)
    assert_same(evidence, theirs.evidence())

    zero, one = torch.zeros(1).double(), torch.ones(1).double()
    chunks = ((phi, torch.as_tensor(y[rows, None])) for rows, _, phi in stream)
    statistics = DataStatistics(feature_map.n_features, zero).updated(chunks)
    posterior = statistics.posterior(zero, one, V, S)
    assert posterior.log_evidence == pytest.approx(evidence.value, rel=1e-8)
    phi = feature_map(X_test / LENGTHSCALE)
    root = posterior.root(phi)
    mean, cov = theirs.law(torch.as_tensor(X_test))
    np.testing.assert_allclose(posterior.predict(phi)[:, 0].numpy(), mean, rtol=1e-8, atol=1e-9)
    ours = (root @ root.T).numpy() + S * np.eye(7)
    np.testing.assert_allclose(ours, cov, rtol=1e-8, atol=1e-9)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kernel_name", ["gaussian", "matern-1/2", "matern-3/2", "matern-5/2"])
def test_exact_gp(kernel_name: str, rng: np.random.Generator) -> None:
    X, y, X_test = rng.normal(size=(30, DIM)), rng.normal(size=30), rng.normal(size=(7, DIM))
    if kernel_name == "gaussian":
        kernel = gpytorch.kernels.RBFKernel(ard_num_dims=DIM)
    else:
        nu = parse_spectrum(kernel_name).nu  # type: ignore[attr-defined]
        kernel = gpytorch.kernels.MaternKernel(nu, ard_num_dims=DIM)
    theirs = TheirModel(torch.as_tensor(X), torch.as_tensor(y), kernel)
    expected = theirs.evidence()
    problem = ExactEvidence(parse_spectrum(kernel_name), X, y[:, None])
    assert_same(problem.at(LENGTHSCALE).evaluate(V, S), expected)

    gp = ExactGPRegressor(
        kernel_name, lengthscale=LENGTHSCALE, outputscale=V, noise=S,
        normalize_y=False, optimizer=None,
    ).fit(X, y)  # fmt: skip
    assert gp.log_marginal_likelihood_value_ == pytest.approx(expected.value, rel=1e-8)
    mean, cov = gp.predict(X_test, return_cov=True)
    their_mean, their_cov = theirs.law(torch.as_tensor(X_test))
    np.testing.assert_allclose(mean, their_mean, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(cov, their_cov, rtol=1e-8, atol=1e-9)


def test_the_softplus_that_the_gradients_are_taken_through() -> None:
    """The form of gpytorch's constraints that `TheirModel.evidence` assumes."""
    noise = gpytorch.likelihoods.GaussianLikelihood().noise_covar
    shift = float(noise.raw_noise_constraint.lower_bound)
    expected = math.log1p(math.exp(noise.raw_noise.item())) + shift
    assert noise.noise.item() == pytest.approx(expected, rel=1e-6)
