"""Files are written whole or not at all, by every writer, under real limits."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import trimesh

import coupledgp as cgp
from coupledgp.cli.shared import whole
from coupledgp.cli.tables import write_table
from coupledgp.fields.roads import Plane
from coupledgp.ground.output import write_text, written_whole
from tests.outputs.written import OLD, largest_file, mode, temporary_files

RNG = np.random.default_rng(15)


def test_a_link_stays_and_its_target_is_replaced(tmp_path):
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    target, link = folder / "file", tmp_path / "link"
    target.write_text(OLD)
    link.symlink_to("elsewhere/file")
    write_text(link, "new")
    assert link.is_symlink()
    assert target.read_text() == "new"
    target.unlink()
    write_text(link, "made")
    assert (link.is_symlink(), target.read_text()) == (True, "made")


def test_another_name_of_the_file_keeps_the_old_content(tmp_path):
    path, other = tmp_path / "file", tmp_path / "other"
    path.write_text(OLD)
    os.link(path, other)
    write_text(path, "new")
    assert (path.read_text(), other.read_text()) == ("new", OLD)


def test_what_cannot_be_written_is_refused_before_the_work(tmp_path):
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    (tmp_path / "file").write_text(OLD)
    cases = {
        "loop": errno.ELOOP, "a": errno.ELOOP, ".": errno.EISDIR, "no/file": errno.ENOENT,
        "file/below": errno.ENOTDIR, "n" * 300: errno.ENAMETOOLONG,
    }  # fmt: skip
    for name, number in cases.items():
        path = f"{tmp_path}/{name}"
        with pytest.raises(OSError, match=os.strerror(number)) as caught, written_whole(path):
            pytest.fail("the work began")
        assert (caught.value.errno, caught.value.filename) == (number, path)
    assert (tmp_path / "loop").is_symlink()
    assert not temporary_files(tmp_path)


def test_names_as_long_as_they_can_be(tmp_path):
    path = tmp_path / ("n" * 255)
    write_text(path, "new")
    assert path.read_text() == "new"


def test_pipes_and_devices_are_written_themselves(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with subprocess.Popen(["cat", pipe], stdout=subprocess.PIPE) as reader:
        write_text(pipe, "through")
        assert reader.communicate()[0] == b"through"
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    link = tmp_path / "full"
    link.symlink_to("/dev/full")
    with pytest.raises(OSError, match="No space left") as caught:
        write_text(link, "x" * 100_000)
    assert caught.value.filename == str(link)
    assert stat.S_ISCHR(Path("/dev/full").stat().st_mode)


def test_bytes_that_are_no_text_in_names(tmp_path):
    path = tmp_path / os.fsdecode(b"caf\xe9.html")
    write_text(path, f"<h1>{path.name}</h1>")
    assert path.read_bytes() == b"<h1>caf\\udce9.html</h1>"


def test_the_file_is_on_the_disk_before_it_takes_the_place(tmp_path, monkeypatch):
    path, order = tmp_path / "file", []
    path.write_text(OLD)
    fsync, replace = os.fsync, os.replace

    def synced(descriptor: int) -> None:
        order.append(("file", os.fstat(descriptor).st_size))
        fsync(descriptor)

    def replaced(path: Path, target: Path) -> None:
        order.append(("replaced", target.name))
        replace(path, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    write_text(path, "12345")
    assert order == [("file", 5), ("replaced", "file")]


def test_an_error_of_the_disk_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file"
    path.write_text(OLD)

    def broken(_: int) -> None:
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", broken)
    with pytest.raises(OSError, match="Input/output") as caught:
        write_text(path, "new")
    assert (caught.value.filename, path.read_text()) == (str(path), OLD)
    assert not temporary_files(tmp_path)


GRAPH = cgp.Graph.from_scipy(nx.adjacency_matrix(nx.grid_2d_graph(5, 5)))
MESH = trimesh.creation.icosphere(3)
HEIGHT = MESH.vertices[:, 2]
TABLE = pd.DataFrame({"a": RNG.normal(size=5000), "b": RNG.normal(size=5000)})


def fitted() -> Any:
    X = RNG.normal(size=(300, 4))
    model = cgp.SparseSpectrumGPRegressor(n_frequencies=40, optimizer=None, random_state=0)
    return model.fit(X, X[:, 0])


def roads() -> Any:
    x = 500_000.0 + np.arange(3001)
    positions = np.column_stack([x, np.full(3001, 5e6)])
    ends = np.column_stack([np.arange(3000), np.arange(1, 3001)])
    lines = tuple(positions[pair] for pair in ends)
    plane = Plane("EPSG:32633", "EPSG:32633")
    return cgp.RoadNetwork(ends, np.ones(3000), positions, lines, np.arange(3000), plane=plane)


def report() -> cgp.diagnostics.Report:
    X = np.linspace(0, 6, 40)[:, None]
    law = np.sin(X[::2, 0]), np.full(20, 0.1)
    return cgp.audit(law, None, None, X[::2], np.sin(X[::2, 0]), depth="scores")


WRITERS: dict[str, Callable[[Path], Any]] = {
    "m.model": lambda path: fitted().save(path, include_data=True),
    "t.csv": lambda path: _table(path),
    "t.tsv": lambda path: _table(path),
    "t.parquet": lambda path: _table(path),
    "m.vtu": lambda path: cgp.write_mesh(path, MESH, mean=HEIGHT),
    "m.vtk": lambda path: cgp.write_mesh(path, MESH, mean=HEIGHT),
    "m.ply": lambda path: cgp.write_mesh(path, MESH, mean=HEIGHT),
    "page.html": lambda path: report().to_html(path),
    "page.json": lambda path: report().to_json(path),
    "text.html": lambda path: write_text(path, "x" * 100_000),
}


def _table(path: Path) -> None:
    with whole(path) as temporary:
        write_table(TABLE, temporary)


@pytest.mark.parametrize("name", WRITERS)
def test_a_file_that_is_too_large_keeps_the_old_one(name, tmp_path):
    path = tmp_path / name
    path.write_text(OLD)
    path.chmod(0o640)
    with pytest.raises(OSError, match=r"File too large|written") as caught, largest_file(2000):
        WRITERS[name](path)
    assert caught.value.filename == str(path)
    assert (path.read_text(), os.listdir(tmp_path)) == (OLD, [name])
    WRITERS[name](path)
    assert path.stat().st_size > 2000
    assert (os.listdir(tmp_path), mode(path)) == ([name], 0o640)


@pytest.mark.parametrize("name", ["r.gpkg", "r.geojson"])
def test_roads_that_do_not_fit_are_an_error(name, tmp_path):
    """GDAL says nothing where the end of a file does not fit, and drops layers without a word."""
    whole, path, network = tmp_path / f"whole{name}", tmp_path / name, roads()
    cgp.write_roads(whole, network, mean=np.arange(network.n_edges))
    size = whole.stat().st_size
    whole.unlink()
    path.write_text(OLD)
    for limit in (2000, size // 2, size - size // 10, size - 5):
        with pytest.raises(OSError, match=r"too large|whole") as caught, largest_file(limit):
            cgp.write_roads(path, network, mean=np.arange(network.n_edges))
        assert caught.value.filename == str(path)
        assert (path.read_text(), os.listdir(tmp_path)) == (OLD, [name]), limit
    cgp.write_roads(path, network, mean=np.arange(network.n_edges))
    assert os.listdir(tmp_path) == [name]


def test_an_exception_in_the_middle_keeps_the_old_file(tmp_path):
    path = tmp_path / "file"
    path.write_text(OLD)
    for error in (ValueError, KeyboardInterrupt, SystemExit, MemoryError):
        with pytest.raises(error), written_whole(path) as temporary:
            raise error(temporary.write_text("half"))
        assert (path.read_text(), os.listdir(tmp_path)) == (OLD, ["file"])
