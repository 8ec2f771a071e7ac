"""Features of columns and pairs are those of the centred kernel of each column under its law."""

import numpy as np
import pytest
from scipy.stats.qmc import Sobol

from coupledgp.errors import InvalidInputError
from coupledgp.expressions import Factor
from coupledgp.features.axes.eigenfunctions import ColumnLaw, Eigenfunctions, n_kept
from coupledgp.features.axes.maps import AxisFeatures, FourierSupport
from coupledgp.spectra import parse_spectrum

RNG = np.random.default_rng(3)
# A column of few values, of many values, one category of four levels, and one that is constant.
FEW, MANY = RNG.integers(0, 9, 400) ** 1.5, RNG.standard_t(3, 400)
LEVELS = np.eye(4)[RNG.choice(4, 400, p=[0.4, 0.3, 0.2, 0.1])]
X = np.column_stack([FEW, MANY, LEVELS, np.ones(400)])
COLUMNS = {"few": (0,), "many": (1,), "category": (2, 3, 4, 5), "constant": (6,)}
KERNELS = ["gaussian", "matern-1/2", "matern-3/2"]


def factor(name, kernel="matern-3/2", lengthscale=1.3):
    return Factor(COLUMNS[name], parse_spectrum(kernel), np.log([lengthscale]))


def eigenfunctions(name, kernel="matern-3/2"):
    own = factor(name, kernel)
    return Eigenfunctions.of(own, ColumnLaw.of(X[:, own.columns]))


def rows_of_points(name, law):
    rows = np.zeros((len(law.points), X.shape[1]))
    rows[:, COLUMNS[name]] = law.points
    return rows


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("name", ["few", "many", "category"])
def test_all_eigenfunctions_have_the_centred_kernel_and_mean_zero(name, kernel):
    axis = eigenfunctions(name, kernel)
    rows, p = rows_of_points(name, axis.law), axis.law.weights
    phi = axis.at(rows)
    gram = axis.factor.gram(axis.law.points, axis.law.points)
    keep = np.eye(len(p)) - p
    np.testing.assert_allclose(phi @ phi.T, keep @ gram @ keep.T, atol=3e-9)
    np.testing.assert_allclose(axis.kernel(rows, rows), keep @ gram @ keep.T, atol=1e-12)
    np.testing.assert_allclose(p @ phi, 0, atol=1e-9)
    np.testing.assert_allclose(axis.variance(rows), axis.kernel(rows, rows).diagonal(), atol=1e-12)
    # The eigenvalues are mean squares, in falling order, and their sum is the mean variance.
    np.testing.assert_allclose(p @ phi**2, axis.eigenvalues, rtol=1e-6, atol=1e-12)
    assert (np.diff(axis.eigenvalues) <= 0).all()
    np.testing.assert_allclose(axis.eigenvalues.sum(), axis.trace, rtol=1e-9)


def test_few_eigenfunctions_have_the_least_error_of_all_projections():
    axis = eigenfunctions("many")
    rows, root = rows_of_points("many", axis.law), np.sqrt(axis.law.weights)
    for n_terms in (3, 8):
        phi = axis.first(n_terms).at(rows)
        error = root[:, None] * (axis.kernel(rows, rows) - phi @ phi.T) * root
        np.testing.assert_allclose(
            np.square(error).sum(), np.square(axis.eigenvalues[n_terms:]).sum(), rtol=1e-6
        )


def test_a_law_keeps_few_values_and_stands_for_many_by_quantiles():
    few = ColumnLaw.of(X[:, [0]])
    values, counts = np.unique(FEW, return_counts=True)
    np.testing.assert_array_equal(few.points[:, 0], values)
    np.testing.assert_allclose(few.weights, counts / 400)
    many = ColumnLaw.of(X[:, [1]], 33)
    assert len(many.points) == 33
    np.testing.assert_array_equal(many.points[[0, -1], 0], [MANY.min(), MANY.max()])
    below = np.array([(point > MANY).mean() for point in many.points[:, 0]])
    np.testing.assert_allclose(np.cumsum(many.weights)[:-1], below[1:], atol=0.02)
    levels = ColumnLaw.of(X[:, 2:6], 3)
    np.testing.assert_array_equal(levels.points.sum(axis=0), [1, 1, 1, 0])
    doubled = ColumnLaw.of(np.repeat(X[:, [1]], 2, axis=0), 33)
    np.testing.assert_array_equal(doubled.points, many.points)


def test_equal_eigenvalues_are_kept_or_left_out_together():
    falling = np.array([5.0, 3.0, 3.0, 3.0, 2.0, 1.0])
    assert [n_kept(falling, most, 4) for most in (1, 2, 3, 4, 6, 9)] == [1, 1, 4, 4, 6, 6]
    assert n_kept(np.ones(9), 4, 9) == 9
    assert n_kept(np.ones(9), 4, 8) == 0
    # Levels with equal shares: the features' kernel does not hang on how eigenvectors are turned.
    balanced = np.eye(6)[np.tile(np.arange(6), 10)]
    own = Factor((0, 1, 2, 3, 4, 5), parse_spectrum("matern-3/2"), np.zeros(1))
    some = AxisFeatures.of([own], balanced, [(0,)], of_column=3)
    turned = AxisFeatures.of([own], balanced[:, ::-1], [(0,)], of_column=3)
    assert some.n_features == 5
    np.testing.assert_allclose(
        some.at(balanced) @ some.at(balanced).T,
        turned.at(balanced[:, ::-1]) @ turned.at(balanced[:, ::-1]).T, atol=1e-12,
    )  # fmt: skip


def test_a_map_approximates_its_kernel_from_below():
    factors = [factor(name) for name in COLUMNS]
    supports = [(0,), (1,), (2,), (3,), (0, 1), (0, 2), (1, 2), (0, 3)]
    variances = np.arange(1.0, 7.0)
    rows = np.vstack([X[:40], X[:3] + 2.0])
    errors = []
    for of_column, of_pair in ((4, 6), (12, 40), (64, 700)):
        found = AxisFeatures.of(factors, X, supports, of_column, of_pair)
        assert [own.factors for own in found.supports] == [s for s in supports if 3 not in s]
        assert found.groups.size == found.n_features == found.at(rows).shape[1]
        lost = found.lost(rows, variances)
        assert np.linalg.eigvalsh(lost).min() > -1e-8
        np.testing.assert_allclose(lost.diagonal(), found.lost_variance(rows, variances), atol=1e-8)
        errors.append(
            float(lost[:40, :40].diagonal().mean() / found.variance(rows, variances).mean())
        )
    assert errors[0] > 5 * errors[1] > 25 * errors[2]
    assert found.columns[-1] == (1, 2, 3, 4, 5)
    kernel = found.kernel(rows, rows, variances)
    np.testing.assert_allclose(kernel.diagonal(), found.variance(rows, variances), atol=1e-10)


def test_centred_fourier_features_are_unbiased():
    factors = [factor("few"), factor("many"), factor("few", "gaussian", 2.0)]
    axes = [Eigenfunctions.of(own, ColumnLaw.of(X[:, own.columns])) for own in factors]
    for uniforms in (RNG.random((4096, 3)), Sobol(3, seed=4).random_base2(11)):
        own = FourierSupport.of(axes, (0, 1, 2), uniforms)
        found = AxisFeatures(tuple(axes), (own,))
        phi = found.at(X[:12])
        product = np.prod([axis.kernel(X[:12], X[:12]) for axis in axes], axis=0)
        parts = phi.reshape(12, 2, -1) * len(uniforms) ** 0.5
        draws = np.einsum("apm,bpm->abm", parts, parts)
        errors = draws.std(axis=2) / len(uniforms) ** 0.5
        assert (np.abs(phi @ phi.T - product) < 5 * errors).all()
        assert (errors.diagonal() < 0.1 * product.diagonal()).all()
    category = Eigenfunctions.of(factor("category"), ColumnLaw.of(X[:, 2:6]))
    with pytest.raises(InvalidInputError, match="single columns in a product of three"):
        FourierSupport.of([category], (0,), np.full((3, 1), 0.3))
