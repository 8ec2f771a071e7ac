"""The permutation sigma that couples the lengths of two walkers: an optimal transport problem.

Let `V_q` be the feature of a walker whose length lies in quantile q, averaged over directions:

    V_q = sum_t f_t P(length >= t | q) W~^t / S_t .

Every `V_q` is a function `v_q` of the one matrix `W~`. Therefore all objectives of
"Variance-reducing couplings" (appendix C.3) are exact sums over the eigenvalues of the reference
graph:

* the linear objective takes one pair of quantiles at a time, with the cost of matching a and b
  `|(V_a+V_b)(V_a+V_b)'|_F^2 = sum_lam (v_a + v_b)^4 = |u_(a,b)|^2`;
* the quadratic objective takes all pairs:
  `sum_lam (sum_q (v_q + v_sigma(q))^2)^2 = |sum_q u_(q, sigma(q))|^2` with vectors
  `u_(a,b) = ((v_a + v_b)^2)_lam`. The papers have this form for the diagonal of K only, here it
  covers all entries at once. Their algorithm by random projections (lemma C.2) applies to it.

Weights for sigma: the KL of the posterior that an error of the kernel causes, to second order.

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

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve
from scipy.optimize import linear_sum_assignment

from coupledgp.errors import InvalidInputError
from coupledgp.graphs import Graph
from coupledgp.ground.compiled import compiled
from coupledgp.ground.validation import (
    check_choice,
    check_positive,
    check_positive_int,
    check_vector,
    wrong,
)
from coupledgp.random import FloatArray, IntArray, Seed, as_rng

BRUTE_FORCE_LIMIT = 10  # largest order whose n! permutations are all tried, as in the papers
REFERENCE_NODES = 100  # size of the reference graph, as in the papers
REFERENCE_DEGREE = 10.0  # far above log(100) = 4.6, where such graphs become connected
# Costs closer than this, relative to the largest, are equal. Quantiles that are alike have many
# permutations of one cost; without the tolerance rounding, which differs between processors,
# would choose among them. It is far above rounding errors, and far below what a cost matters.
TIE = 2.0**-20


def erdos_renyi(n_nodes: int, mean_degree: float, generator: Seed = 0) -> Graph:
    """Draw an Erdos-Renyi graph, with an edge of chance mean_degree / (n_nodes-1) for each pair."""
    rng = as_rng(generator)
    rows, columns = np.triu_indices(n_nodes, 1)
    linked = rng.random(rows.size) < mean_degree / (n_nodes - 1)
    return Graph.from_edges(rows[linked], columns[linked], n_nodes=n_nodes)


def quantile_survival(survival: ArrayLike, order: int) -> FloatArray:
    """Chances `P(length >= t | u in bin q)` for equal bins of the uniform u behind a length.

    A walker reaches step t if `u >= 1 - S_t`, so that the chance is the share of the bin above
    `1 - S_t`.

    Parameters
    ----------
    survival
        Survival `S_0, ..., S_T` of the length law, shape (T + 1,).
    order
        Number of bins.

    Returns
    -------
    FloatArray
        Shape (order, T + 1).
    """
    s = np.asarray(survival, dtype=np.float64)
    upper = (np.arange(order)[:, None] + 1.0) / order
    return np.clip((upper - (1.0 - s)) * order, 0.0, 1.0)


def quantile_features(
    modulation: ArrayLike, survival: ArrayLike, order: int, eigenvalues: FloatArray
) -> FloatArray:
    """Features `v_q` of each quantile at the eigenvalues of `W~`.

    Parameters
    ----------
    modulation, survival
        Coefficients (n_terms,) of the series, and survival (T + 1,) of the length law.
    order
        Number of quantiles.
    eigenvalues
        Eigenvalues of `W~`, shape (n_eigenvalues,).

    Returns
    -------
    FloatArray
        Shape (order, n_eigenvalues).
    """
    s = check_vector(survival, "survival")
    f = np.zeros(s.size)
    given = check_vector(modulation, "modulation")[: s.size]
    f[: given.size] = given
    scaled = np.divide(f, s, out=np.zeros(s.size), where=s > 0)
    powers = eigenvalues[None, :] ** np.arange(s.size)[:, None]
    return (quantile_survival(s, order) * scaled) @ powers


def solve_sigma(
    modulation: ArrayLike,
    survival: ArrayLike,
    order: int = 30,
    reference: Graph | None = None,
    objective: str = "linear",
    n_projections: int = 200,
    compression: int | None = None,
    generator: Seed = 0,
    weights: FloatArray | None = None,
) -> IntArray:
    """Solve for the permutation that couples the lengths of a pair of walkers.

    Parameters
    ----------
    modulation
        Coefficients `f_0, f_1, ...` of the series that the walkers carry, shape (n_terms,).
    survival
        Survival `S_0, ..., S_T` of the length law, shape (T + 1,).
    order
        Number n of quantiles.
    reference
        Graph to solve on; an Erdos-Renyi graph of 100 nodes and mean degree 10 if left out.
    objective
        `"linear"` is an assignment problem, solved exactly. `"quadratic"` is solved exactly by a
        search for `order <= 10`, and otherwise by the best of several random projections.
    n_projections
        Number of random projections.
    compression
        Dimension of a Johnson-Lindenstrauss projection of the vectors of the quadratic objective
        (O(log n / eps^2) keeps all norms within 1 +- eps); None for no compression.
    generator
        Seed or generator for the projections.
    weights
        Positive semidefinite matrix Q (N, N) by which errors e of the kernel's eigenvalues are
        measured, as `e' Q e`. None means the identity, that is the squared Frobenius norm.
        `posterior_weights` gives the Q of the posterior's KL on the same reference graph.

    Returns
    -------
    IntArray
        `sigma(q)` for q = 0..n-1, shape (n,).

    Examples
    --------
    >>> import coupledgp as cgp
    >>> from coupledgp.couplings import GeometricLaw, solve_sigma
    >>> ring = cgp.Graph.from_edges(range(8), [1, 2, 3, 4, 5, 6, 7, 0])
    >>> survival = GeometricLaw(p_halt=0.5).survival(2)
    >>> solve_sigma([1.0, 0.5, 0.25], survival, order=2, reference=ring).tolist()
    [1, 0]
    """
    check_positive_int(order, "order")
    check_choice(objective, ("linear", "quadratic"), "objective")
    graph = erdos_renyi(REFERENCE_NODES, REFERENCE_DEGREE) if reference is None else reference
    eigenvalues = np.linalg.eigvalsh(graph.normalized_adjacency.toarray())
    v = quantile_features(modulation, survival, order, eigenvalues)
    vectors = pair_vectors(v)
    if weights is not None:
        vectors = vectors @ _root(weights, eigenvalues.size)
    start = assign((vectors**2).sum(axis=-1))
    if objective == "linear":
        return start
    rng = as_rng(generator)
    if compression is not None:
        vectors = compress(vectors, check_positive_int(compression, "compression"), rng)
    if order <= BRUTE_FORCE_LIMIT:
        return best_permutation(np.ascontiguousarray(vectors), start)
    return project_and_assign(vectors, start, n_projections, rng)


def solve_sigmas(
    modulation: ArrayLike,
    survival: ArrayLike,
    n_walks: int,
    order: int = 30,
    reference: Graph | None = None,
) -> IntArray:
    """Solve for permutations that couple the lengths of m walkers, one walker after another.

    Given the quantiles of the walkers before, the k-th permutation has the least cost
    `sum_q sum_lam (sum_{j < k} v_{sigma_j(q)} + v_{sigma_k(q)})^4` of all, an assignment problem.
    The first is the identity and the second that of `solve_sigma`. "Variance-reducing couplings"
    proposes to combine m - 1 permutations, and does not measure it.

    Parameters
    ----------
    modulation, survival, order, reference
        As in `solve_sigma`.
    n_walks
        Number of walkers m.

    Returns
    -------
    IntArray
        Quantiles `sigma_k(q)` of the k-th walker for q = 0..n-1, shape (m, n).

    Examples
    --------
    >>> import coupledgp as cgp
    >>> from coupledgp.couplings import GeometricLaw, solve_sigmas
    >>> ring = cgp.Graph.from_edges(range(8), [1, 2, 3, 4, 5, 6, 7, 0])
    >>> survival = GeometricLaw(p_halt=0.5).survival(2)
    >>> found = solve_sigmas([1.0, 0.5, 0.25], survival, n_walks=4, order=2, reference=ring)
    >>> found[:2].tolist()  # the first two walkers lie in opposite halves
    [[0, 1], [1, 0]]
    >>> found.sum(axis=0).tolist()  # as many of the four are short as are long
    [2, 2]
    """
    check_positive_int(order, "order")
    check_positive_int(n_walks, "n_walks")
    graph = erdos_renyi(REFERENCE_NODES, REFERENCE_DEGREE) if reference is None else reference
    eigenvalues = np.linalg.eigvalsh(graph.normalized_adjacency.toarray())
    v = quantile_features(modulation, survival, order, eigenvalues)
    found, sums = [np.arange(order)], v.copy()
    while len(found) < n_walks:
        found.append(assign(((sums[:, None, :] + v[None, :, :]) ** 4).sum(axis=-1)))
        sums += v[found[-1]]
    return np.array(found, dtype=np.int64)


def _root(weights: FloatArray, size: int) -> FloatArray:
    """The symmetric matrix R (N, N) with `R R' = Q`."""
    if np.shape(weights) != (size, size):
        raise InvalidInputError(
            f"weights: expected shape ({size}, {size}), as many as the reference graph has nodes, "
            f"got {np.shape(weights)}"
        )
    values, vectors = np.linalg.eigh(weights)
    if values[0] < -1e-8 * max(values[-1], 0.0) or values[-1] <= 0:
        raise InvalidInputError("weights: expected a positive semidefinite matrix, not zero")
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0.0)) @ vectors.T)


def pair_vectors(v: FloatArray) -> FloatArray:
    """Vectors `u_(a,b) = (v_a + v_b)^2` (n, n, n_eigenvalues) for features v (n, n_eigenvalues)."""
    return (v[:, None, :] + v[None, :, :]) ** 2


def quadratic_objective(vectors: FloatArray, sigma: IntArray) -> float:
    """Objective `|sum_q u_(q, sigma(q))|^2` of vectors u (n, n, dim) and a permutation (n,)."""
    total = vectors[np.arange(sigma.size), sigma].sum(axis=0)
    return float(total @ total)


def assign(cost: FloatArray) -> IntArray:
    """Find the permutation (n,) with the least total cost, given the cost (n, n) of each match.

    Costs are whole multiples of `TIE` times the largest, whose sums have no rounding errors.
    """
    largest = float(np.abs(cost).max())
    whole = np.rint(cost / (TIE * largest)) if largest > 0 else np.zeros_like(cost)
    _, sigma = linear_sum_assignment(whole)
    return np.asarray(sigma, dtype=np.int64)


def compress(vectors: FloatArray, dim: int, rng: np.random.Generator) -> FloatArray:
    """Project vectors (n, n, p) to (n, n, dim) at random (Johnson and Lindenstrauss)."""
    projection = rng.standard_normal((vectors.shape[-1], dim)) / np.sqrt(dim)
    return vectors @ projection


def project_and_assign(
    vectors: FloatArray, start: IntArray, n_projections: int, rng: np.random.Generator
) -> IntArray:
    """Keep the best of the assignments on random projections of the vectors (lemma C.2).

    Parameters
    ----------
    vectors
        Vectors u, shape (n, n, dim).
    start
        Permutation (n,) to improve on.
    n_projections
        Number of random projections.
    rng
        Generator for the projections.

    Returns
    -------
    IntArray
        The best permutation, shape (n,).
    """
    best, least = start, quadratic_objective(vectors, start)
    for _ in range(check_positive_int(n_projections, "n_projections")):
        sigma = assign(vectors @ rng.standard_normal(vectors.shape[-1]))
        value = quadratic_objective(vectors, sigma)
        if value < least * (1.0 - TIE):
            best, least = sigma, value
    return best


def best_permutation(vectors: FloatArray, start: IntArray) -> IntArray:
    """Find the permutation (n,) of the least quadratic objective by depth-first search.

    Parameters
    ----------
    vectors
        Vectors u, shape (n, n, dim).
    start
        Permutation (n,) that is kept if none is better.
    """
    return _search(vectors, start, quadratic_objective(vectors, start))


@compiled
def _search(vectors, start, least):  # type: ignore[no-untyped-def]
    """Try all permutations of vectors (n, n, dim); `least` is the objective at the start (n,)."""
    order, _, dim = vectors.shape
    best = start.copy()
    sums = np.zeros((order + 1, dim))
    sigma = np.full(order, -1, np.int64)
    taken = np.zeros(order, np.bool_)
    depth = 0
    while depth >= 0:
        if sigma[depth] >= 0:
            taken[sigma[depth]] = False
        candidate = sigma[depth] + 1
        while candidate < order and taken[candidate]:
            candidate += 1
        if candidate == order:
            sigma[depth] = -1
            depth -= 1
            continue
        sigma[depth] = candidate
        taken[candidate] = True
        value = 0.0
        for k in range(dim):
            sums[depth + 1, k] = sums[depth, k] + vectors[depth, candidate, k]
            value += sums[depth + 1, k] ** 2
        if depth + 1 < order:
            depth += 1
        elif value < least * (1.0 - TIE):
            least = value
            best[:] = sigma
    return best


def check_permutation(permutation: ArrayLike) -> IntArray:
    """Return a permutation (n,) of 0..n-1 after a check that it is one."""
    values = np.asarray(permutation)
    if values.ndim != 1 or not np.array_equal(np.sort(values), np.arange(values.size)):
        raise wrong("permutation", "each of 0..n-1 once", np.asarray(permutation).tolist())
    return values.astype(np.int64)


def solved_permutations(
    modulation: FloatArray, survival: FloatArray, n_walks: int, order: int, reference: Graph | None
) -> IntArray:
    """Solve for permutations (m, n) as `solve_sigmas` does, and remember the solutions."""
    # Those of fewer walkers are the first of these.
    rounded = 1 << (n_walks - 1).bit_length()
    f, s = np.ascontiguousarray(modulation), np.ascontiguousarray(survival)
    return _all_solved(f.tobytes(), s.tobytes(), rounded, order, reference)[:n_walks]


def solved_permutation(
    modulation: FloatArray, survival: FloatArray, order: int, reference: Graph | None
) -> IntArray:
    """Solve for sigma (n,) as `solve_sigma` does, and remember the solutions of this process.

    Parameters
    ----------
    modulation, survival
        Coefficients (n_terms,) of the series, and survival (T + 1,) of the length law.
    order
        Number n of quantiles.
    reference
        Graph to solve on, or None for the usual one.
    """
    f, s = np.ascontiguousarray(modulation), np.ascontiguousarray(survival)
    return _solved(f.tobytes(), s.tobytes(), order, reference)


@lru_cache(maxsize=128)
def _solved(modulation: bytes, survival: bytes, order: int, reference: Graph | None) -> IntArray:
    return solve_sigma(np.frombuffer(modulation), np.frombuffer(survival), order, reference)


@lru_cache(maxsize=128)
def _all_solved(
    modulation: bytes, survival: bytes, n_walks: int, order: int, reference: Graph | None
) -> IntArray:
    f, s = np.frombuffer(modulation), np.frombuffer(survival)
    return solve_sigmas(f, s, n_walks, order, reference)


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
