"""Laplace's approximation: the sites at the mode of the posterior, and its log evidence.

With `psi(f) = log p(y | b + f) - 1/2 f' K^-1 f`, slopes g and precisions W of the sites at f,
Newton's step goes to `f' = (K^-1 + W)^-1 (W f + g)`, where `K^-1 f' = W f + g - W f'`, so that no
inverse of K is formed (Rasmussen and Williams 2006, section 3.4). The log evidence is

    log p(y | b + f) - 1/2 f' K^-1 f - 1/2 log |I + W^1/2 K W^1/2|     at the mode.

Steps are halved until psi rises: it is concave for log-concave likelihoods, and the direction is
one of ascent for all others, too, since their precisions are kept positive. Derivatives of the mode
use the curvatures themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from coupledgp.errors import NumericalError
from coupledgp.inference.sites.priors import SitePrior
from coupledgp.likelihoods.base import Likelihood

# Most Newton steps, and halvings of each.
MOST_STEPS, MOST_HALVINGS = 500, 50
# Least rise of psi over the one that the slope promises for a step to be taken (Armijo's rule).
LEAST_SHARE = 1e-4
# Rise that a Newton step promises, in nats over one plus |psi|, below which it is the last one.
TOLERANCE = 1e-14
# Least precision of a pseudo-observation over the greatest one.
LEAST_RATIO = 1e-8


@dataclass(frozen=True)
class LikelihoodSites:
    """Sites at the mode of the posterior of k outputs at n points.

    Attributes
    ----------
    mode : Tensor (k, n)
        f at the mode, without the offset.
    alpha : Tensor (k, n)
        `K^-1 f` there.
    targets : Tensor (k, n)
        Pseudo-observations, the offset included.
    precision : Tensor (k, n)
        Their precisions W, at least `LEAST_RATIO` of the greatest.
    evidence : Tensor (k,)
        Log evidence of each output, nats.
    n_steps : int
        Newton steps taken.
    """

    mode: Tensor
    alpha: Tensor
    targets: Tensor
    precision: Tensor
    evidence: Tensor
    n_steps: int


def laplace_sites(
    prior: SitePrior, likelihood: Likelihood, y: Tensor, offset: Tensor
) -> LikelihoodSites:
    """Find the mode of the posterior by damped Newton steps.

    Parameters
    ----------
    prior
        The prior of the function less its offset.
    likelihood
        Law of observations given the function.
    y
        Observations (k, n).
    offset
        Prior mean b (k,) of each output.

    Raises
    ------
    NumericalError
        The steps do not converge, or a matrix is not positive definite to working precision.
    """
    shift = offset[:, None]
    f, alpha = torch.zeros((2, *y.shape), dtype=torch.float64)
    with torch.no_grad():
        for step in range(MOST_STEPS):
            site = likelihood.site(y, shift + f)
            value, slope, precision = (
                part.detach() for part in (site.log_density, site.slope, site.precision)
            )
            psi = _psi(value, f, alpha)
            pushed = precision * f + slope
            further, _ = prior.conditioned(precision, pushed)
            to_f, to_alpha = further - f, pushed - precision * further - alpha
            promised = ((slope - alpha) * to_f).sum(1)
            if bool((promised <= TOLERANCE * (1 + psi.abs())).all()):
                return _finished(prior, likelihood, y, offset, f + to_f, step + 1)
            rate = _rate(likelihood, y, shift, (f, alpha), (to_f, to_alpha), psi, promised)
            f, alpha = f + rate[:, None] * to_f, alpha + rate[:, None] * to_alpha
            if not bool(rate.any()):
                return _finished(prior, likelihood, y, offset, f, step + 1)
    raise NumericalError(
        f"likelihood: {likelihood} has no mode after {MOST_STEPS} Newton steps, the last of which "
        f"promised {float(promised.max()):.1g} nats: check the units of targets and outputscale"
    )


def _psi(value: Tensor, f: Tensor, alpha: Tensor) -> Tensor:
    """Log density of observations and function (k,), up to a constant of the prior."""
    return value.sum(1) - 0.5 * (alpha * f).sum(1)


def _rate(
    likelihood: Likelihood,
    y: Tensor,
    shift: Tensor,
    start: tuple[Tensor, Tensor],
    step: tuple[Tensor, Tensor],
    psi: Tensor,
    promised: Tensor,
) -> Tensor:
    """Share (k,) of a step that is taken: halved until psi rises; zero where rounding hides it."""
    rate = torch.ones_like(psi)
    for _ in range(MOST_HALVINGS):
        f, alpha = (a + rate[:, None] * b for a, b in zip(start, step, strict=True))
        risen = _psi(likelihood.log_density(y, shift + f), f, alpha) - psi
        rounding = 1e-14 * (1 + psi.abs())
        short = ~(risen >= LEAST_SHARE * rate * promised - rounding)
        if not bool(short.any()):
            return rate
        rate = torch.where(short, 0.5 * rate, rate)
    return torch.where(short, 0.0, rate)


def _finished(
    prior: SitePrior, likelihood: Likelihood, y: Tensor, offset: Tensor, f: Tensor, n_steps: int
) -> LikelihoodSites:
    """The sites at a mode, after a last step that makes mode and sites consistent."""
    found = _at_mode(prior, likelihood, y, offset, f)
    evidence, mode, alpha, precision = (part.detach() for part in found)
    # The mode is the same for any precisions; those of pseudo-observations are of sizes that one
    # factorisation can hold.
    precision = torch.maximum(precision, LEAST_RATIO * precision.amax(1, keepdim=True))
    targets = offset[:, None] + mode + alpha / precision
    return LikelihoodSites(mode, alpha, targets, precision, evidence, n_steps)


def laplace_evidence(
    prior: SitePrior, likelihood: Likelihood, y: Tensor, offset: Tensor, mode: Tensor
) -> Tensor:
    """Log evidence (k,) as a function of the tensors of prior, likelihood and offset.

    The derivative of the mode is that of one Newton step from it, at which the step itself does not
    depend on where it starts: implicit differentiation without a further equation. Precisions at
    the mode depend on it by third derivatives of the log density.

    Parameters
    ----------
    prior, likelihood, y, offset
        See `laplace_sites`; tensors in them may require gradients.
    mode
        The mode (k, n) at these values.
    """
    return _at_mode(prior, likelihood, y, offset, mode)[0]


def _at_mode(
    prior: SitePrior, likelihood: Likelihood, y: Tensor, offset: Tensor, mode: Tensor
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Evidence (k,), and mode, `K^-1` times mode and precisions (k, n) after one Newton step."""
    shift = offset[:, None]
    start = likelihood.site(y, shift + mode)
    pushed = start.curvature * mode + start.slope
    f = prior.moved(start.curvature, pushed)
    alpha = pushed - start.curvature * f
    site = likelihood.site(y, shift + f)
    _, log_determinant = prior.conditioned(site.precision, pushed.detach())
    evidence = _psi(site.log_density, f, alpha) - 0.5 * log_determinant
    return evidence, f, alpha, site.precision
