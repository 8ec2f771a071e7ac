"""Files that all hostile cases share."""

import warnings

import pytest
from sklearn.exceptions import ConvergenceWarning

from tests.hostile.shared import write_shared


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """Folder of tables, graphs, a mesh and models."""
    folder = tmp_path_factory.mktemp("shared")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # one step is enough here
        write_shared(folder)
    return folder
