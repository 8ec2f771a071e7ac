"""Posterior of a sparse field with a few features beside it, by one sparse factorisation.

The model, in units of the amplitude, is `y = A f + B c + e` with `f ~ N(0, Q^-1)`,
`c ~ N(0, D^-1)` (zeros in D stand for a flat prior) and `e ~ N(0, N^-1)`. With `L = Q + A' N A`

    G = L^-1 A' N B,    W = N B - N A G,    H = D + B' W,    c^ = H^-1 W' y,
    f^ = L^-1 A' N (y - B c^),    C^-1 y = N (y - B c^ - A f^)

C being the covariance of y. The law of (f, c) given y is that of `f | c ~ N(f^ - G (c - c^), L^-1)`
and `c ~ N(c^, H^-1)`; `log|C| = log|L| - log|Q| - log|N| + log|H| - log|D|`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np
from scipy import linalg, sparse

from coupledgp.errors import NumericalError
from coupledgp.fields.precision import PriorPrecision, SparsePattern, as_pattern
from coupledgp.linalg.block_factor import BlockFactor
from coupledgp.random import FloatArray, IntArray

# Columns that are solved for at once.
BLOCK_COLUMNS = 64


class PrecisionPosterior:
    """Posterior of a sparse field and of the weights of a few features, of unit amplitude.

    Parameters
    ----------
    pattern
        Pattern that holds Q and `A' A`.
    prior
        Precision Q of the field at the vertices.
    rows
        A (n, n_vertices), the weights of the vertices in each observation.
    noise
        Noise variances (n,), over the amplitude.
    columns
        B (n, q), features of each observation; the constant mean is one of these.
    penalties
        D (q,), prior precisions of their weights; zeros stand for a flat prior.

    Raises
    ------
    NumericalError
        L or H is not positive definite to rounding.
    """

    def __init__(
        self,
        pattern: SparsePattern,
        prior: PriorPrecision,
        rows: sparse.csr_array,
        noise: FloatArray,
        columns: FloatArray,
        penalties: FloatArray,
    ) -> None:
        self.pattern, self.rows = pattern, rows
        self.weights = 1 / noise
        self.columns, self.penalties = columns, penalties
        data = sparse.csr_array(rows.T @ sparse.diags_array(self.weights) @ rows)
        self.factor = BlockFactor(pattern.nodes, prior.values + pattern.values(data))
        self.spread = self._solved_columns()
        weighted = self.weights[:, None]
        self.whitened = weighted * (columns - rows @ self.spread)
        system = np.diag(penalties) + columns.T @ self.whitened
        try:
            self.root = linalg.cho_factor((system + system.T) / 2, lower=True)
        except linalg.LinAlgError:
            raise NumericalError(
                f"weights of {penalties.size} features have no positive definite precision: raise "
                "the noise, or use fewer features"
            ) from None
        log_determinant = self.factor.log_determinant - prior.log_determinant
        log_determinant -= np.log(self.weights).sum()
        log_determinant += 2 * np.log(np.diagonal(self.root[0])).sum()
        # The penalties of weights with a flat prior are left out: the restricted likelihood.
        self.log_determinant = float(log_determinant - np.log(penalties[penalties > 0]).sum())

    def _solved_columns(self) -> FloatArray:
        """G (n_vertices, q), some columns at a time."""
        found = np.empty((self.rows.shape[1], self.penalties.size))
        for start in range(0, self.penalties.size, BLOCK_COLUMNS):
            block = slice(start, start + BLOCK_COLUMNS)
            found[:, block] = self.factor.solve(self._pulled(self.columns[:, block]))
        return found

    def _pulled(self, V: FloatArray) -> FloatArray:
        """`A' N V` (n_vertices, k) of V (n, k)."""
        return np.asarray(self.rows.T @ (self.weights[:, None] * V))

    def coefficients(self, targets: FloatArray) -> FloatArray:
        """Posterior mean c^ (q, k) of the weights, for targets (n, k)."""
        return np.asarray(linalg.cho_solve(self.root, self.whitened.T @ targets))

    def field(self, targets: FloatArray, coefficients: FloatArray) -> FloatArray:
        """Posterior mean f^ (n_vertices, k) of the field."""
        return self.factor.solve(self._pulled(targets - self.columns @ coefficients))

    def residuals(
        self, targets: FloatArray, coefficients: FloatArray, field: FloatArray
    ) -> FloatArray:
        """`C^-1 y` (n, k)."""
        rest = targets - self.columns @ coefficients - self.rows @ field
        return np.asarray(self.weights[:, None] * rest)

    @cached_property
    def lower(self) -> FloatArray:
        """Entries (e,) of `L^-1` in the lower triangle of the pattern."""
        return self.factor.selected()[0]

    @cached_property
    def entries(self) -> sparse.csr_array:
        """Entries of `L^-1` on the pattern."""
        return self.factor.on_pattern(self.lower)

    def field_variances(self, rows: sparse.csr_array) -> FloatArray:
        """`diag(T L^-1 T')` (p,) for rows T (p, n_vertices), by entries on the pattern.

        Rows with pairs of vertices outside of the pattern take a solve each.
        """
        ones = as_pattern(rows)
        pairs = np.asarray(ones.multiply(ones @ self.pattern.matrix).sum(axis=1)).ravel()
        found = np.asarray(rows.multiply(rows @ self.entries).sum(axis=1)).ravel()
        outside = np.flatnonzero(pairs < np.diff(rows.indptr).astype(float) ** 2)
        for start in range(0, outside.size, BLOCK_COLUMNS):
            chosen = outside[start : start + BLOCK_COLUMNS]
            found[chosen] = self.field_covariance(rows[chosen]).diagonal()
        return found

    def field_covariance(self, rows: sparse.csr_array) -> FloatArray:
        """`T L^-1 T'` (p, p) for rows T (p, n_vertices), by a solve for each row."""
        found = np.empty((rows.shape[0], rows.shape[0]))
        for start in range(0, rows.shape[0], BLOCK_COLUMNS):
            block = slice(start, start + BLOCK_COLUMNS)
            found[:, block] = rows @ self.factor.solve(rows[block].T.toarray())
        return 0.5 * (found + found.T)

    def gap_root(self, rows: sparse.csr_array, columns: FloatArray) -> FloatArray:
        """E (p, q) with `E E'` the covariance that unknown weights add at rows T and columns B.

        `E = (B - T G) R^-T` with `H = R R'`.
        """
        gaps = columns - rows @ self.spread
        return np.asarray(linalg.solve_triangular(self.root[0], gaps.T, lower=True).T)

    def sample_weights(self, n_samples: int, rng: np.random.Generator) -> FloatArray:
        """Draws (q, n_samples) of `c - c^`."""
        white = rng.standard_normal((self.penalties.size, n_samples))
        return np.asarray(linalg.solve_triangular(self.root[0], white, lower=True, trans="T"))

    def sample_field(
        self, prior_noise: FloatArray, weights: FloatArray, rng: np.random.Generator
    ) -> FloatArray:
        """Draws (n_vertices, n_samples) of `f - f^`, given draws `c - c^` of the weights.

        Parameters
        ----------
        prior_noise
            Draws (n_vertices, n_samples) of covariance Q.
        weights
            Draws (q, n_samples).
        rng
            Source of the rest.
        """
        white = rng.standard_normal((self.weights.size, weights.shape[1]))
        noise = prior_noise + self.rows.T @ (np.sqrt(self.weights)[:, None] * white)
        return self.factor.solve(np.asarray(noise)) - self.spread @ weights

    @cached_property
    def _half(self) -> FloatArray:
        """`R^-1 W'` (q, n) with `H = R R'`."""
        return np.asarray(linalg.solve_triangular(self.root[0], self.whitened.T, lower=True))

    def inverse_diagonal(self, rows: IntArray) -> FloatArray:
        """Diagonal entries of `C^-1` of observations (m,)."""
        inner = np.square(self.weights[rows]) * self.field_variances(self.rows[rows])
        entries: FloatArray = (
            self.weights[rows] - inner - np.square(self._half[:, rows]).sum(axis=0)
        )
        return entries

    def inverse_blocks(self, groups: list[IntArray]) -> Iterator[FloatArray]:
        """Blocks `(C^-1)_GG` of groups of observations.

        Observations of a group that share a place take entries on the pattern; others solves.
        """
        for group in groups:
            weight = self.weights[group]
            if self._are_alike(group):
                single = self.field_variances(self.rows[group[:1]])[0]
                inner = np.full((group.size, group.size), single)
            else:
                inner = self.field_covariance(self.rows[group])
            block = np.diag(weight) - weight[:, None] * inner * weight
            half = self._half[:, group]
            yield block - half.T @ half

    def _are_alike(self, group: IntArray) -> bool:
        """Whether observations are at the same place."""
        gap = self.rows[group[1:]] - self.rows[np.full(group.size - 1, group[0])]
        return bool(abs(gap).sum() == 0)
