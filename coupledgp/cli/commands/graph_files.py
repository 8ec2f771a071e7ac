"""Observations that `coupledgp interpolate` reads, and the law that it writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from coupledgp.cli.readers.networks import Network, label_column
from coupledgp.cli.readers.node_values import read_values
from coupledgp.cli.readers.tables import write_table
from coupledgp.errors import InvalidInputError
from coupledgp.formats.meshes import WRITERS, checked_fields, save_mesh
from coupledgp.random import FloatArray, IntArray


def write_law(network: Network, fields: dict[str, Any], path: Path, like: Path) -> None:
    """Write nodes and fields (n_nodes,) of them as a table, or with the mesh."""
    if like.suffix.lower() not in WRITERS:
        labels = label_column([network.graph.label(k) for k in range(network.graph.n_nodes)])
        write_table(pa.table({"node": labels, **fields}), path, like)
        return
    save_mesh(path, like.suffix.lower(), checked_fields(network.mesh, network.nodes, fields))


def observations(
    network: Network, values: Path | None, node_column: str | None, value_column: str | None,
    signal: str | None, graph: Path,
) -> tuple[IntArray, FloatArray]:  # fmt: skip
    """Observed nodes (n,) and their values (n,), from a table or from the geometry of the mesh."""
    if values is not None:
        nodes, found, _ = read_values(values, network, node_column, value_column)
        return nodes, found
    if network.mesh is None:
        raise InvalidInputError(f"--signal: {signal} needs a mesh, got {str(graph)!r}")
    return np.arange(network.graph.n_nodes), network.normal_z()


def check_isolated(network: Network, observed: IntArray, keep: bool, path: Path) -> None:
    """Refuse nodes with neither edge nor value, unless `keep`; `observed` are node numbers (n,)."""
    alone = np.setdiff1d(np.flatnonzero(network.graph.degrees == 0), observed)
    if alone.size and not keep:
        label = network.graph.label(int(alone[0]))
        raise InvalidInputError(
            f"{path}: expected an edge or a value for every node, got neither for {label!r} "
            f"({alone.size} such nodes); --keep-isolated gives them the prior"
        )
