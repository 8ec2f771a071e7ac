"""Posterior diagnostics: how far from the exact posterior, and what does it predict."""

from coupledgp.diagnostics.compare import compare
from coupledgp.diagnostics.divergences import gaussian_kl
from coupledgp.diagnostics.report import PosteriorReport
from coupledgp.diagnostics.result import Accuracy, Figures, Predictions
from coupledgp.diagnostics.scores import (
    coverage,
    crps,
    interval_width,
    kernel_error,
    mae,
    nlpd,
    nlpd_joint,
    paired_difference,
    pit_histogram,
    rmse,
    sharpness,
)
from coupledgp.diagnostics.stochastic import StochasticOptions

__all__ = [
    "Accuracy",
    "Figures",
    "PosteriorReport",
    "Predictions",
    "StochasticOptions",
    "compare",
    "coverage",
    "crps",
    "gaussian_kl",
    "interval_width",
    "kernel_error",
    "mae",
    "nlpd",
    "nlpd_joint",
    "paired_difference",
    "pit_histogram",
    "rmse",
    "sharpness",
]
