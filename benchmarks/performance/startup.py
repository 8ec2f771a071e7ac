"""Time and memory of a start: imports, the command line's help, and the first fit of a graph model.

Each start is a process of its own; the least CPU time (user and system) of some rounds is printed,
its ratio to `import numpy` in the same rounds, and the largest memory. The first fit of a model
compiles its loops: a second table has the CPU time of fits with an empty folder for machine code,
and of the same fits when the folder is filled.

    python benchmarks/performance/startup.py --rounds 9
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile

HELP = "import sys; sys.argv = ['coupledgp', *{}, '--help']; from coupledgp.cli import main; main()"
STARTS = {
    "python": "pass",
    "import numpy": "import numpy",
    "import coupledgp": "import coupledgp",
    "coupledgp --help": HELP.format([]),
    "coupledgp fit --help": HELP.format(["fit"]),
    "a table estimator": "from coupledgp import SparseSpectrumGPRegressor",
    "a graph estimator": "from coupledgp import GraphGPRegressor",
}
BEGIN = """
import warnings
import numpy as np
import coupledgp as cgp

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
"""
# First fits of an installation, imports included.
FITS = {
    "a graph of 400 nodes": """
number = np.arange(400).reshape(20, 20)
sources = np.concatenate([number[:, :-1].ravel(), number[:-1].ravel()])
targets = np.concatenate([number[:, 1:].ravel(), number[1:].ravel()])
nodes = rng.choice(400, 150, replace=False)
model = cgp.GraphGPRegressor(cgp.Graph.from_edges(sources, targets), random_state=0)
model.fit(nodes, np.sin(nodes / 40))
""",
    "a part with 40 sensors": """
import trimesh

part = trimesh.creation.icosphere(4)
points, _ = trimesh.sample.sample_surface(part, 40, seed=0)
cgp.FieldGPRegressor(part).fit(points, np.sin(3 * points[:, 0]) + points[:, 1])
""",
    "a table of 60 rows": """
X = rng.normal(size=(60, 2))
cgp.GPRegressor(random_state=0).fit(X, np.sin(2 * X[:, 0]) + 0.1 * rng.normal(size=60))
""",
}


def start(code: str, **variables: str) -> tuple[float, float]:
    """CPU seconds and the largest memory in MiB of a process that runs some code."""
    with open(os.devnull, "w") as nowhere:
        process = subprocess.Popen(
            [sys.executable, "-c", code], stdout=nowhere, env=os.environ | variables
        )
        _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"expected exit code 0, got {process.returncode} from {code}")
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def least(pairs: list[tuple[float, float]]) -> tuple[float, float]:
    """The least CPU time, and the least memory."""
    seconds, memory = zip(*pairs, strict=True)
    return min(seconds), min(memory)


def compilation(code: str) -> tuple[float, float]:
    """CPU seconds of the first fit of an installation, and of a later one."""
    with tempfile.TemporaryDirectory() as folder:
        cold, _ = start(BEGIN + code, NUMBA_CACHE_DIR=folder)
        warm, _ = start(BEGIN + code, NUMBA_CACHE_DIR=folder)
    return cold, warm


def main() -> None:
    """Read the options and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in STARTS}
    fits: dict[str, list[tuple[float, float]]] = {name: [] for name in FITS}
    for _ in range(args.rounds):
        for name, code in STARTS.items():
            taken[name].append(start(code))
        for name, code in FITS.items():
            fits[name].append(compilation(code))
    unit, _ = least(taken["import numpy"])
    print(f"{'':22s} CPU seconds  of import numpy     MiB")
    for name, pairs in taken.items():
        seconds, memory = least(pairs)
        print(f"{name:22s} {seconds:11.3f} {seconds / unit:16.2f} {memory:7.0f}")
    print()
    print(f"{'a fit, CPU seconds':22s} the first one  later ones")
    for name, found in fits.items():
        cold, warm = (min(column) for column in zip(*found, strict=True))
        print(f"{name:22s} {cold:13.2f} {warm:11.2f}")


if __name__ == "__main__":
    main()
