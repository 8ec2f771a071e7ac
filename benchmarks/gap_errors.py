"""Errors of standard deviations in gaps of space-time models, by the length of the gap.

    python benchmarks/gap_errors.py --draws 64 --seeds 2

Half of the sensors have a gap of a given length, inside of the series or at its end, and every
twentieth value is missing. Where the unknown cells are few the law is exact; here they are too many
for that (`gap_variances.INVERTED`), and the exact variances are those of their dense inverse.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

import coupledgp as cgp
from coupledgp.random import FloatArray

N_SENSORS, N_STEPS, MEMORY = 40, 400, 0.97
LENGTHS = (10, 50, 150)


def errors(length: int, at_end: bool, n_draws: int, seed: int) -> tuple[FloatArray, FloatArray]:
    """Relative errors of standard deviations in single gaps, and in gaps of the given length."""
    rng = np.random.default_rng(seed)
    places = rng.uniform(size=(N_SENSORS, 2))
    graph = cgp.Graph.from_points(places, 4)
    gaps = np.linalg.norm(places[:, None] - places[None], axis=2)
    root = np.linalg.cholesky(np.exp(-2 * gaps) + 1e-9 * np.eye(N_SENSORS))
    white = np.sqrt(1 - MEMORY**2) * rng.standard_normal((N_STEPS, N_SENSORS))
    states = [root @ rng.standard_normal(N_SENSORS)]
    for draw in white[1:]:
        states.append(MEMORY * states[-1] + root @ draw)
    values = np.array(states).T + 0.15 * rng.standard_normal((N_SENSORS, N_STEPS))
    values[rng.random(values.shape) < 0.05] = np.nan
    for sensor in range(0, N_SENSORS, 2):
        start = N_STEPS - length if at_end else rng.integers(20, N_STEPS - length - 20)
        values[sensor, start : start + length] = np.nan
    gp = cgp.GraphTimeGPRegressor(
        graph, sensor_covariance="kernel", n_variance_samples=n_draws, progress=False
    ).fit(np.arange(N_SENSORS), np.arange(float(N_STEPS)), values)
    posterior = gp.grid_process_.posterior
    cells, runs = posterior.gaps.runs.cells, posterior.gaps.runs
    noise = (posterior.noise * posterior.system.basis.roots**2)[cells // N_STEPS]
    exact = np.linalg.inv(posterior.gaps.matrix).diagonal() - noise
    off = np.sqrt(posterior.gap_variances.reshape(-1)[cells] / exact) - 1
    lengths = np.repeat(runs.lengths, runs.lengths)
    return off[lengths < 5], off[lengths >= length]


def main() -> None:
    """Print a line for each length."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=64)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--lengths", type=int, nargs="+", default=LENGTHS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    for length in arguments.lengths:
        for at_end in (False, True):
            found = [errors(length, at_end, arguments.draws, k) for k in range(arguments.seeds)]
            where = "at the end" if at_end else "inside"
            for name, parts in zip(
                ("single", f"{length} steps"), zip(*found, strict=True), strict=True
            ):
                off = np.abs(np.concatenate(parts))
                print(
                    f"gaps of {length} steps {where}, {name}: {off.size} cells, median "
                    f"{100 * np.median(off):.2f} %, 95 % below {100 * np.quantile(off, 0.95):.2f} "
                    f"%, largest {100 * off.max():.1f} %",
                    flush=True,
                )


if __name__ == "__main__":
    main()
