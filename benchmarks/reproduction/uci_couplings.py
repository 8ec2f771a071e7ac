"""Tables 1, 3 and 4 of "Variance-reducing couplings": couplings on six UCI sets.

The protocol is that of their appendix B.1: 20 random splits with 256 training and 256 test points,
or half of the data each; inputs standardised on the training points (our choice). Fourier features
take the isotropic lengthscale, outputscale and noise of an exact GP's evidence, with m = d
frequencies. Laplace features take `l = 2 mean_ij |x_i + x_j|` and fit outputscale and noise only,
with d directions and their negatives, m = 2 d. Printed are the kernel RMSE over that of i.i.d.
features (Table 1), KL(exact || approximate) in nats per test point (Table 3) and the RMSE of
predictions over that of i.i.d. (Table 4): each as mean and standard error over splits, beside the
paper's figure and the distance between the two in standard errors of both.

    COUPLEDGP_DATA=... python benchmarks/reproduction/uci_couplings.py [--draws 20] [--json OUT]

Couplings and tables of your own, with paired tests over splits (see `study_options`):

    python benchmarks/reproduction/uci_couplings.py --data houses.csv --target price \
        --couplings iid orthogonal mine --register my_module:register --output study.csv study.tex
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass

import numpy as np
from joblib import Parallel, delayed
from rich.console import Console
from rich.table import Table
from sklearn.preprocessing import StandardScaler
from study_options import Results, add_options, chosen, parse_options, read_table

import coupledgp as cgp
from coupledgp.couplings import (
    Directions,
    DirectionsAndNorms,
    OrthogonalDirections,
    parse_coupling,
)
from coupledgp.datasets import uci

DATASETS = ("concrete", "abalone", "cpu", "power", "airfoil", "boston")


@dataclass(frozen=True)
class AntiparallelDirections(Directions):
    """Orthogonal directions and their negatives, each with a norm of its own.

    What the paper calls orthogonal Laplace features.
    """

    def sample(self, norms, dim, rng):
        """Draw one unit vector for each norm."""
        half = OrthogonalDirections().sample(norms[: -(-norms.size // 2)], dim, rng)
        return np.concatenate([half, -half])[: norms.size]


SYSTEMS = {
    "fourier": {
        "iid": "iid",
        "halton": "halton",
        "sobol": "sobol",
        "orthogonal": "orthogonal",
        "orthogonal+pnc": "orthogonal+pnc",
        "orthogonal+stratified": "orthogonal+stratified",
    },
    "laplace": {
        "iid": "iid",
        "halton": "halton",
        "orthogonal (antiparallel)": DirectionsAndNorms(AntiparallelDirections()),
        "orthogonal+pnc+antithetic": "orthogonal+pnc+antithetic",
        "orthogonal+stratified+antithetic": "orthogonal+stratified+antithetic",
    },
}
# (value, error as printed); order of DATASETS. Table 1: one standard error; 3 and 4: two.
PAPER = {
    ("fourier", "kernel"): {
        "halton": [(1.028, 0.029), (0.991, 0.042), (0.995, 0.082), (0.913, 0.033), (0.927, 0.021), (1.176, 0.022)],
        "orthogonal": [(0.627, 0.019), (0.535, 0.023), (0.617, 0.070), (0.669, 0.024), (0.586, 0.013), (0.639, 0.016)],
        "orthogonal+pnc": [(0.563, 0.019), (0.433, 0.019), (0.544, 0.071), (0.547, 0.020), (0.481, 0.011), (0.606, 0.018)],
    },
    ("laplace", "kernel"): {
        "halton": [(0.721, 0.067), (0.777, 0.031), (0.779, 0.084), (0.728, 0.015), (0.721, 0.021), (0.893, 0.028)],
        "orthogonal (antiparallel)": [(0.418, 0.041), (0.546, 0.026), (0.614, 0.098), (0.527, 0.013), (0.489, 0.016), (0.360, 0.019)],
        "orthogonal+pnc+antithetic": [(0.367, 0.043), (0.486, 0.027), (0.618, 0.119), (0.438, 0.013), (0.418, 0.016), (0.324, 0.019)],
    },
    ("fourier", "kl"): {
        "iid": [(1.491, 0.053), (0.013, 0.0005), (1.570, 0.209), (0.150, 0.0035), (0.357, 0.0125), (2.128, 0.099)],
        "halton": [(1.548, None), (0.014, None), (1.596, None), (0.138, None), (0.356, None), (2.263, None)],
        "orthogonal": [(1.166, 0.057), (0.004, 0.0005), (1.635, 0.212), (0.029, 0.001), (0.235, 0.0085), (1.990, 0.096)],
        "orthogonal+pnc": [(1.168, 0.057), (0.004, 0.0005), (1.589, 0.208), (0.029, 0.001), (0.235, 0.0085), (1.985, 0.095)],
    },
    ("laplace", "kl"): {
        "iid": [(0.552, 0.032), (0.028, 0.0015), (5.925, 0.98), (0.199, 0.0055), (0.230, 0.012), (0.759, 0.034)],
        "orthogonal (antiparallel)": [(0.486, None), (0.014, None), (5.494, None), (0.059, None), (0.165, None), (0.679, None)],
        "orthogonal+pnc+antithetic": [(0.482, 0.029), (0.014, 0.001), (5.468, 0.89), (0.050, 0.003), (0.165, 0.009), (0.673, 0.029)],
    },
    ("fourier", "rmse"): {
        "halton": [(v, None) for v in (1.013, 1.001, 1.005, 0.991, 0.999, 1.021)],
        "sobol": [(v, None) for v in (1.010, 1.000, 1.004, 0.991, 0.997, 1.027)],
        "orthogonal": [(v, None) for v in (0.917, 0.994, 1.019, 0.915, 0.930, 0.974)],
        "orthogonal+pnc": [(v, None) for v in (0.917, 0.994, 1.033, 0.915, 0.930, 0.975)],
    },
    ("laplace", "rmse"): {
        "orthogonal (antiparallel)": [(v, None) for v in (0.979, 0.990, 1.003, 0.899, 0.958, 0.979)],
        "orthogonal+pnc+antithetic": [(v, None) for v in (0.981, 0.991, 1.006, 0.909, 0.958, 0.982)],
    },
}  # fmt: skip


def split(name: str, number: int, target: str | None = None) -> tuple[np.ndarray, ...]:
    """Standardised training and test points of one random split of a set, or of a CSV file."""
    if name.endswith(".csv"):
        X, y = read_table(name, target)
    else:
        X, y = (data := uci.load(name)).X, data.y
    rng = np.random.default_rng(number)
    order = rng.permutation(len(y))
    size = min(256, len(order) // 2)
    train, test = order[:size], order[size : 2 * size]
    scaler = StandardScaler().fit(X[train])
    return scaler.transform(X[train]), y[train], scaler.transform(X[test]), y[test]


def run_split(all_systems: dict, name: str, number: int, draws: int, target: str | None) -> dict:
    """Figures of every system on one split, averaged over draws of the frequencies."""
    X, y, X_test, y_test = split(name, number, target)
    dim, result = X.shape[1], {}
    for features, systems in all_systems.items():
        laplace = features == "laplace"
        rule = cgp.models.sparse_spectrum.laplace_lengthscale(X, np.random.default_rng(0))
        exact = cgp.ExactGPRegressor(
            ard=False,
            lengthscale=rule if laplace else None,
            fixed=("lengthscale",) if laplace else (),
            random_state=0,
        ).fit(X, y)
        variance = y.var()
        for label, coupling in systems.items():
            rows = []
            for draw in range(draws):
                gp = cgp.SparseSpectrumGPRegressor(
                    features=features,
                    n_frequencies=2 * dim if laplace else dim,
                    coupling=coupling,
                    ard=False,
                    lengthscale=exact.lengthscale_,
                    outputscale=exact.outputscale_ / variance,
                    noise=exact.noise_ / variance,
                    optimizer=None,
                    random_state=1000 * number + draw,
                ).fit(X, y)
                report = cgp.diagnostics.compare(gp, X_test, y_test, reference=exact)
                rows.append((report.kernel_rmse**2, report.kl_per_point, report.rmse))
            square, kl, error = np.mean(rows, axis=0)
            result[features, label] = {"kernel": square**0.5, "kl": kl, "rmse": error}
            result[features, label]["m"] = gp.n_frequencies_
    return result


def summarise(splits: list[dict], features: str, label: str, figure: str) -> tuple[float, float]:
    """Mean and standard error over splits; relative to the first unless the figure is the KL."""
    values = np.array([s[features, label][figure] for s in splits])
    if figure != "kl":
        first = next(system for kind, system in splits[0] if kind == features)
        values = values / [s[features, first][figure] for s in splits]
    return float(values.mean()), float(values.std(ddof=1) / len(values) ** 0.5)


def table(results: dict[str, list[dict]], features: str, figure: str) -> Table:
    """Ours beside the paper's."""
    out = Table(title=f"{features}, {figure}: ours (s.e.) | paper | distance in s.e.")
    for heading in ("coupling", *results):
        out.add_column(heading)
    splits = next(iter(results.values()))
    for label in (system for kind, system in splits[0] if kind == features):
        cells = []
        for name in results:
            mean, error = summarise(results[name], features, label, figure)
            cell = f"{mean:.3f} ({error:.3f})"
            published = PAPER[features, figure].get(label)
            if published is not None and name in DATASETS:
                value, their_error = published[DATASETS.index(name)]
                cell += f" | {value:.3f}"
                if their_error is not None:
                    cell += f" | {(mean - value) / np.hypot(error, their_error):+.1f}"
            cells.append(cell)
        out.add_row(label, *cells)
    return out


def collect(results: dict[str, list[dict]]) -> Results:
    """Figures of every split, for files and paired tests."""
    found = Results("n_frequencies", ("kl_per_point", "kernel_rmse", "rmse"))
    for name, splits in results.items():
        for number, one in enumerate(splits):
            for (features, label), f in one.items():
                values = f["kl"], f["kernel"], f["rmse"]
                found.add(f"{name} {features}", label, f["m"], number, *values)
    return found


def main() -> None:
    """Run every split and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--splits", type=int, default=20)
    parser.add_argument("--features", nargs="+", default=list(SYSTEMS), choices=list(SYSTEMS))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json")
    labels = dict.fromkeys(label for systems in SYSTEMS.values() for label in systems)
    add_options(parser, labels, data=DATASETS)
    arguments = parse_options(parser)
    if arguments.quick:
        arguments.splits, arguments.draws, arguments.data = 2, 1, arguments.data[:1]
    systems = {
        features: {  # objects, which processes without --register know too
            label: parse_coupling(coupling)
            for label, coupling in chosen(arguments, SYSTEMS[features]).items()
        }
        for features in arguments.features
    }
    results = {}
    for name in arguments.data:
        calls = (
            delayed(run_split)(systems, name, k, arguments.draws, arguments.target)
            for k in range(arguments.splits)
        )
        results[name] = Parallel(arguments.jobs)(calls)
    console = Console(width=200)
    for features, figure in PAPER:
        if features in systems:
            console.print(table(results, features, figure))
    collected = collect(results)
    collected.print_comparisons()
    collected.write(arguments.output)
    if arguments.json:
        flat = {
            name: [
                {f"{features} {label}": figures for (features, label), figures in one.items()}
                for one in splits
            ]
            for name, splits in results.items()
        }
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(flat, file, indent=1)


if __name__ == "__main__":
    main()
