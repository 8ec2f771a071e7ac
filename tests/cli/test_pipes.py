"""Pipes, process substitution and odd names of files, in processes of their own."""

import os
import subprocess
import sys
import threading
import time
import warnings
from pathlib import Path

import pytest

from coupledgp.cli.readers import files
from coupledgp.cli.readers.files import on_disk, pipes_kept
from coupledgp.errors import InvalidInputError
from tests.fuzz.cases import called, within
from tests.fuzz.files import table, write_shared

PLAIN = table().encode()

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="a system without named pipes"),
    pytest.mark.filterwarnings("default"),
]


@pytest.fixture(scope="session")
def shared(tmp_path_factory):
    """Folder of tables, graphs, a mesh and models."""
    folder = tmp_path_factory.mktemp("shared")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        write_shared(folder)
    return folder


def feed(path, content):
    """Write into a named pipe from a thread."""
    writer = threading.Thread(target=lambda: Path(path).write_bytes(content), daemon=True)
    writer.start()
    return writer


@pytest.mark.parametrize("content", [PLAIN, PLAIN.replace(b"\n", b"\r")])
def test_a_named_pipe_is_read_once(content, shared, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    writer = feed(tmp_path / "pipe", content)
    with within(tmp_path):
        code, _, err = called(["predict", f"{shared}/t.model", "pipe", "-o", "out.csv"])
    writer.join()
    assert (code, err) == (0, "")
    with within(tmp_path):
        called(["predict", f"{shared}/t.model", f"{shared}/t.csv", "-o", "plain.csv"])

    def last(name):
        return [row.split(",")[-2:] for row in (tmp_path / name).read_text().splitlines()]

    assert last("out.csv") == last("plain.csv")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["out.csv", "pipe", "plain.csv"]


def test_models_graphs_and_values_may_be_pipes(shared, tmp_path):
    writers = []
    for name, source in (("model", "t.model"), ("edges", "e.csv"), ("values", "v.csv"),
                         ("m.obj", "m.obj")):  # fmt: skip
        os.mkfifo(tmp_path / name)
        writers.append(feed(tmp_path / name, (shared / source).read_bytes()))
    calls = [
        ["predict", "model", f"{shared}/t.csv", "-o", "p.csv"],
        ["interpolate", "edges", "--values", "values", "-o", "g.csv", "--exact-nodes", "0"],
        ["interpolate", "m.obj", "--values", f"{shared}/mv.csv", "-o", "m.csv", "--max-edge",
         "none"],
    ]  # fmt: skip
    for words in calls:
        with within(tmp_path):
            code, _, err = called(words)
        assert (code, "error" in err) == (0, False), words
    for writer in writers:
        writer.join()


def test_a_pipe_that_nobody_writes_into_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "PATIENCE", 0.05)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidInputError, match="pipe: expected a program that writes"):
        on_disk(tmp_path / "pipe")


def test_a_device_is_refused():
    for name in ("/dev/zero", "/dev/null"):
        with pytest.raises(InvalidInputError, match=f"{name}: expected a file or a pipe"):
            on_disk(Path(name))


def test_a_slow_writer_is_waited_for(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "PATIENCE", 0.05)
    os.mkfifo(tmp_path / "pipe")

    def write():
        with (tmp_path / "pipe").open("wb") as file:
            time.sleep(0.3)
            file.write(b"late")

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    with pipes_kept():
        assert on_disk(tmp_path / "pipe").read_bytes() == b"late"
    writer.join()


def test_an_endless_pipe_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "available_bytes", lambda: 4e6)
    os.mkfifo(tmp_path / "pipe")

    def write():
        try:
            with (tmp_path / "pipe").open("wb") as file:
                for _ in range(100):
                    file.write(b"x" * 100_000)
        except BrokenPipeError:
            pass

    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    with pipes_kept(), pytest.raises(InvalidInputError, match="expected at most 1000000 bytes"):
        on_disk(tmp_path / "pipe")
    writer.join()


def shell(command, folder):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, timeout=120
    )


# Calls one after the other, in one process: importing everything anew for each takes seconds.
CALLS = """
import sys
from coupledgp.cli import run
model, substituted, odd = sys.argv[1:]
for table, out in ((substituted, "out.csv"), ("/dev/stdin", "in.csv"), (odd, "name.csv")):
    assert run(["predict", model, table, "-o", out]) == 0
sys.argv[1:] = ["fit", odd, "-t", "no"]
from coupledgp.cli import main
main()
"""


def test_process_substitution_standard_input_and_names_of_bytes(shared, tmp_path):
    (tmp_path / os.fsdecode(b"\xff\x1b[31m.csv")).write_bytes(PLAIN)
    (tmp_path / "calls").write_text(CALLS)
    table = f"{shared}/t.csv"
    done = shell(
        f"cat {table} | {sys.executable} calls {shared}/t.model <(cat {table}) *31m.csv", tmp_path
    )
    assert done.returncode == 2, done.stderr
    assert (tmp_path / "out.csv").read_text() == (tmp_path / "in.csv").read_text()
    assert (tmp_path / "out.csv").read_text() == (tmp_path / "name.csv").read_text()
    assert b"\x1b" not in done.stdout + done.stderr
    assert rb"\xff\x1b[31m.csv: expected column" in done.stderr
    assert done.stderr.count(b"\n") == 1
