"""Counts at places: functions on a lattice, Fourier frequencies, and boosted trees.

Counts of mean `exp(f + .7)`, f a drawn Matern-3/2 field of two columns with lengthscale .1. A line
for each system: RMSE of the log rate at 5000 new places, coverage of its 95 % intervals, the mean
log probability of new counts (at the plain rate for trees), and CPU seconds.

    python -m benchmarks.performance.counts_on_lattices --rows 20000
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from scipy.stats import poisson
from sklearn.ensemble import HistGradientBoostingRegressor

import coupledgp as cgp
from coupledgp.tables import latent_kernels

WAVES, LENGTHSCALE, NEW = 4000, 0.1, 5000


def main() -> None:
    """Print a line for each system."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    rng, n = np.random.default_rng(options.seed), options.rows
    X = rng.uniform(size=(n + NEW, 2))
    waves = rng.normal(size=(2, WAVES)) / LENGTHSCALE / np.sqrt(rng.chisquare(3, size=WAVES) / 3)
    phases = rng.uniform(0, 2 * np.pi, WAVES)
    blocks = np.array_split(X, len(X) // 1000 + 1)
    f = np.concatenate(
        [np.sqrt(2 / WAVES) * np.cos(b @ waves + phases).sum(axis=1) for b in blocks]
    )
    f += 0.7
    y = rng.poisson(np.exp(f)).astype(float)
    truth, new = f[n:], y[n:]

    def show(name: str, log_rate: np.ndarray, covered: float, score: float, start: float) -> None:
        rmse = np.sqrt(np.mean((log_rate - truth) ** 2))
        seconds = time.process_time() - start
        print(f"{name:20s} {rmse:.4f} {covered:.3f} {score:.4f} {seconds:.1f} s", flush=True)

    for name, spectra in (("lattice", latent_kernels.LATTICE_SPECTRA), ("frequencies", ())):
        latent_kernels.LATTICE_SPECTRA = spectra  # without any, functions have Fourier features
        start = time.process_time()
        model = cgp.GPRegressor(likelihood="poisson", budget=1e4, random_state=0)
        process = model.fit(X[:n], y[:n]).process_
        law = process.law(X[n:], "variance", latent=True)
        mean, deviation = law.mean[:, 0], np.sqrt(law.spread[:, 0])
        covered = float(np.mean(np.abs(mean - truth) < 1.96 * deviation))
        show(name, mean, covered, process.log_density(X[n:], new[:, None]).mean(), start)
    start = time.process_time()
    trees = HistGradientBoostingRegressor(loss="poisson", random_state=0).fit(X[:n], y[:n])
    rate = trees.predict(X[n:])
    show("boosted trees", np.log(rate), np.nan, poisson.logpmf(new, rate).mean(), start)
    show("true rates", truth, np.nan, poisson.logpmf(new, np.exp(truth)).mean(), start)


if __name__ == "__main__":
    main()
