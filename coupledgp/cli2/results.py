"""Laws as columns, reports on models, and where to measure next."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import coupledgp as cgp
from coupledgp.cli2.run import notice
from coupledgp.cli2.tables import check_columns, numbers
from coupledgp.errors import InvalidInputError
from coupledgp.random import FloatArray, IntArray

# Rows predicted at once: an exact model needs a matrix of them and its training rows.
BATCH_ROWS = 8192
# Names of the columns of a law, and of chances of classes.
LAW, CHANCE = ("mean", "std", "lower", "upper"), "chance_"


def heading(**further: Any) -> dict[str, Any]:
    """The first entries of every JSON, and those of a command."""
    return {"coupledgp": version("coupledgp"), **further}


def law_columns(
    model: Any, points: Any, level: float | None, latent: bool, exposure: FloatArray | None = None
) -> dict[str, Any]:
    """Columns (p,) of the predictive law by name.

    Of a classifier the class of greatest chance and the chances of all; else `mean` and `std`, and
    with a level `lower` and `upper`, which do not go below zero where targets are counts.
    """
    size = len(points)
    parts = [_law(model, points, slice(k, k + BATCH_ROWS), level, latent, exposure)
             for k in range(0, size, BATCH_ROWS)]  # fmt: skip
    found = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    if "lower" in found and are_counts(getattr(model, "y_train_", ())):
        found["lower"] = np.maximum(found["lower"], 0.0)
    return found


def _law(
    model: Any, points: Any, rows: slice, level: float | None, latent: bool, exposure: Any
) -> dict[str, Any]:
    some = points.iloc[rows] if hasattr(points, "iloc") else points[rows]
    if hasattr(model, "classes_"):
        chances = model.predict_proba(some)
        names = (f"{CHANCE}{label}" for label in model.classes_)
        found = {"class": model.classes_[chances.argmax(axis=1)]}
        return found | dict(zip(names, chances.T, strict=True))
    own = {} if exposure is None else {"exposure": exposure[rows]}
    mean, std = model.predict(some, return_std=True, latent=latent, **own)
    if level is None:
        return {"mean": mean, "std": std}
    if latent:
        raise InvalidInputError("--level: expected no --latent beside it, intervals have the noise")
    ends = model.predict_interval(some, level, **own)
    return {"mean": mean, "std": std, "lower": ends[0], "upper": ends[1]}


def are_counts(y: Any) -> bool:
    """Whether targets are whole numbers from zero, of more than two kinds."""
    values = np.asarray(y, dtype=np.float64)
    values = values[np.isfinite(values)]
    whole = values.size and (values >= 0).all() and (values == np.floor(values)).all()
    return bool(whole and np.unique(values).size > 2)


def with_columns(
    frame: pd.DataFrame, added: dict[str, Any], path: Path, prefix: str = ""
) -> pd.DataFrame:
    """The rows of a file with columns more, none of which it has."""
    taken = [f"{prefix}{name}" for name in added if f"{prefix}{name}" in frame.columns]
    if taken:
        raise InvalidInputError(
            f"{path}: has a column {taken[0]!r} already; --prefix gives the new ones others"
        )
    return frame.assign(**{f"{prefix}{name}": values for name, values in added.items()})


def exposures(model: Any, frame: pd.DataFrame, column: str | None, path: Path) -> FloatArray | None:
    """Exposures (p,) of the rows of a table; None where no column is named."""
    if column is None:
        return None
    check_columns(frame, [column], f"--exposure: {path}")
    return numbers(frame, column, path)


def hidden_rows(groups: Any, share: float | None, seed: int) -> IntArray:
    """Numbers of a random share of rows; rows of one group go together, one group stays."""
    distinct, code = np.unique(groups, axis=0, return_inverse=True)
    n = len(distinct)
    count = min(round((share or 0.0) * n), n - 1)
    chosen = np.random.default_rng(seed).permutation(n)[:count]
    return np.flatnonzero(np.isin(code.reshape(-1), chosen))


def judged(model: Any, points: Any, y: Any, **further: Any) -> Any:
    """The report at held-out points, or, without them, of leaving each observation out.

    None, with a notice of the reason, where neither is possible.
    """
    try:
        if not len(y):
            return cgp.diagnostics.cross_validate(model)
        return cgp.diagnostics.compare(model, points, y, **further)
    except InvalidInputError as error:
        notice(f"not judged: {error}")
        return None


def told(report: Any, head: Sequence[str], closing: Sequence[str]) -> str:
    """The lines of a result around its report's own text."""
    return "\n".join([*head, *([] if report is None else [str(report)]), *closing])
