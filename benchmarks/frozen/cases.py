"""The list of cases, and the data that they share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np

Figures: TypeAlias = Mapping[str, Any]
CASES: dict[str, Callable[[], Figures]] = {}

_RNG = np.random.default_rng(20260)
X = _RNG.normal(size=(160, 3))
Y = np.stack(
    [
        np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.1 * _RNG.normal(size=160),
        20.0 * X[:, 1] * X[:, 2] + 1000.0 + _RNG.normal(size=160),
    ],
    axis=1,
)
LABELS = np.where(Y[:, 0] > 0.5, "high", np.where(Y[:, 0] < -0.5, "low", "middle"))
X_NEW, Y_NEW = X[120:], Y[120:]
X, Y, LABELS = X[:120], Y[:120], LABELS[:120]


def case(name: str, function: Callable[..., Figures], *arguments: Any) -> None:
    """Add a case to the list: its figures are those of `function(*arguments)`."""
    assert name not in CASES, name
    CASES[name] = lambda: function(*arguments)


def plain(value: Any) -> Any:
    """Numbers of a nested plain value in the order of its keys, as one array (k,); None is NaN."""
    if isinstance(value, dict):
        parts = [plain(value[key]) for key in sorted(value, key=str)]
    elif isinstance(value, (list, tuple)):
        parts = [plain(item) for item in value]
    else:
        number = isinstance(value, (int, float, np.number))
        parts = [np.array([float(value)])] if number else []
        parts += [np.array([np.nan])] if value is None else []
    return np.concatenate([*parts, np.empty(0)])
