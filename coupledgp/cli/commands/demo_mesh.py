"""The mesh of `coupledgp demo`: the defaults, and the papers' estimator, beside the exact GP."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from coupledgp.cli.commands.graph_tasks import split_nodes
from coupledgp.cli.readers.networks import Network
from coupledgp.cli.shared.evaluate import Stopwatch
from coupledgp.datasets import shape
from coupledgp.diagnostics import compare
from coupledgp.diagnostics.sections.section import ReportTable
from coupledgp.graphs import Graph
from coupledgp.ground.progress import reporter
from coupledgp.kernels import HeatKernel
from coupledgp.models import ExactGraphGPRegressor, GraphGPRegressor
from coupledgp.random import FloatArray, IntArray

SHAPE = "icosphere"
HIDDEN = 0.05
MAX_DRAWS = 5
ESTIMATORS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "sigma, geometric, no exact hops": {
        "coupling": "sigma", "length_law": "geometric", "exact_hops": 0,
    },
}  # fmt: skip


@dataclass(frozen=True)
class MeshStudy:
    """Results of the demo on the mesh.

    Attributes
    ----------
    data : dict
        Name and sizes of the mesh, and the hyperparameters.
    figures : dict of estimator to figure to FloatArray (n_draws,)
        Figures of each draw, by estimator and name.
    exact_rmse : float
        Root mean squared error of the exact GP at hidden nodes.
    seconds : dict
        Seconds that each part of the work took, by name.
    network : Network
        The mesh, for the picture.
    observed : IntArray (n,)
        Numbers of the observed nodes.
    law : tuple of FloatArray (n_nodes,)
        Mean and standard deviation of the default estimator at every node.
    """

    data: dict[str, Any]
    figures: dict[str, dict[str, FloatArray]]
    exact_rmse: float
    seconds: dict[str, float]
    network: Network = field(repr=False)
    observed: IntArray = field(repr=False)
    law: tuple[FloatArray, FloatArray] = field(repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return all but the picture as plain values."""
        rows = [
            {"estimator": name} | {k: float(values.mean()) for k, values in figures.items()}
            for name, figures in self.figures.items()
        ]
        return {
            "data": self.data,
            "exact": {"rmse": self.exact_rmse},
            "rows": rows,
            "seconds": self.seconds,
        }

    def table(self) -> ReportTable:
        """Table of the estimators."""
        data = self.data
        title = (
            f"Normals of a mesh ({data['name']}, {data['n_nodes']} faces, {data['n_hidden']} "
            f"hidden), at the exact GP's hyperparameters (diffusion time {data['time']:.3g}): KL, "
            f"nats per hidden face, means over {data['n_draws']} draws"
        )
        rows = [
            (name, f"{figures['kl_per_point'].mean():.2e}", f"{figures['rmse'].mean():.4f}")
            for name, figures in self.figures.items()
        ]
        return ReportTable(
            title, ("estimator", "KL", "RMSE"), [*rows, ("exact", "0", f"{self.exact_rmse:.4f}")]
        )


def run_mesh(n_draws: int, seed: int) -> MeshStudy:
    """Fit the exact GP to the shape's normals, then compare estimators at its hyperparameters."""
    mesh = shape(SHAPE)
    graph = Graph.from_trimesh(mesh, nodes="faces")
    network = Network(graph, "mesh", mesh, "faces")
    nodes = np.arange(graph.n_nodes)
    task = split_nodes(nodes, network.normal_z(), HIDDEN, seed)
    clock = Stopwatch()
    with clock("exact fit on the mesh"), reporter("fit on the mesh"):
        exact = ExactGraphGPRegressor(
            graph, method="spectral", solver="dense", random_state=seed
        ).fit(task.nodes, task.y)
    figures: dict[str, dict[str, FloatArray]] = {}
    with clock("comparisons on the mesh"), reporter("compare on the mesh"):
        models = {name: _fitted(exact, settings, n_draws, seed) for name, settings in
                  ESTIMATORS.items()}  # fmt: skip
        for name, draws in models.items():
            reports = [compare(m, task.hidden, task.hidden_y, reference=exact) for m in draws]
            figures[name] = {
                key: np.array([getattr(report, key) for report in reports])
                for key in ("kl_per_point", "rmse", "kernel_relative_error")
            }
        exact_rmse = float(reports[0].reference_rmse)
        law = models["defaults"][0].predict(return_std=True)
    kernel = exact.kernel_
    assert isinstance(kernel, HeatKernel)
    return MeshStudy(
        data={
            "name": SHAPE, "source": "trimesh.creation", "n_nodes": graph.n_nodes,
            "n_hidden": len(task.hidden), "n_draws": n_draws, "seed": seed,
            "kernel": repr(kernel), "time": kernel.time,
        },
        figures=figures, exact_rmse=exact_rmse, seconds=clock.seconds, network=network,
        observed=task.nodes, law=law,
    )  # fmt: skip


def _fitted(
    exact: ExactGraphGPRegressor, settings: dict[str, Any], n_draws: int, seed: int
) -> list[GraphGPRegressor]:
    """Models with the hyperparameters and data of the exact GP, one for each draw of the walks."""
    hyper = exact.first_process_.hyperparameters
    return [
        GraphGPRegressor(
            exact.graph,
            hyper.kernel,
            optimizer=None,
            outputscale=hyper.outputscale,
            noise=hyper.noise,
            random_state=seed + draw,
            **settings,
        ).fit(exact.nodes_, exact.y_train_)
        for draw in range(n_draws)
    ]
