"""The products of linear attention, from the logarithms of features (MATH 10).

`softmax(Q K') V` is estimated by `D^-1 q(Q) (k(K)' V)`, `D = diag(q(Q) k(K)' 1)`, without the
N x N matrix. Every sum is taken relative to the running maximum of each feature, so that no
exponential overflows, and no denominator of positive features is below one. Features of either
sign are `factor exp(level)` with a bounded factor; their denominators can be negative.
"""

from __future__ import annotations

from coupledgp.ground.tensors import Tensor, torch
from coupledgp.ground.visible import warn

# Queries in a chunk. A longer chunk saves steps of the loop, N / CHUNK, and costs exponentials,
# CHUNK M for each query.
CHUNK = 16


Factors = tuple[Tensor, Tensor]
Sums = tuple[Tensor, Tensor]


def attend(
    log_q: Tensor,
    log_k: Tensor,
    values: Tensor,
    bias: Tensor | None = None,
    causal: bool = False,
    factors: Factors | None = None,
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
    factors
        Factors of the features of queries (..., L, M) and keys (..., S, M), of either sign, by
        which the exponentials are multiplied. A RuntimeWarning is given where the sum of a query's
        estimated scores is negative: nothing is known of its weights then, and it attends to the
        keys that it sees as if all scores were zero.

    Returns
    -------
    Tensor
        Attended values (..., L, D); zero for a query that sees no key.

    Examples
    --------
    >>> import torch
    >>> from coupledgp.attention import attend
    >>> values = torch.tensor([[1.0], [2.0], [6.0]])
    >>> even = torch.zeros(3, 4)  # logarithms of four features for each of three queries and keys
    >>> attend(even, even, values).flatten().tolist()  # equal weights: the mean
    [3.0, 3.0, 3.0]
    >>> attend(even, even, values, causal=True).flatten().tolist()  # of the values so far
    [1.0, 1.5, 3.0]
    >>> hidden = torch.tensor([0.0, 0.0, -torch.inf])
    >>> attend(even, even, values, bias=hidden).flatten().tolist()  # without the last key
    [1.5, 1.5, 1.5]
    """
    if bias is not None:
        log_k = log_k + bias.to(log_k.dtype)[..., None]
    sums = causal_sums if causal else full_sums
    if factors is None:
        return quotient(*sums(log_q, log_k, values))
    numerator, denominator = sums(log_q, log_k, values, factors)
    lost = denominator < 0
    if not bool(lost.any()):
        return quotient(numerator, denominator)
    warn(
        f"features: the estimated scores of {int(lost.sum())} of {lost.numel()} queries have a "
        "negative sum, and these attend evenly to all keys they see; more frequencies or shorter "
        "queries and keys make this rarer, positive features rule it out",
        RuntimeWarning,
    )
    of_q, of_k = (rows.new_zeros((*rows.shape[:-1], 1)) for rows in (log_q, log_k))
    even = attend(of_q, of_k, values, bias, causal)
    return torch.where(lost, even, quotient(numerator, denominator.masked_fill(lost, 1.0)))


def within_values(attended: Tensor, values: Tensor, bias: Tensor | None, causal: bool) -> Tensor:
    """Attended values (..., L, D), each kept within the range of those that its query sees.

    A weighted mean never leaves that range, so that this brings no estimate farther from exact
    attention; features of either sign need it, where the sum of a query's scores is near zero.

    Parameters
    ----------
    attended
        Attended values (..., L, D).
    values, bias, causal
        As in `attend`.
    """
    low = high = values
    if bias is not None:
        left_out = (bias == -torch.inf)[..., None]
        low = values.masked_fill(left_out, torch.inf)
        high = values.masked_fill(left_out, -torch.inf)
    if causal:
        low, high = low.cummin(-2).values, high.cummax(-2).values
    else:
        low, high = low.amin(-2, keepdim=True), high.amax(-2, keepdim=True)
    bounded = torch.minimum(torch.maximum(attended, low), high)
    return torch.where(low <= high, bounded, attended)  # without a key there is no range


def full_attention(log_q: Tensor, log_k: Tensor, values: Tensor) -> Tensor:
    """Attention in which every query sees every key; see `full_sums`.

    Examples
    --------
    >>> import torch
    >>> from coupledgp.attention import full_attention
    >>> from coupledgp.features import ComplexExponentialFeatures
    >>> rows = torch.rand(6, 2, generator=torch.Generator().manual_seed(0)).double()
    >>> features = ComplexExponentialFeatures(2, 2000, coupling="orthogonal", generator=0)
    >>> attended = full_attention(features.log_queries(rows), features.log_keys(rows), rows)
    >>> exact = (rows @ rows.T).softmax(-1) @ rows
    >>> bool((attended - exact).abs().max() < 0.05)
    True
    """
    return quotient(*full_sums(log_q, log_k, values))


def full_sums(log_q: Tensor, log_k: Tensor, values: Tensor, factors: Factors | None = None) -> Sums:
    """Numerators and denominators where every query sees every key, in O((L + S) M D) time.

    Two shifts of the exponents cancel in the quotient: one by the maximum of each feature over the
    keys, the other by the maximum over the features for each query. They make the largest term of
    each denominator of positive features at least one.

    Parameters
    ----------
    log_q, log_k
        Logarithms of positive features of queries (..., L, M) and keys (..., S, M).
    values
        Values (..., S, D).
    factors
        As in `attend`.

    Returns
    -------
    tuple of Tensor
        Numerators (..., L, D) and denominators (..., L, 1), up to one factor for each query.
    """
    peak = finite(log_k.detach().amax(-2, keepdim=True))
    keys = (log_k - peak).exp()
    exponent = log_q + peak
    queries = (exponent - exponent.detach().amax(-1, keepdim=True)).exp()
    if factors is not None:
        queries, keys = queries * factors[0], keys * factors[1]
    return queries @ (keys.mT @ values), queries @ keys.sum(-2)[..., None]


def causal_attention(log_q: Tensor, log_k: Tensor, values: Tensor, chunk: int = CHUNK) -> Tensor:
    """Attention in which query t sees the keys s <= t; see `causal_sums`.

    Examples
    --------
    >>> import torch
    >>> from coupledgp.attention import causal_attention
    >>> values = torch.tensor([[1.0], [2.0], [6.0]])
    >>> even = torch.zeros(3, 4)
    >>> causal_attention(even, even, values).flatten().tolist()  # means of the values so far
    [1.0, 1.5, 3.0]
    """
    return quotient(*causal_sums(log_q, log_k, values, chunk=chunk))


def causal_sums(
    log_q: Tensor,
    log_k: Tensor,
    values: Tensor,
    factors: Factors | None = None,
    chunk: int = CHUNK,
) -> Sums:
    """Numerators and denominators where query t sees the keys s <= t, O(N M (D + chunk)) time.

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
    factors
        As in `attend`.
    chunk
        Number of queries that are treated together.

    Returns
    -------
    tuple of Tensor
        Numerators (..., N, D) and denominators (..., N, 1), up to one factor for each query.
    """
    *batch, n, m = log_q.shape
    peak = log_k.new_full((*batch, 1, m), -torch.inf)
    sums = values.new_zeros((*batch, m, values.shape[-1]))
    totals = values.new_zeros((*batch, m, 1))
    numerators, denominators = [], []
    for start in range(0, n, chunk):
        rows = slice(start, min(start + chunk, n))
        a, b, v = log_q[..., rows, :], log_k[..., rows, :], values[..., rows, :]
        running = torch.maximum(b.detach().cummax(-2).values, peak)
        level = finite((a.detach() + running).amax(-1, keepdim=True))
        past = (a + peak - level).exp()
        pairs = a[..., :, None, :] + b[..., None, :, :] - level[..., None]
        later = torch.ones(pairs.shape[-3:-1], dtype=torch.bool, device=a.device).triu(1)
        terms = pairs.masked_fill(later[..., None], -torch.inf).exp()
        new_peak = finite(running[..., -1:, :])
        decay = (peak - new_peak).exp().mT
        keys = (b - new_peak).exp()
        if factors is not None:
            of_queries, of_keys = (own[..., rows, :] for own in factors)
            past, keys = past * of_queries, keys * of_keys
            terms = terms * of_queries[..., :, None, :] * of_keys[..., None, :, :]
        within = terms.sum(-1)
        numerators.append(past @ sums + within @ v)
        denominators.append(past @ totals + within.sum(-1, keepdim=True))
        sums = sums * decay + keys.mT @ v
        totals = totals * decay + keys.mT.sum(-1, keepdim=True)
        peak = running[..., -1:, :]
    return torch.cat(numerators, dim=-2), torch.cat(denominators, dim=-2)


def quotient(numerator: Tensor, denominator: Tensor) -> Tensor:
    """Divide (..., L, D) by (..., L, 1); a query without keys, a denominator of 0, gives zero."""
    empty = denominator == 0
    return (numerator / denominator.masked_fill(empty, 1.0)).masked_fill(empty, 0.0)


def finite(level: Tensor) -> Tensor:
    """Replace -inf by zero in a tensor of any shape: without a key, exponents need no shift."""
    return level.masked_fill(level == -torch.inf, 0.0)
