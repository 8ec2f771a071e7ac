"""The error of linear attention as a loss of frequencies, and couplings learned on each loss."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import coupledgp as cgp
from coupledgp.couplings import DirectionsAndNorms, parse_coupling
from coupledgp.errors import InvalidInputError
from coupledgp.features import ComplexExponentialFeatures, learn_copula
from coupledgp.features.learned_copula import _Ensembles, cholesky_factor
from coupledgp.spectra import GaussianSpectrum

DIM, M = 3, 7


@pytest.fixture
def frequencies(rng: np.random.Generator) -> Tensor:
    return torch.as_tensor(rng.normal(size=(M, DIM)))


def plain_error(
    frequencies: Tensor, q: np.ndarray, k: np.ndarray, v: np.ndarray, causal: bool, scale: float
) -> float:
    """Error of linear attention by its definition, with all scores, for one head."""
    features = ComplexExponentialFeatures.from_frequencies(frequencies)
    estimates = features.estimate(q * scale**0.5, k * scale**0.5).numpy()
    exact = np.exp(scale * q @ k.T)
    seen = np.tril(np.ones(exact.shape)) if causal else np.ones(exact.shape)
    outputs = [(s * seen) / (s * seen).sum(1, keepdims=True) @ v for s in (estimates, exact)]
    return float(np.square(outputs[0] - outputs[1]).mean())


@pytest.mark.parametrize(
    ("causal", "scale"), [(False, None), (True, None), (False, 0.4), (True, 1.0)]
)
def test_loss_is_the_error_by_its_definition(
    frequencies: Tensor, causal: bool, scale: float | None, rng: np.random.Generator
) -> None:
    """Heads are averaged, and each is taken with its own keys and values."""
    n = 20 if causal else 11
    q, k, v = (rng.normal(size=(2, 4, size, DIM)) for size in (20, n, n))
    loss = cgp.attention_loss(q, k, torch.as_tensor(v), causal=causal, scale=scale)
    factor = 1 / math.sqrt(DIM) if scale is None else scale
    expected = [
        plain_error(frequencies, q[i, j], k[i, j], v[i, j], causal, factor)
        for i in range(2)
        for j in range(4)
    ]
    assert float(loss(frequencies)) == pytest.approx(np.mean(expected), rel=1e-9)


@pytest.mark.parametrize("causal", [False, True])
def test_without_values_it_is_the_error_of_the_weights(
    frequencies: Tensor, causal: bool, rng: np.random.Generator
) -> None:
    q, k = rng.normal(size=(2, 9, DIM))
    loss = cgp.attention_loss(q, k, causal=causal, scale=1.0)
    expected = plain_error(frequencies, q, k, np.eye(9), causal, 1.0)
    assert float(loss(frequencies)) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("causal", [False, True])
def test_gradient(frequencies: Tensor, causal: bool, rng: np.random.Generator) -> None:
    q, k, v = rng.normal(size=(3, 2, 18, DIM))
    loss = cgp.attention_loss(q, k, v, causal=causal)
    assert torch.autograd.gradcheck(loss, (frequencies.requires_grad_(),))


def test_error_falls_with_the_number_of_frequencies(seed: int) -> None:
    """By the Monte Carlo rate: eight times the frequencies, an eighth of the error."""
    rng = np.random.default_rng(seed)
    q, k = rng.normal(size=(2, 12, DIM)) / 2
    loss = cgp.attention_loss(q, k)
    means, errors = [], []
    for m in (64, 512):
        values = [float(loss(torch.as_tensor(rng.normal(size=(m, DIM))))) for _ in range(400)]
        means.append(np.mean(values))
        errors.append(np.std(values) / 20 / means[-1])
    assert means[0] / means[1] == pytest.approx(8, rel=6 * np.hypot(*errors))


def test_long_vectors_stay_finite(frequencies: Tensor) -> None:
    q = 40.0 * np.eye(DIM)
    leaf = frequencies.requires_grad_()
    loss = cgp.attention_loss(q, q, scale=1.0)(leaf)
    (gradient,) = torch.autograd.grad(loss, leaf)
    assert 0 <= float(loss.detach()) <= 2
    assert gradient.isfinite().all()


GOOD = np.ones((2, 5, DIM))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"queries": np.ones(3)}, r"queries: expected a non-empty array.*got shape \(3,\)"),
        ({"queries": np.ones((2, 0, 3))}, "queries: expected a non-empty array"),
        ({"queries": "no"}, "queries: expected an array of numbers"),
        ({"keys": GOOD * np.nan}, "keys: expected finite values"),
        ({"keys": np.ones((2, 5, 4))}, r"keys: expected shape \(2, S, 3\).*got \(2, 5, 4\)"),
        ({"keys": np.ones((3, 5, 3))}, r"keys: expected shape \(2, S, 3\).*got \(3, 5, 3\)"),
        ({"values": np.ones((2, 4, 1))}, r"values: expected shape \(2, 5\).*got \(2, 4, 1\)"),
        ({"keys": np.ones((2, 4, 3)), "causal": True}, "causal: .*got 5 queries and 4 keys"),
        ({"scale": 0.0}, "scale: expected a finite number > 0, got 0"),
    ],
)
def test_wrong_arguments_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        cgp.attention_loss(**({"queries": GOOD, "keys": GOOD} | change))


def test_wrong_frequencies_are_named() -> None:
    with pytest.raises(InvalidInputError, match=r"frequencies: expected shape \(m, 3\), got"):
        cgp.attention_loss(GOOD, GOOD)(torch.ones(4, 2))


class TestLearning:
    """Couplings are learned on every cost by the same call."""

    def losses(self, seed: int) -> dict[str, Any]:
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(30, DIM))
        y = np.sin(X.sum(axis=1)) + 0.1 * rng.normal(size=30)
        scales = {"lengthscale": 1.5, "outputscale": 1.0, "noise": 0.05}
        return {
            "gram": cgp.gram_loss(X / 1.5),
            "posterior-kl": cgp.posterior_kl_loss(X, y, X + 0.1, **scales),
            "evidence": cgp.evidence_loss(X, y, **scales),
            "attention": cgp.attention_loss(X, X),
        }

    @pytest.mark.parametrize("cost", ["gram", "posterior-kl", "evidence", "attention"])
    def test_every_cost_is_differentiable_in_the_correlations(self, cost: str, seed: int) -> None:
        loss = self.losses(seed)[cost]
        coupling = parse_coupling("orthogonal")
        assert isinstance(coupling, DirectionsAndNorms)
        ensembles = _Ensembles(coupling, DIM + 1, DIM, GaussianSpectrum(), loss)
        rng = np.random.default_rng(seed)
        draws = ensembles.draw(3, rng)
        theta = torch.as_tensor(np.eye(DIM) + 0.3 * rng.normal(size=(DIM, DIM))).requires_grad_()

        def mean_loss(parameters: Tensor) -> Tensor:
            return ensembles.mean_loss(cholesky_factor(parameters), draws)

        assert torch.autograd.gradcheck(mean_loss, (theta,))
        (gradient,) = torch.autograd.grad(mean_loss(theta), theta)
        assert gradient.norm() > 1e-6

    @pytest.mark.parametrize("cost", ["gram", "posterior-kl", "evidence", "attention"])
    def test_every_cost_is_one_argument(self, cost: str, seed: int) -> None:
        loss = self.losses(seed)[cost]
        learned = learn_copula(loss, generator=seed, n_steps=10, n_held_out=16)
        assert np.isfinite(learned.losses).all()
        assert learned.loss <= learned.start_loss
        assert learned.coupling.sample(DIM, DIM, generator=0).shape == (DIM, DIM)

    @pytest.mark.long
    def test_attention_learns_one_norm_for_all(self, seed: int) -> None:
        """The published finding for attention, opposite to that for the Gram matrix."""
        X = np.random.default_rng(0).normal(size=(24, DIM))
        learned = learn_copula(
            cgp.attention_loss(X, X), generator=seed, n_steps=120, n_held_out=256
        )
        off = np.array(learned.coupling.norms.correlation)[np.triu_indices(DIM, 1)]  # type: ignore[attr-defined]
        assert off.mean() > 0.3
        assert learned.loss < 0.97 * learned.start_loss
