"""Partial dependence of a fitted function on the columns of a table, with intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coupledgp.columns.codes import CYCLES, CategoryCode, ColumnCode, DateCode, PlaceCode
from coupledgp.features.sklearn import Columns
from coupledgp.gp.protocol import GaussianProcess
from coupledgp.random import FloatArray

# Rows over which f is averaged, values of a number at which it is shown, and draws of the averages.
ROWS, GRID, DRAWS = 32, 16, 200


@dataclass(frozen=True, eq=False)
class Dependence:
    """Average of f over rows in which one column has a given value (Friedman, 2001).

    `d_j(x) = mean_i f(x_i with column j = x)`. Its standard deviation under the posterior is that
    of the averages of joint draws of f.

    Attributes
    ----------
    name : str
        The column.
    labels : tuple (g,)
        Numbers or levels at which it is stated.
    mean, std : FloatArray (g,)
        Mean and standard deviation of the average, units of y.
    """

    name: str
    labels: tuple[Any, ...]
    mean: FloatArray
    std: FloatArray


def dependences(
    process: GaussianProcess, columns: Columns, names: Sequence[str]
) -> list[Dependence]:
    """Partial dependence on the named columns of a process of one output that holds its rows."""
    rng = np.random.default_rng(0)
    rows = process.data.points
    rows = rows[rng.permutation(len(rows))[:ROWS]]
    every = list(columns.part_names)
    groups = np.arange(rows.shape[1]) if columns.groups is None else columns.groups
    encoding = columns.encoding
    codes: list[tuple[ColumnCode, str] | None] = [None] * len(every)
    if encoding is not None:
        codes = [(code, part) for code in encoding.codes for part, _ in code.parts]
    found = []
    for name in names:
        part = every.index(name)
        own = np.flatnonzero(groups == part)
        values, labels = _grid(np.unique(process.data.points[:, own], axis=0), codes[part])
        points = np.repeat(rows[None], len(values), axis=0)
        points[:, :, own] = values[:, None]
        draws = process.sample(points.reshape(-1, rows.shape[1]), DRAWS, rng, latent=True)
        averages = draws[:, 0].reshape(len(values), len(rows), DRAWS).mean(axis=1)
        found.append(Dependence(name, labels, averages.mean(axis=1), averages.std(axis=1)))
    return found


def _grid(
    values: FloatArray, code: tuple[ColumnCode, str] | None
) -> tuple[FloatArray, tuple[Any, ...]]:
    """Encoded values (g, c) at which dependence is shown, and labels, of sorted values (m, c)."""
    own, part = (None, "") if code is None else code
    if isinstance(own, CategoryCode):
        levels = [*own.levels, None]
        nearest = [int(np.argmin(np.abs(own.points - value).sum(axis=1))) for value in values]
        return values, tuple("missing" if levels[k] is None else str(levels[k]) for k in nearest)
    if isinstance(own, DateCode) and part:
        angles = np.linspace(0.0, 2 * np.pi, GRID, endpoint=False)
        days = angles / (2 * np.pi) * CYCLES[part]
        return np.column_stack([np.sin(angles), np.cos(angles)]), tuple(map(float, days))
    chosen = values[np.linspace(0, len(values) - 1, min(GRID, len(values))).astype(int)]
    if isinstance(own, PlaceCode) and not own.globe.is_plane:
        places = own.globe.degrees(chosen)
        return chosen, tuple(f"{latitude:.3g}, {longitude:.3g}" for latitude, longitude in places)
    has_gaps = chosen.shape[1] > 1 and own is not None
    return chosen, tuple(
        "missing" if has_gaps and value[-1] != 0 else float(value[0]) for value in chosen
    )
