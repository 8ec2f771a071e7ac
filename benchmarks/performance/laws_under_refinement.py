"""How far the law of a field moves when its mesh is refined: operator and unit-weight graph.

A smooth field is observed at 40 vertices of a mesh as it is given. The posterior at 200 further
vertices, at fixed hyperparameters (noise 1 % of the prior variance), is computed on the mesh as
given, with each face cut in four, and with each face cut in sixteen and refined to the diameter
times `--reference`. Each is compared with the last one; the unit-weight graph, whose law has no
limit, with each face in four. Changes of means and standard deviations are root mean squares, in
units of the field's standard deviation; the KL is of the joint laws, with noise, in nats a point.

    COUPLEDGP_DATA=FOLDER python benchmarks/performance/laws_under_refinement.py
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from typing import Any

import numpy as np
import trimesh
from scipy import linalg

import coupledgp as cgp
from coupledgp.gp.node_priors import ExactRecipe
from coupledgp.kernels import RegularizedLaplacianKernel
from coupledgp.linalg.sparse_cholesky import SparseFactor, elimination_order
from coupledgp.random import FloatArray, IntArray
from data_loaders import meshes

NAMES = ("icosphere", "idler_riser", "busted", "torus")
N_SENSORS, N_POINTS, NOISE = 40, 200, 0.01
RANGES, STEPS = (0.4, 1.6), (16.0, 256.0)


@dataclass(frozen=True)
class Law:
    """Posterior mean (p,) and covariance (p, p), with noise."""

    mean: FloatArray
    covariance: FloatArray


def whittle_matern(operator: Any, places: IntArray, alpha: int, range_: float) -> FloatArray:
    """`P (M P)^(a-1)` between given vertices.

    `P = (k^2 M + S)^-1`, `k = sqrt(8 (a - 1)) / range`.
    """
    kappa, mass = np.sqrt(8.0 * (alpha - 1)) / range_, operator.mass
    matrix = operator.stiffness.copy()
    matrix.setdiag(matrix.diagonal() + kappa**2 * mass)
    factor = SparseFactor(matrix, elimination_order(matrix, operator.positions))
    vertices = operator.given_vertices[places]
    columns = np.zeros((operator.n_vertices, places.size))
    columns[vertices, np.arange(places.size)] = 1.0
    columns = factor.solve(columns)
    for _ in range(alpha - 1):
        columns = factor.solve(mass[:, None] * columns)
    return columns[vertices]


def unit_weights(mesh: Any, places: IntArray, scale: float) -> FloatArray:
    """The 2-regularised Laplacian of the unit-weight graph between vertices."""
    graph = cgp.Graph.from_trimesh(mesh, "vertices")
    prior = ExactRecipe(graph, "cholesky").make(RegularizedLaplacianKernel(scale, 2.0)).prior
    return prior.matrix(places, places)


def posterior(K: FloatArray, y: FloatArray, scale: float) -> Law:
    """Law at the points behind the first `y.size` places, prior variances divided by `scale`."""
    K, n = K / scale, y.size
    factor = linalg.cho_factor(K[:n, :n] + NOISE * np.eye(n))
    mean = K[n:, :n] @ linalg.cho_solve(factor, y)
    covariance = K[n:, n:] - K[n:, :n] @ linalg.cho_solve(factor, K[:n, n:])
    return Law(mean, covariance + NOISE * np.eye(len(mean)))


def change(one: Law, other: Law) -> str:
    """Changes of mean and standard deviation and the KL a point, from one law to the other."""
    mean = np.sqrt(np.mean((one.mean - other.mean) ** 2))
    std = np.sqrt(np.diag(one.covariance) - NOISE), np.sqrt(np.diag(other.covariance) - NOISE)
    spread = np.sqrt(np.mean((std[0] - std[1]) ** 2))
    factor = linalg.cho_factor(other.covariance, lower=True)
    trace = np.trace(linalg.cho_solve(factor, one.covariance)) - len(one.mean)
    gap = other.mean - one.mean
    logs = 2.0 * np.log(np.diag(factor[0])).sum() - np.linalg.slogdet(one.covariance)[1]
    kl = 0.5 * (trace + gap @ linalg.cho_solve(factor, gap) + logs) / len(gap)
    return f"{mean:8.4f} {spread:8.4f} {kl:8.4f}"


def field(mesh: Any, rng: np.random.Generator) -> FloatArray:
    """A smooth function of position, standardised."""
    place = (mesh.vertices - mesh.bounds.mean(axis=0)) / mesh.scale
    waves = rng.standard_normal((3, 8)) * 4.0
    values: FloatArray = np.cos(place @ waves + rng.uniform(0, 2 * np.pi, 8)).sum(axis=1)
    return (values - values.mean()) / values.std()


def compare(name: str, reference: float, seed: int) -> None:
    """Print the changes of all laws on one mesh."""
    mesh = meshes.load(name).mesh
    mesh = trimesh.Trimesh(mesh.vertices, mesh.faces, process=True)
    rng = np.random.default_rng(seed)
    chosen = rng.choice(len(mesh.vertices), N_SENSORS + N_POINTS, replace=False)
    y = field(mesh, rng)[chosen[:N_SENSORS]] + np.sqrt(NOISE) * rng.standard_normal(N_SENSORS)
    four = mesh.subdivide()
    operators = {
        "as given": cgp.LaplaceOperator.from_trimesh(mesh),
        "in four": cgp.LaplaceOperator.from_trimesh(four),
        "reference": cgp.LaplaceOperator.from_trimesh(four.subdivide(), reference * mesh.scale),
    }
    counts = ", ".join(f"{key} {op.n_vertices}" for key, op in operators.items())
    print(f"{name}: vertices {counts}")
    for alpha in (2, 4):
        for share in RANGES:
            covariances = {
                key: whittle_matern(op, chosen, alpha, share * mesh.scale)
                for key, op in operators.items()
            }
            scale = float(np.diag(covariances["reference"]).mean())
            laws = {key: posterior(K, y, scale) for key, K in covariances.items()}
            for key in ("as given", "in four"):
                moved = change(laws[key], laws["reference"])
                print(f"  operator, alpha {alpha}, range {share} D, {key:9} {moved}", flush=True)
    for steps in STEPS:
        given, finer = (unit_weights(m, chosen, steps) for m in (mesh, four))
        scale = float(np.diag(given).mean())
        moved = change(posterior(given, y, scale), posterior(finer, y, scale))
        print(f"  unit weights, s = {steps:<5g}            as given  {moved}", flush=True)


def main() -> None:
    """Print a table: mean, standard deviation, KL a point."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--meshes", default=",".join(NAMES))
    parser.add_argument("--reference", type=float, default=0.02)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    print("change of                                          mean      std       KL")
    for name in args.meshes.split(","):
        compare(name, args.reference, args.seed)


if __name__ == "__main__":
    main()
