"""Models of space and time for `space_time.py`: laws of observations at hidden readings."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import coupledgp as cgp
from benchmarks.space_time_data import Case
from coupledgp.diagnostics.space_time.readings import SensorReadings
from coupledgp.diagnostics.space_time.rivals import SPACE_TIME_RIVALS, SpaceTimeLaw, rival_law
from coupledgp.diagnostics.space_time.splits import SpaceTimeSplit
from coupledgp.graphs.spectrum import dense_spectrum
from coupledgp.kernels import GraphMaternKernel

# Iterations of the optimiser and draws of BoTorch's model.
LKGP_ITERATIONS, LKGP_DRAWS = 20, 64
Law = Callable[[Case, SpaceTimeSplit], SpaceTimeLaw]


def graph_time(**settings: Any) -> Law:
    """The package's model."""

    def law(case: Case, split: SpaceTimeSplit) -> SpaceTimeLaw:
        from coupledgp.diagnostics.space_time.models import fitted_to, law_of

        model = cgp.GraphTimeGPRegressor(
            case.readings.domain, random_state=0, **(case.settings or {}) | settings
        )
        fitted = fitted_to(model, case.readings.without(split.hidden))
        print(fitted.terms_, getattr(fitted, "kernel_", ""), getattr(fitted, "noise_", ""))
        return law_of(fitted, case.readings)

    return law


def of_rival(name: str) -> Law:
    """A rival of the package's diagnostics."""
    return lambda case, split: rival_law(SPACE_TIME_RIVALS[name], case.readings, split, 0)


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
    "space-time": graph_time(),
    **{name: of_rival(name) for name in SPACE_TIME_RIVALS},
    "LatentKroneckerGP": latent_kronecker,
}
