"""Speeds of METR-LA, PEMS-BAY and San Jose: small files of the published formats, bad ones."""

import hashlib
import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from coupledgp.errors import DataNotFoundError, InvalidInputError
from data_loaders import traffic
from data_loaders.files import ENVIRONMENT_VARIABLE
from data_loaders.traffic_series import distance_weights
from tests.datasets.test_downloads import cached, server  # noqa: F401

SENSORS = [773869, 767541, 767542, 717447]
START = np.datetime64("2012-03-01T00:00", "ns")
TIMES = START + np.timedelta64(5, "m") * np.arange(6)
SPEEDS = np.random.default_rng(0).uniform(5, 70, (6, 4)).round(3)
SPEEDS[2, 1] = SPEEDS[4, 3] = 0.0
WEIGHTS = np.array([[1, 0.5, 0, 0], [0.25, 1, 0.75, 0], [0, 0, 1, 0.3], [0, 0, 0.3, 1]])
LOCAL = Path(os.environ.get(ENVIRONMENT_VARIABLE, "")) / "traffic"


def write_hdf5(path, items=None, times=TIMES, kind=b"datetime64", **more):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        group = file.create_group("df")
        names = np.array([str(s) for s in SENSORS], "S") if items is None else items
        group["axis0"] = names
        group["block0_items"] = names
        group["axis1"] = times.astype(np.int64)
        group["axis1"].attrs["kind"] = kind
        group["block0_values"] = SPEEDS
        for name, values in more.items():
            group[name] = values
    return path


def write_csv(path, header=True, stamps=None):
    lines = [",".join([*(["", *()] if stamps is not None else []), *map(str, SENSORS)])]
    for k, row in enumerate(SPEEDS.tolist()):
        lines.append(",".join([*([stamps[k]] if stamps is not None else []), *map(str, row)]))
    path.write_text("\n".join(lines if header else lines[1:]) + "\n")
    return path


def write_weights(path):
    np.savetxt(path, WEIGHTS, delimiter=",")
    return path


@pytest.fixture
def folder(tmp_path):
    found = tmp_path / "traffic"
    found.mkdir()
    write_weights(found / "metr_la_adjacency.csv")
    return found


def check(data):
    assert data.nodes == SENSORS
    np.testing.assert_array_equal(data.times, TIMES)
    np.testing.assert_array_equal(data.speeds, np.where(SPEEDS == 0, np.nan, SPEEDS).T)
    assert np.isnan(data.speeds).sum() == 2
    np.testing.assert_array_equal(data.weights, WEIGHTS)
    expected = np.maximum(WEIGHTS, WEIGHTS.T) - np.eye(4)
    np.testing.assert_array_equal(data.graph.adjacency.toarray(), expected)
    assert data.graph.index(data.nodes).tolist() == [0, 1, 2, 3]


def test_hdf5_of_pandas_is_read(folder):
    write_hdf5(folder / "metr-la.h5")
    data = traffic.load_metr_la(folder.parent)
    check(data)
    assert data.source == "METR-LA: files metr-la.h5, metr_la_adjacency.csv"
    write_hdf5(folder / "metr-la.h5", np.array(SENSORS), TIMES.astype("M8[us]"), "datetime64[us]")
    check(traffic.load_metr_la(folder.parent))


def test_csv_is_read_with_and_without_times(folder):
    write_csv(folder / "metr_la_speed_5days.csv")
    check(traffic.load_metr_la(folder.parent))
    write_csv(folder / "METR-LA.csv", stamps=[str(t).replace("T", " ")[:19] for t in TIMES])
    data = traffic.load_metr_la(folder.parent)
    check(data)
    assert data.source.startswith("METR-LA: files METR-LA.csv")


def test_weights_follow_from_distances_by_direction(folder):
    table = [(s, s, 0.0) for s in SENSORS] + [
        (SENSORS[0], SENSORS[1], 800.0), (SENSORS[1], SENSORS[0], 1200.0),
        (SENSORS[2], SENSORS[3], 9000.0), (SENSORS[1], 999, 1.0),
    ]  # fmt: skip
    lines = [f"{a},{b},{d}" for a, b, d in table]
    distances = np.array([0, 0, 0, 0, 800.0, 1200, 9000])
    weights = np.exp(-np.square(np.array([800.0, 1200, 9000]) / distances.std()))
    write_csv(folder / "pems_bay.csv")
    for header in ([], ["from,to,cost"]):
        path = folder / "distances_bay_2017.csv"
        path.write_text("\n".join(header + lines) + "\n")
        data = traffic.load_pems_bay(folder.parent)
        assert data.times[0] == np.datetime64("2017-01-01")
        expected = np.eye(4)
        expected[0, 1], expected[1, 0] = weights[:2]
        assert weights[2] < 0.1
        np.testing.assert_allclose(data.weights, expected)
        assert data.graph.adjacency[0, 1] == weights[0]


def test_positions_are_those_of_the_sensors(folder):
    write_csv(folder / "metr_la.csv")
    rows = [f"{k},{s},{34 + k},{-118 - k}" for k, s in enumerate(SENSORS)]
    path = folder / "graph_sensor_locations.csv"
    path.write_text("\n".join(["index,sensor_id,latitude,longitude", *rows[::-1]]))
    places = traffic.load_metr_la(folder.parent).positions
    np.testing.assert_array_equal(places, [[-118 - k, 34 + k] for k in range(4)])
    path.write_text("\n".join(rows[1:]))
    assert traffic.load_metr_la(folder.parent).positions is None


def test_files_are_downloaded_by_their_checksum(folder, server, tmp_path):  # noqa: F811
    speeds = write_hdf5(tmp_path / "copy.h5").read_bytes()
    server.pages = {
        "/a/metr-la.h5": speeds,
        "/graph.csv": write_weights(tmp_path / "w").read_bytes(),
    }
    sums = {page: hashlib.sha256(body).hexdigest() for page, body in server.pages.items()}
    urls = {page: f"{server.url}{page}#sha256={digits}" for page, digits in sums.items()}
    for _ in range(2):
        check(traffic.load_metr_la(speeds=urls["/a/metr-la.h5"], graph=urls["/graph.csv"]))
    assert server.requests == ["/a/metr-la.h5", "/graph.csv"]
    assert cached(tmp_path) == ["graph.csv", "metr-la.h5"]
    wrong = f"{server.url}/graph.csv#sha256={'0' * 64}"
    with pytest.raises(DataNotFoundError, match="gave no usable file"):
        traffic.load_metr_la(folder.parent, urls["/a/metr-la.h5"], wrong)
    with pytest.raises(InvalidInputError, match=r"graph: expected the file's checksum .*#sha256"):
        traffic.load_metr_la(folder.parent, urls["/a/metr-la.h5"], f"{server.url}/graph.csv")


def test_files_that_are_nowhere_are_named(tmp_path, monkeypatch):
    monkeypatch.delenv(ENVIRONMENT_VARIABLE, raising=False)
    with pytest.raises(DataNotFoundError, match=r"PEMS-BAY: expected one of pems-bay\.h5.*speeds="):
        traffic.load_pems_bay()
    with pytest.raises(DataNotFoundError, match="speeds: expected a file, got 'none"):
        traffic.load_pems_bay(speeds="none.h5")


def pickled(folder):
    h5py = pytest.importorskip("h5py")
    kind = h5py.vlen_dtype(np.uint8)
    items = np.empty(1, dtype=kind)
    items[0] = np.frombuffer(pickle.dumps(SENSORS), np.uint8)
    with h5py.File(folder / "metr-la.h5", "w") as file:
        group = file.create_group("df")
        group.create_dataset("block0_items", data=items, dtype=kind)
        group["axis1"], group["block0_values"] = TIMES.astype(np.int64), SPEEDS


HOSTILE = {
    "no HDF5": (lambda f: (f / "metr-la.h5").write_bytes(b"PK\x03\x04"), "a file of HDF5"),
    "pickled axis": (pickled, "numbers or texts of sensors"),
    "another table": (lambda f: write_hdf5(f / "metr-la.h5", block1_values=SPEEDS), "one table"),
    "fewer times": (lambda f: write_hdf5(f / "metr-la.h5", times=TIMES[:3]), r"shape \(3, 4\)"),
    "no times": (lambda f: (f / "METR-LA.csv").write_text("a,b\nx,1\ny,2\n"), "expected times"),
    "ragged": (lambda f: (f / "METR-LA.csv").write_text("1,2\n1,2\n1,2,3\n"), "a CSV file"),
    "text": (lambda f: (f / "METR-LA.csv").write_text("1,2\n1,2\n1,x\n"), "column of speeds"),
    "twice": (lambda f: (f / "METR-LA.csv").write_text("1,1\n1,2\n1,2\n"), "column of speeds"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_bad_files_of_speeds_are_refused(name, folder):
    write, message = HOSTILE[name]
    write(folder)
    with pytest.raises(InvalidInputError, match=message) as caught:
        traffic.load_metr_la(folder.parent)
    assert str(folder) in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,0\n0,1\n", r"a matrix \(4, 4\)"),
        ("a,b,c\n1,2,x\n", "rows of numbers"),
        ("1,2,3\n1,2\n", "rows of numbers"),
        ("from,to,cost\n", "rows of numbers|expected a matrix"),
        ("from,to,cost\n773869,767541,inf\n773869,767542,1\n", "finite distances"),
        ("from,to,cost\n773869,767541,5\n", "finite distances"),
        ("from,to,cost\n1,2,5\n", "finite distances"),
        ("\n".join(["1,0,0,-1"] * 4), "weights >= 0"),
        ("\n".join(["1,0,0,nan"] * 4), "weights >= 0"),
    ],
)
@pytest.mark.filterwarnings("ignore:loadtxt. input contained no data")
def test_bad_graphs_are_refused(text, message, folder):
    write_csv(folder / "METR-LA.csv")
    (folder / "metr_la_adjacency.csv").write_text(text)
    with pytest.raises(InvalidInputError, match=message):
        traffic.load_metr_la(folder.parent)


def test_the_kernel_of_distances_is_the_published_one():
    start, end = np.array([0, 1, 0]), np.array([1, 2, 2])
    distances = np.array([100.0, 300.0, 50.0])
    weights = distance_weights(start, end, distances, 3)
    assert weights[0, 1] == pytest.approx(np.exp(-((100 / distances.std()) ** 2)))
    assert weights[1, 2] == 0  # below a tenth
    assert np.count_nonzero(weights) == 2


@pytest.mark.skipif(not (LOCAL / "metr_la_speed_5days.csv").is_file(), reason="no local data")
def test_the_local_series_are_read():
    data = traffic.load_metr_la()
    assert data.speeds.shape == (207, 1440)
    assert data.graph.n_nodes == 207
    assert str(data.times[-1]) == "2012-03-05T23:55"


@pytest.mark.long
@pytest.mark.skipif(not (LOCAL / "pems_repl.rda").is_file(), reason="no local data")
def test_the_mondays_of_san_jose_have_the_known_means():
    pytest.importorskip("rdata")
    data, means = traffic.load_san_jose(), traffic.load()
    assert data.speeds.shape == (319, 26)
    known = dict(zip(means.sensors.tolist(), means.speeds.tolist(), strict=True))
    expected = [known[node] for node in data.nodes]
    np.testing.assert_allclose(data.speeds.mean(axis=1), expected, atol=1e-6)
