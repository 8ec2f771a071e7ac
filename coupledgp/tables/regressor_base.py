"""Base of the regressors of tables: checks, search and results."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, replace
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import MultiOutputMixin

from coupledgp.core.estimator import ProcessRegressor, interval_ends
from coupledgp.core.fitted import seed_from_random_state
from coupledgp.core.options import estimator
from coupledgp.core.process import Data, GaussianProcess
from coupledgp.core.stored import FittedModel
from coupledgp.core.transformed import TransformedGP, forward, transformed_data
from coupledgp.core.transforms import TARGET_TRANSFORMS, Identity, TargetTransform
from coupledgp.core.units import LEAST_CONSTANT, are_constant
from coupledgp.core.varying_noise import constant_noise
from coupledgp.core.wrapped import has_data
from coupledgp.errors import InvalidInputError
from coupledgp.ground.devices import DeviceLike, parse_device
from coupledgp.ground.memory import named_exhaustion
from coupledgp.ground.progress import reporter
from coupledgp.ground.validation import check_choice, forward_array, plain_array, real_array
from coupledgp.ground.visible import warn
from coupledgp.linalg.system import SystemOptions
from coupledgp.spectra import SpectrumLike, parse_spectrum
from coupledgp.tables.column_moves import ColumnMoves, dependences
from coupledgp.tables.estimator_base import TableEstimator
from coupledgp.tables.explained import Explained, column_sentence, identifier_sentences
from coupledgp.tables.grids import OnGrids
from coupledgp.tables.likelihood_parameter import law_of
from coupledgp.tables.members import is_auto, with_parameters
from coupledgp.tables.place_maps import DOTS, PlacesOf
from coupledgp.tables.rows import RowArguments, further_rows_with_targets, learn_rows
from coupledgp.tables.samplers import Columns
from coupledgp.tables.transform_search import fit_transforms

TransformLike: TypeAlias = TargetTransform | str | None
# Points and levels of the law along a single column, in a plot.
BAND_POINTS, BAND_LEVELS = 200, (0.5, 0.95)
# How equations in the exact covariance of the rows are solved.
SOLVERS = ("dense", "iterative")


@estimator
class TableRegressor(MultiOutputMixin, TableEstimator, ProcessRegressor, Explained, OnGrids):
    """Base of the Gaussian process regressors of tables.

    Subclasses turn checked data into a process by `fit_data`; this class reads tables.

    Parameters
    ----------
    target_transform
        Increasing transform g of the targets: the model is one of `z = g(y)`, and its law of y is
        that of `g^-1(z)`. `"log"`, `"box-cox"`, `"counts"`, `"yeo-johnson"`, `"logit"`, a text with
        numbers such as `"log(shift=1.0)"`, a `coupledgp.core.transforms.TargetTransform`, or
        `"auto"`: the one of greatest evidence of y, if that exceeds the evidence without one by
        five nats. Free shapes are fitted by the evidence, on at most 500 rows. `outputscale_` and
        `noise_` are then in units of z squared; see `docs/targets.md`.
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
    """

    # Whether the targets are to be modelled as they are, since they were transformed before.
    targets_are_given: ClassVar[bool] = False
    _points_are: ClassVar[str] = "rows"

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
        return self._assigned(lambda: self._fit(X, y, sample_weight, sample_noise), y, y=y)

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

    def _told(self) -> list[str]:
        columns, process = self._columns, self.process_
        told = [*super()._told(), column_sentence(process, columns)]
        told += identifier_sentences(columns, len(process.data) if has_data(process) else 0)
        return list(filter(None, told))

    def _dependence(self) -> Any:
        """Partial dependence on the columns that move predictions most."""
        from coupledgp.diagnostics.render.pictures import PANELS, dependence_panels  # slow

        process, columns = constant_noise(self.process_), self._columns
        names = ColumnMoves.of(process, columns).names
        found = dependences(process, columns, names[:PANELS])
        return dependence_panels(found, len(names))

    def _picture(self, X: Any) -> Any:
        places = PlacesOf.of(self)
        if places is not None:
            return places.map.picture()
        process, extent = self.process_, self.fitted_.extent
        if extent is None or len(extent.low) > 1 or self._number_columns()[0] < 0:
            return self._dependence()
        grid = np.linspace(extent.low, extent.high, BAND_POINTS)
        bounds = {}
        for level in BAND_LEVELS:
            ends = process.quantiles(grid, np.array(interval_ends(level)))
            bounds[level] = (ends[..., 0], ends[..., 1])
        mean = process.law(grid, "mean").mean
        dots = (grid[:0, 0], mean[:0])
        if has_data(process):
            chosen = np.random.default_rng(0).permutation(len(process.data))[:DOTS]
            dots = (process.data.points[chosen, 0], process.data.targets[chosen])
        from coupledgp.diagnostics.render.pictures import band  # slow

        return band(grid[:, 0], mean, bounds, dots, self._columns.name(0))

    def exact_twin(self, solver: str = "dense") -> Any:
        """Return the exact Gaussian process of all parts in one kernel, given the same data.

        Of a mixture it is that of the member of greatest weight. Sampled frequencies give way to
        the kernel that they estimate; fitted ones, which define a kernel of their own, are kept.

        Parameters
        ----------
        solver
            `"dense"`: by a Cholesky factor, O(n^3) time and O(n^2) memory. `"iterative"`: by
            conjugate gradients, O(n^2) time and O(n) memory, for at most 50 000 rows
            (docs/kriging.md).
        """
        return self._around(self.solved_exactly(solver))

    def solved_exactly(self, solver: str) -> GaussianProcess:
        """The exact counterpart of the fitted process, by the solver of `exact_twin`."""
        if check_choice(solver, SOLVERS, "solver") == "dense":
            return self.process_.exact()
        with reporter("exact twin", self.progress):
            return self.process_.exact_by(SystemOptions())

    def check_parameters(self) -> None:
        parse_device(self.device)
        if self.target_transform is not None:
            parse_target_transform(self.target_transform)

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
        if not are_constant(data.targets) or getattr(self, "optimizer", "") is None:
            return
        got = f"y: expected targets that differ, got {len(data)} equal to {data.targets[0, 0]:.3g}"
        if len(data) >= LEAST_CONSTANT:
            warn(
                f"{got}: predictions are these, and standard deviations say nothing of how others "
                "would differ"
            )
        else:
            warn(
                f"{got}: nothing says by how much others differ, and standard deviations are those "
                "of a prior of unit variance, in whatever unit y has; optimizer=None keeps an "
                "outputscale and a noise that are given"
            )

    def checked(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        sample_noise: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
    ) -> tuple[Data, int, Columns]:
        """Return data (n, D) and (n, k), the number of dimensions of y, and the columns of X.

        Columns of numbers are taken as they are, D = d; others as their encoding says.
        """
        inputs, targets, columns = learn_rows(self, X, y, self.missing, self.geographic)
        given = RowArguments(sample_weight, sample_noise, exposure=exposure)
        data = given.data(inputs, targets.reshape(len(targets), -1))
        return data, targets.ndim, columns

    def modelled(self, data: Data, columns: Columns) -> Data:
        """Return checked data with transformed targets, if the model transforms them."""
        if self.target_transform is None:
            return data
        return transformed_data(data, chosen_transforms(self, data, columns))

    def _further_data(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        sample_noise: ArrayLike | None = None,
        exposure: ArrayLike | None = None,
    ) -> Data:
        inputs, targets = further_rows_with_targets(self, X, y, self._columns)
        targets, process = targets.reshape(len(targets), -1), self.process_
        if sample_noise is not None and isinstance(process, TransformedGP):
            raise InvalidInputError(
                "sample_noise: expected None for a model of transformed targets; give sample_weight"
            )
        self._check_outputs(Data.of(inputs, targets))
        level = None
        if process.noise.is_gaussian:
            level = float(process.units.spread(process.noise.variance)[0])
        given = RowArguments(sample_weight, sample_noise, level, exposure)
        data = given.data(inputs, targets)
        if level is None:
            law_of(process.noise, data)
        return data

    @property
    def _transform_kernel(self) -> SpectrumLike:
        """Kernel under which transforms of the targets are compared."""
        return "matern-3/2"


def fit_transformed(
    model: Any,
    X: ArrayLike,
    y: ArrayLike,
    sample_weight: ArrayLike | None,
    sample_noise: ArrayLike | None,
    **further: Any,
) -> FittedModel:
    """Fit an estimator of tables to transformed targets, and put the transforms around its process.

    Parameters
    ----------
    model
        Estimator whose `target_transform` is not None; it is not changed.
    X, y, sample_weight, sample_noise
        Data, as its `fit` takes them.
    further
        Further arguments of its `fit`.

    Raises
    ------
    InvalidInputError
        The transform is unknown, a target is not in its domain, or `sample_noise` is given.
    """
    data, _, columns = model.checked(X, y, sample_weight, sample_noise)
    transforms = chosen_transforms(model, data, columns)
    plain = with_parameters(model, target_transform=None)
    plain.targets_are_given = True
    if all(transform == Identity() for transform in transforms):
        record: FittedModel = plain.fit(X, y, sample_weight, **further).fitted_
        return record
    targets = forward_array(real_array(plain_array(y, "y"), "y"))
    values = forward(targets.reshape(len(targets), -1), transforms).reshape(targets.shape)
    record = plain.fit(X, values, sample_weight, **further).fitted_
    return replace(record, process=TransformedGP.of(record.process, transforms, data))


def chosen_transforms(model: Any, data: Data, columns: Columns) -> tuple[TargetTransform, ...]:
    """A transform for each output of data, as the `target_transform` of an estimator says.

    Raises
    ------
    InvalidInputError
        The transform is unknown, a target is not in its domain, or the noise of rows is known.
    """
    given = parse_target_transform(model.target_transform)
    if data.weights is not None and data.weights.level is not None:
        raise InvalidInputError(
            "sample_noise: expected None beside target_transform, since it is in units of y and "
            "the noise is that of transformed targets; give sample_weight"
        )
    rng = np.random.default_rng(seed_from_random_state(model.random_state))
    kernel = parse_spectrum(model._transform_kernel, "kernel")
    with reporter("fit", model.progress):
        return fit_transforms(given, data, kernel, model.ard, rng, columns.groups)


def parse_target_transform(value: Any) -> TargetTransform | None:
    """Return a transform from its text form or an object; None for "auto"."""
    return None if is_auto(value) else TARGET_TRANSFORMS.parse(value, "target_transform")
