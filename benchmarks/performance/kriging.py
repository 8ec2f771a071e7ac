"""Kriging with all rows on a lattice, beside what kriging users run, on fields that are known.

    python benchmarks/performance/kriging.py [--field 2 matern-3/2 0.05] [--rows 100000] [...]

Each field is a draw of a stationary process in the unit box, by waves on a lattice far finer than a
model's, with outputscale 1 and noise variance .1; rows are uniform in the box. Every system learns
hyperparameters from the rows, and predicts mean and standard deviation of f and y at other places:

* lattice: `LatticeGPRegressor` with the kernel of the field; `lattice, auto` chooses its kernel;
* local: `LocalGPRegressor` with the kernel of the field, 32 neighbours, no features;
* chosen: `GPRegressor`, whose law is that of observations;
* pykrige: `OrdinaryKriging` with its exponential model, 32 nearest points, variogram of at most
  4000 rows; left out where the package is not installed, as are the next two;
* gstools: the same with a Matern model fitted to a variogram of at most 4000 rows, kriged on these;
* gpboost: Vecchia approximation with 20 neighbours, the same kernel;
* sample: scikit-learn's `GaussianProcessRegressor` on 2000 rows;
* svgp: GPyTorch's variational process of 1024 inducing points, `--svgp-seconds` of Adam.

RMSE is to the true f, NLPD that of further observations, coverage that of 95 % intervals of f. CPU
seconds and the growth of memory (MB) are those of a process of its own, all threads together.
`--terrain` takes rows of a map of elevations in place of a drawn field; coverage is that of its
observations.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import matplotlib.cbook
import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, Matern, WhiteKernel
from threadpoolctl import threadpool_limits

import coupledgp as cgp
from coupledgp.spectra import parse_spectrum
from coupledgp.tables.lattice import Lattice, PlaceBox

NOISE = 0.1
# Rows that slow systems take.
SAMPLE, VARIOGRAM = 2000, 4000
# Nearest points of moving windows.
NEAREST = 32
INDUCING = 1024
Moments = tuple[np.ndarray, np.ndarray]


def drawn_field(
    dim: int, kernel: str, length: float, n_rows: int, n_test: int, seed: int
) -> tuple[np.ndarray, ...]:
    """Rows, their values, test places, their true values and further observations there."""
    rng = np.random.default_rng(seed)
    box = PlaceBox(np.zeros(dim), np.ones(dim), np.ones(dim))
    spectrum, lengths = parse_spectrum(kernel), np.full(dim, length)
    size = {1: 1e9, 2: 1e8, 3: 1e5}[dim]
    lattice = Lattice.for_kernel(spectrum, lengths, 1e3, box, size, most_waves=2**22)
    weights = rng.standard_normal((lattice.n_waves, 1))
    weights *= lattice.amplitudes(spectrum, lengths)[:, None]
    coefficients = lattice.coefficients(weights)
    X, Z = rng.uniform(size=(n_rows, dim)), rng.uniform(size=(n_test, dim))
    f, truth = (
        lattice.waves.forward(lattice.relative(places), coefficients)[:, 0] for places in (X, Z)
    )
    noise = np.sqrt(NOISE) * rng.standard_normal(n_rows + n_test)
    return X, f + noise[:n_rows], Z, truth, truth + noise[n_rows:]


def ours(model: Any, X: np.ndarray, y: np.ndarray, Z: np.ndarray) -> tuple[Moments, float]:
    """Law of f at places, and the noise variance."""
    model.fit(X, y)
    return model.predict(Z, return_std=True, latent=True), float(model.noise_)


def chosen(X: np.ndarray, y: np.ndarray, Z: np.ndarray) -> tuple[Moments, float]:
    """Law of observations of a mixture of all models that suit the table."""
    return cgp.GPRegressor(random_state=0).fit(X, y).predict(Z, return_std=True), 0.0


def by_sklearn(kernel: str, X: np.ndarray, y: np.ndarray, Z: np.ndarray) -> tuple[Moments, float]:
    """An exact process of a sample."""
    smooth = {"matern-1/2": 0.5, "matern-3/2": 1.5, "matern-5/2": 2.5}
    own = RBF(0.1) if kernel == "gaussian" else Matern(0.1, nu=smooth[kernel])
    chosen = np.random.default_rng(0).permutation(len(X))[:SAMPLE]
    model = GaussianProcessRegressor(ConstantKernel(1.0) * own + WhiteKernel(0.1))
    model.fit(X[chosen], y[chosen] - y.mean())
    noise = float(model.kernel_.k2.noise_level)
    mean, std = model.predict(Z, return_std=True)
    return (mean + y.mean(), np.sqrt(np.maximum(std**2 - noise, 1e-12))), noise


def by_pykrige(X: np.ndarray, y: np.ndarray, Z: np.ndarray) -> tuple[Moments, float]:
    """Ordinary kriging of the nearest points, with a variogram of a sample."""
    from pykrige.ok import OrdinaryKriging  # optional

    chosen = np.random.default_rng(0).permutation(len(X))[:VARIOGRAM]
    fitted = OrdinaryKriging(
        *X[chosen].T, y[chosen], variogram_model="exponential", nlags=30, exact_values=False
    )
    sill, reach, nugget = fitted.variogram_model_parameters
    parameters = {"psill": sill, "range": reach, "nugget": nugget}
    whole = OrdinaryKriging(
        *X.T, y, variogram_model="exponential", variogram_parameters=parameters,
        exact_values=False,
    )  # fmt: skip
    mean, variance = whole.execute("points", *Z.T, backend="C", n_closest_points=NEAREST)
    latent = np.maximum(np.asarray(variance) - nugget, 1e-12)
    return (np.asarray(mean), np.sqrt(latent)), float(nugget)


def by_gstools(kernel: str, X: np.ndarray, y: np.ndarray, Z: np.ndarray) -> tuple[Moments, float]:
    """Ordinary kriging of a sample, with a model fitted to its variogram."""
    import gstools  # optional

    chosen = np.random.default_rng(0).permutation(len(X))[:VARIOGRAM]
    own = gstools.Gaussian(dim=X.shape[1]) if kernel == "gaussian" else gstools.Matern(
        dim=X.shape[1], nu=float(parse_spectrum(kernel).smoothness or 1.5)
    )  # fmt: skip
    bins = np.linspace(0, 0.5, 31)
    where, values = gstools.vario_estimate(tuple(X[chosen].T), y[chosen], bins)
    own.fit_variogram(where, values, nugget=True, **({} if kernel == "gaussian" else {"nu": False}))
    kriging = gstools.krige.Ordinary(own, tuple(X[chosen].T), y[chosen], exact=False)
    mean, variance = kriging(tuple(Z.T))
    latent = np.maximum(variance - own.nugget, 1e-12)
    return (np.asarray(mean), np.sqrt(latent)), float(own.nugget)


def by_gpboost(kernel: str, X: np.ndarray, y: np.ndarray, Z: np.ndarray) -> tuple[Moments, float]:
    """Vecchia approximation with 20 neighbours."""
    import gpboost  # optional

    shape = float(parse_spectrum(kernel).smoothness or 1.5)
    named = {"cov_function": "gaussian"} if kernel == "gaussian" else {
        "cov_function": "matern", "cov_fct_shape": shape,
    }  # fmt: skip
    model = gpboost.GPModel(
        gp_coords=X, gp_approx="vecchia", num_neighbors=20, likelihood="gaussian", **named
    )
    ones = np.ones((len(X), 1))
    model.fit(y=y, X=ones)
    found = model.predict(
        gp_coords_pred=Z, X_pred=np.ones((len(Z), 1)), predict_var=True, predict_response=False
    )
    noise = float(np.asarray(model.get_cov_pars()).ravel()[0])
    return (found["mu"], np.sqrt(np.maximum(found["var"], 1e-12))), noise


def by_svgp(X: np.ndarray, y: np.ndarray, Z: np.ndarray, budget: float) -> tuple[Moments, float]:
    """GPyTorch's variational process of 1024 inducing points, after `budget` seconds of Adam."""
    import torch

    from benchmarks.performance.svgp import trained_svgp

    offset, scale = y.mean(), y.std()
    model, likelihood, *_ = trained_svgp(X, (y - offset) / scale, INDUCING, budget, 0)
    laws = []
    with torch.no_grad():
        for part in np.array_split(Z, max(len(Z) // 4000, 1)):
            law = model(torch.tensor(part))
            laws.append((law.mean.numpy(), law.variance.sqrt().numpy()))
    mean, std = (np.concatenate(part) for part in zip(*laws, strict=True))
    return (offset + scale * mean, scale * std), float(likelihood.noise.item() * scale**2)


def terrain(n_rows: int, n_test: int, seed: int) -> tuple[np.ndarray, ...]:
    """Rows of a map of elevations (Jacksboro fault, 138 632 cells of some 90 m), and other cells.

    Places are kilometres, elevations metres over 100. There is no truth beside the observations.
    """
    with matplotlib.cbook.get_sample_data("jacksboro_fault_dem.npz") as stored:
        height = stored["elevation"].astype(np.float64) / 100.0
        ends = [float(stored[name]) for name in ("xmin", "xmax", "ymin", "ymax")]
    east = np.linspace(ends[0], ends[1], height.shape[1]) * 111.2 * np.cos(np.radians(36.6))
    north = np.linspace(ends[2], ends[3], height.shape[0]) * 111.2
    places = np.stack(np.meshgrid(east, north), axis=-1).reshape(-1, 2)
    chosen = np.random.default_rng(seed).permutation(height.size)
    rows, test = chosen[:n_rows], chosen[n_rows : n_rows + n_test]
    y = height.ravel()
    return places[rows], y[rows], places[test], y[test], y[test]


def systems(
    dim: int, kernel: str, n_rows: int, svgp_seconds: float
) -> dict[str, Callable[..., tuple[Moments, float]]]:
    """Systems by their names."""
    found: dict[str, Callable[..., tuple[Moments, float]]] = {
        "lattice": lambda *data: ours(
            cgp.LatticeGPRegressor(kernel, ard=False, random_state=0), *data
        ),
        "lattice, auto": lambda *data: ours(
            cgp.LatticeGPRegressor(ard=False, random_state=0), *data
        ),
        "local": lambda *data: ours(
            cgp.LocalGPRegressor(kernel, n_frequencies=0, trend="constant", random_state=0), *data
        ),
        "chosen": chosen,
        "sample": lambda *data: by_sklearn(kernel, *data),
        "svgp": lambda *data: by_svgp(*data, svgp_seconds),
    }
    if find_spec("pykrige") and dim == 2:
        found["pykrige"] = by_pykrige
    if find_spec("gstools"):
        found["gstools"] = lambda *data: by_gstools(kernel, *data)
    if find_spec("gpboost") and n_rows <= 200_000:
        found["gpboost"] = lambda *data: by_gpboost(kernel, *data)
    return found


def measured(
    system: Callable[..., tuple[Moments, float]], data: tuple[np.ndarray, ...], pipe: Any
) -> None:
    """Send figures of one system through a pipe."""
    X, y, Z, truth, further = data
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.process_time()
    try:
        with threadpool_limits(1), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            (mean, std), noise = system(X, y, Z)
    except Exception as error:
        pipe.send({"error": f"{type(error).__name__}: {error}"[:120]})
        return
    seconds = time.process_time() - start
    spread = std**2 + noise
    squares = (further - mean) ** 2 / spread
    deviation = np.sqrt(spread) if truth is further else std
    pipe.send({
        "rmse": float(np.sqrt(np.mean((mean - truth) ** 2))),
        "nlpd": float(0.5 * np.mean(np.log(2 * np.pi * spread) + squares)),
        "coverage": float(np.mean(np.abs(mean - truth) < 1.96 * deviation)),
        "seconds": seconds,
        "mb": (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024,
    })  # fmt: skip


def run(
    system: Callable[..., tuple[Moments, float]], data: tuple[np.ndarray, ...], limit: float
) -> dict[str, Any]:
    """Figures of one system in a process of its own, or why there are none."""
    context = multiprocessing.get_context("fork")
    ours_end, theirs = context.Pipe()
    process = context.Process(target=measured, args=(system, data, theirs))
    process.start()
    found = ours_end.recv() if ours_end.poll(limit) else {"error": f"more than {limit:.0f} s"}
    process.kill()
    process.join()
    return found


def main() -> None:
    """Print a table for each number of rows."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--field", nargs=3, default=["2", "matern-3/2", "0.05"],
                        metavar=("DIM", "KERNEL", "LENGTH"))  # fmt: skip
    parser.add_argument("--rows", type=int, nargs="+", default=[10_000, 100_000])
    parser.add_argument("--test", type=int, default=20_000)
    parser.add_argument("--systems", nargs="+", default=None)
    parser.add_argument("--seconds", type=float, default=300.0, help="limit of one system")
    parser.add_argument("--svgp-seconds", type=float, default=60.0)
    parser.add_argument("--terrain", action="store_true", help="a map of elevations, no drawn one")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    dim, kernel, length = int(options.field[0]), options.field[1], float(options.field[2])
    console, record = Console(width=100), {}
    for n_rows in options.rows:
        if options.terrain:
            data = terrain(n_rows, options.test, options.seed)
            title = f"terrain, {kernel}, {n_rows} rows"
        else:
            data = drawn_field(dim, kernel, length, n_rows, options.test, options.seed)
            title = f"{kernel}, {dim} columns, lengthscale {length}, {n_rows} rows"
        table = Table(title=title)
        for name in ("system", "RMSE of f", "NLPD of y", "coverage of f", "CPU s", "MB"):
            table.add_column(name)
        for name, system in systems(dim, kernel, n_rows, options.svgp_seconds).items():
            if options.systems is not None and name not in options.systems:
                continue
            found = run(system, data, options.seconds)
            record[f"{n_rows} {name}"] = found
            if "error" in found:
                table.add_row(name, found["error"])
                continue
            table.add_row(
                name, f"{found['rmse']:.4f}", f"{found['nlpd']:.4f}", f"{found['coverage']:.3f}",
                f"{found['seconds']:.1f}", f"{found['mb']:.0f}",
            )  # fmt: skip
        console.print(table)
    if options.out is not None:
        options.out.write_text(json.dumps(record, indent=1))


if __name__ == "__main__":
    main()
