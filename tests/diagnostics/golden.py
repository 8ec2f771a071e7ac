"""Reports on seeded models and stated laws, and the figures of each that must stay.

    python -m tests.diagnostics.golden --write

Hyperparameters are given or averaged over grids, so that figures depend on no search. Those that
do, of rivals and of a few models, are kept apart with a wide tolerance. P-values are shares of
joint draws.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import trimesh
from scipy import stats
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

import coupledgp as cgp
from coupledgp.kernels import HeatKernel, PositionKernel, WhittleMatern

PATH = Path(__file__).with_name("golden.json")
# Relative tolerance of each group of figures, and what is added for figures near zero.
TOLERANCES = {"figures": (1e-8, 1e-9), "p": (0.0, 4e-3), "searched": (0.05, 0.02)}
CASES: dict[str, Callable[[], Any]] = {}
# Cases whose hyperparameters come from a search.
SEARCHED = {
    "local",
    "classifier",
    "classifier three",
    "counts",
    "counts spread",
    "time",
    "time fault",
}

RNG = np.random.default_rng(2027)
X = RNG.uniform(-2, 2, (140, 2))
F = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
Y = F + 0.2 * RNG.normal(size=140)
OLD, NEW = slice(0, 100), slice(100, 140)
SCALES = {"lengthscale": [0.8, 2.5], "outputscale": 1.0, "noise": 0.04}
SCORES = (
    "rmse", "mae", "crps", "nlpd", "nlpd_joint", "sharpness", "log_loss", "brier", "accuracy",
)  # fmt: skip
SIMPLE = ("mean", "nearest", "linear", "shares", "one rate", "exact process")


def golden(name: str) -> dict[str, Any]:
    """Colours of the verdicts, figures, p-values and figures of rivals of a report."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        report = CASES[name]()
    found: dict[str, Any] = {
        "colours": {one.question: one.colour for one in report.verdicts},
        "figures": {}, "p": {}, "searched": {},
    }  # fmt: skip
    t, figures = report.tables, found["figures"]
    scores = t.scores[t.scores.metric.isin(SCORES) & (t.scores.group == "")]
    figures |= {f"{one.model} {one.part} {one.metric}": one.value for one in scores.itertuples()
                if one.model in (t.predictions.name, "exact process")}  # fmt: skip
    figures |= {one.metric: one.value for one in t.distance.itertuples()}
    figures |= {f"coverage {one.level}": one.share for one in t.coverage.itertuples()
                if not one.grouping}  # fmt: skip
    for part in (t.calibration, t.whitened, t.reliability):
        for key, value in {} if part is None else vars(part).items():
            if isinstance(value, float):
                kind = "p" if key.endswith(("_p", "error", "spread")) else "figures"
                found[kind][f"{type(part).__name__} {key}"] = value
    for one in t.gains.itertuples():
        kind = "figures" if one.rival in SIMPLE else "searched"
        if one.metric in ("nlpd", "rmse", "log_loss", "log_crps"):
            found[kind] |= {f"{one.rival} {one.part} {one.metric}": one.gain,
                            f"{one.rival} {one.part} {one.metric} error": one.error}  # fmt: skip
    for one in report.checks:
        if one.rule == "neighbours":
            figures["neighbours"], found["p"]["neighbours"] = one.statistic, one.p
        if one.rule == "nearby kernel":
            figures[one.column] = one.statistic
    if name in SEARCHED:
        found = found | {"figures": {}, "searched": found["figures"] | found["searched"]}
    return found


def differences(name: str, stored: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """What of a case differs from what is stored, in words."""
    told = [] if stored["colours"] == found["colours"] else [f"{name}: {found['colours']}"]
    for kind, (relative, absolute) in TOLERANCES.items():
        old, new = stored[kind], found[kind]
        told += [f"{name}: {key} is missing" for key in set(old) ^ set(new)]
        told += [
            f"{name}: {key} {old[key]!r} is {new[key]!r}"
            for key in old.keys() & new.keys()
            if not np.isclose(new[key], old[key], relative, absolute, equal_nan=True)
        ]
    return told


def case(name: str, make: Callable[[], Any]) -> None:
    """Add a report."""
    CASES[name] = make


def sparse(y: Any = Y, **changes: Any) -> Any:
    """A sparse spectrum of given hyperparameters."""
    settings = {"n_frequencies": 48, "optimizer": None, "random_state": 3} | SCALES | changes
    return cgp.SparseSpectrumGPRegressor(**settings).fit(X[OLD], y[OLD])


def exact(y: Any = Y, rows: slice = OLD, **changes: Any) -> Any:
    """An exact process of given hyperparameters."""
    settings = {"optimizer": None, "random_state": 3} | SCALES | changes
    return cgp.ExactGPRegressor(**settings).fit(X[rows], y[rows])


def reported(model: Any, at: Any = X[NEW], y: Any = Y[NEW], **more: Any) -> Any:
    """The report on new rows."""
    return cgp.report(model, at, y, progress=False, **more)


def audited(stated: Any, y: Any = Y, **more: Any) -> Any:
    """The audit of a stated law."""
    return cgp.audit(stated, X[OLD], y[OLD], X[NEW], y[NEW], progress=False, **more)


def law(std: float = 0.2, shift: float = 0.0) -> tuple[Any, Any]:
    """Means and standard deviations of a forecaster that errs a little."""
    mean = F[NEW] + 0.05 * np.random.default_rng(5).normal(size=40) + shift
    return mean, np.full(40, std)


def on_graph(kernel: Any, kind: Any = cgp.GraphGPRegressor, **more: Any) -> Any:
    """A report of the nodes of a grid."""
    graph = cgp.Graph.from_scipy(nx.adjacency_matrix(nx.grid_2d_graph(13, 13)))
    rows, columns = np.divmod(np.arange(169), 13)
    rng = np.random.default_rng(6)
    y = np.sin(rows / 2) + np.cos(columns / 3) + 0.1 * rng.normal(size=169)
    order = rng.permutation(169)
    given = {"optimizer": None, "random_state": 0, "outputscale": 1.0, "noise": 0.01} | more
    model = kind(graph, kernel, **given).fit(order[:90], y[order[:90]])
    return reported(model, order[90:130], y[order[90:130]])


def on_field(kernel: Any, roads: bool = False) -> Any:
    """A report of a field from sensors."""
    rng = np.random.default_rng(7)
    if roads:
        ends = [(k, k + 1) for k in range(60) if k % 11] + [(k, k + 11) for k in range(40)]
        on = cgp.LaplaceOperator.from_edges(
            [a for a, _ in ends], [b for _, b in ends], np.linspace(50, 150, len(ends))
        )
        places: Any = rng.permutation(51)
        f = np.sin(np.arange(51) / 6)[places]
    else:
        box = trimesh.creation.box((4.0, 2.0, 1.0))
        on = cgp.LaplaceOperator.from_trimesh(box, max_edge=0.6)
        places, _ = trimesh.sample.sample_surface(box, 70, seed=1)
        f = np.sin(places[:, 0]) + places[:, 1]
    y = f + 0.1 * rng.normal(size=len(places))
    model = cgp.FieldGPRegressor(on, kernel, random_state=0).fit(places[:35], y[:35])
    return reported(model, places[35:], y[35:])


def over_time(fault: bool) -> Any:
    """A report of hidden readings of sensors in a row, one of which may be off by a level."""
    rng = np.random.default_rng(8)
    values = np.cumsum(rng.normal(size=(4, 160)), axis=1).T @ rng.normal(size=(4, 9))
    values = (
        values.T + 0.3 * rng.normal(size=(9, 160)) + 25.0 * fault * (np.arange(9) == 4)[:, None]
    )
    times = np.datetime64("2026-03-02T00:00") + np.arange(160) * np.timedelta64(30, "m")
    road = cgp.Graph.from_edges(np.arange(11), np.arange(1, 12))
    sensors = [0, 1, 2, 4, 5, 7, 8, 10, 11]
    model = cgp.GraphTimeGPRegressor(road, usual_day=False)
    model.fit(sensors, values, times=times)
    rivals = ["linear in time", "last value", "nearest sensor"]
    return cgp.hide(model, sensors, times, values, refit=False, rivals=rivals)


def of_counts(y: Any, likelihood: Any) -> Any:
    """A report of counts."""
    model = cgp.GPRegressor(
        kernel="gaussian + constant", likelihood=likelihood, random_state=0
    ).fit(X[OLD], y[OLD])
    return reported(model, y=y[NEW])


def sklearn(scale: float) -> Any:
    """A process of scikit-learn of given hyperparameters."""
    kernel = ConstantKernel(1.0) * RBF([scale, 2.5]) + WhiteKernel(0.04)
    return GaussianProcessRegressor(kernel, optimizer=None).fit(X[OLD], Y[OLD])


COUNTS = np.random.default_rng(9).poisson(np.exp(F + 1)).astype(float)
SPREAD = np.random.default_rng(10).poisson(np.exp(F + 1) * RNG.gamma(1.0, 1.0, 140)).astype(float)
LABELS = np.where(F + 0.3 * RNG.normal(size=140) > 0, "up", "down")
THREE = np.digitize(F + 0.3 * RNG.normal(size=140), [-0.7, 0.7])
CHANCES = stats.norm.cdf(F[NEW] / 0.3).clip(0.01, 0.99)
HEAVY = F + 0.15 * np.random.default_rng(11).standard_t(2.2, size=140)
DAY = np.repeat(np.arange(14), 10)
BY_DAY = Y + 0.5 * np.random.default_rng(12).normal(size=14)[DAY]
DRAWS = law()[0] + 0.2 * np.random.default_rng(13).normal(size=(200, 40))

case("sparse", lambda: reported(sparse()))
case("sparse few frequencies", lambda: reported(sparse(n_frequencies=6)))
case("sparse laplace", lambda: reported(sparse(features="laplace", n_frequencies=200)))
case("sparse noise too small", lambda: reported(sparse(noise=0.004)))
case("sparse heavy tails", lambda: reported(sparse(HEAVY), y=HEAVY[NEW]))
case("exact", lambda: reported(exact()))
case("exact lengthscale too short", lambda: reported(exact(lengthscale=[0.15, 0.5])))
case("exact noise too large", lambda: reported(exact(noise=0.6)))
case("exact matern", lambda: reported(exact(kernel="matern-3/2")))
case("exact days", lambda: reported(exact(BY_DAY), y=BY_DAY[NEW], columns={"day": DAY[NEW] * 1.0}))
case("exact groups", lambda: cgp.report(exact(), X[NEW], Y[NEW], groups=np.arange(40) % 4))
case(
    "local",
    lambda: reported(
        cgp.LocalGPRegressor("matern-3/2", n_frequencies=0, n_neighbors=20, random_state=0).fit(
            X[OLD], Y[OLD]
        )
    ),
)
case(
    "lattice",
    lambda: reported(
        cgp.LatticeGPRegressor("gaussian", optimizer=None, **SCALES).fit(X[OLD], Y[OLD])
    ),
)
case("left out", lambda: cgp.cross_validate(exact()))
case("left out days", lambda: cgp.cross_validate(exact(BY_DAY), groups=DAY[OLD]))
case("left out sparse", lambda: cgp.cross_validate(sparse(noise=0.004)))
case("graph walks", lambda: on_graph(HeatKernel(4.0)))
case("graph walks alone", lambda: on_graph(HeatKernel(4.0), exact_hops=0, n_walks=16))
case("graph exact", lambda: on_graph(HeatKernel(4.0), cgp.ExactGraphGPRegressor))
case("graph too smooth", lambda: on_graph(HeatKernel(200.0), cgp.ExactGraphGPRegressor))
case("field mesh", lambda: on_field(PositionKernel("gaussian", lengthscale=1.5)))
case("field surface", lambda: on_field(WhittleMatern(range_=3.0, alpha=2)))
case("field roads", lambda: on_field(WhittleMatern(range_=600.0, alpha=1), roads=True))
case(
    "classifier",
    lambda: reported(
        cgp.GPClassifier("gaussian + constant", random_state=0).fit(X[OLD], LABELS[OLD]),
        y=LABELS[NEW],
    ),
)
case(
    "classifier three",
    lambda: reported(
        cgp.GPClassifier("gaussian + constant", random_state=0).fit(X[OLD], THREE[OLD]),
        y=THREE[NEW],
    ),
)
case("counts", lambda: of_counts(COUNTS, "poisson"))
case("counts spread", lambda: of_counts(SPREAD, "poisson"))
case("audit", lambda: audited(law()))
case("audit too sure", lambda: audited(law(0.08)))
case("audit too wide", lambda: audited(law(0.6)))
case("audit shifted", lambda: audited(law(shift=0.3)))
case("audit covariance", lambda: audited((law()[0], 0.04 * np.eye(40) + 0.002)))
case("audit draws", lambda: audited(DRAWS))
case("audit few draws", lambda: audited(DRAWS[:12] * 0.9))
case(
    "audit quantiles",
    lambda: audited({c: law()[0] + 0.2 * stats.norm.ppf(c) for c in (0.05, 0.25, 0.5, 0.75, 0.95)}),
)
case("audit mixture", lambda: audited({"means": DRAWS[:4], "stds": np.full((4, 40), 0.2)}))
case("audit counts", lambda: audited(stats.poisson(np.exp(F[NEW] + 1)), COUNTS))
case("audit chances", lambda: audited({"chances": CHANCES, "classes": ["down", "up"]}, LABELS))
case("audit scikit-learn", lambda: audited(sklearn(0.8)))
case("audit scikit-learn too smooth", lambda: audited(sklearn(3.0)))
case(
    "audit scikit-learn classes",
    lambda: audited(
        GaussianProcessClassifier(
            ConstantKernel(4.0) * RBF([1.0, 2.0]), optimizer=None, random_state=0
        ).fit(X[OLD], LABELS[OLD]),
        LABELS,
    ),
)
case(
    "audit kernel stated",
    lambda: audited(law(), kernel="gaussian", lengthscale=[0.8, 2.5], outputscale=1.0, noise=0.04),
)
case("audit alone", lambda: cgp.audit(law(0.1), None, None, X[NEW], Y[NEW]))
case("time", lambda: over_time(False))
case("time fault", lambda: over_time(True))


def main() -> int:
    """Write the file, or list what differs; exit status 1 if anything does."""
    found = {name: golden(name) for name in CASES}
    if "--write" in sys.argv:
        PATH.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n")
        return 0
    stored = json.loads(PATH.read_text())
    told = [line for name in CASES for line in differences(name, stored[name], found[name])]
    print("\n".join(told) or f"{len(CASES)} reports as stored")
    return int(bool(told))


if __name__ == "__main__":
    sys.exit(main())
