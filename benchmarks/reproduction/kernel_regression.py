"""Tables 2 and 3 of "Simplex random features": classification by kernel regression, m = d.

There are eight UCI sets and positive features of the Gaussian kernel; the class with the largest
sum wins. Where the paper does not say, these are our choices: categories as indicator columns,
columns standardised on the training rows, 60 % of the rows to train, 20 % to validate, 20 % to
test. As in the paper, sigma (one over the lengthscale) is the value at which i.i.d. features with
m = 10 d classify the validation rows best, on at most 1000 rows to train and 500 to validate. Then
m = d for all systems: simplex and simplex+, and i.i.d., orthogonal and simplex features, regular
and fast, on columns padded with zeros to a power of two, as Hadamard matrices need. Printed are the
accuracy beside the paper's (with a standard error over draws of the frequencies; all systems have
the same splits), and, for the claim simplex >= orthogonal >= i.i.d., the differences in standard
errors. "exact" is kernel regression without features, at the same sigma.

    COUPLEDGP_DATA=... python benchmarks/reproduction/kernel_regression.py [--draws 20] [--json OUT]

Couplings and tables of your own are compared without columns of zeros (see `study_options`).
"""

from __future__ import annotations

import argparse
import json

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from study_options import Results, add_options, chosen, parse_options, read_table

import coupledgp as cgp
from coupledgp.datasets import classification

DATASETS = ("abalone", "banknote", "car", "yeast", "cmc", "nursery", "wifi", "chess")
# Columns of the table: padded to a power of two, or not; coupling.
SYSTEMS = {
    "simplex, m = d": (False, "simplex"),
    "simplex+, m = d": (False, "simplex-plus"),
    "iid": (True, "iid"),
    "orthogonal": (True, "orthogonal"),
    "orthogonal fast": (True, "orthogonal-fast"),
    "simplex": (True, "simplex"),
    "simplex fast": (True, "simplex-fast"),
}
PAPER = {
    "simplex, m = d": (0.1421, 0.7229, 0.6754, 0.3202, 0.4047, 0.6874, 0.6314, 0.2000),
    "simplex+, m = d": (0.1419, 0.7132, 0.6751, 0.3208, 0.4065, 0.6917, 0.6473, 0.2000),
    "iid": (0.1432, 0.6441, 0.6768, 0.3187, 0.4088, 0.5870, 0.4914, 0.2011),
    "orthogonal": (0.1445, 0.6612, 0.6788, 0.3193, 0.4149, 0.6213, 0.5224, 0.2017),
    "orthogonal fast": (0.1447, 0.6596, 0.6784, 0.3171, 0.4159, 0.6193, 0.5310, 0.2016),
    "simplex": (0.1455, 0.7196, 0.6797, 0.3187, 0.4206, 0.7030, 0.6509, 0.2021),
    "simplex fast": (0.1462, 0.7296, 0.6800, 0.3195, 0.4222, 0.7037, 0.6533, 0.2021),
}
CLAIMS = (("orthogonal", "iid"), ("simplex", "orthogonal"), ("simplex", "iid"))
SIGMAS = np.geomspace(0.05, 2.0, 9)
SEARCH_ROWS, SEARCH_TEST, SEARCH_DRAWS = 1000, 500, 5
EXACT_ROWS = 1000


def splits(name: str, seed: int, target: str | None = None) -> list[np.ndarray]:
    """Standardised rows and labels to train, to validate and to test, of a set or a CSV file."""
    if name.endswith(".csv"):
        X, y = read_table(name, target)
    else:
        X, y = (data := classification.load(name)).X, data.y
    X, rest, y, labels = train_test_split(X, y, train_size=0.6, random_state=seed)
    valid, test, y_valid, y_test = train_test_split(rest, labels, test_size=0.5, random_state=seed)
    scaler = StandardScaler().fit(X)
    return [
        scaler.transform(X),
        y,
        scaler.transform(valid),
        y_valid,
        scaler.transform(test),
        y_test,
    ]


def padded(X: np.ndarray) -> np.ndarray:
    """Columns of zeros appended up to a power of two."""
    dim = X.shape[1]
    return np.pad(X, ((0, 0), (0, 2 ** int(np.ceil(np.log2(dim))) - dim)))


def classifier(sigma: float, m: int, coupling: str, seed: int) -> cgp.KernelRegressionClassifier:
    """Kernel regression by positive features."""
    return cgp.KernelRegressionClassifier(1 / sigma, "laplace", m, coupling, random_state=seed)


def choose_sigma(name: str, target: str | None) -> float:
    """Where i.i.d. features classify the validation rows of the first split best."""
    X, y, valid, y_valid, _, _ = splits(name, 0, target)
    X, y = X[:SEARCH_ROWS], y[:SEARCH_ROWS]
    valid, y_valid = valid[:SEARCH_TEST], y_valid[:SEARCH_TEST]
    m = 10 * X.shape[1]
    means = [
        np.mean([classifier(s, m, "iid", k).fit(X, y).score(valid, y_valid) for k in range(SEARCH_DRAWS)])
        for s in SIGMAS
    ]  # fmt: skip
    return float(SIGMAS[int(np.argmax(means))])


def exact_accuracy(sigma: float, split: list[np.ndarray]) -> float:
    """Accuracy of exact kernel regression, on at most 1000 test rows."""
    X, y, _, _, test, y_test = split
    classes, codes = np.unique(y, return_inverse=True)
    sums = rbf_kernel(test[:EXACT_ROWS], X, gamma=sigma**2 / 2) @ np.eye(len(classes))[codes]
    return float(np.mean(classes[sums.argmax(axis=1)] == y_test[:EXACT_ROWS]))


def run(systems: dict, name: str, n_splits: int, draws: int, target: str | None) -> dict:
    """Sigma, accuracies (splits, draws) of every system, and that of the exact kernel."""
    sigma = choose_sigma(name, target)
    scores = {system: np.empty((n_splits, draws)) for system in systems}
    exact = []
    for number in range(n_splits):
        split = splits(name, number, target)
        exact.append(exact_accuracy(sigma, split))
        for system, (pad, coupling) in systems.items():
            X, test = (padded(split[k]) if pad else split[k] for k in (0, 4))
            for draw in range(draws):
                model = classifier(sigma, X.shape[1], coupling, 1000 * number + draw)
                scores[system][number, draw] = model.fit(X, split[1]).score(test, split[5])
    return {"sigma": sigma, "exact": float(np.mean(exact)), "scores": scores}


def mean_and_error(values: np.ndarray) -> tuple[float, float]:
    """Mean over splits and draws, and its standard error over draws within splits."""
    within = values - values.mean(axis=1, keepdims=True)
    dof = values.size - len(values)
    return float(values.mean()), float(np.sqrt(np.square(within).sum() / dof / values.size))


def show(results: dict[str, dict]) -> None:
    """Print accuracies beside the paper's, and the claim."""
    console = Console(width=220)
    table = Table(title="accuracy: ours (s.e.) | paper")
    claims = Table(title="differences of ours (in standard errors) | paper's difference")
    systems = next(iter(results.values()))["scores"]
    for heading in ("set", "sigma", "exact", *systems):
        table.add_column(heading)
    for heading in ("set", *(f"{a} - {b}" for a, b in CLAIMS)):
        claims.add_column(heading)
    for name, result in results.items():
        figures = {s: mean_and_error(v) for s, v in result["scores"].items()}
        cells = [f"{m:.4f} ({e:.4f}){published(s, name)}" for s, (m, e) in figures.items()]
        table.add_row(name, f"{result['sigma']:.2f}", f"{result['exact']:.4f}", *cells)
        cells = []
        if name not in DATASETS or systems.keys() != SYSTEMS.keys():
            continue
        at = DATASETS.index(name)
        for a, b in CLAIMS:
            difference = figures[a][0] - figures[b][0]
            error = max(float(np.hypot(figures[a][1], figures[b][1])), 1e-12)
            cells.append(f"{difference:+.4f} ({difference / error:+.1f}) | {PAPER[a][at] - PAPER[b][at]:+.4f}")  # fmt: skip
        claims.add_row(name, *cells)
    console.print(table)
    if claims.row_count:
        console.print(claims)


def published(system: str, name: str) -> str:
    """The paper's accuracy, if it has one."""
    if system not in PAPER or name not in DATASETS:
        return ""
    return f" | {PAPER[system][DATASETS.index(name)]:.4f}"


def collect(results: dict[str, dict]) -> Results:
    """Shares of wrong classes of every draw, for files and paired tests."""
    found = Results("n_frequencies / d", ("error",))
    for name, result in results.items():
        for system, scores in result["scores"].items():
            for (number, draw), score in np.ndenumerate(scores):
                found.add(name, system, 1, 1000 * number + draw, 1 - score)
    return found


def main() -> None:
    """Run every set and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--splits", type=int, default=3)
    parser.add_argument("--json")
    add_options(parser, SYSTEMS, data=DATASETS)
    arguments = parse_options(parser)
    if arguments.quick:
        arguments.splits, arguments.draws, arguments.data = 1, 2, arguments.data[:1]
    systems = {
        label: system if isinstance(system, tuple) else (False, system)
        for label, system in chosen(arguments, SYSTEMS).items()
    }
    results = {}
    for name in arguments.data:
        results[name] = run(systems, name, arguments.splits, arguments.draws, arguments.target)
        print(name, "done", flush=True)
        if arguments.json:
            with open(arguments.json, "w", encoding="utf-8") as file:
                json.dump(results, file, indent=1, default=np.ndarray.tolist)
    show(results)
    collected = collect(results)
    collected.print_comparisons()
    collected.write(arguments.output)


if __name__ == "__main__":
    main()
