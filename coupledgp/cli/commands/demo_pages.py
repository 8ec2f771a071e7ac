"""The two posterior reports that `coupledgp demo` writes, one of a table and one of a mesh."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from coupledgp.diagnostics import PosteriorReport
from coupledgp.kernels.graph.families import HeatKernel
from coupledgp.models import GraphGPRegressor, SparseSpectrumGPRegressor, posterior_report
from coupledgp.random import FloatArray

TABLE, MESH = "posterior-table", "posterior-mesh"
COUPLINGS = ("iid", "orthogonal", "orthogonal+pnc")
SIZES, TABLE_DRAWS = (16, 64, 256), 4
WALKERS = ("iid", "sigma", "stratified+systematic")
WALKS, MESH_DRAWS = (8, 32), 3
# Scale of the heat kernel, number of hops and noise at which couplings of walkers still differ: by
# default, hops compute nearly the whole series.
TIME, HOPS, NOISE = 8.0, 1, 0.1
OBSERVED, COMPARED = 320, 300


def table_report(data: Any, train: Any, test: Any, seed: int) -> PosteriorReport:
    """Report on a model fitted to a data set by evidence; `train` and `test` are row numbers."""
    n_frequencies = SIZES[1]
    model = SparseSpectrumGPRegressor(n_frequencies=n_frequencies, ard=False, random_state=seed)
    model.fit(data.X[train], data.y[train])
    return posterior_report(
        model, data.X[test], data.y[test], couplings=COUPLINGS, sizes=SIZES, n_draws=TABLE_DRAWS,
        random_state=seed, title=f"Posterior of {n_frequencies} Fourier frequencies: {data.name}",
        data=f"{data.name} ({data.source}), a fifth of the rows held out",
    )  # fmt: skip


def mesh_report(data: Any, height: FloatArray, seed: int) -> PosteriorReport:
    """Report on a fit to noisy values of `height` (n_nodes,), at given hyperparameters."""
    rng = np.random.default_rng(seed)
    order = rng.permutation(data.graph.n_nodes)
    seen, hidden = order[:OBSERVED], order[OBSERVED : OBSERVED + COMPARED]
    noisy = height + NOISE * rng.standard_normal(height.size)
    model = GraphGPRegressor(
        data.graph, HeatKernel(TIME), n_walks=WALKS[-1], exact_hops=HOPS, optimizer=None,
        outputscale=1.0, noise=NOISE**2 / float(np.var(noisy[seen])), random_state=seed,
    ).fit(seen, noisy[seen])  # fmt: skip
    return posterior_report(
        model, hidden, noisy[hidden], couplings=WALKERS, sizes=WALKS, n_draws=MESH_DRAWS,
        random_state=seed, geometry=data.mesh,
        title=f"Posterior of {WALKS[-1]} walkers a face: normals of the {data.name}",
        data=f"z component of the normals of the {data.name} with noise of standard deviation "
        f"{NOISE:g}, seen at {OBSERVED} of {data.graph.n_nodes} faces, compared at {COMPARED} "
        f"others; heat kernel of time {TIME:g}, given; {HOPS} exact hop, few enough for couplings "
        "to matter (the default leaves next to nothing to the walkers)",
    )  # fmt: skip


def write(report: PosteriorReport, page: Path, figures: Path) -> None:
    """Write the page and its figures."""
    report.to_html(page)
    report.to_json(figures)
