"""Outputs that are inputs, or one another, are refused."""

from __future__ import annotations

import os

from coupledgp.ground.output import find_clash
from tests.outputs.written import OLD


def test_outputs_that_are_inputs_or_each_other(tmp_path):
    path, hard, link = tmp_path / "file", tmp_path / "hard", tmp_path / "link"
    path.write_text(OLD)
    os.link(path, hard)
    link.symlink_to(path)
    new, through = tmp_path / "new", tmp_path / "folder"
    through.symlink_to(tmp_path)
    for same in (path, hard, link, through / "file", tmp_path / "x" / ".." / "file"):
        if same.exists():
            assert find_clash({"--output": same}, [path]) == "--output"
    dangling = tmp_path / "dangling"
    dangling.symlink_to(new)
    for same in (new, through / "new", dangling):
        assert find_clash({"--output": new, "--report": same}, []) == "--report"
    assert find_clash({"--output": new, "--report": tmp_path / "other"}, [path]) is None
    assert find_clash({"--output": new, "--report": tmp_path / "NEW"}, [path]) is None
    assert os.listdir(tmp_path).count("new") == 0
