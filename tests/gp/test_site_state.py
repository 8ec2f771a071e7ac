"""Sites come back from a header and arrays, and hostile ones are refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

import coupledgp as cgp
from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.gp.schema import Entries
from coupledgp.gp.site_state import sites_from, sites_state
from coupledgp.kernels.fields import FieldKernel, PositionKernel, WhittleMatern
from coupledgp.time.sites import sites_of
from tests.graph_cases import weighted_graph

PLACED = cgp.LaplaceOperator.from_edges(
    ["a", "b", "c"], ["b", "c", "d"], [1.0, 2.0, 3.0],
    labels=list("abcd"), positions=[[0, 0], [1, 0], [3, 0], [6, 0]], max_edge=0.5,
)  # fmt: skip
CASES = {
    "graph": sites_of(weighted_graph(), "matern"),
    "scales": sites_of(PLACED, "heat"),
    "field": sites_of(PLACED, WhittleMatern(2.0, 1)),
    "sum": sites_of(PLACED, FieldKernel(WhittleMatern(2.0, 2), PositionKernel(None, 3.0), 0.4)),
}


@pytest.mark.parametrize("name", CASES)
def test_sites_come_back_to_the_bit(name):
    sites = CASES[name]
    header, arrays = sites_state(sites)
    copied = {key: np.array(value) for key, value in arrays.items()}
    again = sites_from(Entries(json.loads(json.dumps(header)), copied))
    every = np.arange(sites.n_sites)
    assert np.array_equal(again.gram(every), sites.gram(every))
    assert again.describe() == sites.describe()


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("graph", {"kind": "cloud"}),
        ("graph", {"tolerance": "small"}),
        ("graph", {"kernel": {"class": "NoKernel"}}),
        ("graph", {"kernel": 3}),
        ("field", {"kernel": {"surface": {"range_": -1.0, "alpha": 1}, "position": None,
                              "share": 1.0}}),
        ("field", {"kernel": {"surface": {"range_": 1.0, "alpha": 4}, "position": None,
                              "share": 1.0}}),
        ("field", {"kernel": {"surface": {"range_": 1.0, "alpha": None}, "position": None,
                              "share": 1.0}}),
    ],
)  # fmt: skip
def test_hostile_headers_are_refused(name, change):
    header, arrays = sites_state(CASES[name])
    header["sites"] = header["sites"] | change
    copied = {key: np.array(value) for key, value in arrays.items()}
    with pytest.raises((ModelFileError, InvalidInputError)):
        sites_from(Entries(header, copied))


@pytest.mark.parametrize("tolerance", [0.0, -1e-3, 2.0])
def test_a_tolerance_is_a_share(tolerance):
    header, arrays = sites_state(CASES["graph"])
    header["sites"] = header["sites"] | {"tolerance": tolerance}
    copied = {key: np.array(value) for key, value in arrays.items()}
    with pytest.raises(ModelFileError, match="tolerance"):
        sites_from(Entries(header, copied))
