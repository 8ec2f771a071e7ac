"""The error of linear attention by kinds of features: positive, calibrated and hybrid ones.

Queries and keys are rows of scikit-learn's digits on their leading 8 principal components, scaled
to one length, with a rotation between the two; values are normal. Frequencies are calibrated on
rows of the table other than those attended to. Printed is the mean squared error of the outputs
over the mean square of the exact ones, for m frequencies, with standard errors over sets of rows.
Hybrids are given in two sizes: m frequencies, and as many as make the number of features that of
positive ones.

    python benchmarks/reproduction/attention_features.py [--sets 20]
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.preprocessing import normalize

from coupledgp.attention import attend, attention_proposal
from coupledgp.attention.linear import within_values
from coupledgp.features import AngularHybridFeatures, ComplexExponentialFeatures

DIM, N, M = 8, 128, 128
LENGTHS = (0.7, 1.0, 1.5, 2.0)
Maker = Callable[[tuple[torch.Tensor, torch.Tensor], bool, int], torch.nn.Module]


def plain(coupling: str) -> Maker:
    """Positive features of M frequencies."""
    return lambda _, __, seed: ComplexExponentialFeatures(DIM, M, coupling=coupling, generator=seed)


def calibrated(rows: tuple[torch.Tensor, torch.Tensor], causal: bool, seed: int) -> torch.nn.Module:
    """Positive features whose frequencies attention between other rows needs."""
    frequencies, ratios = attention_proposal(*rows, M, "orthogonal", causal, seed)
    made = ComplexExponentialFeatures.from_frequencies(frequencies)
    made.log_ratios = ratios
    return made


def angular(m: int, n: int) -> Maker:
    """Angular hybrid of m frequencies and n projections of the weight."""
    return lambda _, __, seed: AngularHybridFeatures(DIM, m, n, "orthogonal", seed, shared=True)


SYSTEMS: dict[str, Maker] = {
    "positive, orthogonal": plain("orthogonal"),
    "positive, monotone": plain("orthogonal+monotone"),
    "positive, calibrated": calibrated,
    "angular, m frequencies": angular(M, 8),
    "angular, m features": angular(8, 3),
}


def error(length: float, causal: bool, make: Maker, one: int) -> float:
    """Relative squared error of one set of rows and one draw."""
    rng = np.random.default_rng(one)
    table = length * normalize(PCA(DIM, random_state=0).fit_transform(load_digits().data))
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(DIM, DIM)))[0]
    chosen = torch.as_tensor(table[rng.choice(len(table), 2 * N, replace=False)])
    parts = [(rows, rows @ torch.as_tensor(turn)) for rows in (chosen[:N], chosen[N:])]
    (q, k), other = parts
    values = torch.as_tensor(rng.normal(size=(N, 4)))
    scores = q @ k.T
    if causal:
        scores = scores.masked_fill(torch.ones(N, N, dtype=torch.bool).triu(1), -torch.inf)
    exact = scores.softmax(-1) @ values
    features = make(other, causal, one)
    if isinstance(features, ComplexExponentialFeatures):
        found = attend(features.log_queries(q), features.log_keys(k), values, None, causal)
    else:
        levels, factors = zip(features.leveled_queries(q), features.leveled_keys(k), strict=True)
        found = within_values(attend(*levels, values, None, causal, factors), values, None, causal)
    return float((found - exact).square().mean() / exact.square().mean())


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", type=int, default=20)
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", "features: the estimated scores")
    table = Table(title=f"relative squared error of attention, n = {N}, m = {M}, d = {DIM} (s.e.)")
    for heading in ("length", "causal", *SYSTEMS):
        table.add_column(heading)
    for length in LENGTHS:
        for causal in (False, True):
            cells = []
            for make in SYSTEMS.values():
                found = [error(length, causal, make, one) for one in range(arguments.sets)]
                spread = np.std(found, ddof=1) / len(found) ** 0.5
                cells.append(f"{np.mean(found):.4f} ({spread:.4f})")
            table.add_row(str(length), str(causal), *cells)
    Console(width=150).print(table)


if __name__ == "__main__":
    main()
