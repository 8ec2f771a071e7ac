"""A plain installation, without the libraries of the extras: what works, and what names its extra.

Programs run in processes of their own, in which those libraries cannot be found.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import coupledgp
from coupledgp.ground.extras import EXTRAS

ROOT = Path(coupledgp.__file__).parents[1]


# robust_laplacian is no more than a better operator of bad triangles.
LACKED = sorted(set(EXTRAS) - {"robust_laplacian"})
LACKING = f"""
import sys

class Lacking:
    "Finds that libraries are not installed."

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {LACKED}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Lacking())
"""
BEGIN = """
import sys
import numpy as np
import coupledgp as cgp

rng = np.random.default_rng(0)

def ring(n):
    nodes = np.arange(n)
    return cgp.Graph.from_edges(nodes, (nodes + 1) % n)
"""
DOMAINS = {
    "table": """
X = rng.uniform(size=(60, 2))
y = np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=60)
gp, points = cgp.ExactGPRegressor().fit(X, y), X[:7] + 0.01
report = cgp.report(gp, X[:20], y[:20])
""",
    "automatic": """
import warnings

X = rng.uniform(size=(80, 2))
y = np.sin(6 * X[:, 0]) + X[:, 1] ** 2 + 0.1 * rng.normal(size=80)
points = X[:7] + 0.01
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    cgp.GPRegressor(random_state=0).fit(X[:, :1], y)
    gp = cgp.GPRegressor(random_state=0).fit(X, y)
(first, second) = [str(one.message) for one in told]
assert first.startswith("model: 'auto' tries exact alone, since torch is not installed")
assert second.startswith("model: 'auto' tries exact, additive alone")
assert {one.category for one in told} == {cgp.errors.MissingModelsWarning}
gap = gp.predict(points) - np.sin(6 * points[:, 0]) - points[:, 1] ** 2
assert np.sqrt(np.mean(gap ** 2)) < 0.1
more = rng.uniform(size=(320, 2))  # enough rows to tell noise that varies
with warnings.catch_warnings(record=True):
    warnings.simplefilter("always")
    many = cgp.GPRegressor(random_state=0).fit(more, more[:, 0] + rng.normal(size=320))
assert "torch, which it takes, is not installed" in many.explain()
try:
    cgp.GPRegressor().forecast(20_000, 8)
except cgp.errors.MissingLibraryError as error:
    assert "coupledgp[torch]" in str(error)
else:
    raise AssertionError("no error of many rows")
report = cgp.report(gp, points, np.sin(6 * points[:, 0]) + points[:, 1] ** 2)
""",
    "lattice": """
X = rng.uniform(size=(200, 1))
y = np.sin(6 * X[:, 0]) + 0.1 * rng.normal(size=200)
gp, points = cgp.LatticeGPRegressor(kernel="matern-3/2", random_state=0).fit(X, y), X[:7]
report = cgp.cross_validate(gp, groups=np.arange(200) % 4)
""",
    "graph": """
nodes = rng.choice(400, 120, replace=False)
y = np.sin(nodes / 20) + 0.1 * rng.normal(size=120)
gp, points = cgp.ExactGraphGPRegressor(ring(400)).fit(nodes, y), np.arange(9)
report = cgp.cross_validate(gp)
""",
    "walks": """
nodes = rng.choice(400, 120, replace=False)
y = np.sin(nodes / 20) + 0.1 * rng.normal(size=120)
gp, points = cgp.GraphGPRegressor(ring(400), random_state=0).fit(nodes, y), np.arange(9)
report = cgp.report(gp, points, np.sin(points / 20))
""",
    "field": """
import trimesh

part = trimesh.creation.box((4.0, 2.0, 1.0))
points, _ = trimesh.sample.sample_surface(part, 40, seed=0)
y = 20 + 5 * points[:, 0] + np.sin(3 * points[:, 2])
gp = cgp.FieldGPRegressor(part).fit(points, y)
report = cgp.cross_validate(gp)
""",
}
SAVED = """
mean, std = gp.predict(points, return_std=True)
assert np.isfinite(mean).all() and (std > 0).all()
gp.save("model")
again, spread = cgp.load_model("model").predict(points, return_std=True)
np.testing.assert_allclose(again, mean, rtol=1e-9, atol=1e-12)
np.testing.assert_allclose(spread, std, rtol=1e-9)
assert str(report) and report.to_dict()
"""
SERIES = """
values = np.cumsum(rng.normal(size=(12, 40)), axis=1)
values[rng.random(values.shape) < 0.1] = np.nan
gp = cgp.GraphTimeGPRegressor(ring(60)).fit(np.arange(0, 60, 5), np.arange(40.0), values)
mean = gp.predict(times=[40.0, 41.0])
gp.save("model")
np.testing.assert_allclose(cgp.load_model("model").predict(times=[40.0, 41.0]), mean, rtol=1e-9)
assert str(cgp.hide(gp, np.arange(0, 60, 5), np.arange(40.0), values))
"""
ERRORS = """
import pandas

X = rng.uniform(size=(60, 2))
y = np.sin(6 * X[:, 0])
report = cgp.report(cgp.ExactGPRegressor().fit(X, y), X[:9], y[:9])

def frequencies():
    cgp.SparseSpectrumGPRegressor(n_frequencies=8, random_state=0).fit(X, y)

for work, extra in [
    (frequencies, "torch"),
    (lambda: cgp.kernels.GraphFeatureKernel, "torch"),
    (lambda: cgp.CoupledAttention, "torch"),
    (lambda: cgp.ExactGPRegressor().fit(pandas.DataFrame({"a": ["x", "y"] * 30}), y), "cli"),
]:
    try:
        work()
    except ImportError as error:
        assert isinstance(error, cgp.errors.MissingLibraryError), error
        assert f"coupledgp[{extra}]" in str(error), error
        print("https://download.pytorch.org/whl/cpu" in str(error), extra == "torch")
    else:
        print("no error of", extra)
"""


def run(code: str, folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    variables = os.environ | {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}
    return subprocess.run(
        [sys.executable, *(command or ("-c", code))], cwd=folder, env=variables,
        capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_what_needs_a_library_names_its_extra_and_everything_else_works(tmp_path):
    """Of tables, graphs, fields and series, one after the other in one process."""
    own = [BEGIN + DOMAINS[domain] + SAVED for domain in ("table", "graph", "field")]
    result = run(LACKING + "".join(own) + BEGIN + SERIES + BEGIN + ERRORS, tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["True True"] * 3 + ["False False"]


@pytest.mark.long
@pytest.mark.parametrize("domain", ["automatic", "lattice", "walks"])
def test_every_domain_works_without_the_libraries_of_the_extras(domain, tmp_path):
    result = run(LACKING + BEGIN + DOMAINS[domain] + SAVED, tmp_path)
    assert result.returncode == 0, result.stderr


def test_the_command_line_names_its_extra(tmp_path):
    result = run(LACKING + "from coupledgp.cli import main; main()", tmp_path)
    assert result.returncode == 2
    assert 'pip install "coupledgp[cli]"' in result.stderr
    assert "Traceback" not in result.stderr


@pytest.mark.long
@pytest.mark.parametrize("domain", ["graph", "field"])
def test_torch_is_not_imported_where_it_is_installed(domain, tmp_path):
    result = run(BEGIN + DOMAINS[domain] + SAVED + "print('torch' in sys.modules)", tmp_path)
    assert result.stdout.split() == ["False"], result.stderr


@pytest.mark.long
def test_features_are_written_before_torch_is_imported(tmp_path):
    """A model of a table is fitted, saved and judged before."""
    pytest.importorskip("torch", reason="`make light` has none")
    code = """
from coupledgp.features import FourierFeatures
assert "torch" not in sys.modules
made = FourierFeatures(2, 8, generator=0)
import torch
assert made(torch.zeros(3, 2)).dtype == torch.float64
"""
    result = run(BEGIN + DOMAINS["table"] + SAVED + code, tmp_path)
    assert result.returncode == 0, result.stderr


def test_all_and_every_library_of_an_extra_are_in_the_metadata():
    import tomllib

    described = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed, extras = " ".join(described["dependencies"]), described["optional-dependencies"]
    (everything,) = extras["all"]
    for library, extra in EXTRAS.items():
        assert library not in needed
        assert extra in everything
        if library != "linear_operator":  # which gpytorch brings
            assert any(one.startswith(library) for one in extras[extra])


DEMO = """
import json
from pathlib import Path
from coupledgp.cli import demo, run

demo.WALKERS, demo.WALKS, demo.SEEN, demo.COMPARED = ("iid", "sigma"), (16, 32), 60, 40
assert run(["demo", "-o", "demo", "--draws", "2"]) == 0
for name in ("mesh", "field"):
    assert json.loads(Path("demo", f"{name}.json").read_text())
    assert "<svg" in Path("demo", f"{name}.html").read_text()
assert not Path("demo", "table.html").exists()
"""


@pytest.mark.long
def test_the_demo_without_torch_says_in_one_line_what_is_left_out(tmp_path):
    only_torch = LACKING.replace(str(LACKED), str(["gpytorch", "linear_operator", "torch"]))
    result = run(only_torch + DEMO, tmp_path)
    assert result.returncode == 0, result.stderr
    (told,) = [line for line in result.stderr.splitlines() if "left out" in line]
    assert told.startswith("coupledgp: table.html is left out")
    assert 'pip install "coupledgp[torch]"' in told
    written = result.stdout.splitlines()[-1]
    assert "mesh.html" in written
    assert "field.html" in written
    assert "table.html" not in written
