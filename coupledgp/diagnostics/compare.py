"""How far a posterior is from a reference posterior, and what each of them predicts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from coupledgp.diagnostics.divergences import gaussian_kl
from coupledgp.diagnostics.report import Figures, PosteriorReport, Predictions
from coupledgp.diagnostics.scores import LEVELS, coverage, kernel_error, nlpd, nlpd_joint, rmse
from coupledgp.errors import InvalidInputError
from coupledgp.random import FloatArray
from coupledgp.validation import check_memory

# Matrices of p x p float64 alive at once.
MATRICES_AT_ONCE = 8


@dataclass(frozen=True)
class _Law:
    """Joint predictive law of observations: mean (p, k) and covariance (p, p, k)."""

    mean: FloatArray
    cov: FloatArray

    @property
    def std(self) -> FloatArray:
        return np.sqrt(np.einsum("iik->ik", self.cov))


def compare(
    model: Any, X_test: Any, y_test: ArrayLike | None = None, reference: Any = None
) -> PosteriorReport:
    """Compare a fitted model's predictive law with a reference, by default its exact twin.

    Both laws speak of observations at the test points jointly, noise included. The figures are
    those of MATH section 7; with several outputs each is the mean over outputs.

    Parameters
    ----------
    model
        Fitted estimator with `predict(X, return_cov=True)`.
    X_test
        Test inputs (p, d), or whatever the estimator predicts at. Time O(p^3), memory O(p^2).
    y_test
        Targets (p,) or (p, k); without them no score of predictions is given.
    reference
        Fitted estimator to compare with. None: `model.exact_twin()`.

    Returns
    -------
    PosteriorReport

    Raises
    ------
    InvalidInputError
        `model` has no `exact_twin` and no reference is given, or shapes do not fit.
    NumericalError
        A predictive covariance is singular: it must include the noise.
    """
    if reference is None:
        if not hasattr(model, "exact_twin"):
            raise InvalidInputError(
                f"reference: {type(model).__name__} has no exact_twin(); give a fitted estimator"
            )
        reference = model.exact_twin()
    n_test = len(X_test)
    check_memory(
        MATRICES_AT_ONCE * 8 * n_test**2,
        f"X_test: {n_test} points compared jointly",
        "compare on a subset of the points",
    )
    law, exact = _law(model, X_test, "model"), _law(reference, X_test, "reference")
    if law.mean.shape != exact.mean.shape:
        raise InvalidInputError(
            f"reference: predicts shape {exact.mean.shape}, model predicts {law.mean.shape}"
        )
    y = None if y_test is None else _targets(y_test, law.mean.shape)
    figures = Figures(
        n_test=law.mean.shape[0],
        n_outputs=law.mean.shape[1],
        kl_per_point=_kl_per_point(exact, law),
        reverse_kl_per_point=_kl_per_point(law, exact),
        **_prior_figures(model, reference, X_test),
        **_score_figures(law, exact, y),
    )
    return PosteriorReport(
        figures, Predictions(law.mean, law.std, exact.mean, exact.std, y), repr(model),
        repr(reference),
    )  # fmt: skip


def _law(estimator: Any, X: Any, name: str) -> _Law:
    try:
        mean, cov = estimator.predict(X, return_cov=True)
    except TypeError as error:
        raise InvalidInputError(
            f"{name}: expected an estimator with predict(X, return_cov=True), "
            f"got {type(estimator).__name__} ({error})"
        ) from error
    mean, cov = np.asarray(mean, dtype=np.float64), np.asarray(cov, dtype=np.float64)
    p = mean.shape[0]
    if cov.shape[:2] != (p, p):
        raise InvalidInputError(
            f"{name}: expected a covariance of shape ({p}, {p}), got {cov.shape}"
        )
    return _Law(mean.reshape(p, -1), cov.reshape(p, p, -1))


def _targets(y_test: ArrayLike, shape: tuple[int, ...]) -> FloatArray:
    y = np.asarray(y_test, dtype=np.float64)
    if y.shape != shape and (y.ndim != 1 or (y.size, 1) != shape):
        raise InvalidInputError(f"y_test: expected shape {shape} or {shape[:1]}, got {y.shape}")
    if not np.isfinite(y).all():
        raise InvalidInputError("y_test: expected finite values, got NaN or inf")
    return y.reshape(shape)


def _kl_per_point(p: _Law, q: _Law) -> float:
    outputs = range(p.mean.shape[1])
    total = sum(
        gaussian_kl(p.mean[:, k], p.cov[..., k], q.mean[:, k], q.cov[..., k]) for k in outputs
    )
    return total / p.mean.size


def _prior_figures(model: Any, reference: Any, X: Any) -> dict[str, Any]:
    """KL between the priors of observations and the errors of the Gram matrix of f.

    Only for estimators that state their prior (`prior_covariance` and `noise_`).
    """
    if not all(hasattr(e, "prior_covariance") and hasattr(e, "noise_") for e in (model, reference)):
        return {"prior_kl_per_point": None, "kernel_rmse": None, "kernel_relative_error": None}
    approximate, exact = (_prior(e, X) for e in (model, reference))
    laws = []
    for estimator, gram in ((model, approximate), (reference, exact)):
        noise = np.eye(gram.shape[0])[:, :, None] * np.atleast_1d(estimator.noise_)
        laws.append(_Law(np.zeros(gram.shape[1:]), gram + noise))
    errors = [kernel_error(approximate[..., k], exact[..., k]) for k in range(exact.shape[2])]
    return {
        "prior_kl_per_point": _kl_per_point(laws[1], laws[0]),
        "kernel_rmse": float(np.mean([error[0] for error in errors])),
        "kernel_relative_error": float(np.mean([error[1] for error in errors])),
    }


def _prior(estimator: Any, X: Any) -> FloatArray:
    gram = np.asarray(estimator.prior_covariance(X), dtype=np.float64)
    return gram.reshape(gram.shape[0], gram.shape[1], -1)


def _score_figures(law: _Law, exact: _Law, y: FloatArray | None) -> dict[str, Any]:
    if y is None:
        return {}
    outputs = range(y.shape[1])

    def joint(law: _Law) -> float:
        values = [nlpd_joint(y[:, k], law.mean[:, k], law.cov[..., k]) for k in outputs]
        return float(np.mean(values))

    return {
        "rmse": rmse(y, law.mean),
        "reference_rmse": rmse(y, exact.mean),
        "nlpd": nlpd(y, law.mean, law.std),
        "reference_nlpd": nlpd(y, exact.mean, exact.std),
        "nlpd_joint": joint(law),
        "reference_nlpd_joint": joint(exact),
        "coverage": coverage(y, law.mean, law.std, LEVELS),
        "reference_coverage": coverage(y, exact.mean, exact.std, LEVELS),
    }
