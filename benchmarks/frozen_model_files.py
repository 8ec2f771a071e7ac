"""Model files of every kind, written by one state of the package and read by another.

    python benchmarks/frozen_model_files.py --write FOLDER
    python benchmarks/frozen_model_files.py --compare FOLDER

`--write` fits each model of `benchmarks/frozen/saved_models.py`, saves it in the folder as
NAME.safetensors and puts the figures of all into predictions.npz. `--compare` loads each file and
prints the largest difference of its figures, as `frozen_predictions.py` does; the exit status is 1
above the tolerance. The files in `tests/models/files_of_0_1_0/` were written by this script under
version 0.1.0.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

# One thread: sums then have one order.
os.environ |= {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}

import numpy as np
from frozen import Figures
from frozen.saved_models import MODELS, figures_of
from frozen_predictions import as_array, compare, print_differences

import coupledgp as cgp

TOLERANCE = 1e-10


def write(folder: Path) -> None:
    """Fit and save every model; write the figures of all."""
    folder.mkdir(parents=True, exist_ok=True)
    every: dict[str, np.ndarray] = {}
    for name, (make, with_data) in MODELS.items():
        model = make()
        model.save(folder / f"{name}.safetensors", include_data=with_data)
        for key, value in figures_of(model).items():
            every[f"{name}/{key}"] = as_array(value)
    np.savez_compressed(folder / "predictions.npz", **every)
    print(f"{len(MODELS)} models, {len(every)} figures written by {cgp.__file__}")


def read(folder: Path) -> Figures:
    """Figures of every model of the folder; a file that cannot be read has an error."""
    every: dict[str, np.ndarray] = {}
    for path in sorted(folder.glob("*.safetensors")):
        try:
            figures = figures_of(cgp.load_model(path))
        except Exception as error:  # the other files may still be readable
            figures = {"error": f"{type(error).__name__}: {error}"}
            print(f"{path.stem}: {figures['error']}", file=sys.stderr)
        every |= {f"{path.stem}/{key}": as_array(value) for key, value in figures.items()}
    return every


def main() -> int:
    """Write or compare; exit status 1 if a difference is above the tolerance."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--write", metavar="FOLDER", type=Path)
    action.add_argument("--compare", metavar="FOLDER", type=Path)
    parser.add_argument("--tolerance", type=float, default=TOLERANCE)
    options = parser.parse_args()
    if options.write is not None:
        write(options.write)
        return 0
    with np.load(options.compare / "predictions.npz") as stored:
        old = {name: stored[name] for name in stored.files}
    found = compare(old, read(options.compare))
    print_differences(found)
    worst = max(found, key=lambda name: found[name])
    print(f"{len(found)} figures; largest difference {found[worst]:.3g} ({worst}); {cgp.__file__}")
    return int(found[worst] > options.tolerance)


if __name__ == "__main__":
    sys.exit(main())
