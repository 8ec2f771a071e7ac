"""Each sensor left out: laws of its observations given those of all others, and scores."""

from __future__ import annotations

import csv
import io
import os
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from scipy import special

from coupledgp.gp.back_transformed import mapped_back, mapped_moments
from coupledgp.gp.transforms import TargetTransform
from coupledgp.ground.output import write_text
from coupledgp.random import FloatArray, IntArray

# Standard deviations that hold 95 % of a Gaussian law on either side.
REACH = float(special.ndtri(0.975))
# Cells whose moments are expanded at once, and quantiles of a law that its CRPS is summed over.
AT_ONCE, N_QUANTILES = 2**16, 64


@dataclass(frozen=True, eq=False)
class SensorTable:
    """Scores of each sensor left out; one row a sensor, the greatest RMSE first.

    Attributes
    ----------
    node : list
        Labels of the p sensors.
    n : IntArray (p,)
        Number of its observations.
    rmse, mae, bias : FloatArray (p,)
        Root mean square, mean absolute and mean of mean minus observation, units of y.
    nlpd, crps : FloatArray (p,)
        Mean negative log predictive density, nats, and continuous ranked probability score.
    coverage_95 : FloatArray (p,)
        Share of its observations within their central 95 % intervals.
    mean, std : FloatArray (p, n_times)
        The laws, noise included, in the order of `node`; NaN where nothing was observed.
    """

    node: list[Any]
    n: IntArray
    rmse: FloatArray
    mae: FloatArray
    bias: FloatArray
    nlpd: FloatArray
    crps: FloatArray
    coverage_95: FloatArray
    mean: FloatArray
    std: FloatArray

    @classmethod
    def of(
        cls,
        nodes: list[Any],
        observed: FloatArray,
        mean: FloatArray,
        std: FloatArray,
        transform: TargetTransform | None = None,
    ) -> SensorTable:
        """Scores of observations (p, n), NaN where there are none, by Gaussian laws (p, n).

        With a transform observations and laws are of transformed values; scores and laws in the
        table are of values.
        """
        z = (mean - observed) / std
        density = -0.5 * z**2 - np.log(std) - 0.5 * np.log(2 * np.pi)
        inside = np.where(np.isnan(z), np.nan, np.abs(z) <= REACH)
        if transform is None:
            shape = z * (2 * special.ndtr(z) - 1) + np.sqrt(2 / np.pi) * np.exp(-0.5 * z**2)
            crps = std * (shape - 1 / np.sqrt(np.pi))
        else:
            there = ~np.isnan(z)
            values = np.full(observed.shape, np.nan)
            values[there] = mapped_back(transform, observed[there])
            density[there] += transform.log_slope(values[there])
            crps = crps_of_quantiles(transform, values, mean, std)
            mean, variance = moments_back(transform, mean, std)
            observed, std = values, np.sqrt(variance)
        error = mean - observed
        scores = {
            "rmse": np.sqrt(np.nanmean(error**2, axis=1)),
            "mae": np.nanmean(np.abs(error), axis=1),
            "bias": np.nanmean(error, axis=1),
            "nlpd": -np.nanmean(density, axis=1),
            "crps": np.nanmean(crps, axis=1),
            "coverage_95": np.nanmean(inside, axis=1),
        }
        order = np.argsort(-scores["rmse"], kind="stable")
        counts = (~np.isnan(observed)).sum(axis=1)
        return cls(
            node=[nodes[k] for k in order], n=counts[order], mean=mean[order], std=std[order],
            **{name: values[order] for name, values in scores.items()},
        )  # fmt: skip

    @property
    def columns(self) -> dict[str, Any]:
        """Columns of the table by name."""
        names = [f.name for f in fields(self) if f.name not in ("mean", "std")]
        return {name: getattr(self, name) for name in names}

    def to_dataframe(self) -> Any:
        """The table as a pandas DataFrame."""
        import pandas as pd

        return pd.DataFrame(self.columns)

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the table as CSV, one row a sensor."""
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(self.columns)
        writer.writerows(zip(*self.columns.values(), strict=True))
        write_text(path, text.getvalue())

    def __len__(self) -> int:
        """Number of sensors."""
        return len(self.node)

    def __repr__(self) -> str:
        head = "node                    n    rmse     mae    bias    nlpd    crps  in 95 %"
        rows = [
            f"{str(self.node[k])[:18]:18s} {self.n[k]:6d} {self.rmse[k]:7.3g} {self.mae[k]:7.3g} "
            f"{self.bias[k]:7.3g} {self.nlpd[k]:7.3g} {self.crps[k]:7.3g} "
            f"{self.coverage_95[k]:7.3f}"
            for k in range(min(len(self), 12))
        ]
        more = [f"... {len(self) - 12} more sensors"] if len(self) > 12 else []
        return "\n".join([head, *rows, *more])


def moments_back(
    transform: TargetTransform, mean: FloatArray, std: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Means and variances of values of normal transformed ones, NaN where these are NaN."""
    found = np.full((2, mean.size), np.nan)
    there = np.flatnonzero(~np.isnan(mean.reshape(-1)))
    flat_mean, flat_std = mean.reshape(-1), np.broadcast_to(std, mean.shape).reshape(-1)
    for part in np.array_split(there, max(1, there.size // AT_ONCE)):
        found[:, part] = mapped_moments(transform, flat_mean[part], flat_std[part] ** 2)
    return found[0].reshape(mean.shape), found[1].reshape(mean.shape)


def crps_of_quantiles(
    transform: TargetTransform, values: FloatArray, mean: FloatArray, std: FloatArray
) -> FloatArray:
    """`2 int (1(y <= q) - tau) (q - y) dtau` by a midpoint rule over quantiles q(tau)."""
    total = np.zeros(values.shape)
    levels = (np.arange(N_QUANTILES) + 0.5) / N_QUANTILES
    for level in levels:
        quantile = mapped_back(transform, mean + std * special.ndtri(level))
        total += 2 * ((values <= quantile) - level) * (quantile - values)
    return np.where(np.isnan(values), np.nan, total / N_QUANTILES)
