"""Errors of kernel estimates and of their posteriors before a model is fitted."""

from coupledgp.theory.closed_forms import distance_mse as distance_mse
from coupledgp.theory.closed_forms import expected_mse as expected_mse
from coupledgp.theory.closed_forms import has_closed_form as has_closed_form
from coupledgp.theory.closed_forms import norms_floor as norms_floor
from coupledgp.theory.posterior import ExpectedChange as ExpectedChange
from coupledgp.theory.posterior import ExpectedError as ExpectedError
from coupledgp.theory.posterior import PosteriorErrors as PosteriorErrors
from coupledgp.theory.posterior import expected_changes as expected_changes
from coupledgp.theory.posterior import posterior_errors as posterior_errors
from coupledgp.theory.simulation import SimulatedError as SimulatedError
from coupledgp.theory.simulation import simulated_distance_mse as simulated_distance_mse
from coupledgp.theory.simulation import simulated_mse as simulated_mse
