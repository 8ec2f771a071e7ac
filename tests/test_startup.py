"""Time of imports: nothing heavy at the start, and every public name at its first use."""

from __future__ import annotations

import ast
import copy
import importlib
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import coupledgp
from coupledgp.ground.lazy import public_names

ROOT = Path(coupledgp.__file__).parent
PAGES = [ROOT.parent / "README.md", *(ROOT.parent / "docs").glob("*.md")]
README = "".join(path.read_text(encoding="utf-8") for path in PAGES)
HEAVY = [
    "gpytorch",
    "matplotlib",
    "networkx",
    "numba",
    "numpy",
    "pandas",
    "pyarrow",
    "scipy",
    "sklearn",
    "torch",
    "trimesh",
    "typer",
]
LOADED = f"import sys; print(*(name for name in {HEAVY} if name in sys.modules))"
# Names that were public before they were imported lazily; more may be added, none may go.
PUBLIC = {
    "coupledgp": """
        CoupledAttention ExactGPRegressor ExactGraphGPRegressor Graph GraphGPRegressor
        KernelRegressionRegressor SparseSpectrumGPRegressor
        attention_loss coupling_study couplings diagnostics evidence_loss features
        gram_loss kernels load_model pagerank posterior_kl_loss posterior_report
        save_model select theory
    """,
    "coupledgp.couplings": """
        AntitheticLengths CouplingLike Directions DirectionsAndNorms FastDirections
        FrequencyCoupling GaussianCopulaNorms GeometricLaw IidDirections IidLengths
        IndependentNorms IndependentSteps LengthLaw Lengths MatchedLaw MonotoneNorms Norms
        OrthogonalDirections PairwiseNorms QuadratureFrequencies QuasiMonteCarlo
        RepellingSteps SigmaLengths SimplexDirections SimplexPlusDirections Steps
        StratifiedLengths StratifiedNorms StructuredFrequencies SystematicSteps
        WalkerCoupling WalkerCouplingLike available_couplings available_walker_couplings
        parse_coupling parse_walker_coupling posterior_weights register_coupling
        register_directions register_lengths register_norms register_steps solve_sigma
    """,
    "coupledgp.features": """
        AngularCoefficient AngularHybridFeatures ClusteredHybridFeatures Coefficient
        ComplexExponentialFeatures FeatureMap FourierFeatures FourierSampler
        GaussianCoefficient GaussianHybridFeatures GaussianMixtureHybridFeatures HopPlan
        HybridFeatures
        ImportanceLaplaceFeatures LaplaceFeatures LaplaceSampler LearnedCopula
        SoftmaxFeatures Truncation WalkFeatures Walks gram_loss learn_copula
        least_mean_variance plan_hops sample_walk_features sample_walks
        two_law_mean_variance walked_series
    """,
    "coupledgp.kernels": """
        FourierFeatureKernel GraphFeatureKernel GraphKernel GraphKernelLike
        GraphMaternKernel HeatKernel InverseCosineKernel LaplaceFeatureKernel
        LearnedKernel RandomWalkKernel RegularizedLaplacianKernel SeriesOperator
        dense_kernel dense_spectrum parse_graph_kernel
    """,
    "coupledgp.diagnostics": """
        Accuracy Figures PosteriorReport Predictions StochasticOptions compare coverage
        crps gaussian_kl interval_width kernel_error mae nlpd nlpd_joint paired_difference
        pit_histogram rmse sharpness
    """,
    "coupledgp.models": """
        ExactGPRegressor ExactGraphGPRegressor GraphGPRegressor KernelRegressionClassifier
        KernelRegressionRegressor Selection SparseSpectrumGPRegressor coupling_study
        load_model posterior_report save_model select
    """,
    "coupledgp.graphs": """
        Graph lengths_to_weights
    """,
    "coupledgp.testing": """
        CouplingContract DirectionsContract FeatureMapContract GraphKernelContract
        LengthsContract NormsContract StepsContract
    """,
    "coupledgp.attention": """
        AttentionLoss CoupledAttention PositiveFeatures attend attention_loss
        causal_attention full_attention
    """,
    "coupledgp.cli": """
        app main run
    """,
}


def python(code: str, *arguments: str) -> str:
    """Run code in an interpreter of its own and return its output on stdout."""
    run = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    return run.stdout.strip()


def loaded(code: str) -> list[str]:
    """Heavy packages that code has imported."""
    return python(f"{code}\n{LOADED}").split()


@pytest.mark.parametrize(
    "code",
    [
        "import coupledgp",
        "import coupledgp; dir(coupledgp); coupledgp.__all__",
        "import coupledgp as cgp; cgp.features; cgp.kernels; cgp.diagnostics; cgp.couplings",
        *(f"import {package}" for package in PUBLIC),
    ],
)
def test_import_loads_nothing_heavy(code):
    assert loaded(code) == []


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["fit"],
        ["predict"],
        ["field"],
        ["forecast"],
        ["krige"],
        ["interpolate"],
        ["report"],
        ["audit"],
        ["demo"],
    ],
)
def test_help_loads_nothing_heavy_but_typer(arguments):
    code = f"from coupledgp.cli import run\nassert run({[*arguments, '--help']}) == 0"
    *text, last = python(f"{code}\n{LOADED}").splitlines()
    assert last == "typer"
    assert any(f"Usage: {' '.join(['coupledgp', *arguments])} [OPTIONS]" in line for line in text)


def test_the_package_runs_as_the_command_line():
    by_module = subprocess.run(
        [sys.executable, "-m", "coupledgp", "--help"], capture_output=True, text=True, check=True
    )
    by_name = python("from coupledgp.cli import main\nmain()", "--help")
    assert by_module.stdout.strip() == by_name
    assert all(
        f" {name} " in by_name
        for name in ("fit", "predict", "field", "graph", "forecast", "krige", "report", "audit")
    )
    wrong = subprocess.run(
        [sys.executable, "-m", "coupledgp", "nothing"], capture_output=True, text=True, check=False
    )
    assert (wrong.returncode, wrong.stderr.count("\n")) == (2, 1)


def test_importing_the_main_module_does_not_run_it():
    assert python("import coupledgp.__main__") == ""


@pytest.mark.long
def test_a_table_model_loads_nothing_that_it_does_not_use():
    """Above all no numba, which is for graphs and fast couplings; scikit-learn may load pandas."""
    code = """
import numpy as np, coupledgp as cgp
X = np.random.default_rng(0).normal(size=(20, 2))
cgp.SparseSpectrumGPRegressor(n_frequencies=4, max_iter=2).fit(X, X[:, 0]).predict(X)
"""
    assert set(loaded(code)) <= {"numpy", "pandas", "pyarrow", "scipy", "sklearn", "torch"}


def test_a_kernel_of_graphs_does_not_load_gpytorch():
    heavy = loaded("import coupledgp; coupledgp.kernels.HeatKernel")
    assert "numpy" in heavy
    assert "gpytorch" not in heavy


@pytest.mark.parametrize("package", PUBLIC)
def test_public_names_stay_and_resolve(package):
    module = importlib.import_module(package)
    assert set(PUBLIC[package].split()) <= set(module.__all__)
    assert list(module.__all__) == sorted(set(module.__all__))
    assert set(module.__all__) <= set(dir(module))
    for name in module.__all__:
        assert getattr(module, name) is not None
    starred: dict[str, object] = {}
    exec(f"from {package} import *", starred)
    assert {name: starred[name] for name in module.__all__} == {
        name: getattr(module, name) for name in module.__all__
    }


def attributes_in_readme() -> list[str]:
    return sorted(set(re.findall(r"\bcgp\.([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)", README)))


@pytest.mark.parametrize("path", attributes_in_readme())
def test_attributes_in_the_readme_resolve(path):
    found = coupledgp
    for name in path.split("."):
        found = getattr(found, name)


def files_with_attached_names() -> list[Path]:
    return [p for p in sorted(ROOT.rglob("__init__.py")) if "attach(" in p.read_text("utf-8")]


@pytest.mark.parametrize(
    "path", files_with_attached_names(), ids=lambda p: str(p.parent.relative_to(ROOT.parent))
)
def test_type_checkers_see_the_names_that_are_attached(path):
    """The interpreter reads the very imports that type checkers read."""
    package = ".".join(path.parent.relative_to(ROOT.parent).parts)
    (branch,) = (n for n in ast.parse(path.read_text("utf-8")).body if isinstance(n, ast.If))
    imports = [n for n in branch.body if isinstance(n, ast.ImportFrom)]
    seen = {(n.module, alias.name) for n in imports for alias in n.names}
    assert all(alias.name == alias.asname for n in imports for alias in n.names)
    package_itself = importlib.import_module(package)
    assert seen == {(module, name) for name, module in public_names(package_itself).items()}
    assert package_itself.__all__ == sorted(name for _, name in seen)


ORDERS = {
    "module first": "import coupledgp.diagnostics.compare, coupledgp.pagerank, coupledgp.cli.app",
    "name first": """
import coupledgp, coupledgp.cli
coupledgp.diagnostics.compare, coupledgp.pagerank, coupledgp.cli.app
import coupledgp.diagnostics.compare, coupledgp.pagerank, coupledgp.cli.app
""",
    "by another module": """
from coupledgp.pagerank import pagerank
from coupledgp.models import posterior_report
from coupledgp.cli.app import run
""",
    "from import": """
from coupledgp import pagerank
from coupledgp.diagnostics import compare
from coupledgp.cli import app
""",
}


@pytest.mark.long
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_name_shared_with_a_module_is_never_the_module():
    """In each order, by a process that begins without the package, but with what takes seconds."""
    check = """
import importlib, coupledgp, coupledgp.cli
from coupledgp import pagerank
from coupledgp.diagnostics import compare
from coupledgp.cli import app
print(type(pagerank).__name__, type(compare).__name__, type(app).__name__)
assert pagerank is coupledgp.pagerank and compare is coupledgp.diagnostics.compare
assert app is coupledgp.cli.app
assert importlib.import_module("coupledgp.diagnostics.compare").compare is compare
"""
    code = """
import os, sys
import numpy, pandas, pyarrow, rich, scipy.optimize, scipy.sparse, scipy.stats
import sklearn.utils.validation, torch, typer
assert "coupledgp" not in sys.modules
for order in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        exec(order)
        sys.stdout.flush()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, order
"""
    found = python(code, *(order + check for order in ORDERS.values()))
    assert found.splitlines() == ["function function Typer"] * len(ORDERS)


def test_names_that_do_not_exist_are_attribute_errors():
    with pytest.raises(AttributeError, match=r"'coupledgp' has no attribute 'nothing'"):
        coupledgp.nothing  # noqa: B018
    with pytest.raises(ImportError, match="nothing"):
        exec("from coupledgp.features import nothing", {})
    assert not hasattr(coupledgp, "__wrapped__")


def test_public_classes_can_be_pickled():
    for name in coupledgp.__all__:
        value = getattr(coupledgp, name)
        if not isinstance(value, ModuleType):
            assert pickle.loads(pickle.dumps(value)) is value
    model = coupledgp.SparseSpectrumGPRegressor(n_frequencies=7)
    assert pickle.loads(pickle.dumps(model)).n_frequencies == 7
    assert copy.deepcopy(coupledgp.kernels.HeatKernel()) == coupledgp.kernels.HeatKernel()


def test_a_package_without_its_text_is_refused():
    package = ModuleType("packed")
    package.__spec__ = importlib.machinery.ModuleSpec("packed", loader=None)
    with pytest.raises(ImportError, match="packed: expected its source"):
        public_names(package)
