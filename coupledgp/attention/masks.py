"""Checks of the inputs of attention: shapes that fit, masks that linear attention can honour."""

from __future__ import annotations

from coupledgp.errors import InvalidInputError
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.ground.validation import wrong


def as_additive(mask: Tensor, name: str) -> Tensor:
    """Return a mask of any shape as numbers to be added to scores: -inf where it is True."""
    if mask.dtype == torch.bool:
        return torch.zeros(mask.shape, device=mask.device).masked_fill(mask, -torch.inf)
    if not mask.is_floating_point():
        raise InvalidInputError(f"{name}: expected bool or float, got {mask.dtype}")
    if bool((mask.isnan() | (mask == torch.inf)).any()):
        raise InvalidInputError(f"{name}: expected finite numbers or -inf, got NaN or inf")
    return mask


def split_mask(mask: Tensor) -> tuple[Tensor, bool]:
    """Split an additive mask (..., L, S) into numbers (..., S) for each key and a causal part.

    Returns
    -------
    tuple of Tensor and bool
        The number that is added to all scores of each key, (..., S), and whether the mask hides
        later keys besides.

    Raises
    ------
    InvalidInputError
        The mask depends on query and key in another way, which separate features of queries and
        keys cannot express.
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
    """Refuse inputs whose numbers of dimensions, batches or keys do not fit.

    Parameters
    ----------
    query, key, value
        Shapes (B, L, E), (B, S, E_k) and (B, S, E_v), or the same without B; the first two
        dimensions may be swapped in all three.
    """
    if query.is_nested or query.ndim not in (2, 3):
        raise InvalidInputError(
            "query: expected a plain tensor of 2 or 3 dimensions, got "
            f"{'a nested one' if query.is_nested else tuple(query.shape)}"
        )
    for name, x in {"key": key, "value": value}.items():
        if x.ndim != query.ndim:
            raise wrong(name, f"{query.ndim} dimensions as in query", tuple(x.shape))
    if key.shape[:-1] != value.shape[:-1]:
        raise InvalidInputError(
            f"value: expected shape {tuple(key.shape[:-1])} before the last dimension as in key, "
            f"got {tuple(value.shape)}"
        )
