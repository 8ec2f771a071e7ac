"""Studies of couplings: draws, paired tests, verdicts, tables, pages, and wrong marginals."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import coupledgp as cgp
from coupledgp.couplings import FrequencyCoupling, StratifiedLengths, WalkerCoupling, parse_coupling
from coupledgp.diagnostics.distance.divergences import kl_per_point
from coupledgp.diagnostics.distance.solved import StochasticOptions
from coupledgp.diagnostics.laws.mixtures import law_of_process
from coupledgp.diagnostics.study import Study, holm
from coupledgp.errors import InvalidInputError

RNG = np.random.default_rng(4)
X = RNG.normal(size=(90, 2))
Y = np.sin(X[:, 0]) + 0.1 * RNG.normal(size=90)
ASKED = {"couplings": ["iid", "orthogonal", "halton"], "sizes": [4, 12], "n_draws": 5}
FIGURES = ["kl_per_point", "rmse", "nlpd"]


@pytest.fixture(scope="module")
def model():
    return cgp.SparseSpectrumGPRegressor(n_frequencies=8, random_state=0).fit(X[:60], Y[:60])


@pytest.fixture(scope="module")
def study(model):
    return cgp.coupling_study(model, X[60:], Y[60:], random_state=7, **ASKED)


def made(values, sizes=(8,)):
    """A study of the given divergences of each coupling, the same at all sizes."""
    rows = [
        {"coupling": name, "size": size, "seed": seed, "kl_per_point": kl}
        for size in sizes
        for name, draws in values.items()
        for seed, kl in enumerate(draws)
    ]
    return Study("n_frequencies", pd.DataFrame(rows), 20, 10, {})


def pair(study, a, b, *chosen):
    """The row of `paired` of two couplings."""
    found = study.paired(*chosen)
    return found[(found.a == a) & (found.b == b)].iloc[0]


def test_draws_are_the_model_drawn_again(model, study):
    """Each is the comparison of a model of that coupling, size and seed with the exact one."""
    hyper = model.process_.hyperparameters
    draws = study.to_frame().set_index(["coupling", "size", "seed"]).sort_index()
    assert list(draws.loc["halton", 12].index) == [7, 8, 9, 10, 11]
    other = cgp.SparseSpectrumGPRegressor(
        n_frequencies=12, coupling="halton", lengthscale=hyper.lengthscale, optimizer=None,
        outputscale=hyper.outputscale, noise=hyper.noise, random_state=9,
    ).fit(X[:60], Y[:60])  # fmt: skip
    points = model.points(X[60:])
    exact = law_of_process(model.process_.exact(), points)
    law = law_of_process(other.process_, points)
    row = draws.loc["halton", 12, 9]
    assert row.kl_per_point == pytest.approx(kl_per_point(exact, law), rel=1e-6)
    mean, std = other.predict(X[60:], return_std=True)
    assert row.rmse == pytest.approx(np.sqrt(np.mean((Y[60:] - mean) ** 2)), rel=1e-6)
    assert row.nlpd == pytest.approx(-stats.norm.logpdf(Y[60:], mean, std).mean(), rel=1e-6)
    twin = model.exact_twin().predict(X[60:])
    assert study.exact["rmse"] == pytest.approx(np.sqrt(np.mean((Y[60:] - twin) ** 2)))
    assert (study.n_train, study.n_test) == (60, 30)


def test_a_seed_means_the_same_draw_whatever_stands_beside_it(model, study):
    """Pairs are real: neither other couplings nor their order change a draw."""
    asked = ASKED | {"couplings": ["halton", "iid"], "sizes": [12]}
    other = cgp.coupling_study(model, X[60:], Y[60:], random_state=7, **asked).to_frame()
    whole = study.to_frame().merge(other, on=["coupling", "size", "seed"])
    assert len(whole) == 10
    np.testing.assert_array_equal(whole.kl_per_point_x, whole.kl_per_point_y)


def test_defaults_are_the_searchs_couplings_and_sizes_about_the_models_own(model):
    found = cgp.coupling_study(model, X[60:], n_draws=2)
    assert found.sizes == [2, 8, 32]
    assert set(found.couplings) == set(model.candidate_couplings)


@pytest.mark.parametrize("figure", FIGURES)
def test_paired_tests_are_those_of_scipy(study, figure):
    draws = study.to_frame()
    at = draws[draws["size"] == 12].pivot_table(figure, "seed", "coupling")
    found = pair(study, "iid", "halton", figure)
    assert found.difference == pytest.approx((at.iid - at.halton).mean())
    assert found.error == pytest.approx(stats.sem(at.iid - at.halton))
    assert found.p_t == pytest.approx(stats.ttest_rel(at.iid, at.halton).pvalue)
    assert found.p_wilcoxon == pytest.approx(stats.wilcoxon(at.iid, at.halton).pvalue)
    assert found.ratio == pytest.approx(at.iid.mean() / at.halton.mean())
    assert found.correlation == pytest.approx(np.corrcoef(at.iid, at.halton)[0, 1])
    assert pair(study, "iid", "halton", figure, 4).difference != found.difference


def test_all_pairs_are_corrected_together(study):
    found = study.paired()
    p = np.sort(found.p_t)
    by_hand = np.maximum.accumulate([min(3 * p[0], 1), min(2 * p[1], 1), p[2]])
    assert np.sort(found.p_t_holm) == pytest.approx(by_hand)


def test_holm():
    """The example of the original article's method, by hand."""
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03, 0.005]), [0.03, 0.06, 0.06, 0.02])
    np.testing.assert_allclose(holm([0.9, 0.8]), [1.0, 1.0])
    np.testing.assert_allclose(holm([0.2]), [0.2])


@pytest.mark.long
def test_false_alarms_of_equal_couplings_are_rare(seed):
    """Of 300 studies of four equal couplings at most 5 % name any pair, but for chance."""
    rng, alarms = np.random.default_rng(seed), 0
    for _ in range(300):
        shared = rng.normal(size=8)
        study = made({name: 5 + shared + rng.normal(size=8) for name in "abcd"})
        alarms += bool((study.paired().p_t_holm < 0.05).any())
    assert alarms < 300 * 0.05 + 5 * np.sqrt(300 * 0.05 * 0.95)


def test_the_verdict_uses_pairs_at_every_size():
    """Draws that move together are separated though their means overlap, others are not."""
    wide = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    shifted = wide + 0.1 + 0.01 * np.array([1, -1, 1, -1, 1, -1])
    together = made({"near": wide, "far": shifted}, sizes=(8, 16))
    assert together.separated() == {"near": False, "far": True}
    small, large = together.verdict().splitlines()
    assert small.startswith("With n_frequencies=8 near is closest")
    assert large.startswith("With n_frequencies=16 near is closest")
    assert "far is 1.0 times as far" in large
    apart = made({"near": wide, "far": shifted[::-1]})
    assert "separate no two couplings" in apart.verdict()
    three = made({"near": wide, "same": wide[::-1], "far": 40 + wide})
    assert "not separated from same" in three.verdict()


def test_rounding_is_not_ranked():
    study = made({"a": 1e-12 * np.arange(1, 5), "b": 1e-13 * np.arange(1, 5)})
    assert "nothing to rank" in study.verdict()
    assert study.separated() == {"a": False, "b": False}


def test_equal_and_constant_draws_have_p_values():
    """Deterministic couplings do not vary, and equal ones do not differ."""
    study = made({"a": [1.0] * 4, "b": [1.0] * 4, "c": [2.0] * 4, "d": [1.0, 1.5, 0.5, 1.0]})
    assert pair(study, "a", "b").p_t == pair(study, "a", "b").p_wilcoxon == 1.0
    assert pair(study, "a", "c").p_t == 0.0
    assert np.isnan(pair(study, "a", "d").correlation)
    assert pair(study, "a", "d").p_t == 1.0
    assert 0 < pair(study, "c", "d").p_wilcoxon < 1


def test_frames(model, study):
    frame = study.to_frame()
    assert list(frame.columns) == ["coupling", "size", "seed", *FIGURES]
    assert len(frame) == 3 * 2 * 5
    summary = study.summary().set_index(["coupling", "size"])
    grouped = frame.groupby(["coupling", "size"])["nlpd"]
    for key, mean in grouped.mean().items():
        assert summary.loc[key, "nlpd"] == pytest.approx(mean)
        assert summary.loc[key, "nlpd_error"] == pytest.approx(grouped.sem()[key])
        assert summary.loc[key, "n_draws"] == 5
    alone = cgp.coupling_study(model, X[60:], **ASKED | {"sizes": [4]})
    assert list(alone.to_frame().columns) == ["coupling", "size", "seed", "kl_per_point"]
    with pytest.raises(InvalidInputError, match="figure: expected one of 'kl_per_point'"):
        alone.paired("rmse")


def test_latex_is_bold_where_the_tests_separate(study, tmp_path):
    far, near = 3 + np.arange(6) / 10, 1 + np.arange(6) / 10
    text = made({"far": far, "near": near, "same": near[::-1] + 0.01}).to_latex(caption="Ours")
    assert r"\caption{Ours}" in text
    assert r"\label" not in text
    assert r"far & $3.250 \pm 0.076$" in text
    assert r"near & $\mathbf{1.250} \pm 0.076$" in text
    assert r"same & $\mathbf{1.260} \pm 0.076$" in text
    assert r"\mathbf" not in made({"near": near, "same": near[::-1] + 0.01}).to_latex()
    tiny = made({"a": 1e-7 * near, "b_c": 1e-7 * far}).to_latex()
    assert r"$\mathbf{1.25 \cdot 10^{-7}} \pm 7.6 \cdot 10^{-9}$" in tiny
    assert r"b\_c &" in tiny
    text = study.to_latex(tmp_path / "t.tex", figures=["kl_per_point", "rmse"], label="tab:one")
    assert (tmp_path / "t.tex").read_text(encoding="utf-8") == text
    body = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert len(body) == 2 + 3 + 1  # two of heads, three couplings, the exact process
    assert r"\begin{tabular}{lcccc}" in text
    assert r"\label{tab:one}" in text
    assert r"n\_frequencies & $4$ & $12$" in text
    assert text.count("{") == text.count("}")


def test_the_page_has_the_means_and_fetches_nothing(study, tmp_path):
    assert study.to_html(tmp_path / "s.html") == tmp_path / "s.html"
    page = (tmp_path / "s.html").read_text(encoding="utf-8")
    assert len(page) < 300_000
    assert "<script" not in page
    assert not re.search(r'(?:src|href)="(?!#|data:)', page)
    for line in study.verdict().splitlines():
        assert line in page
    cells = re.findall(r"<td>([^<]*)</td>", page)
    for mean, error in study.summary()[["kl_per_point", "kl_per_point_error"]].to_numpy():
        shown = [re.sub(r"[\s ]", "", cell).split("±") for cell in cells if "±" in cell]
        near = [float(one) for one, _ in shown if "·" not in one and "−" not in one]
        assert min(abs(value - mean) for value in near) < error / 10


def test_pictures_show_the_means(study):
    axes = study.plot("rmse")
    drawn = np.concatenate([line.get_ydata() for line in axes.get_lines()])
    for mean in study.summary().rmse:
        assert mean in drawn
    assert study.exact["rmse"] in drawn
    with pytest.raises(InvalidInputError, match="figure: expected one of"):
        study.plot("kl")


class Upward(FrequencyCoupling):
    """Frequencies in one quadrant: no coupling of those of a kernel."""

    def _sample(self, n_frequencies, dim, spectrum, rng):
        return abs(parse_coupling("iid").sample(n_frequencies, dim, spectrum, rng))

    def __str__(self):
        return "upward"


def test_wrong_marginals_are_named(model, study):
    assert study.warnings == ()
    found = cgp.coupling_study(model, X[60:], couplings=["iid", Upward()], sizes=[4], n_draws=2)
    (warning,) = found.warnings
    assert "Upward" in warning or "upward" in warning
    assert "marginals are not those of independent draws" in warning
    assert found.verdict().startswith(warning)
    graph = cgp.Graph.from_edges(np.arange(79), np.arange(1, 80))
    nodes = np.arange(0, 80, 2)
    gp = cgp.GraphGPRegressor(graph, "heat", n_walks=4, exact_hops=0, random_state=0)
    gp.fit(nodes, np.sin(nodes / 9))

    class Together(StratifiedLengths):
        def sample(self, law, max_length, uniforms):
            return np.zeros_like(super().sample(law, max_length, uniforms))

    asked = {"couplings": ["sigma", WalkerCoupling(Together())], "sizes": [4], "n_draws": 2}
    walked = cgp.coupling_study(gp, nodes + 1, **asked)
    assert len(walked.warnings) == 1


def test_solves_give_the_dense_study(model, study):
    options = StochasticOptions()
    solved = cgp.coupling_study(model, X[60:], Y[60:], random_state=7, exact=options, **ASKED)
    np.testing.assert_allclose(solved.draws[FIGURES], study.draws[FIGURES], rtol=1e-3, atol=1e-5)
    few = StochasticOptions(n_columns=12)
    asked = ASKED | {"sizes": [4]}
    chosen = np.sort(np.random.default_rng(few.seed).choice(30, 12, replace=False)) + 60
    part = cgp.coupling_study(model, X[60:], Y[60:], exact=few, **asked)
    alone = cgp.coupling_study(model, X[chosen], Y[chosen], exact=few, **asked)
    assert part.n_test == 12
    np.testing.assert_allclose(part.draws[FIGURES], alone.draws[FIGURES], rtol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"couplings": "iid", "sizes": [4]}, "couplings: expected a list"),
        ({"couplings": [], "sizes": [4]}, "couplings: expected a list"),
        ({"couplings": ["nothing"], "sizes": [4]}, "couplings"),
        ({"couplings": ["iid"], "sizes": []}, "sizes: expected"),
        ({"couplings": ["iid"], "sizes": [0]}, "sizes"),
        ({"couplings": ["iid"], "sizes": [4], "n_draws": 1}, "n_draws"),
        ({"couplings": ["iid"], "exact": "solves"}, "exact: expected one of"),
    ],
)
def test_bad_arguments(model, arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        cgp.coupling_study(model, X[60:], **arguments)


def test_bad_figures_and_sizes(study):
    with pytest.raises(InvalidInputError, match="figure: expected one of"):
        study.paired("kl")
    with pytest.raises(InvalidInputError, match="size: expected one of"):
        study.paired("rmse", 5)
    with pytest.raises(InvalidInputError, match="figures: expected one of"):
        study.to_latex(figures=["kl"])
    assert str(replace(study, cannot_gain="")) == study.verdict().removesuffix(
        f"\n{study.cannot_gain}"
    )
