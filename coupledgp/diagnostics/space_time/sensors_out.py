"""Leave one sensor out by fits without it: the reference of faster ways, for any estimator."""

from __future__ import annotations

import csv
import io
import os
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from coupledgp.diagnostics.space_time.models import fitted_to, law_of, readings_of
from coupledgp.diagnostics.space_time.scoring import score_values
from coupledgp.errors import InvalidInputError
from coupledgp.output import write_text

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class SensorScores:
    """Scores of a sensor's readings, predicted without any of them.

    Attributes
    ----------
    node : Any
        The sensor, as the user gave it.
    n : int
        Number of its readings.
    rmse, mae, crps, bias : float
        In units of the readings; the bias is the mean of prediction minus reading.
    nlpd : float
        Nats per reading.
    coverage_95 : float
        Share of the readings in the central 95 % intervals.
    """

    node: Any
    n: int
    rmse: float
    mae: float
    nlpd: float
    crps: float
    coverage_95: float
    bias: float


@dataclass(frozen=True)
class SensorTable:
    """Scores of sensors that are left out one at a time, the largest RMSE first."""

    sensors: tuple[SensorScores, ...] = field(repr=False)

    def __len__(self) -> int:
        return len(self.sensors)

    def mean(self, name: str = "rmse") -> float:
        """Mean of a score over sensors."""
        return float(np.mean([getattr(sensor, name) for sensor in self.sensors]))

    def to_dataframe(self) -> pd.DataFrame:
        """The table as a `pandas.DataFrame`."""
        import pandas as pd

        return pd.DataFrame([asdict(sensor) for sensor in self.sensors])

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        """Write the table as CSV."""
        text = io.StringIO()
        writer = csv.DictWriter(text, list(SensorScores.__dataclass_fields__), lineterminator="\n")
        writer.writeheader()
        writer.writerows(asdict(sensor) for sensor in self.sensors)
        write_text(path, text.getvalue())

    def __str__(self) -> str:
        head = [
            "| sensor | n | RMSE | bias | NLPD | CRPS | in 95 % |",
            "|---|---|---|---|---|---|---|",
        ]
        return "\n".join(head + [_line(sensor) for sensor in self.sensors])


def _line(s: SensorScores) -> str:
    """A row of a Markdown table."""
    return (
        f"| {s.node} | {s.n} | {s.rmse:.3g} | {s.bias:+.3g} | {s.nlpd:.3g} | {s.crps:.3g} | "
        f"{s.coverage_95:.3f} |"
    )


def leave_one_sensor_out(
    model: Any, data: Any, times: Any = None, values: Any = None, *, sensors: Any = None
) -> SensorTable:
    """Fit a model without each sensor in turn, hyperparameters included, and score what it says.

    Each sensor costs a whole fit. An estimator's own `leave_one_sensor_out`, where it has one,
    keeps the hyperparameters of all sensors and costs about one fit in all.

    Parameters
    ----------
    model
        An unfitted estimator such as `GraphTimeGPRegressor`.
    data, times, values
        Readings in any form that the model's `fit` takes.
    sensors
        Nodes of the sensors to leave out, all of them by default.

    Raises
    ------
    InvalidInputError
        The data are invalid, a node is no sensor, or there are fewer than two sensors.
    """
    readings = readings_of(model, data, times, values)
    if len(readings.values) < 2:
        raise InvalidInputError("data: expected at least two sensors, got one")
    places = {label: row for row, label in enumerate(readings.labels)}
    wanted = list(places) if sensors is None else list(sensors)
    unknown = [node for node in wanted if node not in places]
    if unknown:
        raise InvalidInputError(f"sensors: expected nodes with readings, got {unknown[:3]}")
    found = []
    for node in wanted:
        row = places[node]
        hidden = np.zeros(readings.values.shape, dtype=np.bool_)
        hidden[row] = True
        law = law_of(fitted_to(model, readings.without(hidden)), readings)
        seen = readings.seen[row]
        scores = score_values(readings.values[row, seen], law.mean[row, seen], law.std[row, seen])
        found.append(SensorScores(node, **scores))
    return SensorTable(tuple(sorted(found, key=lambda s: -s.rmse)))
