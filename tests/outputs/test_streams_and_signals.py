"""Standard streams that are closed, full or ASCII, and signals at any time: a code and one line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coupledgp.ground.output import PREFIX
from tests import new_process
from tests.new_process import Started

COMMAND = [sys.executable, "-c", "from coupledgp.cli import main; main()"]
FIT = ["fit", "d.csv", "-t", "y", "--n-frequencies", "8", "--max-iter", "2", "--n-restarts", "0"]
FIT += ["--compare", "none"]
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143, signal.SIGHUP: 129}
SAID = {
    signal.SIGINT: "interrupted", signal.SIGTERM: "ended by SIGTERM",
    signal.SIGHUP: "ended by SIGHUP",
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    """A folder with a table."""
    X = np.random.default_rng(0).normal(size=(40, 2))
    np.savetxt(tmp_path / "d.csv", np.c_[X, X[:, 0]], delimiter=",", header="a,b,y", comments="")
    return tmp_path


def shell(folder: Path, line: str, **environment: str) -> subprocess.CompletedProcess[bytes]:
    """Run a line of bash in which $C is the command."""
    return subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}", "bash", *COMMAND, *FIT], cwd=folder,
        capture_output=True, check=False, env=os.environ | environment,
    )  # fmt: skip


def errors_of(stderr: str) -> list[str]:
    return [line for line in stderr.splitlines() if not line.startswith("coupledgp: warning: ")]


@pytest.mark.parametrize(
    ("stdout", "reason"),
    [("closed", "Bad file descriptor"), ("/dev/full", "No space left on device")],
)
def test_standard_output_that_takes_nothing(folder, stdout, reason):
    process = Started(new_process.COMMAND, *FIT, "-o", "m.model", folder=folder, stdout=stdout)
    found = process.finished()
    assert (found.returncode, errors_of(found.stderr)) == (
        2, [f"coupledgp: error: standard output: {reason}"],
    )  # fmt: skip
    assert sorted(os.listdir(folder)) == ["d.csv", "m.model"]


@pytest.mark.parametrize(
    ("arguments", "left"),
    [((*FIT, "-o", "m.model"), ["d.csv", "m.model"]), (("fit", "--help"), ["d.csv"])],
)
def test_a_reader_that_has_left_is_no_error(folder, arguments, left):
    found = Started(new_process.COMMAND, *arguments, folder=folder, stdout="unread").finished()
    assert (found.returncode, errors_of(found.stderr)) == (141, [])
    assert sorted(os.listdir(folder)) == left


def test_no_stream_at_all(folder):
    found = shell(folder, '"$@" -o m.model >&- 2>&- <&-')
    assert (found.returncode, found.stderr) == (2, b"")
    assert sorted(os.listdir(folder)) == ["d.csv", "m.model"]


def test_ascii_and_names_that_are_no_text(folder):
    """The page, the model and the messages of a name with a byte that is no UTF-8."""
    odd = os.fsdecode(b"r\xff")
    environment = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C"}
    found = shell(folder, f'"$@" -o {odd}.model --json', **environment)
    assert found.returncode == 0, found.stderr
    assert found.stdout.isascii()
    assert sorted(os.listdir(folder)) == ["d.csv", f"{odd}.model"]


def running(folder: Path, arguments: list[str]) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [*COMMAND, *arguments], cwd=folder, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )  # fmt: skip


LONG = ["fit", "d.csv", "-t", "y", "-o", "m.model", "--report", "r.html", "--model"]
LONG += ["sparse-spectrum", "--n-frequencies", "2000", "--holdout", "0", "--exact-rows", "9"]


def wait_for(condition: Any) -> None:
    """Wait until something is so, however slow the machine."""
    limit = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.01)


@pytest.mark.parametrize("number", CODES)
def test_a_signal_during_the_work(folder, number):
    (folder / "m.model").write_text("old")
    process = Started(new_process.COMMAND, *LONG, folder=folder, stdout=os.devnull)
    wait_for(lambda: any(name.startswith(PREFIX) for name in os.listdir(folder)))
    assert process.process.pid is not None
    os.kill(process.process.pid, number)
    found = process.finished()
    assert (found.returncode, found.stderr) == (CODES[number], f"coupledgp: {SAID[number]}\n")
    assert sorted(os.listdir(folder)) == ["d.csv", "m.model"]
    assert (folder / "m.model").read_text() == "old"


def test_an_interrupt_while_libraries_are_imported(folder):
    with running(folder, LONG) as process:
        maps = Path(f"/proc/{process.pid}/maps")
        wait_for(lambda: "pyarrow" in maps.read_text() or "numpy" in maps.read_text())
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        said = process.stderr.read().decode()
    assert (process.returncode, said) == (130, "coupledgp: interrupted\n")


def test_compiled_code_does_not_keep_a_process_alive(folder):
    """Ctrl-C while the main thread does not return to Python: the other thread ends the process."""
    code = """
import ctypes
from coupledgp.cli.process import open_streams, watch_signals

open_streams()
watch_signals(lambda *_: None)
print("ready", flush=True)
# Goes on after a signal, as compiled code does.
library = ctypes.CDLL(None)
while library.usleep(100_000_000) == 0: pass
library.pause()
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 143
