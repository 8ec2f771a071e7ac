"""Meshes in archives: what unfolds into far more than its file is refused before it is read."""

import logging
import zipfile

import numpy as np
import pytest
import trimesh

from coupledgp.errors import InvalidInputError, MemoryLimitError
from coupledgp.ground import memory
from data_loaders import meshes


def archive(path, more):
    """A .3mf file of a box whose model has more text before its end."""
    path.write_bytes(trimesh.creation.box().export(file_type="3mf"))
    with zipfile.ZipFile(path) as whole:
        parts = {name: whole.read(name) for name in whole.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in parts.items():
            packed.writestr(name, content.replace(b"</vertices>", more + b"</vertices>"))
    return path


def test_an_archive_of_a_mesh_is_read(tmp_path):
    found = meshes.load(archive(tmp_path / "box.3mf", b" "))
    np.testing.assert_allclose(found.mesh.area, 6.0)


@pytest.mark.parametrize("ending", [".3mf", ".dae", ".stl"])
def test_archives_that_unfold_are_refused_whatever_their_ending(ending, tmp_path):
    path = archive(tmp_path / f"m{ending}", b" " * (memory.FREE_BYTES + 1))
    assert path.stat().st_size < 10**6
    with pytest.raises(InvalidInputError, match="expected an archive that unfolds into at most"):
        meshes.load(path)


def test_archives_of_too_many_elements_are_refused(tmp_path):
    element = b'<vertex x="1" y="2" z="3"/>'
    path = archive(tmp_path / "m.3mf", element * 10**6)
    assert path.stat().st_size < 10**6
    with pytest.raises(MemoryLimitError, match="the elements of the archive"):
        meshes.load(path)


@pytest.mark.parametrize("name", ["m.zip", "m.tar.gz", "m.zae", "m.xyz", "m"])
def test_files_of_other_endings_are_refused(name, tmp_path):
    path = archive(tmp_path / name, b"")
    with pytest.raises(InvalidInputError, match=r"expected a file ending in|name: expected"):
        meshes.load(path)
    with pytest.raises(InvalidInputError, match=r"expected a file ending in \.stl"):
        meshes.read_mesh(path)


def test_pictures_that_a_ply_names_are_not_looked_for(tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr(logging.Logger, "handle", lambda own, record: said.append(record))
    part = tmp_path / "part.ply"
    box = trimesh.creation.box().export(file_type="ply", encoding="ascii").decode()
    part.write_text(box.replace("element vertex", "comment TextureFile none.jpg\nelement vertex"))
    assert len(meshes.load(str(part)).mesh.faces) == 12
    assert not said
