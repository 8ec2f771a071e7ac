"""Hostile tables: texts and binaries that somebody may give for a table of a, b and y."""

from __future__ import annotations

import bz2
import gzip
import io
import itertools
import pickle
import zipfile
from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet

from tests.hostile.cases import Case, Content
from tests.hostile.shared import SPARSE, table

PLAIN = table().encode()
ROWS = table().splitlines()
HEAD, BODY = ROWS[0], ROWS[1:]


def with_cell(cell: str, column: int = 0, row: int = 2) -> bytes:
    """The table with another value in one cell."""
    rows = [line.split(",") for line in BODY]
    rows[row][column] = cell
    return "\n".join([HEAD, *map(",".join, rows)]).encode() + b"\n"


def with_column(values: list[str], column: int = 0) -> bytes:
    """The table with other values of one column, again and again."""
    rows = [line.split(",") for line in BODY]
    for row, value in zip(rows, itertools.cycle(values), strict=False):
        row[column] = value
    return "\n".join([HEAD, *map(",".join, rows)]).encode() + b"\n"


def renamed(name: str) -> bytes:
    """The table with another name of its first column."""
    return PLAIN.replace(b"a,", name.encode() + b",", 1)


def arrow(**columns: object) -> pa.Table:
    rows = np.loadtxt(io.BytesIO(PLAIN), delimiter=",", skiprows=1)
    found = dict(zip("aby", rows.T, strict=True)) | columns
    return pa.table({name: values for name, values in found.items() if values is not None})


def parquet(given: pa.Table | None = None) -> bytes:
    file = io.BytesIO()
    pa.parquet.write_table(arrow() if given is None else given, file)
    return file.getvalue()


def feather() -> bytes:
    file = io.BytesIO()
    pa.feather.write_feather(arrow(), file)
    return file.getvalue()


def zipped() -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("t.csv", PLAIN)
    return file.getvalue()


def saved(writer: Callable[..., None]) -> bytes:
    file = io.BytesIO()
    writer(file, np.arange(12.0))
    return file.getvalue()


class Executed:
    """An object whose pickle runs code that raises."""

    def __reduce__(self) -> tuple[object, ...]:
        return (exec, ("raise SystemExit('a pickle was executed')",))


RNG = np.random.default_rng(11)
BIG = 10_000_000

# Texts that tables are read from as pandas reads them: the prediction has to be that of the table.
READ: dict[str, Content] = {
    "plain": PLAIN,
    "bom": b"\xef\xbb\xbf" + PLAIN,
    "utf16": PLAIN.decode().encode("utf-16"),
    "utf16be": b"\xfe\xff" + PLAIN.decode().encode("utf-16-be"),
    "utf32": PLAIN.decode().encode("utf-32"),
    "crlf": PLAIN.replace(b"\n", b"\r\n"),
    "cr": PLAIN.replace(b"\n", b"\r"),
    "blank-start": b"\n\n  \n" + PLAIN,
    "blank-start-crlf": b"\r\n\r\n" + PLAIN.replace(b"\n", b"\r\n"),
    "blank-start-cr": b"\r\r" + PLAIN.replace(b"\n", b"\r"),
    "bom-blank": b"\xef\xbb\xbf\n" + PLAIN,
    "blank-inside": PLAIN.replace(b"\n", b"\n\n"),
    "blank-end": PLAIN + b"\n\n\n",
    "no-last-newline": PLAIN.rstrip(b"\n"),
    "semicolon": PLAIN.replace(b",", b";"),
    "tab": PLAIN.replace(b",", b"\t"),
    "quoted": b'"a","b","y"\n' + b"\n".join(
        b",".join(b'"%s"' % cell for cell in row.encode().split(b",")) for row in BODY
    ),
    "other-order": b"\n".join(b",".join(r.encode().split(b",")[::-1]) for r in ROWS),
    "one-row": "\n".join(ROWS[:2]).encode(),
    "two-rows": "\n".join(ROWS[:3]).encode(),
    "exponents": with_column(["1e-3", "2E+0", "+0.5", "-1.e0"]),
    "large-int": with_cell("9007199254740993"),
    "beyond-int64": with_cell("123456789012345678901234567890"),
    "field-of-10mb": lambda: "\n".join(
        f"{row},{'note' if k == 0 else 'x' * (BIG if k == 4 else 3)}"
        for k, row in enumerate(ROWS)
    ).encode(),
    "name-of-1mb": lambda: "\n".join(
        f"{row},{'n' * 1_000_000 if k == 0 else 'x'}" for k, row in enumerate(ROWS)
    ).encode(),
    "quoted-newline": b'a,b,y,"no\nte"\n' + b"\n".join(
        row.encode() + b',"two\nlines"' for row in BODY
    ),
    "escape-in-name": b"a,b,y,\x1b[31mred\x07\n" + b"\n".join(r.encode() + b",1" for r in BODY),
    "mathtext-name": b"a,b,y,$\\frac{\n" + b"\n".join(r.encode() + b",1" for r in BODY),
    "html-name": b"a,b,y,<script>alert(1)</script>\n" + b"\n".join(
        r.encode() + b",{{ 7 * 7 }}" for r in BODY
    ),
    "control-in-text": b"a,b,y,z\n" + b"\n".join(r.encode() + b",\x1b]0;x\x07" for r in BODY),
    "rtl-name": "a,b,y,\u202egnp.exe\n".encode() + b"\n".join(r.encode() + b",1" for r in BODY),
    "emoji-name": ("a,b,y,🦆\n" + "\n".join(f"{r},🦆" for r in BODY)).encode(),
}  # fmt: skip

# Texts that are refused, with what the error says.
REFUSED: dict[str, Content] = {
    "empty": b"",
    "newlines-only": b"\n\n\n",
    "spaces-only": b"   \n  ",
    "bom-only": b"\xef\xbb\xbf",
    "utf16-bom-only": b"\xff\xfe",
    "commas-only": b",,\n,,\n",
    "nul-bytes": PLAIN.replace(b"0", b"\0"),
    "nul-file": b"\0" * 5000,
    "rubbish": RNG.bytes(3000),
    "utf16-no-bom": PLAIN.decode().encode("utf-16-le"),
    "utf16-odd": b"\xff\xfe" + PLAIN[:31],
    "latin1-header": b"\xe9\xe8,b,y\n1,2,3\n",
    "duplicate-columns": b"a,a,y\n1,2,3\n4,5,6\n",
    "ragged-short": PLAIN + b"1,2\n",
    "ragged-long": PLAIN + b"1,2,3,4\n",
    "unclosed-quote": PLAIN + b'"1,2,3\n',
    "unclosed-quote-header": b'"a,b,y\n1,2,3\n',
    "missing-columns": b"p,q\n1,2\n",
    "text-in-number": with_cell("twelve"),
    "decimal-comma-quoted": with_cell('"1,5"'),
    "thousands": with_cell('"1,234.5"'),
    "percent": with_cell("12%"),
    "currency": with_cell("€3"),
    "underscore": with_cell("1_000"),
    "infinity": with_cell("inf"),
    "overflow": with_cell("1e999"),
    "html": b"<!doctype html><html><body>404</body></html>",
    "json": b'{"a": [1, 2], "b": [3, 4], "y": [5, 6]}',
    "python": b"import os\nos.system('false')\n",
    "gzip-without-name": gzip.compress(PLAIN),
    "zip-without-name": zipped(),
    "parquet-without-name": parquet(),
    "arrow": feather(),
    "npy": saved(np.save),
    "npz": saved(np.savez),
    "pickle": pickle.dumps(Executed()),
    "elf": b"\x7fELF\x02\x01\x01" + b"\0" * 50,
    "long-line": b"x" * 100_000,
    "many-commas": b"," * 20_000 + b"\n" + b"1," * 20_000 + b"\n",
}  # fmt: skip

# Other names of the file than t.csv.
NAMED: dict[str, Content] = {
    "t.csv.gz": gzip.compress(PLAIN),
    "t.csv.bz2": bz2.compress(PLAIN),
    "t.txt": PLAIN,
    "t": PLAIN,
    "t.parquet": parquet(),
    "T.CSV": PLAIN,
    "a b;c'd\"e.csv": PLAIN,
    "ü\u202e.csv": PLAIN,
    "new\nline.csv": PLAIN,
    "\x1b[31m.csv": PLAIN,
    "-t.csv": PLAIN,
    "int.parquet": parquet(arrow(a=pa.array(range(16), pa.uint8()))),
    "float16.parquet": parquet(arrow(a=pa.array(np.arange(16, dtype=np.float16)))),
    "decimal.parquet": parquet(arrow(a=pa.array(range(16), pa.decimal128(38, 30)))),
    "chunks.parquet": parquet(pa.concat_tables([arrow()[:5], arrow()[5:]])),
    "dictionary.parquet": parquet(
        arrow(a=pa.array([0.5, 1.5] * 8).dictionary_encode())
    ),
    "null-type.parquet": parquet(arrow(z=pa.nulls(16))),
    "nested-extra.parquet": parquet(arrow(z=pa.array([[1]] * 16), w=pa.array([{"k": 1}] * 16))),
}  # fmt: skip
BAD_NAMED: dict[str, Content] = {
    "bad.csv.gz": PLAIN,
    "short.csv.gz": gzip.compress(PLAIN)[:40],
    "bomb.csv.gz": lambda: gzip.compress(b"a,b,y\n" + b"1,2,3\n" * 20_000_000),
    "bad.csv.bz2": PLAIN,
    "short.csv.bz2": bz2.compress(PLAIN)[:40],
    "bad.csv.zst": PLAIN,
    "t.csv.zip": zipped(),
    "bad.parquet": PLAIN,
    "short.parquet": parquet()[:-20],
    "cut.parquet": parquet()[:200],
    "magic.parquet": b"PAR1PAR1",
    "empty.parquet": b"",
    "no-columns.parquet": parquet(pa.table({})),
    "nested.parquet": parquet(arrow(a=pa.array([[1.0]] * 16))),
    "struct.parquet": parquet(arrow(a=pa.array([{"v": 1}] * 16))),
    "binary.parquet": parquet(arrow(a=pa.array([b"\xff"] * 16))),
    "time.parquet": parquet(arrow(a=pa.array(range(16), pa.time64("us")))),
    "map.parquet": parquet(arrow(a=pa.array([[("k", 1)]] * 16, pa.map_(pa.string(), pa.int8())))),
    "infinite.parquet": parquet(arrow(a=[float("inf")] * 16)),
    "twice.parquet": parquet(
        pa.Table.from_arrays([pa.array([1.0]), pa.array([2.0])], names=["a", "a"])
    ),
    "lone.xlsx": zipped(),
    "dir.csv/inner.csv": PLAIN,
}  # fmt: skip

# Columns of a table to fit, read in some way or refused.
COLUMNS: dict[str, list[str]] = {
    "dates": ["2024-01-01", "2024-02-30", "2024-03-01"],
    "good-dates": ["2024-01-01", "2024-02-28", "2024-03-01"],
    "far-dates": ["0001-01-01", "9999-12-31"],
    "times": ["12:00", "13:30:05"],
    "zones": ["2024-01-01T00:00:00Z", "2024-01-02T00:00:00+02:00"],
    "booleans": ["true", "FALSE"],
    "mixed-booleans": ["true", "1", "no"],
    "missing": ["", "NA", "NaN"],
    "half-missing": ["", "1.5"],
    "question-marks": ["?", "1.5", "-"],
    "constant": ["7"],
    "constant-large": ["1e300"],
    "tiny": ["1e-320", "3e-310"],
    "zeros": ["0", "-0.0"],
    "hex": ["0x1F", "0xff"],
    "decimal-comma": ['"1,5"', '"2,75"'],
    "roman": ["iv", "xii"],
    "long-text": ["x" * 3000, "y" * 3000],
    "unique-text": [f"id{k}" for k in range(16)],
    "numbers-and-text": ["1", "2", "three"],
    "spaces": [" 1", "2 ", " 3 "],
    "digits-of-the-east": ["٣", "४"],
    "minus-sign": ["−1", "−2"],
    "nan-payload": ["nan(123)", "-nan"],
    "leading-zeros": ["007", "0010"],
    "big-integers": ["9223372036854775807", "9223372036854775808"],
    "bigger-integers": ["1" * 400, "2" * 400],
    "quotes": ['"a""b"', '"c"'],
    "equal-but-one": ["1"] * 15 + ["1.0000000000000002"],
}


def predict(file: str) -> tuple[str, ...]:
    return ("predict", "{shared}/t.model", f"./{file}", "-o", "out.csv")


def fit(file: str, *more: str) -> tuple[str, ...]:
    return ("fit", f"./{file}", "-t", "y", *SPARSE, "-o", "out.model", *more)


def cases() -> Iterator[Case]:
    """All cases of tables."""
    for name, content in READ.items():
        yield Case(f"predict-{name}", predict("t.csv"), {"t.csv": content}, 0)
    for name, content in NAMED.items():
        yield Case(f"predict-{name!r}", predict(name), {name: content}, 0)
    for name, content in REFUSED.items():
        file = {"t.csv": content}
        yield Case(f"predict-{name}", predict("t.csv"), file, 2, ("t.csv",))
        yield Case(f"audit-{name}", audit("t.csv"), file, 2, ("t.csv",))
        yield Case(f"report-{name}", ("report", "{shared}/t.model", "t.csv", "-o", "o.html"),
                   file, 2, ("t.csv",))  # fmt: skip
    for name, content in BAD_NAMED.items():
        file = name.split("/")[0]
        yield Case(f"predict-{name}", predict(file), {name: content}, 2, (file,))
    empty = {"t.csv": b"a,b,y\n", "t.parquet": parquet(arrow()[:0])}
    for name, content in empty.items():
        file = {name: content}
        yield Case(f"predict-no-rows-{name}", predict(name), file, 0)
        yield Case(f"fit-no-rows-{name}", fit(name), file, 2, (name,))
        yield Case(f"audit-no-rows-{name}", audit(name), file, 2, (name,))
        yield Case(f"report-no-rows-{name}", ("report", "{shared}/t.model", name, "-o", "o.html"),
                   file, 2, (name,))  # fmt: skip
    for name, content in REFUSED.items():
        code = 0 if name in ("text-in-number", "thousands", "percent", "decimal-comma-quoted",
                             "currency", "underscore") else 2  # fmt: skip
        yield Case(f"fit-{name}", fit("t.csv"), {"t.csv": content}, code, ("t.csv",))
    for name, values in COLUMNS.items():
        yield Case(f"fit-input-{name}", fit("t.csv"), {"t.csv": with_column(values)})
        yield Case(f"fit-target-{name}", fit("t.csv"), {"t.csv": with_column(values, 2)})
        yield Case(f"predict-input-{name}", predict("t.csv"), {"t.csv": with_column(values)})


def audit(file: str) -> tuple[str, ...]:
    return ("audit", "--train", "{shared}/t.csv", "--test", "{shared}/law.csv", "-t", "y",
            "--predictions", f"./{file}", "-o", "out.html")  # fmt: skip
