"""Effects of any process by averages over points of the product of laws, of drawn functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, TypeAlias

import numpy as np

from coupledgp.diagnostics.effects.units import Unit, product_sample, rows_of
from coupledgp.random import FloatArray, IntArray

# Points over which an effect averages, and points of the estimates of shares of variance.
AVERAGED, SAMPLE = 64, 512

Samples: TypeAlias = tuple[list[IntArray], list[IntArray]]


def two_samples(units: Sequence[Unit], seed: int) -> Samples:
    """Places of samples A and B, two halves of the columns of one Sobol sequence."""
    places = product_sample([*units, *units], SAMPLE, np.random.default_rng([seed, 1]))
    return places[: len(units)], places[len(units) :]


@dataclass(frozen=True, eq=False)
class SampledPosterior:
    """A posterior that is known by its mean and by functions drawn from it.

    Variances are estimated from two independent samples A and B of the product of laws (Saltelli
    and others, 2010; Jansen, 1999). With f centred and `f_S` the function at A with S from B,

        V_S = E f(B) (f_S - f(A)) ,   T_j = E (f(A) - f_j)^2 / 2 .

    Attributes
    ----------
    mean : callable
        Means (p, k) at rows (p, D), units of y.
    functions : callable
        Values (p, k, S) of drawn functions at rows (p, D).
    n_columns : int
        Number D of columns.
    units : tuple of Unit
        All parts of the table.
    seed : int
        Seed of the errors of estimates.
    samples : tuple of two lists of IntArray
        Places of the samples A and B in the laws of the units.
    """

    mean: Callable[[FloatArray], FloatArray]
    functions: Callable[[FloatArray], FloatArray]
    n_columns: int
    units: tuple[Unit, ...]
    seed: int
    samples: Samples
    method: ClassVar[str] = "averages over sampled rows"

    def main(self, place: int, points: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Means (g, k) and draws (g, k, S) of the main effect of a unit at its points (g, c)."""
        base = rows_of(self.units, [own[:AVERAGED] for own in self.samples[0]], self.n_columns)
        rows = np.tile(base, (len(points), 1))
        rows[:, self.units[place].columns] = np.repeat(points, AVERAGED, axis=0)
        means, draws = (
            values.reshape(len(points), AVERAGED, *values.shape[1:]).mean(axis=1)
            for values in (self.mean(rows), self.functions(rows))
        )
        # The same rows state the average over all parts, so that much of their error cancels.
        middle, own = self._middle
        return means - middle, draws - own

    @cached_property
    def _middle(self) -> tuple[FloatArray, FloatArray]:
        """Averages (k,) of means and (k, S) of drawn functions over the product of laws."""
        base = rows_of(self.units, [own[:AVERAGED] for own in self.samples[0]], self.n_columns)
        return self.mean(base).mean(axis=0), self.functions(base).mean(axis=0)

    def _at(self, exchanged: tuple[int, ...]) -> FloatArray:
        """Values (N, k, S) at A with some units from B."""
        first, second = self.samples
        places: list[Any] = [second[j] if j in exchanged else own for j, own in enumerate(first)]
        return self.functions(rows_of(self.units, places, self.n_columns))

    @cached_property
    def _ends(self) -> tuple[FloatArray, FloatArray]:
        """Values (N, k, S) at A and at B."""
        return self._at(()), self._at(tuple(range(len(self.units))))

    @cached_property
    def _singles(self) -> dict[int, FloatArray]:
        return {}

    def _single(self, place: int) -> FloatArray:
        if place not in self._singles:
            self._singles[place] = self._at((place,))
        return self._singles[place]

    def variance(self) -> FloatArray:
        """Variances (k, S) of drawn functions under the product of the laws."""
        return np.concatenate(self._ends).var(axis=0)

    def _estimate(self, terms: FloatArray, key: tuple[int, ...]) -> FloatArray:
        """Means (k, S) of terms (N, k, S), with a draw of their error by a key.

        The error is that of independent points, which those of a Sobol sequence seldom exceed.
        """
        rng = np.random.default_rng([self.seed, 5, *key])
        error = terms.std(axis=0) / np.sqrt(len(terms))
        drawn: FloatArray = terms.mean(axis=0) + error * rng.standard_normal(error.shape)
        return drawn

    def _closed(self, exchanged: tuple[int, ...]) -> FloatArray:
        """Terms (N, k, S) of the variance of all effects within some units."""
        values = self._single(*exchanged) if len(exchanged) == 1 else self._at(exchanged)
        at_first, at_second = self._ends
        middle = np.concatenate(self._ends).mean(axis=0)
        terms: FloatArray = (at_second - middle) * (values - at_first)
        return terms

    def first(self, place: int) -> FloatArray:
        """Variances (k, S) of the main effect of a unit."""
        return self._estimate(self._closed((place,)), (0, place))

    def total(self, place: int) -> FloatArray:
        """Variances (k, S) of what hangs on a unit, alone or with others."""
        squares = np.square(self._ends[0] - self._single(place))
        return self._estimate(0.5 * squares, (1, place))

    def pair(self, first: int, second: int) -> FloatArray:
        """Variances (k, S) of the interaction of two units."""
        alone = self._closed((first,)) + self._closed((second,))
        return self._estimate(self._closed((first, second)) - alone, (2, first, second))
