"""KL of a random-feature posterior to second order: a quadratic form of the error of the kernel.

n rows, p queries, exact kernel K of all N = n + p points with noise s: with `C = K_nn + s R` (R the
relative noise of the rows), `M = [-K_pn C^-1, I]` and `S = K_pp - K_pn C^-1 K_np + s I`, a kernel
`K + E` has, averaged over targets `y ~ N(0, C)` and to second order in E,

    KL(exact || approximate) = KL(approximate || exact) = Q(E)
        = 1/4 |S^-1/2 M E M' S^-1/2|_F^2 + 1/2 tr(S^-1/2 M E_:n C^-1 E_n: M' S^-1/2) .

Both directions agree since the parts of second order of mean and covariance enter at the third. A
kernel of features is a sum `sum_i a_i z_i z_i'` over frequencies, z (N, c) features of one. With
`U = S^-1/2 M z` (p, c) and `T = C^-1/2 z_n` (n, c) the bilinear form of two frequencies is

    B(w, w') = 1/4 |G|_F^2 + 1/2 <G, H>_F ,    G = U(w)' U(w') ,    H = T(w)' T(w') ,

whence `Q = a' B a - 2 a' b + Q(K)`, `b_i = B(w_i, K)`. The prior KL of the queries and the expected
excess of the squared error of the mean are forms of the same kind.

Several predictive laws as one: a mixture whose weights held-out rows decide.

With densities `p_k(y | x)`, means `mu_k` and variances `v_k`, the law is `sum_k q_k p_k`. Its point
prediction is the precision-weighted mean

    c = sum_k q_k mu_k / v_k / sum_k q_k / v_k,

in which a member has little say where its own variance is large. The spread about it is
`sum_k q_k [ V_k + (mu_k - c)(mu_k - c)' ]`, the second moment of the mixture about `c`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import linalg
from scipy.special import logsumexp

from coupledgp.core.problem import Hyperparameters, RowWeights
from coupledgp.features.base import FeatureMap
from coupledgp.features.fourier import FourierFeatures
from coupledgp.ground.tensors import torch
from coupledgp.ground.validation import check_choice
from coupledgp.linalg.distances import scaled_distances
from coupledgp.linalg.matrices import cholesky
from coupledgp.random import FloatArray, IntArray
from coupledgp.spectra import Spectrum

# Entries of the products of all pairs of frequencies that are formed at once.
PAIR_ENTRIES = 2**22


@dataclass(frozen=True)
class Atoms:
    """Features of m frequencies at rows and queries, in the metrics of the posterior.

    Attributes
    ----------
    queries : FloatArray (c, m, p)
        `U' = (S^-1/2 M z)'`.
    rows : FloatArray (c, m, n)
        `T' = (C^-1/2 z_n)'`.
    """

    queries: FloatArray
    rows: FloatArray

    def __len__(self) -> int:
        return self.queries.shape[1]

    def take(self, places: IntArray | slice) -> Atoms:
        """The features of some of the frequencies."""
        return Atoms(self.queries[:, places], self.rows[:, places])


# Factors of |G|^2 and of <G, H> in a form.
FACTORS = {"kl": (0.25, 0.5), "prior": (0.25, 0.0), "squared error": (0.0, 1.0)}


class PosteriorForm:
    """The quadratic form Q of one data set, over all queries jointly; O((n + p)^3) once.

    Parameters
    ----------
    rows, queries
        Inputs (n, d) and (p, d).
    spectrum
        The kernel.
    hyper
        Its hyperparameters.
    weights
        Relative noise and counts of the rows; None for rows that are all alike.
    features
        Class of the feature maps.
    measure
        `"kl"`: KL of the posteriors, nats. `"prior"`: KL of the priors of observations at the
        queries, nats: M is [0, I], and `K_pp + s I` stands for S. `"squared error"`: expected
        excess of the squared error of the mean, `tr(M E_:n C^-1 E_n: M')`, in units of y squared.
    """

    def __init__(
        self,
        rows: FloatArray,
        queries: FloatArray,
        spectrum: Spectrum,
        hyper: Hyperparameters,
        weights: RowWeights | None = None,
        features: type[FeatureMap] = FourierFeatures,
        measure: str = "kl",
    ) -> None:
        self.factors = FACTORS[check_choice(measure, FACTORS, "measure")]
        self.spectrum, self.hyper, self.features = spectrum, hyper, features
        self._rows, self._queries = rows / hyper.lengthscale, queries / hyper.lengthscale
        root = np.ones(len(rows)) if weights is None else weights.root
        noise = hyper.noise / np.square(root)
        self._noise, self._has_rows = noise, measure != "prior"
        self._factor = _factor(self._kernel(self._rows, self._rows), noise, "K + noise I")
        cross = self._kernel(self._rows, self._queries)
        if not self._has_rows:
            cross = np.zeros_like(cross)
        self._whitened = linalg.solve_triangular(self._factor, cross, lower=True)  # D, (n, p)
        latent = self._kernel(self._queries, self._queries) - self._whitened.T @ self._whitened
        self._root = np.eye(len(queries))
        if measure != "squared error":
            noise_of_queries = np.full(len(queries), hyper.noise)
            self._root = _factor(latent, noise_of_queries, "predictive covariance")
        # The kernel itself as an error: M K M' and C^-1/2 K_n: M', both between whitened queries.
        solved = linalg.solve_triangular(self._factor, self._whitened, lower=True, trans="T")
        of_rows = linalg.solve_triangular(self._factor, noise[:, None] * solved, lower=True)
        self._mean_part = self._by_root(of_rows.T).T  # J, (n, p)
        inner = latent - solved.T @ (noise[:, None] * solved)
        self._cov_part = self._by_root(self._by_root(inner).T)

    @property
    def n_rows(self) -> int:
        """Number of rows n."""
        return len(self._rows)

    @property
    def n_queries(self) -> int:
        """Number of queries p."""
        return len(self._queries)

    def _kernel(self, a: FloatArray, b: FloatArray) -> FloatArray:
        return self.hyper.outputscale * self.spectrum.kernel(
            scaled_distances(a, b, self.spectrum.metric)
        )

    def _by_root(self, values: FloatArray) -> FloatArray:
        """`S^-1/2 values` for values (p, q)."""
        return np.asarray(linalg.solve_triangular(self._root, values, lower=True))

    def _features(self, frequencies: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Features of rows and queries, of frequencies of equal weight."""
        made = self.features.from_frequencies(torch.as_tensor(frequencies), "iid", self.spectrum)
        scale = np.sqrt(self.hyper.outputscale)
        return scale * made(self._rows).numpy(), scale * made(self._queries).numpy()

    def beyond(self, frequencies: FloatArray) -> FloatArray:
        """What Q leaves out for frequencies (m, d) of equal weight: the error itself less Q.

        Of a KL both directions (2,), nats over all queries jointly; of the squared error (1,).
        """
        m, (rows, queries) = len(frequencies), self._features(frequencies)
        rows = rows if self._has_rows else np.zeros_like(rows)
        factor = _factor(rows @ rows.T, self._noise, "approximate K + noise I")
        cross = linalg.solve_triangular(factor, rows @ queries.T, lower=True)
        mean = linalg.solve_triangular(factor, cross, lower=True, trans="T").T
        gap = self._by_root(mean @ self._factor - self._whitened.T)
        atoms = self.atoms(frequencies)
        seen, known = (x.reshape(-1, x.shape[-1]) / np.sqrt(m) for x in (atoms.queries, atoms.rows))
        errors = seen.T @ seen - self._cov_part, known.T @ seen - self._mean_part
        second = sum(f * np.square(E).sum() for f, E in zip(self.factors, errors, strict=True))
        if self.factors[0] == 0.0:  # the squared error, which has no KL
            return np.array([np.square(gap).sum() - second])
        latent = queries @ queries.T - cross.T @ cross
        root = _factor(latent, np.full(len(latent), self.hyper.noise), "approximate covariance")
        own = self._by_root(root)  # root of the approximate covariance in units of the exact one
        other = linalg.solve_triangular(own, np.column_stack([np.eye(len(own)), gap]), lower=True)
        logdet, p = 2 * np.log(np.diag(own)).sum(), len(own)
        found = np.array([
            np.square(other).sum() - p + logdet,
            np.square(own).sum() + np.square(gap).sum() - p - logdet,
        ])  # fmt: skip
        return 0.5 * found - second

    def atoms(self, frequencies: FloatArray) -> Atoms:
        """Features of frequencies (m, d), in units of one over the lengthscale, of weight one."""
        m = len(frequencies)
        rows, queries = (np.sqrt(m) * part for part in self._features(frequencies))
        whitened = linalg.solve_triangular(self._factor, rows, lower=True)
        seen = self._by_root(queries - self._whitened.T @ whitened)
        return Atoms(*(part.T.reshape(-1, m, part.shape[0]) for part in (seen, whitened)))

    def gram(self, one: Atoms, other: Atoms) -> FloatArray:
        """`B(w_i, w_j)` (m, m')."""
        found = np.zeros((len(one), len(other)))
        for a in range(len(one.queries)):
            for b in range(len(other.queries)):
                G = one.queries[a] @ other.queries[b].T
                H = one.rows[a] @ other.rows[b].T
                found += G * (self.factors[0] * G + self.factors[1] * H)
        return found

    def diagonal(self, atoms: Atoms) -> FloatArray:
        """`Q(A_w) = B(w_i, w_i)` (m,)."""
        G = np.einsum("amp,bmp->abm", atoms.queries, atoms.queries)
        H = np.einsum("amn,bmn->abm", atoms.rows, atoms.rows)
        parts = G * (self.factors[0] * G + self.factors[1] * H)
        return np.asarray(parts.sum(axis=(0, 1)))

    def beside_kernel(self, atoms: Atoms) -> FloatArray:
        """`b_i = B(w_i, K)` (m,)."""
        by_cov, by_mean = atoms.queries @ self._cov_part, atoms.rows @ self._mean_part
        mixed = atoms.queries * (self.factors[0] * by_cov + self.factors[1] * by_mean)
        return np.asarray(mixed.sum(axis=(0, 2)))

    @property
    def of_kernel(self) -> float:
        """`Q(K)`, that of a kernel without any features."""
        squares = np.square(self._cov_part).sum(), np.square(self._mean_part).sum()
        return float(self.factors[0] * squares[0] + self.factors[1] * squares[1])

    def value(self, atoms: Atoms, weights: FloatArray) -> float:
        """`Q(sum_i a_i A_i - K)`, nats over all queries jointly, for weights a (m,)."""
        m = len(atoms)
        step = max(1, PAIR_ENTRIES // m)
        total = 0.0
        for k in range(0, m, step):
            block = slice(k, k + step)
            total += float(weights[block] @ (self.gram(atoms.take(block), atoms) @ weights))
        return total - 2 * float(weights @ self.beside_kernel(atoms)) + self.of_kernel


def _factor(matrix: FloatArray, noise: FloatArray, name: str) -> FloatArray:
    """Lower Cholesky factor of a matrix with noise on its diagonal."""
    noisy = matrix + np.diag(noise)
    return np.asarray(cholesky(noisy, f"{name} of the pilot"))


# The weights are an average over held-out rows: more digits than this mean nothing.
TOLERANCE = 1e-6
# Steps of EM after which the weights are taken as they are. Steps are cheap and never make the
# likelihood smaller.
MAX_ITERATIONS = 2000


def mixture_weights(
    log_densities: FloatArray,
    pseudo_counts: ArrayLike = 1.0,
    row_counts: FloatArray | None = None,
) -> FloatArray:
    """Weights (K,) of a mixture that maximise the likelihood of held-out rows, by EM.

    Maximises `sum_b n_b log sum_k q_k p_k(b) + sum_k c_k log q_k`: the pseudo-counts c keep each
    weight positive and, with few rows, near their shares.

    Parameters
    ----------
    log_densities
        Log density (K, b) of each row under each member.
    pseudo_counts
        Number of rows that each member is credited with beforehand, one number or (K,), above zero.
    row_counts
        How often each row counts, n (b,); None for once.
    """
    n_members, n_rows = log_densities.shape
    rows = np.ones(n_rows) if row_counts is None else row_counts
    counts = np.broadcast_to(np.asarray(pseudo_counts, dtype=np.float64), (n_members,))
    weights = counts / counts.sum()
    for _ in range(MAX_ITERATIONS):
        joint = log_densities + np.log(weights)[:, None]
        shares = (rows * np.exp(joint - logsumexp(joint, axis=0))).sum(axis=1) + counts
        updated = shares / (rows.sum() + counts.sum())
        converged = np.abs(updated - weights).max() < TOLERANCE
        weights = updated
        if converged:
            break
    return weights


def mixture_log_density(log_densities: FloatArray, weights: FloatArray) -> FloatArray:
    """`log sum_k q_k p_k`, (b,), from log densities (K, b) and weights (K,)."""
    return np.asarray(logsumexp(log_densities + np.log(weights)[:, None], axis=0))


def precision_weighted_mean(
    means: FloatArray, variances: FloatArray, weights: FloatArray
) -> FloatArray:
    """Point prediction (...) from the members' means and variances (K, ...) and weights (K,)."""
    precision = weights.reshape(-1, *[1] * (means.ndim - 1)) / variances
    return np.asarray((precision * means).sum(axis=0) / precision.sum(axis=0))
