"""The error of linear attention as a loss of the frequencies."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.attention.linear import attend
from coupledgp.core.posterior_kl import check_frequencies
from coupledgp.errors import InvalidInputError
from coupledgp.features.hybrid.complex_exponential import exponents
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.ground.validation import check_positive, wrong


class AttentionLoss:
    """Loss `frequencies -> mean squared error of linear attention`; see `attention_loss`.

    Parameters
    ----------
    queries, keys, values
        Scaled queries (..., L, d), scaled keys (..., S, d) and values (..., S, D).
    causal
        Whether query t sees the keys s <= t only.

    Examples
    --------
    >>> import torch
    >>> from coupledgp.attention import attention_loss
    >>> rows = torch.randn(8, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    >>> loss = attention_loss(rows, rows)
    >>> frequencies = rows.clone().requires_grad_()
    >>> loss(frequencies).backward()
    >>> loss.dim, frequencies.grad.shape
    (4, torch.Size([8, 4]))
    >>> bool(loss(rows - 0.1 * frequencies.grad) < loss(rows))  # one step of descent
    True
    """

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

    Examples
    --------
    >>> import torch
    >>> from coupledgp.attention import attention_loss
    >>> generator = torch.Generator().manual_seed(0)
    >>> queries, keys, few = torch.randn(3, 8, 4, generator=generator, dtype=torch.float64)
    >>> many = torch.randn(1000, 4, generator=generator, dtype=torch.float64)
    >>> loss = attention_loss(queries, keys)
    >>> bool(loss(many) < loss(few) / 2)
    True
    """
    q, k = as_finite(queries, "queries"), as_finite(keys, "keys")
    if k.shape[:-2] != q.shape[:-2] or k.shape[-1] != q.shape[-1]:
        expected = ", ".join(map(str, (*q.shape[:-2], "S", q.shape[-1])))
        raise wrong("keys", f"shape ({expected}) as queries have", tuple(k.shape))
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
    """Return a detached float64 copy (..., n, d) of an array that is finite and not empty."""
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
