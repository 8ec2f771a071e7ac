"""Files that are no meshes of one part: archives, and pictures that a file names."""

import logging
import zipfile

import pytest
import trimesh

from coupledgp.errors import InvalidInputError
from data_loaders import meshes


@pytest.mark.parametrize("name", ["m.zip", "m.3mf", "m.tar.gz", "m.zae", "m.xyz", "m"])
def test_archives_and_other_endings_are_refused(name, tmp_path):
    path = tmp_path / name
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        packed.writestr("box.stl", trimesh.creation.box().export(file_type="stl"))
    with pytest.raises(InvalidInputError, match=r"expected a file ending in|name: expected"):
        meshes.load(path)
    with pytest.raises(InvalidInputError, match=r"expected a file ending in \.stl"):
        meshes.read_mesh(path)
    renamed = path.rename(tmp_path / "m.stl")
    with pytest.raises(InvalidInputError, match=r"m\.stl (holds no|cannot)|cannot read"):
        meshes.read_mesh(renamed)


def test_pictures_that_a_ply_names_are_not_looked_for(tmp_path, monkeypatch):
    said = []
    monkeypatch.setattr(logging.Logger, "handle", lambda own, record: said.append(record))
    part = tmp_path / "part.ply"
    box = trimesh.creation.box().export(file_type="ply", encoding="ascii").decode()
    part.write_text(box.replace("element vertex", "comment TextureFile none.jpg\nelement vertex"))
    assert len(meshes.load(str(part)).mesh.faces) == 12
    assert not said
