"""Available memory, and the refusal of what needs more."""

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.errors import InvalidInputError, MemoryLimitError
from coupledgp.ground import memory
from coupledgp.ground.memory import available_bytes, check_memory, named_exhaustion

GIB = 2**30


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        MemoryError("Unable to allocate 8 GiB"),
        RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to"),
        RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes."),
        RuntimeError("std::bad_alloc"),
        RuntimeError("can't start new thread"),
    ],
)
def test_all_ways_to_run_out_are_one(error: Exception) -> None:
    with (
        pytest.raises(MemoryLimitError, match=r"^fit: the memory was used up"),
        named_exhaustion("fit"),
    ):
        raise error


def test_other_errors_are_passed_on() -> None:
    with pytest.raises(RuntimeError, match=r"^shapes"), named_exhaustion("fit"):
        raise RuntimeError("shapes do not fit")
    with pytest.raises(MemoryLimitError, match=r"^X: 5 rows"), named_exhaustion("fit"):
        raise MemoryLimitError("X: 5 rows")


def test_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "available_bytes", lambda: 2.0 * GIB)
    check_memory(2 * GIB, "X: 5 rows", "use fewer")
    message = r"^X: 5 rows need about 2\.5 GiB, 2 GiB are available; use fewer$"
    with pytest.raises(MemoryLimitError, match=message) as caught:
        check_memory(2.5 * GIB, "X: 5 rows", "use fewer")
    assert isinstance(caught.value, InvalidInputError)
    assert isinstance(caught.value, MemoryError)
    with pytest.raises(MemoryLimitError, match=r"500 GiB, 100 GiB are allowed; use 0\.2 of it$"):
        check_memory(500 * GIB, "X", lambda share: f"use {share} of it", limit=100 * GIB)


def test_this_machine_has_some() -> None:
    assert 0 < available_bytes() < float("inf")


@pytest.mark.parametrize(
    ("part", "call"),
    [
        ("coupledgp.tables.weight_space.WeightSpaceGP.latent_law",
         lambda gp, X: gp.predict_quantiles(X)),
        ("coupledgp.tables.weight_space.WeightSpaceGP.log_density",
         lambda gp, X: gp.log_density(X, X[:, 0])),
        ("coupledgp.tables.weight_space.WeightSpaceGP.prior",
         lambda gp, X: gp.prior_covariance(X)),
    ],
)  # fmt: skip
def test_predictions_of_every_kind_name_what_ran_out(part, call, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    X = np.random.default_rng(0).normal(size=(9, 2))
    gp = cgp.SparseSpectrumGPRegressor(n_frequencies=4, optimizer=None).fit(X, X[:, 0])

    def run_out(*_, **__):  # type: ignore[no-untyped-def]
        raise MemoryError

    monkeypatch.setattr(part, run_out)
    with pytest.raises(MemoryLimitError, match="the memory was used up"):
        call(gp, X)
