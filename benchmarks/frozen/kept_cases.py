"""Cases of every estimator at three seeds: predictions, left-out laws, updates, files, averages."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import trimesh

import coupledgp as cgp
from coupledgp.ground.parameters import folded
from frozen.cases import Figures, case
from frozen.graph_cases import grid

SEEDS = (0, 1, 2)
RESULTS = (
    "log_marginal_likelihood_value_", "lengthscale_", "outputscale_", "noise_", "member_weights_",
    "weights_", "column_shares_", "power_", "n_waves_", "std_error_",
)  # fmt: skip


def results(gp: Any) -> Figures:
    """Evidence, hyperparameters and weights of members."""
    found = {}
    for name in RESULTS:
        value = getattr(gp, name, None)
        value = list(value.values()) if isinstance(value, dict) else value
        found |= {} if value is None else {name: np.asarray(value, dtype=float)}
    if hasattr(gp, "kernel_") and hasattr(gp.kernel_, "theta"):
        found["theta"] = np.asarray(gp.kernel_.theta)
    return found


def left_out(gp: Any, rows: int) -> Figures:
    """Law of each training row given all others, from the process, where it has one."""
    law = gp.process_.left_out_law(np.arange(rows))
    return {"left out mean": law.mean, "left out std": np.sqrt(law.spread)}


def reloaded(gp: Any) -> Any:
    """The model from its file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.coupledgp"
        gp.save(path, include_data=True)
        return cgp.load_model(path)


def moments(gp: Any, at: Any, **exposure: Any) -> Figures:
    """Means and standard deviations at points."""
    mean, std = gp.predict(at, return_std=True, **exposure)
    return {"mean": mean, "std": std}


def said(gp: Any, at: Any, y: Any, **exposure: Any) -> Figures:
    """Laws of a regressor at points."""
    return {
        **moments(gp, at, **exposure),
        "latent_std": gp.predict(at, return_std=True, latent=True)[1],
        "interval": gp.predict_interval(at, 0.9, **exposure),
        "quantiles": gp.predict_quantiles(at, (0.1, 0.5, 0.8), **exposure),
        "samples": gp.sample_y(at, 2, random_state=1, **exposure),
        "log_density": gp.log_density(at, y, **exposure),
    }


def named(word: str, figures: Figures) -> Figures:
    """The same figures of a later state of the model."""
    return {f"{word} {name}": value for name, value in figures.items()}


def regressor(gp: Any, old: Any, late: Any, new: Any, holds: str) -> Figures:
    """All figures of a regressor that is fitted to old rows, updated by late ones, asked at new.

    Rows are tuples (X, y) or (X, y, keywords of `fit`); `holds` names what the model has besides.
    """
    more = old[2] if len(old) > 2 else {}
    expose = {"exposure": new[2]["exposure"]} if len(new) > 2 else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gp = gp.fit(old[0], old[1], **more)
        figures = {**said(gp, new[0], new[1], **expose), **results(gp)}
        if "cov" in holds:
            figures["covariance"] = gp.predict(new[0], return_cov=True)[1]
            figures["prior"] = gp.prior_covariance(new[0])
        if "left" in holds:
            figures |= left_out(gp, len(old[1]))
        if "conformal" in holds:
            figures["conformal"] = gp.predict_interval(new[0], 0.8, conformal=True)
        again = reloaded(gp)
        figures |= named("reloaded", moments(again, new[0], **expose))
        if "update" in holds or "cov" in holds:
            gp.partial_fit(late[0], late[1], **(late[2] if len(late) > 2 else {}))
            figures |= named("later", {**moments(gp, new[0], **expose), **results(gp)})
    return figures


def classifier(gp: Any, old: Any, late: Any, new: Any) -> Figures:
    """Chances, functions and updates of a classifier."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gp = gp.fit(*old)
        figures = {**chances(gp, new), **results(gp)}
        figures |= named("reloaded", chances(reloaded(gp), new))
        return {**figures, **named("later", chances(gp.partial_fit(*late), new))}


def chances(gp: Any, at: Any) -> Figures:
    """Chances of classes and means of their functions."""
    return {
        "chances": gp.predict_proba(at),
        "decision": gp.decision_function(at),
        "classes": gp.predict(at),
    }


def table(seed: int, n: int, d: int = 2) -> tuple[Any, Any, Any, Any]:
    """Rows fitted, rows that come late, new rows, and the function at all of them."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n + 20, d))
    f = np.sin(2 * X[:, 0]) + 0.5 * X[:, 1]
    return X, f, slice(0, n - 10), rng


def of_table(make: Callable[[int], Any], n: int, law: str, holds: str, seed: int) -> Figures:
    """A regressor or classifier of rows whose observations follow a law."""
    X, f, old, rng = table(seed, n)
    late, new = slice(n - 10, n), slice(n, n + 20)
    hours = rng.uniform(0.5, 2.0, f.size)
    y: Any = {
        "gaussian": lambda: f + 0.2 * rng.normal(size=f.size),
        "varying": lambda: f + 0.1 * np.exp(X[:, 0]) * rng.normal(size=f.size),
        "outputs": lambda: np.stack([f, f**2], axis=1) + 0.1 * rng.normal(size=(f.size, 2)),
        "skewed": lambda: np.exp(f + 0.1 * rng.normal(size=f.size)),
        "tails": lambda: f + 0.2 * rng.standard_t(3, size=f.size),
        "counts": lambda: rng.poisson(hours * np.exp(f)).astype(float),
        "spread": lambda: rng.poisson(np.exp(f) * rng.gamma(2.0, 0.5, f.size)).astype(float),
        "two": lambda: np.where(f + 0.3 * rng.normal(size=f.size) > 0, "yes", "no"),
        "three": lambda: np.digitize(f + 0.3 * rng.normal(size=f.size), [-0.5, 0.5]),
    }[law]()  # fmt: skip
    rows = [(X[part], y[part]) for part in (old, late)]
    if law in ("two", "three"):
        return classifier(make(seed), *rows, X[new])
    parts = [(X[part], y[part]) for part in (old, late, new)]
    if law == "counts":
        parts = [(X[p], y[p], {"exposure": hours[p]}) for p in (old, late, new)]
    return regressor(make(seed), *parts, holds=holds)


def of_nodes(make: Callable[..., Any], side: int, law: str, holds: str, seed: int) -> Figures:
    """A regressor or classifier of the nodes of a grid."""
    graph, rng = grid(side), np.random.default_rng(seed)
    rows, columns = np.divmod(np.arange(graph.n_nodes), side)
    f = np.sin(rows / 2) + np.cos(columns / 3)
    y: Any = {
        "gaussian": lambda: f + 0.1 * rng.normal(size=f.size),
        "outputs": lambda: np.stack([f, f**2], axis=1) + 0.1 * rng.normal(size=(f.size, 2)),
        "counts": lambda: rng.poisson(np.exp(f)).astype(float),
        "two": lambda: np.where(f + 0.2 * rng.normal(size=f.size) > 0.5, "yes", "no"),
        "three": lambda: np.digitize(f + 0.2 * rng.normal(size=f.size), [0.0, 1.0]),
    }[law]()
    order = rng.permutation(graph.n_nodes)
    n = min(60, graph.n_nodes // 2)
    old, late, new = order[: n - 8], order[n - 8 : n], order[n : n + 20]
    if law in ("two", "three"):
        return classifier(make(graph, seed), (old, y[old]), (late, y[late]), new)
    return regressor(make(graph, seed), *((p, y[p]) for p in (old, late, new)), holds=holds)


def surface() -> Any:
    """A box whose faces are cut."""
    box = trimesh.creation.box((4.0, 2.0, 1.0))
    return cgp.LaplaceOperator.from_trimesh(box, max_edge=0.5)


def roads() -> Any:
    """A grid of roads of unequal lengths."""
    graph = nx.grid_2d_graph(5, 5)
    ends = sorted(tuple(sorted((5 * a + b, 5 * c + d))) for (a, b), (c, d) in graph.edges)
    lengths = 50.0 + 10.0 * (np.arange(len(ends)) % 7)
    return cgp.LaplaceOperator.from_edges(
        [a for a, _ in ends], [b for _, b in ends], lengths, max_edge=40.0
    )


def of_field(operator: Any, settings: Any, n: int, levels: bool, seed: int) -> Figures:
    """A field from sensors at places of a surface or at vertices of roads."""
    rng, on = np.random.default_rng(seed), operator()
    if on.dimension == 2:
        box = trimesh.creation.box((4.0, 2.0, 1.0))
        places, _ = trimesh.sample.sample_surface(box, n + 20, seed=seed)
        f = np.sin(places[:, 0]) + places[:, 1] + (3.0 * (places[:, 2] > 0.499) if levels else 0.0)
    else:
        edges = rng.integers(0, 40, n + 20)
        places = on.at_edges(edges, rng.uniform(0.0, 50.0, n + 20))
        f = np.sin(edges / 4)
    y = f + 0.1 * rng.normal(size=f.size)
    parts = [(places[p], y[p]) for p in (slice(0, n - 5), slice(n - 5, n), slice(n, n + 20))]
    gp = cgp.FieldGPRegressor(on, random_state=seed, progress=False, **settings)
    figures = dict(regressor(gp, *parts, holds="cov left conformal"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loo = cgp.FieldGPRegressor(on, random_state=seed, **settings).fit(*parts[0])
    mean, std = loo.leave_one_out()
    everywhere = loo.predict(return_std=True)
    return figures | {"one out mean": mean, "one out std": std, "vertices": np.stack(everywhere)}


def over_time(settings: Any, seed: int) -> Figures:
    """Sensors over five days with gaps: gaps, hidden nodes, forecasts, live updates, files."""
    rng = np.random.default_rng(seed)
    road = cgp.Graph.from_edges(np.arange(9), np.arange(1, 10))
    sensors = [0, 1, 3, 4, 6, 8, 9]
    times = np.datetime64("2026-03-02T00:00") + np.arange(240) * np.timedelta64(30, "m")
    day = 8 * np.sin(2 * np.pi * np.arange(240) / 48) * np.linspace(1, 1.5, 7)[:, None]
    moving = np.zeros((240, 3))
    for t in range(1, 240):
        moving[t] = 0.9 * moving[t - 1] + rng.normal(size=3)
    values = 50 + day + (moving @ rng.normal(size=(3, 7))).T + rng.normal(size=(7, 240))
    values[2, 60:80] = np.nan
    values[rng.uniform(size=values.shape) < 0.05] = np.nan
    if "target_transform" in settings:
        values = np.round(values)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        gp = cgp.GraphTimeGPRegressor(road, progress=False, **settings)
        gp.fit(sensors, values[:, :220], times=times[:220])
        figures = {**states(gp, times), **results(gp)}
        out = gp.leave_one_sensor_out()
        figures |= {"sensors out": [out.rmse, out.nlpd]}
        figures |= named("reloaded", states(reloaded(gp), times))
        gp.partial_fit(sensors, values[:, 220:], times=times[220:])
        return {**figures, **named("later", states(gp, times))}


def states(gp: Any, times: Any) -> Figures:
    """Laws at all nodes at some times, and ahead."""
    mean, std = gp.predict(None, times[50:90], return_std=True)
    ahead, ahead_std = gp.forecast("3h")
    return {
        "mean": mean,
        "std": std,
        "ahead mean": ahead,
        "ahead std": ahead_std,
        "interval": gp.predict_interval([2, 3], times[60:70], 0.9),
        "samples": gp.sample_y([1, 2], times[60:64], 2, random_state=1),
    }


def each(name: str, function: Callable[..., Figures], *arguments: Any) -> None:
    """A case for each seed; of a search that takes as long as the ten others, one."""
    for seed in SEEDS if name != "kept GraphGP student-t" else (0,):
        case(f"{name} seed-{seed}", function, *arguments, seed)


def of_rows(name: str, kind: str, n: int, law: str, holds: str, **settings: Any) -> None:
    """Cases of an estimator of tables."""
    each(f"kept {name}", of_table, lambda seed: made(kind, seed, settings), n, law, holds)


def on_grid(name: str, kind: str, side: int, law: str, holds: str, **settings: Any) -> None:
    """Cases of an estimator of a graph."""
    make = lambda graph, seed: made(kind, seed, {"graph": graph} | settings)  # noqa: E731
    each(f"kept {name}", of_nodes, make, side, law, holds)


def made(kind: str, seed: int, settings: dict[str, Any]) -> Any:
    """An estimator with a seed."""
    own = getattr(cgp, kind)
    return own(random_state=seed, progress=False, **folded(own, settings))


ALL, LIKE = "cov left conformal", "matern-3/2 + constant"
of_rows("GPRegressor", "GPRegressor", 70, "gaussian", "update")
of_rows("GPRegressor kernel", "GPRegressor", 60, "gaussian", ALL, kernel="matern-5/2 + linear")
of_rows(
    "GPRegressor noise",
    "GPRegressor",
    90,
    "varying",
    "update",
    kernel="matern-5/2",
    noise="varying",
)
of_rows(
    "GPRegressor transformed", "GPRegressor", 60, "skewed", "update", model="exact",
    target_transform="log",
)  # fmt: skip
of_rows(
    "GPRegressor poisson", "GPRegressor", 60, "counts", "update", likelihood="poisson",
    kernel=LIKE,
)  # fmt: skip
of_rows(
    "GPRegressor negative-binomial", "GPRegressor", 60, "spread", "update",
    likelihood="negative-binomial", kernel=LIKE,
)  # fmt: skip
of_rows(
    "GPRegressor student-t", "GPRegressor", 60, "tails", "update", likelihood="student-t",
    kernel=LIKE,
)  # fmt: skip
of_rows("GPClassifier two", "GPClassifier", 80, "two", "", kernel=LIKE)
of_rows("GPClassifier three", "GPClassifier", 80, "three", "", kernel=LIKE)
of_rows("GPClassifier kernels", "GPClassifier", 60, "two", "")
of_rows(
    "SparseSpectrum sampled", "SparseSpectrumGPRegressor", 80, "gaussian", ALL, n_frequencies=24,
)  # fmt: skip
of_rows(
    "SparseSpectrum laplace", "SparseSpectrumGPRegressor", 80, "gaussian", ALL, n_frequencies=32,
    features="laplace",
)  # fmt: skip
of_rows(
    "SparseSpectrum outputs", "SparseSpectrumGPRegressor", 80, "outputs", "cov left",
    n_frequencies=24,
)  # fmt: skip
of_rows(
    "SparseSpectrum posterior", "SparseSpectrumGPRegressor", 80, "gaussian", ALL,
    n_frequencies=24, frequencies="posterior",
)  # fmt: skip
of_rows(
    "SparseSpectrum fitted posterior-kl", "SparseSpectrumGPRegressor", 60, "gaussian", ALL,
    n_frequencies=8, frequencies="fitted",
)  # fmt: skip
of_rows(
    "SparseSpectrum averaged", "SparseSpectrumGPRegressor", 50, "gaussian", ALL, n_frequencies=16,
    hyperparameters="averaged", n_hyperparameter_draws=8,
)  # fmt: skip
of_rows(
    "SparseSpectrum transformed", "SparseSpectrumGPRegressor", 80, "skewed", ALL,
    n_frequencies=16, target_transform="yeo-johnson",
)  # fmt: skip
of_rows("Exact", "ExactGPRegressor", 70, "gaussian", ALL, kernel="matern-5/2")
of_rows("Exact outputs", "ExactGPRegressor", 60, "outputs", "cov left")
of_rows("Exact sums", "ExactGPRegressor", 60, "gaussian", ALL, kernel="gaussian + matern-1/2")
of_rows(
    "Exact averaged", "ExactGPRegressor", 50, "gaussian", ALL, hyperparameters="averaged",
    n_hyperparameter_draws=8,
)  # fmt: skip
of_rows("Exact transformed", "ExactGPRegressor", 60, "skewed", ALL, target_transform="log")
of_rows(
    "Exact iterative", "ExactGPRegressor", 60, "gaussian", "cov", solver="iterative",
    optimizer=None, lengthscale=[0.5, 1.5], outputscale=1.0, noise=0.04,
)  # fmt: skip
of_rows(
    "Local", "LocalGPRegressor", 120, "gaussian", "update left", kernel="matern-3/2",
    n_neighbors=12, n_frequencies=8,
)  # fmt: skip
of_rows(
    "Local fitted", "LocalGPRegressor", 120, "gaussian", "update left", n_neighbors=12,
    n_frequencies=8, frequencies="fitted",
)  # fmt: skip
of_rows(
    "Local alone", "LocalGPRegressor", 120, "gaussian", "update left", kernel="matern-1/2",
    n_neighbors=12, n_frequencies=0,
)  # fmt: skip
of_rows("Lattice", "LatticeGPRegressor", 120, "gaussian", "update left", kernel="gaussian")
of_rows(
    "Lattice matern", "LatticeGPRegressor", 120, "gaussian", "update left", kernel="matern-3/2",
    trend="linear",
)  # fmt: skip
on_grid(
    "GraphGP walks", "GraphGPRegressor", 12, "gaussian", ALL, kernel="heat", method="walks",
    hyperparameters="maximum",
)  # fmt: skip
on_grid(
    "GraphGP walks no-hops", "GraphGPRegressor", 10, "gaussian", ALL, kernel="heat", exact_hops=0,
    hyperparameters="maximum",
)  # fmt: skip
on_grid("GraphGP averaged", "GraphGPRegressor", 10, "gaussian", ALL)
on_grid(
    "GraphGP outputs", "GraphGPRegressor", 10, "outputs", "cov left", kernel="matern",
    hyperparameters="maximum",
)  # fmt: skip
on_grid(
    "GraphGP eigenvectors", "ExactGraphGPRegressor", 12, "gaussian", ALL, kernel="matern",
    method="spectral", hyperparameters="maximum",
)  # fmt: skip
on_grid(
    "GraphGP moments", "ExactGraphGPRegressor", 12, "gaussian", ALL, kernel="heat",
    method="series", hyperparameters="maximum",
)  # fmt: skip
on_grid(
    "GraphGP moments iterative", "ExactGraphGPRegressor", 12, "gaussian", "cov", kernel="heat",
    method="series", solver="iterative", optimizer=None,
)  # fmt: skip
on_grid(
    "GraphGP precision", "ExactGraphGPRegressor", 12, "gaussian", "cov left",
    kernel="regularized-laplacian", method="cholesky", optimizer=None,
)  # fmt: skip
on_grid(
    "GraphGP poisson", "GraphGPRegressor", 10, "counts", "update", kernel="heat",
    likelihood="poisson",
)  # fmt: skip
on_grid(
    "GraphGP negative-binomial", "GraphGPRegressor", 10, "counts", "update", kernel="heat",
    likelihood="negative-binomial",
)  # fmt: skip
on_grid(
    "GraphGP student-t", "GraphGPRegressor", 7, "gaussian", "update", kernel="heat",
    likelihood="student-t",
)  # fmt: skip
on_grid("GraphGPClassifier two", "GraphGPClassifier", 10, "two", "", kernel="heat")
on_grid("GraphGPClassifier three", "GraphGPClassifier", 10, "three", "", kernel="matern")
for name, operator, settings, n, levels in (
    ("mesh", surface, {"route": "columns"}, 25, False),
    ("mesh precision", surface, {"route": "precision", "n_frequencies": 32}, 25, False),
    ("mesh precision alone", surface, {"route": "precision", "kernel": "matern"}, 25, False),
    ("mesh creases", surface, {}, 40, True),
    ("mesh maximum", surface, {"hyperparameters": "maximum"}, 25, False),
    ("roads", roads, {"route": "columns"}, 25, False),
    ("roads precision", roads, {"route": "precision"}, 25, False),
):  # fmt: skip
    each(f"kept FieldGP {name}", of_field, operator, settings, n, levels)
for name, settings in {
    "plain": {"usual_day": False},
    "usual-day": {"usual_day": True},
    "counts": {"target_transform": "counts"},
}.items():
    each(f"kept GraphTimeGP {name}", over_time, settings)
