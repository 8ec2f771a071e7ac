"""Each sensor left out: laws of its observations given those of all others, and scores."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from coupledgp.core.target_maps import mapped_back, moments_back
from coupledgp.core.transforms import TargetTransform
from coupledgp.random import FloatArray, IntArray

if TYPE_CHECKING:
    import pandas as pd

# Level of the intervals whose share is told.
LEVEL = 0.95


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

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.time.sensor_table import SensorTable
    >>> observed, mean = np.array([[1.0, 1.0], [3.0, 1.0]]), np.ones((2, 2))
    >>> table = SensorTable.of(["north", "south"], observed, mean, np.ones((2, 2)))
    >>> table.node, table.rmse.round(3).tolist()
    (['south', 'north'], [1.414, 0.0])
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
        from coupledgp.diagnostics.laws import Mapped, Normal  # scores are those of reports

        cells = ~np.isnan((mean - observed) / std)
        center, scale = mean[cells, None], std[cells, None]
        if transform is not None:
            values = np.full(observed.shape, np.nan)
            values[cells] = mapped_back(transform, observed[cells])
            mean, variance = moments_back(transform, mean, std)
            observed, std = values, np.sqrt(variance)
        own = mean[cells, None], std[cells, None]
        law = Normal(*own) if transform is None else Mapped(transform, center, scale, *own)
        y, row = observed[cells, None], np.nonzero(cells)[0]
        error = law.mean - y
        losses = {
            "rmse": np.square(error), "mae": np.abs(error), "bias": error, "crps": law.crps(y),
            "nlpd": -law.log_density(y), "coverage_95": np.abs(2 * law.cdf(y) - 1) <= LEVEL,
        }  # fmt: skip
        n = cells.sum(axis=1)
        each = np.where(n > 0, n, np.nan)
        scores = {
            name: np.bincount(row, one.ravel().astype(float), len(n)) / each
            for name, one in losses.items()
        }
        scores["rmse"] = np.sqrt(scores["rmse"])
        order = np.argsort(-scores["rmse"], kind="stable")
        return cls(
            node=[nodes[k] for k in order], n=n[order], mean=mean[order], std=std[order],
            **{name: values[order] for name, values in scores.items()},
        )  # fmt: skip

    @property
    def columns(self) -> dict[str, Any]:
        """Columns of the table by name."""
        names = [f.name for f in fields(self) if f.name not in ("mean", "std")]
        return {name: getattr(self, name) for name in names}

    def to_dataframe(self) -> pd.DataFrame:
        """The table as a pandas DataFrame, one row a sensor."""
        import pandas as pd

        return pd.DataFrame(self.columns)

    def __len__(self) -> int:
        """Number of sensors."""
        return len(self.node)

    def __repr__(self) -> str:
        return self.to_dataframe().head(12).to_string(index=False, float_format="{:.3g}".format)
