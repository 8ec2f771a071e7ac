"""Errors of kernel estimates in closed form against simulation (B1), the largest z printed.

For every feature map, every coupling with a closed form, and several dimensions, the mean squared
error over draws of whole ensembles is compared with `coupledgp.theory`. Then follows the ratio of
simplex to orthogonal errors of Laplace features for d = 64 against v = |x + y| (Reid et al. 2023,
Fig. 6; 0.0078 for small v).

    python benchmarks/reproduction/simulation_against_theory.py [--draws 2000]
"""

from __future__ import annotations

import argparse

import numpy as np

from coupledgp.couplings import available_couplings, parse_coupling
from coupledgp.errors import InvalidInputError
from coupledgp.theory import distance_mse

DIMS = (2, 3, 8, 64)
LENGTHS = {"fourier": 1.1, "laplace": 0.5}
N_DIRECTIONS = 8


def has_closed_form(text: str) -> bool:
    """Whether the theory module knows the coupling's error."""
    try:
        distance_mse("fourier", text, 2, 2, 0.5)
    except InvalidInputError:
        return False
    return True


def square_errors(features: str, text: str, dim: int, n_draws: int, seed: int) -> np.ndarray:
    """Squared errors of each ensemble of m = d frequencies, averaged over directions of inputs."""
    rng, coupling, t = np.random.default_rng(seed), parse_coupling(text), LENGTHS[features]
    arrows = rng.normal(size=(N_DIRECTIONS, dim))
    arrows *= t / np.linalg.norm(arrows, axis=1, keepdims=True)
    g, exact = (
        (np.exp, np.exp(t**2 / 2)) if features == "laplace" else (np.cos, np.exp(-(t**2) / 2))
    )
    squares = np.empty(n_draws)
    for draw in range(n_draws):
        w = coupling.sample(dim, dim, generator=rng)
        squares[draw] = np.square(g(arrows @ w.T).mean(axis=1) - exact).mean()
    return squares


def main() -> None:
    """Print a line for each case, the largest z, and the curve of ratios."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--dims", type=int, nargs="+", default=DIMS)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    texts = [text for text in available_couplings() if has_closed_form(text)]
    cases = [(f, text, dim) for f in LENGTHS for text in texts for dim in arguments.dims]
    scores = []
    for number, (features, text, dim) in enumerate(cases):
        seed = arguments.seed * len(cases) + number
        squares = square_errors(features, text, dim, arguments.draws, seed)
        theory = distance_mse(features, text, dim, dim, LENGTHS[features])
        error = max(squares.std(ddof=1) / np.sqrt(len(squares)), 1e-14 * theory)
        scores.append((squares.mean() - theory) / error)
        print(
            f"{features:8} {text:36} d={dim:3} simulated {squares.mean():.4e} "
            f"theory {theory:.4e} z {scores[-1]:+.2f}"
        )
    worst = int(np.argmax(np.abs(scores)))
    print(f"{len(cases)} cases, largest z {scores[worst]:+.2f} at {cases[worst]}")
    print(f"root mean square of z {np.sqrt(np.mean(np.square(scores))):.3f}")
    for v in (0.01, 0.05, 0.5, 1.0, 1.5, 2.0):
        ratio = distance_mse("laplace", "simplex", 64, 64, v)
        ratio /= distance_mse("laplace", "orthogonal", 64, 64, v)
        print(f"d=64 v={v:4}: simplex over orthogonal {ratio:.4f}")


if __name__ == "__main__":
    main()
