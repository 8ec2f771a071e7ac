"""Old import paths, which lead to the modules that took their place.

`import coupledgp.old` and `from coupledgp.old.file import name` give the very module objects of the
new path, so that classes are the same objects by either path and old pickles load.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

# An old path, of a file or of a folder with all it holds, to the path that took its place.
MOVED = {
    **{
        f"coupledgp.{name}": f"coupledgp.ground.{name}"
        for name in (
            "compiled", "counter", "descent", "devices", "forks", "lazy", "memory", "output",
            "progress", "temporary", "validation", "visible",
        )
    },
    **{
        f"coupledgp.{old}": f"coupledgp.{new}"
        for old, new in (
            ("batches.files", "batches.parse"), ("botorch.paths", "botorch.model"),
            ("dask.local_process", "dask.local"), ("dask.partitions", "dask.passes"),
            ("diagnostics.rank_statistics", "diagnostics.simulation_based"),
            ("diagnostics.rivals.linear", "diagnostics.rivals.tables"),
            ("diagnostics.rivals.position_gp", "diagnostics.rivals.places"),
            ("diagnostics.rivals.prediction", "diagnostics.rivals.observations"),
            ("diagnostics.scoring.point_laws", "diagnostics.scoring.laws"),
            ("diagnostics.sections.table", "diagnostics.sections.section"),
            ("diagnostics.space_time.readings", "diagnostics.space_time.splits"),
            ("diagnostics.space_time.result", "diagnostics.space_time.evaluation"),

            ("diagnostics.studies.draws", "diagnostics.studies.pairs"),
            ("diagnostics.verdicts.judging", "diagnostics.verdicts.result"),
            ("diagnostics.verdicts.nearby", "diagnostics.verdicts.variations"),
            ("features.importance", "features.laplace"),
            ("formats.road_graphs", "formats.road_files"), ("geometry.roads", "geometry.networks"),
            ("geometry.surfaces", "geometry.meshes"), ("gp.back_transformed", "gp.target_maps"),
            ("gp.boosted_trees", "gp.frozen_mean"), ("gp.graph_time_state", "gp.graph_time_prior"),
            ("gp.lattice_inverse", "gp.feature_inverse"), ("gp.node_inverse", "gp.feature_inverse"),
            ("gp.space_time_rows", "gp.graph_time_prior"), ("gp.trend_columns", "gp.lattice_parts"),
            ("gp.variance_field", "gp.varying_noise"),
            ("inference.fields.field_covariance", "inference.fields.covariance"),
            ("inference.sites.evidence", "inference.sites.objective"),
            ("inference.sites.observed", "inference.sites.rules"),
            ("inference.space_time.terms", "inference.space_time.filters"),
            ("kernels.gpytorch.gram", "kernels.gpytorch.features"),
            ("kernels.graph.device_series", "kernels.graph.exact"),
            ("linalg.cholesky", "linalg.matrices"), ("models.batch_sums", "models.batch_passes"),
            ("models.checkpoint_states", "models.table_parts"),
            ("models.feature_sums", "models.kernel_regression"),
            ("models.field_places", "models.field_estimator"), ("models.targets", "models.tables"),
            ("search.tables.observed", "search.tables.expression"),
            ("selection.additive_members", "selection.near_members"),
            ("selection.constant_members", "selection.members"), ("series.zones", "series.stamps"),
        )
    },
    "coupledgp.gp.hermite": "coupledgp.likelihoods.hermite",
    "coupledgp.gp.noise": "coupledgp.likelihoods",
    "coupledgp.cli.evaluate": "coupledgp.cli.shared.evaluate",
    "coupledgp.cli.options": "coupledgp.cli.shared.options",
    "coupledgp.inference.linalg": "coupledgp.linalg",
    "coupledgp.inference.search": "coupledgp.search",
    "coupledgp.search.problem": "coupledgp.inference.evidence.problem",
    "coupledgp.search.rows": "coupledgp.inference.evidence.rows",
    "coupledgp.search.stationary": "coupledgp.inference.evidence.stationary",
    "coupledgp.gp.batched_evidence": "coupledgp.search.tables.batched_evidence",
    "coupledgp.gp.fit_transform": "coupledgp.search.tables.transforms",
    "coupledgp.gp.fit_spectrum": "coupledgp.search.tables.spectra",
    "coupledgp.inference.spectra.training": "coupledgp.search.tables.spectrum_descent",
    "coupledgp.inference.spectra.members": "coupledgp.search.tables.spectrum_members",
    "coupledgp.gp.local_fit": "coupledgp.search.tables.local",
    "coupledgp.gp.node_fit": "coupledgp.search.nodes.fitter",
    "coupledgp.gp.node_search": "coupledgp.search.nodes.kernels",
    "coupledgp.gp.node_average": "coupledgp.search.nodes.average",
    "coupledgp.gp.component_fit": "coupledgp.search.nodes.components",
    "coupledgp.inference.nodes.rounds": "coupledgp.search.nodes.walk_rounds",
    "coupledgp.inference.nodes.exact_search": "coupledgp.search.nodes.families",
    "coupledgp.inference.nodes.averaging": "coupledgp.search.nodes.quadrature",
    "coupledgp.gp.field_routes": "coupledgp.search.fields.routes",
    "coupledgp.gp.field_fit": "coupledgp.search.fields.mixture",
    "coupledgp.gp.precise_fit": "coupledgp.search.fields.precise",
    "coupledgp.inference.fields.precision_search": "coupledgp.search.fields.precision_search",
    "coupledgp.inference.fields.grid": "coupledgp.search.fields.grid",
    "coupledgp.gp.graph_time_fit": "coupledgp.search.space_time.fitter",
    "coupledgp.inference.space_time.rounds": "coupledgp.search.space_time.rounds",
    "coupledgp.gp.graph_time_transform": "coupledgp.search.space_time.transforms",
    "coupledgp.models.botorch_model": "coupledgp.botorch.model",
    "coupledgp.models.reports": "coupledgp.models.other_models.reports",
    "coupledgp.diagnostics.alternatives": "coupledgp.diagnostics.scoring.other_model",
    "coupledgp.diagnostics.arviz_groups": "coupledgp.diagnostics.scoring.arviz_groups",
    "coupledgp.diagnostics.calibration": "coupledgp.diagnostics.scoring.calibration",
    "coupledgp.diagnostics.divergences": "coupledgp.diagnostics.scoring.divergences",
    "coupledgp.diagnostics.figures": "coupledgp.diagnostics.scoring.figures",
    "coupledgp.diagnostics.kernel_errors": "coupledgp.diagnostics.scoring.kernel_errors",
    "coupledgp.diagnostics.laws": "coupledgp.diagnostics.scoring.laws",
    "coupledgp.diagnostics.measures": "coupledgp.diagnostics.scoring.measures",
    "coupledgp.diagnostics.overlap": "coupledgp.diagnostics.scoring.overlap",
    "coupledgp.diagnostics.provenance": "coupledgp.diagnostics.scoring.provenance",
    "coupledgp.diagnostics.score_bounds": "coupledgp.diagnostics.scoring.score_bounds",
    "coupledgp.diagnostics.score_table": "coupledgp.diagnostics.scoring.score_table",
    "coupledgp.diagnostics.scores": "coupledgp.diagnostics.scoring.scores",
    "coupledgp.diagnostics.subject": "coupledgp.diagnostics.scoring.subject",
    "coupledgp.diagnostics.transformed": "coupledgp.diagnostics.sections.transformed",
    "coupledgp.diagnostics.neighbour_residuals":
        "coupledgp.diagnostics.verdicts.neighbour_residuals",
    "coupledgp.diagnostics.result": "coupledgp.diagnostics.verdicts.result",
    "coupledgp.diagnostics.report": "coupledgp.diagnostics.sections.posterior",
    "coupledgp.diagnostics.study": "coupledgp.diagnostics.studies.study",
    "coupledgp.diagnostics.pages.study_figure": "coupledgp.diagnostics.studies.study_figure",
    "coupledgp.diagnostics.pages.study_pictures": "coupledgp.diagnostics.studies.study_pictures",
    "coupledgp.diagnostics.pages.space_time": "coupledgp.diagnostics.space_time",
    "coupledgp.models.other_models.contest": "coupledgp.diagnostics.rivals.contest",
    "coupledgp.diagnostics.left_out.scores": "coupledgp.diagnostics.scoring.scores",
}  # fmt: skip


class _Alias(Loader):
    """Loads nothing: the module of the new path stands at the old one too."""

    def __init__(self, new: str) -> None:
        self.new = new

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = import_module(self.new)
        # The import system writes the old spec into the module that it is given.
        self.spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self.spec


class MovedModules(MetaPathFinder):
    """Finds modules by their old paths.

    Parameters
    ----------
    moved
        Old path of a file or folder to the new one.
    """

    def __init__(self, moved: Mapping[str, str]) -> None:
        self.moved = dict(moved)

    def new_path(self, name: str) -> str | None:
        """The path that took the place of one, or None if none did."""
        parts = name.split(".")
        for n in range(len(parts), 1, -1):
            if new := self.moved.get(".".join(parts[:n])):
                return ".".join([new, *parts[n:]])
        return None

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the specification of a module by its old path; None for every other path."""
        if not fullname.startswith("coupledgp."):
            return None
        new = self.new_path(fullname)
        return None if new is None else ModuleSpec(fullname, _Alias(new))


def follow_moves() -> None:
    """Let old import paths lead to new ones, from the package's first import on."""
    if not any(isinstance(finder, MovedModules) for finder in sys.meta_path):
        # Before the others: they would load a file of a moved folder once more, by its old path.
        sys.meta_path.insert(0, MovedModules(MOVED))
