"""The README's Python runs as it stands, and its names exist."""

import re
from pathlib import Path

import pytest

from coupledgp.couplings import parse_coupling

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def test_code_blocks_run_in_order(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert len(BLOCKS) >= 3
    names: dict[str, object] = {}
    for block in BLOCKS:
        exec(compile(block, "README.md", "exec"), names)
    assert "nats per point" in capsys.readouterr().out
    assert (tmp_path / "report.html").stat().st_size > 10_000


def table_entries():
    section = README.split("## Couplings")[1].split("## Conventions")[0]
    rows = re.findall(r"^\| (`.*?) \|", section, flags=re.MULTILINE)
    return [name for row in rows for name in re.findall(r"`([^`]+)`", row)]


@pytest.mark.parametrize("name", table_entries())
def test_couplings_named_exist(name):
    parse_coupling(name.replace("...", "orthogonal"))
