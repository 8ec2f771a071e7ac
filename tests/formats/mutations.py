"""Changes of model files, each with a checksum that fits.

Those of one value or array; those in which a size grows together with all arrays, lists and numbers
that justify it; entries that no array may have, which have to be refused; and descriptions of
arrays that no file has.
"""

from __future__ import annotations

import json
import math
import re
import struct
import warnings
from pathlib import Path

import numpy as np
from safetensors import safe_open

from coupledgp.gp.container import _digest

VALUES = [
    None, True, -1, 0, 1, 2, 3, 10**9, 2**63, 10**400, -0.5, 1e-300, 1e300, "", "auto", "NaN",
    "copula:[" + "[]," * 3 + "[]]", "orthogonal-fast+antithetic", "orthogonal+copula:[[0.5]]",
    "quadrature", "matern-99", "laplace", "predict", "__class__", "x" * 3000, [], [[]], {},
    [1, 2, 3], [0.5] * 40, {"tuple": [1]}, {"class": "LearnedKernel", "n_terms": 10**9},
]  # fmt: skip
NUMBERS = [np.nan, np.inf, -np.inf, 0, -1, 1e300, -1e300, 1e-320, 2**31, 10**12, 7, 0.5]

# Kinds of changes and how often each is made.
ROUTES = {
    "header": 30, "arrays": 25, "both": 8, "bytes": 3, "cut": 2, "text": 2, "grown": 12,
    "spoiled": 14, "container": 4,
}  # fmt: skip
HEADER_EDITS = {"value": 50, "drop": 10, "add": 10, "deep": 5, "scale": 20, "flip": 5}
ARRAY_EDITS = {
    "entries": 30, "dtype": 10, "flat": 5, "turned": 5, "cut": 10, "grown": 10, "shuffled": 10,
    "drop": 5, "empty": 5, "swap": 5, "all": 5,
}  # fmt: skip
NAMES = ["predict", "_fitted", "X", "members", "plan", "weights", "n_terms"]
TYPES = ["float32", "int64", "uint8", "float16", "bool", "int32", "float64", "uint64"]
TEXTS = ["[" * 10**5, "[]", "1e999", "{}{}", '{"class": NaN}', '{"class": 1e999}']


def chosen(shares: dict[str, int], rng) -> str:
    """One of the names, as often as its share says."""
    return str(rng.choice(list(shares), p=np.array([*shares.values()]) / sum(shares.values())))


def cast(value, dtype):
    """Numbers as another type, whatever becomes of them."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return value.astype(dtype)


# Names of types in safetensors.
CODES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "int64": "I64", "int32": "I32",
    "int8": "I8", "uint8": "U8", "bool": "BOOL", "uint64": "U64",
}  # fmt: skip
# Bytes of the arrays of a file in which a size has grown, at most, and numbers to which those of
# headers are set.
MOST_BYTES = 2e6
EXTREMES = [
    0,
    -1,
    10**2,
    10**3,
    10**4,
    10**6,
    10**9,
    2**31,
    2**53,
    2**62,
    1e-75,
    1e75,
    1e150,
    1e-200,
]
# Arrays that make a sparse matrix: pointers, numbers of columns, entries.
SPARSE = (("indptr", "indices", "edge_weights"), *(
    tuple(f"operator.stiffness_{part}" for part in ("indptr", "indices", "data")),
))  # fmt: skip


def opened(path: Path) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    """Metadata and arrays of a file."""
    with safe_open(path, "numpy") as file:
        return file.metadata(), {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def signed(metadata, text: str, arrays, described=None, padding: int = 0) -> bytes:
    """Bytes of a file whose checksum fits.

    `described` replaces or adds descriptions of arrays, `padding` is a number of empty arrays.
    """
    arrays = {name: np.ascontiguousarray(value) for name, value in arrays.items()}
    metadata = {**metadata, "model": text, "sha256": _digest(text, arrays)}
    header, first = {"__metadata__": metadata}, 0
    for name, value in arrays.items():
        stop = first + value.nbytes
        code = CODES[value.dtype.name]
        header[name] = {"dtype": code, "shape": [*value.shape], "data_offsets": [first, stop]}
        first = stop
    empty = {"dtype": "F64", "shape": [0], "data_offsets": [0, 0]}
    header |= {f"empty.{number}": empty for number in range(padding)} | (described or {})
    top = json.dumps(header).encode()
    return struct.pack("<Q", len(top)) + top + b"".join(v.tobytes() for v in arrays.values())


def places_in(value, path=()):
    """Paths of all values of a header."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    for key, child in items:
        yield (*path, key)
        if isinstance(child, (dict, list)) and len(path) < 6:
            yield from places_in(child, (*path, key))


def edit_header(header, rng) -> str:
    """Change a value of a header; return what was done."""
    paths = list(places_in(header))
    path = paths[rng.integers(len(paths))]
    owner = header
    for key in path[:-1]:
        owner = owner[key]
    kind = chosen(HEADER_EDITS, rng)
    last = path[-1]
    if kind == "drop":
        del owner[last]
    elif kind == "add" and isinstance(owner, dict):
        owner[NAMES[rng.integers(len(NAMES))]] = VALUES[rng.integers(len(VALUES))]
    elif kind == "deep":
        value: list = []
        for _ in range(int(rng.choice([5, 40, 500]))):
            value = [value]
        owner[last] = value
    elif kind == "scale" and type(owner[last]) in (int, float):
        owner[last] = owner[last] * [-1, 0.5, 1e-9, 1e9, 1e200, 2][rng.integers(6)]
    elif kind == "flip" and isinstance(owner[last], str):
        owner[last] = owner[last][::-1]
    else:
        owner[last] = VALUES[rng.integers(len(VALUES))]
    return f"header {kind} {'.'.join(map(str, path))}"


def edit_arrays(arrays, rng) -> str:
    """Change an array; return what was done."""
    name = sorted(arrays)[rng.integers(len(arrays))]
    value = arrays[name]
    kind = chosen(ARRAY_EDITS, rng)
    if kind in ("entries", "all") and value.size:
        value = value.copy()
        some = rng.integers(value.size, size=1 + rng.integers(3))
        number = np.float64(NUMBERS[rng.integers(len(NUMBERS))])
        value.reshape(-1)[slice(None) if kind == "all" else some] = cast(number, value.dtype)
    elif kind == "dtype":
        value = cast(value, TYPES[rng.integers(len(TYPES))])
    elif kind == "flat":
        value = value.reshape(-1)
    elif kind == "turned":
        value = value.T
    elif kind == "cut":
        value = value[: len(value) // 2] if value.ndim else value[None]
    elif kind == "grown":
        value = np.concatenate([value, value[:3]]) if value.ndim else value[None, None]
    elif kind == "shuffled" and value.ndim:
        value = rng.permutation(value)
    elif kind == "empty":
        value = value[..., :0] if value.ndim else value.reshape(1)[:0]
    elif kind == "swap":
        other = sorted(arrays)[rng.integers(len(arrays))]
        arrays[other] = value
    if kind == "drop":
        del arrays[name]
    else:
        arrays[name] = value
    return f"array {kind} {name}"


def extended(value, shape):
    """An array of a larger shape: orders and rising numbers go on, others begin again."""
    if value.ndim == 1 and value.size < shape[0] and value.size > 1:
        more = np.arange(value.size, shape[0])
        steps = np.diff(value) if value.dtype.kind in "if" else np.zeros(1)
        if value.dtype.kind == "i" and np.array_equal(np.sort(value), np.arange(value.size)):
            return np.concatenate([value, more.astype(value.dtype)])
        if (steps > 0).all():
            tail = value[-1] + (more - value.size + 1) * steps[-1]
            return np.concatenate([value, tail.astype(value.dtype)])
    for axis, n in enumerate(shape):
        if n != value.shape[axis]:
            value = np.take(value, np.arange(n) % value.shape[axis], axis)
    return value


def grown(header, arrays, old: int, times: int):
    """Header and arrays in which every axis, list and number of one size is some times as long.

    So are axes of twice the size, as of features, and one more, as of pointers.
    """
    sizes = {old: old * times, 2 * old: 2 * old * times, old + 1: old * times + 1}
    arrays = dict(arrays)
    for pointers, columns, entries in SPARSE:
        if pointers in arrays and arrays[pointers].size == old + 1:
            copies, n_entries = np.arange(times)[:, None], arrays[columns].size
            ends = (copies * n_entries + arrays[pointers][1:]).reshape(-1)
            arrays[pointers] = np.concatenate([[0], ends]).astype(arrays[pointers].dtype)
            moved = copies * old + arrays[columns]
            arrays[columns] = moved.reshape(-1).astype(arrays[columns].dtype)
            arrays[entries] = np.tile(arrays[entries], times)
    cells = arrays.pop("cells", None)
    shape = [arrays[name].size if name in arrays else 0 for name in ("sensors", "times")]
    found = {
        name: value
        if any(name in parts for parts in SPARSE)
        else extended(value, tuple(sizes.get(n, n) for n in value.shape))
        for name, value in arrays.items()
    }
    if cells is not None:
        rows, columns = np.divmod(cells, shape[1])
        wide = found["times"].size
        copies = np.arange(found["sensors"].size // shape[0])[:, None] * shape[0]
        found["cells"] = ((copies + rows) * wide + columns).reshape(-1)
        found["y"] = np.resize(arrays["y"], found["cells"].size)

    def longer(value):
        if isinstance(value, dict):
            return {key: longer(child) for key, child in value.items()}
        if isinstance(value, list):
            again = [longer(child) for child in value]
            if len(value) != old or old < 3:
                return again
            marks = range(1, times)
            texts = [f"{x} {k}" if isinstance(x, str) else x for k in marks for x in again]
            return again + texts
        return sizes.get(value, value) if type(value) is int and value >= 3 else value

    return longer(header), found


def sizes_of(header, arrays) -> list[int]:
    """Sizes of three and more that axes of arrays have, or lists and numbers of the header."""
    found = {n for value in arrays.values() for n in value.shape}
    for path in places_in(header):
        value = header
        for key in path:
            value = value[key]
        found.add(len(value) if isinstance(value, list) else value if type(value) is int else 0)
    return sorted(n for n in found if 3 <= n <= 10**4)


def more_members(header, arrays, count: int):
    """The mixture with so many copies of its last member beside the others."""
    header, arrays = {**header, "members": [*header["members"]]}, dict(arrays)
    last = len(header["members"]) - 1
    own = [name for name in arrays if name.startswith(f"member.{last}.")]
    for number in range(last + 1, last + 1 + count):
        header["members"].append(header["members"][last])
        for name in own:
            arrays[name.replace(f"member.{last}.", f"member.{number}.", 1)] = arrays[name]
    size = len(header["members"]) + 1
    arrays["member_weights"] = np.full(size, 1 / size)
    return header, arrays


def most_times(arrays, old: int) -> int:
    """How many times a size may grow for a file of `MOST_BYTES`."""
    sizes = (old, 2 * old, old + 1)

    def n_bytes(times):
        shapes = [[n * times if n in sizes else n for n in v.shape] for v in arrays.values()]
        items = [v.itemsize for v in arrays.values()]
        return sum(k * math.prod(shape) for k, shape in zip(items, shapes, strict=True))

    fitting = [k for k in (8, 64, 512, 4096) if n_bytes(k) <= MOST_BYTES and old * k <= 10**5]
    return max(fitting, default=2)


def grow(header, arrays, rng):
    """One size, or two, grown a little or as far as a file of `MOST_BYTES` holds; what was done."""
    done = []
    for _ in range(1 + int(rng.integers(2))):
        if "members" in header and header["members"] and rng.random() < 0.2:
            count = int(rng.choice([2, 30, 300]))
            header, arrays = more_members(header, arrays, count)
            done.append(f"members +{count}")
            continue
        old = int(rng.choice(sizes_of(header, arrays)))
        times = int(rng.choice([2, most_times(arrays, old)]))
        header, arrays = grown(header, arrays, old, times)
        done.append(f"{old} x{times}")
    return header, arrays, f"grown {' and '.join(done)}"


def spoil(header, arrays, rng) -> str:
    """Give an array what it never has, so that the file has to be refused; what was done."""
    names = sorted(name for name, value in arrays.items() if value.size)
    name = names[rng.integers(len(names))]
    value = arrays[name].copy()
    if value.dtype.kind == "f" and rng.random() < 0.7:
        done = [np.nan, np.inf, -np.inf][rng.integers(3)]
        value.reshape(-1)[rng.integers(value.size)] = done
    else:
        done = "int64" if value.dtype.kind == "f" else "float64"
        value = cast(value, done)
    arrays[name] = value
    return f"spoiled {name} {done}"


def contain(metadata, text, arrays, rng) -> tuple[bytes, str]:
    """A file whose description of arrays is none that `save_model` writes; what was done."""
    name = sorted(arrays)[rng.integers(len(arrays))]
    size = sum(v.nbytes for v in arrays.values())
    own = {"dtype": "F64", "shape": [1], "data_offsets": [0, 8]}
    changes = {
        "many": (None, 10**4 * int(rng.integers(1, 8))),
        "deep": ({name: {**own, "shape": [1] * int(rng.choice([9, 33, 65, 5000]))}}, 0),
        "huge": ({name: {**own, "shape": [2**40, 2**20], "data_offsets": [0, 2**63]}}, 0),
        "none of many": ({name: {**own, "shape": [0, 2**62], "data_offsets": [0, 0]}}, 0),
        "overlap": ({"again": {**own}}, 0),
        "beyond": ({name: {**own, "data_offsets": [size, size + 8]}}, 0),
        "negative": ({name: {**own, "shape": [-1], "data_offsets": [0, -8]}}, 0),
        "texts": ({name: {**own, "shape": "12", "data_offsets": ["0", "8"]}}, 0),
        "truth": ({name: {**own, "shape": [True]}}, 0),
        "number": ({name: 5}, 0),
        "unknown": ({name: {**own, "dtype": "BF16"}}, 0),
        "nothing": ({"__metadata__": None}, 0),
        "numbers": ({"__metadata__": {"model": 5}}, 0),
        "long name": ({"x" * 10**6: {**own, "shape": [0], "data_offsets": [0, 0]}}, 0),
    }
    kind = sorted(changes)[rng.integers(len(changes))]
    return signed(metadata, text, arrays, *changes[kind]), f"container {kind}"


def walk(files: list[Path]):
    """Every size of every file grown, and every number of every kind of header at its extremes."""
    seen = set()
    for path in files:
        metadata, arrays = opened(path)
        text = metadata["model"]
        header = json.loads(text)
        for old in sizes_of(header, arrays):
            times = most_times(arrays, old)
            longer, more = grown(header, arrays, old, times)
            yield signed(metadata, json.dumps(longer), more), f"{path.stem}: grown {old} x{times}"
        for place in places_in(header):
            kind = (
                header["class"],
                header.get("process"),
                *(re.sub(r"\d+", "0", str(k)) for k in place),
            )
            *above, last = place
            owner = header
            for key in above:
                owner = owner[key]
            value = owner[last]
            if type(value) not in (int, float) or kind in seen:
                continue
            seen.add(kind)
            for number in EXTREMES:
                owner[last] = number
                done = f"{path.stem}: {'.'.join(map(str, place))} = {number:g}"
                yield signed(metadata, json.dumps(header), arrays), done
            owner[last] = value


def mutant(files: list[Path], seed: int, number: int) -> tuple[bytes, str]:
    """The bytes of a mutant and what was done to which file."""
    rng = np.random.default_rng([seed, number])
    path = files[number % len(files)]
    content, done = path.read_bytes(), []
    route = chosen(ROUTES, rng)
    if route in ("bytes", "cut"):
        damaged = bytearray(content)
        for place in rng.integers(len(content), size=4):
            damaged[int(place)] ^= 1 << int(rng.integers(8))
        content = bytes(damaged) if route == "bytes" else content[: int(rng.integers(len(content)))]
        return content, f"{path.stem}: {route}"
    metadata, arrays = opened(path)
    header = json.loads(metadata["model"])
    if route == "container":
        content, found = contain(metadata, metadata["model"], arrays, rng)
        return content, f"{path.stem}: {found}"
    if route == "grown":
        header, arrays, found = grow(header, arrays, rng)
        done.append(found)
    if route == "spoiled":
        done.append(spoil(header, arrays, rng))
    for _ in range(1 + (rng.random() < 0.3) + (rng.random() < 0.1)):
        if route in ("header", "both"):
            done.append(edit_header(header, rng))
        if route in ("arrays", "both") and arrays:
            done.append(edit_arrays(arrays, rng))
    text = json.dumps(header)
    if route == "text":
        texts = [text[: len(text) // 2], *TEXTS]
        text = texts[rng.integers(len(texts))]
        done.append("text")
    return signed(metadata, text, arrays), f"{path.stem}: {', '.join(done)}"
