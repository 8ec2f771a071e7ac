"""Hostile graphs: edge tables, GraphML and GML, and values of their nodes."""

from __future__ import annotations

import gzip
import pickle
from collections.abc import Iterator

import numpy as np

from tests.hostile.cases import Case, Content
from tests.hostile.shared import N_NODES, edges, values
from tests.hostile.tables import RNG, Executed, feather, parquet, saved

RING = edges()
VALUES = values()
NODES = [str(k) for k in range(N_NODES)]


def table(rows: list[str], head: str = "source,target") -> bytes:
    return "\n".join([head, *rows]).encode() + b"\n"


def ring(names: list[str], tail: str = "") -> list[str]:
    return [f"{a},{b}{tail}" for a, b in zip(names, names[1:] + names[:1], strict=True)]


def weighted(cell: str, name: str = "weight", rest: str = "1") -> bytes:
    """The ring with one weight or length as it is given."""
    rows = ring(NODES, f",{rest}")
    return table([f"0,1,{cell}", *rows[1:]], f"source,target,{name}")


def graphml(body: str = "", edge: str = "", directed: str = "undirected") -> bytes:
    nodes = "".join(f'<node id="{k}"/>' for k in NODES)
    links = "".join(f'<edge source="{a}" target="{b}">{edge}</edge>' for a, b in
                    (row.split(",") for row in ring(NODES)))  # fmt: skip
    return (
        '<?xml version="1.0"?><graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
        '<key id="w" for="edge" attr.name="weight" attr.type="double"/>'
        '<key id="l" for="edge" attr.name="length" attr.type="string"/>'
        f'<graph edgedefault="{directed}">{nodes}{links}{body}</graph></graphml>'
    ).encode()


def gml(extra: str = "", edge: str = "", directed: int = 0) -> bytes:
    nodes = "".join(f'node [ id {k} label "{k}" ]\n' for k in NODES)
    links = "".join(f"edge [ source {a} target {b} {edge} ]\n" for a, b in
                    (row.split(",") for row in ring(NODES)))  # fmt: skip
    return f"graph [ directed {directed}\n{nodes}{links}{extra} ]".encode()


BOMB = (
    b'<!DOCTYPE z [<!ENTITY a "aaaaaaaaaa">'
    + b"".join(b'<!ENTITY %c "%s">' % (98 + k, b"&%c;" % (97 + k) * 10) for k in range(9))
    + b"]><graphml><graph edgedefault='undirected'><node id='&j;'/></graph></graphml>"
)
OUTSIDE = (
    b'<!DOCTYPE z [<!ENTITY x SYSTEM "file:///etc/passwd">]>'
    b"<graphml xmlns='http://graphml.graphdrawing.org/xmlns'><graph edgedefault='undirected'>"
    b"<node id='&x;'/></graph></graphml>"
)

# Files of a graph, read or refused.
FILES: dict[str, Content] = {
    "loops.csv": table([*ring(NODES), "3,3", "3,3"]),
    "only-loops.csv": table([f"{k},{k}" for k in NODES]),
    "twice.csv": table(ring(NODES) * 3),
    "both-ways.csv": table([*ring(NODES), *(",".join(r.split(",")[::-1]) for r in ring(NODES))]),
    "one-edge.csv": table(["0,1"]),
    "star.csv": table([f"0,{k}" for k in range(1, 10)]),
    "no-edges.csv": table([]),
    "empty.csv": b"",
    "one-column.csv": b"source\n1\n2\n",
    "no-header.csv": table(ring(NODES)).partition(b"\n")[2],
    "missing-end.csv": table([*ring(NODES), "3,"]),
    "text-ids.csv": table(ring([f"n{k}" for k in NODES])),
    "mixed-ids.csv": table([*ring(NODES), "0,zero"]),
    "zero-led-ids.csv": table([*ring(NODES), "0,007"]),
    "float-ids.csv": table([*ring(NODES), "0,1.0"]),
    "negative-ids.csv": table([*ring(NODES), "0,-1"]),
    "int64-ids.csv": table([*ring(NODES), "0,9223372036854775807"]),
    "beyond-int64.csv": table([*ring(NODES), "0,9223372036854775808"]),
    "beyond-int128.csv": table([*ring(NODES), f"0,{10**40}"]),
    "long-digits.csv": table([*ring(NODES), f"0,{'9' * 5000}"]),
    "other-digits.csv": table([*ring(NODES), "0,٣", "1,²"]),
    "spaces.csv": table([*ring(NODES), " 0,1 "]),
    "escape-ids.csv": table([*ring(NODES), "0,\x1b[31m"]),
    "html-ids.csv": table([*ring(NODES), "0,<script>alert(1)</script>"]),
    "quoted-ids.csv": table([*ring(NODES), '0,"a,""b"']),
    "weight.csv": weighted("2.5"),
    "weight-zero.csv": weighted("0"),
    "weight-negative.csv": weighted("-1"),
    "weight-nan.csv": weighted("nan"),
    "weight-missing.csv": weighted(""),
    "weight-text.csv": weighted("heavy"),
    "weight-inf.csv": weighted("inf"),
    "weight-tiny.csv": weighted("1e-310"),
    "weight-all-tiny.csv": weighted("1e-310", rest="2e-310"),
    "weight-all-subnormal.csv": weighted("5e-324", rest="5e-324"),
    "weight-huge.csv": weighted("1e308"),
    "weight-all-huge.csv": weighted("1e308", rest="1.7e308"),
    "weight-apart.csv": weighted("1e-300", rest="1e300"),
    "length.csv": weighted("2.5", "length"),
    "length-zero.csv": weighted("0", "length"),
    "length-negative.csv": weighted("-3", "length"),
    "length-nan.csv": weighted("nan", "length"),
    "length-tiny.csv": weighted("1e-310", "length"),
    "length-all-tiny.csv": weighted("1e-310", "length", "1e-310"),
    "length-huge.csv": weighted("1e308", "length"),
    "length-all-huge.csv": weighted("1e308", "length", "1.5e308"),
    "length-and-weight.csv": table(ring(NODES, ",1,1"), "source,target,length,weight"),
    "two-lengths.csv": table(ring(NODES, ",1,1"), "source,target,length,length_km"),
    "upper.CSV": RING.encode(),
    "good.tsv": RING.replace(",", "\t").encode(),
    "comma.tsv": RING.encode(),
    "crlf.csv": RING.replace("\n", "\r\n").encode(),
    "cr.csv": RING.replace("\n", "\r").encode(),
    "utf16.csv": RING.encode("utf-16"),
    "rubbish.csv": RNG.bytes(500),
    "good.csv.gz": gzip.compress(RING.encode()),
    "bad.parquet": RING.encode(),
    "table.parquet": parquet(),
    "edges.txt": RING.encode(),
    "edges": RING.encode(),
    "good.graphml": graphml(),
    "directed.graphml": graphml(directed="directed"),
    "weight.graphml": graphml(edge='<data key="w">2</data>'),
    "weight-bad.graphml": graphml(edge='<data key="w">two</data>'),
    "weight-nan.graphml": graphml(edge='<data key="w">NaN</data>'),
    "weight-negative.graphml": graphml(edge='<data key="w">-1</data>'),
    "length.graphml": graphml(edge='<data key="l">1.5</data>'),
    "length-list.graphml": graphml(edge='<data key="l">[1.5, 2]</data>'),
    "length-zero.graphml": graphml(edge='<data key="l">0</data>'),
    "loop.graphml": graphml('<edge source="1" target="1"/>'),
    "parallel.graphml": graphml('<edge source="1" target="2"/>' * 3),
    "unknown-node.graphml": graphml('<edge source="1" target="zero"/>'),
    "no-source.graphml": graphml('<edge target="1"/>'),
    "lone-node.graphml": graphml('<node id="lone"/>'),
    "node-twice.graphml": graphml('<node id="1"/>'),
    "hyperedge.graphml": graphml("<hyperedge/>"),
    "port.graphml": graphml('<node id="p"><port name="q"/></node>'),
    "nested.graphml": graphml('<node id="g"><graph edgedefault="directed"/></node>'),
    "no-graph.graphml": b'<graphml xmlns="http://graphml.graphdrawing.org/xmlns"></graphml>',
    "no-nodes.graphml": b'<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
    b'<graph edgedefault="undirected"/></graphml>',
    "no-xml.graphml": RING.encode(),
    "cut.graphml": graphml()[:-30],
    "empty.graphml": b"",
    "bomb.graphml": BOMB,
    "outside.graphml": OUTSIDE,
    "deep.graphml": b"<a>" * 100_000,
    "utf16.graphml": graphml().decode().encode("utf-16"),
    "bad-key.graphml": graphml(edge='<data key="zz">2</data>'),
    "rubbish.graphml": RNG.bytes(500),
    "good.gml": gml(),
    "directed.gml": gml(directed=1),
    "weight.gml": gml(edge="weight 2"),
    "weight-text.gml": gml(edge='weight "two"'),
    "weight-nan.gml": gml(edge="weight NAN"),
    "length.gml": gml(edge="length 1.5"),
    "twice.gml": gml("edge [ source 0 target 1 ]"),
    "unknown.gml": gml("edge [ source 0 target 77 ]"),
    "no-id.gml": gml("node [ label 3 ]"),
    "same-label.gml": gml('node [ id 77 label "3" ]'),
    "big-id.gml": gml("node [ id 99999999999999999999 ]"),
    "deep.gml": b"graph [ " * 20_000,
    "open.gml": gml()[:-2],
    "empty.gml": b"",
    "no-graph.gml": b"node [ id 1 ]",
    "latin1.gml": gml('node [ id 50 label "\xe9" ]').decode().encode("latin-1"),
    "control.gml": gml('node [ id 50 label "&#27;[31m" ]'),
    "rubbish.gml": RNG.bytes(500),
    "graph.gexf": b'<gexf version="1.2"><graph><nodes/></graph></gexf>',
    "graph.pickle": pickle.dumps(Executed()),
    "graph.gpickle": pickle.dumps(Executed()),
    "graph.json": b'{"nodes": [{"id": 0}], "links": []}',
    "graph.mtx": b"%%MatrixMarket matrix coordinate real symmetric\n2 2 1\n2 1 1.0\n",
    "graph.npz": saved(np.savez),
    "graph.feather": feather(),
    "graph.dot": b"graph { 0 -- 1 }",
}  # fmt: skip

# Tables of values of the ring's nodes.
NODE_VALUES: dict[str, bytes] = {
    "all-missing": b"node,value\n0,\n1,\n",
    "header-only": b"node,value\n",
    "unknown-node": b"node,value\n0,1\n77,2\n",
    "float-node": b"node,value\n0.0,1\n1.0,2\n",
    "missing-node": b"node,value\n,1\n1,2\n",
    "text-value": b"node,value\n0,one\n1,2\n",
    "infinite": b"node,value\n0,inf\n1,2\n",
    "overflow": b"node,value\n0,1e999\n1,2\n",
    "tiny": b"node,value\n0,1e-310\n1,2e-310\n2,3e-310\n",
    "one-row": b"node,value\n0,1\n",
    "constant": b"node,value\n0,1\n1,1\n2,1\n",
    "one-node-often": b"node,value\n" + b"0,1\n0,2\n" * 5,
    "nan-text": b"node,value\n0,nan\n1,2\n2,3\n3,-\n",
    "big-int": b"node,value\n0,%d\n1,2\n" % 10**30,
    "long-int": b"node,value\n0,%s\n1,2\n" % (b"9" * 5000),
    "bool": b"node,value\n0,true\n1,false\n2,true\n",
    "date": b"node,value\n0,2024-01-01\n1,2024-01-02\n",
    "no-node-column": b"knot,value\n0,1\n",
    "no-value-column": b"node,p,q\n0,1,2\n",
    "escape": b"node,value\n\x1b[2J,1\n",
    "digits": "node,value\n0,٣\n1,2\n".encode(),
    "rubbish": RNG.bytes(300),
    "empty": b"",
}


def on(graph: str, *more: str, values: str = "{shared}/v.csv") -> tuple[str, ...]:
    return ("interpolate", f"./{graph}", "--values", values, "-o", "out.csv", *more)


def cases() -> Iterator[Case]:
    """All cases of graphs."""
    for name, content in FILES.items():
        yield Case(f"field-{name}", on(name), {name: content}, names=(name, "GRAPH", "v.csv"))
        yield Case(f"graph-{name}", on(name, "--exact-nodes", "0", "--undirected",
                   "--keep-isolated"), {name: content}, names=(name, "GRAPH", "v.csv"))  # fmt: skip
    for name, content in NODE_VALUES.items():
        given = {"w.csv": content}
        graph = ("interpolate", "{shared}/e.csv", "--values", "w.csv", "-o", "out.csv",
                 "--exact-nodes", "0")  # fmt: skip
        yield Case(f"graph-values-{name}", graph, given, names=("w.csv",))
        field = ("interpolate", "{shared}/el.csv", "--values", "w.csv", "-o", "out.csv")
        yield Case(f"field-values-{name}", field, given, names=("w.csv",))
        knots = ("predict", "{shared}/g.model", "w.csv", "-o", "out.csv")
        yield Case(f"predict-nodes-{name}", knots, given, names=("w.csv",))
