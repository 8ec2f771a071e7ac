"""Permissions, owner, access list and attributes of a file that is written anew."""

from __future__ import annotations

import pytest

from coupledgp.ground.output import write_text, written_whole
from tests.outputs.written import OLD, mode, umask


@pytest.mark.parametrize("wanted", [0o640, 0o600, 0o644, 0o666, 0o755])
def test_permissions_of_an_old_file_are_kept(tmp_path, wanted):
    path = tmp_path / "file"
    path.write_text(OLD)
    path.chmod(wanted)
    with umask(0o022):
        write_text(path, "new")
    assert (path.read_text(), mode(path)) == ("new", wanted)


def test_permissions_of_a_new_file_follow_the_umask(tmp_path):
    for mask in (0o022, 0o077, 0o002):
        path = tmp_path / f"{mask}"
        with umask(mask):
            write_text(path, "new")
        assert mode(path) == 0o666 & ~mask


def test_nobody_else_reads_a_file_before_it_is_complete(tmp_path):
    path = tmp_path / "file"
    path.write_text(OLD)
    path.chmod(0o666)
    with written_whole(path) as temporary:
        assert mode(temporary) == 0o600
        temporary.write_text("new")
