"""Options of `coupledgp field`, `graph` and `forecast`; `interpolate` has them all.

Options of the commands that write a page on posteriors: `coupledgp report` and `audit`.

Which options of `coupledgp interpolate` go with values over time, and with one another.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from coupledgp.cli.shared.declare import (
    FIELD_PANEL,
    GRAPH_PANEL,
    MODEL_PANEL,
    ON_PLACES,
    OUTPUT_PANEL,
    TIME_PANEL,
    Options,
    argument,
    option,
    refuse,
    required,
)
from coupledgp.cli.shared.options import (
    MAX_SOLVED_ROWS,
    MAX_TEST_ROWS,
    at_least,
    check_page,
    one_of,
)
from coupledgp.diagnostics.limits import DENSE_ROWS
from coupledgp.errors import InvalidInputError

DEFAULT_HIDDEN = 0.05
# Weights of a graph of faces that the evidence chooses between, today's first.
FACE_WEIGHTS = ("unit", "inverse-distance")
PLACES, ROADS, TIMES = "field graph", "graph forecast", "forecast"
# Options that `interpolate` alone has; of graph models `--set` takes them too.
RARE = "interpolate"
ALL = f"{ON_PLACES} {RARE}"
# Parameters of models of a graph, and of those over time, which had options before `--set`.
OF_GRAPHS = (
    "n_walks", "coupling", "kl_target", "length_law", "p_halt", "exact_hops", "method", "budget",
)  # fmt: skip
OF_TIMES = ("usual_day",)


@dataclass(frozen=True, kw_only=True)
class InterpolateOptions(Options):
    """Options of all domains. Their panel is the model that has them, their `of` the commands."""

    graph: Path = argument(
        "GRAPH",
        "{field graph forecast: Mesh file}{graph forecast: , roads, network or edge table}"
        "{field: , or a mesh such as icosphere}.",
    )
    values: Path | None = option(
        "Table of values {field: at places or vertices}{graph: at nodes or places}{forecast: over "
        "time}."
    )
    value_column: list[str] | None = option(
        "Column of values. \\[default: value, or the only other]", "--target", "-t",
        old="--value-column",
    )  # fmt: skip
    place_columns: str | None = option(
        "Columns of positions. \\[default: {field: x,y,z}{graph: x,y or degrees}]", "--places",
        panel=FIELD_PANEL, of=PLACES, old="--place-columns",
    )  # fmt: skip
    nodes: str | None = option(
        "{field graph: Of a mesh: nodes are faces or vertices.}{forecast: Predicted: all, sensors, "
        "labels, or those of a table.}"
    )
    signal: str | None = option(
        f"Self-test on a mesh: normal-z, instead of --values; {DEFAULT_HIDDEN} are hidden.",
        panel=GRAPH_PANEL, of=RARE,
    )  # fmt: skip
    length: str | None = option(
        "Attribute of lengths. \\[default: length, length_m, length_km]", of=ROADS
    )
    positions: Path | None = option("Table of node, x, y of an edge table.", of=ROADS)
    model: str = option(
        "field (lengths), graph (nodes), or auto.",
        default="auto", panel=MODEL_PANEL, of=ROADS,
    )  # fmt: skip
    kernel: str = option(
        "auto (by evidence), matern{field: , position}{graph forecast: , heat, learned, "
        "random-walk, inverse-cosine, regularized-laplacian}.",
        default="auto", panel=MODEL_PANEL,
    )  # fmt: skip
    weight: str | None = option(
        "Attribute of weights. \\[default: weight]", panel=GRAPH_PANEL, of=ROADS
    )
    undirected: bool = option(
        "Without effect: directions are dropped.",
        default=False, panel=GRAPH_PANEL, of=RARE,
    )  # fmt: skip
    keep_isolated: bool = option(
        "Allow nodes without edge and value.", default=False, panel=GRAPH_PANEL, of=ROADS
    )
    face_weights: str = option(
        "Of a graph of faces: unit, inverse-distance of centroids, or auto, by evidence.",
        default="auto", panel=GRAPH_PANEL, of=RARE, check=one_of("auto", *FACE_WEIGHTS),
    )  # fmt: skip
    exact_nodes: int = option(
        "Nodes beside the exact GP; 0: none.", default=500, panel=GRAPH_PANEL, of="graph",
        check=at_least(0),
    )  # fmt: skip
    max_edge: str = option("Longest element, auto or none.", default="auto", panel=FIELD_PANEL)
    covariates: list[Path] | None = option(
        "Table of what values depend on{field: , by vertex, face}{graph: , by node, edge}.",
        panel=FIELD_PANEL, of=PLACES, old="--columns",
    )  # fmt: skip
    layer: str | None = option("Layer of a file of roads.", panel=FIELD_PANEL, of=ROADS)
    crs: str | None = option("Of roads that lack it, as EPSG:32633.", panel=FIELD_PANEL, of=ROADS)
    baselines: bool | None = option(
        "Simple models beside it. \\[default: with --report]", "--baselines/--no-baselines",
        panel=FIELD_PANEL, of=PLACES,
    )  # fmt: skip
    at: str | None = option(
        "Written at {field: vertices, faces, refined}{graph: nodes, edges}.",
        panel=FIELD_PANEL,
        of=PLACES,
    )
    query: Path | None = option(
        "Write at the places of this table instead.", panel=FIELD_PANEL, of=PLACES
    )
    left_out: Path | None = option(
        "Table of each sensor as the others predict it.", panel=FIELD_PANEL, ending=".csv",
        old="--loo --leave-one-sensor-out",
    )  # fmt: skip
    time_column: str | None = option("Column or dimension of times.", panel=TIME_PANEL, of=TIMES)
    zone: str | None = option("Time zone, as Europe/Paris.", panel=TIME_PANEL, of=TIMES)
    resolution: str | None = option(
        "Round times, as 5min, and average what meets.", panel=TIME_PANEL, of=TIMES
    )
    ahead: str | None = option(
        "Also predict this long after the last time, as 1h.", panel=TIME_PANEL, of=TIMES,
        old="--forecast",
    )  # fmt: skip
    times: str | None = option(
        "FIRST:LAST:STEP, instead of the values' times.", panel=TIME_PANEL, of=TIMES
    )
    save_model: Path | None = option(
        "Write the model, which --update goes on with.", panel=TIME_PANEL, of=TIMES,
        ending=".model",
    )  # fmt: skip
    update: Path | None = option(
        "Saved model, to which later rows are added.", panel=TIME_PANEL, of=TIMES
    )
    window: str | None = option("Past that --update keeps, as 2D.", panel=TIME_PANEL, of=TIMES)
    output: Path = required(
        ".csv, .parquet, .json{field: , .vtu, .ply, .glb}{graph: , .gpkg, .geojson}"
        "{forecast: , .nc, .zarr}, or -.",
        "--output", "-o", panel=OUTPUT_PANEL, ending=".csv",
    )  # fmt: skip

    @classmethod
    def renamed(cls, commands: str = "") -> dict[str, str]:
        folded = {"graph": OF_GRAPHS, "forecast": OF_TIMES, ALL: OF_GRAPHS + OF_TIMES}
        names = folded.get(commands, ())
        own = {f"--{name.replace('_', '-')}": f"--set {name}" for name in names}
        return super().renamed(commands) | own

    @property
    def inputs(self) -> list[Path]:
        """Files to read; a model that is updated in its place is an output."""
        return [path for path in super().inputs if path != self.update or path != self.save_model]

    @property
    def over_time(self) -> bool:
        """Whether values are over time."""
        return self.command == "forecast" or self.time_column is not None

    @property
    def share(self) -> float:
        """Share of the places that is hidden.

        Raises
        ------
        InvalidInputError
            Options of the task contradict each other.
        """
        if (self.values is None) == (self.signal is None):
            if self.command != ALL:
                raise InvalidInputError("--values: expected a table of values")
            raise InvalidInputError(
                "--values, --signal: expected one of them, a table or (for a mesh) normal-z"
            )
        if self.signal not in (None, "normal-z"):
            raise InvalidInputError(f"--signal: expected one of 'normal-z'; got {self.signal!r}")
        default = 0.0 if self.signal is None else DEFAULT_HIDDEN
        return default if self.holdout is None else self.holdout

    @property
    def one_value_column(self) -> str | None:
        """The column of values without times, of which there is one."""
        given = self.value_column
        if given is not None and len(given) > 1:
            raise InvalidInputError(
                f"--target: expected one, got {len(given)}; coupledgp forecast takes several "
                "columns of values over time"
            )
        return given[0] if given else None


@dataclass(frozen=True, kw_only=True)
class PageOptions(Options):
    """What both commands have."""

    output: Path = required(
        "HTML page to write.", "--output", "-o", ending=".html", check=check_page
    )
    max_rows: int | None = option(
        "At most so many test rows, drawn at random, are {audit: judged. \\[default: 5000; 1024 "
        "beside an exact GP, 128 of those that have to be solved for]}{report: compared. "
        f"\\[default: {MAX_TEST_ROWS}, or {MAX_SOLVED_ROWS} where they have to be solved for]}}",
        check=at_least(2),
    )
    how: str = option(
        "The exact GP: dense, stochastic (iterative solves), or auto: dense up to "
        f"{DENSE_ROWS} training rows.",
        "--compare", default="auto", check=one_of("auto", "dense", "stochastic"),
    )  # fmt: skip
    title: str | None = option("Heading of the page.")
    leave_out_overlap: bool = option("Leave out test rows that were trained on.", default=False)


@dataclass(frozen=True, kw_only=True)
class ReportOptions(PageOptions):
    """Options of `coupledgp report`."""

    model: Path = argument("MODEL", "File that fit --include-data wrote, or gp.save.")
    data: Path | None = argument(
        "[DATA]",
        "Test rows with the target, or nodes and values for a graph model; without it the "
        "training rows are left out, each as all others predict it.",
        default=None,
    )
    couplings: str = option(
        "Couplings to compare, with commas between; empty for none.", default=""
    )
    sizes: str = option(
        "Numbers of frequencies or walkers to compare, with commas between. "
        "\\[default: a quarter of the model's, its own and four times as many]",
        default="",
        shown=False,
    )
    n_draws: int = option("Draws of each coupling and size.", default=8, check=at_least(2))
    mesh: Path | None = option("Mesh whose faces or vertices are the nodes, for the picture.")
    positions: Path | None = option("Table of node, x, y, for the picture.")
    groups: str | None = option(
        "Without DATA: leave out training rows of one value together, of an input or of "
        "--groups-from.",
        metavar="COLUMN",
    )
    groups_from: Path | None = option(
        "Table with the training rows and the column of their groups.", metavar="TABLE"
    )


@dataclass(frozen=True, kw_only=True)
class AuditOptions(PageOptions):
    """Options of `coupledgp audit`."""

    train: Path | None = option(
        "Training rows with the target. \\[default: none, and neither an exact process]"
    )
    test: Path = required("Test rows with the target.")
    predictions: Path | None = option(
        "Table of predictions at the test rows; chance_LABEL of classes. \\[default: their own]"
    )
    mean_column: str = option("Column of the means.", default="mean")
    std_column: str = option("Column of the standard deviations of observations.", default="std")
    samples: bool = option("The columns of --predictions are draws, 8 or more.", default=False)
    quantiles: bool = option(
        "The columns of --predictions are quantiles, named by their chances.", default=False
    )
    id_column: str | None = option(
        "Column of both tables by which rows belong together. \\[default: their order]", "--id"
    )
    latent: bool = option("The predictions leave out the noise; it is added.", default=False)
    kernel: str | None = option("Kernel of the exact GP to compare with.")
    lengthscale: str = option("One, or one for each input with commas between.", default="")
    outputscale: float | None = option("Variance of the function.")
    noise: float | None = option("Variance of the noise.")
    mean: float | None = option("Mean of the process. \\[default: of the training rows]")
    model: Path | None = option(
        "Saved model whose kernel the exact GP takes.", "--from-model", old="--model"
    )


# Options that an update takes from the model file.
KEPT = (
    "kernel", *OF_TIMES, "window", "seed", "model", "resolution",
    "target_transform",
)  # fmt: skip


def check_together(options: InterpolateOptions) -> bool:
    """Whether values are over time; refuse options of the other case.

    Raises
    ------
    InvalidInputError
        An option needs `--time-column`, or does not go with it or with `--update`.
    """
    over_time = (*options.of_panel(TIME_PANEL), *OF_TIMES)
    if not options.over_time:
        refuse(options, over_time, "expected --time-column beside it")
        return False
    allowed = {own.name for own in options.declared(TIMES)} | {*over_time, "undirected"}
    others = tuple(own.name for own in options.declared() if own.name not in allowed)
    refuse(
        options,
        (*others, *OF_GRAPHS),
        "expected no --time-column beside it, as it is not for values over time",
    )  # fmt: skip
    if options.update is not None:
        refuse(options, KEPT, "expected no --update beside it, as the model file has it")
    return True
