"""Predictive distributions of observations; see `coupledgp.diagnostics.predictions.Law`."""

from coupledgp.diagnostics.laws.draws import Draws as Draws
from coupledgp.diagnostics.laws.mixtures import Mixture as Mixture
from coupledgp.diagnostics.laws.mixtures import Observed as Observed
from coupledgp.diagnostics.laws.mixtures import OfProcess as OfProcess
from coupledgp.diagnostics.laws.normal import Mapped as Mapped
from coupledgp.diagnostics.laws.normal import Normal as Normal
from coupledgp.diagnostics.laws.quantiles import Quantiles as Quantiles
from coupledgp.diagnostics.laws.stated import Chances as Chances
from coupledgp.diagnostics.laws.stated import Distribution as Distribution
from coupledgp.diagnostics.laws.stated import law_of_prediction as law_of_prediction
