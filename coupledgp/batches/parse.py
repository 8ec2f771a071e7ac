"""Tables in batches as a person gives them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from coupledgp.batches.files import FileBatches
from coupledgp.batches.sources import ArrayBatches, BatchSource, IterableBatches
from coupledgp.errors import InvalidInputError


def as_source(
    batches: Any,
    target: str | Sequence[str] | None = None,
    *,
    columns: Sequence[str] | None = None,
    sample_weight: str | None = None,
    sample_noise: str | None = None,
    batch_rows: int | None = None,
) -> BatchSource:
    """Return a table in batches from what stands for one.

    Parameters
    ----------
    batches
        A path, a list of paths or a `pyarrow.dataset.Dataset`, see `FileBatches`; a tuple `(X, y)`
        or `(X, y, sample_weight)` of arrays, see `ArrayBatches`; a function or an iterable, see
        `IterableBatches`; or a `BatchSource`, which is returned.
    target, columns, sample_weight, sample_noise
        Names of columns of files, see `FileBatches`; other tables have none.
    batch_rows
        Most rows of a batch of files and arrays; None: 65536, and fewer of wide tables.

    Raises
    ------
    InvalidInputError
        It is none of them, names are missing or serve no purpose, or the iterable cannot be started
        again.
    """
    if _is_of_files(batches):
        if target is None:
            raise InvalidInputError("target: expected the name of a column of the files, got None")
        if isinstance(columns, str):
            raise InvalidInputError(f"columns: expected a list of names, got {columns!r:.60}")
        return FileBatches(batches, target, columns, sample_weight, sample_noise, batch_rows)
    if not (isinstance(batches, BatchSource) or callable(batches) or hasattr(batches, "__iter__")):
        raise InvalidInputError(
            "batches: expected files, a tuple of arrays, a function that returns batches or an "
            f"iterable of them, got {type(batches).__name__}"
        )
    names = {
        "target": target, "columns": columns, "sample_weight": sample_weight,
        "sample_noise": sample_noise,
    }  # fmt: skip
    for name, value in names.items():
        if value is not None:
            raise InvalidInputError(f"{name}: expected None for batches that are no files")
    if isinstance(batches, BatchSource):
        return batches
    if isinstance(batches, tuple) and 2 <= len(batches) <= 4 and all(map(_is_array, batches)):
        X, y, weight, noise = (*batches, None, None)[:4]
        return ArrayBatches(X, y, weight, noise, batch_rows)
    return IterableBatches(batches)


def _is_of_files(value: Any) -> bool:
    """Whether a value is a path, some paths, or a dataset of pyarrow."""
    if isinstance(value, (str, os.PathLike)):
        return True
    if isinstance(value, (list, tuple)) and value:
        return all(isinstance(item, (str, os.PathLike)) for item in value)
    return hasattr(value, "to_batches") and hasattr(value, "count_rows")


def _is_array(value: Any) -> bool:
    """Whether a value is an array or a table with a length and a shape."""
    return value is None or (hasattr(value, "shape") and hasattr(value, "__len__"))
