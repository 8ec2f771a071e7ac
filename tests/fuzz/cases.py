"""One hostile call of the command line: its files, what it may end in, and the check of that."""

from __future__ import annotations

import contextlib
import csv
import io
import itertools
import math
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet

from coupledgp.cli import run

Content = bytes | Callable[[], bytes]
csv.field_size_limit(2**31 - 1)
OUTPUTS = ("-o", "--output", "--report", "--left-out")
UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\ud800-\udfff]")


@dataclass(frozen=True)
class Case:
    """A call in a folder of its own.

    Attributes
    ----------
    name : str
    arguments : tuple of str
        Words of the command line; `{shared}` stands for the folder of files that all cases share.
    files : Mapping of str to bytes
        Files that are written before.
    code : int or None
        The exit code, 0 or 2; None allows both.
    names : tuple of str
        Texts of which an error has to hold one: the file, or the option.
    blank : bool
        Whether a law may be missing somewhere, as it is at vertices of no face.
    """

    name: str
    arguments: tuple[str, ...]
    files: Mapping[str, Content] = field(default_factory=dict)
    code: int | None = None
    names: tuple[str, ...] = ()
    blank: bool = False


class BrokenError(AssertionError):
    """A call that ended in another way than the guarantee allows."""


def check(case: Case, folder: Path, shared: Path) -> int:
    """Run a case in an empty folder and check all that is promised of it; return the exit code."""
    written = {}
    for name, content in case.files.items():
        written[name] = content() if callable(content) else content
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(written[name])
    arguments = [word.replace("{shared}", str(shared)) for word in case.arguments]
    with within(folder):
        code, out, err = called(arguments)
        demand(code in (0, 2) and case.code in (None, code), f"code {code}: {err}")
        check_shown(out + err)
        if code == 2:
            check_error(err, case.names)
        else:
            for path in outputs_of(arguments):
                check_output(path, case.blank)
        for name, content in written.items():
            demand(Path(name).read_bytes() == content, f"{name} was changed")
        known = {*written, *(str(path) for path in outputs_of(arguments) if code == 0)}
        left = {str(path) for path in Path().rglob("*") if not path.is_dir()}
        demand(left <= known, f"left: {left - known}")
    return code


def demand(truth: bool, text: str) -> None:
    if not truth:
        raise BrokenError(text)


@contextlib.contextmanager
def within(folder: Path) -> Iterator[None]:
    """Work in a folder, which holds temporary files too; what is unforeseen is raised."""
    before, temporary = os.environ.copy(), tempfile.tempdir
    os.environ["COUPLEDGP_TRACEBACK"] = "1"
    tempfile.tempdir = str(folder)
    try:
        with contextlib.chdir(folder):
            yield
    finally:
        tempfile.tempdir = temporary
        os.environ.clear()
        os.environ.update(before)


def called(arguments: list[str]) -> tuple[int, str, str]:
    """Exit code, stdout and stderr of a call in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run(arguments)
    return code, out.getvalue(), err.getvalue()


def outputs_of(arguments: list[str]) -> list[Path]:
    pairs = itertools.pairwise(arguments)
    return [Path(value) for option, value in pairs if option in OUTPUTS]


def check_shown(text: str) -> None:
    found = UNSEEN.search(text)
    demand(found is None, f"control character {found} is shown")
    demand("Traceback" not in text, "a traceback is shown")


def check_error(err: str, names: tuple[str, ...]) -> None:
    """One error, on the last line, that names the file or option; warnings may be above it."""
    *above, last = err.splitlines() or [""]
    demand(last.startswith("coupledgp: error: "), f"last line {last!r}")
    demand(all(line.startswith("coupledgp: ") for line in above), f"lines {above}")
    demand(not any(line.startswith("coupledgp: error") for line in above), "two errors")
    demand(len(last) < 1500, f"a line of {len(last)} characters")
    demand("unforeseen" not in last, last)
    of_option = last.startswith("coupledgp: error: --")
    named = of_option or not names or any(name in last for name in names)
    demand(named, f"none of {names} in {last!r}")


def check_output(path: Path, blank: bool) -> None:
    """A file that is there, of finite numbers where they are a law."""
    demand(path.is_file() and path.stat().st_size > 0, f"no output {path}")
    if path.suffix in (".csv", ".tsv"):
        with path.open(newline="", encoding="utf-8") as file:
            rows = list(csv.DictReader(file, delimiter="\t" if path.suffix == ".tsv" else ","))
        found = [row[name] for row in rows for name in ("mean", "std")]
        demand(all(_is_finite(v) for v in found if v or not blank), f"{path}: no number")
    elif path.suffix == ".parquet":
        table = pyarrow.parquet.read_table(path)
        for name in ("mean", "std"):
            demand(all(map(_is_finite, table.column(name).to_pylist())), f"{path}: no number")
    elif path.suffix == ".html":
        text = path.read_text(encoding="utf-8")
        demand(UNSEEN.search(text) is None, f"{path}: a control character")
        demand("<script>alert" not in text, f"{path}: a script of a name")


def _is_finite(value: object) -> bool:
    return value is not None and value != "" and math.isfinite(float(str(value)))
