"""Variances of what days share, and the means that they make.

Harmonics of D days are `a ~ N(mu 1, V)`, `V = sum_j v_j C_j` with matrices C_j of days that share a
part. mu is zero, or has a flat prior. Variances have the greatest (restricted) likelihood. The mean
of a day given the other days is `a_d - (P a)_d / P_dd`, its variance `1 / P_dd - s` (Dubrule 1983);
that of a further day is its regression on all days.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import minimize

from coupledgp.linalg.matrices import positive_inverse
from coupledgp.random import FloatArray, IntArray

# Bounds of logarithms of variances in units of the mean variance of an observation.
LIMITS = (-12.0, 3.0)


# Kinds of days, in the order of their numbers, and of the parts of the variance.
KINDS = ("working day", "weekend", "holiday")
PARTS = ("all days", "kind of day", "weekday", "day itself")


@dataclass(frozen=True, eq=False)
class DayMoments:
    """Variances of the bands, and the linear laws that they make.

    Attributes
    ----------
    same : FloatArray (4, D, D)
        Matrices C of the parts in the order of `PARTS`.
    variances : FloatArray (n_bands, 4)
        Variance of each part in each band.
    """

    same: FloatArray
    variances: FloatArray

    @cached_property
    def precisions(self) -> list[FloatArray]:
        """P (D, D) of each band."""
        ones = np.ones(self.same.shape[1])
        return [
            precision_of(np.tensordot(v, self.same, axes=1), ones if b == 0 else None)[0]
            for b, v in enumerate(self.variances)
        ]

    def left_out(self) -> tuple[FloatArray, FloatArray]:
        """Weights (n_bands, D, D) of the days in each one's mean, and its variance (n_bands, D)."""
        weights, spread = [], []
        for P, v in zip(self.precisions, self.variances, strict=True):
            diagonal = np.maximum(P.diagonal(), 1e-300)
            weight = -P / diagonal[:, None]
            np.fill_diagonal(weight, 0.0)
            weights.append(weight)
            spread.append(np.maximum(1.0 / diagonal - v[3], 0.0))
        return np.array(weights), np.array(spread)

    def further(self, alike: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Weights (n_bands, D) of the days in the mean of a further one, its variance (n_bands,).

        `alike` (4, D) tells whether its parts are those of each day; the last row is zero.
        """
        weights, spread = [], []
        for b, v in enumerate(self.variances):
            V = np.tensordot(v, self.same, axes=1)
            inverse = np.linalg.inv(V)
            k = v @ alike
            own = float(v[:3].sum())
            weight = inverse @ k
            variance = own - float(k @ weight)
            if b == 0:
                ones = inverse.sum(axis=1)
                lacking = 1.0 - float(weight.sum())
                weight = weight + ones * lacking / ones.sum()
                variance += lacking**2 / float(ones.sum())
            weights.append(weight)
            spread.append(max(variance, 0.0))
        return np.array(weights), np.array(spread)


def parts_of_days(dates: IntArray, holidays: IntArray) -> FloatArray:
    """Matrices (4, D, D) of days that share a part: all, the kind, the weekday, the day itself."""
    kinds, weekdays = kinds_of(dates, holidays), weekdays_of(dates)
    return np.array([
        np.ones((dates.size, dates.size)),
        kinds[:, None] == kinds,
        weekdays[:, None] == weekdays,
        np.eye(dates.size),
    ], dtype=np.float64)  # fmt: skip


def weekdays_of(dates: IntArray) -> IntArray:
    """Days of the week (D,) of days since 1970, Monday is 0."""
    return np.asarray((dates + 3) % 7)


def kinds_of(dates: IntArray, holidays: IntArray) -> IntArray:
    """Kinds (D,) of days since 1970, as numbers in `KINDS`."""
    return np.where(np.isin(dates, holidays), 2, (weekdays_of(dates) >= 5).astype(np.int64))


def distinct_parts(same: FloatArray, *, flat: bool) -> list[int]:
    """Numbers of the parts whose matrices differ, the day itself last.

    With an unknown mean, matrices are compared after it is projected out, and that of all days is
    none. A part that is a multiple of another one adds nothing.
    """
    D = same.shape[1]
    project = np.eye(D) - 1.0 / D if flat else np.eye(D)
    seen = [project @ same[3] @ project]
    found = []
    for j in range(3):
        matrix = project @ same[j] @ project
        size = np.linalg.norm(matrix)
        if size <= 1e-9 * D:
            continue
        if any(abs((matrix * other).sum()) >= (1 - 1e-9) * size * np.linalg.norm(other)
               for other in seen):  # fmt: skip
            continue
        seen.append(matrix)
        found.append(j)
    return [*found, 3]


def fitted_variances(M: FloatArray, same: FloatArray, *, flat: bool) -> FloatArray:
    """Variances (4,) of the parts of greatest (restricted) likelihood of mean squares M (D, D)."""
    out = np.zeros(4)
    D = len(M)
    level = float(np.trace(M)) / D
    if flat:
        level -= float(M.sum()) / D**2
    if not level > 0.0:
        out[3] = 1.0
        return out
    chosen = distinct_parts(same, flat=flat)
    parts, scaled = same[chosen], M / level

    start = np.full(len(chosen), np.log(1.0 / len(chosen)))
    free = np.ones(D) if flat else None
    best = minimize(
        lambda logs: variance_loss(logs, parts, scaled, free), start, jac=True,
        bounds=[LIMITS] * len(parts), method="L-BFGS-B",
    )  # fmt: skip
    out[chosen] = level * np.exp(best.x)
    return out


def precision_of(V: FloatArray, free: FloatArray | None) -> tuple[FloatArray, float]:
    """P of a covariance (D, D), and `log|V|`, with `log X'V^-1 X` of a free column X (D,)."""
    inverse, logs = positive_inverse(V, "variances of effects: the covariance")
    if free is not None:
        solved = inverse @ free
        size = float(free @ solved)
        logs += float(np.log(size))
        inverse = inverse - np.outer(solved, solved) / size
    return inverse, logs


def variance_loss(
    logs: FloatArray, parts: FloatArray, M: FloatArray, free: FloatArray | None = None
) -> tuple[float, FloatArray]:
    """The loss at logarithms (j,) of the variances of parts (j, D, D), and its slopes.

    It is `log|V| (+ log 1'V^-1 1) + tr(P M)`, with slopes `tr(P C_j) - tr(P M P C_j)`.
    """
    v = np.exp(logs)
    P, size = precision_of(np.tensordot(v, parts, axes=1), free)
    inner = P - P @ M @ P
    return size + float((P * M).sum()), v * np.tensordot(parts, inner, axes=2)
