"""Posterior of the weights of a linear-Gaussian model, and features in chunks (MATH section 6)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from coupledgp.core.normal_equations import (
    FeatureRounding,
    NormalEquations,
    SquareRoot,
    error_of_rows,
    error_of_sums,
    solve_ridge,
)
from coupledgp.errors import NumericalError
from coupledgp.features import FeatureMap
from coupledgp.ground.codec import stored
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.linalg.low_rank import LIMIT
from coupledgp.random import FloatArray, IntArray

DOUBLE = FeatureRounding()


@stored
@dataclass(frozen=True)
class WeightPosterior:
    """Law of `f = Phi u`, `u` the weights of features of unit outputscale, given the data.

    With `A = Phi' Phi + lam I = L L'`, `lam = s / v`: mean `A^-1 Phi' y`, covariance `s A^-1`. With
    fewer rows than features, `Phi' = Q R`: the data speak of the span of `Q` only, where the
    posterior is that of the features `R'`, and outside it the prior stays.

    Attributes
    ----------
    mean : Tensor (M, k)
        Posterior mean of the weights, normalised targets.
    factor : Tensor (r, r)
        Lower Cholesky factor L, r = min(n, M).
    basis : Tensor (M, r) or None
        Q, or None when r = M.
    outputscale, noise : float
        v and s, in units of the normalised targets.
    log_evidence : float
        Log evidence of the normalised targets, in nats.
    error : float
        Estimated error by rounding, at any inputs: of the mean in predictive standard deviations,
        or of these as a share, whichever is more.
    """

    mean: Tensor
    factor: Tensor
    basis: Tensor | None
    outputscale: float
    noise: float
    log_evidence: float
    error: float = 0.0

    @classmethod
    def from_moments(
        cls,
        equations: NormalEquations,
        outputscale: float,
        noise: float,
        rounding: FeatureRounding = DOUBLE,
    ) -> WeightPosterior:
        """Posterior from the normal equations of M features; `rounding` states their errors.

        Raises
        ------
        NumericalError
            The matrix A is not positive definite to rounding.
        """
        factor, mean, evidence = solve_ridge(equations, outputscale, noise)
        error = error_of_sums(equations, factor, mean, noise, rounding)
        return cls(mean, factor, None, outputscale, noise, evidence, error)

    @classmethod
    def from_rows(
        cls,
        features: Tensor,
        targets: Tensor,
        outputscale: float,
        noise: float,
        n_rows: float | None = None,
        log_noise: float = 0.0,
        rounding: FeatureRounding = DOUBLE,
    ) -> WeightPosterior:
        """Posterior from fewer rows (n, M) than features, with normalised targets (n, k).

        Both have the factors `RowWeights.root` already; `n_rows`, the number of rows where they
        count otherwise than once, and `log_noise` are those of `NormalEquations`.
        """
        basis, upper = torch.linalg.qr(features.T)
        counted = len(targets) if n_rows is None else n_rows
        equations = NormalEquations(
            upper @ upper.T, upper @ targets, targets.square().sum(0), counted, log_noise
        )
        try:
            found = cls.from_moments(equations, outputscale, noise, rounding)
        except NumericalError:
            if not bool(torch.isfinite(equations.gram).all()):
                raise
            found = None
        if found is None or found.error > LIMIT:
            root = SquareRoot.of([(upper.T, targets)], noise / outputscale)
            found = cls.from_root(root, outputscale, noise, counted, log_noise, rounding)
        return replace(found, mean=basis @ found.mean, basis=basis)

    @classmethod
    def from_root(
        cls,
        root: SquareRoot,
        outputscale: float,
        noise: float,
        n_rows: float,
        log_noise: float = 0.0,
        rounding: FeatureRounding = DOUBLE,
    ) -> WeightPosterior:
        """Posterior from the orthogonal factor of n rows, whose ridge is `noise / outputscale`."""
        mean = root.weights()
        residual = (root.quadratic - root.lam * mean.square().sum(0)).clamp_min(0.0).sqrt()
        error = error_of_rows(root.factor, mean, residual, root.square, n_rows, noise, rounding)
        evidence = root.log_evidence(outputscale, n_rows, log_noise)
        return cls(mean, root.factor, None, outputscale, noise, evidence, error)

    def predict(self, features: Tensor) -> Tensor:
        """Posterior mean (b, k) at features (b, M) of unit outputscale."""
        return features.to(self.mean.dtype) @ self.mean

    def root(self, features: Tensor) -> Tensor:
        """Rows `V` (b, r), or (b, r + M), at features (b, M), with latent covariance `V V'`.

        A variance is thus the squared norm of a row: a sum of squares, which cannot turn negative
        by rounding.
        """
        features = features.to(self.mean.dtype)
        root = math.sqrt(self.noise) * self.whitened(features)
        if self.basis is None:
            return root
        outside = features - features @ self.basis @ self.basis.T
        return torch.cat([root, math.sqrt(self.outputscale) * outside], dim=1)

    def whitened(self, features: Tensor) -> Tensor:
        """Rows `L^-1 Q' phi` (b, r) of features (b, M), Q the identity when r = M."""
        features = features.to(self.mean.dtype)
        inside = features if self.basis is None else features @ self.basis
        return torch.linalg.solve_triangular(self.factor, inside.T, upper=False).T

    @property
    def n_innovations(self) -> int:
        """Number of standard normal draws that one sample of the weights takes."""
        return len(self.factor) + (0 if self.basis is None else len(self.mean))

    def sample(self, innovations: Tensor) -> Tensor:
        """Weights minus their mean, (M, j), from standard normal draws (n_innovations, j)."""
        r = len(self.factor)
        inside = torch.linalg.solve_triangular(self.factor.T, innovations[:r], upper=True)
        inside = math.sqrt(self.noise) * inside
        if self.basis is None:
            return inside
        outside = innovations[r:] - self.basis @ (self.basis.T @ innovations[r:])
        return self.basis @ inside + math.sqrt(self.outputscale) * outside


# Most bytes of one chunk of features, and most rows, so that float32 sums within a chunk stay
# accurate.
CHUNK_BYTES = 2**26
MAX_CHUNK_ROWS = 16384
# On a CPU a chunk in double precision takes about this many bytes, which stay in its cache from the
# phases to the product, but has no fewer rows than make the product large beside the sum it is
# added to.
CACHE_BYTES = 2**23
CACHE_ROWS = 2048
# Columns of the blocks in which products are formed: fewer are slow, more repeat known entries.
BLOCK_COLUMNS = (64, 256)


@dataclass(frozen=True)
class FeatureStream:
    """The features of `(X - center) / lengthscale`, chunk by chunk, of unit outputscale.

    Parameters
    ----------
    feature_map
        Feature map with M features.
    X
        Inputs (n, d), referred to and never copied whole.
    center
        Shift of the inputs (d,).
    lengthscale
        Lengthscales (d,).
    root
        Factors (n,) of the rows of features, `RowWeights.root`; None for ones.
    rows
        Numbers (n,) of the rows of X that make up the table; None: all.
    most_rows
        Largest number of rows in one chunk.
    """

    feature_map: FeatureMap
    X: FloatArray
    center: FloatArray
    lengthscale: FloatArray
    root: FloatArray | None = None
    rows: IntArray | None = None
    most_rows: int | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows n."""
        return self.X.shape[0] if self.rows is None else self.rows.size

    def subset(self, rows: IntArray) -> FeatureStream:
        """The stream of some rows, given by their numbers (b,) in this one; X is not copied."""
        root = None if self.root is None else self.root[rows]
        return replace(self, rows=rows if self.rows is None else self.rows[rows], root=root)

    @property
    def chunk_rows(self) -> int:
        """Rows in one chunk."""
        n_features = self.feature_map.n_features
        by_memory = CHUNK_BYTES // (self.feature_map.dtype.itemsize * n_features)
        if self.feature_map.device.type == "cpu":
            by_memory = min(by_memory, max(CACHE_BYTES // (8 * n_features), CACHE_ROWS))
        most = MAX_CHUNK_ROWS if self.most_rows is None else self.most_rows
        return min(self.n_rows, max(by_memory, 256), most)

    def inputs(self, rows: slice) -> Tensor:
        """Scaled inputs of some rows (b, d), in the features' dtype and on their device."""
        chosen = self.X[rows if self.rows is None else self.rows[rows]]
        scaled = (chosen - self.center) / self.lengthscale
        feature_map = self.feature_map
        return torch.as_tensor(scaled).to(dtype=feature_map.dtype, device=feature_map.device)

    def __iter__(self) -> Iterator[tuple[slice, Tensor, Tensor]]:
        """Yield (rows, scaled inputs (b, d), features (b, M)); the features' memory is reused."""
        feature_map = self.feature_map
        buffer = torch.empty(
            self.chunk_rows,
            feature_map.n_features,
            dtype=feature_map.dtype,
            device=feature_map.device,
        )
        for start in range(0, self.n_rows, self.chunk_rows):
            rows = slice(start, min(start + self.chunk_rows, self.n_rows))
            inputs = self.inputs(rows)
            features = self.feature_map(inputs, out=buffer[: inputs.shape[0]])
            if self.root is not None:
                features = features * self.factors(rows)
            yield rows, inputs, features

    def factors(self, rows: slice) -> Tensor:
        """Factors of some rows as a column (b, 1), in the features' dtype and on their device."""
        own = self.feature_map
        factors = np.ones(len(range(self.n_rows)[rows])) if self.root is None else self.root[rows]
        return torch.as_tensor(factors).to(dtype=own.dtype, device=own.device)[:, None]

    def dense(self) -> Tensor:
        """All features (n, M) at once, in float64."""
        features = self.feature_map(self.inputs(slice(None))).double()
        return features if self.root is None else features * self.factors(slice(None)).double()


def add_gram(total: Tensor, features: Tensor) -> None:
    """Add the upper triangle of `features' features` to `total` (M, M), in float64.

    Four block rows of the upper triangle cost 5/8 of the whole product, eight 9/16. Entries below
    the block diagonal are left alone; `fill_lower` completes the matrix at the end.
    """
    size = features.shape[1]
    narrow, wide = BLOCK_COLUMNS
    step = max(narrow, min(wide, -(-size // 4)), -(-size // 8))
    for start in range(0, size, step):
        stop = min(start + step, size)
        block = total[start:stop, start:]
        # Not `addmm_`: a product that is rounded by itself gives the bits of two totals' sum.
        block += features[:, start:stop].T @ features[:, start:]


def fill_lower(total: Tensor) -> Tensor:
    """Return the symmetric matrix (M, M) with the upper triangle of `total` (M, M)."""
    return total.triu() + total.triu(1).T
