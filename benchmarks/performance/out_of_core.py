"""Tables larger than memory: time, peak memory and errors by the number of rows.

Each size is a Parquet file that is written in pieces and fitted by a process of its own, whose peak
resident memory is that of the whole process. All systems read the file in batches of 65536 rows and
have the same number of features:

* ours: `SparseSpectrumGPRegressor.fit_batches`, few iterations of the search;
* rbf-sgd, nystroem-sgd: scikit-learn's `SGDRegressor.partial_fit` in one pass over `RBFSampler` or
  `Nystroem` features of standardised columns, with the lengthscale `sqrt(d)` and a law whose
  variance is that of the errors on the last batch, predicted before it was learnt from.

The target is Friedman's first function of five of eight columns of uniform inputs, with noise of
standard deviation one, the least RMSE there is; the least NLPD is 1.419. Slopes are those of the
log of CPU seconds by the log of rows, and of CPU seconds and megabytes by millions of rows, from
10^6 rows on, with standard errors.

    python benchmarks/performance/out_of_core.py [--rows 100000 1000000 ...] [--quick]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
from rich.console import Console
from rich.table import Table
from sklearn.kernel_approximation import Nystroem, RBFSampler
from sklearn.linear_model import SGDRegressor
from sklearn.preprocessing import StandardScaler

import coupledgp as cgp
from coupledgp.ground.output import write_text

COLUMNS, BATCH_ROWS, TEST_ROWS = 8, 65536, 20_000
SIZES = (100_000, 1_000_000, 3_000_000, 10_000_000, 20_000_000)
QUICK = (100_000, 300_000)
Found = tuple[np.ndarray, np.ndarray]


def rows_of(seed: int, n_rows: int) -> Found:
    """Inputs (n, 8) and targets (n,)."""
    rng = np.random.default_rng(seed)
    X = rng.random((n_rows, COLUMNS))
    f = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2
    return X, f + 10 * X[:, 3] + 5 * X[:, 4] + rng.normal(size=n_rows)


def write(path: Path, n_rows: int) -> None:
    """Write a file of so many rows, a piece at a time."""
    names = [f"x{j}" for j in range(COLUMNS)]
    schema = pa.schema([(name, pa.float64()) for name in [*names, "y"]])
    with pa.parquet.ParquetWriter(path, schema, compression="none", use_dictionary=False) as file:
        for start in range(0, n_rows, 2 * BATCH_ROWS):
            X, y = rows_of(1 + start, min(2 * BATCH_ROWS, n_rows - start))
            file.write_table(pa.table([*X.T, y], schema=schema))


def batches_of(path: Path) -> Iterator[Found]:
    """Batches of a file as arrays."""
    with pa.parquet.ParquetFile(path, pre_buffer=False) as file:
        for batch in file.iter_batches(BATCH_ROWS, use_threads=False):
            matrix = np.column_stack([column.to_numpy() for column in batch.columns])
            yield matrix[:, :-1], matrix[:, -1]


def ours(path: Path, n_features: int, iterations: int) -> Callable[[np.ndarray], Found]:
    """The process of this package."""
    gp = cgp.SparseSpectrumGPRegressor(
        n_frequencies=n_features // 2,
        options={"max_iter": iterations, "n_restarts": 0},
        random_state=0,
        progress=False,
    ).fit_batches(lambda: batches_of(path))
    print(gp.search_.explain(), file=sys.stderr)
    return lambda X: gp.predict(X, return_std=True)


def by_gradients(kind: str, path: Path, n_features: int) -> Callable[[np.ndarray], Found]:
    """Stochastic gradient descent on scikit-learn's features, in one pass."""
    first, y = next(batches_of(path))
    scaler, gamma = StandardScaler().fit(first), 0.5 / COLUMNS
    maker = {"rbf": RBFSampler, "nystroem": Nystroem}[kind]
    features = maker(gamma=gamma, n_components=n_features, random_state=0)
    features.fit(scaler.transform(first))
    mean, scale = y.mean(), y.std()
    model = SGDRegressor(random_state=0)
    error = 1.0
    for number, (X, targets) in enumerate(batches_of(path)):
        made, wanted = features.transform(scaler.transform(X)), (targets - mean) / scale
        if number:
            error = float(np.std(wanted - model.predict(made)))
        model.partial_fit(made, wanted)

    def predict(X: np.ndarray) -> Found:
        found = model.predict(features.transform(scaler.transform(X)))
        return mean + scale * found, np.full(len(X), scale * error)

    return predict


SYSTEMS = ("ours", "rbf-sgd", "nystroem-sgd")


def measure(system: str, path: Path, n_features: int, iterations: int) -> dict[str, float]:
    """Seconds, peak memory in MB above that of the libraries, RMSE and NLPD of one system."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    wall, cpu = time.perf_counter(), time.process_time()
    if system == "ours":
        predict = ours(path, n_features, iterations)
    else:
        predict = by_gradients(system.removesuffix("-sgd"), path, n_features)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    X, y = rows_of(0, TEST_ROWS)
    mean, std = predict(X)
    gaps = (y - mean) / std
    return {
        "seconds": wall,
        "cpu": cpu,
        "peak_mb": peak,
        "above_libraries_mb": peak - before,
        "rmse": float(np.sqrt(np.mean((y - mean) ** 2))),
        "nlpd": float(np.mean(0.5 * gaps**2 + np.log(std) + 0.5 * np.log(2 * np.pi))),
    }


def slope(x: list[float], y: list[float]) -> tuple[float, float]:
    """Least-squares slope and its standard error, NaN from two points."""
    if len(x) < 2:
        return float("nan"), float("nan")
    design = np.column_stack([np.ones(len(x)), x])
    found, *_ = np.linalg.lstsq(design, np.array(y), rcond=None)
    if len(x) == 2:
        return float(found[1]), float("nan")
    rest = np.sum((y - design @ found) ** 2) / (len(x) - 2)
    return float(found[1]), float(np.sqrt(rest * np.linalg.inv(design.T @ design)[1, 1]))


def in_process(arguments: list[str]) -> dict[str, float]:
    """The figures of one system, measured in a process of its own."""
    command = [sys.executable, __file__, "--one", *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Measure all systems at all sizes and print a table, or one at one size and print JSON."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--features", type=int, default=256)
    parser.add_argument("--iterations", type=int, default=10)
    parser.add_argument("--folder", type=Path, help="of the temporary files")
    parser.add_argument("--rivals-up-to", type=int, default=10_000_000, help="rows")
    parser.add_argument("--quick", action="store_true", help="two small sizes")
    parser.add_argument("--output", type=Path, help="JSON file of the figures")
    parser.add_argument("--one", nargs=2, metavar=("SYSTEM", "PATH"), help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        system, path = given.one
        print(json.dumps(measure(system, Path(path), given.features, given.iterations)))
        return
    figures: list[dict[str, object]] = []
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        for n_rows in QUICK if given.quick else given.rows:
            path = Path(folder) / f"{n_rows}.parquet"
            write(path, n_rows)
            for system in SYSTEMS if n_rows <= given.rivals_up_to else SYSTEMS[:1]:
                options = ["--features", str(given.features), "--iterations", str(given.iterations)]
                found = in_process([system, str(path), *options])
                figures.append({"rows": n_rows, "system": system, **found})
                print(json.dumps(figures[-1]), file=sys.stderr, flush=True)
            path.unlink()
    show(figures)
    if given.output is not None:
        write_text(given.output, json.dumps(figures, indent=1))


def show(figures: list[dict[str, object]]) -> None:
    """Print the figures, and slopes by the number of rows."""
    console = Console(width=110)
    names = ["rows", "system", "seconds", "cpu", "peak_mb", "above_libraries_mb", "rmse", "nlpd"]
    table = Table(*names)
    for row in figures:
        shown = (row[name] for name in names)
        table.add_row(*(f"{v:.4g}" if isinstance(v, float) else str(v) for v in shown))
    console.print(table)
    for system in SYSTEMS:
        rows: list[Any] = [row for row in figures if row["system"] == system]
        many = [row for row in rows if row["rows"] >= 1_000_000] or rows
        size = [float(row["rows"]) for row in many]
        rise, error = slope(np.log(size).tolist(), [float(np.log(row["cpu"])) for row in many])
        millions = (np.array(size) / 1e6).tolist()
        cost, unsure = slope(millions, [row["cpu"] for row in many])
        grown, doubt = slope(millions, [row["peak_mb"] for row in many])
        console.print(
            f"{system}: CPU seconds ~ rows^({rise:.3f} ± {error:.3f}); a million rows more take "
            f"{cost:.3f} ± {unsure:.3f} CPU seconds and {grown:+.3f} ± {doubt:.3f} MB"
        )


if __name__ == "__main__":
    main()
