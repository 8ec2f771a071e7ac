"""Which options of `coupledgp interpolate` go with values over time, and with one another."""

from __future__ import annotations

from coupledgp.cli.commands.interpolate_options import TIMES, InterpolateOptions
from coupledgp.cli.readers.domains import DomainOptions
from coupledgp.cli.shared.declare import TIME_PANEL, refuse

# Options that an update takes from the model file.
KEPT = (
    "kernel", "time_kernel", "periods", "usual_day", "dynamics", "outliers", "sensor_noise",
    "window", "seed", "model", "resolution", "target_transform",
)  # fmt: skip


def check_together(options: InterpolateOptions) -> bool:
    """Whether values are over time; refuse options of the other case.

    Raises
    ------
    InvalidInputError
        An option needs `--time-column`, or does not go with it or with `--update`.
    """
    over_time = options.of_panel(TIME_PANEL)
    if not options.over_time:
        refuse(options, over_time, "expected --time-column beside it")
        return False
    allowed = {own.name for own in options.declared(TIMES)} | {*over_time, "undirected"}
    others = tuple(own.name for own in options.declared() if own.name not in allowed)
    refuse(
        options, others, "expected no --time-column beside it, as it is not for values over time"
    )
    if options.update is not None:
        refuse(options, KEPT, "expected no --update beside it, as the model file has it")
    return True


def domain_options(options: InterpolateOptions) -> DomainOptions:
    """How a surface or network with lengths is read."""
    return DomainOptions(
        options.length, options.max_edge, options.positions, options.node_column,
        options.layer, options.crs, tuple(options.covariates or ()),
    )  # fmt: skip
