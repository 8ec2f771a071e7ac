"""Hybrid features of clusters with Gaussian weights (MATH 5)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.couplings import CouplingLike
from coupledgp.features.hybrid.clustered import ClusterPairs, check_centers
from coupledgp.features.hybrid.coefficients import GaussianCoefficient
from coupledgp.features.hybrid.complex_exponential import ComplexExponentialFeatures
from coupledgp.features.hybrid.hybrid import HybridFeatures
from coupledgp.ground.tensors import torch
from coupledgp.ground.validation import check_positive
from coupledgp.random import Seed, as_rng


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
