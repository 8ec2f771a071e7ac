"""Objectives of sensors at candidate places, from the covariance of f given all data so far.

With the covariance C of f, noise variances s and chosen candidates A:

* `"variance"`: `F(A) = 1/2 log |I + S_A^-1 C_AA|`, the information of the observations about f. A
  greedy step takes the candidate of greatest variance relative to its noise. Monotone, submodular.
* `"mutual-information"`: `F(A) = I(y_A; y_(V - A))` with V the candidates and the places of
  interest. A greedy step takes the greatest `1/2 log(Var(y_i | y_A) / Var(y_i | y_(V - A - i)))`.
  Submodular, and monotone up to a small error as long as A is below half of V (Krause, Singh and
  Guestrin, 2008).
* `"total-variance"`: `F(A) = sum_u Var(f_u) - Var(f_u | y_A)` over the places of interest. Not
  submodular in general, so that gains may rise and bounds are not at hand.

Of several parts with weights the objective is the weighted sum: frequencies of stationary series.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
from scipy import linalg

from coupledgp.inference.placement.downdated import Downdated
from coupledgp.linalg.matrices import covariance_factor
from coupledgp.random import FloatArray, IntArray

Criterion: TypeAlias = Literal["variance", "total-variance", "mutual-information"]
CRITERIA: tuple[Criterion, ...] = ("variance", "total-variance", "mutual-information")


class PlacementObjective(ABC):
    """A function F of sets A of candidates, and A itself, which grows.

    Attributes
    ----------
    n_candidates : int
        Number m of candidates.
    is_submodular : bool
        Whether the gain of a candidate never rises as A grows.
    """

    n_candidates: int
    is_submodular: bool

    @abstractmethod
    def gains(self, which: IntArray) -> FloatArray:
        """`F(A + i) - F(A)` of candidates i that are not in A, (m,)."""

    @abstractmethod
    def add(self, candidate: int) -> None:
        """Add a candidate to A."""


class InformationPart(NamedTuple):
    """A part of the information about f.

    Attributes
    ----------
    weight : float
    given : Downdated
        Variances of observations y of all places, given those of A.
    noise : FloatArray (m,)
        Noise variances of the candidates.
    """

    weight: float
    given: Downdated
    noise: FloatArray


class Information(PlacementObjective):
    """`sum_q w_q 1/2 log |I + S_A^-1 C_q,AA|`.

    Parameters
    ----------
    parts
        The parts q.
    places
        Place of each candidate (m,).
    """

    is_submodular = True

    def __init__(self, parts: list[InformationPart], places: IntArray) -> None:
        self._parts, self._places, self.n_candidates = parts, places, places.size

    def gains(self, which: IntArray) -> FloatArray:
        total = np.zeros(which.size)
        for weight, given, noise in self._parts:
            ratio = given.values(self._places[which]) / noise[which]
            total += 0.5 * weight * np.log(np.maximum(ratio, 1.0))
        return total

    def add(self, candidate: int) -> None:
        for part in self._parts:
            part.given.add(int(self._places[candidate]))


class MutualPart(NamedTuple):
    """A part of the mutual information.

    Attributes
    ----------
    weight : float
    given : Downdated
        Variances of observations y of the places V, given those of A.
    rest : Downdated
        Diagonal of the precision of the observations of V without A.
    """

    weight: float
    given: Downdated
    rest: Downdated


class MutualInformation(PlacementObjective):
    """`sum_q w_q I_q(y_A; y_(V - A))`; parameters as of `Information`, places of V."""

    is_submodular = True

    def __init__(self, parts: list[MutualPart], places: IntArray) -> None:
        self._parts, self._places, self.n_candidates = parts, places, places.size

    def gains(self, which: IntArray) -> FloatArray:
        total, places = np.zeros(which.size), self._places[which]
        for weight, given, rest in self._parts:
            ratio = given.values(places) * rest.values(places)
            total += 0.5 * weight * np.log(np.maximum(ratio, np.finfo(float).tiny))
        return total

    def add(self, candidate: int) -> None:
        place = int(self._places[candidate])
        for part in self._parts:
            part.given.add(place)
            part.rest.add(place)


class ReductionPart(NamedTuple):
    """A part of the reduction of variance.

    Attributes
    ----------
    weight : float
    cross : FloatArray (p, m)
        Covariances of f between all places and the candidates given A, overwritten.
    observed : FloatArray (m,)
        Variances of observations of the candidates given A, overwritten.
    """

    weight: float
    cross: FloatArray
    observed: FloatArray


class VarianceReduction(PlacementObjective):
    """`sum_q w_q sum_u Var_q(f_u) - Var_q(f_u | y_A)` over places of interest u.

    Parameters
    ----------
    parts
        The parts q.
    places
        Place of each candidate (m,).
    interest
        Places of interest (u,).
    """

    is_submodular = False

    def __init__(self, parts: list[ReductionPart], places: IntArray, interest: IntArray) -> None:
        self._parts, self._places, self.n_candidates = parts, places, places.size
        self._interest = interest

    def gains(self, which: IntArray) -> FloatArray:
        total = np.zeros(which.size)
        for weight, cross, observed in self._parts:
            wanted = cross[np.ix_(self._interest, which)]
            total += weight * np.einsum("ij,ij->j", wanted, wanted) / observed[which]
        return total

    def add(self, candidate: int) -> None:
        for _, cross, observed in self._parts:
            column = cross[:, candidate].copy()
            own = column[self._places]
            divisor = float(observed[candidate])
            cross -= np.outer(column, own / divisor)
            observed -= own**2 / divisor
            observed[candidate] = np.inf  # it is in A


def objective_of(
    criterion: Criterion,
    C: FloatArray,
    noise: FloatArray,
    candidates: IntArray,
    interest: IntArray,
    n_most: int,
) -> PlacementObjective:
    """The objective of a criterion for one covariance matrix.

    Parameters
    ----------
    criterion
        See the module.
    C
        Covariance (p, p) of f at all places given the data so far.
    noise
        Noise variances (p,) of an observation at each place, positive.
    candidates, interest
        Distinct numbers of places, (m,) and (u,).
    n_most
        Largest number of candidates that will be chosen.
    """
    if criterion == "total-variance":
        observed = np.diagonal(C)[candidates] + noise[candidates]
        part = ReductionPart(1.0, C[:, candidates].copy(), observed)
        return VarianceReduction([part], candidates, interest)
    if criterion == "variance":
        given = given_members(C, noise, n_most)
        return Information([InformationPart(1.0, given, noise[candidates])], candidates)
    V = np.union1d(candidates, interest)
    covariance = C[np.ix_(V, V)]
    covariance[np.diag_indices_from(covariance)] += noise[V]
    ratio = float(noise.min()) / max(float(np.diagonal(C).max()), np.finfo(float).tiny)
    precision = linalg.cho_solve(covariance_factor(covariance, ratio), np.eye(V.size))
    given = given_members(C[np.ix_(V, V)], noise[V], n_most)
    rest = Downdated(np.diagonal(precision).copy(), lambda j: precision[:, j], n_most)
    return MutualInformation([MutualPart(1.0, given, rest)], np.searchsorted(V, candidates))


def given_members(C: FloatArray, noise: FloatArray, n_most: int) -> Downdated:
    """Variances of observations at all places given the members' observations.

    Parameters
    ----------
    C
        Covariance (p, p) of f.
    noise
        Noise variances (p,).
    n_most
        Largest number of members.
    """
    return Downdated(np.diagonal(C) + noise, lambda j: C[:, j], n_most, noise)
