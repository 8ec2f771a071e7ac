"""Names of objects: the package's own, a user's, and those of installed packages."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.cli import run as command_line
from coupledgp.couplings.frequencies.registry import (
    coupling_text,
    describe_coupling,
    parse_coupling,
)
from coupledgp.couplings.walkers.registry import (
    parse_walker_coupling,
    walker_coupling_text,
)
from coupledgp.errors import InvalidInputError
from coupledgp.features.registry import features_text, make_features
from coupledgp.kernels.graph.registry import (
    graph_kernel_from,
    graph_kernel_state,
    parse_graph_kernel,
)
from coupledgp.registry import Registry, Vocabulary
from coupledgp.spectra import SPECTRA, MaternSpectrum, parse_spectrum, spectrum_text
from tests.little_package import ENTRY_POINTS, install
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


def colours(**options: Any) -> Registry[Colour]:
    return Registry(Colour, "tests.colours", {"red": Colour(1), "blue": Colour(2)}, **options)


class TestNames:
    @pytest.mark.parametrize(
        "make", [Colour, Colour(), lambda: Colour()], ids=["class", "object", "function"]
    )
    def test_classes_functions_and_objects(self, make: Any) -> None:
        registry = colours()
        registry.register("white", make)
        assert registry.parse("white", "colour") == Colour()
        assert registry.parse("white", "colour") is registry["white"]
        assert registry.available() == list(registry) == ["red", "blue", "white"]
        assert len(registry) == 3

    def test_objects_pass(self) -> None:
        own = Colour(17)
        assert colours().parse(own, "colour") is own

    @pytest.mark.parametrize(
        ("value", "message"),
        [
            ("rde", r"colour: expected one of 'blue', 'red'; got 'rde' \(did you mean 'red'\?\)"),
            ("", r"colour: expected one of 'blue', 'red'; got ''$"),
            (3, "colour: expected a name such as 'red' or a Colour, got int"),
            (Colour, "colour: expected a name such as 'red' or a Colour, got the class Colour"),
        ],
    )
    def test_errors(self, value: object, message: str) -> None:
        with pytest.raises(InvalidInputError, match=message):
            colours().parse(value, "colour")

    @pytest.mark.parametrize("name", ["", "a+b", "a b", "a\n", None, 3])
    def test_names_are_words(self, name: Any) -> None:
        with pytest.raises(InvalidInputError, match=r"name: expected a word without '\+'"):
            colours().register(name, Colour)

    def test_names_mean_one_thing(self) -> None:
        words = Vocabulary("ending")
        first, second = (
            colours(vocabulary=words),
            Registry(int, "ints", {"one": 1}, vocabulary=words),
        )
        for name in ("red", "one", "ending", "auto"):
            with pytest.raises(InvalidInputError, match=f"name: '{name}' is taken"):
                first.register(name, Colour)
        for name in ("red", "ending"):
            with pytest.raises(InvalidInputError, match=f"name: '{name}' is taken"):
                second.register(name, 2, replace=True)
        second.register("one", 7, replace=True)
        assert second["one"] == 7
        second.unregister("one")
        assert "one" not in second
        with pytest.raises(InvalidInputError, match="name: expected one of"):
            first.unregister("rad")

    def test_kinds_are_checked(self) -> None:
        for made in (3, int, lambda: "red", None):
            with pytest.raises(InvalidInputError, match="new: expected a Colour, got"):
                colours().register("new", made)  # type: ignore[arg-type]

    def test_forms_of_text(self) -> None:
        def shade_of(text: str) -> Colour | None:
            return Colour(int(text[1:])) if re.fullmatch(r"#\d+", text) else None

        registry = colours(patterns={"#SHADE": shade_of})
        assert registry.parse("#7", "colour") == Colour(7)
        with pytest.raises(
            InvalidInputError, match="expected one of '#SHADE', 'blue', 'red'; got '#x'"
        ):
            registry.parse("#x", "colour")
        with pytest.raises(InvalidInputError, match="name: '#8' is taken"):
            registry.register("#8", Colour)


class TestTexts:
    def test_text_of_equal_objects(self) -> None:
        registry = colours()
        assert registry.text_of(Colour(2)) == "blue"
        assert registry.text_of(Colour(3)) is None

    def test_description(self) -> None:
        registry = colours()
        assert registry.describe(Colour(2)) == "blue"
        assert registry.describe(Colour(3)) == "red(shade=3)"
        long = registry.describe(Colour(1, tuple(range(99))))
        assert long == "red(layers=(0, 1, 2, 3, 4, 5, ...))"
        assert registry.describe(Plain(5)) == str(Plain(5))

    def test_objects_without_equality_are_known_by_their_attributes(self) -> None:
        registry = colours()
        registry.register("plain", Plain(4))
        assert registry.text_of(Plain(4)) == "plain"
        assert registry.text_of(Plain(5)) is None

    def test_functions_are_known_as_themselves(self) -> None:
        registry: Registry[Any] = Registry(Colour, "tests.makers", {})
        registry.accepts = callable  # type: ignore[method-assign]
        registry.register("made", partial(Colour, 1))
        assert registry.text_of(registry["made"]) == "made"
        for other in (partial(Colour, 1), lambda: Colour(1), Colour):
            assert registry.text_of(other) is None

    def test_solved_and_given_lengths_are_told_apart(self) -> None:
        ten = cgp.couplings.WalkerCoupling(cgp.couplings.SigmaLengths(order=10))
        assert str(ten) == "sigma(order=10)"
        assert walker_coupling_text(ten) is None
        assert ten != parse_walker_coupling("sigma")
        assert walker_coupling_text(parse_walker_coupling("sigma+repelling")) == "sigma+repelling"

    def test_texts_of_couplings_and_spectra(self) -> None:
        for text in [*cgp.couplings.available_couplings(), "iid+copula:[[0.5]]+antithetic"]:
            assert coupling_text(parse_coupling(text)) == text
        for text in ("gaussian", "matern-1/2", "matern-0.7"):
            assert spectrum_text(parse_spectrum(text)) == text
        assert spectrum_text(parse_spectrum("rbf")) == "gaussian"

    def test_texts_of_features(self) -> None:
        made = make_features("laplace", 2, 5, "iid", generator=0)
        assert (
            features_text(made)
            == features_text(type(made))
            == features_text("laplace")
            == "laplace"
        )
        assert features_text(lambda *_: made) is None


@pytest.mark.parametrize("registry", REGISTRIES, ids=lambda registry: registry.group)
def test_every_registry_lists_what_it_knows(registry: Registry[Any]) -> None:
    names = registry.available()
    assert names == list(dict.fromkeys(names))
    for name in names:
        assert registry.parse(name, "name") is registry[name]
    with pytest.raises(InvalidInputError, match="called: expected one of"):
        registry.parse("nonsense", "called")
    with pytest.raises(InvalidInputError, match="name: 'auto' is taken"):
        registry.register("auto", registry[names[0]])


@pytest.fixture
def little(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An installed distribution, whose objects are unregistered after the test."""
    name = f"little_{tmp_path.name.replace('-', '_')}"
    monkeypatch.syspath_prepend(str(install(tmp_path, name)))
    with forgotten(*REGISTRIES):
        yield name
    sys.modules.pop(name, None)


class TestEntryPoints:
    @pytest.mark.parametrize("registry", REGISTRIES, ids=lambda registry: registry.group)
    def test_objects_are_found_by_name_and_listed(
        self, little: str, registry: Registry[Any]
    ) -> None:
        ((name, attribute),) = ENTRY_POINTS[registry.group].items()
        assert name not in registry.known
        found = registry.parse(name, "argument")
        given = getattr(sys.modules[little], attribute)
        assert found is given or type(found) is given
        assert name in registry.available()
        assert registry.text_of(found) == name

    def test_nothing_is_loaded_for_known_names(self, little: str) -> None:
        for text in ("gaussian", "matern-0.7"):
            parse_spectrum(text)
        for text in ("orthogonal+pnc+antithetic", "halton", "iid"):
            assert str(parse_coupling(text)) == text
        assert str(parse_walker_coupling("sigma+systematic")) == "sigma+systematic"
        assert parse_graph_kernel("heat") == cgp.kernels.HeatKernel()
        assert little not in sys.modules

    def test_listing_loads(self, little: str) -> None:
        assert "turned+mirrored+antithetic" in cgp.couplings.available_couplings()
        assert "own-lengths+own-steps" in cgp.couplings.available_walker_couplings()
        assert "rough" in SPECTRA.choices()

    def test_composed_texts(self, little: str) -> None:
        for text in ("turned", "turned+mirrored", "orthogonal+mirrored+antithetic", "whole-turned"):
            coupling = parse_coupling(text)
            assert coupling_text(coupling) == describe_coupling(coupling) == text
        assert str(parse_walker_coupling("sigma+own-steps")) == "sigma+own-steps"

    def test_objects_of_classes_that_were_imported_elsewhere(self, little: str) -> None:
        module = __import__(little)
        assert coupling_text(module.Turned()) == "whole-turned"
        assert str(cgp.couplings.DirectionsAndNorms(norms=module.MirroredNorms())) == "iid+mirrored"
        kernel = module.OwnHeat(3.0, slower=1.5)
        again = graph_kernel_from(json.loads(json.dumps(graph_kernel_state(kernel))))
        assert type(again) is module.OwnHeat
        assert again == kernel

    def test_broken_ones_are_named_and_left_out(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        folder = tmp_path / "broken"
        folder.mkdir()
        module = (
            "from coupledgp.spectra import MaternSpectrum\nfine = MaternSpectrum(3.25)\nother = 3\n"
        )
        points = {"away": "nothing", "wrong": "other", "gaussian": "fine", "fine": "fine"}
        install(folder, "half_broken", module, {"coupledgp.spectra": points})
        install(
            folder, "all_broken", "raise RuntimeError('no luck')", {"coupledgp.spectra": {"x": "y"}}
        )
        monkeypatch.syspath_prepend(str(folder))
        with forgotten(*REGISTRIES):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                names = SPECTRA.available()
            assert "fine" in names
            assert not {"away", "wrong", "x"} & set(names)
            messages = sorted(str(warning.message) for warning in caught)
            assert len(messages) == 4
            for name, why in (
                ("away", "half_broken .*half_broken:nothing.* AttributeError"),
                ("gaussian", "half_broken .*'gaussian' is taken"),
                ("wrong", "half_broken .*wrong: expected a Spectrum, got 3"),
                ("x", "all_broken .*RuntimeError: no luck"),
            ):
                assert any(re.search(f"entry point '{name}' of {why}", text) for text in messages)
            assert parse_spectrum("gaussian") == cgp.features.FourierFeatures(1, 1).spectrum
            assert parse_spectrum("fine") == MaternSpectrum(3.25)
            assert SPECTRA.available() == names  # and no second warning, which would be an error

    def test_a_module_may_register_what_it_names(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        module = (
            "from coupledgp.spectra import MaternSpectrum, register_spectrum\n"
            "own = MaternSpectrum(4.25)\nregister_spectrum('twice', own)\n"
        )
        install(tmp_path, "registers_itself", module, {"coupledgp.spectra": {"twice": "own"}})
        monkeypatch.syspath_prepend(str(tmp_path))
        with forgotten(*REGISTRIES):
            assert "twice" in SPECTRA.available()


def in_a_process_of_its_own(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command line with a folder on the path."""
    code = f"import sys; sys.path.insert(0, {str(folder)!r}); {COMMAND}"
    return Started(code, *arguments).finished()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the little distribution, and a table."""
    made = install(tmp_path_factory.mktemp("installed"), "little")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 2))
    rows = np.column_stack([X, np.sin(X).sum(axis=1) + 0.1 * rng.normal(size=40)])
    np.savetxt(made / "table.csv", rows, delimiter=",", header="a,b,y", comments="")
    return made


@pytest.fixture
def command(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., tuple[int, str, str]]]:
    """Run a command with the folder on the path, in this process; its code, stdout and stderr."""

    def call(*arguments: str) -> tuple[int, str, str]:
        return command_line(list(arguments)), *capsys.readouterr()

    monkeypatch.syspath_prepend(str(folder))
    with forgotten(*REGISTRIES):
        yield call
    sys.modules.pop("little", None)


class TestCommandLine:
    def test_a_model_of_named_parts_is_fitted_saved_and_read(self, folder: Path) -> None:
        table, model = str(folder / "table.csv"), str(folder / "own.model")
        run = in_a_process_of_its_own(
            folder, "fit", table, "-t", "y", "--model", "sparse-spectrum", "--set",
            "coupling=turned+mirrored", "--kernel", "rough", "--set", "n_frequencies=8", "--set",
            "max_iter=3", "--compare", "none", "-o", model, "--json",
        )  # fmt: skip
        assert run.returncode == 0, run.stderr
        found = json.loads(run.stdout)["model"]["parameters"]
        assert (found["coupling"], found["kernel"]) == ("turned+mirrored", "rough")
        out = folder / "predicted.csv"
        run = in_a_process_of_its_own(folder, "predict", model, table, "-o", str(out))
        assert run.returncode == 0, run.stderr
        assert np.isfinite(np.loadtxt(out, delimiter=",", skiprows=1)).all()

    def test_named_features_choose_among_their_couplings(self, folder: Path, command: Any) -> None:
        code, out, err = command(
            "fit", str(folder / "table.csv"), "-t", "y", "--model", "sparse-spectrum", "--set",
            "features=own-features", "--set", "coupling=auto", "--set", "n_frequencies=8", "--set",
            "kl_target=9", "--json", "--compare", "none", "-o", str(folder / "features.model"),
        )  # fmt: skip
        assert code == 0, err
        found = json.loads(out)
        assert found["model"]["parameters"]["features"] == "own-features"
        tried = {trial["coupling"] for trial in found["selection"]["trials"]}
        assert tried == {"iid", "whole-turned"}

    def test_a_graph_model_of_named_parts(self, folder: Path, command: Any) -> None:
        graph, values = folder / "ring.csv", folder / "values.csv"
        ends = np.column_stack([np.arange(30), np.roll(np.arange(30), -1)])
        np.savetxt(graph, ends, "%d", ",", header="source,target", comments="")
        seen = np.column_stack([np.arange(0, 30, 2), np.sin(np.arange(0, 30, 2) / 3)])
        np.savetxt(values, seen, ["%d", "%g"], ",", header="node,value", comments="")
        out = folder / "law.csv"
        code, printed, err = command(
            "graph", str(graph), "--values", str(values), "-o", str(out), "--json",
            "--kernel", "own-heat", "--set", "coupling=own-lengths+own-steps", "--set",
            "length_law=short", "--set", "exact_hops=0",
        )  # fmt: skip
        assert code == 0, err
        found = json.loads(printed)
        assert "OwnHeat(" in " ".join(found["model"]["explanation"])
        assert found["model"]["parameters"]["coupling"] == "own-lengths+own-steps"
        assert np.isfinite(np.loadtxt(out, delimiter=",", skiprows=1)).all()

    def test_names_of_packages_are_among_the_choices(self, folder: Path) -> None:
        table = str(folder / "table.csv")
        run = in_a_process_of_its_own(
            folder, "fit", table, "-t", "y", "--model", "sparse-spectrum", "--set", "coupling=turnd"
        )
        assert run.returncode == 2
        assert re.search(r"'turned', 'whole-turned'; got 'turnd' \(did you mean", run.stderr)
