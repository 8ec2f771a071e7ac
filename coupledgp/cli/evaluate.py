"""What `coupledgp fit` reports: scores on test rows, and the distance from the exact GP."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from coupledgp.diagnostics import PosteriorReport, compare, coverage, nlpd, rmse
from coupledgp.models import SparseSpectrumGPRegressor
from coupledgp.random import FloatArray

# Test rows of a comparison: its covariances are dense.
MAX_TEST_ROWS = 1000
# Rows predicted at once: the exact GP needs this many times its training rows.
BATCH_ROWS = 8192


@dataclass(frozen=True)
class Rows:
    """Inputs, a table of float64 columns, and their targets (n,)."""

    X: pa.Table
    y: FloatArray

    def __len__(self) -> int:
        return len(self.y)

    def take(self, indices: FloatArray) -> Rows:
        """Rows at some places."""
        return Rows(self.X.take(pa.array(indices)), self.y[indices])

    def sample(self, n: int, rng: np.random.Generator) -> Rows:
        """At most n rows, drawn without replacement, in their order."""
        if len(self) <= n:
            return self
        return self.take(np.sort(rng.choice(len(self), n, replace=False)))


@dataclass(frozen=True)
class Comparison:
    """A posterior report, and of how many rows it speaks."""

    report: PosteriorReport
    n_train: int
    n_test: int
    at_training_inputs: bool

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as plain values."""
        return {
            "n_train": self.n_train,
            "n_test": self.n_test,
            "at_training_inputs": self.at_training_inputs,
            **self.report.to_dict(),
        }


class Stopwatch:
    """Seconds that the parts of the work took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """Time the body under a name."""
        start = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - start


def split(rows: Rows, share: float, seed: int) -> tuple[Rows, Rows]:
    """Training and test rows; the test rows are a random share, at least one row stays."""
    n_test = min(round(share * len(rows)), len(rows) - 1)
    order = np.random.default_rng(seed).permutation(len(rows))
    return rows.take(np.sort(order[n_test:])), rows.take(np.sort(order[:n_test]))


def predict_in_batches(model: Any, X: Any, latent: bool = False) -> tuple[FloatArray, FloatArray]:
    """Mean and standard deviation at each row of a table or matrix, a few thousand at a time."""
    parts = [
        model.predict(X[start : start + BATCH_ROWS], return_std=True, latent=latent)
        for start in range(0, len(X), BATCH_ROWS)
    ]
    if not parts:
        return np.zeros(0), np.zeros(0)
    means, stds = zip(*parts, strict=True)
    return np.concatenate(means), np.concatenate(stds)


def scores(model: SparseSpectrumGPRegressor, test: Rows) -> dict[str, Any] | None:
    """Scores on all test rows; None if there are none."""
    if not len(test):
        return None
    mean, std = predict_in_batches(model, test.X)
    spread = float(np.std(test.y))
    error = rmse(test.y, mean)
    return {
        "n_test": len(test),
        "rmse": error,
        "r2": 1 - (error / spread) ** 2 if spread > 0 else None,
        "nlpd": nlpd(test.y, mean, std),
        "coverage": coverage(test.y, mean, std),
    }


def beside_exact(
    model: SparseSpectrumGPRegressor, train: Rows, test: Rows, exact_rows: int, seed: int
) -> Comparison:
    """Compare a model with the exact GP at its hyperparameters, on at most `exact_rows` rows.

    With more training rows both are given the same random subset. Without test rows the
    comparison is at training inputs.
    """
    rng = np.random.default_rng([seed, 1])
    kept = train.sample(exact_rows, rng)
    local = model if kept is train else model.conditioned_on(kept.X, kept.y)
    points = (test if len(test) else train).sample(MAX_TEST_ROWS, rng)
    report = compare(local, points.X, points.y if len(test) else None)
    return Comparison(report, len(kept), len(points), not len(test))
