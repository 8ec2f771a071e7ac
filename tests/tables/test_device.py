"""Estimators on a device: what they learn on the CPU, computed where `device` says."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.base import clone

import coupledgp as cgp
from coupledgp.errors import InvalidInputError, MemoryLimitError
from coupledgp.ground.devices import cuda_devices, free_bytes, parse_device
from coupledgp.ground.parameters import folded
from coupledgp.tables.batched_evidence import KEPT_ROWS
from coupledgp.tables.local_search import Round
from coupledgp.tables.spectrum_descent import KLSettings
from tests.often import often
from tests.pretend_device import DEVICE, gradients_on, pretend_device

RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=60)
POINTS = RNG.normal(size=(7, 2))
NO_CUDA = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device")


@pytest.fixture(params=["pretend", pytest.param("cuda", marks=NO_CUDA)])
def device(request: pytest.FixtureRequest) -> Iterator[torch.device]:
    """A device beside the CPU: the one that is not there, and one that is, where there is one."""
    pretend = request.param == "pretend"
    with pretend_device() if pretend else nullcontext():
        yield DEVICE if pretend else parse_device("cuda")


def sparse(**parameters: Any) -> Any:
    usual = {"n_frequencies": 6, "random_state": 0, "max_iter": 4, "n_restarts": 0}
    return cgp.SparseSpectrumGPRegressor(
        **folded(cgp.SparseSpectrumGPRegressor, (usual | {"progress": False} | parameters))
    )


def fit(model: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # searches end early
        return model.fit(X, Y)


def local(**parameters: Any) -> Any:
    usual = {"kernel": "matern-3/2", "n_frequencies": 3, "n_neighbors": 5, "random_state": 0}
    return cgp.LocalGPRegressor(**(usual | {"progress": False} | parameters))


FITTED = {"frequencies": "fitted", "n_frequencies": 3}
MODELS = {
    "more rows": lambda **device: fit(sparse(**device)),
    "more features": lambda **device: fit(sparse(n_frequencies=40, **device)),
    "laplace": lambda **device: fit(sparse(features="laplace", **device)),
    "fast transform": lambda **device: fit(
        sparse(coupling="orthogonal-fast", optimizer=None, **device)
    ),
    "float32": lambda **device: fit(sparse(dtype="float32", optimizer=None, **device)),
    "weights": lambda **device: sparse(**device).fit(X, Y, sample_weight=1.0 + np.arange(60) % 3),
    "averaged": lambda **device: fit(
        sparse(hyperparameters="averaged", n_hyperparameter_draws=6, **device)
    ),
    "transformed": lambda **device: fit(sparse(target_transform="yeo-johnson", **device)),
    "batches": lambda **device: sparse(**device).fit_batches([(X[:40], Y[:40]), (X[40:], Y[40:])]),
    "more data": lambda **device: fit(sparse(**device)).partial_fit(POINTS, POINTS[:, 0]),
}


def results(model: Any) -> dict[str, np.ndarray]:
    mean, covariance = model.predict(POINTS, return_cov=True)
    found = {
        "mean": mean,
        "covariance": covariance,
        "std": model.predict(POINTS, return_std=True)[1],
        "draws": model.sample_y(POINTS, 3),
        "density": model.log_density(POINTS, POINTS[:, 0]),
        "quantiles": model.predict_quantiles(POINTS),
        "prior": model.prior_covariance(POINTS),
        "evidence": np.array(model.log_marginal_likelihood_value_),
    }
    assert {type(value) for value in found.values()} == {np.ndarray}
    return found


def assert_same(found: Any, expected: Any, rtol: float = 1e-6) -> None:
    values = results(found)
    for name, value in results(expected).items():
        np.testing.assert_allclose(values[name], value, rtol, 1e-6, err_msg=name)


@pytest.mark.parametrize("name", often(MODELS, "more rows", "float32", "transformed"))
def test_a_model_is_the_same_on_a_device(name: str, device: torch.device) -> None:
    here, there = (MODELS[name](device=where) for where in (None, device))
    assert there.features_.device == device
    assert here.features_.device.type == "cpu"
    drawn = [model.features_.frequencies.cpu().numpy() for model in (here, there)]
    np.testing.assert_allclose(*drawn, rtol=1e-14 if name == "fast transform" else 0)
    assert_same(there, here, 2e-3 if name == "float32" else 1e-6)


def test_fitted_spectra_are_fitted_on_the_device(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = KLSettings(n_steps=10, n_queries=8, n_starts=2)
    monkeypatch.setattr("coupledgp.tables.spectrum_search.KLSettings", lambda: short)
    model = fit(sparse(**FITTED, teacher_rows=30, device=device))
    assert {member.features_.device for member in model.members_} == {device}
    assert np.isfinite(model.predict(POINTS)).all()


@pytest.mark.parametrize("parameters", [
    {"dtype": "float32", "optimizer": None, "noise": 1e-7}, {"optimizer": None, "noise": 1e-12},
], ids=["single", "double"])  # fmt: skip
def test_noise_that_sums_lose_is_found_on_the_device(
    parameters: dict[str, Any], device: torch.device
) -> None:
    here, there = (fit(sparse(device=where, **parameters)) for where in (None, device))
    assert there.process_.posterior.factor.device == device
    assert there.features_.dtype == here.features_.dtype == torch.float64
    np.testing.assert_allclose(there.predict(POINTS), here.predict(POINTS), rtol=1e-3, atol=1e-5)


@pytest.mark.long
def test_the_ladder_of_rows_is_climbed_on_the_device(device: torch.device) -> None:
    inputs = np.random.default_rng(1).normal(size=(2200, 1))
    targets = np.sin(3 * inputs[:, 0])
    here, there = (sparse(n_frequencies=40, noise=0.1, fixed=("noise",), device=where)
                   for where in (None, device))  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        predictions = [gp.fit(inputs, targets).predict(POINTS[:, :1]) for gp in (here, there)]
    assert there.search_ is not None
    np.testing.assert_allclose(*predictions, rtol=1e-3, atol=1e-3)


def test_twins_comparisons_and_left_out_laws(device: torch.device) -> None:
    here, there = (fit(sparse(device=where)) for where in (None, device))
    twins = [model.exact_twin().predict(POINTS) for model in (here, there)]
    np.testing.assert_allclose(*twins, rtol=1e-6)
    reports = [cgp.report(model, POINTS, POINTS[:, 0]) for model in (here, there)]
    assert reports[1].score("kl") == pytest.approx(reports[0].score("kl"), rel=1e-4)
    groups = np.arange(60) // 20
    laws = [model.process_.left_out_law(groups) for model in (here, there)]
    for ours, theirs in zip(*laws, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)


LOCAL = {
    "features and neighbours": local,
    "fitted frequencies": lambda **device: local(frequencies="fitted", **device),
    "neighbours": lambda **device: local(n_frequencies=0, kernel="matern-0.8", **device),
    "features": lambda **device: local(kernel=None, **device),
    "transformed": lambda **device: local(target_transform="yeo-johnson", **device),
    "mixture": lambda **device: cgp.GPRegressor(
        ("hybrid",), n_neighbors=5, n_frequencies=3, random_state=0,
        progress=False, **device,
    ),
}  # fmt: skip


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Searches of a few steps."""
    for module in ("models.local", "selection.near_members"):
        for name in ("SCREENING", "LOCAL_ROUNDS", "FITTING_ROUNDS"):
            monkeypatch.setattr(f"coupledgp.{module}.{name}", (Round(40, 3),))
    monkeypatch.setattr("coupledgp.tables.member_kinds.SCREENING", (Round(40, 3),))
    monkeypatch.setattr("coupledgp.tables.members.LEAST_ROWS", 20)


@pytest.mark.long
@pytest.mark.usefixtures("short")
@pytest.mark.parametrize("name", LOCAL)
def test_a_local_model_is_the_same_on_a_device(
    name: str, device: torch.device, tmp_path: Any
) -> None:
    with gradients_on(device):
        here, there = (fit(LOCAL[name](device=where)) for where in (None, device))
    assert_same(there, here)
    assert_same(there.partial_fit(POINTS, POINTS[:, 0]), here.partial_fit(POINTS, POINTS[:, 0]))
    cgp.save_model(there, tmp_path / "m")
    for where in (None, device):
        assert_same(cgp.load_model(tmp_path / "m", device=where), here)


@pytest.mark.long
def test_rows_are_whitened_and_kriged_on_the_device() -> None:
    with pretend_device() as device, gradients_on(DEVICE):
        model = local().fit(X, Y)
        assert device.left == []
        there = model.process_.on(DEVICE)
        there.conditioned(there.data)
        assert (6 + 3, 6 + 3) in device.left  # sums over rows, not rows
        assert max(shape[0] for shape in device.left if shape) < len(X)
        device.left.clear()
        groups = np.arange(60) // 20
        for ours, theirs in zip(there.left_out_law(groups), model.process_.left_out_law(groups),
                                strict=True):  # fmt: skip
            np.testing.assert_allclose(ours, theirs, rtol=1e-8)
        assert (60, 5) in device.left  # weights of neighbours


@pytest.mark.parametrize(
    "name",
    often(["more rows", "more features", "averaged", "transformed"], "more features"),
)
def test_files_are_of_no_device(name: str, device: torch.device, tmp_path: Any) -> None:
    model = MODELS[name](device=device)
    cgp.save_model(model, tmp_path / "m", include_data=True)
    here, there = cgp.load_model(tmp_path / "m"), cgp.load_model(tmp_path / "m", device=device)
    assert here.device is None
    assert here.features_.device.type == "cpu"
    assert_same(here, model)
    assert there.device == device
    assert there.features_.device == device
    assert_same(there, model)
    assert_same(there.partial_fit(X[:9], Y[:9]), here.partial_fit(X[:9], Y[:9]))


@pytest.mark.long
def test_a_device_is_a_parameter_like_others(device: torch.device) -> None:
    model = fit(sparse(device=str(device)))
    other = clone(model).set_params(device="cpu")
    assert other.device == "cpu"
    assert clone(model).device == str(device)
    assert_same(model, fit(other))
    assert fit(sparse(device="auto")).features_.device == device


@pytest.mark.parametrize("call", [
    lambda model: model.fit(X, Y),
    lambda model: model.fit_batches([(X, Y)]),
    lambda model: local(device=model.device).fit(X, Y),
    lambda model: cgp.GPRegressor(device=model.device).fit(X, Y),
    lambda model: cgp.load_model("nothing", device=model.device),
], ids=["fit", "fit_batches", "local", "mixture", "load"])  # fmt: skip
def test_a_device_that_is_not_there(call: Any) -> None:
    where = f"cuda:{max(cuda_devices()[0], 7)}"
    with pytest.raises(InvalidInputError, match=f"^device: .*'{where}'; torch .*None means") as e:
        call(sparse(device=where))
    assert "finds" in str(e.value)
    for device in ("gpu", "mps", 0, "cuda:x", ["cuda"]):
        with pytest.raises(InvalidInputError, match=r"^device: expected None or 'cpu'"):
            call(sparse(device=device))
    fit(sparse(device="cpu"))


def test_devices_have_numbers() -> None:
    assert parse_device(None) == parse_device("cpu") == torch.device("cpu")
    with pretend_device():
        assert parse_device("cuda") == parse_device("auto") == DEVICE
        assert parse_device("cuda:3") == torch.device("cuda", 3)
        with pytest.raises(InvalidInputError, match="finds cuda:0 to cuda:7"):
            parse_device("cuda:8")


@pytest.mark.parametrize("parameters", [
    {"n_frequencies": 40}, {"n_frequencies": 2}, FITTED,
    {"hyperparameters": "averaged"},
], ids=["features", "chunks", "fitted", "averaged"])  # fmt: skip
def test_what_does_not_fit_on_a_device_is_refused(parameters: dict[str, Any]) -> None:
    with pretend_device(free=2**20), pytest.raises(MemoryLimitError, match=r"^n_frequencies: .*7"):
        sparse(device=DEVICE, **parameters).fit(X, Y)


def test_neighbours_of_a_batch_fit_on_a_device() -> None:
    with (
        pretend_device(free=2**20),
        pytest.raises(MemoryLimitError, match=r"^n_neighbors: .*cuda:7"),
    ):
        local(device=DEVICE).fit(X, Y)


def test_models_on_graphs_stay_on_the_processor(tmp_path: Any) -> None:
    graph = cgp.Graph.from_edges([0, 1, 2], [1, 2, 3])
    model = cgp.ExactGraphGPRegressor(graph, random_state=0).fit([0, 1, 3], [0.0, 1.0, 2.0])
    cgp.save_model(model, tmp_path / "m")
    with pretend_device(), pytest.raises(InvalidInputError, match=r"^device: expected None, since"):
        cgp.load_model(tmp_path / "m", device="cuda")


def test_passes_over_batches_ask_for_the_memory_of_the_device() -> None:
    many = np.zeros((KEPT_ROWS + 1, 1)), np.zeros(KEPT_ROWS + 1)
    with pretend_device(free=1e5), pytest.raises(MemoryLimitError, match="free on cuda:7; take"):
        sparse(device=DEVICE, n_frequencies=64).fit_batches([many])


def test_workers_of_a_cluster_take_their_processors() -> None:
    pytest.importorskip("distributed")
    with (
        pretend_device(),
        pytest.raises(InvalidInputError, match=r"^device: expected None on a cl"),
    ):
        cgp.dask.fit(sparse(device=DEVICE), X, Y)


@NO_CUDA
def test_free_bytes_of_a_device() -> None:
    device = parse_device("cuda")
    before = free_bytes(device)
    held = torch.zeros(2**26, dtype=torch.uint8, device=device)
    assert free_bytes(device) <= before - held.numel() + 2**24


def exact(**parameters: Any) -> Any:
    usual = {"random_state": 0, "max_iter": 4, "n_restarts": 0, "progress": False}
    return cgp.ExactGPRegressor(**folded(cgp.ExactGPRegressor, (usual | parameters)))


EXACT = {
    "gaussian": lambda **device: fit(exact(**device)),
    "matern-1/2": lambda **device: fit(exact(kernel="matern-1/2", **device)),
    "matern-0.8": lambda **device: fit(exact(kernel="matern-0.8", ard=False, **device)),
    "weights": lambda **device: exact(**device).fit(X, Y, sample_weight=1.0 + np.arange(60) % 3),
    "averaged": lambda **device: fit(
        exact(hyperparameters="averaged", n_hyperparameter_draws=6, **device)
    ),
    "transformed": lambda **device: fit(exact(target_transform="yeo-johnson", **device)),
    "more data": lambda **device: fit(exact(**device)).partial_fit(POINTS, POINTS[:, 0]),
}


@pytest.mark.parametrize("name", often(EXACT, "gaussian", "more data"))
def test_an_exact_model_is_the_same_on_a_device(
    name: str, device: torch.device, tmp_path: Any
) -> None:
    here, there = (EXACT[name](device=where) for where in (None, device))
    assert_same(there, here)
    groups = np.arange(len(there.process_.data)) // 20
    laws = [model.process_.left_out_law(groups) for model in (here, there)]
    for ours, theirs in zip(*laws, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    cgp.save_model(there, tmp_path / "m")
    for where in (None, device):
        assert_same(cgp.load_model(tmp_path / "m", device=where), here)


def test_many_columns_have_gradients_on_the_device(device: torch.device) -> None:
    wide = np.random.default_rng(3).normal(size=(40, 70))
    found = [exact(max_iter=2, device=where).fit(wide, wide[:, 0]) for where in (None, device)]
    # Steps of the search multiply rounding, which differs from processor to processor.
    np.testing.assert_allclose(found[1].lengthscale_, found[0].lengthscale_, rtol=1e-4)


def test_matrices_of_an_exact_model_stay_on_the_device() -> None:
    with pretend_device() as mode:
        model = fit(exact(device=DEVICE))
        assert model.process_.factor.device == DEVICE
        assert not [shape for shape in mode.left if np.prod(shape) > len(X)]
        mode.left.clear()
        model.predict(POINTS, return_std=True)
        assert mode.left == [(7, 1), (7,)]


def test_what_an_exact_model_refuses() -> None:
    with pretend_device(free=2**17), pytest.raises(MemoryLimitError, match=r"^X: 60 rows.*cuda:7"):
        exact(device=DEVICE).fit(X, Y)
    with pytest.raises(InvalidInputError, match=r"^device: expected None or 'cpu'"):
        exact(device="gpu").fit(X, Y)


def ring(n_nodes: int) -> Any:
    return cgp.Graph.from_edges(np.arange(n_nodes), np.roll(np.arange(n_nodes), -1))


SMALL, LARGE = ring(60), ring(1300)  # of more than 1200 nodes nothing is walked
PLACES = np.random.default_rng(2).permutation(60)[:30]


def on_graph(kind: Any = cgp.ExactGraphGPRegressor, graph: Any = SMALL, **parameters: Any) -> Any:
    usual = {"kernel": cgp.kernels.HeatKernel(3.0), "random_state": 0, "progress": False}
    given = usual | {"optimizer": None, "noise": 0.05} | parameters
    model = kind(graph, **folded(kind, given))
    return model.fit(PLACES, np.sin(PLACES / 9.0))


@pytest.mark.parametrize("parameters", [
    {}, {"solver": "iterative", "n_variance_samples": 8, "exact_variances": 0},
    {"optimizer": "lbfgs", "hyperparameters": "maximum", "fixed": ("noise", "outputscale")},
    {"kind": cgp.GraphGPRegressor, "graph": LARGE},
], ids=["given", "iterative", "searched", "without walks"])  # fmt: skip
def test_a_model_of_a_graph_multiplies_on_a_device(
    parameters: dict[str, Any], device: torch.device, tmp_path: Any
) -> None:
    there = on_graph(device=device, **parameters)
    series = on_graph(**parameters | {"kind": cgp.ExactGraphGPRegressor, "method": "series"})
    assert (there.method_, there.method_reason_) == ("series", f"products on {device}")
    assert there.process_.prior_of_nodes.device == device
    nodes = np.arange(0, 60, 5)
    for ours, theirs in zip(series.predict(nodes, return_std=True),
                            there.predict(nodes, return_std=True), strict=True):  # fmt: skip
        np.testing.assert_allclose(theirs, ours, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(
        there.sample_y(nodes, 2), series.sample_y(nodes, 2), rtol=1e-3, atol=1e-4
    )
    cgp.save_model(there, tmp_path / "m")
    assert cgp.load_model(tmp_path / "m").process_.recipe.device.type == "cpu"


def test_a_model_of_a_graph_is_moved_to_a_device(tmp_path: Any) -> None:
    cgp.save_model(on_graph(method="series"), tmp_path / "m")
    here = cgp.load_model(tmp_path / "m").predict(PLACES[:5])
    with pretend_device() as mode:
        there = cgp.load_model(tmp_path / "m", device=DEVICE)
        np.testing.assert_allclose(there.predict(PLACES[:5]), here, rtol=1e-6, atol=1e-8)
        assert mode.left


def test_methods_of_graphs_without_products_on_a_device_refuse_it() -> None:
    with pretend_device():
        for method in ("spectral", "cholesky"):
            with pytest.raises(InvalidInputError, match=f"^device: .* beside method='{method}'"):
                on_graph(method=method, device=DEVICE)
        for walks in ({"method": "walks"}, {"n_walks": 8}):
            with pytest.raises(InvalidInputError, match=r"^device: expected None where nodes are"):
                on_graph(cgp.GraphGPRegressor, LARGE, device=DEVICE, **walks)
        with pytest.raises(InvalidInputError, match=r"^device: expected None where nodes are"):
            on_graph(cgp.GraphGPRegressor, SMALL, device="cuda")
    with pytest.raises(InvalidInputError, match=r"^device: expected None or 'cpu'"):
        on_graph(device="gpu")
