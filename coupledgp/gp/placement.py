"""Where the next sensors of a fitted process go.

The covariance of f given the data does not depend on the values that were observed, so that further
places are chosen before anything is measured there. Up to some thousands of places this covariance
is formed. On larger graphs a greedy search by variance computes one column for each sensor. A
search by total variance ranks candidates by random products with the covariance, and compares the
best by their columns.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

import numpy as np

from coupledgp.gp.mixture import MixtureGP
from coupledgp.gp.nodes import NodeGP
from coupledgp.gp.protocol import GaussianProcess, Points
from coupledgp.ground.memory import check_memory
from coupledgp.ground.progress import Progress, silent
from coupledgp.inference.nodes.forecast import DENSE_RATE, Budget, Forecast
from coupledgp.inference.placement.downdated import Downdated
from coupledgp.inference.placement.greedy import TIE, GreedySet, greedy
from coupledgp.inference.placement.objectives import (
    Criterion,
    Information,
    InformationPart,
    given_members,
    objective_of,
)
from coupledgp.inference.placement.result import Placement
from coupledgp.random import FloatArray, IntArray

# Places whose covariance is formed where there is another way, and places of a sample where there
# is none and nobody named them.
FORMED_PLACES, SAMPLED_PLACES = 4096, 2048
# Seconds that a search may take without a budget.
PATIENCE = 600.0
# Matrices of the size of the covariance that a search keeps.
MATRICES = 6
# Places of whose covariance the seconds of a column are measured, and from how many places on.
MEASURED, MEASURED_FROM = 32, 600
# Columns of a large graph whose seconds are measured together.
MEASURED_TOGETHER = 8
# Random products by which candidates are ranked by total variance, and candidates that are compared
# by their columns in each step.
N_PROBES, N_COMPARED = 64, 16


@dataclass(frozen=True)
class Places:
    """Places that take part in a search.

    Attributes
    ----------
    points : Points (p, ...)
        Points of the process.
    candidates, interest : IntArray (m,), (u,)
        Numbers of rows of `points`, distinct and rising.
    are_named : bool
        Whether the user named these candidates or places of interest; otherwise a random sample may
        stand for all.
    """

    points: Points
    candidates: IntArray
    interest: IntArray
    are_named: bool = True

    def used(self) -> Places:
        """The same places without points that are neither candidates nor of interest."""
        both = np.union1d(self.candidates, self.interest)
        places = np.searchsorted(both, self.candidates), np.searchsorted(both, self.interest)
        return Places(self.points[both], *places, self.are_named)


def next_places(
    process: GaussianProcess,
    places: Places,
    k: int,
    criterion: Criterion,
    budget: Budget,
    seed: int = 0,
    report: Progress = silent,
) -> Placement:
    """Greedy choice of k further places, whose `nodes` are rows of `places.points`.

    Parameters
    ----------
    process
        The process given the data so far; of a mixture the covariance of its law is taken.
    places
        Points, candidates and places of interest.
    k
        Number of places, at most as many as there are candidates.
    criterion
        See `inference.placement.objectives`.
    budget
        Seconds that the search may take; without one, `PATIENCE`.
    seed
        Seed of the sample of candidates and of random products, where there are any.
    report
        Progress.

    Raises
    ------
    InvalidInputError
        The search takes more seconds by forecast.
    MemoryLimitError
        The covariance does not fit in memory.
    """
    limit = Budget(budget.seconds or PATIENCE, budget.bytes)
    rows, used = np.union1d(places.candidates, places.interest), places.used()
    if rows.size > FORMED_PLACES:
        columns = _Columns.of(process)
        if columns is not None and criterion != "mutual-information":
            return _by_columns(columns, used, k, criterion, limit, seed, rows)
        if not places.are_named:
            sample = _sampled(places, max(SAMPLED_PLACES, 2 * k), seed)
            every = np.arange(sample.size)
            part = Places(places.points[sample], every, every)
            found = _formed(process, part, k, criterion, limit, report, sample)
            return replace(found, reason=f"{found.reason}, a sample of {len(rows)} places")
    return _formed(process, used, k, criterion, limit, report, rows)


def _sampled(places: Places, count: int, seed: int) -> IntArray:
    """Rows (m,) of a random sample of the candidates, in rising order."""
    rng = np.random.default_rng(seed)
    size = min(count, places.candidates.size)
    return np.sort(rng.choice(places.candidates, size, replace=False))


def _column_seconds(process: GaussianProcess, points: Points) -> float:
    """Seconds of a column of the covariance of f at points, measured on `MEASURED` points."""
    few = points[np.linspace(0, len(points) - 1, MEASURED).astype(np.int64)]
    process.law(few, "covariance", latent=True)  # the first call also computes factors
    start = time.perf_counter()
    process.law(few, "covariance", latent=True)
    return (time.perf_counter() - start) / MEASURED


def _formed(
    process: GaussianProcess,
    places: Places,
    k: int,
    criterion: Criterion,
    limit: Budget,
    report: Progress,
    names: IntArray,
) -> Placement:
    """The search with the covariance of all places as a matrix."""
    p = len(places.points)
    advice = (
        "give fewer candidates or places of interest, a larger budget, or on a graph "
        "criterion='variance'"
    )
    needed = 8.0 * (MATRICES + process.units.n_outputs) * p**2
    subject = f"the covariance of {p} places"
    check_memory(needed, f"candidates: {subject}", advice)
    seconds = 4.0 * p**3 / DENSE_RATE
    if p > MEASURED_FROM:
        seconds += p * _column_seconds(process, places.points)
    limit.check(Forecast(seconds, needed), subject, advice)
    C, noise, unit = _covariance(process, places.points, report)
    variances = np.full(p, noise)
    objective = objective_of(criterion, C, variances, places.candidates, places.interest, k)
    report(f"{k} of {places.candidates.size} candidates")
    chosen = greedy(objective, k)
    picked = places.candidates[chosen.candidates]
    given = given_members(C, variances, k)
    for place in picked:
        given.add(int(place))
    variance = unit * (given.along(places.interest).mean(axis=1) - noise)
    if criterion == "total-variance":
        chosen = chosen._replace(gains=unit * chosen.gains)
    reason = f"{places.candidates.size} candidates, by the covariance of {p} places"
    return Placement.of(chosen, names[picked], criterion, variance, reason)


def _covariance(
    process: GaussianProcess, points: Points, report: Progress
) -> tuple[FloatArray, float, float]:
    """Covariance (p, p) of f and noise variance, normalised, and the mean unit of variances."""
    spread = process.law(points, "covariance", latent=True, report=report).spread
    assert spread is not None
    squares = process.units.scale**2
    return (spread / squares).mean(axis=2), noise_of(process), float(squares.mean())


def noise_of(process: GaussianProcess) -> float:
    """Noise variance of an observation, normalised; of a mixture the mean of its members'."""
    if isinstance(process, MixtureGP):
        each = [member.noise.variance for member in process.members]
        return float(process.weights @ np.array(each))
    return float(process.noise.variance)


@dataclass(frozen=True)
class _Columns:
    """Products with the covariance of f at nodes of a large graph, normalised.

    Attributes
    ----------
    members : list of NodeGP
        Members of a mixture, or the process alone.
    weights : FloatArray (K,)
        Their weights.
    process : GaussianProcess
        The process.
    """

    members: list[NodeGP]
    weights: FloatArray
    process: GaussianProcess

    @classmethod
    def of(cls, process: GaussianProcess) -> _Columns | None:
        """The products of a process on a graph; None for another one."""
        if isinstance(process, NodeGP):
            return cls([process], np.ones(1), process)
        if isinstance(process, MixtureGP):
            members = [member for member in process.members if isinstance(member, NodeGP)]
            if len(members) == len(process.members):
                return cls(members, process.weights, process)
        return None

    def variances(self, nodes: IntArray) -> FloatArray:
        """Variances (p,) of f; estimates if the process samples its variances."""
        spread = self.process.law(nodes, "variance", latent=True).spread
        assert spread is not None
        return np.asarray((spread / self.process.units.scale**2).mean(axis=1))

    def product(self, out: IntArray, into: IntArray, V: FloatArray) -> FloatArray:
        """`C[out, into] V`, (len(out), k)."""
        total = np.zeros((out.size, V.shape[1]))
        for weight, member in zip(self.weights, self.members, strict=True):
            total += weight * member.posterior.covariance_product(out, into, V)
        if len(self.members) > 1:
            center = self.process.law(np.concatenate([out, into]), "mean").mean
            for weight, member in zip(self.weights, self.members, strict=True):
                mean = member.law(np.concatenate([out, into]), "mean").mean
                gaps = (mean - center) / self.process.units.scale
                here, there = gaps[: out.size], gaps[out.size :]
                total += weight * (here @ (there.T @ V)) / gaps.shape[1]
        return total

    def columns(self, out: IntArray, into: IntArray) -> FloatArray:
        """`C[out, into]`, (len(out), len(into))."""
        return self.product(out, into, np.eye(into.size))

    def seconds(self, nodes: IntArray, width: int) -> float:
        """Seconds of a column among `width` that are computed together, measured on these."""
        self.columns(nodes, nodes[:1])  # the first call also computes factors
        start = time.perf_counter()
        self.columns(nodes, nodes[:width])
        return (time.perf_counter() - start) / width


def _by_columns(
    columns: _Columns,
    places: Places,
    k: int,
    criterion: Criterion,
    limit: Budget,
    seed: int,
    names: IntArray,
) -> Placement:
    """The search by variance or total variance with columns of the covariance."""
    nodes = places.points
    each = 1 if criterion == "variance" else N_COMPARED + 1
    n_columns = each * k + (0 if criterion == "variance" else N_PROBES)
    advice = "ask for fewer sensors, give fewer candidates, or a larger budget"
    needed = 8.0 * nodes.size * (3.0 * k + 4 * N_PROBES)
    subject = f"{n_columns} columns of the covariance of {nodes.size} nodes"
    check_memory(needed, f"candidates: {subject}", advice)
    seconds = n_columns * columns.seconds(nodes, min(each, MEASURED_TOGETHER))
    limit.check(Forecast(seconds, needed), subject, advice)
    noise, unit = noise_of(columns.process), float((columns.process.units.scale**2).mean())
    diagonal = columns.variances(nodes) + noise

    def column(j: int) -> FloatArray:
        return columns.columns(nodes, nodes[j : j + 1])[:, 0]

    given = Downdated(diagonal, column, k, noise)
    if criterion == "variance":
        part = InformationPart(1.0, given, np.full(places.candidates.size, noise))
        chosen = greedy(Information([part], places.candidates), k)
        exact = 0.5 * np.log(np.maximum(given.pivots / noise, 1.0))
        bound = max(chosen.bound, float(exact.sum()))
        chosen = chosen._replace(gains=exact, bound=bound)
        reason = f"{places.candidates.size} candidates, a column of the covariance for each sensor"
    else:
        chosen = _ranked(columns, places, given, noise, k, seed)
        chosen = chosen._replace(gains=unit * chosen.gains)
        reason = (
            f"{places.candidates.size} candidates, ranked by {N_PROBES} random products, the best "
            f"{N_COMPARED} compared in each step"
        )
    picked = places.candidates[chosen.candidates]
    variance = unit * (given.along(places.interest).mean(axis=1) - noise)
    return Placement.of(chosen, names[picked], criterion, variance, reason)


def _ranked(
    columns: _Columns, places: Places, given: Downdated, noise: float, k: int, seed: int
) -> GreedySet:
    """Greedy choice by total variance, of candidates that random products rank highest.

    `|C_Ui|^2` is the mean of `(z' C_Ui)^2` over random signs z, of relative error
    `sqrt(2 / N_PROBES)`.
    """
    nodes, own = places.points, places.candidates
    wanted = nodes[places.interest]
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], (wanted.size, N_PROBES))
    probes = columns.product(nodes[own], wanted, signs)
    roots = np.zeros((nodes.size, k))
    free, chosen, gains = np.ones(own.size, dtype=bool), [], []
    for step in range(k):
        observed = np.maximum(given.values(own), noise)
        score = np.where(free, (probes**2).mean(axis=1) / observed, -np.inf)
        best = np.sort(np.argsort(-score, kind="stable")[: min(N_COMPARED, int(free.sum()))])
        found = columns.columns(nodes, nodes[own[best]])
        found -= roots[:, :step] @ roots[own[best], :step].T
        divisors = found[own[best], np.arange(best.size)] + noise
        worth = (found[places.interest] ** 2).sum(axis=0) / divisors
        place = int(np.argmax(worth >= (1.0 - TIE) * worth.max()))
        pick = int(best[place])
        chosen.append(pick)
        gains.append(float(worth[place]))
        free[pick] = False
        given.add(int(own[pick]))
        roots[:, step] = found[:, place] / np.sqrt(divisors[place])
        pulled = roots[places.interest, step] @ signs
        probes -= np.outer(roots[own, step], pulled)
    return GreedySet(np.array(chosen), np.array(gains), np.inf, k * N_COMPARED)
