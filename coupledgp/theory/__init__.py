"""Errors of kernel estimates and of their posteriors before a model is fitted."""

from coupledgp.theory.closed_forms import conformity as conformity
from coupledgp.theory.closed_forms import distance_mse as distance_mse
from coupledgp.theory.closed_forms import expected_mse as expected_mse
from coupledgp.theory.closed_forms import has_closed_form as has_closed_form
from coupledgp.theory.closed_forms import norms_floor as norms_floor
from coupledgp.theory.closed_forms import orthogonality_gap as orthogonality_gap
from coupledgp.theory.closed_forms import small_distance_coefficient as small_distance_coefficient
from coupledgp.theory.posterior import ExpectedChange as ExpectedChange
from coupledgp.theory.posterior import ExpectedError as ExpectedError
from coupledgp.theory.posterior import PosteriorErrors as PosteriorErrors
from coupledgp.theory.posterior import expected_changes as expected_changes
from coupledgp.theory.posterior import (
    orthogonal_pair_covariance as orthogonal_pair_covariance,
)
from coupledgp.theory.posterior import posterior_errors as posterior_errors
from coupledgp.theory.simulation import SimulatedError as SimulatedError
from coupledgp.theory.simulation import simulated_distance_mse as simulated_distance_mse
from coupledgp.theory.simulation import simulated_mse as simulated_mse
from coupledgp.theory.walk_posterior import WalkPosteriorErrors as WalkPosteriorErrors
from coupledgp.theory.walk_posterior import walk_posterior_errors as walk_posterior_errors
