"""How near couplings of norms come to the floor of all of them: kernel error of Fourier features.

Directions are orthogonal, m = d, and errors are multiples of that of independent norms at the same
distance. "floor" is `theory.norms_floor`, which no joint law of the norms passes. "rearranged" is a
law that nearly keeps the sum of the squared norms constant: the rearrangement algorithm of
Puccetti and Rueschendorf (2012) on a grid of quantiles, whose columns are in turn sorted against
the sum of the others. Its error is exact for that law. The last table has several blocks: norms
that are equal in a block and stratified across blocks ("shared-strata") go below the floor, which
is one of independent blocks.

    python benchmarks/norm_floors.py [--cells 2000]
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy import special

from coupledgp.random import FloatArray
from coupledgp.spectra import GaussianSpectrum
from coupledgp.theory import distance_mse, norms_floor

DISTANCES = (0.1, 0.5, 1.0, 1.5, 2.0)
DIMS = (2, 4, 8, 16)
BLOCKS = (2, 4, 16)


def rearranged(dim: int, cells: int, rng: np.random.Generator) -> FloatArray:
    """Squared norms (cells, dim): columns of quantiles whose sums vary least."""
    middle = (np.arange(cells) + 0.5) / cells
    quantiles = GaussianSpectrum().norm_ppf(middle, dim) ** 2
    squares = np.stack([rng.permutation(quantiles) for _ in range(dim)], axis=1)
    before = np.inf
    while (now := squares.sum(axis=1).var()) < before * (1 - 1e-6):
        before = now
        for column in range(dim):
            others = squares.sum(axis=1) - squares[:, column]
            squares[np.argsort(-others, kind="stable"), column] = quantiles
    return squares


def law_error(squares: FloatArray, t: float) -> float:
    """Error over that of independent norms, both for norms on the same grid of quantiles."""
    dim = squares.shape[1]
    grid = np.sort(squares[:, 0])

    def moment(both: FloatArray) -> float:
        return float(special.hyp0f1(dim / 2, -(t**2) * both / 4).mean())

    pairs = [(i, j) for i in range(dim) for j in range(i)]
    coupled = np.mean([moment(squares[:, i] + squares[:, j]) for i, j in pairs])
    change = (dim - 1) / dim * (coupled - moment(grid[:, None] + grid))
    return 1 + change / distance_mse("fourier", "orthogonal", dim, dim, t)


def one_block(cells: int) -> None:
    """Print errors of m = d frequencies."""
    print("| d | z | floor | pnc | stratified | rearranged |\n|---|---|---|---|---|---|")
    for dim in DIMS:
        squares = rearranged(dim, cells, np.random.default_rng(dim))
        for t in DISTANCES:
            alone = distance_mse("fourier", "orthogonal", dim, dim, t)
            found = [
                norms_floor("fourier", "orthogonal", dim, dim, t) / alone,
                *(distance_mse("fourier", f"orthogonal+{norms}", dim, dim, t) / alone
                  for norms in ("pnc", "stratified")),
                law_error(squares, t),
            ]  # fmt: skip
            print(f"| {dim} | {t:g} | " + " | ".join(f"{value:.3f}" for value in found) + " |")


def several_blocks() -> None:
    """Print errors of B blocks of d frequencies."""
    print(
        "\n| d | blocks | z | floor of independent blocks | stratified | shared-strata |\n"
        "|---|---|---|---|---|---|"
    )
    for dim in DIMS:
        for blocks in BLOCKS:
            m = dim * blocks
            for t in DISTANCES[1:4]:
                alone = distance_mse("fourier", "orthogonal", m, dim, t)
                found = [
                    norms_floor("fourier", "orthogonal", m, dim, t) / alone,
                    *(distance_mse("fourier", f"orthogonal+{norms}", m, dim, t) / alone
                      for norms in ("stratified", "shared-strata")),
                ]  # fmt: skip
                values = " | ".join(f"{value:.3f}" for value in found)
                print(f"| {dim} | {blocks} | {t:g} | {values} |")


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=2000)
    arguments = parser.parse_args()
    one_block(arguments.cells)
    several_blocks()


if __name__ == "__main__":
    main()
