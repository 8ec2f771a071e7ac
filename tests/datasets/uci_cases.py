"""Sizes of the UCI sets, and files that imitate them."""

import numpy as np

SHAPES = {
    "boston": (506, 13),
    "concrete": (1030, 8),
    "power": (9568, 4),
    "airfoil": (1503, 5),
    "cpu": (209, 7),
    "abalone": (4177, 8),
    "wine": (1599, 11),
    "kin40k": (40000, 8),
    "protein": (45730, 9),
}


def numbers(name, seed=0):
    """Return random values (n, d + 1) of the set's size with three decimals; the target is last."""
    n, d = SHAPES[name]
    return np.random.default_rng(seed).integers(0, 10**6, size=(n, d + 1)) / 1000.0


def write(folder, name, values, header=None):
    header = header or [*(f"x{i}" for i in range(values.shape[1] - 1)), "y"]
    lines = [",".join(header), *(",".join(map(repr, row)) for row in values.tolist())]
    path = folder / "uci" / f"{name}.csv"
    path.write_text("\n".join(lines) + "\n")
    return path
