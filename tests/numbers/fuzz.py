"""Models of random magnitudes: finite answers, or an error of the package.

`python -m tests.numbers.fuzz 2000 --seed 1` prints the counts, and each case that ended otherwise.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import coupledgp as cgp
from coupledgp.errors import CoupledGPError
from coupledgp.ground.validation import json_values
from tests.numbers import cases

# Exponents of ten: mostly near one, often near the limits, sometimes far beyond.
RANGES = ((-8, 8), (-8, 8), (-74, 74), (-74, 74), (-320, 308))


def magnitude(rng: np.random.Generator, spread: float = 1.0) -> float:
    """A random power of ten."""
    low, high = RANGES[rng.integers(len(RANGES))]
    return float(10.0 ** (spread * rng.uniform(low, high)))


def table(rng: np.random.Generator) -> tuple[Any, ...]:
    """A table, where targets, columns, test points, hyperparameters and weights have magnitudes."""
    some = rng.random(7) < 0.35
    columns = np.array([magnitude(rng), magnitude(rng)]) if some[0] else 1.0
    t = magnitude(rng) if some[1] else 1.0
    far = magnitude(rng) if some[2] else 1.0
    shift = magnitude(rng) if some[3] else 0.0
    given = {
        name: magnitude(rng, 0.3)
        for name, chosen in zip(("lengthscale", "outputscale", "noise"), some[4:], strict=True)
        if chosen and rng.random() < 0.4
    }
    kinds: list[Callable[..., Any]] = [
        lambda **k: cgp.ExactGPRegressor("matern-0.9", **k),
        lambda **k: cgp.SparseSpectrumGPRegressor(n_frequencies=8, **k),
        lambda **k: cgp.SparseSpectrumGPRegressor(n_frequencies=8, dtype="float32", **k),
        lambda **k: cgp.ExactGPRegressor(normalize_y=False, **k),
    ]
    model = kinds[rng.integers(len(kinds))](**cases.KEPT, **given)
    y, y_test = t * cases.Y + shift, t * cases.Y_TEST + shift
    return model, columns * cases.X, y, far * columns * cases.X_TEST, y_test


def graph(rng: np.random.Generator) -> tuple[Any, ...]:
    """A graph whose weights and targets have magnitudes, some weights others."""
    weights = cases.WEIGHTS * magnitude(rng)
    chosen = rng.random(weights.size) < 0.2
    weights = np.where(chosen, weights * magnitude(rng, 0.5), weights)
    y = cases.Y_NODES * (magnitude(rng) if rng.random() < 0.5 else 1.0)
    found: tuple[Any, ...] = cases.on_nodes(weights, y, walks=bool(rng.random() < 0.3))
    return found


def surface(rng: np.random.Generator) -> tuple[Any, ...]:
    """A sphere of some radius somewhere, or roads of some length, with targets of magnitudes."""
    t = magnitude(rng) if rng.random() < 0.5 else 1.0
    if rng.random() < 0.4:
        roads: tuple[Any, ...] = cases.on_roads(magnitude(rng, 0.5), cases.Y_NODES * t)
        return roads
    offset = magnitude(rng, 0.2) if rng.random() < 0.3 else 0.0
    found: tuple[Any, ...] = cases.on_sphere(magnitude(rng, 0.5), offset, cases.Y_SENSORS * t)
    return found


def outcome(rng: np.random.Generator) -> tuple[str, str]:
    """One case: whether it ended in answers, a refusal or a fault, and what was said."""
    make = (table, table, table, graph, surface)[rng.integers(5)]
    try:
        found = cases.answers(*make(rng), scored=bool(rng.random() < 0.5))
        bad = list(cases.no_numbers(found | {"report": json_values(found.get("report", {}))}))
    except CoupledGPError as error:
        return "refusals", str(error)
    except ValueError as error:  # what scikit-learn says of infinities
        known = "Input" in str(error) and "infinity" in str(error)
        return ("refusals" if known else "faults"), f"{make.__name__}: {error!r}"
    except Exception as error:
        return "faults", f"{make.__name__}: {error!r}"
    return ("faults", f"{make.__name__}: no numbers in {bad[:4]}") if bad else ("answers", "")


def run(n_cases: int, seed: int, say: Callable[[str], None] | None = None) -> dict[str, int]:
    """Counts of the outcomes of random cases; `say` is called with each fault."""
    counts = {"answers": 0, "refusals": 0, "faults": 0}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for number in range(n_cases):
            kind, text = outcome(np.random.default_rng([seed, number]))
            counts[kind] += 1
            if say is not None and kind == "faults":
                say(f"case {number} of seed {seed}: {text}")
    return counts


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("n_cases", type=int)
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    found = run(given.n_cases, given.seed, print)
    print(", ".join(f"{count} {kind}" for kind, count in found.items()))
    raise SystemExit(bool(found["faults"]))
