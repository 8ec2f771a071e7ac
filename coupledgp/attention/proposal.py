"""Frequencies for attention, drawn where given queries and keys need them (MATH 10)."""

from __future__ import annotations

import numpy as np

from coupledgp.attention.loss import as_finite
from coupledgp.couplings import CouplingLike, parse_coupling
from coupledgp.errors import InvalidInputError
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.ground.validation import check_positive_int, wrong
from coupledgp.random import Seed, as_rng


def attention_proposal(
    queries: Tensor,
    keys: Tensor,
    n_frequencies: int,
    coupling: CouplingLike = "orthogonal",
    causal: bool = False,
    generator: Seed = None,
) -> tuple[Tensor, Tensor]:
    """Draw frequencies from the law under which sums of attention's scores are not lost.

    The density is the mixture of `N(q_t + k_s, I)` over queries t and keys s with the weights
    `A_ts / L` of exact attention, which is

        psi(w) = p(w) / L sum_t phi(q_t, w) / Z_t sum_s phi(k_s, w),   Z_t = sum_s exp(q_t . k_s),

    `phi(x, w) = exp(w . x - |x|^2 / 2)`: importance sampling ("All random features representations
    are equivalent", section 2) of the scores, which stay unbiased for any queries and keys. For
    these ones the mean over queries of an estimated sum over the true one, `Z^_t / Z_t`, is one in
    every draw. The sums over s are over the keys that query t sees: under a causal mask `s <= t`.

    The proposal of least variance, theorem 1 of the paper, has mean squares of phi in place of
    means. It serves normalised scores worse: a few long rows decide it.

    A law that depends on later tokens would let them leak into earlier outputs. Queries and keys
    are therefore rows for calibration, given beforehand, and not those that are attended to.

    Parameters
    ----------
    queries, keys
        Scaled queries (..., L, d) and keys (..., S, d); all leading entries share the frequencies.
    n_frequencies
        Number of frequencies m.
    coupling
        Joint law of the deviations from the centres `q_t + k_s`; the centres are drawn by
        systematic sampling. Antithetic pairs and fixed points are refused: they do not follow psi.
    causal
        Whether query t sees the keys s <= t only; L = S then.
    generator
        Seed or generator for the draws.

    Returns
    -------
    tuple of Tensor
        Frequencies (m, d) and `log p - log psi` (m,), in float64 on the CPU.

    Raises
    ------
    InvalidInputError
        A shape does not fit, a value is not finite, or the coupling would bias the scores.

    Examples
    --------
    >>> import torch
    >>> from coupledgp.attention import attention_proposal
    >>> generator = torch.Generator().manual_seed(0)
    >>> queries, keys = 2 * torch.randn(2, 6, 2, generator=generator, dtype=torch.float64)
    >>> w, log_ratios = attention_proposal(queries, keys, n_frequencies=5, generator=0)
    >>> def features(rows):
    ...     return (rows @ w.T - (rows**2).sum(-1, keepdim=True) / 2 + log_ratios / 2).exp()
    >>> estimated = features(queries) @ features(keys).sum(0) / 5  # sum of each query's scores
    >>> true = (queries @ keys.T).exp().sum(-1)
    >>> round((estimated / true).mean().item(), 9)  # one in every draw
    1.0
    """
    q, k = as_finite(queries, "queries"), as_finite(keys, "keys")
    if k.shape[:-2] != q.shape[:-2] or k.shape[-1] != q.shape[-1]:
        expected = ", ".join(map(str, (*q.shape[:-2], "S", q.shape[-1])))
        raise wrong("keys", f"shape ({expected})", tuple(k.shape))
    if causal and q.shape != k.shape:
        raise InvalidInputError(
            f"causal: expected as many queries as keys, got {q.shape[-2]} and {k.shape[-2]}"
        )
    law = parse_coupling(coupling)
    if getattr(law, "antithetic", False) or law.weights(1, 1) is not None:
        raise wrong("coupling", "a random law that is not antithetic", str(law))
    m, rng = check_positive_int(n_frequencies, "n_frequencies"), as_rng(generator)
    q, k = q.reshape(-1, *q.shape[-2:]), k.reshape(-1, *k.shape[-2:])
    scores = q @ k.mT
    if causal:
        hidden = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
        scores = scores.masked_fill(hidden, -torch.inf)
    n_rows, length = q.shape[0] * q.shape[1], q.shape[1]
    deviations = torch.as_tensor(law.sample(m, q.shape[-1], "gaussian", rng))
    # One uniform number gives the query and, by what is left of it, the key.
    places = rng.permutation((np.arange(m) + rng.uniform()) / m * n_rows)
    rows = np.minimum(places.astype(np.intp), n_rows - 1)
    shares = scores.reshape(n_rows, -1)[rows].softmax(-1).cumsum(-1)
    left = torch.as_tensor(places - rows)[:, None] * shares[:, -1:]
    chosen = torch.searchsorted(shares, left, right=True)[:, 0].clamp_max(k.shape[1] - 1)
    frequencies = q[rows // length, rows % length] + k[rows // length, chosen] + deviations
    totals = []
    for own, seen, normal in zip(q, k, scores.logsumexp(-1), strict=True):
        of_keys = seen @ frequencies.T - seen.square().sum(-1, keepdim=True) / 2
        of_keys = of_keys.logcumsumexp(0) if causal else of_keys.logsumexp(0, keepdim=True)
        of_queries = own @ frequencies.T - own.square().sum(-1, keepdim=True) / 2
        totals.append((of_queries - normal[:, None] + of_keys).logsumexp(0))
    return frequencies, float(np.log(n_rows)) - torch.stack(totals).logsumexp(0)
