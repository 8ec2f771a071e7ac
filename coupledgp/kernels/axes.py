"""Kernels as polynomials in kernels of single columns, from which effects and features follow.

    K(x, x') = sum_t v_t e_{q_t}(k_1(x_1, x_1'), ..., k_g(x_g, x_g'))

with elementary symmetric polynomials `e_q`, and a kernel `k_j` for each factor: a column, or the
columns of one category. A product over g factors is the term of order `q = g`, a constant the term
of order zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coupledgp.expressions import RowKernel
from coupledgp.random import FloatArray


@dataclass(frozen=True, eq=False)
class Factor:
    """The kernel of one column, or of the columns of one category.

    Attributes
    ----------
    columns : tuple of int
        Numbers of the columns in the table.
    kernel : RowKernel
        Kernel of these columns.
    theta : FloatArray (q,)
        Its hyperparameters.
    """

    columns: tuple[int, ...]
    kernel: RowKernel
    theta: FloatArray

    def gram(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Covariances (n, p) between rows a (n, c) and b (p, c) of the factor's own columns."""
        groups = np.zeros(len(self.columns), dtype=np.int64)
        return self.kernel.evaluate(a, b, self.theta, groups).covariance


@dataclass(frozen=True, eq=False)
class AxisTerm:
    """One term `v e_q(k_1, ..., k_g)` of a kernel.

    Attributes
    ----------
    variance : float
        Factor v.
    order : int
        Order q, from 0 to the number of factors.
    factors : tuple of Factor
    """

    variance: float
    order: int
    factors: tuple[Factor, ...]


def elementary(values: Sequence[FloatArray], order: int) -> list[FloatArray]:
    """Elementary symmetric polynomials `e_0, ..., e_order` of arrays of one shape.

    `E_q <- E_q + k_j E_{q-1}`, q downwards, one pass over the arrays. No term is subtracted, unlike
    in Newton's identities, whose power sums cancel.

    Parameters
    ----------
    values
        Arrays of any one shape, at least one.
    order
        Highest order.
    """
    shape = np.shape(values[0])
    found = [np.ones(shape)] + [np.zeros(shape) for _ in range(order)]
    for value in values:
        for q in range(order, 0, -1):
            found[q] = found[q] + value * found[q - 1]
    return found
