"""Options with values that make no sense, of every command, used or not."""

from __future__ import annotations

from collections.abc import Iterator

from tests.hostile.cases import Case
from tests.hostile.shared import SPARSE, table

FIT = ("fit", "{shared}/t.csv", "-t", "y", "-o", "out.model")
QUICK = (*FIT, *SPARSE)
GRAPH = ("interpolate", "{shared}/e.csv", "--values", "{shared}/v.csv", "-o", "out.csv",
         "--exact-nodes", "0")  # fmt: skip
FIELD = ("interpolate", "{shared}/el.csv", "--values", "{shared}/v.csv", "-o", "out.csv")
SURFACE = ("interpolate", "{shared}/m.obj", "--values", "{shared}/mv.csv", "-o", "out.csv")
SIGNAL = ("interpolate", "{shared}/m.obj", "--signal", "normal-z", "-o", "out.csv",
          "--exact-nodes", "0")  # fmt: skip
PREDICT = ("predict", "{shared}/t.model", "{shared}/t.csv", "-o", "out.csv")
REPORT = ("report", "{shared}/t.model", "{shared}/t.csv", "-o", "out.html")
LEFT_OUT = ("report", "{shared}/t.model", "-o", "out.html")
AUDIT = ("audit", "--train", "{shared}/t.csv", "--test", "{shared}/law.csv", "-t", "y", "-o",
         "out.html")  # fmt: skip

NUMBERS = ("nan", "inf", "-1", "0", "1e400", "x", "", "１")
LONG = "9" * 5000

# Options that are refused, beside the words before them.
REFUSED: list[tuple[tuple[str, ...], str, tuple[str, ...]]] = [
    (QUICK, "--kernel", ("matern-1e400", "matern-nan", "matern-0", "matern--1", "matern-", "x", "",
                         "matern-1e-400", "matern-1e300", "\x1b[31m", "matern-" + LONG)),
    (QUICK, "--features", ("x", "")),
    (QUICK, "--coupling", ("x", "", "iid+iid", "+", "orthogonal+", "copula:", "copula:nan",
                           "copula:" + LONG)),
    (QUICK, "--frequencies", ("x",)),
    (QUICK, "--objective", ("x", "posterior")),
    (QUICK, "--dtype", ("float16", "int", "")),
    (FIT, "--n-frequencies", ("0", "-1", "1.5", "x", "", LONG, "99999999999", "١")),
    (QUICK, "--kl-target", ("nan", "inf", "-1", "0", "x")),
    (FIT, "--max-iter", ("-1", "x", "1.5", LONG)),
    (FIT, "--n-restarts", ("-1", "x")),
    (FIT, "--seed", ("-1", "x", "1e3")),
    (FIT, "--holdout", ("nan", "inf", "-0.1", "1", "x")),
    (FIT, "--budget", ("nan", "-1", "0", "x")),
    (QUICK, "--budget", ("nan", "-1", "0")),
    (FIT, "--model", ("x", "")),
    (FIT, "--compare", ("x", "")),
    (FIT, "--exact-rows", ("-1", "x", "1.5")),
    (QUICK, "--target-transform", ("x", "", "box-cox:nan")),
    (FIT, "--drop", ("x", "y", "")),
    (FIT, "--categorical", ("x", "y")),
    (FIT, "--numeric", ("x",)),
    (FIT, "--date", ("x", "y")),
    (FIT, "--weight-column", ("x", "y")),
    (FIT, "--noise-column", ("x", "y")),
    (FIT, "--test", ("missing.csv", ".", "/dev/null", "/dev/zero")),
    (FIT, "--report", (".", "none/x.html", "out.model", "{shared}/t.csv")),
    (FIT, "--unknown", ("x",)),
    (GRAPH, "--kl-target", ("nan", "inf", "-1", "0", "x")),
    (GRAPH, "--p-halt", ("nan", "0", "1", "-1", "2", "inf")),
    (GRAPH, "--exact-hops", ("99999999", "-1", "1.5", "x", LONG)),
    (GRAPH, "--n-walks", ("0", "-1", "x", LONG, "99999999999")),
    (GRAPH, "--coupling", ("x", "", "iid+iid")),
    (GRAPH, "--length-law", ("x", "")),
    (GRAPH, "--method", ("x", "")),
    (GRAPH, "--kernel", ("x", "", "position", "gaussian")),
    (GRAPH, "--budget", ("nan", "-1s", "0s", "x", "5 parsecs", "1e400s", "")),
    (GRAPH, "--seed", ("-1", "x")),
    (GRAPH, "--holdout", ("nan", "-1", "1", "inf")),
    (GRAPH, "--weight", ("x", "source", "")),
    (GRAPH, "--length", ("x", "")),
    (GRAPH, "--node-column", ("x", "")),
    (GRAPH, "--target", ("x", "")),
    (GRAPH, "--face-weights", ("x", "unit")),
    (GRAPH, "--nodes", ("x", "vertices")),
    (GRAPH, "--positions", ("missing.csv", "{shared}/t.csv", ".")),
    (GRAPH, "--model", ("x", "field")),
    (GRAPH, "--report", ("out.csv", "out.html", ".")),
    (FIELD, "--max-edge", ("nan", "0", "-1", "x", "1e-300", "inf", "")),
    (FIELD, "--kernel", ("x", "position", "")),
    (FIELD, "--at", ("x", "vertices", "edges", "")),
    (FIELD, "--query", ("missing.csv", "{shared}/t.csv", ".", "{shared}/law.csv")),
    (FIELD, "--layer", ("x",)),
    (FIELD, "--left-out", ("x.txt", "out.csv", ".")),
    (FIELD, "--length", ("x", "source")),
    (FIELD, "--places", ("x", "x,y", ",,", "")),
    (FIELD, "--values", ("missing.csv", ".", "{shared}/t.csv", "/dev/null")),
    (FIELD, "--exact-nodes", ("-1", "x")),
    (FIELD, "--seed", ("-1",)),
    (SURFACE, "--max-edge", ("nan", "0", "-1", "x", "1e-300")),
    (SURFACE, "--nodes", ("x", "nodes")),
    (SURFACE, "--crs", ("EPSG:4326",)),
    (SURFACE, "--at", ("x", "nodes", "edges")),
    (SURFACE, "--weight", ("x",)),
    (SIGNAL, "--holdout", ("nan", "-1", "1", "x")),
    (SIGNAL, "--signal", ("x", "normal-x", "")),
    (SIGNAL, "--values", ("{shared}/mv.csv",)),
    (SIGNAL, "--face-weights", ("x", "")),
    (SIGNAL, "--crs", ("x",)),
    (PREDICT, "--level", ("nan", "0", "1", "0.9999999999999999", "-1", "2", "inf", "x")),
    (PREDICT, "--output", (".", "x.txt", "x", "none/x.csv", "{shared}/t.csv", "{shared}/t.model",
                           "")),
    (PREDICT, "--node-column", ("a",)),
    (REPORT, "--target", ("x", "a", "")),
    (REPORT, "--couplings", ("x", "iid,x", "\x1b[2J")),
    (REPORT, "--sizes", ("1", "x", "0", "-1", LONG)),
    ((*REPORT, "--couplings", "iid"), "--sizes", ("x", "0", "1.5", LONG, "99999999999")),
    (REPORT, "--n-draws", ("0", "1", "x", "-3")),
    (REPORT, "--max-rows", ("0", "1", "x")),
    (REPORT, "--compare", ("x", "none", "")),
    (REPORT, "--budget", ("x", "nan", "-1s", "0s")),
    (REPORT, "--seed", ("-1", "x")),
    (REPORT, "--mesh", ("{shared}/m.obj", "missing.ply")),
    (REPORT, "--positions", ("{shared}/t.csv",)),
    (REPORT, "--groups", ("a", "x")),
    (REPORT, "--groups-from", ("{shared}/t.csv",)),
    (LEFT_OUT, "--groups", ("x", "")),
    (LEFT_OUT, "--target", ("y",)),
    (LEFT_OUT, "--budget", ("x", "nan")),
    (LEFT_OUT, "--n-draws", ("0",)),
    (LEFT_OUT, "--sizes", ("64",)),
    ((*LEFT_OUT, "--groups", "z"), "--groups-from", ("missing.csv", "{shared}/t.csv", ".")),
    (AUDIT, "--kernel", ("gaussian", "x", "")),
    (AUDIT, "--lengthscale", ("1", "nan")),
    (AUDIT, "--noise", ("1", "nan", "-1")),
    (AUDIT, "--mean", ("nan", "1")),
    ((*AUDIT, "--latent"), "--noise", ("nan", "-1", "0", "inf")),
    ((*AUDIT, "--kernel", "matern-1e400", "--lengthscale", "1", "--outputscale", "1"), "--noise",
     ("1",)),
    ((*AUDIT, "--kernel", "gaussian", "--outputscale", "1", "--noise", "1"), "--lengthscale",
     ("nan", "0", "-1", "x", "1,2,3", "1,,2", "inf", "")),
    ((*AUDIT, "--kernel", "gaussian", "--lengthscale", "1", "--noise", "1"), "--outputscale",
     ("nan", "0", "-1", "inf", "x")),
    ((*AUDIT, "--kernel", "gaussian", "--lengthscale", "1", "--outputscale", "1"), "--noise",
     ("nan", "-1", "inf")),
    ((*AUDIT, "--kernel", "gaussian", "--lengthscale", "1", "--outputscale", "1", "--noise", "1"),
     "--mean", ("nan", "inf", "x")),
    (AUDIT, "--from-model", ("missing", "{shared}/t.csv", ".")),
    (AUDIT, "--predictions", ("missing.csv", ".", "{shared}/v.csv")),
    (AUDIT, "--mean-column", ("x", "")),
    (AUDIT, "--std-column", ("x", "")),
    (AUDIT, "--id", ("x",)),
    (AUDIT, "--drop", ("x", "y")),
    (AUDIT, "--max-rows", ("0", "1", "x", "-1")),
    (AUDIT, "--compare", ("x",)),
    (AUDIT, "--seed", ("-1", "x")),
    (AUDIT, "--budget", ("x", "nan", "-1s")),
    (AUDIT, "--target", ("x", "")),
]  # fmt: skip

# Words that are no call at all, or of files that are none.
CALLS: dict[str, tuple[str, ...]] = {
    "unknown-command": ("fitt",),
    "fit-alone": ("fit",),
    "fit-no-target": ("fit", "{shared}/t.csv"),
    "fit-missing": ("fit", "missing.csv", "-t", "y"),
    "fit-folder": ("fit", ".", "-t", "y"),
    "fit-null": ("fit", "/dev/null", "-t", "y"),
    "fit-zero": ("fit", "/dev/zero", "-t", "y"),
    "fit-nul-name": ("fit", "a\0b.csv", "-t", "y"),
    "fit-long-name": ("fit", "n" * 5000, "-t", "y"),
    "fit-empty-name": ("fit", "", "-t", "y"),
    "fit-escape-name": ("fit", "\x1b[31m", "-t", "y"),
    "fit-escape-target": ("fit", "{shared}/t.csv", "-t", "\x1b]0;title\x07"),
    "fit-bytes-name": ("fit", "\udcff.csv", "-t", "y"),
    "predict-no-model": ("predict", "missing", "{shared}/t.csv", "-o", "o.csv"),
    "predict-table-as-model": ("predict", "{shared}/t.csv", "{shared}/t.csv", "-o", "o.csv"),
    "predict-folder-as-model": ("predict", ".", "{shared}/t.csv", "-o", "o.csv"),
    "predict-zero-as-model": ("predict", "/dev/zero", "{shared}/t.csv", "-o", "o.csv"),
    "predict-nul-output": ("predict", "{shared}/t.model", "{shared}/t.csv", "-o", "o\0.csv"),
    "predict-same-output": ("predict", "{shared}/t.model", "{shared}/t.csv", "-o",
                            "{shared}/../shared/t.csv"),
    "report-no-model": ("report", "missing", "-o", "o.html"),
    "report-graph-as-table": ("report", "{shared}/g.model", "{shared}/t.csv", "-o", "o.html"),
    "report-table-as-graph": ("report", "{shared}/t.model", "{shared}/v.csv", "-o", "o.html"),
    "report-field": ("report", "{shared}/f.model", "{shared}/t.csv", "-o", "o.html"),
    "interpolate-no-graph": ("interpolate", "missing.csv", "--values", "{shared}/v.csv", "-o",
                             "o.csv"),
    "interpolate-folder": ("interpolate", ".", "--values", "{shared}/v.csv", "-o", "o.csv"),
    "interpolate-zero": ("interpolate", "/dev/zero", "--values", "{shared}/v.csv", "-o", "o.csv"),
    "interpolate-unknown": ("interpolate", "blob", "--values", "{shared}/v.csv", "-o", "o.csv"),
    "interpolate-no-values": ("interpolate", "{shared}/e.csv", "-o", "o.csv"),
    "interpolate-graph-is-values": ("interpolate", "{shared}/v.csv", "--values",
                                    "{shared}/v.csv", "-o", "o.csv"),
    "interpolate-map-of-mesh": (*SURFACE[:-1], "o.gpkg"),
    "interpolate-mesh-of-graph": (*GRAPH[:4], "-o", "o.vtu"),
    "interpolate-no-positions": (*FIELD[:4], "-o", "o.geojson"),
}  # fmt: skip

# Calls that are odd and right.
GOOD: dict[str, tuple[str, ...]] = {
    "predict-nodes": ("predict", "{shared}/g.model", "{shared}/v.csv", "-o", "out.csv"),
    "predict-nodes-interval": ("predict", "{shared}/g.model", "{shared}/v.csv", "-o",
                               "out.parquet", "--level", "0.9"),
    "predict-places": ("predict", "{shared}/f.model", "{shared}/v.csv", "-o", "out.csv"),
    "predict-tsv": ("predict", "{shared}/t.model", "{shared}/t.csv", "-o", "out.tsv"),
    "predict-prefix": (*PREDICT, "--prefix", ""),
    "help": ("--help",),
    "version": ("--version",),
    "none": (),
}  # fmt: skip


def cases() -> Iterator[Case]:
    """All cases of options."""
    for before, option, values in REFUSED:
        for k, value in enumerate(values):
            name = f"{before[0]}{option}-{value[:20]!r}-{k}-{len(before)}-{before[1]}"
            last = value.rsplit("/", 1)[-1]
            file = ".csv" if not value else last  # a column without a name is named by its table
            named = (option, option.lstrip("-").replace("-", "_"), file)
            yield Case(name, (*before, option, value), {}, 2, named)
    for name, words in CALLS.items():
        yield Case(name, words, {}, 2)
    for name, words in GOOD.items():
        yield Case(name, words, {}, 0)
    text = table().replace("y\n", "\x1b[31my\n", 1).encode()
    yield Case("fit-escape-column", ("fit", "t.csv", "-t", "\x1b[31my", *SPARSE, "-o", "out.model"),
               {"t.csv": text}, 0)  # fmt: skip
