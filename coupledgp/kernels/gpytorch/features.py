"""gpytorch kernels whose Gram matrix is the dot product of coupled random features (MATH 2)."""

from __future__ import annotations

from copy import deepcopy
from itertools import product
from typing import Any, Self

import gpytorch
import numpy as np
from gpytorch.models.exact_prediction_strategies import (
    DefaultPredictionStrategy,
    LinearPredictionStrategy,
)
from linear_operator.operators import (
    DiagLinearOperator,
    LinearOperator,
    LowRankRootLinearOperator,
    MatmulLinearOperator,
    RootLinearOperator,
)

from coupledgp.couplings import CouplingLike, parse_coupling
from coupledgp.errors import InvalidInputError
from coupledgp.features import FeatureMap, FourierFeatures, LaplaceFeatures
from coupledgp.features.fourier import check_directions
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.ground.validation import check_positive_int, wrong
from coupledgp.random import Seed, as_rng
from coupledgp.spectra import SpectrumLike, parse_spectrum

# Seeds are stored as signed integers of 64 bits.
_LARGEST_SEED = 2**63 - 1


class FeatureKernel(gpytorch.kernels.Kernel):
    """`k(x, y) = phi(x / l) . phi(y / l)` for a feature map `phi`, of unit outputscale.

    Subclasses name the map. Frequencies are drawn once, in float64, from `seeds`: with a known
    input dimension by the constructor, otherwise at the first call or by `load_state_dict`. Each
    member of a batch has a seed, hence frequencies, of its own. Wrap the kernel in a `ScaleKernel`
    for the output scale.

    Parameters
    ----------
    n_frequencies
        Number of frequencies m.
    dim
        Input dimension d, counted after `active_dims`; taken from those or from `ard_num_dims` if
        left out.
    coupling
        Joint law of the frequencies, an object or its text form; the map's default if left out.
    spectrum
        Kernel whose spectral measure the frequencies follow, an object or its name.
    generator
        Seed or generator. Without a batch, an int gives the frequencies which the feature map has
        under the same int.
    **kwargs
        Arguments of `gpytorch.kernels.Kernel`: `ard_num_dims`, `batch_shape`, `active_dims`,
        `lengthscale_prior`, `lengthscale_constraint`.

    Attributes
    ----------
    seeds
        Buffer of integers, of the batch's shape.
    frequencies
        Buffer (*batch, m, d), or None as long as d is unknown.

    Raises
    ------
    InvalidInputError
        An argument is invalid, or inputs do not have d columns.

    Notes
    -----
    With fewer features than rows, training and prediction factorise matrices of the number of
    features only. So do sums of such kernels, and products as long as the product of the numbers
    of their features is below the number of rows; for prediction with sums and products gpytorch
    must be set so, by `gpytorch.settings.lazily_evaluate_kernels(False)`. BoTorch, once imported,
    makes gpytorch factorise everything of up to 4096 rows densely, in the whole process;
    `gpytorch.settings.fast_computations()` and `max_cholesky_size(800)` undo that.
    """

    has_lengthscale = True
    feature_map: type[FeatureMap]
    default_coupling: str
    seeds: Tensor
    frequencies: Tensor | None

    def __init__(
        self,
        n_frequencies: int,
        dim: int | None = None,
        coupling: CouplingLike | None = None,
        spectrum: SpectrumLike = "gaussian",
        generator: Seed = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.n_frequencies = check_positive_int(n_frequencies, "n_frequencies")
        self.coupling = parse_coupling(self.default_coupling if coupling is None else coupling)
        self.spectrum = parse_spectrum(spectrum)
        # One frequency is drawn for the checks of the map: it may not serve every spectrum.
        self.feature_map(1, 1, "iid", self.spectrum, generator=0)
        self.register_buffer("seeds", _seeds(generator, self._batch_shape))
        self.register_buffer("frequencies", None)
        self.register_buffer("weights", None)
        self._template: FeatureMap | None = None
        known = self._known_dim(dim)
        if known is not None:
            self._draw(known)

    def _known_dim(self, dim: int | None) -> int | None:
        """Return the input dimension if an argument gives it; several arguments have to agree."""
        found = {} if dim is None else {"dim": check_positive_int(dim, "dim")}
        if self.active_dims is not None:
            found["active_dims"] = self.active_dims.numel()
        if self.ard_num_dims is not None:
            found["ard_num_dims"] = self.ard_num_dims
        if len(set(found.values())) > 1:
            stated = ", ".join(f"{name} says {value}" for name, value in found.items())
            raise InvalidInputError(f"dim: expected one input dimension, got several: {stated}")
        return next(iter(found.values()), None)

    def _draw(self, dim: int) -> None:
        """Draw the frequencies in `dim` dimensions, for every member of the batch."""
        maps = self._drawn(dim)
        check_directions(maps[0])
        self._hold(maps)

    def _drawn(self, dim: int) -> list[FeatureMap]:
        """A map in `dim` dimensions for every member of the batch."""
        return [
            self.feature_map(dim, self.n_frequencies, self.coupling, self.spectrum, generator=seed)
            for seed in self.seeds.reshape(-1).tolist()
        ]

    def _hold(self, maps: list[FeatureMap]) -> None:
        """Make the frequencies of the maps, one for every member of the batch, the kernel's own."""
        for each in maps:
            each.frequencies = each.frequencies  # those of a fast coupling are formed
        self._template = maps[0]
        for name in maps[0].state_dict():
            stacked = torch.stack([each.state_dict()[name] for each in maps])
            shape = self.seeds.shape + stacked.shape[1:]
            setattr(self, name, stacked.reshape(shape).to(self.seeds.device))

    @property
    def is_stationary(self) -> bool:
        """Whether `k(x, y)` is a function of `x - y`."""
        return issubclass(self.feature_map, FourierFeatures)

    def __call__(
        self,
        x1: Tensor,
        x2: Tensor | None = None,
        diag: bool = False,
        last_dim_is_batch: bool = False,
        **params: Any,
    ) -> Any:
        """See `gpytorch.kernels.Kernel`; the first call draws the frequencies if need be.

        `x1` is (..., n, d) and `x2` (..., p, d), or `x1` itself if None.
        """
        if self.frequencies is None:
            wide = x1.ndim > 1 and not last_dim_is_batch
            self._draw(x1.shape[-1] if wide else 1)
        return super().__call__(x1, x2, diag=diag, last_dim_is_batch=last_dim_is_batch, **params)

    def forward(
        self,
        x1: Tensor,
        x2: Tensor,
        diag: bool = False,
        last_dim_is_batch: bool = False,
        **params: Any,
    ) -> Tensor | LinearOperator:
        """Kernel (..., n, p) between x1 (..., n, d) and x2 (..., p, d), or its diagonal."""
        left = self.features(x1, last_dim_is_batch)
        if x1.shape == x2.shape and torch.equal(x1, x2):
            if diag:
                return left.square().sum(-1)
            return FeatureGram(left)
        right = self.features(x2, last_dim_is_batch)
        return (left * right).sum(-1) if diag else MatmulLinearOperator(left, right.mT)

    def features(self, x: Tensor, last_dim_is_batch: bool = False) -> Tensor:
        """`phi(x / l)`, differentiable in inputs and lengthscale.

        Parameters
        ----------
        x
            Inputs (..., n, d), active dimensions only.
        last_dim_is_batch
            Apply one map of one dimension to every column.

        Returns
        -------
        Tensor
            Shape (..., n, M), or (..., d, n, M); leading dimensions are those of x and of the
            kernel's batch, broadcast.
        """
        if self.frequencies is None:
            self._draw(1 if last_dim_is_batch else x.shape[-1])
        if not last_dim_is_batch:
            self._check_columns(x)
        scaled = x / self.lengthscale
        n_batch = len(self.batch_shape)
        members = scaled.shape[:-2][len(scaled.shape) - 2 - n_batch :]
        parts = []
        for index in product(*map(range, members)):
            part = scaled[(..., *index, slice(None), slice(None))]
            if last_dim_is_batch:
                part = part.mT.unsqueeze(-1)
            parts.append(self._member_features(part, members, index))
        if not n_batch:
            return parts[0]
        place = -4 if last_dim_is_batch else -3
        stacked = torch.stack(parts, dim=place)
        split = len(stacked.shape) + place
        return stacked.reshape(stacked.shape[:split] + members + stacked.shape[split + 1 :])

    def _check_columns(self, x: Tensor) -> None:
        assert self.frequencies is not None
        dim = self.frequencies.shape[-1]
        if x.shape[-1] != dim:
            raise wrong("X", f"shape (..., n, {dim})", tuple(x.shape))

    def _member_features(
        self, inputs: Tensor, members: torch.Size, index: tuple[int, ...]
    ) -> Tensor:
        """Features (..., n, M) of inputs (..., n, d) under one member of the batch."""
        template = self._template
        assert template is not None
        buffers = {}
        for name in template.state_dict():
            stacked = getattr(self, name)
            tail = stacked.shape[len(self.batch_shape) :]
            buffers[name] = stacked.expand(members + tail)[index].to(inputs)
        return template.with_tensors(buffers)(inputs)

    def prediction_strategy(
        self, train_inputs: Any, train_prior_dist: Any, train_labels: Tensor, likelihood: Any
    ) -> DefaultPredictionStrategy:
        """Strategy in the space of the features, if there are fewer of these than rows."""
        operator = train_prior_dist.lazy_covariance_matrix.evaluate_kernel()
        low_rank = isinstance(operator, FeatureGram) and operator.is_low_rank
        strategy = LinearPredictionStrategy if low_rank else DefaultPredictionStrategy
        return strategy(train_inputs, train_prior_dist, train_labels, likelihood)

    def __getitem__(self, index: Any) -> Self:
        """The kernel of some members of the batch."""
        if not self.batch_shape:
            return self
        index = index if isinstance(index, tuple) else (index,)
        return self._rebatched(lambda tensor, n_tail: tensor[index])

    def expand_batch(self, *sizes: Any) -> Self:
        """The kernel whose members are repeated to fill a larger batch."""
        shape = torch.Size(sizes if isinstance(sizes[0], int) else sizes[0])
        if shape == self.batch_shape:
            return self
        return self._rebatched(lambda tensor, n_tail: tensor.expand(shape + tensor.shape[n_tail:]))

    def _rebatched(self, change: Any) -> Self:
        """A copy, the batch dimensions of all its tensors changed.

        gpytorch's own way would also change `active_dims`, which has none.
        """
        other = deepcopy(self)
        n_batch = len(self.batch_shape)
        for tensors in (other._parameters, other._buffers):
            for name, tensor in tensors.items():
                if tensor is not None and name != "active_dims":
                    tensor.data = change(tensor.data, n_batch)
        other._batch_shape = other.seeds.shape
        return other

    def _load_from_state_dict(
        self, state_dict: dict[str, Tensor], prefix: str, *args: Any, **kwargs: Any
    ) -> None:
        """Restore frequencies also where the kernel has none, or has some and the state has not."""
        stored = state_dict.get(f"{prefix}frequencies")
        if stored is not None and self.frequencies is None:
            self._hold(self._drawn(stored.shape[-1]))
        elif stored is None and self.frequencies is not None and f"{prefix}seeds" in state_dict:
            self.frequencies, self.weights = None, None
        super()._load_from_state_dict(state_dict, prefix, *args, **kwargs)


def _seeds(generator: Seed, batch_shape: torch.Size) -> Tensor:
    """One seed for each member of a batch; an int is the seed itself where there is no batch."""
    if isinstance(generator, (int, np.integer)) and not batch_shape and generator <= _LARGEST_SEED:
        as_rng(generator)  # checks it
        return torch.tensor(int(generator))
    drawn = as_rng(generator).integers(_LARGEST_SEED, size=tuple(batch_shape))
    return torch.as_tensor(np.asarray(drawn))


class FourierFeatureKernel(FeatureKernel):
    """Stationary kernel from paired sine and cosine features, `M = 2m` (MATH 2).

    `k(x, y) = (1/m) sum_i cos(w_i . (x - y) / l)`, exactly one on the diagonal and unbiased for the
    kernel of `spectrum`. Parameters are those of `FeatureKernel`.

    Examples
    --------
    >>> import torch
    >>> from coupledgp.kernels import FourierFeatureKernel
    >>> kernel = FourierFeatureKernel(128, dim=3, generator=0)
    >>> gram = kernel(torch.linspace(0, 1, 15).reshape(5, 3)).to_dense()
    >>> bool(torch.allclose(gram.diagonal(), torch.ones(5)))  # without error, unlike the rest
    True
    """

    feature_map = FourierFeatures
    default_coupling = "orthogonal+pnc"


class LaplaceFeatureKernel(FeatureKernel):
    """Gaussian kernel from positive features, `M = m` (MATH 2).

    Not a function of `x - y`, and its variance grows with `|x + y|`: centre the inputs. Parameters
    are those of `FeatureKernel`; a spectrum other than the Gaussian is refused.

    Examples
    --------
    >>> import torch
    >>> from coupledgp.kernels import LaplaceFeatureKernel
    >>> kernel = LaplaceFeatureKernel(64, dim=2, generator=0)
    >>> gram = kernel(torch.linspace(-3, 3, 10).reshape(5, 2)).to_dense()
    >>> bool((gram > 0).all())  # at any distance, unlike Fourier features
    True
    """

    feature_map = LaplaceFeatures
    default_coupling = "orthogonal+pnc+antithetic"


class FeatureGram(LowRankRootLinearOperator):
    """`Phi Phi'` of features `Phi` (..., n, M).

    The features of a sum of two are theirs side by side, those of a product are all pairwise
    products. So with fewer columns than rows sums and products are solved through their columns
    too, where the base classes would factorise matrices of n rows.
    """

    @property
    def is_low_rank(self) -> bool:
        """Whether there are fewer features than rows."""
        return self.root.shape[-1] < self.root.shape[-2]

    def add_diagonal(self, diag: Tensor) -> LinearOperator:
        """`Phi Phi' + diag(d)` for d (..., n)."""
        base = LowRankRootLinearOperator if self.is_low_rank else RootLinearOperator
        return base.add_diagonal(self, diag)

    def __add__(self, other: Any) -> LinearOperator:
        """Sum with another operator."""
        if isinstance(other, RootLinearOperator):
            pair = _broadcast(self.root.to_dense(), other.root.to_dense())
            return FeatureGram(torch.cat(pair, dim=-1))
        if isinstance(other, DiagLinearOperator) and not self.is_low_rank:
            return RootLinearOperator.__add__(self, other)
        return super().__add__(other)

    def _mul_matrix(self, other: LinearOperator) -> LinearOperator:
        if isinstance(other, RootLinearOperator):
            left, right = _broadcast(self.root.to_dense(), other.root.to_dense())
            if left.shape[-1] * right.shape[-1] < left.shape[-2]:
                return FeatureGram((left[..., :, None] * right[..., None, :]).flatten(-2))
        return super()._mul_matrix(other)

    def _sum_batch(self, dim: int) -> LinearOperator:
        root = self.root.to_dense()
        return FeatureGram(root.movedim(dim, -2).flatten(-2))


def _broadcast(left: Tensor, right: Tensor) -> tuple[Tensor, Tensor]:
    """Features (..., n, M) of two operators with one batch shape."""
    batch = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
    return left.expand(*batch, *left.shape[-2:]), right.expand(*batch, *right.shape[-2:])
