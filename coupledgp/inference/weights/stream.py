"""Features of a table in chunks, so that memory does not grow with the number of rows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from coupledgp.features import FeatureMap
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.random import FloatArray, IntArray

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
