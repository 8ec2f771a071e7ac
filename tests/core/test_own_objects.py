"""Objects of a user's own, with a name and without, in every model, choice, study and file."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import coupledgp as cgp
from coupledgp.couplings import (
    Directions,
    DirectionsAndNorms,
    FrequencyCoupling,
    GeometricLaw,
    IndependentSteps,
    LengthLaw,
    Lengths,
    OrthogonalDirections,
    SigmaLengths,
    StratifiedLengths,
    WalkerCoupling,
    register_coupling,
    register_directions,
    register_length_law,
    register_lengths,
    register_steps,
)
from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.features import (
    AngularHybridFeatures,
    FeatureMap,
    FourierFeatures,
    LaplaceFeatures,
    register_features,
)
from coupledgp.features.registry import FEATURE_MAPS
from coupledgp.ground.parameters import folded
from coupledgp.kernels import HeatKernel, register_graph_kernel
from coupledgp.kernels.graph_families import GRAPH_KERNELS
from coupledgp.random import as_rng
from coupledgp.spectra import GaussianSpectrum, register_spectrum
from coupledgp.testing import FeatureMapContract
from tests.graph_cases import karate
from tests.registries import REGISTRIES, forgotten

RNG = np.random.default_rng(3)
X = RNG.normal(size=(40, 2))
Y = np.sin(X).sum(axis=1) + 0.1 * RNG.normal(size=40)
X_TEST = RNG.normal(size=(7, 2))
GRAPH = karate()
NODES = np.arange(0, 34, 2)
Y_NODES = np.sin(NODES / 5)


@dataclass(frozen=True)
class Turned(OrthogonalDirections):
    """Directions of the opposite sign."""

    def sample(self, norms: np.ndarray, dim: int, rng: np.random.Generator) -> np.ndarray:
        return -super().sample(norms, dim, rng)


class Whole(FrequencyCoupling):
    """A coupling without an equality or a text of its own."""

    def _sample(self, n_frequencies, dim, spectrum, rng):  # type: ignore[no-untyped-def]
        return -DirectionsAndNorms(Turned()).sample(n_frequencies, dim, spectrum, rng)


class PhaseFeatures(FeatureMap):
    """`sqrt(2/m) cos(w . x + b)`, b uniform, which has a tensor of its own."""

    couplings_to_try = ("iid", "orthogonal")

    def __init__(self, *args: Any, generator: Any = None, **options: Any) -> None:
        rng = as_rng(generator)
        super().__init__(*args, generator=rng, **options)
        phases = torch.as_tensor(rng.uniform(0, 2 * np.pi, self.n_frequencies))
        self.phases = phases.to(self.frequencies)

    @property
    def n_features(self) -> int:
        return self.n_frequencies

    def _features(self, inputs: Tensor) -> Tensor:
        return 2**0.5 * self.amplitudes * (self.project(inputs) + self.phases).cos()


@dataclass(frozen=True, eq=False)
class Slower(HeatKernel):
    """The heat kernel of half the time."""

    def root(self, x: np.ndarray) -> np.ndarray:
        return HeatKernel(self.time / 2).root(x)

    def root_gradient(self, x: np.ndarray) -> np.ndarray:
        return HeatKernel(self.time / 2).root_gradient(x)

    def modulation(self, n_terms: int) -> np.ndarray:
        return HeatKernel(self.time / 2).modulation(n_terms)

    def modulation_gradient(self, n_terms: int) -> np.ndarray:
        return HeatKernel(self.time / 2).modulation_gradient(n_terms)

    def tail(self, n_terms: int) -> float:
        return HeatKernel(self.time / 2).tail(n_terms)


class Spread(StratifiedLengths):
    """Lengths without an equality of their own."""


class Idle(IndependentSteps):
    """Steps without an equality of their own."""


@pytest.fixture(autouse=True)
def _registries() -> Iterator[None]:
    with forgotten(*REGISTRIES):
        yield


def table_model(**changes: Any) -> Any:
    options = {"n_frequencies": 8, "optimizer": None, "random_state": 0, "progress": False}
    return cgp.SparseSpectrumGPRegressor(
        **folded(cgp.SparseSpectrumGPRegressor, {**options, **changes})
    )


def graph_model(**changes: Any) -> Any:
    options = {
        "n_walks": 8, "kernel": "heat", "optimizer": None, "random_state": 0, "exact_hops": 0,
        "progress": False,
    }  # fmt: skip
    return cgp.GraphGPRegressor(GRAPH, **folded(cgp.GraphGPRegressor, {**options, **changes}))


class TestPhaseFeatures(FeatureMapContract):
    feature_map = PhaseFeatures


class TestCouplings:
    @pytest.mark.parametrize(
        "coupling", [DirectionsAndNorms(Turned()), Whole()], ids=["directions", "whole"]
    )
    def test_objects_are_chosen_and_studied(self, coupling: FrequencyCoupling) -> None:
        fitted = table_model(coupling=coupling).fit(X, Y)
        assert fitted.features_.coupling is coupling
        auto = table_model(coupling=coupling, n_frequencies="auto", kl_target=0.5).fit(X, Y)
        assert auto.features_.coupling is coupling
        assert auto.get_params()["coupling"] is coupling
        study = cgp.coupling_study(
            fitted, X_TEST, couplings=[coupling, "iid", coupling], sizes=[4], n_draws=2
        )
        assert len(study.couplings) == 2
        assert study.couplings[1] == "iid"

    def test_names_are_chosen_and_studied(self) -> None:
        register_directions("turned", Turned)
        register_coupling("whole", Whole)
        for name in ("turned+pnc", "whole"):
            auto = table_model(coupling=name, n_frequencies="auto", kl_target=0.5).fit(X, Y)
            assert auto.selection_.coupling == name
            assert auto.selection_.estimator.coupling == name
        study = cgp.coupling_study(auto, X_TEST, couplings=["whole", "turned"], sizes=[4])
        assert study.couplings == ["whole", "turned"]

    def test_the_object_is_fitted_and_not_its_text(self) -> None:
        ten = WalkerCoupling(SigmaLengths(order=10))
        for n_walks in (8, "auto"):
            model = graph_model(n_walks=n_walks, coupling=ten, kl_target=0.5).fit(NODES, Y_NODES)
            assert model.process_.recipe.coupling == ten
        assert model.selection_.coupling == str(ten)
        assert model.coupling is ten

    def test_objects_of_one_description_are_two(self) -> None:

        @dataclass(frozen=True)
        class Numbered(StratifiedLengths):
            number: int = 0

            def __str__(self) -> str:
                return "numbered"

        couplings = [WalkerCoupling(Numbered(number)) for number in (1, 2)]
        assert str(couplings[0]) == str(couplings[1])
        fitted = graph_model().fit(NODES, Y_NODES)
        study = cgp.coupling_study(fitted, [1, 3], couplings=couplings, sizes=[2], n_draws=2)
        first, second = study.couplings
        assert second == f"{first} (2)"

    @pytest.mark.parametrize("couplings", ["iid", []])
    def test_lists_are_needed(self, couplings: Any) -> None:
        for compare in (
            lambda: cgp.select(table_model(), X, Y, couplings=couplings),
            lambda: cgp.coupling_study(
                table_model().fit(X, Y), X_TEST, couplings=couplings, sizes=[4]
            ),
        ):
            with pytest.raises(InvalidInputError, match="couplings: expected a list of texts or"):
                compare()


class TestFeatures:
    @pytest.mark.parametrize("name", ["fourier", "laplace"])
    def test_a_class_is_its_name(self, name: str) -> None:
        kind = FEATURE_MAPS[name]
        named, given, made = (
            table_model(features=features, coupling="orthogonal+antithetic", optimizer="lbfgs")
            .fit(X, Y)
            .predict(X_TEST)
            for features in (name, kind, lambda *args, **options: kind(*args, **options))
        )
        np.testing.assert_array_equal(named, given)
        if name == "fourier":  # of a function's map the defaults of estimators are not known
            np.testing.assert_array_equal(named, made)

    def test_class_attributes_decide_the_defaults(self) -> None:
        class Ruled(LaplaceFeatures):
            pass

        class Free(LaplaceFeatures):
            lengthscale_by_rule = False

        laplace, ruled, free = (
            table_model(features=kind, coupling="iid", optimizer="lbfgs").fit(X, Y)
            for kind in ("laplace", Ruled, Free)
        )
        np.testing.assert_array_equal(ruled.lengthscale_, laplace.lengthscale_)
        assert (free.lengthscale_ != laplace.lengthscale_).all()

    def test_names_are_chosen_and_compared(self) -> None:
        register_features("phase", PhaseFeatures)
        auto = table_model(features="phase", coupling="auto", n_frequencies=30, kl_target=1.0)
        auto.fit(X, Y)
        assert {trial.coupling for trial in auto.selection_.trials} == {"iid", "orthogonal"}
        assert type(auto.features_) is PhaseFeatures
        study = cgp.coupling_study(auto, X_TEST, couplings=["iid"], sizes=[4], n_draws=2)
        assert np.isfinite(study.draws.kl_per_point).all()

    def test_names_serve_losses_and_coefficients(self) -> None:
        register_features("phase", PhaseFeatures)
        loss = cgp.gram_loss(X, "phase")(torch.as_tensor(RNG.normal(size=(5, 2))))
        assert loss > 0
        hybrid = cgp.features.GaussianHybridFeatures(2, 3, coefficient_features="phase")
        assert torch.isfinite(hybrid.queries(X)).all()
        with pytest.raises(
            InvalidInputError, match="features: expected features whose errors have"
        ):
            cgp.theory.expected_mse("phase", "iid", 3, X[0], X[1])
        with pytest.raises(InvalidInputError, match="AngularHybridFeatures: the Gram matrix"):
            table_model(features=AngularHybridFeatures).fit(X, Y)

    def test_theory_knows_features_by_the_sign_of_their_products(self) -> None:
        class Own(FourierFeatures):
            pass

        register_features("own", Own)
        expected = cgp.theory.expected_mse("fourier", "iid", 3, X[0], X[1])
        assert cgp.theory.expected_mse("own", "iid", 3, X[0], X[1]) == expected

    @pytest.mark.parametrize(
        ("features", "message"),
        [
            ("forier", r"features: expected one of .*\(did you mean 'fourier'\?\)"),
            (3, "features: expected a name such as 'fourier' or a subclass of FeatureMap or a"),
            (FourierFeatures(2, 3), "features: expected a name such as .*, got FourierFeatures"),
            (AngularHybridFeatures, "features: AngularHybridFeatures: the Gram matrix"),
            (lambda *_, **__: 3, "features: expected a function that makes a FeatureMap, got one"),
        ],
    )
    def test_other_features_are_refused(self, features: Any, message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            table_model(features=features).fit(X, Y)

    @pytest.mark.long
    def test_spectra_are_fitted_for_fourier_features_themselves(self) -> None:
        class Own(FourierFeatures):
            pass

        with pytest.raises(
            InvalidInputError, match="frequencies: only those of features='fourier'"
        ):
            table_model(features=Own, frequencies="fitted").fit(X, Y)
        named, given = (
            table_model(features=features, frequencies="fitted", teacher_rows=12)
            .fit(X, Y)
            .predict(X_TEST)
            for features in ("fourier", FourierFeatures)
        )
        np.testing.assert_array_equal(named, given)


class TestFiles:
    def again(self, model: Any, folder: Path) -> Any:
        model.save(folder / "model", include_data=True)
        return cgp.load_model(folder / "model")

    @pytest.mark.parametrize("features", ["phase", PhaseFeatures])
    def test_feature_maps_with_buffers_of_their_own(self, features: Any, tmp_path: Path) -> None:
        if features is PhaseFeatures:
            with pytest.raises(InvalidInputError, match="features: expected an object with a text"):
                table_model(features=features).fit(X, Y).save(tmp_path / "model")
        register_features("phase", PhaseFeatures)
        model = table_model(features=features).fit(X, Y)
        loaded = self.again(model, tmp_path)
        assert type(loaded.features_) is PhaseFeatures
        assert loaded.features == "phase"
        for options in ({"return_std": True}, {"return_cov": True}):
            for one, other in zip(
                loaded.predict(X_TEST, **options), model.predict(X_TEST, **options), strict=True
            ):
                np.testing.assert_array_equal(one, other)
        np.testing.assert_array_equal(
            loaded.partial_fit(X_TEST, X_TEST[:, 0]).predict(X),
            model.partial_fit(X_TEST, X_TEST[:, 0]).predict(X),
        )

    def test_functions_are_saved_by_their_name(self, tmp_path: Path) -> None:
        def make(*args: Any, **options: Any) -> FourierFeatures:
            return FourierFeatures(*args, **options)

        register_features("made", make)
        model = table_model(features="made").fit(X, Y)
        loaded = self.again(model, tmp_path)
        assert loaded.features_.maker is make
        np.testing.assert_array_equal(loaded.predict(X_TEST), model.predict(X_TEST))
        redrawn = model.process_.redrawn("iid", 3, 0)
        assert redrawn.feature_map.maker is make

    def test_spectra_and_couplings(self, tmp_path: Path) -> None:
        @dataclass(frozen=True)
        class Own(GaussianSpectrum):
            def __str__(self) -> str:
                return "something"

        register_spectrum("own", Own)
        register_coupling("whole", Whole)
        for kind, options in (
            (table_model, {"kernel": "own", "coupling": "whole"}),
            (table_model, {"kernel": Own(), "coupling": Whole()}),
            (
                lambda **o: cgp.ExactGPRegressor(
                    **folded(cgp.ExactGPRegressor, dict(optimizer=None, **o))
                ),
                {"kernel": Own()},
            ),
        ):
            model = kind(**options).fit(X, Y)
            loaded = self.again(model, tmp_path)
            assert loaded.kernel == options["kernel"]
            np.testing.assert_array_equal(loaded.predict(X_TEST), model.predict(X_TEST))

    def test_graph_models(self, tmp_path: Path) -> None:
        register_graph_kernel("slower", Slower)
        register_lengths("spread", Spread)
        register_steps("idle", Idle)
        register_length_law("short", GeometricLaw(0.4))
        for options in (
            {"kernel": "slower", "coupling": "spread+idle", "length_law": "short"},
            {
                "kernel": Slower(3.0),
                "coupling": WalkerCoupling(Spread(), Idle()),
                "length_law": GeometricLaw(0.3),
            },
        ):
            model = graph_model(**options).fit(NODES, Y_NODES)
            loaded = self.again(model, tmp_path)
            assert type(loaded.kernel_) is Slower
            assert loaded.kernel_ == model.kernel_
            assert str(loaded.process_.recipe.coupling) == "spread+idle"
            np.testing.assert_array_equal(loaded.predict([1, 3]), model.predict([1, 3]))

    def test_what_has_no_text_is_refused(self, tmp_path: Path) -> None:
        class Nameless(HeatKernel):
            pass

        for model, name in (
            (graph_model(coupling=WalkerCoupling(SigmaLengths(order=10))), "coupling"),
            (graph_model(length_law=lambda p_halt, series: GeometricLaw(p_halt)), "length_law"),
            (graph_model(kernel=Nameless()), "kernel"),
        ):
            fitted = model.fit(NODES, Y_NODES)
            with pytest.raises(InvalidInputError, match=f"^{name}: expected"):
                fitted.save(tmp_path / "model")
        assert list(tmp_path.iterdir()) == []

    def test_files_of_unknown_objects_say_what_is_missing(self, tmp_path: Path) -> None:
        with forgotten(GRAPH_KERNELS):
            register_graph_kernel("slower", Slower)
            graph_model(kernel="slower").fit(NODES, Y_NODES).save(tmp_path / "graph")
        with forgotten(FEATURE_MAPS):
            register_features("phase", PhaseFeatures)
            table_model(features="phase").fit(X, Y).save(tmp_path / "table")
        with pytest.raises(ModelFileError, match="got 'Slower'; import what registers it"):
            cgp.load_model(tmp_path / "graph")
        with pytest.raises(ModelFileError, match=r"features: expected one of .* got 'phase'"):
            cgp.load_model(tmp_path / "table")


class TestLengthLaws:
    def test_functions_and_names_are_laws(self) -> None:
        asked = []

        def own(p_halt: float, series: Any) -> LengthLaw:
            asked.append(series().shape)
            return GeometricLaw(2 * p_halt)

        register_length_law("own", own)
        expected, given, named = (
            graph_model(length_law=law, p_halt=p).fit(NODES, Y_NODES).predict([1, 3])
            for law, p in ((GeometricLaw(0.2), 0.5), (own, 0.1), ("own", 0.1))
        )
        np.testing.assert_array_equal(given, expected)
        np.testing.assert_array_equal(named, expected)
        assert len(asked) >= 2
        assert all(len(shape) == 2 for shape in asked)

    @pytest.mark.parametrize(
        ("law", "message"),
        [
            ("geomtric", r"length_law: expected one of 'geometric', 'matched'.*did you mean"),
            (3, "length_law: expected a name such as 'geometric' or a LengthLaw or a function"),
            (lambda p_halt, series: 3, "length_law: expected a function that makes a LengthLaw"),
        ],
    )
    def test_errors(self, law: Any, message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            graph_model(length_law=law).fit(NODES, Y_NODES)
        with pytest.raises(InvalidInputError, match=message):
            cgp.features.sample_walks(GRAPH, 2, length_law=law)


def test_lengths_of_a_users_own_are_tuned() -> None:
    @dataclass(frozen=True)
    class Tuned(StratifiedLengths):
        seen: int = 0

        def prepare(self, law: LengthLaw, modulation: np.ndarray, max_length: int) -> Lengths:
            return replace(self, seen=max_length)

    model = graph_model(coupling=WalkerCoupling(Tuned())).fit(NODES, Y_NODES)
    walked = model.process_.chosen.prior.coupling
    assert walked.lengths.seen > 0
    assert model.process_.recipe.coupling == WalkerCoupling(Tuned())


def test_directions_base_is_abstract() -> None:
    with pytest.raises(InvalidInputError, match="own: expected a Directions, got"):
        register_directions("own", lambda: Directions)  # type: ignore[arg-type, return-value]
