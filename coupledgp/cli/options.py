"""Options that several commands share, as annotated types."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, TypeAlias

import typer

from coupledgp.cli.shared import spoken

Text: TypeAlias = str | None
File: TypeAlias = Path | None
Texts: TypeAlias = list[str] | None
MODEL, TIME, OUTPUT = "Model", "Values over time", "Output"


def _speak(context: Any, value: bool | None) -> bool | None:
    context.with_resource(spoken(value))
    return value


def opt(text: str, *names: str, panel: str | None = None, **further: Any) -> Any:
    """An option with its help, on a panel of its own."""
    shown = text.replace("[", r"\[")  # of rich's markup
    return typer.Option(*names, help=shown, rich_help_panel=panel, show_default=False, **further)


# Inputs.
GraphFile = Annotated[
    Path, typer.Argument(metavar="GRAPH", help="Roads, table of edges, GraphML, GML, mesh, or -.")
]
Values = Annotated[Path, opt("Table of values at some places or nodes, or -.", "--values")]
Target = Annotated[Text, opt("Column of values; else the one that is clear.", "--target", "-t")]
NodeColumn = Annotated[Text, opt("Column of nodes. [default: node]")]
Places = Annotated[Text, opt("Columns of positions, with commas between.")]
Holdout = Annotated[float | None, opt("Share left out of the fit, and scored.", "--holdout")]
Seed = Annotated[int, opt("Of draws and splits. [default: 0]")]
Query = Annotated[File, opt("Write at the places of this table instead.", panel=OUTPUT)]
Covariates = Annotated[list[Path] | None, opt("Table of what a field depends on, a row a node.")]
Length = Annotated[Text, opt("Attribute of lengths. [default: length, length_m, ...]")]
Weight = Annotated[Text, opt("Attribute of weights. [default: weight]")]
Positions = Annotated[File, opt("Table of node, x, y of an edge table.")]
Layer = Annotated[Text, opt("Layer of a file of roads.")]
Crs = Annotated[Text, opt("Of roads that lack it, as EPSG:32633.")]
Elements = Annotated[Text, opt("Of a mesh: what node numbers are, faces or vertices.")]

# Models.
Kind = Annotated[str, opt("field (lengths), graph (nodes) or auto.", "--model", panel=MODEL)]
Kernel = Annotated[Text, opt("Kernel. [default: by evidence]", panel=MODEL)]
Likelihood = Annotated[
    Text,
    opt("student-t, poisson, negative-binomial. [default: gaussian]", panel=MODEL),
]
MaxEdge = Annotated[str, opt("Longest element: auto, none or a length.", panel=MODEL)]
Further = Annotated[
    Texts,
    opt("NAME=VALUE of any parameter of the model.", "--set", panel=MODEL),
]

# Outputs.
Output = Annotated[File, opt("File to write, or -.", "--output", "-o", panel=OUTPUT)]
Level = Annotated[float | None, opt("Also the interval of this probability.", panel=OUTPUT)]
Latent = Annotated[bool, opt("std of the function, noise left out.", "--latent", panel=OUTPUT)]
LeftOut = Annotated[File, opt("Table of sensors as all others predict them.", panel=OUTPUT)]
Next = Annotated[int, opt("Where to measure next: so many places.", "--next", panel=OUTPUT)]
SaveModel = Annotated[File, opt("Write the model, for predict and audit.", panel=OUTPUT)]
Page = Annotated[File, opt("Write an HTML page.", "--report", panel=OUTPUT)]
Format = Annotated[str, opt("Of --output -: csv, tsv, json or parquet.", panel=OUTPUT)]
AsJson = Annotated[bool, opt("Print JSON, no text.", "--json", panel=OUTPUT)]
Show = Annotated[
    bool | None,
    opt("Print each step, or nothing but what is asked for.", "--progress/--quiet", " /-q",
            panel=OUTPUT, callback=_speak),
]  # fmt: skip
