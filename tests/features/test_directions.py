"""Simplex directions under Fourier features: what is wrong with them, and where models say so."""

import warnings
from typing import Any

import gpytorch  # noqa: F401  (its kernels are imported below)
import numpy as np
import pytest
import torch

import coupledgp as cgp
from coupledgp.errors import InvalidInputError
from coupledgp.features import FourierFeatures, FourierSampler, LaplaceFeatures
from coupledgp.features.fourier import check_directions
from coupledgp.kernels import FourierFeatureKernel
from coupledgp.theory import distance_mse

SIMPLEX = ["simplex", "simplex-plus", "simplex+pnc", "simplex+antithetic", "simplex-fast"]


def quietly(made: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_directions(made)


@pytest.mark.parametrize(("dim", "ratio"), [(2, 1.401), (5, 1.259), (13, 1.189)])
@pytest.mark.long
def test_errors_of_fourier_features_are_larger_than_with_orthogonal(
    dim: int, ratio: float, rng: np.random.Generator
) -> None:
    """The figures that the messages and the README state, by theory and by simulation."""
    simplex, orthogonal = (
        distance_mse("fourier", text, dim, dim, 1.0) for text in ("simplex", "orthogonal")
    )
    assert np.sqrt(simplex / orthogonal) == pytest.approx(ratio, abs=1e-3)
    x = rng.normal(size=(1, dim))
    x /= np.linalg.norm(x)
    errors = []
    for seed in range(1200):
        features = FourierFeatures(dim, dim, "simplex", generator=seed)(np.concatenate([x, 0 * x]))
        errors.append(float(features[0] @ features[1]) - np.exp(-0.5))
    squares = np.square(errors)
    assert abs(squares.mean() - simplex) < 4 * squares.std() / np.sqrt(squares.size)


@pytest.mark.parametrize("text", ["simplex", "simplex+pnc"])
def test_a_block_leaves_one_direction_of_the_inputs_unseen(text: str, seed: int) -> None:
    """With equal norms the corners sum to zero; with any norms they span d - 1 dimensions."""
    frequencies = FourierFeatures(4, 4, text, generator=seed).frequencies.numpy()
    assert np.linalg.matrix_rank(frequencies) == 3
    unseen = np.linalg.svd(frequencies)[2][-1]
    features = FourierFeatures(4, 4, text, generator=seed)(np.stack([0 * unseen, 7 * unseen]))
    torch.testing.assert_close(features[0], features[1])
    assert np.linalg.matrix_rank(FourierFeatures(4, 5, text, generator=seed).frequencies) == 4


@pytest.mark.parametrize("text", SIMPLEX)
def test_fourier_features_of_a_model_warn_and_are_refused_up_to_d(text: str) -> None:
    n_seen = 4 * (2 if "antithetic" in text else 1)
    with pytest.raises(InvalidInputError, match="more than 4 frequencies are drawn in 4"):
        check_directions(FourierFeatures(4, n_seen, text, generator=0))
    with pytest.warns(UserWarning, match="serves Laplace features"):
        check_directions(FourierFeatures(4, n_seen + 1, text, generator=0))


@pytest.mark.parametrize(
    "made",
    [
        LaplaceFeatures(4, 3, "simplex", generator=0),
        FourierFeatures(4, 3, "orthogonal", generator=0),
        FourierFeatures(4, 3, "orthogonal-fast", generator=0),
        FourierFeatures(4, 3, "sobol", generator=0),
        FourierFeatures(1, 1, "simplex", generator=0),
        object(),
    ],
)
def test_everything_else_passes_in_silence(made: object) -> None:
    quietly(made)


def test_padded_blocks_see_every_direction() -> None:
    """Fast directions in five dimensions are those of a simplex in eight."""
    made = FourierFeatures(5, 5, "simplex-fast", generator=0)
    assert np.linalg.matrix_rank(made.frequencies) == 5
    with pytest.warns(UserWarning, match="serves Laplace"):
        check_directions(made)


def regressor(m: int, X: Any, y: Any) -> object:
    model = cgp.SparseSpectrumGPRegressor(
        coupling="simplex", n_frequencies=m, optimizer=None, random_state=0
    )
    return model.fit(X, y)


def sampler(m: int, X: Any, y: Any) -> object:
    return FourierSampler(n_frequencies=m, coupling="simplex", random_state=0).fit(X)


def kernel(m: int, X: Any, y: Any) -> object:
    return FourierFeatureKernel(m, coupling="simplex", generator=0)(torch.as_tensor(X))


@pytest.mark.parametrize("fit", [regressor, sampler, kernel])
def test_every_model_says_so(fit: Any, rng: np.random.Generator) -> None:
    X = rng.normal(size=(20, 3))
    y = X[:, 0]
    with pytest.warns(UserWarning, match="serves Laplace features") as seen:
        fit(8, X, y)
    assert len(seen) == 1
    with pytest.raises(InvalidInputError, match="unseen"):
        fit(3, X, y)


def test_a_refused_kernel_stays_refused(rng: np.random.Generator) -> None:
    refused = FourierFeatureKernel(3, coupling="simplex", generator=0)
    X = torch.as_tensor(rng.normal(size=(5, 3)))
    for _ in range(2):
        with pytest.raises(InvalidInputError, match="unseen"):
            refused(X)
