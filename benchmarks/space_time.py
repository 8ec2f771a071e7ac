"""Hidden readings of traffic predicted by the package's space-time model and by its rivals.

    python -m benchmarks.space_time --data metr-la --splits 3 --store FOLDER

Readings are hidden as the study of the model did: a tenth of the sensors altogether, and of the
others a twentieth of the readings, one gap in half of the sensors, and the last hour. Every model
is fitted to what is left, in a process of its own, whose processor seconds and peak memory are
measured. Scores are of observations; those of simulated readings are of the function itself too.
Rows are kept in `FOLDER/DATA.json`, so that models can be run one after the other.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.space_time_data import CASES, Case
from benchmarks.space_time_models import MODELS
from coupledgp.diagnostics.space_time.evaluation import ModelCost, SpaceTimeEvaluation
from coupledgp.diagnostics.space_time.scoring import ScoreRow, score_rows
from coupledgp.diagnostics.space_time.splits import SpaceTimeSplit


def measured(case: Case, split: SpaceTimeSplit, number: int, name: str) -> dict[str, Any]:
    """Scores of a model on a split, its seconds and its peak memory, in a process of its own."""
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=work, args=(case, split, number, name, sender))
    process.start()
    sender.close()
    try:
        found: dict[str, Any] = receiver.recv()
    except EOFError:
        found = {"split": number, "model": name, "error": "ended", "rows": []}
    process.join()
    return found


def work(case: Case, split: SpaceTimeSplit, number: int, name: str, sender: Any) -> None:
    """Fit, predict and score in this process, and send what is found."""
    start, wall = time.process_time(), time.perf_counter()
    law = MODELS[name](case, split)
    seconds, wall = time.process_time() - start, time.perf_counter() - wall
    rows = score_rows(number, name, law, case.readings, split)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    sender.send(
        {
            "split": number, "model": name, "cpu_seconds": seconds, "seconds": wall,
            "peak_gib": peak,
            "rows": [asdict(row) for row in rows],
        }
    )  # fmt: skip


def shown(records: list[dict[str, Any]]) -> str:
    """Tables of all scores and of the steps ahead, and of what the models cost."""
    rows = tuple(ScoreRow(**row) for record in records for row in record["rows"])
    costs = tuple(
        ModelCost(r["split"], r["model"], r["cpu_seconds"]) for r in records if "cpu_seconds" in r
    )
    result = SpaceTimeEvaluation(rows, costs, len({row.split for row in rows}))
    lines = [str(result), "", result.to_markdown("steps ahead"), ""]
    lines += ["| model | CPU seconds | peak GiB |", "|---|---|---|"]
    for name in result.models:
        peak = max(r["peak_gib"] for r in records if r["model"] == name)
        lines.append(f"| {name} | {result.cpu_seconds(name):.1f} | {peak:.2f} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", choices=sorted(CASES), default="metr-la")
    parser.add_argument("--splits", type=int, default=3, help="number of splits")
    parser.add_argument("--models", nargs="*", default=list(MODELS), choices=list(MODELS))
    parser.add_argument("--store", type=Path, default=Path("."), help="folder of the rows")
    parser.add_argument("--resume", action="store_true", help="keep the rows that are there")
    parser.add_argument("--quick", action="store_true", help="one split, the last day")
    options = parser.parse_args(arguments)
    path = options.store / f"{options.data}{'-quick' if options.quick else ''}.json"
    records = json.loads(path.read_text()) if path.is_file() else []
    for number in range(1 if options.quick else options.splits):
        case = CASES[options.data](number)
        if options.quick:
            case = quick(case)
        split = case.plan.draw(case.readings, np.random.default_rng([17, number]))
        done = {(r["split"], r["model"]) for r in records if r["rows"]}
        for name in options.models:
            if options.resume and (number, name) in done:
                continue
            found = measured(case, split, number, name)
            print(number, name, f"{found.get('cpu_seconds', 0):.1f} s", flush=True)
            records = [r for r in records if (r["split"], r["model"]) != (number, name)] + [found]
            path.write_text(json.dumps(records), encoding="utf-8")
    print(shown(records))


def quick(case: Case) -> Case:
    """The case cut to its last 288 times."""
    old, last = case.readings, slice(-288, None)
    seconds = old.seconds_of_day
    readings = replace(
        old, values=old.values[:, last], times=old.times[last], stamps=old.stamps[last],
        seconds_of_day=None if seconds is None else seconds[last],
    )  # fmt: skip
    truth = None if case.truth is None else case.truth[:, last]
    return replace(case, readings=readings, truth=truth)


if __name__ == "__main__":
    main()
