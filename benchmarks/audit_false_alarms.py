"""How often an audit finds fault with a true model, and how often with one of wrong deviations.

    python benchmarks/audit_false_alarms.py --models 200

Targets are drawn from the model itself, so that every amber or red verdict is a false alarm. The
model is stated by its joint law, by single points beside the exact process, and by single points
alone, where points count as independent although errors of neighbours go together. The same laws
with standard deviations of six tenths and of one and two thirds should be called dishonest.
"""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Any

import numpy as np

import coupledgp as cgp
from coupledgp.random import FloatArray

# Wrong standard deviations, in units of the right ones.
FACTORS = (0.6, 5 / 3)


def case(seed: int) -> tuple[cgp.ExactGPRegressor, tuple[FloatArray, ...]]:
    """A model and tables of its own prior: few rows or many, smooth or rough, noisy or not."""
    rng = np.random.default_rng(seed)
    n, d = int(rng.choice([30, 100, 300])), int(rng.choice([1, 2, 5]))
    X = rng.uniform(-2, 2, (n + 200, d))
    hyper = {
        "kernel": str(rng.choice(["gaussian", "matern-3/2"])),
        "lengthscale": float(rng.choice([0.5, 1.0, 3.0])),
        "noise": float(rng.choice([0.01, 0.1, 0.5])),
        "outputscale": 1.0,
    }
    model = cgp.ExactGPRegressor(**hyper, optimizer=None, normalize_y=False)
    prior = model.fit(X[:1], np.zeros(1)).prior_covariance(X) + hyper["noise"] * np.eye(n + 200)
    y = np.linalg.cholesky(prior) @ rng.normal(size=n + 200)
    return model.fit(X[:n], y[:n]), (X[:n], y[:n], X[n:], y[n:])


def forms(model: cgp.ExactGPRegressor, tables: tuple[FloatArray, ...]) -> dict[str, Any]:
    """Arguments of an audit by the form in which the model is stated."""
    mean, cov = model.predict(tables[2], return_cov=True)
    points = mean, np.sqrt(np.diagonal(cov))
    return {
        "joint law": {"stated": (mean, cov), "kernel": model},
        "single points beside the exact process": {"stated": points, "kernel": model},
        "single points alone": {"stated": points},
    }


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=200)
    n_models = parser.parse_args().models
    alarms: Counter[str] = Counter()
    dishonest: Counter[float] = Counter()
    for seed in range(n_models):
        model, tables = case(seed)
        laws = forms(model, tables)
        for form, asked in laws.items():
            for one in cgp.audit(X_train=tables[0], y_train=tables[1], X_test=tables[2],
                                 y_test=tables[3], progress=False, **asked).verdicts:  # fmt: skip
                alarms[f"{form}: {one.question}"] += one.colour in ("amber", "red")
        mean, cov = laws["joint law"]["stated"]
        for factor in FACTORS:
            wrong = cgp.audit((mean, factor**2 * cov), *tables, progress=False)
            dishonest[factor] += wrong.verdicts[1].colour in ("amber", "red")
    for text, count in alarms.items():
        print(f"{text} {count} of {n_models} amber or red")
    for factor, count in dishonest.items():
        print(f"standard deviations times {factor:.2f}: {count} of {n_models} called dishonest")


if __name__ == "__main__":
    main()
