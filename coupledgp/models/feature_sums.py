"""Sums of features over the rows of a table, from which kernel regression predicts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from coupledgp.features import FeatureMap, SoftmaxFeatures
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.random import FloatArray

# Rows whose features (b, M) are held at once.
CHUNK_ROWS = 4096
Features: TypeAlias = FeatureMap | SoftmaxFeatures


@dataclass(frozen=True, eq=False)
class ScaledFeatures:
    """Features of rows that are shifted and divided by lengthscales.

    Attributes
    ----------
    features : FeatureMap or SoftmaxFeatures
        Features of unit lengthscale.
    lengthscale, center : FloatArray
        Shapes (d,).
    """

    features: Features
    lengthscale: FloatArray
    center: FloatArray

    @property
    def in_logarithms(self) -> bool:
        """Whether the features are positive and are computed by their logarithms."""
        positive = getattr(self.features, "is_positive", False)
        return bool(positive) or hasattr(self.features, "log_features")

    def chunks(self, inputs: FloatArray) -> Iterator[tuple[slice, Tensor]]:
        """Centred and scaled rows (b, d), at most CHUNK_ROWS at a time, with their slices."""
        for start in range(0, len(inputs), CHUNK_ROWS):
            rows = slice(start, start + CHUNK_ROWS)
            yield rows, torch.as_tensor((inputs[rows] - self.center) / self.lengthscale)

    def logarithms(self, scaled: Tensor, side: str) -> Tensor:
        """Logarithms (b, M) of the features of scaled rows (b, d), as "queries" or "keys"."""
        one_map = isinstance(self.features, FeatureMap)
        logs: Tensor = getattr(self.features, "log_features" if one_map else f"log_{side}")(scaled)
        return logs

    def values(self, scaled: Tensor, side: str) -> Tensor:
        """Features (b, M) of scaled rows (b, d), as "queries" or "keys"."""
        features: Any = self.features
        one_map = isinstance(features, FeatureMap)
        values: Tensor = features(scaled) if one_map else getattr(features, side)(scaled)
        return values.double()


@dataclass(frozen=True, eq=False)
class FeatureSums:
    """`sum_i s(x_i) (y_i, 1)` over the training rows, relative to `exp(peak)` for each feature.

    The peak is the maximum over the rows of the logarithm of a positive feature: far from the
    origin all features of a row would underflow otherwise. It is zero for other features.

    Attributes
    ----------
    scaled : ScaledFeatures
    peak : Tensor
        Shape (M,), or () for features that are not positive.
    sums : Tensor
        Shape (M, C + 1); the last column is the sum of the features alone.
    """

    scaled: ScaledFeatures
    peak: Tensor
    sums: Tensor

    @classmethod
    def over(cls, scaled: ScaledFeatures, inputs: FloatArray, targets: FloatArray) -> FeatureSums:
        """Sum over rows (n, d) with targets (n, C)."""
        weighted = torch.as_tensor(np.column_stack([targets, np.ones(len(targets))]))
        peak, sums = torch.zeros(()), torch.zeros(())
        for rows, part in scaled.chunks(inputs):
            if scaled.in_logarithms:
                logs = scaled.logarithms(part, "keys")
                top = logs.amax(0)
                new_peak = top if rows.start == 0 else torch.maximum(peak, top)
                more = (logs - new_peak).exp().T @ weighted[rows]
                sums = more + (0 if rows.start == 0 else (peak - new_peak).exp()[:, None] * sums)
                peak = new_peak
            else:
                sums = sums + scaled.values(part, "keys").T @ weighted[rows]
        return cls(scaled, peak, sums)

    def at(self, inputs: FloatArray) -> FloatArray:
        """Estimates (p, C + 1) of `sum_i k(x, x_i) (y_i, 1)` for rows (p, d), up to their scale."""
        parts = []
        for _, part in self.scaled.chunks(inputs):
            if self.scaled.in_logarithms:
                exponent = self.scaled.logarithms(part, "queries") + self.peak
                query = (exponent - exponent.amax(-1, keepdim=True)).exp()
            else:
                query = self.scaled.values(part, "queries")
            parts.append(query @ self.sums)
        return torch.cat(parts).numpy()
