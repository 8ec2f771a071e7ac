"""What is known of a space-time model on a graph: its law over nodes and times, and its errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from coupledgp.diagnostics.space_time.sensor_table import deviates
from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import wrong
from coupledgp.random import FloatArray, IntArray
from coupledgp.time.axis import TimeAxis

# Codes of cells (sensor, time).
OBSERVED, GAP, FORECAST = range(3)
CELL_KINDS = ("observed", "gap", "forecast")
# Chance that any sensor of normal levels is called unusual.
UNUSUAL = 0.01
# Kinds of cells that are hidden from a model to score it; those ahead carry their steps.
GAPS, SCATTERED, HIDDEN, AHEAD = "gap", "scattered", "hidden sensor", "forecast"
# Name of the model among its rivals.
MODEL_NAME = "model"


@dataclass(frozen=True)
class KindScore:
    """Scores of one model at the hidden cells of one kind, in units of y.

    Attributes
    ----------
    kind : str
        `"gap"`: runs of cells; `"scattered"`: single ones; `"hidden sensor"`; `"forecast"`.
    model : str
        `"model"`, or the name of a rival.
    n : int
        Number of cells.
    rmse, mae : float
    crps, nlpd : float or None
        Continuous ranked probability score and negative log predictive density in nats; None of
        predictions without a law. The CRPS of a point is its absolute error.
    coverage : mapping of float to float
        Share of cells inside the central interval, by its nominal level; empty without a law.
    coverage_error : float
        Standard error of the share of the 95 % interval.
    ahead : int or None
        Steps between the last observed time and the cell, for a forecast.
    gain, gain_error : float or None
        Mean paired decrease of the NLPD from the model's, nats per cell, and its standard error.
    ratio_error : float or None
        Standard error of the logarithm of the RMSE over the model's; None where it is not known.
    """

    kind: str
    model: str
    n: int
    rmse: float
    mae: float
    crps: float | None = None
    nlpd: float | None = None
    coverage: Mapping[float, float] = field(default_factory=dict)
    ahead: int | None = None
    gain: float | None = None
    gain_error: float | None = None
    coverage_error: float = 0.0
    ratio_error: float | None = None


@dataclass(frozen=True)
class HourScore:
    """Scores of the model at hidden cells of one kind between two hours of the day.

    Attributes
    ----------
    kind : str
        As of `KindScore`.
    start, stop : float
        Hours of the local day.
    n : int
        Number of cells.
    rmse : float
    coverage : mapping of float to float
        Share of cells inside the central interval, by its nominal level.
    """

    kind: str
    start: float
    stop: float
    n: int
    rmse: float
    coverage: Mapping[float, float] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class SensorErrors:
    """Errors of each sensor when it is predicted from all the others, in units of y.

    Attributes
    ----------
    n : IntArray (p,)
        Number of observations.
    rmse, mae, bias : FloatArray (p,)
        Bias is the mean of prediction minus observation: positive where a sensor reads too low.
    coverage_95 : FloatArray (p,)
        Share of the observations inside their central 95 % interval.
    """

    n: IntArray
    rmse: FloatArray
    mae: FloatArray
    bias: FloatArray
    coverage_95: FloatArray

    @classmethod
    def of(cls, table: Any, labels: Sequence[Any] | None = None) -> SensorErrors:
        """Read a `SensorTable`, a data frame, or a mapping of names to columns.

        Sensors are in the order of the table, or of the labels (p,), which its column `node` has;
        errors of those that it lacks are NaN.
        """
        columns = getattr(table, "columns", table)
        columns = columns if isinstance(columns, Mapping) else table
        found = {name: np.asarray(columns[name]) for name in cls.__dataclass_fields__}
        if labels is None:
            return cls(**found)
        place = {label: k for k, label in enumerate(columns["node"])}
        rows = np.array([place.get(label, -1) for label in labels])
        errors = {name: np.where(rows < 0, np.nan, one[rows]) for name, one in found.items()}
        return cls(**errors | {"n": np.where(rows < 0, 0, found["n"][rows])})

    def typical(self) -> float:
        """Median over the sensors of their RMSE."""
        return float(np.nanmedian(self.rmse))

    def is_doubtful(self) -> NDArray[np.bool_]:
        """Sensors (p,) that deviate all the time, see `deviates`, by more than sensors differ.

        Sensors have levels of their own, as of their places: the bias is also further from the
        median sensor's than any is in 99 of 100 sets of normal levels.
        """
        return deviates(self.rmse, self.bias, self.coverage_95) & self.is_level_unusual()

    def is_level_unusual(self) -> NDArray[np.bool_]:
        """Sensors (p,) whose bias is beyond what levels of sensors differ by.

        The spread is 1.48 times the median distance from the median; the limit is the quantile of
        Student's law of p - 1 degrees of freedom at `1 - .01 / (2 p)`.
        """
        known = np.isfinite(self.bias)
        p = int(known.sum())
        if p < 3:
            return np.zeros(self.bias.shape, dtype=np.bool_)
        limit = float(stdtrit(p - 1, 1 - 0.5 * UNUSUAL / p))
        away = np.abs(self.bias - np.nanmedian(self.bias))
        return np.asarray(known & (away > limit * self.level_spread()))

    def level_spread(self) -> float:
        """How much the biases of sensors differ: 1.48 times their median absolute deviation."""
        return float(1.4826 * np.nanmedian(np.abs(self.bias - np.nanmedian(self.bias))))

    def is_steady(self) -> NDArray[np.bool_]:
        """Sensors (p,) that are as good as the median one once their own level is taken off."""
        rest = np.sqrt(np.maximum(self.rmse**2 - self.bias**2, 0.0))
        return np.asarray(rest < 1.5 * self.typical())

    def order(self) -> IntArray:
        """Numbers of the sensors (p,): doubtful ones first, then by their RMSE, largest first."""
        rmse = np.where(np.isfinite(self.rmse), self.rmse, -np.inf)
        return np.lexsort((-rmse, ~self.is_doubtful()))


@dataclass(frozen=True, eq=False)
class SensorSeries:
    """The law of one sensor's observations over time.

    Attributes
    ----------
    sensor : int
        Number of the sensor among the sensors.
    times : FloatArray (k,)
        Numbers of the time axis.
    mean, std : FloatArray (k,)
        Predictive law of an observation, its noise included.
    observed : FloatArray (k,)
        Values, NaN where there is none.
    kinds : IntArray (k,)
        Codes of the cells, see `CELL_KINDS`.
    left_out : FloatArray (k,) or None
        Mean of the law given all other sensors alone, NaN where it is not known.
    """

    sensor: int
    times: FloatArray
    mean: FloatArray
    std: FloatArray
    observed: FloatArray
    kinds: IntArray
    left_out: FloatArray | None = None


@dataclass(frozen=True)
class GapCount:
    """Gaps of the data: cells in all, gaps, and the longest run of gaps in steps.

    Times at which no sensor reports count as gaps too.
    """

    n_cells: int
    n_gaps: int
    longest: int

    @classmethod
    def of(cls, values: FloatArray) -> GapCount:
        """Count the gaps of values (p, n), which are NaN there."""
        missing = np.isnan(values)
        edges = np.diff(np.pad(missing, ((0, 0), (1, 1))).astype(np.int8), axis=1)
        runs = np.nonzero(edges.ravel() == -1)[0] - np.nonzero(edges.ravel() == 1)[0]
        longest = int(runs.max()) if runs.size else 0
        return cls(values.size, int(missing.sum()), longest)


@dataclass(frozen=True, eq=False)
class SpaceTimePage:
    """What a page says of a space-time model: laws over N nodes and T times, and errors.

    Attributes
    ----------
    nodes : sequence
        Labels of the N nodes.
    axis : TimeAxis
        The fitted times, n of them, with their zone and unit.
    times : FloatArray (T,)
        Times of the law, numbers of the axis; later ones than the axis has are forecasts.
    mean, std : FloatArray (N, T)
        Law of the values.
    sensors : IntArray (p,)
        Number of the node of each sensor.
    observed : FloatArray (p, T)
        Values at the times, NaN where there is none.
    kinds : IntArray (p, T)
        Codes of the cells, see `CELL_KINDS`.
    gaps : GapCount
        Of all the data, whatever times the law has.
    edges : IntArray (m, 2)
        Node numbers at the ends of edges.
    positions : FloatArray (N, 2) or (N, 3), or None
        Places of the nodes; None: the page lays out the graph, and says so.
    crs : str or None
        Coordinate reference system of the positions, such as `"EPSG:4326"` for longitude and
        latitude; None where they are plain numbers.
    faces : IntArray (f, 3) or None
        Triangles, for a mesh whose vertices are the nodes.
    is_network : bool
        Whether the edges are pieces of roads, so that their colours make the map.
    left_out : SensorErrors or None
        Each sensor predicted from the others.
    scores : tuple of KindScore
        Scores of the model and of its rivals at cells that were hidden.
    hours : tuple of HourScore
        Scores of the model by time of day.
    series : tuple of SensorSeries
        Sensors that are drawn over time; empty: the worst six and a median one, from the law.
    unit : str
        Name or unit of the values, such as `"mph"`; may be empty.
    title : str
        Heading of the page.
    facts : tuple of (str, str, str)
        What was computed, its value and a remark: iterations, samples, errors.
    notes, warnings : tuple of str
        Sentences on the law, such as that it is thinned out, and sentences that come first.
    provenance : mapping of str to anything JSON holds
        Data, settings, seed and versions.
    """

    nodes: Sequence[Any]
    axis: TimeAxis
    times: FloatArray
    mean: FloatArray = field(repr=False)
    std: FloatArray = field(repr=False)
    sensors: IntArray = field(repr=False)
    observed: FloatArray = field(repr=False)
    kinds: IntArray = field(repr=False)
    gaps: GapCount
    edges: IntArray = field(default_factory=lambda: np.empty((0, 2), np.int64), repr=False)
    positions: FloatArray | None = field(default=None, repr=False)
    crs: str | None = None
    faces: IntArray | None = field(default=None, repr=False)
    is_network: bool = False
    left_out: SensorErrors | None = field(default=None, repr=False)
    scores: tuple[KindScore, ...] = ()
    hours: tuple[HourScore, ...] = ()
    series: tuple[SensorSeries, ...] = field(default=(), repr=False)
    unit: str = ""
    title: str = "Space and time"
    facts: tuple[tuple[str, str, str], ...] = ()
    notes: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    provenance: Mapping[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        shape, cells = (len(self.nodes), self.times.size), (self.sensors.size, self.times.size)
        for name, wanted in (("mean", shape), ("std", shape), ("observed", cells),
                             ("kinds", cells)):  # fmt: skip
            found = getattr(self, name).shape
            if found != wanted:
                raise InvalidInputError(f"{name}: expected shape {wanted}, got {found}")
        if self.positions is not None and len(self.positions) != len(self.nodes):
            raise wrong(
                "positions", f"{len(self.nodes)} rows, as many as nodes", len(self.positions)
            )

    @property
    def names(self) -> list[str]:
        """Labels of the nodes as texts."""
        return [str(one) for one in self.nodes]

    @property
    def sensor_names(self) -> list[str]:
        """Labels of the sensors as texts."""
        return [str(self.nodes[k]) for k in self.sensors.tolist()]

    def scores_of(self, kind: str, ahead: int | None = None) -> dict[str, KindScore]:
        """Return the scores of one kind by the name of the model."""
        return {one.model: one for one in self.scores if (one.kind, one.ahead) == (kind, ahead)}

    @property
    def steps_ahead(self) -> list[int]:
        """Numbers of steps ahead that were scored."""
        return sorted({one.ahead for one in self.scores if one.ahead is not None})
