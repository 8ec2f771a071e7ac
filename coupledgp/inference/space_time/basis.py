"""Sensors in the eigenvectors of their covariance, where a space-time system becomes series."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh
from scipy.sparse.linalg import eigsh

from coupledgp.random import FloatArray

# Number of sensors up to which all eigenvectors are kept, and number that is kept of more.
MOST_EIGENVECTORS = 1500
# Number of sensors beyond which the leading eigenvectors are found by Lanczos iterations.
DENSE_EIGENVECTORS = 6000
# Eigenvalues below this share of the largest one are rounding.
ROUNDING = 1e-13


@dataclass(frozen=True, eq=False)
class Basis:
    """`D^-1/2 K D^-1/2 = U diag(l) U'` for the covariance K of p sensors and their scales D^1/2.

    Attributes
    ----------
    vectors : FloatArray (p, r)
        U; the leading r <= p eigenvectors.
    values : FloatArray (r,)
        l, not negative.
    roots : FloatArray (p,)
        Square roots of D, the relative variances of noise and own terms of the sensors.
    lost : float
        Share of the trace of the covariance that lies beyond the kept eigenvectors.
    """

    vectors: FloatArray
    values: FloatArray
    roots: FloatArray
    lost: float = 0.0

    @classmethod
    def of(
        cls, gram: FloatArray, roots: FloatArray | None = None, most: int = MOST_EIGENVECTORS
    ) -> Basis:
        """At most `most` leading eigenvectors of a covariance (p, p) of sensors."""
        p = len(gram)
        scales = np.ones(p) if roots is None else np.asarray(roots, dtype=np.float64)
        scaled = gram / scales[:, None] / scales
        if p <= most:
            values, vectors = eigh(scaled)
        elif p <= DENSE_EIGENVECTORS:
            values, vectors = eigh(scaled, subset_by_index=[p - most, p - 1])
        else:
            values, vectors = eigsh(scaled, k=most, v0=np.ones(p))
        values = np.where(values > ROUNDING * values[-1], values, 0.0)
        lost = 0.0 if p <= most else max(1.0 - float(values.sum() / np.trace(scaled)), 0.0)
        return cls(np.ascontiguousarray(vectors), values, scales, lost)

    @property
    def n_sensors(self) -> int:
        """Number p of sensors."""
        return len(self.vectors)

    @property
    def is_complete(self) -> bool:
        """Whether all eigenvectors are there."""
        return self.vectors.shape[0] == self.vectors.shape[1]

    @property
    def eigenvalues(self) -> FloatArray:
        """Eigenvalue (q,) of each series: l, and a zero for each row of the complement."""
        rest = 0 if self.is_complete else self.n_sensors
        return np.concatenate([self.values, np.zeros(rest)])

    @property
    def multiplicities(self) -> FloatArray:
        """Multiplicity (q,) of each series; the series of the complement share p - r."""
        p, r = self.vectors.shape
        rest = np.full(0 if self.is_complete else p, (p - r) / p)
        return np.concatenate([np.ones(r), rest])

    @property
    def shares(self) -> FloatArray:
        """Share (p, q) of each series in a sensor's variance: squares of U, then the complement."""
        squares = self.vectors**2
        if self.is_complete:
            return squares
        return np.hstack([squares, np.diag(np.maximum(1.0 - squares.sum(axis=1), 0.0))])

    def rotated(self, Y: FloatArray) -> FloatArray:
        """Values of the series (m, q, n) of values Y (m, p, n) at the sensors."""
        whitened = Y / self.roots[:, None]
        leading = np.matmul(self.vectors.T, whitened)
        if self.is_complete:
            return leading
        return np.concatenate([leading, whitened - np.matmul(self.vectors, leading)], axis=1)

    def unrotated(self, C: FloatArray) -> FloatArray:
        """Values (m, p, n) at the sensors of values C (m, q, n) of the series, divided by D^1/2."""
        r = self.vectors.shape[1]
        values = np.matmul(self.vectors, C[:, :r])
        if not self.is_complete:
            rest = C[:, r:]
            values += rest - np.matmul(self.vectors, np.matmul(self.vectors.T, rest))
        return values / self.roots[:, None]

    def spread(self, C: FloatArray) -> FloatArray:
        """`D^1/2 U diag(l)^1/2 C` (m, p, n): draws of the graph's part of draws C (m, r, n)."""
        weights = self.roots[:, None] * self.vectors * np.sqrt(self.values)
        return np.asarray(np.matmul(weights, C))
