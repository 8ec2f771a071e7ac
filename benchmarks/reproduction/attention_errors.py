"""Figure 7 of "Variance-reducing couplings": kernel variance, kernel covariance and attention error.

There are N = 16 keys of d = 16 dimensions, `x ~ N(0, I / sqrt(d))`, which are the queries too, and
orthogonal positive features with independent, PNC and PM norms, m from d to 8 d. Four figures are
printed for each m and coupling, over draws of the frequencies and averaged over query-key pairs:
the variance of the kernel estimates, the covariance of two estimates of one query, the mean squared
error of the row-normalised scores, and the leading order of that error,
`(1 / N^2 mu^2) (variance - covariance)` (MATH 10). Standard errors are over independent sets of
keys; differences to independent norms are taken set by set. The paper shows curves without
numbers. It claims that PNC lowers variance and covariance and leaves the attention error as it is,
while PM raises both and lowers the error.

For keys of this length the variance of positive features comes from events too rare to be seen in
any feasible number of draws: on the diagonal it is near `exp(2 |2 x|^2)` with `|x|^2 = 4`.
Simulated variances and covariances are therefore unreliable, and so is the leading order; the
normalised scores are bounded, and their error is sound. All four figures are also printed for
shorter keys, `x ~ N(0, I / d)`, where the tails are lighter; even there, the diagonal makes
variances noisy below some thousands of draws.

Draws of one seed belong together across couplings.

    python benchmarks/reproduction/attention_errors.py [--draws 300] [--sets 8] [--json OUT]
"""

from __future__ import annotations

import argparse
import json

import numpy as np
from record import Record, command
from rich.console import Console
from rich.table import Table
from scipy.interpolate import CubicSpline
from study_options import Results, add_options, chosen, parse_options

from coupledgp.features import ComplexExponentialFeatures
from coupledgp.theory import distance_mse

N, DIM = 16, 16
SYSTEMS = {
    "independent": "orthogonal",
    "PNC": "orthogonal+pnc",
    "PM": "orthogonal+monotone",
    "stratified": "orthogonal+stratified",
    "iid directions": "iid",
    "simplex": "simplex",
    "simplex+PM": "simplex+monotone",
}
KEYS = {"N(0, I / sqrt(d))": DIM**-0.5, "N(0, I / d)": 1 / DIM}
FIGURES = ("attention_mse", "variance", "covariance", "leading_order")


def errors(keys: np.ndarray, coupling: str, m: int, draws: int, rng: np.random.Generator) -> list:
    """The four figures on one set of keys."""
    kernels = np.empty((draws, N, N))
    for draw in range(draws):
        features = ComplexExponentialFeatures(DIM, m, coupling=coupling, generator=rng)
        kernels[draw] = features.estimate(keys, keys).numpy()
    exact = np.exp(keys @ keys.T)
    deviations = kernels - exact
    second = np.einsum("rij,ril->ijl", deviations, deviations) / draws
    variance = np.einsum("ijj->ij", second).mean()
    covariance = second.mean()
    scores = kernels / kernels.sum(-1, keepdims=True)
    attention = np.square(scores - exact / exact.sum(-1, keepdims=True)).mean()
    leading = (variance - covariance) / (N * exact.mean()) ** 2
    return [attention, variance, covariance, leading]


def main() -> None:
    """Run every set of keys and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--draws", type=int, default=300)
    parser.add_argument("--sets", type=int, default=8)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 2, 4, 8], help="m / d")
    parser.add_argument("--json")
    parser.add_argument("--record", action="store_true", help="write the record")
    add_options(parser, SYSTEMS)
    arguments = parse_options(parser)
    if arguments.quick:
        arguments.draws, arguments.sets, arguments.sizes = 4, 2, [1]
    systems, report = chosen(arguments, SYSTEMS), {}
    results = Results("n_frequencies", FIGURES)
    for law, variance in KEYS.items():
        report[law] = run(arguments, systems, variance)
        show(law, report[law])
        for m, found in report[law].items():
            for name, values in found.items():
                for one, figures in enumerate(values):
                    results.add(f"keys {law}", name, m, one, *figures)
    if arguments.record:
        record(report)
    results.print_comparisons()
    results.write(arguments.output)
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(
                {"figures": FIGURES, "keys": report}, file, indent=1, default=np.ndarray.tolist
            )


def closed_form(
    key_variance: float, coupling: str, m: int, n_sets: int
) -> tuple[float, float | None]:
    """Variance over that of independent norms, mean over pairs of keys: mean and error over sets.

    The ratio of one pair hangs on the length of the sum of its keys alone.
    """
    ratios = []
    for one in range(n_sets):
        keys = np.random.default_rng(one).normal(size=(N, DIM)) * key_variance**0.5
        lengths = np.linalg.norm(keys[:, None] + keys, axis=2)
        grid = np.linspace(0, lengths.max(), 16)[1:]
        of_length = [
            distance_mse("laplace", coupling, m, DIM, t)
            / distance_mse("laplace", SYSTEMS["independent"], m, DIM, t)
            for t in grid
        ]
        ratios.append(CubicSpline(grid, of_length)(lengths).mean())
    error = float(np.std(ratios, ddof=1) / n_sets**0.5) if n_sets > 1 else None
    return float(np.mean(ratios)), error


def record(report: dict[str, dict[int, dict[str, np.ndarray]]]) -> None:
    """Write the findings: ratios to independent norms, set by set of keys."""
    kept = Record("attention_errors", command())
    figure = kept.item("variance-reducing-couplings", "Figure 7")
    ratios: dict[tuple[str, str, str, int], tuple[float, float]] = {}
    for law, results in report.items():
        for m, systems in results.items():
            for name in ("PNC", "PM"):
                figure.figure(
                    f"variance in closed form, keys {law}, m = {m}, {name}",
                    *closed_form(KEYS[law], SYSTEMS[name], m, len(systems[name])),
                )
                for index, what in enumerate(FIGURES[:3]):
                    ratio = systems[name][:, index] / systems["independent"][:, index]
                    error = ratio.std(ddof=1) / len(ratio) ** 0.5
                    ratios[law, what, name, m] = float(ratio.mean()), float(error)
                    figure.figure(f"{what}, keys {law}, m = {m}, {name}", ratio.mean(), error)
    long, short = KEYS

    def simulated(law: str, what: str, name: str) -> list[tuple[float, float]]:
        return [v for (a, b, c, _), v in ratios.items() if (a, b, c) == (law, what, name)]

    for name, sign, verb in (("PNC", -1.0, "lowers"), ("PM", 1.0, "raises")):
        exact = [closed_form(KEYS[short], SYSTEMS[name], m, 1)[0] for m in report[short]]
        figure.claim(
            f"{name} {verb} the variance at every m, short keys (closed form)",
            all(sign * (ratio - 1) > 0 for ratio in exact),
        )
    figure.claim(
        "PM raises the covariance at every m, short keys",
        all(ratio > 1 for ratio, _ in simulated(short, "covariance", "PM")),
    )
    figure.claim(
        "PNC raises the covariance nowhere by two standard errors, short keys",
        all(ratio - 2 * error < 1 for ratio, error in simulated(short, "covariance", "PNC")),
    )
    figure.claim(
        "PNC leaves the attention error as it is, to 4 % at every m, the paper's keys",
        all(abs(ratio - 1) < 0.04 for ratio, _ in simulated(long, "attention_mse", "PNC")),
    )
    figure.claim(
        "PM lowers the attention error at every m, the paper's keys",
        all(ratio < 1 for ratio, _ in simulated(long, "attention_mse", "PM")),
    )
    figure.note(
        "Ratios to independent norms; errors over sets of keys. With the paper's keys variances come "
        "from events too rare to be drawn: variances are judged by Lemma 3.1, covariances on shorter keys."
    )
    kept.write()


def run(
    arguments: argparse.Namespace, systems: dict, key_variance: float
) -> dict[int, dict[str, np.ndarray]]:
    """Figures (sets, 4) of every m and system."""
    results: dict[int, dict[str, np.ndarray]] = {}
    for m in (size * DIM for size in arguments.sizes):
        results[m] = {}
        for name, coupling in systems.items():
            rows = []
            for one in range(arguments.sets):
                keys = np.random.default_rng(one).normal(size=(N, DIM)) * key_variance**0.5
                rng = np.random.default_rng([one, m])
                rows.append(errors(keys, coupling, m, arguments.draws, rng))
            results[m][name] = np.array(rows)
    return results


def show(law: str, results: dict[int, dict[str, np.ndarray]]) -> None:
    """Print one table a figure."""
    console = Console(width=160)
    console.rule(f"keys x ~ {law}")
    for index, figure in enumerate(FIGURES):
        names = list(next(iter(results.values())))
        table = Table(title=f"{figure}, units of 1e-3; ratio to {names[0]} (s.e. over sets)")
        for heading in ("m", *names):
            table.add_column(heading)
        for m, systems in results.items():
            base, cells = systems[names[0]][:, index], []
            for values in systems.values():
                ratio = values[:, index] / base
                error = ratio.std(ddof=1) / len(ratio) ** 0.5
                cells.append(
                    f"{1e3 * values[:, index].mean():.3g} {ratio.mean():.3f} ({error:.3f})"
                )
            table.add_row(str(m), *cells)
        console.print(table)


if __name__ == "__main__":
    main()
