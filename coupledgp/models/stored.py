"""Parameters and results of estimators in model files.

The record of a fit, which `fit` and `partial_fit` replace by a single assignment.
"""

from __future__ import annotations

import inspect
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from numbers import Integral
from os import PathLike
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.features.sklearn import Columns, Fitted
from coupledgp.gp import container
from coupledgp.gp.protocol import Arrays, Data, GaussianProcess, Header
from coupledgp.gp.schema import check_integer, check_number, require_type
from coupledgp.gp.seen import Seen
from coupledgp.gp.state import TEXTS, text_of
from coupledgp.gp.tables import RowDigests
from coupledgp.gp.wrapped import has_data
from coupledgp.ground.parameters import options_of
from coupledgp.random import FloatArray
from coupledgp.search.averaging import HyperparameterPrior

# Results that hold for the rows of one fit only: `partial_fit` drops them. All other results of a
# fit describe its search, and stay; `docs/guarantees.md` lists both.
OF_ONE_FIT = ("selection_", "kl_per_point_", "spectrum_start_loss_", "spectrum_loss_")


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
        Ranges of the rows of a table; None if the rows are kept, or for an old file without ranges.
    target_names : tuple of str
        Names of the targets, of a series or the columns of a data frame; empty where they had none.
    dropped : frozenset of str
        Names of results that were dropped, since the process has other rows now.
    columns : Columns or None
        Columns of X; None on graphs.
    digests : RowDigests or None
        Digests of the training rows, for a model from a file without them.
    """

    process: GaussianProcess
    ndim: int
    results: Mapping[str, Any] = field(default_factory=dict)
    columns: Columns | None = None
    digests: RowDigests | None = None
    dropped: frozenset[str] = frozenset()
    seen: Seen | None = None
    target_names: tuple[str, ...] = ()

    @cached_property
    def extent(self) -> Seen | None:
        """Ranges of the rows of a table; None for an old file without ranges."""
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


# Types of JSON that a file may hold for a parameter, by the type of the parameter's default.
TYPES_OF_PARAMETERS: dict[type[Any], tuple[type[Any], ...]] = {
    bool: (bool,),
    int: (int, str, type(None)),
    float: (int, float, str, type(None)),
    str: (str, int, float, list, dict, type(None)),
}


class Stored(Fitted[FittedModel], BaseEstimator):
    """Part of an estimator that writes itself to a file."""

    # Section of a file's header that holds numbers of the fit, and the names of those it may hold.
    _section: ClassVar[str] = "fitted"
    _stored: ClassVar[tuple[str, ...]] = ("n_evaluations_", "converged_")
    # Parameters that a file does not hold: parts of the process, and the device.
    _unstored: ClassVar[tuple[str, ...]] = ("device", "directions", "graph", "operator")

    @property
    @abstractmethod
    def process_(self) -> GaussianProcess:
        """The fitted process."""

    def save(
        self,
        path: str | PathLike[str],
        include_data: bool = False,
        row_digests: bool | Literal["inputs"] = True,
    ) -> None:
        """Write the fitted model to a file, whole or not at all; see `coupledgp.save_model`."""
        check_is_fitted(self)
        if row_digests not in (True, False, "inputs"):
            raise InvalidInputError(
                f"row_digests: expected True, False or 'inputs', got {row_digests!r:.60}"
            )
        header, arrays = self._state(include_data)
        if row_digests and "X" not in arrays:
            arrays |= self._digest_arrays(row_digests != "inputs")
        container.write(path, header, arrays)

    def _digest_arrays(self, with_targets: bool) -> Arrays:
        """Arrays of the digests of the training rows where a file holds none of these."""
        digests, process = self.fitted_.digests, self.process_
        if digests is None and has_data(process) and not has_data(process.without_data()):
            digests = digests_of(process, process.data, None, with_targets)
        if digests is not None and not with_targets:
            digests = digests.of_inputs
        return {} if digests is None else digests.arrays()

    def _state(self, include_data: bool) -> tuple[Header, Arrays]:
        process = self.process_
        if include_data:
            len(process.data)  # refuses where there are none
        else:
            process = process.without_data()
        header, arrays = process.state()
        record = self.fitted_
        stored = {name: record.results[name] for name in self._stored if name in record.results}
        return {
            **header,
            "class": type(self).__name__,
            "parameters": {k: self._plain(k, v) for k, v in self._stored_parameters().items()},
            "y_ndim": record.ndim,
            **({"target_names": list(record.target_names)} if record.target_names else {}),
            self._section: {**stored, **header.get(self._section, {})},
        }, arrays

    def _stored_parameters(self) -> dict[str, Any]:
        """Parameters that a file holds.

        A file of a model that refuses missing values is one that releases before could read, and
        it loads where there is no such device.
        """
        usual: dict[str, Any] = {
            "missing": "raise", "keep_rows": None, "likelihood": "gaussian",
            "creases": "auto",
        }  # fmt: skip
        return {
            name: value
            for name, value in self.get_params(deep=False).items()
            if name not in self._unstored
            and (name not in usual or (value, getattr(type(self), name)) != (usual[name],) * 2)
        }

    def _plain(self, name: str, value: Any) -> Any:
        """A constructor parameter as JSON can hold it."""
        if name == "options" and value is not None:
            return {key: self._plain(key, own) for key, own in value.items()}
        return plain_value(name, value)


def digests_of(
    process: GaussianProcess, data: Data, salt: bytes | None = None, with_targets: bool = True
) -> RowDigests:
    """Digests of data of a process."""
    targets = data.targets if with_targets else None
    return RowDigests.of(process.row_keys(data.points), targets, salt)


def restored_parameters(kind: type[Any], header: Header) -> dict[str, Any]:
    """Parameters of the constructor in a header, of the types that they have.

    Raises
    ------
    ModelFileError
        A name is that of no parameter, or a value is of another type than the parameter's.
    """
    stored = require_type(header.get("parameters"), dict, "parameters")
    known = inspect.signature(kind).parameters
    for name, value in stored.items():
        if name not in known:
            raise ModelFileError(f"parameters: expected no {name[:40]!r}")
        types = TYPES_OF_PARAMETERS.get(type(known[name].default), ())
        if name == "random_state":
            types = (int, type(None))
        if types and type(value) not in types:
            raise ModelFileError(f"parameters.{name}: expected another type, got {value!r:.40}")
    own = require_type(stored.get("options") or {}, dict, "parameters.options")
    unknown = own.keys() - options_of(kind).keys()
    if unknown:
        raise ModelFileError(f"parameters.options: expected no {min(unknown)[:40]!r}")
    return stored


def restored_results(header: Header, name: str, known: Iterable[str]) -> dict[str, Any]:
    """Numbers and truth values among the results of a fit, from a header."""
    stored = require_type(header.get(name), dict, name)
    found = {key: stored[key] for key in known if key in stored}
    for key, value in found.items():
        if value is not None and type(value) is not bool:
            check_number(value, f"{name}.{key}")
    return found


def restored_ndim(header: Header, process: GaussianProcess) -> int:
    """Number of dimensions of y in a header: one for a single output, or two."""
    ndim = check_integer(header.get("y_ndim"), "y_ndim", 1, 2)
    if ndim == 1 and process.units.n_outputs != 1:
        raise ModelFileError(f"y_ndim: expected 2 for {process.units.n_outputs} outputs, got 1")
    return ndim


def restored_names(header: Header, n_outputs: int) -> tuple[str, ...]:
    """Names of the targets in a header; none in a file without them."""
    names = require_type(header.get("target_names", []), list, "target_names")
    if not all(isinstance(one, str) for one in names) or len(names) not in (0, 1, n_outputs):
        raise ModelFileError(f"target_names: expected {n_outputs} names, got {names!r:.80}")
    return tuple(names)


def plain_seed(random_state: Any) -> int | None:
    """A random state as a file holds it: an int, or None for any other kind of random state."""
    is_seed = isinstance(random_state, Integral) and not isinstance(random_state, bool)
    return int(random_state) if is_seed else None


def plain_value(name: str, value: Any) -> Any:
    """A parameter of any estimator as JSON can hold it: numbers, text or lists of numbers and text.

    Raises
    ------
    InvalidInputError
        The parameter is an object that no text names.
    """
    if name == "random_state":
        return plain_seed(value)
    if name in TEXTS and value is not None:
        return value if isinstance(value, str) else text_of(value, name)
    if callable(value):
        raise InvalidInputError(
            f"{name}: expected a name, since a file holds text only, got {value!r}; set "
            f"model.{name} to a name before saving, which changes no prediction"
        )
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, HyperparameterPrior):
        return asdict(value)
    if isinstance(value, (list, tuple)):
        return [plain_value("", item) for item in value]
    return value
