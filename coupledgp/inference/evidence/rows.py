"""Rows that differ in their noise, or that count more than once.

Row i has the noise variance `s r_i` and counts `c_i` times, as if it stood c_i times in the table:

    p(y | f) = prod_i N(y_i; f_i, s r_i)^c_i .

With `p_i = c_i / r_i` and `P = diag(p)`, the evidence of k outputs is that of the rows of
`P^1/2 Phi`, or the Gram matrix `P^1/2 G P^1/2`, and of the targets `P^1/2 y`, whose number of rows
is `sum_i c_i`, times `prod_i r_i^(-k c_i / 2)`. A row of weight c in a table is a row of count c; a
row of known noise is one of count 1. For whole counts it is the table with repeated rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from coupledgp.random import FloatArray


@dataclass(frozen=True, eq=False)
class RowWeights:
    """Relative noise and counts of n rows.

    Attributes
    ----------
    noise : FloatArray (n,)
        Relative noise variances r, positive: row i has the noise variance `s r_i`.
    counts : FloatArray (n,)
        Counts c, positive: how often each row counts.
    level : float or None
        Noise variance of a row of relative noise one, in units of y squared, where it is known.
    exposure : FloatArray (n,) or None
        Exposures e, positive: a likelihood of counts takes `f + log e` for f. None: ones.
    """

    noise: FloatArray
    counts: FloatArray
    level: float | None = None
    exposure: FloatArray | None = None

    def __len__(self) -> int:
        return len(self.noise)

    @classmethod
    def ones(cls, n_rows: int, exposure: FloatArray | None = None) -> RowWeights:
        """Weights of n rows that count once each and have the noise variance s."""
        return cls(np.ones(n_rows), np.ones(n_rows), exposure=exposure)

    @classmethod
    def joined(cls, parts: Sequence[RowWeights]) -> RowWeights:
        """Weights of the rows of all parts, with the level of the first part."""
        noise = np.concatenate([part.noise for part in parts])
        counts = np.concatenate([part.counts for part in parts])
        exposure = None
        if any(part.exposure is not None for part in parts):
            own = [np.ones(len(p)) if p.exposure is None else p.exposure for p in parts]
            exposure = np.concatenate(own)
        return cls(noise, counts, parts[0].level, exposure)

    def take(self, rows: NDArray[np.integer] | slice) -> RowWeights:
        """Weights of some rows, by their places."""
        exposure = None if self.exposure is None else self.exposure[rows]
        return RowWeights(self.noise[rows], self.counts[rows], self.level, exposure)

    @property
    def relative_noise(self) -> FloatArray:
        """`r / c` (n,): the posterior depends on the weights by these ratios alone."""
        return self.noise / self.counts

    @cached_property
    def root(self) -> FloatArray:
        """`sqrt(c / r)` (n,), the factors of the rows of features and targets."""
        return np.sqrt(self.counts / self.noise)

    @property
    def n_counted(self) -> float:
        """Number of rows, each as often as it counts."""
        return float(self.counts.sum())

    @property
    def log_noise(self) -> float:
        """`sum_i c_i log r_i`."""
        return float(self.counts @ np.log(self.noise))

    def log_repetition(self, noise: float) -> float:
        """Log evidence of one output minus the log density of its rows with noise `s r / c`.

        `1/2 sum log(r / c) - 1/2 sum c log r - 1/2 sum (c - 1) log(2 pi s)`, zero where all counts
        are one: the law of repeated values about their mean.
        """
        own = np.log(self.relative_noise) - self.counts * np.log(self.noise)
        return float(0.5 * (own - (self.counts - 1) * np.log(2 * np.pi * noise)).sum())
