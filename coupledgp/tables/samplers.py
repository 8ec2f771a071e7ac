"""Feature maps as scikit-learn transformers, for pipelines that use `RBFSampler` today."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    MultiOutputMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.utils.validation import validate_data

from coupledgp.core.fitted import Fitted, InputColumns, Record, seed_from_random_state
from coupledgp.couplings import CouplingLike
from coupledgp.errors import ModelFileError
from coupledgp.features.base import FeatureMap
from coupledgp.features.fourier import FourierFeatures, check_directions
from coupledgp.features.laplace import LaplaceFeatures
from coupledgp.ground.codec import stored
from coupledgp.ground.validation import check_lengthscale, check_magnitude
from coupledgp.random import FloatArray, IntArray
from coupledgp.spectra import SpectrumLike
from coupledgp.tables.arrow import text_of_place
from coupledgp.tables.encoding import TableEncoding


@stored
@dataclass(frozen=True, eq=False)
class Columns(InputColumns):
    """The columns of a table.

    Attributes
    ----------
    n_features : int
        Number d of columns.
    names : NDArray (d,) or None
        Their names, if they have any.
    encoding : TableEncoding or None
        How they become numbers; None where they are taken as they are.
    crs : str or None
        Coordinate system of the points of a GeoDataFrame, whose coordinates are the first columns.
    """

    n_features: int
    names: Any = None
    encoding: TableEncoding | None = None
    crs: str | None = None

    def read_back(self) -> Columns:
        """The columns of a file, with as many names and codes as there are."""
        names = self.n_features if self.names is None else [type(name) for name in self.names]
        codes = self.n_features if self.encoding is None else len(self.encoding.codes)
        if self.n_features < 1 or codes != self.n_features:
            raise ModelFileError(f"columns: expected {self.n_features} codes, got {codes}")
        if names not in (self.n_features, [str] * self.n_features):
            raise ModelFileError(f"columns: expected {self.n_features} texts for names, got others")
        return self

    @property
    def n_encoded(self) -> int:
        """Number D of columns that they become."""
        return self.n_features if self.encoding is None else self.encoding.groups.size

    @property
    def groups(self) -> IntArray | None:
        """Number (D,) of the part of each encoded column; None where each is a part by itself."""
        if self.encoding is None or len(self.encoding.parts) == self.n_encoded:
            return None
        return self.encoding.groups

    @property
    def part_names(self) -> list[str]:
        """Names (q,) of the parts of the columns; column names where columns are not encoded."""
        if self.encoding is not None:
            return [name for name, _ in self.encoding.parts]
        return [text_of_place(self.names, place) for place in range(self.n_features)]

    @property
    def part_sources(self) -> IntArray:
        """Number (q,) of the column of the table that each part is made of."""
        if self.encoding is not None:
            return self.encoding.part_sources
        return np.arange(self.n_features)

    def name(self, place: int) -> str:
        """Name of a column of the table, by its number from zero."""
        return text_of_place(self.names, place)

    def sources_of(self, columns: IntArray) -> list[int]:
        """Numbers of the table's columns that encoded columns are made of, each once."""
        return columns.tolist() if self.encoding is None else self.encoding.sources_of(columns)

    def part_of(self, column: int) -> str:
        """Name of the part that an encoded column, by its number from zero, belongs to."""
        if self.encoding is None:
            return text_of_place(self.names, column)
        return self.encoding.parts[int(self.encoding.groups[column])][0]


class TableColumns(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Carrier of scikit-learn's checks of a table, which note its columns on an estimator."""

    def columns(self) -> Columns:
        """The columns of the table that was checked."""
        return Columns(self.n_features_in_, getattr(self, "feature_names_in_", None))


class FittedToTable(Fitted[Record]):
    """Checks of inputs by a fitted record that holds the `columns` of a table."""

    @property
    def _columns(self) -> Columns:
        record: Any = self.fitted_
        columns: Columns = record.columns
        return columns

    @property
    def n_features_in_(self) -> int:
        """Number of columns of X in the fit."""
        return self._columns.n_features

    @property
    def feature_names_in_(self) -> Any:
        """Names (d,) of the columns of X in the fit, where it had names."""
        if self._columns.names is None:
            raise AttributeError("feature_names_in_: the columns had no names in the fit")
        return self._columns.names


@dataclass(frozen=True, eq=False)
class DrawnFeatures:
    """Result of the fit of a transformer: columns, lengthscales (d,) and the feature map."""

    columns: Columns
    lengthscale: FloatArray
    features: FeatureMap


class _Sampler(
    FittedToTable[DrawnFeatures], ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator
):
    """Shared part of the two transformers."""

    _feature_map: ClassVar[type[FeatureMap]]

    lengthscale: ArrayLike
    n_frequencies: int
    coupling: CouplingLike
    kernel: SpectrumLike
    random_state: Any

    def fit(self, X: ArrayLike, y: Any = None) -> _Sampler:
        """Draw the frequencies for the dimension of `X`; its values are not used."""
        carrier = TableColumns()
        rows: FloatArray = validate_data(carrier, X, estimator=self, dtype=np.float64)
        dim = rows.shape[1]
        lengthscale = check_lengthscale(self.lengthscale, dim)
        features = self._feature_map(
            dim,
            self.n_frequencies,
            self.coupling,
            self.kernel,
            seed_from_random_state(self.random_state),
        )
        check_directions(features)
        self._fitted = DrawnFeatures(carrier.columns(), lengthscale, features)
        return self

    @property
    def features_(self) -> FeatureMap:
        """The feature map, of unit lengthscale."""
        return self.fitted_.features

    @property
    def lengthscale_(self) -> FloatArray:
        """Lengthscales (d,) of the columns."""
        return self.fitted_.lengthscale

    @property
    def _n_features_out(self) -> int:
        return self.features_.n_features

    def transform(self, X: ArrayLike) -> FloatArray:
        """Features (n, n_features) of the rows of `X` (n, d)."""
        found = self.fitted_
        rows: FloatArray = validate_data(self, X, dtype=np.float64, reset=False)
        check_magnitude(rows, "X")
        features: FloatArray = found.features(rows / found.lengthscale).numpy()
        return features


class FourierSampler(_Sampler):
    """Approximate a stationary kernel by coupled random Fourier features.

    Stands where `sklearn.kernel_approximation.RBFSampler(gamma, n_components)` does, with
    `lengthscale = (2 gamma)^{-1/2}` and `n_components = 2 * n_frequencies`; see `FourierFeatures`.

    Parameters
    ----------
    lengthscale
        One positive number, or one for each column.
    n_frequencies
        Number of frequencies m; the output has 2 m columns.
    coupling
        Joint law of the frequencies.
    kernel
        Stationary kernel, as in `parse_spectrum`.
    random_state
        Seed, `RandomState` or None.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.features import FourierSampler
    >>> X = np.linspace(0, 1, 5)[:, None]
    >>> phi = FourierSampler(lengthscale=2.0, n_frequencies=200, random_state=0).fit_transform(X)
    >>> phi.shape
    (5, 400)
    >>> bool(np.abs(phi @ phi.T - np.exp(-((X - X.T) ** 2) / 8)).max() < 0.05)
    True
    """

    _feature_map = FourierFeatures

    def __init__(
        self,
        lengthscale: ArrayLike = 1.0,
        n_frequencies: int = 50,
        coupling: CouplingLike = "orthogonal+pnc",
        kernel: SpectrumLike = "gaussian",
        random_state: Any = None,
    ) -> None:
        self.lengthscale = lengthscale
        self.n_frequencies = n_frequencies
        self.coupling = coupling
        self.kernel = kernel
        self.random_state = random_state


class LaplaceSampler(_Sampler):
    """Approximate the Gaussian kernel by coupled positive features; see `LaplaceFeatures`.

    The inputs should be centred, for instance by a `StandardScaler` before it in the pipeline.

    Parameters
    ----------
    lengthscale
        One positive number, or one for each column.
    n_frequencies
        Number of frequencies m; the output has m columns.
    coupling
        Joint law of the frequencies.
    random_state
        Seed, `RandomState` or None.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.features import LaplaceSampler
    >>> X = np.array([[-0.3], [0.3]])
    >>> phi = LaplaceSampler(n_frequencies=50, random_state=0).fit_transform(X)
    >>> phi.shape, bool((phi > 0).all())
    ((2, 50), True)
    >>> bool(np.isclose(phi[0] @ phi[1], np.exp(-0.18)))  # exact where y = -x
    True
    """

    _feature_map = LaplaceFeatures
    kernel = "gaussian"

    def __init__(
        self,
        lengthscale: ArrayLike = 1.0,
        n_frequencies: int = 100,
        coupling: CouplingLike = "orthogonal+pnc+antithetic",
        random_state: Any = None,
    ) -> None:
        self.lengthscale = lengthscale
        self.n_frequencies = n_frequencies
        self.coupling = coupling
        self.random_state = random_state
