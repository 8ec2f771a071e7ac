"""How near couplings of norms come to the floor of all of them: kernel error of Fourier features.

Directions are orthogonal, m = d, and errors are multiples of that of independent norms at the same
distance. "floor" is `theory.norms_floor`, which no joint law of the norms passes. "rearranged" is a
law that nearly keeps the sum of the squared norms constant: the rearrangement algorithm of
Puccetti and Rueschendorf (2012) on a grid of quantiles, whose columns are in turn sorted against
the sum of the others. Its error is exact for that law. The last table has several blocks: norms
that are equal in a block and stratified across blocks go below the floor, which is one of
independent blocks; these errors are simulated, with one standard error in brackets.

    python benchmarks/norm_floors.py [--cells 2000] [--draws 4000]
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np
from scipy import special

from coupledgp.couplings import DirectionsAndNorms, OrthogonalDirections
from coupledgp.couplings.frequencies.norms import Norms
from coupledgp.random import FloatArray, open_uniforms
from coupledgp.spectra import GaussianSpectrum
from coupledgp.theory import distance_mse, norms_floor, simulated_distance_mse

DISTANCES = (0.1, 0.5, 1.0, 1.5, 2.0)
DIMS = (2, 4, 8, 16)
BLOCKS = (2, 4, 16)


@dataclass(frozen=True)
class SharedStrata(Norms):
    """One norm a block, the blocks' norms from equal strata in random order."""

    def sample(self, n: int, block_size: int, rng: np.random.Generator) -> FloatArray:
        blocks = -(-n // block_size)
        u = (rng.permutation(blocks) + open_uniforms(rng, blocks)) / blocks
        return np.repeat(np.clip(u, 2.0**-53, 1 - 2.0**-53), block_size)[:n]


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


def several_blocks(draws: int) -> None:
    """Print errors of B blocks of d frequencies."""
    print("| d | blocks | z | floor of independent blocks | stratified | equal in a block, "
          "stratified across |\n|---|---|---|---|---|---|")  # fmt: skip
    coupling = DirectionsAndNorms(OrthogonalDirections(), SharedStrata())
    for dim in DIMS:
        for blocks in BLOCKS:
            m = dim * blocks
            for t in DISTANCES[1:4]:
                alone = distance_mse("fourier", "orthogonal", m, dim, t)
                floor = norms_floor("fourier", "orthogonal", m, dim, t) / alone
                strata = distance_mse("fourier", "orthogonal+stratified", m, dim, t) / alone
                shared = simulated_distance_mse("fourier", coupling, m, dim, t, n_draws=draws)
                value, error = shared.value / alone, shared.standard_error / alone
                row = f"| {dim} | {blocks} | {t:g} | {floor:.3f} | {strata:.3f} | "
                print(row + f"{value:.3f} ({error:.3f}) |")


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cells", type=int, default=2000)
    parser.add_argument("--draws", type=int, default=4000)
    arguments = parser.parse_args()
    one_block(arguments.cells)
    several_blocks(arguments.draws)


if __name__ == "__main__":
    main()
