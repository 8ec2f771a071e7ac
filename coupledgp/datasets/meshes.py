"""Triangle meshes: `load("torus")`, a file that trimesh reads, or a shape that trimesh creates.

The papers' meshes are looked for by name in `<folder>/meshes`, where the folder is `data_dir` or
else the one that the environment variable COUPLEDGP_DATA names, and then downloaded from trimesh's
repository. The signal of "Variance-reducing couplings" (appendix F.2) is the z component of the
faces' normals.
"""

from __future__ import annotations

import importlib.util
import textwrap
import warnings
import zipfile
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from coupledgp.datasets.files import ENVIRONMENT_VARIABLE, data_folder, download
from coupledgp.errors import DataNotFoundError, InvalidInputError, MissingLibraryError
from coupledgp.graphs import Graph, vtk_files
from coupledgp.ground.memory import available_bytes, check_memory, unfolded_bytes
from coupledgp.ground.validation import unknown_choice

# Endings of files that are read. trimesh opens others too, among them archives of any size.
ENDINGS = (".stl", ".ply", ".obj", ".off", ".glb", ".gltf", ".3mf", ".dae", *vtk_files.ENDINGS)
# Bytes that an element and an attribute of an archive's XML take in memory, by measurement; those
# that a file may take however small it is, and the most times its size.
ELEMENT_BYTES, ATTRIBUTE_BYTES, FREE_BYTES, MOST_TIMES = 300, 500, 2**30, 1000
CHUNK = 2**20
# Libraries that trimesh needs for a format: their modules and packages.
LIBRARIES = {
    ".dae": ("collada", "pycollada"), ".3mf": ("lxml", "lxml"),
    **dict.fromkeys(vtk_files.ENDINGS, ("meshio", "meshio")),
}  # fmt: skip
# Size of a mesh above which trimesh's own merging is that of rounding.
LEAST_SCALE = 1e-2
# Most characters of a library's message about a file.
LONGEST_MESSAGE = 300
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
    return [*_SPECS, *_shapes()]


def load(name: str | Path = "icosphere", data_dir: str | Path | None = None) -> MeshData:
    """Load a mesh by name or file.

    Parameters
    ----------
    name
        One of `names()`, or the path of a file that ends in one of `ENDINGS`.
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
    if text in _shapes():
        return MeshData(text, _shapes()[text](), f"trimesh.creation ({text})")
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


def read_mesh(path: Path, as_numbered: bool = False) -> Any:
    """Read a triangle mesh (`trimesh.Trimesh`); the bodies of a scene are joined into one.

    Parameters
    ----------
    path
        File of one of `ENDINGS`. An archive, as .3mf is, may unfold into 64 MB, or 200 times its
        size and a third of the memory.
    as_numbered
        Keep vertices as the file numbers them; else those at one position are merged.

    Raises
    ------
    DataNotFoundError
        There is no such file.
    MissingLibraryError
        The format needs a library that is not installed.
    InvalidInputError
        The file holds no triangle mesh, ends otherwise, or is an archive that unfolds into more.
    MemoryLimitError
        What an archive holds does not fit into memory.
    """
    import trimesh

    if path.suffix.lower() not in ENDINGS:
        raise InvalidInputError(
            f"mesh: expected a file ending in {', '.join(ENDINGS)}, got {str(path)!r}"
        )
    if not path.is_file():
        raise DataNotFoundError(f"mesh: no file {path}")
    _check_archive(path)
    if path.suffix.lower() in LIBRARIES:
        _check_library(path, *LIBRARIES[path.suffix.lower()])
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            mesh: Any
            if path.suffix.lower() in vtk_files.ENDINGS:
                mesh = trimesh.Trimesh(*vtk_files.read_vtk(path), process=False)
            else:
                mesh = _loaded(path, process=False, maintain_order=True)
            n_faces = len(getattr(mesh, "faces", ()))
            if n_faces and not as_numbered:
                mesh = _merged(path, mesh)
    except Exception as error:  # trimesh's readers raise whatever their format's library does
        text = textwrap.shorten(f"{type(error).__name__}: {error}", LONGEST_MESSAGE)
        raise InvalidInputError(f"mesh: cannot read {path}: {text}") from error
    if not n_faces:
        raise InvalidInputError(f"mesh: {path} holds no triangle faces")
    return mesh


def _loaded(path: Path, **settings: Any) -> Any:
    """The mesh of a file that trimesh reads, without the pictures that a PLY names."""
    import trimesh

    plain: dict[str, Any] = {"skip_materials": True} if path.suffix.lower() == ".ply" else {}
    return trimesh.load(path, force="mesh", **plain, **settings)


def _merged(path: Path, mesh: Any) -> Any:
    """The mesh of a file with vertices at one position merged, in a unit of about its size.

    trimesh takes distances below 1e-8 for none, whatever the unit.
    """
    scale = float(np.ptp(mesh.vertices, axis=0).max())
    if path.suffix.lower() in vtk_files.ENDINGS:
        mesh.merge_vertices()
        return mesh
    if not 0 < scale < LEAST_SCALE:
        return _loaded(path)
    exponent = int(np.frexp(scale)[1])
    mesh.vertices = np.ldexp(mesh.vertices, -exponent)  # exact, of a size near one
    mesh.merge_vertices()
    mesh.vertices = np.ldexp(mesh.vertices, exponent)
    return mesh


def _check_archive(path: Path) -> None:
    """Refuse an archive, whatever its ending, that would unfold into too much memory."""
    with path.open("rb") as file:
        if not zipfile.is_zipfile(file):
            return
    size = path.stat().st_size
    most, n_bytes = unfolded_bytes(size), 0
    try:
        with zipfile.ZipFile(path) as archive:
            found = archive.infolist()
            total = sum(entry.file_size for entry in found)
            if total > most:
                raise InvalidInputError(
                    f"mesh: {path}: expected an archive that unfolds into at most {most} bytes, "
                    f"got {total}"
                )
            for entry in found:  # of which no more is read than was stated
                with archive.open(entry) as part:
                    while chunk := part.read(CHUNK):
                        n_bytes += ELEMENT_BYTES * chunk.count(b"<")
                        n_bytes += ATTRIBUTE_BYTES * chunk.count(b"=")
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, OSError) as error:
        raise InvalidInputError(f"mesh: cannot read {path}: {error}") from error
    check_memory(
        float(total + n_bytes),
        f"mesh: the elements of the archive {path}",
        "take a format without XML, such as .ply",
        min(available_bytes(), max(FREE_BYTES, MOST_TIMES * size)),
    )


def _check_library(path: Path, name: str, package: str) -> None:
    if importlib.util.find_spec(name) is None:
        raise MissingLibraryError(
            f"mesh: {path}: reading {path.suffix} files needs {package}; "
            "pip install 'coupledgp[formats]' installs it"
        )


def _find(name: str, data_dir: str | Path | None) -> tuple[Path, str]:
    folder = data_folder(data_dir, "meshes")
    if folder is not None:
        for path in sorted(folder.iterdir()):
            if path.stem == name:
                return path, f"file {path.name} of {ENVIRONMENT_VARIABLE}"
    spec = _SPECS[name]
    url = _URL.format(spec.commit, spec.filename)
    return download(url, spec.sha256, spec.filename), url


def _shapes() -> dict[str, Callable[[], Any]]:
    """Return the makers of trimesh's own shapes by name; they need no file and no network."""
    from trimesh import creation

    return {
        "icosphere": lambda: creation.icosphere(subdivisions=3),
        "annulus": lambda: creation.torus(2.0, 0.7, major_sections=40, minor_sections=20),
        "capsule": lambda: creation.capsule(height=2.0, radius=1.0, count=[24, 24]),
    }
