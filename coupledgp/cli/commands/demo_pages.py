"""The two posterior reports that `coupledgp demo` writes, one of a table and one of a mesh."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import expm_multiply

from coupledgp.datasets import shape
from coupledgp.diagnostics import PosteriorReport
from coupledgp.graphs import Graph
from coupledgp.kernels.graph.families import HeatKernel
from coupledgp.models import GraphGPRegressor, SparseSpectrumGPRegressor, posterior_report
from coupledgp.random import FloatArray

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
