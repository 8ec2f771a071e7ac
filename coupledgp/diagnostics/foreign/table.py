"""Rows and targets of an audit as numbers, beside the rows as they were given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from coupledgp.columns.arrow import arrow_columns, special_columns
from coupledgp.columns.encoding import TableEncoding
from coupledgp.diagnostics.scoring.overlap import rows_at
from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import check_magnitude, real_array
from coupledgp.random import FloatArray, IntArray


class ForeignTable(NamedTuple):
    """Rows (n, d) and targets (n,) as numbers, as they were given, and names and categories."""

    X: FloatArray
    y: FloatArray
    given: Any
    encoded: tuple[str, ...] = ()
    categories: tuple[IntArray, ...] = ()

    @classmethod
    def of(
        cls, X: Any, y: Any, name: str, given: Any = None, encoded: Sequence[str] = ()
    ) -> ForeignTable:
        """A table whose numbers are checked; arrays, data frames and tensors of the CPU.

        Raises
        ------
        InvalidInputError
            Shapes do not fit, there are several outputs, or numbers are not finite.
        """
        try:
            rows = real_array(X, "X")
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"X_{name}: expected numbers, {error}") from None
        try:
            targets = real_array(y, "y")
        except (TypeError, ValueError) as error:
            raise InvalidInputError(
                f"y_{name}: expected numbers, {error}; chances of classes are a mapping with "
                "'chances' and 'classes'"
            ) from None
        targets = targets.reshape(-1) if targets.shape == (len(rows), 1) else targets
        if targets.ndim == 2 and len(targets) == len(rows):
            raise InvalidInputError(
                f"y_{name}: expected one output, got {targets.shape[1]}; audit the law of each "
                "output by itself"
            )
        if rows.ndim != 2 or not len(rows) or targets.shape != (len(rows),):
            raise InvalidInputError(
                f"X_{name}, y_{name}: expected shapes (n, d) and (n,), got {rows.shape} and "
                f"{targets.shape}"
            )
        if not (np.isfinite(rows).all() and np.isfinite(targets).all()):
            raise InvalidInputError(f"X_{name}, y_{name}: expected finite values, got NaN or inf")
        check_magnitude(rows, f"X_{name}")
        check_magnitude(targets, f"y_{name}")
        return cls(rows, targets, X if given is None else given, tuple(encoded))

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, encoded or as they were given; empty where they have none."""
        return self.encoded or tuple(str(one) for one in getattr(self.given, "columns", ()))

    def take(self, rows: Any) -> ForeignTable:
        """Some of the rows, by their numbers."""
        return self._replace(X=self.X[rows], y=self.y[rows], given=rows_at(self.given, rows))


def tables(
    X_train: Any, y_train: Any, X_test: Any, y_test: Any
) -> tuple[ForeignTable, ForeignTable]:
    """Training and test rows; categories, dates and missing values are encoded as for a fit.

    Raises
    ------
    InvalidInputError
        The columns of both differ, or see `ForeignTable.of`.
    """
    if X_test is None:
        raise InvalidInputError("X_test: expected the test rows beside training rows, got None")
    if _is_plain(X_train) and _is_plain(X_test):
        test = ForeignTable.of(X_test, y_test, "test")
        train = ForeignTable.of(X_train, y_train, "train")
    else:
        train, test = _encoded(X_train, y_train, X_test, y_test)
    if test.X.shape[1] != train.X.shape[1]:
        raise InvalidInputError(
            f"X_test: expected {train.X.shape[1]} columns, got {test.X.shape[1]}"
        )
    return train, test


def rows_alone(X_test: Any, y_test: Any) -> ForeignTable:
    """Test rows of which no training rows are known; without columns where `X_test` is None.

    Their own columns stand for those that a model has learned.

    Raises
    ------
    InvalidInputError
        There are fewer than two rows, or see `ForeignTable.of`.
    """
    shape = np.shape(y_test)
    if not shape or shape[0] < 2:
        raise InvalidInputError(
            f"y_test: expected two targets at least without training rows, got shape {shape}"
        )
    if X_test is None:
        X_test = np.empty((shape[0], 0))
    return tables(X_test, y_test, X_test, y_test)[1]


def _is_plain(X: Any) -> bool:
    """Whether rows are an array, or a table of numbers without missing ones."""
    if not hasattr(X, "columns"):
        return True
    return special_columns(X) is None and bool(np.isfinite(np.asarray(X, dtype=float)).all())


def _encoded(
    X_train: Any, y_train: Any, X_test: Any, y_test: Any
) -> tuple[ForeignTable, ForeignTable]:
    """Rows of tables by the codes of the training columns, found by name."""
    learned, columns = arrow_columns(X_train), dict(arrow_columns(X_test))
    names = [str(name) for name, _ in learned]
    if missing := [name for name in names if name not in columns]:
        raise InvalidInputError(f"X_test: expected columns {', '.join(map(repr, missing))}")
    special = [column for _, column in learned]
    encoding = TableEncoding.learn(special, names, "indicator")
    encoded = encoding.encode([columns[name] for name in names])
    named = encoding.column_names
    test = ForeignTable.of(encoded, y_test, "test", X_test, named)
    train = ForeignTable.of(encoding.encode(special), y_train, "train", X_train, named)
    kinds = encoding.categories
    return train._replace(categories=kinds), test._replace(categories=kinds)
