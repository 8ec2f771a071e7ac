"""Codes of columns: what they hold, that they undo nothing, and what they refuse."""

import datetime as dt
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from coupledgp.errors import InvalidInputError, ModelFileError
from coupledgp.ground.codec import decoded
from coupledgp.ground.codec import encoded as file_of
from coupledgp.tables.arrow import arrow_columns, special_columns
from coupledgp.tables.codes import CYCLES, CategoryCode, cycles_of
from coupledgp.tables.encoding import TableEncoding
from tests.model_files import changed

N = 40


def columns_of(table):
    return [column for _, column in arrow_columns(table)]


def learn(table, missing="indicator"):
    return TableEncoding.learn(columns_of(table), list(table.columns), missing)


def encoded(table, missing="indicator"):
    encoding = learn(table, missing)
    return encoding, encoding.encode(columns_of(table))


def test_numbers_and_booleans_stay_as_they_are(rng):
    table = pd.DataFrame({"x": rng.normal(size=N), "k": np.arange(N), "b": rng.random(N) < 0.5})
    encoding, matrix = encoded(table)
    np.testing.assert_array_equal(matrix, table.to_numpy(dtype=float))
    assert encoding.parts == (("x", 1), ("k", 1), ("b", 1))


def test_a_matrix_without_anything_special_is_not_copied(rng):
    matrix = rng.normal(size=(N, 3))
    encoding = TableEncoding.learn(list(matrix.T), None, "indicator")
    assert encoding.rows(matrix) is matrix


@pytest.mark.parametrize(
    "values",
    [
        pd.Series(["b", "a", "b", "c"]),
        pd.Series(["b", "a", "b", "c"], dtype=object),
        pd.Categorical(["b", "a", "b", "c"], categories=["z", "c", "b", "a"]),
        pd.Categorical(["b", "a", "b", "c"], ordered=True),
        pd.Series(["b", "a", "b", "c"], dtype="string"),
    ],
)
def test_all_columns_of_text_are_the_same_category(values):
    encoding, matrix = encoded(pd.DataFrame({"c": values}))
    assert encoding.codes[0] == CategoryCode(("b", "a", "c"))
    np.testing.assert_array_equal(matrix, np.eye(3)[[0, 1, 0, 2]])


def test_categories_of_numbers():
    table = pd.DataFrame({"c": pd.Categorical([30, 10, 30, 20])})
    encoding, matrix = encoded(table)
    assert encoding.codes[0] == CategoryCode((30, 10, 20))
    plain = encoding.encode(columns_of(pd.DataFrame({"c": [30, 10, 30, 20]})))
    np.testing.assert_array_equal(plain, matrix)
    with pytest.raises(InvalidInputError, match=r"column 'c': expected numbers .* got text"):
        encoding.encode(columns_of(pd.DataFrame({"c": ["30", "10"]})))


def test_levels_do_not_depend_on_the_order_of_rows(rng):
    values = pd.Series(rng.choice(list("abcdef"), 200))
    one, other = (learn(pd.DataFrame({"c": v})) for v in (values, values[::-1]))
    assert one.codes == other.codes


def test_levels_that_are_not_known_are_apart_from_all_others():
    encoding, known = encoded(pd.DataFrame({"c": list("aabc")}))
    with pytest.warns(UserWarning, match=r"column 'c': 'q', 'r' did not occur in the fit"):
        far = encoding.encode(columns_of(pd.DataFrame({"c": ["q", "r"]})))
    np.testing.assert_array_equal(far[0], far[1])
    np.testing.assert_allclose(np.linalg.norm(known - far[0], axis=1), np.sqrt(2))


def test_a_missing_category_is_a_level_of_its_own():
    table = pd.DataFrame({"c": ["a", None, "b", None, None]})
    encoding, matrix = encoded(table)
    assert encoding.codes[0].levels == (None, "a", "b")
    np.testing.assert_array_equal(matrix, np.eye(3)[[1, 0, 2, 0, 0]])
    unknown = learn(pd.DataFrame({"c": ["a", "b"]}))
    with pytest.warns(UserWarning, match="'c': missing values, of which the fit had none"):
        far = unknown.encode(columns_of(table))
    np.testing.assert_allclose(np.linalg.norm(far[1] - np.eye(2), axis=1), np.sqrt(2))


def test_missing_numbers_are_the_mean_with_an_indicator(rng):
    x = rng.normal(size=N)
    known = x[2:]
    x[:2] = np.nan
    encoding, matrix = encoded(pd.DataFrame({"x": x}))
    np.testing.assert_allclose(matrix[:2], [[known.mean(), known.std()]] * 2)
    np.testing.assert_array_equal(matrix[2:], np.column_stack([known, np.zeros(N - 2)]))
    assert encoding.parts == (("x", 2),)
    np.testing.assert_array_equal(encoding.groups, [0, 0])


@pytest.mark.parametrize("dtype", ["Int64", "Float64", "boolean", "float32", object])
def test_missing_values_of_every_kind_of_number(dtype):
    values = [1, 0, None, 1, 1]
    if dtype is object:
        values = [Decimal(1), Decimal(0), None, Decimal(1), Decimal(1)]
    series = pd.Series(values, dtype=dtype)
    _, matrix = encoded(pd.DataFrame({"x": series}))
    np.testing.assert_allclose(matrix[:, 0], [1, 0, 0.75, 1, 1], rtol=1e-7)
    assert (matrix[:, 1] > 0).tolist() == [False, False, True, False, False]


def test_missing_numbers_where_the_fit_had_none(rng):
    matrix = rng.normal(size=(N, 3))
    encoding = TableEncoding.learn(list(matrix.T), ["a", "b", "c"], "indicator")
    further = matrix[:4].copy()
    further[1, 2] = further[3, 0] = np.nan
    with pytest.warns(UserWarning, match=r"X: column 'a', X: column 'c': missing values"):
        filled = encoding.rows(further)
    assert filled[1, 2] == matrix[:, 2].mean()
    assert filled[3, 0] == matrix[:, 0].mean()


def test_missing_values_are_refused_by_name_and_row():
    for column in ([1.0, np.nan], ["a", None], pd.to_datetime(["2020-01-01", None])):
        table = pd.DataFrame({"p": [1.0, 2.0], "c": column})
        with pytest.raises(InvalidInputError, match=r"column 'c', row 2: .* missing='indicator'"):
            learn(table, "raise")


def test_a_column_that_is_all_missing_is_left_out_with_a_warning():
    for empty in (np.full(3, np.nan), [None] * 3, pd.to_datetime([None] * 3)):
        table = pd.DataFrame({"x": empty, "y": [1.0, 2.0, 3.0]})
        with pytest.warns(UserWarning, match="'x': every value is missing, it is left out"):
            encoding = learn(table)
        values = encoding.encode(columns_of(pd.DataFrame({"x": [5.0], "y": [2.0]})))
        np.testing.assert_array_equal(values, [[0.0, 2.0]])


def test_dates_are_days_and_places_on_cycles():
    when = pd.date_range("2019-03-02 06:00", periods=24 * 14, freq="h")
    encoding, matrix = encoded(pd.DataFrame({"t": when}))
    assert encoding.parts == (("t", 1), ("t (week)", 2), ("t (day)", 2))
    np.testing.assert_array_equal(encoding.groups, [0, 1, 1, 2, 2])
    np.testing.assert_allclose(matrix[:, 0], np.arange(24 * 14) / 24, atol=1e-12)
    angle = 2 * np.pi * when.hour.to_numpy() / 24
    np.testing.assert_allclose(matrix[:, 3:], np.column_stack([np.sin(angle), np.cos(angle)]),
                               atol=1e-9)  # fmt: skip
    np.testing.assert_allclose(matrix[:168, 1:3], matrix[168:, 1:3], atol=1e-9)


@pytest.mark.parametrize(
    ("freq", "periods", "cycles"),
    [("D", 400, ("week",)), ("D", 800, ("year", "week")), ("MS", 30, ("year",)), ("YS", 9, ()),
     ("h", 47, ()), ("h", 48, ("day",)), ("12h", 60, ("week",)), ("D", 1, ())],
)  # fmt: skip
def test_cycles_need_two_periods_and_two_rows_in_each(freq, periods, cycles):
    when = pd.date_range("2020-01-01", periods=periods, freq=freq)
    days = np.asarray((when - pd.Timestamp(0)) / pd.Timedelta(days=1))
    assert cycles_of(days, days[-1]) == cycles
    assert list(CYCLES) == ["year", "week", "day"]


def test_dates_of_every_kind_are_the_same_days():
    when = pd.date_range("2020-01-01", periods=20, freq="D")
    arrow = [
        pa.array(when.date.tolist(), pa.date32()),
        pa.array(when.date.tolist(), pa.date64()),
        pa.array(when, pa.timestamp("s")),
        pa.array(when, pa.timestamp("ns")),
    ]
    expected = encoded(pd.DataFrame({"t": when}))[1]
    for column in arrow:
        encoding = TableEncoding.learn([pa.chunked_array([column])], ["t"], "raise")
        np.testing.assert_allclose(encoding.encode([pa.chunked_array([column])]), expected)


def test_days_of_a_time_zone_are_those_of_its_clocks():
    zone = "America/New_York"
    when = pd.date_range("2021-03-10", periods=24 * 8, freq="h", tz=zone)  # clocks change inside
    encoding, matrix = encoded(pd.DataFrame({"t": when}))
    angle = 2 * np.pi * when.hour.to_numpy() / 24
    np.testing.assert_allclose(matrix[:, -1], np.cos(angle), atol=1e-9)
    np.testing.assert_allclose(matrix[:, 0], np.arange(24 * 8) / 24, atol=1e-9)
    elsewhere = pd.DataFrame({"t": when.tz_convert("UTC")})
    np.testing.assert_allclose(encoding.encode(columns_of(elsewhere)), matrix)
    with pytest.raises(InvalidInputError, match="expected dates with a time zone"):
        encoding.encode(columns_of(pd.DataFrame({"t": when.tz_localize(None)})))


def test_missing_dates_are_at_the_centre_of_each_cycle():
    when = pd.Series(pd.date_range("2020-01-01", periods=30, freq="D"))
    when[4] = pd.NaT
    _, matrix = encoded(pd.DataFrame({"t": when}))
    known = np.delete(np.arange(30.0), 4)
    np.testing.assert_allclose(matrix[4], [known.mean(), known.std(), 0, 0])


def test_durations_are_days():
    table = pd.DataFrame({"t": pd.to_timedelta(["1 days", "12 hours"])})
    np.testing.assert_allclose(encoded(table)[1], [[1.0], [0.5]])


def test_a_file_restores_the_same_encoding():
    table = pd.DataFrame({
        "x": [1.0, np.nan, 3.5, 4.0], "s": ["a", None, "b", "a"],
        "c": pd.Categorical([1.5, 2.5, 1.5, 2.5]), "b": [True, False, True, None],
        "t": pd.to_datetime(["2020-01-01", "2021-01-01", None, "2022-06-01"]), "k": [1, 2, 3, 4],
        "m": [None] * 4,
    })  # fmt: skip
    with pytest.warns(UserWarning, match="left out"):
        encoding = learn(table)
    restored = decoded(file_of(encoding))
    assert restored.codes == encoding.codes
    assert restored.parts == encoding.parts
    matrix = encoding.encode(columns_of(table))
    np.testing.assert_array_equal(restored.encode(columns_of(table)), matrix)
    assert np.isfinite(matrix).all()


def test_a_mean_of_zero_is_restored():
    table = pd.DataFrame({"x": [-1.0, 1.0]})
    restored = decoded(file_of(learn(table)))
    with pytest.warns(UserWarning, match="mean of the training column"):
        assert restored.rows(np.array([[np.nan]])) == 0.0


def test_numbers_that_need_nothing_take_no_place_in_a_file():
    table = pd.DataFrame({f"x{j}": [1.0, 2.0] for j in range(50)} | {"s": ["a", "b"]})
    assert list(learn(table, "raise").as_stored().codes) == [50]


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("NumberCode", {"fill": 1e301}), ("NumberCode", {"indicator": -1.0}),
        ("NumberCode", {"kind": "category"}), ("NumberCode", {"fill": None}),
        ("CategoryCode", {"levels": {"tuple": []}}),
        ("CategoryCode", {"levels": {"tuple": ["a", "a"]}}),
        ("CategoryCode", {"levels": {"tuple": [{"tuple": []}]}}), ("DateCode", {"zone": "../etc"}),
        ("DateCode", {"cycles": {"tuple": ["age"]}}), ("DateCode", {"origin": 1e301}),
        ("StoredEncoding", {"n_columns": 2**60}), ("StoredEncoding", {"n_columns": 2}),
        ("StoredEncoding", {"missing": "never"}),
    ],
)  # fmt: skip
def test_hostile_encodings_are_refused(kind, fields, tmp_path):
    when = pd.to_datetime(["2020-01-01", "2021-01-01", "2022-06-01"])
    table = pd.DataFrame({"x": [1.0, np.nan, 2.0], "s": ["a", "b", "a"], "t": when})
    (tmp_path / "m").write_bytes(file_of(learn(table)))
    changed(tmp_path / "m", kind, **fields)
    with pytest.raises(ModelFileError, match="cannot restore"):
        decoded((tmp_path / "m").read_bytes())


def test_every_code_says_what_it_does():
    table = pd.DataFrame({
        "x": [1.0, np.nan, 3.0], "s": ["a", None, "b"], "b": [True, False, True],
        "t": pd.to_datetime(["2020-01-01", "2021-01-01", "2022-01-01"]),
    })  # fmt: skip
    assert learn(table).describe() == {
        "x": "number; missing: the mean 2 and an indicator",
        "s": "category, one-hot: a, b, missing",
        "b": "Boolean, 0 and 1",
        "t": "date: days since 2020-01-01",
    }


def test_ten_thousand_levels(rng):
    values = rng.integers(0, 10_000, 30_000)
    table = pd.DataFrame({"id": pd.Categorical([f"v{v}" for v in values])})
    _, matrix = encoded(table)
    assert matrix.shape == (30_000, 62)
    same = values == values[0]
    assert (matrix[same] == matrix[0]).all()
    assert np.linalg.norm(matrix[~same] - matrix[0], axis=1).min() > 1.0


def test_an_identifier_is_remarked_on():
    with pytest.warns(UserWarning, match="'id': no value occurs twice"):
        learn(pd.DataFrame({"id": [f"row {j}" for j in range(12)]}))


def test_text_of_dates_is_remarked_on():
    with pytest.warns(UserWarning, match="'day': text of dates such as '2024-0"):
        learn(pd.DataFrame({"day": [f"2024-05-{1 + j % 9:02d}" for j in range(12)]}))
    for form in ("%d.%m.%Y", "%m/%d/%Y %H:%M", "%Y/%m/%d"):
        days = pd.date_range("2024-01-28", periods=12).strftime(form)
        with pytest.warns(UserWarning, match=f"'day': text of dates such as '{min(days)}'"):
            learn(pd.DataFrame({"day": days}))
    learn(pd.DataFrame({"version": [f"1.{j % 9}.2024.1" for j in range(12)]}))
    learn(pd.DataFrame({"part": [f"45-{j % 9}-2024" for j in range(12)]}))
    learn(pd.DataFrame({"part": [f"2024-{90 + j % 9}" for j in range(12)]}))  # not a date


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([1, "a", 2.0], "column 'c': expected values of one type, got float, int, str"),
        ([[1], [2], [3]], "column 'c': expected numbers, Booleans, text, categories or dates"),
        ([b"a", b"b", b"a"], "got values of the type binary"),
        ([dt.time(1), dt.time(2), dt.time(3)], "got values of the type time64"),
        ([1 + 2j, 2.0, 3.0], "column 'c': expected values of one type, got complex, float"),
    ],
)
def test_columns_without_a_code_are_refused_by_name(values, text):
    with pytest.raises(InvalidInputError, match=text):
        special_columns(pd.DataFrame({"c": pd.Series(values, dtype=object)}))


@pytest.mark.parametrize(
    "values", [[True, 2, 3.5, None], [10**30, 2, 3, None], [Decimal(2), 2, 3.5, None]]
)
def test_numbers_of_several_types_are_numbers(values):
    table = pd.DataFrame({"c": pd.Series(values, dtype=object)})
    _, matrix = encoded(table)
    np.testing.assert_allclose(matrix[:3, 0], [float(v) for v in values[:3]])
    assert matrix[3, 1] > 0


def test_dates_of_other_centuries():
    table = pd.DataFrame({"t": [dt.datetime(1600, 1, 1), dt.datetime(2250, 1, 1)]})
    days = (dt.datetime(2250, 1, 1) - dt.datetime(1600, 1, 1)).days
    np.testing.assert_allclose(encoded(table)[1], [[0.0], [days]])


def test_infinite_numbers_are_refused_by_row():
    table = pd.DataFrame({"x": [1.0, np.inf], "s": ["a", "b"]})
    with pytest.raises(InvalidInputError, match=r"column 'x', row 2: expected a finite number"):
        learn(table)


@pytest.mark.parametrize(
    ("fit", "later", "text"),
    [
        ([1.0, 2.0], ["a", "b"], "expected numbers as in the fit, got text"),
        ([1.0, 2.0], pd.to_datetime(["2020-01-01"] * 2), "expected numbers as in the fit, got dat"),
        (["a", "b"], [1.0, 2.0], "expected text as in the fit, got numbers"),
        (["a", "b"], pd.to_datetime(["2020-01-01"] * 2), "expected text as in the fit, got dates"),
        (pd.to_datetime(["2020-01-01"] * 2), ["a", "b"], "expected dates as in the fit, got text"),
        (pd.to_datetime(["2020-01-01"] * 2), [1, 2], "expected dates as in the fit, got numbers"),
    ],
)
def test_a_column_of_another_kind_than_in_the_fit(fit, later, text):
    encoding = learn(pd.DataFrame({"c": fit}))
    with pytest.raises(InvalidInputError, match=f"column 'c': {text}"):
        encoding.encode(columns_of(pd.DataFrame({"c": later})))


def test_only_columns_that_need_a_code_are_special(rng):
    plain = pd.DataFrame({"x": rng.normal(size=3), "b": [True, False, True], "k": [1, 2, 3]})
    assert special_columns(plain) is None
    assert special_columns(plain.astype({"k": "Int64", "b": "boolean"})) is None
    assert special_columns(plain.astype({"x": object})) is None
    assert special_columns(pa.Table.from_pandas(plain)) is None
    assert special_columns(plain.to_numpy()) is None
    assert special_columns([[1, 2]]) is None
    assert special_columns(plain.assign(s=list("abc"))) is not None


def test_chunks_of_arrow_with_dictionaries_of_their_own():
    chunks = [pa.array(["a", "b"]).dictionary_encode(), pa.array(["c", "a"]).dictionary_encode()]
    column = pa.chunked_array(chunks)
    encoding = TableEncoding.learn([column], ["s"], "raise")
    np.testing.assert_array_equal(encoding.encode([column]), np.eye(3)[[0, 1, 2, 0]])


def test_tables_of_polars():
    pl = pytest.importorskip("polars")
    table = pl.DataFrame({
        "x": [1.0, None, 3.0], "s": ["a", "b", None],
        "c": pl.Series(["u", "v", "u"], dtype=pl.Categorical),
        "e": pl.Series(["u", "v", "u"], dtype=pl.Enum(["v", "u"])),
        "t": [dt.date(2020, 1, 1), dt.date(2020, 1, 2), None],
        "z": pl.Series([dt.datetime(2020, 1, 1)] * 3).dt.replace_time_zone("Europe/Paris"),
    })  # fmt: skip
    encoding = TableEncoding.learn(special_columns(table), table.columns, "indicator")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        matrix = encoding.encode(columns_of(table))
    assert [code.kind for code in encoding.codes] == [
        "number", "category", "category", "category", "date", "date",
    ]  # fmt: skip
    assert np.isfinite(matrix).all()
    assert special_columns(pl.DataFrame({"x": [1.0], "k": [2]})) is None


@pytest.mark.parametrize("missing", ["raise", "indicator"])
def test_columns_of_a_matrix_are_learnt_as_one_by_one(missing):
    matrix = np.random.default_rng(0).normal(size=(37, 2100))
    if missing == "indicator":
        matrix[3, 5], matrix[:, 7], matrix[1:4, 2060] = np.nan, np.nan, np.nan
    names = [f"x{j}" for j in range(matrix.shape[1])]
    with warnings.catch_warnings(record=True) as together:
        warnings.simplefilter("always")
        found = TableEncoding.of_matrix(matrix, names, missing)
    with warnings.catch_warnings(record=True) as each:
        warnings.simplefilter("always")
        plain = TableEncoding.learn(list(matrix.T), names, missing)
    assert found.codes == plain.codes
    assert found.names == plain.names
    assert [str(w.message) for w in together] == [str(w.message) for w in each]
    assert decoded(file_of(found)).codes == plain.codes
