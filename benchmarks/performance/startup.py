"""Time and memory of a start: imports, the command line's help, and the first fit of a graph model.

Each start is a process of its own; the least CPU time (user and system) of some rounds is printed,
its ratio to `import numpy` in the same rounds, and the largest memory. The first fit of a graph
model compiles its loops: the table ends with the CPU time of a fit with an empty folder for machine
code, less that of the same fit when the folder is filled.

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
GRAPH_FIT = """
import numpy as np
from coupledgp import Graph, GraphGPRegressor

number = np.arange(400).reshape(20, 20)
sources = np.concatenate([number[:, :-1].ravel(), number[:-1].ravel()])
targets = np.concatenate([number[:, 1:].ravel(), number[1:].ravel()])
nodes = np.random.default_rng(0).choice(400, 150, replace=False)
model = GraphGPRegressor(Graph.from_edges(sources, targets), random_state=0)
model.fit(nodes, np.sin(nodes / 40))
"""


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


def compilation() -> tuple[float, float]:
    """CPU seconds of the first graph fit of an installation, and of a later one."""
    with tempfile.TemporaryDirectory() as folder:
        cold, _ = start(GRAPH_FIT, NUMBA_CACHE_DIR=folder)
        warm, _ = start(GRAPH_FIT, NUMBA_CACHE_DIR=folder)
    return cold, warm


def main() -> None:
    """Read the options and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in STARTS}
    compiled = []
    for _ in range(args.rounds):
        for name, code in STARTS.items():
            taken[name].append(start(code))
        compiled.append(compilation())
    unit, _ = least(taken["import numpy"])
    print(f"{'':22s} CPU seconds  of import numpy     MiB")
    for name, pairs in taken.items():
        seconds, memory = least(pairs)
        print(f"{name:22s} {seconds:11.3f} {seconds / unit:16.2f} {memory:7.0f}")
    cold, warm = (min(column) for column in zip(*compiled, strict=True))
    print(
        f"first graph fit {cold:.2f} CPU seconds, later ones {warm:.2f}: compiles {cold - warm:.2f}"
    )


if __name__ == "__main__":
    main()
