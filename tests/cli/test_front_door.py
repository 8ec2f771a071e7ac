"""`coupledgp fit` chooses the model unless an option names one."""

import json
import re

import pytest

import coupledgp as cgp
from tests.cli.tables import QUICK

FRONT = ("--exact-rows", "0")


def test_the_model_is_chosen_unless_an_option_names_one(data, tmp_path, call):
    """The front door by default; sparse-spectrum where one of its options is given."""
    chosen = json.loads(call("fit", data, "-t", "price", *FRONT, "--json", "-o", tmp_path / "m"))
    assert chosen["model"]["name"] == "auto"
    assert sum(member["weight"] for member in chosen["model"]["members"]) == pytest.approx(1)
    assert chosen["comparison"] is None
    assert chosen["converged"] is None
    named = json.loads(call("fit", data, "-t", "price", *QUICK, "--json"))
    assert named["model"]["name"] == "sparse-spectrum"
    call("predict", tmp_path / "m", data, "-o", tmp_path / "p.csv")
    model = cgp.load_model(tmp_path / "m")
    assert isinstance(model, cgp.GPRegressor)
    words = {word for m in model.choice_.members for word in re.findall(r"\w+", m.name)}
    assert {"exact", "additive"} <= words


@pytest.mark.long
@pytest.mark.parametrize("name", ["exact", "local", "hybrid", "features"])
def test_every_model_of_the_front_door_can_be_named(name, data, call):
    out = call("fit", data, "-t", "price", "--model", name, *FRONT)
    assert "Models, scored on" in out
    assert "coverage of 95 % intervals" in out


@pytest.mark.parametrize(("arguments", "message"), [
    (["--model", "magic"], "--model: expected one of"),
    (["--model", "local", "--coupling", "iid"], "--coupling: expected --model sparse-spectrum"),
    (["--budget", "1e-6"], "budget: the cheapest model"),
])  # fmt: skip
def test_bad_choices_of_a_model_are_named(arguments, message, data, fails):
    assert re.search(message, fails("fit", data, "-t", "price", *arguments))
