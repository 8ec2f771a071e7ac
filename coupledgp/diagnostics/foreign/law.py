"""Laws that a prediction, or the model of another package, states at test points."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from coupledgp.diagnostics.laws import Law
from coupledgp.errors import InvalidInputError
from coupledgp.random import FloatArray


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
    """

    mean: FloatArray
    variance: FloatArray
    cov: FloatArray | None = None
    n_samples: int | None = None

    @classmethod
    def of(cls, mean: Any, spread: Any, n_points: int) -> ForeignLaw:
        """Law of means (p,) and standard deviations (p,), or covariance (p, p).

        Raises
        ------
        InvalidInputError
            Shapes do not fit, numbers are not finite, or a variance is not positive.
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
        return cls(mean.reshape(-1), variance, cov)

    @classmethod
    def of_samples(cls, samples: Any, n_points: int) -> ForeignLaw:
        """Law of the moments of draws (n_samples, p), 8 or more."""
        draws = _numbers(samples)
        if draws.ndim != 2 or draws.shape[1] != n_points or len(draws) < 8:
            raise InvalidInputError(
                f"predict: expected at least 8 draws of {n_points} points, (n_samples, "
                f"{n_points}), got shape {draws.shape}"
            )
        found = cls.of(draws.mean(axis=0), draws.std(axis=0, ddof=1), n_points)
        return cls(found.mean, found.variance, None, len(draws))

    def with_noise(self, noise: float) -> ForeignLaw:
        """The law of observations of a law of f."""
        cov = None if self.cov is None else self.cov + noise * np.eye(len(self.mean))
        return ForeignLaw(self.mean, self.variance + noise, cov, self.n_samples)

    def take(self, rows: Any) -> ForeignLaw:
        """The law at some of the points."""
        cov = None if self.cov is None else self.cov[np.ix_(rows, rows)]
        return ForeignLaw(self.mean[rows], self.variance[rows], cov, self.n_samples)

    @property
    def law(self) -> Law:
        """The law; its covariance is diagonal where only single points are known."""
        cov = np.diag(self.variance) if self.cov is None else 0.5 * (self.cov + self.cov.T)
        return Law(self.mean[:, None], cov[..., None])


def law_of_prediction(prediction: Any, n_points: int) -> ForeignLaw:
    """Law of a pair of means and standard deviations or covariance, or of draws."""
    if isinstance(prediction, tuple | list) and len(prediction) == 2:
        mean, spread = prediction
        return ForeignLaw.of(mean, spread, n_points)
    return ForeignLaw.of_samples(prediction, n_points)


def _numbers(value: Any) -> FloatArray:
    """Finite numbers of an array or tensor."""
    value = value.detach().cpu() if hasattr(value, "detach") else value
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InvalidInputError(
            "predict: expected a fitted model, a function of the test inputs, means and standard "
            f"deviations (or a covariance), or draws (n_samples, p), got {type(value).__name__} "
            f"({error})"
        ) from None
    if not np.isfinite(array).all():
        raise InvalidInputError("predict: expected finite predictions, got NaN or inf")
    return array
