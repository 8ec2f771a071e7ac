"""Where to measure next, against models that are given the measurements."""

import numpy as np
import pytest
import trimesh

import coupledgp as cgp
from coupledgp.errors import InvalidInputError
from coupledgp.kernels import HeatKernel, PositionKernel

GRAPH = cgp.Graph.from_edges(np.arange(29), np.arange(1, 30))
SEEN = np.array([0, 7, 13, 22])


def on_graph():
    model = cgp.ExactGraphGPRegressor(GRAPH, HeatKernel(6.0), optimizer=None, normalize_y=False)
    return model.fit(SEEN, np.sin(SEEN)), np.arange(30)


def on_field():
    part = trimesh.creation.box((4.0, 2.0, 1.0))
    places, _ = trimesh.sample.sample_surface(part, 40, seed=0)
    kernel = PositionKernel("gaussian", lengthscale=1.5)
    model = cgp.FieldGPRegressor(part, kernel, normalize_y=False, hyperparameters="maximum")
    return model.fit(places[:15], places[:15, 0]), places[15:]


def variance(model, places):
    return np.square(model.predict(places, return_std=True, latent=True)[1])


@pytest.mark.parametrize("made", [on_graph, on_field])
def test_variances_are_those_of_the_updated_model_and_the_first_place_is_best(made):
    model, places = made()
    found = cgp.next_sensors(model, 3, places)
    later = model.conditioned_on(
        *((np.concatenate([SEEN, places[found.rows]]), np.zeros(7)) if made is on_graph else
          (np.concatenate([trimesh.sample.sample_surface(
              trimesh.creation.box((4.0, 2.0, 1.0)), 40, seed=0)[0][:15], places[found.rows]]),
           np.zeros(18)))
    )  # fmt: skip
    expected = [variance(model, places).mean(), variance(later, places).mean()]
    np.testing.assert_allclose(found.variance[[0, -1]], expected, rtol=1e-8)
    assert (np.diff(found.variance) < 0).all()


def test_the_first_place_is_the_best_of_all_refits():
    model, places = on_graph()
    left = [
        variance(model.conditioned_on([*SEEN, node], np.zeros(5)), places).mean() for node in places
    ]
    assert cgp.next_sensors(model, 1).rows.tolist() == [int(np.argmin(left))]


def test_what_is_refused():
    model, places = on_graph()
    with pytest.raises(InvalidInputError, match="candidates: expected 3 or more"):
        cgp.next_sensors(model, 3, places[:2])
    with pytest.raises(InvalidInputError, match="k: "):
        cgp.next_sensors(model, 0)
    both = cgp.ExactGraphGPRegressor(GRAPH, "heat", optimizer=None).fit(SEEN, np.eye(4)[:, :2])
    with pytest.raises(InvalidInputError, match="one output"):
        cgp.next_sensors(both, 1)
