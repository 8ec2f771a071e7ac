"""Interpolation tasks on meshes and roads, and the papers' settings of the walks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coupledgp import Graph
from coupledgp.couplings import SigmaLengths, WalkerCoupling
from coupledgp.random import FloatArray
from data_loaders import meshes, traffic

Settings = dict[str, Any]

PAPERS: Settings = {"length_law": "geometric", "p_halt": 0.4, "exact_hops": 0}
SIGMA = WalkerCoupling(SigmaLengths(order=50))


@dataclass(frozen=True)
class Task:
    """A graph, observed nodes with their values, and hidden ones."""

    graph: Graph
    train: NDArray[np.int64]
    y: FloatArray
    test: NDArray[np.int64]
    y_test: FloatArray


def task(name: str, seed: int) -> Task:
    """A random split of a mesh or of the traffic speeds."""
    rng = np.random.default_rng(seed)
    if name == "traffic":
        data = traffic.load()
        graph, y, nodes, n_test = data.graph, data.speeds, data.sensors, 75
    else:
        mesh = meshes.load(name)
        graph, y, nodes = mesh.graph, mesh.normal_z, np.arange(mesh.graph.n_nodes)
        n_test = round(0.05 * nodes.size)
    order = rng.permutation(nodes.size)
    test, train = order[:n_test], order[n_test:]
    return Task(graph, nodes[train], y[train], nodes[test], y[test])
