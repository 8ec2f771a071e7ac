"""Tables on a cluster as partitions, and passes that sum each where it lies and merge the sums."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial, reduce
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from coupledgp.core.passes import Pass, TableBatch, named_part, of_part
from coupledgp.core.process import Data
from coupledgp.core.statistics import DataStatistics
from coupledgp.core.units import Units
from coupledgp.core.weights_posterior import FeatureStream
from coupledgp.dask.cluster import Cluster, run
from coupledgp.errors import InvalidInputError
from coupledgp.ground.progress import tell
from coupledgp.ground.validation import wrong
from coupledgp.random import IntArray
from coupledgp.tables.batch_passes import ColumnsPass, RowsPass, SummarisedPasses
from coupledgp.tables.parts import Reading, TablePart

# A worker that holds more than so many times its share of the partitions gives some of them up.
MOST_SHARES = 1.5


class DaskPasses(SummarisedPasses):
    """Passes over partitions: features are computed on the workers, and what moves are sums.

    Parameters
    ----------
    estimator, missing
        As of `SummarisedPasses`.
    partitions
        The table.

    Raises
    ------
    InvalidInputError
        A partition holds what `fit` refuses or does not fit the others, or there are no rows.
    """

    no_rows = "X: expected rows, got empty partitions only"

    def __init__(self, estimator: Any, partitions: Partitions, missing: str) -> None:
        self.partitions, self.cluster = partitions, partitions.cluster
        # An earlier fit of the estimator stays here.
        super().__init__(clone(estimator, safe=False), missing)

    @cached_property
    def everywhere(self) -> Any:
        """A future of how partitions are read, for tasks."""
        return self.cluster.shared(self.reading)

    def take(self, rows: IntArray) -> Data:
        tell(f"{rows.size} rows")
        places = np.split(rows, np.searchsorted(rows, self.ends)[:-1])
        starts = np.append(0, self.ends[:-1])
        which = [number for number, own in enumerate(places) if own.size]
        sums = [RowsPass(places[number] - starts[number]) for number in which]
        parts = self.partitions.map(_summed, self.everywhere, sums, which, which=which)
        found = reduce(RowsPass.merge, (part.found for part in self.cluster.result(parts)))
        return sums[0].finish(found)

    def total(self, sums: Pass[Any]) -> Any:
        tell(f"{sums.name} of {len(self.partitions)} partitions")
        of_columns, numbers = isinstance(sums, ColumnsPass), list(range(len(self.partitions)))
        reading = None if of_columns else self.everywhere
        parts = self.partitions.map(_summed, reading, self.cluster.shared(sums), numbers)
        if of_columns:
            self.ends = np.cumsum(self.cluster.result(self.cluster.map(_n_rows, parts)))
            self.partitions.stay(parts)
        whole = self.cluster.merged(parts, partial(_merged, type(sums).merge))
        return sums.finish(self.cluster.result(whole).found)

    def statistics(self, stream: FeatureStream, units: Units) -> DataStatistics:
        """See the base class; partitions have to come out with as many rows as before."""
        found = super().statistics(stream, units)
        if found.n_rows != self.summary.n_rows:
            raise InvalidInputError(
                f"X: expected {self.summary.n_rows} rows in every pass, got {found.n_rows}; its "
                "partitions are computed anew for each pass and have to come out the same"
            )
        return found


class NumberedResult(NamedTuple):
    """The result of partitions in a row, and the number of the first one that has any."""

    number: int
    found: Any


def _summed(
    batch: TableBatch, reading: Reading | None, sums: Pass[Any], number: int
) -> NumberedResult:
    """The result of a pass over a partition as it is given, or as it is read."""
    part = batch if reading is None else reading.data(batch)
    return NumberedResult(number, sums.start() if part is None else of_part(part, sums))


def _merged(merge: Any, a: NumberedResult, b: NumberedResult) -> NumberedResult:
    """Merge results; an error names the first partition that does not fit those before it."""
    with named_part(f"partition {b.number}"):
        return NumberedResult(b.number if a.found is None else a.number, merge(a.found, b.found))


def _n_rows(part: NumberedResult) -> int:
    own: TablePart | None = part.found
    return 0 if own is None or own.targets is None else own.targets.n_rows


class Partitions:
    """A table whose rows come in partitions, each a `TableBatch` that a worker makes.

    Parameters
    ----------
    cluster
        The workers.
    batches
        Delayed partitions, computed anew for each pass unless the user holds them on the workers
        (`persist`).
    rows
        The collection of the inputs, which says where partitions are held.
    """

    def __init__(self, cluster: Cluster, batches: Iterable[Any], rows: Any = None) -> None:
        self.cluster, self.batches = cluster, tuple(batches)
        self._homes = self._shared(cluster.homes(rows, len(self.batches)))

    def __len__(self) -> int:
        return len(self.batches)

    def map(
        self, function: Callable[..., Any], *arguments: Any, which: Sequence[int] | None = None
    ) -> list[Any]:
        """Futures of `function(batch, *arguments)`, one for each partition.

        Parameters
        ----------
        function
            Function of a `TableBatch` and further arguments.
        *arguments
            Futures or values; a list of as many values as there are partitions asked for gives one
            to each.
        which
            Numbers of the partitions; None: all.
        """
        from dask.delayed import delayed

        call = delayed(_named, pure=False)
        groups: dict[str | None, list[tuple[int, Any]]] = {}
        for place, number in enumerate(range(len(self)) if which is None else which):
            own = (each[place] if isinstance(each, list) else each for each in arguments)
            task = call(function, number, self.batches[number], *own)
            groups.setdefault(self._homes[number], []).append((place, task))
        found: dict[int, Any] = {}
        for home, group in groups.items():
            futures = self.cluster.compute([task for _, task in group], home)
            found |= {place: future for (place, _), future in zip(group, futures, strict=True)}
        return [found[place] for place in sorted(found)]

    def stay(self, futures: Sequence[Any]) -> None:
        """Let later passes go on where each partition was computed, so that no rows move."""
        self._homes = self._shared([self.cluster.home(future) for future in futures])

    def _shared(self, homes: list[str | None]) -> list[str | None]:
        """Homes of partitions, unless one worker had far more than its share of the work."""
        share = len(homes) / self.cluster.n_workers
        most = max(Counter(homes).values(), default=0)
        return homes if most <= MOST_SHARES * share + 1 else [None] * len(homes)


def partitions_of(cluster: Cluster, X: Any, y: Any, sample_weight: Any = None) -> Partitions:
    """Partitions of a table as a person gives them.

    Parameters
    ----------
    cluster
        The workers.
    X
        Inputs: a Dask DataFrame, a Dask Array (n, d), or a list of delayed partitions.
    y
        Targets: the name of a column of a DataFrame, or a list of names; or a collection of the
        kind of X in the same partitions; or, for delayed partitions that are tuples `(X, y)` or
        `(X, y, sample_weight)`, None.
    sample_weight
        Weights of the rows as y gives targets, or None.

    Raises
    ------
    InvalidInputError
        X is no such collection, a column is not there, or partitions differ in number.
    """
    from dask.delayed import delayed

    if is_delayed(X) and y is None:
        if sample_weight is not None:
            raise InvalidInputError("sample_weight: expected None beside partitions without y")
        checked = delayed(_as_batch, pure=False)
        return Partitions(cluster, (checked(number, part) for number, part in enumerate(X)))
    if is_delayed(X):
        return Partitions(cluster, _paired(X, y, sample_weight))
    if is_dask(X, "dataframe"):
        inputs, y, sample_weight = _columns(X, y, sample_weight)
        return Partitions(cluster, _paired(inputs.to_delayed(), y, sample_weight), X)
    if is_dask(X, "array"):
        return Partitions(cluster, _paired(_blocks(X, "X", None), y, sample_weight, X), X)
    raise wrong("X", "a Dask DataFrame, a Dask Array or a list of delayed partitions", type(X))


def is_dask(value: Any, kind: str) -> bool:
    """Whether a value is a Dask collection of a kind, "dataframe" or "array"."""
    module = type(value).__module__
    return module.startswith(f"dask.{kind}") and hasattr(value, "to_delayed")


def is_delayed(value: Any) -> bool:
    """Whether a value is a list of delayed partitions, at least one."""
    from dask.delayed import Delayed

    return (
        isinstance(value, (list, tuple))
        and len(value) > 0
        and all(isinstance(item, Delayed) for item in value)
    )


def _columns(X: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Inputs, targets and weights of a DataFrame whose columns have roles by their names."""
    names, table = list(X.columns), X
    roles = [y] if isinstance(y, str) else list(y) if isinstance(y, (list, tuple)) else []
    roles += [sample_weight] if isinstance(sample_weight, str) else []
    missing = [name for name in roles if name not in names]
    if missing:
        raise InvalidInputError(f"X: expected a column {missing[0]!r}, got {names}")
    if isinstance(y, (str, list, tuple)):
        y = table[y if isinstance(y, str) else list(y)]
    if isinstance(sample_weight, str):
        sample_weight = table[sample_weight]
    return (table[[name for name in names if name not in roles]] if roles else X), y, sample_weight


def _paired(inputs: Sequence[Any], y: Any, sample_weight: Any, like: Any = None) -> Iterator[Any]:
    """Delayed batches of inputs, targets and weights partition by partition."""
    from dask.delayed import delayed

    parts = [_parts(value, name, len(inputs), like) for value, name in (
        (y, "y"), (sample_weight, "sample_weight"))]  # fmt: skip
    batch = delayed(TableBatch, pure=False)
    for number, rows in enumerate(inputs):
        yield batch(rows, *(None if part is None else part[number] for part in parts))


def _parts(value: Any, name: str, count: int, like: Any) -> list[Any] | None:
    """Delayed partitions of targets or weights, as many as there are of inputs."""
    if value is None:
        if name == "y":
            raise InvalidInputError("y: expected targets, got None")
        return None
    if is_delayed(value):
        parts = value
    elif is_dask(value, "array"):
        parts = _blocks(value, name, like)
    elif is_dask(value, "dataframe"):
        parts = value.to_delayed()
    else:
        raise wrong(name, "a Dask collection in the partitions of X", type(value))
    if len(parts) != count:
        raise InvalidInputError(
            f"{name}: expected {count} partitions as X has, got {len(parts)}; repartition one of "
            "the two"
        )
    return list(parts)


def row_blocks(array: Any, name: str) -> tuple[list[Any], list[float]]:
    """Delayed blocks of whole rows of an array (n, d), and their numbers of rows, NaN if unknown.

    Raises
    ------
    InvalidInputError
        The array has other than one or two dimensions.
    """
    if array.ndim not in (1, 2):
        raise InvalidInputError(f"{name}: expected an array of rows, got {array.ndim} dimensions")
    if array.ndim == 2 and len(array.chunks[1]) > 1:
        array = array.rechunk({1: -1})
    return list(array.to_delayed().ravel()), list(array.chunks[0])


def _blocks(array: Any, name: str, like: Any) -> list[Any]:
    """Delayed blocks of whole rows of an array, cut as the array `like` where sizes are known."""
    known = like is not None and not _unknown(like) and not _unknown(array)
    if known and like.chunks[0] != array.chunks[0]:
        if like.shape[0] != array.shape[0]:
            raise wrong(name, f"{like.shape[0]} rows as X has", array.shape[0])
        array = array.rechunk({0: like.chunks[0]})
    return row_blocks(array, name)[0]


def _unknown(array: Any) -> bool:
    """Whether the numbers of rows of the blocks of an array are unknown."""
    return bool(np.isnan(array.chunks[0]).any())


def _as_batch(number: int, part: Any) -> TableBatch:
    """A partition as it was given, as a batch."""
    if isinstance(part, tuple) and 2 <= len(part) <= 3:
        return TableBatch(*part)
    raise wrong(f"partition {number}: X", "a tuple (X, y) or (X, y, sample_weight)", type(part))


def _named(function: Callable[..., Any], number: int, batch: Any, *arguments: Any) -> Any:
    """Call a function of a partition; its errors name the partition, from zero."""
    with named_part(f"partition {number}"):
        return run(function, batch, *arguments)
