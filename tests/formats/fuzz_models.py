"""Seeded mutations of model files, each with a checksum that fits, and what becomes of them.

    python -m tests.formats.fuzz_models 10000 --seed 1
    python -m tests.formats.fuzz_models 100000 --walk

The second command changes one size or number at a time, all of them, instead of any at random.
A process of its own loads the files, so that a signal is seen: one that dies is started again after
the file that killed it. A file may end in a model that predicts finite numbers or refuses to by a
`CoupledGPError`, or in a `ModelFileError`, in less than `SECONDS` and with less memory than
`FREE_BYTES` and `PER_BYTE` times its size. Everything else is a failure.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow as pa
import trimesh

import coupledgp as cgp
from coupledgp.errors import CoupledGPError, ModelFileError
from coupledgp.kernels import PositionKernel, WhittleMatern
from tests.formats.mutations import mutant, walk

ROOT = Path(__file__).parents[2]
OLD_FILES = ROOT / "tests" / "models" / "files_of_0_1_0"
SECONDS, FREE_BYTES, PER_BYTE = 5.0, 100e6, 3
# Seconds that predictions of a mutant may take, which are outside of the guarantee.
PATIENCE = 30
# Bytes of a file in which sizes have grown up to which it is asked for predictions.
PREDICTED = 50_000


def models(folder: Path) -> None:
    """Write small models of every kind that files of version 0.1.0 do not have."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=40)
    table = pa.table({
        "a": X[:, 0], "b": pa.array(["x", "y", None, "z"] * 10), "c": [True, False] * 20,
        "d": pa.array(np.arange(40) * 86400 * 9, pa.timestamp("s")),
    })  # fmt: skip
    warnings.simplefilter("ignore")  # such small meshes are remarked on
    sparse = {"n_frequencies": 6, "optimizer": None, "random_state": 0}
    grid = cgp.Graph.from_edges([*"abcdea"], [*"bcdefc"])
    mesh = trimesh.creation.icosphere(subdivisions=1)
    surface = cgp.LaplaceOperator.from_trimesh(mesh)
    roads = cgp.LaplaceOperator.from_edges([*"abcc"], [*"bcad"], [1.0, 0.7, 1.2, 0.5], max_edge=0.2)
    kernel = WhittleMatern(1.5, 2)
    local = cgp.LocalGPRegressor("matern-3/2", 4, random_state=0).fit(X, y)
    made = {
        "local": local,
        "additive": local.exact_twin(),
        "chosen": cgp.GPRegressor(("local", "exact"), random_state=0).fit(X, y),
        "encoded": cgp.SparseSpectrumGPRegressor(missing="indicator", **sparse).fit(table, y),
        "transformed": cgp.SparseSpectrumGPRegressor(target_transform="log", **sparse).fit(
            X, np.exp(y)
        ),
        "weighted": cgp.ExactGPRegressor(optimizer=None).fit(X, y, np.linspace(1, 2, 40)),
        "copula": cgp.SparseSpectrumGPRegressor(
            coupling="orthogonal+copula:[[-0.5],[0,0.2]]", **sparse
        ).fit(X, y),
        "named": cgp.GraphGPRegressor(grid, "heat", 4, random_state=0).fit(
            [*"abde"], [1.0, 2, 3, 4]
        ),
        "averaged": cgp.GraphGPRegressor(grid, "heat", n_hyperparameter_draws=3).fit(
            [*"abcde"], [1.0, 2, 4, 3, 1.5]
        ),
        "field": cgp.FieldGPRegressor(surface, kernel).fit(np.arange(12), np.sin(np.arange(12))),
        "sum": cgp.FieldGPRegressor(
            surface, kernel + PositionKernel("matern-5/2", 0.8), route="precision",
            random_state=0,
        ).fit(np.arange(20), np.sin(np.arange(20))),
        "over time": cgp.GraphTimeGPRegressor(grid, "heat", progress=False).fit(
            [*"abd"], np.where(np.arange(36).reshape(3, 12) % 5, y[:36].reshape(3, 12), np.nan),
            times=np.arange(12.0),
        ),
        "roads": cgp.FieldGPRegressor(roads, WhittleMatern(1.5, 1)).fit([*"abc"], [1.0, 2, 4]),
    }  # fmt: skip
    for name, model in made.items():
        cgp.save_model(model, folder / name, include_data=name == "transformed")


def bases(folder: Path) -> list[Path]:
    """Files to mutate, those of version 0.1.0 last."""
    return [*sorted(folder.glob("*")), *sorted(OLD_FILES.glob("*.safetensors"))]


def resident(name: str) -> float:
    """A size of this process in bytes, of `/proc/self/status`."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name + ":"):
            return 1024.0 * int(line.split()[1])
    return 0.0


def law_of(model):
    """Mean and variance of a model at a few points."""
    process = model.process_
    if isinstance(model, cgp.GraphTimeGPRegressor):
        points = np.array([[0.0, 3.0], [1.0, 4.5], [2.0, 20.0]])
    elif hasattr(model, "graph"):
        points = np.arange(min(3, model.graph.n_nodes))
    elif isinstance(model, cgp.FieldGPRegressor):
        points = model.operator_.at_vertices([0, 1]).points
    else:
        columns = model._columns
        width = columns.n_features if columns.encoding is None else columns.encoding.groups.size
        points = np.linspace(-1, 1, 3 * width).reshape(3, width)
    return process.law(points, "variance")


def outcome(path: Path, done: str = "") -> tuple[str, str, float, float]:
    """What becomes of a file: a word, its reason, seconds of computing and bytes of memory.

    Files that were spoiled have to be refused; those in which much has grown need not predict.
    """
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # forgets the peak so far
    before, start = resident("VmRSS"), time.process_time()
    result, reason, model = "refused", "", None
    try:
        model = cgp.load_model(path)
    except ModelFileError as error:
        reason = str(error)
        if len(reason) > 2000 or str(path) not in reason:
            result = "FAILED message"
    except BaseException as error:  # the point is to see all
        result, reason = "FAILED load", f"{type(error).__name__}: {error}"
    seconds, memory = time.process_time() - start, max(resident("VmHWM") - before, 0.0)
    if seconds > SECONDS:
        result = "FAILED time"
    if memory > FREE_BYTES + PER_BYTE * path.stat().st_size:
        result = "FAILED memory"
    if model is not None and result == "refused":
        if "spoiled" in done:
            result, reason = "FAILED accepted", "expected a refusal"
        elif "grown" in done and path.stat().st_size > PREDICTED:
            result = "model, not asked"
        else:
            result, reason = predicted(model)
    return result, reason, seconds, memory


def predicted(model) -> tuple[str, str]:
    """What becomes of a prediction."""
    signal.alarm(PATIENCE)
    try:
        mean, variance = law_of(model)
    except CoupledGPError as error:
        return "model, refuses", f"{type(error).__name__}: {error}"
    except TimeoutError:
        return "model, slow", ""
    except BaseException as error:
        return "FAILED predict", f"{type(error).__name__}: {error}"
    finally:
        signal.alarm(0)
    if np.isfinite(mean).all() and np.isfinite(variance).all() and (variance >= 0).all():
        return "model", ""
    return "FAILED numbers", f"{mean.tolist()} {variance.tolist()}"


def work(folder: Path, seed: int, numbers: range, walked: bool) -> None:
    """Try mutants and print one line for each, its number first, before and after it is loaded."""
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, _out_of_time)
    files, path = bases(folder), folder.parent / f"mutant{numbers.start}"
    for file in files:
        cgp.load_model(file)  # each base is a model, so that refusals are due to the mutations
    found = walk(files) if walked else (mutant(files, seed, number) for number in itertools.count())
    for number, (content, done) in enumerate(itertools.islice(found, numbers.stop)):
        if number < numbers.start:
            continue
        path.write_bytes(content)
        print(json.dumps([number, done]), flush=True)
        print(json.dumps([number, done, *outcome(path, done)]), flush=True)


def _out_of_time(*_: object) -> None:
    raise TimeoutError


def run(count: int, seed: int, patience: float = 3600.0, walked: bool = False) -> list[list]:
    """Results of mutants: number, mutation, outcome, reason, seconds and bytes of each."""
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "bases"
        folder.mkdir()
        models(folder)
        results, first = [], 0
        while first < count:
            command = [sys.executable, "-m", "tests.formats.fuzz_models", "--work", str(folder)]
            numbers = [str(count), "--seed", str(seed), "--first", str(first)]
            process = subprocess.run(
                [*command, *numbers, *["--walk"] * walked],
                capture_output=True, text=True, cwd=ROOT, timeout=patience,
            )  # fmt: skip
            lines = [json.loads(line) for line in process.stdout.splitlines()]
            results += [line for line in lines if len(line) > 2]
            if process.returncode == 0:
                break
            if not lines or len(lines[-1]) > 2:
                raise RuntimeError(process.stderr)
            number, done = lines[-1]
            results.append([number, done, "FAILED died", str(process.returncode), 0.0, 0.0])
            first = number + 1
        return results


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("count", type=int)
    parser.add_argument("--walk", action="store_true", help="all sizes and numbers, not at random")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--work", type=Path)
    given = parser.parse_args()
    if given.work:
        work(given.work, given.seed, range(given.first, given.count), given.walk)
        return 0
    results = run(given.count, given.seed, walked=given.walk)
    for number, done, result, reason, *_ in results:
        if result.startswith("FAILED"):
            print(f"{number} {result}: {done}: {reason[:300]}")
    for result, n in sorted(Counter(r[2] for r in results).items()):
        print(f"{n:6d} {result}")
    seconds, memory = max(r[4] for r in results), max(r[5] for r in results)
    print(f"slowest {seconds:.2f} s, most {memory / 1e6:.0f} MB")
    return any(r[2].startswith("FAILED") for r in results)


if __name__ == "__main__":
    sys.exit(main())
