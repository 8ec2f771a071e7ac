"""Tables in text: the forms of a CSV file that are made readable for pyarrow."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from coupledgp.errors import InvalidInputError
from coupledgp.ground.memory import MOST_TIMES, unfolded_bytes

DELIMITERS = ",;\t"
TRUE = ["true", "True", "TRUE", "yes", "Yes", "YES"]
FALSE = ["false", "False", "FALSE", "no", "No", "NO"]
CHUNK_BYTES = 2**22
# Columns above which all of them are read as numbers first.
WIDE = 4096
# Largest number of bytes and fields that pyarrow and csv take at once.
LARGEST = 2**31 - 1
MARKS = ((b"\xff\xfe\x00\x00", "utf-32"), (b"\x00\x00\xfe\xff", "utf-32"),
         (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))  # fmt: skip
# A number whose decimals stand behind a comma, and the same behind a point.
BEHIND_COMMA = r"^([-+]?\d+),(\d+(?:[eE][-+]?\d+)?)$", r"\1.\2"
BLANK_START = re.compile(rb"(?:[ ]*(?:\r\n|\r|\n))+")
BINARY = (
    (b"PK\x03\x04", "a zip archive"), (b"\x1f\x8b", "gzip, which its name says not"),
    (b"PAR1", "Parquet, which its name says not"), (b"ARROW1", "an Arrow file"),
    (b"\x93NUMPY", "an array of NumPy"), (b"\x89HDF", "HDF5"), (b"%PDF", "PDF"),
    (b"\xd0\xcf\x11\xe0", "an old Office file"), (b"SQLite format 3", "SQLite"),
)  # fmt: skip


def read_text_table(path: Path, as_text: Sequence[str] | None, missing_text: bool) -> pa.Table:
    """Read a CSV file, with some columns as text, or all if they are None.

    Lines end with LF, CRLF or CR, blank ones before the header are skipped, and fields have any
    length. The text is UTF-8, or UTF-16 or UTF-32 with a mark of the order of bytes. Between
    semicolons or tabs decimals may stand behind a comma, and as text they have a point.

    Raises
    ------
    InvalidInputError
        The file is no text, or unfolds into more than memory holds.
    pyarrow.ArrowException, UnicodeError, csv.Error
        It is no table.
    """
    content = _unfolded(_decoded(_content(path)))
    header, delimiter = _header(content)
    mark = decimal_mark(content, delimiter)
    types = dict.fromkeys(header if as_text is None else as_text, pa.string())
    booleans = {"true_values": TRUE, "false_values": FALSE} if missing_text else {}

    def read(block_size: int | None, types: dict[str, pa.DataType]) -> pa.Table:
        found = pa.csv.read_csv(
            pa.BufferReader(content),
            # Without threads, errors give the row.
            read_options=pa.csv.ReadOptions(use_threads=False, block_size=block_size),
            parse_options=pa.csv.ParseOptions(
                delimiter=delimiter, newlines_in_values=b'"' in content
            ),
            convert_options=pa.csv.ConvertOptions(
                column_types=types, strings_can_be_null=missing_text, decimal_point=mark, **booleans
            ),
        )
        if as_text is not None or mark == ".":
            return found
        pointed = [pc.replace_substring_regex(one, *BEHIND_COMMA) for one in found.columns]
        return pa.table(pointed, found.column_names)

    whole = min(len(content) + 1, LARGEST)
    if len(header) > WIDE:  # guessing the type of a column takes longer than reading it
        with suppress(pa.ArrowInvalid):
            return read(whole, dict.fromkeys(header, pa.float64()) | types)
    try:
        return read(None, types)
    except pa.ArrowInvalid as error:
        if "block" not in str(error):
            raise
        return read(whole, types)  # a row longer than a block


def _unfolded(content: bytes) -> bytes:
    """The text itself, or records of JSON, an array of them or one a line, as CSV.

    Raises
    ------
    InvalidInputError
        It is JSON of something else.
    """
    if content.lstrip()[:1] not in (b"[", b"{"):
        return content
    try:
        rows = json.loads(content)
    except ValueError:
        try:
            rows = [json.loads(line) for line in content.splitlines() if line.strip()]
        except ValueError:
            return content
    rows = rows if isinstance(rows, list) else [rows]
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise InvalidInputError("expected a table: JSON of an array of objects, a row each")
    text = io.StringIO(newline="")
    names = dict.fromkeys(name for row in rows for name in row)
    table = csv.DictWriter(text, names, lineterminator="\n")
    table.writeheader()
    table.writerows(rows)
    return text.getvalue().encode()


def _content(path: Path) -> bytes:
    """The bytes of a file, decompressed if its extension says so."""
    most = unfolded_bytes(path.stat().st_size)
    parts, length = [], 0
    with pa.input_stream(str(path)) as stream:
        while chunk := stream.read(CHUNK_BYTES):
            length += len(chunk)
            if length > most:
                raise InvalidInputError(
                    f"expected a table of at most {most} bytes, {MOST_TIMES} times the file's size "
                    "or a third of the free memory, got a longer one"
                )
            parts.append(chunk)
    return b"".join(parts)


def _decoded(content: bytes) -> bytes:
    """The text in UTF-8 from its first line that is not blank, without a byte order mark."""
    for mark, encoding in MARKS:
        if content.startswith(mark):
            content = content.decode(encoding).encode()
            break
    content = content.removeprefix(b"\xef\xbb\xbf")
    for start, name in BINARY:
        if content.startswith(start):
            raise InvalidInputError(f"expected a CSV file with a header line, got {name}")
    if (place := content.find(b"\0")) >= 0:
        raise InvalidInputError(
            f"expected a CSV file with a header line, got a null character at byte {place}"
        )
    blank = BLANK_START.match(content)
    content = content if blank is None else content[blank.end() :]
    if not content.strip():
        raise InvalidInputError("expected a CSV file: the file or its first line is empty")
    return content


def _header(content: bytes) -> tuple[list[str], str]:
    """Names of the columns, and the delimiter: the one that the header has most outside quotes."""
    first = re.split(rb"[\r\n]", content, maxsplit=1)[0]
    bare = re.sub(rb'"[^"]*"', b"", first).decode()
    delimiter = max(DELIMITERS, key=bare.count)
    most = csv.field_size_limit(LARGEST)
    try:
        # Beyond the header bytes that are no UTF-8 are named by their row, later.
        lines = io.TextIOWrapper(io.BytesIO(content), "utf-8", errors="replace", newline="")
        return next(csv.reader(lines, delimiter=delimiter)), delimiter
    finally:
        csv.field_size_limit(most)


def decimal_mark(text: bytes, delimiter: str) -> str:
    """What stands before decimals: a comma where fields have one, and none of them a point.

    Fields that the comma divides have a point.
    """
    field = rb'(?:^|[;\t"\r\n])[-+]?\d+%b\d+(?:[eE][-+]?\d+)?(?=[;\t"\r\n]|$)'
    if delimiter == "," or re.search(field % rb"\.", text) or not re.search(field % b",", text):
        return "."
    return ","
