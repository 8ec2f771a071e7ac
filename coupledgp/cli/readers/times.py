"""Requested times and nodes of a law over time, from texts of the command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from coupledgp.cli.readers.networks import node_texts
from coupledgp.cli.readers.series import NODE, Nodes
from coupledgp.cli.readers.tables import check_columns, read_table
from coupledgp.errors import InvalidInputError
from coupledgp.random import FloatArray
from coupledgp.series import TimeAxis
from coupledgp.series.stamps import read_stamps

# Most rows of a law that is written.
MOST_ROWS = 10**8
TIMES = "FIRST:LAST:STEP, such as 2012-03-05:2012-03-06:15min"
SENSORS, ALL = "sensors", "all"


def parse_times(text: str, axis: TimeAxis, zone: str | None, name: str = "--times") -> FloatArray:
    """Numbers (b,) of an axis from the first to the last time of a text, with its step.

    Times may have colons themselves: of all ways to part the text the one that can be read counts.

    Raises
    ------
    InvalidInputError
        The text can be read in no way or in several, the last time is before the first, or there
        are more than 10^8 steps.
    """
    parts = text.split(":")
    found = []
    for i in range(1, len(parts) - 1):
        for j in range(i + 1, len(parts)):
            three = (":".join(parts[:i]), ":".join(parts[i:j]), ":".join(parts[j:]))
            read = _read(three, axis, zone)
            if read is not None and read not in found:
                found.append(read)
    if len(found) != 1:
        raise InvalidInputError(f"{name}: expected {TIMES}, in {axis.kind}, got {text!r:.100}")
    first, last, step = found[0]
    if last < first:
        raise InvalidInputError(f"{name}: expected a last time after the first, got {text!r:.100}")
    count = np.floor((last - first) / step + 1e-9) + 1
    if count > MOST_ROWS:
        raise InvalidInputError(f"{name}: expected at most 10^8 steps, got {count:.3g}")
    return np.asarray(first + step * np.arange(int(count)))


def _read(
    three: tuple[str, str, str], axis: TimeAxis, zone: str | None
) -> tuple[float, float, float] | None:
    """First and last time and step as numbers of an axis; None for other texts."""
    try:
        ends = [_number(text, axis, zone) for text in three[:2]]
        return ends[0], ends[1], axis.duration(three[2])
    except (InvalidInputError, ValueError):
        return None


def _number(text: str, axis: TimeAxis, zone: str | None) -> float:
    if axis.origin is None:
        return float(axis.numbers([float(text)])[0])
    stamps = read_stamps([text])
    if stamps.zone is None and axis.zone is not None:
        stamps = stamps.within(zone or axis.zone)
    return float(axis.numbers(stamps)[0])


def chosen_nodes(text: str | None, nodes: Nodes, sensors: Sequence[str]) -> list[int]:
    """Numbers of the nodes at which a law is written.

    Parameters
    ----------
    text
        `"all"` (also None), `"sensors"`, the path of a table with a column node, or labels with
        commas between.
    nodes
        Nodes of the graph.
    sensors
        Texts of the labels of sensors, in the order in which `"sensors"` stands for them.
    """
    if text is None or text == ALL:
        return list(range(len(nodes.labels)))
    if text == SENSORS:
        return [nodes.numbers[label] for label in sensors]
    path = Path(text)
    if path.suffix and path.is_file():
        table = read_table(path, text_columns=True)
        check_columns(table, [NODE], f"--nodes: {path}")
        texts = node_texts(table, NODE, f"--nodes: {path}")
    else:
        texts = text.split(",")
    found = nodes.find(texts, lambda k: f"--nodes: place {k + 1}")
    return list(dict.fromkeys(found.tolist()))


def check_rows(n_nodes: int, n_times: int) -> None:
    """Refuse a law of more than 10^8 rows."""
    if n_nodes * n_times > MOST_ROWS:
        raise InvalidInputError(
            f"--output: expected at most 10^8 rows, got {n_nodes} nodes at {n_times} times, "
            f"{float(n_nodes * n_times):.3g} rows; --times FIRST:LAST:STEP and --nodes sensors "
            "choose fewer"
        )
