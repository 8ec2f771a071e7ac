"""scikit-learn's own checks of its estimators, with no failure expected."""

import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import (
    check_sample_weight_equivalence_on_dense_data,
    estimator_checks_generator,
)

import coupledgp as cgp
from tests.core.few_steps import search_little

ESTIMATORS = [
    cgp.SparseSpectrumGPRegressor(n_frequencies=16, options={"n_restarts": 0}, random_state=0),
    cgp.SparseSpectrumGPRegressor(features="laplace", n_frequencies=16, random_state=0),
    cgp.ExactGPRegressor(options={"n_restarts": 0}, random_state=0),
    cgp.LocalGPRegressor("matern-3/2", 4, n_neighbors=4, random_state=0),
    cgp.LatticeGPRegressor("gaussian", [0], random_state=0),
    cgp.GPRegressor("sparse-spectrum", n_frequencies=4, random_state=0, missing="raise"),
]
NAMES = ["fourier", "laplace", "exact", "local", "lattice", "chosen"]


@pytest.fixture(autouse=True)
def _small_searches(monkeypatch):
    """Checks are about what a model accepts, keeps and returns, not about how far it searches."""
    search_little(monkeypatch)


def has_kept_hyperparameters(estimator, check):
    """Whether weights of rows can be compared with repeated rows, which needs kept scales.

    Local models search for all of theirs, and so do those on lattices; their weights are tested in
    `tests/core`.
    """
    is_comparison = check.func is check_sample_weight_equivalence_on_dense_data
    return not is_comparison or "fixed" in estimator.get_params()


CHECKS = [
    (e, check)
    for e in ESTIMATORS
    for _, check in estimator_checks_generator(e)
    if has_kept_hyperparameters(e, check)
]
# A check that scikit-learn stops collecting must not vanish unseen. Pinned by constraints.txt.
N_CHECKS = 60


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=NAMES)
def test_number_of_checks(estimator):
    assert len(list(estimator_checks_generator(estimator))) == N_CHECKS


# Classes as targets are no fault of a check.
@pytest.mark.filterwarnings("ignore::coupledgp.errors.DiscreteTargetsWarning")
@pytest.mark.parametrize(
    ("estimator", "check"),
    CHECKS,
    ids=[
        f"{type(e).__name__}-{getattr(c, 'func', c).__name__}-{i}"
        for i, (e, c) in enumerate(CHECKS)
    ],
)
@pytest.mark.filterwarnings("ignore:Estimator's parameters changed")
@pytest.mark.filterwarnings("ignore::coupledgp.errors.ExtrapolationWarning")  # rows of no weight
def test_estimator_check(estimator, check):
    if check.func is check_sample_weight_equivalence_on_dense_data:
        # Sums over repeated rows round otherwise than weighted sums, and a search then ends within
        # its tolerances at another place, which is more than this check allows. Searches with
        # weights are compared in `tests/core`.
        options = {**(estimator.options or {}), "fixed": ("lengthscale", "noise", "outputscale")}
        kept = {"noise": 0.1, "options": options}
        estimator = clone(estimator).set_params(ard=False, **kept)
    check(estimator)
