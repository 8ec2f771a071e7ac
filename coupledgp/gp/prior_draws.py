"""Loadings of prior functions of tables: `g(x) = a(x)'z`, z standard normal.

A stationary part has Fourier features of its spectrum for loadings, whose products estimate its
kernel; features and trend have their own, which are exact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import numpy as np

from coupledgp.features.registry import make_features
from coupledgp.gp.local_prior import LocalPrior
from coupledgp.gp.protocol import Points
from coupledgp.gp.tables import Box
from coupledgp.ground.tensors import torch
from coupledgp.random import FloatArray
from coupledgp.spectra import GaussianSpectrum, Spectrum

# Loadings (p, M) of points (p, ...).
Loadings: TypeAlias = Callable[[Points], FloatArray]
# Frequencies of a stationary part. Scrambled Sobol points had the least error of kernels from one
# to nine columns, and no larger one than others at thirty.
PRIOR_FREQUENCIES = 2048
# Columns above which orthogonal frequencies are drawn, since Sobol points have bounded dimensions.
MOST_SOBOL = 1000
# Points at which deviations of drawn functions are compared with those of the law.
COMPARED = 64


def spectral_loadings(
    spectrum: Spectrum,
    variance: float,
    center: FloatArray | float,
    lengthscale: FloatArray,
    rng: np.random.Generator,
) -> Loadings:
    """Loadings `sqrt(v) phi((x - c) / l)` (p, 2 m), of products near `v kappa(|x - x'| / l)`."""
    dim = lengthscale.size
    coupling = "sobol" if dim <= MOST_SOBOL else "orthogonal+stratified"
    made = make_features("fourier", dim, PRIOR_FREQUENCIES, coupling, spectrum, rng)

    def loadings(points: Points) -> FloatArray:
        found: FloatArray = made(torch.as_tensor((points - center) / lengthscale)).numpy()
        return np.sqrt(variance) * found

    return loadings


def local_loadings(parts: LocalPrior, rng: np.random.Generator) -> Loadings:
    """Loadings of the local part, of standardised rows."""
    assert parts.structure.spectrum is not None
    return spectral_loadings(
        parts.structure.spectrum, parts.local_outputscale, 0.0, parts.local_lengthscale, rng
    )


def parts_loadings(parts: LocalPrior, box: Box | None, rng: np.random.Generator) -> Loadings:
    """Loadings of all parts of rows (p, d), of products near `LocalPrior.covariance`."""
    structure = parts.structure
    stationary: list[Loadings] = []
    if structure.spectrum is not None:
        stationary.append(local_loadings(parts, rng))
    if structure.frequencies is not None and not structure.fits_frequencies:
        stationary.append(
            spectral_loadings(
                GaussianSpectrum(), parts.feature_outputscale, 0.0, parts.feature_lengthscale, rng
            )
        )

    def loadings(points: Points) -> FloatArray:
        inputs = parts.standardised(points)
        found = [part(inputs) for part in stationary]
        if structure.fits_frequencies:
            found.append(parts.features(inputs, np.ones(len(inputs))).numpy())
        elif structure.trend != "none":
            root = np.sqrt(float(parts.scales.trend))
            found.append(np.full((len(inputs), 1), root))
            if structure.trend == "linear":
                inside = inputs if box is None else box.bounded(inputs)
                found += [root * inside, root * (inputs - inside)]
        return np.hstack(found)

    return loadings


def between(points: Points, rng: np.random.Generator) -> Points:
    """Middles (`COMPARED`, d) between random pairs of rows (n, d)."""
    pairs = rng.integers(0, len(points), (2, COMPARED))
    middle: Points = 0.5 * (points[pairs[0]] + points[pairs[1]])
    return middle


def deviation_error(drawn: FloatArray, exact: FloatArray) -> float:
    """Root mean square of `sd / sd' - 1` of variances (p,) of draws and of their law."""
    known = np.sqrt(exact) > 0
    if not known.any():
        return 0.0
    ratio = np.sqrt(drawn[known] / exact[known])
    return float(np.sqrt(np.mean(np.square(ratio - 1.0))))


def stacked(loadings: Loadings, points: Points, blocks: Sequence[slice]) -> FloatArray:
    """Loadings (n, M) of rows (n, d), in blocks."""
    return np.concatenate([loadings(points[rows]) for rows in blocks])
