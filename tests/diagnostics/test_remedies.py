"""Refits of sparse variational models: their bound and law against dense algebra, and planted."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal

import coupledgp as cgp
from coupledgp.core.problem import Hyperparameters
from coupledgp.diagnostics.remedies import JITTER, InducingLaw, _of_greatest_bound
from coupledgp.spectra import parse_spectrum
from coupledgp.tables.exact_process import StationaryPrior

RNG = np.random.default_rng(3)
X = RNG.uniform(-2, 2, (80, 2))
Y = np.sin(2 * X[:, 0]) * X[:, 1] + 0.2 * RNG.normal(size=80)
PRIOR = StationaryPrior(
    parse_spectrum("matern-5/2"), Hyperparameters(np.array([0.8, 1.1]), 1.3, 0.05)
)


def test_bound_and_law_are_those_of_dense_algebra() -> None:
    Z, test = X[:12], RNG.uniform(-2, 2, (7, 2))
    found = InducingLaw.of(PRIOR, Z, X, Y)
    kzz = PRIOR.covariance(Z, Z) + JITTER * 1.3 * np.eye(12)
    kzx, kzs = PRIOR.covariance(Z, X), PRIOR.covariance(Z, test)
    q = kzx.T @ np.linalg.solve(kzz, kzx)
    lost = 0.5 * (80 * 1.3 - np.trace(q)) / 0.05
    expected = multivariate_normal(cov=q + 0.05 * np.eye(80)).logpdf(Y) - lost
    assert found.bound == pytest.approx(expected, rel=1e-8)
    inside = np.linalg.inv(kzz + kzx @ kzx.T / 0.05)
    mean, variance = found.at(PRIOR, Z, test)
    np.testing.assert_allclose(mean, kzs.T @ inside @ kzx @ Y / 0.05, rtol=1e-7)
    own = 1.3 - np.einsum("ij,ij->j", kzs, np.linalg.solve(kzz, kzs))
    own += np.einsum("ij,ij->j", kzs, inside @ kzs) + 0.05
    np.testing.assert_allclose(variance, own, rtol=1e-7)


def test_with_all_rows_it_is_the_exact_process() -> None:
    test = RNG.uniform(-2, 2, (7, 2))
    found = InducingLaw.of(PRIOR, X, X, Y)
    cov = PRIOR.covariance(X, X) + 0.05 * np.eye(80)
    assert found.bound == pytest.approx(multivariate_normal(cov=cov).logpdf(Y), abs=0.05)
    cross = PRIOR.covariance(X, test)
    mean, variance = found.at(PRIOR, X, test)
    np.testing.assert_allclose(mean, cross.T @ np.linalg.solve(cov, Y), atol=1e-3)
    left = 1.35 - np.einsum("ij,ij->j", cross, np.linalg.solve(cov, cross))
    np.testing.assert_allclose(variance, left, atol=1e-3)


def test_a_fit_raises_the_bound() -> None:
    wrong = replace(PRIOR, hyperparameters=Hyperparameters(np.array([4.0, 5.0]), 0.2, 1.0))
    better = _of_greatest_bound(wrong, X[:30], X, Y)
    before, after = (InducingLaw.of(one, X[:30], X, Y).bound for one in (wrong, better))
    assert after > before + 10
    assert better.noise < 0.3


@pytest.mark.long
def test_an_audit_says_how_many_to_take() -> None:
    gpytorch = pytest.importorskip("gpytorch")
    import torch

    class Sparse(gpytorch.models.ApproximateGP):  # type: ignore[misc,name-defined]
        def __init__(self, points: torch.Tensor) -> None:
            law = gpytorch.variational.CholeskyVariationalDistribution(len(points))
            super().__init__(gpytorch.variational.VariationalStrategy(self, points, law))
            self.mean_module = gpytorch.means.ZeroMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

        def forward(self, x: torch.Tensor) -> object:
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(x), self.covar_module(x)
            )

    rng = np.random.default_rng(0)
    rows = rng.uniform(-2, 2, (300, 2))
    y = np.sin(3 * rows[:, 0]) * np.cos(2 * rows[:, 1]) + 0.1 * rng.normal(size=300)
    inputs, targets = torch.as_tensor(rows[:200]), torch.as_tensor(y[:200])
    model, noise = Sparse(inputs[:6].clone()).double(), gpytorch.likelihoods.GaussianLikelihood()
    noise = noise.double()
    bound = gpytorch.mlls.VariationalELBO(noise, model, 200)
    optimizer = torch.optim.Adam([*model.parameters(), *noise.parameters()], lr=0.1)
    for _ in range(60):
        optimizer.zero_grad()
        (-bound(model(inputs), targets)).backward()
        optimizer.step()
    report = cgp.audit((model, noise), rows[:200], y[:200], rows[200:], y[200:], progress=False)
    report = report.with_remedies()
    (found,) = [one for one in report.checks if one.rule == "refit"]
    assert found.gain > 0.1
    assert "inducing points in place of 6" in found.remedy
    assert any(one.rule == "refit" for one in report.advice)
