"""Test rows that are training rows, but for rounding: found, told, and left out on request."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.spatial import cKDTree

from coupledgp.core.digests import RowDigests
from coupledgp.core.process import GaussianProcess
from coupledgp.diagnostics.scoring.laws import check_targets
from coupledgp.diagnostics.scoring.subject import Subject, process_of
from coupledgp.errors import CoupledGPError, InvalidInputError
from coupledgp.fields.locations import Locations
from coupledgp.random import FloatArray, IntArray

# Test rows for each training row among them above which verdicts stand: a duplicate in twenty.
SMALL = 20
# Distance of a test row from a training row, over the median one between nearest training rows, and
# difference of their targets, over the deviation of these, below which they are the same row.
NEAR = 1e-3
# Training rows whose nearest ones are measured.
MEASURED = 500


@dataclass(frozen=True)
class Overlap:
    """How many test rows are training rows.

    Attributes
    ----------
    n_test : int
        Test rows that were given.
    n_rows : int or None
        Those with the inputs and the targets of a training row, or, without targets, its inputs;
        None where the model neither holds its training rows nor digests of them.
    n_inputs : int or None
        Those with the inputs of a training row and other targets.
    left_out : bool
        Whether the `n_rows` rows are left out of all figures.
    n_near : int
        Those of the `n_rows` that are training rows but for rounding.
    """

    n_test: int
    n_rows: int | None
    n_inputs: int | None
    left_out: bool = False
    n_near: int = 0

    @property
    def is_large(self) -> bool:
        """Whether more than one in twenty scored rows is a training row."""
        return not self.left_out and SMALL * (self.n_rows or 0) > self.n_test

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences to stand above all figures."""
        if not self.n_rows:
            return ()
        near = f" ({self.n_near} of them but for rounding)" if self.n_near else ""
        if self.left_out:
            return (
                f"{self.n_rows} of {self.n_test} test rows are training rows{near} and left out.",
            )
        return (
            f"{self.n_rows} of {self.n_test} test rows are training rows{near}: scores at them are "
            "not those of new data.",
        )

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences to stand beside the figures."""
        if self.n_rows is None:
            return (
                "Whether test rows are training rows cannot be known: the model has no digests of "
                "these.",
            )
        if self.n_inputs:
            return (
                f"{self.n_inputs} of {self.n_test} test rows have the inputs of a training row and "
                "another target.",
            )
        return ()


def overlap_of(
    model: Any, X_test: Any, y_test: ArrayLike | None = None, reference: Any = None
) -> tuple[Overlap, NDArray[np.bool_]]:
    """How many test rows are training rows of a model, and which, (p,).

    Parameters
    ----------
    model
        Fitted estimator or process; of one of another package the training rows are unknown, and
        those of the reference are taken.
    X_test, y_test
        Test inputs, and targets (p,) or (p, k) if there are any.
    reference
        Model that it is compared with, if one was given.

    Raises
    ------
    InvalidInputError
        There are no test rows, or they do not fit the model's data.
    """
    if len(X_test) == 0:
        raise InvalidInputError("X_test: expected at least one point, got none")
    for one in (model, reference):
        process = process_of(one)
        digests = None if process is None else _digests(one, process)
        if process is not None and digests is not None:
            points = Subject.of(one, X_test).points
            shape = (len(points), process.units.n_outputs)
            y = None if y_test is None else check_targets(y_test, shape)
            found, rows = counted(digests, process.row_keys(points), y)
            return with_near(found, rows, *_known(process), points, y)
    return Overlap(len(X_test), None, None), np.zeros(len(X_test), dtype=bool)


def _digests(model: Any, process: GaussianProcess) -> RowDigests | None:
    """Digests of the training rows of a model; None where it does not know them."""
    try:
        data = process.data
    except CoupledGPError:
        fitted = getattr(model, "fitted_", None)
        return getattr(fitted, "digests", None)
    return RowDigests.of(process.row_keys(data.points), data.targets)


def counted(
    digests: RowDigests, keys: NDArray[Any], targets: FloatArray | None
) -> tuple[Overlap, NDArray[np.bool_]]:
    """How many rows, keys (p, m) and targets (p, k), are those of the digests, and which, (p,)."""
    inputs, rows = digests.found(keys, targets)
    same = int(rows.sum())
    return Overlap(len(keys), same, int(inputs.sum()) - same), rows


def _known(process: GaussianProcess) -> tuple[Any, FloatArray | None]:
    """Training rows and targets of a process; None where they were not kept."""
    try:
        return process.data.points, process.data.targets
    except CoupledGPError:
        return None, None


def with_near(
    found: Overlap,
    rows: NDArray[np.bool_],
    known: Any,
    targets: FloatArray | None,
    points: Any,
    y: FloatArray | None,
) -> tuple[Overlap, NDArray[np.bool_]]:
    """An overlap and its rows (p,), with the rows that are training rows but for rounding.

    `known` are training rows (n, d) with targets (n, k), and `points` test rows (p, d) with targets
    (p, k); rows of anything but numbers, and rows without targets, have none.
    """
    if y is None or targets is None or not (_is_table(known) and _is_table(points)):
        return found, rows
    near = near_rows(known, targets, points, y) & ~rows
    n_near = int(near.sum())
    if not n_near:
        return found, rows
    n_rows = (found.n_rows or 0) + n_near
    return replace(found, n_rows=n_rows, n_near=n_near), rows | near


def _is_table(rows: Any) -> bool:
    return isinstance(rows, np.ndarray) and rows.ndim == 2 and rows.dtype.kind == "f"


def near_rows(
    known: FloatArray, targets: FloatArray, points: FloatArray, y: FloatArray
) -> NDArray[np.bool_]:
    """Which test rows (p,) are nearer to a training row than rows and targets ever are by chance.

    Distances are in units of the columns' deviations. A row counts whose nearest training row is a
    thousand times nearer than training rows are to each other, with a target as near.
    """
    scale, spread = known.std(axis=0), targets.std(axis=0)
    varies = scale > 0
    if len(known) < 3 or not varies.any() or not (spread > 0).all():
        return np.zeros(len(points), dtype=bool)
    rows, queries = (one[:, varies] / scale[varies] for one in (known, points))
    tree = cKDTree(rows)
    some = rows[np.random.default_rng(0).permutation(len(rows))[:MEASURED]]
    between = tree.query(some, k=2)[0][:, 1]
    between = between[between > 0]
    if not between.size:
        return np.zeros(len(points), dtype=bool)
    distance, place = tree.query(queries, distance_upper_bound=NEAR * float(np.median(between)))
    near = np.isfinite(distance)
    gaps = np.abs(y[near] - targets[place[near]]) <= NEAR * spread
    near[near] = gaps.all(axis=1)
    return np.asarray(near)


def without_overlap(
    found: Overlap, rows: NDArray[np.bool_], X_test: Any, y_test: ArrayLike | None
) -> tuple[Overlap, Any, Any]:
    """Overlap, test inputs and targets without the rows (p,) that are training rows.

    Raises
    ------
    InvalidInputError
        No row is left.
    """
    if not found.n_rows:
        return found, X_test, y_test
    if found.n_rows == found.n_test:
        raise InvalidInputError(
            f"X_test: all {found.n_test} test rows are training rows, none is left"
        )
    kept = np.flatnonzero(~rows)
    targets = None if y_test is None else np.asarray(y_test)[kept]
    return replace(found, left_out=True), rows_at(X_test, kept), targets


def rows_at(X: Any, chosen: IntArray) -> Any:
    """Rows of a table or array, or labels, by their numbers (m,)."""
    if hasattr(X, "iloc"):
        return X.iloc[chosen]
    if hasattr(X, "column_names"):
        return X.take(chosen)
    return X[chosen] if isinstance(X, Locations) else np.asarray(X)[chosen]
