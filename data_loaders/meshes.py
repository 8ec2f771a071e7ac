"""Triangle meshes: `load("torus")`, or the path of a file that `coupledgp.fields` reads.

The papers' meshes are looked for by name in `<folder>/meshes`, where the folder is `data_dir` or
else the one that the environment variable COUPLEDGP_DATA names, and then downloaded from trimesh's
repository. The signal of "Variance-reducing couplings" (appendix F.2) is the z component of the
faces' normals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coupledgp.datasets import SHAPES, shape
from coupledgp.errors import InvalidInputError
from coupledgp.fields.mesh_files import read_mesh
from coupledgp.graphs import Graph
from coupledgp.ground.validation import unknown_choice
from data_loaders.files import ENVIRONMENT_VARIABLE, data_folder, download

_URL = "https://raw.githubusercontent.com/mikedh/trimesh/{}/models/{}"  # commit, file name


@dataclass(frozen=True)
class MeshFile:
    """Size of a mesh of the papers, and where trimesh's repository has its file."""

    n_faces: int
    commit: str
    filename: str
    sha256: str


_SPECS: Mapping[str, MeshFile] = {
    "teapot": MeshFile(
        894,
        "acc84fe802b74c1003a1c9bbdada9575a151580e",
        "teapot.stl",
        "2c0c36eba0f33d0f10429e9f7e06bf34fa3df0bc9ee1082fd32eb89cd483e9b6",
    ),
    "fuze": MeshFile(
        1000,
        "main",
        "fuze.ply",
        "48331230eb7aa9b7871ea5845dce133f4ad7bf6d923382d1b2eef6110bbd686d",
    ),
    "unit_sphere": MeshFile(
        1280,
        "3f7649f06f8db6ddbe8ffa4bbdf1481524bb284a",
        "unit_sphere.STL",
        "9d75b416e33887fd791945c2f1e42696ea1bf252a973b2db7c9626002e210d61",
    ),
    "idler_riser": MeshFile(
        1572,
        "faf51be0d38fc1c2c1421e59f5ca8be04030af09",
        "idler_riser.STL",
        "8fb9237ab07cdd50b033ade13d79f14ba9ac68cefb0be07cb993a535a344b733",
    ),
    "busted": MeshFile(
        3878,
        "8e4f969c332e0a3faf08aeae644afa14030a9362",
        "busted.STL",
        "ec9d11fd0db249f1e40b737d07227cfc2f06bbd033e3dcc9e785b5ec25b8d024",
    ),
    "torus": MeshFile(
        8700,
        "4624c3926f1fc527bae4e8d4bcdc72eab57319ac",
        "torus.STL",
        "91441a7f60479bda93c59dd88134da3b4f33d1df71729fe71e1b2ae989974da3",
    ),
    "bunny": MeshFile(
        16301,
        "main",
        "bunny.ply",
        "8faa052bb08cf1625eec97b6508baceee11eec9cf28f83f6a9d4547ab15d7761",
    ),
}


@dataclass(frozen=True, eq=False)
class MeshData:
    """A mesh (`trimesh.Trimesh`); `source` says in words where it came from."""

    name: str
    mesh: Any = field(repr=False)
    source: str

    @cached_property
    def graph(self) -> Graph:
        """Graph with the faces as nodes, where faces that share a mesh edge are neighbours."""
        return Graph.from_trimesh(self.mesh, nodes="faces")

    @property
    def normal_z(self) -> NDArray[np.float64]:
        """Z component of each face's unit normal, shape (n_faces,)."""
        return np.asarray(self.mesh.face_normals[:, 2], dtype=np.float64)


def names() -> list[str]:
    """Return the names of the papers' meshes and of the shapes that need no file."""
    return [*_SPECS, *SHAPES]


def load(name: str | Path = "icosphere", data_dir: str | Path | None = None) -> MeshData:
    """Load a mesh by name or file.

    Parameters
    ----------
    name
        One of `names()`, or the path of a file that `read_mesh` reads.
    data_dir
        Folder that holds a folder `meshes`; None means the folder that the environment variable
        COUPLEDGP_DATA names.

    Raises
    ------
    DataNotFoundError
        The file does not exist, or a named mesh is neither on disk nor downloadable.
    InvalidInputError
        The name is unknown, or the file holds no triangle mesh.
    """
    text = str(name)
    if text in SHAPES:
        return MeshData(text, shape(text), f"trimesh.creation ({text})")
    if text in _SPECS:
        path, source = _find(text, data_dir)
        found = MeshData(text, read_mesh(path), source)
        if len(found.mesh.faces) != _SPECS[text].n_faces:
            raise InvalidInputError(
                f"name: {path} should hold {_SPECS[text].n_faces} faces, "
                f"got {len(found.mesh.faces)}"
            )
        return found
    if Path(text).suffix:
        return MeshData(Path(text).stem, read_mesh(Path(text)), f"file {text}")
    raise InvalidInputError(unknown_choice(text, names(), "name"))


def _find(name: str, data_dir: str | Path | None) -> tuple[Path, str]:
    folder = data_folder(data_dir, "meshes")
    if folder is not None:
        for path in sorted(folder.iterdir()):
            if path.stem == name:
                return path, f"file {path.name} of {ENVIRONMENT_VARIABLE}"
    spec = _SPECS[name]
    url = _URL.format(spec.commit, spec.filename)
    return download(url, spec.sha256, spec.filename), url
