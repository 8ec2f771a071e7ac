"""Weights and noise variances of rows, as an estimator's `fit` takes them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.errors import InvalidInputError
from coupledgp.gp.protocol import Data
from coupledgp.gp.units import Units
from coupledgp.ground.validation import LARGEST_PRODUCT, SMALLEST_PRODUCT, check_sizes, real_array
from coupledgp.inference.evidence.rows import RowWeights
from coupledgp.random import FloatArray


@dataclass(frozen=True)
class RowArguments:
    """The arguments `sample_weight`, `sample_noise` and `exposure` of a fit.

    Attributes
    ----------
    sample_weight : ArrayLike or None
        Weights (n,), not negative.
    sample_noise : ArrayLike or None
        Known noise variances (n,), positive, units of y squared.
    level : float or None
        Noise variance of a row of relative noise one, in units of y squared; None: the mean of
        `sample_noise`, which then is known.
    exposure : ArrayLike or None
        Exposures (n,), positive.
    """

    sample_weight: ArrayLike | None
    sample_noise: ArrayLike | None
    level: float | None = None
    exposure: ArrayLike | None = None

    def data(self, points: FloatArray, targets: FloatArray) -> Data:
        """Data of points (n, d) and targets (n, k), without the rows of weight zero.

        Raises
        ------
        InvalidInputError
            Both arguments are given, one is no vector of n finite numbers or has a sign that it
            should not have, all weights are zero, or noise is given for several outputs.
        """
        if self.sample_weight is not None and self.sample_noise is not None:
            raise InvalidInputError("sample_weight, sample_noise: expected at most one of them")
        if self.exposure is not None:
            return self._exposed(points, targets, self.exposure)
        if self.sample_weight is not None:
            return _weighted(points, targets, self.sample_weight)
        if self.sample_noise is not None:
            return self._noisy(points, targets, self.sample_noise)
        return Data.of(points, targets)

    def _exposed(self, points: FloatArray, targets: FloatArray, value: ArrayLike) -> Data:
        exposure = check_row_numbers(value, "exposure", len(points))
        data = replace(self, exposure=None).data(points, targets)
        weights = data.weights or RowWeights.ones(len(data))
        if len(data) < len(points):
            exposure = exposure[np.asarray(self.sample_weight, dtype=np.float64) > 0]
        return Data.of(data.points, data.targets, weights=replace(weights, exposure=exposure))

    def _noisy(self, points: FloatArray, targets: FloatArray, value: ArrayLike) -> Data:
        variances = check_row_numbers(value, "sample_noise", len(points))
        if not (variances > 0).all():
            raise InvalidInputError(
                f"sample_noise: expected variances > 0, got {variances.min():g} among them"
            )
        if targets.shape[1] > 1:
            raise InvalidInputError(
                "sample_noise: expected one output, since outputs have units of their own, got "
                f"{targets.shape[1]}; fit each output alone, or give sample_weight"
            )
        check_sizes(variances, "sample_noise", SMALLEST_PRODUCT, LARGEST_PRODUCT)
        ones, mean = np.ones(len(variances)), float(variances.mean())
        level = mean if self.level is None else self.level
        check_sizes(variances / level, "sample_noise relative to their level")
        known = mean if self.level is None else None
        weights = RowWeights(variances / level, ones, known)
        return Data.of(points, targets, weights=weights)


def _weighted(points: FloatArray, targets: FloatArray, value: ArrayLike) -> Data:
    weights = check_row_numbers(value, "sample_weight", len(points))
    if (weights < 0).any():
        raise InvalidInputError(
            f"sample_weight: expected weights >= 0, got {weights.min():g} among them"
        )
    kept = weights > 0
    if not kept.any():
        raise InvalidInputError("sample_weight: expected a weight that is not zero, all are zero")
    check_sizes(weights[kept], "sample_weight")
    if not kept.all():
        points, targets, weights = points[kept], targets[kept], weights[kept]
    return Data.of(points, targets, weights=RowWeights(np.ones(len(weights)), weights))


def check_row_numbers(value: ArrayLike, name: str, n_rows: int) -> FloatArray:
    """A vector (n_rows,) of finite numbers."""
    try:
        array = np.array(real_array(value, name))
    except InvalidInputError:
        raise
    except (TypeError, ValueError, OverflowError):
        raise InvalidInputError(f"{name}: expected {n_rows} numbers, got {value!r:.60}") from None
    if array.shape != (n_rows,):
        raise InvalidInputError(
            f"{name}: expected shape ({n_rows},), one number a row, got {array.shape}"
        )
    if not np.isfinite(array).all():
        raise InvalidInputError(f"{name}: expected finite values, got NaN or inf")
    return array


def known_noise(data: Data, units: Units, given: float | None) -> float | None:
    """Noise variance in normalised units of a row of relative noise one, if the data know it.

    Raises
    ------
    InvalidInputError
        Another value was given for it.
    """
    return noise_of_level(None if data.weights is None else data.weights.level, units, given)


def noise_of_level(level: float | None, units: Units, given: float | None) -> float | None:
    """Noise variance in normalised units from one in units of y squared; see `known_noise`."""
    if level is None:
        return None
    if given is not None:
        raise InvalidInputError(
            f"noise: expected None beside sample_noise, which states it, got {given!r}"
        )
    return level / float(units.scale[0] ** 2)
