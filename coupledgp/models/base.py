"""What the regressors of Euclidean inputs share."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from coupledgp.errors import CoupledGPError, InvalidInputError
from coupledgp.features.sklearn import seed_from_random_state
from coupledgp.inference.dense.system import ExactProblem
from coupledgp.inference.search.optimize import OptimizationResult, SearchSpace, maximise_evidence
from coupledgp.inference.search.problem import EvidenceProblem
from coupledgp.inference.spectra.mixture import gaussian_log_density
from coupledgp.progress import Progress, reporter
from coupledgp.random import FloatArray
from coupledgp.spectra import SpectrumLike, parse_spectrum
from coupledgp.validation import check_choice, check_lengthscale, check_positive, check_positive_int

HYPERPARAMETERS = ("lengthscale", "outputscale", "noise")
# Kept when the optimizer is off and none was given; in units of the normalised targets.
DEFAULT_SCALES = {"outputscale": 1.0, "noise": 0.1}


class StationaryGPRegressor(MultiOutputMixin, RegressorMixin, BaseEstimator):
    """Base of the Gaussian process regressors with a stationary kernel.

    Subclasses give the evidence, the posterior and its predictions; this class validates, fits the
    hyperparameters and shapes the results.
    """

    kernel: SpectrumLike
    ard: bool
    lengthscale: ArrayLike | None
    outputscale: float | None
    noise: float | None
    normalize_y: bool
    optimizer: str | None
    fixed: tuple[str, ...] | None
    n_restarts: int
    max_iter: int
    random_state: Any
    progress: bool | None

    def fit(self, X: ArrayLike, y: ArrayLike) -> StationaryGPRegressor:
        """Fit the hyperparameters by maximum evidence, then the posterior.

        Parameters
        ----------
        X
            Inputs (n, d).
        y
            Targets (n,), or (n, k) for k independent outputs that share the hyperparameters.

        Raises
        ------
        InvalidInputError
            A parameter of the estimator or the data is invalid.
        NumericalError
            The posterior's matrix is not positive definite to working precision.
        """
        fitted = unfitted(self)
        fitted._fit(X, y)
        self.__dict__ = fitted.__dict__
        return self

    def _fit(self, X: ArrayLike, y: ArrayLike) -> None:
        inputs, targets = self._validate(X, y, reset=True)
        rng = np.random.default_rng(seed_from_random_state(self.random_state))
        self._prepare(inputs, rng)
        mean, scale = target_scaling(targets, self.normalize_y)
        normalized = (targets - mean) / scale
        space = self._search_space(inputs, rng)
        if not normalized.any():
            # Constant targets say nothing about scales: the evidence has no maximum.
            space = replace(space, free=frozenset())
        problem = self._evidence_problem(inputs, normalized)
        with reporter("fit", self.progress) as report:
            self._optimise(problem, space, rng, report)
        self._y_mean, self._y_scale = mean, scale
        self._rows_kept = True
        self._X_parts, self._y_parts = [inputs], [targets]
        self._condition(inputs, targets)

    def _validate(
        self, X: ArrayLike, y: ArrayLike, *, reset: bool
    ) -> tuple[FloatArray, FloatArray]:
        inputs, targets = validate_data(
            self, X, y, dtype=np.float64, multi_output=True, y_numeric=True, reset=reset
        )
        targets = np.asarray(targets, dtype=np.float64)
        if reset:
            self._y_ndim = targets.ndim
        targets = targets.reshape(len(targets), -1)
        if not reset and targets.shape[1] != self._y_mean.size:
            raise InvalidInputError(
                f"y: expected {self._y_mean.size} outputs as in the first fit, "
                f"got {targets.shape[1]}"
            )
        return inputs, targets

    def _search_space(self, inputs: FloatArray, rng: np.random.Generator) -> SearchSpace:
        """Turn the estimator's parameters into what is free and where the search starts."""
        dim = inputs.shape[1]
        if self.optimizer is not None:
            check_choice(self.optimizer, ["lbfgs"], "optimizer")
        fixed = set(self._default_fixed() if self.fixed is None else self.fixed)
        for name in fixed:
            check_choice(name, HYPERPARAMETERS, "fixed")
        free = frozenset() if self.optimizer is None else frozenset(HYPERPARAMETERS) - fixed
        lengthscale = self.lengthscale
        base = self._default_lengthscale(inputs, rng)
        given = None
        if lengthscale is not None:
            given = check_lengthscale(lengthscale, dim)
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
            noise=scales["noise"],
            free=free,
        )

    def _optimise(
        self,
        problem: EvidenceProblem,
        space: SearchSpace,
        rng: np.random.Generator,
        report: Progress,
    ) -> None:
        self._take(self._maximise(problem, space, rng, report))

    def _maximise(
        self,
        problem: EvidenceProblem,
        space: SearchSpace,
        rng: np.random.Generator,
        report: Progress,
    ) -> OptimizationResult:
        return maximise_evidence(
            problem,
            space,
            n_restarts=check_positive_int(self.n_restarts, "n_restarts", minimum=0),
            max_iterations=check_positive_int(self.max_iter, "max_iter"),
            rng=rng,
            report=report,
        )

    def _take(self, result: OptimizationResult) -> None:
        self._hyperparameters = result.hyperparameters
        self.n_evaluations_ = result.n_evaluations
        self.n_iter_ = result.n_iterations
        self.converged_ = result.converged

    def _set_log_evidence(self, normalized: float, n_rows: int) -> None:
        """Turn the evidence of normalised targets into that of y."""
        jacobian = n_rows * float(np.log(self._y_scale).sum())
        self.log_marginal_likelihood_value_ = normalized - jacobian

    def _default_fixed(self) -> tuple[str, ...]:
        """Names of hyperparameters that stay at their defaults unless `fixed` says otherwise."""
        return ()

    def _default_lengthscale(self, inputs: FloatArray, rng: np.random.Generator) -> FloatArray:
        """Data-driven lengthscales (d,): `sqrt(d)` standard deviations of the columns."""
        spread = column_spread(inputs, self.ard)
        return np.sqrt(inputs.shape[1]) * spread

    @abstractmethod
    def _prepare(self, inputs: FloatArray, rng: np.random.Generator) -> None:
        """Check the subclass's parameters; draw what must be drawn before fitting."""

    @abstractmethod
    def _evidence_problem(self, inputs: FloatArray, targets: FloatArray) -> EvidenceProblem:
        """Evidence of normalised targets (n, k)."""

    @abstractmethod
    def _condition(self, inputs: FloatArray, targets: FloatArray) -> None:
        """Compute the posterior at the hyperparameters; targets (n, k) in units of y."""

    @abstractmethod
    def _latent(self, inputs: FloatArray, want: str) -> tuple[FloatArray, FloatArray | None]:
        """Mean (p, k) and, by `want`, nothing, the variance (p,) or the covariance (p, p) of f.

        In units of the normalised targets; `want` is "mean", "variance" or "covariance". The
        diagonal of the covariance is the variance, to the bit.
        """

    @abstractmethod
    def _latent_samples(
        self, inputs: FloatArray, n_samples: int, rng: np.random.Generator
    ) -> FloatArray:
        """Samples (p, k, n_samples) of f, normalised targets."""

    @property
    def X_train_(self) -> FloatArray:  # noqa: N802
        """Training inputs (n, d); not a copy if they came in one batch of float64."""
        return self._training_rows()[0]

    @property
    def y_train_(self) -> FloatArray:
        """Training targets, (n,) or (n, k)."""
        targets = self._training_rows()[1]
        return targets[:, 0] if self._y_ndim == 1 else targets

    def _training_rows(self) -> tuple[FloatArray, FloatArray]:
        """Inputs (n, d) and targets (n, k) of all training rows, if they are at hand."""
        if not self._rows_kept:
            raise CoupledGPError(
                "this model was saved without its training rows, which the exact twin and "
                "X_train_ need: save it with include_data=True"
            )
        return stack_parts(self._X_parts), stack_parts(self._y_parts)

    def exact_problem(self) -> ExactProblem:
        """Return data and hyperparameters of the exact GP, whose twin may be too large to fit."""
        check_is_fitted(self)
        inputs, targets = self._training_rows()
        hyper = self._hyperparameters
        return ExactProblem(
            parse_spectrum(self.kernel, "kernel"), inputs, (targets - self._y_mean) / self._y_scale,
            hyper.lengthscale, hyper.outputscale, hyper.noise, self._y_mean, self._y_scale,
        )  # fmt: skip

    def save(self, path: str | PathLike[str], include_data: bool = False) -> None:
        """Write the fitted model to a file; see `coupledgp.save_model`."""
        from coupledgp.models.persistence import save_model  # it imports this class's children

        save_model(self, path, include_data=include_data)

    @property
    def lengthscale_(self) -> float | FloatArray:
        """Fitted lengthscales (d,); one float for an isotropic kernel."""
        value = self._hyperparameters.lengthscale
        isotropic = not self.ard and np.ptp(value) == 0
        return float(value[0]) if isotropic else value

    @property
    def outputscale_(self) -> float | FloatArray:
        """Fitted variance of f, units of y squared; (k,) for targets of two dimensions."""
        return self._variance(self._hyperparameters.outputscale)

    @property
    def noise_(self) -> float | FloatArray:
        """Fitted noise variance, units of y squared; (k,) for targets of two dimensions."""
        return self._variance(self._hyperparameters.noise)

    def _variance(self, normalized: float) -> float | FloatArray:
        value = normalized * self._y_scale**2
        return float(value[0]) if self._y_ndim == 1 else value

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
            what `return_cov` gives.
        return_cov
            Also return the covariance, (p, p) or (p, p, k).
        latent
            Leave the noise out: the law of the function f instead of observations y.

        Returns
        -------
        FloatArray or (FloatArray, FloatArray)
            Mean, (p,) or (p, k), and what was asked for.

        Raises
        ------
        InvalidInputError
            Both `return_std` and `return_cov` are set, or `X` does not fit the training data.
        """
        check_is_fitted(self)
        if return_std and return_cov:
            raise InvalidInputError("return_std, return_cov: expected at most one to be True")
        inputs = validate_data(self, X, dtype=np.float64, reset=False)
        want = "covariance" if return_cov else "variance" if return_std else "mean"
        mean, spread = self._law(inputs, want, latent)
        mean = mean[:, 0] if self._y_ndim == 1 else mean
        if spread is None:
            return mean
        spread = spread[..., 0] if self._y_ndim == 1 else spread
        return mean, (spread if return_cov else np.sqrt(spread))

    def _law(
        self, inputs: FloatArray, want: str, latent: bool
    ) -> tuple[FloatArray, FloatArray | None]:
        """Mean (p, k) and variance (p, k) or covariance (p, p, k) or nothing, in units of y."""
        mean, spread = self._latent(inputs, want)
        mean = self._y_mean + self._y_scale * mean
        if spread is None:
            return mean, None
        if not latent:
            one = np.eye(len(mean)) if want == "covariance" else 1
            spread = spread + self._hyperparameters.noise * one
        return mean, np.multiply.outer(spread, self._y_scale**2)

    def log_density(self, X: ArrayLike, y: ArrayLike) -> FloatArray:
        """Log predictive density of observations, each alone; minus its mean is the NLPD.

        Parameters
        ----------
        X, y
            Inputs (p, d) and targets as in `fit`.

        Returns
        -------
        FloatArray
            Nats, (p,), in units of y; of several outputs jointly, which are independent.
        """
        check_is_fitted(self)
        return self._log_density(*self._validate(X, y, reset=False))

    def _log_density(self, inputs: FloatArray, targets: FloatArray) -> FloatArray:
        mean, variance = self._law(inputs, "variance", False)
        assert variance is not None
        return gaussian_log_density(targets, mean, variance)

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
        check_is_fitted(self)
        check_positive_int(n_samples, "n_samples")
        inputs = validate_data(self, X, dtype=np.float64, reset=False)
        rng = np.random.default_rng(seed_from_random_state(random_state))
        samples = self._samples(inputs, n_samples, rng, latent)
        return samples[:, 0] if self._y_ndim == 1 else samples

    def _samples(
        self, inputs: FloatArray, n_samples: int, rng: np.random.Generator, latent: bool
    ) -> FloatArray:
        """Draws (p, k, n_samples) in units of y."""
        samples = self._latent_samples(inputs, n_samples, rng)
        if not latent:
            noise = np.sqrt(self._hyperparameters.noise)
            samples = samples + noise * rng.standard_normal(samples.shape)
        return self._y_mean[:, None] + self._y_scale[:, None] * samples

    def conditioned_on(self, X: ArrayLike, y: ArrayLike) -> Any:
        """Return the same model, hyperparameters in units of y included, given other data.

        Parameters
        ----------
        X, y
            Inputs (n, d) and targets as in `fit`.
        """
        check_is_fitted(self)
        other = self._sibling()
        inputs, targets = other._validate(X, y, reset=False)
        other._rows_kept = True
        other._X_parts, other._y_parts = [inputs], [targets]
        other._condition(inputs, targets)
        return other

    def _sibling(self) -> Any:
        """Shallow copy: same feature map and hyperparameters, its posterior to be replaced."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__)
        return other

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_hyperparameters")


def unfitted(model: Any) -> Any:
    """Shallow copy without the results of an earlier fit, which the next may not have.

    A fit works on it, so that one that fails leaves the model as it was.
    """
    other = object.__new__(type(model))
    other.__dict__ = {
        name: value
        for name, value in vars(model).items()
        if name != "_hyperparameters" and (name.startswith("_") or not name.endswith("_"))
    }
    return other


def stack_parts(parts: list[FloatArray]) -> FloatArray:
    """Return the batches as one array; no copy if there is one only."""
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def target_scaling(targets: FloatArray, normalize: bool) -> tuple[FloatArray, FloatArray]:
    """Mean and scale (k,) by which targets (n, k) are normalised."""
    if not normalize:
        return np.zeros(targets.shape[1]), np.ones(targets.shape[1])
    mean = targets.mean(axis=0)
    return mean, safe_scale(targets.std(axis=0), mean)


def safe_scale(std: FloatArray, mean: FloatArray) -> FloatArray:
    """Standard deviations with one in place of those that are zero to rounding."""
    return np.where(std > 10 * np.finfo(float).eps * np.abs(mean), std, 1.0)


def column_spread(inputs: FloatArray, ard: bool) -> FloatArray:
    """Standard deviation of each column (d,), or their root mean square in each place.

    Constant columns count as one if ARD: they have no scale, and none is needed.
    """
    mean, variance = column_moments(inputs)
    if ard:
        return safe_scale(np.sqrt(variance), mean)
    pooled = safe_scale(np.sqrt(variance.mean()), np.abs(mean).max())
    return np.full(inputs.shape[1], pooled)


def column_moments(inputs: FloatArray, chunk: int = 65536) -> tuple[FloatArray, FloatArray]:
    """Mean and variance (d,) of the columns, without a temporary of the table's size."""
    mean = inputs.mean(axis=0)
    squares = np.zeros_like(mean)
    for start in range(0, len(inputs), chunk):
        squares += np.square(inputs[start : start + chunk] - mean).sum(axis=0)
    return mean, squares / len(inputs)
