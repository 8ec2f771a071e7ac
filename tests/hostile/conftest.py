"""Files that all hostile cases share."""

import warnings

import pytest
from sklearn.exceptions import ConvergenceWarning

from coupledgp.search.nodes import quadrature as averaging
from tests.hostile.shared import write_shared


@pytest.fixture(autouse=True)
def _few_kernels(monkeypatch):
    """Averages over few kernels: cases are about what is read and refused, not about fits."""
    monkeypatch.setattr(averaging, "COARSE", (4, 6))
    monkeypatch.setattr(averaging, "FINE", (4, 6))


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """Folder of tables, graphs, a mesh and models."""
    folder = tmp_path_factory.mktemp("shared")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # one step is enough here
        write_shared(folder)
    return folder
