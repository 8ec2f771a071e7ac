"""One machine against clusters of one and two workers: seconds, bytes that move, a killed worker.

    python benchmarks/performance/dask_scaling.py tables --rows 100000 200000 400000
    python benchmarks/performance/dask_scaling.py killed

`tables`: a fit with given lengthscales (a pass for the columns, one for the posterior) in memory
and by `coupledgp.dask.fit` on workers that hold the rows. Beside it what a user would pick instead:
random Fourier features and a linear model of scikit-learn, partition by partition (`RBFSampler`,
`SGDRegressor.partial_fit`). `bytes`: what workers send in a fit, by rows and by features.
`killed`: a fit one of whose two workers is killed in the middle.

Each prints a table: seconds (medians), their ratio to one machine, megabytes that workers sent, the
greatest difference of predictions; then the slope of seconds in the size with its standard error,
and the cost of 10^9 rows at the rate of the largest size: an extrapolation.
"""

from __future__ import annotations

import argparse
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import numpy as np
import pandas as pd

import coupledgp as cgp

PARTITIONS, NAMES = 8, "abcdefgh"
WORKERS = (1, 2)


@contextmanager
def workers(count: int) -> Iterator[Any]:
    """A client of a cluster of processes with one thread each, which have imported the package."""
    from distributed import Client, LocalCluster

    options: dict[str, Any] = {"threads_per_worker": 1, "dashboard_address": ":0"}
    with (
        LocalCluster(n_workers=count, memory_limit=0, **options) as cluster,
        Client(cluster) as client,
    ):
        client.run(import_module, "coupledgp.dask.front")
        yield client


def sent(client: Any) -> int:
    """Bytes that all workers have sent so far."""
    counts = client.run(lambda dask_worker: dask_worker.transfer_outgoing_bytes_total)
    return int(sum(counts.values()))


def timed(function: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    """Median of the seconds of some calls, and the last result."""
    seconds, result = [], None
    for _ in range(repeats):
        start = time.perf_counter()
        result = function()
        seconds.append(time.perf_counter() - start)
    return float(np.median(seconds)), result


def on_workers(client: Any, function: Callable[[], Any], repeats: int) -> tuple[float, float, Any]:
    """Median of seconds, megabytes that a call moves, and the last result, after a first call."""
    function()
    before = sent(client)
    seconds, result = timed(function, repeats)
    return seconds, (sent(client) - before) / repeats / 1e6, result


def report(sizes: list[int], seconds: list[float], target: float, unit: str) -> None:
    """Print the slope of log seconds in log size with its error, and the extrapolated cost."""
    x, y = np.log(sizes), np.log(seconds)
    text = ""
    if len(sizes) > 2:
        exponent, constant = np.polyfit(x, y, 1)
        left = np.square(y - exponent * x - constant).sum() / (len(x) - 2)
        error = np.sqrt(left / np.square(x - x.mean()).sum())
        text = f"slope of seconds {exponent:.2f} +- {error:.2f}; "
    hours = seconds[-1] / sizes[-1] * target / 3600
    print(f"    {text}{target:.0e} {unit} at the last rate, an extrapolation: {hours:.2f} h")


def part(number: int, n_rows: int) -> pd.DataFrame:
    """A partition of a table of a smooth function of eight normal columns."""
    size = len(np.array_split(np.empty(n_rows), PARTITIONS)[number])
    rng = np.random.default_rng([0, number])
    X = rng.normal(size=(size, 8))
    y = np.sin(X[:, 0]) + np.cos(X[:, 1] + X[:, 2]) + 0.1 * rng.normal(size=size)
    return pd.DataFrame(X, columns=list(NAMES)).assign(y=y)


def table(n_rows: int) -> tuple[pd.DataFrame, pd.Series]:
    """All partitions of a table on this machine."""
    rows = pd.concat([part(number, n_rows) for number in range(PARTITIONS)], ignore_index=True)
    return rows[list(NAMES)], rows["y"]


def held(n_rows: int, keep: bool = True) -> Any:
    """The same rows as a DataFrame that the workers make, and hold if `keep`."""
    import dask.dataframe as dd
    import distributed

    rows = dd.from_map(part, range(PARTITIONS), n_rows=n_rows)
    if not keep:
        return rows
    rows = rows.persist()
    distributed.wait(rows)
    return rows


def model(n_features: int) -> Any:
    """A model with given lengthscales: two passes."""
    return cgp.SparseSpectrumGPRegressor(
        n_frequencies=n_features // 2, lengthscale=2.0, fixed=("lengthscale",), random_state=0
    )


def rival(X: Any, y: Any, n_features: int) -> Any:
    """Random Fourier features and a linear model by stochastic gradients, part by part."""
    from sklearn.kernel_approximation import RBFSampler
    from sklearn.linear_model import SGDRegressor

    X, y = X.to_numpy(), y.to_numpy()
    features = RBFSampler(gamma=1 / 8, n_components=n_features, random_state=0).fit(X[:1])
    linear = SGDRegressor(random_state=0)
    for rows in np.array_split(np.arange(len(X)), PARTITIONS):
        linear.partial_fit(features.transform(X[rows]), y[rows])
    return linear


def difference(one: Any, many: Any, points: Any) -> float:
    """Greatest difference of two predictive means, in predictive standard deviations."""
    mean, std = one.predict(points, return_std=True)
    return float((np.abs(many.predict(points) - mean) / std).max())


def tables(arguments: argparse.Namespace) -> None:
    """Compare fits of tables."""
    n_features, repeats, alone = arguments.features, arguments.repeats, {}
    print("rows, workers, seconds, ratio to one machine, MB sent, difference in predictive sd")
    for n in arguments.rows:
        X, y = table(n)
        alone[n], _ = timed(lambda X=X, y=y: model(n_features).fit(X, y), repeats)
        other, _ = timed(lambda X=X, y=y: rival(X, y, n_features), repeats)
        print(f"{n:9d}  one machine {alone[n]:.2f} s; RBFSampler and SGDRegressor {other:.2f} s")
    report(arguments.rows, list(alone.values()), 1e9, "rows")
    for count in WORKERS:
        times = []
        with workers(count) as client:
            for n in arguments.rows:
                rows = held(n)

                def fit(rows: Any = rows, client: Any = client) -> Any:
                    return cgp.dask.fit(model(n_features), rows, "y", client=client)

                seconds, moved, many = on_workers(client, fit, repeats)
                times.append(seconds)
                X, y = table(n)
                gap = difference(model(n_features).fit(X, y), many, X[:200])
                ratio = seconds / alone[n]
                print(f"{n:9d}  {count}  {seconds:.2f}  {ratio:.2f}  {moved:.3f}  {gap:.1e}")
        report(arguments.rows, times, 1e9, "rows")


def moved_bytes(arguments: argparse.Namespace) -> None:
    """Bytes that two workers send in a fit, by rows and by features."""
    print("rows, features, MB sent, MB sent over partitions times 8 M^2")
    with workers(2) as client:
        for n in arguments.rows:
            rows = held(n)
            for n_features in (64, 128, 256):

                def fit(rows: Any = rows, M: int = n_features) -> Any:
                    return cgp.dask.fit(model(M), rows, "y", client=client)

                _, moved, _ = on_workers(client, fit, 1)
                share = moved * 1e6 / (PARTITIONS * 8 * n_features**2)
                print(f"{n:9d}  {n_features:4d}  {moved:.3f}  {share:.2f}")


def killed(arguments: argparse.Namespace) -> None:
    """Kill a worker in the middle of a fit."""
    n = arguments.rows[-1]
    with workers(2) as client:
        rows = held(n, keep=False)

        def fit() -> Any:
            return cgp.dask.fit(model(arguments.features), rows, "y", client=client)

        fit()
        seconds, whole = timed(fit, 1)
        victim = next(iter(client.run(os.getpid).values()))
        threading.Timer(0.5 * seconds, os.kill, (victim, signal.SIGKILL)).start()
        longer, hurt = timed(fit, 1)
    gap = difference(whole, hurt, table(n)[0][:200])
    print(
        f"{n} rows: {seconds:.2f} s; with one of two workers killed after half of that "
        f"{longer:.2f} s, difference {gap:.1e} sd"
    )


def main() -> None:
    """Run one of the comparisons."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    what = {"tables": tables, "bytes": moved_bytes, "killed": killed}
    parser.add_argument("what", choices=list(what))
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 200_000, 400_000])
    parser.add_argument("--features", type=int, default=256)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    what[arguments.what](arguments)


if __name__ == "__main__":
    main()
