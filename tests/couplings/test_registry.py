"""Seeds, text forms, the registry a user can add to, and errors that list the choices."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from coupledgp.couplings import (
    Directions,
    DirectionsAndNorms,
    FrequencyCoupling,
    Norms,
    OrthogonalDirections,
    available_couplings,
    parse_coupling,
    register_coupling,
    register_directions,
    register_norms,
)
from coupledgp.couplings.frequencies.registry import COUPLINGS, DIRECTIONS, NORMS
from coupledgp.errors import CoupledGPError, InvalidInputError
from coupledgp.features import FourierFeatures
from tests.registries import forgotten

HEADS = ("iid", "orthogonal", "simplex", "simplex-plus", "orthogonal-fast", "simplex-fast")
SEQUENCES = ("halton", "sobol", "halton-half", "sobol-half")
RULES = ("quadrature", "quadrature+antithetic")
EXPECTED = {
    *SEQUENCES,
    "quadrature",
    "quadrature+antithetic",
    *(
        f"{head}{norms}{tail}"
        for head in HEADS
        for norms in ("", "+pnc", "+monotone", "+stratified", "+shared-strata")
        for tail in ("", "+antithetic")
    ),
}
CHOICES = ", ".join(re.escape(repr(name)) for name in sorted({*SEQUENCES, *RULES, *HEADS}))


@pytest.fixture
def _restored_registries() -> Iterator[None]:
    with forgotten(DIRECTIONS, NORMS, COUPLINGS):
        yield


@dataclass(frozen=True)
class Axes(Directions):
    """Signed coordinate axes in turn, which are not uniform on the sphere."""

    def sample(self, norms: np.ndarray, dim: int, rng: np.random.Generator) -> np.ndarray:
        return np.eye(dim)[np.arange(norms.size) % dim]


@dataclass(frozen=True)
class Medians(Norms):
    def sample(self, n: int, block_size: int, rng: np.random.Generator) -> np.ndarray:
        return np.full(n, 0.5)


@dataclass(frozen=True)
class Zeros(FrequencyCoupling):
    extra: int = 0

    def _sample(self, n_frequencies, dim, spectrum, rng):  # type: ignore[no-untyped-def]
        return np.zeros((n_frequencies + self.extra, dim))

    def __str__(self) -> str:
        return "zeros"


class TestSeeds:
    @pytest.mark.parametrize("text", sorted(EXPECTED - set(RULES)))
    def test_same_seed_same_bits(self, text: str) -> None:
        def bits(generator: object) -> bytes:
            return parse_coupling(text).sample(7, 3, "matern-5/2", generator).tobytes()  # type: ignore[arg-type]

        assert bits(0) == bits(0)
        assert bits(3) == bits(3) == bits(np.int64(3)) == bits(np.random.default_rng(3))
        assert len({bits(seed) for seed in range(5)}) == 5

    def test_torch_generator(self) -> None:
        def draw(generator: torch.Generator | None) -> list[float]:
            return parse_coupling("orthogonal+pnc").sample(5, 2, generator=generator).tolist()

        generator = torch.Generator().manual_seed(9)
        first = draw(generator)
        assert draw(generator) != first
        assert draw(torch.Generator().manual_seed(9)) == first

    def test_none_follows_torch_manual_seed(self) -> None:
        state = torch.get_rng_state()
        try:
            torch.manual_seed(4)
            first = parse_coupling("sobol").sample(4, 2)
            torch.manual_seed(4)
            np.testing.assert_array_equal(parse_coupling("sobol").sample(4, 2), first)
            assert (parse_coupling("sobol").sample(4, 2) != first).any()
        finally:
            torch.set_rng_state(state)


class TestTextForm:
    def test_available(self) -> None:
        assert len(available_couplings()) == len(EXPECTED)
        assert set(available_couplings()) == EXPECTED

    @pytest.mark.parametrize("text", sorted(EXPECTED))
    def test_round_trip(self, text: str) -> None:
        coupling = parse_coupling(text)
        assert str(coupling) == text
        assert parse_coupling(coupling) is coupling
        assert parse_coupling(str(coupling)) == coupling

    def test_independent_norms_may_be_named(self) -> None:
        named = parse_coupling("orthogonal+independent+antithetic")
        assert named == parse_coupling("orthogonal+antithetic")
        assert str(named) == "orthogonal+antithetic"

    def test_unregistered_parts_still_have_a_text(self) -> None:
        assert str(DirectionsAndNorms(Axes(), Medians())) == "Axes()+Medians()"

    @pytest.mark.parametrize(
        ("text", "message"),
        [
            (
                "orthogonl",
                r"coupling: expected one of .*'orthogonal'.* \(did you mean 'orthogonal'",
            ),
            ("", rf"coupling: expected one of {CHOICES}; got ''"),
            ("pnc", rf"coupling: expected one of {CHOICES}; got 'pnc'"),
            (
                "orthogonal+pcn",
                r"after 'orthogonal': expected one of 'antithetic', 'copula', 'independent', "
                r"'monotone', 'pnc', 'shared-strata', 'stratified'; got 'pcn'.*"
                r"directions\[\+norms\]\[\+antithetic\]",
            ),
            ("orthogonal+pnc+monotone", r"got 'pnc\+monotone'"),
            ("orthogonal+antithetic+pnc", r"got 'antithetic\+pnc'"),
            ("orthogonal+", r"after 'orthogonal': expected one of"),
            ("halton+pnc", r"'halton' stands alone, got 'halton\+pnc'"),
            ("sobol+antithetic", r"'sobol' stands alone"),
        ],
    )
    def test_errors_list_the_choices(self, text: str, message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            parse_coupling(text)
        with pytest.raises(ValueError, match=r"^named: |^named"):
            parse_coupling(text, "named")

    @pytest.mark.parametrize("value", [None, 3, ("orthogonal", "pnc"), OrthogonalDirections()])
    def test_other_types(self, value: object) -> None:
        with pytest.raises(InvalidInputError, match=r"expected a text such as 'orthogonal\+pnc'"):
            parse_coupling(value)  # type: ignore[arg-type]


@pytest.mark.usefixtures("_restored_registries")
class TestRegistration:
    def test_new_parts_combine_with_the_old(self) -> None:
        register_directions("axes", Axes)
        register_norms("median", Medians)
        w = parse_coupling("axes+median+antithetic").sample(4, 2, "gaussian", 0)
        r = np.sqrt(2 * np.log(2))
        np.testing.assert_allclose(w, [[r, 0], [0, r], [-r, 0], [0, -r]])
        texts = available_couplings()
        assert {"axes", "axes+pnc", "orthogonal+median", "axes+median+antithetic"} <= set(texts)
        for text in texts:
            assert str(parse_coupling(text)) == text

    def test_new_coupling_serves_every_feature_map(self) -> None:
        register_coupling("zeros", Zeros)
        assert "zeros" in available_couplings()
        features = FourierFeatures(2, 3, "zeros")
        assert not features.frequencies.any()

    def test_new_names_are_listed_in_errors(self) -> None:
        register_norms("median", Medians)
        with pytest.raises(InvalidInputError, match=r"'median'"):
            parse_coupling("iid+nonsense")

    @pytest.mark.parametrize(
        ("register", "make"),
        [(register_directions, Axes), (register_norms, Medians), (register_coupling, Zeros)],
        ids=lambda f: f.__name__,
    )
    def test_names_are_taken_once(self, register: Callable[..., None], make: type) -> None:
        for name in ("pnc", "iid", "sobol", "antithetic", "independent", "copula", "auto"):
            with pytest.raises(InvalidInputError, match=f"name: '{name}' is taken"):
                register(name, make)
        register("fresh", make)
        with pytest.raises(InvalidInputError, match="name: 'fresh' is taken"):
            register("fresh", make)
        register("fresh", make, replace=True)

    def test_names_of_another_part_are_not_replaced(self) -> None:
        with pytest.raises(InvalidInputError, match="name: 'pnc' is taken"):
            register_directions("pnc", Axes, replace=True)

    def test_what_is_registered_is_of_its_kind(self) -> None:
        for given in (Medians, Medians(), lambda: 3, None):
            with pytest.raises(InvalidInputError, match="fresh: expected a Directions, got "):
                register_directions("fresh", given)  # type: ignore[arg-type]
        assert "fresh" not in DIRECTIONS

    @pytest.mark.parametrize("name", ["", "a+b", "a b", "a\n", None, 3])
    def test_names_that_cannot_stand_in_a_text(self, name: object) -> None:
        with pytest.raises(InvalidInputError, match=r"name: expected a word without '\+'"):
            register_norms(name, Medians)  # type: ignore[arg-type]


class TestArguments:
    def test_numpy_counts(self) -> None:
        assert DirectionsAndNorms().sample(np.int32(3), np.int64(2)).shape == (3, 2)

    def test_spectrum_and_seed_are_checked(self) -> None:
        with pytest.raises(InvalidInputError, match="spectrum: expected one of 'gaussian'"):
            DirectionsAndNorms().sample(2, 2, "gauss")
        with pytest.raises(InvalidInputError, match="generator: expected"):
            DirectionsAndNorms().sample(2, 2, generator="0")  # type: ignore[arg-type]

    def test_a_wrong_shape_of_a_users_own_coupling_is_found(self) -> None:
        with pytest.raises(CoupledGPError, match=r"Zeros._sample returned shape \(4, 2\)"):
            Zeros(1).sample(3, 2)
