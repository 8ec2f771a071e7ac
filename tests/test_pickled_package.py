"""Functions of scripts and notebooks that name the package go to other processes."""

import subprocess
import sys
from types import ModuleType

import cloudpickle
import pytest
from distributed.protocol import deserialize, serialize

import coupledgp as cgp

SCRIPT = """
import coupledgp as cgp
from joblib import Parallel, delayed

def loss(k):
    return type(cgp.Graph.from_edges([0], [1], n_nodes=2)).__name__, cgp.__name__

if __name__ == "__main__":
    print(Parallel(n_jobs=2)(delayed(loss)(k) for k in range(2)))
"""
PACKAGES = [cgp, *(x for x in map(cgp.__getattr__, cgp.__all__) if isinstance(x, ModuleType))]


def name_of(package):
    return package.__name__


@pytest.mark.parametrize("package", PACKAGES, ids=name_of)
def test_a_package_is_itself_after_cloudpickle(package):
    assert cloudpickle.loads(cloudpickle.dumps(package)) is package


def test_a_function_that_names_the_package_goes_to_workers():
    scope = {"cgp": cgp, "__name__": "__main__"}
    exec("def named(): return cgp.Graph.__name__", scope)  # as in a notebook: pickled by value
    assert cloudpickle.loads(cloudpickle.dumps(scope["named"]))() == "Graph"
    assert deserialize(*serialize(scope["named"]))() == "Graph"


def test_a_script_runs_with_joblib(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    assert done.stdout.strip() == str([("Graph", "coupledgp")] * 2), done.stderr
