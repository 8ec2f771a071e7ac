"""A model beside its baselines: paired differences of scores."""

from __future__ import annotations

from dataclasses import dataclass

from numpy.typing import ArrayLike

from coupledgp.diagnostics.rivals.observations import BaselinePrediction
from coupledgp.diagnostics.scoring.laws import PointLaws
from coupledgp.diagnostics.scoring.measures import differences, gain_of
from coupledgp.diagnostics.scoring.score_table import NLPD, OwnLaws
from coupledgp.diagnostics.scoring.scores import rmse
from coupledgp.random import FloatArray

# Unit of gains of laws without a density.
BY_CRPS = "of the CRPS, in logarithms"


@dataclass(frozen=True)
class BesideBaseline:
    """A model beside a baseline.

    Attributes
    ----------
    name : str
    rmse, nlpd : float
        Scores of the baseline.
    differences : dict of str to dict
        Losses of the model minus those of the baseline, as in `Figures.differences`:
        `"squared_error"`, `"nlpd"` and others, each with `"mean"` and `"standard_error"`, which is
        None for a single point.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> model = cgp.ExactGPRegressor(optimizer=None, lengthscale=1.5, noise=0.02)
    >>> report = cgp.diagnostics.compare(model.fit(X[::2], y[::2]), X[1::2], y[1::2])
    >>> linear = {one.name: one for one in report.evidence.baselines}["linear"]
    >>> linear.gain < 0, linear.advantage() > 3  # the model is better
    (True, True)
    """

    name: str
    rmse: float
    nlpd: float
    differences: dict[str, dict[str, float | None]]

    @classmethod
    def of(
        cls,
        y: FloatArray,
        mean: FloatArray,
        std: FloatArray,
        other: BaselinePrediction,
        mixture: OwnLaws | None = None,
        groups: ArrayLike | None = None,
    ) -> BesideBaseline:
        """Scores of a law of single points beside those of a baseline's.

        Parameters
        ----------
        y, mean, std
            Targets, means and standard deviations of the model, (p,) or (p, k).
        other
            Predictions of the baseline, of the same shape, with standard deviations.
        mixture
            The laws of the points where they are mixtures.
        groups
            Groups (p,) in which losses go together; None: every point by itself.
        """
        assert other.std is not None
        shape = (len(y), -1)
        targets = y.reshape(shape)
        own = PointLaws(mean.reshape(shape), std.reshape(shape), mixture)
        theirs = PointLaws(other.mean.reshape(shape), other.std.reshape(shape), other.own)
        found = differences(targets, own, theirs, groups)
        density = float(theirs.losses(NLPD, targets).mean())
        return cls(other.name, rmse(targets, theirs.mean), density, found)

    @property
    def gain(self) -> float:
        """Mean paired decrease of the NLPD if it is picked, nats per point.

        Of laws without a density it is the decrease of the logarithm of the CRPS.
        """
        return gain_of(self.differences)["mean"] or 0.0

    @property
    def standard_error(self) -> float | None:
        """Standard error of the gain; None for a single point."""
        error: float | None = gain_of(self.differences)["standard_error"]
        return error

    @property
    def unit(self) -> str:
        """What the gain is in."""
        return "nats per point" if "nlpd" in self.differences else BY_CRPS

    def advantage(self) -> float:
        """Standard errors by which the model's NLPD is smaller; negative where it is larger."""
        return -self.gain / self.standard_error if self.standard_error else 0.0
