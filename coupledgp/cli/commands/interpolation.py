"""The model that `coupledgp interpolate` chooses: a field, or a kernel on the nodes of a graph."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import typer

from coupledgp.cli.commands.field_files import check_output
from coupledgp.cli.commands.field_run import FieldOptions, noted
from coupledgp.cli.readers.domains import Domain, DomainOptions, is_mesh, read_domain
from coupledgp.cli.readers.places import PlaceOptions
from coupledgp.cli.readers.tables import check_table_path
from coupledgp.errors import InvalidInputError
from coupledgp.ground.progress import reporter
from coupledgp.ground.validation import check_choice
from coupledgp.kernels import available_graph_kernels
from coupledgp.kernels.fields import NAMES

CHOICES = ("auto", "field", "graph")
# Options that only one of the models has.
GRAPH_OPTIONS = (
    "signal", "hide", "weight", "undirected", "keep_isolated", "n_walks", "coupling", "kl_target",
    "length_law", "p_halt", "exact_hops", "method", "budget", "exact_nodes",
    "face_weights",
)  # fmt: skip
FIELD_OPTIONS = (
    "place_columns", "max_edge", "layer", "crs", "baselines", "loo", "at", "query",
)  # fmt: skip


def chosen_domain(context: typer.Context, remarks: list[str]) -> Domain | None:
    """The surface or network of a field; None if the model is one of a graph.

    Warnings of the reading are added to `remarks`.

    Raises
    ------
    InvalidInputError
        The model or the kernel is unknown or lacks an option that was given, or the input cannot
        be read.
    """
    options = context.params
    model = check_choice(options["model"], CHOICES, "--model")
    of_graph = [name for name in GRAPH_OPTIONS if _is_given(context, name)]
    of_field = [name for name in FIELD_OPTIONS if _is_given(context, name)]
    for other, names in (("field", of_graph), ("graph", of_field)):
        if model == other and names:
            wanted = "graph" if other == "field" else "field"
            raise InvalidInputError(
                f"{_option(names[0])}: expected --model {wanted} beside it, got {model}"
            )
    if of_graph and of_field:
        raise InvalidInputError(
            f"{_option(of_graph[0])}, {_option(of_field[0])}: expected one of them, as the one is "
            "of graphs and the other of fields"
        )
    of_graphs = ("auto", *available_graph_kernels())
    kernel = check_choice(options["kernel"], {*NAMES, *of_graphs}, "--kernel")
    if model == "graph" or of_graph or (kernel not in NAMES and not of_field and model == "auto"):
        check_choice(kernel, of_graphs, "--kernel")
        return None
    check_choice(kernel, NAMES, "--kernel")
    _check_files(options)
    with noted(remarks), reporter("read"):
        domain = read_domain(options["graph"], _domain_options(options))
    if domain is None and (of_field or model == "field" or kernel == "position"):
        raise InvalidInputError(
            f"{options['graph']}: expected lengths of the edges for a field, got none (--length "
            "names their column or attribute)"
        )
    return domain


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _is_given(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def _check_files(options: dict[str, Any]) -> None:
    """Refuse outputs of unknown formats before anything is read."""
    check_output(options["output"], is_mesh(options["graph"]))
    if options["loo"] is not None:
        check_table_path(options["loo"], "--loo")
    if options["nodes"] is not None:
        check_choice(options["nodes"], ("faces", "vertices"), "--nodes")
        if not is_mesh(options["graph"]):
            raise InvalidInputError(f"--nodes: expected it for a mesh only, got {options['graph']}")


def _domain_options(options: dict[str, Any]) -> DomainOptions:
    return DomainOptions(
        options["length"], options["max_edge"], options["positions"],
        "node" if options["node_column"] is None else options["node_column"],
        options["layer"], options["crs"],
    )  # fmt: skip


def field_options(context: typer.Context, share: float) -> FieldOptions:
    """The options of a field, of which a share of the places is hidden."""
    options = context.params
    columns = options["place_columns"]
    names = () if columns is None else tuple(name.strip() for name in columns.split(","))
    baselines = options["baselines"]
    values: Path = options["values"]
    return FieldOptions(
        graph=options["graph"],
        output=options["output"],
        values=values,
        query=options["query"],
        loo=options["loo"],
        report=options["report"],
        places=PlaceOptions(options["node_column"], options["nodes"], names),
        value_column=options["value_column"],
        at=options["at"],
        kernel=options["kernel"],
        share=share,
        seed=options["seed"],
        baselines=options["report"] is not None if baselines is None else baselines,
        latent=options["latent"],
        as_json=options["as_json"],
    )
