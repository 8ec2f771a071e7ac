"""Squared Frobenius error of Gram matrices by Laplace features against m (B2; Reid et al., Fig. 7).

There are N = d = 64 inputs from N(0, 0.01 I) and m from d to 10 d frequencies, with iid, orthogonal,
simplex and simplex-plus directions and the fast ones. Printed are means over draws, with standard
errors in brackets.

    python benchmarks/reproduction/simplex_gram_errors.py [--draws 200] [--record]
"""

from __future__ import annotations

import argparse
from itertools import pairwise

import numpy as np
from record import Record
from rich.console import Console
from rich.table import Table

from coupledgp.features import LaplaceFeatures

COUPLINGS = ("iid", "orthogonal", "simplex", "simplex-plus", "orthogonal-fast", "simplex-fast")
# Standard errors by which a difference of means is beyond chance.
CLEAR = 2.0


def square_error(X: np.ndarray, coupling: str, m: int, seed: int) -> float:
    """`|Phi Phi' - K|_F^2` of one draw."""
    exact = np.exp(-0.5 * np.square(X[:, None] - X).sum(-1))
    phi = LaplaceFeatures(X.shape[1], m, coupling, generator=seed)(X).numpy()
    return float(np.square(phi @ phi.T - exact).sum())


def falls(first: tuple[float, float], second: tuple[float, float]) -> bool:
    """Whether the second mean is below the first by more than chance."""
    return first[0] - second[0] > CLEAR * float(np.hypot(first[1], second[1]))


def record(found: dict[tuple[int, str], tuple[float, float]], draws: int, dim: int) -> None:
    """Write what Fig. 7 claims beside means and standard errors by blocks and coupling."""
    command = f"python benchmarks/reproduction/simplex_gram_errors.py --draws {draws} --record"
    kept = Record("simplex_gram_errors", command)
    finding = kept.item("simplex-random-features", "Figure 7")
    blocks = sorted({number for number, _ in found})
    for (number, coupling), (mean, error) in found.items():
        finding.figure(f"{coupling}, m = {number} d", mean / dim**2, error / dim**2)
    for better, worse in (("orthogonal", "iid"), ("simplex", "orthogonal")):
        finding.claim(
            f"{better} clearly below {worse} at every m (two standard errors).",
            all(falls(found[number, worse], found[number, better]) for number in blocks),
        )
    finding.claim(
        "The error falls with m for iid, orthogonal and simplex features.",
        all(falls(found[a, c], found[b, c]) for c in COUPLINGS[:3] for a, b in pairwise(blocks)),
    )
    finding.note("Squared Frobenius error over d squared; the paper has curves and no numbers.")
    print(kept.write())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--blocks", type=int, nargs="+", default=[1, 2, 4, 7, 10])
    parser.add_argument("--record", action="store_true")
    arguments = parser.parse_args()
    dim = arguments.dim
    X = 0.1 * np.random.default_rng([0, 64]).normal(size=(dim, dim))
    table = Table(title=f"squared Frobenius error, N = d = {dim}, {arguments.draws} draws")
    for heading in ("m / d", *COUPLINGS):
        table.add_column(heading)
    found = {}
    for blocks in arguments.blocks:
        cells = []
        for coupling in COUPLINGS:
            errors = np.array(
                [square_error(X, coupling, blocks * dim, seed) for seed in range(arguments.draws)]
            )
            mean, standard = float(errors.mean()), float(errors.std(ddof=1) / len(errors) ** 0.5)
            found[blocks, coupling] = mean, standard
            cells.append(f"{mean:.4g} ({standard:.2g})")
        table.add_row(str(blocks), *cells)
    Console(width=140).print(table)
    if arguments.record:
        record(found, arguments.draws, dim)


if __name__ == "__main__":
    main()
