"""Frequencies drawn where attention between rows for calibration needs them."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from coupledgp.attention import attend, attention_proposal
from coupledgp.errors import CoupledGPError, InvalidInputError
from coupledgp.features import AngularHybridFeatures, ComplexExponentialFeatures
from tests.test_attention import E, exact_twin, make, tensors
from tests.theory import assert_mean

either = pytest.mark.parametrize("causal", [False, True])


def proposed(q: Tensor, k: Tensor, m: int, **options: Any) -> ComplexExponentialFeatures:
    frequencies, log_ratios = attention_proposal(q, k, m, **options)
    features = ComplexExponentialFeatures.from_frequencies(frequencies)
    features.log_ratios = log_ratios
    return features


@either
def test_ratio_is_that_of_the_densities(causal: bool, rng: np.random.Generator) -> None:
    """Against the mixture written out: components `N(q_t + k_s, I)` with attention's weights."""
    q, k = tensors(rng, (2, 4, 3), (2, 4, 3), scale=0.8)
    w, log_ratios = attention_proposal(q, k, 6, causal=causal, generator=0)
    density = torch.zeros(6, dtype=torch.float64)
    for b in range(2):
        for t in range(4):
            seen = slice(0, t + 1 if causal else 4)
            weights = (k[b, seen] @ q[b, t]).softmax(0)
            centers = q[b, t] + k[b, seen]
            squares = (w[:, None] - centers).square().sum(-1) - w.square().sum(-1)[:, None]
            density += (-squares / 2).exp() @ weights / 8
    torch.testing.assert_close(log_ratios, -density.log())


@either
def test_sums_of_scores_are_exact_on_average(causal: bool, rng: np.random.Generator) -> None:
    q, k = tensors(rng, (2, 7, 4), (2, 7, 4), scale=1.5)
    features = proposed(q, k, 5, causal=causal, generator=1)
    scores, exact = features.estimate(q, k), (q @ k.mT).exp()
    if causal:
        scores, exact = scores.tril(), exact.tril()
    mean = (scores.sum(-1) / exact.sum(-1)).mean()
    torch.testing.assert_close(mean, torch.ones((), dtype=torch.float64))


@pytest.mark.parametrize("coupling", ["iid", "orthogonal+pnc"])
@either
def test_scores_stay_unbiased(causal: bool, coupling: str, rng: np.random.Generator) -> None:
    """Also for queries and keys that are not those of the calibration."""
    rows = tensors(rng, (6, 3), (6, 3), scale=0.5)
    q, k = tensors(rng, (3, 3), (4, 3), scale=0.4)
    draws = [
        proposed(*rows, 4, coupling=coupling, causal=causal, generator=rng).estimate(q, k).numpy()
        for _ in range(250)
    ]
    assert_mean(np.array(draws), (q @ k.mT).exp().numpy())


@either
def test_smaller_error_of_attention(causal: bool, rng: np.random.Generator) -> None:
    """On fresh rows of the law of the calibration's; about half in the mean square."""
    center = rng.normal(size=(2, 8)) / 2
    errors: dict[str, list[float]] = {"plain": [], "proposed": []}
    for draw in range(40):
        rows = [torch.as_tensor(c + 0.5 * rng.normal(size=(48, 8))) for c in (*center, *center)]
        (values,) = tensors(rng, (48, 2))
        exact = (rows[0] @ rows[1].T).masked_fill(
            torch.ones(48, 48, dtype=torch.bool).triu(1) & causal, -torch.inf
        ).softmax(-1) @ values  # fmt: skip
        for name, features in {
            "plain": ComplexExponentialFeatures(8, 32, coupling="orthogonal", generator=draw),
            "proposed": proposed(*rows[2:], 32, causal=causal, generator=draw),
        }.items():
            logs = features.log_queries(rows[0]), features.log_keys(rows[1])
            attended = attend(*logs, values, None, causal)
            errors[name].append(float((attended - exact).square().mean()))
    assert np.mean(errors["proposed"]) < 0.75 * np.mean(errors["plain"])


@either
def test_calibrate(causal: bool, rng: np.random.Generator) -> None:
    module = make(coupling="orthogonal", n_frequencies=512)
    (x,) = tensors(rng, (9, 2, E), scale=0.5)
    module.calibrate(x, is_causal=causal, generator=3)
    q, k, _ = module._project(*[x.transpose(0, 1)] * 3)
    root = (E // 2) ** -0.25
    frequencies, ratios = attention_proposal(
        root * q, root * k, 512, "orthogonal", causal, generator=3
    )
    torch.testing.assert_close(module.features.frequencies, frequencies)
    torch.testing.assert_close(module.features.log_ratios, ratios)
    mask = torch.ones(9, 9, dtype=torch.bool).triu(1) if causal else None
    expected = exact_twin(module)(x, x, x, attn_mask=mask)[0]
    torch.testing.assert_close(module(x, x, x, is_causal=causal)[0], expected, rtol=0.1, atol=0.03)
    # States carry the ratios into a module without them, and out of one with them.
    twin = make(coupling="orthogonal", n_frequencies=512, generator=8)
    plain = {key: value.clone() for key, value in twin.state_dict().items()}
    twin.load_state_dict(module.state_dict())
    torch.testing.assert_close(twin(x, x, x)[0], module(x, x, x)[0])
    twin.load_state_dict(plain)
    assert twin.features.log_ratios is None
    module.redraw(1)
    assert module.features.log_ratios is None
    module.eval()
    with pytest.raises(CoupledGPError, match="calibrate: frequencies are frozen in eval mode"):
        module.calibrate(x)


def test_refusals() -> None:
    x = torch.ones(5, 1, E, dtype=torch.float64)
    with pytest.raises(InvalidInputError, match="expected ComplexExponentialFeatures with A = I"):
        make(features=AngularHybridFeatures).calibrate(x)
    with pytest.raises(InvalidInputError, match="coupling: expected a random law that is not ant"):
        make(coupling="orthogonal+antithetic").calibrate(x)
    rows = torch.ones(5, 3)
    with pytest.raises(InvalidInputError, match=r"keys: expected shape \(S, 3\), got \(5, 2\)"):
        attention_proposal(rows, torch.ones(5, 2), 4)
    with pytest.raises(InvalidInputError, match="causal: expected as many queries as keys, got 5"):
        attention_proposal(rows, torch.ones(4, 3), 4, causal=True)
