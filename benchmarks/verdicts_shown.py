"""Verdicts on models whose faults are known: tables, meshes, traffic, models of other packages.

    COUPLEDGP_DATA=FOLDER python benchmarks/verdicts_shown.py [--output FOLDER] [--only NAME]

Prints the three verdicts and the advice of each, beside what is true of it, and writes its page.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

import coupledgp as cgp
from coupledgp.datasets import meshes, traffic
from coupledgp.diagnostics import PosteriorReport, compare
from coupledgp.random import FloatArray


class Tables(NamedTuple):
    """Training and test tables."""

    X: FloatArray
    y: FloatArray
    X_test: FloatArray
    y_test: FloatArray


def smooth(n_train: int = 300) -> Tables:
    """Draws of a Matern-5/2 process in two columns with 5 % of noise, and 300 test rows."""
    rng = np.random.default_rng(1)
    X = rng.uniform(-2, 2, (n_train + 300, 2))
    hyper = {"kernel": "matern-5/2", "lengthscale": 1.0, "outputscale": 1.0, "noise": 0.05}
    prior = cgp.ExactGPRegressor(**hyper, optimizer=None, normalize_y=False).fit(X[:1], [0.0])
    cov = prior.prior_covariance(X) + 0.05 * np.eye(len(X))
    y = np.linalg.cholesky(cov) @ rng.normal(size=len(X))
    return Tables(X[:n_train], y[:n_train], X[n_train:], y[n_train:])


def good() -> PosteriorReport:
    """The kernel that the data were drawn from, fitted."""
    data = smooth()
    model = cgp.ExactGPRegressor("matern-5/2", random_state=0).fit(data.X, data.y)
    return compare(model, data.X_test, data.y_test)


def misfitted() -> PosteriorReport:
    """A smooth kernel on steps of a chess board, which it cannot follow."""
    rng = np.random.default_rng(2)
    X = rng.uniform(-2, 2, (900, 2))
    steps = np.sign(np.sin(np.pi * X[:, 0]) * np.sin(np.pi * X[:, 1]))
    y = steps + 0.05 * rng.normal(size=900)
    model = cgp.ExactGPRegressor("gaussian", random_state=0).fit(X[:600], y[:600])
    return compare(model, X[600:], y[600:])


def overconfident() -> PosteriorReport:
    """The right kernel with a twentieth of the noise."""
    data = smooth(80)
    model = cgp.ExactGPRegressor(
        "matern-5/2", lengthscale=1.0, outputscale=1.0, noise=0.0025, optimizer=None,
        normalize_y=False,
    )  # fmt: skip
    return compare(model.fit(data.X, data.y), data.X_test, data.y_test)


def few_features() -> PosteriorReport:
    """Eight frequencies where the function needs many."""
    data = smooth()
    model = cgp.SparseSpectrumGPRegressor(
        "matern-5/2", lengthscale=0.5, outputscale=1.0, noise=0.05, n_frequencies=8,
        optimizer=None, random_state=0,
    )  # fmt: skip
    return compare(model.fit(data.X, data.y), data.X_test, data.y_test)


def sensors_on(field: bool) -> PosteriorReport:
    """Heights seen by 40 sensors on a part of a machine: on the surface, or on a bare graph."""
    found = meshes.load("idler_riser")
    mesh = found.mesh
    places = mesh.triangles_center / np.ptp(mesh.vertices, axis=0).max()
    y = np.sin(4 * places[:, 0]) + places[:, 1]
    order = np.random.default_rng(0).permutation(len(y))
    seen, hidden = order[:40], order[40:440]
    if not field:
        model: Any = cgp.GraphGPRegressor(found.graph, random_state=0).fit(seen, y[seen])
        return compare(model, hidden, y[hidden])
    surface = cgp.LaplaceOperator.from_trimesh(mesh, max_edge="auto")
    model = cgp.FieldGPRegressor(surface).fit(surface.at_faces(seen), y[seen])
    return compare(model, surface.at_faces(hidden), y[hidden])


def road_speeds() -> PosteriorReport:
    """Speeds at 75 sensors of San Jose from 250 others, along the roads."""
    data = traffic.load()
    roads = cgp.LaplaceOperator.from_edges(
        data.ends[:, 0], data.ends[:, 1], data.lengths, n_nodes=len(data.positions), max_edge=100.0
    )
    order = np.random.default_rng(0).permutation(data.sensors.size)
    seen, hidden = order[:250], order[250:]
    model = cgp.FieldGPRegressor(roads).fit(data.sensors[seen], data.speeds[seen])
    return compare(model, data.sensors[hidden], data.speeds[hidden])


def scikit_learn() -> PosteriorReport:
    """scikit-learn's process of a Gaussian kernel, fitted."""
    data = smooth()
    kernel = ConstantKernel() * RBF([1.0, 1.0]) + WhiteKernel(0.1)
    model = GaussianProcessRegressor(kernel, normalize_y=True, random_state=0)
    return cgp.audit(model.fit(data.X, data.y), *data)


def svgp(n_inducing: int) -> PosteriorReport:
    """Gpytorch's sparse variational process, after 300 steps of Adam."""
    import gpytorch
    import torch

    data = smooth()
    X, y = torch.as_tensor(data.X), torch.as_tensor(data.y)
    torch.manual_seed(0)

    class Model(gpytorch.models.ApproximateGP):  # type: ignore[misc]
        def __init__(self) -> None:
            points = X[torch.randperm(len(X))[:n_inducing]].clone()
            law = gpytorch.variational.CholeskyVariationalDistribution(n_inducing)
            super().__init__(gpytorch.variational.VariationalStrategy(self, points, law))
            self.mean_module = gpytorch.means.ConstantMean()
            self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.MaternKernel(2.5))

        def forward(self, x: Any) -> Any:
            return gpytorch.distributions.MultivariateNormal(
                self.mean_module(x), self.covar_module(x)
            )

    model, likelihood = Model().double(), gpytorch.likelihoods.GaussianLikelihood().double()
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, len(y))
    optimizer = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.05)
    for _ in range(300):
        optimizer.zero_grad()
        (-bound(model(X), y)).backward()
        optimizer.step()
    model.eval()
    likelihood.eval()
    return cgp.audit((model, likelihood), *data)


# Reports by name, with what is true of them.
CASES: dict[str, tuple[str, Callable[[], PosteriorReport]]] = {
    "good-table": ("the true kernel, fitted", good),
    "misfitted-table": ("a kernel that is too smooth", misfitted),
    "overconfident-table": ("a twentieth of the noise", overconfident),
    "few-features": ("8 frequencies, too few", few_features),
    "mesh-graph": ("40 sensors on a graph without distances", lambda: sensors_on(field=False)),
    "mesh-field": ("40 sensors on the surface", lambda: sensors_on(field=True)),
    "traffic": ("250 sensors along roads", road_speeds),
    "scikit-learn": ("a smooth kernel near the true one, fitted", scikit_learn),
    "svgp-60": ("60 inducing points", lambda: svgp(60)),
    "svgp-8": ("8 inducing points, too few", lambda: svgp(8)),
}  # fmt: skip


def main() -> None:
    """Print the verdicts, and write pages."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path)
    parser.add_argument("--only", choices=list(CASES), nargs="*", default=list(CASES))
    given = parser.parse_args()
    for name in given.only:
        truth, make = CASES[name]
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            report = make()
        print(f"{name} ({truth}), {time.perf_counter() - start:.1f} s")
        for verdict in report.verdicts:
            print(f"  [{verdict.colour}] {verdict.sentence}")
        for advice in report.advice:
            print(f"  -> {advice.text()}")
        if given.output is not None:
            given.output.mkdir(parents=True, exist_ok=True)
            report.to_html(given.output / f"{name}.html")


if __name__ == "__main__":
    main()
