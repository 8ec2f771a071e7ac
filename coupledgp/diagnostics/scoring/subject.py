"""Fitted models and test points in the form in which laws are computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from coupledgp.core.mixture import MixtureGP
from coupledgp.core.process import Data, GaussianProcess
from coupledgp.errors import InvalidInputError
from coupledgp.ground.threads import suited_threads
from coupledgp.random import FloatArray, IntArray

P = ParamSpec("P")
R = TypeVar("R")
# What a report says of averaged hyperparameters.
SHARE = (
    "{:.0%} of the variance of observations at these points comes from means that differ with the "
    "hyperparameters."
)


@dataclass(frozen=True, eq=False)
class Subject:
    """A fitted model at test points.

    Attributes
    ----------
    model : object
        A process, an estimator around one, or any estimator with `predict(X, return_cov=True)`.
    points : array
        Points of the process; for other estimators the test inputs as they were given.
    process : GaussianProcess or None
        The process; None for other estimators.
    groups : Mapping of str to array (p,)
        Labels of the points, by what groups them.
    metadata : Mapping of str to array (p,)
        Columns that the model does not see, by name; among them the order of the rows.
    """

    model: Any
    points: Any
    process: GaussianProcess | None
    groups: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    metadata: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, model: Any, X: Any) -> Subject:
        """A model at test inputs; those of a process are its points.

        Raises
        ------
        InvalidInputError
            The inputs do not fit the model's data.
        """
        process = process_of(model)
        if process is None or process is model:
            return cls(model, X, process)
        try:
            return cls(model, model.points(X), process)
        except InvalidInputError:
            raise
        except ValueError as error:
            raise InvalidInputError(f"X_test: {error}") from error

    def kept(self) -> Subject:
        """The model at points of its own, which do not change with the array that was given."""
        points = self.points
        return replace(self, points=points.copy() if isinstance(points, np.ndarray) else points)

    def take(self, chosen: IntArray) -> Subject:
        """The model at some of its points, by their numbers (m,)."""
        groups, metadata = (
            {name: values[chosen] for name, values in columns.items()}
            for columns in (self.groups, self.metadata)
        )
        return replace(self, points=self.points[chosen], groups=groups, metadata=metadata)

    @property
    def inputs(self) -> FloatArray | None:
        """Inputs (p, d) of a table; None of other points."""
        points = self.points
        if not isinstance(points, np.ndarray) or points.ndim != 2 or points.dtype.kind != "f":
            return None
        return points

    @property
    def input_names(self) -> tuple[str, ...]:
        """Names of the columns of the inputs, as they are encoded; empty where they have none."""
        encoding, given = (
            getattr(self.model, name, None) for name in ("encoding_", "feature_names_in_")
        )
        found = given if encoding is None else encoding.column_names
        return () if found is None else tuple(map(str, found))

    @property
    def categories(self) -> tuple[IntArray, ...]:
        """Numbers of the columns of the inputs that are the code of each category."""
        encoding = getattr(self.model, "encoding_", None)
        return () if encoding is None else encoding.categories

    @property
    def is_mixture(self) -> bool:
        """Whether the laws of the model's observations are not normal."""
        return self.process is not None and not self.process.is_gaussian

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences that a reader of a comparison should know about the model."""
        if self.process is None:
            return ()
        process = self.process
        if not isinstance(process, MixtureGP) or process.purpose != "hyperparameters":
            return process.remarks
        share = float(process.share_between(self.points).mean())
        return (*process.remarks, SHARE.format(share))


def some_rows(n_rows: int, most: int, seed: int | Sequence[int]) -> IntArray:
    """Numbers below n, or at most so many of them at random, ascending."""
    if n_rows <= most:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(seed).choice(n_rows, most, replace=False))


def process_of(model: Any) -> GaussianProcess | None:
    """The process of a model, or None for an estimator that has none."""
    if isinstance(model, GaussianProcess):
        return model
    process = getattr(model, "process_", None)
    return process if isinstance(process, GaussianProcess) else None


def in_suited_threads(report: Callable[P, R]) -> Callable[P, R]:
    """A report whose threads are suited to the observations and points of its arguments.

    The first is a fitted model, or a `Subject`; the second the points, if any.
    """

    @wraps(report)
    def made(*args: P.args, **kwargs: P.kwargs) -> R:
        first = next(iter((*args, *kwargs.values())), None)
        model = first.model if isinstance(first, Subject) else first
        process = process_of(model)
        rows = None if process is None else getattr(process, "rows", None)
        places = (getattr(model, name, None) for name in ("graph", "operator"))
        points = args[1] if len(args) > 1 else kwargs.get("X_test")
        count = len(points) if hasattr(points, "__len__") else None
        known = len(rows) if isinstance(rows, Data) else None
        with suited_threads(known, count, *places):
            return report(*args, **kwargs)

    return made


def own_process(model: Any, otherwise: str) -> GaussianProcess:
    """The process of a model.

    Raises
    ------
    InvalidInputError
        The model has none; `otherwise` says what to do.
    """
    process = process_of(model)
    if process is None:
        raise InvalidInputError(
            f"model: expected a fitted model of this package, got a {type(model).__name__}; "
            f"{otherwise}"
        )
    return process


def checked_groups(
    groups: ArrayLike | Mapping[str, ArrayLike] | None, n_points: int
) -> dict[str, NDArray[Any]]:
    """Labels (p,) of p points by the name of what groups them; one array is called "group".

    Raises
    ------
    InvalidInputError
        There is not one label for each point, or one is missing.
    """
    if groups is None:
        return {}
    named = groups if isinstance(groups, Mapping) else {"group": groups}
    found = {str(name): np.asarray(labels) for name, labels in named.items()}
    for name, labels in found.items():
        if labels.shape != (n_points,):
            raise InvalidInputError(
                f"groups: expected {n_points} labels for {name!r}, one for each test point, got "
                f"shape {labels.shape}"
            )
        for row, one in enumerate(labels.tolist()):
            if _is_missing(one):
                raise InvalidInputError(
                    f"groups: expected a label for each test point, got {one!r} for {name!r} in "
                    f"row {row}"
                )
    return found


def _is_missing(label: Any) -> bool:
    """Whether a label is None, NaN, or a date or value of pandas that is none."""
    try:
        return label is None or bool(label != label)
    except TypeError:  # pandas' NA is neither equal nor unequal to anything
        return True
