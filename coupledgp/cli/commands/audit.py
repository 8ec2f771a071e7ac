"""`coupledgp audit`: one page on predictions that any program made."""

from __future__ import annotations

from coupledgp.cli.commands.interpolate_options import AuditOptions


def audit(options: AuditOptions) -> None:
    """Read, audit, write the page and print the figures."""
    from coupledgp.cli.commands.audit_tasks import hyperparameters, prediction, settings, tables
    from coupledgp.cli.readers.files import about
    from coupledgp.cli.shared.domain import write_page
    from coupledgp.diagnostics.auditing import audit as audited
    from coupledgp.ground.output import written_whole

    stated = hyperparameters(options)
    with about(*options.inputs), written_whole(options.output) as page:
        rows, new = tables(options, stated["kernel"])
        X, y = (None, None) if rows is None else (rows.X, rows.y)
        report = audited(
            prediction(options, new.y), X, y, new.X if new.X.num_columns else None, new.y,
            metadata=new.beside or None, latent=options.latent,
            leave_out_overlap=options.leave_out_overlap,
            title=options.title or f"Audit of {(options.predictions or options.test).name}",
            **settings(options, 0 if rows is None else len(rows), len(new), stated["kernel"]),
            **stated,
        )  # fmt: skip
        write_page(options, page, report.with_target(options.target))
