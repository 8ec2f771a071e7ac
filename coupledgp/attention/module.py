"""Attention in linear time as a torch module (MATH 10)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, cast

from coupledgp.attention.linear import attend, within_values
from coupledgp.attention.masks import as_additive, check_attention_inputs, split_mask
from coupledgp.attention.proposal import attention_proposal
from coupledgp.couplings import CouplingLike, parse_coupling
from coupledgp.errors import CoupledGPError, InvalidInputError
from coupledgp.features import ComplexExponentialFeatures
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.ground.validation import check_positive_int, wrong
from coupledgp.random import Seed

REDUCED = (torch.bfloat16, torch.float16)  # too coarse for exponentials and their sums


class PositiveFeatures(Protocol):
    """Interface of the features that `CoupledAttention` uses.

    Examples
    --------
    >>> import torch
    >>> from coupledgp.attention import CoupledAttention
    >>> class Exponentials(torch.nn.Module):  # exp(w . x - |x|^2 / 2)
    ...     def __init__(self, dim, n_frequencies, **options):
    ...         super().__init__()
    ...         self.frequencies = torch.randn(n_frequencies, dim)
    ...     def log_queries(self, X):
    ...         return X @ self.frequencies.T - (X**2).sum(-1, keepdim=True) / 2
    ...     log_keys = log_queries
    >>> generator = torch.manual_seed(0)
    >>> attention = CoupledAttention(8, 2, features=Exponentials)
    >>> tokens = torch.full((5, 1, 8), 0.1)
    >>> attended, _ = attention(tokens, tokens, tokens)
    >>> bool(torch.allclose(attended, attended[:1]))  # equal tokens attend to equal values
    True
    """

    def log_queries(self, X: Tensor) -> Tensor:
        """Logarithms (..., n, M) of the features of queries (..., n, d)."""
        ...

    def log_keys(self, Y: Tensor) -> Tensor:
        """Logarithms (..., n, M) of the features of keys (..., n, d)."""
        ...


class LeveledFeatures(Protocol):
    """Interface of features of either sign that `CoupledAttention` uses: `factor exp(level)`.

    Examples
    --------
    >>> import torch
    >>> from coupledgp.attention import CoupledAttention
    >>> class Waves(torch.nn.Module):  # exp(|x|^2 / 2) times cosines and sines
    ...     def __init__(self, dim, n_frequencies, **options):
    ...         super().__init__()
    ...         self.frequencies = torch.randn(n_frequencies, dim)
    ...     def leveled_queries(self, X):
    ...         phases = X @ self.frequencies.T
    ...         waves = torch.cat([phases.cos(), phases.sin()], dim=-1)
    ...         return (X**2).sum(-1, keepdim=True).expand_as(waves) / 2, waves
    ...     leveled_keys = leveled_queries
    >>> generator = torch.manual_seed(0)
    >>> attention = CoupledAttention(8, 2, features=Waves)
    >>> tokens = torch.full((5, 1, 8), 0.1)
    >>> attended, _ = attention(tokens, tokens, tokens)
    >>> bool(torch.allclose(attended, attended[:1]))  # equal tokens attend to equal values
    True
    """

    def leveled_queries(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Levels and bounded factors (..., n, M) of the features of queries (..., n, d)."""
        ...

    def leveled_keys(self, Y: Tensor) -> tuple[Tensor, Tensor]:
        """Levels and bounded factors (..., n, M) of the features of keys (..., n, d)."""
        ...


class CoupledAttention(torch.nn.MultiheadAttention):
    """Multi-head attention in linear time, called and loaded like `torch.nn.MultiheadAttention`.

    Each head estimates `softmax(Q K' / sqrt(d)) V` by features of the softmax kernel.
    All heads of a layer share one ensemble of coupled frequencies. The parameters have the names
    of `MultiheadAttention`, whose `state_dict` loads; the frequencies are buffers beside them,
    drawn in the constructor and again only by `redraw()`. Features and sums are computed in single
    precision at least, whatever the precision of the parameters.

    Parameters
    ----------
    embed_dim, num_heads
        Width of the model and number of heads.
    n_frequencies
        Number of frequencies m; all heads share them.
    coupling
        Joint law of the frequencies. Equal norms ("monotone") raise the variance of each kernel
        estimate but lower that of the normalised weights ("Variance-reducing couplings", 3.3).
    generator
        Seed or generator for the frequencies.
    features
        Function that makes the features: `features(dim, n_frequencies, coupling=...,
        generator=..., dtype=..., device=...)` returns a module with `log_queries` and `log_keys`.
        The default is `ComplexExponentialFeatures` with `A = I`. `AngularHybridFeatures` and
        `GaussianHybridFeatures` have `leveled_queries` and `leveled_keys` instead: large scores
        are then estimated well too, at more features a frequency (`n_features`), and where the
        estimated scores of a query have a negative sum, `attend` says what stands for it. Weights
        can then be negative, and outputs are kept within the range of the values that a query sees,
        which exact attention never leaves.
    dropout
        Must be 0: attention weights are never formed, so none can be dropped.
    bias, kdim, vdim, batch_first, device, dtype
        As in `MultiheadAttention`.

    Examples
    --------
    >>> import torch
    >>> from coupledgp.attention import CoupledAttention
    >>> generator = torch.manual_seed(0)
    >>> exact = torch.nn.MultiheadAttention(16, 4, batch_first=True)
    >>> linear = CoupledAttention(16, 4, n_frequencies=256, batch_first=True, generator=0)
    >>> linear.load_state_dict(exact.state_dict())
    <All keys matched successfully>
    >>> tokens = 0.3 * torch.randn(2, 50, 16, generator=generator)
    >>> difference = linear(tokens, tokens, tokens)[0] - exact(tokens, tokens, tokens)[0]
    >>> bool(difference.abs().max() < 0.02)
    True
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
        # Where this is true, torch's encoder layers call a fused exact attention instead of this.
        self._qkv_same_embed_dim = False
        self.n_frequencies = check_positive_int(n_frequencies, "n_frequencies")
        self.coupling = parse_coupling(coupling)
        self._make_features = features
        self.features = self._draw(generator)

    def _draw(self, generator: Seed) -> torch.nn.Module:
        """Make features of new frequencies."""
        weight = self.out_proj.weight
        dtype = torch.float32 if weight.dtype in REDUCED else weight.dtype
        made = self._make_features(
            self.head_dim, self.n_frequencies, coupling=self.coupling, generator=generator,
            dtype=dtype, device=weight.device,
        )  # fmt: skip
        positive = hasattr(made, "log_queries") and getattr(made, "is_positive", True)
        if not (positive or hasattr(made, "leveled_queries")):
            raise InvalidInputError(
                "features: expected positive features, with log_queries and log_keys, or hybrids, "
                f"with leveled_queries and leveled_keys, got {type(made).__name__}"
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

    def calibrate(
        self,
        query: Tensor,
        key: Tensor | None = None,
        value: Tensor | None = None,
        is_causal: bool = False,
        generator: Seed = None,
    ) -> None:
        """Draw frequencies anew, where attention between these rows needs them.

        See `attention_proposal` for the law; `redraw` goes back to the normal law. The frequencies
        do not depend on the rows that are attended to later, so that causal attention stays causal,
        and scores stay unbiased. The law is that of the present parameters. It takes quadratic
        time.

        Parameters
        ----------
        query, key, value
            Typical inputs, in the shapes of `forward`; keys are the queries, values the keys, if
            None.
        is_causal
            Whether query t will see the keys s <= t only.
        generator
            Seed or generator for the frequencies.

        Raises
        ------
        CoupledGPError
            The module is in evaluation mode.
        InvalidInputError
            A shape does not fit, the coupling is antithetic, or the features are not positive
            ones with `A = I`.
        """
        if not self.training:
            raise CoupledGPError(
                "calibrate: frequencies are frozen in eval mode; call train() first"
            )
        own = self.features
        if not (isinstance(own, ComplexExponentialFeatures) and own.is_identity):
            raise wrong("features", "ComplexExponentialFeatures with A = I to calibrate", type(own))
        key = query if key is None else key
        value = key if value is None else value
        check_attention_inputs(query, key, value)
        with torch.no_grad():
            if query.ndim == 2:
                query, key, value = (x[None] for x in (query, key, value))
            elif not self.batch_first:
                query, key, value = (x.transpose(0, 1) for x in (query, key, value))
            q, k, _ = self._project(query, key, value)
            root = self.head_dim**-0.25
            frequencies, ratios = attention_proposal(
                root * q.double(),
                root * k.double(),
                self.n_frequencies,
                self.coupling,
                is_causal,
                generator,
            )
        state = own.state_dict() | {"frequencies": frequencies, "log_ratios": ratios}
        own.load_state_dict(state)

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
            Shapes (L, B, E), (S, B, kdim) and (S, B, vdim); with `batch_first` (B, L, E) and so
            on; (L, E) and so on without a batch.
        key_padding_mask
            Shape (B, S), or (S,) without a batch. True or -inf leaves a key out; any other number
            is added to the key's scores. A query that sees no key gives the output of a zero value.
        need_weights
            Whether to return the attention weights (B, L, S) of the estimate as well, which sum to
            one over the keys. They take quadratic time and memory, so the default is False here.
        attn_mask
            Shape (L, S) or (B H, L, S). Linear attention can honour masks that are causal, or the
            same for every query, or both; any other mask is refused.
        average_attn_weights
            Whether the weights are averaged over the heads; otherwise they are (B, H, L, S).
        is_causal
            Whether query t sees the keys s <= t only; no `attn_mask` is needed then.

        Returns
        -------
        tuple of Tensor and (Tensor or None)
            The output in the shape of `query`, and the weights if they were asked for.

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
            log_q, log_k, *signed = self._log_features(q, k)
            factors = (signed[0], signed[1]) if signed else None
            values = v.to(log_q.dtype)
            attended = attend(log_q, log_k, values, bias, causal, factors)
            if signed:
                attended = within_values(attended, values, bias, causal)
            weights = None
            if need_weights:
                eye = torch.eye(k.shape[-2], dtype=log_q.dtype, device=q.device)
                unit = eye.expand(*q.shape[:2], -1, -1)
                weights = attend(log_q, log_k, unit, bias, causal, factors)
        output = self.out_proj(attended.to(v.dtype).transpose(1, 2).flatten(2))
        if weights is not None:
            weights = (weights.mean(1) if average_attn_weights else weights).to(v.dtype)
        if not batched:
            return output[0], None if weights is None else weights[0]
        return output if self.batch_first else output.transpose(0, 1), weights

    def _project(self, query: Tensor, key: Tensor, value: Tensor) -> list[Tensor]:
        """Project onto the queries, keys and values of all heads, each (B, H, n, head_dim)."""
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
                raise wrong(name, f"last dimension {matrix.shape[1]}", x.shape[-1])
            heads = torch.nn.functional.linear(x, matrix, shift)
            split = heads.reshape(*heads.shape[:-1], self.num_heads, -1)
            projected.append(split.transpose(1, 2))
        return projected

    def _log_features(self, q: Tensor, k: Tensor) -> tuple[Tensor, ...]:
        """Logarithms (B, H, n, M) of the features of projected queries and keys.

        Where features have either sign, these are their levels, and their factors follow.
        """
        precise = torch.float32 if q.dtype in REDUCED else q.dtype
        root = self.head_dim**-0.25  # the scores' factor 1 / sqrt(d), shared by queries and keys
        q, k = q.to(precise) * root, k.to(precise) * root
        if hasattr(self.features, "leveled_queries"):
            signed = cast(LeveledFeatures, self.features)
            levels, factors = zip(signed.leveled_queries(q), signed.leveled_keys(k), strict=True)
            return *levels, *factors
        features = cast(PositiveFeatures, self.features)
        return features.log_queries(q), features.log_keys(k)

    def _masks(
        self,
        key_padding_mask: Tensor | None,
        attn_mask: Tensor | None,
        is_causal: bool,
        q: Tensor,
        k: Tensor,
    ) -> tuple[Tensor | None, bool]:
        """Join both masks into numbers (B, 1 or H, S) for each key, and whether later keys hide."""
        batch, heads, n_queries = q.shape[:3]
        n_keys, bias = k.shape[-2], None
        if key_padding_mask is not None:
            padding = key_padding_mask if key_padding_mask.ndim == 2 else key_padding_mask[None]
            if padding.shape != (batch, n_keys):
                raise wrong(
                    "key_padding_mask", f"shape ({batch}, {n_keys})", tuple(key_padding_mask.shape)
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
        """Move or convert all tensors, but leave features in single precision or better."""
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
        """Load a state; one of `MultiheadAttention` has no frequencies and leaves them alone."""
        own = {f"{prefix}features.{name}": t for name, t in self.features.state_dict().items()}
        if not own.keys() & state_dict.keys():
            state_dict.update(own)
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)
