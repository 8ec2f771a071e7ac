"""`coupledgp interpolate`: from values at some places to a law at every place."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coupledgp.cli.commands.fit import MODEL_PANEL, OUTPUT_PANEL
from coupledgp.cli.commands.series_options import (
    Forecast,
    LeaveOneSensorOut,
    OutlierChoice,
    Periods,
    Resolution,
    SaveModel,
    SensorNoise,
    TimeColumn,
    TimeKernel,
    Times,
    Update,
    Window,
    Zone,
    check_together,
    one_value_column,
)
from coupledgp.cli.options import check_distinct, path
from coupledgp.errors import InvalidInputError

DEFAULT_HIDDEN = 0.05
FIELD_PANEL = "Field"
GRAPH = typer.Argument(
    metavar="GRAPH",
    help="Mesh, roads (GeoPackage, GeoJSON, shapefile, GraphML, GML), edge table (CSV, Parquet), "
    "or a mesh such as icosphere.",
    show_default=False,
    parser=path,
)


def interpolate(
    context: typer.Context,
    graph: Annotated[Path, GRAPH],
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o",
            help=".csv, .parquet; of a mesh .vtu, .vtk, .ply, .glb; of roads .gpkg, .geojson; "
            "over time .nc, .zarr.",
            rich_help_panel=OUTPUT_PANEL, show_default=False,
            parser=path,
        ),
    ],
    values: Annotated[
        Path | None,
        typer.Option(
            help="Table of values by x, y, z, or vertex, or face; on roads by node, or edge and "
            "offset, or x and y, or longitude and latitude.",
            show_default=False,
            parser=path,
        ),
    ] = None,
    node_column: Annotated[
        str | None,
        typer.Option(help="Column of nodes. \\[default: node]", show_default=False),
    ] = None,
    place_columns: Annotated[
        str | None,
        typer.Option(help="Columns of positions, such as px,py,pz.", rich_help_panel=FIELD_PANEL,
                     show_default=False),
    ] = None,
    value_column: Annotated[
        list[str] | None,
        typer.Option(
            help="Column of values, several of them over time. \\[default: value, or the only "
            "other]",
            show_default=False,
        ),
    ] = None,
    holdout: Annotated[
        float, typer.Option(help="Share of the sensors hidden for scoring, with --values.")
    ] = 0.0,
    signal: Annotated[
        str | None,
        typer.Option(help="Self-test on a mesh: normal-z, instead of --values.",
                     show_default=False),
    ] = None,
    hide: Annotated[
        float | None,
        typer.Option(
            help=f"Share of the nodes hidden, with --signal. \\[default: {DEFAULT_HIDDEN}]",
            show_default=False,
        ),
    ] = None,
    nodes: Annotated[
        str | None,
        typer.Option(
            help="Of a mesh: what a column node numbers, faces or vertices. "
            "\\[default: faces, with --model graph] Over time: where to predict, all, sensors, "
            "labels with commas between, or a table with a column node.",
            show_default=False,
        ),
    ] = None,
    weight: Annotated[
        str | None,
        typer.Option(help="Column or edge attribute of weights. \\[default: weight, if there]",
                     show_default=False),
    ] = None,
    length: Annotated[
        str | None,
        typer.Option(
            help="Column or edge attribute of lengths. \\[default: length, length_m or length_km, "
            "if there]",
            show_default=False,
        ),
    ] = None,
    face_weights: Annotated[
        str,
        typer.Option(
            help="Of a graph of faces: unit, inverse-distance of centroids, or auto, by evidence.",
            rich_help_panel=MODEL_PANEL,
        ),
    ] = "auto",
    undirected: Annotated[
        bool, typer.Option("--undirected", help="Drop the directions of a directed graph.")
    ] = False,
    keep_isolated: Annotated[
        bool,
        typer.Option("--keep-isolated", help="Allow nodes without edge and value; they get "
                     "the prior."),
    ] = False,
    positions: Annotated[
        Path | None,
        typer.Option(help="Table of node, x, y (or longitude, latitude) of an edge table.",
                     show_default=False, parser=path),
    ] = None,
    model: Annotated[
        str,
        typer.Option(
            help="field (surfaces, and networks with lengths), graph (a kernel on the nodes of a "
            "graph), or auto: graph for --signal, without lengths, or with an option that only "
            "graphs have.",
            rich_help_panel=MODEL_PANEL,
        ),
    ] = "auto",
    kernel: Annotated[
        str,
        typer.Option(
            help="auto (by evidence), matern or position of a field; of a graph also heat, "
            "regularized-laplacian, random-walk, inverse-cosine or learned.",
            rich_help_panel=MODEL_PANEL,
        ),
    ] = "auto",
    max_edge: Annotated[
        str,
        typer.Option(
            help="Longest edge of the field's elements, in the unit of the file (roads: metres); "
            "auto or none.",
            rich_help_panel=FIELD_PANEL,
        ),
    ] = "auto",
    layer: Annotated[
        str | None,
        typer.Option(help="Layer of a file of roads.", rich_help_panel=FIELD_PANEL,
                     show_default=False),
    ] = None,
    crs: Annotated[
        str | None,
        typer.Option(help="Coordinate system of roads without one, such as EPSG:32633.",
                     rich_help_panel=FIELD_PANEL, show_default=False),
    ] = None,
    baselines: Annotated[
        bool | None,
        typer.Option(
            "--baselines/--no-baselines",
            help="Mean, nearest, harmonic and a GP of position beside the field. "
            "\\[default: with --report]",
            rich_help_panel=FIELD_PANEL, show_default=False,
        ),
    ] = None,
    loo: Annotated[
        Path | None,
        typer.Option(help="Write every sensor as the others predict it: .csv, .tsv, .parquet.",
                     rich_help_panel=FIELD_PANEL, show_default=False, parser=path),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            help="Where the field is written: vertices, faces or refined; of roads nodes or edges.",
            rich_help_panel=FIELD_PANEL, show_default=False,
        ),
    ] = None,
    query: Annotated[
        Path | None,
        typer.Option(help="Write the field at the places of this table instead.",
                     rich_help_panel=FIELD_PANEL, show_default=False, parser=path),
    ] = None,
    n_walks: Annotated[
        str,
        typer.Option(
            help="Walkers a node, or auto: as many as --kl-target takes.",
            rich_help_panel=MODEL_PANEL,
        ),
    ] = "32",
    coupling: Annotated[
        str,
        typer.Option(
            help="LENGTHS+STEPS with lengths iid, antithetic, sigma, stratified and steps "
            "independent, repelling, systematic.",
            rich_help_panel=MODEL_PANEL,
        ),
    ] = "stratified+systematic",
    kl_target: Annotated[
        float,
        typer.Option(
            help="For auto: KL to the exact GP, nats per node.", rich_help_panel=MODEL_PANEL
        ),
    ] = 0.01,
    length_law: Annotated[
        str, typer.Option(help="matched or geometric.", rich_help_panel=MODEL_PANEL)
    ] = "matched",
    p_halt: Annotated[
        float,
        typer.Option(help="Chance to halt, of the geometric law.", rich_help_panel=MODEL_PANEL),
    ] = 0.1,
    exact_hops: Annotated[
        str, typer.Option(help="auto or a number.", rich_help_panel=MODEL_PANEL)
    ] = "auto",
    method: Annotated[
        str,
        typer.Option(
            help="walks, or auto: exact where a factorisation costs less.",
            rich_help_panel=MODEL_PANEL,
        ),
    ] = "auto",
    budget: Annotated[
        str | None,
        typer.Option(
            help="Most that the fit may take, such as 90s or '5min, 6GB'; refused if it is more.",
            rich_help_panel=MODEL_PANEL, show_default=False,
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the walks, the split and the subsamples.")] = 0,
    exact_nodes: Annotated[
        int, typer.Option(help="Most nodes at which the exact GP is compared; 0 leaves it out.")
    ] = 500,
    latent: Annotated[
        bool,
        typer.Option("--latent", help="Leave the noise out of the standard deviation written.",
                     rich_help_panel=OUTPUT_PANEL),
    ] = False,
    time_column: TimeColumn = None,
    zone: Zone = None,
    resolution: Resolution = None,
    forecast: Forecast = None,
    times: Times = None,
    leave_one_sensor_out: LeaveOneSensorOut = None,
    time_kernel: TimeKernel = "matern-1/2",
    periods: Periods = None,
    outliers: OutlierChoice = None,
    sensor_noise: SensorNoise = "shared",
    save_model: SaveModel = None,
    update: Update = None,
    window: Window = None,
    report: Annotated[
        Path | None,
        typer.Option(
            help="Write an HTML page.", rich_help_panel=OUTPUT_PANEL, show_default=False,
            parser=path,
        ),
    ] = None,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="Print JSON instead of tables.", rich_help_panel=OUTPUT_PANEL),
    ] = False,
) -> None:  # fmt: skip
    """Check the options, choose the model and run it."""
    from coupledgp.cli.commands.interpolation import chosen_domain, field_options
    from coupledgp.ground.validation import check_positive_int

    share = _check_task(values, signal, hide, holdout)
    check_positive_int(seed, "--seed", minimum=0)
    check_distinct(
        {
            "--output": output, "--report": report, "--loo": loo, "--save-model": save_model,
            "--leave-one-sensor-out": leave_one_sensor_out,
        },
        [graph, values, positions, query, None if update == save_model else update],
    )  # fmt: skip
    if check_together(context):
        from coupledgp.cli.commands.series_run import run_series

        run_series(context.params)
        return
    context.params["value_column"] = one_value_column(value_column)
    remarks: list[str] = []
    domain = chosen_domain(context, remarks)
    if domain is None:
        from coupledgp.cli.commands.graph_run import run_graph

        run_graph(context.params, share)
    else:
        from coupledgp.cli.commands.field_run import run_field

        run_field(domain, field_options(context, share), remarks)


def _check_task(
    values: Path | None, signal: str | None, hide: float | None, holdout: float
) -> float:
    """Check the options of the task; return the share of the nodes to hide."""
    from coupledgp.ground.validation import check_choice

    if (values is None) == (signal is None):
        raise InvalidInputError(
            "--values, --signal: expected one of them, a table or (for a mesh) normal-z"
        )
    if signal is not None:
        check_choice(signal, ("normal-z",), "--signal")
    if hide is not None and signal is None:
        raise InvalidInputError("--hide: expected --signal beside it; --holdout is for --values")
    if holdout and values is None:
        raise InvalidInputError("--holdout: expected --values beside it; --hide is for --signal")
    name = "--hide" if signal is not None else "--holdout"
    share = holdout if signal is None else DEFAULT_HIDDEN if hide is None else hide
    if not 0 <= share < 1:
        raise InvalidInputError(f"{name}: expected a share from 0 to below 1, got {share:g}")
    return share
