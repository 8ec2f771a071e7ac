"""Mean variance of Fourier and Laplace features under optimal and plain sampling (D1).

The data are a fixed sample of Gaussian inputs. Variances come from exact formulas and from a
simulation with one independent frequency, so that a figure is m times the variance with m
frequencies. The papers' Fourier features are complex exponentials; pairs of sine and cosine are
their real part.

    python benchmarks/reproduction/optimal_sampling.py [--draws 20000]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np

from coupledgp.features import (
    FourierFeatures,
    ImportanceLaplaceFeatures,
    LaplaceFeatures,
    least_mean_variance,
)


def plain_laplace(X: np.ndarray) -> float:
    """Mean variance of Laplace features with frequencies from the kernel's own density."""
    sums = np.square(X[:, None] + X).sum(-1)
    norms = np.square(X).sum(1)
    scale = np.exp(-2 * norms[:, None] - 2 * norms)
    return float((scale * (np.exp(2 * sums) - np.exp(sums))).mean())


def simulate(X: np.ndarray, n_draws: int, gram: Callable[[int], np.ndarray]) -> tuple[float, float]:
    """Mean variance of Gram matrices and its standard error."""
    exact = np.exp(-0.5 * np.square(X[:, None] - X).sum(-1))
    values = np.array([np.square(np.abs(gram(i) - exact)).mean() for i in range(n_draws)])
    return float(values.mean()), float(values.std(ddof=1) / n_draws**0.5)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=20_000)
    parser.add_argument("--rows", type=int, default=60)
    parser.add_argument("--dim", type=int, default=3)
    parser.add_argument("--scale", type=float, default=0.47)
    arguments = parser.parse_args()
    dim = arguments.dim
    X = arguments.scale * np.random.default_rng([0, 64]).normal(size=(arguments.rows, dim))

    def complex_gram(seed: int) -> np.ndarray:
        w = FourierFeatures(dim, 1, "iid", generator=seed).frequencies.numpy()[0]
        phase = np.exp(1j * (X @ w))
        return np.outer(phase, phase.conj())

    def gram(make: Callable[[int], LaplaceFeatures | FourierFeatures]):
        def of_seed(seed: int) -> np.ndarray:
            phi = make(seed)(X).numpy()
            return phi @ phi.T

        return of_seed

    least = least_mean_variance(X)
    systems = [
        ("Fourier, complex exponentials", least, complex_gram),
        ("Laplace, optimal", least, gram(lambda s: ImportanceLaplaceFeatures(X, 1, "iid", s))),
        (
            "Laplace, plain",
            plain_laplace(X),
            gram(lambda s: LaplaceFeatures(dim, 1, "iid", generator=s)),
        ),
        (
            "Fourier, sine and cosine",
            None,
            gram(lambda s: FourierFeatures(dim, 1, "iid", generator=s)),
        ),
    ]
    print(f"{arguments.rows} inputs N(0, {arguments.scale}^2 I), d={dim}, {arguments.draws} draws")
    print(f"E[K11 K22 - K12^2] = {least:.4f}; published prototype, other data: 0.614 against 6.2")
    for name, theory, of_seed in systems:
        mean, error = simulate(X, arguments.draws, of_seed)
        expected = (
            "" if theory is None else f" theory {theory:.4f} z {(mean - theory) / error:+.2f}"
        )
        print(f"{name:32} {mean:.4f} ({error:.4f}){expected}, over the least {mean / least:.2f}")
    squares = np.square(X[:, None] - X).sum(-1)
    print(f"sine and cosine, theory {np.square(1 - np.exp(-squares)).mean() / 2:.4f}")


if __name__ == "__main__":
    main()
