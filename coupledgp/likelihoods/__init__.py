"""The law of observations given the function, which every process takes as an object."""

from coupledgp.likelihoods.base import Likelihood as Likelihood
from coupledgp.likelihoods.base import Site as Site
from coupledgp.likelihoods.bernoulli import Bernoulli as Bernoulli
from coupledgp.likelihoods.bernoulli import Probit as Probit
from coupledgp.likelihoods.counts import NegativeBinomial as NegativeBinomial
from coupledgp.likelihoods.counts import Poisson as Poisson
from coupledgp.likelihoods.gaussian import Gaussian as Gaussian
from coupledgp.likelihoods.registry import available_likelihoods as available_likelihoods
from coupledgp.likelihoods.registry import register_likelihood as register_likelihood
from coupledgp.likelihoods.squared_normal import SquaredNormal as SquaredNormal
from coupledgp.likelihoods.student_t import StudentT as StudentT
