"""Base of the regressors of tables: checks, search and results."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import MultiOutputMixin

from coupledgp.columns import TableEncoding
from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.features.sklearn import Columns, seed_from_random_state
from coupledgp.gp.mixture import n_columns_of, restored_process
from coupledgp.gp.protocol import Arrays, Data, GaussianProcess, Header, Points
from coupledgp.gp.row_digests import RowDigests
from coupledgp.gp.schema import Entries, check_integer, require_type
from coupledgp.gp.seen import Seen
from coupledgp.gp.transformed import TransformedGP, transformed_data
from coupledgp.gp.units import LEAST_CONSTANT, are_constant
from coupledgp.gp.varying_noise import ENTRY, VaryingNoiseGP
from coupledgp.ground.devices import DeviceLike, parse_device
from coupledgp.ground.memory import named_exhaustion
from coupledgp.linalg.rounding import levels_to_caller
from coupledgp.models.estimator import ProcessRegressor
from coupledgp.models.explained import Explained
from coupledgp.models.extrapolation import Extrapolations
from coupledgp.models.options import estimator
from coupledgp.models.record import FittedModel
from coupledgp.models.rows import RowArguments
from coupledgp.models.stored import restored_ndim, restored_parameters, restored_results
from coupledgp.models.table_rows import further_rows, further_rows_with_targets, learn_rows
from coupledgp.models.targets import TransformLike, chosen_transforms, fit_transformed
from coupledgp.random import FloatArray
from coupledgp.search.space import first_places
from coupledgp.spectra import SpectrumLike


class PerColumn:
    """Parameter of the lengthscales of tables: by default each column has its own."""

    ard: bool = True


@estimator
class TableRegressor(PerColumn, MultiOutputMixin, ProcessRegressor, Explained):
    """Base of the Gaussian process regressors of tables.

    Subclasses turn checked data into a process by `fit_data`; this class reads tables.

    Parameters
    ----------
    missing
        Missing values (NaN, None, NaT) of X. `"raise"`: they are an error. `"indicator"`: a number
        or date that is missing is the mean of its column, with an indicator beside it under the
        same lengthscale; a missing category is a level of its own (docs/tables.md).
    target_transform
        Increasing transform g of the targets: the model is one of `z = g(y)`, and its law of y
        is that of `g^-1(z)`. `"log"`, `"box-cox"`, `"yeo-johnson"`, `"logit"`, a text with
        numbers such as `"log(shift=1.0)"`, a `coupledgp.gp.transforms.TargetTransform`, or
        `"auto"`: the one of greatest evidence of y, if that exceeds the evidence without one by
        five nats. Free shapes are fitted by the evidence, on at most 500 rows. `outputscale_`
        and `noise_` are then in units of z squared; see `docs/targets.md`.
    device
        Where tensors are (docs/models.md, "On a GPU"): None or `"cpu"`, `"cuda"`, `"cuda:1"`,
        `"auto"` (a GPU where torch finds one) or a `torch.device`. Draws are the same on every
        device, results are NumPy arrays, and model files hold none: they load anywhere.

    Attributes
    ----------
    lengthscale_, outputscale_, noise_
        Fitted hyperparameters, in units of X and of y squared.
    log_marginal_likelihood_value_
        Log evidence of y (in its own units) at the fitted hyperparameters.
    n_evaluations_, converged_
        Number of evaluations of the evidence in the fit, and whether the search converged.
    n_features_in_, feature_names_in_
        Number and names of the columns of X, as in scikit-learn.
    """

    _section: ClassVar[str] = "scalars"
    _stored: ClassVar[tuple[str, ...]] = (
        "n_effective_draws_", "n_evaluations_", "n_iter_", "converged_", "spectrum_start_loss_",
        "spectrum_loss_",
    )  # fmt: skip

    # Whether the targets are to be modelled as they are, since they were transformed before.
    targets_are_given: ClassVar[bool] = False

    _: KW_ONLY
    target_transform: TransformLike = None
    device: DeviceLike = None

    @abstractmethod
    def fit_data(
        self, data: Data, columns: Columns, **further: Any
    ) -> tuple[GaussianProcess, dict[str, Any]]:
        """Fit hyperparameters and condition on data; return the process and further results."""

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        sample_noise: ArrayLike | None = None,
    ) -> Self:
        """Fit the hyperparameters, then the posterior given all rows.

        Parameters
        ----------
        X
            Inputs (n, d).
        y
            Targets (n,), or (n, k) for k independent outputs that share the hyperparameters.
        sample_weight
            Weights (n,), not negative: a row of weight w counts as if it stood w times in the
            table, in the posterior, the evidence and the normalisation of y; rows of weight zero
            are left out. `noise_` is the noise variance of a row of weight one.
        sample_noise
            Known noise variances (n,) of the rows, positive, in units of y squared, for one output.
            They are kept unless `fixed` is given without "noise"; then they are known up to one
            factor, which the evidence decides. `noise_` is their mean, times that factor: the noise
            of observations at new inputs. At most one of `sample_weight` and `sample_noise`.

        Raises
        ------
        InvalidInputError
            A parameter of the estimator or the data is invalid, there is no such device, or no
            model is within the budget.
        MemoryLimitError
            Matrices do not fit into memory, that of the device or of the machine.
        NumericalError
            A matrix is not positive definite to working precision.
        """
        return self._assigned(lambda: self._fit(X, y, sample_weight, sample_noise))

    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        sample_noise: ArrayLike | None = None,
    ) -> Self:
        """Add rows to the data; hyperparameters, frequencies and weights of members do not change.

        The first call on an unfitted model is `fit`. Afterwards the posterior is the one that a
        fit to all rows with the same hyperparameters (in units of the normalised y) would give; the
        normalisation of y follows the data. Models of features and local models take the cost of
        the new rows, an exact one that of a Cholesky factor of all. An error leaves the model as it
        was.

        Parameters
        ----------
        X, y
            Further inputs (n, d) and targets (n,) or (n, k), as in `fit`.
        sample_weight, sample_noise
            As in `fit`; variances are in units of y squared, of which `noise_` is the unit.
        """
        if not self.__sklearn_is_fitted__():
            return self.fit(X, y, sample_weight, sample_noise)
        with named_exhaustion("partial_fit"):
            data = self._further_data(X, y, sample_weight, sample_noise)
        return self._updated(data)

    def _check_common(self) -> None:
        parse_device(self.device)

    def _fit(self, X: ArrayLike, y: ArrayLike, *weights: Any, **further: Any) -> FittedModel:
        if self.target_transform is not None:
            return fit_transformed(self, X, y, *weights, **further)
        data, ndim, columns = self.checked(X, y, *weights)
        process, results = self.fit_data(data, columns, **further)
        self._warn_if_constant(data)
        self._warn_if_stopped(results)
        return FittedModel(process, ndim, results, columns)

    def _warn_if_stopped(self, results: Mapping[str, Any]) -> None:
        """Warn where the search ended before it converged."""

    def _warn_if_constant(self, data: Data) -> None:
        """Warn of targets that say nothing of their spread."""
        if len(data) >= LEAST_CONSTANT and are_constant(data.targets):
            warnings.warn(
                f"y: expected targets that differ, got {len(data)} equal ones: predictions are "
                "these, and standard deviations say nothing of how others would differ",
                UserWarning,
                stacklevel=levels_to_caller(),
            )

    def checked(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        sample_noise: ArrayLike | None = None,
    ) -> tuple[Data, int, Columns]:
        """Return data (n, D) and (n, k), the number of dimensions of y, and the columns of X.

        Columns of numbers are taken as they are, D = d; others as their encoding says.
        """
        inputs, targets, columns = learn_rows(self, X, y, self.missing)
        given = RowArguments(sample_weight, sample_noise)
        data = given.data(inputs, targets.reshape(len(targets), -1))
        return data, targets.ndim, columns

    def modelled(self, data: Data, columns: Columns) -> Data:
        """Return checked data with transformed targets, if the model transforms them."""
        if self.target_transform is None:
            return data
        return transformed_data(data, chosen_transforms(self, data, columns))

    def points(self, X: ArrayLike) -> Points:
        """Inputs (p, D) as float64, checked against the columns of the fit and encoded as there."""
        return further_rows(self, X, self._columns)

    def _further_data(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        sample_noise: ArrayLike | None = None,
    ) -> Data:
        inputs, targets = further_rows_with_targets(self, X, y, self._columns)
        targets, process = targets.reshape(len(targets), -1), self.process_
        if sample_noise is not None and isinstance(process, TransformedGP):
            raise InvalidInputError(
                "sample_noise: expected None for a model of transformed targets; give sample_weight"
            )
        level = float(process.units.spread(process.noise.variance)[0])
        self._check_outputs(Data.of(inputs, targets))
        return RowArguments(sample_weight, sample_noise, level).data(inputs, targets)

    @property
    def _transform_kernel(self) -> SpectrumLike:
        """Kernel under which transforms of the targets are compared."""
        return "matern-3/2"

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

    def extrapolation(self, X: ArrayLike) -> FloatArray:
        """Distance (p,) of each row from the training rows, in lengthscales; above 2 is far.

        `max_j min_i |x_j - x_ij| / min(l_j, sqrt(d) w_j / 2)`, where the values i of column j stand
        for intervals without gaps above an eighth of its range w_j. Holes that show in several
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

    def _state(self, include_data: bool) -> tuple[Header, Arrays]:
        header, arrays = super()._state(include_data)
        names, encoding = self._columns.names, self._columns.encoding
        seen = self.fitted_.extent
        arrays |= {} if seen is None else seen.arrays()
        return {
            **header,
            "feature_names": None if names is None else [str(name) for name in names],
            **({} if encoding is None else {"encoding": encoding.state()}),
            "scalars": {"n_features_in_": self.n_features_in_, **header["scalars"]},
        }, arrays

    @classmethod
    def from_state(cls, header: Header, arrays: Arrays) -> Any:
        """Return the fitted model of a file, of this version or of 0.1.0."""
        parameters = restored_parameters(cls, header)
        scalars = require_type(header.get("scalars"), dict, "scalars")
        header = {
            "normalize": parameters.get("normalize_y"),
            "y_ndim": scalars.get("_y_ndim"),
            **header,
        }
        process = _restored(header, arrays)
        model = cls(**parameters)
        fixed = getattr(model, "fixed", None)
        if fixed is not None:
            model.fixed = tuple(fixed)
        columns = _columns_from(header, n_columns_of(process))
        results = restored_results(header, cls._section, cls._stored)
        entries = Entries(header, arrays)
        digests, ndim = RowDigests.from_entries(entries), restored_ndim(header, process)
        seen = Seen.from_entries(entries, n_columns_of(process) or 0, process.units.n_outputs)
        return model.holding(FittedModel(process, ndim, results, columns, digests, seen=seen))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "indicator"
        return tags


def _columns_from(header: Header, n_encoded: int | None) -> Columns:
    """Columns of X of a file, which become `n_encoded` columns of the process."""
    if n_encoded is None:
        raise ModelFileError("class: expected a model of a table, got a field")
    n_columns = check_integer(header["scalars"].get("n_features_in_"), "columns", 1, n_encoded)
    names = header.get("feature_names")
    if names is not None and (
        len(require_type(names, list, "feature_names")) != n_columns
        or any(type(name) is not str for name in names)
    ):
        raise ModelFileError(f"feature_names: expected {n_columns} texts, got others")
    stored, encoding = header.get("encoding"), None
    if stored is not None:
        encoding = TableEncoding.from_state(stored, names, n_columns)
    if n_encoded != (n_columns if encoding is None else encoding.groups.size):
        raise ModelFileError(f"columns: expected as many as of the process, {n_encoded}")
    return Columns(n_columns, None if names is None else np.array(names, dtype=object), encoding)


def _restored(header: Header, arrays: Arrays) -> GaussianProcess:
    """The process of a table that the header and arrays of a file describe."""
    if ENTRY in header:
        return VaryingNoiseGP.from_state(header, arrays)
    if "target_transforms" in header:
        return TransformedGP.from_state(header, arrays)
    return restored_process(header, arrays)
