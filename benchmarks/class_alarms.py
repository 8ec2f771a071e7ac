"""How often reports of classes and counts call a right law wrong, and find faults.

    python benchmarks/class_alarms.py --models 200

Tables have 100 or 400 training and 300 test rows in one, two or four columns. Functions are drawn
from a Matern-5/2 kernel, and labels or counts from them. `true` is the posterior of the same
kernel, hyperparameters and likelihood. Of three classes labels are drawn from the model's own
chances, since one function for each class is no law that labels could be drawn from beforehand.
Faults: means of logits twice or half as large, lengthscales four times too long, and for counts a
Poisson law of negative binomial ones. Columns: reports with a verdict amber or red.
"""

from __future__ import annotations

import argparse
import os

os.environ |= {"OMP_NUM_THREADS": "1"}

import numpy as np
from scipy.spatial.distance import cdist

from coupledgp.core.latent import LatentGP
from coupledgp.core.problem import Hyperparameters
from coupledgp.core.process import Data
from coupledgp.diagnostics import report as report_on
from coupledgp.diagnostics.tables import BETTER, HONEST
from coupledgp.likelihoods import Bernoulli, NegativeBinomial, Poisson
from coupledgp.spectra import parse_spectrum
from coupledgp.tables.exact_process import StationaryPrior
from coupledgp.tables.latent_kernels import one_row

N_TEST, OUTPUTSCALE, DISPERSION = 300, 2.0, 0.7
SPECTRUM = parse_spectrum("matern-5/2")
FAULTS = {
    "classes": ("true", "logits x 2", "logits / 2", "lengthscale x 4"),
    "three classes": ("true", "logits x 2", "logits / 2"),
    "counts": ("true", "lengthscale x 4", "Poisson"),
}


def process(
    X: np.ndarray, y: np.ndarray, law: object, lengthscale: float, outputscale: float, offset: float
) -> LatentGP:
    """The exact posterior of given hyperparameters, one function a column of y (n, k)."""
    hyper = Hyperparameters(np.full(X.shape[1], lengthscale), outputscale, 1.0)
    prior, data = StationaryPrior(SPECTRUM, hyper), Data.of(X, y)
    return LatentGP.given([one_row(prior, data, offset)] * y.shape[1], law, data)


def drawn(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, int, float]:
    """Rows, values of a function, the number of training rows and the lengthscale."""
    n, dim = int(rng.choice([100, 400])), int(rng.choice([1, 2, 4]))
    X = rng.uniform(-2, 2, (n + N_TEST, dim))
    lengthscale = float(rng.choice([0.7, 1.5])) * np.sqrt(dim)
    r = np.sqrt(5) * cdist(X, X) / lengthscale
    gram = OUTPUTSCALE * (1 + r + r**2 / 3) * np.exp(-r)
    root = np.linalg.cholesky(gram + 1e-9 * np.eye(len(X)))
    return X, root @ rng.standard_normal((len(X), 3)), n, lengthscale


def report(kind: str, fault: str, seed: int) -> dict[str, str]:
    """Colours of the verdicts of one report, by their questions."""
    rng = np.random.default_rng([seed, list(FAULTS).index(kind)])
    X, f, n, lengthscale = drawn(rng)
    wide, scale = lengthscale * (4 if fault == "lengthscale x 4" else 1), OUTPUTSCALE
    if kind == "counts":
        true = (
            NegativeBinomial(DISPERSION) if rng.random() < 0.5 or fault == "Poisson" else Poisson()
        )
        y = true.draw(f[:, :1] + 0.5, rng)
        law = Poisson() if fault == "Poisson" else true
        model = process(X[:n], y[:n], law, wide, scale, 0.5)
        found = report_on(model, X[n:], y[n:], progress=False)
        return {one.question: one.colour for one in found.verdicts}
    if kind == "classes":
        y = Bernoulli().draw(f[:, :1], rng)
    else:
        y = np.eye(3)[(f + rng.gumbel(size=f.shape)).argmax(axis=1)]
    factor = {"logits x 2": 2.0, "logits / 2": 0.5}.get(fault, 1.0)
    model = process(X[:n], y[:n], Bernoulli(), wide, scale, 0.0)
    if kind == "classes":
        labels = y[n:, 0].astype(int)
    else:
        draws = model.sample(X[n:], 1, rng, latent=True)[..., 0]
        chances = 1 / (1 + np.exp(-draws))
        ends = np.cumsum(chances / chances.sum(axis=1, keepdims=True), axis=1)[:, :-1]
        labels = (rng.random(N_TEST)[:, None] > ends).sum(axis=1)
    found = report_on(Scaled.of(model, factor), X[n:], labels, progress=False)
    return {one.question: one.colour for one in found.verdicts}


class Scaled(LatentGP):
    """A process whose functions have means that are multiplied by a factor."""

    @classmethod
    def of(cls, model: LatentGP, factor: float) -> LatentGP:
        """The model itself for a factor of one."""
        if factor == 1.0:
            return model
        made = cls(model.functions, model.likelihood, model.rows, model.evidence)
        vars(made)["factor"] = factor
        return made

    def _latent_moments(self, points: np.ndarray, want: str) -> tuple:
        mean, spread = super()._latent_moments(points, want)
        return vars(self)["factor"] * mean, spread

    def sample(self, points: np.ndarray, n_samples: int, rng: np.random.Generator, **how) -> object:
        mean, _ = super()._latent_moments(points, "variance")
        return super().sample(points, n_samples, rng, **how) + (
            (vars(self)["factor"] - 1) * mean[..., None]
        )


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=int, default=100)
    parser.add_argument("--kinds", nargs="+", default=list(FAULTS))
    parser.add_argument("--only", default="", help="one of the faults, such as true")
    options = parser.parse_args()
    print("| law | fault | not good | not honest | either |")
    print("|---|---|---|---|---|")
    for kind in options.kinds:
        for fault in FAULTS[kind]:
            if options.only not in ("", fault):
                continue
            found = [report(kind, fault, seed) for seed in range(options.models)]
            bad = [{q: colour in ("amber", "red") for q, colour in one.items()} for one in found]
            good, honest = (sum(one[q] for one in bad) for q in (BETTER, HONEST))
            either = sum(one[BETTER] or one[HONEST] for one in bad)
            cells = " | ".join(f"{count} of {len(bad)}" for count in (good, honest, either))
            print(f"| {kind} | {fault} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
