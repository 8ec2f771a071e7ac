"""Effects of an exact GP whose kernel is a polynomial in kernels of single parts: closed forms.

For `K = sum_t v_t e_q(k_1, ..., k_g)` and laws `mu_j` of the parts let `u_j = E_mu k_j(x, .)`. A
functional of f that averages f over some parts, and takes the deviation from the average in
others, has the covariance with `f(x')` in which each factor `k_j` is `u_j(x')` or `k_j - u_j(x')`.
The main effect of j has `v (k_j - u_j) e_{q-1}(u_k, k != j)`, the effect of a pair
`v (k_i - u_i) (k_j - u_j) e_{q-2}(u_k)`: Durrande, Ginsbourger, Roustant and Carraro (2013).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy import linalg

from coupledgp.diagnostics.effects.units import Unit, product_sample, rows_of
from coupledgp.expressions import AxisTerm, Factor
from coupledgp.kernels.axes import elementary
from coupledgp.random import FloatArray, symmetric_root

# Points of the product of laws at which draws of f are made.
SAMPLE = 512
# What is added to the diagonal of the covariance of drawn values, relative to its mean.
JITTER = 1e-9


@dataclass(frozen=True, eq=False)
class AxisPosterior:
    """A posterior whose prior covariance is stated by terms, in units of y.

    Attributes
    ----------
    terms : tuple of AxisTerm
        The kernel, a function of inputs.
    inputs : FloatArray (n, D)
        Rows as the terms take them.
    factor : FloatArray (n, n)
        Lower Cholesky factor of `K + s R`.
    alpha : FloatArray (n, k)
        `(K + s R)^-1 y`, normalised targets.
    scale : FloatArray (k,)
        Scale of the outputs.
    units : tuple of Unit
        All parts of the table, their points as the terms take them.
    n_draws : int
        Number of draws.
    seed : int
        Seed of the draws.
    """

    terms: tuple[AxisTerm, ...]
    inputs: FloatArray
    factor: FloatArray
    alpha: FloatArray
    scale: FloatArray
    units: tuple[Unit, ...]
    n_draws: int
    seed: int
    method: ClassVar[str] = "closed forms of the kernel"

    @cached_property
    def _unit_of(self) -> dict[int, int]:
        """Number of the unit of each column."""
        return {int(c): j for j, unit in enumerate(self.units) for c in unit.columns}

    def _place(self, factor: Factor) -> int:
        return self._unit_of[factor.columns[0]]

    def _own(self, factor: Factor, rows: FloatArray) -> FloatArray:
        return rows[:, list(factor.columns)]

    def _law(self, factor: Factor) -> tuple[FloatArray, FloatArray]:
        """Points (m, D) of the law of a factor's unit, other columns zero, and weights (m,)."""
        unit = self.units[self._place(factor)]
        rows = np.zeros((len(unit.points), self.inputs.shape[1]))
        rows[:, unit.columns] = unit.points
        return rows, unit.weights

    def _averages(self, factor: Factor, rows: FloatArray) -> FloatArray:
        """`u(x')` (n,) at rows (n, D)."""
        points, weights = self._law(factor)
        found: FloatArray = weights @ factor.gram(
            self._own(factor, points), self._own(factor, rows)
        )
        return found

    @cached_property
    def _row_averages(self) -> dict[int, FloatArray]:
        """`u(x_i)` of each factor at the rows and then at the sample, by the factor's identity."""
        both = np.vstack([self.inputs, self._sample])
        return {
            id(factor): self._averages(factor, both)
            for term in self.terms
            for factor in term.factors
        }

    def _polynomial(
        self,
        centred: Collection[int],
        deviation: Callable[[Factor], FloatArray],
        other: Callable[[Factor], Any],
    ) -> FloatArray:
        """`sum_t v_t prod_{j in centred} deviation_j e_{q - m}(other_k)`, m centred units.

        A term without a factor for a centred unit gives nothing.
        """
        total: Any = 0.0
        for term in self.terms:
            chosen = [f for f in term.factors if self._place(f) in centred]
            left = term.order - len(centred)
            if len(chosen) < len(centred) or left < 0:
                continue
            rest = [other(f) for f in term.factors if self._place(f) not in centred]
            if left > len(rest):
                continue
            value: Any = elementary(rest, left)[left] if rest else 1.0
            for factor in chosen:
                value = value * deviation(factor)
            total = total + term.variance * value
        return np.asarray(total, dtype=np.float64)

    @cached_property
    def _places(self) -> list[Any]:
        return product_sample(self.units, SAMPLE, np.random.default_rng([self.seed, 1]))

    @cached_property
    def _sample(self) -> FloatArray:
        """Points (N, D) of the product of laws."""
        return rows_of(self.units, self._places, self.inputs.shape[1])

    @cached_property
    def _all(self) -> FloatArray:
        return np.vstack([self.inputs, self._sample])

    def _whitened(self, covariances: FloatArray) -> FloatArray:
        """`L^-1 q'` (n, g) of covariances (g, n) with the rows."""
        return np.asarray(linalg.solve_triangular(self.factor, covariances.T, lower=True))

    @cached_property
    def _sampled(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """`L^-1 K(X, Z)` (n, N), the factor (N, N) of f(Z)'s covariance, and draws (N, k S).

        The draws are `C^-1 (f - mean)` at the sample Z, C that covariance.
        """
        kept = self._polynomial((), _nothing, lambda f: self._gram(f, self._sample))
        n = len(self.inputs)
        whitened = self._whitened(kept[:, :n])
        covariance = kept[:, n:] - whitened.T @ whitened
        covariance[np.diag_indices_from(covariance)] += JITTER * kept[:, n:].diagonal().mean()
        factor = np.asarray(np.linalg.cholesky(0.5 * (covariance + covariance.T)), np.float64)
        rng = np.random.default_rng([self.seed, 2])
        innovations = rng.standard_normal((SAMPLE, self.alpha.shape[1] * self.n_draws))
        draws = linalg.solve_triangular(factor, innovations, lower=True, trans="T")
        return whitened, factor, draws

    def _gram(self, factor: Factor, points: FloatArray) -> FloatArray:
        """Kernel (p, n + N) of a factor between points and all rows."""
        return factor.gram(self._own(factor, points), self._own(factor, self._all))

    def _deviation(self, factor: Factor, points: FloatArray) -> FloatArray:
        return self._gram(factor, points) - self._row_averages[id(factor)]

    def _drawn(
        self, covariances: FloatArray, prior: FloatArray, joint: bool
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Means (g, k), draws (g, k, S) and variances (g,) that the draws leave, units of y.

        Parameters
        ----------
        covariances
            Of the functionals with all rows, (g, n + N).
        prior
            Covariances (g, g) of the functionals if `joint`, which adds what the draws of f leave;
            otherwise variances (g,).
        joint
            Whether draws are exact jointly.
        """
        n, k = len(self.inputs), self.alpha.shape[1]
        of_sample, factor, draws = self._sampled
        mean = covariances[:, :n] @ self.alpha
        whitened = self._whitened(covariances[:, :n])
        gains = covariances[:, n:] - whitened.T @ of_sample
        found = mean[:, :, None] + (gains @ draws).reshape(len(mean), k, self.n_draws)
        explained = np.asarray(linalg.solve_triangular(factor, gains.T, lower=True))
        if joint:
            left = prior - whitened.T @ whitened - explained.T @ explained
            rng = np.random.default_rng([self.seed, 3])
            innovations = rng.standard_normal((len(mean), k * self.n_draws))
            root = symmetric_root(0.5 * (left + left.T))
            found = found + (root @ innovations).reshape(found.shape)
            variance = np.zeros(len(mean))
        else:
            variance = prior - np.square(whitened).sum(axis=0) - np.square(explained).sum(axis=0)
        scale = self.scale
        rest = np.maximum(variance, 0.0)
        return scale * mean, scale[:, None] * found, rest

    def main(self, place: int, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Means (g, k) and draws (g, k, S) of the main effect of a unit at its points (g, c)."""
        rows = np.zeros((len(points), self.inputs.shape[1]))
        rows[:, self.units[place].columns] = points
        covariances = self._polynomial(
            (place,),
            lambda f: self._deviation(f, rows),
            lambda f: self._row_averages[id(f)],
        )
        shape = (len(points), len(self._all))
        prior = self._polynomial((place,), lambda f: self._between(f, rows), self._double)
        mean, draws, _ = self._drawn(
            np.broadcast_to(covariances, shape),
            np.broadcast_to(prior, (len(points), len(points))),
            True,
        )
        return mean, draws

    def _between(self, factor: Factor, rows: FloatArray) -> FloatArray:
        """`k - u(x) - u(x') + U` (g, g) among rows."""
        own = self._own(factor, rows)
        averages = self._averages(factor, rows)
        found: FloatArray = factor.gram(own, own) - averages[:, None] - averages
        return found + self._double(factor)

    def _double(self, factor: Factor) -> FloatArray:
        """`U = E E k`, a number."""
        points, weights = self._law(factor)
        return np.asarray(weights @ self._averages(factor, points))

    def _diagonal(self, factor: Factor) -> FloatArray:
        """`k(z, z)` (N,) at the sample."""
        own = self._own(factor, self._sample)
        found: FloatArray = factor.gram(own, own).diagonal()
        return found

    def _centred_diagonal(self, factor: Factor) -> FloatArray:
        """`k(z, z) - 2 u(z) + U` (N,) at the sample."""
        averages = self._row_averages[id(factor)][len(self.inputs) :]
        return self._diagonal(factor) - 2 * averages + self._double(factor)

    def _squares(self, covariances: FloatArray, prior: FloatArray) -> FloatArray:
        """Mean squares (k, S) over the sample of functionals of these covariances (N, n + N)."""
        covariances = np.broadcast_to(covariances, (SAMPLE, len(self._all)))
        prior = np.broadcast_to(prior, (SAMPLE,))
        _, draws, rest = self._drawn(covariances, prior, False)
        left: FloatArray = rest.mean() * self.scale[:, None] ** 2
        return np.square(draws).mean(axis=0) + left

    def variance(self) -> FloatArray:
        """Variances (k, S) of drawn functions under the product of the laws."""
        kept = self._polynomial((), _nothing, lambda f: self._gram(f, self._sample))
        _, draws, _ = self._drawn(kept, self._polynomial((), _nothing, self._diagonal), False)
        return draws.var(axis=0)

    def first(self, place: int) -> FloatArray:
        """Variances (k, S) of the main effect of a unit."""
        unit = self.units[place]
        _, draws = self.main(place, unit.points)
        found: FloatArray = np.einsum("g,gks->ks", unit.weights, np.square(draws))
        return found

    def total(self, place: int) -> FloatArray:
        """Variances (k, S) of what hangs on a unit, alone or with others."""
        covariances = self._polynomial(
            (place,),
            lambda f: self._deviation(f, self._sample),
            lambda f: self._gram(f, self._sample),
        )
        prior = self._polynomial((place,), self._centred_diagonal, self._diagonal)
        return self._squares(covariances, prior)

    def pair(self, first: int, second: int) -> FloatArray:
        """Variances (k, S) of the interaction of two units."""
        covariances = self._polynomial(
            (first, second),
            lambda f: self._deviation(f, self._sample),
            lambda f: self._row_averages[id(f)],
        )
        prior = self._polynomial((first, second), self._centred_diagonal, self._double)
        return self._squares(covariances, prior)


def _nothing(factor: Factor) -> FloatArray:
    raise AssertionError("no unit is centred")


@dataclass(frozen=True, eq=False)
class ProductFactor(Factor):
    """Several factors of one unit as one: their product.

    Attributes
    ----------
    parts : tuple of Factor
        The factors.
    """

    parts: tuple[Factor, ...]

    def gram(self, a: FloatArray, b: FloatArray) -> FloatArray:
        """Product (n, p) of the factors' covariances."""
        places = np.cumsum([0, *(len(part.columns) for part in self.parts)])
        found: FloatArray = np.prod(
            [
                part.gram(a[:, start:end], b[:, start:end])
                for part, start, end in zip(self.parts, places[:-1], places[1:], strict=True)
            ],
            axis=0,
        )
        return found


def arranged(terms: Sequence[AxisTerm], units: Sequence[Unit]) -> tuple[AxisTerm, ...] | None:
    """The terms with one factor for each unit; None where a factor spans units.

    Factors of one unit are multiplied in products of all factors. Elsewhere they are not one factor
    of a polynomial, and there are no closed forms.
    """
    owner = {int(c): j for j, unit in enumerate(units) for c in unit.columns}
    found = []
    for term in terms:
        own: dict[int, list[Factor]] = {}
        for factor in term.factors:
            places = {owner[c] for c in factor.columns}
            if len(places) != 1:
                return None
            own.setdefault(places.pop(), []).append(factor)
        if len(own) == len(term.factors):
            found.append(term)
            continue
        if term.order != len(term.factors):
            return None
        merged = tuple(_product(parts) for parts in own.values())
        found.append(AxisTerm(term.variance, len(merged), merged))
    return tuple(found)


def _product(parts: list[Factor]) -> Factor:
    """The product of the factors of one unit."""
    if len(parts) == 1:
        return parts[0]
    columns = tuple(column for part in parts for column in part.columns)
    return ProductFactor(columns, parts[0].kernel, parts[0].theta, tuple(parts))
