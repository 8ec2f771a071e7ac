"""Group variances found from sums are those of the greatest dense evidence."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from coupledgp.errors import NumericalError
from coupledgp.inference.weights.groups import WeightSums, fit_group_variances

N_ROWS, SIZES, TRUE = 300, (5, 7, 4, 6), np.array([1.0, 0.1, 0.02, 0.0])
GROUPS = np.repeat(np.arange(4), SIZES)
RNG = np.random.default_rng(2)
PSI = RNG.normal(size=(N_ROWS, GROUPS.size))
NOISE = RNG.uniform(0.5, 2.0, N_ROWS)
WEIGHTS = RNG.normal(size=(GROUPS.size, 3)) * np.sqrt(TRUE)[GROUPS, None]
Y = PSI @ WEIGHTS + 0.2 * np.sqrt(NOISE)[:, None] * RNG.normal(size=(N_ROWS, 3))


def sums(psi=PSI, y=Y):
    own, targets = psi / np.sqrt(NOISE)[:, None], y / np.sqrt(NOISE)[:, None]
    return WeightSums(own.T @ own, own.T @ targets, np.square(targets).sum(axis=0),
                      float(np.log(NOISE).sum()), float(N_ROWS))  # fmt: skip


def evidence(variances, noise):
    covariance = (PSI * variances[GROUPS]) @ PSI.T + noise * np.diag(NOISE)
    law = multivariate_normal(np.zeros(N_ROWS), covariance)
    return float(sum(law.logpdf(y) for y in Y.T))


@pytest.mark.parametrize("known", [None, 0.05])
def test_the_variances_maximise_the_dense_evidence(known):
    found = fit_group_variances(sums(), GROUPS, np.ones(4), known or 0.5, fits_noise=known is None)
    assert found.converged
    assert found.log_evidence == pytest.approx(evidence(found.variances, found.noise), rel=1e-9)
    if known is None:
        for factor in (0.95, 1.05):
            assert evidence(found.variances, factor * found.noise) < found.log_evidence - 0.1
    else:
        assert found.noise == known
    for group in range(3):
        for factor in (0.8, 1.25):
            moved = found.variances.copy()
            moved[group] *= factor
            assert evidence(moved, found.noise) < found.log_evidence - 0.05


def test_superfluous_groups_are_counted():
    found = fit_group_variances(sums(), GROUPS, np.ones(4), 0.5)
    assert found.n_superfluous == 1
    assert found.variances[3] < 1e-3 * found.variances[2]
    assert (found.determined[:3] > 0.9 * np.array(SIZES[:3])).all()
    assert (found.determined < SIZES).all()


def test_a_search_that_is_cut_short_says_so_and_sums_are_checked():
    found = fit_group_variances(sums(), GROUPS, np.ones(4), 0.5, most_steps=1)
    assert not found.converged
    assert found.log_evidence < fit_group_variances(sums(), GROUPS, np.ones(4), 0.5).log_evidence
    own = sums()
    with pytest.raises(NumericalError, match="groups: the posterior of the weights is not finite"):
        fit_group_variances(own._replace(gram=own.gram * np.nan), GROUPS, np.ones(4), 0.5)
