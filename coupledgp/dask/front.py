"""Fits and predictions on a cluster, for the estimators that there are.

Predictions at Dask collections as collections of the same partitions, not computed yet.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from coupledgp.core.estimator import ProcessRegressor
from coupledgp.dask.cluster import Cluster
from coupledgp.dask.passes import (
    DaskPasses,
    Partitions,
    is_dask,
    is_delayed,
    partitions_of,
    row_blocks,
)
from coupledgp.errors import InvalidInputError
from coupledgp.ground.devices import CPU, parse_device
from coupledgp.ground.memory import named_exhaustion
from coupledgp.ground.progress import reporter
from coupledgp.ground.validation import wrong
from coupledgp.random import FloatArray
from coupledgp.tables.batch_passes import FitInBatches
from coupledgp.tables.estimator_base import TableEstimator
from coupledgp.tables.lattice_regressor import LatticeGPRegressor
from coupledgp.tables.sparse_spectrum import SparseSpectrumGPRegressor


def predict_partitions(model: ProcessRegressor, X: Any, return_std: bool, latent: bool) -> Any:
    """Answers of `model.predict` at each partition of X, as a collection like X.

    Raises
    ------
    InvalidInputError
        X is no Dask collection.
    """
    shared, count = _delayed_model(model), 1 + return_std

    def answer(part: Any) -> Any:
        return _delayed(_predicted, part, shared, return_std, latent)

    outputs = () if model.fitted_.ndim == 1 else (model.process_.units.n_outputs,)
    if is_delayed(X):
        return [answer(part) for part in X]
    if is_dask(X, "dataframe"):
        parts = X.to_delayed()
        answers = [answer(part) for part in parts]
        found = [_frame(X, parts, answers, k, outputs) for k in range(count)]
    elif is_dask(X, "array"):
        parts, sizes = row_blocks(X, "X")
        answers = [answer(part) for part in parts]
        found = [_array(answers, sizes, k, outputs) for k in range(count)]
    else:
        raise InvalidInputError(
            "X: expected a Dask DataFrame, a Dask Array or a list of delayed partitions, got "
            f"{type(X).__name__}; model.predict takes what is in memory"
        )
    return tuple(found) if return_std else found[0]


def _frame(X: Any, parts: Any, answers: list[Any], k: int, outputs: tuple[int, ...]) -> Any:
    """The k-th part of all answers as a Series, or a DataFrame of the outputs, of X's index."""
    import dask.dataframe as dd

    pieces = [_delayed(_indexed, part, answer, k) for part, answer in zip(parts, answers)]  # noqa: B905
    meta = _indexed(X._meta.iloc[:0], (np.empty((0, *outputs)),) * (k + 1), k)
    divisions = X.divisions if X.known_divisions else None
    return dd.from_delayed(pieces, meta=meta, divisions=divisions, verify_meta=False)


def _array(answers: list[Any], sizes: list[float], k: int, outputs: tuple[int, ...]) -> Any:
    """The k-th part of all answers as an array."""
    import dask.array as da

    make = da.from_delayed
    pieces = [
        make(_delayed(_item, answer, k), (size, *outputs), dtype=np.float64)  # type: ignore[no-untyped-call]
        for answer, size in zip(answers, sizes, strict=True)
    ]
    return da.concatenate(pieces, allow_unknown_chunksizes=True)  # type: ignore[no-untyped-call]


def _delayed_model(model: ProcessRegressor) -> Any:
    from dask.delayed import delayed

    return delayed(model, pure=False, traverse=False)


def _delayed(function: Callable[..., Any], *arguments: Any) -> Any:
    """The delayed value of a function that gives the same for the same arguments."""
    from dask.delayed import delayed

    return delayed(function, pure=True)(*arguments)


def _predicted(part: Any, model: Any, return_std: bool, latent: bool) -> Any:
    """Predictions at a partition."""
    record = model.fitted_
    if not len(part):
        none = record.shaped(np.empty((0, record.process.units.n_outputs)), 1)
        return (none, none) if return_std else none
    return model.predict(part, return_std, latent=latent)


def _item(answer: Any, k: int) -> FloatArray:
    found: FloatArray = answer[k] if isinstance(answer, tuple) else answer
    return found


def _indexed(part: Any, answer: Any, k: int) -> Any:
    """The k-th part of an answer as a Series or DataFrame of the index of a partition."""
    import pandas as pd

    values = _item(answer, k)
    return (pd.Series if values.ndim == 1 else pd.DataFrame)(values, index=part.index)


Model = TypeVar("Model", bound=ProcessRegressor)


def fit(
    model: Model, X: Any, y: Any = None, *, sample_weight: Any = None, client: Any = None
) -> Model:
    """Fit a model on the workers of a Dask cluster; the result is that of one machine.

    It is so to rounding, with the same seed, for any number of partitions and workers, and after
    workers have died, as long as partitions come out the same each time they are computed.

    Parameters
    ----------
    model
        A `SparseSpectrumGPRegressor`: lengthscales come from random rows of the whole table, which
        come here, variances and posterior from sums over all partitions, made where these lie. A
        `LatticeGPRegressor`: sums of waves over all partitions, a pass for each lattice.
    X
        A Dask DataFrame, a Dask Array (n, d), or a list of delayed partitions.
    y
        Targets: the name of a column of a DataFrame or a list of names; a Dask collection, (n,) or
        (n, k), or list of delayed values in the partitions of X; None for delayed partitions that
        are tuples `(X, y)` or `(X, y, sample_weight)`.
    sample_weight
        Weights of rows as y gives targets, see `SparseSpectrumGPRegressor.fit`; None: ones.
    client
        A connected `distributed.Client`; None: the last one of this process.

    Returns
    -------
    ProcessRegressor
        The model, whose fit was replaced at the end by one assignment.

    Raises
    ------
    InvalidInputError
        A parameter of the model, the data or the client is invalid; errors of a partition give its
        number, from zero.
    CoupledGPError
        Workers died again and again while they computed the same task, or the scheduler was lost.
    MissingLibraryError
        Dask is not installed.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> from distributed import Client
    >>> import coupledgp as cgp
    >>> client = Client(processes=False)  # or the address of a scheduler
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> rows, y = da.from_array(X, chunks=(10, 1)), np.sin(X[:, 0])
    >>> kept = {"lengthscale": 1.0, "noise": 0.01, "optimizer": None, "random_state": 0}
    >>> model = cgp.SparseSpectrumGPRegressor(n_frequencies=16, **kept)
    >>> cgp.dask.fit(model, rows, da.sin(rows[:, 0]), client=client)  # doctest: +ELLIPSIS
    SparseSpectrumGPRegressor(...)
    >>> here = cgp.SparseSpectrumGPRegressor(n_frequencies=16, **kept).fit(X, y)
    >>> bool(np.allclose(model.predict(X), here.predict(X)))
    True
    """
    device = getattr(model, "device", None)
    if parse_device(device) != CPU:
        raise wrong("device", "None on a cluster, whose workers take their CPUs", device)
    cluster = Cluster(client)
    with named_exhaustion("fit"):
        if type(model) not in (SparseSpectrumGPRegressor, LatticeGPRegressor):
            raise wrong("model", "a SparseSpectrumGPRegressor or LatticeGPRegressor", type(model))
        fit_table(model, partitions_of(cluster, X, y, sample_weight))
    return model


def predict(
    model: ProcessRegressor, X: Any, return_std: bool = False, *, latent: bool = False
) -> Any:
    """Predictions at a Dask collection, as collections that are computed when they are asked for.

    Parameters
    ----------
    model
        A fitted model of a table.
    X
        A Dask DataFrame, a Dask Array (p, d), or a list of delayed partitions.
    return_std, latent
        As for `model.predict`.

    Returns
    -------
    collection or (collection, collection)
        Means, and standard deviations if they are asked for, in the partitions of X: Series of the
        index of a DataFrame (DataFrames for targets of two dimensions), arrays for an array, and a
        list of delayed answers of `model.predict` for delayed partitions.

    Raises
    ------
    InvalidInputError
        X is no such collection, or the model is one of nodes.

    Examples
    --------
    >>> import dask.array as da
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> X = np.linspace(0, 6, 40)[:, None]
    >>> model = cgp.ExactGPRegressor(lengthscale=1.0, optimizer=None).fit(X, np.sin(X[:, 0]))
    >>> mean = cgp.dask.predict(model, da.from_array(X, chunks=(10, 1)))  # not computed yet
    >>> bool(np.allclose(mean.compute(scheduler="synchronous"), model.predict(X)))
    True
    """
    check_is_fitted(model)
    if not isinstance(model, TableEstimator):
        raise wrong("model", "one of a table", type(model))
    return predict_partitions(model, X, return_std, latent)


def fit_table(model: FitInBatches, partitions: Partitions) -> None:
    """Fit a model to all rows of partitions; the model's fit is replaced by one assignment.

    Raises
    ------
    InvalidInputError
        A parameter needs all rows on one machine, or the data are invalid.
    """
    if model.keep_rows:
        raise InvalidInputError(
            "keep_rows: expected None or False on a cluster, where rows stay in their partitions, "
            f"got {model.keep_rows!r}"
        )
    model.check_parameters()
    model.check_passes()
    with reporter("fit", model.progress):
        passes = DaskPasses(model, partitions, model.missing)
        process, results = model.fit_passes(passes)
    model._warn_if_stopped(results)
    model.holding(passes.fitted(process, results))
