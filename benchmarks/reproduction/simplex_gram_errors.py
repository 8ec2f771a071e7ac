"""Squared Frobenius error of Gram matrices by Laplace features against m (B2; Reid et al., Fig. 7).

There are N = d = 64 inputs from N(0, 0.01 I) and m from d to 10 d frequencies, with iid, orthogonal,
simplex and simplex-plus directions and the fast ones. Printed are means over draws, with standard
errors in brackets.

    python benchmarks/reproduction/simplex_gram_errors.py [--draws 200]
"""

from __future__ import annotations

import argparse

import numpy as np
from rich.console import Console
from rich.table import Table

from coupledgp.features import LaplaceFeatures

COUPLINGS = ("iid", "orthogonal", "simplex", "simplex-plus", "orthogonal-fast", "simplex-fast")


def square_error(X: np.ndarray, coupling: str, m: int, seed: int) -> float:
    """`|Phi Phi' - K|_F^2` of one draw."""
    exact = np.exp(-0.5 * np.square(X[:, None] - X).sum(-1))
    phi = LaplaceFeatures(X.shape[1], m, coupling, generator=seed)(X).numpy()
    return float(np.square(phi @ phi.T - exact).sum())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--blocks", type=int, nargs="+", default=[1, 2, 4, 7, 10])
    arguments = parser.parse_args()
    dim = arguments.dim
    X = 0.1 * np.random.default_rng([0, 64]).normal(size=(dim, dim))
    table = Table(title=f"squared Frobenius error, N = d = {dim}, {arguments.draws} draws")
    for heading in ("m / d", *COUPLINGS):
        table.add_column(heading)
    for blocks in arguments.blocks:
        cells = []
        for coupling in COUPLINGS:
            errors = np.array(
                [square_error(X, coupling, blocks * dim, seed) for seed in range(arguments.draws)]
            )
            standard = errors.std(ddof=1) / len(errors) ** 0.5
            cells.append(f"{errors.mean():.4g} ({standard:.2g})")
        table.add_row(str(blocks), *cells)
    Console(width=140).print(table)


if __name__ == "__main__":
    main()
