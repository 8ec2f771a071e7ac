"""`coupledgp field`: a field on a mesh from values at some places."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import numpy as np
import pandas as pd
import typer

import coupledgp as cgp
from coupledgp.cli import options as o
from coupledgp.cli import shared as s
from coupledgp.cli.domains import Domain, Source, read_domain, read_places
from coupledgp.cli.fit import PAGE
from coupledgp.cli.options import OUTPUT, Text, opt
from coupledgp.cli.tables import WRITTEN, is_text, numbers, read_table, value_column, write_table
from coupledgp.datasets import SHAPES
from coupledgp.errors import InvalidInputError
from coupledgp.fields import Locations
from coupledgp.fields.locations import location_positions
from coupledgp.fields.output import DRIVERS as ROADS
from coupledgp.fields.output import WRITERS as MESHES
from coupledgp.fields.output import map_format

OWN = ("operator", "graph", "kernel", "likelihood", "random_state", "progress", "missing")
# Columns that name sensors.
SENSORS = ("sensor", "name", "id")
# Places among which the next ones are chosen, whose covariance is dense.
MOST_CANDIDATES = 2000


def field(
    mesh: Annotated[Path, typer.Argument(metavar="MESH", help="STL, PLY, OBJ, VTU or icosphere.")],
    *,
    values: o.Values,
    target: o.Target = None,
    places: o.Places = None,
    nodes: o.Elements = None,
    node_column: o.NodeColumn = None,
    holdout: o.Holdout = None,
    covariates: o.Covariates = None,
    seed: o.Seed = 0,
    kernel: o.Kernel = None,
    max_edge: o.MaxEdge = "auto",
    further: o.Further = None,
    output: o.Output = None,
    at: Annotated[
        Text,
        opt("Written at refined, vertices or faces. [default: refined in meshes]", panel=OUTPUT),
    ] = None,
    query: o.Query = None,
    left_out: o.LeftOut = None,
    next_places: o.Next = 0,
    save_model: o.SaveModel = None,
    report: o.Page = None,
    level: o.Level = None,
    latent: o.Latent = False,
    format: o.Format = "csv",
    as_json: o.AsJson = False,
    show: o.Show = None,
) -> None:
    """Predict a field on a mesh from values at some places.

    VALUES is a table of x, y, z and a value, in the unit of the mesh, or of vertex or face numbers
    from 0. The field is a Gaussian process along the surface and of position, mixed by evidence.

    Example: coupledgp field part.stl --values sensors.csv -o law.vtu --report part.html --next 3
    """
    options = dict(locals(), path=mesh)
    source = Source("field", max_edge=max_edge, nodes=nodes, node_column=node_column)
    Request(**options, source=source).run()


class Request(SimpleNamespace):
    """The options of `coupledgp field` by name; `coupledgp graph` has more of them."""

    def run(self) -> None:
        """Read, fit, judge, write and print.

        Raises
        ------
        InvalidInputError
            An option or a file is invalid; nothing is written then.
        """
        self.check()
        domain = read_domain(self.path, self.source)
        at = self.element(domain)
        if self.covariates:
            domain = self._with_columns(domain)
        frame = read_table(self.values)
        where, columns = read_places(self.values, frame, domain, self.source, self.places)
        y = self._targets(frame, [*columns, *SENSORS])
        rows = np.flatnonzero(y.notna())
        if not rows.size:
            raise InvalidInputError(f"{self.values}: expected a value of {y.name!r}, got none")
        y, where = y.iloc[rows], where[rows]
        groups = where.points if isinstance(where, Locations) else where.astype(str)
        hidden = s.hidden_rows(groups, self.holdout, self.seed)
        kept = np.setdiff1d(np.arange(rows.size), hidden)
        outputs, chosen = (self.output, self.left_out, self.save_model, self.report), None
        names = s.options_of(self.kind(y), OWN)
        with s.files(*outputs, format=self.format) as paths, s.about(self.values, options=names):
            model = self.unfitted(domain, y).fit(where[kept], y.iloc[kept])
            judge = s.judged(model, where[hidden], y.iloc[hidden])
            if paths[0] is not None:
                self.write(model, domain, at, paths[0])
            if paths[1] is not None:
                write_table(self._left_out(model, frame.iloc[rows[kept]], columns), paths[1])
            if paths[2] is not None:
                model.save(paths[2], include_data=True)
            if paths[3] is not None and judge is None:
                raise InvalidInputError(
                    "--report: expected more values, whose prediction is judged"
                )
            if paths[3] is not None:
                judge.to_html(paths[3])
            if self.next_places:
                chosen = self._next(model, domain)
        size = f"{len(domain.labels)} {'vertices' if domain.is_surface else 'nodes'}"
        away = f", {hidden.size} hidden for scoring" if hidden.size else ""
        explained = model.explain().splitlines()
        head = (f"{self.path.name}: {size}; values {y.name!r} of {self.values.name}: {kept.size} "
                f"observed{away}")  # fmt: skip
        lines = [] if chosen is None else [chosen["text"]]
        lines += [f"Written: {path}." for path in outputs if path is not None]
        if self.output is not None and not hasattr(model, "classes_"):
            what = "the function, noise left out" if self.latent else "observations"
            lines.append(f"{self.output.name} is at {at}; std is that of {what}.")
        result = s.heading(
            data={"path": self.path, "values": self.values, "value": y.name,
                  "n_observed": kept.size, "n_hidden": hidden.size, "n_nodes": len(domain.labels)},
            model=s.described(model),
            report=None if judge is None else judge.to_dict(), next=chosen,
            output={"path": self.output, "at": at, "left_out": self.left_out,
                    "model": self.save_model, "report": self.report},
        )  # fmt: skip
        s.answer(result, s.told(judge, [head, *explained[:2]], lines), self.as_json, *outputs)

    def check(self) -> None:
        """Refuse options that no file makes right."""
        self.source.check(self.path)
        known = (*WRITTEN, *MESHES, *ROADS) if self.query is None else WRITTEN
        inputs = {"GRAPH": None if str(self.path) in SHAPES else self.path, "--values": self.values,
                  "--query": self.query, "--positions": self.source.positions}  # fmt: skip
        s.check_paths(
            inputs | {f"--covariates {path}": path for path in self.covariates or ()},
            {"--output": (self.output, known), "--left-out": (self.left_out, WRITTEN),
             "--save-model": (self.save_model, ()), "--report": (self.report, PAGE)},
            self.as_json,
        )  # fmt: skip
        s.check_share(self.holdout or 0.0)
        s.check_level(0.95 if self.level is None else self.level)
        if self.level is not None and self.latent:
            raise InvalidInputError("--level: expected no --latent, intervals have the noise")
        if self.next_places < 0:
            raise InvalidInputError(f"--next: expected a number of places, got {self.next_places}")
        self.unfitted(None, None)

    def kind(self, y: Any) -> Any:
        """The class of the estimator."""
        return cgp.FieldGPRegressor

    def unfitted(self, domain: Domain | None, y: Any) -> Any:
        """The unfitted estimator."""
        return self.made(cgp.FieldGPRegressor, operator=None if domain is None else domain.operator)

    def made(self, kind: Any, **own: Any) -> Any:
        """An unfitted estimator with the parameters that are given."""
        own |= s.parameters_of(kind, self.further, OWN) | {"random_state": self.seed}
        own |= {} if self.kernel is None else {"kernel": self.kernel}
        return s.checked(kind, s.options_of(kind, OWN), **own)

    def element(self, domain: Domain) -> str:
        """What the law is written at, by `--at`, the output and the domain."""
        ending = "" if self.output is None else self.output.suffix.lower()
        if self.query is not None:
            if self.at is not None:
                raise InvalidInputError("--at: expected no --query, which names the places")
            return "the places of the query"
        if (ending in MESHES and domain.mesh is None) or (ending in ROADS and domain.roads is None):
            needed = "a mesh" if ending in MESHES else "roads, or nodes with --positions"
            raise InvalidInputError(f"--output: a {ending} needs {needed}, got {self.path}")
        if ending in ROADS:
            assert domain.roads is not None  # as it was just checked
            map_format(self.output, domain.roads.crs, "--output")
        known: tuple[str, ...] = ("nodes",)
        if domain.operator is None and domain.mesh is not None:
            known = (self.source.nodes or "faces",)
        elif domain.is_surface:
            known = ("vertices", "faces", "refined")
            known = known[::-1] if ending in MESHES else known
        elif domain.roads is not None and domain.operator is not None:
            known = ("edges", "nodes") if ending in ROADS else ("nodes", "edges")
        if self.at is not None and self.at not in known:
            text = f"expected {' or '.join(known)} of {self.path}, got {self.at!r}"
            raise InvalidInputError(f"--at: {text}")
        return self.at or known[0]

    def _with_columns(self, domain: Domain) -> Domain:
        if domain.operator is None:
            raise InvalidInputError("--covariates: expected lengths of the edges, and a field")
        named = {k: one[k].to_numpy() for one in map(read_table, self.covariates) for k in one}
        with s.about(*self.covariates):
            return replace(domain, operator=domain.operator.with_columns(named))

    def _targets(self, frame: pd.DataFrame, taken: list[str]) -> pd.Series:
        """The column of values, NaN or None where missing: numbers, or texts of classes."""
        name = value_column(self.values, frame, taken, self.target)
        column = frame[name]
        if self.takes_classes and is_text(column) and not _numbers(column):
            return column.astype(object).where(column.notna(), None)
        return pd.Series(numbers(frame, name, self.values, missing=True), frame.index, name=name)

    takes_classes = False

    def write(self, model: Any, domain: Domain, at: str, path: Path) -> None:
        """Write the law at the places of the query, or at all of the domain."""
        from coupledgp.fields.estimator import refined_places, spread_out  # slow

        if self.query is not None:
            frame = read_table(self.query)
            asked, _ = read_places(self.query, frame, domain, self.source, self.places)
            law = s.law_columns(model, asked, self.level, self.latent)
            write_table(s.with_columns(frame, law, self.query), path)
            return
        operator, mesh, roads = domain.operator, domain.mesh, domain.roads
        points: Any = domain.labels
        if at == "edges":
            roads, middles = roads.split(float(operator.element_lengths.max()))
            points = operator.at_edges(middles.edges, middles.offsets)
            middle = location_positions(points.points, operator.positions)
            names = {"edge": middles.edges, "offset": middles.offsets, **_positions(roads, middle)}
        elif mesh is None:
            names = {
                "node": points,
                **({} if roads is None else _positions(roads, roads.positions)),
            }
        else:
            places: Any = {"vertices": mesh.vertices, "faces": mesh.triangles_center}.get(at)
            if at == "refined":
                places, points = operator.positions, refined_places(operator)
                mesh = (operator.positions, operator.elements)
            elif operator is not None and at == "faces":
                points = operator.at_faces()
            names = {"face" if at == "faces" else "vertex": np.arange(len(places)),
                     **dict(zip("xyz", np.asarray(places).T, strict=True))}  # fmt: skip
        if operator is not None and at in ("vertices", "nodes"):  # some may have no face or edge
            known = np.flatnonzero(operator.given_vertices >= 0)
            points = operator.at_vertices([domain.labels[k] for k in known])
            columns = s.law_columns(model, points, self.level, self.latent)
            size = len(domain.labels)
            columns = {name: spread_out(part, known, size) for name, part in columns.items()}
        else:
            columns = s.law_columns(model, points, self.level, self.latent)
        ending = path.suffix.lower()
        if ending not in (*MESHES, *ROADS):
            write_table(pd.DataFrame({**names, **columns}), path)
            return
        if "class" in columns:
            columns["class"] = np.searchsorted(model.classes_, columns["class"])
        fields = {re.sub(r"\W", "_", name): part.astype(float) for name, part in columns.items()}
        if ending in MESHES:
            cgp.write_mesh(path, mesh, location="faces" if at == "faces" else "vertices", **fields)
        else:
            cgp.write_roads(path, roads, location=at, **fields)

    def _left_out(self, model: Any, frame: pd.DataFrame, columns: list[str]) -> pd.DataFrame:
        """Each sensor's place, value, and law from those at all other places."""
        found = cgp.cross_validate(model, rivals=None, depth="scores").tables
        named = [name for name in SENSORS if name in frame.columns][:1]
        rows = frame.iloc[found.left_out.rows][list(dict.fromkeys([*named, *columns]))]
        law, y = found.predictions.law, np.asarray(found.predictions.y, dtype=np.float64).ravel()
        mean, std = law.mean.ravel(), law.std.ravel()
        return rows.reset_index(drop=True).assign(
            value=y, mean=mean, std=std, residual=(y - mean) / std
        )

    def _next(self, model: Any, domain: Domain) -> dict[str, Any]:
        """Where to measure next among the given vertices or nodes."""
        rows = np.arange(len(domain.labels))
        if domain.is_surface:  # vertices of no face have no field
            rows = np.flatnonzero(domain.operator.given_vertices >= 0)
        if rows.size > MOST_CANDIDATES:
            s.notice(
                f"--next: chosen among {MOST_CANDIDATES} of {rows.size} places, drawn at random"
            )
            rng = np.random.default_rng(self.seed)
            rows = np.sort(rng.choice(rows, MOST_CANDIDATES, replace=False))
        with s.about(options={"k": "--next", "candidates": "--next"}):
            found = cgp.next_sensors(model, self.next_places, [domain.labels[k] for k in rows])
        chosen = [domain.labels[k] for k in rows[found.rows]]
        names = list(map(str, chosen))
        if domain.is_surface:
            places = domain.mesh.vertices[rows[found.rows]]
            names = [f"vertex {k} ({', '.join(f'{x:.4g}' for x in each)})"
                     for k, each in zip(chosen, places, strict=True)]  # fmt: skip
        std = np.sqrt(found.variance)
        text = (f"Measure next at {', '.join(names)}: the typical standard deviation of the "
                f"function falls from {std[0]:.3g} to {std[-1]:.3g}.")  # fmt: skip
        return {"text": text, "places": chosen, "std": std}


def _numbers(column: pd.Series) -> bool:
    """Whether some text is a number."""
    return bool(pd.to_numeric(column, errors="coerce").notna().any())


def _positions(roads: Any, places: Any) -> dict[str, Any]:
    """Columns of coordinates as the file has them: longitude and latitude, or x and y."""
    if roads.plane.source is None:
        return dict(zip("xy", places.T, strict=True))
    if roads.plane.geodesic:
        lonlat = roads.plane.coordinates(places, "EPSG:4326")
        return dict(zip(("longitude", "latitude"), lonlat.T, strict=True))
    return dict(zip("xy", roads.plane.coordinates(places, roads.plane.source).T, strict=True))
