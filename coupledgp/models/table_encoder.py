"""The encoding of tables as a scikit-learn transformer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from coupledgp.columns import TableEncoding
from coupledgp.features.sklearn import Columns, FittedToTable
from coupledgp.models.options import estimator
from coupledgp.models.table_rows import further_rows, learn_columns
from coupledgp.random import FloatArray


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
