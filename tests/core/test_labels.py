"""What texts, pages, files and the shell say of a model, held against the model."""

import json

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.cli import run
from coupledgp.core.transformed import untransformed
from coupledgp.couplings import PairwiseNorms, QuasiMonteCarlo, parse_coupling
from coupledgp.couplings.frequencies.registry import DirectionsAndNorms, available_couplings
from coupledgp.features.registry import Drawn
from coupledgp.ground.parameters import folded

RNG = np.random.default_rng(5)
X = RNG.normal(size=(220, 2))
Y = np.sin(X[:, 0]) + 0.5 * X[:, 1] + 0.3 * RNG.normal(size=220)
X_TEST, Y_TEST = X[:20] + 0.1, Y[:20]
KEPT = {"lengthscale": 1.5, "outputscale": 1.0, "noise": 0.1, "optimizer": None}
COUPLINGS = [text for text in available_couplings() if "copula" not in text]
SOME = ("iid", "halton", "orthogonal+pnc", "orthogonal-fast+pnc", "quadrature")


def fitted(**parameters):
    settings = {"n_frequencies": 36, "random_state": 0, "progress": False, **KEPT}
    return cgp.SparseSpectrumGPRegressor(
        **folded(cgp.SparseSpectrumGPRegressor, (settings | parameters))
    ).fit(X, Y)


def frequencies_of(gp):
    made = gp.process_.first.feature_map
    weights = None if made.weights is None else made.weights.numpy()
    return made.frequencies.numpy(), weights


@pytest.mark.parametrize("coupling", COUPLINGS)
@pytest.mark.filterwarnings("ignore:coupling")
def test_a_coupling_that_is_named_is_the_one_that_sampled(coupling):
    """The frequencies are those of the coupling at the model's seed, under its name everywhere."""
    gp = fitted(coupling=coupling)
    law, found = parse_coupling(coupling), gp.drawn_
    kept, weights = frequencies_of(gp)
    expected = law.sample(36, 2, "gaussian", np.random.default_rng(0))
    np.testing.assert_allclose(kept, expected, rtol=1e-12, atol=1e-14)
    assert (weights is None) == (found.weights == "equal")
    assert parse_coupling(found.coupling) == law
    assert (found.name, found.law, found.number) == (found.coupling, "kernel", 36)
    if isinstance(law, DirectionsAndNorms):
        assert (found.norms == "pnc") == isinstance(law.norms, PairwiseNorms)
    assert str(found) in gp.explain()
    assert str(found) in repr(gp.features_)


def test_only_what_is_not_named_is_chosen():
    """The default draws for the posterior here; naming its fallback, or sampling, does not."""
    auto, asked = fitted(), fitted(frequencies="posterior")
    for one in (auto, asked):
        frequencies, weights = frequencies_of(one)
        assert weights.max() > 1.5 * weights.mean()
        assert one.drawn_.name == "posterior"
        assert one.drawn_.coupling is None
    named, sampled = fitted(coupling="orthogonal+pnc"), fitted(frequencies="sampled")
    for one in (named, sampled):
        frequencies, weights = frequencies_of(one)
        assert weights is None
        np.testing.assert_array_equal(frequencies, frequencies_of(named)[0])
        assert one.drawn_.name == "orthogonal+pnc"


@pytest.mark.parametrize(
    ("parameters", "law", "weights"),
    [
        ({"hyperparameters": "averaged", "n_hyperparameter_draws": 4, "optimizer": "lbfgs",
          "noise": None, "fixed": ("lengthscale", "outputscale")}, "posterior", "importance"),
        ({"frequencies": "fitted", "teacher_rows": 20, "n_frequencies": 4}, "fitted", "fitted"),
        ({"features": "laplace", "coupling": "orthogonal+antithetic"}, "kernel", "equal"),
        ({"features": "importance-laplace"}, "rows", "importance"),
        ({"kernel": "matern-3/2", "n_frequencies": 20}, "kernel", "equal"),
        ({"dtype": "float32"}, "posterior", "importance"),
        ({"target_transform": "yeo-johnson"}, "posterior", "importance"),
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_options_are_told(parameters, law, weights):
    gp = fitted(**parameters)
    found, made = gp.drawn_, gp.features_
    assert (found.law, found.weights) == (law, weights)
    assert found.number == made.n_frequencies == len(made.frequencies)
    assert found.kernel == str(made.spectrum) == parameters.get("kernel", "gaussian")
    assert found.features == parameters.get("features", "fourier")
    assert str(found) in gp.explain()
    assert law in ("kernel", "rows") or found.name == law
    moved = made.weights is not None and law == "fitted"
    assert untransformed(gp.process_).first.feature_prior.is_fitted == moved


@pytest.mark.parametrize("parameters", [{}, {"coupling": SOME[0]}])
def test_files_keep_the_draw(parameters, tmp_path):
    gp = fitted(**parameters)
    gp.save(tmp_path / "one.model", include_data=True)
    assert cgp.load_model(tmp_path / "one.model").drawn_ == gp.drawn_


def test_rows_of_a_study_are_what_they_are_called():
    """Each draw is the model that has the row's name as its parameter, at its seed."""
    gp = fitted(frequencies="sampled")
    names = ["iid", "orthogonal+pnc", "halton", "posterior"]
    study = cgp.coupling_study(
        gp, X_TEST, couplings=names, sizes=[36], n_draws=2, random_state=4, progress=False
    )
    assert study.couplings == names
    for row in study.draws.itertuples():
        other = gp.process_.redrawn(row.coupling, 36, row.seed)
        assert Drawn.of(other.feature_map).name == row.coupling
        if row.coupling == "posterior":
            continue
        own = fitted(coupling=row.coupling, random_state=row.seed)
        found = cgp.report(own, X_TEST, progress=False)
        assert row.kl_per_point == pytest.approx(found.score("kl"), rel=1e-6)


@pytest.mark.parametrize("name", ["iid", "orthogonal+pnc", "posterior"])
def test_what_select_returns_is_what_it_tried(name):
    model = cgp.SparseSpectrumGPRegressor(
        **folded(cgp.SparseSpectrumGPRegressor, dict(random_state=0, progress=False, **KEPT))
    )
    found = cgp.select(model, X, Y, couplings=[name], sizes=[36], n_draws=2, progress=False)
    assert found.coupling == name
    gp = found.estimator.fit(X, Y)
    assert (gp.drawn_.name, gp.drawn_.number) == (name, 36)
    assert f"{name!r}, n_frequencies=36" in found.explain()


@pytest.mark.parametrize(
    "parameters", [{"n_frequencies": "auto"}, {"coupling": "auto"}, {"coupling": "halton"}]
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_choice_names_the_model_that_is_used(parameters):
    gp = fitted(**({"n_frequencies": 36, "kl_target": 0.02} | parameters))
    assert str(gp.drawn_) in gp.explain()
    if "auto" not in parameters.values():
        return
    choice = gp.selection_
    used = choice.prediction.default if (p := choice.prediction) and p.is_worse else None
    if used is None:
        assert gp.drawn_.name == choice.coupling
        used = choice.prediction.chosen if choice.prediction else str(gp.drawn_)
    assert used == str(gp.drawn_)


@pytest.mark.long
def test_walkers_that_carry_nothing_are_not_ranked():
    graph = cgp.Graph.from_edges(np.arange(12), (np.arange(12) + 1) % 12)
    y = np.sin(np.arange(9.0))
    exact, walked = (
        cgp.GraphGPRegressor(
            graph,
            "heat",
            **folded(
                cgp.GraphGPRegressor, dict(method="walks", optimizer=None, random_state=0, **one)
            ),
        ).fit(np.arange(9), y)
        for one in ({"exact_hops": 60}, {"exact_hops": 0})
    )
    names = {"couplings": ["iid", "sigma"], "sizes": [8], "n_draws": 2, "progress": False}
    study = cgp.coupling_study(exact, [9, 10, 11], **names)
    assert study.summary().kl_per_point.max() < 1e-10
    assert "nothing to rank" in study.verdict()
    assert "closest" not in study.verdict()
    assert "nothing to rank" not in cgp.coupling_study(walked, [9, 10, 11], **names).verdict()


@pytest.mark.parametrize(
    ("options", "parameters"),
    [
        ([], {}),
        (["--set", "coupling=orthogonal+pnc"], {"coupling": "orthogonal+pnc"}),
        (["--set", "coupling=halton"], {"coupling": "halton"}),
        (["--set", "frequencies=posterior"], {"frequencies": "posterior"}),
    ],
)
def test_the_shell_tells_the_model_that_python_fits(options, parameters, tmp_path, capsys):
    path = tmp_path / "table.csv"
    rows = np.column_stack([X, Y])
    np.savetxt(path, rows, delimiter=",", header="a,b,y", comments="")
    command = ["fit", str(path), "--target", "y", "--holdout", "0", "--model", "sparse-spectrum",
               "--set", "n_frequencies=36", "--set", "max_iter=2", "--set", "n_restarts=0",
               *options]  # fmt: skip
    assert run([*command, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["model"]["explanation"]
    gp = cgp.SparseSpectrumGPRegressor(
        **folded(
            cgp.SparseSpectrumGPRegressor,
            dict(
                n_frequencies=36,
                options={"max_iter": 2, "n_restarts": 0},
                random_state=0,
                **parameters,
            ),
        )
    )
    found = gp.fit(X, Y).drawn_
    assert str(found) in " ".join(told)


def test_an_object_has_its_text():
    assert Drawn.of(fitted(coupling=QuasiMonteCarlo("sobol")).features_).name == "sobol"
