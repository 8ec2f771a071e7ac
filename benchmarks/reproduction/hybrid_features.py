"""Table 1, Figure 2 and the statistics of Figure 3 of "Hybrid random features".

C1. Mean squared error of estimates of `exp(x . y)` on 100 random pairs of rows of wine and boston,
with 512 features for plain estimators. Hybrids have the same number of FLOPs, counted in two ways,
since the paper does not define its count: all multiplications (`SoftmaxFeatures.cost`, which
includes the outer products of the features, most of them in few dimensions), and projections of the
input alone. The paper does not state how it scaled the rows. Here columns are standardised and rows
have length one, so that ratios are to be compared, not values.

C2. Relative root mean squared error against the angle, for d = 64 and lengths 1 and 1.5, with 128
frequencies for plain estimators and hybrids of the same cost. The closed form for i.i.d.
frequencies is in brackets.

C3. One-dimensional Wasserstein and Kolmogorov-Smirnov distances between the true softmax
distribution of a query over classes and the estimated one, and the share of negative estimates,
against the number of features. The paper's queries come from a language model of the Penn Treebank;
here they are rows of scikit-learn's digits, centred and of length 1.5, of which 500 are classes.

    COUPLEDGP_DATA=... python benchmarks/reproduction/hybrid_features.py [--draws 200]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_digits
from sklearn.preprocessing import StandardScaler, normalize

from coupledgp.datasets import uci
from coupledgp.features import (
    AngularHybridFeatures,
    ComplexExponentialFeatures,
    GaussianHybridFeatures,
    SoftmaxFeatures,
)

Maker = Callable[[int, int, np.random.Generator], SoftmaxFeatures]
N_PROJECTIONS = 4  # of coefficients, where all multiplications count
PROJECTIONS_ONLY = 8  # where projections do
# Units of 1e-3: mean, standard deviation.
PAPER = {
    "wine": {"angular, orthogonal, by projections": (0.70, 0.08), "angular, iid, by projections": (0.85, 0.05), "trigonometric, orthogonal": (1.00, 0.04), "trigonometric, orthogonal fast": (1.10, 0.06), "trigonometric, Halton": (4.02, 0.1)},
    "boston": {"angular, orthogonal, by projections": (0.72, 0.06), "angular, iid, by projections": (0.79, 0.08), "trigonometric, orthogonal": (1.05, 0.03), "trigonometric, orthogonal fast": (1.14, 0.02), "trigonometric, Halton": (2.53, 0.08)},
}  # fmt: skip


def exponential(matrix: complex, coupling: str) -> Maker:
    """Plain features: m features, positive on frequencies and their negatives, or trigonometric."""

    def make(dim: int, m: int, rng: np.random.Generator) -> SoftmaxFeatures:
        law = f"{coupling}+antithetic" if matrix == 1 else coupling
        count = m if matrix == 1 else m // 2
        return ComplexExponentialFeatures(dim, count, matrix, law, rng)

    return make


def matched(make: Maker) -> Maker:
    """A hybrid with as many frequencies as m trigonometric features cost."""

    def made(dim: int, m: int, rng: np.random.Generator) -> SoftmaxFeatures:
        budget = ComplexExponentialFeatures(dim, m // 2, 1j, "iid", 0).cost
        first, second = (make(dim, count, np.random.default_rng(0)).cost for count in (1, 2))
        return make(dim, max(1, 1 + (budget - first) // (second - first)), rng)

    return made


def angular(coupling: str) -> Maker:
    """Angular hybrid, matched in cost."""
    return matched(
        lambda dim, count, rng: AngularHybridFeatures(
            dim, count, N_PROJECTIONS, coupling, rng, coefficient_coupling=coupling, shared=True
        )
    )


def angular_by_projections(coupling: str) -> Maker:
    """Angular hybrid with as many projections of the input as m trigonometric features take."""

    def make(dim: int, m: int, rng: np.random.Generator) -> SoftmaxFeatures:
        count, n = m // 2 - PROJECTIONS_ONLY, PROJECTIONS_ONLY
        return AngularHybridFeatures(
            dim, count, n, coupling, rng, coefficient_coupling=coupling, shared=True
        )

    return make


def gaussian(coupling: str) -> Maker:
    """Gaussian hybrid, matched in cost."""
    return matched(
        lambda dim, count, rng: GaussianHybridFeatures(
            dim, count, N_PROJECTIONS, coupling, rng, shared=True
        )
    )


PLAIN = {
    "trigonometric, orthogonal": exponential(1j, "orthogonal"),
    "positive, orthogonal": exponential(1, "orthogonal"),
}
HYBRID = {
    "angular, orthogonal": angular("orthogonal"),
    "angular, iid": angular("iid"),
    "angular, orthogonal, by projections": angular_by_projections("orthogonal"),
    "angular, iid, by projections": angular_by_projections("iid"),
    "gaussian, orthogonal": gaussian("orthogonal"),
}
TABLE = HYBRID | PLAIN | {
    "trigonometric, iid": exponential(1j, "iid"),
    "trigonometric, orthogonal fast": exponential(1j, "orthogonal-fast"),
    "trigonometric, Halton": exponential(1j, "halton"),
    "trigonometric, orthogonal+PNC": exponential(1j, "orthogonal+pnc"),
}  # fmt: skip


def squares(make: Maker, m: int, X: np.ndarray, Y: np.ndarray, draws: int, seed: int) -> np.ndarray:
    """Squared errors (draws, pairs) of the estimates for each row of X and of Y."""
    rng, exact = np.random.default_rng(seed), np.exp((X * Y).sum(1))
    errors = np.empty((draws, len(X)))
    for draw in range(draws):
        features = make(X.shape[1], m, rng)
        errors[draw] = (features.queries(X) * features.keys(Y)).sum(-1).numpy() - exact
    return errors**2


def table_of_errors(draws: int, console: Console) -> None:
    """C1."""
    table = Table(
        title="C1: MSE in 1e-3, s.e. over draws; ratio to orthogonal trigonometric | paper, its ratio"
    )
    for heading in ("estimator", "features (d = 11)", *PAPER):
        table.add_column(heading)
    cells = {name: [name, ""] for name in TABLE}
    for data, published in PAPER.items():
        rng = np.random.default_rng(0)
        rows = normalize(StandardScaler().fit_transform(uci.load(data).X))
        X, Y = rows[rng.integers(len(rows), size=(2, 100))]
        base_paper, figures = published["trigonometric, orthogonal"][0], {}
        for seed, (name, make) in enumerate(TABLE.items()):
            cells[name][1] = str(make(11, 512, np.random.default_rng(0)).n_features)
            means = squares(make, 512, X, Y, draws, seed).mean(1)
            figures[name] = 1e3 * means.mean(), 1e3 * means.std(ddof=1) / draws**0.5
        base = figures["trigonometric, orthogonal"][0]
        for name, (mean, error) in figures.items():
            cell = f"{mean:.3f} ({error:.3f}); {mean / base:.2f}"
            if name in published:
                cell += f" | {published[name][0]:.2f}, {published[name][0] / base_paper:.2f}"
            cells[name].append(cell)
    for row in cells.values():
        table.add_row(*row)
    console.print(table)


def errors_by_angle(draws: int, console: Console) -> None:
    """C2."""
    dim, m, directions = 64, 256, 20
    angles = np.linspace(0, np.pi, 9)
    for length in (1.0, 1.5):
        rng = np.random.default_rng(0)
        frames = np.linalg.qr(rng.normal(size=(directions, dim, 2)))[0]
        table = Table(title=f"C2: relative error, d = 64, r = {length} [i.i.d. closed form]")
        for heading in ("angle / pi", *PLAIN, *HYBRID):
            table.add_column(heading)
        columns = {}
        X = np.repeat(length * frames[:, :, 0], len(angles), axis=0)
        turned = (
            np.cos(angles)[:, None] * frames[:, None, :, 0]
            + np.sin(angles)[:, None] * frames[:, None, :, 1]
        )
        Y = length * turned.reshape(-1, dim)
        for seed, (name, make) in enumerate((PLAIN | HYBRID).items()):
            values = squares(make, m, X, Y, draws, seed).mean(0).reshape(directions, -1).mean(0)
            columns[name] = np.sqrt(values) / np.exp(length**2 * np.cos(angles))
        for k, angle in enumerate(angles):
            row = [f"{angle / np.pi:.3f}"]
            for name, values in columns.items():
                theta = {"trigonometric": angle, "positive": np.pi - angle}.get(name.split(",")[0])
                closed = ""
                if theta is not None:
                    s = 2 * length**2 * np.sin(theta / 2) ** 2
                    # m / 2 trigonometric frequencies; m / 2 positive pairs.
                    closed = f" [{np.exp(s) * (1 - np.exp(-2 * s)) / m**0.5:.4f}]"
                row.append(f"{values[k]:.4f}{closed}")
            table.add_row(*row)
        console.print(table)


def distances(draws: int, console: Console) -> None:
    """C3."""
    rng = np.random.default_rng(0)
    pixels = load_digits().data
    rows = 1.5 * normalize(pixels - pixels.mean(axis=0))
    order = rng.permutation(len(rows))
    queries, classes = rows[order[:40]], rows[order[40:540]]
    exact = np.exp(queries @ classes.T)
    exact /= exact.sum(1, keepdims=True)
    table = Table(title="C3: Wasserstein (1e-3) / Kolmogorov-Smirnov (1e-3) / negative (%)")
    for heading in ("features", *PLAIN, *HYBRID):
        table.add_column(heading)
    for m in (64, 128, 256, 512):
        cells = [str(m)]
        for seed, make in enumerate((PLAIN | HYBRID).values()):
            stream, figures = np.random.default_rng(seed), []
            for _ in range(draws):
                features = make(classes.shape[1], m, stream)
                gaps = (features.probabilities(queries, classes).numpy() - exact).cumsum(1)
                negative = float((features.estimate(queries, classes) < 0).double().mean())
                size = np.abs(gaps)
                figures.append((1e3 * size.mean(), 1e3 * size.max(1).mean(), 100 * negative))
            cells.append("{:.2f} / {:.2f} / {:.2f}".format(*np.mean(figures, axis=0)))
        table.add_row(*cells)
    console.print(table)


def main() -> None:
    """Print the three tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=200)
    arguments = parser.parse_args()
    console = Console(width=200)
    table_of_errors(arguments.draws, console)
    errors_by_angle(arguments.draws, console)
    distances(-(-arguments.draws // 10), console)


if __name__ == "__main__":
    main()
