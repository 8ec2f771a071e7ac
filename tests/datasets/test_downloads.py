"""Downloads of meshes and traffic from a server on this machine: good, wrong, gone, cut, absent."""

import gc
import hashlib
import logging
import sys
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import numpy as np
import pytest
import trimesh

from coupledgp.errors import DataNotFoundError
from data_loaders import meshes, traffic
from data_loaders.files import ENVIRONMENT_VARIABLE, download
from tests.datasets.local_server import listening

# pooch leaves the connection of a failed download to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


class Server:
    """Bodies that the server gives by path, whole or cut short, and the paths it was asked for."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.pages: dict[str, bytes] = {}
        self.cut = False
        self.requests: list[str] = []


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Server]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            served.requests.append(self.path)
            body = served.pages.get(self.path)
            self.send_response(404 if body is None else 200)
            self.send_header("Content-Length", str(len(body or b"")))
            self.end_headers()
            whole = body or b""
            self.wfile.write(whole[: len(whole) // 2] if served.cut else whole)

        def log_message(self, *args: object) -> None:
            pass

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.delenv(ENVIRONMENT_VARIABLE, raising=False)
    logging.getLogger("pooch").setLevel(logging.ERROR)
    with listening(Handler) as url:
        served = Server(url)
        yield served
    gc.collect()


def sha256(body: bytes) -> str:
    return hashlib.sha256(body).hexdigest()


def cached(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "cache").rglob("*") if path.is_file())


def test_a_mesh_is_downloaded_once(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = trimesh.creation.icosphere(subdivisions=1).export(file_type="stl")
    server.pages = {"/c0ffee/models/unit_sphere.STL": body}
    monkeypatch.setattr(meshes, "_URL", server.url + "/{}/models/{}")
    spec = replace(meshes._SPECS["unit_sphere"], n_faces=80, commit="c0ffee", sha256=sha256(body))
    monkeypatch.setattr(meshes, "_SPECS", {"unit_sphere": spec})
    for _ in range(2):
        data = meshes.load("unit_sphere")
        assert data.graph.n_nodes == 80
        assert data.source == f"{server.url}/c0ffee/models/unit_sphere.STL"
    assert server.requests == ["/c0ffee/models/unit_sphere.STL"]
    assert cached(tmp_path) == ["unit_sphere.STL"]


def test_traffic_is_downloaded_and_built(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    body = b"stands for pems.rda"
    server.pages = {"/pems.rda": body}
    monkeypatch.setattr(traffic, "_URL", server.url + "/pems.rda")
    monkeypatch.setattr(traffic, "_SHA256", sha256(body))
    read = []
    monkeypatch.setattr(traffic, "from_pems", lambda path: read.append(path.read_bytes()))
    traffic.load()
    assert read == [body]


@pytest.mark.parametrize("loader", ["mesh", "traffic"])
@pytest.mark.parametrize(
    ("trouble", "cause"),
    [
        ("other", "hash"),
        ("gone", "404"),
        ("cut", "IncompleteRead|incomplete"),
        ("absent", "refused"),
    ],
)
def test_a_failed_download_says_why_and_leaves_nothing(
    loader: str,
    trouble: str,
    cause: str,
    server: Server,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = b"solid\n" * 1000
    known = sha256(body)
    server.pages = {
        "other": {"/file": b"an error page"},
        "gone": {},
        "cut": {"/file": body},
        "absent": {},
    }[trouble]
    server.cut = trouble == "cut"
    # Port 9 of this machine (discard) is served by nobody.
    url = "http://127.0.0.1:9/file" if trouble == "absent" else f"{server.url}/file"
    monkeypatch.setattr(meshes, "_URL", url + "{:.0}{:.0}")
    spec = replace(meshes._SPECS["torus"], sha256=known)
    monkeypatch.setattr(meshes, "_SPECS", {"torus": spec})
    monkeypatch.setattr(traffic, "_URL", url)
    monkeypatch.setattr(traffic, "_SHA256", known)
    with pytest.raises(DataNotFoundError, match=f"gave no usable file.*{cause}") as caught:
        meshes.load("torus") if loader == "mesh" else traffic.load()
    assert url in str(caught.value)
    assert ENVIRONMENT_VARIABLE in str(caught.value)
    del caught
    assert cached(tmp_path) == []


def test_a_spoilt_cache_is_replaced(server: Server, tmp_path: Path) -> None:
    body = b"good"
    server.pages = {"/file": body}
    path = download(f"{server.url}/file", sha256(body), "file.bin")
    path.write_bytes(b"spoilt")
    assert download(f"{server.url}/file", sha256(body), "file.bin").read_bytes() == body
    path.write_bytes(b"spoilt")
    server.pages = {}
    with pytest.raises(DataNotFoundError, match="404"):
        download(f"{server.url}/file", sha256(body), "file.bin")
    assert cached(tmp_path) == ["file.bin"]


def test_without_pooch_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pooch", None)
    needs = r"needs pooch \(pip install pooch rdata\)"
    with pytest.raises(DataNotFoundError, match=needs):
        download("http://127.0.0.1:9/file", "0" * 64, "file.bin")


def test_without_rdata_the_extra_and_the_tables_are_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "rdata", None)
    path = tmp_path / "traffic" / "pems.rda"
    path.parent.mkdir()
    path.write_bytes(b"stands for a table of R")
    needs = r"pems\.rda.*need rdata \(pip install pooch rdata\)"
    with pytest.raises(DataNotFoundError, match=f"{needs}; or put nodes.csv"):
        traffic.load(tmp_path)


def test_local_files_come_before_downloads(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "data" / "meshes"
    folder.mkdir(parents=True)
    trimesh.creation.icosphere(subdivisions=1).export(folder / "bunny.ply")
    spec = replace(meshes._SPECS["bunny"], n_faces=80)
    monkeypatch.setattr(meshes, "_SPECS", {"bunny": spec})
    data = meshes.load("bunny", tmp_path / "data")
    assert np.isfinite(data.normal_z).all()
    assert server.requests == []
