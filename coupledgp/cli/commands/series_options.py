"""Which options of `coupledgp interpolate` go with values over time, and with one another."""

from __future__ import annotations

from coupledgp.cli.commands.interpolate_options import InterpolateOptions
from coupledgp.cli.readers.domains import DomainOptions
from coupledgp.cli.shared.declare import refuse

# Options that need --time-column.
OVER_TIME = (
    "zone", "resolution", "forecast", "times", "leave_one_sensor_out", "periods", "time_kernel",
    "usual_day", "dynamics", "outliers", "sensor_noise", "save_model", "update", "window",
    "covariates",
)  # fmt: skip
# Other options that go with it.
SHARED = (
    "graph", "output", "values", "node_column", "value_column", "nodes", "weight", "length",
    "undirected", "keep_isolated", "positions", "model", "kernel", "layer", "crs", "max_edge",
    "seed", "latent", "report", "as_json", "time_column", "further",
)  # fmt: skip
# Options that an update takes from the model file.
KEPT = (
    "kernel", "time_kernel", "periods", "usual_day", "dynamics", "outliers", "sensor_noise",
    "window", "seed", "model", "resolution",
)  # fmt: skip


def check_together(options: InterpolateOptions) -> bool:
    """Whether values are over time; refuse options of the other case.

    Raises
    ------
    InvalidInputError
        An option needs `--time-column`, or does not go with it or with `--update`.
    """
    over_time = options.time_column is not None
    if not over_time:
        refuse(options, OVER_TIME, "expected --time-column beside it")
        return False
    named = tuple(own.name for own in options.declared())
    others = tuple(name for name in named if name not in (*SHARED, *OVER_TIME))
    refuse(
        options, others, "expected no --time-column beside it, as it is not for values over time"
    )
    if options.update is not None:
        refuse(options, KEPT, "expected no --update beside it, as the model file has it")
    return True


def domain_options(options: InterpolateOptions) -> DomainOptions:
    """How a surface or network with lengths is read."""
    return DomainOptions(
        options.length, options.max_edge, options.positions, options.node_column or "node",
        options.layer, options.crs, options.columns,
    )  # fmt: skip
