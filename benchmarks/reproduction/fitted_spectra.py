"""Spectra fitted to the posterior of the exact GP, beside the best sampled coupling.

The protocol is that of the couplings paper (`uci_couplings.py`): random splits of at most 256
training and 256 test points, inputs standardised on the training points, and the isotropic
lengthscale, outputscale and noise of an exact GP's evidence, which both spectra keep. The fitted
spectrum sees training rows only: neither test inputs nor further rows. Each sampled coupling is
averaged over several draws; the best is the one with the least KL averaged over all splits of a
set. The KL is that of the joint predictive laws at the test points from the exact GP's, in nats per
point. Standard errors are over splits; that of the ratio of means comes from the delta method.

    COUPLEDGP_DATA=... python benchmarks/reproduction/fitted_spectra.py [--splits 10] [--json OUT]
"""

from __future__ import annotations

import argparse
import json

import numpy as np
from joblib import Parallel, delayed
from rich.console import Console
from rich.table import Table
from threadpoolctl import threadpool_limits
from uci_couplings import DATASETS, split

import coupledgp as cgp

COUPLINGS = (
    "iid", "halton", "sobol", "orthogonal", "orthogonal+pnc", "orthogonal+stratified", "simplex",
)  # fmt: skip
FIGURES = ("kl", "prior_kl", "rmse", "nlpd")


def figures(gp, X_test, y_test, exact) -> list[float]:
    """KL and prior KL per point, RMSE over the exact GP's, NLPD minus the exact GP's."""
    report = cgp.report(gp, X_test, y_test, exact=exact)
    return [
        report.score("kl"),
        report.score("prior_kl"),
        report.score("rmse") / report.score("rmse", "reference"),
        report.score("nlpd") - report.score("nlpd", "reference"),
    ]


def run_split(name: str, number: int, size: int, draws: int) -> dict[str, list[float]]:
    """Figures of every system on one split, with m = size * d."""
    with threadpool_limits(1):
        X, y, X_test, y_test = split(name, number)
        exact = cgp.ExactGPRegressor(ard=False, random_state=0).fit(X, y)
        shared = {
            "n_frequencies": size * X.shape[1],
            "ard": False,
            "lengthscale": exact.lengthscale_,
            "outputscale": exact.outputscale_ / y.var(),
            "noise": exact.noise_ / y.var(),
            "optimizer": None,
        }
        result = {}
        for coupling in COUPLINGS:
            if coupling == "simplex" and min(size, X.shape[1]) < 2:
                continue  # one dimension has no simplex, and d corners leave a direction unseen
            models = (
                cgp.SparseSpectrumGPRegressor(coupling=coupling, random_state=k, **shared)
                for k in range(1000 * number, 1000 * number + draws)
            )
            rows = [figures(gp.fit(X, y), X_test, y_test, exact) for gp in models]
            result[coupling] = np.mean(rows, axis=0).tolist()
        fitted = cgp.SparseSpectrumGPRegressor(
            frequencies="fitted", random_state=number, **shared
        ).fit(X, y)
        result["fitted"] = figures(fitted, X_test, y_test, exact)
        return result


def summarise(splits: list[dict[str, list[float]]]) -> dict[str, float | str]:
    """Means and standard errors of the fitted spectrum, the best coupling and their ratio."""
    values = {system: np.array([one[system] for one in splits]) for system in splits[0]}
    fitted = values.pop("fitted")
    best = min(values, key=lambda system: values[system][:, 0].mean())
    sampled, n = values[best], len(splits)
    ratio = fitted[:, 0].mean() / sampled[:, 0].mean()
    residual = fitted[:, 0] - ratio * sampled[:, 0]
    out: dict[str, float | str] = {"best": best, "ratio": ratio}
    out["ratio_se"] = residual.std(ddof=1) / n**0.5 / sampled[:, 0].mean() if n > 1 else np.nan
    for k, figure in enumerate(FIGURES):
        for label, rows in (("sampled", sampled), ("fitted", fitted)):
            out[f"{label}_{figure}"] = rows[:, k].mean()
    out["fitted_kl_se"] = fitted[:, 0].std(ddof=1) / n**0.5 if n > 1 else np.nan
    return out


def table(results: dict[str, list[dict[str, list[float]]]], size: int) -> Table:
    """One row a set."""
    out = Table(title=f"m = {size} d; RMSE over, NLPD minus the exact GP's; sampled | fitted")
    for heading in ("set", "best coupling", "KL", "KL ratio (s.e.)", "prior KL", "RMSE", "NLPD"):
        out.add_column(heading)
    for name, splits in results.items():
        s = summarise(splits)
        out.add_row(
            f"{name} ({len(splits)})",
            s["best"],
            f"{s['sampled_kl']:.4f} | {s['fitted_kl']:.4f} ({s['fitted_kl_se']:.4f})",
            f"{s['ratio']:.3f} ({s['ratio_se']:.3f})",
            f"{s['sampled_prior_kl']:.3g} | {s['fitted_prior_kl']:.3g}",
            f"{s['sampled_rmse']:.3f} | {s['fitted_rmse']:.3f}",
            f"{s['sampled_nlpd']:+.3f} | {s['fitted_nlpd']:+.3f}",
        )
    return out


def main() -> None:
    """Run every split and print a table for each size."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--draws", type=int, default=5)
    parser.add_argument("--sizes", type=int, nargs="+", default=[1, 2, 4], help="m / d")
    parser.add_argument("--datasets", nargs="+", default=DATASETS, choices=DATASETS)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--json")
    arguments = parser.parse_args()
    console, everything = Console(width=150), {}
    for size in arguments.sizes:
        results = {}
        for name in arguments.datasets:
            calls = (
                delayed(run_split)(name, k, size, arguments.draws) for k in range(arguments.splits)
            )
            results[name] = Parallel(arguments.jobs)(calls)
            everything[f"{name} m={size}d"] = summarise(results[name])
        console.print(table(results, size))
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            json.dump(everything, file, indent=1)


if __name__ == "__main__":
    main()
