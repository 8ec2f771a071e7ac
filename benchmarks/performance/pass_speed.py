"""One pass over n rows, features and sums, over the plain product `Phi' Phi` of the same rows.

Both run in this process in turn, so that a busy machine slows both alike; printed are the medians
of the ratio over repetitions, and the quartiles. With one thread CPU seconds are compared, with
more wall seconds. `posterior` is the pass that ends in a posterior, whose products are in double
precision, `evidence` the pass of the search, whose products have the precision of the features.

    python benchmarks/performance/pass_speed.py [--repeats 9] [--threads 1 2] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np
import torch

from coupledgp.features import FourierFeatures
from coupledgp.inference.weights.statistics import DataStatistics, stream_moments
from coupledgp.inference.weights.stream import FeatureStream

ENTRIES = 2**24
SIZES = (256, 512, 1024, 2048)


def ratios(calls: dict, repeats: int, clock) -> dict[str, np.ndarray]:
    """Quartiles of the time of each call over that of the call "product"."""
    times: dict[str, list[float]] = {name: [] for name in calls}
    for repeat in range(repeats + 1):
        for name, call in calls.items():
            start = clock()
            call()
            if repeat:
                times[name].append(clock() - start)
    plain = np.array(times.pop("product"))
    return {name: np.quantile(np.array(t) / plain, [0.25, 0.5, 0.75]) for name, t in times.items()}


def measure(size: int, dtype: torch.dtype, n_threads: int, dim: int, repeats: int) -> dict:
    """Ratios for M = size features of rows with d = dim columns."""
    torch.set_num_threads(n_threads)
    n_rows = ENTRIES // size
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(n_rows, dim)), rng.normal(size=(n_rows, 1))
    drawn = FourierFeatures(dim, size // 2, generator=0, dtype=dtype)
    stream = FeatureStream(drawn, X, np.zeros(dim), np.ones(dim))
    whole, zero = drawn(torch.as_tensor(X)), torch.zeros(1, dtype=torch.float64)
    targets = torch.as_tensor(y)

    def posterior() -> None:
        chunks = ((features, targets[rows]) for rows, _, features in stream)
        DataStatistics(size, zero).updated(chunks)

    calls = {
        "evidence": lambda: stream_moments(stream, y, zero),
        "posterior": posterior,
        "product": lambda: whole.T @ whole,
    }
    clock = time.thread_time if n_threads == 1 else time.perf_counter
    found = ratios(calls, repeats, clock)
    name = str(dtype).removeprefix("torch.")
    return {"features": size, "dtype": name, "threads": n_threads, "rows": n_rows} | {
        key: quartiles.tolist() for key, quartiles in found.items()
    }


def main() -> None:
    """Print one line for each case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--columns", type=int, default=4)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    results = []
    for n_threads in arguments.threads:
        for dtype in (torch.float64, torch.float32):
            for size in arguments.sizes:
                one = measure(size, dtype, n_threads, arguments.columns, arguments.repeats)
                results.append(one)
                shown = ", ".join(
                    f"{name} {one[name][1]:.2f} ({one[name][0]:.2f} to {one[name][2]:.2f})"
                    for name in ("evidence", "posterior")
                )
                print(f"{n_threads} threads, {one['dtype']}, M = {size:4}: {shown}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
