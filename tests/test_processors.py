"""What is drawn does not hang on the processor: other instructions round otherwise, no more."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from tests.processors import available_settings

ROOT = Path(__file__).parents[1]
# Roots of singular covariances have half of the digits; searches end by a tolerance.
TOLERANCE, OF_SEARCHES = 1e-6, 1e-4


def drawn(path, settings):
    environment = {**os.environ, **settings}
    subprocess.run(
        [sys.executable, "-m", "tests.drawn", path], env=environment, cwd=ROOT, check=True
    )
    with np.load(path) as arrays:
        return dict(arrays)


@pytest.fixture(scope="module")
def everywhere(tmp_path_factory):
    """What is drawn with the processor's own instructions, and with the oldest."""
    folder = tmp_path_factory.mktemp("drawn")
    with ThreadPoolExecutor(2) as pool:
        settings = {"own": {}, "oldest": available_settings()["oldest"]}
        found = {
            name: pool.submit(drawn, folder / f"{name}.npz", s) for name, s in settings.items()
        }
        return {name: future.result() for name, future in found.items()}


def test_choices_and_draws_are_the_same_on_another_processor(everywhere):
    own, oldest = everywhere["own"], everywhere["oldest"]
    assert own.keys() == oldest.keys()
    for name, values in own.items():
        if values.dtype.kind == "i":
            np.testing.assert_array_equal(oldest[name], values, name)
        else:
            least = OF_SEARCHES if name.startswith("averaged") else TOLERANCE
            gap = np.abs(oldest[name] - values).max()
            assert gap <= least * np.abs(values).max(), name


def test_the_other_settings_change_rounding(everywhere):
    """Otherwise nothing was compared; a processor or library may have no other instructions."""
    same = [np.array_equal(a, everywhere["oldest"][name]) for name, a in everywhere["own"].items()]
    if all(same):
        pytest.skip("this processor or these libraries know one set of instructions alone")


def test_settings_name_features_that_numpy_dispatches():
    from numpy._core._multiarray_umath import __cpu_dispatch__

    for settings in available_settings().values():
        assert set(settings.get("NPY_DISABLE_CPU_FEATURES", "").split()) <= set(__cpu_dispatch__)
