"""A study of couplings as a paper uses it: draws, paired tests, tables and figures."""

from __future__ import annotations

import csv
import io
import json
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import coupledgp as cgp
from coupledgp.diagnostics.studies.pairs import Draw, MeanOverDraws, StudyRow, holm
from coupledgp.diagnostics.studies.study import CouplingStudy
from coupledgp.diagnostics.studies.tables import escaped
from coupledgp.errors import InvalidInputError, MissingLibraryError

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


def made(values, size=8, scores=False):
    """A study of the given divergences of each coupling."""
    rows = []
    for name, draws in values.items():
        figures = [(kl, *(kl, -kl) * scores) for kl in draws]
        rows.append(StudyRow.of(name, size, [Draw(k, *one) for k, one in enumerate(figures)]))
    reference = (0.5, -0.5) if scores else (None, None)
    return CouplingStudy("n_frequencies", tuple(rows), 20, 10, *reference)


def test_draws_are_the_model_drawn_again(model, study):
    """Each is the comparison of a model of that coupling, size and seed with the exact one."""
    hyper = model.process_.hyperparameters
    row = study.of("halton")[1]
    assert [draw.seed for draw in row.draws] == [7, 8, 9, 10, 11]
    other = cgp.SparseSpectrumGPRegressor(
        n_frequencies=12, coupling="halton", lengthscale=hyper.lengthscale, optimizer=None,
        outputscale=hyper.outputscale, noise=hyper.noise, random_state=9,
    ).fit(X[:60], Y[:60])  # fmt: skip
    report = cgp.diagnostics.compare(other, X[60:], Y[60:])
    for name in FIGURES:
        assert getattr(row.draws[2], name) == pytest.approx(getattr(report, name), rel=1e-6)
    assert row.rmse.mean == pytest.approx(np.mean([draw.rmse for draw in row.draws]))


def test_a_seed_means_the_same_draw_whatever_stands_beside_it(model, study):
    """Pairs are real: neither other couplings nor their order change a draw."""
    asked = ASKED | {"couplings": ["halton", "iid"], "sizes": [12]}
    other = cgp.coupling_study(model, X[60:], Y[60:], random_state=7, **asked)
    for name in ("iid", "halton"):
        assert other.of(name)[0].draws == study.of(name)[1].draws


@pytest.mark.parametrize("figure", FIGURES)
def test_paired_tests_are_those_of_scipy(study, figure):
    a, b = (np.array([getattr(d, figure) for d in study.of(c)[1].draws]) for c in ("iid", "halton"))
    found = study.paired("iid", "halton", figure)
    assert found.mean_difference == pytest.approx((a - b).mean())
    assert found.standard_error == pytest.approx(stats.sem(a - b))
    assert found.p_t == pytest.approx(stats.ttest_rel(a, b).pvalue)
    assert found.p_wilcoxon == pytest.approx(stats.wilcoxon(a, b).pvalue)
    assert found.ratio == pytest.approx(a.mean() / b.mean())
    assert found.correlation == pytest.approx(np.corrcoef(a, b)[0, 1])
    turned = study.paired("halton", "iid", figure)
    assert turned.mean_difference == pytest.approx(-found.mean_difference)
    assert turned.p_t_holm == pytest.approx(found.p_t_holm)
    small = study.paired("iid", "halton", figure, size=4)
    assert small.size == 4
    assert small.mean_difference != found.mean_difference


def test_all_pairs_are_corrected_together(study):
    found = study.comparisons()
    assert {(one.a, one.b) for one in found} == {
        ("iid", "orthogonal"), ("iid", "halton"), ("orthogonal", "halton"),
    }  # fmt: skip
    p = np.sort([one.p_t for one in found])
    by_hand = np.maximum.accumulate([min(3 * p[0], 1), min(2 * p[1], 1), p[2]])
    assert np.sort([one.p_t_holm for one in found]) == pytest.approx(by_hand)
    one = next(o for o in found if (o.a, o.b) == ("iid", "halton"))
    assert study.paired("iid", "halton") == one


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
        alarms += any(one.is_clear for one in study.comparisons())
    assert alarms < 300 * 0.05 + 5 * np.sqrt(300 * 0.05 * 0.95)


def test_the_verdict_uses_pairs():
    """Draws that move together are told apart though their means overlap, others are not."""
    wide = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    shifted = wide + 0.1 + 0.01 * np.array([1, -1, 1, -1, 1, -1])
    together = made({"near": wide, "far": shifted})
    assert "Not distinguishable" not in together.verdict()
    assert "far is 1 times as far" in together.verdict()
    apart = made({"near": wide, "far": shifted[::-1]})
    assert "Not distinguishable from it: far." in apart.verdict()


@pytest.mark.parametrize(("gap", "told"), [(0.99, False), (1.01, True)])
def test_without_draws_means_are_told_apart_by_the_joint_error(gap, told):
    """Two errors of the difference, `(a^2 + b^2)^1/2`: ten for errors of three and four."""
    means = {"near": MeanOverDraws(20.0, 3.0), "far": MeanOverDraws(20.0 + 10 * gap, 4.0)}
    rows = tuple(StudyRow(name, 8, 6, mean, None, None) for name, mean in means.items())
    study = CouplingStudy("n_frequencies", rows, 20, 10, None, None)
    assert ("Not distinguishable from it: far." in study.verdict()) is not told


def test_equal_and_constant_draws_have_p_values():
    """Deterministic couplings do not vary, and equal ones do not differ."""
    study = made({"a": [1.0] * 4, "b": [1.0] * 4, "c": [2.0] * 4, "d": [1.0, 1.5, 0.5, 1.0]})
    assert study.paired("a", "b").p_t == study.paired("a", "b").p_wilcoxon == 1.0
    assert study.paired("a", "c").p_t == 0.0
    assert np.isnan(study.paired("a", "d").correlation)
    assert study.paired("a", "d").p_t == 1.0
    assert 0 < study.paired("c", "d").p_wilcoxon < 1


def test_frames(study):
    frame = study.to_frame()
    assert list(frame.columns) == ["coupling", "size", "seed", *FIGURES]
    assert len(frame) == 3 * 2 * 5
    summary = study.summary().set_index(["coupling", "size"])
    grouped = frame.groupby(["coupling", "size"])["nlpd"]
    for key, mean in grouped.mean().items():
        assert summary.loc[key, "nlpd"] == pytest.approx(mean)
        assert summary.loc[key, "nlpd_standard_error"] == pytest.approx(grouped.sem()[key])
        assert summary.loc[key, "n_draws"] == 5


def test_frames_without_targets_have_no_empty_columns(model):
    study = cgp.coupling_study(model, X[60:], **ASKED)
    assert list(study.to_frame().columns) == ["coupling", "size", "seed", "kl_per_point"]
    assert "rmse" not in study.summary()
    assert len(study.figure().axes) == 1
    with pytest.raises(InvalidInputError, match="figure: expected one of 'kl_per_point'"):
        study.comparisons("rmse")


def test_csv_keeps_every_digit(study, tmp_path):
    text = study.to_csv(tmp_path / "draws.csv")
    assert (tmp_path / "draws.csv").read_text(encoding="utf-8") == text
    frame = pd.read_csv(io.StringIO(text))
    pd.testing.assert_frame_equal(frame, study.to_frame(), check_exact=True)
    rows = list(csv.DictReader(io.StringIO(study.to_csv(summary=True))))
    assert float(rows[0]["kl_per_point"]) == study.rows[0].kl_per_point.mean


def test_pandas_is_asked_for_where_it_is_missing(study, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    for make in (study.to_frame, study.summary):
        with pytest.raises(MissingLibraryError, match="pip install pandas"):
            make()
    assert study.to_csv().startswith("coupling,size,seed")


def test_latex(study, tmp_path):
    text = study.to_latex(tmp_path / "t.tex", figures=["kl_per_point", "rmse"], label="tab:one")
    assert (tmp_path / "t.tex").read_text(encoding="utf-8") == text
    body = [line for line in text.splitlines() if line.endswith(r"\\")]
    assert len(body) == 2 + 3 + 1  # two of heads, three couplings, the exact GP
    assert all(line.count("&") == 4 for line in body[1:])
    assert r"\begin{tabular}{lcccc}" in text
    assert r"\cmidrule(lr){2-3} \cmidrule(lr){4-5}" in text
    assert r"\label{tab:one}" in text
    assert r"n\_frequencies & $4$ & $12$" in text
    assert text.count("{") == text.count("}")
    for command in ("toprule", "midrule", "bottomrule"):
        assert rf"\{command}" in text


def test_latex_sets_the_best_in_bold():
    far, near = 3 + np.arange(6) / 10, 1 + np.arange(6) / 10
    text = made({"far": far, "near": near, "same": near[::-1] + 0.01}).to_latex(caption="Ours")
    assert r"\caption{Ours}" in text
    assert r"\label" not in text
    assert r"far & $3.250 \pm 0.076$" in text
    assert r"near & $\mathbf{1.250} \pm 0.076$" in text
    assert r"same & $\mathbf{1.260} \pm 0.076$" in text
    tiny = made({"a": 1e-9 * near, "b": 1e-9 * far}).to_latex()
    assert r"$\mathbf{1.25 \cdot 10^{-9}} \pm 7.6 \cdot 10^{-11}$" in tiny


def test_latex_prints_every_name():
    assert escaped("a_b & c% #1 {x} ~^$") == (
        r"a\_b \& c\% \#1 \{x\} \textasciitilde{}\textasciicircum{}\$"
    )
    assert escaped("[1\\2]") == r"{[}1\textbackslash{}2{]}"


@pytest.mark.parametrize("ending", ["pdf", "png", "svg"])
@pytest.mark.long
def test_figures_are_files(study, ending, tmp_path):
    first, second = tmp_path / f"a.{ending}", tmp_path / f"b.{ending}"
    study.save_figure(first)
    study.save_figure(second)
    assert first.read_bytes() == second.read_bytes()
    starts = {"pdf": b"%PDF", "png": b"\x89PNG", "svg": b"<?xml"}
    assert first.read_bytes().startswith(starts[ending])


def test_figures_show_means_and_draws(study):
    figure = study.figure()
    assert len(figure.axes) == 3
    for axes, name in zip(figure.axes, FIGURES, strict=True):
        lines = {line.get_label(): line for line in axes.get_lines()}
        drawn = np.concatenate([line.get_ydata() for line in axes.get_lines()])
        for row in study.rows:
            assert row.mean_of(name).mean in drawn
            assert all(getattr(draw, name) in drawn for draw in row.draws)
        assert ("exact GP" in lines) == (name != "kl_per_point")
    assert len(study.figure(["rmse"]).axes) == 1


def test_bad_paths_and_figures(study, tmp_path):
    with pytest.raises(InvalidInputError, match=r"path: expected an ending of .pdf, .png, .svg"):
        study.save_figure(tmp_path / "a.jpg")
    with pytest.raises(InvalidInputError, match="figures: expected one of"):
        study.figure(["kl"])
    with pytest.raises(InvalidInputError, match="figures: expected one of"):
        study.to_latex(figures=["kl"])


def test_json_comes_back(study):
    values = json.loads(json.dumps(study.to_dict()))
    assert CouplingStudy.from_dict(values) == study
    for row in values["rows"]:
        del row["draws"]  # as files of older versions
    old = CouplingStudy.from_dict(values)
    assert old.rows[0] == replace(study.rows[0], draws=())
    assert old.verdict().startswith("With n_frequencies=12")
    assert r"\mathbf" in old.to_latex()
    with pytest.raises(InvalidInputError, match="draws: expected two or more of iid, 12"):
        old.comparisons()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("iid", "nothing"), "b: expected one of"),
        (("iid", "iid"), "b: expected another coupling"),
        (("iid", "halton", "kl"), "figure: expected one of"),
        (("iid", "halton", "rmse", 5), "size: expected one of"),
    ],
)
def test_bad_pairs(study, arguments, message):
    with pytest.raises(InvalidInputError, match=message):
        study.paired(*arguments)


def test_draws_of_other_seeds_are_no_pairs(study):
    other = tuple(replace(draw, seed=draw.seed + 1) for draw in study.rows[1].draws)
    rows = (study.rows[0], replace(study.rows[1], draws=other))
    with pytest.raises(InvalidInputError, match="draws: expected the seeds of iid"):
        replace(study, rows=rows).comparisons()
