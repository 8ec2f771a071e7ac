"""What the search for hyperparameters costs, beside that of an older checkout in the same run.

Each fit runs in a process of its own with one thread, this checkout and the older one in turn, on a
made table of 18 columns, UCI sets, and with `--rows` on a table of ten columns of that many rows.
Printed are CPU seconds of the fit, NLPD and RMSE of test rows in standard units, evaluations of the
evidence, and the memory that the fit took beyond the data: the rise of the peak resident size.

    git worktree add ../older 0123abc
    COUPLEDGP_DATA=... python benchmarks/performance/search_cost.py --older ../older
    python benchmarks/performance/search_cost.py --tables rows --rows 1000000
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parents[2]
TABLES = ("made", "kin40k", "protein", "power")


def made(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Ridge functions of 18 columns that matter less and less, with noise."""
    X = rng.normal(size=(n, 18))
    f = np.sin(X @ (rng.normal(size=(18, 6)) * np.geomspace(1, 0.05, 18)[:, None]))
    f = f @ rng.normal(size=6)
    return X, f / f.std() + 0.4 * rng.normal(size=n)


def long(n: int, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Ten columns, five of which matter."""
    X = rng.normal(size=(n, 10))
    f = np.sin(2 * X[:, 0]) * X[:, 1] + np.cos(X[:, 2] + X[:, 3]) + 0.3 * X[:, 4]
    return X, f + 0.3 * rng.normal(size=n)


def table(name: str, n_rows: int, n_test: int) -> tuple[np.ndarray, np.ndarray]:
    """Rows in random order, standardised; the last `n_test` are for the test."""
    rng = np.random.default_rng(0)
    if name in ("made", "rows"):
        X, y = (made if name == "made" else long)(n_rows + n_test, rng)
    else:
        from data_loaders import uci

        data = uci.load(name)
        order = rng.permutation(len(data.y))[: n_rows + n_test]
        X, y = data.X[order], data.y[order]
    return (X - X.mean(axis=0)) / X.std(axis=0), (y - y.mean()) / y.std()


def fit(name: str, n_rows: int, n_test: int) -> dict[str, object]:
    """Figures of one fit of the default, in this process."""
    import coupledgp as cgp

    X, y = table(name, n_rows, n_test)
    warnings.simplefilter("ignore")
    small = cgp.SparseSpectrumGPRegressor(n_frequencies=8, max_iter=2, random_state=0)
    small.fit(X[:50], y[:50])  # libraries are loaded
    before, start = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    gp = cgp.SparseSpectrumGPRegressor(random_state=0).fit(X[:-n_test], y[:-n_test])
    seconds = time.process_time() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rest = X[-n_test:], y[-n_test:]
    return {
        "seconds": seconds,
        "gigabytes": (peak - before) / 1e6,
        "nlpd": -float(gp.log_density(*rest).mean()),
        "rmse": float(np.sqrt(np.mean((gp.predict(rest[0]) - rest[1]) ** 2))),
        "evaluations": gp.n_evaluations_,
        "why": gp.search_.explain() if hasattr(gp, "search_") else "",
    }


def in_process(checkout: Path, arguments: list[str]) -> dict[str, object]:
    """Figures of one fit with the package of a checkout."""
    threads = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    environment = {**os.environ, **threads, "PYTHONPATH": str(checkout)}
    command = [sys.executable, __file__, "--fit", *arguments]
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    found: dict[str, object] = json.loads(done.stdout)
    return found


def main() -> None:
    """Print a line for each fit, and the ratio of the times."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--older", type=Path, help="checkout to compare with")
    parser.add_argument("--tables", nargs="+", default=TABLES, choices=(*TABLES, "rows"))
    parser.add_argument("--rows", type=int, default=15_000)
    parser.add_argument("--test", type=int, default=2000)
    parser.add_argument("--fit", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.fit:
        print(json.dumps(fit(arguments.fit, arguments.rows, arguments.test)))
        return
    checkouts = {"now": HERE} | ({"older": arguments.older} if arguments.older else {})
    for name in arguments.tables:
        given = [name, "--rows", str(arguments.rows), "--test", str(arguments.test)]
        found = {label: in_process(path, given) for label, path in checkouts.items()}
        for label, f in found.items():
            print(
                f"{name:8} {label:6} {f['seconds']:7.1f} s  NLPD {f['nlpd']:.4f}  RMSE "
                f"{f['rmse']:.4f}  {f['evaluations']} evaluations  {f['gigabytes']:.2f} GB more"
            )
        if "older" in found:
            print(
                f"{name:8} older over now {found['older']['seconds'] / found['now']['seconds']:.1f}"
            )
        print(f"{name:8} {found['now']['why']}", flush=True)


if __name__ == "__main__":
    main()
