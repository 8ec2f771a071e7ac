"""Hostile meshes: OBJ, PLY, STL, OFF, glTF and others, cut, degenerate and out of range."""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator

import numpy as np
import trimesh

from tests.hostile.cases import Case, Content
from tests.hostile.shared import SQUARE
from tests.hostile.tables import RNG, zipped


def obj(vertices: list[str], faces: list[str]) -> bytes:
    return "".join([*(f"v {v}\n" for v in vertices), *(f"f {f}\n" for f in faces)]).encode()


def scaled(factor: str) -> bytes:
    """The square with a power of ten behind every coordinate."""
    lines = SQUARE.decode().splitlines()
    found = [
        " ".join(["v", *(f"{c}{factor}" for c in line.split()[1:])]) if line[0] == "v" else line
        for line in lines
    ]
    return "\n".join(found).encode()


def exported(kind: str, **options: object) -> bytes:
    mesh = trimesh.load(io.BytesIO(SQUARE), file_type="obj", process=False)
    content = mesh.export(file_type=kind, **options)
    return content if isinstance(content, bytes) else str(content).encode()


def ply(head: str, body: bytes = b"") -> bytes:
    return f"ply\nformat {head}\nend_header\n".encode() + body


CORNERS = ["0 0 0", "1 0 0", "1 1 0", "0 1 0"]
STL, PLY, GLB = exported("stl"), exported("ply"), exported("glb")
OFF = exported("off")
LIST = "property list uchar int vertex_indices"
XYZ = "property float x\nproperty float y\nproperty float z"


def glb(text: bytes) -> bytes:
    text += b" " * (-len(text) % 4)
    return (struct.pack("<4sIIII", b"glTF", 2, 20 + len(text), len(text), 0x4E4F534A)) + text


FILES: dict[str, Content] = {
    "good.obj": SQUARE,
    "crlf.obj": SQUARE.replace(b"\n", b"\r\n"),
    "degenerate.obj": obj(CORNERS, ["1 1 1", "2 2 3"]),
    "all-on-a-line.obj": obj(["0 0 0", "1 0 0", "2 0 0"], ["1 2 3"]),
    "one-place.obj": obj(["1 1 1"] * 4, ["1 2 3", "2 3 4"]),
    "some-degenerate.obj": SQUARE + b"f 1 1 2\nf 2 2 2\n",
    "same-face.obj": SQUARE + b"f 1 2 3\nf 3 2 1\n",
    "unused.obj": SQUARE + b"v 9 9 9\n",
    "sliver.obj": obj([*CORNERS, "0.5 1e-14 0"], ["1 2 3", "1 3 4", "1 2 5"]),
    "bodies.obj": SQUARE + obj([f"{9 + k} {k % 2} 0" for k in range(3)], ["6 7 8"]),
    "nan.obj": SQUARE.replace(b"v 1 0 0", b"v nan 0 0"),
    "inf.obj": SQUARE.replace(b"v 1 0 0", b"v inf 0 0"),
    "nan-unused.obj": SQUARE + b"v nan nan nan\n",
    "huge.obj": scaled("e300"),
    "large.obj": scaled("e100"),
    "kilo.obj": scaled("e12"),
    "micro.obj": scaled("e-12"),
    "tiny.obj": scaled("e-300"),
    "subnormal.obj": scaled("e-320"),
    "one-far.obj": SQUARE.replace(b"v 0 0 1", b"v 0 0 1e200"),
    "out-of-range.obj": SQUARE + b"f 1 2 99\n",
    "zero-index.obj": SQUARE + b"f 0 1 2\n",
    "negative-index.obj": SQUARE + b"f -1 -2 -3\n",
    "too-negative.obj": SQUARE + b"f -1 -2 -300\n",
    "huge-index.obj": SQUARE + b"f 1 2 99999999999999999999\n",
    "float-index.obj": SQUARE + b"f 1.5 2 3\n",
    "text.obj": SQUARE + b"f one two three\n",
    "two-corners.obj": SQUARE + b"f 1 2\n",
    "polygon.obj": obj(CORNERS, ["1 2 3 4"]),
    "no-faces.obj": obj(CORNERS, []),
    "no-vertices.obj": b"f 1 2 3\n",
    "two-coordinates.obj": obj(["0 0", "1 0", "0 1"], ["1 2 3"]),
    "mtllib.obj": b"mtllib ../../../etc/passwd\nusemtl x\n" + SQUARE,
    "cut.obj": SQUARE[:-6],
    "empty.obj": b"",
    "rubbish.obj": RNG.bytes(400),
    "nul.obj": b"\0" * 400,
    "utf16.obj": SQUARE.decode().encode("utf-16"),
    "control.obj": b"o \x1b[31m\n" + SQUARE,
    "good.stl": STL,
    "cut.stl": STL[:-40],
    "head.stl": STL[:80],
    "more-faces.stl": STL[:80] + struct.pack("<I", 2**31) + STL[84:],
    "most-faces.stl": STL[:80] + struct.pack("<I", 2**32 - 1),
    "no-faces.stl": STL[:80] + struct.pack("<I", 0),
    "ascii.stl": exported("stl_ascii"),
    "ascii-cut.stl": exported("stl_ascii")[:200],
    "ascii-rubbish.stl": b"solid x\nfacet normal a b c\n",
    "nan.stl": STL[:84] + np.full(12, np.nan, "<f4").tobytes() + STL[132:],
    "empty.stl": b"",
    "rubbish.stl": RNG.bytes(400),
    "good.ply": PLY,
    "cut.ply": PLY[:-20],
    "head.ply": PLY[:60],
    "billion.ply": ply(f"binary_little_endian 1.0\nelement vertex 1000000000\n{XYZ}\n"
                       f"element face 1\n{LIST}"),
    "billion-faces.ply": ply(f"ascii 1.0\nelement vertex 1\n{XYZ}\nelement face 2000000000\n{LIST}",
                             b"0 0 0\n"),
    "negative-count.ply": ply(f"ascii 1.0\nelement vertex -5\n{XYZ}"),
    "long-list.ply": ply(f"binary_little_endian 1.0\nelement vertex 1\n{XYZ}\nelement face 1\n"
                         "property list uint int vertex_indices",
                         b"\0" * 12 + struct.pack("<I", 2**32 - 1)),
    "unknown-type.ply": ply("ascii 1.0\nelement vertex 1\nproperty quad x"),
    "no-end.ply": b"ply\nformat ascii 1.0\nelement vertex 1\n",
    "no-faces.ply": ply(f"ascii 1.0\nelement vertex 1\n{XYZ}", b"0 0 0\n"),
    "range.ply": ply(f"ascii 1.0\nelement vertex 3\n{XYZ}\nelement face 1\n{LIST}",
                     b"0 0 0\n1 0 0\n0 1 0\n3 0 1 7\n"),
    "negative.ply": ply(f"ascii 1.0\nelement vertex 3\n{XYZ}\nelement face 1\n{LIST}",
                        b"0 0 0\n1 0 0\n0 1 0\n3 0 1 -1\n"),
    "nan.ply": ply(f"ascii 1.0\nelement vertex 3\n{XYZ}\nelement face 1\n{LIST}",
                   b"0 0 nan\n1 0 0\n0 1 0\n3 0 1 2\n"),
    "empty.ply": b"",
    "rubbish.ply": b"ply\n" + RNG.bytes(400),
    "good.off": OFF,
    "cut.off": OFF[:-15],
    "counts.off": b"OFF\n1000000000 1000000000 0\n0 0 0\n",
    "negative.off": b"OFF\n-3 -1 0\n",
    "range.off": b"OFF\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 9\n",
    "words.off": b"OFF\nthree one none\n",
    "empty.off": b"",
    "rubbish.off": RNG.bytes(200),
    "good.glb": GLB,
    "cut.glb": GLB[:-50],
    "head.glb": GLB[:16],
    "length.glb": GLB[:12] + struct.pack("<I", 2**31) + GLB[16:],
    "no-json.glb": GLB[:20] + b"\0" * (len(GLB) - 20),
    "empty-json.glb": glb(b"{}"),
    "list-json.glb": glb(b"[]"),
    "deep-json.glb": glb(b"[" * 5000),
    "accessor.glb": glb(b'{"asset":{"version":"2.0"},"scenes":[{"nodes":[0]}],"scene":0,'
                        b'"nodes":[{"mesh":0}],"meshes":[{"primitives":[{"attributes":'
                        b'{"POSITION":7}}]}]}'),
    "loop.glb": glb(b'{"asset":{"version":"2.0"},"scenes":[{"nodes":[0]}],"scene":0,'
                    b'"nodes":[{"children":[0]}]}'),
    "big-accessor.glb": glb(
        b'{"asset":{"version":"2.0"},"scenes":[{"nodes":[0]}],"scene":0,"nodes":[{"mesh":0}],'
        b'"meshes":[{"primitives":[{"attributes":{"POSITION":0}}]}],"accessors":[{"count":'
        b'2000000000,"componentType":5126,"type":"VEC3"}]}'
    ),
    "empty.glb": b"",
    "outside.gltf": b'{"asset":{"version":"2.0"},"buffers":[{"uri":"../../etc/passwd",'
    b'"byteLength":9}]}',
    "web.gltf": b'{"asset":{"version":"2.0"},"buffers":[{"uri":"http://localhost:1/x"}]}',
    "text.gltf": b"nothing",
    "good.dae": b"<COLLADA/>",
    "good.3mf": zipped(),
    "mesh.vtk": b"# vtk DataFile Version 3.0\n",
    "mesh.vtu": b"<VTKFile/>",
    "mesh.step": b"ISO-10303-21;",
    "mesh.zip": zipped(),
    "mesh.xyz": b"0 0 0\n1 1 1\n",
    "mesh": SQUARE,
}  # fmt: skip

# Tables of values at vertices of the square, four of its five.
PLACES: dict[str, bytes] = {
    "vertex-float": b"vertex,value\n0.5,1\n1,2\n",
    "vertex-negative": b"vertex,value\n-1,1\n1,2\n",
    "vertex-far": b"vertex,value\n9,1\n1,2\n",
    "vertex-huge": b"vertex,value\n99999999999999999999,1\n1,2\n",
    "vertex-text": b"vertex,value\none,1\n1,2\n",
    "vertex-nan": b"vertex,value\nnan,1\n1,2\n",
    "vertex-missing": b"vertex,value\n,1\n1,2\n",
    "face": b"face,value\n0,1\n1,2\n2,3\n",
    "vertex-and-face": b"vertex,face,value\n0,0,1\n",
    "node": b"node,value\n0,1\n",
    "positions": b"x,y,z,value\n0,0,0,1\n1,0,0,2\n",
    "positions-far": b"x,y,z,value\n1e9,0,0,1\n1e9,1,0,2\n",
    "positions-huge": b"x,y,z,value\n1e300,0,0,1\n1,0,0,2\n",
    "positions-nan": b"x,y,z,value\nnan,0,0,1\n1,0,0,2\n",
    "positions-inf": b"x,y,z,value\n-inf,0,0,1\n1,0,0,2\n",
    "positions-text": b"x,y,z,value\nhere,0,0,1\n1,0,0,2\n",
    "no-z": b"x,y,value\n0,0,1\n",
    "one": b"vertex,value\n0,1\n",
    "constant": b"vertex,value\n0,1\n1,1\n2,1\n",
    "huge": b"vertex,value\n0,1e300\n1,-1e300\n2,1\n",
    "escape-name": b"sensor,vertex,value\n\x1b[31mred,0,1\nb,1,2\n",
    "latin1": b"sensor,vertex,value\n\xe9,0,1\nb,1,2\n",
}
MESH_VALUES = "{shared}/mv.csv"


def on(mesh: str, *more: str, values: str = MESH_VALUES) -> tuple[str, ...]:
    return ("interpolate", f"./{mesh}", "--values", values, "-o", "out.csv", "--max-edge", "none",
            *more)  # fmt: skip


def cases() -> Iterator[Case]:
    """All cases of meshes."""
    for name, content in FILES.items():
        named = (name, "GRAPH", "mv.csv")
        yield Case(f"field-{name}", on(name), {name: content}, names=named, blank=True)
        signal = ("interpolate", f"./{name}", "--signal", "normal-z", "-o", "out.csv",
                  "--exact-nodes", "0", "--keep-isolated")  # fmt: skip
        yield Case(f"signal-{name}", signal, {name: content}, names=named)
    for name, content in PLACES.items():
        given = {"w.csv": content}
        yield Case(f"places-{name}", ("interpolate", "{shared}/m.obj", "--values", "w.csv", "-o",
                   "out.csv", "--max-edge", "none"), given, names=("w.csv",))  # fmt: skip
        if "value" in name or name in ("one", "constant", "huge"):
            continue
        query = content.replace(b",value\n", b",extra\n")
        yield Case(f"query-{name}", ("interpolate", "{shared}/m.obj", "--values", MESH_VALUES,
                   "--query", "q.csv", "-o", "out.csv", "--max-edge", "none"),
                   {"q.csv": query}, names=("q.csv",))  # fmt: skip
