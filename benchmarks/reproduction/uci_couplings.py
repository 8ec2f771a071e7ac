"""Tables 1, 3 and 4 of "Variance-reducing couplings": couplings on six UCI sets.

The protocol is that of their appendix B.1: 20 random splits with 256 training and 256 test points,
or half of the data each; inputs standardised on the training points (our choice). Fourier features
take the isotropic lengthscale, outputscale and noise of an exact GP's evidence, with m = d
frequencies. Laplace features take `l = 2 mean_ij |x_i + x_j|` and fit outputscale and noise only,
with d directions and their negatives, m = 2 d. Printed are the kernel RMSE over that of i.i.d.
features (Table 1), KL(exact || approximate) in nats per test point (Table 3) and the RMSE of
predictions over that of i.i.d. (Table 4): each as mean and standard error over splits, beside the
paper's figure and the distance between the two in standard errors of both.

    COUPLEDGP_DATA=... python benchmarks/reproduction/uci_couplings.py [--draws 20] [--record]

A third group of features takes the lengthscale that Table 1 implies (`uci_record`) in place of the
evidence's, and outputscale and noise by evidence: hyperparameters move the KL more than couplings.

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
from uci_record import DATASETS, IMPLIED, PAPER, implied, write_record

import coupledgp as cgp
from coupledgp.core.column_moments import laplace_lengthscale
from coupledgp.couplings import (
    Directions,
    DirectionsAndNorms,
    OrthogonalDirections,
    parse_coupling,
)
from data_loaders import uci


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
        "sobol": "sobol",
        "orthogonal (antiparallel)": DirectionsAndNorms(AntiparallelDirections()),
        "orthogonal+pnc+antithetic": "orthogonal+pnc+antithetic",
        "orthogonal+stratified+antithetic": "orthogonal+stratified+antithetic",
    },
    IMPLIED: {"iid": "iid", "orthogonal": "orthogonal", "orthogonal+pnc": "orthogonal+pnc"},
}


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


def exact_gp(X: np.ndarray, y: np.ndarray, lengthscale: float | None) -> cgp.ExactGPRegressor:
    """The exact GP by evidence, at a given lengthscale or with its own."""
    fixed = () if lengthscale is None else ("lengthscale",)
    gp = cgp.ExactGPRegressor(
        ard=False, lengthscale=lengthscale, options={"fixed": fixed}, random_state=0
    )
    return gp.fit(X, y)


def closed_form(name: str, n_splits: int) -> tuple[float, float, dict[str, float]]:
    """Lengthscale that Table 1 implies, the evidence's (three splits), and errors at the first."""
    splits = [split(name, number) for number in range(n_splits)]
    fits = [np.median(exact_gp(X, y, None).lengthscale_) for X, y, *_ in splits[:3]]
    lengthscale, errors = implied(name, [X_test for _, _, X_test, _ in splits], np.median(fits))
    return lengthscale, float(np.median(fits)), errors


def run_split(
    all_systems: dict,
    name: str,
    number: int,
    draws: int,
    target: str | None,
    implied_lengthscale: float | None = None,
) -> dict:
    """Figures of every system on one split, averaged over draws of the frequencies."""
    X, y, X_test, y_test = split(name, number, target)
    dim, result = X.shape[1], {}
    for features, systems in all_systems.items():
        laplace = features == "laplace"
        given = implied_lengthscale if features == IMPLIED else None
        if laplace:
            given = laplace_lengthscale(X, np.random.default_rng(0))
        exact = exact_gp(X, y, given)
        variance = y.var()
        for label, coupling in systems.items():
            rows = []
            for draw in range(draws):
                gp = cgp.SparseSpectrumGPRegressor(
                    features="laplace" if laplace else "fourier",
                    n_frequencies=2 * dim if laplace else dim,
                    coupling=coupling,
                    ard=False,
                    lengthscale=exact.lengthscale_,
                    outputscale=exact.outputscale_ / variance,
                    noise=exact.noise_ / variance,
                    optimizer=None,
                    random_state=1000 * number + draw,
                ).fit(X, y)
                report = cgp.report(gp, X_test, y_test, exact=exact)
                rows.append(
                    (report.score("kernel_rmse") ** 2, report.score("kl"), report.score("rmse"))
                )
            square, kl, error = np.mean(rows, axis=0)
            result[features, label] = {"kernel": square**0.5, "kl": kl, "rmse": error}
            result[features, label]["m"] = gp.n_frequencies_
    return result


def summarise(
    splits: list[dict], features: str, label: str, figure: str
) -> tuple[float, float, float]:
    """Mean, standard error and median over splits; relative to the first unless it is the KL."""
    values = np.array([s[features, label][figure] for s in splits])
    if figure != "kl":
        first = next(system for kind, system in splits[0] if kind == features)
        values = values / [s[features, first][figure] for s in splits]
    return (
        float(values.mean()),
        float(values.std(ddof=1) / len(values) ** 0.5),
        float(np.median(values)),
    )


def table(results: dict[str, list[dict]], features: str, figure: str) -> Table:
    """Ours beside the paper's."""
    out = Table(title=f"{features}, {figure}: ours (s.e.) | paper | distance in s.e.")
    for heading in ("coupling", *results):
        out.add_column(heading)
    splits = next(iter(results.values()))
    for label in (system for kind, system in splits[0] if kind == features):
        cells = []
        for name in results:
            mean, error, _ = summarise(results[name], features, label, figure)
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
    parser.add_argument("--record", action="store_true", help="write the record of all six sets")
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
    if arguments.record and (tuple(arguments.data) != DATASETS or set(systems) != set(SYSTEMS)):
        parser.error("--record: expected all sets and features")
    if not set(arguments.data) <= set(DATASETS):
        systems.pop(IMPLIED, None)
    results, closed = {}, {}
    for name in arguments.data:
        if name in DATASETS and IMPLIED in systems:
            closed[name] = closed_form(name, arguments.splits)
        scale = closed[name][0] if name in closed else None
        calls = (
            delayed(run_split)(systems, name, k, arguments.draws, arguments.target, scale)
            for k in range(arguments.splits)
        )
        results[name] = Parallel(arguments.jobs)(calls)
    console = Console(width=200)
    for features, figure in PAPER:
        if features in systems:
            console.print(table(results, features, figure))
    for name, (scale, evidence, errors) in closed.items():
        console.print(f"{name}: implied lengthscale {scale:.2f}, evidence {evidence:.2f}, {errors}")
    if arguments.record:
        write_record(results, summarise, closed)
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
