"""Small files that hostile cases share: tables, graphs, a mesh, and models of each."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import coupledgp as cgp

N_ROWS, N_NODES = 16, 10
SPARSE = ("--model", "sparse-spectrum", "--set", "n_frequencies=4", "--set", "max_iter=1", "--set",
          "n_restarts=0", "--compare", "none", "--holdout", "0")  # fmt: skip
SQUARE = b"v 0 0 0\nv 1 0 0\nv 1 1 0\nv 0 1 0\nv 0 0 1\nf 1 2 3\nf 1 3 4\nf 1 2 5\nf 2 3 5\n"


def table(n: int = N_ROWS) -> str:
    """A table of a, b and y."""
    rng = np.random.default_rng(3)
    rows = rng.normal(size=(n, 3)).round(3).tolist()
    return "a,b,y\n" + "".join(f"{a},{b},{y}\n" for a, b, y in rows)


def edges(column: str = "") -> str:
    """A ring with an edge table's columns."""
    head = f"source,target{',' if column else ''}{column}\n"
    tail = ",1.5" if column else ""
    return head + "".join(f"{k},{(k + 1) % N_NODES}{tail}\n" for k in range(N_NODES))


def values(place: str = "node", n: int = 5) -> str:
    return f"{place},value\n" + "".join(f"{k},{(k * 7) % 5}.5\n" for k in range(n))


def write_shared(folder: Path) -> None:
    """Write all files that cases share."""
    texts = {
        "t.csv": table(), "e.csv": edges(), "el.csv": edges("length"), "v.csv": values(),
        "mv.csv": values("vertex", 4), "law.csv": table().replace("y\n", "y,mean,std\n", 1),
    }  # fmt: skip
    rows = table().splitlines()
    law = ["a,b,y,mean,std", *(f"{row},{row.rsplit(',', 1)[1]},1.0" for row in rows[1:])]
    texts["law.csv"] = "\n".join(law) + "\n"
    for name, text in texts.items():
        (folder / name).write_text(text)
    (folder / "m.obj").write_bytes(SQUARE)
    numbers = np.loadtxt(folder / "t.csv", delimiter=",", skiprows=1)
    _save_models(folder, numbers)


def _save_models(folder: Path, numbers: np.ndarray) -> None:
    import pandas as pd

    frame = pd.DataFrame(numbers, columns=["a", "b", "y"])
    sparse = cgp.SparseSpectrumGPRegressor(
        n_frequencies=4, options={"max_iter": 1, "n_restarts": 0}
    )
    sparse.fit(frame[["a", "b"]], frame["y"]).save(folder / "t.model", include_data=True)
    ends = np.arange(N_NODES)
    graph = cgp.Graph.from_edges(ends, (ends + 1) % N_NODES)
    nodes = cgp.GraphGPRegressor(graph, random_state=0)
    nodes.fit(np.arange(0, N_NODES, 2), np.arange(5.0)).save(folder / "g.model")
    operator = cgp.LaplaceOperator.from_edges(ends, (ends + 1) % N_NODES, np.ones(N_NODES))
    fields = cgp.FieldGPRegressor(operator, "matern")
    fields.fit(operator.at_vertices([0, 3, 5, 8]), np.arange(4.0)).save(folder / "f.model")
