"""Whether the search for hyperparameters finds the greatest evidence, and what it costs.

Functions of one to three columns are drawn: Gaussian processes, isotropic or not, sums of sines,
steps, sums and products over columns, on 30 to 300 rows in several designs, with noise of .01 to 1
of the function's standard deviation. What the search ends with is compared with the best of 20 runs
from random starts, for the exact model, for sparse-spectrum features and for the exact members of
`GPRegressor`, whose objective is a log posterior. With `--against` another state of the package
makes the same searches in turn, and the median ratio of CPU times is told.

    python benchmarks/hyperparameter_search.py --functions 300
    python benchmarks/hyperparameter_search.py member --functions 60 --against ../before
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from coupledgp.errors import NumericalError
from coupledgp.features import FourierFeatures
from coupledgp.gp.protocol import Data
from coupledgp.gp.units import Units
from coupledgp.ground.progress import silent
from coupledgp.inference.dense.evidence import ExactEvidence
from coupledgp.inference.evidence.problem import EvidenceProblem
from coupledgp.inference.weights.evidence import FeatureEvidence
from coupledgp.inference.weights.stream import FeatureStream
from coupledgp.linalg.distances import scaled_distances
from coupledgp.random import FloatArray
from coupledgp.search.minimise import Stopping, lbfgs
from coupledgp.search.optimize import maximise_evidence
from coupledgp.search.search import Search
from coupledgp.search.space import SearchSpace
from coupledgp.search.table_objective import TableObjective
from coupledgp.search.tables.local_problem import LocalProblem
from coupledgp.selection.exact_members import EXACT_NEIGHBOURS, EXACT_ROUNDS
from coupledgp.spectra import parse_spectrum

KERNELS = ("gaussian", "matern-1/2", "matern-3/2", "matern-5/2")
N_STARTS = 20
# Factors on the data-driven lengthscales from which random starts are drawn, log-uniformly.
WIDEST = np.log([1 / 64, 16.0])
STOPPING = Stopping(100, 1e-9, 1e-5)


class Drawn(NamedTuple):
    """A function of some columns, seen with noise: columns of unit variance, and a kernel."""

    X: FloatArray
    y: FloatArray
    kernel: str


def drawn_function(number: int, most_rows: int = 300) -> Drawn:
    """The function of a number, of 1 + number % 3 columns and 30 to `most_rows` rows."""
    rng = np.random.default_rng([7, number])
    d, n = 1 + number % 3, int(np.exp(rng.uniform(np.log(30), np.log(most_rows))))
    X = _design(rng, n, d)
    shortest = (0.05, 0.15, 0.3)[d - 1]
    kind = rng.integers(6)
    if kind == 0:
        f = _process(rng, X, np.full(d, _log_uniform(rng, shortest, 3)))
    elif kind == 1:
        f = _process(rng, X, _log_uniform(rng, shortest, 10, d))
    elif kind == 2:
        waves = rng.normal(size=(3, d)) * _log_uniform(rng, 1, 20 if d == 1 else 6)
        f = np.sin(X @ waves.T + rng.uniform(0, 6, 3)) @ (1 / np.arange(1, 4))
    elif kind == 3:
        f = sum(rng.normal() * (X[:, rng.integers(d)] > rng.normal()) for _ in range(4))
    elif kind == 4:
        f = sum(_process(rng, X[:, [j]], _log_uniform(rng, 0.05, 3, 1)) for j in range(d))
    else:
        waves = [_log_uniform(rng, np.exp(-1), np.exp(2)) * X[:, j] for j in range(d)]
        f = np.prod([np.sin(wave + rng.uniform(0, 6)) for wave in waves], axis=0)
    y = f / (f.std() or 1.0) + _log_uniform(rng, 0.01, 1) * rng.normal(size=n)
    return Drawn(X, (y - y.mean()) / y.std(), KERNELS[rng.integers(4)])


def _design(rng: np.random.Generator, n: int, d: int) -> FloatArray:
    kind = rng.integers(4)
    if kind == 1:
        X = rng.normal(size=(n, d))
    elif kind == 3:
        X = rng.uniform(size=(4, d))[rng.integers(4, size=n)] + 0.1 * rng.normal(size=(n, d))
    else:
        X = rng.uniform(size=(n, d))
        if kind == 2 and d == 1:
            X = np.linspace(0, 1, n)[:, None]
    return X / X.std(axis=0)


def _log_uniform(rng: np.random.Generator, low: float, high: float, size: int | None = None):
    return np.exp(rng.uniform(np.log(low), np.log(high), size))


def _process(rng: np.random.Generator, X: FloatArray, lengthscale: FloatArray) -> FloatArray:
    spectrum = parse_spectrum(KERNELS[rng.integers(4)])
    values, vectors = np.linalg.eigh(
        spectrum.kernel(scaled_distances(*2 * [X / lengthscale], spectrum.metric))
    )
    return vectors @ (np.sqrt(np.maximum(values, 0)) * rng.normal(size=len(X)))


class Searched(NamedTuple):
    """Where a search ended, nats, and what it took; a random run gives its value in nats."""

    value: float
    seconds: float
    random_run: Callable[[np.random.Generator], float]


def exact(drawn: Drawn) -> Searched:
    """The search of `ExactGPRegressor`."""
    spectrum = parse_spectrum(drawn.kernel)
    return _of_evidence(drawn, ExactEvidence(spectrum, drawn.X, drawn.y[:, None]))


def sparse(drawn: Drawn) -> Searched:
    """The search of `SparseSpectrumGPRegressor`, 64 frequencies."""
    d = drawn.X.shape[1]
    features = FourierFeatures(d, 64, spectrum=drawn.kernel, generator=0)
    stream = FeatureStream(features, drawn.X, np.zeros(d), np.ones(d))
    return _of_evidence(drawn, FeatureEvidence(stream, drawn.y[:, None]))


def _of_evidence(drawn: Drawn, problem: EvidenceProblem) -> Searched:
    d = drawn.X.shape[1]
    space = SearchSpace(np.full(d, np.sqrt(d)), ard=True)
    start = time.process_time()
    found = maximise_evidence(problem, space, rng=np.random.default_rng(0)).log_evidence
    seconds = time.process_time() - start

    def random_run(rng: np.random.Generator) -> float:
        objective = TableObjective(problem, space, joint=False)
        run = Search().improved(objective, rng.uniform(*WIDEST, d), STOPPING)
        return -run.value * objective.size

    return Searched(found, seconds, random_run)


def member(drawn: Drawn) -> Searched:
    """The search of one exact member of `GPRegressor`."""
    data = Data.of(drawn.X, drawn.y[:, None])
    n, d = drawn.X.shape
    units = Units(np.zeros(1), np.ones(1))
    problem = LocalProblem.of(data, units, np.arange(d), 0)
    neighbours, spectrum = min(EXACT_NEIGHBOURS, n - 1), parse_spectrum(drawn.kernel)
    structure = problem.structure("linear", neighbours, spectrum)
    fitter = problem.fitter(silent)
    given = (structure, EXACT_ROUNDS)
    if "start" in fitter.search.__annotations__:  # as it was
        given = (structure, structure.start(), EXACT_ROUNDS)
    start = time.process_time()
    found = fitter.search(*given)
    seconds = time.process_time() - start
    everything = np.arange(n)

    def value(vector: FloatArray) -> float:
        return -n * fitter.evidence(structure, everything, vector).value_and_gradient(vector)[0]

    def random_run(rng: np.random.Generator) -> float:
        values = {name: np.asarray(v) for name, v in structure.named(structure.start()).items()}
        values["lengthscale"] = values["lengthscale"] + rng.uniform(*WIDEST, d)
        values["noise"] = np.log(_log_uniform(rng, 1e-4, 1.0))
        vector = structure.pack(values)
        for iterations in (15, 40):
            evidence = fitter.evidence(structure, everything, vector)
            run = lbfgs(
                evidence.value_and_gradient, vector, structure.box(), Stopping(iterations, 1e-6)
            )
            vector = run.point
        return value(vector)

    return Searched(value(found.vector), seconds, random_run)


MODELS = {"exact": exact, "sparse": sparse, "member": member}


def shortfall(model: str, number: int, n_starts: int = N_STARTS, most_rows: int = 300) -> float:
    """Nats by which a search stays below the best of some random runs; negative where above."""
    found = MODELS[model](drawn_function(number, most_rows))
    rng, best = np.random.default_rng(number), -np.inf
    for _ in range(n_starts):
        try:
            best = max(best, found.random_run(rng))
        except NumericalError:
            continue
    return best - found.value


def _seconds_elsewhere(folder: str, model: str, numbers: list[int]) -> list[float]:
    """CPU seconds of the searches by the package in another folder."""
    command = [sys.executable, __file__, model, "--times", json.dumps(numbers)]
    environment = os.environ | {"PYTHONPATH": folder}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    found: list[float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Print shortfalls above half a nat, their counts, and the ratio of costs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("model", choices=MODELS, nargs="?", default="exact")
    parser.add_argument("--functions", type=int, default=30)
    parser.add_argument("--first", type=int, default=0, help="number of the first function")
    parser.add_argument("--against", metavar="FOLDER", help="another state of the package")
    parser.add_argument("--times", type=json.loads, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.times is not None:
        MODELS[options.model](drawn_function(0))  # what is loaded once
        seconds = [MODELS[options.model](drawn_function(k)).seconds for k in options.times]
        print(json.dumps(seconds))
        return
    numbers = list(range(options.first, options.first + options.functions))
    if options.against:
        ratios: list[float] = []
        here = os.pathsep.join(sys.path)
        for start in range(0, len(numbers), 20):
            part = numbers[start : start + 20]
            pair = [_seconds_elsewhere(f, options.model, part) for f in (options.against, here)]
            ratios += (np.array(pair[1]) / np.array(pair[0])).tolist()
        low, middle, high = np.quantile(ratios, [0.1, 0.5, 0.9])
        print(f"CPU time over that of {options.against}: {middle:.2f} ({low:.2f} to {high:.2f})")
    gaps = []
    for number in numbers:
        gaps.append(shortfall(options.model, number))
        if gaps[-1] > 0.5:
            drawn = drawn_function(number)
            print(f"{number}: {drawn.kernel}, {drawn.X.shape}: {gaps[-1]:.2f} nats", flush=True)
    counts = {limit: int(np.sum(np.array(gaps) > limit)) for limit in (0.5, 1.0, 2.0)}
    print(f"{options.model}, {len(gaps)} functions: more than .5, 1, 2 nats below: {counts}")


if __name__ == "__main__":
    main()
