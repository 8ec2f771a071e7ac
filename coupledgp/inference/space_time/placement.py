"""Where the next sensors of a series go: a sensor reports at all times, from now on.

The law is `cov(f_i(t), f_j(t')) = K_ij k_g(t - t') + [i = j] k_n(t - t')` with noise s: complete,
stationary series, for which frequencies w are independent,

    cov(y_A(w)) = S_g(w) K_AA + (S_n(w) + s) I = S_g(w) (K_AA + r(w) I) ,   r = (S_n + s) / S_g .

So the gain of a sensor is a weighted mean over frequencies of its gain in a model without time
whose noise ratio is `r(w)`. The gain is a smooth function of `log r`: frequencies are gathered into
a few groups of like r. All ratios share the eigenvectors of K, so that a gain is a sum over
eigenvectors: with `K_WW = U diag(l) U'` for W the sensors and V, and `K_SS = Q diag(d) Q'` for the
sensors S,

    Var_r(y_i | y_S) = K_ii + r - sum_j (K_iS q_j)^2 / (d_j + r) ,
    1 / Var_r(y_i | y_(W - i)) = sum_j U_ij^2 / (l_j + r) .
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy import linalg

from coupledgp.errors import InvalidInputError
from coupledgp.ground.memory import check_memory
from coupledgp.inference.nodes.forecast import DENSE_RATE, EIGEN_RATE, EIGEN_WORK, Budget, Forecast
from coupledgp.inference.placement.downdated import Downdated
from coupledgp.inference.placement.greedy import greedy
from coupledgp.inference.placement.objectives import (
    Criterion,
    Information,
    InformationPart,
    MutualInformation,
    MutualPart,
    PlacementObjective,
    ReductionPart,
    VarianceReduction,
)
from coupledgp.inference.placement.result import Placement, check_request, distinct
from coupledgp.inference.space_time.site_base import Sites
from coupledgp.random import FloatArray, IntArray

# Groups of frequencies of like noise ratio.
N_GROUPS = 12
# Ratio of noise to signal beyond which a frequency says nothing of any sensor.
MOST_RATIO = 1e12


@dataclass(frozen=True)
class PlacementSpectra:
    """Spectra of a stationary law at frequencies (F,), in units of y squared.

    Attributes
    ----------
    graph : FloatArray (F,)
        `S_g`, of the terms that sensors share: of mean `sum_c v_c` over all n frequencies.
    own : FloatArray (F,)
        `S_n + s`, of each sensor alone, noise included; positive.
    weights : FloatArray (F,)
        Number of frequencies that each stands for: 2 for those of `rfft`, 1 at its ends.
    """

    graph: FloatArray
    own: FloatArray
    weights: FloatArray

    def __post_init__(self) -> None:
        sizes = {np.shape(x) for x in (self.graph, self.own, self.weights)}
        if len(sizes) != 1 or self.graph.ndim != 1 or not self.graph.size:
            raise InvalidInputError(f"spectra: expected three of one shape (F,), got {sizes}")
        every = np.concatenate([self.graph, self.own, self.weights])
        if not np.isfinite(every).all() or every.min() < 0 or not self.own.min() > 0:
            raise InvalidInputError("spectra: expected finite ones, those of noise above zero")
        if not (self.weights * self.graph).sum() > 0:
            raise InvalidInputError("spectra: expected a part that sensors share, got none")

    def groups(self, n_groups: int = N_GROUPS) -> list[Group]:
        """Groups of frequencies of like ratio, each of the same share of the information."""
        share = self.weights / self.weights.sum()
        ratio = self.own / np.maximum(self.graph, self.own / MOST_RATIO)
        information = share * np.log1p(1.0 / ratio)
        order = np.argsort(ratio)
        place = np.cumsum(information[order]) - 0.5 * information[order]
        number = np.minimum((place / information.sum() * n_groups).astype(np.int64), n_groups - 1)
        found = []
        for k in np.unique(number):
            rows = order[number == k]
            mean = np.exp(np.average(np.log(ratio[rows]), weights=information[rows]))
            amplitude = float(share[rows] @ self.graph[rows])
            found.append(Group(float(mean), float(share[rows].sum()), amplitude))
        return found


@dataclass(frozen=True)
class Group:
    """Frequencies of like noise ratio.

    Attributes
    ----------
    ratio : float
        `r`.
    share : float
        Their share of all frequencies.
    amplitude : float
        Their part of the variance of f, units of y squared.
    """

    ratio: float
    share: float
    amplitude: float


def stationary_placement(
    sites: Sites,
    sensors: IntArray,
    k: int,
    spectra: PlacementSpectra,
    criterion: Criterion = "mutual-information",
    candidates: IntArray | None = None,
    interest: IntArray | None = None,
    lazy: bool = True,
    budget: Budget | None = None,
) -> Placement:
    """Greedy places of k further sensors that report at all times.

    Gains of information are nats for each time step; `variance` and gains of `"total-variance"` are
    those of the shared part of f, smoothed over all times, in units of y squared.

    Parameters
    ----------
    sites
        Covariances between sites.
    sensors
        Distinct sites (p,) that have a sensor; there may be none.
    k
        Number of further sensors.
    spectra
        Spectra of the law.
    criterion
        See `inference.placement.objectives`.
    candidates
        Distinct sites (m,) where sensors may go; None: all without one.
    interest
        Distinct sites (u,) whose values are of interest; None: all for `"total-variance"`, else the
        candidates.
    lazy
        Whether bounds save evaluations.
    budget
        Seconds that the search may take; None: no limit.

    Raises
    ------
    InvalidInputError
        An argument is invalid, or the search takes more seconds than the budget has.
    MemoryLimitError
        The covariances do not fit in memory.
    """
    present = np.unique(sites.checked(sensors)) if len(sensors) else np.empty(0, dtype=np.int64)
    every = np.arange(sites.n_sites)
    open_ = np.setdiff1d(every, present) if candidates is None else sites.checked(candidates)
    open_ = distinct(open_, "candidates")
    both = np.intersect1d(open_, present)
    if both.size:
        raise InvalidInputError(
            f"candidates: expected sites without a sensor, got {both[:3].tolist()} that have one"
        )
    count, criterion = check_request(k, criterion, open_.size)
    if interest is None:
        wanted = every if criterion == "total-variance" else open_
    else:
        wanted = distinct(sites.checked(interest), "interest")
    model = _Stationary(sites, present, np.union1d(open_, wanted), spectra, criterion)
    model.check(open_.size, budget or Budget())
    objective = model.objective(open_, wanted, count)
    chosen = greedy(objective, count, lazy)
    picked = open_[chosen.candidates]
    reason = (
        f"{open_.size} candidates beside {present.size} sensors, sums over eigenvectors at "
        f"{model.n_groups} groups of {spectra.graph.size} frequencies"
    )
    variance = model.variance_along(picked, wanted)
    return Placement.of(chosen, picked, criterion, variance, reason)


class _Stationary:
    """The law of all places, given the sensors, at each group of frequencies."""

    def __init__(
        self,
        sites: Sites,
        sensors: IntArray,
        places: IntArray,
        spectra: PlacementSpectra,
        criterion: Criterion,
    ) -> None:
        self._sites, self._sensors, self._criterion = sites, sensors, criterion
        self._places = places
        self._all = np.union1d(sensors, places)
        self._groups = spectra.groups()
        if criterion != "total-variance":
            self._groups = [group for group in self._groups if group.ratio < MOST_RATIO]

    @property
    def n_groups(self) -> int:
        """Number of groups of frequencies."""
        return len(self._groups)

    def check(self, n_candidates: int, budget: Budget) -> None:
        """Refuse a search beyond the memory or the seconds of the budget, before any work."""
        p, n_groups = self._all.size, len(self._groups)
        matrices = n_groups if self._criterion == "total-variance" else 0
        needed = 8.0 * (5 * p**2 + 2 * matrices * p * n_candidates)
        advice = "give fewer candidates, or fewer nodes of interest"
        check_memory(needed, f"candidates: covariances of {p} places", advice)
        seconds = EIGEN_WORK * p**3 / EIGEN_RATE + matrices * float(p) ** 3 / DENSE_RATE
        seconds += self._sites.forecast(p).seconds
        budget.check(Forecast(seconds, needed), f"the search among {p} places", advice)

    def objective(
        self, candidates: IntArray, interest: IntArray, n_most: int
    ) -> PlacementObjective:
        """The objective, with no candidate chosen."""
        K = self._K = self._sites.gram(self._all)
        here = np.searchsorted(self._all, self._sensors)
        values, vectors = linalg.eigh(K[np.ix_(here, here)])
        self._values = np.maximum(values, 0.0)
        self._turned = vectors.T @ K[here]  # (p, W)
        places = np.searchsorted(self._all, candidates)
        if self._criterion == "total-variance":
            reductions = [self._reduction(group, places) for group in self._groups]
            return VarianceReduction(reductions, places, np.searchsorted(self._all, interest))
        if self._criterion == "variance":
            informations = [
                InformationPart(g.share, self._posterior(g, n_most), np.full(places.size, g.ratio))
                for g in self._groups
            ]
            return Information(informations, places)
        found = linalg.eigh(K)
        U, spectrum = found[1], np.maximum(found[0], 0.0)
        parts = []
        for g in self._groups:
            diagonal = U**2 @ (1.0 / (spectrum + g.ratio))
            rest = Downdated(diagonal, partial(_precision, spectrum, U, g.ratio), n_most)
            parts.append(MutualPart(g.share, self._posterior(g, n_most), rest))
        return MutualInformation(parts, places)

    def variance_along(self, picked: IntArray, interest: IntArray) -> FloatArray:
        """Mean variance (k + 1,) of the shared part over places before and after each sensor."""
        wanted = np.searchsorted(self._all, interest)
        total = np.zeros(picked.size + 1)
        for group in self._groups:
            given = self._posterior(group, picked.size)
            for site in picked:
                given.add(int(np.searchsorted(self._all, site)))
            total += group.amplitude * (given.along(wanted).mean(axis=1) - group.ratio)
        return total

    def _posterior(self, group: Group, n_most: int) -> Downdated:
        """Variances of observations given the sensors and further ones, over `S_g`."""
        r = group.ratio
        return Downdated(self._diagonal(r), partial(self._column, r), n_most, r)

    def _diagonal(self, ratio: float) -> FloatArray:
        """`Var(y_i | y_S)` (p,) of all places over `S_g`, noise included."""
        explained = (self._turned**2 / (self._values + ratio)[:, None]).sum(axis=0)
        return np.maximum(np.diagonal(self._K) - explained, 0.0) + ratio

    def _column(self, ratio: float, j: int) -> FloatArray:
        """Column j (p,) of the covariance of f given the sensors, over `S_g`."""
        scaled = self._turned[:, j] / (self._values + ratio)
        column: FloatArray = self._K[:, j] - self._turned.T @ scaled
        return column

    def _reduction(self, group: Group, places: IntArray) -> ReductionPart:
        scaled = self._turned[:, places] / (self._values + group.ratio)[:, None]
        cross = self._K[:, places] - self._turned.T @ scaled
        return ReductionPart(group.amplitude, cross, self._diagonal(group.ratio)[places])


def _precision(values: FloatArray, vectors: FloatArray, ratio: float, j: int) -> FloatArray:
    """Column j (p,) of `(K + r I)^-1`."""
    column: FloatArray = vectors @ (vectors[j] / (values + ratio))
    return column
