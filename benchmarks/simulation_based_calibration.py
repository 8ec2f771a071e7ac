"""Simulation-based calibration of the package's own posteriors (Talts et al. 2018).

Truths are drawn from the prior and data given the truths; the ranks of the truths among draws of
the posterior are uniform if inference is right. Three groups of cases:

* "own": hyperparameters fixed, truth from the process's own prior. Tests how laws and draws are
  computed, of the exact GP, sampled features, graphs and fields. All have to pass.
* "exact": hyperparameters fixed, truth from the exact GP. Tests the approximation as well: features
  that are too few have to fail, and the coverage says by how much.
* "hyperparameters": truth from the prior of the hyperparameters too, averaged over their posterior
  (has to pass) or at the maximum of the evidence (over-confident on few rows).

Quantities are the function f at new points, its mean over them, observations y there, and the
logarithms of the hyperparameters. p is the least p-value of the chi-square and Kolmogorov-Smirnov
tests of all quantities after Holm's correction.

    python -m benchmarks.simulation_based_calibration [--simulations 400] [--output FOLDER]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import trimesh
from threadpoolctl import threadpool_limits

import coupledgp as cgp
from benchmarks.ranks import (
    ProcessSimulation,
    SimulatedCalibration,
    rank_figure,
    simulation_based_calibration,
)
from coupledgp.diagnostics.pages.print_figure import save_figure
from coupledgp.gp.columns import spread_lengthscale
from coupledgp.gp.exact import StationaryPrior
from coupledgp.gp.protocol import Data
from coupledgp.gp.units import Units
from coupledgp.inference.evidence.problem import Hyperparameters
from coupledgp.kernels import dense_spectrum
from coupledgp.search.averaging import HyperparameterPrior
from coupledgp.spectra import GaussianSpectrum

LEVELS = (0.5, 0.8, 0.95)
DIM, N_TEST = 2, 6
FIXED = {"lengthscale": 0.8, "outputscale": 1.0, "noise": 0.1, "optimizer": None}
Run = Callable[[int, int], SimulatedCalibration]


def inputs(n: int, seed: int = 0) -> np.ndarray:
    """Inputs (n, 2), uniform on a square of sides four."""
    return np.random.default_rng(seed).uniform(-2, 2, (n, DIM))


def of_process(model: Any, new: Any, exact: bool) -> Run:
    """Run with the hyperparameters of a fitted model, or of the first member of a mixture."""
    process = model.process_
    process = process if process.is_gaussian else process.first
    simulation = ProcessSimulation.of(process, model.points(new), exact=exact)

    def run(n_simulations: int, seed: int) -> SimulatedCalibration:
        return simulation_based_calibration(
            simulation.simulate, simulation.posterior, n_simulations, generator=seed
        )

    return run


def tables() -> Iterator[tuple[str, str, Run]]:
    """The exact GP, and sampled features beside themselves and the exact GP."""
    X, X_new = inputs(60), inputs(N_TEST, 1)
    y = np.sin(X[:, 0])
    yield "own", "exact GP", of_process(cgp.ExactGPRegressor(**FIXED).fit(X, y), X_new, False)
    for exact in (False, True):
        group = "exact" if exact else "own"
        for coupling in ("iid", "orthogonal+pnc", "halton"):
            for m in (16, 64, 256) if exact else (64,):
                model = cgp.SparseSpectrumGPRegressor(
                    n_frequencies=m, coupling=coupling, random_state=0, **FIXED
                ).fit(X, y)
                yield group, f"{coupling}, m = {m}", of_process(model, X_new, exact)


def graphs() -> Iterator[tuple[str, str, Run]]:
    """A kernel on the faces of a sphere: answered exactly, and by walks."""
    graph = cgp.Graph.from_trimesh(trimesh.creation.icosphere(subdivisions=2), nodes="faces")
    seen, new = np.split(np.random.default_rng(0).permutation(graph.n_nodes)[:86], [80])
    y = np.sin(np.arange(80.0))
    kernel = cgp.kernels.HeatKernel(4.0)
    amplitude = 1 / float(kernel.spectral(dense_spectrum(graph).values).mean())
    options = {"kernel": kernel, "outputscale": amplitude, "noise": 0.1, "optimizer": None}
    model = cgp.GraphGPRegressor(graph, **options).fit(seen, y)
    yield "own", "graph, exact", of_process(model, new, False)
    for hops in (0, 2):
        model = cgp.GraphGPRegressor(
            graph, method="walks", exact_hops=hops, n_walks=4, random_state=0, **options
        ).fit(seen, y)
        name = f"graph, 4 walks behind {hops} hops"
        yield "own", name, of_process(model, new, False)
        yield "exact", name, of_process(model, new, True)


def fields() -> Iterator[tuple[str, str, Run]]:
    """A field on a box: along the surface, and the sum with a part of position, by two routes."""
    box = trimesh.creation.box((4.0, 2.0, 1.0))
    operator = cgp.LaplaceOperator.from_trimesh(box, max_edge=0.5)
    sensors, _ = trimesh.sample.sample_surface(box, 60 + N_TEST, seed=0)
    y = np.sin(sensors[:60, 0])
    surface = cgp.kernels.WhittleMatern(range_=3.0, alpha=2)
    both = surface + cgp.kernels.PositionKernel(lengthscale=1.5)
    for name, kernel, route in (
        ("field along the surface", surface, "columns"),
        ("field along it and of position", both, "columns"),
        ("field by a sparse precision", surface, "precision"),
    ):
        model = cgp.FieldGPRegressor(operator, kernel, route=route, random_state=0)
        yield "own", name, of_process(model.fit(sensors[:60], y), sensors[60:], False)


def hyperparameters(n_rows: int, choice: str, n_averaged: int = 200) -> Run:
    """Run of an exact GP that is fitted to each table, hyperparameters drawn from their prior.

    Where they are averaged, over `n_averaged` weighted draws.
    """
    X, X_new = inputs(n_rows), inputs(N_TEST, 1)
    everywhere = np.concatenate([X, X_new])
    base, prior = spread_lengthscale(X, True), HyperparameterPrior()
    spectrum, units = GaussianSpectrum(), Units(np.zeros(1), np.ones(1))

    def simulate(rng: np.random.Generator) -> tuple[dict[str, Any], Any]:
        relative = prior.lengthscale_sd * rng.standard_normal(DIM)
        v = float(np.exp(prior.outputscale_sd * rng.standard_normal()))
        s = float(np.exp(prior.noise_mean + prior.noise_sd * rng.standard_normal()))
        hyper = Hyperparameters(base * np.exp(relative), v, s)
        process = StationaryPrior(spectrum, hyper).given(
            Data.of(X[:1], np.zeros((1, 1))), units, False
        )
        values, vectors = np.linalg.eigh(process.latent_prior(everywhere))
        f = vectors @ (np.sqrt(np.clip(values, 0, None)) * rng.standard_normal(len(everywhere)))
        y = f + np.sqrt(s) * rng.standard_normal(f.size)
        truth = {"f": f[n_rows:], "mean of f": f[n_rows:].mean(), "y": y[n_rows:]}
        if choice == "averaged":
            logs = {"log lengthscales": np.log(hyper.lengthscale), "log outputscale": np.log(v)}
            truth |= logs | {"log noise": np.log(s)}
        return truth, (y[:n_rows], int(rng.integers(2**31)))

    def posterior(data: Any, n_draws: int, rng: np.random.Generator) -> dict[str, Any]:
        y, seed = data
        gp = cgp.ExactGPRegressor(
            normalize_y=False,
            hyperparameters=choice,
            options={"n_hyperparameter_draws": n_averaged},
            random_state=seed,
        ).fit(X, y)
        f = gp.sample_y(X_new, n_draws, random_state=seed, latent=True)
        drawn = {"f": f, "mean of f": f.mean(axis=0),
                 "y": gp.sample_y(X_new, n_draws, random_state=seed + 1)}  # fmt: skip
        if choice == "averaged":
            process = gp.process_
            chosen = rng.choice(len(process.members), n_draws, p=process.weights)
            members = [process.members[k].hyperparameters for k in chosen]
            drawn["log lengthscales"] = np.log([one.lengthscale for one in members]).T
            drawn["log outputscale"] = np.log([one.outputscale for one in members])
            drawn["log noise"] = np.log([one.noise for one in members])
        return drawn

    def run(n_simulations: int, seed: int) -> SimulatedCalibration:
        return simulation_based_calibration(simulate, posterior, n_simulations, generator=seed)

    return run


def cases(rows: list[int]) -> Iterator[tuple[str, str, Run]]:
    """Group, name and run of every case."""
    yield from tables()
    yield from graphs()
    yield from fields()
    for n_rows in rows:
        for choice in ("averaged", "maximum"):
            yield "hyperparameters", f"{choice}, {n_rows} rows", hyperparameters(n_rows, choice)


def line(group: str, name: str, found: SimulatedCalibration) -> str:
    """A row of the table: coverage of f and y, and the least p-value."""
    cells = [
        f"{100 * found[q].coverage[level]:.1f} ({100 * found[q].coverage_error[level]:.1f})"
        for q in ("f", "y")
        for level in LEVELS
    ]
    p = found.p_values
    worst = min(p, key=lambda quantity: p[quantity])
    verdict = "uniform" if found.is_calibrated else f"not: {worst}"
    return f"| {group} | {name} | {' | '.join(cells)} | {p[worst]:.2g} | {verdict} |"


def main() -> None:
    """Print the table, and write figures and files if a folder is given."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--simulations", type=int, default=400)
    parser.add_argument("--rows", type=int, nargs="*", default=[10, 20, 40])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--groups", nargs="+", default=["own", "exact", "hyperparameters"])
    parser.add_argument("--output", type=Path, help="folder for all figures and histograms of f")
    parser.add_argument("--quick", action="store_true", help="20 simulations, tables of 8 rows")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.simulations, arguments.rows = 20, [8]
    heads = [f"{q} {100 * level:.0f} %" for q in ("f", "y") for level in LEVELS]
    print(f"| truth from | posterior | {' | '.join(heads)} | p | ranks |")
    print("|" + "---|" * (4 + len(heads)))
    figures, histograms = {}, {}
    for group, name, run in cases(arguments.rows):
        if group not in arguments.groups:
            continue
        start = time.perf_counter()
        with threadpool_limits(1):
            found = run(arguments.simulations, arguments.seed)
        print(line(group, name, found), flush=True)
        figures[f"{group}: {name}"] = found.to_dict() | {"seconds": time.perf_counter() - start}
        histograms[f"{group}: {name}"] = found["f"].histogram
    if arguments.output:
        arguments.output.mkdir(parents=True, exist_ok=True)
        text = json.dumps(figures, indent=1)
        (arguments.output / "calibration.json").write_text(text + "\n", encoding="utf-8")
        figure = rank_figure(histograms, arguments.simulations)
        save_figure(figure, arguments.output / "calibration.svg")


if __name__ == "__main__":
    main()
