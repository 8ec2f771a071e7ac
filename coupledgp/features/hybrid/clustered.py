"""Hybrid features for clustered queries and keys (MATH 5)."""

from __future__ import annotations

from typing import Self

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.cluster import KMeans
from torch import Tensor

from coupledgp.couplings import CouplingLike, parse_coupling
from coupledgp.errors import InvalidInputError
from coupledgp.features.hybrid.base import Side, SoftmaxFeatures
from coupledgp.features.hybrid.complex_exponential import ComplexArray, exponents, real_features
from coupledgp.ground.validation import check_positive, check_positive_int
from coupledgp.random import FloatArray, Seed, as_rng


class ClusteredHybridFeatures(SoftmaxFeatures):
    """Softmax features with a separate estimator for each pair of a query and a key cluster.

    For the centre `r` of a cluster of queries and the centre `s` of a cluster of keys, `A` is
    diagonal with `a_k^2 = -s_k / r_k` (imaginary where `r_k s_k > 0`, real where `< 0`), so that
    `A r + A^-T s = 0` and the estimate is exact at the centres ("Hybrid random features", section
    2.4 and appendix H.3). A vector belongs to the cluster with the nearest centre; the
    coefficients are indicators and sum to one. One ensemble of frequencies serves all pairs of
    clusters, because a query and a key use the estimator of one pair only. There are
    `M = 2 m u w` features for u clusters of queries and w of keys; `2 m w` features of a query and
    `2 m u` of a key are not zero.

    Parameters
    ----------
    query_centers, key_centers
        Centres (u, d) of queries and (w, d) of keys; `fit` finds them.
    n_frequencies
        Number of frequencies m.
    coupling
        Joint law of the frequencies.
    generator
        Seed or generator for the frequencies.
    max_ratio
        Bound on `|a_k|^2`, which is kept between `1 / max_ratio` and `max_ratio`. Without a bound,
        a coordinate of a centre near zero gives an estimator with a very large variance away from
        the centre. The estimate is unbiased for any A.
    kernel, dtype, device
        As in `ComplexExponentialFeatures`.
    """

    frequencies: Tensor
    query_centers: Tensor
    key_centers: Tensor
    factor: Tensor

    def __init__(
        self,
        query_centers: ArrayLike,
        key_centers: ArrayLike,
        n_frequencies: int,
        coupling: CouplingLike = "orthogonal+pnc",
        generator: Seed = None,
        *,
        max_ratio: float = 10.0,
        kernel: str = "softmax",
        dtype: torch.dtype = torch.float64,
        device: torch.device | str | None = None,
    ) -> None:
        queries = check_centers(query_centers, "query_centers")
        keys = check_centers(key_centers, "key_centers")
        if queries.shape[1] != keys.shape[1]:
            raise InvalidInputError(
                f"key_centers: expected {queries.shape[1]} columns as in query_centers, "
                f"got {keys.shape[1]}"
            )
        super().__init__(queries.shape[1], kernel)
        m = check_positive_int(n_frequencies, "n_frequencies")
        drawn = parse_coupling(coupling).sample(m, self.dim, "gaussian", generator)
        diagonals = pair_diagonals(queries, keys, check_positive(max_ratio, "max_ratio"))
        buffers = {
            "frequencies": drawn,
            "query_centers": queries,
            "key_centers": keys,
            "factor": np.stack([diagonals.real, diagonals.imag]),
        }
        for name, array in buffers.items():
            self.register_buffer(name, torch.as_tensor(array).to(dtype=dtype, device=device))

    @classmethod
    def fit(
        cls,
        X: ArrayLike,
        Y: ArrayLike,
        n_frequencies: int,
        n_query_clusters: int = 3,
        n_key_clusters: int = 3,
        coupling: CouplingLike = "orthogonal+pnc",
        generator: Seed = None,
        *,
        max_ratio: float = 10.0,
        kernel: str = "softmax",
        dtype: torch.dtype = torch.float64,
        device: torch.device | str | None = None,
    ) -> Self:
        """Find the centres by k-means on queries X (n, d) and keys Y (p, d).

        Parameters
        ----------
        X, Y
            Queries (n, d) and keys (p, d) that are typical of the use.
        n_frequencies
            Number of frequencies m.
        n_query_clusters, n_key_clusters
            Numbers of clusters u and w.
        coupling
            Joint law of the frequencies.
        generator
            Seed or generator for k-means and the frequencies.
        max_ratio, kernel, dtype, device
            As in the constructor.
        """
        rng = as_rng(generator)
        centers: list[FloatArray] = []
        for rows, count, name in [
            (X, n_query_clusters, "n_query_clusters"),
            (Y, n_key_clusters, "n_key_clusters"),
        ]:
            points = check_centers(rows, "X" if name == "n_query_clusters" else "Y")
            if check_positive_int(count, name) > len(points):
                raise InvalidInputError(f"{name}: expected at most {len(points)}, got {count}")
            seed = int(rng.integers(2**31 - 1))
            # The best of four starts, because a poor start of k-means joins two clusters.
            centers.append(KMeans(count, n_init=4, random_state=seed).fit(points).cluster_centers_)
        query_centers, key_centers = centers
        return cls(
            query_centers, key_centers, n_frequencies, coupling, rng,
            max_ratio=max_ratio, kernel=kernel, dtype=dtype, device=device,
        )  # fmt: skip

    @property
    def n_frequencies(self) -> int:
        """Number of frequencies m."""
        return len(self.frequencies)

    @property
    def n_features(self) -> int:
        """Number of features, 2 m u w."""
        return 2 * self.n_frequencies * len(self.query_centers) * len(self.key_centers)

    @property
    def cost(self) -> int:
        """Multiplications for one query: its distances to the centres, then w estimators."""
        u, w = len(self.query_centers), len(self.key_centers)
        return self.dim * u + w * (2 * self.dim * self.n_frequencies + 2 * self.n_frequencies)

    @property
    def _like(self) -> Tensor:
        return self.frequencies

    def _features(self, inputs: Tensor, side: Side) -> Tensor:
        """Features (..., n, M) in a block for each pair; blocks of other clusters are zero."""
        rows = inputs.reshape(-1, self.dim)
        is_query = side == "query"
        centers = self.query_centers if is_query else self.key_centers
        cluster = torch.cdist(rows.detach(), centers).argmin(-1)
        real, imag = self.factor if is_query else invert_diagonals(self.factor).transpose(1, 2)
        real, imag = (part[cluster] * rows[:, None, :] for part in (real, imag))
        norm = rows.square().sum(-1)[:, None, None] if self.kernel == "gaussian" else None
        active = real_features(*exponents(self.frequencies, real, imag, norm), side)
        own = torch.nn.functional.one_hot(cluster, len(centers)).to(active.dtype)
        blocks = own[:, :, None, None] * active[:, None]
        if not is_query:
            blocks = blocks.transpose(1, 2)
        return blocks.reshape(*inputs.shape[:-1], self.n_features)


def pair_diagonals(queries: FloatArray, keys: FloatArray, max_ratio: float) -> ComplexArray:
    """Diagonals (u, w, d) of A with `A r + A^-1 s = 0` at all pairs of centres.

    Parameters
    ----------
    queries, keys
        Centres (u, d) of queries and (w, d) of keys.
    max_ratio
        Bound on `|a_k|^2` and on its inverse.
    """
    r, s = queries[:, None, :], keys[None, :, :]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.abs(s) / np.abs(r)
    bound = max(max_ratio, 1 / max_ratio)
    size = np.sqrt(np.clip(np.nan_to_num(ratio, nan=1.0, posinf=bound), 1 / bound, bound))
    diagonals: ComplexArray = np.where(r * s > 0, 1j * size, size)
    return diagonals


def invert_diagonals(factor: Tensor) -> Tensor:
    """Real and imaginary parts (2, ...) of `1 / a`, from the parts (2, ...) of `a`."""
    real, imag = factor
    square = real.square() + imag.square()
    return torch.stack([real / square, -imag / square])


def check_centers(centers: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return a finite, non-empty table (n, d) in float64."""
    array = np.asarray(centers, dtype=np.float64)
    if array.ndim != 2 or array.size == 0 or not np.isfinite(array).all():
        raise InvalidInputError(
            f"{name}: expected a non-empty 2-D array of finite numbers, got shape {array.shape}"
        )
    return array
