"""Features of columns and pairs of columns as a header and arrays."""

from __future__ import annotations

import math

import numpy as np

from coupledgp.errors import ModelFileError
from coupledgp.expressions import Factor
from coupledgp.features.axes.eigenfunctions import ColumnLaw, Eigenfunctions
from coupledgp.features.axes.maps import AxisFeatures, EigenSupport, FourierSupport, Support
from coupledgp.gp.protocol import Arrays, Header
from coupledgp.gp.schema import ROUNDING, Entries, check_integer, require_type
from coupledgp.gp.state import text_of
from coupledgp.ground.validation import LARGEST_PRODUCT
from coupledgp.spectra import parse_spectrum

LARGEST_LOGARITHM = math.log(LARGEST_PRODUCT)
# Name of the header's entry, and beginning of the names of arrays.
NAME = "additive"


def axes_state(features: AxisFeatures) -> tuple[Header, Arrays]:
    """Header and arrays of features; eigenfunctions are stored, not computed anew.

    Raises
    ------
    InvalidInputError
        No text names the kernel of a factor.
    """
    factors: list[Header] = []
    supports: list[list[int]] = []
    arrays: Arrays = {}
    for j, axis in enumerate(features.axes):
        factor = axis.factor
        factors.append(
            {
                "columns": [int(column) for column in factor.columns],
                "kernel": text_of(factor.kernel, "kernel"),
            }
        )
        values = {
            "theta": factor.theta, "points": axis.law.points, "weights": axis.law.weights,
            "means": axis.means, "eigenvalues": axis.eigenvalues, "matrix": axis.matrix,
            "shift": axis.shift,
        }  # fmt: skip
        arrays |= {f"{NAME}.{j}.{name}": value for name, value in values.items()}
    for g, support in enumerate(features.supports):
        supports.append(list(support.factors))
        if isinstance(support, FourierSupport):
            arrays[f"{NAME}.support.{g}.frequencies"] = support.frequencies
        else:
            assert isinstance(support, EigenSupport)
            arrays[f"{NAME}.support.{g}.terms"] = support.terms
    return {NAME: {"factors": factors, "supports": supports}}, arrays


def axes_from(entries: Entries) -> AxisFeatures | None:
    """Features of a file whose number of columns d the entries know; None where it has none."""
    if NAME not in entries.header:
        return None
    factors = require_type(entries.value(NAME, "factors"), list, f"{NAME}.factors")
    axes = tuple(_axis(entries, j, stored) for j, stored in enumerate(factors))
    stored = require_type(entries.value(NAME, "supports"), list, f"{NAME}.supports")
    if not stored:
        raise ModelFileError(f"{NAME}.supports: expected at least one, got none")
    return AxisFeatures(axes, tuple(_support(entries, g, axes, s) for g, s in enumerate(stored)))


def _axis(entries: Entries, j: int, stored: object) -> Eigenfunctions:
    name = f"{NAME}.{j}"
    own = Entries(require_type(stored, dict, f"{NAME}.factors"), entries.arrays)
    columns = _numbers(own.value("columns"), f"{name}.columns", entries.sizes["d"])
    theta = entries.floats(f"{name}.theta", 1, low=-LARGEST_LOGARITHM, high=LARGEST_LOGARITHM)
    kernel = parse_spectrum(own.text("kernel"), "kernel")
    points = entries.floats(f"{name}.points", f"Q{j}", len(columns))
    weights = entries.scales(f"{name}.weights", f"Q{j}")
    if not weights.size or abs(float(weights.sum()) - 1.0) > ROUNDING:
        raise ModelFileError(f"{name}.weights: expected weights whose sum is one, got others")
    law = ColumnLaw(points, weights)
    return Eigenfunctions(
        Factor(columns, kernel, theta), law, entries.floats(f"{name}.means", f"Q{j}"),
        entries.scales(f"{name}.eigenvalues", f"R{j}"),
        entries.floats(f"{name}.matrix", f"Q{j}", f"R{j}"),
        entries.floats(f"{name}.shift", f"R{j}"),
    )  # fmt: skip


def _support(entries: Entries, g: int, axes: tuple[Eigenfunctions, ...], stored: object) -> Support:
    name = f"{NAME}.support.{g}"
    factors = _numbers(stored, name, len(axes))
    if f"{name}.frequencies" in entries.arrays:
        found = entries.floats(f"{name}.frequencies", f"m{g}", len(factors))
        own: Support = FourierSupport(factors, found)
    else:
        terms = entries.integers(f"{name}.terms", f"m{g}", len(factors), low=0, high=2**31)
        for factor, column in zip(factors, terms.T, strict=True):
            if column.size and int(column.max()) >= len(axes[factor]):
                raise ModelFileError(
                    f"{name}.terms: expected numbers below {len(axes[factor])}, got "
                    f"{int(column.max())}"
                )
        own = EigenSupport(factors, terms.astype(np.int64))
    if not own.n_features:
        raise ModelFileError(f"{name}: expected at least one feature, got none")
    return own


def _numbers(stored: object, name: str, size: int) -> tuple[int, ...]:
    """Different numbers below a size, one at least."""
    found = tuple(
        check_integer(number, name, 0, size - 1) for number in require_type(stored, list, name)
    )
    if not found or len(set(found)) < len(found):
        raise ModelFileError(f"{name}: expected one or more numbers, each once")
    return found
