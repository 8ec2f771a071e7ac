"""Old import paths lead to the modules that took their place, and `dir` shows public names only."""

import pickle
import subprocess
import sys
from importlib import import_module

import pytest

import coupledgp
from coupledgp.ground.moved import MOVED, MovedModules


@pytest.mark.parametrize("old", MOVED)
def test_old_and_new_path_are_one_module(old):
    assert import_module(old) is import_module(MOVED[old])


def test_files_of_a_moved_folder_are_not_loaded_twice():
    old = import_module("coupledgp.inference.search.averaging")
    new = import_module("coupledgp.search.averaging")
    assert old is new
    assert new.__spec__.name == new.__name__ == "coupledgp.search.averaging"


def test_objects_pickled_by_an_old_path_load():
    new = import_module("coupledgp.ground.memory")
    name = next(n for n, v in vars(new).items() if getattr(v, "__module__", "") == new.__name__)
    text = pickle.dumps(getattr(new, name), protocol=0).replace(b"coupledgp.ground.", b"coupledgp.")
    assert pickle.loads(text) is getattr(new, name)


def test_other_names_are_left_to_others():
    finder = MovedModules({"coupledgp.old": "coupledgp.gp"})
    assert finder.find_spec("elsewhere.old", None) is None
    assert finder.find_spec("coupledgp.older", None) is None
    assert finder.new_path("coupledgp.old.exact") == "coupledgp.gp.exact"


def test_old_paths_work_before_anything_else_is_imported():
    code = "from coupledgp.memory import check_memory as a\n" + (
        "from coupledgp.ground.memory import check_memory as b\nassert a is b"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_dir_shows_the_public_names_and_the_version():
    assert set(dir(coupledgp)) == {*coupledgp.__all__, "__version__"}
    assert set(dir(coupledgp.graphs)) == set(coupledgp.graphs.__all__)


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        ("inference.fields.covariance", "Kept", "SizedCache"),
        ("inference.fields.covariance", "Known", "ElementCovariance"),
        ("inference.space_time.gains", "Shared", "Dynamics"),
        ("inference.space_time.graph_sites", "_Shared", "_GraphMoments"),
    ],
)
def test_parts_of_fitted_models_load_by_their_old_class_name(module, old, new):
    path = f"coupledgp.{module}"
    text = f"c{path}\n{old}\n.".encode()  # a pickle of the class itself
    assert pickle.loads(text) is getattr(import_module(path), new)
