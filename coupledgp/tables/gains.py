"""What couplings cannot gain, in words: expected changes of the KL beside the noise of draws.

To second order the expected KL of a posterior by coupled frequencies is that by independent ones
plus a mean over pairs of frequencies (`theory.posterior`). Where this is less than draws can tell,
a study of them finds nothing, however it ends, and says so. For norms that are coupled within
blocks there is a floor of the kernel's error (`theory.norms_floor`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.spatial.distance import pdist

from coupledgp.core.posterior_draw import MOST_KL, pilot_form
from coupledgp.core.process import GaussianProcess
from coupledgp.couplings import DirectionsAndNorms, IidDirections, IndependentNorms
from coupledgp.features import FourierFeatures
from coupledgp.features.registry import features_class
from coupledgp.random import FloatArray
from coupledgp.spectra import GaussianSpectrum
from coupledgp.tables.exact_process import ExactGP, StationaryPrior
from coupledgp.tables.weight_space import WeightSpaceGP
from coupledgp.theory import distance_mse, expected_changes, has_closed_form, norms_floor
from coupledgp.theory.posterior import is_independent

# Rows that stand for a table, a third of them queries; the largest number of frequencies, whose
# pairs are formed; and draws of each coupling.
PILOT, MOST_FREQUENCIES, DRAWS = 384, 512, 16
# Fewest rows from which anything is said.
LEAST_ROWS = 30
# Standard errors of a difference that tell two means apart, and the part of the kernel's squared
# error below which a floor is worth telling.
CLEAR, LITTLE = 2.0, 0.1


def cannot_gain(
    model: Any, process: GaussianProcess, couplings: Mapping[str, Any],
    errors: Mapping[str, float], size: int,
) -> str:  # fmt: skip
    """Say which couplings change the posterior by less than their draws can tell.

    Parameters
    ----------
    model
        Estimator that parses the couplings; only Fourier features have an answer.
    process
        Process of the data and hyperparameters at which they are compared.
    couplings
        The couplings that are compared, by name.
    errors
        Standard error of each one's mean KL, as a part of that mean.
    size
        Number of frequencies.

    Returns
    -------
    str
        A sentence or two; empty where there is nothing of the kind to say, or where the second
        order does not hold.
    """
    prior = _stationary(model, process)
    parsed = {name: model.parse_coupling(value, "couplings") for name, value in couplings.items()}
    coupled = {
        name: law for name, law in parsed.items()
        if isinstance(law, DirectionsAndNorms) and not is_independent(law)
    }  # fmt: skip
    if prior is None or not coupled or not 1 < size <= MOST_FREQUENCIES:
        return ""
    data, rng = process.data, np.random.default_rng(0)
    if len(data) < LEAST_ROWS or data.relative_noise is not None:
        return ""
    rows = data.points[np.sort(rng.permutation(len(data))[:PILOT])]
    rows = rows - rows.mean(axis=0)
    hyper = prior.hyperparameters
    form = pilot_form(rows, prior.spectrum, hyper, rng, n_counted=len(data))
    independent, changes = expected_changes(
        form, coupled, size, rows.shape[1], n_draws=DRAWS, random_state=0
    )
    if not 0 < independent <= MOST_KL:
        return ""
    limit = CLEAR * 2**0.5 * min(errors[name] for name in coupled)
    idle = {
        name: change for name, change in changes.items()
        if abs(change.value) + CLEAR * change.standard_error < limit
    }  # fmt: skip
    if not idle:
        return ""
    listed = ", ".join(f"{name} by {change}" for name, change in idle.items())
    text = (
        "Nothing that these draws could show is to be gained: to second order the expected KL of "
        f"independent frequencies changes with {listed}, and the draws tell {100 * limit:.1f} %."
    )
    if isinstance(prior.spectrum, GaussianSpectrum):
        text += _floor(rows / hyper.lengthscale, {name: coupled[name] for name in idle}, size)
    return text


def _stationary(model: Any, process: GaussianProcess) -> StationaryPrior | None:
    """Kernel and hyperparameters of a process that Fourier features estimate."""
    features = getattr(model, "features", None)
    if features is None or features_class(features) is not FourierFeatures:
        return None
    if isinstance(process, WeightSpaceGP):
        return process.feature_prior.stationary
    known = isinstance(process, ExactGP) and isinstance(process.dense_prior, StationaryPrior)
    return process.dense_prior if known else None  # type: ignore[attr-defined]


def _floor(rows: FloatArray, coupled: Mapping[str, DirectionsAndNorms], size: int) -> str:
    """Say how little any coupling of norms gains at the rows' median distance, where it is little.

    Parameters
    ----------
    rows
        Rows (n, d) in lengthscales.
    """
    normed = [
        law for law in coupled.values()
        if not isinstance(law.norms, IndependentNorms) and not law.antithetic
        and not isinstance(law.directions, IidDirections) and has_closed_form("fourier", law)
    ]  # fmt: skip
    dim, t = rows.shape[1], float(np.median(pdist(rows)))
    if not normed or t == 0:
        return ""
    alone = DirectionsAndNorms(normed[0].directions)
    independent = distance_mse("fourier", alone, size, dim, t)
    gain = 1 - norms_floor("fourier", alone, size, dim, t) / independent
    if gain > LITTLE:
        return ""
    return (
        " No coupling of the norms within a block lowers the kernel's squared error at the rows' "
        f"median distance, {t:.2g} lengthscales, by more than {100 * gain:.1f} %."
    )
