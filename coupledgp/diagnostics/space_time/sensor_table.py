"""Each sensor left out: laws of its observations given those of all others, and scores."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coupledgp.core.target_maps import mapped_back, mapped_moments
from coupledgp.core.transforms import TargetTransform
from coupledgp.diagnostics.scoring.scores import group_means
from coupledgp.diagnostics.space_time.scoring import SCORED, SpaceTimeLaw
from coupledgp.diagnostics.studies.tables import csv_of
from coupledgp.ground.output import write_text
from coupledgp.random import FloatArray, IntArray

# Cells whose moments are expanded at once.
AT_ONCE = 2**16


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
    >>> from coupledgp.diagnostics import SensorTable
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
        cells = ~np.isnan((mean - observed) / std)
        law = SpaceTimeLaw(mean, std)
        if transform is not None:
            values = np.full(observed.shape, np.nan)
            values[cells] = mapped_back(transform, observed[cells])
            there, variance = moments_back(transform, mean, std)
            observed = values
            law = SpaceTimeLaw(there, np.sqrt(variance), transform, mean, std)
        laws, targets, row = law.at(cells), observed[cells, None], np.nonzero(cells)[0]
        n = cells.sum(axis=1)
        scores = {}
        for name, score in SCORED.items():
            means = group_means(laws.losses(score, targets), row, len(cells))
            scores[name] = np.sqrt(means) if score.root else means
        order = np.argsort(-scores["rmse"], kind="stable")
        return cls(
            node=[nodes[k] for k in order], n=n[order], mean=law.mean[order], std=law.std[order],
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
        rows = [[*row] for row in zip(*self.columns.values(), strict=True)]
        write_text(path, csv_of((list(self.columns), rows)))

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


def deviates(rmse: FloatArray, bias: FloatArray, covered: FloatArray) -> NDArray[np.bool_]:
    """Sensors (p,) that deviate all the time: half of the error is bias, and it is large.

    The squared bias is at least half of the mean squared error, the RMSE is at least one and a half
    times the median sensor's, and fewer than 85 % of the observations are inside their 95 %
    interval.
    """
    large = rmse >= 1.5 * np.nanmedian(rmse)
    return np.asarray((2 * bias**2 >= rmse**2) & large & (covered < 0.85))


def spread_sensors(table: SensorTable, nodes: list[Any], most: int) -> IntArray:
    """Numbers of about `most` sensors among all nodes, by a table of all of them.

    They are spread evenly over the ranks of the RMSE, the greatest and the least among them; and
    sensors that deviate all the time are added.
    """
    ranks = np.unique(np.linspace(0, len(table) - 1, most).round().astype(np.int64))
    doubtful = np.flatnonzero(deviates(table.rmse, table.bias, table.coverage_95))
    place = {label: k for k, label in enumerate(nodes)}
    chosen = np.union1d(ranks, doubtful).tolist()
    return np.array([place[table.node[k]] for k in chosen], dtype=np.int64)


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
