"""Base of the regressors: laws, draws and densities of numbers at points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_is_fitted

from coupledgp.core.conformal import conformal_interval
from coupledgp.core.frames import law_frame
from coupledgp.core.latent import LatentGP
from coupledgp.core.mixture import MixtureGP
from coupledgp.core.options import estimator
from coupledgp.core.process import GaussianProcess, Points, Want
from coupledgp.core.process_estimator import ProcessEstimator
from coupledgp.core.stored import fitted_result
from coupledgp.core.transformed import has_normal_noise
from coupledgp.core.wrapped import innermost, rewrapped
from coupledgp.errors import CoupledGPError, InvalidInputError
from coupledgp.ground.memory import named_exhaustion
from coupledgp.ground.validation import check_positive_int, check_row_numbers, check_vector, wrong
from coupledgp.ground.visible import name_of_targets, warn
from coupledgp.random import FloatArray

if TYPE_CHECKING:
    import pandas as pd

# Methods whose first argument is points, which families of estimators name: nodes, places.
ANSWERS = (
    "predict", "predict_quantiles", "predict_interval", "predict_frame", "sample_y",
    "log_density", "prior_covariance", "conditioned_on",
)  # fmt: skip

# Most cubes of rows, over all members, for errors of rows that are left out: about a second.
MOST_CUBES = 4e9


def error_sentence(process: GaussianProcess, kind: str) -> str:
    """Say how far predictions are off where an observation is left out, or else how much is noise.

    Parameters
    ----------
    process
        The fitted process.
    kind
        What its points are, in the plural.
    """
    try:
        data = process.data
    except CoupledGPError:  # a file without its rows
        return ""
    n, spread = len(data), data.targets.std(axis=0)
    inner = innermost(process)
    members: Sequence[GaussianProcess] = [process]
    weights = np.ones(1)
    if isinstance(inner, MixtureGP):
        members, weights = inner.members, inner.weights
    unknown = f"{n} {kind}, over which y has a standard deviation of {_listed(spread)}."
    if not process.noise.is_gaussian or n < 3 or len(members) * float(n) ** 3 > MOST_CUBES:
        return unknown
    try:
        law = process.left_out_law(np.arange(n))
    except CoupledGPError:  # many groups of a process that has no inverse
        return unknown
    error = np.sqrt(np.mean((data.targets - law.mean) ** 2, axis=0))
    noise = ""
    if has_normal_noise(process):
        variances = [one.units.spread(one.noise.variance) for one in members]
        noise = f"; noise alone has a standard deviation of {_listed(np.sqrt(weights @ variances))}"
    return (
        f"Predictions are typically off by {_listed(error)} where one of {n} {kind} is left out; y "
        f"itself varies by {_listed(spread)}{noise}."
    )


def _listed(values: np.ndarray) -> str:
    return ", ".join(f"{value:.3g}" for value in values.tolist())


@estimator
class ProcessRegressor(RegressorMixin, ProcessEstimator):
    """A regressor around a fitted Gaussian process: of tables, graphs, fields or sensors.

    A family of estimators defines its points (`points`), further observations (`_further_data`) and
    its fit; everything else is here and in `ProcessEstimator` once.
    """

    # What its points are, in the plural.
    _points_are: ClassVar[str] = "places"

    selection_ = fitted_result("selection_", 'Trials of `"auto"` and the reason for its choice.')
    kl_per_point_ = fitted_result("kl_per_point_", 'KL, nats per point, that `"auto"` measured.')
    n_effective_draws_ = fitted_result(
        "n_effective_draws_", "Effective number of draws of averaged hyperparameters."
    )

    @property
    def outputscale_(self) -> float | FloatArray:
        """Fitted variance of f, units of y squared; (k,) for targets of two dimensions."""
        return self._variance(self.process_.hyperparameters.outputscale)

    @property
    def noise_(self) -> float | FloatArray:
        """Fitted noise variance, units of y squared; (k,) for targets of two dimensions."""
        return self._variance(self.process_.noise.variance)

    def _variance(self, normalized: float) -> float | FloatArray:
        value = self.process_.units.spread(normalized)
        return float(value[0]) if self.fitted_.ndim == 1 else value

    @property
    def y_train_(self) -> FloatArray:
        """Training targets, (n,) or (n, k)."""
        record = self.fitted_
        return record.shaped(record.process.data.targets, 1)

    @property
    def members_(self) -> list[Self]:
        """Models whose laws are mixed, in the order of `member_weights_`; else the model alone."""
        process, mixture = self.process_, innermost(self.process_)
        if not isinstance(mixture, MixtureGP):
            return [self]
        members: Sequence[GaussianProcess] = mixture.members_with_data
        return [self._around(rewrapped(process, member)) for member in members]

    @property
    def member_weights_(self) -> FloatArray:
        """Weights (K,) of the members, of sum one."""
        process = innermost(self.process_)
        return process.weights if isinstance(process, MixtureGP) else np.ones(1)

    def predict(
        self,
        X: Any = None,
        return_std: bool = False,
        return_cov: bool = False,
        *,
        latent: bool = False,
        exposure: ArrayLike | None = None,
    ) -> Any:
        """Predictive law of observations at points.

        Parameters
        ----------
        X
            Inputs (p, d) of a table; labels of p nodes of a graph, or p places of a field in any of
            the forms of `fit`; None: all nodes or places.
        return_std
            Also return the standard deviation, (p,) or (p, k). It is exact, but at more than
            `exact_variances` nodes of a graph whose solver is iterative and whose kernel has no
            sparse precision: there it comes from `n_variance_samples` pathwise samples.
        return_cov
            Also return the covariance, (p, p) or (p, p, k).
        latent
            Leave the noise out: the law of the function f instead of observations y.
        exposure
            Exposures (p,) of the observations, for a likelihood of counts; None: ones.

        Returns
        -------
        FloatArray or (FloatArray, FloatArray)
            Mean, (p,) or (p, k), and the standard deviation or covariance if asked for. The mean of
            a mixture is the precision-weighted mean of its members.

        Warns
        -----
        ExtrapolationWarning
            A row of a table is more than two lengthscales from the training rows in a column (see
            `extrapolation`), or its mean more than three ranges of y from the training targets.

        Raises
        ------
        InvalidInputError
            Both `return_std` and `return_cov` are set, or `X` does not fit the training data.
        MemoryLimitError
            The joint law does not fit into memory.
        """
        check_is_fitted(self)
        if return_std and return_cov:
            raise InvalidInputError("return_std, return_cov: expected at most one to be True")
        points, record = self.points(X), self.fitted_
        want: Want = "covariance" if return_cov else "variance" if return_std else "mean"
        with named_exhaustion("predict"), self._reporter("predict"):
            process = self._at_exposure(points, exposure)
            mean, spread = process.law(points, want, latent=latent)
        self._judge(points, mean)
        mean = record.shaped(mean, 1)
        if spread is None:
            return mean
        spread = record.shaped(spread, spread.ndim - 1)
        return mean, (spread if return_cov else np.sqrt(spread))

    def sample_y(
        self,
        X: Any = None,
        n_samples: int = 1,
        random_state: Any = 0,
        *,
        latent: bool = False,
        exposure: ArrayLike | None = None,
    ) -> FloatArray:
        """Draw from the posterior at points, jointly.

        Parameters
        ----------
        X
            Points, as in `predict`. At more than 1500 places of a field its part of position is
            drawn from 2048 coupled frequencies.
        n_samples
            Number of draws.
        random_state
            Seed of the draws.
        latent
            Draw functions f instead of noisy observations y.
        exposure
            Exposures (p,) of the observations, for a likelihood of counts; None: ones.

        Returns
        -------
        FloatArray
            Samples, (p, n_samples), or (p, k, n_samples) for targets of two dimensions.
        """
        check_is_fitted(self)
        check_positive_int(n_samples, "n_samples")
        points, record = self.points(X), self.fitted_
        rng = np.random.default_rng(self._seed_of(random_state))
        with named_exhaustion("sample"), self._reporter("sample"):
            process = self._at_exposure(points, exposure)
            samples = process.sample(points, n_samples, rng, latent=latent)
        return record.shaped(samples, 1)

    def log_density(self, X: Any, y: ArrayLike, *, exposure: ArrayLike | None = None) -> FloatArray:
        """Log predictive density of observations, each alone; minus its mean is the NLPD.

        Parameters
        ----------
        X, y
            Points and observations (p,) or (p, k), as in `fit`.
        exposure
            Exposures (p,) of the observations, for a likelihood of counts; None: ones.

        Returns
        -------
        FloatArray
            Log densities (p,), nats, of y in its own units; several outputs, which are independent,
            are scored jointly.
        """
        check_is_fitted(self)
        data = self._further_data(X, y)
        with named_exhaustion("predict"), self._reporter("predict"):
            process = self._at_exposure(data.points, exposure)
            return process.log_density(data.points, data.targets)

    def score(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        exposure: ArrayLike | None = None,
    ) -> float:
        """Coefficient of determination R^2 of the means at points, as scikit-learn has it.

        Parameters
        ----------
        X, y
            Points and observations, as in `fit`.
        sample_weight
            Weights (p,) of the observations.
        exposure
            Exposures (p,) of the observations, for a likelihood of counts; None: ones.
        """
        from sklearn.metrics import r2_score  # slow to import

        return float(r2_score(y, self.predict(X, exposure=exposure), sample_weight=sample_weight))

    def _at_exposure(self, points: Points, exposure: ArrayLike | None) -> GaussianProcess:
        """The fitted process, whose laws of observations at points are for exposures."""
        process = self.process_
        if exposure is None:
            return process
        checked = check_row_numbers(exposure, "exposure", len(points))
        if not isinstance(process, LatentGP):
            process.noise.log_exposure(checked)  # refuses
            raise InvalidInputError("exposure: expected None for a model without a likelihood")
        return process.at_exposure(checked)

    def _quantiles(
        self,
        X: Any,
        probabilities: ArrayLike,
        exposure: ArrayLike | None = None,
        judged: bool = True,
    ) -> FloatArray:
        """Quantiles as `predict_quantiles` has them, warnings of points too if `judged`."""
        check_is_fitted(self)
        wanted = check_probabilities(probabilities, "quantiles")
        points, record = self.points(X), self.fitted_
        with named_exhaustion("predict"), self._reporter("predict"):
            process = self._at_exposure(points, exposure)
            found = process.quantiles(points, wanted)
        if judged:
            self._judge(points)
        return record.shaped(found, 1)

    def predict_quantiles(
        self,
        X: Any = None,
        quantiles: ArrayLike = (0.05, 0.5, 0.95),
        *,
        exposure: ArrayLike | None = None,
    ) -> FloatArray:
        """Quantiles of observations at each point, noise included.

        Parameters
        ----------
        X
            Points, as in `predict`.
        quantiles
            Probabilities (q,) in (0, 1).
        exposure
            Exposures (p,) of the observations, for a likelihood of counts; None: ones.

        Returns
        -------
        FloatArray
            Shape (p, q), or (p, k, q) for targets of two dimensions. For a model of several members
            they are quantiles of the mixture, not of a Gaussian of its mean and standard deviation.

        Raises
        ------
        InvalidInputError
            A probability is not between 0 and 1, or `X` does not fit the training data.
        """
        return self._quantiles(X, quantiles, exposure)

    def predict_interval(
        self,
        X: Any = None,
        level: float = 0.95,
        *,
        exposure: ArrayLike | None = None,
        conformal: bool = False,
        groups: ArrayLike | None = None,
        weights: ArrayLike | None = None,
    ) -> tuple[FloatArray, FloatArray]:
        """Central interval that holds an observation with the probability `level`.

        With `conformal` it is that of the jackknife+, from residuals of the training rows that are
        left out. It holds whatever the kernel and the noise are, if rows (or groups) are
        exchangeable: with the probability `2 level - 1` at least for hyperparameters that are given
        beforehand, and about `level` in practice (docs/conformal.md).

        Parameters
        ----------
        X
            Points, as in `predict`.
        level
            Probability in (0, 1).
        exposure
            Exposures (p,) of the observations, for a likelihood of counts; None: ones.
        conformal
            Conformal intervals in place of the model's own; see above.
        groups
            Group (n,) of each training row, such as a sensor or a day, for conformal intervals of a
            row of a new group; None: each row is alone.
        weights
            Weights (n,) of the training rows for conformal intervals, above 0 and at most 1: how
            near each is to the new rows, where rows drift; None: ones.

        Returns
        -------
        (FloatArray, FloatArray)
            Lower and upper ends, (p,), or (p, k) for targets of two dimensions: the quantiles
            `(1 - level) / 2` and `(1 + level) / 2`. Conformal ones are infinite where rows or
            groups are too few for the level.

        Warns
        -----
        UserWarning
            Conformal intervals are infinite.

        Raises
        ------
        InvalidInputError
            `level` is not between 0 and 1, or `X` does not fit the training data. For conformal
            intervals: groups or weights do not fit the training rows, or the mean of the model is
            not linear in the targets, as of local models and classes.
        """
        if conformal:
            return self._conformal_interval(X, level, exposure, groups, weights)
        if groups is not None or weights is not None:
            raise InvalidInputError("groups, weights: expected conformal=True beside them")
        ends = self._quantiles(X, interval_ends(level), exposure)
        return ends[..., 0], ends[..., 1]

    def predict_frame(
        self, X: Any = None, level: float = 0.95, *, exposure: ArrayLike | None = None
    ) -> pd.DataFrame:
        """Predictive law of observations as a pandas data frame, a row for each point.

        Its figures are those of `predict` and `predict_interval`, in units of y, noise included.

        Parameters
        ----------
        X
            Points, as in `predict`.
        level
            Probability in (0, 1) that an observation lies between `lower` and `upper`.
        exposure
            Exposures (p,) of the observations, for a likelihood of counts; None: ones.

        Returns
        -------
        pandas.DataFrame
            Columns `mean`, `std`, `lower` and `upper`. For targets (n, k) columns have two levels,
            `output`, which is of `target_names_` or 0 to k - 1, and `law`. The index is that of X
            if X is a data frame, and else the numbers of rows of a table, the labels of nodes or
            vertices, or the coordinates of places. Vertices of no face or edge are left out.

        Warns
        -----
        ExtrapolationWarning
            As in `predict`, once.

        Raises
        ------
        InvalidInputError
            `level` is not between 0 and 1, or `X` does not fit the training data.
        MissingLibraryError
            pandas is not installed.
        """
        check_is_fitted(self)
        ends = interval_ends(level)
        X, index = self._indexed(X)
        mean, std = self.predict(X, return_std=True, exposure=exposure)
        bounds = self._quantiles(X, ends, exposure, judged=False)
        return law_frame(mean, std, bounds, index, self.target_names_)

    def _indexed(self, X: Any) -> tuple[Any, Any]:
        """Points, and what `law_frame` takes as the index of their rows."""
        index = getattr(X, "index", None)
        return X, None if callable(index) else index

    def _conformal_interval(
        self,
        X: Any,
        level: float,
        exposure: ArrayLike | None,
        groups: ArrayLike | None,
        weights: ArrayLike | None,
    ) -> tuple[FloatArray, FloatArray]:
        check_is_fitted(self)
        interval_ends(level)
        if exposure is not None:
            raise InvalidInputError("exposure: expected None for conformal intervals")
        points, record = self.points(X), self.fitted_
        with named_exhaustion("predict"):
            ends = conformal_interval(record.process, points, level, groups, weights)
        if np.isinf(ends).any():
            warn(
                f"level: {level:g} is beyond what so few rows or groups tell: conformal intervals "
                "without end"
            )
        self._judge(points)
        low, high = (record.shaped(end, 1) for end in ends)
        return low, high

    def _told(self) -> list[str]:
        return list(filter(None, [error_sentence(self.process_, self._points_are)]))

    def _against(self, X: Any, y: ArrayLike) -> Any:
        data, process = self._further_data(X, y), self.process_
        mean = process.law(data.points, "mean").mean
        low, high = np.moveaxis(
            process.quantiles(data.points, np.array(interval_ends(0.95))), -1, 0
        )
        width = np.maximum([mean - low, high - mean], 0.0).reshape(2, -1)
        inside = (low <= data.targets) & (data.targets <= high)
        from coupledgp.diagnostics.render.pictures import predictions  # slow

        name = name_of_targets(y, self.target_names_) or "y"
        return predictions(data.targets.ravel(), mean.ravel(), width, inside.ravel(), name)

    def prior_covariance(self, X: Any = None) -> FloatArray:
        """Prior covariance of f at points, units of y squared.

        Shape (p, p), or (p, p, k) for targets of two dimensions. For a mixture it is the weighted
        mean over the members; for a field it includes the variance of the unknown mean.
        """
        check_is_fitted(self)
        record = self.fitted_
        with named_exhaustion("prior_covariance"):
            return record.shaped(record.process.prior(self.points(X)), 2)


def check_probabilities(value: ArrayLike, name: str) -> FloatArray:
    """Return probabilities (q,) strictly between 0 and 1."""
    try:
        array = check_vector(value, name)
    except (TypeError, ValueError, OverflowError) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise wrong(name, "probabilities", value) from None
    if not ((array > 0) & (array < 1)).all():
        raise wrong(name, "probabilities between 0 and 1", array.tolist())
    return array


def interval_ends(level: float) -> tuple[float, float]:
    """Probabilities of the ends of the central interval of a probability in (0, 1)."""
    (checked,) = check_probabilities([level], "level")
    return (1 - checked) / 2, (1 + checked) / 2
