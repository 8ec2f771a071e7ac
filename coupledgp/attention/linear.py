"""The products of linear attention, from the logarithms of positive features (MATH 10).

`softmax(Q K') V` is estimated by `D^-1 q(Q) (k(K)' V)`, `D = diag(q(Q) k(K)' 1)`, without the
N x N matrix. Every sum is taken relative to the running maximum of each feature, so that no
exponential overflows and no denominator is below one.
"""

from __future__ import annotations

import torch
from torch import Tensor

# Queries in a chunk. A longer chunk saves steps of the loop, N / CHUNK, and costs exponentials,
# CHUNK M for each query.
CHUNK = 16


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
        Number that is added to all scores of each key (..., S); -inf leaves the key out.
    causal
        Whether query t sees the keys s <= t only.

    Returns
    -------
    Tensor
        Attended values (..., L, D); zero for a query that sees no key.
    """
    if bias is not None:
        log_k = log_k + bias.to(log_k.dtype)[..., None]
    return (
        causal_attention(log_q, log_k, values) if causal else full_attention(log_q, log_k, values)
    )


def full_attention(log_q: Tensor, log_k: Tensor, values: Tensor) -> Tensor:
    """Attention in which every query sees every key, in O((L + S) M D) time.

    Two shifts of the exponents cancel in the quotient: one by the maximum of each feature over the
    keys, the other by the maximum over the features for each query. They make the largest term of
    each denominator at least one.

    Parameters
    ----------
    log_q, log_k
        Logarithms of positive features of queries (..., L, M) and keys (..., S, M).
    values
        Values (..., S, D).

    Returns
    -------
    Tensor
        Attended values (..., L, D).
    """
    peak = finite(log_k.detach().amax(-2, keepdim=True))
    keys = (log_k - peak).exp()
    exponent = log_q + peak
    queries = (exponent - exponent.detach().amax(-1, keepdim=True)).exp()
    return quotient(queries @ (keys.mT @ values), queries @ keys.sum(-2)[..., None])


def causal_attention(log_q: Tensor, log_k: Tensor, values: Tensor, chunk: int = CHUNK) -> Tensor:
    """Attention in which query t sees the keys s <= t, in O(N M (D + chunk)) time.

    Past chunks enter through sums that are kept relative to the running maximum of each feature.
    Keys of the query's own chunk enter pair by pair; their exponents relative to the running
    maximum at the query are never positive. The result of a query depends on no later key, not
    even by rounding.

    Parameters
    ----------
    log_q, log_k
        Logarithms of positive features of queries and of keys, both (..., N, M).
    values
        Values (..., N, D).
    chunk
        Number of queries that are treated together.

    Returns
    -------
    Tensor
        Attended values (..., N, D).
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
    """Divide (..., L, D) by (..., L, 1); a query without keys, a denominator of 0, gives zero."""
    empty = denominator == 0
    return (numerator / denominator.masked_fill(empty, 1.0)).masked_fill(empty, 0.0)


def finite(level: Tensor) -> Tensor:
    """Replace -inf by zero in a tensor of any shape: without a key, exponents need no shift."""
    return level.masked_fill(level == -torch.inf, 0.0)
