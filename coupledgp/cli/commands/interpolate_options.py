"""Options of `coupledgp interpolate`, of graphs, of fields and of values over time."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from coupledgp.cli.shared.declare import (
    FIELD_PANEL,
    MODEL_PANEL,
    OUTPUT_PANEL,
    TIME_PANEL,
    Options,
    argument,
    option,
    required,
)
from coupledgp.errors import InvalidInputError

DEFAULT_HIDDEN = 0.05


@dataclass(frozen=True, kw_only=True)
class InterpolateOptions(Options):
    """Options of `coupledgp interpolate`."""

    graph: Path = argument(
        "GRAPH",
        "Mesh, roads (GeoPackage, GeoJSON, shapefile, GraphML, GML), edge table (CSV, Parquet), "
        "or a mesh such as icosphere.",
    )
    output: Path = required(
        ".csv, .parquet; of a mesh .vtu, .vtk, .ply, .glb; of roads .gpkg, .geojson; "
        "over time .nc, .zarr.",
        "--output",
        "-o",
        panel=OUTPUT_PANEL,
    )
    values: Path | None = option(
        "Table of values by x, y, z, or vertex, or face; on roads by node, or edge and "
        "offset, or x and y, or longitude and latitude."
    )
    node_column: str | None = option("Column of nodes. \\[default: node]")
    place_columns: str | None = option("Columns of positions, such as px,py,pz.", panel=FIELD_PANEL)
    value_column: list[str] | None = option(
        "Column of values, several of them over time. \\[default: value, or the only other]"
    )
    holdout: float = option("Share of the sensors hidden for scoring, with --values.", default=0.0)
    signal: str | None = option("Self-test on a mesh: normal-z, instead of --values.")
    hide: float | None = option(
        f"Share of the nodes hidden, with --signal. \\[default: {DEFAULT_HIDDEN}]"
    )
    nodes: str | None = option(
        "Of a mesh: what a column node numbers, faces or vertices. "
        "\\[default: faces, with --model graph] Over time: where to predict, all, sensors, "
        "labels with commas between, or a table with a column node."
    )
    weight: str | None = option(
        "Column or edge attribute of weights. \\[default: weight, if there]"
    )
    length: str | None = option(
        "Column or edge attribute of lengths. \\[default: length, length_m or length_km, if there]"
    )
    face_weights: str = option(
        "Of a graph of faces: unit, inverse-distance of centroids, or auto, by evidence.",
        default="auto",
        panel=MODEL_PANEL,
    )
    undirected: bool = option("Drop the directions of a directed graph.", default=False)
    keep_isolated: bool = option(
        "Allow nodes without edge and value; they get the prior.", default=False
    )
    positions: Path | None = option(
        "Table of node, x, y (or longitude, latitude) of an edge table."
    )
    model: str = option(
        "field (surfaces, and networks with lengths), graph (a kernel on the nodes of a "
        "graph), or auto: graph for --signal, without lengths, or with an option that only "
        "graphs have.",
        default="auto",
        panel=MODEL_PANEL,
    )
    kernel: str = option(
        "auto (by evidence), matern or position of a field; of a graph also heat, "
        "regularized-laplacian, random-walk, inverse-cosine or learned.",
        default="auto",
        panel=MODEL_PANEL,
    )
    likelihood: str = option(
        "Law of the values: gaussian, student-t, poisson or negative-binomial (counts), gamma "
        "(positive), beta (shares), ordinal. Values that are texts are classes.",
        default="gaussian",
        panel=MODEL_PANEL,
    )
    max_edge: str = option(
        "Longest edge of the field's elements, in the unit of the file (roads: metres); "
        "auto or none.",
        default="auto",
        panel=FIELD_PANEL,
    )
    columns: Path | None = option(
        "Table of what the field may depend on beside the place, such as thickness, material or "
        "lanes: a row of each vertex or face, or of each node or edge, in the order of GRAPH.",
        panel=FIELD_PANEL,
    )
    layer: str | None = option("Layer of a file of roads.", panel=FIELD_PANEL)
    crs: str | None = option(
        "Coordinate system of roads without one, such as EPSG:32633.", panel=FIELD_PANEL
    )
    baselines: bool | None = option(
        "Mean, nearest, harmonic and a GP of position beside the field. \\[default: with --report]",
        "--baselines/--no-baselines",
        panel=FIELD_PANEL,
    )
    loo: Path | None = option(
        "Write every sensor as the others predict it: .csv, .tsv, .parquet.", panel=FIELD_PANEL
    )
    at: str | None = option(
        "Where the field is written: vertices, faces or refined; of roads nodes or edges.",
        panel=FIELD_PANEL,
    )
    query: Path | None = option(
        "Write the field at the places of this table instead.", panel=FIELD_PANEL
    )
    n_walks: str = option(
        "Walkers a node, or auto: as many as --kl-target takes.", default="32", panel=MODEL_PANEL
    )
    coupling: str = option(
        "LENGTHS+STEPS with lengths iid, antithetic, sigma, stratified and steps "
        "independent, repelling, systematic.",
        default="stratified+systematic",
        panel=MODEL_PANEL,
    )
    kl_target: float = option(
        "For auto: KL to the exact GP, nats per node.", default=0.01, panel=MODEL_PANEL
    )
    length_law: str = option("matched or geometric.", default="matched", panel=MODEL_PANEL)
    p_halt: float = option("Chance to halt, of the geometric law.", default=0.1, panel=MODEL_PANEL)
    exact_hops: str = option("auto or a number.", default="auto", panel=MODEL_PANEL)
    method: str = option(
        "walks, or auto: exact where a factorisation costs less.", default="auto", panel=MODEL_PANEL
    )
    budget: str | None = option(
        "Most that the fit may take, such as 90s or '5min, 6GB'; refused if it is more.",
        panel=MODEL_PANEL,
    )
    further: list[str] | None = option(
        "Any other parameter of the model as NAME=VALUE, such as solver=dense; may be repeated.",
        "--set",
        panel=MODEL_PANEL,
        metavar="NAME=VALUE",
    )
    seed: int = option("Of the walks, the split and the subsamples.", default=0)
    exact_nodes: int = option(
        "Most nodes at which the exact GP is compared; 0 leaves it out.", default=500
    )
    latent: bool = option(
        "Leave the noise out of the standard deviation written.", default=False, panel=OUTPUT_PANEL
    )
    time_column: str | None = option(
        "Column of times (timestamps or numbers) of --values; of NetCDF and Zarr the "
        "dimension. Predicts over time.",
        panel=TIME_PANEL,
    )
    zone: str | None = option(
        "Time zone of times without one, and of what is written: Europe/Paris.", panel=TIME_PANEL
    )
    resolution: str | None = option(
        "Round times to this duration, such as 5min, and average what meets.", panel=TIME_PANEL
    )
    forecast: str | None = option(
        "Also predict the steps of this duration after the last time: 1h.", panel=TIME_PANEL
    )
    times: str | None = option(
        "Predict at FIRST:LAST:STEP instead of the times of the values.", panel=TIME_PANEL
    )
    leave_one_sensor_out: Path | None = option(
        "Write the scores of every sensor as the others predict it: .csv, .parquet.",
        panel=TIME_PANEL,
    )
    time_kernel: str = option(
        "matern-1/2, matern-3/2, or auto, by evidence.", default="matern-1/2", panel=TIME_PANEL
    )
    periods: str | None = option(
        "Without effect, and to be removed: see --usual-day.", panel=TIME_PANEL
    )
    usual_day: str = option(
        "yes, no or auto: values are about a usual day, where days foretell each other.",
        default="auto",
        panel=TIME_PANEL,
    )
    dynamics: str = option(
        "yes, no or auto: an autoregression fills gaps and forecasts, where it foretells better.",
        default="auto",
        panel=TIME_PANEL,
    )
    covariates: list[Path] | None = option(
        "Table of what the values may depend on, such as rain (a row of each time), lanes (of each "
        "node) or both, named as in --values; later times serve --forecast. May be repeated.",
        panel=TIME_PANEL,
    )
    outliers: str | None = option(
        "reject: leave out values more than 4 standard deviations from their law given the "
        "others; student-t: weights.",
        panel=TIME_PANEL,
    )
    sensor_noise: str = option(
        "shared, or own noise of each sensor.", default="shared", panel=TIME_PANEL
    )
    save_model: Path | None = option(
        "Write the fitted model, which --update goes on with.", panel=TIME_PANEL
    )
    update: Path | None = option(
        "A model that --save-model wrote: rows later than its last time are added, "
        "hyperparameters are kept.",
        panel=TIME_PANEL,
    )
    window: str | None = option(
        "Duration of the past that --update keeps, such as 2D.", panel=TIME_PANEL
    )
    report: Path | None = option("Write an HTML page.", panel=OUTPUT_PANEL)
    as_json: bool = option(
        "Print JSON instead of tables.", "--json", default=False, panel=OUTPUT_PANEL
    )

    @property
    def share(self) -> float:
        """Share of the places that is hidden.

        Raises
        ------
        InvalidInputError
            The share is none, or options of the task contradict each other.
        """
        self._check_task()
        name = "--hide" if self.signal is not None else "--holdout"
        hidden = DEFAULT_HIDDEN if self.hide is None else self.hide
        share = self.holdout if self.signal is None else hidden
        if not 0 <= share < 1:
            raise InvalidInputError(f"{name}: expected a share from 0 to below 1, got {share:g}")
        return share

    def _check_task(self) -> None:
        if (self.values is None) == (self.signal is None):
            raise InvalidInputError(
                "--values, --signal: expected one of them, a table or (for a mesh) normal-z"
            )
        if self.signal not in (None, "normal-z"):
            raise InvalidInputError(f"--signal: expected one of 'normal-z'; got {self.signal!r}")
        if self.hide is not None and self.signal is None:
            raise InvalidInputError(
                "--hide: expected --signal beside it; --holdout is for --values"
            )
        if self.holdout and self.values is None:
            raise InvalidInputError(
                "--holdout: expected --values beside it; --hide is for --signal"
            )

    @property
    def one_value_column(self) -> str | None:
        """The column of values without times, of which there is one."""
        given = self.value_column
        if given is not None and len(given) > 1:
            raise InvalidInputError(
                f"--value-column: expected one, or --time-column beside several, got {len(given)}"
            )
        return given[0] if given else None
