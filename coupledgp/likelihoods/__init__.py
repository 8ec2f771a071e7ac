"""The law of observations given the function, which every process takes as an object."""

from coupledgp.likelihoods.base import Likelihood as Likelihood
from coupledgp.likelihoods.counts import Bernoulli as Bernoulli
from coupledgp.likelihoods.counts import NegativeBinomial as NegativeBinomial
from coupledgp.likelihoods.counts import Poisson as Poisson
from coupledgp.likelihoods.counts import Probit as Probit
from coupledgp.likelihoods.gaussian import Gaussian as Gaussian
from coupledgp.likelihoods.gaussian import StudentT as StudentT
from coupledgp.likelihoods.registry import available_likelihoods as available_likelihoods
from coupledgp.likelihoods.registry import register_likelihood as register_likelihood
