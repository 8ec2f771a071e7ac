"""The study of `coupledgp demo`: couplings compared on an embedded data set, and on a mesh."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coupledgp.cli.commands import demo_field, demo_pages
from coupledgp.cli.shared.evaluate import Stopwatch
from coupledgp.cli.show.graph import node_map
from coupledgp.couplings.frequencies.registry import POSTERIOR
from coupledgp.datasets import friedman2
from coupledgp.diagnostics import PosteriorReport, compare
from coupledgp.diagnostics.sections.layout import Layout
from coupledgp.diagnostics.sections.report import Report
from coupledgp.diagnostics.sections.section import (
    ReportTable,
    Section,
    register_section,
    sections_of,
)
from coupledgp.errors import PrecisionWarning
from coupledgp.ground.output import write_text
from coupledgp.ground.progress import reporter
from coupledgp.models import ExactGPRegressor, SparseSpectrumGPRegressor
from coupledgp.random import FloatArray, IntArray
from coupledgp.theory import posterior_errors

if TYPE_CHECKING:
    from coupledgp.diagnostics.pages.picture import Picture

# Couplings that frequencies are sampled by, and the draw for the posterior, at equal numbers.
COUPLINGS = ("iid", "orthogonal", "orthogonal+pnc", "orthogonal+stratified", POSTERIOR)
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
    expected : dict of coupling to size to float
        Expected KL, nats per point: that of `theory.posterior_errors`, and of frequencies drawn for
        the posterior that of their pilots.
    exact_rmse, exact_nlpd : float
        Root mean squared error and negative log predictive density of the exact GP on test rows.
    report : PosteriorReport
        Report of one model, the last coupling at the largest size.
    shown : str
        What the frequencies of that model are.
    seconds : dict
        Seconds that each part of the work took, by name.
    mesh : MeshStudy
        Results on the mesh.
    """

    data: dict[str, Any]
    figures: dict[str, dict[int, dict[str, FloatArray]]]
    expected: dict[str, dict[int, float]]
    exact_rmse: float
    exact_nlpd: float
    report: PosteriorReport
    shown: str
    seconds: dict[str, float]
    mesh: demo_pages.MeshStudy

    def mean_and_error(self, coupling: str, size: int, figure: str) -> tuple[float, float]:
        """Mean over seeds, and its standard error (0 for one seed)."""
        values = self.figures[coupling][size][figure]
        error = values.std(ddof=1) / np.sqrt(values.size) if values.size > 1 else 0.0
        return float(values.mean()), float(error)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as plain values."""
        rows = [
            {
                "coupling": coupling,
                "n_frequencies": size,
                "expected_kl_per_point": self.expected[coupling][size],
            }
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
    mesh = demo_pages.mesh_report(demo_pages.SHAPE, seed)
    demo_pages.write(mesh, *pages[demo_pages.MESH])
    if "report" not in pages:
        return mesh.layout(), pages[demo_pages.MESH][1].read_text("utf-8")
    data = friedman2()
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
    data = friedman2()
    test, train = _split(len(data.y), seed)
    clock = Stopwatch()
    with clock("exact fit"):
        exact = ExactGPRegressor(random_state=seed).fit(data.X[train], data.y[train])
    reports: dict[str, dict[int, list[PosteriorReport]]] = {}
    with clock("comparisons"), reporter("compare") as tell, warnings.catch_warnings():
        warnings.simplefilter("ignore", PrecisionWarning)  # of sizes that are too few on purpose
        for coupling in COUPLINGS:
            reports[coupling] = {size: [] for size in SIZES}
            pilots: dict[int, list[Any]] = {size: [] for size in SIZES}
            for size in SIZES:
                tell(f"{coupling}, {size} frequencies")
                for draw in range(n_seeds):
                    model = _approximation(exact, coupling, size, seed + draw)
                    model.fit(data.X[train], data.y[train])
                    report = compare(model, data.X[test], data.y[test], reference=exact)
                    reports[coupling][size].append(report)
                    pilots[size].append(model.pilot_.kl_per_point)
    with clock("expected errors"):
        kept: dict[str, Any] = {
            "lengthscale": exact.lengthscale_, "outputscale": float(exact.outputscale_),
            "noise": float(exact.noise_),
        }  # fmt: skip
        expected = {
            coupling: {size: float(np.mean(pilots[size])) if coupling == POSTERIOR else
                       posterior_errors(data.X[train], data.X[test], size, coupling=coupling,
                                        random_state=seed, **kept).kl.value
                       for size in SIZES}
            for coupling in COUPLINGS
        }  # fmt: skip
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
        expected=expected,
        exact_rmse=last.reference_rmse,
        exact_nlpd=last.reference_nlpd,
        report=last,
        shown=str(model.drawn_),
        seconds=clock.seconds,
        mesh=demo_pages.run_mesh(min(n_seeds, demo_pages.MAX_DRAWS), seed),
    )  # fmt: skip


def _approximation(
    exact: ExactGPRegressor, coupling: str, size: int, seed: int
) -> SparseSpectrumGPRegressor:
    """Unfitted sparse-spectrum model with the hyperparameters of the exact GP."""
    variance = float(np.var(exact.y_train_))  # hyperparameters are in units of the normalised y
    return SparseSpectrumGPRegressor(
        n_frequencies=size,
        coupling=None if coupling == POSTERIOR else coupling,
        frequencies=POSTERIOR if coupling == POSTERIOR else "sampled",
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
                    f"{study.expected[coupling][size]:.2e}",
                    f"{100 * kl / iid:.0f} %",
                    f"{study.mean_and_error(coupling, size, 'kernel_relative_error')[0]:.3f}",
                    f"{study.mean_and_error(coupling, size, 'nlpd')[0]:.3f}",
                )
            )
    columns = ("coupling", "size", "KL", "± s.e.", "expected", "of iid", "kernel error", "NLPD")
    note = (
        "Expected: the KL to second order before anything is drawn, by theory.posterior_errors; "
        "of posterior, frequencies drawn for the posterior, by their pilots."
    )
    title = "KL(exact || approximate), nats per test point, at equal numbers of frequencies"
    table = ReportTable(title, columns, rows, note=note)
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
    from coupledgp.diagnostics.pages.picture import Picture, axes_of, legend, log_axis
    from coupledgp.diagnostics.pages.scale import coupling_style

    figure, axes = axes_of(7.6, 4.0)
    for k, coupling in enumerate(study.figures):
        laws = [study.mean_and_error(coupling, size, "kl_per_point") for size in SIZES]
        means, errors = np.array(laws).T
        axes.errorbar(SIZES, means, yerr=errors, capsize=3, label=coupling, **coupling_style(k))
    axes.set(xscale="log", yscale="log", xlabel="frequencies", ylabel="KL, nats per point")
    log_axis(axes.xaxis, [float(size) for size in SIZES])
    log_axis(axes.yaxis)
    legend(figure, axes, 5)
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
    """What couplings, and the draw for the posterior, change at the largest size."""
    size, text = SIZES[-1], ""
    kernel, kl = (
        {one: study.mean_and_error(one, size, name)[0] for one in study.figures}
        for name in ("kernel_relative_error", "kl_per_point")
    )
    coupled = [one for one in study.figures if one not in ("iid", POSTERIOR)]
    if coupled:
        best = min(coupled, key=kernel.__getitem__)
        ratio, error = _ratio(*(study.figures[one][size]["kl_per_point"] for one in (best, "iid")))
        text = (
            f"With {size} frequencies {best} has {kernel[best] / kernel['iid']:.2f} times the "
            f"kernel error of independent frequencies, and {ratio:.2f} ± {error:.2f} times their "
            "KL to the exact posterior. "
        )
    if POSTERIOR in kl:
        text += (
            f"As many frequencies drawn for the posterior are {kl['iid'] / kl[POSTERIOR]:.0f} "
            "times as close to it as independent ones."
        )
    return text


def _ratio(values: FloatArray, base: FloatArray) -> tuple[float, float]:
    """Ratio of the means of draws of the same seeds, and its standard error (0 for one seed)."""
    ratio = float(values.mean() / base.mean())
    if values.size < 2:
        return ratio, 0.0
    spread = values / values.mean() - base / base.mean()
    return ratio, float(ratio * spread.std(ddof=1) / np.sqrt(values.size))


register_section("by-size", lambda study: Section("by-size", pictures=[partial(_by_size, study)]),
                 "demo")  # fmt: skip
register_section("study", study_section, "demo")
register_section("mesh", mesh_section, "demo")


def study_report(study: Study) -> Report:
    """The report of the demo: couplings, the mesh, and one model beside the exact GP."""
    times = study.seconds | study.mesh.seconds
    seconds = ", ".join(f"{name} {value:.1f} s" for name, value in times.items())
    one = study.report.layout()
    model = f"One model is shown beside the exact GP: {study.shown}."
    return Report(
        headline=headline_of(study),
        verdicts=one.verdicts,
        badges=one.badges,
        advice=one.advice,
        remarks=one.remarks,
        title="Couplings of random features, and frequencies drawn for the posterior",
        lead=[*lead_of(study), model],
        sections=[*sections_of(study, ["demo"]), *one.sections],
        closing=[f"Time: {seconds}."],
        links=[
            (f"{demo_pages.TABLE}.html", "Posterior report of one model of the table"),
            (f"{demo_pages.MESH}.html", "Posterior report of one model of the mesh"),
            (f"{demo_field.NAME}.html", "A field on a mesh from forty sensors"),
        ],
    )
