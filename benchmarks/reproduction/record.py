"""The record of published figures: every item of the papers, our figures, theirs, and a verdict.

`items/PAPER.toml` lists what a paper published, one `[[item]]` each: `name` ("Table 1"), `claim`,
and where it is checked. That is one of `script` (a file beside this one, which measures it and
writes its part of the record), `test` (a file of the tests, for theorems and algorithms), or
`out_of_reach` (the reason). A script hands its findings to a `Record`:

    record = Record("uci_couplings", command())
    table = record.item("variance-reducing-couplings", "Table 1")
    table.figure("orthogonal, concrete", ours=.59, error=.01, theirs=.627, their_error=.019)
    table.claim("orthogonal below iid on every set", holds=True)
    table.note("The lengthscale is ours.")
    record.write()

The verdict follows from the claims: all hold, some, or none. Figures beside published ones are
judged by their distance in standard errors of both, and shown; preprocessing that a paper leaves
open may move them without touching a claim. `python -m benchmarks.reproduction.fidelity` makes the
page of all items.
"""

from __future__ import annotations

import json
import shlex
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

sys.path.append(str(Path(__file__).parents[2]))  # scripts of this folder run by their paths

from benchmarks.recorder import stamp

FOLDER = Path(__file__).parent
ITEMS = FOLDER / "items"
FINDINGS = FOLDER / "record"
VERDICTS = ("reproduced", "in part", "not reproduced", "by a test", "out of reach")


@dataclass(frozen=True)
class Figure:
    """One of our figures beside the published one, each with one standard error, where known.

    `median` is that of the same repeats whose mean is `ours`, where a mean hides a few large ones.
    """

    label: str
    ours: float
    error: float | None = None
    theirs: float | None = None
    their_error: float | None = None
    median: float | None = None

    @property
    def distance(self) -> float | None:
        """Standard errors of both between the two, None where an error is unknown."""
        if self.theirs is None or (self.error is None and self.their_error is None):
            return None
        spread = ((self.error or 0.0) ** 2 + (self.their_error or 0.0) ** 2) ** 0.5
        return (self.ours - self.theirs) / spread if spread > 0 else None


@dataclass(frozen=True)
class Claim:
    """A published statement that our figures uphold or contradict."""

    text: str
    holds: bool


@dataclass
class Finding:
    """What one script found about one published item."""

    paper: str
    name: str
    figures: list[Figure] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def figure(
        self,
        label: str,
        ours: float,
        error: float | None = None,
        theirs: float | None = None,
        their_error: float | None = None,
        median: float | None = None,
    ) -> None:
        """Add a figure of ours, with the published one where there is one."""
        others = (_rounded(number) for number in (error, theirs, their_error, median))
        self.figures.append(Figure(label, float(f"{float(ours):.4g}"), *others))

    def claim(self, text: str, holds: bool) -> None:
        """Add a statement of the paper and whether our figures uphold it."""
        self.claims.append(Claim(text, bool(holds)))

    def note(self, text: str) -> None:
        """Add a sentence on the protocol, or on the cause of a difference."""
        self.notes.append(text)

    @property
    def verdict(self) -> str:
        """`reproduced` if every claim holds, `in part` if some do, else `not reproduced`."""
        if not self.claims:
            raise ValueError(f"{self.paper}, {self.name}: a finding needs a claim")
        held = sum(claim.holds for claim in self.claims)
        return VERDICTS[0 if held == len(self.claims) else 1 if held else 2]


@dataclass
class Record:
    """The findings of one script, with the command that printed them."""

    script: str
    command: str
    findings: list[Finding] = field(default_factory=list)

    def item(self, paper: str, name: str) -> Finding:
        """Begin the finding about a published item, which its paper's list must hold."""
        if not any(item.name == name for item in items(paper)):
            raise ValueError(f"items/{paper}.toml has no item {name!r}")
        self.findings.append(finding := Finding(paper, name))
        return finding

    def write(self, folder: Path = FINDINGS) -> Path:
        """Write `SCRIPT.json` into a folder, which is the record's own unless one is given."""
        # An item without a claim has no verdict, and is refused before anything is written.
        assert all(finding.verdict for finding in self.findings)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{self.script}.json"
        path.write_text(json.dumps(asdict(self) | stamp(self.command), indent=1) + "\n", "utf-8")
        return path


@dataclass(frozen=True)
class Item:
    """One published item: its paper's list says what it claims and where it is checked."""

    paper: str
    name: str
    claim: str
    script: str = ""
    test: str = ""
    out_of_reach: str = ""

    def __post_init__(self) -> None:
        if sum(map(bool, (self.script, self.test, self.out_of_reach))) != 1:
            raise ValueError(
                f"{self.paper}, {self.name}: exactly one of script, test, out_of_reach"
            )


def command() -> str:
    """The command that started this process, as typed in the root of the repository."""
    script = f"benchmarks/reproduction/{Path(sys.argv[0]).name}"
    return shlex.join(["python", script, *sys.argv[1:]])


def papers() -> dict[str, dict[str, str]]:
    """Title, authors, year and address of every paper, by the names of their lists."""
    return {path.stem: _list(path.stem)["paper"] for path in sorted(ITEMS.glob("*.toml"))}


def items(paper: str) -> list[Item]:
    """The published items of a paper, in the paper's order."""
    return [Item(paper, **item) for item in _list(paper)["item"]]


def findings(folder: Path = FINDINGS) -> Iterator[tuple[str, Finding]]:
    """Every recorded finding with the command that printed it."""
    for path in sorted(folder.glob("*.json")):
        stored = json.loads(path.read_text("utf-8"))
        for finding in stored["findings"]:
            finding["figures"] = [Figure(**figure) for figure in finding["figures"]]
            finding["claims"] = [Claim(**claim) for claim in finding["claims"]]
            yield stored["command"], Finding(**finding)


def _list(paper: str) -> dict:
    with open(ITEMS / f"{paper}.toml", "rb") as file:
        return tomllib.load(file)


def _rounded(number: float | None) -> float | None:
    return None if number is None else float(f"{float(number):.4g}")
