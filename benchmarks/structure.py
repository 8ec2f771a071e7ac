"""The structure of the package in figures, of one state or of two side by side.

    python benchmarks/structure.py BEFORE/coupledgp AFTER/coupledgp --json structure.json

What is measured, and how:

* files and lines: all `.py` files below the folder, all lines of them;
* circles: strongly connected components, of two files or more, of the graph of imports between
  files (`import_graph.py`), imports within functions included; once more with imports under
  `TYPE_CHECKING`. An import of a name from a package is one of the module that defines it;
* local imports: import statements within functions, of files of the package and of other packages,
  in `cli/` and elsewhere: commands import late on purpose;
* a table fit and a graph fit: files in which a function runs, pairs of files of which the first
  calls the second, and pairs that call each other (`trace_fits.py`);
* foreign privates: accesses `x._name` where x is not `self`, `cls` or `super()`; and changes of an
  object's `__dict__` or `vars(...)` (`source_measures.py`);
* public names: entries of `__all__` of the package and of its packages, imported;
* length of a function: lines of its body without the docstring;
* shapes: share, among public functions and methods that have a docstring and take arrays by their
  annotations, of those whose docstring has a shape such as `(n, d)`;
* starts: CPU seconds, user and system, of a process that imports the package or prints the command
  line's help, over those of one that imports numpy; the least of some rounds each.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from import_graph import RUNNING, Import, ImportGraph, circles
from source_measures import foreign_privates, functions, writes_to_dicts

Figures: TypeAlias = dict[str, float]
HERE = Path(__file__).parent
HELP = "import sys; sys.argv = ['coupledgp', '--help']; from coupledgp.cli import main; main()"
STARTS = {"import": "import coupledgp", "--help": HELP}
PUBLIC = """
import importlib, json, pkgutil, warnings
warnings.simplefilter("ignore")
import coupledgp
names = list(coupledgp.__all__)
for found in pkgutil.walk_packages(coupledgp.__path__, "coupledgp."):
    if found.ispkg:
        names += getattr(importlib.import_module(found.name), "__all__", [])
print(json.dumps([len(names), len(set(names))]))
"""


def sizes(graph: ImportGraph) -> Figures:
    """Files and lines."""
    lines = [module.text.count("\n") for module in graph.modules.values()]
    return {
        "files": len(lines),
        "lines": sum(lines),
        "lines of the longest file": max(lines),
        "files of more than 300 lines": sum(n > 300 for n in lines),
    }


def imports(graph: ImportGraph) -> Figures:
    """Imports between files, circles of them, and imports within functions."""
    running = circles(graph.edges())
    typed = circles(graph.edges((*RUNNING, "typing")))
    local = [item for item in graph.imports if item.kind != "eager" and item.kind != "typing"]
    other = [item for item in graph.third_party if item.kind == "local"]
    return {
        "imports from file to file": sum(map(len, graph.edges().values())),
        "circles": len(running),
        "files in circles": sum(map(len, running)),
        "files in circles, for type checkers too": sum(map(len, typed)),
        "local imports of own files, in cli": sum(map(is_in_cli, local)),
        "local imports of own files, elsewhere": sum(not is_in_cli(item) for item in local),
        "local imports of other packages": len(other),
    }


def is_in_cli(item: Import) -> bool:
    """Whether the command line imports."""
    return item.source.split(".")[1:2] == ["cli"]


def traces(checkout: Path) -> Figures:
    """Files and edges of a table fit and of a graph fit."""
    found: Figures = {}
    for kind in ("table", "graph"):
        script = [sys.executable, str(HERE / "trace_fits.py"), kind]
        trace = json.loads(output(script, checkout))
        edges = {tuple(edge) for edge in trace["edges"]}
        both = sum(edge[::-1] in edges for edge in edges) // 2
        found[f"files of a {kind} fit"] = len(trace["files"])
        found[f"edges of a {kind} fit"] = len(edges)
        found[f"pairs of files that call each other in a {kind} fit"] = both
    return found


def privates(graph: ImportGraph) -> Figures:
    """Accesses to the privates of other objects."""
    trees = [module.tree for module in graph.modules.values()]
    accesses = [len(foreign_privates(tree)) for tree in trees]
    return {
        "foreign privates": sum(accesses),
        "files with foreign privates": sum(n > 0 for n in accesses),
        "changes of __dict__ or vars": sum(len(writes_to_dicts(tree)) for tree in trees),
    }


def bodies(graph: ImportGraph) -> Figures:
    """Lengths of functions, and shapes in docstrings."""
    every = [f for module in graph.modules.values() for f in functions(module.tree)]
    lengths = [function.length for function in every]
    public = [f for f in every if f.is_public and f.takes_arrays and f.docstring]
    return {
        "functions": len(every),
        "lines of a function, median": float(np.median(lengths)),
        "lines of a function, 95th percentile": float(np.percentile(lengths, 95)),
        "lines of a function, most": max(lengths),
        "public docstrings of functions of arrays": len(public),
        "share of them with shapes": float(np.mean([f.names_shapes for f in public])),
    }


def public_names(checkout: Path) -> Figures:
    """Entries of `__all__`, all and distinct."""
    all_names, distinct = json.loads(output([sys.executable, "-c", PUBLIC], checkout))
    return {"public names": all_names, "distinct public names": distinct}


def starts(checkout: Path, rounds: int) -> Figures:
    """CPU time of starts, in units of that of `import numpy` in the same rounds."""
    codes = {"numpy": "import numpy", **STARTS}
    seconds = {name: [] for name in codes}  # type: dict[str, list[float]]
    for _ in range(rounds):
        for name, code in codes.items():
            seconds[name].append(cpu_seconds(code, checkout))
    unit = min(seconds["numpy"])
    ratios = {f"{name}, in imports of numpy": min(seconds[name]) / unit for name in STARTS}
    return {"import numpy, CPU seconds": unit, **ratios}


def environment(checkout: Path) -> dict[str, str]:
    """Environment in which the package of a checkout is imported, with one thread."""
    threads = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    return os.environ | threads | {"PYTHONPATH": str(checkout)}


def output(command: list[str], checkout: Path) -> str:
    """What a command prints with a checkout's package."""
    process = subprocess.run(
        command, env=environment(checkout), cwd=HERE, capture_output=True, text=True, check=False
    )
    if process.returncode:
        raise SystemExit(process.stderr)
    return process.stdout


def cpu_seconds(code: str, checkout: Path) -> float:
    """CPU time of a process that runs some code."""
    process = subprocess.Popen(
        [sys.executable, "-c", code],
        env=environment(checkout),
        cwd=HERE,
        stdout=subprocess.DEVNULL,
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"expected exit code 0, got {process.returncode} from {code}")
    return usage.ru_utime + usage.ru_stime


def measured(folder: Path, rounds: int) -> Figures:
    """All figures of a package folder."""
    graph, checkout = ImportGraph(folder), folder.resolve().parent
    return {
        **sizes(graph),
        **imports(graph),
        **traces(checkout),
        **privates(graph),
        **public_names(checkout),
        **bodies(graph),
        **starts(checkout, rounds),
    }


def details(folder: Path) -> dict[str, Any]:
    """Circles, local imports, foreign privates and changes of dictionaries, one by one."""
    graph = ImportGraph(folder)
    late = [str(item) for item in graph.imports if item.kind in ("local", "named", "typing")]
    found: dict[str, dict[str, list[str]]] = {"foreign privates": {}, "changes of dicts": {}}
    for name, module in graph.modules.items():
        trees: list[tuple[str, list[str]]] = [
            ("foreign privates", foreign_privates(module.tree)),
            ("changes of dicts", writes_to_dicts(module.tree)),
        ]
        for key, lines in trees:
            if lines:
                found[key][name] = lines
    return {"circles": circles(graph.edges((*RUNNING, "typing"))), "late imports": late, **found}


def print_table(columns: dict[str, Figures]) -> None:
    """One row for each figure, one column for each folder."""
    names = list(next(iter(columns.values())))
    width = max(map(len, names))
    print(" " * width, *(f"{Path(title).resolve().parent.name:>12}" for title in columns))
    for name in names:
        values = [figures[name] for figures in columns.values()]
        print(f"{name:{width}}", *(f"{v:12.4g}" if v % 1 else f"{v:12.0f}" for v in values))


def main() -> None:
    """Measure each folder and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="PACKAGE_FOLDER")
    parser.add_argument("--json", type=Path, metavar="OUT", help="figures and details to a file")
    parser.add_argument("--rounds", type=int, default=5, help="of starts")
    options = parser.parse_args()
    columns = {str(folder): measured(folder, options.rounds) for folder in options.folders}
    print_table(columns)
    if options.json is not None:
        told = {name: {"figures": columns[name], **details(Path(name))} for name in columns}
        options.json.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
