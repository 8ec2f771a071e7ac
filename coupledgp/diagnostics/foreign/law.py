"""Laws that a prediction, or the model of another package, states at test points."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from coupledgp.diagnostics.scoring.laws import Law
from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import LARGEST_PRODUCT, check_magnitude, check_sizes, real_array
from coupledgp.random import FloatArray

# Largest difference across the diagonal of a covariance, in units of its largest variance: rounding
# of single precision. A Cholesky factor that is given in its place has more.
ASYMMETRY = 1e-3


@dataclass(frozen=True, eq=False)
class ForeignLaw:
    """Law of observations at p points.

    Attributes
    ----------
    mean, variance : FloatArray (p,)
    cov : FloatArray (p, p) or None
        Joint covariance, where it is known.
    n_samples : int or None
        Number of the draws that the moments are those of; None for moments that were stated.
    n_laws : int or None
        Number of the laws in the mixture that the moments are those of.
    """

    mean: FloatArray
    variance: FloatArray
    cov: FloatArray | None = None
    n_samples: int | None = None
    n_laws: int | None = None

    @classmethod
    def of(cls, mean: Any, spread: Any, n_points: int) -> ForeignLaw:
        """Law of means (p,) and standard deviations (p,), or covariance (p, p).

        Raises
        ------
        InvalidInputError
            Shapes do not fit, numbers are not finite or beyond the limits of
            `coupledgp.ground.validation`, a variance is not positive, or a covariance
            is not symmetric.
        """
        mean, spread = (_numbers(value) for value in (mean, spread))
        if mean.size != n_points:
            raise InvalidInputError(f"predict: expected {n_points} means, got shape {mean.shape}")
        if spread.shape == (n_points, n_points) and n_points > 1:
            variance, cov = np.diagonal(spread), spread
        elif spread.size == n_points:
            variance, cov = np.square(spread.reshape(-1)), None
        else:
            raise InvalidInputError(
                f"predict: expected standard deviations ({n_points},) or a covariance "
                f"({n_points}, {n_points}), got shape {spread.shape}"
            )
        stated = variance if cov is not None else spread
        if not (stated > 0).all():
            raise InvalidInputError(
                "predict: expected positive standard deviations or variances, got "
                f"{float(stated.min()):g} among them"
            )
        check_magnitude(mean, "predict")
        check_sizes(np.sqrt(variance) if cov is not None else spread, "predict")
        if cov is not None and np.abs(cov - cov.T).max() > ASYMMETRY * variance.max():
            raise InvalidInputError(
                "predict: expected a symmetric covariance, got one with entries that differ by "
                f"{float(np.abs(cov - cov.T).max()):.2g} from those across the diagonal"
            )
        return cls(mean.reshape(-1), variance, cov)

    @classmethod
    def of_mixture(cls, means: Any, stds: Any) -> ForeignLaw:
        """Law of the moments of m laws of equal weight, means and standard deviations (m, p).

        Their mean, and the mean variance plus the variance of the means.
        """
        means, stds = (_numbers(value) for value in (means, stds))
        each = [cls.of(mean, std, means.shape[1]) for mean, std in zip(means, stds, strict=True)]
        variance = np.mean([one.variance for one in each], axis=0) + means.var(axis=0)
        return cls(means.mean(axis=0), variance, n_laws=len(each))

    @classmethod
    def of_samples(cls, samples: Any, n_points: int) -> ForeignLaw:
        """Law of the moments of draws (n_samples, p) or (n_chains, n_draws, p), 8 or more."""
        draws = _numbers(_draws_first(samples))
        draws = draws.reshape(-1, draws.shape[-1]) if draws.ndim == 3 else draws
        if draws.ndim != 2 or draws.shape[1] != n_points or len(draws) < 8:
            raise InvalidInputError(
                f"predict: expected at least 8 draws of {n_points} points, (n_samples, "
                f"{n_points}) or (n_chains, n_draws, {n_points}), got shape {draws.shape}"
            )
        found = cls.of(draws.mean(axis=0), draws.std(axis=0, ddof=1), n_points)
        return replace(found, n_samples=len(draws))

    def with_noise(self, noise: float) -> ForeignLaw:
        """The law of observations of a law of f."""
        cov = None if self.cov is None else self.cov + noise * np.eye(len(self.mean))
        return replace(self, variance=self.variance + noise, cov=cov)

    def take(self, rows: Any) -> ForeignLaw:
        """The law at some of the points."""
        cov = None if self.cov is None else self.cov[np.ix_(rows, rows)]
        return replace(self, mean=self.mean[rows], variance=self.variance[rows], cov=cov)

    @property
    def law(self) -> Law:
        """The law; its covariance is diagonal where only single points are known."""
        cov = np.diag(self.variance) if self.cov is None else 0.5 * (self.cov + self.cov.T)
        return Law(self.mean[:, None], cov[..., None])


def law_of_prediction(prediction: Any, n_points: int) -> ForeignLaw:
    """Law of means and standard deviations or covariance, of an ensemble of such, or of draws.

    A pair, or a mapping, data frame or data set with `mean` and `std`; anything else is draws.
    """
    if _has(prediction, "mean") and _has(prediction, "std"):
        prediction = (prediction["mean"], prediction["std"])
    if isinstance(prediction, tuple | list) and len(prediction) == 2:
        mean, spread = prediction
        shape = np.shape(mean)
        if len(shape) == 2 and shape == np.shape(spread) and shape[1] == n_points > 1 < shape[0]:
            return ForeignLaw.of_mixture(mean, spread)
        return ForeignLaw.of(mean, spread, n_points)
    return ForeignLaw.of_samples(prediction, n_points)


def _has(value: Any, name: str) -> bool:
    """Whether a mapping, data frame or data set has a column of a name."""
    return hasattr(value, "keys") and name in value.keys()  # noqa: SIM118, not rows of a frame


def _draws_first(samples: Any) -> Any:
    """Draws in the order of chains, draws and points where their dimensions have names."""
    names = [name for name in getattr(samples, "dims", ()) if name in ("chain", "draw", "sample")]
    return samples.transpose(*sorted(names), ...) if names else samples


def _numbers(value: Any) -> FloatArray:
    """Finite numbers of an array or tensor."""
    value = value.detach().cpu() if hasattr(value, "detach") else value
    try:
        array = real_array(value, "predict")
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            "predict: expected a fitted model, a function of the test inputs, means and standard "
            f"deviations (or a covariance), or draws (n_samples, p), got {type(value).__name__} "
            f"({error})"
        ) from None
    if not np.isfinite(array).all():
        raise InvalidInputError("predict: expected finite predictions, got NaN or inf")
    check_magnitude(array, "predict", LARGEST_PRODUCT)
    return array
