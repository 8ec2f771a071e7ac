"""Classifiers and likelihoods of nodes of graphs."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone, is_classifier

import coupledgp as cgp
from coupledgp.core.sites import DenseRows, Observed, find_sites
from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.graphs import latent_search as latent
from coupledgp.graphs.latent_search import LOG_VARIANCE, NodeEvidence
from coupledgp.kernels.graph_families import HeatKernel
from coupledgp.likelihoods import Bernoulli, NegativeBinomial, Poisson, StudentT
from tests.model_files import changed

RNG = np.random.default_rng(2)
N = 60
RING = cgp.Graph.from_edges(np.arange(N), (np.arange(N) + 1) % N)
F = 2 * np.sin(2 * np.pi * np.arange(N) / N)
SEEN, REST = np.split(RNG.permutation(N), [40])
SIDES = np.where(F + RNG.logistic(size=N) > 0, "up", "down")
THREE = np.digitize(F + RNG.logistic(size=N), [-1.0, 1.0])
HOURS = RNG.uniform(0.5, 3.0, N)
COUNTS = RNG.poisson(HOURS * np.exp(F / 2)).astype(float)


@pytest.fixture(autouse=True)
def _small_searches(monkeypatch):
    monkeypatch.setattr(latent, "ITERATIONS", 3)
    monkeypatch.setattr(latent, "LAST_ITERATIONS", 8)
    monkeypatch.setattr(latent, "MOST_ROUNDS", 1)


MODELS = {
    "graph": (lambda: cgp.GraphGPClassifier(RING, "heat", random_state=0), SEEN, SIDES[SEEN], REST),
    "graph, three": (
        lambda: cgp.GraphGPClassifier(RING, "matern", random_state=0), SEEN, THREE[SEEN], REST,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", MODELS)
class TestEveryClassifier:
    @pytest.fixture
    def model(self, case):
        make, points, y, _ = MODELS[case]
        return make().fit(points, y)

    def test_chances_are_those_of_its_functions(self, case, model):
        _, _, y, wanted = MODELS[case]
        chances = model.predict_proba(wanted)
        np.testing.assert_allclose(chances.sum(axis=1), 1.0)
        np.testing.assert_array_equal(model.classes_, np.unique(y))
        one = model.process_.law(model.points(wanted), "mean").mean
        if one.shape[1] == 1:
            np.testing.assert_allclose(chances[:, 1:], one, rtol=1e-9)
        else:
            raised = one**model.power_
            wanted_chances = raised / raised.sum(axis=1, keepdims=True)
            np.testing.assert_allclose(chances, wanted_chances, rtol=1e-9)
        picked = model.classes_[chances.argmax(axis=1)]
        np.testing.assert_array_equal(model.predict(wanted), picked)
        odds = model.decision_function(wanted)
        assert odds.shape == ((len(wanted),) if one.shape[1] == 1 else chances.shape)

    def test_it_beats_shares(self, case, model):
        _, points, y, _ = MODELS[case]
        assert is_classifier(model)
        assert model.score(points, y) > np.unique(y, return_counts=True)[1].max() / len(y)

    def test_files(self, case, model, tmp_path):
        wanted = MODELS[case][3]
        model.save(tmp_path / "model", include_data=True)
        restored = cgp.load_model(tmp_path / "model")
        assert type(restored) is type(model)
        np.testing.assert_allclose(
            restored.predict_proba(wanted), model.predict_proba(wanted), rtol=1e-9
        )
        assert restored.explain() == model.explain()
        assert restored.choice_ == model.choice_
        assert restored.forecast_ == model.forecast_

    def test_more_labels_are_those_of_a_fit_to_all(self, case, model):
        _, points, y, wanted = MODELS[case]
        part = model.conditioned_on(points[:-5], y[:-5])
        part.partial_fit(points[-5:], y[-5:], classes=model.classes_)
        np.testing.assert_allclose(
            part.predict_proba(wanted), model.predict_proba(wanted), rtol=1e-5
        )
        with pytest.raises(InvalidInputError, match="expected labels"):
            part.partial_fit(points[:1], ["other"] if y.dtype.kind == "U" else [17])

    @pytest.mark.long
    def test_weights_count_labels_as_if_repeated(self, case):
        make, points, y, wanted = MODELS[case]
        counts = np.arange(len(y)) % 3
        weighted = make().fit(points, y, sample_weight=counts)
        repeated = make().fit(np.repeat(points, counts, axis=0), np.repeat(y, counts))
        assert len(weighted.process_.rows) < len(y)
        assert weighted.process_.log_evidence == pytest.approx(repeated.process_.log_evidence, 1e-4)
        for one, other in zip(weighted.choice_.kernels, repeated.choice_.kernels, strict=True):
            assert one.name == other.name
            assert one.log_loss == pytest.approx(other.log_loss, rel=1e-4)
        one, other = (
            model.process_.law(model.points(wanted), "mean").mean for model in (weighted, repeated)
        )
        np.testing.assert_allclose(one, other, atol=1e-4)
        more = make().fit(points[:-5], y[:-5], counts[:-5])
        more.partial_fit(points[-5:], y[-5:], sample_weight=counts[-5:])
        again = more.conditioned_on(points, y, sample_weight=counts)
        np.testing.assert_allclose(
            more.predict_proba(wanted), again.predict_proba(wanted), rtol=1e-5
        )

    @pytest.mark.long
    def test_classes_have_weights(self, case, tmp_path):
        make, points, y, wanted = MODELS[case]
        classes, shares = np.unique(y, return_counts=True)
        given = dict(
            zip(classes.tolist(), (len(y) / (len(classes) * shares)).tolist(), strict=True)
        )
        twice = np.where(np.arange(len(y)) < 10, 2.0, 1.0)
        balanced = make().set_params(class_weight="balanced").fit(points, y, twice)
        named = make().set_params(class_weight=given).fit(points, y, twice)
        by_hand = make().fit(points, y, twice * [given[label] for label in y.tolist()])
        for one in (named, by_hand):
            np.testing.assert_allclose(
                one.predict_proba(wanted), balanced.predict_proba(wanted), rtol=1e-6
            )
        # Labels that are numbers stay so in a file, so that weights are found for more of them.
        named.save(tmp_path / "model", include_data=True)
        restored = cgp.load_model(tmp_path / "model")
        assert restored.class_weight == given
        one, other = (model.partial_fit(points[:3], y[:3]) for model in (named, restored))
        np.testing.assert_allclose(
            one.predict_proba(wanted), other.predict_proba(wanted), rtol=1e-6
        )
        with pytest.raises(InvalidInputError, match="class_weight"):
            make().set_params(class_weight="equal").fit(points, y)
        with pytest.raises(InvalidInputError, match="sample_weight"):
            make().fit(points, y, np.full(len(y), -1.0))

    def test_refusals(self, case):
        make, points, y, _ = MODELS[case]
        model = make()
        for given, message in [
            (y[:-1], "labels|lengths"), (np.full(len(y), y[0]), "two classes"), (None, "None"),
        ]:  # fmt: skip
            with pytest.raises(ValueError, match=message):
                clone(model).fit(points, given)
        with pytest.raises(InvalidInputError, match=r"budget: .* would take about"):
            clone(model).set_params(budget="0.0001s").fit(points, y)
        with pytest.raises(InvalidInputError, match="missing"):
            clone(model).set_params(missing="indicator").fit(points, y)


def test_all_nodes_are_the_default():
    graph = MODELS["graph"][0]().fit(SEEN, SIDES[SEEN])
    np.testing.assert_array_equal(graph.predict_proba(), graph.predict_proba(np.arange(N)))


def test_a_kernel_that_is_given_is_kept():
    kernel = HeatKernel(time=7.0)
    assert cgp.GraphGPClassifier(RING, kernel).fit(SEEN, SIDES[SEEN]).kernel_ == kernel


def test_files_of_other_kinds_are_refused(tmp_path):
    gaussian = cgp.GraphGPRegressor(RING, "heat", optimizer=None).fit(SEEN, F[SEEN])
    gaussian.save(tmp_path / "other")
    parameters = {"dict": {"graph": {"same": 0}}}
    changed(tmp_path / "other", "SavedModel", kind="GraphGPClassifier", parameters=parameters)
    with pytest.raises(ModelFileError, match="cannot restore"):
        cgp.load_model(tmp_path / "other")


def test_values_are_those_of_the_bound_and_the_prior():
    distance = np.abs(np.subtract.outer(SEEN, SEEN)) / 9.0
    gram = 3.0 * np.exp(-np.square(distance)) + 1e-8 * np.eye(len(SEEN))
    y = (SIDES[SEEN] == "up").astype(float)[:, None]
    observed = Observed.of(Bernoulli(), y, np.array([0.2]))
    objective = NodeEvidence(gram, observed)
    value, gradient = objective.value_and_gradient(np.array([0.7]))
    prior = DenseRows(np.exp(0.7) * gram / gram[0, 0])
    bound = find_sites(prior, observed[0]).evidence
    gap = (0.7 - LOG_VARIANCE) / latent.WIDTH
    assert value == pytest.approx((0.5 * gap**2 - bound) / len(y), abs=1e-9)
    ends = [objective.value_and_gradient(np.array([0.7 + s]))[0] for s in (1e-5, -1e-5)]
    assert gradient[0] == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-5)


@pytest.mark.parametrize("kind", ["walks", "exact"])
class TestCounts:
    @pytest.fixture
    def model(self, kind):
        options = {"likelihood": "poisson", "random_state": 0}
        made = cgp.GraphGPRegressor if kind == "walks" else cgp.ExactGraphGPRegressor
        return made(RING, "heat", **options).fit(SEEN, COUNTS[SEEN], exposure=HOURS[SEEN])

    def test_laws_are_of_counts(self, model):
        low, high = model.predict_interval(REST, 0.9)
        assert (low >= 0).all()
        np.testing.assert_array_equal(np.concatenate([low, high]) % 1, 0)
        mean = model.predict(REST)
        ten = model.predict(REST, exposure=np.full(len(REST), 10.0))
        np.testing.assert_allclose(ten, 10 * mean, rtol=1e-9)
        drawn = model.sample_y(REST[:3], 4)
        Poisson().check_targets(drawn)
        assert "Poisson law" in model.explain()

    def test_files(self, model, tmp_path):
        model.save(tmp_path / "model", include_data=True)
        restored = cgp.load_model(tmp_path / "model")
        np.testing.assert_allclose(restored.predict(REST), model.predict(REST), rtol=1e-9)
        assert restored.explain() == model.explain()
        further = restored.partial_fit(REST[:2], [3, 4], exposure=[1.0, 9.0])
        np.testing.assert_array_equal(further.process_.data.weights.exposure[-2:], [1.0, 9.0])


@pytest.mark.long
def test_hyperparameters_recover_a_dispersion_and_a_scale():
    """The likelihood's parameters are searched for in units of y."""
    rng = np.random.default_rng(0)
    nodes = np.repeat(np.arange(N), 2)
    y = 5000.0 + 1000 * F[nodes] + 100 * rng.standard_t(4, size=nodes.size)
    model = cgp.ExactGraphGPRegressor(RING, "heat", likelihood="student-t", random_state=0)
    law = model.fit(nodes, y).process_.likelihood
    assert isinstance(law, StudentT)
    assert 50 < law.scale < 180
    r = 2.0
    counts = rng.poisson(np.exp(F[nodes]) * rng.gamma(r, 1 / r, nodes.size))
    model.set_params(likelihood="negative-binomial").fit(nodes, counts.astype(float))
    law = model.process_.likelihood
    assert isinstance(law, NegativeBinomial)
    assert 0.2 < law.dispersion < 1.2


REFUSED = [
    ({}, {"exposure": -HOURS[SEEN]}, "exposure: expected positive"),
    ({"likelihood": "gaussian"}, {"exposure": HOURS[SEEN]}, "exposure: expected none"),
    ({"noise": 0.1}, {}, "noise: expected None beside likelihood='poisson'"),
    ({"n_walks": "auto"}, {}, "coupling, n_walks: expected"),
    ({"options": {"budget": "1ms"}}, {}, "budget"),
]


@pytest.mark.parametrize(("options", "rows", "message"), REFUSED)
def test_what_graphs_refuse(options, rows, message):
    model = cgp.GraphGPRegressor(RING, "heat", **{"likelihood": "poisson"} | options)
    with pytest.raises(InvalidInputError, match=message):
        model.fit(SEEN, COUNTS[SEEN], **rows)
