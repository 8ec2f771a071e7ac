"""Several outputs with entries missing, in the space of the weights of shared features.

With features `phi_r(x) (M_r,)` of kernels r and weights `W_r (M_r, Q)` of Q outputs,

    f_q(x) = sum_r phi_r(x)'W_rq ,   rows of W_r ~ N(0, B_r) ,
    y_nq = f_q(x_n) + e_nq ,   e_nq ~ N(0, s_q) ,

so that `cov(f_q(x), f_t(x')) = sum_r B_r,qt k_r(x, x')` (linear model of coregionalisation,
Goovaerts 1997). A row may lack any of its outputs. With G_q, c_q the products of features, and of
features with y, over the rows that have the output q, the weights have the precision

    A = blockdiag_q(G_q / s_q) + sum_r B_r^-1 (x) I    and the mean   A^-1 (c_q / s_q)_q ,

exactly. B_r and s_q have the greatest evidence. With the posterior means `S_r = E[W_r'W_r] / M_r`
and `E_q = E[|y_q - f_q|^2]` its slopes are (Fisher's identity)

    dB_r: M_r / 2 (B_r^-1 S_r B_r^-1 - B_r^-1) ,   dlog s_q: (E_q / s_q - n_q) / 2 .
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cho_solve, lapack, solve_triangular
from scipy.optimize import minimize

from coupledgp.errors import NumericalError
from coupledgp.random import FloatArray

# Variance that a B keeps on its diagonal, so that it has an inverse, and least and most noise, for
# outputs of variance one.
JITTER, NOISE_BOUNDS = 1e-6, (1e-8, 1e2)
# Relative change of the log evidence that ends the search.
TOLERANCE = 1e-7


@dataclass(frozen=True, eq=False)
class OutputSums:
    """Sums over the rows that have an output, for each output.

    Attributes
    ----------
    grams : FloatArray (Q, M, M)
        G, M the number of all features.
    crosses : FloatArray (Q, M)
        c.
    squares : FloatArray (Q,)
        Sums of y^2.
    counts : FloatArray (Q,)
        Numbers of rows n_q.
    """

    grams: FloatArray
    crosses: FloatArray
    squares: FloatArray
    counts: FloatArray

    @classmethod
    def of(cls, features: FloatArray, targets: FloatArray) -> OutputSums:
        """Sums of features (n, M) and targets (n, Q), NaN where an output is missing."""
        grams, crosses, squares, counts = [], [], [], []
        for column in targets.T:
            there = ~np.isnan(column)
            rows, y = features[there], column[there]
            grams.append(rows.T @ rows)
            crosses.append(rows.T @ y)
            squares.append(float(y @ y))
            counts.append(float(there.sum()))
        return cls(np.array(grams), np.array(crosses), np.array(squares), np.array(counts))

    def with_more(self, other: OutputSums) -> OutputSums:
        """Sums over the rows of both."""
        return OutputSums(
            self.grams + other.grams, self.crosses + other.crosses, self.squares + other.squares,
            self.counts + other.counts,
        )  # fmt: skip


@dataclass(frozen=True, eq=False)
class Coregionalisation:
    """Covariances of the outputs under each kernel, and their noise.

    Attributes
    ----------
    covariances : FloatArray (R, Q, Q)
        B of each kernel.
    noise : FloatArray (Q,)
        s.
    sizes : tuple of int
        Numbers M_r of the features of the kernels.
    """

    covariances: FloatArray
    noise: FloatArray
    sizes: tuple[int, ...]

    @property
    def n_outputs(self) -> int:
        """Number Q of outputs."""
        return self.noise.size

    @property
    def parts(self) -> list[slice]:
        """Places of the features of each kernel."""
        ends = np.cumsum([0, *self.sizes]).tolist()
        return [slice(a, b) for a, b in itertools.pairwise(ends)]


@dataclass(frozen=True, eq=False)
class OutputWeights:
    """Posterior of the weights of all outputs, one output after the other.

    Attributes
    ----------
    law : Coregionalisation
    sums : OutputSums
        What was observed.
    factor : FloatArray (Q M, Q M)
        Lower Cholesky factor of the precision A.
    mean : FloatArray (Q, M)
        Means.
    """

    law: Coregionalisation
    sums: OutputSums
    factor: FloatArray
    mean: FloatArray

    @classmethod
    def given(cls, law: Coregionalisation, sums: OutputSums) -> OutputWeights:
        """Condition on sums.

        Raises
        ------
        NumericalError
            The precision is not positive definite to working precision.
        """
        Q, M = law.n_outputs, sums.crosses.shape[1]
        A = np.zeros((Q, M, Q, M))
        for q in range(Q):
            A[q, :, q, :] = sums.grams[q] / law.noise[q]
        for B, part in zip(law.covariances, law.parts, strict=True):
            inverse = np.linalg.inv(B)
            places = np.arange(part.start, part.stop)
            A[:, places, :, places] += inverse
        flat = A.reshape(Q * M, Q * M)
        factor, info = lapack.dpotrf(flat, lower=1, clean=1, overwrite_a=1)
        if info != 0 or not np.isfinite(factor.diagonal()).all():
            raise NumericalError(
                "outputs: the precision of the weights is not positive definite: use fewer "
                "frequencies or noisier outputs"
            )
        right = (sums.crosses / law.noise[:, None]).ravel()
        mean = cho_solve((factor, True), right, check_finite=False)
        return cls(law, sums, factor, mean.reshape(Q, M))

    @cached_property
    def log_evidence(self) -> float:
        """Log evidence of all observed entries, nats."""
        law, sums = self.law, self.sums
        logs = 2.0 * float(np.log(self.factor.diagonal()).sum())
        for B, size in zip(law.covariances, law.sizes, strict=True):
            logs += size * float(np.linalg.slogdet(B)[1])
        logs += float(sums.counts @ np.log(2.0 * np.pi * law.noise))
        quad = float((sums.squares / law.noise).sum())
        quad -= float((self.mean * sums.crosses / law.noise[:, None]).sum())
        return -0.5 * (logs + quad)

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """S (R, Q, Q), and E (Q,)."""
        law, sums = self.law, self.sums
        Q, M = self.mean.shape
        root = solve_triangular(self.factor, np.eye(Q * M), lower=True, check_finite=False)
        C = (root.T @ root).reshape(Q, M, Q, M)
        products = []
        for part, size in zip(law.parts, law.sizes, strict=True):
            own = self.mean[:, part]
            S = own @ own.T + np.einsum("qmtm->qt", C[:, part, :, part])
            products.append((S + S.T) / (2.0 * size))
        squares = np.empty(Q)
        for q in range(Q):
            m, G = self.mean[q], sums.grams[q]
            squares[q] = sums.squares[q] - 2.0 * float(m @ sums.crosses[q]) + float(m @ G @ m)
            squares[q] += float((G * C[q, :, q, :]).sum())
        return np.array(products), squares

    def means(self, features: FloatArray) -> FloatArray:
        """Means (p, Q) of f at features (p, M)."""
        return np.asarray(features @ self.mean.T)

    def covariances(self, features: FloatArray) -> FloatArray:
        """Covariances (p, Q, Q) of the outputs of f at each of features (p, M)."""
        Q, M = self.mean.shape
        out = np.empty((len(features), Q, Q))
        block = max(1, 2**22 // (Q * Q * M))
        for start in range(0, len(features), block):
            rows = features[start : start + block]
            wide = np.einsum("qt,pm->qmpt", np.eye(Q), rows).reshape(Q * M, -1)
            solved = solve_triangular(self.factor, wide, lower=True, check_finite=False)
            halves = solved.reshape(Q * M, len(rows), Q)
            out[start : start + block] = np.einsum("kpq,kpt->pqt", halves, halves)
        return out

    def drawn(self, n_samples: int, rng: np.random.Generator) -> FloatArray:
        """Draws (Q, M, n_samples) of the weights."""
        Q, M = self.mean.shape
        normals = rng.standard_normal((Q * M, n_samples))
        drawn = solve_triangular(self.factor, normals, lower=True, trans="T", check_finite=False)
        return np.asarray(self.mean[..., None] + drawn.reshape(Q, M, n_samples))


def evidence_loss(
    theta: FloatArray, sums: OutputSums, sizes: tuple[int, ...]
) -> tuple[float, FloatArray]:
    """Minus the log evidence at free parameters, and its slopes.

    `theta` holds the rows of a lower triangle L of each `B = L L' + JITTER I`, then log s.
    """
    law = law_at(theta, sizes, sums.counts.size)
    found = OutputWeights.given(law, sums)
    products, squares = found.moments()
    rows = np.tril_indices(law.n_outputs)
    slopes = []
    for k, (B, S, size) in enumerate(zip(law.covariances, products, sizes, strict=True)):
        inverse = np.linalg.inv(B)
        slope = size / 2.0 * (inverse @ S @ inverse - inverse)
        slopes.append(2.0 * (slope @ _triangle(theta, k, law.n_outputs))[rows])
    slopes.append(0.5 * (squares / law.noise - sums.counts))
    return -found.log_evidence, -np.concatenate(slopes)


def law_at(theta: FloatArray, sizes: tuple[int, ...], n_outputs: int) -> Coregionalisation:
    """The law of free parameters, see `evidence_loss`."""
    triangles = [_triangle(theta, k, n_outputs) for k in range(len(sizes))]
    covariances = np.stack([L @ L.T + JITTER * np.eye(n_outputs) for L in triangles])
    return Coregionalisation(covariances, np.exp(theta[-n_outputs:]), sizes)


def theta_of(law: Coregionalisation) -> FloatArray:
    """Free parameters of a law, but for `JITTER`."""
    rows = np.tril_indices(law.n_outputs)
    parts = [np.linalg.cholesky(B)[rows] for B in law.covariances]
    return np.concatenate([*parts, np.log(law.noise)])


def _triangle(theta: FloatArray, k: int, n_outputs: int) -> FloatArray:
    """L (Q, Q) of the kernel k."""
    count = n_outputs * (n_outputs + 1) // 2
    L = np.zeros((n_outputs, n_outputs))
    L[np.tril_indices(n_outputs)] = theta[k * count : (k + 1) * count]
    return L


def fitted_outputs(
    start: Coregionalisation,
    sums: OutputSums,
    max_iterations: int,
    report: Callable[[str], None] = lambda _: None,
) -> tuple[OutputWeights, int, bool]:
    """The posterior under the law of greatest evidence, its steps, and whether these converged."""
    first = theta_of(start)
    free = first.size - start.n_outputs
    low, high = np.log(NOISE_BOUNDS)
    found = minimize(
        evidence_loss, first, (sums, start.sizes), jac=True, method="L-BFGS-B",
        bounds=[(None, None)] * free + [(low, high)] * start.n_outputs,
        options={"maxiter": max_iterations, "ftol": TOLERANCE},
        callback=lambda _: report("outputs: covariances and noise"),
    )  # fmt: skip
    law = law_at(found.x, start.sizes, start.n_outputs)
    return OutputWeights.given(law, sums), int(found.nit), bool(found.success)
