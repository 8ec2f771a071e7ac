"""Hidden readings of sensors over time, predicted by the package's model and by its rivals.

    python -m benchmarks.space_time --data metr-la --splits 2

Readings are hidden by `cgp.hide`: a tenth of the sensors altogether, of the others a twentieth of
the readings, a gap of six hours in half of them, and ten forecasts of an hour in working hours.
`synthetic` is a city whose days repeat and whose jams move upstream, `counts` has counts with a
daily pattern, `no-days` is the city without any usual day, `simulated` a draw of a known law.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Sequence
from typing import Any

import pandas as pd

import coupledgp as cgp
from benchmarks.space_time_data import CASES, Case

# The package's model by name.
SETTINGS: dict[str, dict[str, Any]] = {"the law": {}, "no usual day": {"usual_day": False}}
METRICS = {"rmse": "RMSE", "mae": "MAE", "crps": "CRPS", "nlpd": "NLPD", "coverage_95": "in 95 %"}


def measured(case: Case, how: str, n_splits: int, rivals: Any) -> cgp.diagnostics.Report:
    """The report on the package's model with some settings."""
    model = cgp.GraphTimeGPRegressor(case.graph, progress=False, **SETTINGS[how])
    return cgp.hide(
        model, case.nodes, case.times, case.values, plan=case.plan, splits=n_splits, rivals=rivals
    )


def table_of(report: cgp.diagnostics.Report, how: str) -> pd.DataFrame:
    """Scores by part and model, a column for each metric."""
    scores = report.to_frame("scores").query("group == '' and part != '' and metric in @METRICS")
    scores = scores.assign(model=scores.model.replace(report.tables.predictions.name, how))
    found = scores.pivot_table("value", ["part", "model"], "metric", sort=False)
    return found.reindex(columns=list(METRICS)).rename(columns=METRICS).reset_index()


def shown(table: pd.DataFrame) -> str:
    """A table of Markdown, parts together and the least RMSE first."""
    lines = [["where", *table.columns[1:]], ["---"] * table.shape[1]]
    for _, part in table.groupby("part", sort=False):
        for row in part.sort_values("RMSE").itertuples(index=False):
            figures = ("" if pd.isna(one) else f"{one:.3f}" for one in row[2:])
            lines.append([str(row[0]), str(row[1]), *figures])
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", choices=sorted(CASES), default="metr-la")
    parser.add_argument("--splits", type=int, default=1, help="number of splits")
    parser.add_argument("--days", type=int, help="days of a city that is drawn")
    parser.add_argument("--alone", action="store_true", help="without rivals")
    options = parser.parse_args(arguments)
    warnings.simplefilter("ignore")
    made = CASES[options.data]
    case = made() if options.days is None else made(options.days)
    tables = []
    for how in SETTINGS:
        start = time.process_time()
        rivals = "auto" if how == "the law" and not options.alone else None
        report = measured(case, how, options.splits, rivals)
        print(f"{how}: {time.process_time() - start:.0f} CPU s, {report.provenance}")
        for verdict in report.verdicts:
            print(f"  [{verdict.colour}] {verdict.sentence}")
        tables.append(table_of(report, how))
    print(f"\n{shown(pd.concat(tables, ignore_index=True))}")


if __name__ == "__main__":
    main()
