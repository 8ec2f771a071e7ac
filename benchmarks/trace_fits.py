"""Files, and calls from file to file, that a fit passes through, traced with `sys.setprofile`.

    PYTHONPATH=CHECKOUT python benchmarks/trace_fits.py table|graph

prints JSON: `files`, those of the package in which a function ran; `edges`, pairs of different
files such that a function of the first called one of the second, directly or with frames of other
packages between them; and `calls`, the number of calls of each edge. A fit on other data goes
before: imports and what is remembered for good are no part of the trace.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections import Counter
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import numpy as np

import coupledgp as cgp

PACKAGE = str(Path(cgp.__file__).parent) + "/"


class Trace:
    """Calls between the files of the package, for `sys.setprofile`."""

    def __init__(self) -> None:
        self.files: set[str] = set()
        self.calls: Counter[tuple[str, str]] = Counter()

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Count a call of a function of the package."""
        name = own_file(frame.f_code)
        if event != "call" or name is None:
            return
        self.files.add(name)
        back = frame.f_back
        while back is not None and own_file(back.f_code) is None:
            back = back.f_back
        caller = None if back is None else own_file(back.f_code)
        if caller is not None and caller != name:
            self.calls[caller, name] += 1


def own_file(code: CodeType) -> str | None:
    """Path of a function's file in the package; None for other code and for a file's own body."""
    name = code.co_filename
    return (
        name.removeprefix(PACKAGE)
        if name.startswith(PACKAGE) and code.co_name != "<module>"
        else None
    )


def fit_table(seed: int) -> None:
    """Sparse-spectrum regression on 200 rows, parameters left at their defaults."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(200, 3))
    y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=200)
    cgp.SparseSpectrumGPRegressor(random_state=0).fit(X, y)


def fit_graph(seed: int) -> None:
    """Regression on a grid of 30 x 30 nodes, 300 of them observed, parameters at their defaults."""
    number = np.arange(900).reshape(30, 30)
    graph = cgp.Graph.from_edges(
        np.concatenate([number[:, :-1].ravel(), number[:-1].ravel()]),
        np.concatenate([number[:, 1:].ravel(), number[1:].ravel()]),
    )
    rng = np.random.default_rng(seed)
    nodes = rng.permutation(900)[:300]
    y = np.sin(nodes / 100) + 0.1 * rng.normal(size=300)
    cgp.GraphGPRegressor(graph, random_state=0).fit(nodes, y)


def main() -> None:
    """Trace the fit that the first argument names."""
    warnings.simplefilter("ignore")
    fit = {"table": fit_table, "graph": fit_graph}[sys.argv[1]]
    fit(1)
    trace = Trace()
    sys.setprofile(trace)
    fit(0)
    sys.setprofile(None)
    edges = sorted(trace.calls)
    calls = [trace.calls[edge] for edge in edges]
    print(json.dumps({"files": sorted(trace.files), "edges": edges, "calls": calls}))


if __name__ == "__main__":
    main()
