"""Base of the regressors of tables: checks, search and results."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import MultiOutputMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from coupledgp.columns import TableEncoding
from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.features.sklearn import Columns, FittedToTable, seed_from_random_state
from coupledgp.gp.columns import HYPERPARAMETERS
from coupledgp.gp.mixture import MixtureGP, n_columns_of, restored_process
from coupledgp.gp.protocol import Arrays, Data, GaussianProcess, Header, Points
from coupledgp.gp.row_digests import RowDigests
from coupledgp.gp.schema import Entries, check_integer, require_type
from coupledgp.gp.seen import Seen
from coupledgp.gp.state import TEXTS, text_of
from coupledgp.gp.transformed import TransformedGP, transformed_data, untransformed
from coupledgp.gp.units import LEAST_CONSTANT, Units, are_constant
from coupledgp.ground.progress import Progress
from coupledgp.ground.validation import (
    check_choice,
    check_lengthscale,
    check_positive,
    check_positive_int,
)
from coupledgp.inference.evidence.problem import EvidenceProblem, Hyperparameters
from coupledgp.linalg.rounding import levels_to_caller
from coupledgp.models.estimator import (
    FittedModel,
    ProcessRegressor,
    fitted_result,
    plain_seed,
    restored_ndim,
    restored_parameters,
    restored_results,
)
from coupledgp.models.extrapolation import Extrapolations
from coupledgp.models.rows import RowArguments, known_noise
from coupledgp.models.table_rows import further_rows, further_rows_with_targets, learn_rows
from coupledgp.models.targets import TransformLike, chosen_transforms
from coupledgp.random import FloatArray, IntArray
from coupledgp.search.averaging import (
    Average,
    HyperparameterPrior,
    as_hyperparameter_prior,
    average_hyperparameters,
)
from coupledgp.search.minimise import lbfgs, parse_optimizer
from coupledgp.search.optimize import OptimizationResult
from coupledgp.search.space import SearchSpace, first_places
from coupledgp.spectra import SpectrumLike

HYPERPARAMETER_CHOICES = ("maximum", "averaged")
# Values kept when the optimizer is off and none was given, in units of the normalised targets.
DEFAULT_SCALES = {"outputscale": 1.0, "noise": 0.1}
# Fitted numbers that a file holds if the model has them.
STORED_RESULTS = (
    "n_effective_draws_", "n_evaluations_", "n_iter_", "converged_", "spectrum_start_loss_",
    "spectrum_loss_",
)  # fmt: skip


class TableRegressor(MultiOutputMixin, ProcessRegressor, FittedToTable[FittedModel]):
    """Base of the Gaussian process regressors with a stationary kernel.

    Subclasses turn checked data into a process; this class validates and shapes the results.
    """

    kernel: SpectrumLike
    ard: bool
    lengthscale: ArrayLike | None
    outputscale: float | None
    noise: float | None
    fixed: tuple[str, ...] | None
    n_restarts: int
    max_iter: int

    missing: str
    hyperparameters: str
    hyperparameter_prior: HyperparameterPrior | Mapping[str, float] | None
    n_hyperparameter_draws: int
    target_transform: TransformLike

    n_iter_ = fitted_result("n_iter_", "Iterations of the last run of the search.")
    search_ = fitted_result("search_", "Rows that the lengthscales come from; see `Ladder`.")
    n_effective_draws_ = fitted_result(
        "n_effective_draws_", "Effective number of draws of averaged hyperparameters."
    )

    @abstractmethod
    def fit_data(
        self, data: Data, columns: Columns, *further: Any
    ) -> tuple[GaussianProcess, dict[str, Any]]:
        """Fit hyperparameters and condition on data; return the process and further results."""

    def _fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        sample_noise: ArrayLike | None,
        *further: Any,
    ) -> FittedModel:
        data, ndim, columns = self.checked(X, y, sample_weight, sample_noise)
        process, results = self.fit_data(data, columns, *further)
        self._warn_if_constant(data)
        self._warn_if_stopped(results)
        return FittedModel(process, ndim, results, columns)

    def _warn_if_constant(self, data: Data) -> None:
        """Warn of targets that say nothing of their spread."""
        if len(data) >= LEAST_CONSTANT and are_constant(data.targets):
            warnings.warn(
                f"y: expected targets that differ, got {len(data)} equal ones: predictions are "
                "these, and standard deviations say nothing of how others would differ",
                UserWarning,
                stacklevel=levels_to_caller(),
            )

    def _warn_if_stopped(self, results: Mapping[str, Any]) -> None:
        """Warn where the search ended at its limit, or in the middle, not by its tolerances."""
        if results.get("converged_", True) or "n_iter_" not in results:
            return  # local models have bounded rounds, and `converged_` says how the last one ended
        if results["n_iter_"] < self.max_iter:
            warnings.warn(
                f"optimizer: the search for hyperparameters ended after {results['n_iter_']} "
                "iterations before it converged: no step uphill had a greater evidence, though its "
                "gradient is not zero, which rounding may cause; give a lengthscale to start from, "
                "raise n_restarts, or raise a noise that is far below the targets' variance",
                ConvergenceWarning,
                stacklevel=4,
            )
            return
        warnings.warn(
            f"max_iter: the search for hyperparameters stopped after {self.max_iter} iterations "
            "before it converged; raise max_iter, give a lengthscale to start from, or, if columns "
            "are many, set ard=False",
            ConvergenceWarning,
            stacklevel=4,
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
        targets = targets.reshape(len(targets), -1)
        n_outputs = self.process_.units.n_outputs
        if targets.shape[1] != n_outputs:
            raise InvalidInputError(
                f"y: expected {n_outputs} outputs as in the first fit, got {targets.shape[1]}"
            )
        process = self.process_
        if sample_noise is not None and isinstance(process, TransformedGP):
            raise InvalidInputError(
                "sample_noise: expected None for a model of transformed targets; give sample_weight"
            )
        level = float(process.units.spread(process.noise.variance)[0])
        return RowArguments(sample_weight, sample_noise, level).data(inputs, targets)

    def _search_space(
        self, data: Data, units: Units, base: FloatArray, groups: IntArray | None = None
    ) -> SearchSpace:
        """Free hyperparameters and starts of the search, from the parameters and the data."""
        varies = not are_constant(data.targets, units.offset)
        return self._space(varies, known_noise(data, units, self.noise), base, groups)

    def _space(
        self, varies: bool, known: float | None, base: FloatArray, groups: IntArray | None
    ) -> SearchSpace:
        """Free hyperparameters and starts of the search.

        `base` are data-driven lengthscales (D,), equal in each of the `groups` of columns. All
        hyperparameters are fixed for targets that do not vary, which say nothing about scales:
        their evidence has no maximum. Noise of the rows that is `known`, in normalised units, is
        kept unless `fixed` is given without it.
        """
        dim = base.size
        searched = varies and self.optimizer is not None
        minimise = lbfgs if self.optimizer is None else parse_optimizer(self.optimizer)
        fixed = set(self._default_fixed() if self.fixed is None else self.fixed)
        if self.fixed is None and known is not None:
            fixed.add("noise")
        for name in fixed:
            check_choice(name, HYPERPARAMETERS, "fixed")
        given = None
        if self.lengthscale is not None:
            given = column_lengthscales(self.lengthscale, dim, groups)
            base = base if self.ard else given
        scales = {
            name: default
            if getattr(self, name) is None
            else check_positive(getattr(self, name), name)
            for name, default in DEFAULT_SCALES.items()
        }
        return SearchSpace(
            base=base,
            ard=self.ard,
            lengthscale=given,
            outputscale=scales["outputscale"],
            noise=scales["noise"] if known is None else known,
            free=frozenset(HYPERPARAMETERS) - fixed if searched else frozenset(),
            minimise=minimise,
            groups=groups,
        )

    def _check_averaging(self) -> None:
        """Refuse options of the averaging over hyperparameters, before any work."""
        check_choice(self.hyperparameters, HYPERPARAMETER_CHOICES, "hyperparameters")
        check_positive_int(self.n_hyperparameter_draws, "n_hyperparameter_draws", minimum=2)
        self._hyperparameter_prior()

    def _hyperparameter_prior(self) -> HyperparameterPrior:
        return as_hyperparameter_prior(self.hyperparameter_prior)

    def _averaged(
        self,
        problem: EvidenceProblem,
        space: SearchSpace,
        found: Hyperparameters,
        rng: np.random.Generator,
        report: Progress,
    ) -> Average | None:
        """Draws of the hyperparameters with weights, where they are asked for and any is free."""
        if self.hyperparameters == "maximum" or not space.free:
            return None
        prior, n_draws = self._hyperparameter_prior(), self.n_hyperparameter_draws
        return average_hyperparameters(problem, space, found, prior, n_draws, rng, report)

    @property
    def _transform_kernel(self) -> SpectrumLike:
        """Kernel under which transforms of the targets are compared."""
        return self.kernel

    def _default_fixed(self) -> tuple[str, ...]:
        """Names of hyperparameters that stay at their defaults unless `fixed` says otherwise."""
        return ()

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

    def predict(
        self,
        X: ArrayLike,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        latent: bool = False,
    ) -> Any:
        """Predictive law of observations at new inputs.

        Parameters
        ----------
        X
            Inputs (p, d).
        return_std
            Also return the standard deviation, (p,) or (p, k); exactly the root of the diagonal of
            the covariance.
        return_cov
            Also return the covariance, (p, p) or (p, p, k).
        latent
            Leave the noise out: the law of the function f instead of observations y.

        Returns
        -------
        FloatArray or (FloatArray, FloatArray)
            Mean, (p,) or (p, k), and the standard deviation or covariance if asked for.

        Warns
        -----
        ExtrapolationWarning
            A row is more than two lengthscales from the training rows in a column (see
            `extrapolation`), or its mean more than three ranges of y from the training targets.

        Raises
        ------
        InvalidInputError
            Both `return_std` and `return_cov` are set, or `X` does not fit the training data.
        """
        return self._predict(X, return_std, return_cov, latent)

    def extrapolation(self, X: ArrayLike) -> FloatArray:
        """Distance of rows from the training rows, in lengthscales: what is above 2 is warned of.

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

    def log_density(self, X: ArrayLike, y: ArrayLike) -> FloatArray:
        """Log predictive density of observations, each alone; minus its mean is the NLPD.

        Parameters
        ----------
        X, y
            Inputs (p, d) and targets (p,) or (p, k), as in `fit`.

        Returns
        -------
        FloatArray
            Log densities (p,), nats, of y in its own units; several outputs, which are independent,
            are scored jointly.
        """
        return self._log_density(X, y)

    def sample_y(
        self,
        X: ArrayLike,
        n_samples: int = 1,
        random_state: Any = 0,
        *,
        latent: bool = False,
    ) -> FloatArray:
        """Draw from the posterior at new inputs.

        Parameters
        ----------
        X
            Inputs (p, d).
        n_samples
            Number of draws.
        random_state
            Seed of the draws.
        latent
            Draw functions f instead of noisy observations y.

        Returns
        -------
        FloatArray
            Samples, (p, n_samples), or (p, k, n_samples) for targets of two dimensions.
        """
        return self._sample_y(X, n_samples, seed_from_random_state(random_state), latent)

    @property
    def members_(self) -> list[Self]:
        """Models whose laws are mixed, in the order of `member_weights_`; else the model alone."""
        process, mixture = self.process_, untransformed(self.process_)
        if not isinstance(mixture, MixtureGP):
            return [self]
        members: Sequence[GaussianProcess] = mixture.members_with_data
        if isinstance(process, TransformedGP):
            members = [process.around(member) for member in members]
        return [self._around(member) for member in members]

    @property
    def member_weights_(self) -> FloatArray:
        """Weights (K,) of the members, of sum one."""
        process = untransformed(self.process_)
        return process.weights if isinstance(process, MixtureGP) else np.ones(1)

    def conditioned_on(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        sample_noise: ArrayLike | None = None,
    ) -> Any:
        """Return the same model, hyperparameters in units of y included, given other data.

        Parameters
        ----------
        X, y
            Inputs (n, d) and targets (n,) or (n, k), as in `fit`.
        sample_weight, sample_noise
            As in `partial_fit`.
        """
        check_is_fitted(self)
        return self._conditioned_on(self._further_data(X, y, sample_weight, sample_noise))

    def prior_covariance(self, X: ArrayLike) -> FloatArray:
        """Prior covariance of f at inputs (p, d), units of y squared.

        Shape (p, p), or (p, p, k) for targets of two dimensions. For a mixture it is the weighted
        mean over the members.
        """
        return self._prior_covariance(X)

    def _state(self, include_data: bool) -> tuple[Header, Arrays]:
        header, arrays = super()._state(include_data)
        names, encoding = self._columns.names, self._columns.encoding
        results = self.fitted_.results
        stored = {name: results[name] for name in STORED_RESULTS if name in results}
        seen = self.fitted_.extent
        arrays |= {} if seen is None else seen.arrays()
        return {
            **header,
            "feature_names": None if names is None else [str(name) for name in names],
            **({} if encoding is None else {"encoding": encoding.state()}),
            "scalars": {"n_features_in_": self.n_features_in_, **header["scalars"], **stored},
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
        results = restored_results(header, "scalars", STORED_RESULTS)
        entries = Entries(header, arrays)
        digests, ndim = RowDigests.from_entries(entries), restored_ndim(header, process)
        seen = Seen.from_entries(entries, n_columns_of(process) or 0, process.units.n_outputs)
        return model.holding(FittedModel(process, ndim, results, columns, digests, seen=seen))

    def _stored_parameters(self) -> dict[str, Any]:
        parameters = super()._stored_parameters()
        # A file of a model that refuses missing values is one that releases before could read.
        usual = {"missing": "raise", "keep_rows": None}
        return {k: v for k, v in parameters.items() if k not in usual or v != usual[k]}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.missing == "indicator"
        return tags

    def _plain(self, name: str, value: Any) -> Any:
        if name == "random_state":
            return plain_seed(value)
        if name == "objective" and callable(value):
            raise InvalidInputError(
                f"objective: expected a name, since a file holds text only, got {value!r}; set "
                "model.objective to a name before saving, which changes no prediction"
            )
        if name in TEXTS and value is not None:
            return value if isinstance(value, str) else text_of(value, name)
        if isinstance(value, (np.ndarray, np.generic)):
            return value.tolist()
        if isinstance(value, HyperparameterPrior):
            return asdict(value)
        if isinstance(value, (list, tuple)):
            return [self._plain("", item) for item in value]
        return value


def column_lengthscales(value: ArrayLike, dim: int, groups: IntArray | None) -> FloatArray:
    """Lengthscales (dim,) of columns, from one, or from one for each group of columns."""
    if groups is None:
        return check_lengthscale(value, dim)
    return check_lengthscale(value, int(groups[-1]) + 1)[groups]


def search_results(search: OptimizationResult) -> dict[str, Any]:
    """Fitted attributes that describe a search: its costs, convergence, and rows."""
    return {
        "n_evaluations_": search.n_evaluations,
        "n_iter_": search.n_iterations,
        "converged_": search.converged,
        "search_": search.ladder,
    }


def averaged_results(search: OptimizationResult, average: Average) -> dict[str, Any]:
    """Fitted attributes of a search whose hyperparameters were averaged."""
    results = search_results(search)
    results["n_evaluations_"] += average.n_evaluations
    return {**results, "n_effective_draws_": average.n_effective}


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
    if "target_transforms" in header:
        return TransformedGP.from_state(header, arrays)
    return restored_process(header, arrays)
