"""Mutants of valid model files, tables, graphs and meshes: `python -m tests.fuzz N --seed S`.

A model file ends in a model or in a `CoupledGPError`; a call of the command line in exit code 0
with finite numbers, or in 2 with one error line that names the file, in bounded memory and time.
"""

from __future__ import annotations

import argparse
import contextlib
import resource
import shutil
import signal
import sys
import tempfile
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import trimesh

import coupledgp as cgp
from coupledgp.errors import CoupledGPError
from tests.fuzz.cases import Case, check
from tests.fuzz.files import SPARSE, SQUARE, edges, table, values, write_shared
from tests.model_files import opened, signed

VALUES = [
    None,
    True,
    -1,
    0,
    10**9,
    10**400,
    1e-300,
    1e300,
    "",
    "NaN",
    "x" * 3000,
    [],
    [[]],
    {},
    {"same": 0},
    {"array": "0"},
    {"tuple": []},
    {"float": "inf"},
]
# Bytes that one call may take beside what the process had, and seconds.
MEMORY, SECONDS = 2**30, 60

CELLS = (
    "", "nan", "inf", "-inf", "1e308", "-1e308", "1e-310", "0", "-0", "-1", "1e400", "true", "x",
    "2024-02-30", "9" * 30, "9" * 5000, "\x1b[31m", "\u202e", '"', "'", ",", ";", "0x10", "1_0",
    "１", " 1 ", "#", "=1+1", "\t", "\\N", "None", "null", "-", "+", ".", "e", "1e", "--1",
)  # fmt: skip
PIECES = (b"\0", b"\xff", b"\r", b"\n", b'"', b",", b"\x1b[2J", b"\xef\xbb\xbf", b"<", b">", b"&",
          b"1e999", b"-1", b"99999999999999999999", b"nan", b"[", b"]", b" " * 50)  # fmt: skip


def sources() -> dict[str, tuple[bytes, tuple[str, ...]]]:
    """Valid files by name, and the call that reads each."""
    graph = ("--values", "{shared}/v.csv", "-o", "out.csv")
    mesh = ("--values", "{shared}/mv.csv", "-o", "out.csv", "--max-edge", "none")
    law = ("-o", "out.csv")
    sphere = trimesh.creation.icosphere(subdivisions=0)
    return {
        "t.csv": (table().encode(), ("predict", "{shared}/t.model", "t.csv", *law)),
        "f.csv": (table().encode(), ("fit", "f.csv", "-t", "y", *SPARSE, "-o", "out.model")),
        "e.csv": (edges().encode(), ("graph", "e.csv", *graph)),
        "w.csv": (edges("weight").encode(), ("graph", "w.csv", *graph)),
        "l.csv": (edges("length").encode(), ("field", "l.csv", "--values", "{shared}/v.csv", *law)),
        "n.csv": (values().encode(), ("predict", "{shared}/g.model", "n.csv", *law)),
        "m.obj": (SQUARE, ("field", "m.obj", *mesh)),
        "s.stl": (sphere.export(file_type="stl"), ("field", "s.stl", *mesh)),
        "s.ply": (sphere.export(file_type="ply"), ("field", "s.ply", *mesh)),
    }


def model_mutant(source: Path, rng: np.random.Generator) -> bytes:
    """A model file with changed bytes, or with another value in its tree and a fitting digest."""
    if rng.random() < 0.3:
        return mutated(source.read_bytes(), rng)
    value, arrays = opened(source)
    places = places_in(value)
    owner, key = places[rng.integers(len(places))]
    owner[key] = VALUES[rng.integers(len(VALUES))]
    if arrays and rng.random() < 0.3:
        name = list(arrays)[rng.integers(len(arrays))]
        arrays[name] = arrays[name][: len(arrays[name]) // 2] if arrays[name].ndim else arrays[name]
    return signed(value, arrays)


def places_in(value: Any) -> list[tuple[Any, Any]]:
    """Containers of a tree, each with a key of one of its values."""
    items = list(value.items() if isinstance(value, dict) else enumerate(value))
    nested = [each for _, each in items if isinstance(each, (dict, list))]
    inner = [place for each in nested for place in places_in(each)]
    return [*((value, key) for key, _ in items), *inner]


def try_models(count: int, seed: int, shared: Path) -> Counter[str]:
    """Count what becomes of mutants of model files; only a model or a `CoupledGPError` is right."""
    counts: Counter[str] = Counter()
    sources = sorted(shared.glob("*.model"))
    path = shared / "mutant"
    for k in range(count):
        rng = np.random.default_rng([seed, k, 1])
        path.write_bytes(model_mutant(sources[k % len(sources)], rng))
        signal.alarm(SECONDS)
        try:
            cgp.load_model(path)
            counts["loaded"] += 1
        except CoupledGPError:
            counts["refused"] += 1
        except Exception as error:
            counts["broken"] += 1
            print(f"model {seed}-{k}: {type(error).__name__}: {error!s:.300}", flush=True)
        finally:
            signal.alarm(0)
    return counts


def mutated(content: bytes, rng: np.random.Generator) -> bytes:
    """The content with one to three changes."""
    for _ in range(rng.integers(1, 4)):
        content = CHANGES[rng.integers(len(CHANGES))](content, rng)
    return content


def flipped(content: bytes, rng: np.random.Generator) -> bytes:
    found = bytearray(content)
    for place in rng.integers(0, max(len(found), 1), rng.integers(1, 5)) if found else ():
        found[place] ^= 1 << int(rng.integers(8))
    return bytes(found)


def cut(content: bytes, rng: np.random.Generator) -> bytes:
    return content[: rng.integers(0, len(content) + 1)]


def without_part(content: bytes, rng: np.random.Generator) -> bytes:
    start, end = np.sort(rng.integers(0, len(content) + 1, 2))
    return content[:start] + content[min(end, start + 40) :]


def with_piece(content: bytes, rng: np.random.Generator) -> bytes:
    place = rng.integers(0, len(content) + 1)
    return content[:place] + PIECES[rng.integers(len(PIECES))] + content[place:]


def with_lines_moved(content: bytes, rng: np.random.Generator) -> bytes:
    lines = content.split(b"\n")
    rows = rng.integers(0, len(lines), 2)
    change = rng.integers(3)
    if change == 0:
        del lines[rows[0]]
    elif change == 1:
        lines.insert(rows[0], lines[rows[1]])
    else:
        lines[rows[0]], lines[rows[1]] = lines[rows[1]], lines[rows[0]]
    return b"\n".join(lines)


def with_value(content: bytes, rng: np.random.Generator) -> bytes:
    """Another value between two marks that part values."""
    marks = [k for k, byte in enumerate(content) if byte in b', \n"<>[]=']
    if len(marks) < 2:
        return content
    place = int(rng.integers(len(marks) - 1))
    cell = CELLS[rng.integers(len(CELLS))].encode()
    return content[: marks[place] + 1] + cell + content[marks[place + 1] :]


def as_another_text(content: bytes, rng: np.random.Generator) -> bytes:
    kind = rng.integers(4)
    text = content.decode("latin-1")
    if kind == 0:
        return text.encode("utf-16")
    if kind == 1:
        return content.replace(b"\n", b"\r")
    if kind == 2:
        return content * int(rng.integers(2, 30))
    return b"\xef\xbb\xbf" + content


# Values are changed more often than all else.
CHANGES = (flipped, cut, without_part, with_piece, with_lines_moved, with_value, with_value,
           with_value, with_value, as_another_text)  # fmt: skip


def mutants(count: int, seed: int):
    """Cases of mutants, the same for the same seed whatever the count."""
    found = list(sources().items())
    for k in range(count):
        rng = np.random.default_rng([seed, k])
        name, (content, call) = found[k % len(found)]
        yield Case(f"{seed}-{k}-{name}", call, {name: mutated(content, rng)}, blank=True,
                   names=(name, "v.csv", "w.csv"))  # fmt: skip


def tried(cases, shared: Path, keep: Path | None = None) -> Counter[str]:
    """Count how cases end; one that breaks a promise is printed, and its files are kept."""
    counts: Counter[str] = Counter()
    for case in cases:
        folder = Path(tempfile.mkdtemp(prefix="coupledgp-fuzz-"))
        before = peak()
        signal.alarm(SECONDS)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                counts[f"exit {check(case, folder, shared)}"] += 1
            if peak() - before > MEMORY:
                raise AssertionError(f"{(peak() - before) / 2**20:.0f} MiB were taken")
        except Exception as error:
            signal.alarm(0)
            counts["broken"] += 1
            print(f"{case.name}: {type(error).__name__}: {error!s:.300}", flush=True)
            if keep is not None:
                shutil.copytree(folder, keep / case.name, dirs_exist_ok=True)
        finally:
            signal.alarm(0)
            shutil.rmtree(folder, ignore_errors=True)
    return counts


class TooLate(Exception):  # noqa: N818
    """A call that takes too long."""


def late(*_: object) -> None:
    raise TooLate(f"more than {SECONDS} s")


def peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def main() -> int:
    """Try mutants of models and of files; return 1 if any breaks a promise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("count", type=int)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="folder for files that broke a promise")
    given = parser.parse_args()
    signal.signal(signal.SIGALRM, late)
    with contextlib.ExitStack() as stack:
        shared = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            write_shared(shared)
        first = try_models(given.count, given.seed, shared)
        then = tried(mutants(given.count, given.seed), shared, given.keep)
    print("models", dict(first), "files", dict(then))
    return 1 if first["broken"] or then["broken"] else 0


if __name__ == "__main__":
    sys.exit(main())
