"""Covariates of models of values over time: what is given, and the effects that are found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.gp.protocol import GaussianProcess
from coupledgp.gp.transformed import TransformedGP, untransformed
from coupledgp.gp.usual_days import UsualDayGP
from coupledgp.inference.space_time.effects import SensorEffects
from coupledgp.inference.space_time.site_labels import SiteLabels
from coupledgp.random import FloatArray
from coupledgp.series import Panel, TimeAxis
from coupledgp.series.covariates import (
    NODES,
    TIMES,
    Covariate,
    CovariatePlaces,
    LabelledValues,
)

# Name of a part of `components`.
EFFECT = "effect of {}"


class EffectTable(NamedTuple):
    """Effects of covariates, a row for each column of one.

    Attributes
    ----------
    covariate : list of str
        Names.
    column : list of str
        `"linear"`, `"degree 2"` and `"degree 3"` of a number's smooth part, or a kind.
    coefficient, std : FloatArray (r,)
        Mean and standard deviation of the common coefficient: in units of y for a unit of the
        number, for its polynomial, or for the kind beside the mean of all.
    own_std : FloatArray (r,)
        Standard deviation of the sensors' own coefficients about it; zero where there are none.
    gain : FloatArray (r,)
        Nats of log likelihood that the data lose without the covariate; near zero where they do
        not show it.
    """

    covariate: list[str]
    column: list[str]
    coefficient: FloatArray
    std: FloatArray
    own_std: FloatArray
    gain: FloatArray


def effects_of(process: GaussianProcess) -> SensorEffects | None:
    """Effects of covariates of a process; None without any."""
    inner = untransformed(process)
    return inner.effects if isinstance(inner, UsualDayGP) else None


def table_of(effects: SensorEffects) -> EffectTable:
    """The table of effects."""
    names, words, rows = [], [], []
    for number, one in enumerate(effects.columns):
        kinds = one.covariate.kinds or ("linear", "degree 2", "degree 3")[: one.n_columns]
        own = float(np.sqrt(effects.variances[number, 2]))
        first = effects.common(number).start
        for k, kind in enumerate(kinds):
            scale = float(one.scale[k])
            std = float(np.sqrt(max(effects.covariance[first + k, first + k], 0.0)))
            names.append(one.name)
            words.append(kind)
            rows.append([
                effects.mean[first + k] / scale, std / scale,
                own / scale if k < one.n_plain else 0.0, effects.gains[number],
            ])  # fmt: skip
    found = np.array(rows, dtype=np.float64).reshape(-1, 4)
    return EffectTable(names, words, *(np.ascontiguousarray(column) for column in found.T))


def read_covariates(
    given: Any, panel: Panel, labels: SiteLabels, axis: TimeAxis | None = None,
    known: tuple[Covariate, ...] | None = None, times: Any = None, nodes: Any = None,
) -> tuple[Covariate, ...]:  # fmt: skip
    """Covariates beside the values of a panel, or at other nodes and times of the axis."""
    axis = panel.axis if axis is None else axis
    stamps = axis.values if times is None else np.asarray(times)
    own = panel.nodes if nodes is None else list(nodes)
    every = labels.numbers()
    places = CovariatePlaces(own, labels.numbers(own), axis, stamps, labels.labels(every), every)
    return places.read(given, known)


def knowing(process: GaussianProcess, new: tuple[Covariate, ...]) -> GaussianProcess:
    """The process with further known values of covariates."""
    inner = untransformed(process)
    assert isinstance(inner, UsualDayGP)
    assert inner.effects is not None
    given = {one.name: one for one in new}
    columns = tuple(
        replace(one, covariate=one.covariate.joined(given[one.name])) if one.name in given else one
        for one in inner.effects.columns
    )
    found = replace(inner, effects=inner.effects.with_columns(columns))
    return process.around(found) if isinstance(process, TransformedGP) else found


def labelled(effects: SensorEffects, labels: SiteLabels) -> dict[str, LabelledValues]:
    """Known values of covariates with labels, as `fit` takes them."""
    found = {}
    for one in (columns.covariate for columns in effects.columns):
        kept = ~np.isnan(one.values).any(axis=0)
        values: Any = one.values[:, kept]
        if one.kinds:
            values = np.array(one.kinds, dtype=object)[values.astype(np.int64)]
        nodes = times = None
        if one.over != TIMES:
            nodes = labels.labels(one.sites)
        if one.over != NODES:
            times = effects.axis.labels(one.times[kept])
        shape = tuple(len(part) for part in (nodes, times) if part is not None)
        found[one.name] = LabelledValues(values.reshape(shape), nodes, times)
    return found


def known_of(process: GaussianProcess, what: str) -> tuple[Covariate, ...]:
    """Covariates of a process.

    Raises
    ------
    InvalidInputError
        It has none.
    """
    effects = effects_of(process)
    if effects is None:
        raise InvalidInputError(f"covariates: expected none, as {what} had none")
    return tuple(one.covariate for one in effects.columns)
