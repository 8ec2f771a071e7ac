"""Parts of processes as headers, whose values JSON can hold, and arrays."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np

from coupledgp.couplings.frequencies.registry import coupling_text
from coupledgp.errors import ModelFileError
from coupledgp.features.registry import features_text
from coupledgp.gp.protocol import Arrays, Data, Header
from coupledgp.gp.schema import LARGEST, Entries, named_text
from coupledgp.gp.transforms import transform_text
from coupledgp.gp.units import Units
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.inference.evidence.problem import Hyperparameters, RowWeights
from coupledgp.inference.weights.normal_equations import WeightedSums
from coupledgp.inference.weights.statistics import DataStatistics, Moments
from coupledgp.kernels.expressions import kernel_text
from coupledgp.likelihoods.registry import likelihood_state
from coupledgp.linalg.system import SystemOptions
from coupledgp.spectra import Spectrum, spectrum_text


def _kernel_text(kernel: Any) -> str | None:
    """Text of a spectrum or of an expression."""
    return spectrum_text(kernel) if isinstance(kernel, Spectrum) else kernel_text(kernel)


def _likelihood_text(likelihood: Any) -> str:
    """Name of the class of a likelihood; its parameters are those of the process."""
    return str(likelihood_state(likelihood)["name"])


# Functions that return the text of a parameter that is an object, by the parameter's name.
TEXTS: dict[str, Callable[[Any], str | None]] = {
    "kernel": _kernel_text,
    "coupling": coupling_text,
    "features": features_text,
    "target_transform": transform_text,
    "likelihood": _likelihood_text,
}


def tensors(record: Any) -> Arrays:
    """Fields of a dataclass that are arrays."""
    values = {f.name: getattr(record, f.name) for f in fields(record)}
    return {k: v for k, v in values.items() if isinstance(v, (Tensor, np.ndarray))}


def scalars(record: Any) -> Header:
    """Fields of a dataclass that are numbers."""
    values = {f.name: getattr(record, f.name) for f in fields(record)}
    arrays = tensors(record)
    return {k: number(v) for k, v in values.items() if k not in arrays and v is not None}


def number(value: Any) -> Any:
    """A Python number for one of NumPy; a float's shortest text restores all its bits."""
    return value.item() if isinstance(value, np.generic) else value


def hyperparameters_state(hyperparameters: Hyperparameters) -> tuple[Header, Arrays]:
    """Header and arrays of hyperparameters."""
    arrays = {f"hyperparameters.{k}": v for k, v in tensors(hyperparameters).items()}
    return {"hyperparameters": scalars(hyperparameters)}, arrays


def solver_state(solver: SystemOptions) -> Header:
    """Values of the options of a solver by iteration."""
    return {
        "single": solver.dtype == "float32",
        "rank": solver.rank,
        "seed": solver.seed,
        "tolerance": solver.tolerance,
    }


def solver_from(entries: Entries) -> SystemOptions:
    """Options of the solver of a file."""
    return SystemOptions(
        "float32" if entries.flag("solver", "single") else "float64",
        int(entries.number("solver", "rank", low=1, high=1e6)),
        int(entries.number("solver", "seed", low=0, high=2**63)),
        entries.number("solver", "tolerance", above=0.0, high=1.0),
    )


def hyperparameters_from(entries: Entries) -> Hyperparameters:
    """Hyperparameters of a file."""
    name = "hyperparameters"
    lengthscale = entries.scales(f"{name}.lengthscale", "d")
    for variance in ("outputscale", "noise"):
        positive_scale(entries, name, variance)
    found: Hyperparameters = entries.record(Hyperparameters, name, lengthscale=lengthscale)
    return found


def positive_scale(entries: Entries, *path: str) -> float:
    """A variance, lengthscale or other scale of the header."""
    return entries.number(*path, low=1 / LARGEST, high=LARGEST)


def units_from(entries: Entries) -> Units:
    """Units of the k outputs of a file, at least one."""
    units = Units(
        entries.floats("y_mean", "k"),
        entries.scales("y_scale", "k"),
    )
    if not units.n_outputs:
        raise ModelFileError("y_scale: expected at least one output, got none")
    return units


# Array of a file with the relative noise and the count of each row, (n, 2), if rows differ in them.
ROW_WEIGHTS = "row_weights"


def data_arrays(data: Data) -> Arrays:
    """Arrays of observations; the weights of rows only where they have any."""
    arrays: Arrays = {"X": data.points, "y": data.targets}
    if data.weights is not None:
        arrays[ROW_WEIGHTS] = np.column_stack([data.weights.noise, data.weights.counts])
    return arrays


def data_from(entries: Entries) -> Data:
    """Observations (n, d) and (n, k) of `data_arrays`, at least one."""
    weights = None
    if ROW_WEIGHTS in entries.arrays:
        noise, counts = entries.scales(ROW_WEIGHTS, "n", 2).T
        weights = RowWeights(noise.copy(), counts.copy())
    points, targets = entries.floats("X", "n", "d"), entries.floats("y", "n", "k")
    if not points.size:
        raise ModelFileError("X: expected at least one row and column, got none")
    return Data.of(points, targets, weights=weights)


def statistics_state(statistics: DataStatistics) -> tuple[Header, Arrays]:
    """Header and arrays of sufficient statistics."""
    arrays: Arrays = {"offset": statistics.offset}
    moments = statistics.moments
    if moments is None:
        arrays["rows.features"], arrays["rows.targets"] = statistics.stacked()
        weights = statistics.stacked_weights()
        return {}, arrays if weights is None else arrays | {"rows.weights": weights}
    parts: dict[str, Any] = {"moments": replace(moments, weighted=None)}
    if moments.weighted is not None:
        parts["moments.weighted"] = moments.weighted
    for name, part in parts.items():
        arrays |= {f"{name}.{k}": v for k, v in tensors(part).items()}
    return {name: scalars(part) for name, part in parts.items()}, arrays


def statistics_from(entries: Entries, dtype: torch.dtype) -> DataStatistics:
    """Sufficient statistics of a file, of features whose number M the entries know."""
    n_features, offset = entries.sizes["M"], torch.as_tensor(entries.floats("offset", "k"))
    if "rows.features" in entries.arrays:
        rows = [entries.floats("rows.features", "r", "M"), entries.floats("rows.targets", "r", "k")]
        if not len(rows[0]):
            raise ModelFileError("rows.features: expected at least one row, got none")
        if "rows.weights" in entries.arrays:
            rows.append(entries.scales("rows.weights", "r", 2))
        return DataStatistics(n_features, offset, (tuple(map(torch.as_tensor, rows)),), None, dtype)
    sums = {
        "gram": ("M", "M"), "cross": ("M", "k"), "feature_sum": ("M",), "target_sum": ("k",),
        "target_square": ("k",),
    }  # fmt: skip
    moments = entries.record(
        Moments,
        "moments",
        **{n: torch.as_tensor(entries.squares(f"moments.{n}", *s)) for n, s in sums.items()},
        offset=torch.as_tensor(entries.floats("moments.offset", "k")),
        weighted=_weighted_sums(entries),
    )
    entries.integer("moments", "n_rows", low=1, high=2**62)
    if moments.rounding < 0:
        raise ModelFileError(f"moments.rounding: expected a number >= 0, got {moments.rounding}")
    return DataStatistics(n_features, offset, (), moments, dtype)


def _weighted_sums(entries: Entries) -> WeightedSums | None:
    name = "moments.weighted"
    if name not in entries.header:
        return None
    for value in ("precision", "count"):
        positive_scale(entries, name, value)
    sums: WeightedSums = entries.record(
        WeightedSums,
        name,
        target_sum=torch.as_tensor(entries.squares(f"{name}.target_sum", "k")),
        target_square=torch.as_tensor(entries.squares(f"{name}.target_square", "k")),
    )
    return sums


def text_of(value: Any, name: str) -> str:
    """Text of a coupling, spectrum or maker of features that stands for an equal one.

    Parameters
    ----------
    value
        The object.
    name
        `"kernel"`, `"coupling"` or `"features"`.

    Raises
    ------
    InvalidInputError
        No text names the object.
    """
    return named_text(TEXTS[name](value), name, value)
