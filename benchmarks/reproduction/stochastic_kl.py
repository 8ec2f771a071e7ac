"""KL to the exact posterior by iterative solves, beside the dense figure, seed by seed.

For each set, size and seed a sparse-spectrum model is given `size` rows, with hyperparameters that
were fitted to 1000 of them, and compared with its exact twin at `--points` test rows in three ways:
by dense algebra; by one solve for each point, whose error is bounded; and by random probes, whose
error is estimated. The last columns say whether the dense figure lies within the bounds, and its
distance beyond the bounds from the probes' estimate, in standard errors.

    COUPLEDGP_DATA=... python benchmarks/reproduction/stochastic_kl.py --sets power kin40k \
        --sizes 2000 5000 --seeds 5
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch

import coupledgp as cgp
from coupledgp.diagnostics import PosteriorReport, StochasticOptions, compare
from data_loaders import uci

FITTED_ROWS = 1000


def one_case(name: str, size: int, seed: int, args: argparse.Namespace) -> dict[str, Any]:
    """The three comparisons of one model."""
    data = uci.load(name)
    order = np.random.default_rng(seed).permutation(len(data.y))
    train, test = order[:size], order[size : size + args.points]
    gp = cgp.SparseSpectrumGPRegressor(
        n_frequencies=args.features, max_iter=40, n_restarts=0, random_state=seed
    ).fit(data.X[train[:FITTED_ROWS]], data.y[train[:FITTED_ROWS]])
    model = gp.conditioned_on(data.X[train], data.y[train])
    columns = StochasticOptions(n_columns=args.points, rank=args.rank, seed=seed)
    probes = StochasticOptions(n_columns=1, rank=args.rank, seed=seed)
    result: dict[str, Any] = {"set": name, "size": size, "seed": seed, "noise": gp.noise_}
    methods = {"dense": None, "columns": columns} | ({} if args.no_probes else {"probes": probes})
    for method, options in methods.items():
        start = time.process_time()
        kind = "dense" if options is None else "stochastic"
        report = compare(model, data.X[test], data.y[test], method=kind, options=options)
        result[method] = describe(report) | {"cpu_seconds": time.process_time() - start}
    return result


def describe(report: PosteriorReport) -> dict[str, Any]:
    """KL, its errors and the work."""
    accuracy = report.accuracy
    return {
        "kl": report.kl_per_point,
        "reverse_kl": report.reverse_kl_per_point,
        "bounds": accuracy.bounds.get("kl_per_point", (0.0, 0.0)),
        "standard_error": accuracy.standard_errors.get("kl_per_point", 0.0),
        "iterations": accuracy.settings.get("reference_iterations"),
    }


def line(case: dict[str, Any]) -> str:
    """A row of the table."""
    true, columns = case["dense"]["kl"], case["columns"]
    below, above = columns["bounds"]
    inside = columns["kl"] - below - 1e-9 <= true <= columns["kl"] + above + 1e-9
    text = (
        f"{case['set']:8s} {case['size']:5d} {case['seed']:4d} {true:11.6f} "
        f"{columns['kl']:11.6f} -{below:.0e} +{above:.0e} {'yes' if inside else 'NO':6s}"
    )
    cpu = [case["dense"]["cpu_seconds"], columns["cpu_seconds"]]
    if "probes" in case:
        probes = case["probes"]
        gap = true - probes["kl"]
        beyond = max(gap - probes["bounds"][1], -gap - probes["bounds"][0], 0.0)
        text += (
            f" {probes['kl']:10.6f} {probes['standard_error']:8.6f} "
            f"{beyond / probes['standard_error']:5.2f}"
        )
        cpu.append(probes["cpu_seconds"])
    return text + "  " + " / ".join(f"{seconds:.0f}" for seconds in cpu)


def main() -> None:
    """Print the table, and write the cases to a file if one is given."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", default=["power", "kin40k"])
    parser.add_argument("--sizes", nargs="+", type=int, default=[2000, 5000])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--points", type=int, default=200)
    parser.add_argument("--features", type=int, default=128, help="frequencies")
    parser.add_argument("--rank", type=int, default=500)
    parser.add_argument("--no-probes", action="store_true")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    torch.set_num_threads(1)
    print(
        "set       size seed       dense     columns bounds       within     probes       se"
        "  beyond  CPU s"
    )
    cases = []
    for name in args.sets:
        for size in args.sizes:
            for seed in range(args.seeds):
                cases.append(one_case(name, size, seed, args))
                print(line(cases[-1]), flush=True)
                if args.json is not None:
                    args.json.write_text(json.dumps(cases, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
