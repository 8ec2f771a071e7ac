"""Intervals that hold by ranks of left-out residuals, whatever the kernel: the jackknife+.

With the law of the process given all rows but those of the group g of row i, of mean `m_g(x)` and
standard deviation `s_g(x)` at a point x, and the scores `S_i = |y_i - m_g(x_i)| / s_g(x_i)`, the ends
are weighted quantiles of

    m_g(x) - S_i s_g(x) ,    m_g(x) + S_i s_g(x)

over the rows (Barber, Candes, Ramdas and Tibshirani, 2021, Annals of Statistics 49). If rows are
exchangeable, and the hyperparameters are not fitted to them, an interval of level c holds a new
observation with a probability of `2 c - 1` at least, whether the model is right or not; in practice
it is about c. Groups count alike, each row by one over its group's number of rows: then groups are to
be exchangeable, and the new row is of a new one (Lee, Barber and Willett, 2023). Weights of rows say
how near they are to the new one where rows drift (Barber, Candes, Ramdas and Tibshirani, 2023).

No process is conditioned anew. With the weights a of the mean, `m(x) = sum_j a_j(x) y_j`, the
residuals r and their covariance D when the group is left out,

    m_g(x) = m(x) - a_g' r_g ,    s_g(x)^2 = s(x)^2 + a_g' D_g a_g ,    a_j(x) = cov(f(x), f(x_j)) / v_j

with the posterior covariance of f and the noise variance v_j of row j.
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.core.left_out import own_noise, rows_of_groups
from coupledgp.core.mixture import MixtureGP
from coupledgp.core.process import GaussianProcess, Points
from coupledgp.core.transformed import TransformedGP
from coupledgp.errors import InvalidInputError
from coupledgp.ground.memory import check_memory
from coupledgp.random import FloatArray, IntArray

# Rows, and points, whose joint law is computed at once.
BLOCK = 1500
# Largest difference of the mean from the one by weights, in standard deviations of observations.
ROUNDING = 1e-3


def conformal_interval(
    process: GaussianProcess,
    points: Points,
    level: float,
    groups: ArrayLike | None = None,
    weights: ArrayLike | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Ends (p, k) of jackknife+ intervals of a level at points (p, ...), in units of y.

    They are infinite where rows or groups are too few for the level.

    Parameters
    ----------
    process
        A process with its observations; a mixture keeps the weights of its members, and a process
        of transformed targets has the ends of these mapped.
    groups
        Group (n,) of each observation; None: each is alone.
    weights
        Weights (n,) of the observations in (0, 1], where that of a new one is one; None: ones.

    Raises
    ------
    InvalidInputError
        Arguments do not fit the observations, or the mean of the process is not linear in them.
    MemoryLimitError
        The intervals do not fit into memory.
    """
    low, high = conformal_intervals(process, points, (level,), groups, weights)
    return low[..., 0], high[..., 0]


def conformal_intervals(
    process: GaussianProcess,
    points: Points,
    levels: Sequence[float],
    groups: ArrayLike | None = None,
    weights: ArrayLike | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Ends (p, k, l) of the intervals of l levels; see `conformal_interval`."""
    if isinstance(process, TransformedGP):
        ends = conformal_intervals(process.inner, points, levels, groups, weights)
        low, high = (process.to_targets.outside(end) for end in ends)
        return low, high
    rows = ConformalRows.of(process, groups, weights)
    n, k = rows.residuals.shape
    check_memory(
        8 * (4 * n * k * min(len(points), BLOCK) + 4 * (n + BLOCK) * BLOCK),
        f"X: conformal intervals from {n} observations",
        "use fewer points at once",
    )
    parts = [rows.ends(points[at : at + BLOCK], levels) for at in range(0, len(points), BLOCK)]
    return np.concatenate([low for low, _ in parts]), np.concatenate([high for _, high in parts])


@dataclass(frozen=True, eq=False)
class ConformalRows:
    """Observations of a process, each with its residual given the observations of other groups.

    Attributes
    ----------
    members : list of (GaussianProcess, float)
        Processes whose laws are mixed, and their weights.
    group : IntArray (n,)
        Number of the group of each observation.
    parts : list of (FloatArray, FloatArray)
        For each member the residuals (n, k) given other groups, and their variances as they enter
        the covariance (n, k).
    residuals, scores : FloatArray (n, k)
        Residuals of the mixed mean, and their magnitudes over standard deviations.
    masses : FloatArray (n + 1,)
        Shares of the observations, and of the new one, of sum one.
    """

    members: list[tuple[GaussianProcess, float]]
    group: IntArray
    parts: list[tuple[FloatArray, FloatArray]]
    residuals: FloatArray
    scores: FloatArray
    masses: FloatArray

    @classmethod
    def of(
        cls, process: GaussianProcess, groups: ArrayLike | None, weights: ArrayLike | None
    ) -> ConformalRows:
        """Observations with their scores; see `conformal_interval`."""
        members = [(process, 1.0)]
        if isinstance(process, MixtureGP):
            found = zip(process.members_with_data, process.weights, strict=True)
            members = [(member, float(weight)) for member, weight in found]
        n = len(process.data)
        labels = np.arange(n) if groups is None else np.asarray(groups)
        if labels.shape != (n,):
            raise InvalidInputError(
                f"groups: expected the group of each of {n} observations, got shape {labels.shape}"
            )
        _, group = np.unique(labels, return_inverse=True)
        group = group.reshape(-1)
        parts, shape = [], process.data.targets.shape
        mean, second = np.zeros(shape), np.zeros(shape)
        for member, weight in members:
            law = member.left_out(labels)
            means, variance = law.means[0], law.variances[0]
            noise, entered = own_noise(member.noise.variance, member.data.weights)
            further = np.broadcast_to(np.maximum(noise - entered, 0.0), n)
            inside = variance - member.units.spread(further)
            parts.append((member.data.targets - means, inside))
            mean, second = mean + weight * means, second + weight * (variance + means**2)
        residuals = process.data.targets - mean
        stds = np.sqrt(np.maximum(second - np.square(mean), 0.0))
        # Targets that are all alike leave residuals and deviations of zero: no score at all.
        beyond = np.where(residuals == 0.0, 0.0, np.inf)
        scores = np.divide(np.abs(residuals), stds, out=beyond, where=stds > 0)
        return cls(members, group, parts, residuals, scores, _masses(group, weights))

    def ends(self, points: Points, levels: Sequence[float]) -> tuple[FloatArray, FloatArray]:
        """Ends (p, k, l) of the intervals of l levels at points."""
        shape = int(self.group.max()) + 1, len(points), self.scores.shape[1]
        means, second = np.zeros(shape), np.zeros(shape)
        for (member, weight), part in zip(self.members, self.parts, strict=True):
            mean, variance = _without_each(member, self.group, part, points)
            means += weight * mean
            second += weight * (variance + np.square(mean))
        stds = np.sqrt(np.maximum(second - np.square(means), 0.0))
        n, p = len(self.group), len(points)
        low, high = np.empty((2, p, self.scores.shape[1], len(levels)))
        for j in range(self.scores.shape[1]):
            own_std = stds[self.group, :, j]
            # A score that is infinite beside a deviation of zero stays infinite.
            own_score = np.broadcast_to(self.scores[:, j, None], own_std.shape)
            infinite = np.isinf(own_score)
            reach = np.where(infinite, np.inf, np.where(infinite, 0.0, own_score) * own_std)
            own, masses = means[self.group, :, j], self.masses[:n]
            for place, level in enumerate(levels):
                low[:, j, place] = -_quantiles(reach - own, masses, level)
                high[:, j, place] = _quantiles(reach + own, masses, level)
        return low, high


def _masses(group: IntArray, weights: ArrayLike | None) -> FloatArray:
    """Shares (n + 1,) of rows of groups by numbers (n,) and of the new row, of sum one."""
    own = np.ones(len(group)) if weights is None else np.asarray(weights, dtype=np.float64)
    if own.shape != group.shape or not ((own > 0) & (own <= 1)).all():
        raise InvalidInputError(
            f"weights: expected {len(group)} numbers above 0 and at most 1, got "
            f"{own.tolist() if own.size < 6 else f'shape {own.shape}'}"
        )
    own = own / np.bincount(group)[group]
    return np.append(own, 1.0) / (own.sum() + 1)


def _quantiles(values: FloatArray, masses: FloatArray, level: float) -> FloatArray:
    """Least values (p,) of columns (n, p) with a mass at most them of a level; else infinity."""
    order = np.argsort(values, axis=0, kind="stable")
    total = np.cumsum(masses[order], axis=0)
    place = (total < level - 1e-12).sum(axis=0)
    columns = np.arange(values.shape[1])
    known = place < len(values)
    found = values[order[np.minimum(place, len(values) - 1), columns], columns]
    return np.where(known, found, np.inf)


def _without_each(
    process: GaussianProcess, group: IntArray, part: tuple[FloatArray, FloatArray], points: Points
) -> tuple[FloatArray, FloatArray]:
    """Means and variances (g, p, k) of observations at points given all groups but each."""
    residuals, variances = part
    law = process.law(points, "variance")
    assert law.spread is not None
    n, members = len(group), rows_of_groups(group)
    weights = _weights(process, points, law.mean, law.spread)
    change = np.zeros((len(members), *law.mean.shape))
    more = np.zeros_like(change)
    np.add.at(change, group, weights * residuals[:, None])
    if len(members) == n:
        more[group] = np.square(weights) * variances[:, None]
    else:
        correlation = process.left_out_correlation(group, np.arange(n))
        std = np.sqrt(variances)
        for number, rows in enumerate(members):
            own = np.eye(rows.size) if correlation is None else correlation[np.ix_(rows, rows)]
            scaled = weights[rows] * std[rows, None]
            more[number] = np.einsum("ipk,ij,jpk->pk", scaled, own, scaled)
    return law.mean - change, law.spread + more


def _weights(
    process: GaussianProcess, points: Points, mean: FloatArray, variance: FloatArray
) -> FloatArray:
    """Weights (n, p, k) of the observations in the means at points, by posterior covariances.

    Raises
    ------
    InvalidInputError
        The mean is not the one by these weights, as for models of near rows only.
    """
    data, p = process.data, len(points)
    _, entered = own_noise(process.noise.variance, data.weights)
    noise = process.units.spread(np.broadcast_to(entered, len(data)))
    found = np.empty((len(data), p, mean.shape[1]))
    for rows in _blocks(len(data)):
        both = np.concatenate([points, data.points[rows]])
        cov = process.law(both, "covariance", latent=True).spread
        assert cov is not None
        found[rows] = np.moveaxis(cov[:p, p:], 1, 0) / noise[rows, None]
    offset = process.units.offset
    again = offset + np.einsum("npk,nk->pk", found, data.targets - offset)
    if (np.abs(again - mean) > ROUNDING * np.sqrt(variance)).any():
        raise InvalidInputError(
            f"conformal: expected a process whose mean is linear in its observations by one joint "
            f"law, with enough noise for rounding, got {type(process).__name__}"
        )
    return found


def _blocks(n: int) -> Iterator[slice]:
    """Slices of at most `BLOCK` rows."""
    return (slice(at, min(at + BLOCK, n)) for at in range(0, n, BLOCK))
