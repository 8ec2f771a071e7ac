"""`coupledgp field`, `graph`, `forecast`: from values at some places to a law at every place."""

from __future__ import annotations

from dataclasses import replace

from coupledgp.cli.commands.interpolate_options import InterpolateOptions
from coupledgp.errors import InvalidInputError


def interpolate(options: InterpolateOptions) -> None:
    """Check the options, choose the model and run it."""
    from coupledgp.cli.commands.interpolation import chosen_domain  # slow, as all below
    from coupledgp.cli.readers.domains import is_mesh
    from coupledgp.cli.readers.networks import MESHES
    from coupledgp.cli.shared.domain import answer

    _ = options.share  # refuses options that contradict each other
    if options.command == "field":
        if not is_mesh(options.graph):
            raise InvalidInputError(
                f"GRAPH: expected a mesh, {', '.join(MESHES)}, got {str(options.graph)!r}; "
                "coupledgp graph takes roads, networks and edge tables"
            )
        options = replace(options, model="field")
    if options.command == "graph" and is_mesh(options.graph):
        options = replace(options, model="graph")
    answer(chosen_domain(options))
