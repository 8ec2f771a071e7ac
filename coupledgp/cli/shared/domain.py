"""Domains of the command line, from files to files: rows, nodes, a field, values over time."""

from __future__ import annotations

import json
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any

from coupledgp.cli.readers.files import about
from coupledgp.cli.shared.declare import Options
from coupledgp.cli.shared.evaluate import Stopwatch
from coupledgp.diagnostics.pages.terminal import print_report
from coupledgp.diagnostics.sections.report import Report
from coupledgp.ground.output import written_whole
from coupledgp.ground.validation import json_values

SCHEMA_VERSION = 1
# Files to write by the names of their options, None where they are not asked for.
Paths = Mapping[str, Path | None]


class Domain(ABC):
    """A kind of data that the command line fits models to.

    Options are checked in the constructor, before anything is read. `run` then calls `read`, `fit`,
    `law` and `write` in this order; a new domain states these, and how it is shown.

    Attributes
    ----------
    options : Options
        Those of the command, with the files that are read and written.
    clock : Stopwatch
        Seconds of the parts of the work.
    remarks : list of str
        Warnings that were given, for the page and the JSON.
    """

    def __init__(self, options: Options, remarks: list[str] | None = None) -> None:
        self.options = options
        self.clock = Stopwatch()
        self.remarks = [] if remarks is None else remarks

    @abstractmethod
    def read(self) -> None:
        """Read the data."""

    @abstractmethod
    def fit(self) -> None:
        """Fit the estimator, or the one of several that is chosen."""

    @abstractmethod
    def law(self, paths: Paths) -> dict[str, Any]:
        """Predict, score and compare; return all that `--json` prints, as plain values."""

    @abstractmethod
    def write(self, result: dict[str, Any], paths: Paths) -> None:
        """Write the requested files to temporary paths."""

    @abstractmethod
    def report(self, result: dict[str, Any]) -> Report:
        """The result as a report, which is printed for a person."""

    def opened(self, name: str, path: Path) -> AbstractContextManager[Path]:
        """A temporary path, which replaces an output at the end unless an error is raised."""
        return written_whole(path)


def run(domain: Domain) -> dict[str, Any]:
    """Take a domain from its files to its files; return the result to print.

    Raises
    ------
    CoupledGPError
        The data or an option is invalid; no file is written then.
    """
    with ExitStack() as stack, about(*domain.options.inputs):
        # Outputs that cannot be written are refused before the work, not after it.
        paths = {
            name: None if path is None else stack.enter_context(domain.opened(name, path))
            for name, path in domain.options.outputs.items()
        }
        with noted(domain.remarks):
            domain.read()
            with domain.clock("fit"):
                domain.fit()
            result = domain.law(paths)
            domain.write(result, paths)
    return result


def answer(domain: Domain) -> None:
    """Run a domain and print the result."""
    result = run(domain)
    shown(domain.options, result, lambda: print_report(domain.report(result)))


def shown(options: Options, result: Any, printed: Callable[[], None]) -> None:
    """Print a result as JSON where that is asked for, else for a person."""
    if options.as_json:
        print(json.dumps(json_values(result), indent=2))
    else:
        printed()


def write_page(options: Options, page: Path, report: Any) -> None:
    """Write the page that is the output to a temporary file, and print the figures."""
    report.to_html(page)
    output = options.outputs["output"]
    result = report.to_dict() | {"output": str(output)}
    shown(options, result, lambda: print_report(report.layout(), written=output))


def heading() -> dict[str, Any]:
    """The first entries of every result."""
    return {"schema_version": SCHEMA_VERSION, "coupledgp": version("coupledgp")}


def texts(paths: Paths) -> dict[str, str | None]:
    """Paths as texts."""
    return {name: None if path is None else str(path) for name, path in paths.items()}


@contextmanager
def noted(remarks: list[str]) -> Iterator[None]:
    """Show warnings as before, and add their texts to a list for the page and the JSON."""
    show = warnings.showwarning

    def note(message: Warning | str, *rest: Any, **named: Any) -> None:
        text = " ".join(str(message).split())
        if text not in remarks:
            remarks.append(text)
        show(message, *rest, **named)

    with warnings.catch_warnings():
        warnings.showwarning = note
        yield
