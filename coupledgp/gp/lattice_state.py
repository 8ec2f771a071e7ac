"""A process on a lattice as values and arrays of a model file."""

from __future__ import annotations

from typing import Any

import numpy as np

from coupledgp.errors import ModelFileError
from coupledgp.gp.lattice_parts import TrendColumns
from coupledgp.gp.protocol import Arrays, Header
from coupledgp.gp.schema import Entries
from coupledgp.gp.state import (
    data_arrays,
    data_from,
    hyperparameters_from,
    hyperparameters_state,
    text_of,
    units_from,
)
from coupledgp.inference.lattice.evidence import LatticePrior
from coupledgp.inference.lattice.lattice import MOST_AXES, Complex, Lattice, PlaceBox
from coupledgp.inference.lattice.posterior import LatticePosterior
from coupledgp.inference.lattice.spreading import half_shape
from coupledgp.inference.lattice.sums import LatticeSums
from coupledgp.spectra import parse_spectrum

# Largest half-width of a lattice in a file.
MOST_HALF = 2**24


def lattice_state(process: Any) -> tuple[Header, Arrays]:
    """Header and arrays of a process, its rows included where it keeps them."""
    own, trend, lattice = process.lattice_prior, process.trend, process.lattice
    header, arrays = hyperparameters_state(own.hyperparameters)
    posterior, sums = process.posterior, process.sums
    arrays |= {
        "y_mean": process.units.offset, "y_scale": process.units.scale,
        "offset": process.offset,
        "lattice.center": lattice.center, "lattice.steps": lattice.steps,
        "lattice.halves": lattice.halves,
        "box.low": process.box.low, "box.high": process.box.high, "box.core": process.box.core,
        "trend.places": trend.places, "trend.center": trend.center, "trend.scale": trend.scale,
        "mean": posterior.mean, "draws": posterior.draws,
        "trend_covariance": posterior.trend_covariance,
        "spread": _pairs(posterior.spread), "trend_cross": _pairs(posterior.cross),
    }  # fmt: skip
    of_sums, own_sums = sums_state(sums)
    arrays |= own_sums
    if process.rows is not None:
        arrays |= data_arrays(process.rows)
    header |= of_sums | {
        "process": type(process).__name__,
        "kernel": text_of(own.spectrum, "kernel"),
        "trend_is_linear": trend.is_linear,
        "normalize": process.normalize,
        "seed": process.seed,
        "scalars": {},
    }
    return header, arrays


def lattice_from_state(header: Header, arrays: Arrays) -> dict[str, Any]:
    """Fields of the process that `lattice_state` wrote.

    Raises
    ------
    ModelFileError
        An entry is missing, or not what a saved process has.
    """
    entries = Entries(header, arrays)
    hyperparameters = hyperparameters_from(entries)
    dim = entries.sizes["d"]
    if not 1 <= dim <= MOST_AXES:
        raise ModelFileError(f"lattice: expected one to {MOST_AXES} places, got {dim}")
    lattice = Lattice(
        entries.floats("lattice.center", "d"),
        entries.scales("lattice.steps", "d"),
        entries.integers("lattice.halves", "d", low=1, high=MOST_HALF).astype(np.int64),
    )
    box = PlaceBox(*(entries.floats(f"box.{name}", "d") for name in ("low", "high", "core")))
    center = entries.floats("trend.center", "D")
    places = entries.integers("trend.places", "d", low=0, high=len(center) - 1)
    if len(np.unique(places)) != dim:
        raise ModelFileError(f"trend.places: expected {dim} different columns, got {places}")
    trend = TrendColumns(
        places.astype(np.int64), entries.flag("trend_is_linear"), center,
        entries.scales("trend.scale", "D"),
    )  # fmt: skip
    units = units_from(entries)
    k, p, n = units.n_outputs, len(trend.columns), lattice.n_waves
    if "mean" in arrays and len(arrays["mean"]) != n + p:
        raise ModelFileError(f"mean: expected {n + p} weights, got {len(arrays['mean'])}")
    own, twice = half_shape(lattice.halves), half_shape(2 * lattice.halves)
    sums = sums_from(entries, lattice, k, p)
    posterior = LatticePosterior(
        entries.squares("mean", n + p, k),
        _complex(entries, "spread", twice),
        _complex(entries, "trend_cross", (p, *own)),
        entries.squares("trend_covariance", p, p),
        entries.squares("draws", n + p, "draws"),
    )
    entries.sizes["d"] = len(center)  # of rows
    rows = data_from(entries) if "X" in arrays else None
    spectrum = parse_spectrum(entries.text("kernel"))
    return {
        "lattice_prior": LatticePrior(spectrum, hyperparameters, lattice, p),
        "trend": trend,
        "box": box,
        "units": units,
        "normalize": entries.flag("normalize"),
        "offset": entries.floats("offset", k),
        "sums": sums,
        "posterior": posterior,
        "seed": entries.integer("seed", low=0, high=2**63),
        "rows": rows,
    }


def sums_state(sums: LatticeSums) -> tuple[Header, Arrays]:
    """Values and arrays of sums over rows."""
    header = {"n_counted": sums.n_counted, "log_noise": sums.log_noise}
    arrays = {"waves": _pairs(sums.waves), "cross": _pairs(sums.cross), "products": sums.products}
    return header, arrays


def sums_from(entries: Entries, lattice: Lattice, n_targets: int, n_trend: int) -> LatticeSums:
    """The sums of `sums_state`, of so many targets and trend columns.

    Raises
    ------
    ModelFileError
        An entry is missing, or of another size.
    """
    n_columns = n_targets + n_trend
    return LatticeSums(
        _complex(entries, "waves", half_shape(2 * lattice.halves)),
        _complex(entries, "cross", (n_columns, *half_shape(lattice.halves))),
        entries.squares("products", n_columns, n_columns),
        entries.number("n_counted", above=0.0),
        entries.number("log_noise"),
    )


def _pairs(values: Complex) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Real and imaginary parts along a last axis."""
    return np.stack([values.real, values.imag], axis=-1)


def _complex(entries: Entries, name: str, shape: tuple[int, ...]) -> Complex:
    own = entries.squares(name, *shape, 2)
    return np.asarray(own[..., 0] + 1j * own[..., 1])
