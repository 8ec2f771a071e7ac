"""`coupledgp field`, `graph`, `forecast`: from values at some places to a law at every place."""

from __future__ import annotations

from dataclasses import replace

from coupledgp.cli.commands.interpolate_options import InterpolateOptions
from coupledgp.cli.shared.options import check_distinct
from coupledgp.errors import InvalidInputError


def interpolate(options: InterpolateOptions) -> None:
    """Check the options, choose the model and run it."""
    from coupledgp.cli.commands.interpolation import chosen_domain  # slow, as all below
    from coupledgp.cli.readers.domains import is_mesh
    from coupledgp.cli.shared.domain import answer
    from coupledgp.ground.validation import check_positive_int

    _ = options.share  # refuses options that contradict each other
    check_positive_int(options.seed, "--seed", minimum=0)
    kept = options.update == options.save_model  # a file may be updated in its place
    check_distinct(
        {
            "--output": options.output, "--report": options.report,
            "--left-out": options.left_out, "--save-model": options.save_model,
        },
        [
            options.graph, options.values, options.positions, options.query,
            *(options.covariates or ()), None if kept else options.update,
        ],
    )  # fmt: skip
    if options.command == "field":
        if not is_mesh(options.graph):
            raise InvalidInputError(
                f"GRAPH: expected a mesh, got {str(options.graph)!r}; coupledgp graph takes roads, "
                "networks and edge tables"
            )
        options = replace(options, model="field")
    if options.command == "graph" and is_mesh(options.graph):
        options = replace(options, model="graph")
    answer(chosen_domain(options), options.as_json)
