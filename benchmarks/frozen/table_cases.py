"""Cases of the regressors and classifiers of Euclidean inputs."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

import coupledgp as cgp
from coupledgp.couplings import DirectionsAndNorms, MonotoneNorms, SimplexDirections
from coupledgp.ground.parameters import folded
from coupledgp.spectra import MaternSpectrum
from frozen.cases import X_NEW, Y_NEW, Figures, X, Y, case, plain


def law(gp: Any, y: np.ndarray) -> Figures:
    """Figures of a fitted regressor at the new inputs, whose targets are y."""
    mean, std = gp.predict(X_NEW, return_std=True)
    figures = {
        "mean": mean,
        "std": std,
        "latent_std": gp.predict(X_NEW, return_std=True, latent=True)[1],
        "covariance": gp.predict(X_NEW, return_cov=True)[1],
        "samples": gp.sample_y(X_NEW, 3, random_state=1),
        "latent_samples": gp.sample_y(X_NEW, 2, random_state=2, latent=True),
        "log_density": gp.log_density(X_NEW, y),
        "log_evidence": gp.log_marginal_likelihood_value_,
        "lengthscale": gp.lengthscale_,
        "outputscale": gp.outputscale_,
        "noise": gp.noise_,
        "prior_covariance": gp.prior_covariance(X_NEW[:8]),
        "y_train": gp.y_train_,
    }
    if hasattr(gp, "member_weights_"):
        figures["member_weights"] = gp.member_weights_
    if hasattr(gp, "n_frequencies_"):
        figures["n_frequencies"] = gp.n_frequencies_
    return figures


def sparse(**parameters: Any) -> cgp.SparseSpectrumGPRegressor:
    """Small regressor; the optimizer is on unless it is turned off."""
    defaults = {"n_frequencies": 24, "n_restarts": 1, "max_iter": 40, "random_state": 3}
    return cgp.SparseSpectrumGPRegressor(
        **folded(cgp.SparseSpectrumGPRegressor, (defaults | parameters))
    )


def fitted(parameters: dict[str, Any], outputs: Any = 0) -> Figures:
    """A sparse-spectrum regressor fitted to one output or several."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a search of few iterations may not converge
        return law(sparse(**parameters).fit(X, Y[:, outputs]), Y_NEW[:, outputs])


def in_batches(parameters: dict[str, Any], outputs: Any = 0) -> Figures:
    """Fitted to the first rows, the others added in two batches."""
    gp = sparse(**parameters).fit(X[:60], Y[:60, outputs])
    gp.partial_fit(X[60:65], Y[60:65, outputs]).partial_fit(X[65:], Y[65:, outputs])
    return law(gp, Y_NEW[:, outputs])


def conditioned(parameters: dict[str, Any], outputs: Any = 0) -> Figures:
    """Fitted to the first rows, then conditioned on the others."""
    gp = sparse(**parameters).fit(X[:60], Y[:60, outputs])
    return law(gp.conditioned_on(X[60:], Y[60:, outputs]), Y_NEW[:, outputs])


def prefixed(word: str, figures: Figures) -> Figures:
    """The same figures of another model of the case."""
    return {f"{word} {name}": value for name, value in figures.items()}


def in_all_ways(parameters: dict[str, Any], outputs: Any = 0, **fit: Any) -> Figures:
    """A model whose fit takes long, its twin, given other rows, and after rows that came late."""
    y, y_new = Y[:, outputs], Y_NEW[:, outputs]
    gp = sparse(**parameters).fit(X[:100], y[:100], **fit)
    figures = {**law(gp, y_new), **prefixed("twin", law(gp.exact_twin(), y_new))}
    figures |= prefixed("given", law(gp.conditioned_on(X[60:], y[60:]), y_new))
    if y.ndim == 1:
        told = cgp.report(gp, X_NEW, y_new).to_dict()
        figures |= {"tables": plain(told["tables"]), "verdicts": plain(told["verdicts"])}
    return {**figures, **prefixed("later", law(gp.partial_fit(X[100:], y[100:]), y_new))}


def twin(parameters: dict[str, Any], outputs: Any = 0) -> Figures:
    """The exact twin of a fitted model."""
    return law(sparse(**parameters).fit(X, Y[:, outputs]).exact_twin(), Y_NEW[:, outputs])


def exact(parameters: dict[str, Any], outputs: Any = 0) -> Figures:
    """The exact regressor, and the same after its last rows came late."""
    gp = cgp.ExactGPRegressor(
        **folded(cgp.ExactGPRegressor, ({"random_state": 0, "n_restarts": 1} | parameters))
    )
    y, y_new = Y[:, outputs], Y_NEW[:, outputs]
    figures = {**law(gp.fit(X[:90], y[:90]), y_new)}
    figures |= prefixed("given", law(gp.conditioned_on(X[:50], y[:50]), y_new))
    return {**figures, **prefixed("later", law(gp.partial_fit(X[90:], y[90:]), y_new))}


def automatic(parameters: dict[str, Any]) -> Figures:
    """Size, coupling or both chosen by the data."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gp = sparse(max_iter=15, n_restarts=0, **parameters).fit(X, Y[:, 0])
    chosen = {
        "coupling": gp.selection_.coupling,
        "explanation": gp.selection_.explain(),
        "kl_per_point": gp.kl_per_point_,
    }
    return {**law(gp, Y_NEW[:, 0]), **chosen}


OFF = {"optimizer": None}
FITTED = {"frequencies": "fitted", "n_frequencies": 6}
POSTERIOR = {**FITTED, "teacher_rows": 60}
LAPLACE = {"features": "laplace", "coupling": "orthogonal+pnc+antithetic"}

for name, settings in {
    "fourier-gaussian": {},
    "fourier-matern": {"kernel": "matern-3/2"},
    "fourier-matern-general": {"kernel": "matern-1.3", "ard": False},
    "fourier-float32": {"dtype": "float32"},
    "laplace-gaussian": LAPLACE,
    "laplace-float32": {**LAPLACE, "dtype": "float32"},
    "optimizer-none": OFF,
    "kept-scales": {**OFF, "lengthscale": [1.0, 2.0, 3.0], "outputscale": 2.0, "noise": 0.05},
    "unnormalised": {"normalize_y": False},
    "fixed-noise": {"fixed": ("noise",), "noise": 0.2},
    "many-frequencies": {**OFF, "n_frequencies": 128},
    "coupling-sobol": {**OFF, "coupling": "sobol"},
    "coupling-fast": {**OFF, "coupling": "orthogonal-fast+stratified"},
    "coupling-quadrature": {**OFF, "coupling": "quadrature", "n_frequencies": 64},
    "coupling-object": {
        **OFF,
        "coupling": DirectionsAndNorms(SimplexDirections(), MonotoneNorms()),
        "kernel": MaternSpectrum(2.5),
    },
    "center-given": {**OFF, **LAPLACE, "center": [0.1, 0.2, 0.3]},
}.items():
    case(f"sparse {name}", fitted, settings)
for name, settings in {
    "optimised": {},
    "optimizer-none": OFF,
    "unnormalised": {**OFF, "normalize_y": False},
    "laplace": {**OFF, **LAPLACE},
}.items():
    case(f"sparse several-outputs {name}", fitted, settings, [0, 1])
for name, settings in {
    "moments": OFF,
    "rows": {**OFF, "n_frequencies": 128},
    "unnormalised": {**OFF, "normalize_y": False},
    "float32": {**OFF, "dtype": "float32"},
    "fast": {**OFF, "coupling": "orthogonal-fast"},
}.items():
    case(f"sparse partial-fit {name}", in_batches, settings)
    case(f"sparse conditioned-on {name}", conditioned, settings)
case("sparse partial-fit several-outputs", in_batches, OFF, [0, 1])
case("sparse conditioned-on several-outputs", conditioned, OFF, [0, 1])
case("sparse fitted-posterior-kl", in_all_ways, POSTERIOR)
case("sparse fitted-posterior-kl queries", lambda: in_all_ways(POSTERIOR, [0, 1], queries=X_NEW))
case("sparse exact-twin", twin, {})
case("sparse exact-twin several-outputs", twin, OFF, [0, 1])
case("sparse auto-size", automatic, {"n_frequencies": "auto", "kl_target": 0.05})
case("sparse auto-both", automatic, {"n_frequencies": "auto", "coupling": "auto", "kl_target": 0.1})
case("sparse auto-coupling", automatic, {"coupling": "auto"})
for name, settings in {
    "gaussian": {},
    "matern": {"kernel": "matern-5/2", "ard": False},
    "optimizer-none": OFF,
    "unnormalised": {"normalize_y": False, **OFF},
}.items():
    case(f"exact {name}", exact, settings)
case("exact several-outputs", exact, {}, [0, 1])
