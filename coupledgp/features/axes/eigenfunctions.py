"""Eigenfunctions of the kernel of one column under the column's own law.

A column, or the columns of one category, has the law mu of its values: points z with weights p. Its
kernel is centred, so that functions drawn with it have mean zero under mu,

    c(x, x') = k(x, x') - u(x) - u(x') + U ,   u(x) = sum_q p_q k(x, z_q) ,   U = sum_q p_q u(z_q) .

With `diag(p)^1/2 C diag(p)^1/2 = V diag(lam) V'` on the points, Nystrom's eigenfunctions are

    phi_r(x) = c(x, z) diag(p)^1/2 V_r / sqrt(lam_r) ,   sum_r phi_r(z_a) phi_r(z_b) = c(z_a, z_b) .

R of them have the least mean squared error under mu of all maps of R features (Mercer's theorem;
Rasmussen and Williams, 2006, section 4.3).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from coupledgp.random import FloatArray

# Points of the law of a column with more distinct values.
MOST_POINTS = 64
# Eigenvalues below this part of the greatest are rounding.
LEAST_EIGENVALUE = 1e-12
# Relative gap below which two eigenvalues count as equal: which of their eigenvectors is which is
# then a matter of rounding, so that all of them are kept or none.
GAP = 1e-6
# Points whose variances are read off one matrix.
DIAGONAL_ROWS = 64


@dataclass(frozen=True, eq=False)
class ColumnLaw:
    """The law of a column, or of the columns of a category: points with weights.

    Attributes
    ----------
    points : FloatArray (Q, c)
        Distinct values, in rising order.
    weights : FloatArray (Q,)
        Their probabilities, of sum one.
    """

    points: FloatArray
    weights: FloatArray

    @classmethod
    def of(cls, values: FloatArray, most: int = MOST_POINTS) -> ColumnLaw:
        """The law of values (n, c): the distinct ones with their frequencies, if they are few.

        Of a column with more distinct values, `most` quantiles from the least to the greatest value
        stand for them, with the weights of the trapezoidal rule. Of the columns of a category, the
        `most` most frequent levels do.
        """
        points, counts = np.unique(values, axis=0, return_counts=True)
        if len(points) > most and points.shape[1] == 1:
            levels = np.linspace(0.0, 1.0, most)
            found = np.quantile(values[:, 0], levels, method="inverted_cdf")
            shares = np.ones(most)
            shares[[0, -1]] = 0.5
            own, place = np.unique(found, return_inverse=True)
            points, counts = own[:, None], np.bincount(place, shares)
        elif len(points) > most:
            kept = np.sort(np.argsort(-counts, kind="stable")[:most])
            points, counts = points[kept], counts[kept]
        return cls(np.asarray(points, dtype=np.float64), counts / counts.sum())


def nystrom(
    gram: FloatArray, weights: FloatArray, variance: float | None = None
) -> tuple[FloatArray, FloatArray]:
    """Eigenvalues (R,) of a kernel at points, falling, and `diag(p)^1/2 V lam^-1/2` (Q, R).

    Eigenvalues below `LEAST_EIGENVALUE` of a variance are left out. The sign of each eigenvector is
    such that its value of largest size is above zero.

    Parameters
    ----------
    gram
        Kernel (Q, Q) at the points.
    weights
        Weights p (Q,) of the points.
    variance
        Variance that eigenvalues are compared with; None: the mean of the kernel's own.
    """
    root = np.sqrt(weights)
    size = float(gram.diagonal() @ weights) if variance is None else variance
    values, vectors = np.linalg.eigh(root[:, None] * (0.5 * (gram + gram.T)) * root)
    kept = np.flatnonzero(values > LEAST_EIGENVALUE * max(size, 0.0))[::-1]
    values, vectors = values[kept], vectors[:, kept]
    sizes = np.abs(vectors)
    first = (sizes > (1.0 - GAP) * sizes.max(axis=0, initial=0.0)).argmax(axis=0)
    signs = np.sign(vectors[first, np.arange(values.size)])
    return values, root[:, None] * vectors * (signs / np.sqrt(values))


def n_kept(values: FloatArray, most: int, limit: int) -> int:
    """How many of values in falling order to keep, about `most`, none of which equals one left out.

    A group of values that are equal to rounding is kept whole where no more than `limit` are kept
    by that, and left out whole otherwise.
    """
    if values.size <= most:
        return int(values.size)
    gaps = np.append(values[1:] < (1.0 - GAP) * values[:-1], True)
    ends = np.flatnonzero(gaps) + 1
    above = int(ends[ends >= most][0])
    below = ends[ends <= most]
    if below.size and (below[-1] * 2 >= most or above > limit):
        return int(below[-1])
    return above if above <= limit else 0
