"""Kernels as polynomials in kernels of single columns, from which effects and features follow.

    K(x, x') = sum_t v_t e_{q_t}(k_1(x_1, x_1'), ..., k_g(x_g, x_g'))

with elementary symmetric polynomials `e_q`, and a kernel `k_j` for each factor: a column, or the
columns of one category. A product over g factors is the term of order `q = g`, a constant the term
of order zero.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from coupledgp.expressions import AxisTerm, Factor, RowKernel
from coupledgp.random import FloatArray, IntArray


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


def axis_terms(
    kernel: RowKernel, theta: FloatArray, numbers: IntArray, groups: IntArray
) -> tuple[AxisTerm, ...] | None:
    """A kernel of some columns as terms of kernels of single groups; None without such a form.

    Kernels that are separable, or of one group, are a product over groups. Others say so
    themselves (`RowKernel.axes`).

    Parameters
    ----------
    kernel
        The kernel.
    theta
        Its hyperparameters (q,).
    numbers
        Number (d,) of each of its columns in the table.
    groups
        Number (d,) of the group of each column, from 0 upwards.
    """
    stated = kernel.axes(theta, numbers, groups)
    n_groups = int(groups.max()) + 1
    if stated is not None or not (kernel.is_separable or n_groups == 1):
        return stated
    factors = []
    for group in range(n_groups):
        own = theta if n_groups == 1 else theta[group : group + 1]
        factors.append(Factor(tuple(numbers[groups == group].tolist()), kernel, own))
    return (AxisTerm(1.0, n_groups, tuple(factors)),)


def multiplied(a: AxisTerm, b: AxisTerm) -> AxisTerm | None:
    """The product of two terms, each a constant or a product over all its factors, if it is one.

    None for factors that share a column, or sums of products.
    """
    if any(term.order not in (0, len(term.factors)) for term in (a, b)):
        return None
    factors = tuple(f for term in (a, b) if term.order for f in term.factors)
    columns = [column for factor in factors for column in factor.columns]
    if len(set(columns)) < len(columns):
        return None
    return AxisTerm(a.variance * b.variance, len(factors), factors)
