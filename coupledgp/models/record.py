"""The record of a fit, which `fit` and `partial_fit` replace by a single assignment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from coupledgp.features.sklearn import Columns, Fitted
from coupledgp.gp.protocol import GaussianProcess
from coupledgp.gp.row_digests import RowDigests
from coupledgp.gp.seen import Seen
from coupledgp.gp.wrapped import has_data
from coupledgp.random import FloatArray

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
