"""The result of a comparison in its forms for people and programs: a dict, JSON and a page."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coupledgp.diagnostics.arviz_groups import as_arviz, groups_of
from coupledgp.diagnostics.pages.table import Section
from coupledgp.diagnostics.result import ComparisonResult
from coupledgp.diagnostics.scores import point_crps, point_nlpd
from coupledgp.errors import InvalidInputError
from coupledgp.ground.output import write_text
from coupledgp.ground.validation import check_positive_int, json_values
from coupledgp.random import FloatArray

if TYPE_CHECKING:
    from coupledgp.diagnostics.pages.page import Page

# Raised when a key of the JSON changes its meaning or goes.
SCHEMA_VERSION = 4


@dataclass(frozen=True)
class PosteriorReport(ComparisonResult):
    """Figures of a comparison, also as attributes: `report.kl_per_point`; see `Figures`.

    Attributes
    ----------
    figures : Figures
    predictions : Predictions
    model : str
        Text of the estimator.
    reference : str or None
        Text of the reference, if there is one.
    accuracy : Accuracy
        Method of the computation, and bounds and standard errors of the figures.
    kernel_errors : KernelErrors or None
        Errors of the kernel between pairs of test points, for a picture.
    remarks : tuple of str
        Sentences that a reader needs beside single figures.
    overlap : Overlap or None
        How many test rows are training rows; None where none were looked for.
    evidence : Evidence or None
        What the targets say of the model; None without targets.
    """

    def to_dict(self) -> dict[str, Any]:
        """Return the figures and the texts of the two models as plain Python values."""
        return {
            "schema_version": SCHEMA_VERSION,
            "model": self.model,
            "reference": self.reference,
            "verdict": self.verdict(),
            "verdicts": [one.to_dict() for one in self.verdicts],
            "advice": [one.to_dict() for one in self.advice],
            "evidence": None if self.evidence is None else self.evidence.to_dict(),
            "remarks": list(self.remarks),
            "overlap": None if self.overlap is None else asdict(self.overlap),
            **self.figures.to_dict(),
            "accuracy": asdict(self.accuracy),
        }

    def to_json(self, path: str | PathLike[str] | None = None) -> str:
        """Return `to_dict()` as JSON, and write it to `path` if one is given.

        JSON has no NaN and no infinity: such a figure is null, and `"not_finite"` names it.
        """
        text = json.dumps(json_values(self.to_dict()), indent=2, allow_nan=False)
        if path is not None:
            write_text(path, text + "\n")
        return text

    def scoring_table(self) -> dict[str, FloatArray]:
        """Targets and laws of single points in the names of scoringrules, columns (p k,).

        `obs`, `mu` and `sigma` are the arguments of its functions of normal laws, `crps_normal` and
        `logs_normal` their values; those of the reference begin with `reference_`. Several outputs
        follow each other point by point.

        Raises
        ------
        InvalidInputError
            There are no targets.
        """
        p = self.predictions
        if p.y is None:
            raise InvalidInputError("y_test: expected targets, this comparison was made without")
        columns = {"obs": p.y.ravel()}
        for prefix, mean, std in p.laws():
            columns |= {
                f"{prefix}mu": mean.ravel(),
                f"{prefix}sigma": std.ravel(),
                f"{prefix}crps_normal": point_crps(p.y, mean, std).ravel(),
                f"{prefix}logs_normal": point_nlpd(p.y, mean, std).ravel(),
            }
        return columns

    def to_arviz(self, *, n_chains: int = 4, n_draws: int = 250, seed: int = 0) -> Any:
        """Return draws of both laws, targets and log densities in the groups of ArviZ's schema.

        | group | variables |
        |---|---|
        | `posterior`, `posterior_predictive` | `y`: draws of observations at the test points |
        | `predictions` | `reference`: draws of the reference, if there is one |
        | `observed_data` | `y`: the targets, if there are any |
        | `log_likelihood` | `y`: log predictive density of each target, the same for each draw |
        | `constant_data` | `mean`, `std` of the laws; `X_test` where the points are numbers |

        Draws are those of the joint laws where these are known (attribute `joint`), of Gaussian
        laws in any case. The test points are held out already, so that `arviz.loo` and
        `arviz.compare` give the sum of the log predictive densities, and `p_loo` is zero. To keep
        the Pareto diagnostic, which concerns nothing here, from warning, log densities are
        scattered by 1e-9 nats over the draws.

        Parameters
        ----------
        n_chains, n_draws
            Numbers of chains, and of draws of each.
        seed
            Seed of the draws.

        Returns
        -------
        arviz.InferenceData or xarray.DataTree
            `InferenceData` for ArviZ below 1, else the `DataTree` that later versions take.

        Raises
        ------
        MissingLibraryError
            xarray is not installed.
        NumericalError
            A covariance is not positive definite.
        """
        check_positive_int(n_chains, "n_chains")
        check_positive_int(n_draws, "n_draws")
        check_positive_int(seed, "seed", minimum=0)
        return as_arviz(groups_of(self, n_chains, n_draws, seed))

    def to_html(self, path: str | PathLike[str] | None = None) -> str:
        """Return one self-contained HTML page with tables and pictures, and write it to `path`."""
        from coupledgp.diagnostics.pages.html import html_of  # matplotlib is slow to import

        page = html_of(self._page())
        if path is not None:
            write_text(path, page)
        return page

    def pictures(self) -> dict[str, str]:
        """Return the pictures of the page as SVG documents in light colours, by name."""
        return {name: picture.svg() for name, picture in self._page().drawn().items()}

    def save_pictures(self, folder: str | PathLike[str], format: str = "svg") -> list[Path]:
        """Write each picture of the page as `<name>.<format>` into a folder.

        Parameters
        ----------
        folder
            It is made if it is missing; files of the same names are replaced.
        format
            `"svg"`, or `"png"` at 200 dots an inch.

        Returns
        -------
        list of Path
            The files, in the order of the page.

        Raises
        ------
        InvalidInputError
            The format is another one.
        OSError
            A file cannot be written.
        """
        return self._page().save_pictures(folder, format)

    def tables(self) -> dict[str, Section]:
        """Return the tables of the page by name: `title`, `columns`, `rows` and `to_csv()`."""
        return self._page().listed()

    def save_tables(self, folder: str | PathLike[str]) -> list[Path]:
        """Write each table of the page as `<name>.csv` into a folder, and return the paths.

        The folder is made if it is missing. Errors of numbers stand in columns of their own.

        Raises
        ------
        OSError
            A file cannot be written.
        """
        return self._page().save_tables(folder)

    def _page(self) -> Page:
        from coupledgp.diagnostics.pages.html import render  # matplotlib is slow to import

        return render(self)

    def _repr_html_(self) -> str:
        from coupledgp.diagnostics.pages.html import render_table

        return render_table(self)
