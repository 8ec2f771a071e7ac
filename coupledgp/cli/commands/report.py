"""`coupledgp report`: one page on how good the posterior of a saved model is."""

from __future__ import annotations

from dataclasses import replace

from coupledgp.cli.commands.interpolate_options import ReportOptions
from coupledgp.cli.shared.options import (
    MAX_SOLVED_ROWS,
    MAX_TEST_ROWS,
    is_whole,
)
from coupledgp.errors import InvalidInputError
from coupledgp.ground.progress import reporter

# Options that say something of test rows.
OF_DATA = ("target", "couplings", "mesh", "positions", "leave_out_overlap", "how")


def report(options: ReportOptions) -> None:
    """Compare, write the page and print the figures."""
    max_rows = options.max_rows
    from coupledgp.cli.commands.predict_tasks import chosen, described, rows_at, test_data
    from coupledgp.cli.readers.files import about, read_model
    from coupledgp.cli.shared.declare import refuse
    from coupledgp.cli.shared.domain import write_page
    from coupledgp.cli.shared.evaluate import announce_solves, seen_by
    from coupledgp.diagnostics.compare import by_solves
    from coupledgp.diagnostics.scoring.overlap import overlap_of, without_overlap
    from coupledgp.ground.output import written_whole
    from coupledgp.models import posterior_report

    names = [name.strip() for name in options.couplings.split(",") if name.strip()]
    counts = _numbers(options.sizes)
    if counts and not names:
        raise InvalidInputError("--sizes: expected --couplings beside it")
    if options.groups_from is not None and options.groups is None:
        raise InvalidInputError("--groups-from: expected --groups with the column beside it")
    if options.data is None:
        refuse(options, OF_DATA, "expected DATA beside it, test rows or values")
        left_out(options)
        return
    if options.groups is not None:
        raise InvalidInputError("--groups: expected no DATA beside it: it groups the training rows")
    with about(*options.inputs), written_whole(options.output) as page:
        with reporter("read"):
            fitted = read_model(options.model)
            where, y, geometry, beside, target = test_data(fitted, options.data, options)
        solved = by_solves(fitted, method=options.how)
        if max_rows is None:
            max_rows = MAX_SOLVED_ROWS if solved else MAX_TEST_ROWS
        overlap, rows = overlap_of(fitted, where, y)
        if options.leave_out_overlap:
            overlap, where, y = without_overlap(overlap, rows, where, y)
            if overlap.left_out:
                beside = {name: values[~rows] for name, values in beside.items()}
        kept = chosen(len(y), max_rows, options.seed)
        if solved and hasattr(fitted, "X_train_"):
            announce_solves(len(fitted.y_train_), len(kept), "a smaller --max-rows takes less")
        result = posterior_report(
            fitted,
            rows_at(where, kept),
            y[kept],
            couplings=names,
            sizes=counts,
            n_draws=options.n_draws,
            random_state=options.seed,
            geometry=geometry,
            title=options.title or f"Posterior of {options.model.name} on {options.data.name}",
            data=described(options.data, len(kept), len(y)),
            method=options.how,
            metadata=seen_by(fitted, {name: values[kept] for name, values in beside.items()}),
        )
        if overlap.left_out:
            result = replace(result, overlap=overlap)
        write_page(options, page, result.with_target(target))


def left_out(options: ReportOptions) -> None:
    """Write the page on training rows as predicted from each other, and print the figures."""
    from coupledgp.cli.commands.latent_tasks import check_has_rows, groups_of
    from coupledgp.cli.readers.files import about, read_model
    from coupledgp.cli.shared.domain import write_page
    from coupledgp.diagnostics import cross_validate
    from coupledgp.ground.output import written_whole

    with about(*options.inputs), written_whole(options.output) as page:
        fitted = read_model(options.model)
        check_has_rows(fitted, options.model)
        labels = None
        if options.groups is not None:
            labels = groups_of(fitted, options.groups, options)
        result = cross_validate(
            fitted,
            labels,
            title=options.title or f"What {options.model.name} predicts of its own rows, left out",
            data=f"training rows of {options.model.name}",
            random_state=options.seed,
            **({} if options.max_rows is None else {"max_rows": options.max_rows}),
        )
        write_page(options, page, result)


def _numbers(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    for part in parts:
        if not is_whole(part) or int(part) < 1:
            raise InvalidInputError(f"--sizes: expected positive ints, got {part!r:.60}")
    return [int(part) for part in parts]
