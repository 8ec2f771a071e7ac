"""Fields from many sensors: sparse precisions beside dense covariances, in one run.

On spheres of some sizes with sensors at random, one thread, seconds of

* one evaluation of the evidence: by the columns of the covariance (factor, a solve a sensor, one
  eigendecomposition for all noise ratios); by the precision, with its gradient too, and with the
  features of position beside it;
* a whole fit by the precision, along the surface alone and with position;
* means and exact variances at all vertices, and all sensors left out one by one.

The gap is the largest difference of the two log evidences, nats, up to their common constant.
`--columns` sets the largest number of sensors for which columns are computed.

    OMP_NUM_THREADS=1 python benchmarks/performance/many_sensors.py --subdivisions 5 6
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import trimesh

import coupledgp as cgp
from coupledgp.core.process import Data
from coupledgp.features import FourierFeatures
from coupledgp.fields.covariance import FieldCovariance
from coupledgp.fields.evidence import (
    FieldPrecisionEvidence,
    FieldScales,
    PositionFeatures,
    evidence_at_ratios,
)
from coupledgp.fields.locations import location_positions, location_rows
from coupledgp.fields.precision import FieldPrecision, flat_variance
from coupledgp.fields.search import N_FREQUENCIES, fit_precise
from coupledgp.kernels.fields import FieldKernel, PositionKernel, WhittleMatern

RANGE, RATIOS = 0.6, np.array([1e-3, 1e-2, 1e-1])


def field(points: np.ndarray) -> np.ndarray:
    """Waves, and a bump that is short beside them."""
    bump = np.exp(-20 * ((points - [1, 0, 0]) ** 2).sum(axis=1))
    return 5 * np.sin(3 * points[:, 0]) + 3 * np.cos(4 * points[:, 1] * points[:, 2]) + 4 * bump


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    """CPU seconds of a call, and its result."""
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def sensors(sphere: cgp.LaplaceOperator, n: int) -> Data:
    """Noisy observations of the field at random places."""
    rng = np.random.default_rng(0)
    points = rng.normal(size=(n, 3))
    points /= np.linalg.norm(points, axis=1)[:, None]
    y = field(points) + 0.1 * rng.normal(size=n)
    return Data.of(sphere.project(points).points, y[:, None])


def evaluations(sphere: cgp.LaplaceOperator, data: Data, most_columns: int) -> dict[str, float]:
    """Seconds of one evaluation by each route, and the gap of their values."""
    y = (data.targets - data.targets.mean()) / data.targets.std()
    rows = location_rows(data.points, sphere.n_vertices)
    evidence = FieldPrecisionEvidence(FieldPrecision.of(sphere, 2, rows), rows, np.ones(len(y)), y)
    kernel = WhittleMatern(RANGE, 2)
    # Noise ratios of the columns are relative to a mean variance of one.
    kappa = kernel.kappa(2)
    fields = FieldCovariance(sphere)
    variance = fields.surface.known(kernel).mean_variance / flat_variance(kappa, 2, 2)
    scales = [FieldScales(np.log(kappa), float(np.log(g * variance))) for g in RATIOS]
    out = {}
    out["precision"], _ = timed(lambda: evidence.at(scales[0]))
    out["gradient"], _ = timed(lambda: evidence.at(scales[1], True))
    positions = location_positions(data.points, sphere.positions)
    drawn = FourierFeatures(3, N_FREQUENCIES, spectrum="matern-5/2", generator=0)
    beside = evidence.with_features(PositionFeatures.of(drawn, positions))
    own = scales[2]._replace(features=0.0, lengthscale=np.log(0.5))
    out["features"], _ = timed(lambda: beside.at(own, True))
    if len(y) <= most_columns:
        fresh = FieldCovariance(sphere)
        out["columns"], found = timed(
            lambda: evidence_at_ratios(fresh.surface.gram(kernel, data.points), y, RATIOS)
        )
        values = np.array([evidence.at(scale).log_evidence for scale in scales])
        shifts = values - found.log_evidence
        out["gap"] = float(np.ptp(shifts))
    return out


def fits(sphere: cgp.LaplaceOperator, data: Data) -> dict[str, float]:
    """Seconds of whole fits and predictions, and the errors of the means at all vertices."""
    out: dict[str, float] = {}
    truth = field(np.asarray(sphere.positions))
    for name, kernel in (
        ("surface", FieldKernel(WhittleMatern())),
        ("sum", FieldKernel(WhittleMatern(), PositionKernel())),
    ):
        seconds, (process, search) = timed(
            lambda kernel=kernel: fit_precise(FieldCovariance(sphere), kernel, data)
        )
        out[f"fit {name}"], out[f"evaluations {name}"] = seconds, search.n_evaluations
        places = sphere.at_vertices().points
        out[f"predict {name}"], law = timed(
            lambda process=process, places=places: process.law(places, "variance", latent=True)
        )
        out[f"rmse {name}"] = float(np.sqrt(np.mean((law.mean[:, 0] - truth) ** 2)))
        groups = np.arange(len(data))
        out[f"left out {name}"], _ = timed(
            lambda process=process, groups=groups: process.left_out_law(groups)
        )
    return out


def main() -> None:
    """Print a line of figures for each size."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--subdivisions", type=int, nargs="+", default=[5, 6])
    parser.add_argument("--sensors", type=int, nargs="+", default=[500, 2000, 5000])
    parser.add_argument("--columns", type=int, default=2000, metavar="N")
    args = parser.parse_args()
    # Compiled code is loaded before anything is timed.
    small = cgp.LaplaceOperator.from_trimesh(trimesh.creation.icosphere(subdivisions=2))
    evaluations(small, sensors(small, 50), 50)
    for subdivisions in args.subdivisions:
        mesh = trimesh.creation.icosphere(subdivisions=subdivisions)
        sphere = cgp.LaplaceOperator.from_trimesh(mesh)
        for n in args.sensors:
            data = sensors(sphere, n)
            found = evaluations(sphere, data, args.columns) | fits(sphere, data)
            if "columns" in found:
                found["columns / precision"] = found["columns"] / found["precision"]
            figures = ", ".join(f"{name} {value:.3g}" for name, value in found.items())
            print(f"{sphere.n_vertices} vertices, {n} sensors: {figures}", flush=True)


if __name__ == "__main__":
    main()
