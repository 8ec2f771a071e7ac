"""Weights for sigma: the KL of the posterior that an error of the kernel causes, to second order.

The objectives in `sigma` sum squared errors of the kernel's entries. A Gaussian process is affected
by these errors through its posterior. Let the kernel at all nodes be `K + E`, let some of the nodes
(x) be observed with noise s and the others (*) be predicted. With

    M = [I at *] - K_*x (K_xx + s I)^-1 [I at x] ,    S = K_** + s I - K_*x (K_xx + s I)^-1 K_x*

and `P = [I at x]`, the predictive covariance moves by `M E M'` and the mean by
`M E P' (K_xx + s I)^-1 y`, so that, on average over data y of the model itself,

    KL = 1/4 |S^-1/2 M E M' S^-1/2|_F^2 + 1/2 |S^-1/2 M E P' (K_xx + s I)^-1/2|_F^2 + O(E^3) .

Errors of direction-averaged walkers are functions of `W~`, that is `E = U diag(e) U'`, for which
the KL is a quadratic form `e' Q e` in the errors of the eigenvalues; Q replaces the identity of
the Frobenius norm.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve

from coupledgp.errors import InvalidInputError
from coupledgp.graphs import Graph
from coupledgp.ground.validation import check_positive, check_vector
from coupledgp.random import FloatArray, IntArray, Seed, as_rng


def posterior_weights(
    modulation: ArrayLike,
    reference: Graph,
    noise: float = 0.1,
    observed: float = 0.5,
    n_splits: int = 8,
    generator: Seed = 0,
) -> FloatArray:
    """Weights Q of the posterior KL on a reference graph, for `solve_sigma(..., weights=Q)`.

    Parameters
    ----------
    modulation
        Coefficients `f_0, f_1, ...` of the whole kernel, shape (n_terms,). The kernel is scaled so
        that its mean diagonal is one.
    reference
        Graph of N nodes; the computation takes O(N^3).
    noise
        Noise variance s, relative to the mean of the kernel's diagonal.
    observed
        Share of the nodes that is observed.
    n_splits
        Number of random choices of the observed nodes over which Q is averaged.
    generator
        Seed or generator for the choices.

    Returns
    -------
    FloatArray
        Symmetric positive semidefinite Q, shape (N, N), in the order of ascending eigenvalues of
        `W~`. For errors `e` (N,) of the kernel's eigenvalues, relative to the kernel's mean
        diagonal, `e' Q e` is the KL in nats per predicted node.

    Raises
    ------
    InvalidInputError
        `observed` leaves no node observed or none to predict, or `noise` is not positive.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from coupledgp.couplings import GeometricLaw, posterior_weights, solve_sigma
    >>> ring = cgp.Graph.from_edges(range(8), [1, 2, 3, 4, 5, 6, 7, 0])
    >>> f = [1.0, 0.5, 0.25]
    >>> weights = posterior_weights(f, ring, noise=0.1)
    >>> error = np.full(8, 0.01)  # of the kernel's eigenvalues
    >>> bool(0 < error @ weights @ error < 1e-3)  # KL per predicted node
    True
    >>> solve_sigma(f, GeometricLaw(0.5).survival(2), 2, ring, weights=weights).tolist()
    [1, 0]
    """
    f = check_vector(modulation, "modulation")
    check_positive(noise, "noise")
    n = reference.n_nodes
    n_observed = round(observed * n)
    if not 0 < n_observed < n:
        raise InvalidInputError(
            f"observed: expected a share that leaves nodes on both sides of {n}, got {observed}"
        )
    values, vectors = np.linalg.eigh(reference.normalized_adjacency.toarray())
    spectrum = np.polynomial.polynomial.polyval(values, f) ** 2
    kernel = (vectors * (spectrum / spectrum.mean())) @ vectors.T
    rng = as_rng(generator)
    total = np.zeros((n, n))
    for _ in range(n_splits):
        order = rng.permutation(n)
        total += _split_weights(kernel, vectors, noise, order[:n_observed], order[n_observed:])
    return total / n_splits


def _split_weights(
    kernel: FloatArray, vectors: FloatArray, noise: float, seen: IntArray, asked: IntArray
) -> FloatArray:
    """Q (N, N) for one choice of observed nodes.

    Parameters
    ----------
    kernel
        Kernel matrix, shape (N, N).
    vectors
        Eigenvectors of `W~` in the columns of (N, N).
    noise
        Variance of the noise.
    seen, asked
        Numbers of the observed nodes (n,) and of the predicted ones (N - n,).
    """
    gram = cho_factor(kernel[np.ix_(seen, seen)] + noise * np.eye(seen.size))
    gain = cho_solve(gram, kernel[np.ix_(seen, asked)]).T
    covariance = kernel[np.ix_(asked, asked)] - gain @ kernel[np.ix_(seen, asked)]
    covariance[np.diag_indices_from(covariance)] += noise
    moved = vectors[asked] - gain @ vectors[seen]
    spread = moved.T @ cho_solve(cho_factor(covariance), moved)
    data = vectors[seen].T @ cho_solve(gram, vectors[seen])
    return spread * (spread / 4 + data / 2) / asked.size
