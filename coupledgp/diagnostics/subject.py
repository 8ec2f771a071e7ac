"""Fitted models and test points in the form in which laws are computed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from coupledgp.errors import InvalidInputError
from coupledgp.gp.protocol import GaussianProcess
from coupledgp.random import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Subject:
    """A fitted model at test points.

    Attributes
    ----------
    model : object
        A process, an estimator around one, or any estimator with `predict(X, return_cov=True)`.
    points : array
        Points of the process; for other estimators the test inputs as they were given.
    process : GaussianProcess or None
        The process; None for other estimators.
    """

    model: Any
    points: Any
    process: GaussianProcess | None

    @classmethod
    def of(cls, model: Any, X: Any) -> Subject:
        """A model at test inputs; those of a process are its points.

        Raises
        ------
        InvalidInputError
            The inputs do not fit the model's data.
        """
        process = process_of(model)
        if process is None or process is model:
            return cls(model, X, process)
        try:
            return cls(model, model.points(X), process)
        except InvalidInputError:
            raise
        except ValueError as error:
            raise InvalidInputError(f"X_test: {error}") from error

    def take(self, chosen: IntArray) -> Subject:
        """The model at some of its points, by their numbers (m,)."""
        return replace(self, points=self.points[chosen])

    def log_density_of_mixture(self, y: FloatArray | None) -> FloatArray | None:
        """Log density (p,) of targets (p, k) where it is not that of a Gaussian law, else None."""
        if y is None or self.process is None or self.process.is_gaussian:
            return None
        return self.process.log_density(self.points, y)

    @property
    def remarks(self) -> tuple[str, ...]:
        """Sentences that a reader of a comparison should know about the model."""
        return () if self.process is None else self.process.remarks


def process_of(model: Any) -> GaussianProcess | None:
    """The process of a model, or None for an estimator that has none."""
    if isinstance(model, GaussianProcess):
        return model
    process = getattr(model, "process_", None)
    return process if isinstance(process, GaussianProcess) else None
