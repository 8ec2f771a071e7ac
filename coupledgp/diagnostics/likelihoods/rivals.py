"""What could be picked instead of a process under a likelihood, fitted to the same rows.

| points | classes | counts and others |
|---|---|---|
| rows of a table | shares, logistic regression, boosted trees | constant law, Poisson regression, boosted trees, rounded least squares; of others those of normal observations |
| nodes, places | shares, nearest observation, harmonic function of the indicators (label propagation) | those of normal observations, rounded for counts |
"""  # noqa: E501

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import gammaln, ndtr

from coupledgp.core.latent import LatentGP
from coupledgp.core.normalized_process import NormalizedProcess
from coupledgp.core.process import Data, Points
from coupledgp.diagnostics.likelihoods.class_laws import ClassLaws
from coupledgp.diagnostics.rivals.nodes import NodeRivals
from coupledgp.diagnostics.rivals.observations import BaselinePrediction
from coupledgp.diagnostics.rivals.of_process import kind_of
from coupledgp.diagnostics.rivals.places import FieldRivals
from coupledgp.diagnostics.rivals.rival import Baselines
from coupledgp.diagnostics.rivals.tables import TableRivals, drawn_parts
from coupledgp.diagnostics.scoring.scores import point_nlpd
from coupledgp.diagnostics.scoring.subject import some_rows
from coupledgp.errors import CoupledGPError
from coupledgp.fields.locations import canonical
from coupledgp.random import FloatArray, IntArray

# Rows that rivals of tables are fitted to at most.
MOST_ROWS = 20_000
# Least mean of a count law, and least chance of one count under a rounded normal law.
LEAST_MEAN, LEAST_CHANCE = 1e-6, 1e-12
# Iterations of logistic and Poisson regression.
ITERATIONS = 1000


@dataclass(frozen=True, eq=False)
class ClassRival:
    """A classifier that could be picked instead.

    Attributes
    ----------
    name : str
        In a sentence.
    laws : ClassLaws
        Its chances at the test points.
    """

    name: str
    laws: ClassLaws


@dataclass(frozen=True, eq=False)
class CountRival:
    """Laws of observations that could be picked instead.

    Attributes
    ----------
    name : str
        In a sentence.
    nlpd : FloatArray (p,)
        Negative log densities of the test observations, chances of counts, nats.
    mean : FloatArray (p,)
    """

    name: str
    nlpd: FloatArray
    mean: FloatArray


def class_rivals(process: LatentGP, points: Points, classes: NDArray[Any]) -> list[ClassRival]:
    """Rivals of a classifier's process, fitted to its observations, at points (p, ...)."""
    data = process.rows
    codes = codes_of(data.targets)
    kind = _kind(process)
    if kind is None or isinstance(kind, TableRivals):
        return table_class_rivals(data.points, codes, points, classes, data.counts)
    found = [_shares(codes, len(points), classes, data.counts)]
    places = canonical(points) if isinstance(kind, FieldRivals) else points
    return found + [
        ClassRival(_NAMES[one.name], _as_chances(one, len(data), classes))
        for one in kind.predict(places)
        if one.name in _NAMES
    ]


_NAMES = {
    "nearest": "the label of the nearest observation",
    "harmonic": "label propagation (the harmonic function of the labels)",
}


def codes_of(targets: FloatArray) -> IntArray:
    """Places (n,) of classes from indicators (n, 1) or (n, K)."""
    if targets.shape[1] == 1:
        return targets[:, 0].astype(int)
    return targets.argmax(axis=1)


def _kind(process: LatentGP) -> Baselines | None:
    """Baselines of the kind of the points, given the indicators or observations."""
    first = process.functions[0]
    try:
        kind = kind_of(first)
    except CoupledGPError:
        return None
    rows = process.rows
    if isinstance(kind, NodeRivals):
        return NodeRivals.of(kind.graph, rows.points, rows.targets, rows.weights)
    if isinstance(kind, FieldRivals):
        return FieldRivals.of(_operator(first), canonical(rows.points), rows.targets, rows.weights)
    return TableRivals.of(rows.points, rows.targets, rows.weights)


def _operator(function: NormalizedProcess) -> Any:
    inner: Any = function.first
    return inner.field_prior.operator


def _as_chances(one: BaselinePrediction, n: int, classes: NDArray[Any]) -> ClassLaws:
    """Chances from predicted indicators: not surer than their error among observations allows.

    Predictions of zero and one alone are as sure as their share of errors; others have one more
    observation of each kind.
    """
    mean = one.mean
    least = np.full(mean.shape[1], 1 / (n + 2))
    if one.name == "nearest" and one.std is not None:
        least = np.clip(np.square(np.broadcast_to(one.std, mean.shape)), 1 / (n + 2), 0.5)
    chances = np.clip(mean, least, 1 - least)
    if chances.shape[1] == 1:
        chances = np.hstack([1 - chances, chances])
    return ClassLaws(chances / chances.sum(axis=1, keepdims=True), classes)


def _shares(
    codes: IntArray, n_points: int, classes: NDArray[Any], counts: FloatArray | None = None
) -> ClassRival:
    """The shares of the classes, one more of each counted."""
    found = np.bincount(codes, weights=counts, minlength=len(classes)) + 1.0
    chances = np.tile(found / found.sum(), (n_points, 1))
    return ClassRival("the shares of the classes", ClassLaws(chances, classes))


def table_class_rivals(
    X: FloatArray,
    codes: IntArray,
    X_test: FloatArray,
    classes: NDArray[Any],
    counts: FloatArray | None = None,
) -> list[ClassRival]:
    """Shares, logistic regression and boosted trees of rows (n, d), at rows (p, d)."""
    rows = some_rows(len(X), MOST_ROWS, 0)
    X, codes = X[rows], codes[rows]
    counts = None if counts is None else counts[rows]
    found = [_shares(codes, len(X_test), classes, counts)]
    if np.bincount(codes).max() == len(codes) or not X.shape[1]:
        return found
    for name, model in _classifiers():
        weights = counts
        if name == "logistic regression":
            center, spread = X.mean(axis=0), X.std(axis=0)
            scale = np.where(spread > 0, spread, 1.0)
            own, at = (X - center) / scale, (X_test - center) / scale
        else:
            own, at = X, X_test
        model.fit(own, codes, sample_weight=weights)
        chances = np.full((len(X_test), len(classes)), 0.0)
        chances[:, model.classes_] = model.predict_proba(at)
        # One observation more of each class that a model may never have seen.
        chances = (chances + 1 / (len(X) * len(classes))) / (1 + 1 / len(X))
        found.append(ClassRival(name, ClassLaws(chances, classes)))
    return found


def left_out_class_rivals(
    X: FloatArray, codes: IntArray, classes: NDArray[Any], n_parts: int
) -> list[ClassRival]:
    """The same of every one of parts, drawn at random, of rows (n, d) fitted to the others."""
    parts = drawn_parts(len(X), n_parts)
    found: dict[str, FloatArray] = {}
    for part in np.unique(parts):
        own, others = np.flatnonzero(parts == part), np.flatnonzero(parts != part)
        for one in table_class_rivals(X[others], codes[others], X[own], classes):
            chances = found.setdefault(one.name, np.full((len(X), len(classes)), np.nan))
            chances[own] = one.laws.chances
    # Where the other parts have one class alone, there are its shares and nothing else.
    return [
        ClassRival(name, ClassLaws(chances, classes))
        for name, chances in found.items()
        if not np.isnan(chances).any()
    ]


def _classifiers() -> Iterator[tuple[str, Any]]:
    """Models of scikit-learn on one thread, so that no sum hangs on how threads share rows."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    yield "logistic regression", LogisticRegression(max_iter=ITERATIONS)
    with threadpool_limits(1, user_api="openmp"):
        yield "boosted trees", HistGradientBoostingClassifier(random_state=0, early_stopping=True)


def observation_rivals(
    process: LatentGP, points: Points, y: FloatArray, exposure: FloatArray | None = None
) -> list[CountRival]:
    """Rivals of a process of one output, at points (p, ...) with observations (p,).

    Parameters
    ----------
    process
        Process of one function.
    points
        Points (p, ...).
    y
        Observations (p,).
    exposure
        Exposures (p,) of counts; None: ones.
    """
    likelihood, data = process.likelihood, process.rows
    discrete = likelihood.is_discrete and likelihood.takes_exposure
    kind = _kind(process)
    found: list[CountRival] = []
    if discrete:
        at = np.ones(len(y)) if exposure is None else exposure
        found += _count_rivals(data, isinstance(kind, TableRivals), points, y, at)
    if kind is None:
        return found
    places = canonical(points) if isinstance(kind, FieldRivals) else points
    for one in kind.predict(places):
        if one.std is None or (discrete and (exposure is not None or one.name == "mean")):
            continue
        mean, std = one.mean[:, 0], np.broadcast_to(one.std, one.mean.shape)[:, 0]
        if (std <= 0).any():
            continue
        nlpd = _rounded_nlpd(y, mean, std) if likelihood.is_discrete else point_nlpd(y, mean, std)
        name = {
            "mean": "the mean of the observations",
            "linear": "least squares",
            "nearest": "the nearest observation",
            "harmonic": "harmonic interpolation",
        }
        text = name.get(one.name, one.name)
        rounded = ", rounded" if likelihood.is_discrete else ""
        found.append(CountRival(f"{text}{rounded}", nlpd, mean))
    return found


def _rounded_nlpd(y: FloatArray, mean: FloatArray, std: FloatArray) -> FloatArray:
    """Minus log chances of counts under normal laws rounded to whole numbers from zero on."""
    above = ndtr((y + 0.5 - mean) / std)
    below = np.where(y <= 0, 0.0, ndtr((y - 0.5 - mean) / std))
    return np.asarray(-np.log(np.maximum(above - below, LEAST_CHANCE)))


def _count_rivals(
    data: Data, is_table: bool, points: Points, y: FloatArray, exposure: FloatArray
) -> list[CountRival]:
    """A law of one mean and dispersion, Poisson regression and boosted trees."""
    own, weights = data.targets[:, 0], data.weights
    seen = np.ones(len(own)) if weights is None or weights.exposure is None else weights.exposure
    counts = np.ones(len(own)) if data.counts is None else data.counts
    rate = max(float((counts * own).sum() / (counts * seen).sum()), LEAST_MEAN)
    square = float(np.average(np.square(own - rate * seen) - rate * seen, weights=counts))
    spread = max(square / float(np.average(np.square(rate * seen), weights=counts)), 0.0)
    mean = rate * exposure
    found = [CountRival("a law of one rate", _count_nlpd(y, mean, spread), mean)]
    if not is_table or own.max() <= 0:
        return found
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import PoissonRegressor
    from threadpoolctl import threadpool_limits

    rows = some_rows(len(own), MOST_ROWS, 0)
    X, rates, w = data.points[rows], (own / seen)[rows], (seen * counts)[rows]
    center, scale = X.mean(axis=0), np.where(X.std(axis=0) > 0, X.std(axis=0), 1.0)
    regression = PoissonRegressor(alpha=1 / len(rows), max_iter=ITERATIONS)
    regression.fit((X - center) / scale, rates, sample_weight=w)
    boosted = HistGradientBoostingRegressor(loss="poisson", random_state=0, early_stopping=True)
    with threadpool_limits(1, user_api="openmp"):
        boosted.fit(X, rates, sample_weight=w)
        predicted = boosted.predict(points)
    line = regression.predict((points - center) / scale)
    for name, one in (("Poisson regression", line), ("boosted trees, Poisson", predicted)):
        mean = np.maximum(one, LEAST_MEAN) * exposure
        found.append(CountRival(name, _count_nlpd(y, mean, 0.0), mean))
    return found


def _count_nlpd(y: FloatArray, mean: FloatArray, dispersion: float) -> FloatArray:
    """Minus log chances of counts of a mean and variance `mean + dispersion mean^2`."""
    if dispersion < 1e-9:
        return np.asarray(mean - y * np.log(mean) + gammaln(y + 1))
    r = 1 / dispersion
    ways = gammaln(y + r) - gammaln(r) - gammaln(y + 1)
    odds = np.log(mean) - np.log(mean + r)
    return np.asarray(-(ways + y * odds + r * (np.log(r) - np.log(mean + r))))
