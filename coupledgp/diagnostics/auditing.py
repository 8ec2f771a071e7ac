"""Audit of anybody's posterior: the exact process of the stated kernel, calibration, baselines."""

from __future__ import annotations

import time
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.diagnostics.audit_report import AuditReport
from coupledgp.diagnostics.calibration import Calibration
from coupledgp.diagnostics.compare import ReferenceLaw
from coupledgp.diagnostics.foreign.kernel import KernelFunction, StatedKernel
from coupledgp.diagnostics.foreign.law import ForeignLaw
from coupledgp.diagnostics.foreign.recognised import kernel_of_model, law_at
from coupledgp.diagnostics.laws import Law, law_of_process
from coupledgp.diagnostics.limits import DENSE_ROWS
from coupledgp.diagnostics.measures import kl_per_point, score_figures
from coupledgp.diagnostics.overlap import Overlap, counted, rows_at
from coupledgp.diagnostics.report import PosteriorReport
from coupledgp.diagnostics.result import Accuracy, Figures, Predictions
from coupledgp.diagnostics.score_errors import SolverErrors, solver_errors
from coupledgp.diagnostics.score_table import PREFIXES, SCORES, JointScore
from coupledgp.diagnostics.stochastic import StochasticOptions, solved_law
from coupledgp.diagnostics.subject import process_of
from coupledgp.diagnostics.table_baselines import BesideBaseline, table_baselines
from coupledgp.errors import InvalidInputError
from coupledgp.gp.exact import StationaryPrior
from coupledgp.gp.row_digests import RowDigests
from coupledgp.progress import Progress, reporter
from coupledgp.random import FloatArray
from coupledgp.spectra import Spectrum
from coupledgp.validation import check_choice


class Table(NamedTuple):
    """Rows (n, d) and targets (n,) as numbers, and the rows as they were given."""

    X: FloatArray
    y: FloatArray
    given: Any

    @classmethod
    def of(cls, X: Any, y: Any, name: str) -> Table:
        """A table whose numbers are checked; arrays, data frames and tensors of the CPU."""
        try:
            rows = np.asarray(X, dtype=np.float64)
            targets = np.asarray(y, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise InvalidInputError(f"X_{name}, y_{name}: expected numbers, {error}") from None
        targets = targets.reshape(-1) if targets.shape == (len(rows), 1) else targets
        if rows.ndim != 2 or not len(rows) or targets.shape != (len(rows),):
            raise InvalidInputError(
                f"X_{name}, y_{name}: expected shapes (n, d) and (n,), got {rows.shape} and "
                f"{targets.shape}"
            )
        if not (np.isfinite(rows).all() and np.isfinite(targets).all()):
            raise InvalidInputError(f"X_{name}, y_{name}: expected finite values, got NaN or inf")
        return cls(rows, targets, X)

    def take(self, rows: Any) -> Table:
        """Some of the rows, by their numbers."""
        return Table(self.X[rows], self.y[rows], rows_at(self.given, rows))


def audit(
    predict: Any,
    X_train: Any,
    y_train: ArrayLike,
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
) -> AuditReport:
    """Audit a posterior of any origin against the exact process of its kernel, and against data.

    Where a joint covariance is known the divergence is that of the joint laws of observations at
    the test points, otherwise the mean of those of the single points, and the report says so.

    Parameters
    ----------
    predict
        A fitted model: gpytorch's with its likelihood, or a pair of both, exact or variational;
        BoTorch's; scikit-learn's `GaussianProcessRegressor`; one with GPflow's `predict_y`;
        GPBoost's `GPModel`; a Gaussian one of this package. Or a function of `X_test`, or what it
        would return: means and standard deviations, both (p,), means and covariance (p, p), or
        draws (n_samples, p). All are of observations, noise included.
    X_train, y_train
        Rows (n, d) and targets (n,) that the posterior was made from.
    X_test, y_test
        Rows (p, d) and targets (p,).
    kernel
        None: that of the model. A name as `ExactGPRegressor` takes it, with `lengthscale`, one or
        (d,), `outputscale` and `noise`; a function of rows (n, d) and (p, d) with `noise`; or a
        fitted model of this package, whose kernel and hyperparameters are taken. Variances are in
        units of y squared, noise apart from the kernel.
    mean
        Constant mean of y; None: the mean of `y_train`. That of a model or an estimator is its own.
    latent
        What `predict` states is the law of f, to which the noise is added.
    method, options
        How the exact law is computed, as in `compare`: by dense algebra up to 5000 training rows,
        by iterative solves with bounds for more. Of more than `options.n_columns` test points a
        random subset is compared with the exact law.
    leave_out_overlap
        Leave out test rows that are training rows, as in `compare`.
    title
        Heading of the page.
    progress
        Show progress on stderr; None does so on a terminal.

    Returns
    -------
    AuditReport
        The page, JSON and figures of `compare`; beside them baselines and calibration.

    Raises
    ------
    InvalidInputError
        An argument is invalid, or no kernel is stated and the model's cannot be read.
    NumericalError
        A covariance is not positive definite, or the solver does not reach its tolerance.
    """
    check_choice(method, ["auto", "dense", "stochastic"], "method")
    options = StochasticOptions() if options is None else options
    train, test = Table.of(X_train, y_train, "train"), Table.of(X_test, y_test, "test")
    if test.X.shape[1] != train.X.shape[1]:
        raise InvalidInputError(
            f"X_test: expected {train.X.shape[1]} columns, got {test.X.shape[1]}"
        )
    hyper = {"lengthscale": lengthscale, "outputscale": outputscale, "noise": noise, "mean": mean}
    stated = _stated(predict, kernel, hyper, train)
    law = law_at(predict, test.X, test.given)
    law = law.with_noise(stated.noise) if latent else law
    overlap, law, test = _without_overlap(train, test, law, leave_out_overlap)
    with reporter("audit", progress) as report:
        found, calibration = _beside_exact(law, stated, train, test, method, options, report)
    found = replace(found, model=_name(predict))
    baselines = table_baselines(train.X, train.y, test.X)
    std = np.sqrt(law.variance)
    audited = AuditReport(
        **vars(found),
        title=title,
        n_train=len(train.y),
        joint=law.cov is not None,
        calibration=calibration,
        baselines=tuple(BesideBaseline.of(test.y, law.mean, std, one) for one in baselines),
    )
    return audited.with_overlap(overlap)


def _stated(predict: Any, kernel: Any, hyper: dict[str, Any], train: Table) -> StatedKernel:
    """The kernel as it is stated, or that of the model."""
    if kernel is None:
        if given := [name for name, value in hyper.items() if value is not None]:
            raise InvalidInputError(f"{', '.join(given)}: expected a kernel beside it, got None")
        return kernel_of_model(predict, train.X.shape[1])
    process = process_of(kernel)
    if process is not None:
        return kernel_of_model(kernel, train.X.shape[1])
    mean = float(train.y.mean()) if hyper["mean"] is None else float(hyper["mean"])
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


def _without_overlap(
    train: Table, test: Table, law: ForeignLaw, leave_out: bool
) -> tuple[Overlap, ForeignLaw, Table]:
    """Overlap of the tables, and law and test rows, without the overlap on request."""
    digests = RowDigests.of(train.X, train.y[:, None])
    overlap, rows = counted(digests, test.X, test.y[:, None])
    if not (leave_out and overlap.n_rows):
        return overlap, law, test
    kept = np.flatnonzero(~rows)
    if not kept.size:
        raise InvalidInputError(
            f"X_test: all {len(rows)} test rows are training rows, none is left"
        )
    return replace(overlap, left_out=True), law.take(kept), test.take(kept)


def _beside_exact(
    law: ForeignLaw,
    stated: StatedKernel,
    train: Table,
    test: Table,
    method: str,
    options: StochasticOptions,
    report: Progress,
) -> tuple[PosteriorReport, Calibration]:
    """Report on a law beside the exact one, and calibration, at all points or a random subset."""
    remarks = _remarks(law)
    if len(test.y) > options.n_columns:
        rng = np.random.default_rng(options.seed)
        chosen = np.sort(rng.choice(len(test.y), options.n_columns, replace=False))
        remarks.append(
            f"All but the baselines is measured at {len(chosen)} of {len(test.y)} test points, "
            "drawn at random."
        )
        law, test = law.take(chosen), test.take(chosen)
    exact = exact_law(stated, train, test.X, method, options, report)
    own, other = law.law, replace(exact.law, prior=None)
    # Where the model says nothing on how errors go together, the exact law does.
    correlation = correlation_of((other if law.cov is None else own).cov[..., 0])
    calibration = Calibration.of(test.y, law.mean, np.sqrt(law.variance), correlation)
    if law.cov is None:
        other = marginals(other)
    figures, accuracy = _figures(own, other, test.y[:, None], law.cov is not None)
    if exact.settings is not None:
        accuracy = replace(accuracy, method="stochastic", settings=exact.settings)
    predictions = Predictions(own.mean, own.std, other.mean, other.std, test.y[:, None])
    found = PosteriorReport(figures, predictions, "", exact.text, accuracy, remarks=tuple(remarks))
    return found, calibration


def correlation_of(cov: FloatArray) -> FloatArray:
    """Correlations (p, p) of a covariance (p, p)."""
    std = np.sqrt(np.diagonal(cov))
    correlation: FloatArray = cov / np.multiply.outer(std, std)
    return correlation


def _figures(own: Law, other: Law, y: FloatArray, joint: bool) -> tuple[Figures, Accuracy]:
    """Figures of a law beside the exact one, and their errors."""
    scores = score_figures(own, other, y)
    errors = SolverErrors()
    if other.cov_error is not None:
        errors = solver_errors(own, other, y)
    if not joint:
        joint_scores = (score for score in SCORES.values() if isinstance(score, JointScore))
        for name in (prefix + score.name for score in joint_scores for prefix in PREFIXES):
            del scores[name]
            errors.bounds.pop(name, None)
    figures = Figures(
        n_test=len(y),
        n_outputs=1,
        kl_per_point=kl_per_point(other, own),
        reverse_kl_per_point=kl_per_point(own, other),
        **scores,
    )
    return figures, Accuracy("dense", errors.bounds, unbounded=errors.unbounded)


def exact_law(
    stated: StatedKernel,
    train: Table,
    points: FloatArray,
    method: str,
    options: StochasticOptions,
    report: Progress,
) -> ReferenceLaw:
    """Law of the exact process at rows (p, d), by dense algebra or iterative solves."""
    text = f"exact GP of {stated.text}"
    large = len(train.y) > DENSE_ROWS and isinstance(stated.prior, StationaryPrior)
    if method == "dense" or (method == "auto" and not large):
        report("exact GP")
        process = stated.process(train.X, train.y)
        return ReferenceLaw(law_of_process(process, stated.inputs(points)), text, None, None)
    start = time.perf_counter()
    problem = stated.problem(train.X, train.y)
    law, steps = solved_law(problem, stated.inputs(points), options, report)
    seconds = time.perf_counter() - start
    settings = asdict(options) | {"reference_iterations": steps, "seconds": seconds}
    return ReferenceLaw(law, text, None, settings)


def marginals(law: Law) -> Law:
    """The laws of the single points as one of independent points, within bounds that hold.

    With `e e' <= r^2 E` every `e_i^2 <= r^2 E_ii`, so that `e e' <= p r^2 diag(E)`.
    """

    def diagonal(matrices: FloatArray) -> FloatArray:
        found = np.zeros_like(matrices)
        places = np.arange(len(matrices))
        found[places, places] = matrices[places, places]
        return found

    error = None if law.cov_error is None else diagonal(law.cov_error)
    radius = None if law.mean_error is None else law.mean_error * np.sqrt(len(law.mean))
    return Law(law.mean, diagonal(law.cov), None, law.noise, error, radius)


def _remarks(law: ForeignLaw) -> list[str]:
    """What a reader should know about the law."""
    remarks = []
    if law.cov is None:
        remarks.append(
            "Only the laws of single points are known: the KL is the mean of theirs, and says "
            "nothing on how errors of neighbours go together."
        )
    if law.n_samples is not None:
        remarks.append(
            f"The law is that of the moments of {law.n_samples} draws, which alone give a KL of "
            f"about {1 / law.n_samples:.1g} nats per point."
        )
    return remarks


def _name(predict: Any) -> str:
    """Name of what was audited."""
    if isinstance(predict, tuple | list | np.ndarray):
        parts = [type(part).__name__ for part in predict] if isinstance(predict, tuple) else []
        return f"predictions ({', '.join(parts)})" if parts else "predictions"
    if hasattr(predict, "__name__"):
        return f"function {predict.__name__}"
    return f"{type(predict).__module__.partition('.')[0]} {type(predict).__name__}"
