"""`coupledgp predict`: add a saved model's means and standard deviations to a table."""

from __future__ import annotations

import json

from coupledgp.cli.commands.table_options import PredictOptions
from coupledgp.ground.progress import reporter


def predict(options: PredictOptions) -> None:
    """Predict, add the columns and write the table.

    The column extrapolation holds the distance of each row of a table from the training rows, in
    lengthscales: zero within their values, and above 2 where data say little.
    """
    from coupledgp.cli.commands.predict_tasks import with_predictions
    from coupledgp.cli.readers.tables import check_table_path, write_table
    from coupledgp.diagnostics.pages.terminal import PlainConsole
    from coupledgp.ground.output import written_whole

    check_table_path(options.output, "--output")
    with reporter("predict"), written_whole(options.output) as temporary:
        table, added = with_predictions(options)
        n_rows = table.num_rows
        write_table(table, temporary, like=options.output)
    result = {"rows": n_rows, "output": str(options.output), "added": added}
    if options.as_json:
        print(json.dumps(result))
        return
    *others, last = (repr(name) for name in added)
    names = f"{', '.join(others)} and {last}"
    rows = "1 row" if n_rows == 1 else f"{n_rows} rows"
    PlainConsole(soft_wrap=True).print(
        f"{rows} with {names} written to {options.output}", markup=False
    )
