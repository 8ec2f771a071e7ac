"""How often estimates by random probes miss the true divergence by two and three standard errors.

    python benchmarks/probe_errors.py --probes 8 16 32 --tables 40 --seeds 40

Every table is a small one, so that dense algebra gives the true figures; every seed draws probes of
its own. Errors are counted after the solver's bounds are taken off, both as they are reported,
widened by Student's law, and as they would be without.
"""

from __future__ import annotations

import argparse

import numpy as np
from scipy.special import ndtr, stdtrit

from coupledgp import SparseSpectrumGPRegressor
from coupledgp.diagnostics import StochasticOptions, compare
from coupledgp.random import FloatArray

FIGURES = ("kl_per_point", "reverse_kl_per_point", "reference_nlpd_joint")
TRAIN = 140


def case(number: int) -> tuple[SparseSpectrumGPRegressor, FloatArray, FloatArray]:
    """A model of 140 rows, and 80 test rows."""
    rng = np.random.default_rng([number, 77])
    X = rng.normal(size=(TRAIN + 80, 3)) + 4.0
    y = 7 + 5 * (np.sin(X @ rng.normal(size=3)) + 0.1 * rng.normal(size=len(X)))
    gp = SparseSpectrumGPRegressor(
        n_frequencies=(8, 25, 80, 200)[number % 4], noise=(0.02, 0.1, 0.3)[number % 3],
        lengthscale=[1.0, 2.0, 1.5], outputscale=1.3, optimizer=None, random_state=number,
    )  # fmt: skip
    return gp.fit(X[:TRAIN], y[:TRAIN]), X[TRAIN:], y[TRAIN:]


def misses(n_probes: int, n_tables: int, n_seeds: int) -> dict[str, FloatArray]:
    """Gaps beyond the solver's bounds, in reported standard errors, by figure."""
    found: dict[str, list[float]] = {name: [] for name in FIGURES}
    for number in range(n_tables):
        gp, X, y = case(number)
        dense = compare(gp, X, y, method="dense")
        for seed in range(n_seeds):
            options = StochasticOptions(
                rank=60, n_columns=2, n_probes=n_probes, seed=1000 * number + seed
            )
            report = compare(gp, X, y, method="stochastic", options=options)
            for name in FIGURES:
                gap = getattr(dense, name) - getattr(report, name)
                below, above = report.accuracy.bounds[name]
                outside = max(gap - above, -gap - below, 0.0)
                found[name].append(outside / report.accuracy.standard_errors[name])
    return {name: np.array(values) for name, values in found.items()}


def main() -> None:
    """Print the shares of misses."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--probes", type=int, nargs="+", default=[8, 16, 32])
    parser.add_argument("--tables", type=int, default=40)
    parser.add_argument("--seeds", type=int, default=40)
    args = parser.parse_args()
    for n_probes in args.probes:
        factor = stdtrit(n_probes - 1, ndtr(2.0)) / 2
        for name, z in misses(n_probes, args.tables, args.seeds).items():
            for label, values in (("widened", z), ("raw", factor * z)):
                print(
                    f"{n_probes:3d} probes, {name}, {label}: {z.size} estimates, "
                    f"|z| > 2 {100 * np.mean(values > 2):.2f} %, "
                    f"|z| > 3 {100 * np.mean(values > 3):.2f} %, largest {values.max():.1f}"
                )


if __name__ == "__main__":
    main()
