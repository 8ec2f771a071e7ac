"""`coupledgp fit`: from a table to a model, its scores and its distance from the exact GP."""

from __future__ import annotations

from coupledgp.cli.commands.table_options import FitOptions


def fit(options: FitOptions) -> None:
    """Fit, score, compare, save and print."""
    from coupledgp.cli.commands.table_run import TableDomain  # slow
    from coupledgp.cli.shared.domain import answer

    answer(TableDomain(options))
