"""All that is drawn, ordered or chosen, on inputs full of ties: `python -m tests.drawn FILE`.

Ties are where rounding decides: equal distances on lattices, repeated eigenvalues of symmetric
graphs and kernels, quantiles of walkers that are alike. What is drawn there must be the same on
every processor; `tests/test_processors.py` compares.
"""

from __future__ import annotations

import sys
import warnings

import networkx as nx
import numpy as np

import coupledgp as cgp
from coupledgp.couplings import posterior_weights, solve_sigma
from coupledgp.ground.parameters import folded
from coupledgp.tables.nearest import nearest, nearest_earlier

Arrays = dict[str, np.ndarray]
SIDE = np.arange(8.0)
LATTICE = np.stack(np.meshgrid(SIDE, SIDE), axis=-1).reshape(-1, 2)
TARGETS = np.sin(LATTICE[:, 0]) + np.cos(LATTICE[:, 1])
KEPT = {"fixed": ("lengthscale", "outputscale", "noise"), "lengthscale": 2.0, "noise": 0.01}
GRID = nx.grid_2d_graph(6, 6)


def sigmas() -> Arrays:
    """Permutations of walkers' lengths, for series of which many quantiles are alike."""
    found, terms = {}, np.arange(16)
    series = {
        "geometric": 0.5**terms,
        "power": 1.0 / (1.0 + terms) ** 2,
        "short": 1.0 * (terms < 3),
    }
    for name, f in series.items():
        for p_halt in (0.1, 0.5):
            survival = np.cumprod(np.r_[1.0, np.full(15, 1.0 - p_halt)])
            found[f"{name}/{p_halt}"] = solve_sigma(f, survival)
            for order in (6, 12):
                found[f"{name}/{p_halt}/quadratic {order}"] = solve_sigma(
                    f, survival, order, objective="quadratic", n_projections=20
                )
    return found


def frequencies() -> Arrays:
    """Frequencies of every coupling."""
    found = {}
    equal = "copula:" + str([[0.5] * i for i in range(1, 4)]).replace(" ", "")
    names = [*cgp.couplings.available_couplings(), f"orthogonal+{equal}"]
    for name in names:
        for dim in (4,) if "copula" in name else (2, 3):
            coupling = cgp.couplings.parse_coupling(name)
            found[f"{name}/{dim}"] = coupling.sample(
                2 * dim + 1, dim, "gaussian", np.random.default_rng(0)
            )
    return found


def neighbours() -> Arrays:
    """Nearest neighbours of the corners of a cube in nine dimensions, and of a lattice."""
    corners = (np.arange(512)[:, None] >> np.arange(9) & 1) * 1.1
    last = np.arange(300, 512)
    return {
        "corners": nearest(corners, corners[:40], 12),
        "middles": nearest(corners, corners[:40] + 0.55, 12),
        "earlier corners": nearest_earlier(corners, last, 12),
        "lattice": nearest(LATTICE, LATTICE + 0.5, 6),
        "earlier": nearest_earlier(LATTICE, np.arange(10, 64), 6),
    }


def tables() -> Arrays:
    """Posterior draws of models of tables."""
    found = {}
    models = {
        "exact": cgp.ExactGPRegressor("gaussian", **folded(cgp.ExactGPRegressor, KEPT)),
        "features": cgp.SparseSpectrumGPRegressor(
            **folded(cgp.SparseSpectrumGPRegressor, dict(n_frequencies=16, random_state=0, **KEPT))
        ),
    }
    for name, model in models.items():
        model.fit(LATTICE, TARGETS)
        found[f"{name}/mean"] = model.predict(LATTICE + 0.5)
        found[f"{name}/draws"] = model.sample_y(LATTICE + 0.5, 3, random_state=1)
    averaged = cgp.SparseSpectrumGPRegressor(
        n_frequencies=16, random_state=0, hyperparameters="averaged"
    ).fit(LATTICE[::2], TARGETS[::2])
    found["averaged/mean"] = averaged.predict(LATTICE + 0.5)
    return found


def graphs() -> Arrays:
    """Walks, laws, draws and sensors on a grid, whose eigenvalues are repeated."""
    found = {}
    kept = {"fixed": ("kernel", "outputscale", "noise"), "noise": 0.01}
    graph = cgp.Graph.from_networkx(GRID)
    nodes = list(GRID)[::3]
    y = np.array([np.sin(a) + np.cos(b) for a, b in nodes])
    for coupling in cgp.couplings.available_walker_couplings():
        model = cgp.GraphGPRegressor(
            graph,
            "heat",
            **folded(
                cgp.GraphGPRegressor,
                dict(
                    coupling=coupling,
                    method="walks",
                    n_walks=8,
                    exact_hops=1,
                    hyperparameters="maximum",
                    random_state=0,
                    **kept,
                ),
            ),
        ).fit(nodes, y)
        found[f"{coupling}/mean"] = model.predict(list(GRID))
        found[f"{coupling}/draws"] = model.sample_y(list(GRID), 2, random_state=1)
    exact = cgp.ExactGraphGPRegressor(
        graph,
        "matern",
        **folded(cgp.ExactGraphGPRegressor, dict(hyperparameters="maximum", **kept)),
    )
    exact.fit(nodes, y)
    found["exact/draws"] = exact.sample_y(list(GRID), 2, random_state=1)
    chosen = cgp.next_sensors(exact, 6).rows
    found["sensors"] = np.array([list(GRID)[k] for k in chosen])
    f = 0.5 ** np.arange(12)
    survival = 0.5 ** np.arange(12)
    weights = posterior_weights(f, graph)
    found["sigma"] = solve_sigma(f, survival, reference=graph, weights=weights)
    found["sigma/quadratic"] = solve_sigma(
        f, survival, reference=graph, weights=weights, objective="quadratic", n_projections=20,
        compression=8,
    )  # fmt: skip
    return found


def main(path: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        parts = [part() for part in (sigmas, frequencies, neighbours, tables, graphs)]
    np.savez(path, **{name.replace("/", ": "): a for part in parts for name, a in part.items()})


if __name__ == "__main__":
    main(sys.argv[1])
