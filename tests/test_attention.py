"""Linear attention against exact attention, and as a stand-in for torch's module."""

import copy
import io
import itertools
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import coupledgp as cgp
from coupledgp.attention import attend, causal_attention, full_attention
from coupledgp.errors import CoupledGPError, InvalidInputError
from coupledgp.features import ComplexExponentialFeatures
from tests.theory import assert_mean

E, H = 8, 2


def tensors(rng: np.random.Generator, *shapes: tuple[int, ...], scale: float = 1.0) -> list[Tensor]:
    return [torch.as_tensor(rng.normal(size=shape) * scale) for shape in shapes]


def make(**options: Any) -> cgp.CoupledAttention:
    torch.manual_seed(0)
    options = {"n_frequencies": 16, "generator": 0, "dtype": torch.float64} | options
    return cgp.CoupledAttention(E, H, **options)


def exact_twin(module: cgp.CoupledAttention, **options: Any) -> torch.nn.MultiheadAttention:
    """Make torch's own module with the same parameters."""
    twin = torch.nn.MultiheadAttention(E, H, dtype=torch.float64, **options)
    state = {k: v for k, v in module.state_dict().items() if not k.startswith("features")}
    twin.load_state_dict(state)
    return twin


def reference(log_q: Tensor, log_k: Tensor, values: Tensor, causal: bool) -> Tensor:
    """Attention by its definition, with all scores, in logarithms."""
    scores = torch.logsumexp(log_q[..., :, None, :] + log_k[..., None, :, :], -1)
    if causal:
        later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(later, -torch.inf)
    return scores.softmax(-1) @ values


class TestSums:
    @pytest.mark.parametrize("causal", [False, True])
    @pytest.mark.parametrize("spread", [1.0, 30.0, 1000.0])
    @pytest.mark.parametrize("n", [1, 15, 16, 17, 50])
    def test_linear_time_form_equals_the_definition(
        self, n: int, spread: float, causal: bool, rng: np.random.Generator
    ) -> None:
        """However far apart the exponents are: 1000 overflows and underflows any plain form."""
        shape = (2, 3, n, 5)
        log_q, log_k = tensors(rng, shape, shape, scale=spread)
        (values,) = tensors(rng, (2, 3, n, 4))
        result = attend(log_q, log_k, values, causal=causal)
        expected = reference(log_q, log_k, values, causal)
        torch.testing.assert_close(result, expected, rtol=1e-9, atol=1e-9)

    @pytest.mark.parametrize("chunk", [1, 2, 7, 64])
    def test_chunks_do_not_matter(self, chunk: int, rng: np.random.Generator) -> None:
        log_q, log_k, values = tensors(rng, (2, 33, 5), (2, 33, 5), (2, 33, 4), scale=5.0)
        expected = reference(log_q, log_k, values, causal=True)
        torch.testing.assert_close(causal_attention(log_q, log_k, values, chunk), expected)

    def test_the_past_does_not_see_the_future(self, rng: np.random.Generator) -> None:
        """Not even by rounding: to the bit, under later keys of any size."""
        log_q, log_k, values = tensors(rng, (40, 5), (40, 5), (40, 4))
        before = causal_attention(log_q, log_k, values)
        for t in (0, 7, 16, 38):
            changed_k, changed_v = log_k.clone(), values.clone()
            changed_k[t + 1 :] += 500.0
            changed_v[t + 1 :] = -7.0
            after = causal_attention(log_q, changed_k, changed_v)
            assert torch.equal(after[: t + 1], before[: t + 1])
            assert not torch.equal(after[t + 1 :], before[t + 1 :])

    @pytest.mark.parametrize("causal", [False, True])
    def test_masked_keys(self, causal: bool, rng: np.random.Generator) -> None:
        log_q, log_k, values = tensors(rng, (40, 5), (40, 5), (40, 4))
        bias = torch.as_tensor(rng.normal(size=40))
        left_out = torch.as_tensor(rng.random(40) < 0.5)
        left_out[:20] = True  # more than a chunk without any key
        bias[left_out] = -torch.inf
        result = attend(log_q, log_k, values, bias, causal)
        expected = reference(log_q, log_k + bias[:, None], values, causal).nan_to_num(0.0)
        torch.testing.assert_close(result, expected)
        assert not attend(log_q, log_k, values, torch.full((40,), -torch.inf), causal).any()

    @pytest.mark.parametrize("function", [full_attention, causal_attention])
    def test_gradients(self, function: Any, rng: np.random.Generator) -> None:
        inputs = tensors(rng, (2, 5, 3), (2, 5, 3), (2, 5, 2))
        inputs[1][0, 0] = -torch.inf  # a key that is left out, where causal no key at all
        for x in inputs:
            x.requires_grad_()

        def attended(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            left_out = torch.zeros(2, 5, 1, dtype=torch.bool)
            left_out[0, 0] = True
            keys = k.masked_fill(left_out, -torch.inf)
            return function(q, keys, v, 2) if function is causal_attention else function(q, keys, v)

        inputs[1].data.nan_to_num_(0.0, neginf=0.0)
        assert torch.autograd.gradcheck(attended, inputs)

    @pytest.mark.parametrize("causal", [False, True])
    def test_gradients_stay_finite_far_apart(self, causal: bool, rng: np.random.Generator) -> None:
        inputs = tensors(rng, (40, 5), (40, 5), (40, 4), scale=300.0)
        for x in inputs:
            x.requires_grad_()
        attend(*inputs, causal=causal).sum().backward()
        assert all(x.grad is not None and x.grad.isfinite().all() for x in inputs)

    def test_time_is_linear(self) -> None:
        """Counted: entries of all results of operations, for n and 4 n."""

        class Counter(torch.overrides.TorchFunctionMode):
            def __init__(self) -> None:
                super().__init__()
                self.entries = 0

            def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None):
                result = func(*args, **(kwargs or {}))
                if isinstance(result, Tensor):
                    self.entries += result.numel()
                return result

        for causal, module in itertools.product((False, True), [make()]):
            counts = []
            for n in (64, 256):
                x = torch.ones(n, 1, E, dtype=torch.float64)
                with Counter() as counter:
                    module(x, x, x, is_causal=causal)
                counts.append(counter.entries)
            assert counts[1] <= 4.1 * counts[0]


class TestEstimate:
    @pytest.mark.parametrize(
        "coupling", ["iid", "orthogonal+pnc", "orthogonal+monotone", "orthogonal+antithetic"]
    )
    @pytest.mark.parametrize("causal", [False, True])
    def test_approaches_exact_attention(
        self, causal: bool, coupling: str, rng: np.random.Generator
    ) -> None:
        """The error falls like `m^-1/2`: an eighth of it at 64 times the frequencies."""
        (x,) = tensors(rng, (6, 3, E), scale=0.7)
        mask = torch.ones(6, 6, dtype=torch.bool).triu(1) if causal else None
        errors = []
        for m in (16, 1024):
            square = 0.0
            for draw in range(8):
                module = make(n_frequencies=m, coupling=coupling, generator=draw)
                expected = exact_twin(module)(x, x, x, attn_mask=mask)[0]
                result = module(x, x, x, is_causal=causal)[0]
                square += float((result - expected).square().mean().detach())
            errors.append(square**0.5)
        assert errors[1] < errors[0] / 3

    def test_scores_are_unbiased(self, rng: np.random.Generator) -> None:
        """The features that the module uses, for scores over `sqrt(d)`."""
        q, k = tensors(rng, (1, 1, 3, E // H), (1, 1, 3, E // H))
        exact = (q @ k.mT / (E // H) ** 0.5).exp().numpy()
        draws = []
        for _ in range(250):
            log_q, log_k = make(generator=rng, coupling="orthogonal+pnc")._log_features(q, k)
            draws.append((log_q.exp() @ log_k.exp().mT).numpy())
        assert_mean(np.array(draws), exact)

    def test_weights_are_those_of_the_output(self, rng: np.random.Generator) -> None:
        module = make()
        (x,) = tensors(rng, (20, 2, E))
        for causal in (False, True):
            output, weights = module(
                x, x, x, need_weights=True, average_attn_weights=False, is_causal=causal
            )
            assert weights.shape == (2, H, 20, 20)
            assert (weights >= 0).all()
            torch.testing.assert_close(weights.sum(-1), torch.ones(2, H, 20, dtype=torch.float64))
            assert bool((weights.triu(1) == 0).all()) == causal
            values = torch.nn.functional.linear(
                x, module.in_proj_weight[2 * E :], module.in_proj_bias[2 * E :]
            ).reshape(20, 2, H, E // H)
            heads = torch.einsum("bhts,sbhd->tbhd", weights, values).flatten(2)
            torch.testing.assert_close(module.out_proj(heads), output)
            averaged = module(x, x, x, need_weights=True, is_causal=causal)[1]
            torch.testing.assert_close(averaged, weights.mean(1))


class TestPrecision:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
    @pytest.mark.parametrize("causal", [False, True])
    @pytest.mark.parametrize("scale", [1.0, 30.0])
    def test_low_precision_follows_double(
        self, scale: float, causal: bool, dtype: torch.dtype, rng: np.random.Generator
    ) -> None:
        """Finite everywhere; at ordinary scales also close, to the rounding of the inputs."""
        low = make(dtype=dtype)
        double = make(dtype=torch.float64)
        double.load_state_dict(low.state_dict())
        (x,) = tensors(rng, (48, 2, E), scale=scale)
        x = x.to(dtype)
        result = low(x, x, x, is_causal=causal)[0]
        assert result.dtype == dtype
        assert result.isfinite().all()
        result.float().square().sum().backward()
        assert all(p.grad is None or p.grad.isfinite().all() for p in low.parameters())
        if scale == 1.0:
            expected = double(x.double(), x.double(), x.double(), is_causal=causal)[0]
            error = 1e-5 if dtype == torch.float32 else 0.05
            torch.testing.assert_close(result.double(), expected, rtol=error, atol=error)

    def test_frequencies_keep_single_precision(self) -> None:
        module = make(dtype=torch.float32)
        before = module.features.frequencies.clone()
        assert module.to(torch.bfloat16).in_proj_weight.dtype == torch.bfloat16
        assert torch.equal(module.features.frequencies, before)
        assert make(dtype=torch.bfloat16).features.frequencies.dtype == torch.float32
        parent = torch.nn.Sequential(module).to(torch.float64)
        assert parent[0].features.frequencies.dtype == torch.float64

    def test_autocast(self, rng: np.random.Generator) -> None:
        module = make(dtype=torch.float32)
        x = tensors(rng, (12, 2, E))[0].float()
        expected = module(x, x, x)[0]
        with torch.autocast("cpu", torch.bfloat16):
            result = module(x, x, x)[0]
        torch.testing.assert_close(result.float(), expected, rtol=0.05, atol=0.02)


class TestStandIn:
    """Uses of `torch.nn.MultiheadAttention` in which the module stands in for it."""

    @pytest.mark.parametrize("options", [{}, {"bias": False}, {"kdim": 5, "vdim": 3}], ids=str)
    def test_same_parameters_and_states(self, options: dict[str, Any]) -> None:
        theirs = torch.nn.MultiheadAttention(E, H, dtype=torch.float64, **options)
        ours = make(**options)
        assert [n for n, _ in ours.named_parameters()] == [n for n, _ in theirs.named_parameters()]
        frequencies = ours.features.frequencies.clone()
        assert str(ours.load_state_dict(theirs.state_dict())) == "<All keys matched successfully>"
        for name, parameter in theirs.named_parameters():
            assert torch.equal(ours.get_parameter(name), parameter)
        assert torch.equal(ours.features.frequencies, frequencies)

    def test_missing_parameters_are_still_reported(self) -> None:
        state = make().state_dict()
        del state["features.frequencies"]
        with pytest.raises(RuntimeError, match=r"features\.frequencies"):
            make().load_state_dict(state)
        with pytest.raises(RuntimeError, match="in_proj_weight"):
            make().load_state_dict({})

    @pytest.mark.parametrize("batch_first", [False, True])
    def test_layouts(self, batch_first: bool, rng: np.random.Generator) -> None:
        module = make(batch_first=batch_first)
        q, k = tensors(rng, (4, 3, E), (4 if batch_first else 7, 7 if batch_first else 3, E))
        output, weights = module(q, k, k, need_weights=True)
        theirs = exact_twin(module, batch_first=batch_first)(q, k, k)
        assert output.shape == theirs[0].shape == q.shape
        assert weights.shape == theirs[1].shape
        for b in range(4 if batch_first else 3):
            one = (q[b], k[b]) if batch_first else (q[:, b], k[:, b])
            single, w = module(one[0], one[1], one[1], need_weights=True)
            torch.testing.assert_close(single, output[b] if batch_first else output[:, b])
            torch.testing.assert_close(w, weights[b])

    def test_other_widths_of_keys_and_values(self, rng: np.random.Generator) -> None:
        module = make(kdim=5, vdim=3, n_frequencies=4096)
        q, k, v = tensors(rng, (4, 2, E), (6, 2, 5), (6, 2, 3), scale=0.5)
        expected = exact_twin(module, kdim=5, vdim=3)(q, k, v)[0]
        torch.testing.assert_close(module(q, k, v)[0], expected, rtol=0.1, atol=0.02)

    def test_key_padding_mask(self, rng: np.random.Generator) -> None:
        module = make()
        (x,) = tensors(rng, (7, 2, E))
        mask = torch.zeros(2, 7, dtype=torch.bool)
        mask[0, 4:] = True
        output = module(x, x, x, key_padding_mask=mask)[0]
        torch.testing.assert_close(output[:, 0], module(x[:, 0], x[:4, 0], x[:4, 0])[0])
        torch.testing.assert_close(output[:, 1], module(x[:, 1], x[:, 1], x[:, 1])[0])
        additive = torch.zeros(2, 7).masked_fill(mask, -torch.inf)
        torch.testing.assert_close(module(x, x, x, key_padding_mask=additive)[0], output)
        alone = module(x[:, 0], x[:, 0], x[:, 0], key_padding_mask=mask[0])[0]
        torch.testing.assert_close(alone, output[:, 0])

    def test_masks_it_can_honour(self, rng: np.random.Generator) -> None:
        module = make()
        (x,) = tensors(rng, (7, 2, E))
        causal = module(x, x, x, is_causal=True)[0]
        square = torch.nn.Transformer.generate_square_subsequent_mask(7)
        for mask in (square, square == -torch.inf, square.expand(2 * H, 7, 7)):
            torch.testing.assert_close(module(x, x, x, attn_mask=mask)[0], causal)
            torch.testing.assert_close(module(x, x, x, attn_mask=mask, is_causal=True)[0], causal)
        by_key = torch.as_tensor(rng.normal(size=7))
        by_key[2] = -torch.inf
        padded = module(x, x, x, key_padding_mask=by_key.expand(2, 7))[0]
        torch.testing.assert_close(module(x, x, x, attn_mask=by_key.expand(7, 7))[0], padded)
        both = module(x, x, x, key_padding_mask=by_key.expand(2, 7), is_causal=True)[0]
        torch.testing.assert_close(module(x, x, x, attn_mask=square + by_key)[0], both)
        by_mask = module(x, x, x, attn_mask=by_key.expand(7, 7), is_causal=True)[0]
        torch.testing.assert_close(by_mask, both)
        assert not torch.allclose(both, padded)

    def test_masks_agree_with_exact_attention(self, rng: np.random.Generator) -> None:
        module = make(n_frequencies=8192, coupling="orthogonal+antithetic")
        (x,) = tensors(rng, (7, 2, E), scale=0.5)
        square = torch.nn.Transformer.generate_square_subsequent_mask(7, dtype=torch.float64)
        mask = square + torch.as_tensor(rng.normal(size=7))
        expected = exact_twin(module)(x, x, x, attn_mask=mask)[0]
        torch.testing.assert_close(
            module(x, x, x, attn_mask=mask)[0], expected, rtol=0.1, atol=0.02
        )

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            ({"attn_mask": torch.eye(7, dtype=torch.bool)}, "honours only masks that are causal"),
            ({"attn_mask": torch.ones(7, 7).tril()}, "honours only masks that are causal"),
            ({"attn_mask": torch.zeros(7, 6)}, r"attn_mask: expected shape \(7, 7\) or \(4, 7, 7"),
            ({"attn_mask": torch.full((7, 7), torch.nan)}, "attn_mask: expected finite numbers"),
            ({"attn_mask": torch.zeros(7, 7, dtype=torch.int)}, "attn_mask: expected bool or flo"),
            ({"key_padding_mask": torch.zeros(7, 2)}, r"key_padding_mask: expected shape \(2, 7\)"),
            ({"key": torch.ones(5, 2, E)}, r"value: expected shape \(5, 2\) before the last"),
            ({"key": torch.ones(7, E)}, r"key: expected 3 dimensions as in query, got \(7, 8\)"),
            ({"query": torch.ones(7, 2, E + 1)}, "query: expected last dimension 8, got 9"),
            ({"query": torch.ones(2, 7, 2, E)}, "query: expected a plain tensor of 2 or 3"),
            ({"query": torch.ones(6, 2, E), "is_causal": True}, "is_causal: expected as many"),
        ],
    )
    def test_refusals(self, arguments: dict[str, Any], message: str) -> None:
        x = torch.ones(7, 2, E, dtype=torch.float64)
        arguments = {"query": x, "key": x, "value": x} | {
            k: v.double() if isinstance(v, Tensor) and k in ("query", "key") else v
            for k, v in arguments.items()
        }
        with pytest.raises(InvalidInputError, match=message):
            make()(**arguments)

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"dropout": 0.1}, "dropout: expected 0, got 0.1: linear attention forms no weights"),
            ({"n_frequencies": 0}, "n_frequencies: expected an int >= 1"),
            ({"coupling": "ortho"}, "coupling: expected one of"),
            (
                {"features": lambda *a, **k: ComplexExponentialFeatures(*a, matrix=1j, **k)},
                "features: expected positive features",
            ),
        ],
    )
    def test_bad_options(self, options: dict[str, Any], message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            make(**options)
        with pytest.raises(InvalidInputError, match="embed_dim: expected a multiple of num_heads"):
            cgp.CoupledAttention(8, 3)

    def test_in_torchs_encoder_layer(self, rng: np.random.Generator) -> None:
        """Also without gradients, where torch would call a fused exact attention instead."""
        layer = torch.nn.TransformerEncoderLayer(
            E, H, 16, dropout=0.0, batch_first=True, dtype=torch.float64
        )
        exact = copy.deepcopy(layer).eval()
        layer.self_attn = make(batch_first=True)
        layer.self_attn.load_state_dict(exact.self_attn.state_dict())
        (x,) = tensors(rng, (2, 6, E))
        expected = layer(x)
        layer.eval()
        with torch.no_grad():
            torch.testing.assert_close(layer(x), expected)
            assert not torch.allclose(exact(x), expected)
            mask = torch.zeros(2, 6, dtype=torch.bool)
            mask[:, 4:] = True
            padded = layer(x, src_key_padding_mask=mask)[:, :4]
            torch.testing.assert_close(padded, layer(x[:, :4]))

    def test_gradcheck(self, rng: np.random.Generator) -> None:
        module = make(n_frequencies=3)
        x = tensors(rng, (4, 1, E))[0].requires_grad_()
        for causal in (False, True):
            assert torch.autograd.gradcheck(
                lambda x, causal=causal: module(x, x, x, is_causal=causal)[0], (x,)
            )


class TestFrequencies:
    def test_redraw(self, rng: np.random.Generator) -> None:
        module = make(coupling="orthogonal+pnc")
        (x,) = tensors(rng, (5, 2, E))
        first = module(x, x, x)[0]
        assert torch.equal(module(x, x, x)[0], first)  # nothing is drawn by a call
        module.redraw(1)
        second = module(x, x, x)[0]
        assert not torch.equal(second, first)
        expected = module.coupling.sample(16, E // H, "gaussian", 1)
        np.testing.assert_array_equal(module.features.frequencies.numpy(), expected)
        module.redraw(0)
        assert torch.equal(module(x, x, x)[0], first)

    def test_frozen_in_evaluation(self) -> None:
        module = make().eval()
        before = module.features.frequencies.clone()
        with pytest.raises(CoupledGPError, match="frozen in eval mode"):
            module.redraw(1)
        assert torch.equal(module.features.frequencies, before)

    def test_state_in_another_module(self, rng: np.random.Generator) -> None:
        source, target = make(), make(generator=5)
        stored = io.BytesIO()
        torch.save(source.state_dict(), stored)
        stored.seek(0)
        target.load_state_dict(torch.load(stored, weights_only=True))
        (x,) = tensors(rng, (5, 2, E))
        assert torch.equal(source(x, x, x)[0], target(x, x, x)[0])
        assert torch.equal(copy.deepcopy(source)(x, x, x)[0], source(x, x, x)[0])

    def test_other_positive_features(self, rng: np.random.Generator) -> None:
        """Positive features of any real A, and of a user's own class."""

        def scaled(*args: Any, **options: Any) -> ComplexExponentialFeatures:
            return ComplexExponentialFeatures(*args, matrix=1.3, **options)

        (x,) = tensors(rng, (5, 2, E), scale=0.5)
        module = make(features=scaled, n_frequencies=8192)
        expected = exact_twin(module)(x, x, x)[0]
        torch.testing.assert_close(module(x, x, x)[0], expected, rtol=0.1, atol=0.02)

        class Constant(torch.nn.Module):
            def __init__(self, dim: int, n: int, **_: Any) -> None:
                super().__init__()
                self.n = n

            def log_queries(self, X: Tensor) -> Tensor:
                return X.new_zeros((*X.shape[:-1], self.n))

            log_keys = log_queries

        module = make(features=Constant)
        weights = module(x, x, x, need_weights=True)[1]
        torch.testing.assert_close(weights, torch.full_like(weights, 1 / 5))
