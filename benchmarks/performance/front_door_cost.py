"""Cost of `GPRegressor` over the number of rows, beside its forecast.

Each size runs in a process of its own, on one thread: CPU seconds of the fit, the forecast that was
given before it, seconds to predict 2000 rows with all that a first prediction prepares, rows a
second with deviations after that, members of weight, and the peak of memory beyond that of the data
and the imports. The function is rough in one column, linear in another and constant in the rest.

    python benchmarks/performance/front_door_cost.py [--rows 1000 10000 100000 1000000]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

import coupledgp as cgp


def function(X: np.ndarray) -> np.ndarray:
    """The function that is learnt."""
    return np.sin(2 * X[:, 0]) * X[:, 1] + X[:, 2]


def peak() -> float:
    """Largest memory of the process so far, MB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000


def measure(n_rows: int, dim: int) -> dict[str, float | str]:
    """Figures of one size, in this process."""
    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    cgp.GPRegressor(random_state=0, progress=False).fit(rng.normal(size=(50, 2)), np.arange(50))
    X = rng.normal(size=(n_rows, dim))
    y = function(X) + 0.3 * rng.normal(size=n_rows)
    X_test = rng.normal(size=(2000, dim))
    before, start = peak(), time.process_time()
    gp = cgp.GPRegressor(random_state=0, progress=False).fit(X, y)
    fitted = time.process_time()
    mean = gp.predict(X_test)
    done = time.process_time()
    gp.predict(X_test, return_std=True)
    again = time.process_time() - done
    return {
        "fit": fitted - start,
        "forecast": gp.forecast_,
        "predict": done - fitted,
        "speed": len(X_test) / again,
        "members": sum(member.weight > 0 for member in gp.choice_.members),
        "memory": peak() - before,
        "rmse": float(np.sqrt(np.mean((mean - function(X_test)) ** 2))),
        "member": max(gp.choice_.members, key=lambda member: member.weight).name,
    }


def main() -> None:
    """Run the benchmark, or one size of it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=[10**3, 10**4, 10**5, 10**6])
    parser.add_argument("--dim", type=int, default=10)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(measure(options.one, options.dim)))
        return
    table = Table(title=f"{options.dim} columns, one thread")
    for title in (
        "rows",
        "fit, CPU s",
        "forecast",
        "predict 2000",
        "rows/s with std",
        "members",
        "memory, MB",
        "RMSE to f",
    ):
        table.add_column(title, justify="right")
    table.add_column("member of greatest weight")
    for n_rows in options.rows:
        command = [sys.executable, __file__, "--one", str(n_rows), "--dim", str(options.dim)]
        out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        one = json.loads(out.splitlines()[-1])
        table.add_row(
            str(n_rows), f"{one['fit']:.1f}", f"{one['forecast']:.1f}", f"{one['predict']:.2f}",
            f"{one['speed']:.0f}", str(one["members"]),
            f"{one['memory']:.0f}", f"{one['rmse']:.4f}", one["member"],
        )  # fmt: skip
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
