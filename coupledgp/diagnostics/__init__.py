"""Posterior diagnostics: how far from the exact posterior, and what does it predict."""

from coupledgp.diagnostics.compare import compare
from coupledgp.diagnostics.divergences import gaussian_kl
from coupledgp.diagnostics.report import Figures, PosteriorReport, Predictions
from coupledgp.diagnostics.scores import coverage, kernel_error, nlpd, nlpd_joint, rmse

__all__ = [
    "Figures",
    "PosteriorReport",
    "Predictions",
    "compare",
    "coverage",
    "gaussian_kl",
    "kernel_error",
    "nlpd",
    "nlpd_joint",
    "rmse",
]
