"""Hostile values over time, and options for them."""

from __future__ import annotations

import io
from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from tests.hostile.cases import Case, Content

HEAD = "node,t,v\n"
ROWS = [f"{k},2012-03-01T00:{5 * j:02d},{50 + k + j}" for k in range(3) for j in range(4)]
GOOD = HEAD + "\n".join(ROWS) + "\n"


def with_row(row: str) -> bytes:
    """The good table with one more row."""
    return (GOOD + row + "\n").encode()


def with_times(*times: str) -> bytes:
    return (HEAD + "".join(f"{k},{time},{50 + k}\n" for k, time in enumerate(times))).encode()


def parquet(**columns: object) -> bytes:
    file = io.BytesIO()
    pa.parquet.write_table(pa.table(columns), file)
    return file.getvalue()


FAR = pa.array(["0001-01-01", "9999-12-31"]).cast(pa.timestamp("us"))
# Tables that are refused by the name of their file.
REFUSED: dict[str, Content] = {
    "empty": b"",
    "header-only": HEAD.encode(),
    "no-time": b"node,v\n1,2\n",
    "unknown-node": with_row("moon,2012-03-01T00:00,1"),
    "no-node": with_row(",2012-03-01T00:00,1"),
    "no-stamp": with_row("1,,1"),
    "bad-stamp": with_row("1,yesterday,1"),
    "february": with_row("1,2012-02-30T00:00,1"),
    "year-zero": with_row("1,0000-01-01T00:00,1"),
    "mixed-zones": with_row("1,2012-03-01T01:00Z,1"),
    "stamp-and-number": with_row("1,5,1"),
    "twice": with_row("0,2012-03-01T00:00,1"),
    "infinite": with_row("1,2012-03-01T01:00,inf"),
    "text": with_row("1,2012-03-01T01:00,fast"),
    "huge": with_row("1,2012-03-01T01:00,1e200"),
    "no-values": with_times("2012-03-01", "2012-03-02").replace(b"50", b"").replace(b"51", b""),
    "infinite-times": with_times("0", "inf", "2"),
    "nan-times": with_times("0", "nan", "2"),
    "huge-times": with_times("0", "1e300", "2"),
    "repeated-hour": with_times("2012-11-04T01:30", "2012-11-04T01:30").replace(b"1,2", b"0,2"),
    "wide-unknown": b"t,0,moon\n2012-03-01,1,2\n",
    "wide-alone": b"t\n2012-03-01\n2012-03-02\n",
    "wide-twice": b"t,0,1\n2012-03-01,1,2\n2012-03-01,3,4\n",
    "control": with_row("\x1b[31m,2012-03-01T00:00,1"),
}
NAMED: dict[str, Content] = {
    "far.parquet": lambda: parquet(node=[0, 1], t=FAR, v=[1.0, 2.0]),
    "nested.parquet": lambda: parquet(node=[0, 1], t=[[1], [2]], v=[1.0, 2.0]),
    "durations.parquet": lambda: parquet(node=[0, 1], t=np.array([1, 2], "m8[s]"), v=[1.0, 2.0]),
    "binary.parquet": lambda: parquet(node=[0, 1], t=[b"\xff", b"\xfe"], v=[1.0, 2.0]),
    "text.nc": b"CDF\x01, or so it says",
    "empty.nc": b"",
    "file.zarr": b"a file",
    "empty.zarr/notes.txt": b"no store",
    "bad.zarr/.zgroup": b"{",
}
# Options, all of which end in an error that names one of these texts.
OPTIONS: dict[str, tuple[tuple[str, ...], str]] = {
    "zone": (("--zone", "Mars/Olympus"), "zone"),
    "zone-path": (("--zone", "../../etc/passwd"), "zone"),
    "resolution": (("--resolution", "often"), "resolution"),
    "resolution-negative": (("--resolution=-1h",), "resolution"),
    "forecast": (("--ahead", "1 month"), "--ahead"),
    "forecast-short": (("--ahead", "1s"), "--ahead"),
    "times-two": (("--times", "2012-03-01:2012-03-02"), "--times"),
    "times-back": (("--times", "2012-03-02:2012-03-01:1h"), "--times"),
    "times-many": (("--times", "2012-03-01:2199-03-02:1ms"), "--times"),
    "times-numbers": (("--times", "0:10:1"), "--times"),
    "times-zero": (("--times", "2012-03-01:2012-03-02:0s"), "--times"),
    "nodes": (("--nodes", "0,moon"), "--nodes"),
    "nodes-table": (("--nodes", "{shared}/t.csv"), "--nodes"),
    "usual-day": (("--usual-day", "always"), "usual_day"),
    "dynamics": (("--dynamics", "yes"), "dynamics"),
    "time-kernel": (("--time-kernel", "linear"), "time_kernel"),
    "kernel": (("--kernel", "position"), "kernel"),
    "outliers": (("--outliers", "drop"), "--outliers"),
    "sensor-noise": (("--sensor-noise", "loud"), "sensor_noise"),
    "window": (("--window", "0s"), "--window"),
    "update-table": (("--update", "t.csv"), "t.csv"),
    "update-graph": (("--update", "{shared}/g.model"), "--update"),
    "loso": (("--left-out", "l.xlsx"), "--left-out"),
    "value-column": (("--target", "w"), "--target"),
    "value-columns": (("--target", "v", "--target", "w"), "--target"),
    "node-column": (("--node-column", "road"), "--node-column"),
    "save-is-output": (("--save-model", "law.csv"), "--save-model"),
    "holdout": (("--holdout", "0.5"), "--holdout"),
    "model": (("--model", "field"), "lengths"),
}


def words(values: str, *more: str, output: str = "law.csv") -> tuple[str, ...]:
    return ("interpolate", "{shared}/e.csv", "--values", f"./{values}", "--time-column", "t",
            "-o", output, *more)  # fmt: skip


def cases() -> Iterator[Case]:
    """All cases of values over time."""
    for name, content in REFUSED.items():
        yield Case(f"series-{name}", words("t.csv"), {"t.csv": content}, 2, ("t.csv",))
    for name, content in NAMED.items():
        file = name.split("/")[0]
        yield Case(f"series-{name}", words(file), {name: content}, 2, (file,))
    good = {"t.csv": (GOOD + "3,2012-03-01T00:00,2\n").encode()}
    for name, (options, text) in OPTIONS.items():
        yield Case(f"series-{name}", words("t.csv", *options), good, 2, (text,))
    for output in ("law.xlsx", "law", "none/law.nc", "none/law.zarr", "t.csv"):
        yield Case(f"series-to-{output}", words("t.csv", output=output), good, 2, (output, "--out"))
