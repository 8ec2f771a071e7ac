"""The rows of a table as `coupledgp fit` takes them: read, fitted, scored, compared and written."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from coupledgp.cli.commands.latent_tasks import (
    check_options,
    describe_latent,
    is_gaussian,
    latent_scores,
    make_classifier,
)
from coupledgp.cli.commands.table_options import FitOptions
from coupledgp.cli.commands.table_tasks import (
    chosen_name,
    describe_fit,
    load,
    make_model,
    spread_of,
)
from coupledgp.cli.readers.kinds import forced_kinds
from coupledgp.cli.shared.declare import as_options
from coupledgp.cli.shared.domain import Domain, Paths, texts
from coupledgp.cli.shared.evaluate import ExactComparison, beside_exact, plan_comparison, scores
from coupledgp.cli.show.latent import latent_report
from coupledgp.cli.show.table import fit_report
from coupledgp.diagnostics.scoring.overlap import Overlap, overlap_of
from coupledgp.diagnostics.sections.report import Report
from coupledgp.errors import InvalidInputError
from coupledgp.ground.devices import parse_device
from coupledgp.ground.memory import named_exhaustion
from coupledgp.ground.progress import reporter
from coupledgp.models import save_model


class TableDomain(Domain):
    """A table in memory."""

    options: FitOptions

    def __init__(self, options: FitOptions) -> None:
        super().__init__(options)
        self.share, self.name, self.how = options.share, chosen_name(options), options.how
        if self.how == "auto" and self.name != "sparse-spectrum" and options.report is None:
            self.how = "none"  # predictions decide, and they were measured already
        self.comparison: ExactComparison | None = None
        self.under_law = False
        self.overlap: Overlap | None = None
        parse_device(options.device, "--device")
        if options.report is not None and (self.how == "none" or options.exact_rows == 0):
            raise InvalidInputError(
                "--report: expected --exact-rows > 0 and a --compare other than "
                "none, the page compares models"
            )

        with as_options(options):
            self.model = make_model(self.name, options)
            self.model.check_parameters()
        self.kinds = forced_kinds(
            options.categorical or [], options.numeric or [], options.date or [], options.target
        )

    @property
    def weights(self) -> dict[str, str | None]:
        """Columns of the arguments of a fit beside inputs and targets."""
        return {
            "sample_weight": self.options.weight_column, "sample_noise": self.options.noise_column,
            "exposure": self.options.exposure,
        }  # fmt: skip

    def read(self) -> None:
        options = self.options
        self.train, self.held_out = load(
            options, options.data, self.share, options.drop or [], self.kinds, self.weights,
            "likelihood" not in options.given,
        )  # fmt: skip
        self.under_law = self.train.is_labelled or not is_gaussian(options.likelihood)
        if self.under_law:
            check_options(options, self.train.is_labelled)
            if self.train.is_labelled:
                self.model = make_classifier(options)
            self.plan = None
            return
        self.plan = plan_comparison(self.how, len(self.train), options.exact_rows)
        if self.plan is not None:
            self.plan.check_size()

    def fit(self) -> None:
        self.model.fit(self.train.X, self.train.y, **self.train.weights)

    def law(self, paths: Paths) -> dict[str, Any]:
        result, n_test = self._latent() if self.under_law else self._described()
        result["data"] |= {
            "path": str(self.options.data), "target": self.options.target,
            "test": texts({"test": self.options.test})["test"], "holdout": self.share,
            "n_test": n_test,
        }  # fmt: skip
        result["overlap"] = None if self.overlap is None else asdict(self.overlap)
        result["output"] = texts(self.options.outputs)["output"]
        return result

    def _described(self) -> tuple[dict[str, Any], int]:
        """Figures of the fit, its scores and its comparison, and the number of test rows."""
        model, held_out, scored = self.model, self.held_out, None
        if len(held_out):
            with self.clock("predict"), reporter("predict"), named_exhaustion("predict"):
                points, process = model.points(held_out.X), model.process_
                scored = scores(process, points, held_out.y)
                self.overlap = overlap_of(process, points, held_out.y)[0]
        if self.plan is not None:
            with self.clock("compare"):
                found = beside_exact(model, self.train, held_out, self.plan, self.options.seed)
                report = replace(found.report, overlap=self.overlap)
                self.comparison = replace(found, report=report)
        n_columns, spread = self.train.X.num_columns, spread_of(model, model.X_train_)
        result = describe_fit(
            model, len(self.train), n_columns, spread, scored, self.comparison, self.clock
        )
        return result, len(held_out)

    def _latent(self) -> tuple[dict[str, Any], int]:
        """Figures of a fit of classes or under a likelihood, and the number of test rows."""
        scored = None
        if len(self.held_out):
            with self.clock("predict"), reporter("predict"), named_exhaustion("predict"):
                scored = latent_scores(self.model, self.held_out)
        result = describe_latent(
            self.model, len(self.train), self.train.X.num_columns, scored, self.clock
        )
        return result, len(self.held_out)

    def write(self, result: dict[str, Any], paths: Paths) -> None:
        model_path, page = paths["output"], paths["report"]
        if model_path is not None:
            save_model(self.model, model_path, include_data=self.options.include_data)
        if page is not None and self.under_law:
            self.report(result).to_html(page)
        if page is not None and self.comparison is not None:
            fit_report(result, self.comparison).to_html(page)

    def report(self, result: dict[str, Any]) -> Report:
        if self.under_law:
            return latent_report(result)
        warnings = () if self.overlap is None else self.overlap.warnings
        return fit_report(result, self.comparison, warnings)
