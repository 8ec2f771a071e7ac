"""Which options of `coupledgp interpolate` go with values over time, and with one another."""

from __future__ import annotations

from coupledgp.cli.commands.interpolate_options import (
    OF_GRAPHS,
    OF_TIMES,
    TIMES,
    InterpolateOptions,
)
from coupledgp.cli.shared.declare import TIME_PANEL, refuse

# Options that an update takes from the model file.
KEPT = (
    "kernel", *OF_TIMES, "outliers", "window", "seed", "model", "resolution",
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
