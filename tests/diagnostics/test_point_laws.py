"""Laws of single observations of which a transform is normal, against SciPy's lognormal law."""

import numpy as np
import pytest
from scipy import stats

from coupledgp.core.transforms import Log
from coupledgp.diagnostics.scoring.laws import PointLaws, TransformedLaws
from coupledgp.diagnostics.scoring.score_table import point_scores

RNG = np.random.default_rng(5)
MEAN, STD = RNG.normal(size=(20, 2)), RNG.uniform(0.3, 1.5, size=(20, 2))
EXACT = stats.lognorm(STD, scale=np.exp(MEAN))
Y = RNG.lognormal(size=(20, 2))
LAWS = TransformedLaws(Log(), MEAN, STD)


def test_densities_transforms_and_widths_are_those_of_the_lognormal_law():
    np.testing.assert_allclose(LAWS.log_density(Y), EXACT.logpdf(Y).sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(LAWS.transforms(Y), EXACT.cdf(Y), rtol=1e-10)
    for k, level in enumerate((0.5, 0.95)):
        low, high = EXACT.interval(level)
        np.testing.assert_allclose(LAWS.interval_widths((0.5, 0.95))[..., k], high - low)


def test_losses_are_those_of_the_law_itself():
    laws = PointLaws(EXACT.mean(), EXACT.std(), LAWS)
    scores = {one.name: one for one in point_scores()}
    nlpd = laws.losses(scores["nlpd"], Y)
    assert nlpd == pytest.approx(-EXACT.logpdf(Y).mean(axis=1))
    assert laws.losses(scores["mae"], Y) == pytest.approx(np.abs(Y - EXACT.mean()))
