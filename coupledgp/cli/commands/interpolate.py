"""`coupledgp interpolate`: from values at some places to a law at every place."""

from __future__ import annotations

from coupledgp.cli.commands.interpolate_options import InterpolateOptions
from coupledgp.cli.shared.options import check_distinct


def interpolate(options: InterpolateOptions) -> None:
    """Check the options, choose the model and run it."""
    from coupledgp.cli.commands.interpolation import chosen_domain  # slow, as all below
    from coupledgp.cli.shared.domain import answer
    from coupledgp.ground.validation import check_positive_int

    _ = options.share  # refuses options that contradict each other
    check_positive_int(options.seed, "--seed", minimum=0)
    kept = options.update == options.save_model  # a file may be updated in its place
    check_distinct(
        {
            "--output": options.output, "--report": options.report, "--loo": options.loo,
            "--save-model": options.save_model,
            "--leave-one-sensor-out": options.leave_one_sensor_out,
        },
        [
            options.graph, options.values, options.positions, options.query,
            None if kept else options.update,
        ],
    )  # fmt: skip
    answer(chosen_domain(options), options.as_json)
