"""Steps by which sites are found: each goes from sites to moments of the function and to new sites.

With precisions L, shifts h = L z of the sites and the normal prior of covariance K, moments are

    m = (K^-1 + L)^-1 h ,     v = diag (K^-1 + L)^-1 ,     K^-1 m = h - L m ,

and the rule gives new precisions and shifts. A step of rate one with Laplace's rule is Newton's
(Rasmussen and Williams 2006, section 3.4), with the variational one that of the natural gradient
(Khan and Lin 2017). A shorter step goes the same share of the way in L and h, and is one of ascent
if it is short enough. Steps are halved until the objective does not fall, so that separable classes
converge. Where a step turns back by more than half of the one before it, the next one has the rate
of the secant: whole steps of variational sites may swing about the optimum. Where a law is not
log-concave, some variational precisions are raised, and steps do not end at the greatest bound:
they are of one half then, and go on until they move by little.
"""

from __future__ import annotations

from dataclasses import dataclass

from coupledgp.errors import NumericalError
from coupledgp.ground.tensors import Tensor, torch
from coupledgp.inference.sites.priors import SitePrior
from coupledgp.inference.sites.rules import Observed, SiteRule
from coupledgp.likelihoods.base import Site

# Most steps, and halvings of each.
MOST_STEPS, MOST_HALVINGS = 200, 40
# Share of the first precisions that stands for none.
START = 1e-3
# Half the square of a step, in the metric of the posterior, in nats over one plus the objective's
# size, below which it is the last one; and the square of one that is accepted where rounding hides
# whether the objective rises.
TOLERANCE, ACCEPTED = 1e-14, 1e-4
# The same for the last of all steps: 5e-5 standard deviations.
LAST = 1e-9
# Rate of steps that do not climb.
HALF = 0.5
# Share of a step by which the next one turns back, beyond which it is shortened.
TURNED = 0.5
REMEDY = "check the units of targets, exposures and outputscale"


@dataclass(frozen=True, eq=False)
class LikelihoodSites:
    """Sites of k outputs at n points, and the posterior that follows from them.

    Attributes
    ----------
    mean : Tensor (k, n)
        Mean of f less its prior mean; the mode for Laplace's rule.
    variance : Tensor (k, n) or None
        Variance of f, where the rule needs it.
    precision : Tensor (k, n)
        Precisions L of the pseudo-observations.
    shift : Tensor (k, n)
        Precisions times pseudo-observations, h.
    evidence : Tensor (k,)
        Log evidence of each output, or the bound, nats.
    n_steps : int
        Steps taken.
    is_raised : bool
        Whether some precisions are larger than the rule's.
    """

    mean: Tensor
    variance: Tensor | None
    precision: Tensor
    shift: Tensor
    evidence: Tensor
    n_steps: int
    is_raised: bool

    @property
    def targets(self) -> Tensor:
        """Pseudo-observations z (k, n) of f less its prior mean."""
        return self.shift / self.precision

    @property
    def alpha(self) -> Tensor:
        """`K^-1 m` (k, n)."""
        return self.shift - self.precision * self.mean


@dataclass(frozen=True, eq=False)
class _Place:
    """Sites, moments given them, and what the rule says there."""

    precision: Tensor
    shift: Tensor
    mean: Tensor
    variance: Tensor | None
    log_determinant: Tensor
    site: Site
    value: Tensor

    @classmethod
    def at(
        cls, prior: SitePrior, rule: SiteRule, observed: Observed, precision: Tensor, shift: Tensor
    ) -> _Place:
        mean, variance, log_determinant = prior.posterior(precision, shift, rule.is_averaged)
        site = Site(*(part.detach() for part in rule.site(observed, mean, variance)))
        cost = 0.5 * ((shift - precision * mean) * mean).sum(1)
        value = site.log_density.sum(1) - cost + rule.gain(precision, variance, log_determinant)
        return cls(precision, shift, mean, variance, log_determinant, site, value)

    def proposed(self, observed: Observed) -> tuple[Tensor, Tensor, Tensor]:
        """Precisions and shifts of the rule at the moments, and which precisions are raised."""
        precision, raised = observed.precisions(self.site)
        return precision, precision * self.mean + self.site.slope, raised

    def way(self, precision: Tensor) -> tuple[Tensor, Tensor]:
        """The whole step to precisions of the rule: residuals (k, n), and changes (k, n) of L.

        Residuals are slopes less `K^-1 m`, which are zero at the optimum.
        """
        alpha = self.shift - self.precision * self.mean
        return self.site.slope - alpha, precision - self.precision

    def product(self, one: tuple[Tensor, Tensor], other: tuple[Tensor, Tensor]) -> Tensor:
        """Inner products (k,) of steps, by variances of f at the observations."""
        spread = 1 / self.precision if self.variance is None else self.variance
        first, second = (a * b for a, b in zip(one, other, strict=True))
        return (first * spread + 0.5 * second * spread.square()).sum(1)

    def distance(self, other: _Place) -> Tensor:
        """Half the square (k,) of the way to another place, in the metric of the posterior."""
        by = other.mean - self.mean
        new, old = (place.shift - place.precision * place.mean for place in (other, self))
        found = ((new - old) * by).sum(1) + (other.precision * by.square()).sum(1)
        if self.variance is not None:
            change = (other.precision - self.precision) * self.variance
            found = found + 0.5 * change.square().sum(1)
        return 0.5 * found.abs()


def find_sites(
    prior: SitePrior, rule: SiteRule, observed: Observed, start: LikelihoodSites | None = None
) -> LikelihoodSites:
    """Find the sites of a rule.

    Parameters
    ----------
    prior
        The prior of the function less its mean.
    rule
        How sites follow from moments.
    observed
        Observations and their law.
    start
        Sites where the steps start; None: nearly none.

    Raises
    ------
    NumericalError
        The steps do not converge, or a matrix is not positive definite to working precision.
    """
    with torch.no_grad():
        if start is None:
            nothing = torch.zeros_like(observed.y)
            site = observed.counted(observed.likelihood.site(observed.y, observed.shift + nothing))
            first, _ = observed.precisions(Site(*(part.detach() for part in site)))
            precision, shift = START * first, nothing
        else:
            precision, shift = start.precision, start.shift
        now = _Place.at(prior, rule, observed, precision, shift)
        rate, most, last = torch.ones_like(now.value), torch.tensor(HALF), torch.inf
        before: tuple[Tensor, Tensor] | None = None
        for step in range(1, MOST_STEPS + 1):
            precision, shift, raised = now.proposed(observed)
            climbs = not (rule.is_averaged and bool(raised.any()))
            whole = now.way(precision)
            rate = _next_rate(now, whole, before, rate) if climbs else rate.minimum(most)
            before = whole
            new, rate = _taken(prior, rule, observed, now, (precision, shift), rate, climbs)
            way = now.distance(new) / rate.square()
            size = 1 + new.value.abs()
            hidden = (new.value - now.value).abs() <= prior.value_error * size
            settled = (way <= TOLERANCE * size) | (hidden & (way <= ACCEPTED))
            # Steps that do not come nearer to each other are too long.
            most = 0.5 * most if float(way.max()) > last else most
            now, last = new, float(way.max())
            done = settled if step < MOST_STEPS else settled | (way <= LAST * size)
            if bool(done.all()):
                return _finished(prior, rule, observed, now, step)
    raise NumericalError(
        f"likelihood: sites of {observed.likelihood} do not converge in {MOST_STEPS} steps, the "
        f"last of which moved by {float(way.max().sqrt()):.1g} standard deviations: {REMEDY}"
    )


def _next_rate(
    now: _Place, way: tuple[Tensor, Tensor], before: tuple[Tensor, Tensor] | None, rate: Tensor
) -> Tensor:
    """Rates (k,) of the next steps: twice the last, at most one, but less where a step turns back.

    With d the whole step and d' the one before, of which the share `rate` was taken,
    `r = <d, d'> / <d', d'>` would be zero at the rate `rate / (1 - r)` if steps were linear.
    """
    longer = (2 * rate).clamp_max(1.0)
    if before is None:
        return longer
    turned = now.product(way, before) / now.product(before, before)
    return torch.where(turned < -TURNED, rate / (1 - turned), longer)


def _taken(
    prior: SitePrior,
    rule: SiteRule,
    observed: Observed,
    now: _Place,
    proposed: tuple[Tensor, Tensor],
    rate: Tensor,
    climbs: bool,
) -> tuple[_Place, Tensor]:
    """The place after a step, and its rates (k,): halved until the objective does not fall."""
    nearest = torch.inf
    for _ in range(MOST_HALVINGS):
        share = rate[:, None]
        precision, shift = (
            old + share * (new - old)
            for old, new in zip((now.precision, now.shift), proposed, strict=True)
        )
        new = _Place.at(prior, rule, observed, precision, shift)
        fallen = ~(new.value >= now.value - prior.value_error * (1 + now.value.abs()))
        short = ~new.value.isfinite() | (fallen if climbs else False)
        if not bool(short.any()):
            return new, rate
        nearest = min(nearest, float((now.distance(new) / rate.square()).max()))
        rate = torch.where(short, 0.5 * rate, rate)
    if nearest <= ACCEPTED and bool(
        now.value.isfinite().all()
    ):  # rounding hides whether the objective rises
        return now, torch.ones_like(rate)
    raise NumericalError(
        f"likelihood: no step from the sites of {observed.likelihood} raises the evidence, the "
        f"last of {float(rate.min()):.1g} of a whole one: {REMEDY}"
    )


def _finished(
    prior: SitePrior, rule: SiteRule, observed: Observed, now: _Place, n_steps: int
) -> LikelihoodSites:
    """The sites after one whole step more, which makes sites and moments consistent."""
    precision, shift, raised = now.proposed(observed)
    if not (rule.is_averaged and bool(raised.any())):
        now = _Place.at(prior, rule, observed, precision, shift)
    evidence = now.value if rule.is_averaged else now.value - 0.5 * now.log_determinant
    return LikelihoodSites(
        now.mean, now.variance, now.precision, now.shift, evidence, n_steps, bool(raised.any())
    )
