"""`coupledgp demo`: reports on embedded data: a table, a mesh, and a field from a few sensors."""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

import coupledgp as cgp
from coupledgp.cli import options as o
from coupledgp.cli.options import opt
from coupledgp.cli.shared import answer, check_paths, heading, notice, whole
from coupledgp.cli.tables import write_table
from coupledgp.datasets import friedman2, shape
from coupledgp.diagnostics.render.page import SECTIONS
from coupledgp.errors import InvalidInputError
from coupledgp.ground.extras import missing
from coupledgp.ground.progress import reporter
from coupledgp.ground.tensors import has_torch

# Couplings of frequencies and of walkers, and their numbers.
COUPLINGS, SIZES = ("iid", "orthogonal", "orthogonal+pnc", "posterior"), (16, 64, 256)
WALKERS, WALKS = ("iid", "sigma", "stratified+systematic"), (32, 128)
# Heat that has spread so far is seen at so many faces of the icosphere, and compared at others.
SPREAD, NOISE, SEEN, COMPARED = 8.0, 0.2, 320, 300
N_SENSORS, SENSOR_NOISE = 40, 0.1


def demo(
    output: Annotated[
        Path, opt("Folder; it is made if missing. [default: demo-report]", "--output", "-o")
    ] = Path("demo-report"),
    draws: Annotated[int, opt("Draws of each coupling and size. [default: 4]")] = 4,
    seed: o.Seed = 0,
    as_json: o.AsJson = False,
    show: o.Show = None,
) -> None:
    """Compare couplings on embedded data and a mesh: under a minute, nothing is downloaded.

    Writes table.html, the posterior of a table's model beside the exact one and couplings at equal
    numbers of frequencies; mesh.html, the same of walkers on a mesh; field.html, a field on a mesh
    from forty sensors, with field.ply and field-sensors.csv; and a .json beside each page.

    Example: coupledgp demo --output demo-report
    """
    if draws < 2:
        raise InvalidInputError(f"--draws: expected two or more, got {draws}")
    check_paths({}, {})
    output.mkdir(parents=True, exist_ok=True)
    reports: dict[str, Any] = {}
    # Matrices this small gain nothing from threads, and lose much where cores are shared.
    with threadpool_limits(1), ExitStack() as stack:
        if has_torch():
            with reporter("table"):
                reports["table"] = table_report(draws, seed)
        else:
            notice(f"table.html is left out, random features of a table: {missing('torch')}")
        with reporter("mesh"):
            reports["mesh"] = mesh_report(draws, seed)
        with reporter("field"):
            reports["field"] = field_report(output, seed)
        for name, report in reports.items():
            report.to_html(stack.enter_context(whole(output / f"{name}.html")))
            report.to_json(stack.enter_context(whole(output / f"{name}.json")))
    written = ", ".join(str(output / f"{name}.html") for name in reports)
    text = "\n\n".join(f"{name}.html\n{report}" for name, report in reports.items())
    result = heading(
        reports={name: report.to_dict() for name, report in reports.items()}, output=output
    )
    answer(result, f"{text}\n\nWritten: {written}, and a .json beside each.", as_json)


def table_report(draws: int, seed: int) -> Any:
    """The report on 64 frequencies fitted to a curved function of four columns, by couplings."""
    data = friedman2()
    order = np.random.default_rng(seed).permutation(len(data.y))
    test, train = np.split(order, [len(order) // 5])
    model = cgp.SparseSpectrumGPRegressor(n_frequencies=64, random_state=seed)
    model.fit(data.X[train], pd.Series(data.y[train], name=data.target_name))
    X, y = data.X[test], pd.Series(data.y[test], name=data.target_name)
    study = cgp.coupling_study(
        model, X, y, couplings=COUPLINGS, sizes=SIZES, n_draws=draws, random_state=seed
    )
    return cgp.report(
        model, X, y, sections={**SECTIONS, "couplings": study.section}, random_state=seed,
        title=f"Posterior of 64 Fourier frequencies: {data.name} ({data.source}), a fifth of the "
        "rows held out",
    )  # fmt: skip


def mesh_report(draws: int, seed: int) -> Any:
    """The report on 128 walkers a face at the kernel that heat on the icosphere is drawn from."""
    mesh, rng = shape("icosphere"), np.random.default_rng(seed)
    graph = cgp.Graph.from_trimesh(mesh, nodes="faces")
    values, vectors = np.linalg.eigh(graph.normalized_adjacency.toarray())
    heat = vectors @ (np.exp(SPREAD / 2 * (values - 1)) * rng.standard_normal(len(values)))
    noisy = heat / heat.std() + NOISE * rng.standard_normal(heat.size)
    seen, hidden, _ = np.split(rng.permutation(graph.n_nodes), [SEEN, SEEN + COMPARED])
    unit = float(np.var(noisy[seen]))
    model = cgp.GraphGPRegressor(
        graph, cgp.kernels.HeatKernel(SPREAD), n_walks=WALKS[-1], exact_hops=2, optimizer=None,
        outputscale=1 / (heat.var() * unit), noise=NOISE**2 / unit, random_state=seed,
    ).fit(seen, noisy[seen])  # fmt: skip
    study = cgp.coupling_study(
        model, hidden, noisy[hidden], couplings=WALKERS, sizes=WALKS, n_draws=draws,
        random_state=seed,
    )  # fmt: skip
    drawn = {"map": lambda _: ("Map", None, partial(model.picture, mesh))}
    return cgp.report(
        model, hidden, noisy[hidden], sections={**drawn, "couplings": study.section},
        random_state=seed, target="heat",
        title=f"Heat that has spread for a time of {SPREAD:g} and has noise of {NOISE:g}, seen at "
        f"{SEEN} of {graph.n_nodes} faces: {WALKS[-1]} walkers a face, and two exact hops",
    )  # fmt: skip


def field_report(folder: Path, seed: int) -> Any:
    """The report on a field from noisy sensors on the annulus; its table and mesh are written."""
    import trimesh

    from coupledgp.fields.estimator import refined_places

    mesh = shape("annulus")
    places, _ = trimesh.sample.sample_surface(mesh, N_SENSORS, seed=seed)
    x, y, z = np.asarray(places).T
    noise = SENSOR_NOISE * np.random.default_rng(seed).standard_normal(N_SENSORS)
    values = 20 + 3 * np.cos(2 * np.arctan2(y, x)) + 2 * z + noise
    sensors = pd.DataFrame({"x": x, "y": y, "z": z, "value": values})
    operator = cgp.LaplaceOperator.from_trimesh(mesh, max_edge="auto")
    model = cgp.FieldGPRegressor(operator, random_state=seed).fit(sensors[[*"xyz"]], values)
    mean, std = model.predict(refined_places(operator), return_std=True)
    with whole(folder / "field-sensors.csv") as path:
        write_table(sensors, path)
    with whole(folder / "field.ply") as path:
        cgp.write_mesh(path, (operator.positions, operator.elements), mean=mean, std=std)
    return cgp.cross_validate(model, title="A field on the annulus from forty sensors")
