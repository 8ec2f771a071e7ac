"""What a user would pick instead of a model, predicted at the same points from the same rows.

| points | simple | flexible |
|---|---|---|
| rows of a table | mean, nearest, linear | plain process, additive kernel, boosted trees |
| nodes of a graph | mean, nearest along edges, harmonic | |
| places of a field | mean, nearest, harmonic, position GP | |
| classes | shares; nearest and harmonic of the labels | logistic regression, boosted trees |
| counts | one rate; those of numbers, rounded | Poisson regression, boosted trees |
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import Any

import numpy as np

from coupledgp.core.latent import LatentGP
from coupledgp.core.process import Data, GaussianProcess
from coupledgp.core.transformed import (
    TransformedGP,
    mixed_parts,
    transformed_data,
    untransformed,
)
from coupledgp.core.transforms import TargetTransform
from coupledgp.diagnostics.laws import Chances, Mapped, Normal, law_of_prediction
from coupledgp.diagnostics.predictions import Law, Predictions
from coupledgp.diagnostics.remedies import same_kernel
from coupledgp.diagnostics.rivals import classes as by_class
from coupledgp.diagnostics.rivals.observed import Fitted, Kind, Predicted, positive
from coupledgp.diagnostics.rivals.processes import FOLDS
from coupledgp.diagnostics.rivals.rows import FLEXIBLE, table_kind
from coupledgp.diagnostics.rivals.surfaces import field_kind, node_kind
from coupledgp.diagnostics.scores import paired_difference
from coupledgp.diagnostics.sources import Source
from coupledgp.diagnostics.tables import LOST, MATTERS, Rival
from coupledgp.errors import CoupledGPError, InvalidInputError
from coupledgp.fields.locations import canonical
from coupledgp.fields.process import FieldGP, PreciseFieldGP
from coupledgp.graphs.process import NodeGP
from coupledgp.ground.threads import suited_threads
from coupledgp.random import FloatArray, IntArray

# Share of the weight of a mixture from which its transform of the targets is the model's.
MOST = 0.5
# Standard deviation of a rival, over its prediction, that is rounding: of equal targets.
CERTAIN = 1e-8
# Parts of the test rows, each predicted from the others, where there are no training rows.
N_PARTS = 10

# What a rival uses, and what to do where it is better.
USES = {
    "mean": "the mean of the known targets",
    "nearest": "the nearest observation",
    "linear": "a linear model",
    "harmonic": "harmonic interpolation",
    "position GP": "a GP of the positions",
    "plain process": "an exact process of one lengthscale",
    "same kernel": "the same kernel, fitted anew",
    "additive kernel": "a process of functions of single columns and pairs",
    "boosted trees": "boosted trees",
    "shares": "the shares of the classes",
}
REMEDIES = {
    "mean": "Its signal is not there: look for mistakes in inputs or units, or fit again.",
    "nearest": "The model does not use what near observations say: give it distances (positions, a "
    "mesh with FieldGPRegressor, edge weights), a rougher kernel or a local part.",
    "linear": "Give it a trend (trend='linear'), or more restarts of the search.",
    "harmonic": "The kernel is too rough, too smooth or knows no distances: leave the choice of "
    "the kernel to the fit, weight edges by distance, or use FieldGPRegressor on a mesh or roads.",
    "position GP": "Position says more than the surface does: add the coordinates as inputs.",
    "plain process": "An exact process of one lengthscale, fitted anew, does better: use an exact "
    "process (ExactGPRegressor), or fit this one with more steps or restarts.",
    "same kernel": "The same kernel does better with other hyperparameters: fit again, with more "
    "steps, restarts or rows.",
    "additive kernel": "The function is additive, or nearly so: fit kernel='additive(1)' or "
    "'additive(2)' by ExactGPRegressor or GPRegressor.",
    "boosted trees": "Boosted trees find steps or interactions that the kernel does not: use them, "
    "or GPRegressor, which has trees and a local part among its members.",
}
OTHERWISE = "Look for what it uses and the model does not."


def rivals_of(
    predictions: Predictions, source: Source, asked: Any = "auto", depth: str = "full"
) -> tuple[Rival, ...]:
    """Rivals of a model at its test points, fitted to its own training rows.

    Without training rows of a table, each tenth of the test rows is predicted from the others.

    Parameters
    ----------
    predictions, source
        The model's predictions, with targets where there are any, and where they come from.
    asked
        `"auto"`: all that apply; names of some; None or empty: none; or rivals of one's own by
        name: an unfitted estimator of scikit-learn, a function of `(X_train, y_train, X_test)` that
        returns a prediction in any form of `law_of_prediction`, or such a prediction.
    depth
        `"full"`, or simple ones alone.

    Raises
    ------
    InvalidInputError
        A name is unknown, or a rival predicts other points.
    """
    if asked is None or (not isinstance(asked, str) and not len(asked)):
        return ()
    if isinstance(asked, Mapping):
        return tuple(_given(one, str(name), source) for name, one in asked.items())
    known = {name: make for name, make, kind in _of(predictions, source) if _is(kind, depth)}
    names = list(known)
    if asked != "auto":
        names = [asked] if isinstance(asked, str) else list(asked)
    found = []
    for name in names:
        if name not in known:
            raise InvalidInputError(
                f"rivals: expected 'auto', some of {', '.join(map(repr, known))}, or rivals of "
                f"your own by name, got {name!r}"
            )
        start = perf_counter()
        law = _tried(known[name])
        if law is not None:
            found.append(rival_named(name, law, perf_counter() - start))
    if asked == "auto" and any(_is_beaten_by(one, predictions) for one in found):
        start = perf_counter()
        law = _tried(lambda: same_kernel(source))
        if law is not None:
            found.append(rival_named("same kernel", law, perf_counter() - start))
    return tuple(found)


def _is_beaten_by(rival: Rival, predictions: Predictions) -> bool:
    """Whether a fitted rival is better, so that it is asked what a new fit of the model gains."""
    law, y = rival.predictions.law, predictions.y
    if rival.kind == "simple" or y is None or not (law.has_density and predictions.law.has_density):
        return False
    gain = paired_difference(-predictions.law.log_density(y), -law.log_density(y))
    return gain.mean > max(LOST * gain.standard_error, MATTERS)


def left_out_rivals(
    process: GaussianProcess, groups: IntArray, rows: IntArray,
    categories: Sequence[IntArray] = (), asked: Any = "auto", depth: str = "full",
) -> tuple[Rival, ...]:  # fmt: skip
    """Rivals that predict some observations, by their numbers (m,), from those of other groups.

    `groups` are the numbers (n,) of the groups of all observations of a process.
    """
    if asked is None or (not isinstance(asked, str) and not len(asked)):
        return ()
    transform = _transform(process)
    kind = kind_of(process, transform, categories)

    def left_out(make: Callable[[], Fitted | None]) -> Law | None:
        return _law_at(_left_out(make, groups), rows, transform)

    found = []
    for name, make in _makers(kind):
        chosen = asked == "auto" or name in ([asked] if isinstance(asked, str) else asked)
        if not chosen or not _is(_kind_name(name), depth):
            continue
        start = perf_counter()
        law = _tried(partial(left_out, make))
        # Where one weight outweighs all others, the rest have lost their digits.
        if law is not None and np.isfinite([law.mean, law.std]).all():
            found.append(rival_named(name, law, perf_counter() - start))
    return tuple(found)


def rival_named(name: str, law: Law, seconds: float = np.nan) -> Rival:
    """A rival of a name with a law at the test points."""
    uses = USES | by_class.OF_LABELS if isinstance(law, Chances) else USES
    return Rival(
        Predictions(law, name=name), _kind_name(name), uses.get(name, ""),
        REMEDIES.get(name, OTHERWISE), seconds,
    )  # fmt: skip


Maker = Callable[[], Law | None]


def _is(kind: str, depth: str) -> bool:
    return depth == "full" or kind == "simple"


def _kind_name(name: str) -> str:
    fitted = (*FLEXIBLE, "same kernel", "logistic regression", "Poisson regression")
    return "flexible" if name.startswith(fitted) else "simple"


def _tried(make: Maker) -> Law | None:
    """The law of a rival; None where it does not apply, cannot be computed, or is certain."""
    try:
        law = make()
    except CoupledGPError:
        return None
    if law is None or isinstance(law, Chances):
        return law
    is_certain = (law.std <= CERTAIN * np.maximum(np.abs(law.mean), 1e-280)).all()
    return None if is_certain else law


def _of(predictions: Predictions, source: Source) -> Iterator[tuple[str, Maker, str]]:
    """Names, fits and kinds of the rivals of a model."""
    process = source.process
    if isinstance(process, LatentGP):
        found = _of_likelihood(source, process)
    elif process is not None:
        found = _of_process(source, process)
    elif source.train_X is None or source.train_y is None:
        found = _of_parts(predictions, source)
    else:
        found = _of_rows(source, source.train_X, source.train_y)
    for name, make in found:
        yield name, make, _kind_name(name)


def _of_process(source: Source, process: GaussianProcess) -> Iterator[tuple[str, Maker]]:
    transform = _transform(process)
    try:
        kind = kind_of(process, transform, source.categories)
    except CoupledGPError:  # the observations were not kept
        return
    points = _points(process, source.points)
    for name, make in _makers(kind):
        yield name, partial(_law_from, make, points, transform)


def _of_rows(source: Source, X: FloatArray, y: FloatArray) -> Iterator[tuple[str, Maker]]:
    """Rivals of a model of another package, from its training rows."""
    if source.classes is None:
        kind = table_kind(X, y, None, source.categories)
        for name, make in _makers(kind):
            yield name, partial(_law_from, make, source.points)
        return
    laws = by_class.table_rivals(X, y[:, 0].astype(int), source.points, source.classes)
    for name, law in laws.items():
        yield name, _always(law)


def _of_parts(predictions: Predictions, source: Source) -> Iterator[tuple[str, Maker]]:
    """Rivals of every tenth of the test rows, drawn at random, from the others."""
    X, y = source.points, predictions.y
    if y is None:
        return
    parts = np.random.default_rng(0).permutation(len(y)) % min(N_PARTS, len(y))
    if source.classes is not None:
        codes = y[:, 0].astype(int)
        found = by_class.left_out_table_rivals(X, codes, source.classes, parts)
        for name, law in found.items():
            yield name, _always(law)
        return
    for name, make in _makers(table_kind(X, y, None, source.categories)):
        yield name, partial(_law_of_parts, make, parts)


def _of_likelihood(source: Source, process: LatentGP) -> Iterator[tuple[str, Maker]]:
    """Rivals of a process under a likelihood, fitted to its observations."""
    data, classes, X = process.rows, source.classes, source.X
    kind = _kind_of_observations(process, data)
    if classes is not None:
        targets = data.targets
        one = targets[:, 0] if targets.shape[1] == 1 else targets.argmax(axis=1)
        codes = one.astype(int)
        if X is not None:
            found = by_class.table_rivals(data.points, codes, X, classes, data.counts)
            for name, law in found.items():
                yield name, _always(law)
            return
        yield "shares", lambda: by_class.shares(codes, len(source), classes, data.counts)
    elif targets_are_one(data) and process.likelihood.takes_exposure:
        rates = by_class.count_rivals(data, X, len(source), source.exposure)
        for name, law in rates.items():
            yield name, _always(law)
    if kind is None or (classes is None and not targets_are_one(data)):
        return
    points = _points(process.functions[0], source.points)

    def of_labels(name: str, make: Callable[[], Fitted | None]) -> Law | None:
        return _labels(name, _at(make, points), len(data), classes)

    def observed(make: Callable[[], Fitted | None]) -> Law | None:
        return _observed(_at(make, points), process.likelihood.is_discrete)

    for name, make in _makers(kind):
        if classes is not None:
            if name in by_class.OF_LABELS:
                yield name, partial(of_labels, name, make)
        elif not (process.likelihood.is_discrete and source.exposure is not None):
            yield name, partial(observed, make)


def targets_are_one(data: Data) -> bool:
    """Whether there is one output."""
    return data.targets.shape[1] == 1


def _labels(name: str, found: Predicted | None, n: int, classes: Any) -> Law | None:
    return None if found is None else by_class.of_labels(name, found.mean, found.std, n, classes)


def _observed(found: Predicted | None, rounded: bool) -> Law | None:
    law = _law(found)
    if law is None or not rounded:
        return law
    return by_class.Rounded(law.mean, law.std)


def _kind_of_observations(process: LatentGP, data: Data) -> Kind | None:
    first = process.functions[0].first
    if isinstance(first, NodeGP):
        return node_kind(first.graph, data.points, data.targets, data.weights)
    if isinstance(first, FieldGP | PreciseFieldGP):
        operator = first.field_prior.operator
        return field_kind(operator, canonical(data.points), data.targets, data.weights)
    return table_kind(data.points, data.targets, data.weights)


def kind_of(
    process: GaussianProcess,
    transform: TargetTransform | None = None,
    categories: Sequence[IntArray] = (),
) -> Kind:
    """Rivals of the kind of a process's points, given its observations, transformed or not.

    Raises
    ------
    CoupledGPError
        The process has not kept its observations.
    """
    inner = untransformed(process)
    data = inner.data if transform is None else transformed_data(inner.data, (transform,))
    first = inner.first
    if isinstance(first, NodeGP):
        return node_kind(first.graph, data.points, data.targets, data.weights)
    if isinstance(first, FieldGP | PreciseFieldGP):
        operator = first.field_prior.operator
        return field_kind(operator, canonical(data.points), data.targets, data.weights)
    return table_kind(data.points, data.targets, data.weights, categories)


def _points(process: GaussianProcess, points: Any) -> Any:
    is_field = isinstance(untransformed(process).first, FieldGP | PreciseFieldGP)
    return canonical(points) if is_field else points


def _transform(process: GaussianProcess) -> TargetTransform | None:
    """The transform of the single target that most of a mixture's weight has, if any."""
    if process.units.n_outputs > 1 or not hasattr(process, "members"):
        return None
    shares: dict[TargetTransform, float] = {}
    for part, weight in mixed_parts(process):
        if isinstance(part, TransformedGP):
            (transform,) = part.transforms
            shares[transform] = shares.get(transform, 0.0) + weight
    best = max(shares, key=lambda one: shares[one], default=None)
    return best if best is not None and shares[best] > MOST else None


def _makers(kind: Kind) -> Iterator[tuple[str, Callable[[], Fitted | None]]]:
    """The mean and the others of a kind, each fitted when it is asked for, or None."""
    data = kind.observations
    mean = Fitted(lambda points: data.predicted_by_mean(len(points)), data.left_out_by_mean)
    yield "mean", lambda: mean

    def fitted(make: Callable[[], Fitted | str]) -> Fitted | None:
        with suited_threads(len(data)):
            found = make()
        return None if isinstance(found, str) else found

    for name, make in kind.makers.items():
        yield name, partial(fitted, make)


def _always(law: Law) -> Maker:
    return lambda: law


def _law_from(make: Callable[[], Fitted | None], points: Any, transform: Any = None) -> Law | None:
    return _law(_at(make, points), transform)


def _law_of_parts(make: Callable[[], Fitted | None], parts: IntArray) -> Law | None:
    return _law(_left_out(make, parts))


def _at(make: Callable[[], Fitted | None], points: Any) -> Predicted | None:
    found = make()
    return None if found is None else found.predict(points)


def _left_out(make: Callable[[], Fitted | None], groups: IntArray) -> Predicted | None:
    found = make()
    return None if found is None else found.left_out(groups)


def _law(found: Predicted | None, transform: TargetTransform | None = None) -> Law | None:
    """The law of predictions of y, or of transformed targets; None without deviations."""
    if found is None or found.std is None:
        return None
    std = np.broadcast_to(found.std, found.mean.shape)
    if transform is None:
        return Normal(found.mean, std)
    return Mapped.of(transform, found.mean, std)


def _law_at(
    found: Predicted | None, rows: IntArray, transform: TargetTransform | None
) -> Law | None:
    law = _law(found, transform)
    return None if law is None else law.take(rows)


def _given(given: Any, name: str, source: Source) -> Rival:
    """A rival of the user's own.

    Raises
    ------
    InvalidInputError
        It needs training rows that are not known, or predicts other points.
    """
    start = perf_counter()
    is_estimator = hasattr(given, "fit") and hasattr(given, "predict")
    if not (is_estimator or callable(given)):
        law = law_of_prediction(given, len(source))
    else:
        X, y = source.train_X, source.train_y
        if X is None or y is None:
            raise InvalidInputError(
                f"rivals: expected predictions for {name!r}, since training rows of a table are "
                "not known"
            )
        targets = y[:, 0] if y.shape[1] == 1 else y
        if is_estimator:
            law = _of_estimator(given, X, targets, source)
        else:
            law = law_of_prediction(given(X, targets, source.points), len(source))
    return Rival(
        Predictions(law, name=name), "flexible", name, f"Use {name}.", perf_counter() - start
    )


def _of_estimator(given: Any, X: FloatArray, y: FloatArray, source: Source) -> Law:
    """A clone of an estimator of scikit-learn, with the error of rows outside of five folds."""
    from sklearn.base import clone

    points = source.points
    if source.classes is not None:
        model = clone(given).fit(X, source.classes[y.astype(int)])
        return Chances.of(model.predict_proba(points), model.classes_, len(source))
    folds, held = np.random.default_rng(3).permutation(len(X)) % FOLDS, np.empty_like(y)
    for fold in range(FOLDS):
        own = folds == fold
        held[own] = clone(given).fit(X[~own], y[~own]).predict(X[own])
    mean = np.asarray(clone(given).fit(X, y).predict(points)).reshape(len(source), -1)
    error = np.sqrt(np.square(y - held).reshape(len(X), -1).mean(axis=0))
    std = positive(error, y.reshape(len(X), -1))
    return Normal(mean, np.broadcast_to(std, mean.shape))
