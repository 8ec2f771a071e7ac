"""Files that all hostile cases share."""

import pytest

from tests.hostile.shared import write_shared


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """Folder of tables, graphs, a mesh and models."""
    folder = tmp_path_factory.mktemp("shared")
    write_shared(folder)
    return folder
