"""Means and deviations against sixty digits: within .01 standard deviations, or a warning."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch

import coupledgp as cgp
from coupledgp.core.normal_equations import SquareRoot
from coupledgp.core.problem import Hyperparameters, RowWeights
from coupledgp.core.process import Data
from coupledgp.core.units import Units
from coupledgp.errors import NumericalError, PrecisionWarning
from coupledgp.features import FourierFeatures
from coupledgp.linalg.low_rank import LIMIT, inverse_sizes
from coupledgp.spectra import parse_spectrum
from coupledgp.tables.weight_space import FeaturePrior, WeightSpaceGP
from tests.reference import errors, fourier_law

TABLES = (
    "smooth",
    "noisy",
    "prior",
    "clustered",
    "duplicates",
    "counted",
    "offset",
    "far",
)


def table(kind: str, n: int, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """Inputs (n, 2), targets (n, 2), and counts of the rows."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 2))
    if kind == "clustered":
        X = np.repeat(rng.normal(size=(n // 8 + 1, 2)), 8, axis=0)[:n] + 1e-4 * X
    if kind == "duplicates":
        X[n // 2 :] = X[: n - n // 2]
    if kind == "far":
        X *= 300
    y = np.column_stack([np.sin(X @ [1, 2]) + X[:, 0] / 2, np.cos(2 * X[:, 1])])
    if kind in ("noisy", "duplicates"):
        y += 0.1 * rng.normal(size=y.shape)
    if kind == "offset":
        y += [1e5, -1e7]
    return X, y, rng.integers(1, 9, n).astype(float) if kind == "counted" else None


def prior_of(m: int, ratio: float, kernel: str, dtype: torch.dtype, X: np.ndarray) -> FeaturePrior:
    drawn = FourierFeatures(2, m, spectrum=parse_spectrum(kernel), generator=m, dtype=dtype)
    hyper = Hyperparameters(np.array([1.5, 2.0]), 2.0, 2.0 * ratio)
    return FeaturePrior(drawn, X.mean(axis=0), hyper)


def fitted(
    prior: FeaturePrior, data: Data, units: Units, keep: bool = True
) -> tuple[WeightSpaceGP, bool]:
    """The process, and whether there was a warning of its precision."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", PrecisionWarning)
        process = prior.given(data, units, True, keep)
    return process, any(issubclass(w.category, PrecisionWarning) for w in caught)


def errors_of(process: WeightSpaceGP, data: Data, points: np.ndarray) -> tuple[float, float]:
    """Errors of the latent law, whose deviations are the smaller ones."""
    prior, units = process.feature_prior, process.units
    hyper = prior.hyperparameters
    means, variances, _ = fourier_law(
        prior.feature_map.frequencies.double().numpy(), data.points, data.targets, points,
        hyper.outputscale, hyper.noise, hyper.lengthscale, prior.center, data.counts,
        (units.offset, units.scale),
    )  # fmt: skip
    mean, variance = process.latent_law(points, "variance")
    assert variance is not None
    return errors(units.mean(mean), np.sqrt(variance), means, variances, units.scale)


def weights_of(counts: np.ndarray | None) -> RowWeights | None:
    return None if counts is None else RowWeights(np.ones(len(counts)), counts)


@pytest.mark.parametrize("kind", TABLES)
@pytest.mark.parametrize(("n", "m", "kernel"), [(34, 8, "gaussian"), (20, 13, "matern-3/2")])
def test_means_are_exact_or_there_is_a_warning(kind: str, kernel: str, n: int, m: int) -> None:
    X, y, counts = table(kind, n, seed=n)
    points = np.concatenate([X[:3], X[:2] + 0.3, 3 * X[3:5], 30 * X[5:6]])
    data, units = Data.of(X, y, weights=weights_of(counts)), Units.of(y, True, counts)
    double, single = torch.float64, torch.float32
    for ratio, dtype in ((1e-6, double), (1e-10, double), (1e-14, double), (1e-5, single)):
        process, warned = fitted(prior_of(m, ratio, kernel, dtype, X), data, units)
        mean, deviation = errors_of(process, data, points)
        assert warned or (mean <= LIMIT and deviation <= LIMIT), (ratio, dtype, mean, deviation)
        assert process.rounding_error >= mean or mean < 1e-4
        assert not (warned and ratio >= 1e-6 and dtype == torch.float64)


@pytest.mark.parametrize("ratio", [1e-10, 1e-12])
def test_few_rows_are_solved_by_their_orthogonal_factor_where_sums_lose_digits(
    ratio: float,
) -> None:
    X, y, _ = table("smooth", 20, seed=20)
    data, units = Data.of(X, y), Units.of(y, True)
    process, warned = fitted(prior_of(13, ratio, "gaussian", torch.float64, X), data, units)
    assert process.posterior.basis is not None  # fewer rows than features
    assert not warned
    assert max(errors_of(process, data, X[:5] + 0.3)) <= LIMIT


def test_random_tables_of_ordinary_noise_give_no_warning() -> None:
    rng = np.random.default_rng(0)
    for trial in range(60):
        n, d, k = int(rng.integers(2, 200)), int(rng.integers(1, 6)), int(rng.integers(1, 4))
        X = rng.normal(size=(n, d)) * 10.0 ** rng.integers(-6, 7, d) + rng.normal(size=d) * 1e3
        y = rng.normal(size=(n, k)) * 10.0 ** rng.integers(-5, 6) + rng.normal() * 1e4
        model = cgp.SparseSpectrumGPRegressor(
            ["gaussian", "matern-1/2", "matern-5/2"][trial % 3],
            n_frequencies=int(rng.integers(2, 40)),
            lengthscale=X.std(axis=0) + 1e-9,
            outputscale=10.0 ** rng.uniform(-3, 3),
            noise=1.0,
            optimizer=None,
            random_state=trial,
            options={"dtype": ["float64", "float32"][trial % 4 == 3]},
        )
        low = 6 if trial % 4 < 3 else 3
        model.set_params(noise=model.outputscale * 10.0 ** rng.uniform(-low, 1)).fit(X, y)


def test_the_estimate_grows_into_a_warning_where_nothing_helps() -> None:
    """Noise of a tenth under a ratio of 1e-14: weights of 1e7, whose own rounding is too much."""
    X, y, _ = table("noisy", 34, 0)
    data, units = Data.of(X, y), Units.of(y, True)
    process, warned = fitted(prior_of(8, 1e-20, "gaussian", torch.float64, X), data, units)
    assert warned
    assert process.posterior.error > LIMIT
    with pytest.warns(PrecisionWarning, match="noise: 1e-20 of the outputscale: rounding"):
        process.conditioned(data)


def test_an_offset_that_is_to_blame_is_named() -> None:
    """The digits of an offset of 1e14 end at .02: no other noise helps, another origin does."""
    X, y, _ = table("prior", 60, 1)
    prior = prior_of(8, 1e-2, "gaussian", torch.float64, X)
    units = Units(np.array([1e14]), np.ones(1))
    with pytest.warns(PrecisionWarning, match=r"y: an offset of 1e\+14: .*subtract a constant"):
        process = prior.given(Data.of(X, y + 1e14), units, False)
    assert process.rounding_error > process.posterior.error


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rows_that_are_not_kept_give_a_warning_or_the_same(dtype: torch.dtype) -> None:
    X, y, _ = table("prior", 60, 1)
    first, rest = Data.of(X[:40], y[:40]), Data.of(X[40:], y[40:])
    prior, units = prior_of(8, 1e-13, "gaussian", dtype, X), Units.of(y, True)
    with warnings.catch_warnings():
        warnings.simplefilter("error", PrecisionWarning)
        kept, bare = (prior.given(first, units, False, keep) for keep in (True, False))
        assert kept.posterior.error <= LIMIT
        both = kept.updated(rest)
        assert max(errors_of(both, Data.of(X, y), X[:5])) <= LIMIT
    assert bare.rows is None
    with pytest.warns(PrecisionWarning, match="or fit on rows that are kept"):
        bare.updated(rest)


def test_single_precision_goes_over_to_double_where_it_shows() -> None:
    X, y, _ = table("smooth", 40, 2)
    data, units = Data.of(X, y), Units.of(y, True)
    for ratio, dtype in ((1e-2, torch.float32), (1e-7, torch.float64)):
        prior = prior_of(8, ratio, "gaussian", torch.float32, X)
        process, warned = fitted(prior, data, units)
        assert not warned
        assert process.feature_map.dtype == dtype
        assert torch.equal(process.feature_map.frequencies.float(), prior.feature_map.frequencies)


def test_the_orthogonal_factor_is_that_of_the_sums(rng: np.random.Generator) -> None:
    features, targets = (
        torch.as_tensor(rng.normal(size=(50, 7))),
        torch.as_tensor(rng.normal(size=(50, 3))),
    )
    chunks = [(features[a:b], targets[a:b]) for a, b in ((0, 3), (3, 4), (4, 50))]
    root = SquareRoot.of(chunks, 0.2)
    ridge = features.T @ features + 0.2 * torch.eye(7)
    weights = torch.linalg.solve(ridge, features.T @ targets)
    torch.testing.assert_close(root.factor @ root.factor.T, ridge)
    assert bool((root.factor.diagonal() > 0).all())
    torch.testing.assert_close(root.weights(), weights)
    quadratic = (targets - features @ weights).square().sum(0) + 0.2 * weights.square().sum(0)
    torch.testing.assert_close(root.quadratic, quadratic)
    assert root.square == pytest.approx(float(features.square().sum()))
    dense = features @ features.T + 0.2 * torch.eye(50)
    law = torch.distributions.MultivariateNormal(torch.zeros(50).double(), 3.0 * dense)
    assert root.log_evidence(3.0, 50) == pytest.approx(float(law.log_prob(targets.T).sum()))


def test_log_evidence_keeps_its_digits() -> None:
    X, y, _ = table("smooth", 34, 3)
    prior, units = prior_of(8, 1e-13, "gaussian", torch.float64, X), Units.of(y, True)
    process, _ = fitted(prior, Data.of(X, y), units)
    hyper = prior.hyperparameters
    exact = fourier_law(
        prior.feature_map.frequencies.numpy(), X, y, X[:1], hyper.outputscale, hyper.noise,
        hyper.lengthscale, prior.center, None, (units.offset, units.scale),
    )[2]  # fmt: skip
    assert process.posterior.log_evidence == pytest.approx(float(exact), rel=1e-6)


def test_rows_with_nan_are_no_question_of_precision() -> None:
    X, y, _ = table("smooth", 34, 3)
    X[3] = np.nan
    prior = prior_of(8, 1e-3, "gaussian", torch.float64, X[:3])
    with pytest.raises(NumericalError, match="NaN or infinite"):
        prior.given(Data.of(X, y), Units(np.zeros(2), np.ones(2)), False)


def test_sizes_of_an_inverse() -> None:
    rng = np.random.default_rng(20250)
    root = torch.as_tensor(rng.normal(size=(40, 40))) * torch.logspace(-3, 0, 40).double()
    factor = torch.linalg.cholesky(root.T @ root)
    inverse = torch.cholesky_inverse(factor)
    trace, norm = inverse_sizes(factor)
    assert trace == pytest.approx(float(inverse.trace()), rel=0.8)
    assert 0.5 < norm / float(torch.linalg.matrix_norm(inverse, 2)) <= 1 + 1e-9
    assert inverse_sizes(factor) == (trace, norm)


def test_a_file_holds_the_estimate(tmp_path) -> None:
    X, y, _ = table("smooth", 34, 3)
    model = cgp.SparseSpectrumGPRegressor(
        n_frequencies=8, noise=1e-9, optimizer=None, random_state=0
    )
    cgp.save_model(model.fit(X, y), tmp_path / "model.safetensors")
    again = cgp.load_model(tmp_path / "model.safetensors")
    assert again.process_.posterior.error == model.process_.posterior.error > 0
