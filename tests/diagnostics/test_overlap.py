"""Test rows that are training rows are found, told first, and left out on request."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor

import coupledgp as cgp
from coupledgp.diagnostics import compare
from coupledgp.diagnostics.scoring.overlap import Overlap, near_rows, overlap_of
from coupledgp.errors import InvalidInputError
from coupledgp.tables.standardized import RowDigests

RNG = np.random.default_rng(8)
X = RNG.normal(size=(60, 2)).round(3)
X[0] = 0.0
Y = np.sin(X[:, 0]) + 0.2 * RNG.normal(size=60) + 3.0
NEW = RNG.normal(size=(9, 2))
# Five training rows, two rows of trained inputs and other targets, nine new rows.
X_TEST = np.vstack([X[[0, 3, 7, 11, 39]], X[[5, 6]], NEW])
Y_TEST = np.concatenate([Y[[0, 3, 7, 11, 39]], Y[[5, 6]] + 1.0, np.full(9, 3.0)])


def sparse(**options: Any) -> Any:
    defaults = {"n_frequencies": 8, "optimizer": None, "noise": 0.1, "random_state": 0}
    return cgp.SparseSpectrumGPRegressor(**(defaults | options)).fit(X[:40], Y[:40])


def counts(model: Any, X_test: Any, y_test: Any = None, **options: Any) -> tuple[Any, Any]:
    found, rows = overlap_of(model, X_test, y_test, **options)
    assert found.n_rows is None or rows.sum() == found.n_rows
    return found.n_rows, found.n_inputs


def test_rows_of_a_table() -> None:
    model = sparse()
    assert counts(model, X_TEST, Y_TEST) == (5, 2)
    assert counts(model, X_TEST) == (7, 0)
    assert counts(model, -X_TEST[:1], Y_TEST[:1]) == (1, 0)  # minus zero is zero
    # But for rounding they are training rows.
    assert counts(model, np.nextafter(X_TEST, 9), Y_TEST) == (5, 0)
    assert counts(model.process_, X_TEST, Y_TEST) == (5, 2)
    _, rows = overlap_of(model, X_TEST, Y_TEST)
    np.testing.assert_array_equal(rows, np.arange(16) < 5)


def test_several_outputs_and_later_rows() -> None:
    targets = np.column_stack([Y, -Y])
    model = sparse().fit(X[:30], targets[:30]).partial_fit(X[30:40], targets[30:40])
    both = np.column_stack([Y_TEST, -Y_TEST])
    assert counts(model, X_TEST, both) == (5, 2)
    both[0, 1] += 1
    assert counts(model, X_TEST, both) == (4, 3)


@pytest.mark.parametrize("coupling", [None, "log"])
def test_transformed_targets_and_mixtures(coupling: str | None) -> None:
    model = sparse(target_transform=coupling)
    assert counts(model, X_TEST, Y_TEST) == (5, 2)
    exact = cgp.ExactGPRegressor(optimizer=None).fit(X[:40], Y[:40])
    assert counts(exact, X_TEST, Y_TEST) == (5, 2)


def test_digests_of_inputs_say_nothing_of_targets(tmp_path: Path) -> None:
    """Files of the same inputs and other targets hold the same digests."""
    held = []
    for targets in (Y, -Y):
        model = sparse().fit(X[:40], targets[:40])
        model.save(tmp_path / "m", row_digests="inputs")
        loaded = cgp.load_model(tmp_path / "m")
        assert counts(loaded, X_TEST, Y_TEST) == (7, 0)
        digests = loaded.fitted_.digests
        assert not digests.with_targets
        held.append(digests.values.tobytes() + digests.salt)
    assert held[0] == held[1]
    later = loaded.partial_fit(X[40:50], Y[40:50])
    assert counts(later, X[38:52], Y[38:52]) == (12, 0)
    sparse().save(tmp_path / "m")
    full = cgp.load_model(tmp_path / "m")
    full.save(tmp_path / "less", row_digests="inputs")
    assert counts(cgp.load_model(tmp_path / "less"), X_TEST, Y_TEST) == (7, 0)
    assert not (cgp.load_model(tmp_path / "less").fitted_.digests.values & 0xFFFF).any()
    with pytest.raises(InvalidInputError, match="row_digests: expected"):
        full.save(tmp_path / "less", row_digests="targets")


def test_files_with_rows_hold_no_digests(tmp_path: Path) -> None:
    exact = cgp.ExactGPRegressor(optimizer=None).fit(X[:40], Y[:40])
    for model, data in ((exact, False), (sparse(), True)):
        model.save(tmp_path / "m", include_data=data)
        assert cgp.load_model(tmp_path / "m").fitted_.digests is None


def test_categories() -> None:
    table = pa.table({"a": X[:, 0], "kind": pa.array(["u", "v", "w"] * 20)})
    model = cgp.SparseSpectrumGPRegressor(n_frequencies=8, optimizer=None, random_state=0)
    model.fit(table.slice(0, 40), Y[:40])
    assert counts(model, table.slice(30, 20), Y[30:50]) == (10, 0)
    other = table.set_column(1, "kind", pa.array(["v", "w", "u"] * 20))
    assert counts(model, other.slice(30, 20), Y[30:50]) == (0, 0)


def test_nodes() -> None:
    graph = cgp.Graph.from_edges([0, 1, 2, 3, 4], [1, 2, 3, 4, 5])
    model = cgp.ExactGraphGPRegressor(graph, optimizer=None, noise=0.1).fit([0, 2, 3], Y[:3])
    assert counts(model, [2, 3, 4], [Y[1], 0.0, 0.0]) == (1, 1)
    report = compare(model, [2, 3, 4], [Y[1], 0.0, 0.0], leave_out_overlap=True)
    assert report.n_test == 2


def test_a_place_stated_as_one_of_another_edge() -> None:
    operator = cgp.LaplaceOperator.from_edges([0, 1, 2], [1, 2, 3], [1.0, 2.0, 1.0], max_edge=0.05)
    model = cgp.FieldGPRegressor(operator)
    model.fit(operator.at_edges([0, 1, 2], [0.5, 0.0, 0.25]), Y[:3])
    ends = operator.at_edges([0, 1, 2], [1.0, 2.0, 0.25])
    assert counts(model, ends, [Y[1], 0.0, Y[2]]) == (2, 0)
    assert counts(model, [1, 2], [Y[1], 0.0]) == (1, 0)
    report = compare(model, ends, [Y[1], 0.0, Y[2] + 1], leave_out_overlap=True)
    assert (report.n_test, report.overlap.n_inputs) == (2, 1)


def test_the_verdict_begins_with_it(tmp_path: Any) -> None:
    report = compare(sparse(), X_TEST, Y_TEST)
    warning = "5 of 16 test rows are training rows: scores at them are not those of new data."
    assert report.overlap == Overlap(16, 5, 2)
    assert report.warnings == (warning,)
    given = next(one for one in report.verdicts if one.is_given)
    assert report.verdict().startswith(f"{warning} {given.sentence}")
    assert report.remarks[-1].startswith("2 of 16 test rows have the inputs of a training row")
    found = json.loads(report.to_json())
    assert found["overlap"] == {
        "n_test": 16, "n_rows": 5, "n_inputs": 2, "left_out": False, "n_near": 0
    }  # fmt: skip
    assert found["verdict"].startswith(warning)
    body = report.to_html().split("<body>")[1]
    assert body.index(warning) < body.index(report.verdicts[1].sentence)
    assert body.count(warning) == 1
    assert not compare(sparse(), NEW, Y_TEST[7:]).warnings


def test_quality_and_intervals_are_not_judged_at_training_rows() -> None:
    model = sparse()
    known = compare(model, X[:40], Y[:40])
    assert [one.colour for one in known.verdicts[:2]] == ["grey", "grey"]
    assert known.verdicts[0].sentence.startswith("Not judged: 40 of 40 test rows are training rows")
    assert known.advice == ()
    assert known.verdicts[2].is_given
    new = compare(model, X[[0, *range(40, 60)]], Y[[0, *range(40, 60)]])
    assert counts(model, X[[0, *range(40, 60)]], Y[[0, *range(40, 60)]])[0] == 1
    assert all(one.is_given for one in new.verdicts)
    assert not Overlap(40, 30, 0, left_out=True).is_large
    left = compare(model, X[30:], Y[30:], leave_out_overlap=True)
    assert all(one.is_given for one in left.verdicts)
    assert compare(model, X[:40]).verdicts[0].sentence.endswith("no targets to judge it by.")


def test_rows_left_out_count_nowhere() -> None:
    model = sparse()
    report = compare(model, X_TEST, Y_TEST, leave_out_overlap=True)
    rest = compare(model, X_TEST[5:], Y_TEST[5:])
    assert report.figures == rest.figures
    assert report.warnings == ("5 of 16 test rows are training rows and left out.",)
    page = cgp.posterior_report(model, X_TEST, Y_TEST, leave_out_overlap=True)
    assert page.figures == rest.figures
    assert page.overlap == report.overlap
    assert compare(model, X_TEST.tolist(), None, leave_out_overlap=True).n_test == 9
    with pytest.raises(InvalidInputError, match="X_test: all 40 test rows are training rows"):
        compare(model, X[:40], Y[:40], leave_out_overlap=True)


class TestFiles:
    """A file without training rows has eight bytes of each, by which they are known again."""

    def saved(self, model: Any, path: Any, **options: Any) -> Any:
        model.save(path, **options)
        return cgp.load_model(path)

    def test_digests_find_what_rows_find(self, tmp_path: Any) -> None:
        model = sparse()
        without = self.saved(model, tmp_path / "a")
        assert counts(without, X_TEST, Y_TEST) == (5, 2)
        assert counts(without, X_TEST) == (7, 0)
        again = self.saved(without, tmp_path / "b")
        assert counts(again, X_TEST, Y_TEST) == (5, 2)
        assert again.fitted_.digests.salt == without.fitted_.digests.salt
        assert without.fitted_.digests.values.nbytes == 8 * 40
        report = compare(without, X_TEST, Y_TEST, model.exact_twin())
        assert report.overlap == Overlap(16, 5, 2)

    def test_later_rows_join(self, tmp_path: Any) -> None:
        model = self.saved(sparse(), tmp_path / "a").partial_fit(NEW, Y_TEST[7:])
        assert counts(model, X_TEST, Y_TEST) == (14, 2)

    def test_digests_of_other_rows_share_nothing(self) -> None:
        """Neither with those of another fit of the same rows beside others, nor with the rows."""
        one, other = RowDigests.of(X[:40], Y[:40, None]), RowDigests.of(X[:39], Y[:39, None])
        assert not np.isin(one.values, other.values).any()
        assert len(np.unique(one.values)) == 40

    def test_without_digests_it_cannot_be_known(self, tmp_path: Any) -> None:
        model = self.saved(sparse(), tmp_path / "a", row_digests=False)
        assert counts(model, X_TEST, Y_TEST) == (None, None)
        twin = sparse().exact_twin()
        report = compare(model, X_TEST, Y_TEST, twin, leave_out_overlap=True)
        assert report.overlap == Overlap(16, 5, 2, left_out=True)  # the reference has rows

    def test_a_file_with_rows_has_no_digests(self, tmp_path: Any) -> None:
        model = self.saved(sparse(), tmp_path / "a", include_data=True)
        assert model.fitted_.digests is None
        assert counts(model, X_TEST, Y_TEST) == (5, 2)


def test_models_of_other_packages() -> None:
    class Foreign(GaussianProcessRegressor):  # type: ignore[misc]
        pass

    one, other = (Foreign(alpha=0.1, optimizer=None).fit(X[:40], Y[:40]) for _ in range(2))
    report = compare(one, NEW, None, other)
    assert report.overlap == Overlap(9, None, None)
    assert "cannot be known" in report.remarks[-1]


class TestNearRows:
    """Rows that are training rows but for rounding."""

    def test_rows_and_targets_must_both_be_near(self):
        rng = np.random.default_rng(0)
        known, targets = rng.normal(size=(300, 3)), rng.normal(size=(300, 1))
        points = known[:60] + 1e-7 * rng.normal(size=(60, 3))
        y = targets[:60] + 1e-7
        y[20:40] += 0.5  # other observations at the same places
        points[40:] += 0.05
        assert near_rows(known, targets, points, y).tolist() == [True] * 20 + [False] * 40

    @pytest.mark.parametrize("known", [np.ones((9, 2)), np.repeat(np.eye(2), 5, axis=0)])
    def test_rows_that_tell_no_distance_are_not_near(self, known):
        targets = np.arange(float(len(known)))[:, None]
        assert not near_rows(known, targets, known[:3] + 1e-9, targets[:3]).any()

    @pytest.mark.long
    def test_reports_say_so_and_leave_them_out(self):
        rng = np.random.default_rng(1)
        X = rng.uniform(-2, 2, (200, 2))
        y = np.sin(X[:, 0]) + 0.1 * rng.normal(size=200)
        model = cgp.ExactGPRegressor(optimizer=None, noise=0.1).fit(X[:100], y[:100])
        X_test = np.vstack([X[:50] + 1e-6 * rng.normal(size=(50, 2)), X[100:]])
        y_test = np.r_[y[:50], y[100:]]
        for report in (
            cgp.diagnostics.compare(model, X_test, y_test),
            cgp.audit(model, X[:100], y[:100], X_test, y_test),
        ):
            assert report.warnings[0].startswith(
                "50 of 150 test rows are training rows (50 of them but for rounding)"
            )
            assert [one.colour for one in report.verdicts[:2]] == ["grey", "grey"]
            assert report.advice == ()
        without = cgp.diagnostics.compare(model, X_test, y_test, leave_out_overlap=True)
        assert without.n_test == 100
        assert "(50 of them but for rounding) and left out" in without.warnings[0]
