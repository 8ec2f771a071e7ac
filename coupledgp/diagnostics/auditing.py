"""Audit of anybody's posterior: the exact process of the stated kernel, calibration, baselines.

The result of an audit: the page and figures of a comparison, with baselines and calibration.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.core.digests import RowDigests
from coupledgp.diagnostics.audit_classes import audit_classifier, model_name
from coupledgp.diagnostics.audit_figures import ALONE, Way, beside_data, beside_exact
from coupledgp.diagnostics.foreign.inducing import refits
from coupledgp.diagnostics.foreign.kernel import KernelFunction, StatedKernel
from coupledgp.diagnostics.foreign.recognised import (
    inducing_points_of,
    is_model,
    kernel_of_model,
    law_at_rows,
)
from coupledgp.diagnostics.foreign.table import ForeignTable, is_classifier, rows_alone, tables
from coupledgp.diagnostics.likelihoods.report import LikelihoodReport
from coupledgp.diagnostics.likelihoods.reporting import is_observed, likelihood_report, sites_of
from coupledgp.diagnostics.probes import StochasticOptions
from coupledgp.diagnostics.residuals.columns import kept_columns, with_row_order
from coupledgp.diagnostics.scoring.overlap import Overlap, counted, with_near
from coupledgp.diagnostics.scoring.score_table import per_cent
from coupledgp.diagnostics.scoring.subject import process_of, some_rows
from coupledgp.diagnostics.sections.posterior import PosteriorReport
from coupledgp.diagnostics.sections.section import ReportTable, Section, register_section
from coupledgp.diagnostics.verdicts.result import ComparisonResult
from coupledgp.errors import InvalidInputError
from coupledgp.ground.progress import reporter
from coupledgp.ground.validation import check_choice, check_positive
from coupledgp.random import IntArray
from coupledgp.spectra import Spectrum


def stated(report: ComparisonResult) -> Section | None:
    """Energy scores of draws, and reliability of quantiles; None for other laws."""
    own = report.predictions.own
    if own is None or not (own.energy or own.below):
        return None
    if own.energy is not None:
        joint, alone = own.energy
        rows = [("joint draws", f"{joint:.4g}"), ("the same, points independent", f"{alone:.4g}")]
        table = ReportTable("Energy score, units of y", ("", "value"), rows, "energy")
        figures = {"energy": joint, "energy_of_independent_points": alone}
        return Section("stated", figures=figures, tables=[table])
    n = len(own.transforms)
    cells = [
        (
            f"{chance:g}", f"{per_cent(share)} ± {per_cent(np.sqrt(chance * (1 - chance) / n))}",
            f"{loss:.4g}",
        )
        for chance, (share, loss) in own.below.items()
    ]  # fmt: skip
    columns = ("chance", "share of targets at most it ± chance", "pinball loss, units of y")
    table = ReportTable("Quantiles", columns, cells, "quantiles")
    shares: dict[str, Any] = {
        f"{chance:g}": {"share": share, "pinball": loss}
        for chance, (share, loss) in own.below.items()
    }
    return Section("stated", figures=shares, tables=[table])


def register_stated() -> None:
    """Register the section for audits."""
    register_section("stated", stated, "audit", before="scores")


@dataclass(frozen=True)
class AuditReport(PosteriorReport):
    """A `PosteriorReport`, its figures as attributes, with what the data say of the model.

    Attributes
    ----------
    title : str
        Heading of the page.
    n_train : int
        Number of training rows; zero where none are given.
    joint : bool
        Whether divergences are those of the joint laws; otherwise they are means of those of the
        single points, and there is no joint NLPD.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import audit
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> report = audit((np.sin(X[1::2, 0]), np.full(30, 0.1)), X[::2], y[::2], X[1::2], y[1::2])
    >>> [one.name for one in report.baselines]
    ['mean', 'nearest', 'linear', 'plain process']
    >>> report.n_train, report.joint, report.reference is None
    (30, False, True)
    """

    report_kinds: ClassVar[tuple[str, ...]] = ("comparison", "audit")
    beside_title: ClassVar[str] = "Beside the exact process"
    title: str = "Audit of a posterior"
    n_train: int = 0
    joint: bool = True

    def to_dict(self) -> dict[str, Any]:
        """Return the figures, baselines and calibration as plain Python values."""
        return super().to_dict() | {
            "title": self.title,
            "n_train": self.n_train,
            "joint": self.joint,
            "calibration": None if self.calibration is None else asdict(self.calibration),
            "baselines": [asdict(one) for one in self.baselines],
        }

    def lead(self) -> list[str]:
        """Numbers of rows, the kind of the laws, and the reference."""
        kind = "joint laws" if self.joint else "laws of single points"
        known = f"{self.n_train} training rows" if self.n_train else "No training rows"
        return [
            f"{known}, {self.figures.n_test} test points; {kind}.",
            self._reference(),
        ]

    def _reference(self) -> str:
        """What the reference is, and how its law was computed."""
        if self.reference is None:
            return "Reference: none."
        return f"Reference: {self.reference}, {self.accuracy.how}."


register_stated()


# Most test points that are judged where there is no exact process, whose joint law is dense.
MAX_ALONE = 5000
# Errors of so many standard deviations of the training targets are of other units.
FAR_OFF = 2.0


def audit(
    predict: Any,
    X_train: Any,
    y_train: ArrayLike | None,
    X_test: Any,
    y_test: ArrayLike,
    *,
    kernel: str | Spectrum | KernelFunction | Any = None,
    lengthscale: ArrayLike | None = None,
    outputscale: float | None = None,
    noise: float | None = None,
    mean: float | None = None,
    latent: bool = False,
    method: str = "auto",
    options: StochasticOptions | None = None,
    leave_out_overlap: bool = False,
    title: str = "Audit of a posterior",
    progress: bool | None = None,
    metadata: Any = None,
) -> AuditReport | LikelihoodReport:
    """Audit a posterior of any origin against the exact process of its kernel, and against data.

    Where a joint covariance is known the divergence is that of the joint laws of observations at
    the test points, otherwise the mean of those of the single points, and the report says so.

    Parameters
    ----------
    predict
        A fitted model: gpytorch's with its likelihood, or a pair of both, exact or variational;
        scikit-learn's `GaussianProcessRegressor`; a Gaussian one of this package. Or a function of
        `X_test`, or what it would return: means and standard deviations, both (p,), means and
        covariance (p, p), or draws (n_samples, p). A mixture, quantiles, intervals and frozen
        distributions of `scipy.stats` are judged as such; docs/audit.md has their forms. All are of
        observations, noise included. Or a fitted classifier, whose chances and function are audited
        (`coupledgp/diagnostics/foreign/table.py` lists them), or its chances alone, a mapping
        with `chances` (p, K) and `classes` (K,).
    X_train, y_train
        Rows (n, d) and targets (n,) that the posterior was made from. None for both: they are not
        at hand. Then there is no exact process, and simple rivals predict each tenth of the test
        rows from the others. So it is for classifiers, too.
    X_test, y_test
        Rows (p, d) and targets (p,). Without training rows `X_test` may be None beside predictions:
        the mean of the targets is the only rival then.
    kernel
        None: that of the model; where there is none that can be read, the report has no exact
        process. A name as `ExactGPRegressor` takes it, with `lengthscale`, one or
        (d,), `outputscale` and `noise`; a function of rows (n, d) and (p, d) with `noise`; or a
        fitted model that states one, whose kernel and hyperparameters are taken. Variances are in
        units of y squared, noise apart from the kernel.
    mean
        Constant mean of y; None: the mean of `y_train`. That of a model or an estimator is its own.
    latent
        What `predict` states is the law of f, to which the noise is added.
    method, options
        How the exact law is computed, as in `compare`: by dense algebra up to 5000 training rows,
        by iterative solves with bounds for more. Of more than `options.n_columns` test points, or
        of more than 5000 without an exact law and options, a random subset is judged.
    leave_out_overlap
        Leave out test rows that are training rows, as in `compare`.
    title
        Heading of the page.
    progress
        Show progress on stderr; None does so on a terminal.
    metadata
        Columns (p,) of the test rows that the model does not see, along which residuals are looked
        at, as in `compare`.

    Returns
    -------
    AuditReport, ClassReport or LikelihoodReport
        The page, JSON and figures of `compare`; beside them baselines and calibration.

    Raises
    ------
    InvalidInputError
        An argument is invalid, or needs training rows that are not given.
    NumericalError
        A covariance is not positive definite, or the solver does not reach its tolerance.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import audit
    >>> X = np.linspace(0, 6, 60)[:, None]
    >>> y = np.sin(X[:, 0]) + 0.1 * np.random.default_rng(0).normal(size=60)
    >>> mean, std = np.sin(X[1::2, 0]), np.full(30, 0.1)  # what somebody's model predicts
    >>> report = audit((mean, std), X[::2], y[::2], X[1::2], y[1::2])
    >>> report.verdicts[0].question, report.verdicts[0].colour
    ('Is the model good?', 'green')
    >>> bool(np.isclose(report.rmse**2, np.mean((y[1::2] - mean) ** 2)))
    True
    """
    check_choice(method, ["auto", "dense", "stochastic"], "method")
    if is_observed(predict) or is_classifier(predict):
        given = {
            "kernel": kernel, "lengthscale": lengthscale, "outputscale": outputscale,
            "noise": noise, "mean": mean, "latent": latent or None,
            "metadata": metadata,
        }  # fmt: skip
        for name in (name for name, value in given.items() if value is not None):
            raise InvalidInputError(f"{name}: expected none for a model under a likelihood")
        if is_observed(predict):
            return likelihood_report(
                predict, X_test, y_test, sites=sites_of(method), options=options,
                leave_out_overlap=leave_out_overlap, title=title, progress=progress,
            )  # fmt: skip
        _check_both(X_train, y_train, leave_out_overlap)
        return audit_classifier(
            predict, X_train, y_train, X_test, y_test, options=options,
            leave_out_overlap=leave_out_overlap, title=title, progress=progress,
        )  # fmt: skip
    chosen = StochasticOptions() if options is None else options
    _check_both(X_train, y_train, leave_out_overlap)
    train: ForeignTable | None = None
    if X_train is None:
        test = rows_alone(X_test, y_test)
    else:
        train, test = tables(X_train, y_train, X_test, y_test)
    hyper = {"lengthscale": lengthscale, "outputscale": outputscale, "noise": noise, "mean": mean}
    stated, reason = _stated(predict, kernel, hyper, train, latent)
    overlap, rows = None, np.arange(len(test.y))
    if train is not None:
        overlap, rows = _rows(train, test, leave_out_overlap)
    limit = MAX_ALONE if stated is None and options is None else chosen.n_columns
    judged = rows[some_rows(rows.size, limit, chosen.seed)]
    law, points = law_at_rows(predict, test, judged), test.take(judged)
    columns = kept_columns(with_row_order(metadata, len(test.y)), judged)
    law = law.with_noise(_noise(stated, noise)) if latent else law
    with reporter("audit", progress):
        if stated is None or train is None:
            found = beside_data(law, train, points, columns, is_model(predict))
        else:
            way = Way(method, chosen)
            found = beside_exact(law, stated, train, points, way, columns, is_model(predict))
    remarks = list(found.remarks) + ([reason] if reason else [])
    known = test if train is None else train
    if found.rmse is not None and found.rmse > FAR_OFF * np.std(known.y):
        which = "test" if train is None else "training"
        remarks.append(
            f"Predictions are off by {found.rmse:.3g}, where {which} targets have a standard "
            f"deviation of {np.std(known.y):.3g}: inputs and targets have to be in the units in "
            "which the model was fitted."
        )
    if judged.size < rows.size:
        remarks.append(f"Measured at {judged.size} of {rows.size} test points, drawn at random.")
    assert found.evidence is not None
    evidence = replace(found.evidence, is_own=process_of(predict) is not None)
    inducing = inducing_points_of(predict)
    if inducing is not None and stated is not None and train is not None:
        losses = -found.predictions.log_density[:, 0]
        evidence = replace(evidence, refits=refits(inducing, stated, train, points, losses))
    found = replace(found, model=_name(predict), remarks=tuple(remarks), gather=evidence)
    audited = AuditReport(
        **{one.name: getattr(found, one.name) for one in fields(found)},
        title=title,
        n_train=0 if train is None else len(train.y),
        joint=law.cov is not None,
    ).with_target(y_test)
    if overlap is None or train is None:
        return audited
    return audited.with_overlap(overlap)


def _check_both(X: Any, y: Any, leave_out_overlap: bool) -> None:
    """Refuse training rows without targets, and without either what needs them."""
    if (X is None) != (y is None):
        raise InvalidInputError("X_train, y_train: expected both or None for both, got one")
    if leave_out_overlap and X is None:
        raise InvalidInputError("leave_out_overlap: expected False without training rows, got True")


def _stated(
    predict: Any, kernel: Any, hyper: dict[str, Any], train: ForeignTable | None, latent: bool
) -> tuple[StatedKernel | None, str]:
    """The kernel as it is stated, or that of the model, or None and the reason."""
    if kernel is None:
        allowed = {"noise"} if latent else set()
        given = [name for name, value in hyper.items() if value is not None]
        if extra := [name for name in given if name not in allowed]:
            raise InvalidInputError(f"{', '.join(extra)}: expected a kernel beside it, got None")
        if train is None:
            return None, ALONE
        if not is_model(predict):
            return None, "No kernel is stated, so that there is no exact process beside it."
        try:
            return kernel_of_model(predict, train.X.shape[1]), ""
        except InvalidInputError as error:
            return None, f"There is no exact process beside it ({error})."
    if train is None:
        raise InvalidInputError(
            "kernel: expected None without training rows, from which its exact process is made"
        )
    return _as_stated(kernel, hyper, train), ""


def _as_stated(kernel: Any, hyper: dict[str, Any], train: ForeignTable) -> StatedKernel:
    """The kernel that the arguments state."""
    if is_model(kernel):
        if given := [name for name, value in hyper.items() if value is not None]:
            raise InvalidInputError(
                f"{', '.join(given)}: expected none beside a fitted model, which has its own"
            )
        return kernel_of_model(kernel, train.X.shape[1])
    mean = float(train.y.mean()) if hyper["mean"] is None else float(hyper["mean"])
    if not np.isfinite(mean):
        raise InvalidInputError(f"mean: expected a finite number, got {mean}")
    needed = ["noise"] if _is_function(kernel) else ["lengthscale", "outputscale", "noise"]
    if missing := [name for name in needed if hyper[name] is None]:
        raise InvalidInputError(
            f"{', '.join(missing)}: expected beside kernel={kernel!r}; or give a fitted model of "
            "this package as the kernel, such as ExactGPRegressor().fit(X, y)"
        )
    if _is_function(kernel):
        name = getattr(kernel, "__name__", type(kernel).__name__)
        return StatedKernel.function(kernel, hyper["noise"], mean, name)
    return StatedKernel.stationary(
        kernel, hyper["lengthscale"], hyper["outputscale"], hyper["noise"], mean, train.X.shape[1]
    )


def _is_function(kernel: Any) -> bool:
    return callable(kernel) and not isinstance(kernel, Spectrum)


def _noise(stated: StatedKernel | None, noise: float | None) -> float:
    """Noise variance that makes a law of f one of observations."""
    if stated is not None:
        return stated.noise
    if noise is None:
        raise InvalidInputError("noise: expected beside latent=True, no kernel states one")
    return check_positive(noise, "noise")


def _rows(train: ForeignTable, test: ForeignTable, leave_out: bool) -> tuple[Overlap, IntArray]:
    """Overlap of the tables, and the numbers of the test rows, without the overlap on request."""
    digests = RowDigests.of(train.X, train.y[:, None])
    known, y = train.y[:, None], test.y[:, None]
    overlap, same = with_near(*counted(digests, test.X, y), train.X, known, test.X, y)
    if not (leave_out and overlap.n_rows):
        return overlap, np.arange(len(test.y))
    kept = np.flatnonzero(~same)
    if not kept.size:
        raise InvalidInputError(
            f"X_test: all {len(same)} test rows are training rows, none is left"
        )
    return replace(overlap, left_out=True), kept


def _name(predict: Any) -> str:
    """Name of what was audited."""
    if not (is_model(predict) or callable(predict)):
        return "predictions"
    if hasattr(predict, "__name__"):
        return f"function {predict.__name__}"
    return model_name(predict)
