"""Attention in linear time by positive features of the softmax kernel (MATH 10).

`softmax(Q K') V` is estimated by `D^-1 q(Q) (k(K)' V)`, `D = diag(q(Q) k(K)' 1)`, without the
N x N matrix. Features enter by their logarithms and every sum is taken relative to a running
maximum for each feature, so that no exponential overflows and no denominator is below one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from coupledgp.couplings import CouplingLike, parse_coupling
from coupledgp.errors import CoupledGPError, InvalidInputError
from coupledgp.features import ComplexExponentialFeatures
from coupledgp.features.hybrid_exponential import exponents
from coupledgp.inference.fitted_posterior import check_frequencies
from coupledgp.random import Seed
from coupledgp.validation import check_positive, check_positive_int

# Exponentials within a chunk grow with its length, steps of the loop over chunks fall.
CHUNK = 16
REDUCED = (torch.bfloat16, torch.float16)


class PositiveFeatures(Protocol):
    """What `CoupledAttention` asks of features: logarithms (..., n, M) of both sides."""

    def log_queries(self, X: Tensor) -> Tensor:
        """Logarithms of the features of queries (..., n, d)."""
        ...

    def log_keys(self, Y: Tensor) -> Tensor:
        """Logarithms of the features of keys (..., n, d)."""
        ...


class CoupledAttention(torch.nn.MultiheadAttention):
    """Multi-head attention in linear time, called and loaded like `torch.nn.MultiheadAttention`.

    Each head estimates `softmax(Q K' / sqrt(d)) V` by positive features of the softmax kernel.
    All heads of a layer share one ensemble of coupled frequencies. The parameters have the names
    of `MultiheadAttention`, whose `state_dict` loads; the frequencies are buffers beside them,
    drawn in the constructor and again only by `redraw()`. Features and sums are computed in single
    precision at least, whatever the precision of the parameters.

    Parameters
    ----------
    embed_dim, num_heads
        Width of the model and number of heads.
    n_frequencies
        Number of frequencies m of a head.
    coupling
        Joint law of the frequencies. Equal norms ("monotone") raise the variance of each kernel
        estimate but lower that of the normalised weights ("Variance-reducing couplings", 3.3).
    generator
        Seed or generator of the frequencies.
    features
        Makes the features: `features(dim, n_frequencies, coupling=..., generator=..., dtype=...,
        device=...)`, a module with `log_queries` and `log_keys`. By default
        `ComplexExponentialFeatures` with `A = I`.
    dropout
        Must be 0: attention weights are never formed, so none can be dropped.
    bias, kdim, vdim, batch_first, device, dtype
        As in `MultiheadAttention`.
    """

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        n_frequencies: int = 64,
        coupling: CouplingLike = "orthogonal+monotone",
        generator: Seed = None,
        features: Callable[..., torch.nn.Module] = ComplexExponentialFeatures,
        dropout: float = 0.0,
        bias: bool = True,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        check_positive_int(embed_dim, "embed_dim")
        if embed_dim % check_positive_int(num_heads, "num_heads"):
            raise InvalidInputError(
                f"embed_dim: expected a multiple of num_heads = {num_heads}, got {embed_dim}"
            )
        if dropout != 0:
            raise InvalidInputError(
                f"dropout: expected 0, got {dropout}: linear attention forms no weights to drop; "
                "use dropout on the output"
            )
        super().__init__(
            embed_dim, num_heads, bias=bias, kdim=kdim, vdim=vdim, batch_first=batch_first,
            device=device, dtype=dtype,
        )  # fmt: skip
        # torch's encoder layers replace the call by a fused exact attention where this is true.
        self._qkv_same_embed_dim = False
        self.n_frequencies = check_positive_int(n_frequencies, "n_frequencies")
        self.coupling = parse_coupling(coupling)
        self._make_features = features
        self.features = self._draw(generator)

    def _draw(self, generator: Seed) -> torch.nn.Module:
        weight = self.out_proj.weight
        dtype = torch.float32 if weight.dtype in REDUCED else weight.dtype
        made = self._make_features(
            self.head_dim, self.n_frequencies, coupling=self.coupling, generator=generator,
            dtype=dtype, device=weight.device,
        )  # fmt: skip
        if not getattr(made, "is_positive", hasattr(made, "log_queries")):
            raise InvalidInputError(
                "features: expected positive features, with log_queries and log_keys, got "
                f"{type(made).__name__}"
            )
        return made

    def redraw(self, generator: Seed = None) -> None:
        """Draw new frequencies, in training mode only: in evaluation they are frozen.

        Raises
        ------
        CoupledGPError
            The module is in evaluation mode.
        """
        if not self.training:
            raise CoupledGPError("redraw: frequencies are frozen in eval mode; call train() first")
        self.features.load_state_dict(self._draw(generator).state_dict())

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = False,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend; arguments and shapes are those of `MultiheadAttention.forward`.

        Parameters
        ----------
        query, key, value
            (L, B, E), or (B, L, E) if `batch_first`, or (L, E) without a batch.
        key_padding_mask
            (B, S), or (S,) without a batch: True, or -inf, where a key is left out; other numbers
            are added to its scores. A query without a key gives the output of a zero value.
        need_weights
            Also return the weights (B, L, S) that the estimate amounts to, which sum to one over
            the keys. That takes quadratic time and memory, so the default is False here.
        attn_mask
            Linear attention can honour masks that are causal, or the same for every query, or
            both; any other is refused.
        average_attn_weights
            Whether the weights are averaged over heads, else (B, H, L, S).
        is_causal
            Query t sees the keys s <= t; no `attn_mask` is needed.

        Raises
        ------
        InvalidInputError
            A shape does not fit, or the mask is one that linear attention cannot honour.
        """
        batched = query.ndim == 3
        check_attention_inputs(query, key, value)
        if batched and not self.batch_first:
            query, key, value = (x.transpose(0, 1) for x in (query, key, value))
        elif not batched:
            query, key, value = (x[None] for x in (query, key, value))
        q, k, v = self._project(query, key, value)
        bias, causal = self._masks(key_padding_mask, attn_mask, is_causal, q, k)
        with torch.autocast(q.device.type, enabled=False):
            log_q, log_k = self._log_features(q, k)
            attended = attend(log_q, log_k, v.to(log_q.dtype), bias, causal)
            weights = None
            if need_weights:
                eye = torch.eye(k.shape[-2], dtype=log_q.dtype, device=q.device)
                weights = attend(log_q, log_k, eye.expand(*q.shape[:2], -1, -1), bias, causal)
        output = self.out_proj(attended.to(v.dtype).transpose(1, 2).flatten(2))
        if weights is not None:
            weights = (weights.mean(1) if average_attn_weights else weights).to(v.dtype)
        if not batched:
            return output[0], None if weights is None else weights[0]
        return output if self.batch_first else output.transpose(0, 1), weights

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        """Queries, keys and values of all heads, each (B, H, n, head_dim)."""
        if self.in_proj_weight is not None:
            matrices = self.in_proj_weight.chunk(3)
        else:
            matrices = (self.q_proj_weight, self.k_proj_weight, self.v_proj_weight)
        shifts: Any = (None,) * 3 if self.in_proj_bias is None else self.in_proj_bias.chunk(3)
        projected = []
        for name, x, matrix, shift in zip(
            ("query", "key", "value"), (query, key, value), matrices, shifts, strict=True
        ):
            if x.shape[-1] != matrix.shape[1]:
                raise InvalidInputError(
                    f"{name}: expected last dimension {matrix.shape[1]}, got {x.shape[-1]}"
                )
            heads = torch.nn.functional.linear(x, matrix, shift)
            split = heads.reshape(*heads.shape[:-1], self.num_heads, -1)
            projected.append(split.transpose(1, 2))
        return projected

    def _log_features(self, q: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
        features = cast(PositiveFeatures, self.features)
        precise = torch.float32 if q.dtype in REDUCED else q.dtype
        root = self.head_dim**-0.25  # of the 1 / sqrt(d) in the scores, half on either side
        return features.log_queries(q.to(precise) * root), features.log_keys(k.to(precise) * root)

    def _masks(
        self,
        key_padding_mask: Tensor | None,
        attn_mask: Tensor | None,
        is_causal: bool,
        q: Tensor,
        k: Tensor,
    ) -> tuple[Tensor | None, bool]:
        """What is added to the scores of each key, (B, 1 or H, S), and whether to be causal."""
        batch, heads, n_queries = q.shape[:3]
        n_keys, bias = k.shape[-2], None
        if key_padding_mask is not None:
            padding = key_padding_mask if key_padding_mask.ndim == 2 else key_padding_mask[None]
            if padding.shape != (batch, n_keys):
                raise InvalidInputError(
                    f"key_padding_mask: expected shape ({batch}, {n_keys}), "
                    f"got {tuple(key_padding_mask.shape)}"
                )
            bias = as_additive(padding, "key_padding_mask")[:, None, :]
        if attn_mask is not None:
            mask = as_additive(attn_mask, "attn_mask")
            if mask.shape == (batch * heads, n_queries, n_keys):
                mask = mask.reshape(batch, heads, n_queries, n_keys)
            elif mask.shape == (n_queries, n_keys):
                mask = mask[None, None]
            else:
                raise InvalidInputError(
                    f"attn_mask: expected shape ({n_queries}, {n_keys}) or "
                    f"({batch * heads}, {n_queries}, {n_keys}), got {tuple(attn_mask.shape)}"
                )
            by_key, mask_is_causal = split_mask(mask)
            bias = by_key if bias is None else bias + by_key
            is_causal = is_causal or mask_is_causal
        if is_causal and n_queries != n_keys:
            raise InvalidInputError(
                "is_causal: expected as many queries as keys, got "
                f"{n_queries} queries and {n_keys} keys"
            )
        return bias, is_causal

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> CoupledAttention:
        """Move or convert everything; features are not converted to reduced precision."""
        kept = dict(self.features.named_buffers())
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        for name, before in kept.items():
            owner, _, leaf = name.rpartition(".")
            module = self.features.get_submodule(owner)
            after = module._buffers[leaf]
            if after is not None and after.dtype in REDUCED:
                module._buffers[leaf] = before.to(after.device)
        return self

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        """A state without frequencies, that of `MultiheadAttention`, leaves them as they are."""
        own = {f"{prefix}features.{name}": t for name, t in self.features.state_dict().items()}
        if not own.keys() & state_dict.keys():
            state_dict.update(own)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


def attend(
    log_q: Tensor, log_k: Tensor, values: Tensor, bias: Tensor | None = None, causal: bool = False
) -> Tensor:
    """Attention `sum_s a_ts v_s / sum_s a_ts`, `a_ts = sum_i exp(log_q_ti + log_k_si + bias_s)`.

    Parameters
    ----------
    log_q, log_k
        Logarithms of positive features of queries (..., L, M) and keys (..., S, M).
    values
        Values (..., S, D).
    bias
        Added to the scores of each key (..., S); -inf leaves it out.
    causal
        Whether query t sees the keys s <= t only.

    Returns
    -------
    Tensor
        Shape (..., L, D); zero for a query without a key.
    """
    if bias is not None:
        log_k = log_k + bias.to(log_k.dtype)[..., None]
    return (
        causal_attention(log_q, log_k, values) if causal else full_attention(log_q, log_k, values)
    )


def full_attention(log_q: Tensor, log_k: Tensor, values: Tensor) -> Tensor:
    """Every query sees every key: O((L + S) M D).

    Both shifts, by the maximum of a feature over the keys and of a query over the features, cancel
    in the quotient; they make the largest term of each denominator at least one.
    """
    peak = finite(log_k.detach().amax(-2, keepdim=True))
    keys = (log_k - peak).exp()
    exponent = log_q + peak
    queries = (exponent - exponent.detach().amax(-1, keepdim=True)).exp()
    return quotient(queries @ (keys.mT @ values), queries @ keys.sum(-2)[..., None])


def causal_attention(log_q: Tensor, log_k: Tensor, values: Tensor, chunk: int = CHUNK) -> Tensor:
    """Query t sees keys s <= t: prefix sums over chunks, O(N M (D + chunk)).

    Past chunks act through sums relative to the running maximum of each feature; keys of the own
    chunk pair by pair, whose exponents relative to the running maximum at the query are never
    positive. A query's result depends on no later key, not even by rounding.
    """
    *batch, n, m = log_q.shape
    peak = log_k.new_full((*batch, 1, m), -torch.inf)
    sums = values.new_zeros((*batch, m, values.shape[-1]))
    totals = values.new_zeros((*batch, m, 1))
    outputs = []
    for start in range(0, n, chunk):
        rows = slice(start, min(start + chunk, n))
        a, b, v = log_q[..., rows, :], log_k[..., rows, :], values[..., rows, :]
        running = torch.maximum(b.detach().cummax(-2).values, peak)
        level = finite((a.detach() + running).amax(-1, keepdim=True))
        past = (a + peak - level).exp()
        pairs = a[..., :, None, :] + b[..., None, :, :] - level[..., None]
        later = torch.ones(pairs.shape[-3:-1], dtype=torch.bool, device=a.device).triu(1)
        within = pairs.masked_fill(later[..., None], -torch.inf).exp().sum(-1)
        outputs.append(
            quotient(past @ sums + within @ v, past @ totals + within.sum(-1, keepdim=True))
        )
        new_peak = finite(running[..., -1:, :])
        decay = (peak - new_peak).exp().mT
        keys = (b - new_peak).exp().mT
        sums = sums * decay + keys @ v
        totals = totals * decay + keys.sum(-1, keepdim=True)
        peak = running[..., -1:, :]
    return torch.cat(outputs, dim=-2)


def quotient(numerator: Tensor, denominator: Tensor) -> Tensor:
    """The quotient; zero where there is no key at all."""
    empty = denominator == 0
    return (numerator / denominator.masked_fill(empty, 1.0)).masked_fill(empty, 0.0)


def finite(level: Tensor) -> Tensor:
    """Zero in place of -inf: where there is no key, any level will do."""
    return level.masked_fill(level == -torch.inf, 0.0)


def as_additive(mask: Tensor, name: str) -> Tensor:
    """A mask as numbers to be added to scores: -inf for True."""
    if mask.dtype == torch.bool:
        return torch.zeros(mask.shape, device=mask.device).masked_fill(mask, -torch.inf)
    if not mask.is_floating_point():
        raise InvalidInputError(f"{name}: expected bool or float, got {mask.dtype}")
    if bool((mask.isnan() | (mask == torch.inf)).any()):
        raise InvalidInputError(f"{name}: expected finite numbers or -inf, got NaN or inf")
    return mask


def split_mask(mask: Tensor) -> tuple[Tensor, bool]:
    """The part of an additive mask (..., L, S) that depends on the key, and whether it is causal.

    Raises
    ------
    InvalidInputError
        It depends on query and key in another way, which features of each alone cannot express.
    """
    by_key = mask[..., -1:, :]
    if bool((mask == by_key).all()):
        return by_key[..., 0, :], False
    if mask.shape[-2] == mask.shape[-1]:
        later = torch.ones(mask.shape[-2:], dtype=torch.bool, device=mask.device).triu(1)
        if bool((mask == by_key.masked_fill(later, -torch.inf)).all()):
            return by_key[..., 0, :], True
    raise InvalidInputError(
        "attn_mask: linear attention never forms the scores of single pairs, so it honours only "
        "masks that are causal or the same for every query; use torch.nn.MultiheadAttention"
    )


def check_attention_inputs(query: Tensor, key: Tensor, value: Tensor) -> None:
    """Refuse inputs whose numbers of dimensions, batches or keys do not fit."""
    if query.is_nested or query.ndim not in (2, 3):
        raise InvalidInputError(
            "query: expected a plain tensor of 2 or 3 dimensions, got "
            f"{'a nested one' if query.is_nested else tuple(query.shape)}"
        )
    for name, x in {"key": key, "value": value}.items():
        if x.ndim != query.ndim:
            raise InvalidInputError(
                f"{name}: expected {query.ndim} dimensions as in query, got {tuple(x.shape)}"
            )
    if key.shape[:-1] != value.shape[:-1]:
        raise InvalidInputError(
            f"value: expected shape {tuple(key.shape[:-1])} before the last dimension as in key, "
            f"got {tuple(value.shape)}"
        )


class AttentionLoss:
    """Loss `frequencies -> mean squared error of linear attention`; see `attention_loss`."""

    def __init__(self, queries: Tensor, keys: Tensor, values: Tensor, causal: bool) -> None:
        self.queries, self.keys, self.values, self.causal = queries, keys, values, causal
        self.exact = torch.nn.functional.scaled_dot_product_attention(
            queries, keys, values, is_causal=causal, scale=1.0
        )

    @property
    def dim(self) -> int:
        """Dimension d of queries and keys."""
        return self.queries.shape[-1]

    def __call__(self, frequencies: Tensor) -> Tensor:
        """Mean squared error, differentiable in the frequencies (m, d)."""
        check_frequencies(frequencies, self.dim)
        log_q, log_k = (
            exponents(frequencies.double(), rows, None, None)[0]
            for rows in (self.queries, self.keys)
        )
        attended = attend(log_q, log_k, self.values, causal=self.causal)
        return (attended - self.exact).square().mean()


def attention_loss(
    queries: ArrayLike | Tensor,
    keys: ArrayLike | Tensor,
    values: ArrayLike | Tensor | None = None,
    *,
    causal: bool = False,
    scale: float | None = None,
) -> AttentionLoss:
    """Loss that measures frequencies by the error of linear attention (MATH 10).

    `loss(frequencies)` is the mean of the squared entries of `A^ V - softmax(scale Q K') V`, with
    `A^ = D^-1 q(Q) k(K)'` from positive features of the frequencies (m, d): a differentiable
    scalar. Heads and batches are leading dimensions; one ensemble of frequencies serves them all,
    as in `CoupledAttention`. O((L + S) m D) time for each batch entry.

    Positive features have heavy tails. The error is bounded, since weights are positive and sum to
    one, but a few rows can carry most of it; and where queries and keys are long it saturates: one
    feature outweighs all others, whatever the coupling.

    Parameters
    ----------
    queries, keys
        Queries (..., L, d) and keys (..., S, d).
    values
        Values (..., S, D). Without them the error is that of the weights themselves, `V = I`.
    causal
        Whether query t sees the keys s <= t only; L = S then.
    scale
        Factor of the scores; `1 / sqrt(d)` if None, as in attention of torch.

    Raises
    ------
    InvalidInputError
        A shape does not fit, a value is not finite or the scale is not positive.
    """
    q, k = as_finite(queries, "queries"), as_finite(keys, "keys")
    if k.shape[:-2] != q.shape[:-2] or k.shape[-1] != q.shape[-1]:
        expected = ", ".join(map(str, (*q.shape[:-2], "S", q.shape[-1])))
        raise InvalidInputError(
            f"keys: expected shape ({expected}) as queries have, got {tuple(k.shape)}"
        )
    if values is None:
        v = torch.eye(k.shape[-2], dtype=k.dtype).expand(*k.shape[:-1], -1)
    else:
        v = as_finite(values, "values")
    if v.shape[:-1] != k.shape[:-1]:
        raise InvalidInputError(
            f"values: expected shape {tuple(k.shape[:-1])} before the last dimension as in keys, "
            f"got {tuple(v.shape)}"
        )
    if causal and q.shape != k.shape:
        raise InvalidInputError(
            f"causal: expected as many queries as keys, got {q.shape[-2]} queries and "
            f"{k.shape[-2]} keys"
        )
    factor = q.shape[-1] ** -0.5 if scale is None else check_positive(scale, "scale")
    return AttentionLoss(q * factor**0.5, k * factor**0.5, v, causal)


def as_finite(value: ArrayLike | Tensor, name: str) -> Tensor:
    """A detached float64 copy (..., n, d) of finite numbers, not empty."""
    try:
        array = value.detach().cpu() if isinstance(value, Tensor) else np.asarray(value)
        rows = torch.tensor(np.asarray(array, dtype=np.float64))
    except (TypeError, ValueError):
        raise InvalidInputError(f"{name}: expected an array of numbers") from None
    if rows.ndim < 2 or 0 in rows.shape:
        raise InvalidInputError(
            f"{name}: expected a non-empty array (..., n, d), got shape {tuple(rows.shape)}"
        )
    if not bool(rows.isfinite().all()):
        raise InvalidInputError(f"{name}: expected finite values, got NaN or inf")
    return rows
