"""Audits of classifiers of other packages, by their laws and by the quantities they state."""

import gpytorch
import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF, ConstantKernel
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import coupledgp as cgp
from coupledgp.diagnostics import ClassReport
from coupledgp.diagnostics.foreign.table import functions, is_classifier
from coupledgp.diagnostics.verdicts.verdict import ADEQUACY, HONESTY
from coupledgp.errors import InvalidInputError
from tests.diagnostics.likelihoods import cases

X, X_TEST = cases.X[cases.TRAIN], cases.X[cases.TEST]
TEXTS = np.array(["no", "yes"])[cases.LABELS]
Y, Y_TEST = TEXTS[cases.TRAIN], TEXTS[cases.TEST]
KERNEL = ConstantKernel(2.0) * RBF([1.0, 1.0])


def colours(report):
    return {one.question: one.colour for one in report.verdicts}


def test_a_classifier_of_scikit_learn_has_its_own_function():
    model = GaussianProcessClassifier(KERNEL, optimizer=None).fit(X, Y)
    found = functions(model, X_TEST)
    mean, variance = model.base_estimator_.latent_mean_and_variance(X_TEST)
    np.testing.assert_allclose(found.law.mean[:, 0], mean, atol=1e-6)
    np.testing.assert_allclose(found.law.variance[:, 0], variance, atol=1e-6)
    report = cgp.audit(model, X, Y, X_TEST, Y_TEST)
    assert isinstance(report, ClassReport)
    np.testing.assert_allclose(report.laws.chances, model.predict_proba(X_TEST), atol=1e-12)
    assert report.laws.classes.tolist() == ["no", "yes"]
    assert colours(report)[ADEQUACY] == "green"
    assert 0 < report.kl_per_point < 0.01


def test_a_pipeline_maps_rows_before_the_kernel():
    plain = GaussianProcessClassifier(KERNEL, optimizer=None)
    model = make_pipeline(StandardScaler(), plain).fit(X, Y)
    scaled = model[0].transform(X_TEST)
    np.testing.assert_allclose(
        functions(model, X_TEST).law.mean, functions(model[-1], scaled).law.mean
    )
    assert cgp.audit(model, X, Y, X_TEST, Y_TEST).divergence.sites == "own"


def test_three_classes_have_three_functions():
    y, y_test = cases.THREE[cases.TRAIN], cases.THREE[cases.TEST]
    model = GaussianProcessClassifier(KERNEL, optimizer=None).fit(X, y)
    report = cgp.audit(model, X, y, X_TEST, y_test)
    assert functions(model, X_TEST).law.mean.shape == (len(X_TEST), 3)
    assert report.kl_per_point < 0.01
    pairs = GaussianProcessClassifier(KERNEL, optimizer=None, multi_class="one_vs_one").fit(X, y)
    with pytest.raises(InvalidInputError, match="one function for each class"):
        functions(pairs, X_TEST)


class Svgp(gpytorch.models.ApproximateGP):
    def __init__(self, inducing):
        law = gpytorch.variational.CholeskyVariationalDistribution(len(inducing))
        super().__init__(gpytorch.variational.VariationalStrategy(self, inducing, law))
        self.mean_module = gpytorch.means.ConstantMean()
        self.covar_module = gpytorch.kernels.ScaleKernel(gpytorch.kernels.RBFKernel())

    def forward(self, x):
        return gpytorch.distributions.MultivariateNormal(self.mean_module(x), self.covar_module(x))


def test_gpytorch_has_a_probit_law():
    torch.manual_seed(0)
    model = Svgp(torch.as_tensor(X[:12])).double()
    likelihood = gpytorch.likelihoods.BernoulliLikelihood()
    model(torch.as_tensor(X))
    y, y_test = cases.LABELS[cases.TRAIN], cases.LABELS[cases.TEST]
    report = cgp.audit((model, likelihood), X, y, X_TEST, y_test)
    model.eval()
    with torch.no_grad():
        expected = likelihood(model(torch.as_tensor(X_TEST))).probs.numpy()
    np.testing.assert_allclose(report.laws.chances[:, 1], expected, atol=1e-9)
    assert report.likelihood == "Probit"
    # It was never fitted to the labels: its posterior is the prior.
    assert colours(report)[ADEQUACY] == "red"
    assert "gpytorch Svgp" in report.model


def test_chances_alone_have_scores_and_calibration():
    model = RandomForestClassifier(random_state=0).fit(X, Y)
    report = cgp.audit(model, X, Y, X_TEST, Y_TEST)
    assert report.divergence is None
    assert colours(report)[ADEQUACY] == "grey"
    assert colours(report)[HONESTY] in ("amber", "red", "green")
    assert any("chances alone" in one for one in report.remarks)
    assert "sklearn RandomForestClassifier" in report.model
    assert report.to_html()


def test_many_rows_have_no_exact_posterior(monkeypatch):
    monkeypatch.setattr("coupledgp.diagnostics.audit_classes.DENSE_ROWS", 50)
    model = GaussianProcessClassifier(KERNEL, optimizer=None).fit(X, Y)
    report = cgp.audit(model, X, Y, X_TEST, Y_TEST)
    assert report.divergence is None
    assert any("no exact posterior" in one for one in report.remarks)


def test_what_is_no_argument_of_a_classifier_is_refused():
    model = RandomForestClassifier(random_state=0).fit(X, Y)
    assert is_classifier(model)
    assert not is_classifier(RandomForestClassifier())
    with pytest.raises(InvalidInputError, match="kernel: expected none"):
        cgp.audit(model, X, Y, X_TEST, Y_TEST, kernel="gaussian")
    with pytest.raises(InvalidInputError, match="y_test: expected labels"):
        cgp.audit(model, X, Y, X_TEST, np.full(len(X_TEST), "other"))
