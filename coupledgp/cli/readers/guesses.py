"""Columns that are known by their names: coordinates with units, nodes, times, values beside an id.

A guess is said in a notice, with the option that states another column.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa

from coupledgp.cli.readers.notices import notice
from coupledgp.cli.readers.tables import check_columns, listed
from coupledgp.columns.arrow import is_text
from coupledgp.errors import InvalidInputError

# A unit at the end of a name, such as X_mm, x (m) or depth [km].
UNIT = re.compile(r"[\s_.-]*[\[(\s_](mm|cm|m|km|in|ft|px|deg|degrees)[\])]?$", re.IGNORECASE)
DEGREES = (("longitude", "lon", "lng", "long"), ("latitude", "lat"))
X, Y, Z = ((k, f"p{k}", f"pos{k}", f"{k}pos", f"coord{k}", f"{k}coord") for k in "xyz")
METRES = (("east", "easting"), ("north", "northing"))
NODES = (("node", "nodeid", "sensor", "sensorid", "station", "stationid", "detector", "id"),)
TIMES = (("time", "timestamp", "datetime", "date", "t", "hour", "day"),)
ENDS = (("source", "from", "u", "fromnode"), ("target", "to", "v", "tonode"))
Words = Sequence[Sequence[str]]


def plain(name: str) -> str:
    """A name in small letters, without its unit and without marks."""
    return re.sub(r"[\W_]+", "", UNIT.sub("", name.strip())).lower()


def guessed(
    source: Path, names: Sequence[str], words: Words, what: str, option: str
) -> tuple[str, ...] | None:
    """One column for each list of words, None where one has no column or several.

    Parameters
    ----------
    source, names
        The file for the notice, and its columns.
    words
        Plain names of each column that is wanted.
    what, option
        What they are, and the option that names others.
    """
    found = [[name for name in names if plain(name) in own] for own in words]
    if not all(len(own) == 1 for own in found):
        return None
    columns = tuple(own[0] for own in found)
    notice(f"{source}: {what} are {listed(columns)} ({option} names others)")
    return columns


def are_degrees(names: Sequence[str]) -> bool:
    """Whether two columns are longitude and latitude."""
    return len(names) == 2 and all(
        plain(name) in words for name, words in zip(names, DEGREES, strict=True)
    )


def guessed_places(source: Path, names: Sequence[str], option: str) -> tuple[str, ...]:
    """The columns of places: longitude and latitude, x, y and z, or east and north.

    Raises
    ------
    InvalidInputError
        None or several have such names.
    """
    for words in (DEGREES, (X, Y, Z), (X, Y), METRES, (X,)):
        columns = guessed(source, names, words, "places", option)
        if columns is not None:
            return columns
    raise InvalidInputError(
        f"{option}: {source}: expected the columns that are places, got {listed(names)}"
    )


def is_name(name: str) -> bool:
    """Whether a column names a row rather than holding a value."""
    text = plain(name)
    named = text.endswith(("id", "name")) or text.startswith(("index", "unnamed"))
    return named or text in ("", "label", *NODES[0])


def value_column(source: Path, table: pa.Table, taken: Sequence[str], given: str | None) -> str:
    """The column of values: the given one, the only one beside others, or `value`.

    Parameters
    ----------
    source, table
        The file, and its content.
    taken
        Columns of places, nodes or times.
    given
        The column that `--target` names, if any.

    Raises
    ------
    InvalidInputError
        There is no such column, or several are of numbers and none is named `value`.
    """
    if given is not None:
        check_columns(table, [given], f"--target: {source}")
        return given
    others = [name for name in table.column_names if name not in taken]
    if len(others) == 1 or "value" in others:
        return "value" if "value" in others else others[0]
    left = [name for name in others if not is_name(name)]
    numbers = [name for name in left if not is_text(table.column(name).type)]
    for kept in (left, numbers):
        if len(kept) == 1:
            notice(f"{source}: values are {kept[0]!r} (--target names another)")
            return kept[0]
    raise InvalidInputError(
        f"{source}: expected one column of values, got {listed(numbers or others)}: --target names "
        "the one to take"
    )


def node_column(source: Path, table: pa.Table, given: str | None) -> str:
    """The column of nodes: the given one, `node`, or one of a similar name."""
    if given is None and "node" not in table.column_names:
        found = guessed(source, table.column_names, NODES, "nodes", "--node-column")
        if found is not None:
            return found[0]
    name = given or "node"
    check_columns(table, [name], f"--node-column: {source}")
    return name


def edge_ends(source: Path, table: pa.Table) -> tuple[str, str]:
    """The columns of both ends of the edges: `source` and `target`, or of similar names."""
    names = table.column_names
    if not {"source", "target"} <= set(names):
        found = guessed(source, names, ENDS, "ends of edges", "a header source,target")
        if found is not None:
            return found[0], found[1]
    check_columns(table, ["source", "target"], str(source))
    return "source", "target"
