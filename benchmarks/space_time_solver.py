"""Time filters of p series at n times: gains, one solve, variances, one product, one draw.

Printed are CPU seconds (medians over repetitions) and, in brackets, how many times a copy of the
(p, n) values they take. The last column is what a Kalman filter over all sensors at once would
take, its state being all sensors' terms: a few of its steps are timed and n of them are counted; it
is left out above 400 sensors. Compiled code is warm.

    python benchmarks/space_time_solver.py [--repeats 5] [--sizes 325x10000 1000x10000]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

from coupledgp.inference.space_time.filters import SeriesFilter, Term
from coupledgp.kernels.time import Constant, Matern12, Matern32, Periodic

NOISE = 0.05
MODELS = {
    "matern-3/2 + node": (
        Term("graph", Matern32(12.0), 1.0),
        Term("node", Matern12(6.0), 0.1),
    ),
    "three matern-1/2": (
        Term("graph", Matern12(12.0), 1.0),
        Term("graph", Matern12(100.0), 1.0),
        Term("node", Matern12(6.0), 0.1),
    ),
    "with constants": (
        Term("graph", Matern12(12.0), 1.0),
        Term("graph", Constant(), 1.0),
        Term("node", Matern12(6.0), 0.1),
        Term("node", Constant(), 0.1),
    ),
    "with daily cycles": (
        Term("graph", Matern12(12.0), 1.0),
        Term("graph", Periodic(288.0), 0.3),
        Term("node", Matern12(6.0), 0.1),
        Term("node", Periodic(288.0), 0.1),
    ),
}
# Steps of the filter over all sensors that are timed, and the most sensors it is timed for.
DENSE_STEPS, MOST_SENSORS = 5, 400


def seconds(call: Callable[[], object], repeats: int) -> float:
    """Median CPU seconds of a call."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return float(np.median(times))


def dense_seconds(p: int, n: int, n_terms: int) -> float:
    """CPU seconds of n steps of a Kalman filter whose state is one number a term and a sensor."""
    size = p * n_terms
    rng = np.random.default_rng(0)
    factor = rng.normal(size=(size, size)) / np.sqrt(size)
    covariance = factor @ factor.T + np.eye(size)
    start = time.process_time()
    for _ in range(DENSE_STEPS):
        seen = covariance.reshape(size, n_terms, p).sum(axis=1)
        innovation = seen.reshape(n_terms, p, p).sum(axis=0) + NOISE * np.eye(p)
        gain = np.linalg.solve(innovation, seen.T).T
        covariance = 0.9 * (covariance - gain @ seen.T) + 0.1 * np.eye(size)
    return (time.process_time() - start) / DENSE_STEPS * n


def measure(name: str, p: int, n: int, repeats: int) -> str:
    """A line of the table."""
    terms = MODELS[name]
    eigenvalues = np.exp(-8.0 * np.arange(p) / p)
    values = np.random.default_rng(0).normal(size=(p, n))

    def fresh() -> SeriesFilter:
        return SeriesFilter(terms, NOISE, eigenvalues, np.arange(float(n)))

    found, target = fresh(), np.empty_like(values)
    found.solve(values), found.variances(), found.product((0,), values)
    copy = seconds(lambda: np.copyto(target, values), repeats)
    taken = [
        seconds(lambda: fresh().log_determinants, min(repeats, 3)),
        seconds(lambda: found.solve(values), repeats),
        seconds(found.variances, 1),
        seconds(lambda: found.product((0,), values), repeats),
        seconds(lambda: found.sample((0,), np.random.default_rng(0), 1), repeats),
    ]
    dense = f"{dense_seconds(p, n, len(terms)):.3g}" if p <= MOST_SENSORS else "-"
    cells = [f"{took:.3f} ({took / copy:.0f})" for took in taken]
    return " | ".join([name, str(p), str(n), *cells, dense])


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--sizes", nargs="+", default=["100x1000", "325x10000", "1000x10000"])
    parser.add_argument("--models", nargs="+", default=list(MODELS), choices=list(MODELS))
    arguments = parser.parse_args()
    print("model | p | n | gains | solve | variances | product | draw | filter over all sensors")
    print("--- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---:")
    for name in arguments.models:
        for size in arguments.sizes:
            p, n = map(int, size.split("x"))
            print(measure(name, p, n, arguments.repeats), flush=True)


if __name__ == "__main__":
    main()
