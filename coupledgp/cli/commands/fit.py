"""`coupledgp fit`: from a table to a model, its scores and its distance from the exact GP."""

from __future__ import annotations

import json
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from coupledgp.cli.options import (
    COMPARISONS,
    SUBSET_ROWS,
    WHOLE_ROWS,
    check_distinct,
    path,
)
from coupledgp.diagnostics.limits import DENSE_ROWS
from coupledgp.errors import InvalidInputError

DEFAULT_HOLDOUT = 0.2
DATA = typer.Argument(
    metavar="DATA",
    help="CSV or Parquet file, or a folder of them.",
    show_default=False,
    parser=path,
)
MODEL_PANEL, OUTPUT_PANEL = "Model", "Output"


def fit(
    context: typer.Context,
    data: Annotated[Path, DATA],
    target: Annotated[
        str, typer.Option("--target", "-t", help="Column to predict.", show_default=False)
    ],
    test: Annotated[
        Path | None, typer.Option(help="File with test rows.", show_default=False, parser=path)
    ] = None,
    holdout: Annotated[
        float | None,
        typer.Option(
            help=f"Share of the rows held out for scoring, if no --test is given. "
            f"\\[default: {DEFAULT_HOLDOUT}]",
            show_default=False,
        ),
    ] = None,
    drop: Annotated[
        list[str] | None,
        typer.Option(help="Column to leave out; may be repeated.", show_default=False),
    ] = None,
    categorical: Annotated[
        list[str] | None,
        typer.Option(
            help="Column to read as categories, whatever it holds; may be repeated.",
            show_default=False,
        ),
    ] = None,
    numeric: Annotated[
        list[str] | None,
        typer.Option(
            help="Column to read as numbers: a text in it is an error; may be repeated.",
            show_default=False,
        ),
    ] = None,
    date: Annotated[
        list[str] | None,
        typer.Option(
            help="Column to read as dates in ISO 8601; may be repeated.", show_default=False
        ),
    ] = None,
    weight_column: Annotated[
        str | None,
        typer.Option(
            help="Column of weights: a row of weight 2 counts as two rows. No input.",
            show_default=False,
        ),
    ] = None,
    noise_column: Annotated[
        str | None,
        typer.Option(
            help="Column of known noise variances, in units of the target squared. No input.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            help="auto: an exact GP on few rows, else a mixture of local models, by what predicts "
            "rows that were left out; or exact, local, hybrid (local and features), features; or "
            "sparse-spectrum, which has the options below. \\[default: auto, or sparse-spectrum if "
            "one of those is given]",
            rich_help_panel=MODEL_PANEL,
            show_default=False,
        ),
    ] = None,
    budget: Annotated[
        float,
        typer.Option(
            help="Most seconds of one core that a fit of another model than sparse-spectrum may "
            "take, by its forecast.",
            rich_help_panel=MODEL_PANEL,
        ),
    ] = 600.0,
    kernel: Annotated[
        str,
        typer.Option(help="gaussian, matern-1/2, -3/2, -5/2 or -NU.", rich_help_panel=MODEL_PANEL),
    ] = "gaussian",
    features: Annotated[
        str, typer.Option(help="fourier or laplace.", rich_help_panel=MODEL_PANEL)
    ] = "fourier",
    n_frequencies: Annotated[
        str,
        typer.Option(
            help="Number of frequencies, or auto: as many as --kl-target takes.",
            rich_help_panel=MODEL_PANEL,
        ),
    ] = "256",
    coupling: Annotated[
        str,
        typer.Option(
            help="iid, halton, sobol, or DIRECTIONS+NORMS+antithetic with directions iid, "
            "orthogonal, simplex and norms pnc, monotone, stratified; or auto.",
            rich_help_panel=MODEL_PANEL,
        ),
    ] = "orthogonal+pnc",
    kl_target: Annotated[
        float,
        typer.Option(
            help="For auto: KL to the exact GP, nats per row.", rich_help_panel=MODEL_PANEL
        ),
    ] = 0.01,
    frequencies: Annotated[
        str,
        typer.Option(
            help="sampled from the kernel's spectrum, or fitted to the objective.",
            rich_help_panel=MODEL_PANEL,
        ),
    ] = "sampled",
    objective: Annotated[
        str,
        typer.Option(
            help="Of fitted frequencies: evidence, for prediction, or posterior-kl, for closeness "
            "to the exact GP.",
            rich_help_panel=MODEL_PANEL,
        ),
    ] = "evidence",
    target_transform: Annotated[
        str | None,
        typer.Option(
            help="log, box-cox, yeo-johnson or logit of the target, its shape fitted; auto: the "
            "one of greatest evidence, or none.",
            rich_help_panel=MODEL_PANEL,
            show_default=False,
        ),
    ] = None,
    ard: Annotated[
        bool,
        typer.Option(
            "--ard/--isotropic",
            help="One lengthscale a column, or one for all.",
            rich_help_panel=MODEL_PANEL,
        ),
    ] = True,
    dtype: Annotated[
        str, typer.Option(help="float64 or float32 features.", rich_help_panel=MODEL_PANEL)
    ] = "float64",
    device: Annotated[
        str,
        typer.Option(
            help="Where the model computes: cpu, cuda, cuda:1, or auto (a GPU where there is one). "
            "An exact model of --model auto is on the CPU.",
            rich_help_panel=MODEL_PANEL,
        ),
    ] = "cpu",
    max_iter: Annotated[
        int, typer.Option(help="Most iterations of the optimiser.", rich_help_panel=MODEL_PANEL)
    ] = 100,
    n_restarts: Annotated[
        int,
        typer.Option(help="Starts tried besides the best.", rich_help_panel=MODEL_PANEL),
    ] = 1,
    seed: Annotated[
        int, typer.Option(help="Of the frequencies, the split and the subsamples.")
    ] = 0,
    how: Annotated[
        str,
        typer.Option(
            "--compare",
            help="With the exact GP: dense or stochastic (iterative solves), the whole model; "
            f"subset, both on {SUBSET_ROWS} of the rows; none. auto: dense up to {DENSE_ROWS} "
            f"rows, stochastic up to {WHOLE_ROWS} (minutes; it says so), above them subset; for "
            "another model than sparse-spectrum none, unless there is a --report.",
        ),
    ] = "auto",
    exact_rows: Annotated[
        int | None,
        typer.Option(
            help="Most training rows the exact GP is given, a random subset; 0 leaves it out. "
            "\\[default: as --compare says]",
            show_default=False,
        ),
    ] = None,
    stream: Annotated[
        bool | None,
        typer.Option(
            "--stream/--in-memory",
            help="Read the file in batches, in memory that does not grow with its rows, and fit "
            "sparse-spectrum; or read it whole. \\[default: in batches where it is a folder, or a "
            "quarter of the free memory does not hold it]",
            show_default=False,
        ),
    ] = None,
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="Folder from which a fit in batches that was killed goes on; delete it after use.",
            show_default=False,
            parser=path,
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="Save the model.", rich_help_panel=OUTPUT_PANEL,
            show_default=False,
            parser=path,
        ),
    ] = None,
    include_data: Annotated[
        bool,
        typer.Option(
            "--include-data",
            help="Save the training rows with the model, for its exact twin.",
            rich_help_panel=OUTPUT_PANEL,
        ),
    ] = False,
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
    """Fit, score, compare, save and print."""
    from coupledgp.cli.commands.stream_tasks import fit_batches, refuse_options
    from coupledgp.cli.commands.table_models import chosen_name, make_model
    from coupledgp.cli.commands.table_tasks import fit_in_memory
    from coupledgp.cli.evaluate import Stopwatch
    from coupledgp.cli.readers.batches import wants_batches
    from coupledgp.cli.readers.files import about
    from coupledgp.cli.readers.kinds import forced_kinds
    from coupledgp.cli.show.table import fit_report
    from coupledgp.diagnostics.pages.terminal import print_report
    from coupledgp.ground.devices import parse_device
    from coupledgp.ground.output import written_whole
    from coupledgp.ground.validation import check_choice, check_positive, check_positive_int
    from coupledgp.models import save_model

    options = dict(context.params)
    name = chosen_name(context, model)
    if how == "auto" and name != "sparse-spectrum" and report is None:
        how = "none"  # what decides is how they predict, and it was measured already
    share = _check_holdout(test, holdout)
    check_choice(how, COMPARISONS, "--compare")
    if exact_rows is not None:
        check_positive_int(exact_rows, "--exact-rows", minimum=0)
    check_positive_int(seed, "--seed", minimum=0)
    check_positive(kl_target, "--kl-target")
    check_positive(budget, "--budget")
    parse_device(device, "--device")
    if report is not None and (how == "none" or exact_rows == 0):
        raise InvalidInputError(
            "--report: expected --exact-rows > 0 and a --compare other than "
            "none, the page compares models"
        )
    check_distinct({"--output": output, "--report": report}, [data, test])
    streams = wants_batches(data, stream)
    if streams:
        refuse_options(options)
        name = "sparse-spectrum"
        given = context.get_parameter_source("budget")
        options["stream_budget"] = budget if given is not None and given.name != "DEFAULT" else None
    elif checkpoint is not None:
        raise InvalidInputError(
            "--checkpoint: expected a file read in batches beside it (--stream)"
        )
    estimator = make_model(name, options)
    kinds = forced_kinds(categorical or [], numeric or [], date or [], target)
    with ExitStack() as stack, about(data, test):
        # Outputs that cannot be written are refused before the work, not after it.
        model_path = None if output is None else stack.enter_context(written_whole(output))
        page_path = None if report is None else stack.enter_context(written_whole(report))
        clock, comparison, overlap = Stopwatch(), None, None
        if streams:
            result, n_test = fit_batches(estimator, options, kinds, share, clock)
        else:
            result, n_test, comparison, overlap = fit_in_memory(
                estimator, options, kinds, share, clock, how
            )
        result["data"] |= {
            "path": str(data), "target": target, "test": None if test is None else str(test),
            "holdout": share, "n_test": n_test,
        }  # fmt: skip
        result["overlap"] = None if overlap is None else asdict(overlap)
        result["output"] = None if output is None else str(output)
        if model_path is not None:
            save_model(estimator, model_path, include_data=include_data)
        if page_path is not None and comparison is not None:
            fit_report(result, comparison).to_html(page_path)
    from coupledgp.ground.validation import json_values

    warnings = () if overlap is None else overlap.warnings
    if as_json:
        print(json.dumps(json_values(result), indent=2))
    else:
        print_report(fit_report(result, comparison, warnings))


def _check_holdout(test: Path | None, holdout: float | None) -> float:
    if test is not None and holdout is not None:
        raise InvalidInputError("--test, --holdout: expected at most one of them")
    share = DEFAULT_HOLDOUT if holdout is None else holdout
    if not 0 <= share < 1:
        raise InvalidInputError(f"--holdout: expected a share from 0 to below 1, got {share:g}")
    return 0.0 if test is not None else share
