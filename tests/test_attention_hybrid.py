"""Linear attention with hybrid features, which have either sign."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import coupledgp as cgp
from coupledgp.attention import attend
from coupledgp.attention.linear import within_values
from coupledgp.errors import InvalidInputError
from coupledgp.features import AngularHybridFeatures, ClusteredHybridFeatures
from tests.features.hybrid_cases import DIM, HYBRIDS
from tests.test_attention import E, H, exact_twin, make, tensors
from tests.theory import assert_mean

BIPOLAR = ("angular", "shared", "gaussian", "positive gaussian")
either = pytest.mark.parametrize("causal", [False, True])


def dense(features: Any, q: Tensor, k: Tensor, v: Tensor, bias: Tensor, causal: bool) -> Tensor:
    """Attention of the features' own estimates, all scores formed."""
    scores = features.estimate(q, k) * bias.exp()[..., None, :]
    if causal:
        scores = scores.tril()
    return scores @ v / scores.sum(-1, keepdim=True)


@pytest.mark.parametrize("kernel", ["softmax", "gaussian"])
@pytest.mark.parametrize("name", BIPOLAR)
def test_levels_and_factors_make_the_features(
    name: str, kernel: str, rng: np.random.Generator
) -> None:
    features = HYBRIDS[name](0, kernel=kernel)
    (x,) = tensors(rng, (2, 5, DIM))
    for leveled, made in (
        (features.leveled_queries, features.queries),
        (features.leveled_keys, features.keys),
    ):
        levels, factors = leveled(x)
        assert levels.shape == factors.shape == (2, 5, features.n_features)
        torch.testing.assert_close(factors * levels.exp(), made(x))
        # Of long vectors the features overflow, the levels and factors do not.
        far = leveled(100 * x)
        assert all(part.isfinite().all() for part in far)
        assert float(far[1].abs().max()) <= 2.0


@either
@pytest.mark.parametrize("name", BIPOLAR)
def test_equals_dense_attention_of_its_features(
    name: str, causal: bool, rng: np.random.Generator
) -> None:
    features = HYBRIDS[name](3)
    q, k, v = tensors(rng, (2, 37, DIM), (2, 37, DIM), (2, 37, 4), scale=0.2)
    bias = torch.as_tensor(rng.normal(size=37))
    bias[[2, 20]] = -torch.inf
    (log_q, f_q), (log_k, f_k) = features.leveled_queries(q), features.leveled_keys(k)
    result = attend(log_q, log_k, v, bias, causal, (f_q, f_k))
    torch.testing.assert_close(result, dense(features, q, k, v, bias, causal))


@either
def test_module_masks(causal: bool, rng: np.random.Generator) -> None:
    """Padding, additive and causal masks, and the weights, against the dense form."""
    module = make(features=AngularHybridFeatures, n_frequencies=24, coupling="orthogonal")
    (x,) = tensors(rng, (9, 2, E), scale=0.5)
    padding = torch.zeros(2, 9, dtype=torch.bool)
    padding[1, 6:] = True
    by_key = torch.as_tensor(rng.normal(size=9))
    output, weights = module(
        x, x, x, key_padding_mask=padding, attn_mask=by_key.expand(9, 9), is_causal=causal,
        need_weights=True, average_attn_weights=False,
    )  # fmt: skip
    q, k, v = module._project(*[x.transpose(0, 1)] * 3)
    root = (E // H) ** -0.25
    bias = (by_key + torch.zeros(2, 9).masked_fill(padding, -torch.inf))[:, None]
    unbounded = dense(module.features, root * q, root * k, v, bias, causal)
    heads = unbounded.clone()
    for b in range(2):
        for t in range(9):
            seen = v[b, :, : (t + 1 if causal else 9)][:, ~padding[b, : (t + 1 if causal else 9)]]
            heads[b, :, t] = heads[b, :, t].clamp(seen.amin(1), seen.amax(1))
    joined = module.out_proj(heads.transpose(1, 2).flatten(2)).transpose(0, 1)
    torch.testing.assert_close(joined, output)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, H, 9, dtype=torch.float64))
    torch.testing.assert_close(weights @ v, unbounded)
    assert not weights[1, :, :, 6:].any()
    assert bool((weights.triu(1) == 0).all()) == causal


@either
def test_scores_have_the_mean_of_exact_attention(causal: bool, rng: np.random.Generator) -> None:
    """`sum_s a^_ts (v_s - o_t)` has mean zero for the exact output o: numerators are unbiased."""
    q, k, v = tensors(rng, (4, DIM), (4, DIM), (4, 2), scale=0.6)
    hidden = torch.ones(4, 4, dtype=torch.bool).triu(1) if causal else torch.zeros(4, 4).bool()
    exact = (q @ k.T).masked_fill(hidden, -torch.inf).softmax(-1) @ v
    draws = []
    for _ in range(150):
        features = AngularHybridFeatures(DIM, 6, 3, "orthogonal", rng)
        totals = features.estimate(q, k).masked_fill(hidden, 0.0).sum(-1, keepdim=True)
        (log_q, f_q), (log_k, f_k) = features.leveled_queries(q), features.leveled_keys(k)
        if bool((totals <= 0).any()):
            scores = features.estimate(q, k).masked_fill(hidden, 0.0)
            draws.append((scores @ v - totals * exact).numpy())
            continue
        attended = attend(log_q, log_k, v, None, causal, (f_q, f_k))
        draws.append((totals * (attended - exact)).numpy())
    assert_mean(np.array(draws), 0.0)


@either
def test_approaches_exact_attention(causal: bool, rng: np.random.Generator) -> None:
    (x,) = tensors(rng, (6, 3, E), scale=0.7)
    mask = torch.ones(6, 6, dtype=torch.bool).triu(1) if causal else None
    errors = []
    for m in (8, 512):
        square = 0.0
        for draw in range(8):
            module = make(
                features=AngularHybridFeatures,
                n_frequencies=m,
                generator=draw,
                coupling="orthogonal",
            )
            expected = exact_twin(module)(x, x, x, attn_mask=mask)[0]
            result = module(x, x, x, is_causal=causal)[0]
            square += float((result - expected).detach().square().mean())
        errors.append(square**0.5)
    assert errors[1] < errors[0] / 3


@either
def test_outputs_stay_within_the_values(causal: bool, rng: np.random.Generator) -> None:
    values, attended = tensors(rng, (2, 5, 3), (2, 5, 3), scale=3.0)
    bias = torch.zeros(2, 5)
    bias[0, 0] = bias[1, 3] = -torch.inf
    found = within_values(attended, values, bias, causal)
    for b in range(2):
        for t in range(5):
            seen = [s for s in range(t + 1 if causal else 5) if bias[b, s] == 0]
            own = values[b, seen]
            expected = attended[b, t]
            if seen:
                expected = expected.clamp(own.amin(0), own.amax(0))
            torch.testing.assert_close(found[b, t], expected)


def test_the_past_does_not_see_the_future(rng: np.random.Generator) -> None:
    features = HYBRIDS["angular"](1)
    q, k, v = tensors(rng, (40, DIM), (40, DIM), (40, 4), scale=0.3)

    def attended(keys: Tensor, values: Tensor) -> Tensor:
        (log_q, f_q), (log_k, f_k) = features.leveled_queries(q), features.leveled_keys(keys)
        return attend(log_q, log_k, values, None, True, (f_q, f_k))

    before = attended(k, v)
    for t in (0, 16, 38):
        changed = k.clone()
        changed[t + 1 :] *= -2.0
        values = v.clone()
        values[t + 1 :] = -7.0
        assert torch.equal(attended(changed, values)[: t + 1], before[: t + 1])


@either
def test_a_negative_sum_is_said_and_attends_evenly(causal: bool) -> None:
    log_q, log_k = torch.zeros(3, 1), torch.zeros(3, 1)
    values, bias = torch.tensor([[1.0], [2.0], [4.0]]), torch.tensor([0.0, 1.0, -torch.inf])
    factors = torch.tensor([[1.0], [-1.0], [1.0]]), torch.ones(3, 1)
    with pytest.warns(RuntimeWarning, match="scores of 1 of 3 queries have a negative sum"):
        result = attend(log_q, log_k, values, bias, causal, factors)
    torch.testing.assert_close(result, attend(log_q, log_k, values, bias, causal))


@pytest.mark.filterwarnings("ignore:features. the estimated scores")
@either
def test_long_vectors_stay_finite_in_single_precision(
    causal: bool, rng: np.random.Generator
) -> None:
    module = make(features=AngularHybridFeatures, n_frequencies=8, dtype=torch.float32)
    (x,) = tensors(rng, (20, 2, E), scale=30.0)
    output = module(x.float(), x.float(), x.float(), is_causal=causal)[0]
    assert output.isfinite().all()
    output.square().sum().backward()
    assert all(p.grad is None or p.grad.isfinite().all() for p in module.parameters())


def test_states_and_redraw() -> None:
    module = make(features=AngularHybridFeatures)
    twin = make(features=AngularHybridFeatures, generator=1)
    twin.load_state_dict(module.state_dict())
    x = torch.ones(4, 1, E, dtype=torch.float64)
    torch.testing.assert_close(twin(x, x, x)[0], module(x, x, x)[0])
    names = [k for k in module.features.state_dict() if k.endswith(("frequencies", "projections"))]
    before = {k: module.features.state_dict()[k].clone() for k in names}
    module.redraw(5)
    assert len(names) == 3
    assert not any(torch.equal(module.features.state_dict()[k], before[k]) for k in names)


def test_features_without_levels_are_refused() -> None:
    def clusters(dim: int, m: int, **options: Any) -> ClusteredHybridFeatures:
        centers = np.ones((1, dim))
        return ClusteredHybridFeatures(centers, centers, m, **options)

    with pytest.raises(InvalidInputError, match="expected positive features"):
        cgp.CoupledAttention(E, H, features=clusters)
