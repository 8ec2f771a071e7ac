"""Permissions, owner, access list and attributes of a file that is written anew."""

from __future__ import annotations

import errno
import os
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from coupledgp.ground import output
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


as_root = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to others")


@as_root
def test_owner_and_group_are_kept(tmp_path):
    path = tmp_path / "file"
    path.write_text(OLD)
    os.chown(path, 1234, 4321)
    path.chmod(0o2640)
    write_text(path, "new")
    found = path.stat()
    assert (found.st_uid, found.st_gid, mode(path)) == (1234, 4321, 0o2640)


OF_ANOTHER = """
import os, sys, warnings
from coupledgp.ground.output import write_text
os.setgroups([]); os.setgid(4321); os.setuid(1234)
with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    write_text(sys.argv[1], "new")
print(*[one.message for one in told])
"""


@as_root
def test_without_the_owner_permissions_are_stricter(tmp_path):
    """A user who may write another's file: the new group gets what all had, and he is told."""
    folder = tmp_path / "shared"
    folder.mkdir()
    path = folder / "file"
    path.write_text(OLD)
    for one in (tmp_path, *list(tmp_path.parents)[:3]):
        if one != Path("/tmp") and mode(one) & 0o005 != 0o005:
            one.chmod(mode(one) | 0o055)
    folder.chmod(0o777)
    path.chmod(0o662)
    command = [sys.executable, "-c", OF_ANOTHER, str(path)]
    found = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/")
    assert found.returncode == 0, found.stderr
    assert "cannot keep the owner or group" in found.stdout
    assert (path.stat().st_uid, mode(path)) == (1234, 0o622)


def access_list(*entries: tuple[int, int, int]) -> bytes:
    """The bytes of an access list: tag, permissions and number of each entry."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


def test_access_list_and_attributes_are_kept(tmp_path):
    path, nobody = tmp_path / "file", 0xFFFFFFFF
    path.write_text(OLD)
    wanted = access_list(
        (1, 6, nobody), (2, 6, 1234), (4, 0, nobody), (16, 6, nobody), (32, 0, nobody)
    )
    try:
        os.setxattr(path, "user.note", b"kept")
        os.setxattr(path, output.ACCESS_LIST, wanted)
    except OSError:
        pytest.skip("a file system without access lists")
    write_text(path, "new")
    assert os.getxattr(path, output.ACCESS_LIST) == wanted
    assert os.getxattr(path, "user.note") == b"kept"
    assert mode(path) == 0o660


def test_without_the_access_list_its_mask_gives_nothing_to_the_group(tmp_path, monkeypatch):
    """The bits of a group are the mask of the list: alone they would open the file to the group."""
    path = tmp_path / "file"
    path.write_text(OLD)
    path.chmod(0o660)
    monkeypatch.setattr(os, "listxattr", lambda _: [output.ACCESS_LIST], raising=False)
    monkeypatch.setattr(os, "getxattr", lambda *_: b"", raising=False)

    def refused(*_: Any) -> None:
        raise OSError(errno.ENOTSUP, "not supported")

    monkeypatch.setattr(os, "setxattr", refused, raising=False)
    write_text(path, "new")
    assert mode(path) == 0o600
