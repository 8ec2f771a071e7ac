"""Each sensor left out: laws of its observations given those of all others, and scores."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from scipy import special

from coupledgp.random import FloatArray, IntArray

# Standard deviations that hold 95 % of a Gaussian law on either side.
REACH = float(special.ndtri(0.975))


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
        cls, nodes: list[Any], observed: FloatArray, mean: FloatArray, std: FloatArray
    ) -> SensorTable:
        """Scores of observations (p, n), NaN where there are none, by laws (p, n)."""
        error = mean - observed
        z = error / std
        scores = {
            "rmse": np.sqrt(np.nanmean(error**2, axis=1)),
            "mae": np.nanmean(np.abs(error), axis=1),
            "bias": np.nanmean(error, axis=1),
            "nlpd": np.nanmean(0.5 * z**2 + np.log(std) + 0.5 * np.log(2 * np.pi), axis=1),
            "crps": np.nanmean(
                std * (z * (2 * special.ndtr(z) - 1)
                       + np.sqrt(2 / np.pi) * np.exp(-0.5 * z**2) - 1 / np.sqrt(np.pi)), axis=1
            ),
            "coverage_95": np.nanmean(np.where(np.isnan(z), np.nan, np.abs(z) <= REACH), axis=1),
        }  # fmt: skip
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
