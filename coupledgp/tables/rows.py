"""Tables given to estimators, as rows of float64: scikit-learn's checks and the encoding.

Weights and noise variances of rows, as an estimator's `fit` takes them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_array, check_X_y, validate_data

from coupledgp.core.problem import RowWeights
from coupledgp.core.process import Data
from coupledgp.core.units import Units
from coupledgp.errors import InvalidInputError
from coupledgp.ground.forms import is_point_table, with_coordinates
from coupledgp.ground.validation import (
    LARGEST_PRODUCT,
    SMALLEST_PRODUCT,
    check_choice,
    check_magnitude,
    check_row_numbers,
    check_sizes,
    check_spread,
    forward_array,
    plain_array,
    real_array,
    sentinels,
    wrong,
)
from coupledgp.ground.visible import warn
from coupledgp.kernels.row_covariance import RowColumns
from coupledgp.random import FloatArray
from coupledgp.tables.arrow import (
    NUMBER,
    Column,
    arrow_columns,
    kind_of,
    label,
    refuse_special,
    special_columns,
    text_of_place,
)
from coupledgp.tables.codes import finite_numbers
from coupledgp.tables.encoding import MISSING, TableEncoding, summaries_of
from coupledgp.tables.globe import GeographicLike
from coupledgp.tables.samplers import Columns, TableColumns
from coupledgp.tables.summaries import ColumnSummary, KnownNumbers

_WITH_TARGETS: dict[str, Any] = {"dtype": np.float64, "multi_output": True, "y_numeric": True}


def learn_rows(
    estimator: Any, X: Any, y: ArrayLike, missing: str, geographic: GeographicLike = None
) -> tuple[FloatArray, FloatArray, Columns]:
    """Return rows (n, D), targets (n, k) or (n,), and the columns of a table with its encoding.

    The encoding is None where all columns are taken as they are and missing values are refused.

    Parameters
    ----------
    estimator
        Estimator, which messages name.
    X, y
        Table (n, d) and targets, as `fit` takes them.
    missing
        One of `MISSING`.
    geographic
        Columns of latitude and longitude, see `columns.globe.geographic_columns`.

    Raises
    ------
    InvalidInputError
        A column has no encoding, see `TableEncoding.learn`; or a magnitude or spread is beyond the
        limits of `coupledgp.ground.validation`.
    ValueError
        The table does not pass scikit-learn's checks.
    """
    check_choice(missing, MISSING, "missing")
    carrier = TableColumns()
    if is_point_table(X):
        _check_points(estimator, X, y, geographic)
    (X, crs), y = plain_table(X), plain_targets(y)
    special = special_columns(X)
    if special is not None:
        validate_data(carrier, X, y, skip_check_array=True)
        columns = replace(carrier.columns(), crs=crs)
        targets = _checked_targets(estimator, len(special[0]), y)
        encoding = TableEncoding.learn(special, columns.names, missing)
        encoding = encoding.with_places(geographic, lambda j: _ends(special[j]))
        columns = replace(columns, encoding=encoding)
        return _learnt(encoding.encode(special), targets, columns), targets, columns
    rows, targets = _numbers(carrier, estimator, X, y, missing)
    columns = replace(carrier.columns(), crs=crs)
    if missing != "raise" or geographic is not None:
        encoding = TableEncoding.of_matrix(rows, columns.names, missing)
        encoding = encoding.with_places(geographic, lambda j: _ends(rows[:, j]))
        if missing == "raise" and encoding.places is None:
            return _learnt(rows, targets, columns), targets, columns
        rows, columns = encoding.rows(rows), replace(columns, encoding=encoding)
    return _learnt(rows, targets, columns), targets, columns


def plain_table(X: Any, crs: str | None = None) -> tuple[Any, str | None]:
    """A table as `plain_array` gives it, and the coordinate system of one of points.

    Coordinates are columns then. Parameters and errors are those of `with_coordinates`.
    """
    found = None
    if is_point_table(X):
        X, found = with_coordinates(X, crs, "X")
    # Sparse matrices may be mappings, too, and have an error of their own.
    is_mapping = isinstance(X, Mapping) and not hasattr(X, "shape")
    if hasattr(X, "collect") and not hasattr(X, "shape"):  # polars, before it is computed
        raise InvalidInputError(
            f"X: expected rows and columns, got {type(X).__name__}; X.collect() computes them"
        )
    if is_mapping or (hasattr(X, "to_frame") and len(X.shape) == 1):
        raise InvalidInputError(
            f"X: expected rows and columns, got {type(X).__name__}; one row is table.iloc[[k]], "
            "and one column table[[name]]"
        )
    return plain_array(X, "X"), found


def _check_points(estimator: Any, X: Any, y: Any, geographic: GeographicLike) -> None:
    """Refuse points in degrees to a model that takes none, and a table that holds the targets.

    Raises
    ------
    InvalidInputError
        The message says how points are projected, or which column is left out.
    """
    if geographic is None and X.crs is not None and X.crs.is_geographic:
        raise InvalidInputError(
            f"X: expected points in units of length for {type(estimator).__name__}, got degrees; "
            "X.to_crs(X.estimate_utm_crs()) projects them, and LatticeGPRegressor and GPRegressor "
            "take degrees with geographic='auto'"
        )
    for name in getattr(X, "columns", ()):
        if np.array_equal(np.asarray(X[name]), np.asarray(y)):
            raise InvalidInputError(
                f"X: expected columns besides the targets, got {str(name)!r}, which y is; "
                f"X.drop(columns={str(name)!r}) leaves it out"
            )


def _ends(column: Column) -> FloatArray | None:
    """Ends (2, 2) of a column of numbers, as of `KnownNumbers`; None of others or of none."""
    if kind_of(column, "X") != NUMBER:
        return None
    values = finite_numbers(column, "X")
    known = values[~np.isnan(values)]
    return KnownNumbers.of(known).ends if known.size else None


def learn_columns(estimator: Any, X: Any, missing: str) -> Columns:
    """Return the columns of a table without targets, with their encoding; see `learn_rows`."""
    check_choice(missing, MISSING, "missing")
    carrier = TableColumns()
    X, _ = plain_table(X)
    special = special_columns(X)
    if special is not None:
        validate_data(carrier, X, skip_check_array=True)
        columns = carrier.columns()
        check_array(np.zeros((len(special[0]), 1)), estimator=estimator)
        return replace(columns, encoding=TableEncoding.learn(special, columns.names, missing))
    rows = validate_data(carrier, X, estimator=estimator, dtype=np.float64, ensure_all_finite=False)
    columns = carrier.columns()
    check_finite(rows, columns.names, missing)
    return replace(columns, encoding=TableEncoding.of_matrix(rows, columns.names, missing))


def part_rows(
    estimator: Any, X: Any, y: ArrayLike, missing: str
) -> tuple[FloatArray | None, FloatArray, Columns, list[ColumnSummary]]:
    """Rows, targets, columns and summaries of a part of a table, before its encoding is known.

    Parameters and errors are those of `learn_rows`.

    Returns
    -------
    (FloatArray or None, FloatArray, Columns, list of ColumnSummary)
        Rows (n, d) where all columns are plain numbers and Booleans, with NaN where missing;
        targets (n,) or (n, k); columns without an encoding; and a summary of each.
    """
    carrier = TableColumns()
    (X, _), y = plain_table(X), plain_targets(y)
    special = special_columns(X)
    if special is None:
        rows, targets = _numbers(carrier, estimator, X, y, missing)
        columns = carrier.columns()
        found = summaries_of(list(rows.T), columns.names, missing)
        return rows, targets, columns, found
    validate_data(carrier, X, y, skip_check_array=True)
    columns = carrier.columns()
    targets = _checked_targets(estimator, len(special[0]), y)
    return None, targets, columns, summaries_of(special, columns.names, missing)


def further_rows(
    estimator: Any, X: Any, columns: Columns, carrier: TableColumns | None = None
) -> FloatArray:
    """Return further rows (p, D) of a table whose columns, and their encoding, are known.

    The columns are the columns of the estimator's fit, or of a `carrier`.

    Raises
    ------
    InvalidInputError
        A column is of another kind than in the fit, or a value is missing and may not be.
    ValueError
        The table does not pass scikit-learn's checks.
    """
    encoding, fitted = columns.encoding, estimator if carrier is None else carrier
    X, _ = plain_table(X, columns.crs)
    if encoding is None or encoding.of_numbers:
        refuse_special(X)
        with within_floats():
            rows: FloatArray = validate_data(
                fitted, X, estimator=estimator, dtype=np.float64, reset=False,
                ensure_all_finite=False,
            )  # fmt: skip
        check_finite(rows, columns.names, "raise" if encoding is None else encoding.missing)
        check_magnitude(rows, "X")
        return rows if encoding is None else encoding.rows(rows)
    validate_data(fitted, X, reset=False, skip_check_array=True)
    rows = encoding.encode([column for _, column in arrow_columns(X)])
    checked: FloatArray = check_array(rows, estimator=estimator)
    check_magnitude(checked, "X")
    return checked


def further_rows_with_targets(
    estimator: Any, X: Any, y: ArrayLike, columns: Columns, carrier: TableColumns | None = None
) -> tuple[FloatArray, FloatArray]:
    """Return further rows (p, D) and their targets (p,) or (p, k); see `further_rows`."""
    rows = further_rows(estimator, X, columns, carrier)
    return rows, _checked_targets(estimator, len(rows), plain_targets(y))


def named_rows(estimator: Any, X: Any, columns: Columns, name: str) -> FloatArray:
    """Return rows (q, D) as `further_rows` does, under the name of an argument in errors."""
    try:
        return further_rows(estimator, X, columns, carrier_of(columns))
    except ValueError as error:
        raise InvalidInputError(f"{name}: {error}") from None


def carrier_of(columns: Columns) -> TableColumns:
    """A carrier of scikit-learn's checks that knows the columns of the fit."""
    carrier = TableColumns()
    carrier.n_features_in_ = columns.n_features
    if columns.names is not None:
        carrier.feature_names_in_ = columns.names
    return carrier


def check_finite(rows: FloatArray, names: Any, missing: str) -> None:
    """Refuse infinite values of rows (n, d), and NaN unless `missing` is `"indicator"`.

    Raises
    ------
    InvalidInputError
        The message names the column, its row from one, and the value.
    """
    allowed = missing != "raise"
    with np.errstate(all="ignore"):  # of sums of infinities of both signs
        if np.isfinite(rows.sum()):
            return
        bad = np.isinf(rows) if allowed else ~np.isfinite(rows)
    if not bad.any():  # the sum is too large, or there is NaN, which may be
        return
    row, column = np.argwhere(bad)[0]
    where = label(None if names is None else str(names[column]), int(column))
    value = rows[row, column]
    hint = "; missing='indicator' takes missing values" if np.isnan(value) else ""
    raise InvalidInputError(
        f"{where}, row {row + 1}: expected a finite number, got {_in_words(value)}{hint}"
    )


def _in_words(value: float) -> str:
    if np.isnan(value):
        return "NaN"
    return "infinity" if value > 0 else "-infinity"


def _numbers(
    carrier: TableColumns, estimator: Any, X: Any, y: Any, missing: str
) -> tuple[FloatArray, FloatArray]:
    """Rows (n, d) of plain numbers, NaN where missing, and their targets."""
    _check_targets_finite(y)
    with within_floats():
        rows, targets = validate_data(
            carrier, X, y, estimator=estimator, ensure_all_finite=False, **_WITH_TARGETS
        )
    check_finite(rows, carrier.columns().names, missing)
    check_magnitude(rows, "X")
    return rows, _float64(targets)


def _checked_targets(estimator: Any, n_rows: int, y: Any) -> FloatArray:
    """Targets (n,) or (n, k) of so many rows, finite."""
    _check_targets_finite(y)
    _, targets = check_X_y(np.zeros((n_rows, 1)), y, estimator=estimator, **_WITH_TARGETS)
    return _float64(targets)


def _check_targets_finite(y: Any) -> None:
    """Refuse targets that are not finite, by their row; other types are checked later."""
    values = getattr(y, "values", y)  # of pandas
    if getattr(getattr(values, "dtype", None), "kind", "") != "f" or not values.size:
        return
    bad = ~np.isfinite(np.asarray(values, dtype=np.float64))
    if bad.any():
        row, *output = np.argwhere(bad)[0]
        where = f"y: output {output[0] + 1}" if output else "y"
        hint = "; leave rows without a target out of X and y" if np.isnan(values[bad][0]) else ""
        raise InvalidInputError(
            f"{where}, row {row + 1}: expected a finite number, got {_in_words(values[bad][0])}"
            f"{hint}"
        )


@contextmanager
def within_floats() -> Iterator[None]:
    """Refuse whole numbers beyond the range of floats, on which NumPy raises OverflowError."""
    try:
        yield
    except OverflowError:
        raise InvalidInputError("X: expected numbers up to 1.8e308, got a larger one") from None


def plain_targets(y: Any) -> Any:
    """Targets in a form that scikit-learn's checks accept.

    Raises
    ------
    InvalidInputError
        They are None, text, dates or durations, or whole numbers beyond those of floats.
    """
    if y is None:
        raise InvalidInputError("y: a regressor requires y to be passed, but the target y is None")
    found = plain_array(y, "y")
    kind = getattr(getattr(found, "dtype", None), "kind", "")
    if kind in "mM" and kind:
        raise InvalidInputError(f"y: expected numbers, got {found.dtype}")
    _refuse_labels(found)
    if hasattr(getattr(found, "dtype", None), "na_value"):  # a nullable type of pandas
        with suppress(TypeError, ValueError):
            return found.to_numpy(dtype=np.float64, na_value=np.nan)
    if kind == "O" or isinstance(found, (list, tuple)):
        try:
            return real_array(found, "y")
        except InvalidInputError:
            raise
        except OverflowError:
            raise InvalidInputError("y: expected numbers up to 1.8e308, got a larger one") from None
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"y: expected numbers, {error}") from None
    return found


def _refuse_labels(y: Any) -> None:
    """Refuse targets that hold text which is no number, such as the names of classes."""
    values = np.asarray(y)
    if values.dtype.kind not in "OUST":
        return
    for value in values.ravel():
        if not isinstance(value, (str, bytes)):
            continue
        try:
            float(value)
        except ValueError:
            shown = str(value) if isinstance(value, str) else value.decode(errors="replace")
            raise InvalidInputError(
                f"y: expected numbers to regress on, got the text {shown!r:.60}; names of classes "
                "are classification: use GPClassifier"
            ) from None


def _learnt(rows: FloatArray, targets: FloatArray, columns: Columns) -> FloatArray:
    """Rows (n, D) of a fit, whose columns have magnitudes and spreads that squares can hold."""
    check_magnitude(rows, "X")
    check_spread(rows, "X", "column")
    encoding, names = columns.encoding, columns.names
    coded: set[int] = set()
    if encoding is not None:
        names, coded = encoding.column_names, {int(j) for part in encoding.categories for j in part}
    for j in range(rows.shape[1]):
        if j not in coded:
            _warn_of_sentinel(rows[:, j], f"X, column {text_of_place(names, j)}")
    for output in targets.reshape(len(targets), -1).T:
        _warn_of_sentinel(output, "y")
    return rows


def _warn_of_sentinel(values: FloatArray, where: str) -> None:
    """Warn of numbers (n,) that stand for missing values, as it seems."""
    for value, repeats, low, high in sentinels(values):
        warn(
            f"{where}: {repeats} of {len(values)} rows have {value:g}, far outside of the others, "
            f"which are from {low:g} to {high:g}; if it stands for a missing value, replace it by "
            "NaN, or leave out its rows"
        )


def _float64(targets: Any) -> FloatArray:
    values = forward_array(targets)
    check_magnitude(values, "y")
    return values


@dataclass(frozen=True)
class RowArguments:
    """The arguments `sample_weight`, `sample_noise` and `exposure` of a fit.

    Attributes
    ----------
    sample_weight : ArrayLike or None
        Weights (n,), not negative.
    sample_noise : ArrayLike or None
        Known noise variances (n,), positive, units of y squared.
    level : float or None
        Noise variance of a row of relative noise one, in units of y squared; None: the mean of
        `sample_noise`, which then is known.
    exposure : ArrayLike or None
        Exposures (n,), positive.
    """

    sample_weight: ArrayLike | None
    sample_noise: ArrayLike | None
    level: float | None = None
    exposure: ArrayLike | None = None

    def data(self, points: FloatArray, targets: FloatArray) -> Data:
        """Data of points (n, d) and targets (n, k), without the rows of weight zero.

        Raises
        ------
        InvalidInputError
            Both arguments are given, one is no vector of n finite numbers or has a sign that it
            should not have, all weights are zero, or noise is given for several outputs.
        """
        if self.sample_weight is not None and self.sample_noise is not None:
            raise InvalidInputError("sample_weight, sample_noise: expected at most one of them")
        if self.exposure is not None:
            return self._exposed(points, targets, self.exposure)
        if self.sample_weight is not None:
            return _weighted(points, targets, self.sample_weight)
        if self.sample_noise is not None:
            return self._noisy(points, targets, self.sample_noise)
        return Data.of(points, targets)

    def _exposed(self, points: FloatArray, targets: FloatArray, value: ArrayLike) -> Data:
        exposure = check_row_numbers(value, "exposure", len(points))
        data = replace(self, exposure=None).data(points, targets)
        weights = data.weights or RowWeights.ones(len(data))
        if len(data) < len(points):
            exposure = exposure[np.asarray(self.sample_weight, dtype=np.float64) > 0]
        return Data.of(data.points, data.targets, weights=replace(weights, exposure=exposure))

    def _noisy(self, points: FloatArray, targets: FloatArray, value: ArrayLike) -> Data:
        variances = check_row_numbers(value, "sample_noise", len(points))
        if not (variances > 0).all():
            raise InvalidInputError(
                f"sample_noise: expected variances > 0, got {variances.min():g} among them"
            )
        if targets.shape[1] > 1:
            raise InvalidInputError(
                "sample_noise: expected one output, since outputs have units of their own, got "
                f"{targets.shape[1]}; fit each output alone, or give sample_weight"
            )
        check_sizes(variances, "sample_noise", SMALLEST_PRODUCT, LARGEST_PRODUCT)
        ones, mean = np.ones(len(variances)), float(variances.mean())
        level = mean if self.level is None else self.level
        check_sizes(variances / level, "sample_noise relative to their level")
        known = mean if self.level is None else None
        weights = RowWeights(variances / level, ones, known)
        return Data.of(points, targets, weights=weights)


def _weighted(points: FloatArray, targets: FloatArray, value: ArrayLike) -> Data:
    weights = check_row_numbers(value, "sample_weight", len(points))
    if (weights < 0).any():
        raise InvalidInputError(
            f"sample_weight: expected weights >= 0, got {weights.min():g} among them"
        )
    kept = weights > 0
    if not kept.any():
        raise InvalidInputError("sample_weight: expected a weight that is not zero, all are zero")
    check_sizes(weights[kept], "sample_weight")
    if not kept.all():
        points, targets, weights = points[kept], targets[kept], weights[kept]
    return Data.of(points, targets, weights=RowWeights(np.ones(len(weights)), weights))


def known_noise(data: Data, units: Units, given: float | None) -> float | None:
    """Noise variance in normalised units of a row of relative noise one, if the data know it.

    Raises
    ------
    InvalidInputError
        Another value was given for it.
    """
    return noise_of_level(None if data.weights is None else data.weights.level, units, given)


def noise_of_level(level: float | None, units: Units, given: float | None) -> float | None:
    """Noise variance in normalised units from one in units of y squared; see `known_noise`."""
    if level is None:
        return None
    if given is not None:
        raise wrong("noise", "None beside sample_noise, which states it", given)
    return level / float(units.scale[0] ** 2)


def row_columns(columns: Columns, groups: NDArray[np.int64]) -> RowColumns:
    """The encoded columns of a table by their names.

    Parameters
    ----------
    columns
        The columns of the table.
    groups
        Number (D,) of the part of each encoded column.
    """
    names = [columns.name(place) for place in range(columns.n_features)]
    return RowColumns(tuple(names), tuple(columns.part_names), columns.part_sources, groups)


def column_groups(data: Data, columns: Columns) -> NDArray[np.int64]:
    """Number (D,) of the lengthscale of each encoded column."""
    groups = columns.groups
    return np.arange(data.points.shape[1]) if groups is None else groups
