"""The two posterior reports that `coupledgp demo` writes, one of a table and one of a mesh.

The mesh of `coupledgp demo`: the defaults, and the papers' estimator, beside the exact GP.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import expm_multiply

from coupledgp.cli.commands.graph_run import split_nodes
from coupledgp.cli.readers.networks import Network
from coupledgp.cli.shared.evaluate import Stopwatch
from coupledgp.datasets import shape
from coupledgp.diagnostics import PosteriorReport, compare
from coupledgp.diagnostics.sections.section import ReportTable
from coupledgp.graphs import Graph
from coupledgp.ground.progress import reporter
from coupledgp.kernels.graph.families import HeatKernel
from coupledgp.models import (
    ExactGraphGPRegressor,
    GraphGPRegressor,
    SparseSpectrumGPRegressor,
    posterior_report,
)
from coupledgp.random import FloatArray, IntArray

TABLE, MESH = "posterior-table", "posterior-mesh"
# A table whose function is curved, so that a linear model does worse than a process.
COUPLINGS = ("iid", "orthogonal", "orthogonal+pnc", "posterior")
SIZES, TABLE_DRAWS = (16, 64, 256), 4
WALKERS = ("iid", "sigma", "stratified+systematic")
WALKS, MESH_DRAWS = (32, 128), 3
# Scale of the heat kernel, number of hops and noise at which couplings of walkers still differ: by
# default, hops compute nearly the whole series.
TIME, HOPS, NOISE = 8.0, 2, 0.2
OBSERVED, COMPARED = 320, 300


def table_report(data: Any, train: Any, test: Any, seed: int) -> PosteriorReport:
    """Report on a model fitted to a data set by evidence; `train` and `test` are row numbers."""
    n_frequencies = SIZES[1]
    model = SparseSpectrumGPRegressor(n_frequencies=n_frequencies, random_state=seed)
    model.fit(data.X[train], data.y[train])
    found = posterior_report(
        model, data.X[test], data.y[test], couplings=COUPLINGS, sizes=SIZES, n_draws=TABLE_DRAWS,
        random_state=seed, title=f"Posterior of {n_frequencies} Fourier frequencies: {data.name}",
        data=f"{data.name} ({data.source}), a fifth of the rows held out",
    )  # fmt: skip
    return found.changed(target=data.target_name)


def heat_field(graph: Graph, rng: np.random.Generator) -> FloatArray:
    """A draw (n_nodes,) with the covariance of the heat kernel: white noise after half its time."""
    roots = sparse.diags_array(1 / np.sqrt(graph.adjacency.sum(axis=1)))
    laplacian = sparse.eye_array(graph.n_nodes) - roots @ graph.adjacency @ roots
    return np.asarray(expm_multiply(-TIME / 2 * laplacian, rng.standard_normal(graph.n_nodes)))


def mesh_report(name: str, seed: int) -> PosteriorReport:
    """Report on a model of heat that has spread, at the kernel that the heat is drawn from."""
    mesh = shape(name)
    graph = Graph.from_trimesh(mesh, nodes="faces")
    rng = np.random.default_rng(seed)
    field = heat_field(graph, rng)
    order = rng.permutation(graph.n_nodes)
    seen, hidden = order[:OBSERVED], order[OBSERVED : OBSERVED + COMPARED]
    noisy = field / field.std() + NOISE * rng.standard_normal(field.size)
    unit = float(np.var(noisy[seen]))
    model = GraphGPRegressor(
        graph, HeatKernel(TIME), n_walks=WALKS[-1], exact_hops=HOPS, optimizer=None,
        outputscale=1 / (field.var() * unit), noise=NOISE**2 / unit, random_state=seed,
    ).fit(seen, noisy[seen])  # fmt: skip
    return posterior_report(
        model, hidden, noisy[hidden], couplings=WALKERS, sizes=WALKS, n_draws=MESH_DRAWS,
        random_state=seed, geometry=mesh,
        title=f"Posterior of {WALKS[-1]} walkers a face: heat on the {name}",
        data=f"random heat that has spread on the {name} for a time of {TIME:g}, of unit "
        f"variance, with noise of standard deviation {NOISE:g}, seen at {OBSERVED} of "
        f"{graph.n_nodes} faces, compared at {COMPARED} others; the heat kernel of that time "
        f"is given; {HOPS} exact hops, few enough for couplings to matter (the default leaves next "
        "to nothing to the walkers)",
    )  # fmt: skip


def write(report: PosteriorReport, page: Path, figures: Path) -> None:
    """Write the page and its figures."""
    report.to_html(page)
    report.to_json(figures)


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
