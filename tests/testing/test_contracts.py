"""Everything that is registered keeps its contract, and a contract finds out who does not."""

import inspect
import unittest
from collections.abc import Callable
from dataclasses import dataclass, is_dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from coupledgp import kernels
from coupledgp.couplings import (
    Directions,
    FrequencyCoupling,
    IidDirections,
    IidLengths,
    IndependentSteps,
    Lengths,
    Norms,
    available_couplings,
    parse_coupling,
)
from coupledgp.couplings.frequencies.registry import DIRECTIONS, NORMS
from coupledgp.couplings.walkers.registry import LENGTHS, STEPS
from coupledgp.errors import InvalidInputError
from coupledgp.features import FeatureMap, FourierFeatures, LaplaceFeatures
from coupledgp.features.registry import FEATURE_MAPS, features_class
from coupledgp.kernels import HeatKernel, RegularizedLaplacianKernel
from coupledgp.random import FloatArray
from coupledgp.spectra import Spectrum
from coupledgp.testing import (
    CouplingContract,
    DirectionsContract,
    FeatureMapContract,
    GraphKernelContract,
    LengthsContract,
    NormsContract,
    StepsContract,
)


def serves(coupling: str, dim: int, spectrum: str = "gaussian") -> bool:
    """Whether the coupling is made for a dimension and a spectrum."""
    try:
        parse_coupling(coupling).sample(2, dim, spectrum, generator=0)
    except InvalidInputError:
        return False
    return True


ENSEMBLES: dict[tuple[object, ...], FloatArray] = {}


class TestCouplings(CouplingContract):
    @pytest.fixture(autouse=True, params=available_couplings())
    def _choose(self, request: pytest.FixtureRequest, seed: int) -> None:
        self.coupling, self.seed = request.param, seed
        for name in ("sizes", "law_sizes"):
            fitting = [(m, d) for m, d in getattr(self, name) if serves(self.coupling, d)]
            setattr(self, name, fitting)
        self.law_sizes = self.law_sizes[-1:]  # at more of them: tests/couplings/test_marginals.py
        self.spectra = tuple(s for s in self.spectra if serves(self.coupling, 1, s))

    def _ensembles(self, m: int, dim: int, spectrum: Spectrum) -> FloatArray:
        """Drawn once for all tests of a coupling: the draws take longer than the tests."""
        key = (str(self.coupling), m, dim, str(spectrum), self.seed)
        if key not in ENSEMBLES:
            ENSEMBLES[key] = super()._ensembles(m, dim, spectrum)
        return ENSEMBLES[key]


class TestDirections(DirectionsContract):
    @pytest.fixture(autouse=True, params=list(DIRECTIONS))
    def _choose(self, request: pytest.FixtureRequest, seed: int) -> None:
        self.directions, self.seed = DIRECTIONS[request.param], seed


class TestNorms(NormsContract):
    @pytest.fixture(autouse=True, params=list(NORMS))
    def _choose(self, request: pytest.FixtureRequest, seed: int) -> None:
        self.norms, self.seed = NORMS[request.param], seed


class TestLengths(LengthsContract):
    @pytest.fixture(autouse=True, params=list(LENGTHS))
    def _choose(self, request: pytest.FixtureRequest, seed: int) -> None:
        self.lengths, self.seed = LENGTHS[request.param], seed


class TestSteps(StepsContract):
    @pytest.fixture(autouse=True, params=list(STEPS))
    def _choose(self, request: pytest.FixtureRequest, seed: int) -> None:
        self.steps, self.seed = STEPS[request.param], seed


class TestFeatureMaps(FeatureMapContract):
    # Maps of a table of rows are tested where estimators give them theirs.
    @pytest.fixture(
        autouse=True, params=[n for n in FEATURE_MAPS if not features_class(n).from_rows]
    )
    def _choose(self, request: pytest.FixtureRequest, seed: int) -> None:
        self.feature_map, self.seed = FEATURE_MAPS[request.param], seed


GRAPH_KERNELS = [
    kind
    for _, kind in inspect.getmembers(kernels, inspect.isclass)
    if issubclass(kind, kernels.GraphKernel) and not inspect.isabstract(kind)
]


class TestGraphKernels(GraphKernelContract):
    @pytest.fixture(autouse=True, params=GRAPH_KERNELS, ids=lambda kind: kind.__name__)
    def _choose(self, request: pytest.FixtureRequest) -> None:
        self.kernel = request.param()


class TestSubclassesOfGraphKernels(GraphKernelContract):
    """A changed copy of a subclass is of that subclass, and keeps its further fields."""

    @pytest.fixture(autouse=True, params=GRAPH_KERNELS, ids=lambda kind: kind.__name__)
    def _choose(self, request: pytest.FixtureRequest) -> None:
        kind = request.param
        if is_dataclass(kind):
            namespace = {"__annotations__": {"label": str}, "label": "none"}
            made = dataclass(frozen=True, eq=False)(type(f"Own{kind.__name__}", (kind,), namespace))
            self.kernel = made(label="mine")
        else:
            self.kernel = type(f"Own{kind.__name__}", (kind,), {})()

    def test_further_fields_are_kept(self) -> None:
        kernel = self.kernel
        for changed in (kernel.with_theta(kernel.theta), kernel.scaled(2.0), *kernel.scan()):
            assert getattr(changed, "label", None) == getattr(kernel, "label", None)


class ByUnittest(CouplingContract, unittest.TestCase):
    coupling = "orthogonal+pnc"
    repetitions = 100


def test_contracts_run_under_unittest() -> None:
    result = unittest.defaultTestLoader.loadTestsFromTestCase(ByUnittest).run(unittest.TestResult())
    assert result is not None
    assert result.testsRun == 6
    assert result.wasSuccessful()


@dataclass(frozen=True)
class Broken(FrequencyCoupling):
    """Independent Gaussian frequencies with a fault."""

    spoil: Callable[[np.ndarray, np.random.Generator], np.ndarray]

    def _sample(self, n_frequencies, dim, spectrum, rng):  # type: ignore[no-untyped-def]
        drawn = parse_coupling("iid").sample(n_frequencies, dim, spectrum, rng)
        return self.spoil(drawn, rng)


def first_only(drawn: np.ndarray, change: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    changed = drawn.copy()
    changed[0] = change(changed[0])
    return changed


class TestBrokenCouplings:
    """Each fault is found by the test that is there for it."""

    @pytest.mark.parametrize(
        ("spoil", "found_by"),
        [
            (lambda w, rng: 0.8 * w, ["test_marginals", "test_estimates_are_unbiased"]),
            (lambda w, rng: np.abs(w), ["test_marginals"]),
            (lambda w, rng: first_only(w, np.abs), ["test_marginals"]),
            (lambda w, rng: np.sort(w, axis=1), ["test_marginals"]),
            (lambda w, rng: np.sort(w, axis=0), ["test_marginals"]),
            (lambda w, rng: w[:, [0] * w.shape[1]], ["test_marginals"]),
            (lambda w, rng: w.astype(np.float32), ["test_shapes"]),
            (lambda w, rng: w * np.inf, ["test_shapes"]),
            (lambda w, rng: np.ones_like(w), ["test_same_seed_same_bits"]),
            (
                lambda w, rng: w + 0 * rng.normal() + np.random.default_rng().normal(),
                ["test_same_seed_same_bits"],
            ),
        ],
    )
    @pytest.mark.filterwarnings("ignore:invalid value")
    def test_fault(self, spoil: Any, found_by: list[str], seed: int) -> None:
        contract = CouplingContract()
        contract.coupling, contract.seed = Broken(spoil), seed
        for name in found_by:
            with pytest.raises(AssertionError):
                getattr(contract, name)()

    def test_sound_one(self, seed: int) -> None:
        contract = CouplingContract()
        contract.coupling, contract.seed = Broken(lambda w, rng: w), seed
        for name in dir(contract):
            if name.startswith("test_"):
                getattr(contract, name)()

    def test_text_form(self) -> None:
        @dataclass(frozen=True)
        class Impostor(Broken):
            def __str__(self) -> str:
                return "orthogonal+pnc"

        contract = CouplingContract()
        contract.coupling = Impostor(lambda w, rng: w)
        with pytest.raises(AssertionError, match="another coupling"):
            contract.test_text_form()


class TestBrokenParts:
    def test_directions(self, seed: int) -> None:
        class Axes(IidDirections):
            def sample(self, norms, dim, rng):  # type: ignore[no-untyped-def]
                return np.eye(dim)[rng.integers(dim, size=norms.size)]

        class Long(IidDirections):
            def sample(self, norms, dim, rng):  # type: ignore[no-untyped-def]
                return 1.01 * super().sample(norms, dim, rng)

        class ByNorm(IidDirections):
            """Directions with the longest frequency up: uniform as a set, but not each alone."""

            def sample(self, norms, dim, rng):  # type: ignore[no-untyped-def]
                drawn = super().sample(norms, dim, rng)
                drawn[norms.argmax()] *= np.sign(drawn[norms.argmax(), 0])
                return drawn

        for directions, name in (
            (Axes(), "test_each_is_uniform_on_the_sphere"),
            (Long(), "test_unit_vectors"),
            (ByNorm(), "test_each_is_uniform_on_the_sphere"),
        ):
            contract = DirectionsContract()
            contract.directions, contract.seed = directions, seed
            with pytest.raises(AssertionError):
                getattr(contract, name)()

    def test_norms(self, seed: int) -> None:
        @dataclass(frozen=True)
        class Sorted(Norms):
            def sample(self, n, block_size, rng):  # type: ignore[no-untyped-def]
                return np.sort(rng.uniform(size=n))

        @dataclass(frozen=True)
        class Closed(Norms):
            def sample(self, n, block_size, rng):  # type: ignore[no-untyped-def]
                return np.round(rng.uniform(size=n), 2)

        for norms in (Sorted(), Closed()):
            contract = NormsContract()
            contract.norms, contract.seed = norms, seed
            with pytest.raises(AssertionError):
                contract.test_each_is_uniform()

    def test_walkers(self, seed: int) -> None:
        class Longest(IidLengths):
            def sample(self, law, max_length, uniforms):  # type: ignore[no-untyped-def]
                drawn = super().sample(law, max_length, uniforms)
                drawn[:, 0] = drawn.max(axis=1)
                return drawn

        class Mixed(IidLengths):
            def sample(self, law, max_length, uniforms):  # type: ignore[no-untyped-def]
                return super().sample(law, max_length, uniforms)[::-1]

        for lengths, name in (
            (Longest(), "test_each_walker_keeps_the_law"),
            (Mixed(), "test_nodes_are_apart"),
        ):
            contract = LengthsContract()
            contract.lengths, contract.seed = lengths, seed
            with pytest.raises(AssertionError):
                getattr(contract, name)()

        class Unweighted(IndependentSteps):
            def choose(self, u, degree, weights):  # type: ignore[no-untyped-def]
                return super().choose(u, degree, None)

        steps = StepsContract()
        steps.steps, steps.seed = Unweighted(), seed
        with pytest.raises(AssertionError, match="not of its law"):
            steps.test_each_walker_moves_as_one_alone()

    def test_feature_maps(self, seed: int) -> None:
        class Scaled(FourierFeatures):
            def _features(self, inputs: Tensor) -> Tensor:
                return 1.01 * super()._features(inputs)

        class WrongPullback(LaplaceFeatures):
            def pullback(self, inputs: Tensor, features: Tensor, upstream: Tensor) -> Tensor:
                return 1.001 * super().pullback(inputs, features, upstream)

        class WrongOut(FourierFeatures):
            def _features_into(self, inputs: Tensor, out: Tensor) -> Tensor:
                return out.zero_()

        class Forgetful(FeatureMap):
            """A feature map with randomness that its state does not hold."""

            def __init__(self, *args: Any, **kwargs: Any) -> None:
                super().__init__(*args, **kwargs)
                self.phases = 2 * self.frequencies[:, 0].numpy()  # no tensor, so no part of it

            @property
            def n_features(self) -> int:
                return self.n_frequencies

            def _features(self, inputs: Tensor) -> Tensor:
                return (inputs @ self.frequencies.T + torch.as_tensor(self.phases)).cos()

        for kind, name in (
            (Scaled, "test_unbiased"),
            (WrongPullback, "test_pullback"),
            (WrongOut, "test_out"),
            (Forgetful, "test_save_and_load"),
        ):
            contract = FeatureMapContract()
            contract.feature_map, contract.seed = kind, seed
            with pytest.raises(AssertionError):
                getattr(contract, name)()

    def test_graph_kernels(self) -> None:
        class WrongSlope(HeatKernel):
            def root_gradient(self, x: np.ndarray) -> np.ndarray:
                return 1.01 * super().root_gradient(x)

        class WrongBelowZero(HeatKernel):
            def root_gradient(self, x: np.ndarray) -> np.ndarray:
                return np.where(x < 0, 1.01, 1.0) * super().root_gradient(x)

        class WrongSeries(HeatKernel):
            def modulation(self, n_terms: int) -> np.ndarray:
                return 1.01 * super().modulation(n_terms)

        class WrongClass(HeatKernel):
            def with_theta(self, theta: np.ndarray) -> Any:
                return HeatKernel(float(np.exp(theta[0])))

        class WrongStarts(HeatKernel):
            def scan(self) -> Any:
                return [HeatKernel(1.0)]

        @dataclass(frozen=True, eq=False)
        class Forgetful(RegularizedLaplacianKernel):
            def with_theta(self, theta: np.ndarray) -> Any:
                return type(self)(float(np.exp(theta[0])))

        @dataclass(frozen=True, eq=False)
        class ScaledBack(HeatKernel):
            def scaled(self, factor: float) -> Any:
                return replace(self, time=self.time * max(factor, 1.0))

        class Renamed(HeatKernel):
            def parameters(self) -> dict[str, Any]:
                return {"time": 2 * self.time}

        for kernel, name in (
            (WrongSlope(2.0), "test_gradients"),
            (WrongBelowZero(2.0), "test_gradients"),
            (WrongSeries(2.0), "test_series"),
            (WrongClass(2.0), "test_parameters_round_trip"),
            (WrongClass(2.0), "test_changes_keep_the_class"),
            (WrongStarts(2.0), "test_changes_keep_the_class"),
            (Forgetful(2.0, 3.0), "test_parameters_round_trip"),
            (ScaledBack(2.0), "test_changes_keep_the_class"),
            (Renamed(2.0), "test_constructor_round_trip"),
        ):
            contract = GraphKernelContract()
            contract.kernel = kernel
            with pytest.raises(AssertionError):
                getattr(contract, name)()


def test_names_of_the_base_classes_are_what_contracts_need() -> None:
    """A law that a user writes has these methods to implement and no others."""
    assert Directions.__abstractmethods__ == Norms.__abstractmethods__ == {"sample"}
    assert Lengths.__abstractmethods__ == {"sample"}
    assert torch.is_tensor(FourierFeatures(1, 1, generator=0)(np.zeros((1, 1))))
