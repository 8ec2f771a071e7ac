"""Predictions at Dask collections as collections of the same partitions, not computed yet."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from coupledgp.dask.passes import is_dask, is_delayed, row_blocks
from coupledgp.errors import InvalidInputError
from coupledgp.models.estimator import ProcessRegressor
from coupledgp.random import FloatArray


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
