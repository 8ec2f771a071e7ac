"""Mutants of valid files, given to the command line: python -m tests.hostile.fuzz N --seed S.

Each is a table, graph or mesh of which bytes, lines or values were changed. It ends as the cases of
the corpus do; memory and time of each are measured in the long form.
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

import numpy as np

from tests.hostile import graphs, meshes, options, roads, tables
from tests.hostile.cases import Case, check
from tests.hostile.shared import SPARSE, edges, table, values, write_shared

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
    graph = ("--values", "{shared}/v.csv", "-o", "out.csv", "--exact-nodes", "0", "--undirected",
             "--keep-isolated")  # fmt: skip
    mesh = ("--values", "{shared}/mv.csv", "-o", "out.csv", "--max-edge", "none")
    normals = ("--signal", "normal-z", "-o", "out.csv", "--exact-nodes", "0", "--keep-isolated")
    law = ("-o", "out.csv")
    plain, dated = table(), table().replace("a,", "date,a,", 1).replace("\n", "\n2024-01-01,")
    dated = dated[: -len("2024-01-01,")].replace("2024-01-01,date", "date", 1)
    return {
        "t.csv": (plain.encode(), ("predict", "{shared}/t.model", "t.csv", *law)),
        "f.csv": (plain.encode(), ("fit", "f.csv", "-t", "y", *SPARSE, "-o", "out.model")),
        "d.csv": (dated.encode(), ("fit", "d.csv", "-t", "y", *SPARSE, "-o", "out.model")),
        "t.parquet": (tables.parquet(), ("predict", "{shared}/t.model", "t.parquet", *law)),
        "a.csv": ((plain.replace("y\n", "y,mean,std\n", 1).replace("\n", ",1,1\n")
                   .replace("std,1,1", "std", 1)).encode(), (*options.AUDIT[:3], "--test", "a.csv",
                  "-t", "no", "-o", "out.html")),
        "e.csv": (edges().encode(), ("interpolate", "e.csv", *graph)),
        "w.csv": (edges("weight").encode(), ("interpolate", "w.csv", *graph)),
        "l.csv": (edges("length").encode(), ("interpolate", "l.csv", "--values", "{shared}/v.csv",
                                             "-o", "out.csv")),
        "v.csv": (values().encode(), ("interpolate", "{shared}/e.csv", "--values", "v.csv",
                                      "-o", "out.csv", "--exact-nodes", "0")),
        "n.csv": (values().encode(), ("predict", "{shared}/g.model", "n.csv", *law)),
        "g.graphml": (graphs.graphml(edge='<data key="w">2</data>'), ("interpolate", "g.graphml",
                                                                     *graph)),
        "h.gml": (graphs.gml(edge="weight 2.5"), ("interpolate", "h.gml", *graph)),
        "m.obj": (meshes.SQUARE, ("interpolate", "m.obj", *mesh)),
        "s.stl": (meshes.STL, ("interpolate", "s.stl", *normals)),
        "s.ply": (meshes.PLY, ("interpolate", "s.ply", *normals)),
        "s.off": (meshes.OFF, ("interpolate", "s.off", *normals)),
        "s.glb": (meshes.GLB, ("interpolate", "s.glb", *normals)),
        "s.obj": (meshes.SQUARE, ("interpolate", "s.obj", *normals)),
    }  # fmt: skip


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


def corpus():
    for module in (tables, graphs, meshes, options, roads):
        yield from module.cases()


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
    """Run the whole corpus and many mutants; return 1 if any breaks a promise."""
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
        first = tried(corpus(), shared, given.keep)
        then = tried(mutants(given.count, given.seed), shared, given.keep)
    print("corpus", dict(first), "mutants", dict(then))
    return 1 if first["broken"] or then["broken"] else 0


if __name__ == "__main__":
    sys.exit(main())
