"""Predictive laws in the groups of ArviZ's schema: draws, targets, log densities."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np

from coupledgp.diagnostics.scoring.divergences import covariance_root
from coupledgp.diagnostics.scoring.figures import versions
from coupledgp.errors import MissingLibraryError
from coupledgp.random import FloatArray

if TYPE_CHECKING:
    from coupledgp.diagnostics.verdicts.result import ComparisonResult

# Width in nats of a uniform scatter of log densities over draws. They do not depend on draws, but
# the Pareto diagnostic of `arviz.loo` warns of a tail of equal values.
SCATTER = 1e-9
CHAINS = ("chain", "draw")


def groups_of(report: ComparisonResult, n_chains: int, n_draws: int, seed: int) -> dict[str, Any]:
    """Groups by name as data sets of xarray; see `PosteriorReport.to_arviz`."""
    check_installed()
    p, rng = report.predictions, np.random.default_rng(seed)
    shape = (n_chains, n_draws)
    own = _draws(p.mean, p.std, p.cov, shape, rng)
    attributes = _attributes(report, seed)
    groups = {"posterior": _data(y=own), "posterior_predictive": _data(y=own)}
    constant = {"mean": p.mean, "std": p.std}
    if p.reference_mean is not None and p.reference_std is not None:
        other = _draws(p.reference_mean, p.reference_std, p.reference_cov, shape, rng)
        groups["predictions"] = _data(reference=other)
        constant |= {"reference_mean": p.reference_mean, "reference_std": p.reference_std}
    if p.y is not None:
        if p.own is None or p.own.log_density is not None:
            density = p.log_density
            scatter = rng.uniform(0, SCATTER, (*shape, *density.shape))
            groups["log_likelihood"] = _data(y=density + scatter)
        groups["observed_data"] = _data(y=p.y)
    groups["constant_data"] = _data(**constant)
    if isinstance(p.points, np.ndarray) and p.points.ndim == 2:
        groups["constant_data"]["X_test"] = (("point", "column"), p.points)
    return {name: group.assign_attrs(attributes) for name, group in groups.items()}


def as_arviz(groups: dict[str, Any]) -> Any:
    """`InferenceData` where ArviZ below 1 is installed, else `DataTree`, which later ones take."""
    from xarray import DataTree

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # it announces its next version
            import arviz
    except ImportError:
        return DataTree.from_dict(groups)
    if hasattr(arviz, "InferenceData"):
        return arviz.InferenceData(**groups)
    return DataTree.from_dict(groups)


def check_installed() -> None:
    """Refuse to go on without xarray."""
    try:
        import xarray  # noqa: F401
    except ImportError as error:
        raise MissingLibraryError(
            "to_arviz: expected xarray and ArviZ, from the extra `arviz` "
            "(pip install 'coupledgp[arviz]')"
        ) from error


def _draws(
    mean: FloatArray,
    std: FloatArray,
    cov: FloatArray | None,
    shape: tuple[int, int],
    rng: np.random.Generator,
) -> FloatArray:
    """Draws (*shape, p, k) of independent outputs, joint where covariances (p, p, k) are known."""
    white = rng.standard_normal((*shape, *mean.shape))
    if cov is None:
        return mean + std * white
    roots = [covariance_root(cov[..., k], "covariance of the law") for k in range(mean.shape[1])]
    parts = [white[..., k] @ root.T for k, root in enumerate(roots)]
    return mean + np.stack(parts, axis=-1)


def _data(**variables: FloatArray) -> Any:
    """A data set of arrays (..., p, k), whose dimensions before the points are those of draws."""
    from xarray import Dataset

    found = {}
    for name, values in variables.items():
        dims = [*CHAINS[: values.ndim - 2], "point", "output"]
        one = values.shape[-1] == 1
        found[name] = (dims[:-1], values[..., 0]) if one else (dims, values)
    coords = {name: np.arange(size) for name, size in Dataset(found).sizes.items()}
    return Dataset(found, coords)


def _attributes(report: ComparisonResult, seed: int) -> dict[str, Any]:
    """What a reader of the file should know; values that netCDF holds."""
    found = {
        "inference_library": "coupledgp",
        "model": report.model,
        "reference": report.reference or "",
        "joint": int(report.predictions.cov is not None),
        "seed": seed,
    }
    software = {f"{name}_version": text for name, text in versions().items()}
    return found | software | {"inference_library_version": software["coupledgp_version"]}
