"""What simplex directions do to Fourier features: errors of the kernel, and of the posterior.

The root mean square errors come from `coupledgp.theory`, at the distance of one lengthscale, as
multiples of orthogonal directions'. The KL is that from the exact posterior to the one with
features, nats per point at 256 test rows given 256 rows of the power table, hyperparameters of the
exact GP, averaged over splits and draws.

    COUPLEDGP_DATA=... python benchmarks/reproduction/simplex_with_fourier.py [--splits 4]
"""

from __future__ import annotations

import argparse

import numpy as np
from uci_couplings import split

import coupledgp as cgp
from coupledgp.diagnostics import compare
from coupledgp.theory import distance_mse

COUPLINGS = ("iid", "orthogonal", "simplex", "simplex-plus")


def kernel_error(coupling: str, dim: int) -> float:
    """RMSE of the kernel at the distance of one lengthscale, with d frequencies."""
    return float(np.sqrt(distance_mse("fourier", coupling, dim, dim, 1.0)))


def posterior_kl(coupling: str, n_frequencies: int, n_splits: int, draws: int = 4) -> float:
    """Mean KL per test point on power, whose inputs have four columns."""
    found = []
    for number in range(n_splits):
        X, y, X_test, _ = split("power", number)
        exact = cgp.ExactGPRegressor(ard=False, random_state=0).fit(X, y).process_
        model = cgp.SparseSpectrumGPRegressor(ard=False)
        for seed in range(draws):
            process = model.approximation(exact, coupling, n_frequencies, seed)
            found.append(compare(process, X_test).kl_per_point)
    return float(np.mean(found))


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=4)
    arguments = parser.parse_args()
    for dim in (2, 5, 13):
        ratio = kernel_error("simplex", dim) / kernel_error("orthogonal", dim)
        print(f"d={dim:2}: RMSE of simplex over orthogonal {ratio:.3f}")
    for n_frequencies in (4, 8, 32):
        found = {c: posterior_kl(c, n_frequencies, arguments.splits) for c in COUPLINGS}
        shown = ", ".join(f"{coupling} {value:.4f}" for coupling, value in found.items())
        print(f"power, d=4, m={n_frequencies}: KL per point {shown}")


if __name__ == "__main__":
    main()
