"""How often an audit calls a true model dishonest, worse than a baseline, or far from itself.

    python benchmarks/audit_false_alarms.py --models 200

Targets are drawn from the model itself, so that every such verdict is a false alarm; the same laws
with standard deviations of six tenths and of one and two thirds should be called so.
"""

from __future__ import annotations

import argparse

import numpy as np

import coupledgp as cgp
from coupledgp.random import FloatArray


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


def main() -> None:
    """Print the counts."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=200)
    n_models = parser.parse_args().models
    worse = equal = far = 0
    honest = dict.fromkeys((0.6, 1.0, 5 / 3), 0)
    for seed in range(n_models):
        model, tables = case(seed)
        mean, std = model.predict(tables[2], return_std=True)
        for factor in honest:
            law = (mean, factor * std)
            report = cgp.audit(law, *tables, kernel=model, progress=False)
            honest[factor] += "honest" in report.conclusions()[1]
            if factor == 1.0:
                worse += "predicts worse" in report.conclusions()[0]
                equal += "does not predict better" in report.conclusions()[0]
                far += "indistinguishable" not in report.conclusions()[2]
    print(f"{n_models} models: worse than a baseline {worse}, no better {equal}, far {far}")
    for factor, count in honest.items():
        print(f"standard deviations times {factor:.2f}: called dishonest {n_models - count}")


if __name__ == "__main__":
    main()
