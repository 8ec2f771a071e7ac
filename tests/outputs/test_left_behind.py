"""Writers that are killed, forked or told to end leave the old file and nothing else."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from coupledgp.ground.output import write_text, written_whole
from coupledgp.ground.temporary import discard_all
from tests.outputs.written import OLD, temporary_files

HALF_WRITTEN = """
import sys
from coupledgp.ground.output import written_whole
with written_whole(sys.argv[1]) as temporary:
    temporary.write_text("half")
    folder = temporary.with_name(temporary.name + ".folder")
    folder.mkdir()
    (folder / "inside").write_text("half")
    print("ready", flush=True)
    sys.stdin.read()
"""


def half_written(path: Path) -> subprocess.Popen[str]:
    """A process in the middle of writing a file."""
    process = subprocess.Popen(
        [sys.executable, "-c", HALF_WRITTEN, path], text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        # Programs that run in the background of a shell hand on that they ignore interrupts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_a_signal_leaves_the_old_file_and_nothing_else(number, tmp_path):
    path = tmp_path / "file"
    path.write_text(OLD)
    with half_written(path) as process:
        assert len(temporary_files(tmp_path)) == 2
        process.send_signal(number)
        assert process.wait() == -number
    assert (path.read_text(), os.listdir(tmp_path)) == (OLD, ["file"])


def test_what_a_killed_writer_left_is_swept_and_no_more(tmp_path):
    path, other = tmp_path / "file", tmp_path / "other"
    path.write_text(OLD)
    with half_written(path) as killed, half_written(path) as alive, half_written(other) as third:
        for process in (killed, third):
            process.kill()
            process.wait()
        assert len(temporary_files(tmp_path)) == 6
        write_text(path, "new")
        left = temporary_files(tmp_path)
        assert len(left) == 4  # those of the living one, and those of another file
        assert sum(f"-{alive.pid}-" in name for name in left) == 2
        assert alive.stdin is not None
        alive.stdin.close()
        assert alive.wait() == 0
    assert path.read_text() == "half"


def test_a_child_leaves_its_parents_file_alone(tmp_path):
    with written_whole(tmp_path / "file") as temporary:
        temporary.write_text("whole")
        child = os.fork()
        if child == 0:
            discard_all()
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    assert (tmp_path / "file").read_text() == "whole"


def test_an_error_in_a_child_leaves_its_parents_file_alone(tmp_path):
    child = -1
    try:
        with written_whole(tmp_path / "file") as temporary:
            temporary.write_text("whole")
            child = os.fork()
            if child == 0:
                raise ValueError("in the child")
            assert os.waitpid(child, 0)[1] == 0
    finally:
        if child == 0:
            os._exit(0)
    assert (tmp_path / "file").read_text() == "whole"


def test_folders_of_a_process_end_with_it(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "copy").write_text("rows")
    code = f"""
import os, signal
from coupledgp.ground.temporary import ends_with_the_process
from coupledgp.cli.process import watch_signals
ends_with_the_process({str(folder)!r})
watch_signals(lambda *_: None)
os.kill(os.getpid(), signal.SIGTERM)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 143
    assert not folder.exists()


def test_handlers_of_a_program_stay(tmp_path):
    def own(*_: Any) -> None:
        """Do nothing."""

    before = signal.signal(signal.SIGTERM, own)
    try:
        with written_whole(tmp_path / "file") as temporary:
            assert signal.getsignal(signal.SIGTERM) is own
            temporary.write_text("x")
        assert signal.getsignal(signal.SIGTERM) is own
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_DFL
    finally:
        signal.signal(signal.SIGTERM, before)
