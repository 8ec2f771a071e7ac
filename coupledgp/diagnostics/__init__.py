"""Posterior diagnostics: distance from the exact posterior, and quality of the predictions."""

from coupledgp.diagnostics.auditing import AuditReport as AuditReport
from coupledgp.diagnostics.auditing import audit as audit
from coupledgp.diagnostics.compare import compare as compare
from coupledgp.diagnostics.left_out.report import CrossValidationReport as CrossValidationReport
from coupledgp.diagnostics.left_out.validating import cross_validate as cross_validate
from coupledgp.diagnostics.likelihoods.latent_kl import LatentKL as LatentKL
from coupledgp.diagnostics.likelihoods.latent_kl import latent_kl as latent_kl
from coupledgp.diagnostics.likelihoods.report import ClassReport as ClassReport
from coupledgp.diagnostics.likelihoods.report import LikelihoodReport as LikelihoodReport
from coupledgp.diagnostics.misfit import residual_correlation as residual_correlation
from coupledgp.diagnostics.probes import StochasticOptions as StochasticOptions
from coupledgp.diagnostics.residuals.checks import ResidualCheck as ResidualCheck
from coupledgp.diagnostics.residuals.checks import (
    register_residual_check as register_residual_check,
)
from coupledgp.diagnostics.residuals.checks import (
    unregister_residual_check as unregister_residual_check,
)
from coupledgp.diagnostics.residuals.findings import Finding as Finding
from coupledgp.diagnostics.residuals.findings import Findings as Findings
from coupledgp.diagnostics.rivals.contest import BesideBaseline as BesideBaseline
from coupledgp.diagnostics.rivals.observations import BaselinePrediction as BaselinePrediction
from coupledgp.diagnostics.rivals.observations import Rivals as Rivals
from coupledgp.diagnostics.rivals.of_process import left_out_rivals as left_out_rivals
from coupledgp.diagnostics.rivals.of_process import rivals_of as rivals_of
from coupledgp.diagnostics.rivals.places import baseline_predictions as baseline_predictions
from coupledgp.diagnostics.rivals.places import (
    leave_one_out_baselines as leave_one_out_baselines,
)
from coupledgp.diagnostics.scoring.divergences import gaussian_kl as gaussian_kl
from coupledgp.diagnostics.scoring.figures import Accuracy as Accuracy
from coupledgp.diagnostics.scoring.figures import Figures as Figures
from coupledgp.diagnostics.scoring.figures import Predictions as Predictions
from coupledgp.diagnostics.scoring.score_table import JointScore as JointScore
from coupledgp.diagnostics.scoring.score_table import MarginalScore as MarginalScore
from coupledgp.diagnostics.scoring.score_table import PointScore as PointScore
from coupledgp.diagnostics.scoring.score_table import register_score as register_score
from coupledgp.diagnostics.scoring.score_table import unregister_score as unregister_score
from coupledgp.diagnostics.scoring.scores import coverage as coverage
from coupledgp.diagnostics.scoring.scores import crps as crps
from coupledgp.diagnostics.scoring.scores import interval_width as interval_width
from coupledgp.diagnostics.scoring.scores import kernel_error as kernel_error
from coupledgp.diagnostics.scoring.scores import mae as mae
from coupledgp.diagnostics.scoring.scores import nlpd as nlpd
from coupledgp.diagnostics.scoring.scores import nlpd_joint as nlpd_joint
from coupledgp.diagnostics.scoring.scores import paired_difference as paired_difference
from coupledgp.diagnostics.scoring.scores import pit_histogram as pit_histogram
from coupledgp.diagnostics.scoring.scores import rmse as rmse
from coupledgp.diagnostics.scoring.scores import sharpness as sharpness
from coupledgp.diagnostics.sections.posterior import PosteriorReport as PosteriorReport
from coupledgp.diagnostics.sections.section import ReportTable as ReportTable
from coupledgp.diagnostics.sections.section import Section as Section
from coupledgp.diagnostics.sections.section import register_section as register_section
from coupledgp.diagnostics.sections.section import unregister_section as unregister_section
from coupledgp.diagnostics.space_time.evaluation import (
    SpaceTimeEvaluation as SpaceTimeEvaluation,
)
from coupledgp.diagnostics.space_time.evaluation import (
    evaluate_space_time as evaluate_space_time,
)
from coupledgp.diagnostics.space_time.report import SpaceTimeReport as SpaceTimeReport
from coupledgp.diagnostics.space_time.reporting import space_time_report as space_time_report
from coupledgp.diagnostics.space_time.rivals import SPACE_TIME_RIVALS as SPACE_TIME_RIVALS
from coupledgp.diagnostics.space_time.sensor_table import SensorTable as SensorTable
from coupledgp.diagnostics.space_time.sensors_out import (
    leave_one_sensor_out as leave_one_sensor_out,
)
from coupledgp.diagnostics.space_time.splits import SensorReadings as SensorReadings
from coupledgp.diagnostics.space_time.splits import SpaceTimeSplit as SpaceTimeSplit
from coupledgp.diagnostics.space_time.splits import SplitPlan as SplitPlan
from coupledgp.diagnostics.verdicts.evidence import Evidence as Evidence
from coupledgp.diagnostics.verdicts.neighbour_residuals import (
    ResidualCorrelation as ResidualCorrelation,
)
from coupledgp.diagnostics.verdicts.verdict import Advice as Advice
from coupledgp.diagnostics.verdicts.verdict import Verdict as Verdict
