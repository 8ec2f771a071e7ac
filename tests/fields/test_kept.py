"""What covariances keep: values asked for in any order are those of a covariance made afresh."""

import numpy as np
import pytest
import trimesh

import coupledgp as cgp
from coupledgp.fields.covariance import SizedCache, SurfaceCovariance
from coupledgp.kernels.fields import WhittleMatern

N = 24
NETWORK = cgp.LaplaceOperator.from_edges(
    np.arange(N), (np.arange(N) + 1) % N, np.random.default_rng(1).uniform(0.5, 2.0, N)
)
SURFACE = cgp.LaplaceOperator.from_trimesh(trimesh.creation.icosphere(subdivisions=1))


@pytest.mark.parametrize(("operator", "alphas"), [(NETWORK, (1, 2)), (SURFACE, (2, 4))])
def test_what_is_kept_is_what_would_be_computed(operator, alphas):
    """Places of equal number, both alphas and two ranges, one after the other."""
    shared = SurfaceCovariance(operator)
    places = [operator.at_vertices(np.array(v)).points for v in ([0, 3, 7], [1, 2, 11], [0, 3, 8])]
    kernels = [WhittleMatern(range_, alpha) for range_ in (2.0, 5.0) for alpha in alphas]
    for _ in range(2):
        for kernel in kernels:
            for a in places:
                fresh = SurfaceCovariance(operator)
                np.testing.assert_allclose(shared.gram(kernel, a), fresh.gram(kernel, a))
                np.testing.assert_allclose(
                    shared.columns(kernel, a), SurfaceCovariance(operator).columns(kernel, a)
                )
                np.testing.assert_allclose(
                    shared.variance(kernel, a), shared.gram(kernel, a).diagonal(), rtol=1e-9
                )


@pytest.mark.parametrize(("dimension", "alpha"), [(1, 1), (1, 2), (2, 2), (2, 4)])
def test_the_range_is_that_of_lindgren(dimension, alpha):
    """`kappa = (8 nu)^1/2 / range`, `nu = alpha - d / 2`."""
    nu = alpha - dimension / 2
    assert WhittleMatern(3.0, alpha).kappa(dimension) == pytest.approx(np.sqrt(8 * nu) / 3.0)


def test_a_value_that_is_put_twice_counts_once():
    kept = SizedCache(float, 10.0)
    for _ in range(5):
        kept.put("a", 4.0)
    kept.put("b", 4.0)
    assert (kept.get("a"), kept.get("b")) == (4.0, 4.0)
    kept.put("c", 4.0)
    assert kept.get("a") is None
