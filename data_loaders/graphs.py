"""Graphs from edge lists: `load("cora")`, any CSV with columns source and target, or networkx.

A graph is looked for by name in `<folder>/graphs/NAME.csv`, where the folder is `data_dir` or else
the one that the environment variable COUPLEDGP_DATA names. Some graphs ship with networkx and need
no file.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyarrow import ArrowInvalid, csv

from coupledgp.errors import DataNotFoundError, InvalidInputError
from coupledgp.graphs import Graph
from data_loaders.files import ENVIRONMENT_VARIABLE, data_folder, local_file


@dataclass(frozen=True, eq=False)
class GraphData:
    """A graph; `source` says in words where it came from."""

    name: str
    graph: Graph
    source: str


def names(data_dir: str | Path | None = None) -> list[str]:
    """Return the names of the graphs in the local folder and of those that ship with networkx."""
    folder = data_folder(data_dir, "graphs")
    local = [] if folder is None else sorted(path.stem for path in folder.glob("*.csv"))
    return [*local, *(name for name in _embedded() if name not in local)]


def load(name: str | Path = "les-miserables", data_dir: str | Path | None = None) -> GraphData:
    """Load a graph by name or file.

    Parameters
    ----------
    name
        One of `names()`, or the path of a CSV with columns `source` and `target`, and `weight` for
        a weighted graph.
    data_dir
        Folder that holds a folder `graphs`; None means the folder that the environment variable
        COUPLEDGP_DATA names.

    Raises
    ------
    DataNotFoundError
        There is no such file, and networkx has no graph of this name.
    """
    text = str(name)
    is_file = Path(text).suffix == ".csv"
    path = Path(text) if is_file else local_file(data_dir, "graphs", f"{text}.csv")
    if path is not None:
        return GraphData(path.stem, read_edges(path), f"file {path.name}")
    if text in _embedded():
        return GraphData(text, Graph.from_networkx(_embedded()[text](), weight=None), "networkx")
    raise DataNotFoundError(
        f"graph {text!r}: not among {', '.join(names(data_dir))}; put {text}.csv (columns source "
        f"and target) into the folder graphs under the one that {ENVIRONMENT_VARIABLE} names"
    )


def read_edges(path: Path) -> Graph:
    """Read an edge list; ends that are integers are node numbers, all others are labels."""
    if not path.is_file():
        raise DataNotFoundError(f"graph: no file {path}")
    try:
        table = csv.read_csv(path)
    except ArrowInvalid as error:
        raise InvalidInputError(f"graph: cannot read {path}: {error}") from error
    for column in ("source", "target"):
        if column not in table.column_names:
            raise InvalidInputError(
                f"graph: {path} needs columns source and target, got {table.column_names}"
            )
    weights = table["weight"].to_numpy() if "weight" in table.column_names else None
    return Graph.from_edges(table["source"].to_numpy(), table["target"].to_numpy(), weights)


def _embedded() -> dict[str, Callable[[], Any]]:
    """Return the makers of networkx's own graphs by name; all of these graphs are connected."""
    import networkx as nx

    return {
        "karate": nx.karate_club_graph,
        "les-miserables": nx.les_miserables_graph,
        "florentine-families": nx.florentine_families_graph,
        "davis-southern-women": nx.davis_southern_women_graph,
    }
