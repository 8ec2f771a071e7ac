"""What chosen sensors are worth: errors after `next_sensors`, beside random and one-time choices.

A model is fitted to a few sensors, further ones are chosen among candidates by their places alone,
and the model is fitted again to all of them. Errors are those at test nodes that are never
candidates, so that all choices are scored at the same nodes. Run:

    COUPLEDGP_DATA=... python -m benchmarks.placement            # all, some minutes
    COUPLEDGP_DATA=... python -m benchmarks.placement simulated --repeats 5
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

import coupledgp as cgp
from coupledgp.inference.placement.objectives import CRITERIA
from coupledgp.kernels import GraphMaternKernel
from coupledgp.random import FloatArray, IntArray
from data_loaders.traffic import load, load_metr_la

N_FIRST, COUNTS = 50, (5, 10, 20, 40)
# Random choices over which errors are averaged in each repetition.
N_RANDOM = 5
RULES = ("random", "at once", "variance", "total-variance", "mutual-information")


@dataclass(frozen=True, eq=False)
class Field:
    """Values at nodes of a graph.

    Attributes
    ----------
    graph : Graph
    nodes : IntArray (p,)
        Nodes whose values are known.
    values : FloatArray (p, q)
    kernel : GraphMaternKernel or None
        The true kernel; None: it is fitted.
    """

    graph: cgp.Graph
    nodes: IntArray
    values: FloatArray
    kernel: GraphMaternKernel | None = None


def san_jose(rng: np.random.Generator) -> Field:
    """Mean speeds of 325 sensors on 26 Mondays at 17:30; graph with the combinatorial Laplacian."""
    data = load()
    return Field(data.graph.combinatorial, data.sensors, data.speeds[:, None])


def san_jose_normalised(rng: np.random.Generator) -> Field:
    """The same on the graph as it is given, whose kernels vary with the weights about a node."""
    data = load()
    return Field(data.graph, data.sensors, data.speeds[:, None])


def los_angeles(rng: np.random.Generator) -> Field:
    """Mean speeds of 207 sensors on working days at 8:00, 12:00 and 17:30, an hour each."""
    data = load_metr_la()
    hours = (data.times - data.times.astype("datetime64[D]")) / np.timedelta64(1, "h")
    weekday = (data.times.astype("datetime64[D]").astype(np.int64) - 4) % 7 < 5
    means = [
        np.nanmean(data.speeds[:, weekday & (np.abs(hours - hour) <= 0.5)], axis=1)
        for hour in (8.0, 12.0, 17.5)
    ]
    return Field(data.graph, np.asarray(data.graph.index(data.nodes)), np.stack(means, axis=1))


def simulated(rng: np.random.Generator) -> Field:
    """A draw on the 1016 nodes of San Jose, kappa 30, with noise of a twentieth of its variance."""
    graph, kernel = load().graph, GraphMaternKernel(30.0, 1.5)
    K = cgp.kernels.dense_kernel(graph.closed, kernel)
    K /= np.diagonal(K).mean()
    values, vectors = np.linalg.eigh(K)
    f = vectors @ (np.sqrt(np.maximum(values, 0.0)) * rng.standard_normal(len(values)))
    y = f + np.sqrt(0.05) * rng.standard_normal(len(f))
    return Field(graph, np.arange(graph.n_nodes), y[:, None], kernel)


def fitted(field: Field, rows: IntArray) -> cgp.ExactGraphGPRegressor:
    """The model given some of the values."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gp = cgp.ExactGraphGPRegressor(
            field.graph, field.kernel or "matern", hyperparameters="maximum",
            fixed=None if field.kernel is None else ("kernel",),
        )  # fmt: skip
        return gp.fit(field.graph.label_all(field.nodes[rows]), field.values[rows])


def chosen(
    gp: cgp.ExactGraphGPRegressor, field: Field, pool: IntArray, test: IntArray, rule: str, k: int
) -> IntArray:
    """Rows of the field that a rule chooses, in order."""
    names = field.graph.label_all(field.nodes[pool])
    if rule == "at once":
        std = gp.predict(names, return_std=True)[1]
        return pool[np.argsort(-np.atleast_2d(std.T)[0], kind="stable")[:k]]
    wanted = field.graph.label_all(field.nodes[np.concatenate([pool, test])])
    criterion = next(name for name in CRITERIA if name == rule)
    found = gp.next_sensors(k, criterion, candidates=names, interest=wanted)
    place = dict(zip(list(names), pool.tolist(), strict=True))
    return np.array([place[name] for name in list(found.nodes)])


def errors(field: Field, rows: IntArray, test: IntArray) -> tuple[float, float]:
    """Root mean squared error at test nodes, over the values' sd, and the mean NLPD."""
    gp, names = fitted(field, rows), field.graph.label_all(field.nodes[test])
    truth = field.values[test]
    gaps = (gp.predict(names).reshape(truth.shape) - truth) / field.values.std(axis=0)
    return float(np.sqrt((gaps**2).mean())), float(-gp.log_density(names, truth).mean())


def compare(make: Callable[[np.random.Generator], Field], n_repeats: int) -> None:
    """Print errors of all rules, means over repetitions and differences from random choice."""
    table = np.full((n_repeats, len(RULES), len(COUNTS), 2), np.nan)
    start, first, seconds = time.process_time(), [], dict.fromkeys(RULES[2:], 0.0)
    for repeat in range(n_repeats):
        rng = np.random.default_rng(repeat)
        field = make(rng)
        order = rng.permutation(len(field.nodes))
        half = N_FIRST + (len(order) - N_FIRST) // 2
        seen, pool, test = order[:N_FIRST], np.sort(order[N_FIRST:half]), order[half:]
        gp = fitted(field, seen)
        first.append(errors(field, seen, test))
        for r, rule in enumerate(RULES):
            if rule == "random":
                draws = [rng.permutation(pool) for _ in range(N_RANDOM)]
            else:
                begin = time.process_time()
                draws = [chosen(gp, field, pool, test, rule, max(COUNTS))]
                if rule in seconds:
                    seconds[rule] += time.process_time() - begin
            for c, k in enumerate(COUNTS):
                each = [errors(field, np.concatenate([seen, rows[:k]]), test) for rows in draws]
                table[repeat, r, c] = np.mean(each, axis=0)
    told = ", ".join(f"{rule} {s / n_repeats:.2f} s" for rule, s in seconds.items())
    print(
        f"\n{make.__name__}: {n_repeats} repetitions, {time.process_time() - start:.0f} s; {told}"
    )
    print(f"first {N_FIRST}: RMSE {np.mean(first, axis=0)[0]:.3f}")
    print("| rule | " + " | ".join(f"{k} more" for k in COUNTS) + " |")
    print("|---|" + "---|" * len(COUNTS))
    for r, rule in enumerate(RULES):
        cells = []
        for c in range(len(COUNTS)):
            gap = table[:, r, c, 0] - table[:, 0, c, 0]
            spread = gap.std(ddof=1) / np.sqrt(n_repeats) if n_repeats > 1 else np.nan
            beside = "" if rule == "random" else f" ({gap.mean():+.3f} ± {spread:.3f})"
            cells.append(f"{table[:, r, c, 0].mean():.3f}{beside}")
        print(f"| {rule} | " + " | ".join(cells) + " |")


FIELDS = {make.__name__: make for make in (san_jose, san_jose_normalised, los_angeles, simulated)}


def main() -> None:
    """Read the command line and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("fields", nargs="*", choices=[[], *FIELDS], default=[])
    parser.add_argument("--repeats", type=int, default=20)
    arguments = parser.parse_args()
    for name in arguments.fields or FIELDS:
        compare(FIELDS[name], arguments.repeats)


if __name__ == "__main__":
    main()
