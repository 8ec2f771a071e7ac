"""Several outputs with entries missing, in the space of the weights of shared features.

With features `phi_r(x) (M_r,)` of kernels r and weights `W_r (M_r, Q)` of Q outputs,

    f_q(x) = sum_r phi_r(x)'W_rq ,   rows of W_r ~ N(0, B_r) ,
    y_n = f(x_n) + e_n ,   e_n ~ N(0, S) ,

so that `cov(f_q(x), f_t(x')) = sum_r B_r,qt k_r(x, x')` (linear model of coregionalisation,
Goovaerts 1997). A row may lack any of its outputs. Rows with the same outputs o have the products
G_o, C_o and Y_o of features, of outputs with features, and of outputs. The weights have the
precision and the mean

    A = sum_o S_oo^-1 (x) G_o + sum_r B_r^-1 (x) I ,   A^-1 vec(sum_o S_oo^-1 C_o) ,

exactly. B_r and S have the greatest evidence, times `|R|^(c/2)` of the correlations R of S, c being
`PRIOR_ROWS` (Lewandowski, Kurowicka and Joe 2009): few rows do not tell correlations of the noise.
With the posterior means `T_r = E[W_r'W_r] / M_r` and `E_o` of the sums of `e_o e_o'`, the slopes of
the evidence are (Fisher's identity)

    dB_r: M_r / 2 (B_r^-1 T_r B_r^-1 - B_r^-1) ,   dS_oo: (S_oo^-1 E_o S_oo^-1 - n_o S_oo^-1) / 2 .
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, lapack, solve_triangular
from scipy.optimize import minimize

from coupledgp.errors import NumericalError
from coupledgp.random import FloatArray

BoolArray = NDArray[np.bool_]
# Variances that a B, and that S, keep on their diagonals, for outputs of variance one.
JITTER, LEAST_NOISE = 1e-6, 1e-6
# Relative change of the log evidence that ends the search.
TOLERANCE = 2e-6
# Rows without correlations of the noise for which its prior counts.
PRIOR_ROWS = 10.0


@dataclass(frozen=True, eq=False)
class OutputSums:
    """Sums over the rows that have the same outputs, for each pattern of these.

    Attributes
    ----------
    patterns : BoolArray (P, Q)
        Which outputs the rows have; distinct.
    grams : FloatArray (P, M, M)
        G, M the number of all features.
    crosses : FloatArray (P, Q, M)
        C, zero for outputs that the rows lack.
    squares : FloatArray (P, Q, Q)
        Y, zero there.
    counts : FloatArray (P,)
        Numbers of rows.
    """

    patterns: BoolArray
    grams: FloatArray
    crosses: FloatArray
    squares: FloatArray
    counts: FloatArray

    @classmethod
    def of(cls, features: FloatArray, targets: FloatArray) -> OutputSums:
        """Sums of features (n, M) and targets (n, Q), NaN where an output is missing."""
        observed = ~np.isnan(targets)
        patterns, number = patterns_of(targets)
        known = np.where(observed, targets, 0.0)
        grams, crosses, squares, counts = [], [], [], []
        for k in range(len(patterns)):
            at = number == k
            phi, y = features[at], known[at]
            grams.append(phi.T @ phi)
            crosses.append(y.T @ phi)
            squares.append(y.T @ y)
            counts.append(float(at.sum()))
        M, Q = features.shape[1], targets.shape[1]
        return cls(
            patterns, np.array(grams).reshape(-1, M, M), np.array(crosses).reshape(-1, Q, M),
            np.array(squares).reshape(-1, Q, Q), np.array(counts),
        )  # fmt: skip

    @property
    def n_entries(self) -> FloatArray:
        """Numbers (Q,) of values of each output."""
        return np.asarray(self.counts @ self.patterns)

    def with_more(self, other: OutputSums) -> OutputSums:
        """Sums over the rows of both."""
        found = {tuple(row): k for k, row in enumerate(self.patterns.tolist())}
        sums = [part.copy() for part in (self.grams, self.crosses, self.squares, self.counts)]
        patterns = self.patterns
        for k, row in enumerate(other.patterns.tolist()):
            more = (other.grams[k], other.crosses[k], other.squares[k], other.counts[k])
            place = found.get(tuple(row))
            if place is None:
                patterns = np.concatenate([patterns, other.patterns[k : k + 1]])
                sums = [np.concatenate([part, np.asarray(new)[None]])
                        for part, new in zip(sums, more, strict=True)]  # fmt: skip
            else:
                for part, new in zip(sums, more, strict=True):
                    part[place] += new
        return OutputSums(patterns, *sums)


def patterns_of(targets: FloatArray) -> tuple[BoolArray, NDArray[np.int64]]:
    """Distinct sets (P, Q) of known outputs, but the empty one, and that of each row, or -1."""
    observed = ~np.isnan(targets)
    patterns, number = np.unique(observed, axis=0, return_inverse=True)
    number = number.reshape(-1)
    empty = ~np.asarray(patterns.any(axis=1))
    order = np.cumsum(~empty) - 1
    return patterns[~empty], np.where(empty[number], -1, order[number])


@dataclass(frozen=True, eq=False)
class Coregionalisation:
    """Covariances of the outputs under each kernel, and of their noise.

    Attributes
    ----------
    covariances : FloatArray (R, Q, Q)
        B of each kernel.
    noise : FloatArray (Q, Q)
        S.
    sizes : tuple of int
        Numbers M_r of the features of the kernels.
    """

    covariances: FloatArray
    noise: FloatArray
    sizes: tuple[int, ...]

    @property
    def n_outputs(self) -> int:
        """Number Q of outputs."""
        return len(self.noise)

    @property
    def parts(self) -> list[slice]:
        """Places of the features of each kernel."""
        ends = np.cumsum([0, *self.sizes]).tolist()
        return [slice(a, b) for a, b in itertools.pairwise(ends)]

    def noise_inverses(self, patterns: BoolArray) -> tuple[FloatArray, FloatArray]:
        """`S_oo^-1` (P, Q, Q) of patterns, zero elsewhere, and `log |S_oo|` (P,)."""
        inverses, logs = np.zeros((len(patterns), *self.noise.shape)), np.zeros(len(patterns))
        for k, pattern in enumerate(patterns):
            block = self.noise[np.ix_(pattern, pattern)]
            inverses[k][np.ix_(pattern, pattern)] = np.linalg.inv(block)
            logs[k] = np.linalg.slogdet(block)[1]
        return inverses, logs


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
    log_evidence : float
        Log evidence of all observed entries, nats.
    """

    law: Coregionalisation
    sums: OutputSums
    factor: FloatArray
    mean: FloatArray
    log_evidence: float

    @classmethod
    def given(cls, law: Coregionalisation, sums: OutputSums) -> OutputWeights:
        """Condition on sums.

        Raises
        ------
        NumericalError
            The precision is not positive definite to working precision.
        """
        Q, M = law.n_outputs, sum(law.sizes)
        inverses, noise_logs = law.noise_inverses(sums.patterns)
        A = np.einsum("kqt,kml->qmtl", inverses, sums.grams, optimize=True)
        A = np.ascontiguousarray(A) if len(sums.grams) else np.zeros((Q, M, Q, M))
        logs = 0.0
        for B, part, size in zip(law.covariances, law.parts, law.sizes, strict=True):
            places = np.arange(part.start, part.stop)
            A[:, places, :, places] += np.linalg.inv(B)
            logs += size * float(np.linalg.slogdet(B)[1])
        factor, info = lapack.dpotrf(A.reshape(Q * M, Q * M), lower=1, clean=1, overwrite_a=1)
        if info != 0 or not np.isfinite(factor.diagonal()).all():
            raise NumericalError(
                "outputs: the precision of the weights is not positive definite: use fewer "
                "frequencies or noisier outputs"
            )
        right = np.einsum("kqt,ktm->qm", inverses, sums.crosses)
        mean = cho_solve((factor, True), right.ravel(), check_finite=False).reshape(Q, M)
        logs += 2.0 * float(np.log(factor.diagonal()).sum())
        logs += float(sums.counts @ noise_logs)
        logs += float(sums.n_entries.sum()) * float(np.log(2.0 * np.pi))
        quad = float((inverses * sums.squares).sum()) - float((mean * right).sum())
        return cls(law, sums, factor, mean, -0.5 * (logs + quad))

    def moments(self) -> tuple[FloatArray, FloatArray]:
        """T (R, Q, Q), and E (P, Q, Q), of which entries of outputs that rows lack say nothing."""
        law, sums = self.law, self.sums
        Q, M = self.mean.shape
        inverse, _ = lapack.dpotri(self.factor, lower=1)
        lower = np.tril(inverse)
        C = (lower + np.tril(inverse, -1).T).reshape(Q, M, Q, M)
        products = []
        for part, size in zip(law.parts, law.sizes, strict=True):
            own = self.mean[:, part]
            T = own @ own.T + np.einsum("qmtm->qt", C[:, part, :, part])
            products.append((T + T.T) / (2.0 * size))
        both = np.einsum("qm,kml,tl->kqt", self.mean, sums.grams, self.mean, optimize=True)
        both += np.einsum("kml,qmtl->kqt", sums.grams, C, optimize=True)
        cross = np.einsum("kqm,tm->kqt", sums.crosses, self.mean)
        errors = sums.squares - cross - cross.transpose(0, 2, 1) + both
        return np.array(products), errors

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
    theta: FloatArray, sums: OutputSums, sizes: tuple[int, ...], prior_rows: float = PRIOR_ROWS
) -> tuple[float, FloatArray]:
    """Minus the log evidence and log prior density at free parameters, and the slopes.

    `theta` holds the rows of lower triangles L, of each `B = L L' + JITTER I` and then of S.
    """
    n_outputs = sums.patterns.shape[1]
    law = law_at(theta, sizes, n_outputs)
    found = OutputWeights.given(law, sums)
    products, errors = found.moments()
    slopes = []
    for B, T, size in zip(law.covariances, products, sizes, strict=True):
        inverse = np.linalg.inv(B)
        slopes.append(size / 2.0 * (inverse @ T @ inverse - inverse))
    inverses, _ = law.noise_inverses(sums.patterns)
    of_noise = inverses @ errors @ inverses - sums.counts[:, None, None] * inverses
    own = law.noise.diagonal()
    prior = prior_rows / 2.0 * float(np.linalg.slogdet(law.noise)[1] - np.log(own).sum())
    of_prior = prior_rows / 2.0 * (np.linalg.inv(law.noise) - np.diag(1.0 / own))
    slopes.append(of_noise.sum(axis=0) / 2.0 + of_prior)
    lower = np.tril_indices(n_outputs)
    flat = [(2.0 * slope @ _triangle(theta, k, n_outputs))[lower] for k, slope in enumerate(slopes)]
    return -found.log_evidence - prior, -np.concatenate(flat)


def law_at(theta: FloatArray, sizes: tuple[int, ...], n_outputs: int) -> Coregionalisation:
    """The law of free parameters, see `evidence_loss`."""
    triangles = [_triangle(theta, k, n_outputs) for k in range(len(sizes) + 1)]
    *covariances, noise = (L @ L.T for L in triangles)
    eye = np.eye(n_outputs)
    return Coregionalisation(np.stack(covariances) + JITTER * eye, noise + LEAST_NOISE * eye, sizes)


def theta_of(law: Coregionalisation) -> FloatArray:
    """Free parameters of a law, but for what diagonals keep."""
    rows = np.tril_indices(law.n_outputs)
    parts = [np.linalg.cholesky(B)[rows] for B in (*law.covariances, law.noise)]
    return np.concatenate(parts)


def _triangle(theta: FloatArray, k: int, n_outputs: int) -> FloatArray:
    """L (Q, Q) of a kernel k, or of S after the last one."""
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
    """The posterior under the law of greatest density, its steps, and whether these converged."""
    found = minimize(
        evidence_loss, theta_of(start), (sums, start.sizes), jac=True, method="L-BFGS-B",
        options={"maxiter": max_iterations, "ftol": TOLERANCE},
        callback=lambda _: report("outputs: covariances and noise"),
    )  # fmt: skip
    law = law_at(found.x, start.sizes, start.n_outputs)
    return OutputWeights.given(law, sums), int(found.nit), bool(found.success)
