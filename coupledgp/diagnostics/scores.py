"""Scores of predictive distributions, their errors, and gains of rivals.

A mean over p points whose errors go together varies more than over p independent ones. With
observations `y ~ N(m, C)` of standard deviations s, and a rival of means b and standard deviations
t, the model's NLPD minus the rival's at point i is, constants aside,

    d_i = e_i^2 (1 / s_i^2 - 1 / t_i^2) / 2 - e_i (m_i - b_i) / t_i^2,    e = y - m,

so that, with `a = 1 / s^2 - 1 / t^2` and `c = (m - b) / t^2`,

    cov(d_i, d_j) = a_i a_j C_ij^2 / 2 + c_i c_j C_ij.

The terms of `i != j` are added to the variance over points taken as independent. Those of a
difference of squared errors, `d_i = 2 e_i (b_i - m_i)` and a constant, are `4 c_i c_j C_ij` with
`c = b - m`.

If the model were right, a rival would lose on average `KL_i = KL(N(m_i, s_i^2) || N(b_i, t_i^2))`
at point i. One that gains g nats instead is above that mean by g + KL, which stands beside the
error that the model's distribution gives. So the error beside g is less, by g / (g + KL), but not
below that of points taken as independent: a distribution far from the truth is no judge of what is
chance.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular
from scipy.special import ndtri

from coupledgp.diagnostics.calibration.coverage import LEVELS, clustered_error
from coupledgp.diagnostics.distance.divergences import joint_of, root_of
from coupledgp.diagnostics.laws.draws import Draws
from coupledgp.diagnostics.laws.mixtures import Observed
from coupledgp.diagnostics.laws.normal import Normal, normal_crps
from coupledgp.diagnostics.laws.quantiles import Quantiles
from coupledgp.diagnostics.laws.stated import Chances
from coupledgp.diagnostics.predictions import Law, Predictions
from coupledgp.diagnostics.tables import NATS, Rival, Score, table_of
from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import (
    LARGEST_PRODUCT,
    SMALLEST_PRODUCT,
    check_magnitude,
    check_sizes,
    real_array,
)
from coupledgp.random import FloatArray, IntArray

# Least and greatest losses (p, k).
Pair = tuple[FloatArray, FloatArray]
# The CRPS of a distance d from the mean is least at the standard deviation d / CRPS_RATIO, where
# its derivative 2 phi(z) - 1 / sqrt(pi) is zero.
CRPS_RATIO = float(np.sqrt(np.log(2)))
# Most labels of a cluster whose scores are listed.
MOST_LABELS = 400


def squared_error(law: Law, y: FloatArray) -> FloatArray:
    """`(y - m)^2` (p, k); the Brier score of classes; fair for draws."""
    own = getattr(law, "squared_error", None)
    return np.square(y - law.mean) if own is None else np.asarray(own(y))


def absolute_error(law: Law, y: FloatArray) -> FloatArray:
    """`|y - m|` (p, k)."""
    return np.abs(y - law.mean)


def negative_log_density(law: Law, y: FloatArray) -> FloatArray:
    """Negative log densities (p,), nats, each the mean over outputs."""
    return -law.log_density(y) / y.shape[1]


def negative_joint_log_density(law: Law, y: FloatArray) -> FloatArray:
    """Negative log densities (k,) of all points together, nats per point."""
    return -joint_of(law).joint_log_density(y) / len(y)


def ranked_probability(law: Law, y: FloatArray) -> FloatArray:
    """Continuous ranked probability scores (p, k)."""
    return law.crps(y)


def predictive_variance(law: Law, y: FloatArray) -> FloatArray:
    """Predictive variances (p, k), whatever the targets."""
    return np.square(law.std)


def right_class(law: Law, y: FloatArray) -> FloatArray:
    """One where the most probable class is that of the label, (p, 1)."""
    return (law.mean.argmax(axis=1) == y.reshape(-1)).astype(float)[:, None]


SCORES: dict[str, Score] = {
    "rmse": Score(squared_error, "RMSE", root=True),
    "mae": Score(absolute_error, "MAE"),
    "nlpd": Score(negative_log_density, "NLPD", "nats per point"),
    "nlpd_joint": Score(
        negative_joint_log_density, "NLPD of all points jointly", "nats per point", paired=False
    ),
    "crps": Score(ranked_probability, "CRPS"),
    "sharpness": Score(
        predictive_variance, "sharpness (root mean variance)", root=True, paired=False
    ),
}
CLASS_SCORES: dict[str, Score] = {
    "log_loss": Score(negative_log_density, "log loss", "nats per point"),
    "brier": Score(squared_error, "root of the Brier score", "", root=True),
    "accuracy": Score(right_class, "accuracy", "", paired=False),
}


class MeanOverPoints(NamedTuple):
    """A mean over points, and its standard error; NaN for a single point."""

    mean: float
    standard_error: float


def applies(score: Score, law: Law) -> bool:
    """Whether a distribution has what a score needs."""
    if score.losses is negative_log_density:
        return law.has_density
    if score.losses is negative_joint_log_density:
        return joint_of(law).cov is not None
    if score.losses in (squared_error, predictive_variance):
        return law.has_moments
    return True


def scores_table(
    p: Predictions,
    exact: Predictions | None,
    rivals: Sequence[Rival],
    scores: Mapping[str, Score],
) -> pd.DataFrame:
    """Scores of the model, the exact one and the rivals: of all points, by part and by cluster.

    Standard errors are those over points taken as independent, or the largest over clusters; of
    roots by the delta method. `below` and `above` bound what unfinished solves leave.
    """
    if p.y is None:
        return table_of("scores", [])
    rows: list[dict[str, Any]] = []
    models = [p, *([] if exact is None else [exact]), *(one.predictions for one in rivals)]
    for one in models:
        rows += _rows(one.name, one.law, p, scores)
    return table_of("scores", rows)


def _rows(name: str, law: Law, p: Predictions, scores: Mapping[str, Score]) -> list[dict[str, Any]]:
    assert p.y is not None
    rows = []
    places: list[tuple[str, str, Any]] = [("", "", slice(None))]
    if p.parts is not None:
        places += [(str(part), "", p.parts == part) for part in pd.unique(pd.Series(p.parts))]
    sensors = [] if p.cluster is None else _labels(p.cluster)
    clusters = _clusters(p)
    for metric, score in scores.items():
        if not applies(score, law):
            continue
        losses = score.losses(law, p.y)
        below, above = bounds_of(score, law, p.y)
        for part, group, chosen in places:
            some = losses if losses.shape[0] != len(p.y) else losses[chosen]
            whole = isinstance(chosen, slice)
            rows.append({
                "model": name, "part": part, "group": group, "metric": metric,
                "value": value_of(score, some),
                "error": _error(score, some, [] if losses.shape[0] != len(p.y) else
                                [one[chosen] for one in clusters]),
                "below": below if whole else np.nan, "above": above if whole else np.nan,
                "unit": p.unit if score.unit == "y" else score.unit, "n": len(some),
            })  # fmt: skip
    if isinstance(law, Chances):
        return rows
    for part, group, chosen in [*places, *sensors]:
        rows += _of_intervals(name, law, p, part, group, chosen, bool(group))
    return rows


def _labels(cluster: pd.DataFrame) -> list[tuple[str, str, Any]]:
    """Rows of each label of the first clusters."""
    values = cluster.iloc[:, 0]
    labels = pd.unique(values)
    if len(labels) > MOST_LABELS:
        return []
    return [("", str(label), (values == label).to_numpy()) for label in labels]


def _clusters(p: Predictions) -> list[IntArray]:
    if p.cluster is None:
        return []
    return [pd.factorize(p.cluster[name])[0] for name in p.cluster]


def _of_intervals(
    name: str, law: Law, p: Predictions, part: str, group: str, chosen: Any, single: bool
) -> list[dict[str, Any]]:
    """Share and width of the widest intervals; bias and RMSE of single groups besides."""
    assert p.y is not None
    level = LEVELS[-1]
    some, y = law if isinstance(chosen, slice) else law.take(np.flatnonzero(chosen)), p.y[chosen]
    inside = np.abs(2 * some.cdf(y) - 1) <= level
    found = {"coverage_95": (float(inside.mean()), "")}
    found["width_95"] = (float(np.mean(widths_of(some, (level,)))), p.unit)
    found["bias"] = (float((y - some.mean).mean()), p.unit)
    if single:
        found["rmse"] = (float(np.sqrt(max(squared_error(some, y).mean(), 0.0))), p.unit)
    return [
        {"model": name, "part": part, "group": group, "metric": metric, "value": value,
         "error": np.nan, "below": np.nan, "above": np.nan, "unit": unit, "n": len(y)}
        for metric, (value, unit) in found.items()
    ]  # fmt: skip


def widths_of(law: Law, levels: Sequence[float]) -> FloatArray:
    """Widths (p, k, l) of the central intervals of l nominal levels."""
    if isinstance(law, Normal):
        return law.std[..., None] * np.array([2 * half_width(level) for level in levels])
    tails = 0.5 - 0.5 * np.array(levels)
    below, above = np.split(law.ppf(np.concatenate([tails, 1 - tails])), 2, axis=-1)
    return np.asarray(above - below)


def value_of(score: Score, losses: FloatArray) -> float:
    """The score of losses (p, k) or (p,); fair losses of few draws may be negative on the whole."""
    mean = float(np.mean(losses))
    return float(np.sqrt(max(mean, 0.0))) if score.root else mean


def _error(score: Score, losses: FloatArray, clusters: Sequence[IntArray]) -> float:
    if not score.paired:
        return np.nan
    error = mean_over_points(losses, clusters).standard_error
    if not score.root:
        return error
    value = value_of(score, losses)
    return error / (2 * value) if value > 0 else 0.0


def mean_over_points(losses: FloatArray, clusters: Sequence[IntArray] = ()) -> MeanOverPoints:
    """Mean of losses (p, k) or (p,) with its error, over clusters (p,) where given."""
    each = losses.reshape(len(losses), -1).mean(axis=1)
    mean = float(each.mean())
    if each.size < 2:
        return MeanOverPoints(mean, np.nan)
    if not clusters:
        return MeanOverPoints(mean, float(each.std(ddof=1) / np.sqrt(each.size)))
    return MeanOverPoints(mean, clustered_error(each, clusters)[0])


def gains_table(
    p: Predictions, rivals: Sequence[Rival], scores: Mapping[str, Score]
) -> pd.DataFrame:
    """Losses of the model minus losses of each rival, with errors that allow for shared ones."""
    rows = []
    for rival in rivals if p.y is not None else ():
        other = rival.predictions.law
        shared = _shared(p, other)
        parts = [("", np.ones(len(p), dtype=bool))]
        if p.parts is not None:
            parts += [(str(one), p.parts == one) for one in pd.unique(pd.Series(p.parts))]
        losses = paired_losses(p, other, scores)
        for part, chosen in parts:
            for metric, gap in losses.items():
                clusters = [one[chosen] for one in _clusters(p)]
                mean, error = mean_over_points(gap[chosen], clusters)
                if not part:
                    error = _widened(mean, error, shared.get(_shared_by(metric), 0.0), p, other,
                                     metric)  # fmt: skip
                rows.append({"rival": rival.name, "part": part, "metric": metric, "gain": mean,
                             "error": error, "n": int(chosen.sum()),
                             "seconds": rival.seconds})  # fmt: skip
    return table_of("gains", rows)


def paired_losses(p: Predictions, other: Law, scores: Mapping[str, Score]) -> dict[str, FloatArray]:
    """Differences (p,) of the losses of a model and another one, by metric.

    Without a density of either the NLPD is replaced by `log_crps`, the logarithm of the ratio of
    the mean CRPS: for distributions of one shape the nats of their scales. Normal ones beside
    quantiles are reduced to quantiles at the same chances.
    """
    assert p.y is not None
    own, theirs = alike(p.law, other), alike(other, p.law)
    found = {}
    for metric, score in scores.items():
        if not score.paired:
            continue
        if applies(score, own) and applies(score, theirs):
            each = [score.losses(one, p.y) for one in (own, theirs)]
            found[metric] = np.subtract(*(one.reshape(len(p), -1).mean(axis=1) for one in each))
        elif score.losses is negative_log_density:
            means = [one.crps(p.y).mean(axis=1) for one in (own, theirs)]
            sizes = [max(float(one.mean()), 1e-300) for one in means]
            relative = means[0] / sizes[0] - means[1] / sizes[1]
            found["log_crps"] = relative + float(np.log(sizes[0] / sizes[1]))
    return found


def alike(law: Law, other: Law) -> Law:
    """A normal distribution by quantiles where those of another one are all that is known."""
    if isinstance(other, Quantiles) and isinstance(law, Normal):
        return other.of_normal(law.mean, law.std)
    return law


def _shared_by(metric: str) -> str:
    return "rmse" if metric in ("rmse", "brier") else "nlpd" if metric in NATS else ""


def _shared(p: Predictions, other: Law) -> dict[str, float]:
    """What errors that points share add to the variances of mean differences."""
    if isinstance(p.law, Chances):
        return {} if p.law.draws is None or p.y is None else _shared_labels(p.law, other)
    if p.correlation is None or not isinstance(p.law.mean, np.ndarray):
        return {}
    if isinstance(p.law, Observed):
        return {}
    return shared_variances(p.law, p.correlation, other)


def _widened(
    mean: float, error: float, shared: float, p: Predictions, other: Law, metric: str
) -> float:
    """The error of a mean difference with what near points share."""
    if isinstance(p.law, Observed) and p.correlation is not None:
        factor = max(1.0, float(p.correlation.sum() / (len(p) * p.correlation.shape[2])))
        return error * float(np.sqrt(factor))
    if metric in NATS and mean > 0 and not isinstance(p.law, Chances):
        shared = shared * (mean / (mean + _divergence(p.law, other))) ** 2
    return float(np.sqrt(error**2 + shared))


def _divergence(law: Law, other: Law) -> float:
    """Mean KL of single points, of normal distributions of the moments, nats."""
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        ratio = np.square(law.std / other.std)
        found = 0.5 * (ratio - 1 - np.log(ratio) + np.square((law.mean - other.mean) / other.std))
    value = float(found.mean())
    return max(value, 0.0) if np.isfinite(value) else 0.0


def shared_variances(law: Law, correlation: FloatArray, other: Law) -> dict[str, float]:
    """What correlated errors (p, p, k) add to the variances of mean differences, by metric."""
    own = law.std
    squared = nlpd = 0.0
    for k in range(own.shape[1]):
        matrix = correlation[..., min(k, correlation.shape[2] - 1)].copy()
        np.fill_diagonal(matrix, 0.0)
        s, t, gap = own[:, k], other.std[:, k], law.mean[:, k] - other.mean[:, k]
        # A rival that is certain, as of constant targets, is beyond all numbers.
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            a, c = 1 - np.square(s / t), s * gap / np.square(t)
            nlpd += 0.5 * _form(np.square(matrix), a) + _form(matrix, c)
            squared += 4 * _form(matrix, s * gap)
    found = {"rmse": squared / own.size**2, "nlpd": nlpd / own.size**2}
    return {name: value if 0 < value < np.inf else 0.0 for name, value in found.items()}


def _form(matrix: FloatArray, vector: FloatArray) -> float:
    return float(vector @ (matrix @ vector))


def _shared_labels(law: Chances, other: Law) -> dict[str, float]:
    """What dependence adds to the variances of mean differences over drawn labels (m, p)."""
    assert law.draws is not None
    n, k = law.chances.shape
    found = {}
    for name, loss in (("nlpd", negative_log_density), ("rmse", squared_error)):
        table = np.stack([
            (loss(law, codes) - loss(other, codes)).reshape(-1)
            for codes in (np.full((n, 1), c) for c in range(k))
        ], axis=1)  # fmt: skip
        values = table[np.arange(n), law.draws]
        alone = float(values.var(axis=0, ddof=1).sum()) / n**2
        found[name] = max(float(values.mean(axis=1).var(ddof=1)) - alone, 0.0)
    return found


def bounds_of(score: Score, law: Law, y: FloatArray) -> tuple[float, float]:
    """Distances below and above a score of a distribution that is known within bounds.

    Zero where it is exact, NaN where no bounds are known.
    """
    if not isinstance(law, Normal) or law.slack is None:
        return 0.0, 0.0
    if score.losses is negative_joint_log_density:
        return _joint_bounds(law, y)
    limits = _BOUNDS.get(score.losses)
    if limits is None:
        return np.nan, np.nan
    floors = np.stack([np.diagonal(law.floor(k)) for k in range(y.shape[1])], axis=1)
    radius = np.zeros(y.shape[1]) if law.radius is None else law.radius
    error = radius * np.sqrt(np.einsum("iik->ik", law.slack))
    distance = np.abs(y - law.mean)
    near, far = np.maximum(distance - error, 0.0), distance + error
    least, most = limits(near, far, np.sqrt(floors), law.std)
    losses = score.losses(law, y)
    if score.root:
        value = value_of(score, losses)
        return value - value_of(score, least), value_of(score, most) - value
    # Differences first: the bounds are many orders smaller than the losses.
    shape = (len(y), -1)
    least, most = (one.reshape(shape).mean(axis=1) for one in (least, most))
    each = losses.reshape(shape).mean(axis=1)
    return float(np.mean(each - least)), float(np.mean(most - each))


def _nlpd_bounds(near: FloatArray, far: FloatArray, least: FloatArray, most: FloatArray) -> Pair:
    """Each term at its extreme."""
    half = 0.5 * np.log(2 * np.pi)
    return (
        0.5 * np.square(near / most) + np.log(least) + half,
        0.5 * np.square(far / least) + np.log(most) + half,
    )


def _crps_bounds(near: FloatArray, far: FloatArray, least: FloatArray, most: FloatArray) -> Pair:
    """The score grows with the distance; in the standard deviation it has one minimum."""
    best = np.clip(near / CRPS_RATIO, least, most)
    return normal_crps(near, best), np.maximum(normal_crps(far, least), normal_crps(far, most))


_BOUNDS: dict[Any, Any] = {
    squared_error: lambda near, far, least, most: (np.square(near), np.square(far)),
    absolute_error: lambda near, far, least, most: (near, far),
    predictive_variance: lambda near, far, least, most: (np.square(least), np.square(most)),
    negative_log_density: _nlpd_bounds,
    ranked_probability: _crps_bounds,
}


def _joint_bounds(law: Normal, y: FloatArray) -> tuple[float, float]:
    """Distances below and above the joint NLPD within which that of the true law lies.

    With S the covariance, B its floor, `|d|_A^2 = d' A^-1 d`, `d = y - mean` and
    `h = radius tr(B^-1 (S - B))^1/2`, per point,

        below: 1/2 [logdet S - logdet B + |d|_S^2 - (|d|_S - h)_+^2],
        above: 1/2 [(|d|_B + h)^2 - |d|_S^2].
    """
    found = []
    for k in range(y.shape[1]):
        assert law.cov is not None
        high = root_of(law.cov[..., k], "predictive covariance")
        low = root_of(law.floor(k), "lower bound of the predictive covariance")
        gap, d = law.cov[..., k] - law.floor(k), y[:, k] - law.mean[:, k]
        half = solve_triangular(low, solve_triangular(low, gap, lower=True).T, lower=True)
        h = law.reach(k) * np.sqrt(max(float(np.trace(half)), 0.0))
        logdet = 2 * float(np.log(np.diagonal(high) / np.diagonal(low)).sum())
        near = float(np.linalg.norm(solve_triangular(high, d, lower=True)))
        far = float(np.linalg.norm(solve_triangular(low, d, lower=True)))
        below = logdet + near**2 - max(near - h, 0.0) ** 2
        found.append((max(below, 0.0), max((far + h) ** 2 - near**2, 0.0)))
    below, above = 0.5 * np.mean(found, axis=0) / len(y)
    return float(below), float(above)


def energy_scores(law: Draws, y: FloatArray) -> tuple[float, float]:
    """Fair energy scores of draws, jointly, and shuffled so that points are independent."""
    return law.energy(y), law.shuffled().energy(y)


def check_law(y: FloatArray | None, mean: FloatArray | None, std: FloatArray | None = None) -> None:
    """Refuse targets, means and standard deviations that are no numbers or beyond the limits.

    Scores of what is within the limits of `coupledgp.ground.validation` are finite.

    Raises
    ------
    InvalidInputError
        A number is NaN or too large in magnitude, or a standard deviation is not positive or too
        small.
    """
    for name, values in (("y", y), ("mean", mean), ("std", std)):
        if values is None:
            continue
        values = real_array(values, name)
        if not np.isfinite(values).all():
            raise InvalidInputError(f"{name}: expected finite values, got NaN or inf")
        if name == "std":
            check_sizes(np.asarray(values), name, SMALLEST_PRODUCT, LARGEST_PRODUCT)
        else:
            check_magnitude(np.asarray(values), name)
    if y is not None and mean is not None and std is not None:
        distance = (np.asarray(y) - mean) / std
        check_magnitude(distance, "y: distance from mean over std", LARGEST_PRODUCT)


def rmse(y: FloatArray, mean: FloatArray) -> float:
    """Root mean squared error of means, in units of y; both (p,) or (p, k).

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import rmse
    >>> rmse(np.array([3.0, -4.0, 0.0, 0.0]), np.zeros(4))
    2.5
    """
    check_law(y, mean)
    return float(np.sqrt(np.mean(np.square(y - mean))))


def mae(y: FloatArray, mean: FloatArray) -> float:
    """Mean absolute error of means, in units of y; both (p,) or (p, k).

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import mae
    >>> mae(np.array([0.0, 1.0]), np.zeros(2))
    0.5
    """
    check_law(y, mean)
    return float(np.mean(np.abs(y - mean)))


def nlpd(y: FloatArray, mean: FloatArray, std: FloatArray) -> float:
    """Mean negative log density of each point alone (marginal), nats per point.

    Targets, means and standard deviations are all (p,) or (p, k).

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import nlpd
    >>> round(nlpd(np.zeros(3), np.zeros(3), np.ones(3)), 4)  # log(2 pi) / 2
    0.9189
    """
    check_law(y, mean, std)
    z = (np.asarray(y) - mean) / std
    return float(np.mean(0.5 * np.square(z) + np.log(std) + 0.5 * np.log(2 * np.pi)))


def nlpd_joint(y: FloatArray, mean: FloatArray, cov: FloatArray) -> float:
    """Negative log density of all points together, nats per point.

    Targets and means (p,), covariance (p, p).

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import nlpd, nlpd_joint
    >>> y, mean, std = np.array([0.0, 1.0]), np.zeros(2), np.array([1.0, 2.0])
    >>> alone, joint = nlpd(y, mean, std), nlpd_joint(y, mean, np.diag(std**2))
    >>> round(joint - alone, 9) == 0  # of independent points they are the same
    True
    """
    check_law(y, mean)
    law = Normal.joint(np.asarray(mean)[:, None], np.asarray(cov)[..., None])
    return float(negative_joint_log_density(law, np.asarray(y)[:, None])[0])


def crps(y: FloatArray, mean: FloatArray, std: FloatArray) -> float:
    """Mean continuous ranked probability score, in units of y; smaller is better.

    Targets, means and standard deviations are all (p,) or (p, k).

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import crps
    >>> y, mean, std = np.array([0.0, 1.0]), np.zeros(2), np.ones(2)
    >>> round(crps(y, mean, std), 3)
    0.418
    """
    check_law(y, mean, std)
    return float(np.mean(normal_crps(np.asarray(y) - mean, np.asarray(std))))


def coverage(
    y: FloatArray, mean: FloatArray, std: FloatArray, levels: Sequence[float] = LEVELS
) -> dict[float, float]:
    """Share of targets inside the central interval of each nominal level.

    Targets, means and standard deviations are all (p,) or (p, k).

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import coverage
    >>> y, mean, std = np.array([0.0, 1.0]), np.zeros(2), np.ones(2)
    >>> coverage(y, mean, std, levels=(0.5, 0.95))  # one of them is inside the narrow intervals
    {0.5: 0.5, 0.95: 1.0}
    """
    check_law(y, mean, std)
    away = np.abs(np.asarray(y) - mean) / std
    return {level: float(np.mean(away <= half_width(level))) for level in levels}


def interval_width(std: FloatArray, levels: Sequence[float] = LEVELS) -> dict[float, float]:
    """Mean width of the central interval of each nominal level, in units of y.

    Standard deviations (p,) or (p, k).

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import interval_width
    >>> round(interval_width(np.ones(3))[0.95], 2)
    3.92
    """
    check_law(None, None, std)
    return {level: 2 * half_width(level) * float(np.mean(std)) for level in levels}


def half_width(level: float) -> float:
    """Half the width of the central interval of a nominal level, in standard deviations."""
    if not 0 < level < 1:
        raise InvalidInputError(f"levels: expected numbers between 0 and 1, got {level}")
    return float(ndtri(0.5 + level / 2))


def sharpness(std: FloatArray) -> float:
    """Root mean predictive variance, in units of y: the expected RMSE if the law is true.

    Standard deviations (p,) or (p, k).

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import sharpness
    >>> sharpness(np.array([1.0, 7.0]))  # the root of (1 + 49) / 2
    5.0
    """
    check_law(None, None, std)
    return float(np.sqrt(np.mean(np.square(std))))


def paired_difference(
    score: FloatArray, other: FloatArray, groups: ArrayLike | None = None
) -> MeanOverPoints:
    """Mean of `score - other` over points, with its standard error.

    Both are losses of single points, (p,) or (p, k); the mean over outputs is taken first. Points
    are independent, or those of different groups (p,) are (Liang and Zeger, 1986).

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import paired_difference
    >>> gap = paired_difference(np.array([1.0, 2.0, 3.0]), np.array([0.0, 2.0, 1.0]))
    >>> gap.mean, round(gap.standard_error, 3)
    (1.0, 0.577)
    """
    gap = np.asarray(score) - other
    return mean_over_points(
        gap, [] if groups is None else [np.unique(groups, return_inverse=True)[1].reshape(-1)]
    )
