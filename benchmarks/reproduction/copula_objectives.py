"""Gaussian copulas of norms learned on four costs, each measured on all four.

"Variance-reducing couplings" learns its copula on the error of the Gram matrix (A.5) and finds that
the posterior gains nothing by it. This script asks whether another cost helps. On UCI sets, with
the protocol of `uci_couplings.py` (256 training and 256 test points or half of the data each,
isotropic hyperparameters of an exact GP's evidence, m = d), a copula is learned on each of

* gram: squared error of the Gram matrix of the training inputs;
* posterior-kl: KL from the exact posterior, jointly at a number of points equal to that of the test
  points, made from the training rows as fitted spectra make theirs, never from test points;
* evidence: minus the log evidence of the training rows;
* attention: squared error of the softmax weights with which training rows attend to each other,
  rows and columns standardised, scores over sqrt(d);

and then measured on test points: relative RMSE of the Gram matrix, KL per test point, minus the log
evidence of the test rows per target, and error of the attention among test rows. A second part uses
the keys of `attention_errors.py` (N = d = 16), where copulas are learned on many sets of keys and
measured on others, on Gram and attention only, since there are no targets.

Measurements use fresh draws. All systems are Gaussian copulas, with independent norms, PNC and PM as
limits, and all of them are drawn from the same directions and the same normals. Printed are the cost
under independent norms and the ratio of each system to it (for the evidence the difference in nats),
as means and standard errors over splits, or over sets of keys.

Positive features have heavy tails. The error of attention is bounded, but for long rows (cpu,
abalone) it saturates and hardly distinguishes systems. Elsewhere a few outlying rows carry much of
it, so that standard errors over few splits may be too small.

    COUPLEDGP_DATA=... python benchmarks/reproduction/copula_objectives.py [--splits 5] [--json OUT]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from scipy.spatial.distance import pdist
from scipy.special import ndtr
from threadpoolctl import threadpool_limits
from uci_couplings import DATASETS, split

import coupledgp as cgp
from coupledgp.couplings import OrthogonalDirections
from coupledgp.couplings.frequencies.registry import norms_from_uniforms
from coupledgp.features import LearnedCopula, learn_copula
from coupledgp.features.learned_copula import FrequencyLoss
from coupledgp.search.tables.spectrum_descent import QueryPoints
from coupledgp.spectra import GaussianSpectrum

COSTS = ("gram", "posterior-kl", "evidence", "attention")
BASE = "independent"
N, DIM = 16, 16
KEYS = {"N(0, I / sqrt(d))": DIM**-0.5, "N(0, I / d)": 1 / DIM}
TRAINING_SETS = 32
# Mean cost of every system: {system: {cost: mean over draws}}, one for each split or set of keys.
Figures = dict[str, dict[str, float]]


def relative_gram_loss(X: np.ndarray) -> FrequencyLoss:
    """Squared error of the Gram matrix over the squared matrix, both off the diagonal."""
    loss, scale = cgp.gram_loss(X), np.square(GaussianSpectrum().kernel(pdist(X))).mean()
    return lambda frequencies: loss(frequencies) / scale


def uci_losses(
    name: str, number: int
) -> tuple[int, dict[str, FrequencyLoss], dict[str, FrequencyLoss]]:
    """Dimension, and the losses to learn on and to measure by, of one split."""
    X, y, X_test, y_test = split(name, number)
    exact = cgp.ExactGPRegressor(ard=False, random_state=0).fit(X, y)
    scales = {
        "lengthscale": exact.lengthscale_,
        "outputscale": exact.outputscale_,
        "noise": exact.noise_,
    }
    y, y_test = y - y.mean(), y_test - y.mean()
    queries = QueryPoints(X, X[:0], np.random.default_rng(number)).draw(len(X_test))

    def losses(points: np.ndarray, inputs: np.ndarray, targets: np.ndarray) -> dict:
        return {
            "gram": relative_gram_loss(inputs / exact.lengthscale_),
            "posterior-kl": cgp.posterior_kl_loss(X, y, points, **scales),
            "evidence": cgp.evidence_loss(inputs, targets, **scales),
            "attention": cgp.attention_loss(inputs, inputs),
        }

    return X.shape[1], losses(queries, X, y), losses(X_test, X_test, y_test)


def key_losses(variance: float, seeds: Iterable) -> dict[str, FrequencyLoss]:
    """Losses of sets of keys, which are their own queries; Gram errors are averaged over sets."""
    sets = [np.random.default_rng(s).normal(size=(N, DIM)) * variance**0.5 for s in seeds]
    grams = [relative_gram_loss(keys) for keys in sets]
    return {
        "gram": lambda frequencies: torch.stack([loss(frequencies) for loss in grams]).mean(),
        "attention": cgp.attention_loss(np.stack(sets), np.stack(sets), scale=1.0),
    }


def learn(
    losses: dict[str, FrequencyLoss], dim: int, m: int, seed: int, arguments: argparse.Namespace
) -> dict[str, LearnedCopula]:
    """A copula learned on each cost."""
    steps, batch = arguments.steps, arguments.batch
    return {
        cost: learn_copula(
            loss, "orthogonal", m, dim, generator=seed, n_steps=steps, batch_size=batch,
            n_held_out=4 * batch, progress=False,
        )
        for cost, loss in losses.items()
    }  # fmt: skip


def pairs(order: int) -> np.ndarray:
    """Correlations -1 within pairs, an odd one out alone: PNC."""
    correlation = np.eye(order)
    for first in range(0, order - 1, 2):
        correlation[first, first + 1] = correlation[first + 1, first] = -1.0
    return correlation


def draws_of(correlation: np.ndarray, m: int, seed: list[int], n: int) -> list[torch.Tensor]:
    """Draws (m, d) of a Gaussian copula, of the same directions and normals for any correlation.

    The symmetric root makes draws of like correlations alike.
    """
    values, vectors = np.linalg.eigh(correlation)
    root, dim = vectors * np.sqrt(values.clip(0.0)) @ vectors.T, len(correlation)
    draws = []
    for draw in range(n):
        rng = np.random.default_rng([*seed, draw])
        units = OrthogonalDirections().sample(np.ones(m), dim, rng)
        g = rng.standard_normal((-(-m // dim), dim)) @ root
        u = np.clip(ndtr(g).ravel()[:m], 2.0**-53, 1 - 2.0**-53)
        norms = norms_from_uniforms(u, dim, GaussianSpectrum())
        draws.append(torch.as_tensor(norms[:, None] * units))
    return draws


def measure(
    learned: dict[str, LearnedCopula],
    losses: dict[str, FrequencyLoss],
    dim: int,
    m: int,
    seed: list[int],
    n_draws: int,
) -> Figures:
    """Mean of each cost over fresh draws of each system."""
    systems = {BASE: np.eye(dim), "PNC": pairs(dim), "PM": np.ones((dim, dim))}
    systems |= {f"learned on {c}": correlation_of(copula) for c, copula in learned.items()}
    figures = {}
    for label, correlation in systems.items():
        draws = draws_of(correlation, m, seed, n_draws)
        with torch.no_grad():
            figures[label] = {
                cost: float(np.mean([float(loss(frequencies)) for frequencies in draws]))
                for cost, loss in losses.items()
            }
    return figures


def correlation_of(copula: LearnedCopula) -> np.ndarray:
    """Correlation matrix (d, d) that was learned."""
    return np.array(copula.coupling.norms.correlation)


def described(learned: dict[str, LearnedCopula]) -> dict[str, dict[str, float]]:
    """How far each fit moved, and what it gained on its own loss over held-out draws."""
    out = {}
    for cost, copula in learned.items():
        correlation = correlation_of(copula)
        off = correlation[np.triu_indices(len(correlation), 1)]
        out[cost] = {
            "start_loss": copula.start_loss,
            "loss": copula.loss,
            "steps": copula.losses.size,
            "mean_correlation": float(off.mean()),
            "least_correlation": float(off.min()),
            "largest_correlation": float(off.max()),
        }
    return out


def run_uci(arguments: argparse.Namespace, name: str) -> dict[str, list]:
    """Figures and fits of every split of a set."""
    figures, fits = [], []
    for number in range(arguments.splits):
        print(f"{name}, split {number}", file=sys.stderr)
        dim, training, test = uci_losses(name, number)
        learned = learn(training, dim, dim, number, arguments)
        figures.append(measure(learned, test, dim, dim, [number], arguments.draws))
        fits.append(described(learned))
    return {"figures": figures, "fits": fits}


def run_keys(arguments: argparse.Namespace, variance: float, m: int) -> dict[str, list]:
    """Figures of every set of keys, and the fits on other sets."""
    print(f"keys of variance {variance:.3g}, m = {m}", file=sys.stderr)
    training = key_losses(variance, ([1, one] for one in range(TRAINING_SETS)))
    learned = learn(training, DIM, m, 0, arguments)
    figures = [
        measure(learned, key_losses(variance, [one]), DIM, m, [one, m], arguments.draws)
        for one in range(arguments.sets)
    ]
    return {"figures": figures, "fits": [described(learned)]}


def against_base(figures: list[Figures], label: str, cost: str) -> tuple[float, float]:
    """Mean and standard error, over splits, of the cost relative to that of independent norms."""
    ours, base = (np.array([one[system][cost] for one in figures]) for system in (label, BASE))
    if cost == "evidence":
        values = ours - base
    else:
        values = (ours / base) ** (0.5 if cost == "gram" else 1.0)
    error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else np.nan
    return float(values.mean()), float(error)


def base_level(figures: list[Figures], cost: str) -> float:
    """Mean cost of independent norms; of the Gram matrix the root."""
    level = float(np.mean([one[BASE][cost] for one in figures]))
    return level**0.5 if cost == "gram" else level


TITLES = {
    "gram": "relative RMSE of the Gram matrix",
    "posterior-kl": "KL from the exact posterior, nats per point",
    "evidence": "minus log evidence, nats per target: difference",
    "attention": "mean squared error of attention weights",
}


def table(results: dict[str, dict[str, list]], cost: str) -> Table:
    """One cost: a row for each system, a column for each case."""
    out = Table(title=f"measured on {cost}: {TITLES[cost]}; (s.e.)")
    out.add_column("norms")
    for case in results:
        out.add_column(case)
    levels = [f"{base_level(r['figures'], cost):.4g}" for r in results.values()]
    out.add_row(f"{BASE}: cost", *levels)
    for label in next(iter(results.values()))["figures"][0]:
        if label == BASE:
            continue
        cells = []
        for result in results.values():
            mean, error = against_base(result["figures"], label, cost)
            sign = "+" if cost == "evidence" else ""
            cells.append(f"{mean:{sign}.3f} ({error:.3f})")
        out.add_row(label, *cells)
    return out


def fits_table(results: dict[str, dict[str, list]]) -> Table:
    """What each fit gained on its own training loss, and its mean correlation."""
    out = Table(
        title="loss minus that of independent norms, training, held-out draws | correlation"
    )
    out.add_column("learned on")
    for case in results:
        out.add_column(case)
    for cost in next(iter(results.values()))["fits"][0]:
        cells = []
        for result in results.values():
            fits = [one[cost] for one in result["fits"]]
            gain = np.mean([f["loss"] - f["start_loss"] for f in fits])
            if cost != "evidence":
                gain = gain / np.mean([f["start_loss"] for f in fits])
            cells.append(f"{gain:+.3f} | {np.mean([f['mean_correlation'] for f in fits]):+.2f}")
        out.add_row(cost, *cells)
    return out


def show(results: dict[str, dict[str, list]], costs: Iterable[str]) -> None:
    """Print the tables of some cases."""
    console = Console(width=160)
    for cost in costs:
        console.print(table(results, cost))
    console.print(fits_table(results))


def main() -> None:
    """Run everything and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--datasets", nargs="*", default=DATASETS, choices=DATASETS)
    parser.add_argument("--splits", type=int, default=5)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch", type=int, default=16, help="draws a step; four times held out")
    parser.add_argument("--draws", type=int, default=200)
    parser.add_argument("--sets", type=int, default=16, help="sets of keys to measure on")
    parser.add_argument("--sizes", type=int, nargs="*", default=[16, 64], help="m, for keys")
    parser.add_argument("--json")
    arguments = parser.parse_args()
    with threadpool_limits(1):
        tabular = {name: run_uci(arguments, name) for name in arguments.datasets}
        keys = {
            f"{law}, m={m}": run_keys(arguments, variance, m)
            for law, variance in KEYS.items()
            for m in arguments.sizes
        }
    if tabular:
        show(tabular, COSTS)
    if keys:
        show(keys, ("gram", "attention"))
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump({"uci": tabular, "keys": keys}, file, indent=1)


if __name__ == "__main__":
    main()
