"""The encoding of a table: the codes of its columns, their parts, and missing values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.ground.codec import stored
from coupledgp.ground.validation import check_choice
from coupledgp.ground.visible import warn
from coupledgp.random import FloatArray, IntArray
from coupledgp.tables.arrow import CATEGORY, DURATION, Column, label, text_of_place
from coupledgp.tables.codes import (
    DEGREES,
    CategoryCode,
    CodedColumn,
    ColumnCode,
    NumberCode,
    PlaceCode,
    missing_rows,
)
from coupledgp.tables.globe import Ends, GeographicLike, Globe, geographic_columns
from coupledgp.tables.summaries import ColumnSummary, summary_of

# Values of the parameter `missing` of estimators.
MISSING = ("raise", "indicator")
# Most columns or levels that a warning names.
NAMED = 5
# Columns of numbers whose codes are learnt together.
BLOCK_COLUMNS = 1024
# Most columns of a table in a file.
MOST_COLUMNS = 2**22
# Fewest rows from which a category that never repeats is remarked on.
LEAST_ROWS = 10


@dataclass(frozen=True, eq=False)
class TableEncoding:
    """The code that turns d columns of a table into D columns of float64 in q parts.

    Attributes
    ----------
    codes : tuple of ColumnCode
        Code of each column, d.
    names : tuple of str or None
        Names (d,) of the columns.
    missing : str
        `"raise"`: a missing value is an error. `"indicator"`: a number or date that is missing is
        the mean of the training column, with an indicator beside it if the training column had
        missing ones, and without one, and with a warning, if it had none; a missing category is a
        level of its own.
    """

    codes: tuple[ColumnCode, ...]
    names: tuple[str, ...] | None
    missing: str

    @classmethod
    def learn(
        cls, columns: Sequence[Column], names: Sequence[str] | None, missing: str
    ) -> TableEncoding:
        """Learn the codes of columns (n,) each.

        Raises
        ------
        InvalidInputError
            A value is infinite, or missing while `missing` is `"raise"`, or of a type that has no
            code; the column is named, and the row.
        """
        return cls.of(summaries_of(columns, names, missing), names, missing)

    @classmethod
    def of(
        cls, summaries: Sequence[ColumnSummary], names: Sequence[str] | None, missing: str
    ) -> TableEncoding:
        """Learn the codes from summaries of whole columns."""
        names = None if names is None else tuple(map(str, names))
        codes = [summary.code(missing == "indicator") for summary in summaries]
        for j, (code, summary) in enumerate(zip(codes, summaries, strict=True)):
            _remark(code, summary.n_rows, _where(names, j))
        return cls(tuple(codes), names, missing)

    @classmethod
    def of_matrix(
        cls, matrix: FloatArray, names: Sequence[str] | None, missing: str
    ) -> TableEncoding:
        """Learn the codes of columns of finite numbers (n, d), or NaN where one may be missing."""
        names = None if names is None else tuple(map(str, names))
        if missing != "indicator":
            return cls((NumberCode(),) * matrix.shape[1], names, missing)
        codes: list[ColumnCode] = []
        for start in range(0, matrix.shape[1], BLOCK_COLUMNS):
            columns = np.ascontiguousarray(matrix[:, start : start + BLOCK_COLUMNS].T)
            means = columns.mean(axis=1)
            codes += [NumberCode(fill=mean) for mean in means.tolist()]
            for j in np.flatnonzero(~np.isfinite(means)).tolist():
                where = _where(names, start + j)
                codes[start + j] = summary_of(columns[j], where).code(fill=True)
                _remark(codes[start + j], len(matrix), where)
        return cls(tuple(codes), names, missing)

    def with_places(self, asked: GeographicLike, ends: Ends) -> TableEncoding:
        """The encoding with latitude and longitude as kilometres; itself where there are none.

        Parameters
        ----------
        asked, ends
            As of `geographic_columns`.

        Raises
        ------
        InvalidInputError
            Columns that are asked for are not there, or hold no degrees.
        """
        pair = geographic_columns(asked, self.names, len(self.codes), ends)
        if pair is None:
            return self
        latitude, longitude = (np.atleast_2d(np.asarray(ends(column))) for column in pair)
        globe = Globe.of_ends(latitude[0], longitude)
        codes = list(self.codes)
        for name, column in zip(DEGREES, pair, strict=True):
            codes[column] = PlaceCode(name, globe)
        return replace(self, codes=tuple(codes))

    @cached_property
    def places(self) -> tuple[int, int] | None:
        """Numbers of the columns of latitude and longitude; None without them."""
        found = {code.name: j for j, code in enumerate(self.codes) if isinstance(code, PlaceCode)}
        return (found[DEGREES[0]], found[DEGREES[1]]) if found else None

    @property
    def globe(self) -> Globe | None:
        """Coordinates of latitude and longitude; None without them."""
        code = None if self.places is None else self.codes[self.places[0]]
        return code.globe if isinstance(code, PlaceCode) else None

    def sources_of(self, columns: IntArray) -> list[int]:
        """Numbers of the columns of the table that columns of the matrix are made of, each once."""
        found = list(dict.fromkeys(self.part_sources[self.groups[columns]].tolist()))
        if self.globe is None or self.globe.is_plane or self.places is None:
            return found
        north, east = self.places
        return [own for j in found for own in ((north, east) if j == north else (j,))]

    @cached_property
    def parts(self) -> tuple[tuple[str, int], ...]:
        """Name and number of columns of each part, q of them."""
        return tuple(
            (f"{name} ({part})" if part else name, width)
            for j, code in enumerate(self.codes)
            for name in [text_of_place(self.names, j)]
            for part, width in code.parts
        )

    @property
    def part_sources(self) -> IntArray:
        """Number (q,) of the column of the table that each part is made of."""
        return np.repeat(np.arange(len(self.codes)), [len(code.parts) for code in self.codes])

    @cached_property
    def groups(self) -> IntArray:
        """Number (D,) of the part of each column of the matrix, from zero."""
        widths = [width for _, width in self.parts]
        return np.repeat(np.arange(len(widths)), widths)

    @property
    def categories(self) -> tuple[IntArray, ...]:
        """Numbers of the columns of the matrix that are the code of each category."""
        sources = self.part_sources[self.groups]
        kinds = [code.kind == CATEGORY for code in self.codes]
        return tuple(np.flatnonzero(sources == j) for j, one in enumerate(kinds) if one)

    @property
    def column_names(self) -> list[str]:
        """Names (D,) of the columns of the matrix."""
        return [
            text_of_place(self.names, j) + suffix
            for j, code in enumerate(self.codes)
            for suffix in code.suffixes
        ]

    def encode(self, columns: Sequence[Column]) -> FloatArray:
        """Return columns, d of n rows each, as a matrix (n, D).

        Warns of levels and of missing values that the training table did not have.

        Raises
        ------
        InvalidInputError
            As for `learn`, or a column is of another kind than the training column.
        """
        if self.missing == "raise":
            _refuse_missing(columns, self.names)
        matrix = np.empty((len(columns[0]), self.groups.size))
        found, start = [], 0
        degrees: dict[str, FloatArray] = {}
        slots: list[int] = []
        for j, (code, column) in enumerate(zip(self.codes, columns, strict=True)):
            part = code.encoded(column, _where(self.names, j))
            width = sum(width for _, width in code.parts)
            if isinstance(code, PlaceCode):
                degrees[code.name] = part.values[:, 0]
                own = list(range(start, start + width))
                slots = slots + own if code.name == DEGREES[1] else own + slots
            else:
                matrix[:, start : start + width] = part.values
            start += width
            found.append(part._replace(values=part.values[:0]))
        if self.globe is not None:
            matrix[:, slots] = self.globe.coordinates(*(degrees[name] for name in DEGREES))
        self._warn(found)
        return matrix

    @property
    def of_numbers(self) -> bool:
        """Whether every column holds plain numbers or Booleans."""
        return all(
            isinstance(code, NumberCode | PlaceCode) and code.kind != DURATION
            for code in self.codes
        )

    def rows(self, matrix: FloatArray) -> FloatArray:
        """Return a table (n, d) of plain numbers as a matrix (n, D), itself if nothing changes."""
        plain = all(
            isinstance(code, NumberCode) and not code.indicator and not code.empty
            for code in self.codes
        )
        if plain and np.isfinite(matrix).all():
            return matrix
        return self.encode(list(matrix.T))

    def _warn(self, found: Sequence[CodedColumn]) -> None:
        """Warn of levels and missing values that the training table did not have."""
        filled: list[str] = []
        apart: list[str] = []
        for j, (code, part) in enumerate(zip(self.codes, found, strict=True)):
            if part.n_missing:
                (apart if code.kind == CATEGORY else filled).append(_where(self.names, j))
            if part.unknown:
                warn(
                    f"{_where(self.names, j)}: {_listed([repr(x) for x in part.unknown])} did not "
                    "occur in the fit; a level that is not known is as far from every other as "
                    "they are from each other"
                )
        if apart:
            warn(
                f"{_listed(apart)}: missing values, of which the fit had none, are taken as a "
                "level that is not known"
            )
        if filled:
            warn(
                f"{_listed(filled)}: missing values, of which the fit had none, are taken as the "
                "mean of the training column; standard deviations do not hold that doubt"
            )

    def describe(self) -> dict[str, str]:
        """Return the code of each column in words, by its name."""
        return {text_of_place(self.names, j): code.describe() for j, code in enumerate(self.codes)}

    def as_stored(self) -> StoredEncoding:
        """A record without the numbers that are taken as they are."""
        plain = NumberCode()
        codes = {j: code for j, code in enumerate(self.codes) if code != plain}
        return StoredEncoding(codes, len(self.codes), self.names, self.missing)


@stored
@dataclass(frozen=True)
class StoredEncoding:
    """An encoding in a file: the codes by the places of their columns, of which there are d."""

    codes: dict[int, ColumnCode]
    n_columns: int
    names: tuple[str, ...] | None
    missing: str

    def read_back(self) -> TableEncoding:
        """The encoding.

        Raises
        ------
        InvalidInputError
            There is none of such columns.
        """
        check_choice(self.missing, MISSING, "missing")
        places = [code for code in self.codes.values() if isinstance(code, PlaceCode)]
        names = sorted(code.name for code in places)
        if places and (names != list(DEGREES) or len({code.globe for code in places}) > 1):
            raise InvalidInputError("encoding: expected one latitude and longitude, got others")
        known = 0 <= min(self.codes, default=0) <= max(self.codes, default=0) < self.n_columns
        if not known or self.n_columns > MOST_COLUMNS:
            raise InvalidInputError(f"encoding: expected codes of {self.n_columns} columns")
        plain = NumberCode()
        codes = tuple(self.codes.get(j, plain) for j in range(self.n_columns))
        return TableEncoding(codes, self.names, self.missing)


def summaries_of(
    columns: Sequence[Column], names: Sequence[str] | None, missing: str
) -> list[ColumnSummary]:
    """Summaries of columns of a table, or of a part of it, from which `TableEncoding.of` learns.

    Raises
    ------
    InvalidInputError
        As for `TableEncoding.learn`.
    """
    if missing != "indicator":
        _refuse_missing(columns, names)
    return [summary_of(column, _where(names, j)) for j, column in enumerate(columns)]


def merged_summaries(
    first: Sequence[ColumnSummary], second: Sequence[ColumnSummary], names: Sequence[str] | None
) -> list[ColumnSummary]:
    """Summaries of the columns of two parts of a table together.

    Raises
    ------
    InvalidInputError
        A column holds values of another kind in one part than in the other, or a category has too
        many levels; the column is named.
    """
    return [
        mine.merge(its, _where(names, j))
        for j, (mine, its) in enumerate(zip(first, second, strict=True))
    ]


def _where(names: Sequence[str] | None, place: int) -> str:
    return label(None if names is None else names[place], place)


def _refuse_missing(columns: Sequence[Column], names: Sequence[str] | None) -> None:
    for j, column in enumerate(columns):
        rows = missing_rows(column)
        if rows.size:
            raise InvalidInputError(
                f"{_where(names, j)}, row {rows[0] + 1}: expected a value, got a missing one; "
                "missing='indicator' takes missing values"
            )


def _remark(code: ColumnCode, n_rows: int, where: str) -> None:
    """Warn of a training column that says nothing, or nothing about other rows."""
    if getattr(code, "empty", False):
        warn(f"{where}: every value is missing, it is left out")
    if not isinstance(code, CategoryCode):
        return
    if code.n_levels == n_rows >= LEAST_ROWS and not code.of_dates:
        warn(
            f"{where}: no value occurs twice, so that as a category it says nothing about other "
            "rows; leave it out if it is an identifier"
        )
    elif code.of_dates:
        warn(
            f"{where}: text of dates such as {code.levels[0]!r} is taken as a category, by which "
            "near days are as far apart as any; pandas.to_datetime makes dates of it, with "
            "dayfirst=True where days stand before months; files have them as 2024-05-31"
        )


def _listed(texts: Sequence[str]) -> str:
    more = f" and {len(texts) - NAMED} more" if len(texts) > NAMED else ""
    return ", ".join(texts[:NAMED]) + more
