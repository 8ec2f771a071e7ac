"""Parameters and results of estimators in model files.

The record of a fit, which `fit` and `partial_fit` replace by a single assignment.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from numbers import Integral
from os import PathLike
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from coupledgp.core.digests import RowDigests
from coupledgp.core.fitted import Fitted, InputColumns
from coupledgp.core.process import Data, GaussianProcess
from coupledgp.core.seen import Seen
from coupledgp.core.wrapped import has_data
from coupledgp.errors import ModelFileError
from coupledgp.features.registry import features_text
from coupledgp.ground.codec import named, stored, write_file
from coupledgp.ground.parameters import options_of
from coupledgp.ground.validation import wrong
from coupledgp.random import FloatArray

# Results that hold for the rows of one fit only: `partial_fit` drops them. All other results of a
# fit describe its search, and stay; `docs/guarantees.md` lists both.
OF_ONE_FIT = ("selection_", "kl_per_point_", "spectrum_start_loss_", "spectrum_loss_")


@stored
@dataclass(frozen=True, eq=False)
class FittedModel:
    """Results of a fit.

    Attributes
    ----------
    process : GaussianProcess
        Fitted process.
    ndim : int
        Number of dimensions of the y that was given, 1 or 2; predictions have the same.
    results : Mapping of str to Any
        Further fitted attributes of the estimator by name.
    seen : Seen or None
        Ranges of the rows of a table; None if the rows are kept.
    target_names : tuple of str
        Names of the targets, of a series or the columns of a data frame; empty where they had none.
    dropped : frozenset of str
        Names of results that were dropped, since the process has other rows now.
    columns : InputColumns or None
        Columns of X; None on graphs.
    digests : RowDigests or None
        Digests of the training rows, for a model from a file without them.
    """

    process: GaussianProcess
    ndim: int
    results: Mapping[str, Any] = field(default_factory=dict, metadata={"finite": False})
    columns: InputColumns | None = None
    digests: RowDigests | None = None
    dropped: frozenset[str] = frozenset()
    seen: Seen | None = None
    target_names: tuple[str, ...] = ()

    def read_back(self) -> FittedModel:
        """The same, of a file, with as many names and dimensions of y as it has outputs."""
        n_outputs = self.process.units.n_outputs
        if self.ndim not in (1, 2) or (self.ndim == 1 and n_outputs != 1):
            raise ModelFileError(f"ndim: expected 2 for {n_outputs} outputs, got {self.ndim}")
        if len(self.target_names) not in (0, 1, n_outputs):
            raise ModelFileError(
                f"target_names: expected {n_outputs} names, got {self.target_names!r:.80}"
            )
        return self

    @cached_property
    def extent(self) -> Seen | None:
        """Ranges of the rows of a table; None for points of another kind."""
        if self.seen is not None or not has_data(self.process):
            return self.seen
        data = self.process.data
        return Seen.of(data.points, data.targets)

    def with_process(
        self,
        process: GaussianProcess,
        digests: RowDigests | None = None,
        seen: Seen | None = None,
    ) -> FittedModel:
        """The same model with another process, without the results that hold for one fit only."""
        results = {k: v for k, v in self.results.items() if k not in OF_ONE_FIT}
        dropped = self.dropped | (self.results.keys() - results.keys())
        return replace(
            self, process=process, results=results, digests=digests, dropped=dropped, seen=seen
        )

    def shaped(self, array: FloatArray, axis: int) -> FloatArray:
        """An array (..., k, ...) without its axis of outputs, at `axis`, if y was of shape (n,)."""
        return np.moveaxis(array, axis, 0)[0] if self.ndim == 1 else array


def names_of_targets(y: Any) -> tuple[str, ...]:
    """Names of targets: columns of a table, or the name of a series; none of arrays and lists."""
    names = getattr(y, "columns", None)
    if names is None:
        name = getattr(y, "name", None)
        return (name,) if isinstance(name, str) else ()
    found = tuple(one for one in names if isinstance(one, str))
    return found if len(found) == len(names) == len(set(found)) else ()


def fitted_result(name: str, text: str) -> Any:
    """Return a property that reads a result of the last fit by its name.

    Without such a result it raises AttributeError, so that the property seems not to exist.
    """

    def read(model: Fitted[FittedModel]) -> Any:
        record = model.fitted_
        if name in record.results:
            return record.results[name]
        if name in record.dropped:
            raise AttributeError(
                f"{type(model).__name__} has no {name!r} any more: it held for the rows of the "
                "fit, and the model was given others since"
            )
        raise AttributeError(f"{type(model).__name__} has no {name!r} in this fit")

    return property(read, doc=text)


@stored
@dataclass(frozen=True, eq=False)
class SavedModel:
    """An estimator in a file: the name of its class, its parameters and its fit."""

    kind: str
    parameters: dict[str, Any] = field(metadata={"finite": False})
    fitted: FittedModel

    def read_back(self) -> Stored:
        """The estimator."""
        kind = MODEL_CLASSES.get(self.kind)
        if kind is None:
            raise ModelFileError(
                f"class: expected one of {', '.join(MODEL_CLASSES)}, got {self.kind:.40}"
            )
        unknown = dict(self.parameters.get("options") or {}).keys() - options_of(kind).keys()
        if unknown:
            raise ModelFileError(f"parameters.options: expected no {min(unknown)[:40]!r}")
        model = kind(**self.parameters).holding(self.fitted)
        model.check_restored()
        return model


# Estimators that files may hold, by name.
MODEL_CLASSES: dict[str, Any] = {}


class Stored(Fitted[FittedModel], BaseEstimator):
    """Part of an estimator that writes itself to a file."""

    # Results of a fit that a file holds.
    _stored: ClassVar[tuple[str, ...]] = (
        "n_evaluations_", "converged_", "choice_", "forecast_", "classes_", "power_",
    )  # fmt: skip
    # Parameters that a file does not hold: the device, and what a graph has been read by.
    _unstored: ClassVar[tuple[str, ...]] = ("device", "directions")

    @property
    @abstractmethod
    def process_(self) -> GaussianProcess:
        """The fitted process."""

    @abstractmethod
    def check_restored(self) -> None:
        """Refuse a fit of a file that is none of this estimator.

        Raises
        ------
        ModelFileError
            Its process is of another kind, or its parts do not fit each other.
        """

    def save(
        self,
        path: str | PathLike[str],
        include_data: bool = False,
        row_digests: bool | Literal["inputs"] = True,
    ) -> None:
        """Write the fitted model to a file, whole or not at all; see `coupledgp.save_model`."""
        check_is_fitted(self)
        if row_digests not in (True, False, "inputs"):
            raise wrong("row_digests", "True, False or 'inputs'", row_digests)
        record, process = self.fitted_, self.process_
        if include_data:
            len(process.data)  # refuses where there are none
        else:
            process = process.without_data()
        digests = None
        if row_digests and not has_data(process):
            digests = self._digests(row_digests != "inputs")
        results = self._stored_results()
        seen = None if has_data(process) or record.columns is None else record.extent
        parameters = {
            name: self._plain(name, value)
            for name, value in self.get_params(deep=False).items()
            if name not in self._unstored
        }
        fitted = replace(record, process=process, results=results, digests=digests, seen=seen)
        write_file(path, SavedModel(type(self).__name__, parameters, fitted))

    def _stored_results(self) -> dict[str, Any]:
        """Results of the fit that a file holds."""
        results = self.fitted_.results
        return {name: results[name] for name in self._stored if name in results}

    def _digests(self, with_targets: bool) -> RowDigests | None:
        """Digests of the training rows where a file holds none of these."""
        digests, process = self.fitted_.digests, self.process_
        if digests is None and has_data(process):
            digests = digests_of(process, process.data, None, with_targets)
        if digests is not None and not with_targets:
            digests = digests.of_inputs
        return digests

    def _plain(self, name: str, value: Any) -> Any:
        """A parameter as a file holds it."""
        if name == "random_state":
            is_seed = isinstance(value, Integral) and not isinstance(value, bool)
            return int(value) if is_seed else None
        if name == "features" and value is not None:
            return named(features_text(value), name, value)
        if name == "options" and value is not None:
            return {key: self._plain(key, own) for key, own in value.items()}
        return value


def digests_of(
    process: GaussianProcess, data: Data, salt: bytes | None = None, with_targets: bool = True
) -> RowDigests:
    """Digests of data of a process."""
    targets = data.targets if with_targets else None
    return RowDigests.of(process.row_keys(data.points), targets, salt)
