"""Predictions of every estimator on seeded cases, written by one state and compared with another.

    python benchmarks/frozen_predictions.py --write before.npz
    python benchmarks/frozen_predictions.py --compare before.npz

The cases in `benchmarks/frozen/` use public names only, so that the same script runs on any state
of the package that has these names; put the state's folder on PYTHONPATH. A figure is an array of
numbers or a text. The difference of two arrays of predictions is divided by the predictive standard
deviation at the same points, that of every other array by its largest absolute value. Texts must be
equal. A case that raises, a missing figure and an array of another shape differ infinitely.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

# One thread: sums then have one order. Compiled walks would otherwise set torch's number to theirs.
os.environ |= {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}

import numpy as np
from frozen import CASES, Figures

import coupledgp

TOLERANCE = 1e-6
# Figures in units of y at the points whose standard deviation the figure "std" holds.
PREDICTIONS = ("mean", "std", "latent_std", "samples", "latent_samples")


def figures_of(pattern: str) -> dict[str, np.ndarray]:
    """All figures of the cases whose names contain a pattern, as `case/figure`."""
    every: dict[str, np.ndarray] = {}
    for name, case in CASES.items():
        if pattern not in name:
            continue
        start = time.process_time()
        try:
            figures = case()
        except Exception as error:  # another case may still run, and the report names this one
            figures = {"error": f"{type(error).__name__}: {error}"}
            print(f"{name}: {figures['error']}", file=sys.stderr)
        print(f"{name}: {time.process_time() - start:.1f} CPU s", file=sys.stderr)
        every |= {f"{name}/{key}": as_array(value) for key, value in figures.items()}
    return every


def as_array(value: object) -> np.ndarray:
    """Array of numbers or texts, which a file holds without pickle."""
    array = np.asarray(value)
    return array.astype(str) if array.dtype == object else array


def difference(name: str, new: np.ndarray, old: Figures) -> float:
    """Largest difference of a figure from the old one, relative to its scale."""
    value = old[name]
    if value.dtype.kind in "US" or new.dtype.kind in "US":
        return 0.0 if value.shape == new.shape and (value == new).all() else np.inf
    if value.shape != new.shape or (np.isfinite(value) != np.isfinite(new)).any():
        return np.inf
    finite = np.isfinite(value)
    gap = np.abs(np.where(finite, new, 0) - np.where(finite, value, 0))
    if gap.size == 0 or not gap.any():
        return 0.0
    return float((gap / scale_of(name, np.where(finite, value, 0), old)).max())


def scale_of(name: str, value: np.ndarray, old: Figures) -> np.ndarray:
    """Number or array by which the differences of a figure are divided.

    The figure "later mean" goes with the standard deviations "later std" of the same case.
    """
    start = max(name.rfind("/"), name.rfind(" ")) + 1
    std = old.get(f"{name[:start]}std")
    if std is not None and name[start:] in PREDICTIONS:
        return std if value.ndim == std.ndim else std[..., None]
    if std is not None and name[start:] == "covariance":
        return std[:, None] * std[None]
    return np.asarray(np.abs(value).max() or 1.0)


def compare(old: Figures, new: Figures) -> dict[str, float]:
    """Difference of each figure of the old state."""
    found = {}
    for name in old:
        failed = new.get(f"{name.rsplit('/', 1)[0]}/error", np.asarray("missing"))
        found[name] = difference(name, new.get(name, failed), old)
    return found


def print_differences(found: dict[str, float]) -> None:
    """Largest difference of each case, with the figure that has it."""
    width = max(len(name.rsplit("/", 1)[0]) for name in found)
    for case in dict.fromkeys(name.rsplit("/", 1)[0] for name in found):
        own = {name: gap for name, gap in found.items() if name.rsplit("/", 1)[0] == case}
        worst = max(own, key=lambda name: own[name])
        note = "" if own[worst] == 0 else worst.rsplit("/", 1)[1]
        print(f"{case:{width}}  {own[worst]:9.2g}  of {len(own):2} figures  {note}")


def main() -> int:
    """Write or compare; exit status 1 if a difference is above the tolerance."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", metavar="FILE.npz", type=Path)
    action.add_argument("--compare", metavar="FILE.npz", type=Path)
    parser.add_argument("--only", metavar="TEXT", default="", help="cases whose names contain it")
    parser.add_argument("--tolerance", type=float, default=TOLERANCE)
    options = parser.parse_args()
    start = time.process_time()
    figures = figures_of(options.only)
    took = f"{time.process_time() - start:.0f} CPU s, {coupledgp.__file__}"
    if options.write is not None:
        np.savez_compressed(options.write, **figures)
        print(f"{len(figures)} figures written in {took}")
        return int(any(name.endswith("/error") for name in figures))
    with np.load(options.compare) as stored:
        old = {
            name: stored[name] for name in stored.files if options.only in name.rsplit("/", 1)[0]
        }
    found = compare(old, figures)
    print_differences(found)
    worst = max(found, key=lambda name: found[name])
    print(f"{len(found)} figures; largest difference {found[worst]:.3g} ({worst}); {took}")
    return int(found[worst] > options.tolerance)


if __name__ == "__main__":
    sys.exit(main())
