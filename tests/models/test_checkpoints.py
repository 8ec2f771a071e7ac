"""Fits in passes that are killed go on from their checkpoint, with the same bits."""

import json
import multiprocessing
import os
import shutil
import signal
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import coupledgp as cgp
from coupledgp.batches import TableBatch, as_source
from coupledgp.columns.summaries import summary_from_state, summary_of, summary_state
from coupledgp.errors import CoupledGPError, InvalidInputError, ModelFileError
from coupledgp.gp import table_passes
from coupledgp.gp.schema import Entries
from coupledgp.ground.progress import silent
from coupledgp.inference.weights.stream import FeatureStream
from coupledgp.models import batch_passes, checkpoints, out_of_core
from coupledgp.models.table_parts import stored_answers
from coupledgp.search.tables import batched_evidence
from tests.formats.mutations import edit_arrays, edit_header, opened, signed, spoil

N, SIZE = 5000, 500
TAMPERINGS = int(os.environ.get("TAMPERINGS", "24"))


@pytest.fixture(autouse=True)
def often(monkeypatch):
    """Tables of 3000 rows are searched in memory; a checkpoint follows each block of 512 rows."""
    monkeypatch.setattr(out_of_core, "KEPT_ROWS", 3000)
    monkeypatch.setattr(batched_evidence, "KEPT_ROWS", 3000)
    monkeypatch.setattr(table_passes, "BLOCK_ROWS", 512)
    monkeypatch.setattr(batch_passes, "SECONDS", 0.0)


def table(kind="plain"):
    """A table, targets, and weights."""
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(N, 2)), columns=["a", "b"])
    y = np.sin(2 * X["a"].to_numpy()) + 0.2 * rng.normal(size=N)
    if kind == "special":
        X["s"] = rng.choice(["u", "v"], N)
        X["t"] = pd.date_range("2020-01-01", periods=N, freq="h", tz="Europe/Paris")
        X.loc[X.index[5:9], "a"] = np.nan
    return X, y, rng.integers(0, 3, N).astype(float)


def model(kind="plain", **options):
    own = {"missing": "indicator"} if kind == "special" else {}
    if kind == "posterior":
        own = {"proposal": "posterior", "n_frequencies": 16}
    return cgp.SparseSpectrumGPRegressor(
        **{"n_frequencies": 12, "random_state": 0, "max_iter": 2, "n_restarts": 0} | own | options
    )


class Source:
    """Batches of a table, of which the one of a number, over all passes, kills the process."""

    def __init__(self, kind, deadly=None):
        self.parts, self.deadly, self.given = table(kind), deadly, 0

    def __call__(self):
        for start in range(0, N, SIZE):
            if self.given == self.deadly:
                os.kill(os.getpid(), signal.SIGKILL)
            self.given += 1
            yield TableBatch(*(part[start : start + SIZE] for part in self.parts))


def fit_and_save(kind, deadly, folder, path):
    model(kind).fit_batches(Source(kind, deadly), checkpoint=folder).save(path)


def in_child(*arguments):
    """Exit code of a fit in a process of its own."""
    child = multiprocessing.get_context("fork").Process(target=fit_and_save, args=arguments)
    child.start()
    child.join()
    return child.exitcode


@pytest.mark.long
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("kind", ["plain", "special", "posterior"])
def test_a_killed_fit_goes_on_with_the_same_bits(kind, tmp_path):
    source = Source(kind)
    whole = model(kind).fit_batches(source)
    rng, path, n_kills = np.random.default_rng(7), tmp_path / "m", 0
    while in_child(kind, int(rng.integers(9, 70)), tmp_path / "c", path):
        n_kills += 1
        assert n_kills < 60
    assert n_kills >= 2
    again = cgp.load_model(path)
    X = table(kind)[0][:50]
    for one, other in zip(
        again.predict(X, return_std=True), whole.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    assert again.log_marginal_likelihood_value_ == whole.log_marginal_likelihood_value_
    assert again.process_.statistics.n_rows == whole.process_.statistics.n_rows
    assert again.n_evaluations_ == whole.n_evaluations_


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """The folder of a fit that ended."""
    folder = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(out_of_core, "KEPT_ROWS", 3000)
        patch.setattr(batched_evidence, "KEPT_ROWS", 3000)
        fit = model(optimizer=None, lengthscale=1.0)
        fit.fit_batches(Source("plain"), checkpoint=folder)
    return folder, fit


def test_what_is_done_is_not_done_again(finished, tmp_path, monkeypatch):
    folder, fit = finished
    monkeypatch.setattr(batch_passes.BatchPasses, "_blocks", None)  # no features are made
    shutil.copytree(folder, tmp_path / "c")
    source = Source("plain")
    again = model(optimizer=None, lengthscale=1.0, progress=False)
    again.fit_batches(source, checkpoint=tmp_path / "c")
    assert source.given <= 1 + N // SIZE  # one pass tells that the table is the same
    X = table()[0][:9]
    np.testing.assert_array_equal(again.predict(X), fit.predict(X))


def test_a_sum_saved_for_other_lengthscales_is_made_anew(finished, tmp_path):
    _, fit = finished
    drawn, units = fit.process_.feature_prior.feature_map, fit.process_.units
    checkpoint = checkpoints.Checkpoint(tmp_path, {})
    source = as_source((*(np.asarray(part) for part in table()[:2]), None))
    passes = batch_passes.BatchPasses(fit, source, "raise", silent, checkpoint)
    streams = [FeatureStream(drawn, np.empty((0, 2)), np.zeros(2), np.full(2, s)) for s in (1, 2)]
    first, other, again = (passes.statistics(streams[k], units).moments.gram for k in (0, 1, 1))
    assert not np.allclose(first, other)
    np.testing.assert_array_equal(again, other)


def test_the_state_of_another_fit_is_refused_by_name(finished, monkeypatch):
    folder, _ = finished
    own = {"optimizer": None, "lengthscale": 1.0}
    for options, name in (
        ({"n_frequencies": 13}, "n_frequencies: expected 13, got 12"),
        ({"lengthscale": 2.0}, "lengthscale"),
        ({"random_state": 1}, "random_state"),
        ({"missing": "indicator"}, "missing"),
    ):
        with pytest.raises(InvalidInputError, match=f"checkpoint: .*: {name}"):
            model(**own | options).fit_batches(Source("plain"), checkpoint=folder)
    X, y, w = table()
    for batch, name in (((X + 1, y, w), "first row"), ((X, y + 1, w), "first row")):
        with pytest.raises(InvalidInputError, match=f"checkpoint: .*: {name}"):
            model(**own).fit_batches([batch], checkpoint=folder)
    with pytest.raises(InvalidInputError, match="source kind: expected 'arrays'"):
        model(**own).fit_batches((X.to_numpy(), y, w), checkpoint=folder)
    monkeypatch.setattr(checkpoints, "FORMAT_VERSION", 4)
    with pytest.raises(InvalidInputError, match="format: expected 4, got 3"):
        model(**own).fit_batches(Source("plain"), checkpoint=folder)


def test_rows_that_changed_later_are_found(finished, tmp_path):
    folder, _ = finished
    shutil.copytree(folder, tmp_path / "c")
    (tmp_path / "c" / "posterior.checkpoint").unlink()
    X, y, w = table()
    y[-1] += 1e-9
    with pytest.raises(InvalidInputError, match="the source has changed"):
        model(optimizer=None, lengthscale=1.0).fit_batches([(X, y, w)], checkpoint=tmp_path / "c")


def test_damaged_and_foreign_files_are_refused(finished, tmp_path):
    folder, fit = finished
    for damage in (
        lambda path: path.write_bytes(path.read_bytes()[:-9]),
        lambda path: path.write_bytes(b""),
        fit.save,
    ):
        shutil.rmtree(tmp_path / "c", ignore_errors=True)
        shutil.copytree(folder, tmp_path / "c")
        damage(tmp_path / "c" / "columns.checkpoint")
        with pytest.raises(ModelFileError):
            model(optimizer=None, lengthscale=1.0).fit_batches(
                Source("plain"), checkpoint=tmp_path / "c"
            )


def test_a_state_of_another_kind_is_named(tmp_path):
    """Though it is of the same fit, and nothing in it tells it from the one that is wanted."""
    checkpoint = checkpoints.Checkpoint(tmp_path, {"rows": 3})
    checkpoint.save("search", {}, {})
    assert checkpoint.restored("search", lambda entries: entries.header["state"]) == "search"
    (tmp_path / "search.checkpoint").rename(tmp_path / "columns.checkpoint")
    with pytest.raises(ModelFileError, match="expected the columns of a fit, got another file"):
        checkpoint.restored("columns", lambda entries: entries)


SPECTRUM = {
    "eigenvalues": [1.0, 2.0], "energies": [1.0, 2.0], "remainder": 0.0, "n_rows": 9.0,
    "n_outputs": 1, "log_noise": 0.0,
}  # fmt: skip


@pytest.mark.parametrize(
    "changes",
    [{"eigenvalues": [1.0, "2"]}, {"eigenvalues": [1.0, True]}, {"energies": [1.0]},
     {"energies": [-1.0, 2.0]}, {"remainder": "0"}, {"n_rows": 0.0}, {"n_outputs": 0},
     {"n_outputs": 1.5}, {"further": 1.0}],
)  # fmt: skip
def test_evaluations_of_a_checkpoint_are_those_of_a_fit(changes):
    assert stored_answers(Entries({"answers": {"a": SPECTRUM, "b": 1.5}}, {}))["b"] == 1.5
    with pytest.raises(ModelFileError, match="answers"):
        stored_answers(Entries({"answers": {"a": SPECTRUM | changes}}, {}))


@pytest.mark.filterwarnings("ignore")
def test_a_table_that_changed_after_the_first_pass_is_found(tmp_path):
    """Though the fit was killed in the second pass, before anything of that was saved."""
    with pytest.raises(InterruptedError):
        model("special").fit_batches(interrupted(N // SIZE + 3), checkpoint=tmp_path)
    assert not list(tmp_path.glob("moments*"))
    for name, value in (("a", 1e-9), ("s", "w"), ("t", pd.Timedelta("1us"))):
        source = Source("special")
        column = source.parts[0][name]
        changed = value if isinstance(value, str) else column.iloc[-1] + value
        source.parts[0].loc[N - 1, name] = changed
        with pytest.raises(InvalidInputError, match="the source has changed"):
            model("special").fit_batches(source, checkpoint=tmp_path)


def interrupted(n_batches):
    """Batches of a special table that end in an error after so many, over all passes."""
    source = Source("special")

    def batches():
        for batch in source():
            if source.given > n_batches:
                raise InterruptedError
            yield batch

    return batches


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """The folder of a fit with a search, of which every kind of state was saved."""
    folder = tmp_path_factory.mktemp("searched")
    with pytest.MonkeyPatch.context() as patch, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        patch.setattr(out_of_core, "KEPT_ROWS", 3000)
        patch.setattr(batched_evidence, "KEPT_ROWS", 3000)
        model("special").fit_batches(Source("special"), checkpoint=folder)
    return folder


def tampered(path, rng):
    """Put what no fit saves into a checkpoint, with a checksum that fits; what was done."""
    metadata, arrays = opened(path)
    header = json.loads(metadata["model"])
    kind = ["header", "arrays", "spoiled", "other"][rng.integers(4 if arrays else 1)]
    done = ""
    if kind == "header":
        fit = header.pop("fit")  # which is compared, and refused by name
        done = edit_header(header, rng)
        header["fit"] = fit
    elif kind == "arrays":
        done = edit_arrays(arrays, rng)
    elif kind == "spoiled":
        done = spoil(header, arrays, rng)
    else:
        others = [other for other in path.parent.iterdir() if other != path]
        path.write_bytes(others[rng.integers(len(others))].read_bytes())
        return f"{path.name}: another's"
    path.write_bytes(signed(metadata, json.dumps(header), arrays))
    return f"{path.name}: {done}"


@pytest.mark.filterwarnings("ignore")
def test_tampered_checkpoints_end_in_errors_of_the_package(searched, tmp_path):
    names = sorted(path.name for path in searched.iterdir())
    assert {"columns", "moments", "search", "answers", "posterior", "digest"} <= {
        name.removesuffix(".checkpoint") for name in names
    }
    rng, n_refused = np.random.default_rng(4), 0
    for number in range(TAMPERINGS):
        shutil.rmtree(tmp_path, ignore_errors=True)
        shutil.copytree(searched, tmp_path)
        done = tampered(tmp_path / names[number % len(names)], rng)
        try:
            model("special").fit_batches(Source("special"), checkpoint=tmp_path)
        except CoupledGPError:
            n_refused += 1
        except Exception as error:
            raise AssertionError(done) from error
    assert n_refused > TAMPERINGS / 2


@pytest.mark.parametrize("part", ["X", "y", "sample_weight"])
def test_a_fit_that_is_done_is_not_that_of_other_rows(part, tmp_path):
    """Rows that differ from the second one on are told from those that were summed."""
    parts = dict(zip(("X", "y", "sample_weight"), table(), strict=True))
    parts = {name: np.array(values, dtype=np.float64) for name, values in parts.items()}
    own = model(optimizer=None, lengthscale=1.0)
    done = own.fit_batches(tuple(parts.values()), checkpoint=tmp_path).predict(parts["X"][:5])
    again = own.fit_batches(tuple(parts.values()), checkpoint=tmp_path).predict(parts["X"][:5])
    np.testing.assert_array_equal(again, done)
    parts[part][1:] += 1.0
    with pytest.raises(InvalidInputError, match="the source has changed"):
        own.fit_batches(tuple(parts.values()), checkpoint=tmp_path)


def test_weights_have_to_be_the_same_in_every_pass():
    X, y, w = table()
    passes = iter(range(9))
    with pytest.raises(InvalidInputError, match="the source has changed"):
        model().fit_batches(lambda: [(X, y, w + 1.0 + next(passes))])


def test_a_folder_has_to_be_a_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("", 5):
        with pytest.raises(InvalidInputError, match="checkpoint: expected the path of a folder"):
            model().fit_batches(Source("plain"), checkpoint=folder)
    assert not list(tmp_path.iterdir())


def test_another_start_has_to_draw_the_same(tmp_path):
    with pytest.raises(InvalidInputError, match="random_state: expected an int beside checkpoint"):
        model(random_state=None).fit_batches(Source("plain"), checkpoint=tmp_path)


def test_summaries_of_files_are_the_same():
    frame = table("special")[0]
    for name in frame.columns:
        column = pa.chunked_array([pa.array(frame[name], from_pandas=True)])
        summary = summary_of(column, name)
        again = summary_from_state(summary_state(summary))
        assert again.code(fill=True) == summary.code(fill=True)
        assert (again.n_rows, again.n_missing) == (summary.n_rows, summary.n_missing)
