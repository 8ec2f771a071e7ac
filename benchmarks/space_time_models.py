"""Models of space and time for `space_time.py`: laws of observations at hidden readings."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np

import coupledgp as cgp
from benchmarks.space_time_data import Case
from coupledgp.diagnostics.space_time.models import fitted_to, law_of
from coupledgp.diagnostics.space_time.rivals import SPACE_TIME_RIVALS, rival_law
from coupledgp.diagnostics.space_time.scoring import ScoreRow, SpaceTimeLaw, score_rows
from coupledgp.diagnostics.space_time.simple import linear_in_time
from coupledgp.diagnostics.space_time.splits import SensorReadings, SpaceTimeSplit, SplitPlan
from coupledgp.graphs.spectrum import dense_spectrum
from coupledgp.kernels import GraphMaternKernel
from coupledgp.random import FloatArray

# Iterations of the optimiser and draws of BoTorch's model.
LKGP_ITERATIONS, LKGP_DRAWS = 20, 64
# Settings of the package's model by name.
SETTINGS: dict[str, dict[str, Any]] = {
    "space-time": {"sensor_covariance": "kernel"},
    "space-time, learned": {"sensor_covariance": "learned"},
    "space-time, yeo-johnson": {
        "sensor_covariance": "learned", "target_transform": "yeo-johnson",
    },
}  # fmt: skip
Law = Callable[[Case, SpaceTimeSplit], SpaceTimeLaw]


@lru_cache(maxsize=1)
def fitted(case: Case, split: SpaceTimeSplit, how: str) -> cgp.GraphTimeGPRegressor:
    """The package's model given what a split leaves; the last one is kept."""
    model = cgp.GraphTimeGPRegressor(
        case.readings.domain,
        random_state=0,
        progress=False,
        **(case.settings or {}),
        **SETTINGS[how],
    )
    found = fitted_to(model, case.readings.without(split.hidden))
    print(found.kernel_, found.terms_, f"noise {found.noise_:.4g}", flush=True)
    return found


def graph_time(how: str) -> Law:
    """The package's model with some settings."""
    return lambda case, split: law_of(fitted(case, split, how), case.readings)


def function_rows(case: Case, split: SpaceTimeSplit, number: int, how: str) -> list[ScoreRow]:
    """Scores of the package's model against the simulated function itself, at all nodes."""
    truth, sites = case.truth, case.readings.sites
    if truth is None:
        return []
    nodes = np.arange(len(truth))
    masks = {"f at other nodes": np.ones(truth.shape, dtype=bool)}
    masks["f at other nodes"][sites] = False
    for kind in ("scattered", "gap", "hidden sensor", "forecast"):
        masks[f"f at {kind}"] = np.zeros(truth.shape, dtype=bool)
        masks[f"f at {kind}"][sites] = split.of_kind(kind)
    stamps = case.readings.stamps
    mean, std = fitted(case, split, how).predict(nodes, stamps, return_std=True, latent=True)
    everywhere = SensorReadings(truth, case.readings.times, nodes, case.readings.domain)
    law = SpaceTimeLaw(np.asarray(mean), np.asarray(std))
    rows = score_rows(number, how, law, everywhere, SpaceTimeSplit.of_masks(masks))
    return [row for row in rows if row.group == "all"]


def of_rival(name: str) -> Law:
    """A rival of the package's diagnostics."""
    return lambda case, split: rival_law(SPACE_TIME_RIVALS[name], case.readings, split, 0)


def low_rank(readings: SensorReadings) -> tuple[FloatArray, None]:
    """Completion of the matrix of sensors and times with a penalty on its singular values.

    Soft-impute (Mazumder, Hastie and Tibshirani 2010) of readings that are standardised sensor by
    sensor, from linear interpolation on; the penalty is the best of three on further hidden
    readings. NaN for sensors and times without a reading.
    """
    seen = np.ix_(readings.seen.any(axis=1), readings.seen.any(axis=0))
    part = SensorReadings(
        readings.values[seen], readings.times[seen[1].ravel()], readings.sites[seen[0].ravel()],
        readings.domain, None if readings.seconds_of_day is None else np.zeros(seen[1].size),
    )  # fmt: skip
    trial = SplitPlan(sensors=0.0, horizon=0.0).draw(part, 0)
    known = trial.hidden & part.seen
    penalties = np.sqrt(part.times.size) * np.array([0.25, 0.5, 1.0])
    errors = [
        np.mean((completed(part.without(trial.hidden), x) - part.values)[known] ** 2)
        for x in penalties
    ]
    mean = np.full(readings.values.shape, np.nan)
    mean[seen] = completed(part, float(penalties[int(np.argmin(errors))]))
    return mean, None


def completed(readings: SensorReadings, penalty: float) -> FloatArray:
    """The matrix (p, n) whose singular values are shrunk by the penalty, after 30 rounds."""
    center = np.nanmean(readings.values, axis=1, keepdims=True)
    scale = np.nanstd(readings.values, axis=1, keepdims=True) + 1e-9
    values = (readings.values - center) / scale
    found = (linear_in_time(readings) - center) / scale
    for _ in range(30):
        filled = np.where(readings.seen, values, found)
        squares, U = np.linalg.eigh(filled @ filled.T)
        shrunk = np.maximum(1.0 - penalty / np.sqrt(np.maximum(squares, 1e-12)), 0.0)
        found = (U * shrunk) @ (U.T @ filled)
    return center + scale * found


def latent_kronecker(case: Case, split: SpaceTimeSplit) -> SpaceTimeLaw:
    """BoTorch's LatentKroneckerGP: one graph Matern kernel times Matern-1/2 in time.

    Sensors that are hidden altogether and times of a forecast are predicted; the others are trained
    on with their gaps. Hyperparameters by L-BFGS, predictions by draws from the posterior.
    """
    import torch
    from botorch.fit import fit_gpytorch_mll
    from botorch.models.latent_kronecker_gp import LatentKroneckerGP
    from gpytorch.kernels import MaternKernel, ScaleKernel
    from gpytorch.mlls import ExactMarginalLogLikelihood

    torch.manual_seed(0)
    given = case.readings.without(split.hidden)
    rows = np.flatnonzero(given.seen.any(axis=1))
    columns = np.flatnonzero(given.seen.any(axis=0))
    sites = torch.tensor(given.sites, dtype=torch.float64)[:, None]
    times = torch.tensor(given.times / given.step, dtype=torch.float64)[:, None]
    Y = torch.tensor(given.values[np.ix_(rows, columns)])
    in_time = ScaleKernel(MaternKernel(nu=0.5))
    in_time.base_kernel.lengthscale = 12.0
    model = LatentKroneckerGP(
        sites[rows], times[columns], Y,
        covar_module_X=graph_matern(given), covar_module_T=in_time.double(),
    )  # fmt: skip
    mll = ExactMarginalLogLikelihood(model.likelihood, model)
    with warnings.catch_warnings(), model.use_iterative_methods():
        warnings.simplefilter("ignore")
        fit_gpytorch_mll(mll, optimizer_kwargs={"options": {"maxiter": LKGP_ITERATIONS}})
        with torch.no_grad():
            draws = model.posterior(sites, times).rsample(torch.Size([LKGP_DRAWS])).numpy()
    scale = float(model.outcome_transform.stdvs.squeeze())
    noise = float(model.likelihood.noise) * scale**2
    return SpaceTimeLaw(draws.mean(axis=0), np.sqrt(draws.var(axis=0, ddof=1) + noise))


def graph_matern(readings: SensorReadings) -> Any:
    """A gpytorch kernel of node numbers: graph Matern of a free lengthscale, nu = 3/2."""
    import torch
    from gpytorch.kernels import Kernel

    values, vectors = dense_spectrum(readings.domain.closed)
    laplacian, U = torch.tensor(1.0 - values), torch.tensor(vectors)

    class GraphMatern(Kernel):  # type: ignore[misc]
        has_lengthscale = True

        def forward(self, x1: Any, x2: Any, diag: bool = False, **_: Any) -> Any:
            kappa = self.lengthscale.reshape(())
            g = (1.0 + kappa**2 / 3.0 * laplacian) ** -1.5
            g = g * len(g) / g.sum()
            a, b = U[x1[..., 0].long()], U[x2[..., 0].long()]
            jitter = 1e-6 * (x1[..., :, None, 0] == x2[..., None, :, 0])
            return (a * g * b).sum(-1) if diag else (a * g) @ b.transpose(-1, -2) + jitter

    kernel = GraphMatern().double()
    kernel.lengthscale = GraphMaternKernel(10.0).lengthscale
    return kernel


MODELS: dict[str, Law] = {
    **{how: graph_time(how) for how in SETTINGS},
    **{name: of_rival(name) for name in SPACE_TIME_RIVALS},
    "low-rank completion": lambda case, split: rival_law(low_rank, case.readings, split, 0),
    "LatentKroneckerGP": latent_kronecker,
}
