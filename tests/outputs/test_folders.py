"""Folders that are written whole or not at all."""

import os
import subprocess
import sys

import pytest

from coupledgp.ground.output import folder_written_whole

MARKS, KIND = ("mark",), "a store"


def write(folder, text):
    (folder / "mark").touch()
    (folder / "inner").mkdir()
    (folder / "inner" / "text").write_text(text)


def test_a_new_folder_takes_the_place_of_an_old_one(tmp_path):
    path = tmp_path / "store"
    for text in ("first", "second"):
        with folder_written_whole(path, MARKS, KIND) as folder:
            assert folder.parent == tmp_path
            write(folder, text)
        assert (path / "inner" / "text").read_text() == text
        assert os.listdir(tmp_path) == ["store"]


@pytest.mark.parametrize("error", [ValueError, OSError, KeyboardInterrupt])
def test_an_error_keeps_the_old_folder_and_leaves_nothing(error, tmp_path):
    path = tmp_path / "store"
    with folder_written_whole(path, MARKS, KIND) as folder:
        write(folder, "old")
    with pytest.raises(error), folder_written_whole(path, MARKS, KIND) as folder:  # noqa: PT012
        write(folder, "half")
        raise error
    assert (path / "inner" / "text").read_text() == "old"
    assert os.listdir(tmp_path) == ["store"]


def test_files_and_other_folders_are_not_replaced(tmp_path):
    (tmp_path / "file").write_text("kept")
    (tmp_path / "other").mkdir()
    for name in ("file", "other"):
        path = tmp_path / name
        with (
            pytest.raises(OSError, match="expected no file, or a store to replace") as caught,
            folder_written_whole(path, MARKS, KIND),
        ):
            pytest.fail("the body ran")
        assert caught.value.filename == str(path)
    with (
        pytest.raises(OSError, match="No such file") as caught,
        folder_written_whole(tmp_path / "none" / "store", MARKS, KIND),
    ):
        pytest.fail("the body ran")
    assert caught.value.filename == str(tmp_path / "none" / "store")
    assert sorted(os.listdir(tmp_path)) == ["file", "other"]


def test_a_link_stays_and_its_target_is_replaced(tmp_path):
    target, link = tmp_path / "target", tmp_path / "link"
    link.symlink_to(target)
    with folder_written_whole(link, MARKS, KIND) as folder:
        write(folder, "text")
    assert link.is_symlink()
    assert (target / "inner" / "text").read_text() == "text"


def test_folders_of_a_process_end_with_it(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "copy").write_text("rows")
    code = f"""
import os, signal
from pathlib import Path
from coupledgp.ground.output import TEMPORARY
from coupledgp.cli.process import watch_signals
TEMPORARY.add(Path({str(folder)!r}))
watch_signals(lambda *_: None)
os.kill(os.getpid(), signal.SIGTERM)
"""
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 143
    assert not folder.exists()
