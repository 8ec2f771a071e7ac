"""Hybrid features: a mixture of estimators of the softmax kernel that depends on the pair (MATH 5).

"Hybrid random features", section 2. Sine and cosine features are exact where `x = y`, positive
features where `x = -y`; weights by the angle or by a distance prefer the better of the two.

Hybrid features of clusters with Gaussian weights (MATH 5).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from coupledgp.couplings import CouplingLike, parse_coupling
from coupledgp.errors import InvalidInputError
from coupledgp.features.base import as_rows
from coupledgp.features.hybrid.base import Side, SoftmaxFeatures
from coupledgp.features.hybrid.clustered import ClusterPairs, check_centers
from coupledgp.features.hybrid.coefficients import (
    AngularCoefficient,
    Coefficient,
    GaussianCoefficient,
)
from coupledgp.features.hybrid.complex_exponential import ComplexExponentialFeatures
from coupledgp.features.registry import FeaturesLike
from coupledgp.ground.validation import check_positive, check_positive_int
from coupledgp.random import Seed, as_rng


class HybridFeatures(SoftmaxFeatures):
    """The mixture `sum_k lam_k est_k + (1 - sum_k lam_k) est_{p+1}` of p + 1 estimators.

    Coefficient `lam_k` is estimated by `a_k + r_k . s_k`, and `est_k` is `q_k . k_k`. The features
    are the concatenation of `sqrt(|a_k|) q_k`, of the outer products `r_k (x) q_k`, and of the
    same with `q_{p+1}` for the rest; the keys take the minus signs. Blocks with `a = 0` are left
    out, so that

        M = sum_k M_k ([a_k != 0] + L_k) + M_{p+1} ([1 - sum_k a_k != 0] + sum_k L_k).

    The estimate is unbiased if each coefficient is independent of the estimators that it weighs.

    Parameters
    ----------
    estimators
        Features of p + 1 estimators with one dimension and one kernel.
    coefficients
        The p coefficients.

    Examples
    --------
    >>> import torch
    >>> from coupledgp.features import AngularCoefficient, ComplexExponentialFeatures
    >>> from coupledgp.features import HybridFeatures
    >>> positive, waves = (ComplexExponentialFeatures(2, 8, a, generator=0) for a in (1, 1j))
    >>> features = HybridFeatures([positive, waves], [AngularCoefficient(2, 4, generator=1)])
    >>> x = torch.tensor([[0.3, -0.2]]).double()
    >>> bool(torch.allclose(features.estimate(x, x), (x @ x.T).exp()))  # where waves are exact
    True
    >>> bool(torch.allclose(features.estimate(x, -x), (-x @ x.T).exp()))  # where the others are
    True
    """

    def __init__(
        self, estimators: Sequence[SoftmaxFeatures], coefficients: Sequence[Coefficient]
    ) -> None:
        if not estimators or len(estimators) != len(coefficients) + 1:
            raise InvalidInputError(
                "coefficients: expected one fewer than estimators, got "
                f"{len(coefficients)} for {len(estimators)}"
            )
        super().__init__(estimators[0].dim, estimators[0].kernel)
        if {e.dim for e in estimators} | {c.dim for c in coefficients} != {self.dim}:
            raise InvalidInputError(
                f"estimators, coefficients: expected dimension {self.dim} everywhere, got "
                f"{[e.dim for e in estimators]} and {[c.dim for c in coefficients]}"
            )
        if {e.kernel for e in estimators} != {self.kernel}:
            raise InvalidInputError(
                f"estimators: expected one kernel, got {[e.kernel for e in estimators]}"
            )
        self.estimators = torch.nn.ModuleList(estimators)
        self.coefficients = torch.nn.ModuleList(coefficients)

    @property
    def _bases(self) -> list[SoftmaxFeatures]:
        return cast(list[SoftmaxFeatures], list(self.estimators))

    @property
    def _weights(self) -> list[Coefficient]:
        return cast(list[Coefficient], list(self.coefficients))

    @property
    def _constants(self) -> list[float]:
        """The constants `a_1, ..., a_p` and `1 - sum a`."""
        constants = [c.constant for c in self._weights]
        return [*constants, 1.0 - math.fsum(constants)]

    @property
    def n_features(self) -> int:
        """Number of features M."""
        lengths = [c.n_features for c in self._weights]
        factors = zip(self._constants, [*lengths, sum(lengths)], strict=True)
        return sum(
            e.n_features * ((a != 0) + length)
            for e, (a, length) in zip(self._bases, factors, strict=True)
        )

    @property
    def cost(self) -> int:
        """Multiplications for one vector: of all parts, and of the outer products."""
        bases = sum(base.cost for base in self._bases)
        return bases + sum(weight.cost for weight in self._weights) + self.n_features

    @property
    def _like(self) -> Tensor:
        return self._bases[0]._like

    def _parts(self, inputs: Tensor, side: Side) -> tuple[list[Tensor], list[Tensor]]:
        """Features (..., n, M_k) of the estimators and (..., n, L_k) of the coefficients."""
        bases = [base._features(inputs, side) for base in self._bases]
        weights = [weight.features(inputs, side) for weight in self._weights]
        return bases, weights

    def _features(self, inputs: Tensor, side: Side) -> Tensor:
        return self._joined(*self._parts(inputs, side), side)

    def _joined(self, bases: list[Tensor], weights: list[Tensor], side: Side) -> Tensor:
        """Features (..., n, M) from those of the estimators and of the coefficients."""
        sign = 1.0 if side == "query" else -1.0
        blocks = []
        for a, base in zip(self._constants, bases, strict=True):
            if a != 0:
                factor = math.sqrt(abs(a)) * (sign if a < 0 else 1.0)
                blocks.append(factor * base)
        for base, weight in zip(bases, weights, strict=False):
            blocks += [outer(weight, base), outer(sign * weight, bases[-1])]
        return torch.cat(blocks, dim=-1)

    def estimate(self, X: Tensor | np.ndarray, Y: Tensor | np.ndarray) -> Tensor:
        """Estimates (..., n, p) from the parts, which need no outer products."""
        left = self._parts(as_rows(X, self.dim, self._like, "X"), "query")
        right = self._parts(as_rows(Y, self.dim, self._like, "Y"), "key")
        *estimates, last = (q @ k.mT for q, k in zip(left[0], right[0], strict=True))
        total = last
        for k, (r, s) in enumerate(zip(left[1], right[1], strict=True)):
            total = total + (self._constants[k] + r @ s.mT) * (estimates[k] - last)
        return total


def outer(weight: Tensor, base: Tensor) -> Tensor:
    """Outer products of the rows of (..., n, L) and (..., n, M), shape (..., n, L M)."""
    return (weight[..., :, None] * base[..., None, :]).flatten(-2)


def two_signed(
    dim: int, n_frequencies: int, coupling: CouplingLike, rng: np.random.Generator, shared: bool,
    kernel: str, dtype: torch.dtype | None, device: torch.device | str | None,
) -> tuple[ComplexExponentialFeatures, ComplexExponentialFeatures]:  # fmt: skip
    """Make positive features on `{+-w_i}`, and sine and cosine features, of m frequencies each.

    Parameters
    ----------
    dim, n_frequencies, coupling, kernel, dtype, device
        As in `ComplexExponentialFeatures`.
    rng
        Generator for the frequencies.
    shared
        Whether both use the same frequencies.
    """
    check_positive_int(dim, "dim")
    m = check_positive_int(n_frequencies, "n_frequencies")
    law = parse_coupling(coupling)
    drawn = [law.sample(m, dim, "gaussian", rng) for _ in range(1 if shared else 2)]
    first, last = (torch.as_tensor(w).to(dtype=dtype, device=device) for w in (drawn[0], drawn[-1]))
    make = ComplexExponentialFeatures.from_frequencies
    return make(torch.cat([first, -first]), kernel=kernel), make(last, 1j, kernel=kernel)


class _BipolarHybridFeatures(HybridFeatures):
    """A hybrid of `two_signed` estimators, which share the projections of their inputs."""

    _shared: bool

    def _bipolar(self) -> tuple[ComplexExponentialFeatures, ComplexExponentialFeatures]:
        """The positive estimator and the trigonometric estimator, in this order."""
        first, second = cast(list[ComplexExponentialFeatures], list(self.estimators))
        return (first, second) if first.is_positive else (second, first)

    @property
    def cost(self) -> int:
        """Multiplications for one vector, which is projected once on each frequency."""
        positive, trigonometric = self._bipolar()
        m = trigonometric.n_frequencies
        projections = self.dim * m * (1 if self._shared else 2)
        bases = positive.n_features + trigonometric.n_features
        return projections + bases + sum(w.cost for w in self._weights) + self.n_features

    def leveled_queries(self, X: Tensor | np.ndarray) -> tuple[Tensor, Tensor]:
        """Levels and factors (..., n, M) of the query features `factor exp(level)` of `X`.

        Factors are bounded, so that the features of long vectors can be scaled before they
        overflow; `CoupledAttention` does so.
        """
        return self._leveled(as_rows(X, self.dim, self._like, "X"), "query")

    def leveled_keys(self, Y: Tensor | np.ndarray) -> tuple[Tensor, Tensor]:
        """Levels and factors (..., n, M) of the key features of `Y`; see `leveled_queries`."""
        return self._leveled(as_rows(Y, self.dim, self._like, "Y"), "key")

    def _leveled(self, inputs: Tensor, side: Side) -> tuple[Tensor, Tensor]:
        levels, factors, weights = self._levels(inputs, side)
        copies = [levels[k] for k, a in enumerate(self._constants) if a != 0]
        for level, weight in zip(levels, weights, strict=False):
            copies += [*[level] * weight.shape[-1], *[levels[-1]] * weight.shape[-1]]
        return torch.cat(copies, dim=-1), self._joined(factors, weights, side)

    def _levels(
        self, inputs: Tensor, side: Side
    ) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        """Levels and factors (..., n, 2 m) of both estimators, and features of the coefficient."""
        positive, trigonometric = self._bipolar()
        m = trigonometric.n_frequencies
        projected = inputs @ positive.frequencies[:m].mT
        phase = projected if self._shared else inputs @ trigonometric.frequencies.mT
        half = inputs.square().sum(-1, keepdim=True) / 2
        scale = half if self.kernel == "gaussian" else torch.zeros_like(half)
        level = -half - scale - 0.5 * math.log(2 * m)
        exponents = torch.cat([projected + level, level - projected], dim=-1)
        waves = torch.cat([phase.cos(), phase.sin()], dim=-1)
        wave_level = (half - scale - 0.5 * math.log(m)).expand_as(waves)
        weights = [weight.features(inputs, side) for weight in self._weights]
        levels, factors = [exponents, wave_level], [torch.ones_like(exponents), waves]
        if self._bases[0] is positive:
            return levels, factors, weights
        return levels[::-1], factors[::-1], weights

    def _parts(self, inputs: Tensor, side: Side) -> tuple[list[Tensor], list[Tensor]]:
        levels, factors, weights = self._levels(inputs, side)
        return [f * e.exp() for f, e in zip(factors, levels, strict=True)], weights


class AngularHybridFeatures(_BipolarHybridFeatures):
    """Positive features with the weight `angle(x, y) / pi`, sine and cosine with one minus it.

    For vectors of equal length the estimate is exact at angles 0 and pi. There are
    `M = 4 m (n + 1)` features. With independent projections
    `MSE = E[lam^2] MSE(positive) + E[(1 - lam)^2] MSE(trigonometric)`, less
    `(2/m) SM^2 (1 - cos(|x|^2 - |y|^2)) E[lam (1 - lam)]` if the two share their frequencies.

    Parameters
    ----------
    dim
        Input dimension d.
    n_frequencies
        Number of frequencies m of either estimator; the positive one also uses their negatives.
    n_projections
        Number of projections n of the coefficient.
    coupling
        Joint law of the frequencies.
    generator
        Seed or generator for the frequencies and the projections.
    coefficient_coupling
        Joint law of the coefficient's projections.
    shared
        Whether both estimators use the same frequencies.
    kernel, dtype, device
        As in `ComplexExponentialFeatures`.

    Examples
    --------
    >>> import torch
    >>> from coupledgp.features import AngularHybridFeatures
    >>> features = AngularHybridFeatures(3, n_frequencies=8, n_projections=4, generator=0)
    >>> features.n_features == 4 * 8 * (4 + 1)
    True
    >>> x = torch.tensor([[0.3, -0.2, 0.5]]).double()
    >>> bool(torch.allclose(features.estimate(x, -x), (x @ -x.T).exp()))  # exact at the angle pi
    True
    """

    def __init__(
        self,
        dim: int,
        n_frequencies: int,
        n_projections: int = 8,
        coupling: CouplingLike = "orthogonal+pnc",
        generator: Seed = None,
        *,
        coefficient_coupling: CouplingLike = "iid",
        shared: bool = False,
        kernel: str = "softmax",
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        rng = as_rng(generator)
        bases = two_signed(dim, n_frequencies, coupling, rng, shared, kernel, dtype, device)
        coefficient = AngularCoefficient(
            dim, n_projections, coefficient_coupling, rng, dtype=dtype, device=device
        )
        super().__init__(bases, [coefficient])
        self._shared = shared


class GaussianHybridFeatures(_BipolarHybridFeatures):
    """Sine and cosine with the weight `exp(-|x + M y|^2 / (2 c^2))`, positive with one minus it.

    With the default `M = -I` the weight is near one where `x` is near `y`. There are
    `2 m (2 L + 1)` features, where L is the number of the coefficient's features (2n or n).

    Parameters
    ----------
    dim
        Input dimension d.
    n_frequencies
        Number of frequencies m of either estimator; the positive one also uses their negatives.
    n_coefficient_frequencies
        Number of frequencies n of the coefficient.
    coupling
        Joint law of the frequencies in each part.
    generator
        Seed or generator for all frequencies.
    matrix, width, coefficient_features, length
        Matrix M (a number, (d,) or (d, d)), width c, features of the coefficient, and the length r
        of all inputs, for weights that are zero where `x = -y`; see `GaussianCoefficient`.
    shared
        Whether both estimators use the same frequencies.
    kernel, dtype, device
        As in `ComplexExponentialFeatures`.

    Examples
    --------
    >>> import torch
    >>> from coupledgp.features import GaussianHybridFeatures
    >>> features = GaussianHybridFeatures(2, 8, n_coefficient_frequencies=4, generator=0)
    >>> features.n_features == 2 * 8 * (2 * 8 + 1)
    True
    >>> x = torch.tensor([[0.3, -0.2]]).double()
    >>> bool(torch.allclose(features.estimate(x, x), (x @ x.T).exp()))  # exact where x = y
    True
    """

    def __init__(
        self,
        dim: int,
        n_frequencies: int,
        n_coefficient_frequencies: int = 8,
        coupling: CouplingLike = "orthogonal+pnc",
        generator: Seed = None,
        *,
        matrix: ArrayLike = -1.0,
        width: float = 1.0,
        coefficient_features: FeaturesLike | SoftmaxFeatures = "fourier",
        length: float | None = None,
        shared: bool = False,
        kernel: str = "softmax",
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        rng = as_rng(generator)
        positive, trigonometric = two_signed(
            dim, n_frequencies, coupling, rng, shared, kernel, dtype, device
        )
        coefficient = GaussianCoefficient(
            dim, n_coefficient_frequencies, matrix, width, coefficient_features, coupling, rng,
            length=length, dtype=dtype, device=device,
        )  # fmt: skip
        super().__init__([trigonometric, positive], [coefficient])
        self._shared = shared


class GaussianMixtureHybridFeatures(HybridFeatures):
    """An estimator for each pair of clusters, with Gaussian weights, and positive features besides.

    "Hybrid random features", definition H.1: the estimator of the centres r and s has the real
    diagonal `a_k^2 = |s_k / r_k|` and the weight `exp(-|A x + A^-1 y|^2 / (2 tau^2))`, which is
    largest near the centres. Positive features have one minus the sum of all weights. No vector is
    assigned to a cluster; each weight is estimated by features of its own. There are
    `M = m (1 + 4 n u w)` features, which `ClusteredHybridFeatures` undercut.

    Parameters
    ----------
    query_centers, key_centers
        Centres (u, d) of queries and (w, d) of keys.
    n_frequencies
        Number of frequencies m of each of the `u w + 1` estimators.
    n_coefficient_frequencies
        Number of frequencies n of each weight.
    width
        Width tau of the weights.
    coupling
        Joint law of the frequencies in each part.
    generator
        Seed or generator for all frequencies.
    max_ratio, kernel, dtype, device
        As in `ClusteredHybridFeatures`.

    Examples
    --------
    >>> import math
    >>> import numpy as np
    >>> from coupledgp.features import GaussianMixtureHybridFeatures
    >>> query, key = np.array([[1.0, 0.5]]), np.array([[-0.5, -1.0]])
    >>> features = GaussianMixtureHybridFeatures(query, key, 8, 4, generator=0)
    >>> features.n_features == 8 * (1 + 4 * 4)
    True
    >>> math.isclose(features.estimate(query, key).item(), math.exp(-1.0))  # at the centres
    True
    """

    def __init__(
        self,
        query_centers: ArrayLike,
        key_centers: ArrayLike,
        n_frequencies: int,
        n_coefficient_frequencies: int = 8,
        width: float = 1.0,
        coupling: CouplingLike = "orthogonal+pnc",
        generator: Seed = None,
        *,
        max_ratio: float = 10.0,
        kernel: str = "softmax",
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        queries, keys = (
            check_centers(rows, name)
            for rows, name in ((query_centers, "query_centers"), (key_centers, "key_centers"))
        )
        rng, dim = as_rng(generator), queries.shape[1]
        pairs = ClusterPairs.without_spread(queries, keys)
        found = pairs.diagonals(check_positive(max_ratio, "max_ratio"), False).real
        diagonals = found.reshape(-1, dim)
        estimators = [
            ComplexExponentialFeatures(
                dim, n_frequencies, diagonal, coupling, rng,
                kernel=kernel, dtype=dtype, device=device,
            )
            for diagonal in [*diagonals, np.ones(dim)]
        ]  # fmt: skip
        weights = [
            GaussianCoefficient(
                dim, n_coefficient_frequencies, 1 / diagonal, width, "fourier", coupling, rng,
                query_matrix=diagonal, dtype=dtype, device=device,
            )
            for diagonal in diagonals
        ]  # fmt: skip
        super().__init__(estimators, weights)
