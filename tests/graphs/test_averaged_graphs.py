"""Models on few nodes, averaged over their hyperparameters: laws, options, files, honesty."""

import numpy as np
import pytest
from scipy.special import logsumexp

import coupledgp as cgp
from coupledgp.core.mixture import MixtureGP
from coupledgp.errors import InvalidInputError, PrecisionWarning
from coupledgp.graphs.average import KernelPosterior, distinguishable_range
from coupledgp.graphs.process import NodeGP
from coupledgp.ground.parameters import folded
from coupledgp.kernels import HeatKernel
from coupledgp.kernels.graph_families import LearnedKernel

RING = cgp.Graph.from_edges(range(60), [*range(1, 60), 0])
SEEN = np.arange(0, 60, 4)
Y = np.sin(SEEN / 6) + 0.1 * np.cos(7.0 * SEEN)
HIDDEN = np.setdiff1d(np.arange(60), SEEN)


@pytest.fixture(scope="module")
def model():
    return cgp.GraphGPRegressor(RING, random_state=0).fit(SEEN, Y)


def test_few_nodes_are_averaged_by_default(model):
    process = model.process_
    assert isinstance(process, MixtureGP)
    assert process.purpose == "hyperparameters"
    assert model.method_ == "spectral"
    assert "draws of the hyperparameters" in model.explain()
    assert 1 <= model.n_effective_draws_ <= 24
    assert len(model.members_) == len(process.members) > 5
    assert len({type(member.kernel_) for member in model.members_}) == 3
    asked = cgp.ExactGraphGPRegressor(RING, hyperparameters="averaged").fit(SEEN, Y)
    np.testing.assert_array_equal(asked.predict(), model.predict())  # no seed takes part


@pytest.mark.parametrize("settings", [
    {"n_walks": 8}, {"method": "walks"}, {"hyperparameters": "maximum"},
    {"solver": "iterative", "kernel": HeatKernel(9.0), "fixed": ("kernel",)},
    {"kernel": LearnedKernel()}, {"fixed": ("kernel", "outputscale", "noise")},
    {"optimizer": None},
])  # fmt: skip
def test_where_they_are_not(settings):
    one = cgp.GraphGPRegressor(
        RING, **folded(cgp.GraphGPRegressor, dict(random_state=0, **settings))
    ).fit(SEEN, Y)
    assert isinstance(one.process_, NodeGP)
    assert one.members_ == [one]
    np.testing.assert_array_equal(one.member_weights_, [1.0])


def test_the_law_is_the_mixture_of_the_members(model):
    weights, y = model.member_weights_, np.linspace(-1, 1, HIDDEN.size)
    each = np.array([member.log_density(HIDDEN, y) for member in model.members_])
    mixed = logsumexp(each, axis=0, b=weights[:, None])
    np.testing.assert_allclose(model.log_density(HIDDEN, y), mixed, rtol=1e-10)
    laws = [member.predict(HIDDEN, return_std=True, latent=True) for member in model.members_]
    means, stds = (np.array(part) for part in zip(*laws, strict=True))
    mean, std = model.predict(HIDDEN, return_std=True, latent=True)
    np.testing.assert_allclose(std**2, weights @ (stds**2 + (means - mean) ** 2))
    share = model.process_.share_between(HIDDEN)[:, 0]
    noise = np.array([member.noise_ for member in model.members_])
    between = weights @ (means - weights @ means) ** 2
    within = weights @ (stds**2 + noise[:, None])
    np.testing.assert_allclose(share, between / (between + within))


def test_members_have_the_weights_of_their_draws(monkeypatch):
    """Where the noise ratio alone is free, many draws are one: their weights differ."""
    found = []
    average = KernelPosterior.average

    def spy(self, *arguments):
        found.append(average(self, *arguments))
        return found[-1]

    monkeypatch.setattr(KernelPosterior, "average", spy)
    kept = {"outputscale": 0.9, "fixed": ("kernel", "outputscale")}
    gp = cgp.ExactGraphGPRegressor(
        RING,
        HeatKernel(30.0),
        **folded(
            cgp.ExactGraphGPRegressor,
            dict(hyperparameters="averaged", options={"n_hyperparameter_draws": 200}, **kept),
        ),
    ).fit(SEEN, Y)
    np.testing.assert_array_equal(gp.member_weights_, found[0].weights)
    assert np.ptp(gp.member_weights_) > 0
    scale = Y.var()
    drawn = [(draw.outputscale * scale, draw.noise * scale) for draw in found[0].draws]
    np.testing.assert_allclose([(m.outputscale_, m.noise_) for m in gp.members_], drawn)


def test_one_member_is_the_process_itself(model):
    member = model.process_.members[0]
    alone = MixtureGP.of([member], np.ones(1), member.data, "hyperparameters")
    for one, other in zip(alone.law(HIDDEN, "covariance"), member.law(HIDDEN, "covariance"),
                          strict=True):  # fmt: skip
        np.testing.assert_allclose(one, other, rtol=1e-12)
    np.testing.assert_allclose(alone.cdf(HIDDEN, np.zeros((45, 1))),
                               member.cdf(HIDDEN, np.zeros((45, 1))))  # fmt: skip
    assert not alone.share_between(HIDDEN).any()


def test_a_sharp_prior_gives_the_model_of_its_values():
    kept = {"outputscale": 0.9, "fixed": ("kernel", "outputscale")}
    sharp = {"noise_mean": np.log(0.05), "noise_sd": 1e-4}
    averaged = cgp.ExactGraphGPRegressor(
        RING,
        HeatKernel(30.0),
        **folded(cgp.ExactGraphGPRegressor, dict(options={"hyperparameter_prior": sharp}, **kept)),
    ).fit(SEEN, Y)
    given = cgp.ExactGraphGPRegressor(RING, HeatKernel(30.0), optimizer=None, noise=0.05,
                                      outputscale=0.9).fit(SEEN, Y)  # fmt: skip
    for one, other in zip(*(m.predict(return_std=True) for m in (averaged, given)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


def test_several_outputs_and_nodes_seen_twice():
    nodes = np.concatenate([SEEN, SEEN[:3]])
    y = np.stack([np.r_[Y, Y[:3] + 0.1], 100 * np.r_[Y, Y[:3] + 0.1]], axis=1)
    both = cgp.GraphGPRegressor(RING).fit(nodes, y)
    mean, std = both.predict(HIDDEN, return_std=True)
    assert mean.shape == std.shape == (45, 2)
    np.testing.assert_allclose(mean[:, 1], 100 * mean[:, 0], atol=1e-6)
    assert isinstance(both.process_, MixtureGP)


def test_files_and_further_observations(model, tmp_path):
    model.save(tmp_path / "model")
    same = cgp.load_model(tmp_path / "model")
    for one, other in zip(*(m.predict(return_cov=True) for m in (model, same)), strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(model.sample_y(HIDDEN, 3), same.sample_y(HIDDEN, 3))
    assert same.n_effective_draws_ == model.n_effective_draws_
    assert len({id(member.graph) for member in same.process_.members}) == 1
    more = [m.conditioned_on(np.r_[SEEN, 1], np.r_[Y, 0.3]).predict() for m in (model, same)]
    np.testing.assert_array_equal(*more)
    same.partial_fit([1], [0.3])
    np.testing.assert_array_equal(same.member_weights_, model.member_weights_)
    assert same.predict([1])[0] != model.predict([1])[0]
    given = {"hyperparameters": "averaged", "hyperparameter_prior": {"noise_mean": -2.0}}
    other = cgp.ExactGraphGPRegressor(
        RING,
        "heat",
        **folded(cgp.ExactGraphGPRegressor, dict(options={"n_hyperparameter_draws": 6}, **given)),
    )
    other.fit(SEEN, Y).save(tmp_path / "other")
    assert cgp.load_model(tmp_path / "other").get_params()["hyperparameter_prior"] == {
        "noise_mean": -2.0
    }


def test_walks_of_every_member():
    walked = cgp.GraphGPRegressor(
        RING,
        "heat",
        16,
        hyperparameters="averaged",
        options={"n_hyperparameter_draws": 4},
        random_state=0,
    ).fit(SEEN, Y)
    assert walked.method_ == "walks"
    exact = walked.exact_twin()
    assert cgp.report(walked, HIDDEN[:9]).score("kl") < 0.01
    np.testing.assert_allclose(walked.predict(HIDDEN), exact.predict(HIDDEN), atol=0.05)


def test_reports(model):
    report = cgp.report(model, HIDDEN, np.sin(HIDDEN / 6))
    assert "effective ones" in report.tables.predictions.remarks[0]
    assert "of the variance of observations at these points" in report.tables.predictions.remarks[1]
    assert report.score("kl") == pytest.approx(0, abs=1e-9)
    assert len(report.verdicts) == 3
    left_out = cgp.cross_validate(model)
    assert np.isfinite(left_out.score("nlpd"))


@pytest.mark.parametrize(("settings", "message"), [
    ({"hyperparameters": "mean"}, "hyperparameters: "),
    ({"hyperparameter_prior": {"time": 1.0}}, "hyperparameter_prior: "),
    ({"n_hyperparameter_draws": 1}, "n_hyperparameter_draws: "),
    ({"hyperparameters": "averaged", "kernel": LearnedKernel()}, "one free parameter"),
    ({"hyperparameters": "averaged", "n_walks": "auto"}, "hyperparameters: expected 'auto'"),
    ({"hyperparameters": "averaged", "budget": "0.00001s"}, "budget"),
])  # fmt: skip
def test_refusals(settings, message):
    with pytest.raises(InvalidInputError, match=message):
        cgp.GraphGPRegressor(RING, **folded(cgp.GraphGPRegressor, settings)).fit(SEEN, Y)


def test_intervals_on_fifteen_nodes_are_honest(seed):
    """Signals of hyperparameters drawn from the prior: coverage within four standard errors."""
    rng = np.random.default_rng([seed, 4])
    values, vectors = np.linalg.eigh(RING.normalized_adjacency.toarray())
    low, high = distinguishable_range(RING, HeatKernel())
    covered = {"averaged": [], "maximum": []}
    for number in range(16):
        g = HeatKernel(np.exp(rng.uniform(low, high))).spectral(values)
        f = vectors @ (np.sqrt(g * 60 / (g.sum() - g.max())) * rng.standard_normal(60))
        y = f + np.exp(0.5 * rng.normal(-3.0, 1.7)) * rng.standard_normal(60)
        seen, hidden = np.split(rng.permutation(60), [15])
        for name, counts in covered.items():
            gp = cgp.ExactGraphGPRegressor(RING, "heat", hyperparameters=name,
                                           random_state=number).fit(seen, y[seen])  # fmt: skip
            ends = gp.predict_interval(hidden)
            counts.append(np.mean((ends[0] < y[hidden]) & (y[hidden] < ends[1])))
    averaged = np.array(covered["averaged"])
    assert abs(averaged.mean() - 0.95) < 4 * averaged.std(ddof=1) / np.sqrt(16) + 0.01
    assert averaged.mean() > np.mean(covered["maximum"])


@pytest.mark.parametrize("normalize_y", [True, False])
def test_a_tiny_noise_that_is_given_leaves_the_maximum_its_deviations(normalize_y):
    def deviations(noise):
        fixed = {"noise": noise, "fixed": ("noise",), "normalize_y": normalize_y}
        model = cgp.GraphGPRegressor(
            RING,
            **folded(
                cgp.GraphGPRegressor, dict(hyperparameters="maximum", random_state=0, **fixed)
            ),
        )
        return model.fit(SEEN, Y).predict(HIDDEN, return_std=True, latent=True)[1]

    np.testing.assert_allclose(deviations(1e-10), deviations(1e-6), rtol=0.02)
    with (
        pytest.warns(PrecisionWarning, match="raise the noise"),
        pytest.warns(UserWarning, match="noise: expected at least 1e-12 times"),
    ):
        deviations(1e-15)
