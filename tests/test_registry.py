"""Names of objects: the package's own, a user's, and those of installed packages."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.couplings import parse_coupling, parse_walker_coupling
from coupledgp.couplings.frequencies.registry import coupling_text, describe_coupling
from coupledgp.couplings.walkers.registry import walker_coupling_text
from coupledgp.errors import InvalidInputError
from coupledgp.features.registry import features_text, make_features
from coupledgp.registry import Registry
from coupledgp.spectra import SPECTRA, MaternSpectrum, parse_spectrum, spectrum_text
from tests.new_process import COMMAND, Started
from tests.registries import REGISTRIES, forgotten


@dataclass(frozen=True)
class Colour:
    shade: int = 0
    layers: tuple[int, ...] = ()


class Plain(Colour):
    """Without an equality of its own."""

    __eq__ = object.__eq__
    __hash__ = object.__hash__


def colours() -> Registry[Colour]:
    return Registry(Colour, "tests.colours", {"red": Colour(1), "blue": Colour(2)})


@pytest.mark.parametrize(
    "make", [Colour, Colour(), lambda: Colour()], ids=["class", "object", "function"]
)
def test_classes_functions_and_objects(make: Any) -> None:
    registry = colours()
    registry.register("white", make)
    assert registry.parse("white", "colour") == Colour()
    assert registry.available() == ["red", "blue", "white"]
    own = Colour(17)
    assert registry.parse(own, "colour") is own


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("rde", r"colour: expected one of 'blue', 'red'; got 'rde' \(did you mean 'red'\?\)"),
        (3, "colour: expected a name such as 'red' or a Colour, got int"),
        (Colour, "colour: expected a name such as 'red' or a Colour, got the class Colour"),
    ],
)
def test_errors(value: object, message: str) -> None:
    with pytest.raises(InvalidInputError, match=message):
        colours().parse(value, "colour")


def test_objects_without_equality_are_known_by_their_attributes() -> None:
    registry = colours()
    registry.register("plain", Plain(4))
    assert registry.text_of(Plain(4)) == "plain"
    assert registry.text_of(Plain(5)) is None


def test_functions_are_known_as_themselves() -> None:
    makers: Registry[Any] = Registry(Colour, "tests.makers", {}, accepts=callable)
    makers.register("made", lambda: Colour(1))
    assert makers.text_of(makers["made"]) == "made"
    for other in (lambda: Colour(1), Colour):
        assert makers.text_of(other) is None


def test_texts_that_files_hold() -> None:
    for text in [*cgp.couplings.available_couplings(), "iid+copula:[[0.5]]+antithetic"]:
        assert coupling_text(parse_coupling(text)) == text
    for text in ("gaussian", "matern-1/2", "matern-0.7"):
        assert spectrum_text(parse_spectrum(text)) == text
    assert spectrum_text(parse_spectrum("rbf")) == "gaussian"
    assert walker_coupling_text(parse_walker_coupling("sigma+repelling")) == "sigma+repelling"
    ten = cgp.couplings.WalkerCoupling(cgp.couplings.SigmaLengths(order=10))
    assert walker_coupling_text(ten) is None
    made = make_features("laplace", 2, 5, "iid", generator=0)
    assert features_text(made) == features_text(type(made)) == "laplace"
    assert features_text(lambda *_: made) is None


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda registry: registry.group)
def test_every_registry_parses_what_it_lists(registry: Registry[Any]) -> None:
    for name in registry.available():
        assert registry.parse(name, "name") is registry[name]
    with pytest.raises(InvalidInputError, match="called: expected one of"):
        registry.parse("nonsense", "called")
    with pytest.raises(InvalidInputError, match="name: 'auto' is taken"):
        registry.register("auto", next(iter(registry.values())))


MODULE = """
from dataclasses import dataclass
import numpy as np
from coupledgp.couplings import Norms
from coupledgp.spectra import MaternSpectrum, register_spectrum

@dataclass(frozen=True)
class MirroredNorms(Norms):
    def sample(self, n, block_size, rng):
        u = np.clip(rng.uniform(size=n), 2**-53, 1 - 2**-53)
        return np.where(np.arange(n) % 2, 1 - np.roll(u, 1), u)

rough, twice, other = MaternSpectrum(0.75), MaternSpectrum(4.25), 3
register_spectrum("twice", twice)
"""
ENTRIES = """
[coupledgp.spectra]
rough = little:rough
twice = little:twice
wrong = little:other
away = little:nothing
[coupledgp.norms]
mirrored = little:MirroredNorms
"""


@pytest.fixture
def little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder on the path that is all that an installed distribution is."""
    (tmp_path / "little.py").write_text(MODULE, encoding="utf-8")
    metadata = tmp_path / "little-1.0.dist-info"
    metadata.mkdir()
    for name, text in (
        ("METADATA", "Metadata-Version: 2.1\nName: little\nVersion: 1.0\n"),
        ("entry_points.txt", ENTRIES),
    ):
        metadata.joinpath(name).write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    with forgotten(*REGISTRIES):
        yield tmp_path
    sys.modules.pop("little", None)


class TestEntryPoints:
    def test_objects_are_found_by_name_and_listed(self, little: Path) -> None:
        assert str(parse_coupling("orthogonal+pnc+antithetic")) == "orthogonal+pnc+antithetic"
        assert "little" not in sys.modules  # nothing is loaded for names that are known
        text = "orthogonal+mirrored+antithetic"
        coupling = parse_coupling(text)
        assert coupling_text(coupling) == describe_coupling(coupling) == text
        assert text in cgp.couplings.available_couplings()
        assert parse_spectrum("rough") == MaternSpectrum(0.75)

    def test_broken_ones_are_named_and_left_out(self, little: Path) -> None:
        with pytest.warns(match="left out") as caught:
            names = SPECTRA.available()
        assert {"rough", "twice"} <= set(names)
        assert not {"wrong", "away"} & set(names)
        wrong, away = sorted((str(warning.message) for warning in caught), reverse=True)
        assert "'wrong' of little (coupledgp.spectra: little:other)" in wrong
        assert "wrong: expected a Spectrum, got 3" in wrong
        assert "'away' of little" in away

    def test_models_on_the_command_line(self, little: Path) -> None:
        X = np.random.default_rng(0).normal(size=(40, 2))
        rows = np.column_stack([X, np.sin(X).sum(axis=1)])
        table, model = str(little / "table.csv"), str(little / "own.model")
        np.savetxt(table, rows, delimiter=",", header="a,b,y", comments="")
        code = f"import sys; sys.path.insert(0, {str(little)!r}); {COMMAND}"
        run = Started(
            code, "fit", table, "-t", "y", "--model", "sparse-spectrum", "--set",
            "coupling=orthogonal+mirrored", "--kernel", "rough", "--set", "n_frequencies=8",
            "--set", "max_iter=3", "--compare", "none", "-o", model, "--json",
        ).finished()  # fmt: skip
        assert run.returncode == 0, run.stderr
        found = json.loads(run.stdout)["model"]["parameters"]
        assert (found["coupling"], found["kernel"]) == ("orthogonal+mirrored", "rough")
        run = Started(code, "predict", model, table, "-o", str(little / "out.csv")).finished()
        assert run.returncode == 0, run.stderr
        assert np.isfinite(np.loadtxt(little / "out.csv", delimiter=",", skiprows=1)).all()
