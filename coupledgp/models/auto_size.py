"""Fits that choose their own coupling and size: as many features as a target of KL takes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from coupledgp.counter import IntArray
from coupledgp.diagnostics import compare
from coupledgp.errors import InvalidInputError
from coupledgp.features.transformers import seed_from_random_state
from coupledgp.models.redraw import kept_hyperparameters, redrawn, size_name, with_parameters
from coupledgp.models.selection import Selection, select
from coupledgp.models.selection_cases import MIN_ROWS, ROWS_A_QUERY
from coupledgp.progress import reporter
from coupledgp.validation import check_positive

AUTO = "auto"
# Rounds of fitting, measuring and growing.
MAX_ROUNDS = 5
# A size grows by this much beyond what the KL measured asks for, at most so many times.
MARGIN, MAX_GROWTH = 1.2, 4.0
N_QUERY = 256
DEFAULT_COUPLINGS = {"n_frequencies": "orthogonal+pnc", "n_walks": "stratified+systematic"}


def fit_automatic(model: Any, X: Any, y: ArrayLike, fit: Callable[[Any], Any]) -> Any:
    """Choose on at most 2000 rows, fit, measure the KL on all rows, and grow until it is met.

    Parameters
    ----------
    model
        Unfitted, with `coupling` or its size `"auto"`, and a `kl_target`.
    X, y
        Data, as `fit` takes them.
    fit
        Fits a copy of the model whose coupling and size are numbers.

    Returns
    -------
    fitted model
        With attributes `selection_` (a `Selection`) and `kl_per_point_`, the KL that was measured
        at a quarter of the rows (at most 256), given the others and the fitted hyperparameters.

    Raises
    ------
    InvalidInputError
        `kl_target` is not positive, or spectra are to be fitted.
    """
    check_positive(model.kl_target, "kl_target")
    name = size_name(model)
    if getattr(model, "frequencies", "sampled") != "sampled":
        raise InvalidInputError(
            f"{name}, coupling: 'auto' chooses among sampled frequencies, "
            f"got frequencies={model.frequencies!r}; give numbers, or frequencies='sampled'"
        )
    seed = seed_from_random_state(model.random_state)
    chosen = _select(model, name, X, y, seed)
    largest = chosen.n_rows if name == "n_frequencies" else None
    candidate = chosen.estimator
    for last in (*[False] * (MAX_ROUNDS - 1), True):
        fitted = fit(candidate)
        kl = measured_kl(fitted, X, y, seed)
        size = getattr(candidate, name)
        if kl <= model.kl_target or _text(getattr(model, name)) != AUTO:
            break
        growth = float(np.clip(MARGIN * kl / model.kl_target, MARGIN, MAX_GROWTH))
        grown = int(np.ceil(size * growth))
        grown = grown if largest is None else min(grown, largest)
        if last or grown == size:
            break
        candidate = with_parameters(candidate, **{name: grown})
    if kl > model.kl_target:
        _warn(model, name, size, kl, chosen)
    fitted.selection_, fitted.kl_per_point_ = chosen, kl
    fitted.set_params(**{name: getattr(model, name), "coupling": model.coupling})
    return fitted


def _select(model: Any, name: str, X: Any, y: ArrayLike, seed: int) -> Selection:
    size, coupling = getattr(model, name), model.coupling
    template = with_parameters(
        model,
        **{name: 8 if _text(size) == AUTO else size},
        coupling=DEFAULT_COUPLINGS[name] if _text(coupling) == AUTO else coupling,
    )
    return select(
        template, X, y, kl_target=model.kl_target,
        couplings=None if _text(coupling) == AUTO else [coupling],
        sizes=None if _text(size) == AUTO else [size],
        random_state=seed, progress=getattr(model, "progress", None),
    )  # fmt: skip


def measured_kl(fitted: Any, X: Any, y: ArrayLike, seed: int) -> float:
    """KL to the exact GP at some rows, given the others, at the model's own hyperparameters.

    The largest value that the comparison's bounds allow, where it has any.
    """
    n_rows = len(np.asarray(y))
    n_query = min(N_QUERY, max(n_rows // ROWS_A_QUERY, MIN_ROWS // ROWS_A_QUERY))
    order = np.random.default_rng(seed).permutation(n_rows)
    query, rest = order[:n_query], np.sort(order[n_query:])
    targets = np.asarray(y)[rest]
    with reporter("measure", getattr(fitted, "progress", None)) as report:
        report(f"KL given {rest.size} rows")
        if hasattr(fitted, "conditioned_on"):
            local = fitted.conditioned_on(_rows(X, rest), targets)
            found = compare(local, _rows(X, query), progress=False)
        else:
            nodes = list(X)
            local = redrawn(
                fitted, kept_hyperparameters(fitted), fitted.coupling, fitted.n_walks, seed
            ).fit([nodes[k] for k in rest], targets)
            found = compare(local, [nodes[k] for k in query], progress=False)
    _, above = found.accuracy.bounds.get("kl_per_point", (0.0, 0.0))
    return float(found.kl_per_point + above)


def _rows(X: Any, chosen: IntArray) -> Any:
    """Rows of a table, whose columns keep their names, or of a matrix."""
    if hasattr(X, "take") and not isinstance(X, np.ndarray):
        return X.take(chosen)
    return np.asarray(X)[chosen]


def _warn(model: Any, name: str, size: int, kl: float, chosen: Selection) -> None:
    advice = chosen.explain() if not chosen.met else "raise kl_target, or give a larger size"
    warnings.warn(
        f"kl_target: {model.kl_target:g} nats per point is not met: with {name}={size} the KL is "
        f"{kl:.3g}. {advice}",
        ConvergenceWarning,
        stacklevel=4,
    )


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
