"""The study of `coupledgp demo`: couplings compared on an embedded data set, and on a mesh."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coupledgp.cli.commands import demo_field, demo_mesh, demo_pages
from coupledgp.cli.shared.evaluate import Stopwatch
from coupledgp.cli.show.graph import node_map
from coupledgp.datasets import meshes, uci
from coupledgp.diagnostics import PosteriorReport, compare
from coupledgp.diagnostics.sections.layout import Layout
from coupledgp.diagnostics.sections.report import Report
from coupledgp.diagnostics.sections.section import (
    ReportTable,
    Section,
    register_section,
    sections_of,
)
from coupledgp.ground.output import write_text
from coupledgp.ground.progress import reporter
from coupledgp.models import ExactGPRegressor, SparseSpectrumGPRegressor
from coupledgp.random import FloatArray, IntArray

if TYPE_CHECKING:
    from coupledgp.diagnostics.pages.picture import Picture

COUPLINGS = ("iid", "orthogonal", "orthogonal+pnc", "orthogonal+stratified")
SIZES = (10, 40, 160)
FIGURES = ("kl_per_point", "kernel_relative_error", "rmse", "nlpd")
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Study:
    """Results of the demo.

    Attributes
    ----------
    data : dict
        Name, source and sizes of the data set.
    figures : dict of coupling to size to figure to FloatArray (n_seeds,)
        Figures of each draw, by coupling, size and name.
    exact_rmse, exact_nlpd : float
        Root mean squared error and negative log predictive density of the exact GP on test rows.
    report : PosteriorReport
        Report of one model, the last coupling at the largest size.
    seconds : dict
        Seconds that each part of the work took, by name.
    mesh : MeshStudy
        Results on the mesh.
    """

    data: dict[str, Any]
    figures: dict[str, dict[int, dict[str, FloatArray]]]
    exact_rmse: float
    exact_nlpd: float
    report: PosteriorReport
    seconds: dict[str, float]
    mesh: demo_mesh.MeshStudy

    def mean_and_error(self, coupling: str, size: int, figure: str) -> tuple[float, float]:
        """Mean over seeds, and its standard error (0 for one seed)."""
        values = self.figures[coupling][size][figure]
        error = values.std(ddof=1) / np.sqrt(values.size) if values.size > 1 else 0.0
        return float(values.mean()), float(error)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        rows = [
            {"coupling": coupling, "n_frequencies": size}
            | {
                figure: dict(
                    zip(
                        ("mean", "standard_error"),
                        self.mean_and_error(coupling, size, figure),
                        strict=True,
                    )
                )
                for figure in FIGURES
            }
            for coupling in self.figures
            for size in SIZES
        ]
        return {
            "schema_version": SCHEMA_VERSION,
            "data": self.data,
            "exact": {"rmse": self.exact_rmse, "nlpd": self.exact_nlpd},
            "rows": rows,
            "report": self.report.to_dict(),
            "mesh": self.mesh.to_dict(),
            "seconds": self.seconds,
        }


def write_studies(pages: dict[str, list[Path]], n_seeds: int, seed: int) -> tuple[Layout, str]:
    """Write pages and figures of the comparison and of single models; the first, and its JSON.

    Parameters
    ----------
    pages
        Page and file of figures of each report, by name. Without `"report"`, the comparison, and
        the model of the table are left out.
    """
    mesh = demo_pages.mesh_report(meshes.load(demo_mesh.SHAPE), seed)
    demo_pages.write(mesh, *pages[demo_pages.MESH])
    if "report" not in pages:
        return mesh.layout(), pages[demo_pages.MESH][1].read_text("utf-8")
    data = uci.load(demo_pages.DATA)
    test, train = _split(len(data.y), seed)
    demo_pages.write(demo_pages.table_report(data, train, test, seed), *pages[demo_pages.TABLE])
    page, figures = pages["report"]
    found = run_study(n_seeds, seed)
    text = json.dumps(found.to_dict(), indent=2, allow_nan=False) + "\n"
    write_text(figures, text)
    shown = study_report(found)
    shown.to_html(page)
    return shown, text


def _split(n_rows: int, seed: int) -> tuple[IntArray, IntArray]:
    """Numbers of the test rows, a random fifth, and of the training rows."""
    order = np.random.default_rng(seed).permutation(n_rows)
    return order[: n_rows // 5], order[n_rows // 5 :]


def run_study(n_seeds: int, seed: int) -> Study:
    """Fit the exact GP, then compare every coupling, size and draw at its hyperparameters."""
    data = uci.load(demo_pages.DATA)
    test, train = _split(len(data.y), seed)
    clock = Stopwatch()
    with clock("exact fit"):
        exact = ExactGPRegressor(random_state=seed).fit(data.X[train], data.y[train])
    reports: dict[str, dict[int, list[PosteriorReport]]] = {}
    with clock("comparisons"), reporter("compare") as tell:
        for coupling in COUPLINGS:
            reports[coupling] = {size: [] for size in SIZES}
            for size in SIZES:
                tell(f"{coupling}, {size} frequencies")
                for draw in range(n_seeds):
                    model = _approximation(exact, coupling, size, seed + draw)
                    model.fit(data.X[train], data.y[train])
                    report = compare(model, data.X[test], data.y[test], reference=exact)
                    reports[coupling][size].append(report)
    last = reports[COUPLINGS[-1]][SIZES[-1]][0].changed(target=data.target_name)
    return Study(
        data={
            "name": data.name, "source": data.source, "n_train": len(train), "n_test": len(test),
            "n_columns": data.X.shape[1], "n_seeds": n_seeds, "seed": seed,
        },
        figures={
            coupling: {
                size: {name: np.array([getattr(r, name) for r in draws]) for name in FIGURES}
                for size, draws in by_size.items()
            }
            for coupling, by_size in reports.items()
        },
        exact_rmse=last.reference_rmse,
        exact_nlpd=last.reference_nlpd,
        report=last,
        seconds=clock.seconds,
        mesh=demo_mesh.run_mesh(min(n_seeds, demo_mesh.MAX_DRAWS), seed),
    )  # fmt: skip


def _approximation(
    exact: ExactGPRegressor, coupling: str, size: int, seed: int
) -> SparseSpectrumGPRegressor:
    """Unfitted sparse-spectrum model with the hyperparameters of the exact GP."""
    variance = float(np.var(exact.y_train_))  # hyperparameters are in units of the normalised y
    return SparseSpectrumGPRegressor(
        n_frequencies=size,
        coupling=coupling,
        lengthscale=exact.lengthscale_,
        outputscale=float(exact.outputscale_) / variance,
        noise=float(exact.noise_) / variance,
        optimizer=None,
        random_state=seed,
    )


def lead_of(study: Study) -> list[str]:
    """Say in two sentences which data and models were compared."""
    data = study.data
    draws = "1 draw" if data["n_seeds"] == 1 else f"{data['n_seeds']} draws"
    return [
        f"Data: {data['name']} ({data['source']}), {data['n_train']} training and "
        f"{data['n_test']} test rows, {data['n_columns']} columns.",
        "Gaussian kernel, a lengthscale a column, Fourier features; hyperparameters of the exact "
        f"GP (test RMSE {study.exact_rmse:.4g}, NLPD {study.exact_nlpd:.4g}); means over {draws} "
        "of the frequencies.",
    ]


def study_section(study: Study) -> Section:
    """Couplings and sizes of the table's data, and the divergence against the size."""
    rows = []
    for size in SIZES:
        iid, _ = study.mean_and_error("iid", size, "kl_per_point")
        for coupling in study.figures:
            kl, error = study.mean_and_error(coupling, size, "kl_per_point")
            rows.append(
                (
                    coupling,
                    f"{size}",
                    f"{kl:.2e}",
                    f"{error:.0e}",
                    f"{100 * kl / iid:.0f} %",
                    f"{study.mean_and_error(coupling, size, 'kernel_relative_error')[0]:.3f}",
                    f"{study.mean_and_error(coupling, size, 'nlpd')[0]:.3f}",
                )
            )
    columns = ("coupling", "size", "KL", "± s.e.", "of iid", "kernel error", "NLPD")
    table = ReportTable("KL(exact || approximate), nats per test point", columns, rows)
    figures = {
        coupling: {
            str(size): {name: study.mean_and_error(coupling, size, name)[0] for name in FIGURES}
            for size in SIZES
        }
        for coupling in study.figures
    }
    return Section("study", figures=figures, tables=[table])


def _by_size(study: Study) -> Picture:
    """The divergence of every coupling against the number of frequencies."""
    from coupledgp.diagnostics.pages.palette import coupling_style
    from coupledgp.diagnostics.pages.picture import Picture, axes_of, legend, log_axis

    figure, axes = axes_of(7.6, 4.0)
    for k, coupling in enumerate(study.figures):
        laws = [study.mean_and_error(coupling, size, "kl_per_point") for size in SIZES]
        means, errors = np.array(laws).T
        axes.errorbar(SIZES, means, yerr=errors, capsize=3, label=coupling, **coupling_style(k))
    axes.set(xscale="log", yscale="log", xlabel="frequencies", ylabel="KL, nats per point")
    log_axis(axes.xaxis, [float(size) for size in SIZES])
    log_axis(axes.yaxis)
    legend(figure, axes, 4)
    caption = "KL(exact || approximate) by the number of frequencies; bars are standard errors"
    return Picture("couplings", caption, figure, wide=True)


def mesh_section(study: Study) -> Section:
    """Estimators on the mesh, and the law of the default one at every face."""
    mesh = study.mesh

    def draw() -> Picture:
        drawn = node_map(mesh.network, mesh.observed, *mesh.law).picture()
        caption = (
            f"z component of the normals of the {mesh.data['name']}, predicted at every face: "
            f"{drawn.caption.lower()}"
        )
        return replace(drawn, caption=caption, wide=True)

    figures = {name: {key: float(values.mean()) for key, values in found.items()}
               for name, found in mesh.figures.items()}  # fmt: skip
    return Section("mesh", figures=figures, tables=[mesh.table()], pictures=[draw])


def headline_of(study: Study) -> str:
    """How much closer the best coupling is than independent frequencies, at the largest size."""
    size = SIZES[-1]
    kl = {one: study.mean_and_error(one, size, "kl_per_point")[0] for one in study.figures}
    best = min(kl, key=kl.__getitem__)
    return (
        f"With {size} frequencies {best} is {kl['iid'] / kl[best]:.1f} times as close to the exact "
        "GP as independent ones."
    )


register_section("by-size", lambda study: Section("by-size", pictures=[partial(_by_size, study)]),
                 "demo")  # fmt: skip
register_section("study", study_section, "demo")
register_section("mesh", mesh_section, "demo")


def study_report(study: Study) -> Report:
    """The report of the demo: couplings, the mesh, and one model beside the exact GP."""
    times = study.seconds | study.mesh.seconds
    seconds = ", ".join(f"{name} {value:.1f} s" for name, value in times.items())
    one = study.report.layout()
    model = f"One model is shown: {COUPLINGS[-1]} with {SIZES[-1]} frequencies, and the exact GP."
    return Report(
        headline=headline_of(study),
        verdicts=one.verdicts,
        badges=one.badges,
        advice=one.advice,
        remarks=one.remarks,
        title="Couplings of random features compared",
        lead=[*lead_of(study), model],
        sections=[*sections_of(study, ["demo"]), *one.sections],
        closing=[f"Time: {seconds}."],
        links=[
            (f"{demo_pages.TABLE}.html", "Posterior report of one model of the table"),
            (f"{demo_pages.MESH}.html", "Posterior report of one model of the mesh"),
            (f"{demo_field.NAME}.html", "A field on a mesh from forty sensors"),
        ],
    )
