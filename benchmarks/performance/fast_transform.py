"""Products with the frequencies of fast couplings, against the dense product, on the CPU.

Both run in this process in turn, one thread each, so that a busy machine slows both alike. Printed
are the median times for one row and the ratio of the dense product's time to the fast one's.

    python benchmarks/performance/fast_transform.py [--rows 4096] [--repeats 9]
"""

from __future__ import annotations

import argparse
import json
import time

import numba
import numpy as np
import torch

from coupledgp.features import FourierFeatures

DIMS = (64, 128, 256, 512, 1024)


def median_times(calls: list, repeats: int) -> np.ndarray:
    """Median time of each call, made in turn; seconds."""
    for call in calls:
        call()
    times = np.empty((repeats, len(calls)))
    for repeat in range(repeats):
        for index, call in enumerate(calls):
            start = time.perf_counter()
            call()
            times[repeat, index] = time.perf_counter() - start
    return np.median(times, axis=0)


def measure(coupling: str, dim: int, dtype: torch.dtype, n_rows: int, repeats: int) -> dict:
    """Times of `X W'` and `G W` with m = d frequencies."""
    fast = FourierFeatures(dim, dim, coupling, generator=0, dtype=dtype)
    W = fast.frequencies
    X = torch.as_tensor(np.random.default_rng(0).normal(size=(n_rows, dim))).to(dtype)
    calls = [lambda: fast.project(X), lambda: X @ W.T]
    calls += [lambda: fast.project_back(X), lambda: X @ W]
    forward, dense, back, dense_back = median_times(calls, repeats)
    error = float((fast.project(X) - X @ W.T).abs().max() / (X @ W.T).abs().max())
    return {
        "coupling": coupling,
        "dim": dim,
        "dtype": str(dtype).removeprefix("torch."),
        "fast_us_per_row": 1e6 * forward / n_rows,
        "dense_us_per_row": 1e6 * dense / n_rows,
        "dense_over_fast": dense / forward,
        "dense_over_fast_back": dense_back / back,
        "relative_difference": error,
    }


def main() -> None:
    """Print one line for each case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4096)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--dims", type=int, nargs="+", default=DIMS)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    numba.set_num_threads(1)
    results = []
    for coupling in ("orthogonal-fast", "simplex-fast"):
        for dtype in (torch.float64, torch.float32):
            for dim in arguments.dims:
                one = measure(coupling, dim, dtype, arguments.rows, arguments.repeats)
                results.append(one)
                print(
                    f"{coupling:16} {one['dtype']} d={dim:5}: fast {one['fast_us_per_row']:7.2f} "
                    f"dense {one['dense_us_per_row']:7.2f} us a row, "
                    f"dense/fast {one['dense_over_fast']:5.2f}, "
                    f"transposed {one['dense_over_fast_back']:5.2f}, "
                    f"difference {one['relative_difference']:.0e}"
                )
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


if __name__ == "__main__":
    main()
