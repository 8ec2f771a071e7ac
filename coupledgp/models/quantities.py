"""Several quantities at the nodes of a graph over time, such as speed and flow, as one model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, clone
from sklearn.utils.validation import check_is_fitted

from coupledgp.diagnostics.space_time.sensor_table import SensorTable
from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import check_spread
from coupledgp.inference.space_time.learned_sites import under_kernel
from coupledgp.inference.space_time.quantity_sites import Quantities, QuantitySites
from coupledgp.inference.space_time.sites import as_domain
from coupledgp.models.graph_time import GraphTimeGPRegressor
from coupledgp.models.graph_time_parts import read_panel
from coupledgp.random import FloatArray
from coupledgp.series import Panel
from coupledgp.series.forms import ArrayForm, Form

# Scores of a table of sensors in units of the quantity.
IN_UNITS = ("rmse", "mae", "bias", "crps", "std")


class QuantitiesGPRegressor(BaseEstimator):
    """Gaussian process of several quantities at the nodes of a graph over time, with gaps.

    Quantities q are standardised, and the sites of one `GraphTimeGPRegressor` are (quantity, node):
    `cov(f_qi(t), f_rj(t')) = B_qr K_ij k(t, t')`, B a matrix of correlations that has the greatest
    evidence with all other hyperparameters (linear model of coregionalisation of one term,
    Goovaerts 1997). Terms of a sensor alone are of a quantity there alone. All that follows is that
    of one model: gaps, a usual day of each quantity and sensor, dynamics in which each quantity
    follows the past of all of them, live updates.

    Parameters
    ----------
    model : GraphTimeGPRegressor
        Unfitted model of one quantity, whose graph and options are used. Its `noise` must be None,
        as quantities have units of their own.

    Attributes
    ----------
    model_
        The fitted model of standardised quantities, whose nodes are pairs (quantity, node).
    quantities_
        Names of the Q quantities.
    offset_, scale_
        Mean and standard deviation (Q,) of each quantity, in its units.
    correlation_
        B (Q, Q).

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> road = cgp.Graph.from_edges(range(3), range(1, 4))
    >>> jam = np.cumsum(np.random.default_rng(0).normal(size=(4, 60)), axis=1)
    >>> data = {"speed": 60 - jam, "flow": 900 + 40 * jam}
    >>> times = np.datetime64("2026-03-02T06:00") + np.arange(60) * np.timedelta64(5, "m")
    >>> model = cgp.QuantitiesGPRegressor(cgp.GraphTimeGPRegressor(road, progress=False))
    >>> bool(model.fit(data, [0, 1, 2, 3], times).correlation_[0, 1] < 0)
    True
    """

    def __init__(self, model: GraphTimeGPRegressor) -> None:
        self.model = model

    def fit(self, data: Any, nodes: Any = None, times: Any = None) -> Self:
        """Find hyperparameters and condition on the values.

        Parameters
        ----------
        data
            A Dataset of variables of nodes and times; or a dictionary of names and arrays (p, n),
            DataArrays or wide tables. NaN is a gap. Quantities may have other nodes than others,
            but the same times.
        nodes, times
            Labels (p,) and times (n,) of arrays.

        Raises
        ------
        InvalidInputError
            There are fewer than two quantities, times differ, a quantity is constant, or as
            `GraphTimeGPRegressor.fit`.
        """
        if not isinstance(self.model, GraphTimeGPRegressor):
            raise InvalidInputError(
                f"model: expected a GraphTimeGPRegressor, got {type(self.model).__name__}"
            )
        if self.model.noise is not None:
            raise InvalidInputError(
                "model: expected noise=None, since each quantity has units of its own, got "
                f"{self.model.noise!r}"
            )
        panels = panels_of(data, nodes, times)
        if len(panels) < 2:
            raise InvalidInputError(
                f"data: expected two quantities or more, got {list(panels)}; one is for "
                "GraphTimeGPRegressor"
            )
        offset, scale = np.empty(len(panels)), np.empty(len(panels))
        for q, (name, panel) in enumerate(panels.items()):
            known = panel.values[~np.isnan(panel.values)]
            check_spread(known[:, None], f"data[{name!r}]", "quantity")
            offset[q], scale[q] = known.mean(), known.std()
            if not scale[q] > 0:
                raise InvalidInputError(
                    f"data[{name!r}]: expected values that vary, got a constant"
                )
        domain = as_domain(self.model.graph)
        if isinstance(domain, Quantities):
            raise InvalidInputError("model: expected the graph of one quantity, got several")
        own = clone(self.model).set_params(
            graph=Quantities(domain, tuple(panels), offset, scale)
        )  # fmt: skip
        self.model_ = own.fit(_joined(panels, offset, scale))
        first = next(iter(panels.values()))
        self._form: Form = first.given
        self._is_dataset = hasattr(data, "data_vars")
        return self

    @classmethod
    def of(cls, model: GraphTimeGPRegressor) -> Self:
        """The regressor of a fitted model of (quantity, node), as of a file; results are arrays."""
        graph = model.graph
        assert isinstance(graph, Quantities)
        plain = clone(model).set_params(graph=graph.domain)
        found = cls(plain)
        found.model_, found._form, found._is_dataset = model, ArrayForm(), False
        return found

    def fitted_model(self) -> GraphTimeGPRegressor:
        """The fitted model of standardised quantities; as `model_`, but refused before a fit."""
        check_is_fitted(self, "model_")
        return self.model_

    @property
    def _own(self) -> Quantities:
        check_is_fitted(self, "model_")
        found = self.model_.graph
        assert isinstance(found, Quantities)
        return found

    @property
    def quantities_(self) -> tuple[str, ...]:
        """Names of the Q quantities."""
        return self._own.names

    @property
    def offset_(self) -> FloatArray:
        """Mean (Q,) of each quantity in its units."""
        return self._own.offset

    @property
    def scale_(self) -> FloatArray:
        """Standard deviation (Q,) of each quantity in its units."""
        return self._own.scale

    @property
    def correlation_(self) -> FloatArray:
        """Correlations B (Q, Q) of the quantities under the kernel."""
        sites = under_kernel(self.model_.grid_process_.sites)
        assert isinstance(sites, QuantitySites)
        return sites.correlation

    def partial_fit(self, data: Any, nodes: Any = None, times: Any = None) -> Self:
        """Add values, hyperparameters kept; the first call is `fit`."""
        if not hasattr(self, "model_"):
            return self.fit(data, nodes, times)
        own, panels = self._own, panels_of(data, nodes, times)
        unknown = [name for name in panels if name not in own.names]
        if unknown:
            raise InvalidInputError(
                f"data: expected some of {list(own.names)}, as in the fit, got {unknown[0]!r}"
            )
        places = [own.names.index(name) for name in panels]
        self.model_.partial_fit(_joined(panels, own.offset[places], own.scale[places]))
        return self

    def _nodes(self, nodes: Any) -> list[Any]:
        """Labels of nodes: all that the model's sites have, if they are left out."""
        if nodes is not None:
            return list(nodes)
        every = self.model_._labels.labels(self.model_._labels.numbers())
        return [node for name, node in every if name == self.quantities_[0]]

    def _pairs(self, nodes: list[Any]) -> list[tuple[str, Any]]:
        return [(name, node) for name in self.quantities_ for node in nodes]

    def _restored(self, nodes: list[Any], stamps: FloatArray, **arrays: FloatArray) -> Any:
        """Results (Q a, b, ...) in the form of the data, by quantity."""
        panel = replace(self.model_.panel_, given=self._form)
        parts: dict[str, Any] = {}
        a = len(nodes)
        for q, name in enumerate(self.quantities_):
            own = {key: values[q * a : (q + 1) * a] for key, values in arrays.items()}
            parts[name] = panel.restored(nodes, stamps, **own)
        if not self._is_dataset:
            return parts
        import xarray as xr

        named = xr.DataArray(list(parts), dims=["quantity"], name="quantity")
        return xr.concat(list(parts.values()), named)

    def _units(self, a: int) -> tuple[FloatArray, FloatArray]:
        """Offset and scale (Q a, 1) of a nodes of each quantity."""
        own = self._own
        return np.repeat(own.offset, a)[:, None], np.repeat(own.scale, a)[:, None]

    def predict(
        self, nodes: Any = None, times: Any = None, return_std: bool = False, *,
        latent: bool = False,
    ) -> Any:  # fmt: skip
        """Predictive law of all quantities at nodes and times.

        Parameters
        ----------
        nodes
            Labels (a,); None: all nodes of the graph.
        times
            Times (b,); None: the times of the fit. Later times are forecasts.
        return_std
            Also return the standard deviation.
        latent
            Leave the noise out.

        Returns
        -------
        Any
            A dictionary of quantities, each in the form of its data as `GraphTimeGPRegressor`
            returns it; of a Dataset one with the dimension `quantity`.
        """
        labels = self._nodes(nodes)
        grid = self.model_.grid(self._pairs(labels), times)
        mean, std = self.model_.law_on_grid(grid.sites, grid.times, return_std, latent=latent)
        offset, scale = self._units(len(labels))
        found = {"mean": offset + scale * mean}
        if std is not None:
            found["std"] = scale * std
        return self._restored(labels, grid.times, **found)

    def forecast(
        self, ahead: Any, nodes: Any = None, return_std: bool = True, *,
        budget: float | str | None = None,
    ) -> Any:  # fmt: skip
        """Predictive law of all quantities after the last time, as `predict`.

        `ahead` and `budget` are those of `GraphTimeGPRegressor.forecast`; nodes are those with a
        sensor of some quantity if they are left out.
        """
        labels = self.nodes_ if nodes is None else list(nodes)
        count = len(labels) * len(self.quantities_)
        stamps = self.model_.times_ahead(ahead, budget, count, return_std)
        return self.predict(labels, self.model_.time_axis_.labels(stamps), return_std)

    @property
    def nodes_(self) -> list[Any]:
        """Labels of the nodes with a sensor of some quantity."""
        check_is_fitted(self, "model_")
        return list(dict.fromkeys(node for _, node in self.model_.nodes_))

    def predict_interval(self, nodes: Any = None, times: Any = None, level: float = 0.95) -> Any:
        """Central intervals that hold an observation with a probability: `lower` and `upper`."""
        if not 0.0 < level < 1.0:
            raise InvalidInputError(f"level: expected a number between 0 and 1, got {level!r}")
        labels = self._nodes(nodes)
        grid = self.model_.grid(self._pairs(labels), times)
        wanted = [(1.0 - level) / 2, (1.0 + level) / 2]
        ends = self.model_.quantiles_on_grid(grid.sites, grid.times, wanted)
        offset, scale = self._units(len(labels))
        return self._restored(
            labels, grid.times, lower=offset + scale * ends[..., 0],
            upper=offset + scale * ends[..., 1],
        )  # fmt: skip

    def sample_y(
        self, nodes: Any = None, times: Any = None, n_samples: int = 1, random_state: Any = 0, *,
        latent: bool = False,
    ) -> Any:  # fmt: skip
        """Draws (a, b, n_samples) of each quantity, joint over quantities, nodes and times."""
        labels = self._nodes(nodes)
        grid = self.model_.grid(self._pairs(labels), times)
        drawn = np.asarray(
            self.model_.sample_y(
                grid.labels, self.model_.time_axis_.labels(grid.times), n_samples, random_state,
                latent=latent,
            )
        )  # fmt: skip
        offset, scale = self._units(len(labels))
        return self._restored(
            labels, grid.times, sample=offset[..., None] + scale[..., None] * drawn
        )

    def leave_one_sensor_out(self) -> dict[str, SensorTable]:
        """Laws of each sensor of a quantity given all others, with scores, by quantity.

        Other quantities at its node are others. Scores are in units of the quantity.
        """
        table = self.model_.leave_one_sensor_out()
        own, found = self._own, {}
        for q, name in enumerate(own.names):
            rows = [k for k, (quantity, _) in enumerate(table.node) if quantity == name]
            parts = {key: np.asarray(values)[rows] for key, values in vars(table).items()
                     if key != "node"}  # fmt: skip
            for key in IN_UNITS:
                parts[key] = parts[key] * own.scale[q]
            parts["mean"] = own.offset[q] + own.scale[q] * parts["mean"]
            parts["nlpd"] = parts["nlpd"] + np.log(own.scale[q])
            found[name] = SensorTable(node=[table.node[k][1] for k in rows], **parts)
        return found


def panels_of(data: Any, nodes: Any, times: Any) -> dict[str, Panel]:
    """Values of each quantity over one axis of times.

    Raises
    ------
    InvalidInputError
        Data are neither a Dataset nor a dictionary, or times differ.
    """
    if hasattr(data, "data_vars"):
        given = {str(name): data[name] for name in data.data_vars}
    elif isinstance(data, Mapping):
        given = {str(name): values for name, values in data.items()}
    else:
        raise InvalidInputError(
            "data: expected a Dataset or a dictionary of quantities, such as {'speed': speeds, "
            f"'flow': flows}}, got {type(data).__name__}"
        )
    panels = {}
    for name, values in given.items():
        if hasattr(values, "dims") or hasattr(values, "iloc"):
            panels[name] = read_panel(values, (), None, None, None)
        else:
            panels[name] = read_panel(nodes, (), times, values, None)
    first = next(iter(panels.values()), None)
    for name, panel in panels.items():
        assert first is not None
        same = panel.axis.values.shape == first.axis.values.shape
        if not (same and list(panel.axis.texts(panel.axis.values))
                == list(first.axis.texts(first.axis.values))):  # fmt: skip
            raise InvalidInputError(
                f"data[{name!r}]: expected the same times as {next(iter(panels))!r}, got others; "
                "NaN is a gap"
            )
    return panels


def _joined(panels: dict[str, Panel], offset: FloatArray, scale: FloatArray) -> Panel:
    """One panel of standardised values, whose nodes are (quantity, node)."""
    first = next(iter(panels.values()))
    values = [(panel.values - offset[q]) / scale[q] for q, panel in enumerate(panels.values())]
    labels = [(name, node) for name, panel in panels.items() for node in panel.nodes]
    return Panel(labels, first.axis, np.concatenate(values), None)
