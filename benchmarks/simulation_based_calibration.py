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
logarithms of the hyperparameters. p is the least p-value of the Kolmogorov-Smirnov tests of all
quantities after Holm's correction.

    python -m benchmarks.simulation_based_calibration [--simulations 400]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import trimesh
from scipy import stats
from threadpoolctl import threadpool_limits

import coupledgp as cgp
from coupledgp.core.averaging import HyperparameterPrior
from coupledgp.core.column_moments import spread_lengthscale
from coupledgp.core.problem import Hyperparameters
from coupledgp.core.process import Data
from coupledgp.core.units import Units
from coupledgp.diagnostics.study import holm
from coupledgp.kernels import dense_spectrum
from coupledgp.random import symmetric_root
from coupledgp.spectra import GaussianSpectrum
from coupledgp.tables.exact_process import ExactGP, StationaryPrior

LEVELS = (0.5, 0.8, 0.95)
DIM, N_TEST = 2, 6
FIXED = {"lengthscale": 0.8, "outputscale": 1.0, "noise": 0.1, "optimizer": None}
N_DRAWS = 99
Quantities = dict[str, Any]
Simulate = Callable[[np.random.Generator], tuple[Quantities, Any]]
Posterior = Callable[[Any, int, np.random.Generator], Quantities]
Ranks = dict[str, np.ndarray]
Run = Callable[[int, int], Ranks]


def ranked(simulate: Simulate, posterior: Posterior, n_simulations: int, seed: int) -> Ranks:
    """Ranks (n_simulations, q) of each quantity among draws, as shares, uniform within a rank."""
    rng = np.random.default_rng(seed)
    found: dict[str, list[np.ndarray]] = {}
    for _ in range(n_simulations):
        truths, data = simulate(rng)
        draws = posterior(data, N_DRAWS, rng)
        for name, truth in truths.items():
            below = (np.atleast_2d(draws[name]) < np.atleast_1d(truth)[:, None]).sum(axis=1)
            found.setdefault(name, []).append(
                (below + rng.uniform(size=below.size)) / (N_DRAWS + 1)
            )
    return {name: np.stack(ranks) for name, ranks in found.items()}


def inputs(n: int, seed: int = 0) -> np.ndarray:
    """Inputs (n, 2), uniform on a square of sides four."""
    return np.random.default_rng(seed).uniform(-2, 2, (n, DIM))


def of_process(model: Any, new: Any, exact: bool) -> Run:
    """Truths from the prior of a fitted model's process, or of its exact counterpart."""
    process = model.process_
    process = process if process.is_gaussian else process.first
    points, units = model.points(new), process.units
    everywhere = np.concatenate([process.data.points, points])
    prior = (process.exact() if exact else process).prior(everywhere)
    root = np.moveaxis(symmetric_root(np.moveaxis(prior, 2, 0)), 0, 2)
    n = len(process.data)

    def simulate(rng: np.random.Generator) -> tuple[Quantities, Data]:
        f = units.offset + np.einsum("ijk,jk->ik", root, rng.standard_normal(root.shape[1:]))
        y = f + process.noise.draw(np.zeros((*f.shape, 1)), rng)[:, :, 0] * units.scale
        truths = {"f": f[n:].ravel(), "mean of f": f[n:].mean(axis=0), "y": y[n:].ravel()}
        return truths, Data.of(process.data.points, y[:n])

    def posterior(data: Data, n_draws: int, rng: np.random.Generator) -> Quantities:
        given = process.conditioned(data)
        f = given.sample(points, n_draws, rng, latent=True)
        y = given.sample(points, n_draws, rng)
        return {"f": f.reshape(-1, n_draws), "mean of f": f.mean(axis=0),
                "y": y.reshape(-1, n_draws)}  # fmt: skip

    return lambda n_simulations, seed: ranked(simulate, posterior, n_simulations, seed)


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
        process = ExactGP.given(
            StationaryPrior(spectrum, hyper), Data.of(X[:1], np.zeros((1, 1))), units, False
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

    return lambda n_simulations, seed: ranked(simulate, posterior, n_simulations, seed)


def cases(rows: list[int]) -> Iterator[tuple[str, str, Run]]:
    """Group, name and run of every case."""
    yield from tables()
    yield from graphs()
    yield from fields()
    for n_rows in rows:
        for choice in ("averaged", "maximum"):
            yield "hyperparameters", f"{choice}, {n_rows} rows", hyperparameters(n_rows, choice)


def coverage(ranks: np.ndarray, level: float) -> tuple[float, float]:
    """Share of truths in central intervals, and its standard error over simulations."""
    inside = (np.abs(2 * ranks - 1) <= level).mean(axis=1)
    return float(inside.mean()), float(stats.sem(inside))


def p_values(ranks: Ranks, seed: int) -> dict[str, float]:
    """Kolmogorov-Smirnov tests of one value a simulation, after Holm's correction."""
    rng = np.random.default_rng(seed)
    one = [r[np.arange(len(r)), rng.integers(r.shape[1], size=len(r))] for r in ranks.values()]
    corrected = holm(np.array([stats.kstest(values, "uniform").pvalue for values in one]))
    return dict(zip(ranks, corrected.tolist(), strict=True))


def line(group: str, name: str, ranks: Ranks, seed: int) -> str:
    """A row of the table: coverage of f and y, and the least p-value."""
    shares = [coverage(ranks[q], level) for q in ("f", "y") for level in LEVELS]
    cells = [f"{100 * share:.1f} ({100 * error:.1f})" for share, error in shares]
    p = p_values(ranks, seed)
    worst = min(p, key=lambda quantity: p[quantity])
    verdict = "uniform" if p[worst] >= 0.05 else f"not: {worst}"
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
    parser.add_argument("--quick", action="store_true", help="20 simulations, tables of 8 rows")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.simulations, arguments.rows = 20, [8]
    heads = [f"{q} {100 * level:.0f} %" for q in ("f", "y") for level in LEVELS]
    print(f"| truth from | posterior | {' | '.join(heads)} | p | ranks |")
    print("|" + "---|" * (4 + len(heads)))
    for group, name, run in cases(arguments.rows):
        if group in arguments.groups:
            with threadpool_limits(1):
                ranks = run(arguments.simulations, arguments.seed)
            print(line(group, name, ranks, arguments.seed), flush=True)


if __name__ == "__main__":
    main()
