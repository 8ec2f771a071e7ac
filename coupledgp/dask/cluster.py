"""A Dask cluster as this package uses it: values that all tasks share, and reductions in trees.

The scheduler keeps all that is needed to compute a task again: a shared value is the result of a
task, not data that lie on workers alone. So a worker that dies during a fit costs time and changes
no result.

Sizes of results as Dask counts them, where tasks return objects of this package.

Dask asks how many bytes a result takes in order to choose workers, to spill memory, and to count
what moves. It knows arrays; objects that hold arrays seem to take no memory unless it is told.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

import numpy as np

from coupledgp.core.passes import Pass, in_tree
from coupledgp.core.process import Batch, Data
from coupledgp.core.statistics import DataStatistics, Moments
from coupledgp.core.weights_posterior import FeatureStream
from coupledgp.errors import CoupledGPError, InvalidInputError
from coupledgp.ground.extras import library
from coupledgp.ground.tensors import Tensor, TensorHolder, torch
from coupledgp.ground.validation import wrong
from coupledgp.tables.lattice_sums import LatticeSums

SIZED = (
    Batch, Data, DataStatistics, FeatureStream, LatticeSums, Moments, Pass,
)  # fmt: skip


@cache
def tell_dask() -> None:
    """Register the sizes of this package's objects in this process."""
    from dask.sizeof import sizeof

    def of_tensors() -> None:
        sizeof.register(torch.Tensor, size_of)  # type: ignore[no-untyped-call]

    sizeof.register_lazy("torch", of_tensors)  # type: ignore[no-untyped-call]
    for kind in SIZED:
        sizeof.register(kind, size_of)  # type: ignore[no-untyped-call]


def size_of(value: Any) -> int:
    """Bytes of an object and of the arrays that it holds."""
    if isinstance(value, (np.ndarray, Tensor)):
        return int(value.nbytes)
    if isinstance(value, (tuple, list)):
        return sum(map(size_of, value))
    if isinstance(value, TensorHolder):
        return sum(map(size_of, value.state_dict().values()))
    if is_dataclass(value):
        return sum(size_of(getattr(value, field.name)) for field in fields(value))
    if isinstance(value, Pass):
        return size_of(tuple(vars(value).values()))
    return sys.getsizeof(value)


# Arguments of a task may be as large as they have to be: they are sent to the scheduler once.
QUIET = {"distributed.admin.large-graph-warning-threshold": "1 PB"}


class Cluster:
    """The workers behind a client of `distributed`.

    Parameters
    ----------
    client
        A running `distributed.Client`; None: the one of this process that was made last.

    Raises
    ------
    MissingLibraryError
        Dask is not installed.
    InvalidInputError
        There is no client, or it is not connected.
    """

    def __init__(self, client: Any = None) -> None:
        self.client = checked_client(client)

    @property
    def n_workers(self) -> int:
        """Number of workers at present, one while all of them start anew."""
        return max(len(self.client.nthreads()), 1)

    def submit(self, function: Callable[..., Any], *arguments: Any, home: str | None = None) -> Any:
        """A future of `function(*arguments)`; futures among the arguments stay where they are.

        It is computed by the worker of an address if that lives; None: by whichever suits.
        """
        import dask

        check_connected(self.client)
        with dask.config.set(QUIET):
            return self.client.submit(run, function, *arguments, pure=False, **at(home))

    def map(self, function: Callable[..., Any], parts: Sequence[Any], *arguments: Any) -> list[Any]:
        """Futures of `function(part, *arguments)`; a list among the arguments has one for each."""
        return [self.submit(function, *own) for own in _rows_of(parts, arguments)]

    def compute(self, tasks: list[Any], home: str | None = None) -> list[Any]:
        """Futures of Dask's delayed values, computed by the worker of an address if it lives."""
        import dask

        check_connected(self.client)
        with dask.config.set(QUIET):
            futures: list[Any] = self.client.compute(tasks, **at(home))
        return futures

    def home(self, future: Any) -> str | None:
        """Address of a worker that holds the result of a future; None if there is none yet."""
        holders = next(iter(self.client.who_has([future]).values()), ())
        return min(holders, default=None)

    def homes(self, rows: Any, count: int) -> list[str | None]:
        """Address of a worker that holds each partition of a collection; None if there is none."""
        from distributed.client import futures_of

        found: list[str | None] = [None] * count
        held = [] if rows is None else futures_of(rows)  # type: ignore[no-untyped-call]
        if len(held) == count:
            for future in held:
                if isinstance(future.key, tuple) and future.key[1] < count:
                    found[future.key[1]] = self.home(future)
        return found

    def shared(self, value: Any) -> Any:
        """A future of a value that many tasks need: it is sent once, and from worker to worker."""
        return self.submit(itself, value)

    def merged(self, parts: Sequence[Any], merge: Callable[[Any, Any], Any]) -> Any:
        """A future of all parts, merged in a tree of fixed form that keeps their order.

        Parameters
        ----------
        parts
            Futures, at least one.
        merge
            Associative function of two results.
        """
        return in_tree(self.submit, merge, parts)

    def result(self, future: Any) -> Any:
        """The result of a future, or of each of a list, on this machine.

        Raises
        ------
        CoupledGPError
            A task failed with such an error, or workers died again and again while they computed
            it, or the client lost its scheduler.
        """
        from distributed import CancelledError, KilledWorker
        from distributed.client import ClosedClientError

        check_connected(self.client)
        try:
            return self.client.gather(future)
        except KilledWorker as error:
            raise CoupledGPError(
                f"client: a worker died {error.allowed_failures + 1} times while it computed one "
                "task, most often for want of memory: use smaller partitions or fewer features"
            ) from error
        except (CancelledError, ClosedClientError) as error:
            raise CoupledGPError(
                f"client: the tasks of this fit were cancelled or the scheduler was lost: {error}"
            ) from error


def checked_client(client: Any) -> Any:
    """Return a connected client, or the last one of this process in place of None."""
    distributed = library("distributed", "dask")
    if client is None:
        try:
            client = distributed.default_client()
        except ValueError:
            raise InvalidInputError(
                "client: expected a distributed.Client, got None and there is none in this "
                "process; Client() starts one for the cores of this machine"
            ) from None
    if not isinstance(client, distributed.Client):
        raise wrong("client", "a distributed.Client", client)
    if client.asynchronous:
        raise InvalidInputError("client: expected one that is not asynchronous")
    check_connected(client)
    return client


def check_connected(client: Any) -> None:
    """Refuse a client that has no scheduler, or none any more."""
    if client.status != "running":
        raise InvalidInputError(
            f"client: expected one that is connected, got one that is {client.status}"
        )


def _rows_of(parts: Sequence[Any], arguments: Sequence[Any]) -> Iterator[tuple[Any, ...]]:
    """Arguments of the task of each part: the own item of each list, and all other arguments."""
    for place, part in enumerate(parts):
        yield part, *(each[place] if isinstance(each, list) else each for each in arguments)


def at(home: str | None) -> dict[str, Any]:
    """Options of a client by which a task goes to the worker of an address, if that lives."""
    return {} if home is None else {"workers": [home], "allow_other_workers": True}


def run(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function on a worker, where Dask is told the sizes of results."""
    tell_dask()
    return function(*arguments)


def itself(value: Any) -> Any:
    """The value, as a task."""
    return value
