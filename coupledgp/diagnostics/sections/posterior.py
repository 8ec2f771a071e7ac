"""The result of a comparison in its forms for people and programs.

Comparisons of models of transformed targets: in the units of the transformed targets.

A divergence of two laws does not change when both are mapped by one increasing transform g. So the
laws of `z = g(y)`, which are Gaussian, are compared in place of those of y, and scores are those of
`g(y)`. The NLPD of y is that of z minus the mean of `log g'(y)`, for the model and the reference.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar

from numpy.typing import ArrayLike

from coupledgp.core.transformed import TransformedGP, forward
from coupledgp.diagnostics.moves import ColumnMoves
from coupledgp.diagnostics.scoring.arviz_groups import as_arviz, groups_of
from coupledgp.diagnostics.scoring.laws import check_targets
from coupledgp.diagnostics.scoring.scores import point_crps, point_nlpd
from coupledgp.diagnostics.scoring.subject import Subject, process_of
from coupledgp.diagnostics.sections.comparison import register_comparison
from coupledgp.diagnostics.sections.layout import Layout
from coupledgp.diagnostics.sections.place_map import PlacesOf
from coupledgp.diagnostics.sections.report import Rendered
from coupledgp.diagnostics.sections.section import sections_of
from coupledgp.diagnostics.verdicts.result import ComparisonResult
from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import check_positive_int
from coupledgp.random import FloatArray

# Raised when a key of the JSON changes its meaning or goes.
SCHEMA_VERSION = 4


@dataclass(frozen=True)
class PosteriorReport(ComparisonResult, Rendered):
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
    moves : ColumnMoves or None
        How far columns of the model's table move predictions; None for a model of none.
    places : PlacesOf or None
        Map of a model of two places; None for others.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> model = cgp.ExactGPRegressor(optimizer=None, lengthscale=1.5, noise=0.02)
    >>> report = cgp.diagnostics.compare(model.fit(X[::2], y[::2]), X[1::2], y[1::2])
    >>> [verdict.question for verdict in report.verdicts]
    ['Is the model good?', 'Are its intervals honest?', 'Is the approximation close enough?']
    >>> bool(report.scoring_table()["obs"][0] == y[1])
    True
    >>> text = report.to_json("report.json")
    """

    report_kinds: ClassVar[tuple[str, ...]] = ("comparison",)
    title = "Posterior report"
    moves: ColumnMoves | None = field(default=None, repr=False)
    places: PlacesOf | None = field(default=None, repr=False)

    def to_dict(self) -> dict[str, Any]:
        """Return the figures and the texts of the two models as plain Python values."""
        return self.figures.to_dict() | {
            "schema_version": SCHEMA_VERSION,
            "model": self.model,
            "reference": self.reference,
            "verdict": self.verdict(),
            "verdicts": [one.to_dict() for one in self.verdicts],
            "badges": [one.to_dict() for one in self.badges],
            "advice": [one.to_dict() for one in self.advice],
            "evidence": None if self.evidence is None else self.evidence.to_dict(),
            "remarks": list(self.remarks),
            "overlap": None if self.overlap is None else asdict(self.overlap),
            "accuracy": asdict(self.accuracy),
            "sections": [one.to_dict() for one in sections_of(self, self.report_kinds)],
        }

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

    def layout(self) -> Layout:
        """The report with its sections; see `Layout`."""
        return Layout(
            title=self.title,
            lead=self.lead(),
            headline=self.headline,
            warnings=self.warnings,
            verdicts=self.verdicts,
            badges=self.badges,
            statements=[] if self.verdicts else self.conclusions(),
            remarks=self.remarks,
            advice=self.advice,
            sections=sections_of(self, self.report_kinds),
        ).named(self.target)

    def lead(self) -> list[str]:
        """Paragraphs below the heading."""
        return []


register_comparison()


REMARK = (
    "All figures are in units of the transformed targets; divergences are the same in units of y."
)


@dataclass(frozen=True)
class Comparison:
    """What is compared, in units in which laws are Gaussian where there are such.

    Attributes
    ----------
    model : Any
        The model, or the inner process of one of transformed targets.
    X : Any
        Test inputs, or points of that process.
    y : ArrayLike or None
        Targets, transformed with the model's.
    reference : Any
        Model to compare with, or its inner process; None for the exact one.
    original : Any
        The model as it was given.
    """

    model: Any
    X: Any
    y: ArrayLike | None
    reference: Any
    original: Any

    @classmethod
    def of(cls, model: Any, X: Any, y: ArrayLike | None, reference: Any) -> Comparison:
        """A comparison as it was asked for.

        A model and a reference of different transforms are left as they are: they are compared in
        units of y, by the moments of their laws.
        """
        process, other = process_of(model), process_of(reference)
        if not isinstance(process, TransformedGP):
            return cls(model, X, y, reference, model)
        if reference is not None:
            if not isinstance(other, TransformedGP) or other.transforms != process.transforms:
                return cls(model, X, y, reference, model)
            reference = other.inner
        points = Subject.of(model, X).points
        if y is not None:
            checked = check_targets(y, (len(points), len(process.transforms)))
            y = forward(checked, process.transforms)
        return cls(process.inner, points, y, reference, model)

    @property
    def subject(self) -> Subject:
        """The process that is compared, at its points, under the name of the model as given."""
        return replace(Subject.of(self.model, self.X), model=self.original)

    def report(self, found: PosteriorReport) -> PosteriorReport:
        """A report with a sentence on the units of its figures."""
        process = process_of(self.original)
        if self.model is self.original or process is None:
            return found
        remarks = (*found.remarks, process.remarks[-1], REMARK)
        return found.changed(remarks=remarks, target="transformed y")
