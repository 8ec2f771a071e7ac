"""Hybrid features for clustered queries and keys (MATH 5)."""

from __future__ import annotations

from dataclasses import dataclass
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
from coupledgp.ground.validation import check_choice, check_positive, check_positive_int, wrong
from coupledgp.random import FloatArray, Seed, as_rng

FORMS = ("real", "complex", "auto")


class ClusteredHybridFeatures(SoftmaxFeatures):
    """Softmax features with a separate estimator for each pair of a query and a key cluster.

    "Hybrid random features", section 2.4 and appendix H. The matrix A of a pair of clusters is
    diagonal with `|a_k|^4 = E[y_k^2] / E[x_k^2]`, from the second moments of the keys and queries
    of the pair. Among real A these minimise `E |A x + A^-1 y|^2`, hence, to first order, the
    variance `(SM^2 / m) (exp(|A x + A^-1 y|^2) - 1)`. Clusters without spread have
    `|a_k|^2 = |s_k / r_k|` for the centres r and s, as in the paper.

    A vector belongs to the cluster with the nearest centre; the coefficients are indicators and
    sum to one. One ensemble of frequencies serves all pairs of clusters, because a query and a key
    use the estimator of one pair only. For u clusters of queries and w of keys there are
    `M = m u w` positive features of the real form, of which `m w` of a query and `m u` of a key
    are not zero; twice as many of the complex form.

    In the complex form some `a_k` are imaginary, and the estimate is exact at centres without
    spread. With `g_k = (E[x_k^2] E[y_k^2])^(1/2)`, the other coordinates have
    `U = 2 sum (g_k + r_k s_k)` and the imaginary ones `V = 2 sum (g_k - r_k s_k)`: means of the
    squares of the real and the imaginary part of `A x + A^-1 y`. The relative variance of one
    frequency is `exp(U) cosh(V) - 1` at these means. The imaginary coordinates are those that make
    it least (`imaginary_parts`): the more the spread counts beside the centres, the fewer.

    Parameters
    ----------
    query_centers, key_centers
        Centres (u, d) of queries and (w, d) of keys; `fit` finds them.
    n_frequencies
        Number of frequencies m.
    coupling
        Joint law of the frequencies. Antithetic ones ("orthogonal+antithetic") suit the real form.
    generator
        Seed or generator for the frequencies.
    query_squares, key_squares
        Mean squares of the coordinates of each cluster, (u, d) and (w, d); `fit` measures them.
        None: the squares of the centres, that is, clusters without spread.
    form
        `"real"`: positive features. `"complex"`: m complex features. `"auto"`: the form with the
        lower variance, at these moments, for a given number of features.
    max_ratio
        Bound on `|a_k|^2`, which is kept between `1 / max_ratio` and `max_ratio`. The estimate is
        unbiased for any A.
    kernel, dtype, device
        As in `ComplexExponentialFeatures`.

    Attributes
    ----------
    form
        `"real"` or `"complex"`, as chosen.

    Raises
    ------
    InvalidInputError
        An argument is invalid: a mean square below the square of its centre, for one.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.features import ClusteredHybridFeatures
    >>> queries, keys = np.array([[1.0, 0.5], [-0.5, 1.0]]), np.array([[0.3, -1.0], [-1.0, -0.4]])
    >>> features = ClusteredHybridFeatures(queries, keys, 16, form="complex", generator=0)
    >>> features.n_features == 2 * 16 * 2 * 2
    True
    >>> exact = np.exp(queries @ keys.T)
    >>> bool(np.allclose(features.estimate(queries, keys), exact))  # at centres without spread
    True
    """

    form: str
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
        query_squares: ArrayLike | None = None,
        key_squares: ArrayLike | None = None,
        form: str = "real",
        max_ratio: float = 10.0,
        kernel: str = "softmax",
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> None:
        queries = check_centers(query_centers, "query_centers")
        keys = check_centers(key_centers, "key_centers")
        super().__init__(queries.shape[1], kernel)
        m = check_positive_int(n_frequencies, "n_frequencies")
        law = parse_coupling(coupling)
        drawn = law.sample(m, self.dim, "gaussian", generator)
        pairs = ClusterPairs(
            queries,
            keys,
            check_squares(query_squares, queries, "query_squares"),
            check_squares(key_squares, keys, "key_squares"),
        )
        chosen, antithetic = check_choice(form, FORMS, "form"), getattr(law, "antithetic", False)
        self.form = pairs.better_form(antithetic) if chosen == "auto" else chosen
        diagonals = pairs.diagonals(check_positive(max_ratio, "max_ratio"), self.form == "complex")
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
        form: str = "real",
        max_ratio: float = 10.0,
        kernel: str = "softmax",
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> Self:
        """Find centres and mean squares by k-means on queries X (n, d) and keys Y (p, d).

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
        form, max_ratio, kernel, dtype, device
            As in the constructor.
        """
        rng = as_rng(generator)
        found: list[FloatArray] = []
        for rows, count, name in [
            (X, n_query_clusters, "n_query_clusters"),
            (Y, n_key_clusters, "n_key_clusters"),
        ]:
            points = check_centers(rows, "X" if name == "n_query_clusters" else "Y")
            if check_positive_int(count, name) > len(points):
                raise wrong(name, f"at most {len(points)}", count)
            seed = int(rng.integers(2**31 - 1))
            # The best of four starts, because a poor start of k-means joins two clusters.
            means = KMeans(count, n_init=4, random_state=seed).fit(points)
            members = np.eye(count)[means.labels_]
            squares = members.T @ np.square(points) / members.sum(axis=0)[:, None]
            found += [means.cluster_centers_, squares]
        query_centers, query_squares, key_centers, key_squares = found
        return cls(
            query_centers, key_centers, n_frequencies, coupling, rng,
            query_squares=query_squares, key_squares=key_squares, form=form, max_ratio=max_ratio,
            kernel=kernel, dtype=dtype, device=device,
        )  # fmt: skip

    @property
    def n_frequencies(self) -> int:
        """Number of frequencies m."""
        return len(self.frequencies)

    @property
    def n_features(self) -> int:
        """Number of features: m u w of the real form, 2 m u w of the complex one."""
        own = self.n_frequencies * (1 if self.form == "real" else 2)
        return own * len(self.query_centers) * len(self.key_centers)

    @property
    def cost(self) -> int:
        """Multiplications for one query: its distances to the centres, then w estimators."""
        u, w = len(self.query_centers), len(self.key_centers)
        parts = 1 if self.form == "real" else 2
        return self.dim * u + w * parts * (self.dim + 1) * self.n_frequencies

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
        phases = None if self.form == "real" else imag
        active = real_features(*exponents(self.frequencies, real, phases, norm), side)
        own = torch.nn.functional.one_hot(cluster, len(centers)).to(active.dtype)
        blocks = own[:, :, None, None] * active[:, None]
        if not is_query:
            blocks = blocks.transpose(1, 2)
        return blocks.reshape(*inputs.shape[:-1], self.n_features)


@dataclass(frozen=True)
class ClusterPairs:
    """Moments of the coordinates in all pairs of a cluster of queries and one of keys.

    Attributes
    ----------
    queries, keys
        Centres (u, d) and (w, d).
    query_squares, key_squares
        Mean squares (u, d) and (w, d) of the coordinates.
    """

    queries: FloatArray
    keys: FloatArray
    query_squares: FloatArray
    key_squares: FloatArray

    def __post_init__(self) -> None:
        dims = self.queries.shape[1], self.keys.shape[1]
        if dims[0] != dims[1]:
            raise InvalidInputError(
                f"key_centers: expected {dims[0]} columns as in query_centers, got {dims[1]}"
            )

    @classmethod
    def without_spread(cls, queries: FloatArray, keys: FloatArray) -> Self:
        """Pairs of clusters that are their centres (u, d) and (w, d)."""
        return cls(queries, keys, np.square(queries), np.square(keys))

    def diagonals(self, max_ratio: float, complex_form: bool) -> ComplexArray:
        """Diagonals (u, w, d) of A, with `|a_k|^2` between `1 / max_ratio` and `max_ratio`."""
        x, y = self.query_squares[:, None], self.key_squares[None]
        bound = max(max_ratio, 1 / max_ratio)
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = np.sqrt(y / x)
        clipped = np.clip(np.nan_to_num(ratio, nan=1.0, posinf=bound), 1 / bound, bound)
        imaginary = self._imaginary if complex_form else np.zeros(clipped.shape, dtype=bool)
        found: ComplexArray = np.sqrt(clipped) * np.where(imaginary, 1j, 1.0)
        return found

    @property
    def _squares(self) -> tuple[FloatArray, FloatArray]:
        """Means (u, w, d) of the squares in `A x + A^-1 y`, where a_k is real and imaginary."""
        inner = self.queries[:, None] * self.keys[None]
        size = np.sqrt(self.query_squares[:, None] * self.key_squares[None])
        return 2 * np.maximum(size + inner, 0.0), 2 * np.maximum(size - inner, 0.0)

    @property
    def _imaginary(self) -> NDArray[np.bool_]:
        """Imaginary coordinates (u, w, d)."""
        return imaginary_parts(*self._squares)

    def better_form(self, antithetic: bool) -> str:
        """The form of the lower variance at these moments, for equal numbers of features.

        Variances are summed over the pairs of clusters, each with the kernel at its centres.
        Antithetic frequencies leave `4 sinh(U / 2)^2` of the variance `exp(U) - 1` of real forms.
        """
        real, imaginary = self._squares
        chosen = self._imaginary
        size = 2 * self.queries @ self.keys.T
        total = real.sum(-1)
        positive = size + (2 * log_variance(total) - total if antithetic else log_variance(total))
        u, v = (
            np.where(mask, part, 0.0).sum(-1)
            for mask, part in ((~chosen, real), (chosen, imaginary))
        )
        mixed = log_variance(u + log_cosh(v)) + size + np.log(2)
        gains = np.logaddexp.reduce(mixed, None) < np.logaddexp.reduce(positive, None)
        return "complex" if gains else "real"


def imaginary_parts(real: FloatArray, imaginary: FloatArray) -> NDArray[np.bool_]:
    """Coordinates (..., d) that minimise `sum_real U_k + log cosh(sum_imaginary V_k)`.

    A coordinate is worth being imaginary where `U_k > tanh(V) V_k`, with V the sum over the
    others: a threshold on `U_k / V_k`. All d + 1 thresholds are tried, and ties stay real.

    Parameters
    ----------
    real, imaginary
        The terms `U_k >= 0` and `V_k >= 0`, (..., d).
    """
    share = real / np.maximum(real + imaginary, np.finfo(float).tiny)
    order = np.argsort(-share, axis=-1, kind="stable")
    first = np.zeros((*real.shape[:-1], 1))
    u, v = (
        np.concatenate([first, np.take_along_axis(part, order, -1).cumsum(-1)], axis=-1)
        for part in (real, imaginary)
    )
    count = (log_cosh(v) - u).argmin(axis=-1)
    ranks = np.argsort(order, axis=-1, kind="stable")
    chosen: NDArray[np.bool_] = ranks < count[..., None]
    return chosen


def log_cosh(values: FloatArray) -> FloatArray:
    """`log cosh` of an array of any shape, without overflow."""
    result: FloatArray = np.logaddexp(values, -values) - np.log(2)
    return result


def log_variance(exponent: FloatArray) -> FloatArray:
    """`log(exp(t) - 1)` of an array of any shape; -inf at zero."""
    positive = np.maximum(exponent, 0.0)
    with np.errstate(divide="ignore"):
        result: FloatArray = positive + np.log(-np.expm1(-positive))
    return result


def invert_diagonals(factor: Tensor) -> Tensor:
    """Real and imaginary parts (2, ...) of `1 / a`, from the parts (2, ...) of `a`."""
    real, imag = factor
    square = real.square() + imag.square()
    return torch.stack([real / square, -imag / square])


def check_centers(centers: ArrayLike, name: str) -> NDArray[np.float64]:
    """Return a copy of a finite, non-empty table (n, d) in float64."""
    array = np.array(centers, dtype=np.float64, order="C")
    if array.ndim != 2 or array.size == 0 or not np.isfinite(array).all():
        raise InvalidInputError(
            f"{name}: expected a non-empty 2-D array of finite numbers, got shape {array.shape}"
        )
    return array


def check_squares(squares: ArrayLike | None, centers: FloatArray, name: str) -> FloatArray:
    """Return mean squares (n, d) of clusters with the given centres; None means no spread."""
    least = np.square(centers)
    if squares is None:
        return least
    array = check_centers(squares, name)
    if array.shape != centers.shape or (array < least * (1 - 1e-6)).any():
        raise InvalidInputError(
            f"{name}: expected shape {centers.shape}, nowhere below the squares of the centres, "
            f"got shape {array.shape}"
        )
    return np.maximum(array, least)
