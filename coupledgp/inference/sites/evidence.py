"""The log evidence by sites as a function of hyperparameters, with its gradient."""

from __future__ import annotations

from coupledgp.ground.tensors import Tensor
from coupledgp.inference.sites.observed import Observed
from coupledgp.inference.sites.priors import DifferentiableSites
from coupledgp.inference.sites.rules import SiteRule, Variational, expected_log_density
from coupledgp.inference.sites.steps import HALF, LikelihoodSites

# Steps that are differentiated where the sites are not at the greatest bound.
UNROLLED = 24


def differentiable_evidence(
    prior: DifferentiableSites, rule: SiteRule, observed: Observed, sites: LikelihoodSites
) -> Tensor:
    """Log evidence (k,), or the bound, as a function of the tensors of prior and likelihood.

    Parameters
    ----------
    prior, observed
        Prior, observations and law, whose tensors may require gradients.
    rule, sites
        The rule, and its sites at these values.
    """
    if not isinstance(rule, Variational):
        return _of_mode(prior, observed, sites.mean)
    if sites.is_raised:
        return _unrolled(prior, rule, observed, sites)
    # Where the bound is stationary in the sites, its slope in the prior is that of the evidence
    # log N(z; 0, K + L^-1) of the pseudo-observations, and its slope in the likelihood that of
    # E_q log p.
    assert sites.variance is not None
    mean, log_determinant = prior.conditioned(sites.precision, sites.shift)
    moving = 0.5 * ((sites.shift * mean).sum(1) - log_determinant)
    moving = moving + expected_log_density(observed, sites.mean, sites.variance).sum(1)
    return sites.evidence + moving - moving.detach()


def _of_mode(prior: DifferentiableSites, observed: Observed, mode: Tensor) -> Tensor:
    """Laplace's evidence after one Newton step from the mode.

    At the mode the step does not depend on where it starts, so that its derivative is that of the
    mode: implicit differentiation without a further equation. Precisions at the mode depend on it
    by third derivatives of the log density.
    """
    likelihood, shift = observed.likelihood, observed.shift
    start = observed.counted(likelihood.site(observed.y, shift + mode))
    pushed = start.curvature * mode + start.slope
    f = prior.moved(start.curvature, pushed)
    alpha = pushed - start.curvature * f
    site = observed.counted(likelihood.site(observed.y, shift + f))
    precision, _ = observed.precisions(site)
    _, log_determinant = prior.conditioned(precision, pushed.detach())
    return site.log_density.sum(1) - 0.5 * (alpha * f).sum(1) - 0.5 * log_determinant


def _unrolled(
    prior: DifferentiableSites, rule: SiteRule, observed: Observed, sites: LikelihoodSites
) -> Tensor:
    """The bound after further steps from where they end, differentiated one by one."""
    precision, shift = sites.precision, sites.shift
    for _ in range(UNROLLED):
        mean, variance, _ = prior.posterior(precision, shift, True)
        site = rule.site(observed, mean, variance)
        target, _ = observed.precisions(site)
        precision = precision + HALF * (target - precision)
        shift = shift + HALF * (target * mean + site.slope - shift)
    mean, variance, log_determinant = prior.posterior(precision, shift, True)
    density = rule.site(observed, mean, variance).log_density.sum(1)
    cost = 0.5 * ((shift - precision * mean) * mean).sum(1)
    return density - cost + rule.gain(precision, variance, log_determinant)
