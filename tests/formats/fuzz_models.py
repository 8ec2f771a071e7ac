"""Seeded mutations of model files, each with a checksum that fits, and what becomes of them.

    python -m tests.formats.fuzz_models 10000 --seed 1

A process of its own loads the files, so that a signal is seen: one that dies is started again after
the file that killed it. A file may end in a model that predicts finite numbers or refuses to by a
`CoupledGPError`, or in a `ModelFileError`, in less than `SECONDS` and with less memory than
`FREE_BYTES` and `PER_BYTE` times its size. Everything else is a failure.
"""

from __future__ import annotations

import argparse
import contextlib
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
from safetensors import safe_open
from safetensors.numpy import save

import coupledgp as cgp
from coupledgp.errors import CoupledGPError, ModelFileError
from coupledgp.gp.container import _digest
from coupledgp.kernels import PositionKernel, WhittleMatern

ROOT = Path(__file__).parents[2]
OLD_FILES = ROOT / "tests" / "models" / "files_of_0_1_0"
SECONDS, FREE_BYTES, PER_BYTE = 5.0, 100e6, 3
# Seconds that predictions of a mutant may take, which are outside of the guarantee.
PATIENCE = 30
VALUES = [
    None, True, -1, 0, 1, 2, 3, 10**9, 2**63, 10**400, -0.5, 1e-300, 1e300, "", "auto", "NaN",
    "copula:[" + "[]," * 3 + "[]]", "orthogonal-fast+antithetic", "orthogonal+copula:[[0.5]]",
    "quadrature", "matern-99", "laplace", "predict", "__class__", "x" * 3000, [], [[]], {},
    [1, 2, 3], [0.5] * 40, {"tuple": [1]}, {"class": "LearnedKernel", "n_terms": 10**9},
]  # fmt: skip
NUMBERS = [np.nan, np.inf, -np.inf, 0, -1, 1e300, -1e300, 1e-320, 2**31, 10**12, 7, 0.5]

# Kinds of changes and how often each is made.
ROUTES = {"header": 40, "arrays": 40, "both": 10, "bytes": 4, "cut": 3, "text": 3}
HEADER_EDITS = {"value": 50, "drop": 10, "add": 10, "deep": 5, "scale": 20, "flip": 5}
ARRAY_EDITS = {
    "entries": 30, "dtype": 10, "flat": 5, "turned": 5, "cut": 10, "grown": 10, "shuffled": 10,
    "drop": 5, "empty": 5, "swap": 5, "all": 5,
}  # fmt: skip
NAMES = ["predict", "_fitted", "X", "members", "plan", "weights", "n_terms"]
TYPES = ["float32", "int64", "uint8", "float16", "bool", "int32", "float64", "uint64"]
TEXTS = ["[" * 10**5, "[]", "1e999", "{}{}", '{"class": NaN}', '{"class": 1e999}']


def chosen(shares: dict[str, int], rng) -> str:
    """One of the names, as often as its share says."""
    return str(rng.choice(list(shares), p=np.array([*shares.values()]) / sum(shares.values())))


def cast(value, dtype):
    """Numbers as another type, whatever becomes of them."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return value.astype(dtype)


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
        "over time": cgp.GraphTimeGPRegressor(grid, "heat", periods=(4,), progress=False).fit(
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


def opened(path: Path) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """Metadata and arrays of a file."""
    with safe_open(path, "numpy") as file:
        return file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def signed(metadata: dict[str, str], text: str, arrays: dict[str, np.ndarray]) -> bytes:
    """Bytes of a file whose checksum fits."""
    arrays = {name: np.ascontiguousarray(value) for name, value in arrays.items()}
    metadata = {**metadata, "model": text, "sha256": _digest(text, arrays)}
    return bytes(save(arrays, metadata))


def places_in(value, path=()):
    """Paths of all values of a header."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, child in items:
        yield (*path, key)
        if isinstance(child, (dict, list)) and len(path) < 6:
            yield from places_in(child, (*path, key))


def edit_header(header, rng) -> str:
    """Change a value of a header; return what was done."""
    paths = list(places_in(header))
    path = paths[rng.integers(len(paths))]
    owner = header
    for key in path[:-1]:
        owner = owner[key]
    kind = chosen(HEADER_EDITS, rng)
    last = path[-1]
    if kind == "drop":
        del owner[last]
    elif kind == "add" and isinstance(owner, dict):
        owner[NAMES[rng.integers(len(NAMES))]] = VALUES[rng.integers(len(VALUES))]
    elif kind == "deep":
        value: list = []
        for _ in range(int(rng.choice([5, 40, 500]))):
            value = [value]
        owner[last] = value
    elif kind == "scale" and type(owner[last]) in (int, float):
        owner[last] = owner[last] * [-1, 0.5, 1e-9, 1e9, 1e200, 2][rng.integers(6)]
    elif kind == "flip" and isinstance(owner[last], str):
        owner[last] = owner[last][::-1]
    else:
        owner[last] = VALUES[rng.integers(len(VALUES))]
    return f"header {kind} {'.'.join(map(str, path))}"


def edit_arrays(arrays, rng) -> str:
    """Change an array; return what was done."""
    name = sorted(arrays)[rng.integers(len(arrays))]
    value = arrays[name]
    kind = chosen(ARRAY_EDITS, rng)
    if kind in ("entries", "all") and value.size:
        value = value.copy()
        some = rng.integers(value.size, size=1 + rng.integers(3))
        number = np.float64(NUMBERS[rng.integers(len(NUMBERS))])
        value.reshape(-1)[slice(None) if kind == "all" else some] = cast(number, value.dtype)
    elif kind == "dtype":
        value = cast(value, TYPES[rng.integers(len(TYPES))])
    elif kind == "flat":
        value = value.reshape(-1)
    elif kind == "turned":
        value = value.T
    elif kind == "cut":
        value = value[: len(value) // 2] if value.ndim else value[None]
    elif kind == "grown":
        value = np.concatenate([value, value[:3]]) if value.ndim else value[None, None]
    elif kind == "shuffled" and value.ndim:
        value = rng.permutation(value)
    elif kind == "empty":
        value = value[..., :0] if value.ndim else value.reshape(1)[:0]
    elif kind == "swap":
        other = sorted(arrays)[rng.integers(len(arrays))]
        arrays[other] = value
    if kind == "drop":
        del arrays[name]
    else:
        arrays[name] = value
    return f"array {kind} {name}"


def mutant(files: list[Path], seed: int, number: int) -> tuple[bytes, str]:
    """The bytes of a mutant and what was done to which file."""
    rng = np.random.default_rng([seed, number])
    path = files[number % len(files)]
    content, done = path.read_bytes(), []
    route = chosen(ROUTES, rng)
    if route in ("bytes", "cut"):
        damaged = bytearray(content)
        for place in rng.integers(len(content), size=4):
            damaged[int(place)] ^= 1 << int(rng.integers(8))
        content = bytes(damaged) if route == "bytes" else content[: int(rng.integers(len(content)))]
        return content, f"{path.stem}: {route}"
    metadata, arrays = opened(path)
    header = json.loads(metadata["model"])
    for _ in range(1 + (rng.random() < 0.3) + (rng.random() < 0.1)):
        if route in ("header", "both"):
            done.append(edit_header(header, rng))
        if route in ("arrays", "both") and arrays:
            done.append(edit_arrays(arrays, rng))
    text = json.dumps(header)
    if route == "text":
        texts = [text[: len(text) // 2], *TEXTS]
        text = texts[rng.integers(len(texts))]
        done.append("text")
    return signed(metadata, text, arrays), f"{path.stem}: {', '.join(done)}"


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


def outcome(path: Path) -> tuple[str, str, float, float]:
    """What becomes of a file: a word, its reason, seconds and bytes of memory."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # forgets the peak so far
    before, start = resident("VmRSS"), time.perf_counter()
    result, reason, model = "refused", "", None
    try:
        model = cgp.load_model(path)
    except ModelFileError as error:
        reason = str(error)
        if len(reason) > 2000 or str(path) not in reason:
            result = "FAILED message"
    except BaseException as error:  # the point is to see all
        result, reason = "FAILED load", f"{type(error).__name__}: {error}"
    seconds, memory = time.perf_counter() - start, max(resident("VmHWM") - before, 0.0)
    if seconds > SECONDS:
        result = "FAILED time"
    if memory > FREE_BYTES + PER_BYTE * path.stat().st_size:
        result = "FAILED memory"
    if model is not None and result == "refused":
        result, reason = predicted(model)
    return result, reason, seconds, memory


def predicted(model) -> tuple[str, str]:
    """What becomes of a prediction."""
    signal.alarm(PATIENCE)
    try:
        mean, variance = law_of(model)
    except CoupledGPError as error:
        return "model, refuses", f"{type(error).__name__}: {error}"
    except BaseException as error:
        return "FAILED predict", f"{type(error).__name__}: {error}"
    finally:
        signal.alarm(0)
    if np.isfinite(mean).all() and np.isfinite(variance).all() and (variance >= 0).all():
        return "model", ""
    return "FAILED numbers", f"{mean.tolist()} {variance.tolist()}"


def work(folder: Path, seed: int, numbers: range) -> None:
    """Try mutants and print one line for each, its number first, before and after it is loaded."""
    warnings.simplefilter("ignore")
    files, path = bases(folder), folder.parent / f"mutant{numbers.start}"
    for file in files:
        cgp.load_model(file)  # each base is a model, so that refusals are due to the mutations
    for number in numbers:
        content, done = mutant(files, seed, number)
        path.write_bytes(content)
        print(json.dumps([number, done]), flush=True)
        print(json.dumps([number, done, *outcome(path)]), flush=True)


def run(count: int, seed: int, patience: float = 3600.0) -> list[list]:
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
                [*command, *numbers], capture_output=True, text=True, cwd=ROOT, timeout=patience
            )
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
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--work", type=Path)
    given = parser.parse_args()
    if given.work:
        work(given.work, given.seed, range(given.first, given.count))
        return 0
    results = run(given.count, given.seed)
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
