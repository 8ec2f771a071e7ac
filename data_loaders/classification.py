"""UCI classification sets in the files that UCI distributes: `load("wifi")` reads a local file.

Files are looked for in `<folder>/classification/`, where the folder is `data_dir` or else the one
that the environment variable COUPLEDGP_DATA names. They have no header, and the class is in the
last column. A column of numbers is kept; any other column becomes one column of zeros and ones for
each of its values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits

from coupledgp.errors import DataNotFoundError, InvalidInputError
from coupledgp.ground.validation import check_choice
from coupledgp.random import FloatArray
from data_loaders.files import ENVIRONMENT_VARIABLE, local_file


@dataclass(frozen=True, eq=False)
class ClassificationData:
    """A classification set.

    Attributes
    ----------
    name : str
    X : FloatArray (n, d)
        Finite inputs in float64.
    y : NDArray (n,)
        Classes: integers, or texts where the file has texts.
    feature_names : tuple of str
        Names of the d columns of X.
    source : str
        Where the numbers came from, in words.
    """

    name: str
    X: FloatArray = field(repr=False)
    y: NDArray[Any] = field(repr=False)
    feature_names: tuple[str, ...]
    source: str


@dataclass(frozen=True)
class ClassFile:
    """Format and size that a file must have; a separator of None means any white space."""

    file: str
    rows: int
    columns: int
    separator: str | None = ","
    identifiers: int = 0  # number of leading columns that only name the rows


_SPECS: Mapping[str, ClassFile] = {
    "abalone": ClassFile("abalone.data", 4177, 9),
    "banknote": ClassFile("banknote.txt", 1372, 5),
    "car": ClassFile("car.data", 1728, 7),
    "yeast": ClassFile("yeast.data", 1484, 10, separator=None, identifiers=1),
    "cmc": ClassFile("cmc.data", 1473, 10),
    "nursery": ClassFile("nursery.data", 12960, 9),
    "wifi": ClassFile("wifi.txt", 2000, 8, separator=None),
    "chess": ClassFile("chess.data", 28056, 7),
}


def available() -> tuple[str, ...]:
    """Return the names that `load` knows, the embedded default first."""
    return ("digits", *_SPECS)


def load(name: str = "digits", data_dir: str | Path | None = None) -> ClassificationData:
    """Load a classification set by name.

    Parameters
    ----------
    name
        One of `available()`. "digits" is embedded in scikit-learn.
    data_dir
        Folder that holds a folder `classification`; None means the folder that the environment
        variable COUPLEDGP_DATA names.

    Raises
    ------
    InvalidInputError
        The name is unknown, or the file has another size or missing values.
    DataNotFoundError
        There is no such file; the message says where to put it.
    """
    check_choice(name, available(), "name")
    if name == "digits":
        digits = load_digits()
        names = tuple(digits.feature_names)
        return ClassificationData(name, digits.data, digits.target, names, "scikit-learn")
    spec = _SPECS[name]
    path = local_file(data_dir, "classification", spec.file)
    if path is None:
        raise DataNotFoundError(
            f"{name}: no local file; put UCI's {spec.file} into the folder classification under "
            f"data_dir or the one that {ENVIRONMENT_VARIABLE} names"
        )
    table = _read(path, spec)
    X, names = _encode(table[:, spec.identifiers : -1])
    return ClassificationData(name, X, _labels(table[:, -1]), names, f"file {path}")


def _read(path: Path, spec: ClassFile) -> NDArray[np.str_]:
    """Return the cells of the file as an array (rows, columns); empty lines are skipped."""
    lines = [line for line in path.read_text(encoding="utf-8-sig").splitlines() if line.strip()]
    rows = [[cell.strip() for cell in line.split(spec.separator)] for line in lines]
    widths = {len(row) for row in rows}
    if len(rows) != spec.rows or widths != {spec.columns}:
        raise InvalidInputError(
            f"{path}: expected {spec.rows} rows of {spec.columns} columns without a header, got "
            f"{len(rows)} rows of {sorted(widths)} columns"
        )
    table = np.array(rows)
    if (bad := np.argwhere(np.isin(table, ["", "?", "nan", "NaN", "NA"]))).size:
        raise InvalidInputError(f"{path}: row {bad[0][0] + 1}, column {bad[0][1] + 1} is missing")
    return table


def _encode(table: NDArray[np.str_]) -> tuple[FloatArray, tuple[str, ...]]:
    """Turn cells (n, columns) into inputs (n, d) and the names of the d columns.

    A category gives one indicator for each of its values, in alphabetical order.
    """
    columns, names = [], []
    for number, cells in enumerate(table.T):
        try:
            columns.append(cells.astype(np.float64))
            names.append(f"x{number}")
        except ValueError:
            values = np.unique(cells)
            columns += [(cells == value).astype(np.float64) for value in values]
            names += [f"x{number}={value}" for value in values]
    return np.column_stack(columns), tuple(names)


def _labels(cells: NDArray[np.str_]) -> NDArray[Any]:
    """Return the labels (n,) as integers if all of them are, else as texts."""
    try:
        return cells.astype(np.int64)
    except ValueError:
        return cells
