"""Feature kernels under gpytorch: low rank kept, evidence and predictions ours, training."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import gpytorch
import numpy as np
import pytest
import torch
from torch import Tensor

from coupledgp.core.statistics import DataStatistics
from coupledgp.core.weights_evidence import FeatureEvidence
from coupledgp.core.weights_posterior import FeatureStream
from coupledgp.features import FeatureMap
from coupledgp.kernels import FourierFeatureKernel, LaplaceFeatureKernel
from coupledgp.kernels.gpytorch.features import FeatureKernel
from tests.kernels.feature_kernel_cases import LENGTHSCALE, ard_kernel, both, data


class Model(gpytorch.models.ExactGP):
    """Exact GP of gpytorch with zero mean and covariance `v kernel + s I`."""

    def __init__(self, X: Tensor, y: Tensor, kernel: FeatureKernel) -> None:
        super().__init__(X, y, gpytorch.likelihoods.GaussianLikelihood())
        self.mean_module = gpytorch.means.ZeroMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(kernel)
        self.double()
        self.likelihood.noise = 0.25
        self.covar_module.outputscale = 1.5

    def forward(self, X: Tensor) -> gpytorch.distributions.MultivariateNormal:
        return gpytorch.distributions.MultivariateNormal(self.mean_module(X), self.covar_module(X))

    def log_evidence(self) -> Tensor:
        self.train()
        mll = gpytorch.mlls.ExactMarginalLogLikelihood(self.likelihood, self)
        return mll(self(*self.train_inputs), self.train_targets) * len(self.train_targets)


@contextmanager
def cholesky_sizes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Collect the orders of all matrices that torch factorises within the context."""
    sizes: list[int] = []
    with monkeypatch.context() as patch:
        for name in ("cholesky", "cholesky_ex", "eigh", "svd", "qr"):
            original = getattr(torch.linalg, name)

            def counted(matrix: Tensor, *args: Any, _of: Any = original, **kwargs: Any) -> Any:
                sizes.append(max(matrix.shape[-2:]))
                return _of(matrix, *args, **kwargs)

            patch.setattr(torch.linalg, name, counted)
        yield sizes


class TestLowRank:
    @pytest.mark.parametrize("n", [60, 1500])
    @both
    def test_nothing_of_the_size_of_the_data_is_factorised(
        self,
        kind: type[FeatureKernel],
        n: int,
        rng: np.random.Generator,
        monkeypatch: pytest.MonkeyPatch,
    ) -> None:
        X, y = data(rng, n, 3), data(rng, n)
        kernel = ard_kernel(kind)
        n_features = kernel.features(X).shape[-1]
        assert n_features < n
        model = Model(X, y, kernel)
        with cholesky_sizes(monkeypatch) as sizes:
            model.log_evidence().backward()
            assert set(sizes) == {n_features}
            model.eval()
            with torch.no_grad():
                law = model.likelihood(model(data(rng, 7, 3)))
                law.variance.sum()
                fantasy = model.get_fantasy_model(data(rng, 2, 3), data(rng, 2))
                assert (fantasy(data(rng, 7, 3)).variance > 0).all()
            assert set(sizes) == {n_features}

    @both
    def test_sums_and_products_keep_it(
        self, kind: type[FeatureKernel], rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        scale = gpytorch.kernels.ScaleKernel
        one = kind(2, active_dims=(0,), generator=1)
        two = kind(6, active_dims=(0, 2), generator=2)
        X, y, X_test = data(rng, 90, 3), data(rng, 90), data(rng, 4, 3)
        for kernel in (scale(one) + scale(two), one * two, scale(one * two) + one, two + two):
            model = Model(X, y, kernel)
            dense = kernel(X).to_dense() * model.covar_module.outputscale + 0.25 * torch.eye(90)
            law = torch.distributions.MultivariateNormal(torch.zeros(90).double(), dense)
            with cholesky_sizes(monkeypatch) as sizes:
                value = model.log_evidence()
                assert value.item() == pytest.approx(law.log_prob(y).item(), rel=1e-8)
                value.backward()
                model.eval()
                with torch.no_grad(), gpytorch.settings.lazily_evaluate_kernels(False):
                    predicted = model(X_test)
                    mean, variance = predicted.mean, predicted.variance
            assert 0 < max(sizes) < 60
            with torch.no_grad():
                cross = kernel(X_test, X).to_dense() * model.covar_module.outputscale
                weights = torch.linalg.solve(dense, cross.T)
                own = kernel(X_test, diag=True) * model.covar_module.outputscale
            torch.testing.assert_close(mean, weights.T @ y)
            torch.testing.assert_close(variance, own - (cross.T * weights).sum(0))

    @both
    def test_more_features_than_rows(
        self, kind: type[FeatureKernel], rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        model = Model(data(rng, 6, 3), data(rng, 6), ard_kernel(kind, 50))
        with cholesky_sizes(monkeypatch) as sizes:
            model.log_evidence().backward()
            model.eval()
            with torch.no_grad():
                assert (model(data(rng, 4, 3)).variance > 0).all()
            assert max(sizes) == 6

    def test_the_count_sees_a_dense_kernel(
        self, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        model = Model(data(rng, 60, 3), data(rng, 60), gpytorch.kernels.RBFKernel())
        with cholesky_sizes(monkeypatch) as sizes:
            model.log_evidence()
        assert max(sizes) == 60


@pytest.mark.parametrize("n", [12, 80])
@pytest.mark.parametrize(
    ("kind", "spectrum"),
    [
        (FourierFeatureKernel, "gaussian"),
        (FourierFeatureKernel, "matern-3/2"),
        (LaplaceFeatureKernel, "gaussian"),
    ],
)
def test_evidence_and_predictions_are_ours(
    kind: type[FeatureKernel], spectrum: str, n: int, rng: np.random.Generator
) -> None:
    X, y, X_test = data(rng, n, 3), data(rng, n), data(rng, 5, 3)
    kernel = ard_kernel(kind, 10, spectrum=spectrum)
    model = Model(X, y, kernel)
    theirs = model.log_evidence()
    theirs.backward()

    feature_map: FeatureMap = kind.feature_map(3, 10, spectrum=spectrum, generator=5)
    lengthscale = LENGTHSCALE[0].numpy()
    stream = FeatureStream(feature_map, X.numpy(), np.zeros(3), lengthscale)
    ours = FeatureEvidence(stream, y[:, None].numpy()).at(lengthscale).evaluate(1.5, 0.25)
    assert ours.value == pytest.approx(theirs.item(), rel=1e-8)
    slope = torch.sigmoid(kernel.raw_lengthscale.detach())  # of the softplus
    by_log = (kernel.raw_lengthscale.grad / slope * kernel.lengthscale.detach()).numpy()[0]
    np.testing.assert_allclose(ours.lengthscale, by_log, rtol=1e-6, atol=1e-8)

    zero, one = torch.zeros(1).double(), torch.ones(1).double()
    chunks = ((phi, y[rows, None]) for rows, _, phi in stream)
    statistics = DataStatistics(feature_map.n_features, zero).updated(chunks)
    posterior = statistics.posterior(zero, one, 1.5, 0.25)
    model.eval()
    with torch.no_grad(), gpytorch.settings.fast_computations(False, False, False):
        law = model(X_test)
    phi = feature_map(X_test / LENGTHSCALE)
    root = posterior.root(phi)
    torch.testing.assert_close(law.mean, posterior.predict(phi)[:, 0], rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(law.covariance_matrix, root @ root.T, rtol=1e-6, atol=1e-7)


@both
@pytest.mark.long
def test_training(kind: type[FeatureKernel], rng: np.random.Generator) -> None:
    """Ascent on the marginal likelihood finds the relevant input."""
    X = data(rng, 200, 2)
    y = (4 * X[:, 0]).sin() + 0.1 * torch.as_tensor(rng.normal(size=200))
    model = Model(X, y, kind(40, ard_num_dims=2, generator=0))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    values = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = -model.log_evidence()
        loss.backward()
        values.append(loss.item())
        optimizer.step()
    assert values[-1] < values[0] - 50
    first, second = model.covar_module.base_kernel.lengthscale[0].tolist()
    assert second > 2 * first
    assert model.likelihood.noise.item() < 0.1
