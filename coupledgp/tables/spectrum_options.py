"""Checks of the options by which frequencies are sampled or fitted."""

from __future__ import annotations

from typing import Any

from coupledgp.core.posterior_draw import (
    LEAST_DRAWN_ROWS,
    LEAST_PER_DIMENSION,
    LEAST_PILOT_ROWS,
)
from coupledgp.core.weights_posterior import CHUNK_BYTES
from coupledgp.errors import InvalidInputError
from coupledgp.features import FeatureMap, FourierFeatures
from coupledgp.features.registry import parse_features
from coupledgp.ground.devices import check_device_memory
from coupledgp.ground.validation import check_choice, wrong
from coupledgp.tables.members import is_auto

FREQUENCIES = ("auto", "sampled", "posterior", "fitted")
# Fewest rows to whose posterior frequencies are fitted.
LEAST_ROWS = 10
# Matrices of the features' order, and chunks of features, that are alive at once.
MATRICES, CHUNKS = 8, 4


def check_frequencies(value: Any) -> None:
    """Refuse any value but those of `FREQUENCIES`."""
    if isinstance(value, int) or (isinstance(value, str) and value.isdecimal()):
        raise InvalidInputError(
            f"frequencies: expected 'auto', 'sampled', 'posterior' or 'fitted', got {value!r}; "
            "n_frequencies is their number"
        )
    check_choice(value, FREQUENCIES, "frequencies")


def why_sampled(model: Any, n_rows: int, dim: int) -> str:
    """Why no draw for the posterior is tried; empty where it is."""
    if model.frequencies == "posterior":
        return ""
    if model.frequencies == "sampled":
        return "as asked for"
    if parse_features(model.features) is not FourierFeatures:
        return "only Fourier features are drawn for a posterior"
    if model.coupling is not None:
        return "the coupling was named"
    if n_rows < LEAST_DRAWN_ROWS:
        return f"{n_rows} rows are too few for a pilot"
    if model.n_frequencies < LEAST_PER_DIMENSION * dim:
        return f"fewer than {LEAST_PER_DIMENSION} frequencies a column gain nothing by another law"
    return ""


def check_posterior(model: Any, n_rows: int) -> None:
    """Refuse a draw for the posterior beside a coupling or other features, or of too few rows."""
    if model.frequencies != "posterior":
        return
    if n_rows < LEAST_PILOT_ROWS:
        raise wrong("X", f"at least {LEAST_PILOT_ROWS} rows for frequencies='posterior'", n_rows)
    if model.coupling is not None:
        raise InvalidInputError(
            "coupling: expected None beside frequencies='posterior', got "
            f"coupling={model.coupling!r}"
        )
    if parse_features(model.features) is not FourierFeatures:
        raise InvalidInputError(
            f"frequencies: 'posterior' needs features='fourier', got features={model.features!r}"
        )


def check_fitting(model: Any, n_rows: int) -> None:
    """Refuse options that contradict each other, or too few rows, before any work."""
    check_frequencies(model.frequencies)
    check_posterior(model, n_rows)
    if model.frequencies != "fitted":
        return
    if model.hyperparameters == "averaged":
        raise InvalidInputError(
            "hyperparameters: expected 'maximum' where frequencies are fitted, got 'averaged'; "
            "average those of sampled frequencies"
        )
    if parse_features(model.features) is not FourierFeatures:
        raise InvalidInputError(
            "frequencies: only those of features='fourier' can be fitted, got "
            f"features={model.features!r}"
        )
    if n_rows < LEAST_ROWS:
        raise wrong("X", f"at least {LEAST_ROWS} rows to fit frequencies to", n_rows)


def check_keeping(keep_rows: Any) -> None:
    """Refuse a value of `keep_rows` that is neither True, False nor None."""
    if keep_rows not in (True, False, None) or type(keep_rows) is int:
        raise wrong("keep_rows", "True, False or None", keep_rows)


def check_use_of_queries(model: Any) -> None:
    """Refuse query points where no posterior is looked at."""
    drawn = model.frequencies in ("auto", "posterior") and model.coupling is None
    used = drawn or model.frequencies == "fitted"
    if not used or is_auto(model.n_frequencies) or is_auto(model.coupling):
        raise InvalidInputError(
            "queries: expected none unless frequencies of a given number are drawn for the "
            f"posterior or fitted to it, got n_frequencies={model.n_frequencies!r}, "
            f"coupling={model.coupling!r}, frequencies={model.frequencies!r}"
        )


def check_room(model: Any, features: FeatureMap, n_rows: int) -> None:
    """Refuse a fit whose matrices do not fit into the memory of a GPU.

    They are of the order of the features or of the rows, whichever are fewer; on the CPU, where
    memory that ends is an error that leaves the model as it was, nothing is refused.
    """
    device, size = features.device, features.n_features
    if device.type == "cpu":
        return
    side, members = min(size, n_rows), 1
    if model.hyperparameters == "averaged":
        members = model.n_hyperparameter_draws
    entries = (MATRICES + 2 * members) * side**2 + (0 if n_rows >= size else 4 * side * size)
    check_device_memory(
        device,
        8.0 * entries + CHUNKS * CHUNK_BYTES,
        f"n_frequencies: matrices of {size} features",
        "take fewer frequencies, or device=None, which is the CPU",
    )
