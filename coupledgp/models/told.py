"""What a fit means for a reader: its error, the columns that it hangs on, and identifiers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from coupledgp.columns.codes import CategoryCode
from coupledgp.diagnostics.moves import ColumnMoves
from coupledgp.errors import CoupledGPError
from coupledgp.features.sklearn import Columns
from coupledgp.gp.mixture import MixtureGP
from coupledgp.gp.protocol import GaussianProcess
from coupledgp.gp.transformed import has_normal_noise
from coupledgp.gp.wrapped import has_data, innermost

# Most cubes of rows, over all members, for errors of rows that are left out: about a second.
MOST_CUBES = 4e9
# Fewest levels, and most rows of each on average, from which a category looks like an identifier.
LEAST_LEVELS, MOST_ROWS = 50, 20


def error_sentence(process: GaussianProcess, kind: str) -> str:
    """Say how far predictions are off where an observation is left out, or else how much is noise.

    Parameters
    ----------
    process
        The fitted process.
    kind
        What its points are, in the plural.
    """
    try:
        data = process.data
    except CoupledGPError:  # a file without its rows
        return ""
    n, spread = len(data), data.targets.std(axis=0)
    inner = innermost(process)
    members: Sequence[GaussianProcess] = [process]
    weights = np.ones(1)
    if isinstance(inner, MixtureGP):
        members, weights = inner.members, inner.weights
    unknown = f"{n} {kind}, over which y has a standard deviation of {_listed(spread)}."
    if not process.noise.is_gaussian or n < 3 or len(members) * float(n) ** 3 > MOST_CUBES:
        return unknown
    try:
        law = process.left_out_law(np.arange(n))
    except CoupledGPError:  # many groups of a process that has no inverse
        return unknown
    error = np.sqrt(np.mean((data.targets - law.mean) ** 2, axis=0))
    noise = ""
    if has_normal_noise(process):
        variances = [one.units.spread(one.noise.variance) for one in members]
        noise = f"; noise alone has a standard deviation of {_listed(np.sqrt(weights @ variances))}"
    return (
        f"Predictions are typically off by {_listed(error)} where one of {n} {kind} is left out; y "
        f"itself varies by {_listed(spread)}{noise}."
    )


def column_sentence(process: GaussianProcess, columns: Columns) -> str:
    """Say which columns predictions hang on: how far values of other rows move them."""
    if not has_data(process) or columns.n_features < 2:
        return ""
    return ColumnMoves.of(process, columns).text()


def identifier_sentences(columns: Columns, n_rows: int) -> Iterator[str]:
    """Say which columns look like identifiers, which tell nothing of rows with new ones."""
    for place, code in enumerate(() if columns.encoding is None else columns.encoding.codes):
        n_levels = code.n_levels if isinstance(code, CategoryCode) else 0
        if isinstance(code, CategoryCode) and code.of_dates:
            yield (
                f"{columns.name(place)} holds dates as text, taken as a category: "
                "pandas.to_datetime makes dates of it."
            )
        elif n_levels >= LEAST_LEVELS and n_rows <= MOST_ROWS * n_levels:
            yield (
                f"{columns.name(place)} has {n_levels} levels on {n_rows} rows, as identifiers "
                "have: drop it, or group by it, cross_validate(gp, groups=...)."
            )


def _listed(values: np.ndarray) -> str:
    return ", ".join(f"{value:.3g}" for value in values.tolist())
