"""The model that `coupledgp interpolate` chooses: a field, or a kernel on the nodes of a graph."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from coupledgp.cli.commands.field_files import NETWORK_PLACES, SURFACE_PLACES, check_output
from coupledgp.cli.commands.field_run import FieldDomain
from coupledgp.cli.commands.graph_run import GraphDomain
from coupledgp.cli.commands.interpolate_options import OF_GRAPHS, InterpolateOptions, check_together
from coupledgp.cli.commands.latent_tasks import is_gaussian
from coupledgp.cli.commands.law_run import OF_GAUSSIAN, NodesUnderLaw
from coupledgp.cli.readers.domains import DomainOptions, SpatialDomain, is_mesh, read_domain
from coupledgp.cli.readers.guesses import is_name
from coupledgp.cli.readers.node_values import labels_or_numbers
from coupledgp.cli.readers.tables import check_table_path, read_table
from coupledgp.cli.shared.declare import FIELD_PANEL, GRAPH_PANEL, as_options, parameters_of, refuse
from coupledgp.cli.shared.domain import Domain, noted
from coupledgp.columns.arrow import is_text
from coupledgp.errors import InvalidInputError
from coupledgp.ground.progress import reporter
from coupledgp.ground.validation import check_choice
from coupledgp.kernels import available_graph_kernels
from coupledgp.kernels.fields import NAMES
from coupledgp.models import (
    FieldGPRegressor,
    GraphGPClassifier,
    GraphGPRegressor,
)

CHOICES = ("auto", "field", "graph")
# Options that only one of the models has.
GRAPH_OPTIONS = (*InterpolateOptions.of_panel(GRAPH_PANEL), *OF_GRAPHS)
FIELD_OPTIONS = InterpolateOptions.of_panel(FIELD_PANEL)


def chosen_domain(options: InterpolateOptions) -> Domain:
    """The domain of the options: values over time, a field, or the nodes of a graph.

    Raises
    ------
    InvalidInputError
        The model or the kernel is unknown or lacks an option that was given, or the input cannot
        be read.
    """
    if check_together(options):
        if not is_gaussian(options.likelihood):
            raise InvalidInputError(
                "--likelihood: expected gaussian beside --time-column; transforms of the values "
                "(--set target_transform=log) keep those over time positive"
            )
        from coupledgp.cli.commands.series_run import SeriesDomain  # xarray is slow

        return SeriesDomain(options)
    _ = options.one_value_column
    is_gaussian(options.likelihood)
    remarks: list[str] = []
    found = surface_or_roads(options, remarks)
    if found is None and not options.set_names & _own(GraphGPClassifier, GraphGPRegressor):
        if is_gaussian(options.likelihood):
            GraphDomain(options, remarks)  # refuses wrong options before values are read
        else:
            _check_parameters(GraphGPRegressor, options)
    if options.values is not None and is_under_law(options):
        refuse(options, OF_GAUSSIAN, "expected none for classes or beside --likelihood")
        if found is not None:
            raise InvalidInputError(
                "--values: expected numbers, and no --likelihood, for a field; classes and counts "
                "are of the nodes of a graph (--model graph)"
            )
        return NodesUnderLaw(options, remarks)
    return GraphDomain(options, remarks) if found is None else FieldDomain(found, options, remarks)


def is_under_law(options: InterpolateOptions) -> bool:
    """Whether values follow another law than a Gaussian one, or are texts of classes."""
    assert options.values is not None
    if not is_gaussian(options.likelihood):
        return True
    table = read_table(options.values)
    name = options.one_value_column or "value"
    if name not in table.column_names:
        node = options.node_column or "node"
        others = [own for own in table.column_names if own != node and not is_name(own)]
        name = others[0] if len(others) == 1 else name
    if name not in table.column_names or not is_text(table.column(name).type):
        return False
    return bool(
        labels_or_numbers(table.column(name), f"{options.values}: column {name!r}").dtype.kind
        == "U"
    )


def surface_or_roads(options: InterpolateOptions, remarks: list[str]) -> SpatialDomain | None:
    """The surface or network of a field; None if the model is one of a graph."""
    model = check_choice(options.model, CHOICES, "--model")
    of_graph, of_field = ([name for name in names if name in options.given | options.set_names]
                          for names in (GRAPH_OPTIONS, FIELD_OPTIONS))  # fmt: skip
    for other, names in (("field", GRAPH_OPTIONS), ("graph", FIELD_OPTIONS)):
        if model == other:
            wanted = "graph" if other == "field" else "field"
            refuse(options, names, f"expected --model {wanted} beside it, got {model}")
    if options.set_names & _own(GraphGPRegressor, FieldGPRegressor):
        of_graph.append("further")
    if of_graph and of_field:
        raise InvalidInputError(
            f"{options.spelled(of_graph[0])}, {options.spelled(of_field[0])}: expected one of "
            "them, as the one is of graphs and the other of fields"
        )
    of_graphs = ("auto", *available_graph_kernels())
    names = {"field": NAMES, "graph": of_graphs}.get(model, (*NAMES, *of_graphs))
    kernel = check_choice(options.kernel, {*names}, "--kernel")
    if model == "graph" or of_graph or (kernel not in NAMES and not of_field and model == "auto"):
        check_choice(kernel, of_graphs, "--kernel")
        return None
    check_choice(kernel, NAMES, "--kernel")
    _check_files(options)
    _check_parameters(FieldGPRegressor, options)
    with noted(remarks), reporter("read"):
        found = read_domain(options.graph, options.part(DomainOptions))
    if found is None and (of_field or model == "field" or kernel == "position"):
        raise InvalidInputError(
            f"{options.graph}: expected lengths of the edges for a field, got none (--length "
            "names their column or attribute)"
        )
    return found


def _own(kind: type[Any], other: type[Any]) -> set[str]:
    """Parameters of an estimator that another one has not."""
    return {one.name for one in fields(kind)} - {one.name for one in fields(other)}


def _check_parameters(kind: type[Any], options: InterpolateOptions) -> None:
    """Refuse wrong parameters of a regressor, before data are read."""
    own = parameters_of(kind, options)
    if kind is GraphGPRegressor:
        own["likelihood"] = options.likelihood
    with as_options(options):
        kind(None, options.kernel, **own).check_parameters()


def _check_files(options: InterpolateOptions) -> None:
    """Refuse outputs of unknown formats before anything is read."""
    check_output(options.output, is_mesh(options.graph))
    if options.left_out is not None:
        check_table_path(options.left_out, "--left-out")
    if options.at is not None:
        places = SURFACE_PLACES if is_mesh(options.graph) else NETWORK_PLACES
        check_choice(options.at, places, "--at")
    if options.nodes is not None:
        check_choice(options.nodes, ("faces", "vertices"), "--nodes")
        if not is_mesh(options.graph):
            raise InvalidInputError(f"--nodes: expected it for a mesh only, got {options.graph}")
