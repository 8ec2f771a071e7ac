"""Scores of sensors: what each sensor's own series tells of its coefficients of known columns.

A sensor's series is `y_i = Z_i theta_i + e_i` where it was observed, e a space-time law with
`V_ij = G_ij sum_graph v_c k_c + [i = j] D_i (sum_node v_c k_c + s I)`. With `W_i = V_ii^-1 Z_i`,
found by a filter that passes over the gaps,

    s_i = W_i'y_i = (W_i'Z_i) theta_i + W_i'e_i ,   cov(W_i'e_i, W_j'e_j) = W_i'V_ij W_j .

These are the generalised least squares of each series alone with the exact covariance of their
errors; for columns that all sensors share, complete data and a law `G (x) k` they are those of all
series together (Zellner 1962). Scores are turned to unit variance, and directions that a sensor
has no information of are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coupledgp.inference.space_time.filters import SeriesFilter, Term
from coupledgp.random import FloatArray, IntArray

# Share of a sensor's largest information below which a direction counts as unknown.
LEAST_INFORMATION = 1e-8


@dataclass(frozen=True, eq=False)
class SensorLaw:
    """A space-time law of sensors at times, in normalised units.

    Attributes
    ----------
    terms : tuple of Term
        Variances and kernels of time.
    noise : float
        s.
    gram : FloatArray (p, p)
        G.
    roots : FloatArray (p,)
        Square roots of D.
    times : FloatArray (n,)
        Rising times.
    """

    terms: tuple[Term, ...]
    noise: float
    gram: FloatArray
    roots: FloatArray
    times: FloatArray

    def of(self, rows: IntArray) -> SensorLaw:
        """The law of some sensors."""
        return SensorLaw(
            self.terms, self.noise, self.gram[np.ix_(rows, rows)], self.roots[rows], self.times
        )


@dataclass(frozen=True, eq=False)
class SensorScores:
    """Scores of all sensors one below another, of variance one each.

    Attributes
    ----------
    values : FloatArray (N,)
        Scores.
    covariance : FloatArray (N, N)
        Covariance of their errors.
    sensors : IntArray (N,)
        Row of the sensor of each.
    designs : FloatArray (N, k)
        Expected scores are those of a sensor's coefficients: `designs[r] @ theta[sensors[r]]`.
    """

    values: FloatArray
    covariance: FloatArray
    sensors: IntArray
    designs: FloatArray

    @classmethod
    def of(
        cls, law: SensorLaw, values: FloatArray, observed: NDArray[np.bool_], columns: FloatArray
    ) -> SensorScores:
        """Scores of values (p, n) for columns (k, p or 1, n)."""
        p, n = values.shape
        Z = np.broadcast_to(columns, (len(columns), p, n))
        W = _weights(law, np.where(observed, Z, 0.0), observed)
        known = np.where(observed, values, 0.0)
        scores = np.einsum("kit,it->ik", W, known)
        information = np.einsum("kit,lit->ikl", W, np.where(observed, Z, 0.0))
        turns, designs, rows = [], [], []
        for i, square in enumerate(information):
            size = np.sqrt(np.maximum(square.diagonal(), 0.0))
            inverse = np.divide(1.0, size, out=np.zeros_like(size), where=size > 0)
            found, vectors = np.linalg.eigh(square * np.outer(inverse, inverse))
            kept = found > LEAST_INFORMATION * max(found[-1], 1e-300)
            turn = (vectors[:, kept] / np.sqrt(found[kept])).T * inverse
            turns.append(turn)
            designs.append(turn @ square)
            rows.append(np.full(len(turn), i))
        covariance = _errors(law, W, turns)
        whole = [turn @ score for turn, score in zip(turns, scores, strict=True)]
        return cls(np.concatenate(whole), covariance, np.concatenate(rows), np.concatenate(designs))


def _weights(law: SensorLaw, Z: FloatArray, observed: NDArray[np.bool_]) -> FloatArray:
    """`V_ii^-1 Z_i` (k, p, n), zero in gaps; sensors with the same gaps are solved for together."""
    out = np.zeros(Z.shape)
    squares = law.roots**2
    groups: dict[bytes, list[int]] = {}
    for i, there in enumerate(observed):
        groups.setdefault(there.tobytes(), []).append(i)
    for members in groups.values():
        rows, there = np.array(members), observed[members[0]]
        if not there.any():
            continue
        eigenvalues = law.gram.diagonal()[rows] / squares[rows]
        series = SeriesFilter(law.terms, law.noise, eigenvalues, law.times, there)
        out[:, rows] = series.solve(Z[:, rows]) / squares[rows, None]
    return out


def _errors(law: SensorLaw, W: FloatArray, turns: list[FloatArray]) -> FloatArray:
    """Covariance (N, N) of the errors of turned scores: one within a sensor."""
    graph = tuple(c for c, term in enumerate(law.terms) if term.where == "graph")
    ends = np.cumsum([0, *(len(turn) for turn in turns)])
    rows = np.concatenate([turn @ W[:, i] for i, turn in enumerate(turns)])
    found = np.zeros((len(rows), len(rows)))
    if graph:
        series = SeriesFilter(law.terms, law.noise, np.ones(1), law.times)
        owner = np.repeat(np.arange(len(turns)), np.diff(ends))
        found = (rows @ series.product(graph, rows).T) * law.gram[np.ix_(owner, owner)]
        found = (found + found.T) / 2
    for first, last in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        found[first:last, first:last] = np.eye(last - first)
    return found
