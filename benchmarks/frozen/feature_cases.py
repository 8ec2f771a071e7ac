"""Cases of couplings, feature maps, samplers, learned copulas and theory."""

from __future__ import annotations

from typing import Any

import networkx as nx
import numpy as np
import torch

import coupledgp as cgp
from coupledgp import couplings, features, theory
from coupledgp.kernels import parse_graph_kernel
from coupledgp.spectra import parse_spectrum
from frozen.cases import X_NEW, Figures, X, Y, case
from frozen.graph_cases import grid

SPECTRA = ("gaussian", "matern-1/2", "matern-5/2")
FREQUENCIES = (
    "iid", "halton", "sobol", "orthogonal", "orthogonal+pnc", "orthogonal+stratified",
    "orthogonal+monotone", "orthogonal+pnc+antithetic", "simplex", "simplex-plus",
    "orthogonal-fast", "simplex-fast+pnc", "quadrature", "quadrature+antithetic",
    "orthogonal+copula:[[0.3],[0,-0.5]]",
)  # fmt: skip
WALKERS = (
    "iid", "antithetic", "stratified", "sigma", "iid+systematic", "stratified+systematic",
    "stratified+repelling",
)  # fmt: skip
KERNELS = (
    "heat", "regularized-laplacian", "matern", "random-walk", "inverse-cosine", "learned",
)  # fmt: skip


def frequencies(name: str) -> Figures:
    """Draws of a coupling for three spectra, and its text."""
    parsed = couplings.parse_coupling(name)
    drawn = {
        spectrum: parsed.sample(27, 3, parse_spectrum(spectrum), 11)
        for spectrum in SPECTRA
        if not ("quadrature" in name and spectrum != "gaussian")
    }
    return {**drawn, "text": str(parsed)}


def walkers(name: str) -> Figures:
    """Estimate of the heat kernel by walks under a coupling."""
    kernel = parse_graph_kernel("heat")
    walks = features.sample_walks(
        grid(5), 8, 0.2, name, "geometric", None, None, 6, modulation=kernel
    )
    return {"features": features.WalkFeatures(walks, kernel) @ np.eye(25)}


def maps() -> Figures:
    """Feature matrices of every map."""
    inputs = torch.as_tensor(X_NEW)
    found = {
        "fourier": features.FourierFeatures(3, 8, "orthogonal", "matern-3/2", 1)(inputs),
        "laplace": features.LaplaceFeatures(3, 8, generator=1)(inputs),
        "importance": features.ImportanceLaplaceFeatures(X / 3, 8, generator=1)(inputs / 3),
        "importance-keys": features.ImportanceLaplaceFeatures(
            X / 3, 8, "iid", generator=1, keys=X_NEW / 3
        )(inputs / 3),
    }
    for name in ("ComplexExponential", "AngularHybrid", "GaussianHybrid"):
        made = getattr(features, f"{name}Features")(3, 8, generator=1)
        found |= {f"{name} queries": made.queries(inputs), f"{name} keys": made.keys(inputs)}
    return {name: np.asarray(value) for name, value in found.items()}


def samplers() -> Figures:
    """The transformers of scikit-learn."""
    fourier = features.FourierSampler(2.0, 8, random_state=0)
    laplace = features.LaplaceSampler([2.0, 3.0, 4.0], 8, random_state=0)
    return {
        "fourier": fourier.fit_transform(X_NEW),
        "names": fourier.get_feature_names_out(),
        "laplace": laplace.fit(X).transform(X_NEW),
    }


def copula(objective: str) -> Figures:
    """A learned copula after four steps."""
    y = Y[:, 0] - Y[:, 0].mean()
    scales = {"lengthscale": 1.5, "outputscale": 1.0, "noise": 0.1}
    losses: dict[str, Any] = {
        "gram": lambda: cgp.gram_loss(X),
        "posterior": lambda: cgp.posterior_kl_loss(X, y, X_NEW, **scales),
        "evidence": lambda: cgp.evidence_loss(X, y, **scales),
        "attention": lambda: cgp.attention_loss(X, X_NEW),
    }
    learned = features.learn_copula(
        losses[objective](), n_frequencies=6, dim=3, generator=0, n_steps=4, batch_size=4,
        n_held_out=8, progress=False,
    )  # fmt: skip
    return {
        "losses": np.asarray(learned.losses),
        "held_out": [learned.start_loss, learned.loss],
        "correlation": learned.coupling.norms.correlation,
    }


def closed_forms() -> Figures:
    """Errors of estimates in closed form."""
    x, y = X[0] / 2, X[1] / 2
    names = ("iid", "orthogonal", "orthogonal+pnc", "simplex", "orthogonal+monotone+antithetic")
    return {
        kind: [theory.expected_mse(kind, name, 6, x, y) for name in names]
        for kind in ("fourier", "laplace")
    }


def graph_kernel(name: str) -> Figures:
    """Spectrum, series and gradient of a graph kernel, and its matrix on a small graph."""
    kernel = parse_graph_kernel(name)
    x = np.linspace(-1, 1, 9)
    graph = cgp.Graph.from_scipy(nx.adjacency_matrix(nx.karate_club_graph(), weight=None))
    plan = features.plan_hops(graph, kernel, 32, "auto", "chebyshev", 16)
    return {
        "spectral": kernel.spectral(x),
        "gradient": kernel.spectral_gradient(x),
        "modulation": kernel.modulation(20),
        "matrix": cgp.kernels.dense_kernel(graph, kernel),
        "hops": plan.nodes,
        "predicted_error": plan.predicted_error,
        "walked": features.walked_series(kernel, plan, 1e-6),
    }


for text in FREQUENCIES:
    case(f"coupling {text}", frequencies, text)
for text in WALKERS:
    case(f"walkers {text}", walkers, text)
for text in KERNELS:
    case(f"graph-kernel {text}", graph_kernel, text)
for text in ("gram", "posterior", "evidence", "attention"):
    case(f"copula {text}", copula, text)
case("feature-maps", maps)
case("samplers", samplers)
case("theory", closed_forms)
