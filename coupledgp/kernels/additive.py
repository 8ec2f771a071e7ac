"""Additive kernels: sums over the columns and pairs of columns of a table.

Kernels as polynomials in kernels of single columns, from which effects and features follow.

    K(x, x') = sum_t v_t e_{q_t}(k_1(x_1, x_1'), ..., k_g(x_g, x_g'))

with elementary symmetric polynomials `e_q`, and a kernel `k_j` for each factor: a column, or the
columns of one category. A product over g factors is the term of order `q = g`, a constant the term
of order zero.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.expressions import AxisTerm, Evaluated, Factor, Parameter, RowKernel
from coupledgp.ground.validation import check_positive_int, wrong
from coupledgp.kernels.pairs import GAUSSIAN, MATERN_12, MATERN_32, MATERN_52, AdditivePairs
from coupledgp.random import FloatArray, IntArray
from coupledgp.spectra import GaussianSpectrum, MaternSpectrum, Spectrum, parse_spectrum

# Numbers of the one-column kernels in the compiled loops.
BASES: dict[Spectrum, int] = {
    MaternSpectrum(0.5): MATERN_12, MaternSpectrum(1.5): MATERN_32,
    MaternSpectrum(2.5): MATERN_52, GaussianSpectrum(): GAUSSIAN,
}  # fmt: skip
# Highest order: the study found little gain beyond the second.
MOST_ORDER = 5
# Means and standard deviations of the priors of logarithms: lengthscales of single columns, and the
# variance of the full product.
LENGTHSCALE, FULL = (0.7, 1.0), (-1.0, 1.5)


@dataclass(frozen=True)
class Additive(RowKernel):
    """A sum over columns, pairs of columns, and so on up to an order, and over all columns.

        K = sum_{q = 1..Q} a^q u_q e_q(k_1, ..., k_g) + v_f prod_j k_j ,   u_1 = 1 ,

    with `k_j = kappa(|x_j - x_j'| / l_j)` for each of g groups of columns and elementary symmetric
    polynomials `e_q` (Duvenaud and others, 2011). One lengthscale serves a group in all orders:
    g + Q hyperparameters, and one more with the full product. They state the kernel's variance.

    Parameters
    ----------
    order
        Highest order Q of the interactions, from 1 to 5.
    base
        Kernel kappa of one column: `"gaussian"`, `"matern-1/2"`, `"matern-3/2"` or `"matern-5/2"`,
        or the spectrum.
    full
        Whether the product over all groups, a stationary kernel of all columns, is added.

    Raises
    ------
    InvalidInputError
        The order is out of range, or the base is another kernel.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.kernels import Additive, RowCovariance
    >>> kernel = RowCovariance(Additive(order=1, full=False), ["area", "age"])
    >>> one, far = np.array([[0.0, 0.0]]), np.array([[0.0, 100.0]])  # of one area
    >>> kernel.gram(one, np.vstack([one, far]), np.zeros(3)).round(3).tolist()
    [[2.0, 1.0]]
    """

    order: int = 2
    base: Any = "matern-3/2"
    full: bool = True
    has_variance = True

    def __post_init__(self) -> None:
        order = check_positive_int(self.order, "order")
        if order > MOST_ORDER:
            raise wrong("order", f"1 to {MOST_ORDER}", order)
        base = parse_spectrum(self.base, "base")
        if base not in BASES:
            raise InvalidInputError(
                f"base: expected one of {', '.join(map(str, BASES))}, got {base}"
            )
        if not isinstance(self.full, bool):
            raise wrong("full", "True or False", self.full)
        object.__setattr__(self, "base", base)

    def parameters(self, labels: Sequence[str]) -> tuple[Parameter, ...]:
        found = [Parameter(f"lengthscale of {self} in {label}", *LENGTHSCALE) for label in labels]
        found.append(Parameter(f"variance of each column in {self}", -math.log(len(labels))))
        found += [
            Parameter(f"relative variance of order {q} in {self}") for q in range(2, self.order + 1)
        ]
        if self.full:
            found.append(Parameter(f"variance of all columns in {self}", *FULL))
        return tuple(found)

    def evaluate(
        self, a: FloatArray, b: FloatArray, theta: FloatArray, groups: IntArray
    ) -> Evaluated:
        pairs = self._pairs(a, b, theta, groups)
        n_groups = len(pairs.starts) - 1

        def pull(cotangent: FloatArray) -> FloatArray:
            raw = pairs.pull(cotangent)
            of_weights = raw[n_groups : n_groups + self.order] * pairs.weights
            of_amplitude = (np.arange(1, self.order + 1) * of_weights).sum()
            found = [raw[:n_groups], np.array([of_amplitude]), of_weights[1:]]
            if self.full:
                found.append(np.array([pairs.full * raw[-1]]))
            return np.concatenate(found)

        return Evaluated(pairs.gram(), pull)

    def covariance(
        self, a: FloatArray, b: FloatArray, theta: FloatArray, groups: IntArray
    ) -> FloatArray:
        return self._pairs(a, b, theta, groups).gram()

    def diagonal(self, a: FloatArray, theta: FloatArray, groups: IntArray) -> FloatArray:
        n_groups = int(groups.max()) + 1
        weights, full = self._weights(theta, n_groups)
        counts = [math.comb(n_groups, q) for q in range(1, self.order + 1)]
        return np.full(len(a), float(weights @ counts) + full)

    def axes(
        self, theta: FloatArray, numbers: IntArray, groups: IntArray
    ) -> tuple[AxisTerm, ...] | None:
        n_groups = int(groups.max()) + 1
        factors = tuple(
            Factor(tuple(numbers[groups == g].tolist()), self.base, theta[g : g + 1])
            for g in range(n_groups)
        )
        weights, full = self._weights(theta, n_groups)
        terms = [
            AxisTerm(float(weight), q, factors)
            for q, weight in enumerate(weights, start=1)
            if q <= n_groups
        ]
        return (*terms, AxisTerm(full, n_groups, factors)) if self.full else tuple(terms)

    def _weights(self, theta: FloatArray, n_groups: int) -> tuple[FloatArray, float]:
        """Factors (Q,) of the orders, and the variance of the full product, zero without one."""
        scales = np.exp(theta[n_groups:])
        relative = np.concatenate([[1.0], scales[1 : self.order]])
        weights = scales[0] ** np.arange(1, self.order + 1) * relative
        return weights, float(scales[self.order]) if self.full else 0.0

    def _pairs(
        self, a: FloatArray, b: FloatArray, theta: FloatArray, groups: IntArray
    ) -> AdditivePairs:
        order = np.argsort(groups, kind="stable")
        counts = np.bincount(groups)
        scale = np.exp(theta)[groups[order]]
        rows = np.ascontiguousarray(a[:, order] / scale)
        others = rows if a is b else np.ascontiguousarray(b[:, order] / scale)
        starts = np.concatenate([[0], np.cumsum(counts)])
        weights, full = self._weights(theta, len(counts))
        return AdditivePairs(rows, others, starts, BASES[self.base], weights, full, a is b)

    def __str__(self) -> str:
        full = "" if self.full else ", full=false"
        return f"additive({self.order}, {self.base}{full})"


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
