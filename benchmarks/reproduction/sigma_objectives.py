"""Sigma from the linear objective against the exact quadratic one (A8; figure 8).

eurosis, 2-regularised Laplacian, m = 2. The papers' finding to confirm: no significant difference
in the kernel's error.

    COUPLEDGP_DATA=FOLDER python benchmarks/reproduction/sigma_objectives.py
"""

from __future__ import annotations

import argparse

import numpy as np
from graph_common import exact_products, frobenius, mean_and_error, table

from coupledgp.couplings import GeometricLaw, SigmaLengths, WalkerCoupling, solve_sigma
from coupledgp.features import sample_walks
from coupledgp.features.modulation import n_terms_for
from coupledgp.kernels import RegularizedLaplacianKernel
from data_loaders import graphs

KERNEL = RegularizedLaplacianKernel(1.0, 2.0)


def main() -> None:
    """Print errors of both permutations for each order and chance of halting."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--graph", default="eurosis")
    parser.add_argument("--orders", nargs="+", type=int, default=[4, 6, 8, 10])
    parser.add_argument("--halts", nargs="+", type=float, default=[0.1, 0.3, 0.5])
    parser.add_argument("--draws", type=int, default=20)
    arguments = parser.parse_args()
    graph = graphs.load(arguments.graph).graph
    probes = np.random.default_rng(0).choice([-1.0, 1.0], (graph.n_nodes, 32))
    exact, norm = exact_products(graph, KERNEL, probes), frobenius(graph, KERNEL)
    f = KERNEL.modulation(n_terms_for(KERNEL))
    rows = []
    for p in arguments.halts:
        survival = GeometricLaw(p).survival(f.size - 1)
        for order in arguments.orders:
            cells = []
            for objective in ("linear", "quadratic"):
                sigma = solve_sigma(f, survival, order, objective=objective)
                coupling = WalkerCoupling(SigmaLengths(permutation=tuple(sigma.tolist())))
                found = []
                for seed in range(arguments.draws):
                    walks = sample_walks(graph, 2, p, coupling, generator=seed, modulation=KERNEL)
                    phi = walks.features(KERNEL)
                    gap = phi @ (phi.T @ probes) - exact
                    found.append(float(np.sqrt((gap**2).sum() / 32)) / norm)
                mean, error = mean_and_error(found)
                cells += [str((sigma + 1).tolist()), f"{mean:.4f} ({error:.4f})"]
            rows.append([p, order, *cells])
    print(table(["p", "n", "linear", "error", "quadratic", "error"], rows))


if __name__ == "__main__":
    main()
