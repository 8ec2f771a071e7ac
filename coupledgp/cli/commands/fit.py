"""`coupledgp fit`: from a table to a model, its scores and its distance from the exact GP."""

from __future__ import annotations

from coupledgp.cli.commands.table_options import FitOptions


def fit(options: FitOptions) -> None:
    """Fit, score, compare, save and print."""
    from coupledgp.cli.commands.stream_tasks import BatchedTable  # slow, as all below
    from coupledgp.cli.commands.table_run import TableDomain
    from coupledgp.cli.readers.batches import wants_batches
    from coupledgp.cli.shared.domain import answer

    table = BatchedTable(options) if options.stream else TableDomain(options)
    if wants_batches(options.data, options.stream):
        answer(table if options.stream else BatchedTable(options))
    else:
        answer(table.in_memory())
