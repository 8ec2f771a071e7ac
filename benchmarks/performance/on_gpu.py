"""Sparse-spectrum models on a GPU, against the CPU and gpytorch's models on the same GPU.

Two tables: kin40k (36 000 rows for fitting) and a made one, sums of waves in eight columns with
noise of standard deviation .1. On each, one after the other:

* ours: the defaults of `SparseSpectrumGPRegressor` on the GPU, in double and in single precision,
  and in double precision on the CPU;
* SVGP: the one of `svgp.py`, as many inducing points as we have features, stopped
  after the seconds that our fit on the CPU took, but `--svgp-seconds` at least;
* RFFKernel: the one of `kin40k_against_gpytorch.py`, as many frequencies as we have, in single
  precision, `--adam-steps` steps of Adam on all rows.

A line of JSON for each: seconds of the fit, RMSE and marginal NLPD of the held-out rows in units of
the standardised target, and the peak of the GPU's memory. What does not fit there is a line too.

    COUPLEDGP_DATA=... python -m benchmarks.performance.on_gpu [--rows 2000000]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import warnings
from collections.abc import Callable

import numpy as np
import torch

import coupledgp as cgp
from benchmarks.performance.kin40k_against_gpytorch import fit_peer
from benchmarks.performance.svgp import fit_svgp, split
from coupledgp.errors import CoupledGPError
from coupledgp.ground.devices import parse_device

Table = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]
FIGURES = ("seconds", "rmse", "nlpd")
KIN40K_ROWS, TEST_ROWS, COLUMNS, WAVES = 36_000, 4_000, 8, 20


def made_table(rows: int) -> Table:
    """Standardised training and test rows of a sum of waves with noise."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(rows + TEST_ROWS, COLUMNS))
    waves = 0.5 * rng.normal(size=(COLUMNS, WAVES))
    y = sum(np.sin(X @ wave + phase) for phase, wave in enumerate(waves.T)) / np.sqrt(WAVES / 2)
    y = y + 0.1 * rng.normal(size=len(X))
    y = (y - y[:rows].mean()) / y[:rows].std()
    return X[:rows], y[:rows], X[rows:], y[rows:]


def fit_ours(data: Table, frequencies: int, dtype: str, device: object) -> dict[str, float]:
    """Figures of this package."""
    X, y, X_test, y_test = data
    gp = cgp.SparseSpectrumGPRegressor(
        n_frequencies=frequencies,
        options={"dtype": dtype},
        device=device,
        random_state=0,
        progress=False,
    )
    start = time.perf_counter()
    gp.fit(X, y)
    seconds = time.perf_counter() - start
    mean, std = gp.predict(X_test, return_std=True)
    rmse, nlpd = cgp.diagnostics.rmse(y_test, mean), cgp.diagnostics.nlpd(y_test, mean, std)
    return {"seconds": seconds, "rmse": rmse, "nlpd": nlpd}


def measured(
    call: Callable[[], dict[str, float]], device: torch.device
) -> dict[str, float | str | None]:
    """Figures of a fit and the peak of the device's memory; what ended the fit if it failed."""
    gpu = device.type == "cuda"
    if gpu:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats(device)
    try:
        found = call()
    except (CoupledGPError, RuntimeError) as error:
        return {"error": str(error).splitlines()[0][:120]}
    found.setdefault("seconds", found.get("fit_s", np.nan))
    peak = torch.cuda.max_memory_allocated(device) / 2**20 if gpu else None
    return {name: float(found[name]) for name in FIGURES} | {"gpu_mib": peak}


def compare(name: str, data: Table, device: torch.device, options: argparse.Namespace) -> None:
    """Print a line for each system on one table."""
    m, rows = options.frequencies, len(data[0])

    def show(system: str, call: Callable[[], dict[str, float]]) -> float:
        figures = measured(call, device)
        print(json.dumps({"table": name, "rows": rows, "system": system, **figures}), flush=True)
        return float(figures.get("seconds") or 0.0)

    show("the first call, which starts the device", lambda: fit_ours(data, 8, "float64", device))
    for dtype in ("float64", "float32"):
        show(f"ours, {device}, {dtype}", lambda d=dtype: fit_ours(data, m, d, device))
    on_cpu = show("ours, CPU, float64", lambda: fit_ours(data, m, "float64", None))
    budget = max(on_cpu, options.svgp_seconds)
    show(f"SVGP, {device}, float64", lambda: fit_svgp(*data, 2 * m, budget, 0, device))
    steps = options.adam_steps
    show(
        f"RFFKernel, {device}, float32",
        lambda: fit_peer(*data, torch.float32, steps, m, device),
    )


def main() -> None:
    """Compare on both tables; without a GPU one line says so."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000, help="of the made table")
    parser.add_argument("--frequencies", type=int, default=512)
    parser.add_argument("--svgp-seconds", type=float, default=60.0)
    parser.add_argument("--adam-steps", type=int, default=50)
    options = parser.parse_args()
    try:
        device = parse_device("cuda")
    except CoupledGPError as error:
        sys.exit(f"on_gpu: {error}")
    warnings.simplefilter("ignore")
    gpu = torch.cuda.get_device_name(device)
    print(json.dumps({"gpu": gpu, "torch": torch.__version__, **vars(options)}), flush=True)
    compare("kin40k", split("kin40k", 0, KIN40K_ROWS, TEST_ROWS), device, options)
    compare("made", made_table(options.rows), device, options)


if __name__ == "__main__":
    main()
