"""Four newcomers, each from the install to a first result of their own, by the README's commands.

    python benchmarks/newcomers.py --install              each in a fresh environment
    python benchmarks/newcomers.py --paths table audit    with the packages of this one

Prints a row for each command: CPU seconds, seconds of the clock, and peak memory. With `--install`
a row of each environment has its packages and megabytes. Data are drawn here and do not count.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import tempfile
import textwrap
import time
import venv
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

ROOT = Path(__file__).parents[1]
CPU_TORCH = "torch==2.13.0"
TABLE = """
import pandas as pd
import coupledgp as cgp
from sklearn.model_selection import train_test_split

dryers = pd.read_csv("dryers.csv", parse_dates=["date"]).dropna(subset="kwh")
X, y = dryers.drop(columns=["kwh", "batch"]), dryers["kwh"]
X, X_test, y, y_test = train_test_split(X, y, random_state=0)
chosen = cgp.GPRegressor(random_state=0).fit(X, y)
print(chosen.predict_frame(X_test, level=0.95).head())
print(chosen.importance())
report = cgp.posterior_report(chosen, X_test, y_test)
report.to_html("report.html")
print(report.verdict())
"""
AUDIT = """
import gpytorch, pandas as pd, torch
import coupledgp as cgp

tables = [pd.read_csv(f"{name}.csv") for name in ("train", "test")]
(X, y), (X_test, y_test) = [
    (torch.tensor(one.drop(columns="y").values), torch.tensor(one["y"].values)) for one in tables
]

class Sparse(gpytorch.models.ApproximateGP):
    def __init__(self, inducing):
        law = gpytorch.variational.CholeskyVariationalDistribution(len(inducing))
        super().__init__(gpytorch.variational.VariationalStrategy(self, inducing, law))
        self.mean_module = gpytorch.means.ConstantMean()
        kernel = gpytorch.kernels.RBFKernel(ard_num_dims=X.shape[1])
        self.covar_module = gpytorch.kernels.ScaleKernel(kernel)

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))

torch.manual_seed(0)
model = Sparse(X[:32].clone()).double()
likelihood = gpytorch.likelihoods.GaussianLikelihood().double()
free = [*model.parameters(), *likelihood.parameters()]
optimizer = torch.optim.Adam(free, 0.05)
bound = gpytorch.mlls.VariationalELBO(likelihood, model, len(y))
for _ in range(100):
    optimizer.zero_grad()
    (-bound(model(X), y)).backward()
    optimizer.step()
report = cgp.audit((model.eval(), likelihood.eval()), X, y, X_test, y_test)
report.to_html("svgp.html")
print(report.verdict())
with torch.no_grad():
    law = likelihood(model(X_test))
pd.DataFrame({"mean": law.mean, "std": law.stddev}).to_csv("predictions.csv", index=False)
"""


class Newcomer(NamedTuple):
    """A newcomer: extras and packages that the README tells them to install, and their commands."""

    extras: str
    others: tuple[str, ...]
    commands: tuple[str, ...]


PATHS = {
    "table": Newcomer("torch,cli", (CPU_TORCH, "pandas"), ("python table.py",)),
    "places": Newcomer("cli", (), (
        "coupledgp field part.stl --values sensors.csv -o part.vtu --report part.html",
        "coupledgp graph roads.csv --values speeds.csv -o law.csv --report roads.html",
        "coupledgp forecast roads.csv --values month.csv --ahead 1h -o ahead.csv",
    )),
    "audit": Newcomer("torch,cli", (CPU_TORCH, "pandas"), (
        "python audit.py",
        "coupledgp audit --train train.csv --test test.csv -t y --predictions predictions.csv "
        "-o audit.html",
    )),
    "rows": Newcomer("torch,cli", (CPU_TORCH,), (
        "coupledgp fit big.parquet -t y --progress -o y.model",
        "coupledgp predict y.model new.parquet -o predicted.parquet",
        "coupledgp krige wells.parquet -t depth --places east,north --grid 500x500 -o map.parquet",
    )),
}  # fmt: skip


def write_table(folder: Path, share: float) -> None:
    """Write 1500 batches of dryers: an identifier, dates, text, gaps, and missing targets."""
    import pandas as pd

    rng, n = np.random.default_rng(7), max(60, int(1500 * share))
    date = pd.Timestamp("2022-01-03") + pd.to_timedelta(rng.integers(0, 900, n), unit="D")
    site, load = rng.choice(["Leeds", "Ghent", "Porto"], n), rng.gamma(3, 20, n)
    age, moisture = rng.uniform(0, 12, n), rng.uniform(2, 18, n)
    kwh = 40 + 0.9 * load + 2.2 * moisture * (site != "Porto") + 0.6 * age**1.5
    kwh += 5 * rng.normal(size=n)
    for column, chance in ((load, 0.06), (moisture, 0.03), (kwh, 0.01)):
        column[rng.random(n) < chance] = np.nan
    columns = {"date": date, "site": site, "load": load, "moisture": moisture, "age": age}
    frame = pd.DataFrame({"batch": [f"B-{k}" for k in range(n)], **columns, "kwh": kwh})
    frame.to_csv(folder / "dryers.csv", index=False)
    (folder / "table.py").write_text(TABLE)


def write_places(folder: Path, share: float) -> None:
    """Write a part with forty sensors, a grid of roads, and a month of hourly speeds on it."""
    import networkx as nx
    import trimesh

    rng = np.random.default_rng(3)
    part = trimesh.creation.box((4.0, 2.0, 1.0))
    part.export(folder / "part.stl")
    at, _ = trimesh.sample.sample_surface(part, 40, seed=0)
    celsius = 20 + 5 * at[:, 0] + np.sin(3 * at[:, 2])
    _write_csv(folder / "sensors.csv", "x,y,z,celsius", np.column_stack([at, celsius]))
    side, hours = max(4, int(10 * share)), max(48, int(720 * share))
    edges = nx.convert_node_labels_to_integers(nx.grid_2d_graph(side, side)).edges
    roads = np.column_stack([np.array(edges), rng.uniform(200, 900, len(edges))])
    _write_csv(folder / "roads.csv", "source,target,length", roads, ["%d", "%d", "%.1f"])
    nodes, t = np.arange(0, side**2, 2), np.arange(hours)[:, None]
    speeds = 55 + 8 * np.sin(2 * np.pi * t / 24) + 5 * np.cos(nodes / side)
    speeds = speeds + rng.normal(size=speeds.shape)
    speeds[rng.random(speeds.shape) < 0.05] = np.nan
    mean = np.column_stack([nodes, np.nanmean(speeds, axis=0)])
    _write_csv(folder / "speeds.csv", "node,mph", mean, ["%d", "%.3f"])
    hour = np.datetime64("2026-03-02T00") + np.arange(hours)
    lines = [",".join(["time", *map(str, nodes)])]
    lines += [
        f"{one}:00," + ",".join("" if np.isnan(v) else f"{v:.2f}" for v in row)
        for one, row in zip(hour, speeds, strict=True)
    ]
    (folder / "month.csv").write_text("\n".join(lines) + "\n")


def write_audit(folder: Path, share: float) -> None:
    """Write a table of 800 training and 200 test rows of four columns, and the script."""
    rng, n = np.random.default_rng(5), max(40, int(800 * share))
    X = rng.normal(size=(n + n // 4, 4))
    y = np.sin(2 * X[:, 0]) * X[:, 1] + X[:, 2] + 0.2 * rng.normal(size=len(X))
    whole = np.column_stack([X, y])
    _write_csv(folder / "train.csv", "a,b,c,d,y", whole[:n])
    _write_csv(folder / "test.csv", "a,b,c,d,y", whole[n:])
    (folder / "audit.py").write_text(AUDIT)


def write_rows(folder: Path, share: float) -> None:
    """Write ten million rows of eight columns, a tenth more to predict, and a million places."""
    rng = np.random.default_rng(0)
    for name, n in (("big", int(1e7 * share)), ("new", int(1e6 * share))):
        _write_parquet(folder / f"{name}.parquet", n, lambda m: _friedman(rng, m))
    _write_parquet(folder / "wells.parquet", int(1e6 * share), lambda m: _wells(rng, m))


def _friedman(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
    X = rng.uniform(size=(n, 8))
    y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3]
    return {f"x{j}": X[:, j] for j in range(8)} | {"y": y + 5 * X[:, 4] + rng.normal(size=n)}


def _wells(rng: np.random.Generator, n: int) -> dict[str, np.ndarray]:
    east, north = rng.uniform(0, 100, (2, n))
    depth = 3 * np.sin(east / 7) * np.cos(north / 11) + 0.3 * rng.normal(size=n)
    return {"east": east, "north": north, "depth": depth}


def _write_parquet(path: Path, n: int, draw: Callable[[int], dict[str, np.ndarray]]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    first = pa.table(draw(min(n, 500_000)))
    with parquet.ParquetWriter(path, first.schema) as writer:
        writer.write_table(first)
        for start in range(500_000, n, 500_000):
            writer.write_table(pa.table(draw(min(500_000, n - start))))


def _write_csv(path: Path, names: str, rows: np.ndarray, form: str | list[str] = "%.6g") -> None:
    np.savetxt(path, rows, form, delimiter=",", header=names, comments="")


WRITERS = {"table": write_table, "places": write_places, "audit": write_audit, "rows": write_rows}


def timed(command: list[str], folder: Path, variables: dict[str, str]) -> tuple[str, str]:
    """Figures of a command, CPU s, s and peak MB, and what it printed; it has to succeed."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with tempfile.TemporaryFile("w+") as printed:
        child = subprocess.Popen(command, cwd=folder, env=variables, stdout=printed,
                                 stderr=subprocess.STDOUT)  # fmt: skip
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        printed.seek(0)
        text = printed.read()
    wall = time.monotonic() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if child.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{text[-3000:]}")
    return f"{cpu:.1f} | {wall:.0f} | {used.ru_maxrss / 1024:.0f}", text


def install(path: Newcomer, folder: Path) -> Path:
    """A fresh environment with what a path needs; prints its row, and returns its commands."""
    home = folder / "environment"
    venv.create(home, with_pip=True)
    pip, cpu, wall = [str(home / "bin" / "pip"), "install", "--quiet"], 0.0, 0.0
    for given in [*path.others, f"{ROOT}[{path.extras}]"]:
        figures, _ = timed([*pip, given], folder, dict(os.environ))
        cpu, wall = cpu + float(figures.split("|")[0]), wall + float(figures.split("|")[1])
    packages = subprocess.check_output([pip[0], "list", "--format", "freeze"], text=True)
    size = subprocess.check_output(["du", "-sm", str(home)], text=True).split()[0]
    text = f"install `.[{path.extras}]`: {len(packages.splitlines())} packages, {size} MB"
    print(f"| | {text} | {cpu:.1f} | {wall:.0f} | |", flush=True)
    return home / "bin"


def walk(name: str, share: float, fresh: bool, verbose: bool) -> None:
    """Print the rows of one path, in an empty folder."""
    path = PATHS[name]
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        WRITERS[name](folder, share)
        commands = install(path, folder) if fresh else Path(sys.executable).parent
        variables = os.environ | {"PATH": f"{commands}{os.pathsep}{os.environ['PATH']}"}
        if fresh:
            variables.pop("PYTHONPATH", None)
        for command in path.commands:
            figures, text = timed(command.split(), folder, variables)
            print(f"| {name} | `{command}` | {figures} |", flush=True)
            if verbose:
                print(textwrap.indent(text, "    "))


def main() -> None:
    """Walk the paths that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--paths", nargs="+", choices=list(PATHS), default=list(PATHS))
    parser.add_argument("--share", type=float, default=1.0, help="of the rows of each path")
    parser.add_argument("--install", action="store_true", help="fresh environments by pip")
    parser.add_argument("--verbose", action="store_true", help="print what commands say")
    options = parser.parse_args()
    print("| path | command | CPU s | s | peak MB |\n|---|---|---|---|---|")
    for name in options.paths:
        walk(name, options.share, options.install, options.verbose)


if __name__ == "__main__":
    main()
