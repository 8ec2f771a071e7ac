"""Base of the estimators of tables: columns and their codes, extrapolation, and files.

The encoding of tables as a scikit-learn transformer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from coupledgp.core.fitted import seed_from_random_state
from coupledgp.core.mixture import n_columns_of
from coupledgp.core.options import estimator
from coupledgp.core.process import Points
from coupledgp.core.process_estimator import ProcessEstimator
from coupledgp.core.starts import first_places
from coupledgp.core.stored import FittedModel
from coupledgp.errors import ModelFileError
from coupledgp.random import FloatArray
from coupledgp.tables.encoding import TableEncoding
from coupledgp.tables.globe import GeographicLike
from coupledgp.tables.grids import Extrapolations
from coupledgp.tables.rows import further_rows, learn_columns
from coupledgp.tables.samplers import Columns, FittedToTable


class PerColumn:
    """Parameters of the columns: each has its own lengthscale, and degrees are plain numbers."""

    ard: bool = True
    geographic: GeographicLike = None


@estimator
class TableEstimator(PerColumn, FittedToTable[FittedModel], ProcessEstimator):
    """An estimator of the rows of a table, with an encoding of its columns.

    Parameters
    ----------
    missing
        Missing values (NaN, None, NaT) of X. `"raise"`: they are an error. `"indicator"`: a number
        or date that is missing is the mean of its column, with an indicator beside it under the
        same lengthscale; a missing category is a level of its own (docs/tables.md).

    Attributes
    ----------
    n_features_in_, feature_names_in_
        Number and names of the columns of X, as in scikit-learn.
    """

    _stored: ClassVar[tuple[str, ...]] = (
        *ProcessEstimator._stored, "n_effective_draws_", "noise_choice_", "n_iter_",
        "spectrum_start_loss_", "spectrum_loss_",
    )  # fmt: skip

    def check_parameters(self) -> None:
        """See the base class; `missing` is left to the reader of tables, which knows more."""

    def points(self, X: ArrayLike) -> Points:
        """Inputs (p, D) as float64, checked against the columns of the fit and encoded as there."""
        return further_rows(self, X, self._columns)

    @staticmethod
    def _seed_of(random_state: Any) -> int:
        return seed_from_random_state(random_state)

    def _rng(self) -> np.random.Generator:
        return np.random.default_rng(seed_from_random_state(self.random_state))

    @property
    def encoding_(self) -> TableEncoding:
        """How the columns of X become numbers, where they are not all taken as they are."""
        if self._columns.encoding is None:
            raise AttributeError("encoding_: all columns are taken as they are")
        return self._columns.encoding

    @property
    def lengthscale_names_(self) -> list[str]:
        """Names (q,) of the parts of X, each of which has a lengthscale if `ard`."""
        return self._columns.part_names

    @property
    def X_train_(self) -> FloatArray:  # noqa: N802
        """Training inputs (n, D), encoded; not a copy if they came in one batch of float64."""
        points: FloatArray = self.process_.data.points
        return points

    @property
    def lengthscale_(self) -> float | FloatArray:
        """Fitted lengthscales (q,) of the parts of X; one float for an isotropic kernel.

        A column of X is a part; a date is one for the time that passed and one for each cycle.
        """
        value: FloatArray = self.process_.hyperparameters.lengthscale
        groups = self._columns.groups
        if groups is not None:
            value = value[first_places(groups)]
        isotropic = not self.ard and np.ptp(value) == 0
        return float(value[0]) if isotropic else value

    def _summary(self) -> dict[str, Any]:
        """Hyperparameters by name, and lengthscales by that of their part of X."""
        found = super()._summary()
        if not isinstance(found.get("lengthscale"), np.ndarray):
            return found
        value: Any = self.lengthscale_
        named = dict(zip(self.lengthscale_names_, value, strict=True)) if np.ndim(value) else value
        return found | {"lengthscale": named}

    def extrapolation(self, X: ArrayLike) -> FloatArray:
        """Distance (p,) of each row from the training rows, in lengthscales; above 2 is far.

        `max_j min_i |x_j - x_ij| / min(l_j, sqrt(d) w_j / 2)`, where the values i of column j stand
        for intervals without gaps above an eighth of its range w_j. In tables of up to 100 columns
        a column of two values has the scale `min(l_j, w_j / 3)`. Holes that show in several
        columns together only are not seen; standard deviations grow there.

        Parameters
        ----------
        X
            Inputs (p, d).

        Returns
        -------
        FloatArray
            Distances (p,), at most 1000, which is that of other values in columns that were
            constant; zero within the values of every column. NaN for a model from a file without
            rows of a version that did not keep their ranges.
        """
        points = self.points(X)
        found = self.extrapolations(points)
        return np.full(len(points), np.nan) if found is None else found.distance

    def extrapolations(
        self, points: Points, mean: FloatArray | None = None
    ) -> Extrapolations | None:
        """Which encoded rows (p, D), of means (p, k), are extrapolations; None if not known."""
        record, columns = self.fitted_, self._columns
        lengthscale = record.process.hyperparameters.lengthscale
        seen = record.extent
        if seen is None:
            return None
        return Extrapolations.of(seen, columns, lengthscale, points, mean)

    def _judge(self, points: Points, mean: FloatArray | None = None) -> None:
        found = self.extrapolations(points, mean)
        if found is not None:
            found.warn()

    def check_restored(self) -> None:
        process, columns, seen = self.process_, self.fitted_.columns, self.fitted_.seen
        n_encoded = n_columns_of(process)
        if not isinstance(columns, Columns) or columns.n_encoded != n_encoded:
            raise ModelFileError(f"columns: expected as many as of the process, {n_encoded}")
        shape = n_encoded, process.units.n_outputs
        if seen is not None and (seen.low.size, seen.y_low.size) != shape:
            raise ModelFileError(f"seen: expected {shape} columns and targets, got others")

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "indicator"
        return tags


@dataclass(frozen=True, eq=False)
class LearntColumns:
    """Columns of the table that the transformer was fitted to."""

    columns: Columns


@estimator
class TableEncoder(FittedToTable[LearntColumns], TransformerMixin, BaseEstimator):
    """Categories, Booleans, dates and missing values as numbers, as the regressors encode them.

    Parameters
    ----------
    missing
        Missing values: `"raise"` refuses them, `"indicator"` puts the mean in their place and an
        indicator beside it; a missing category is a level of its own (docs/tables.md).

    Attributes
    ----------
    encoding_
        The codes of the columns; `describe()` has them in words.
    n_features_in_, feature_names_in_
        Number and names of the columns of X, as in scikit-learn.

    Examples
    --------
    >>> import pandas as pd
    >>> import coupledgp as cgp
    >>> encoder = cgp.TableEncoder().fit(pd.DataFrame({"x": [1.0, 2.0], "s": ["a", "b"]}))
    >>> encoder.get_feature_names_out().tolist()
    ['x', 's=a', 's=b']
    """

    missing: str = "raise"

    def fit(self, X: ArrayLike, y: Any = None) -> TableEncoder:
        """Learn the code of each column of X (n, d)."""
        self._fitted = LearntColumns(learn_columns(self, X, self.missing))
        return self

    @property
    def encoding_(self) -> TableEncoding:
        """The codes of the columns."""
        encoding = self._columns.encoding
        assert encoding is not None  # the fit always learns one
        return encoding

    def transform(self, X: ArrayLike) -> FloatArray:
        """Return the rows of X (n, d) as a matrix (n, D)."""
        columns = self._columns
        return further_rows(self, X, columns)

    def get_feature_names_out(self, input_features: Any = None) -> NDArray[Any]:
        """Names (D,) of the columns of the matrix; `input_features` is not used."""
        return np.asarray(self.encoding_.column_names, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "indicator"
        return tags
