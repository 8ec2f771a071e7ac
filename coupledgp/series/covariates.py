"""Covariates of sensors over time: known numbers or kinds of nodes, of times, or of both."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.ground.validation import check_magnitude
from coupledgp.random import FloatArray, IntArray
from coupledgp.series.axis import TimeAxis
from coupledgp.series.forms import labels_of, real_values, shown

# What a covariate is known of.
NODES, TIMES, BOTH = "nodes", "times", "both"
# Most kinds of a covariate of texts.
MOST_KINDS = 32
# Part of a step by which two times that are the same may differ.
SAME = 1e-6


@dataclass(frozen=True, eq=False)
class Covariate:
    """Known values of a covariate.

    Attributes
    ----------
    name : str
        Its name.
    over : str
        `"nodes"`, `"times"` or `"both"`.
    kinds : tuple of str
        Kinds of a covariate of texts, in the order of their codes; empty for numbers.
    sites : IntArray (s,)
        Rising sites at which it is known; none for `"times"`.
    times : FloatArray (t,)
        Rising numbers of the axis at which it is known; none for `"nodes"`.
    values : FloatArray (s or 1, t or 1)
        Numbers, or codes of kinds; NaN where a further time is known at other sites only.
    """

    name: str
    over: str
    kinds: tuple[str, ...]
    sites: IntArray
    times: FloatArray
    values: FloatArray

    def at(self, axis: TimeAxis, sites: IntArray, times: FloatArray) -> FloatArray:
        """Values (a or 1, b or 1) at sites (a,) and times (b,) of the axis.

        Raises
        ------
        InvalidInputError
            It is not known at a site or a time.
        """
        rows, columns = np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64)
        if self.over != NODES:
            columns = self._columns(axis, times)
        if self.over != TIMES:
            rows = self._rows(sites)
        found = self.values[np.ix_(rows, columns)]
        lacking = np.isnan(found).any(axis=0)
        if lacking.any():
            self._refuse_times(axis, times[lacking])
        return found

    def _rows(self, sites: IntArray) -> IntArray:
        rows = np.minimum(np.searchsorted(self.sites, sites), self.sites.size - 1)
        lacking = self.sites[rows] != sites
        if lacking.any():
            raise InvalidInputError(
                f"covariates[{self.name!r}]: expected values of all nodes that are asked for, got "
                f"none of {int(lacking.sum())} of them (site numbers "
                f"{shown(sites[lacking].tolist())})"
            )
        return rows

    def _columns(self, axis: TimeAxis, times: FloatArray) -> IntArray:
        after = np.minimum(np.searchsorted(self.times, times), self.times.size - 1)
        before = np.maximum(after - 1, 0)
        nearer = np.abs(self.times[before] - times) < np.abs(self.times[after] - times)
        found = np.where(nearer, before, after)
        step = float(np.median(np.diff(self.times))) if self.times.size > 1 else 1.0
        lacking = np.abs(self.times[found] - times) > SAME * step
        if lacking.any():
            self._refuse_times(axis, times[lacking])
        return found

    def _refuse_times(self, axis: TimeAxis, times: FloatArray) -> None:
        distinct = np.unique(times)
        texts = axis.texts(distinct[[0, -1]])
        span = texts[0] if distinct.size == 1 else f"{texts[0]} to {texts[1]}"
        raise InvalidInputError(
            f"covariates[{self.name!r}]: expected a value at each time that is asked for, got none "
            f"at {distinct.size} of them, {span}; give further ones as covariates="
        )

    def joined(self, new: Covariate) -> Covariate:
        """The covariate with further times, whose values replace those of the same time."""
        if self.over == NODES:
            return self
        step = float(np.median(np.diff(self.times))) if self.times.size > 1 else 1.0
        same = np.abs(self.times[:, None] - new.times).min(axis=1, initial=np.inf) <= SAME * step
        if self.over == TIMES:
            rest = self.values[:, ~same]
            both, values = self.sites, [rest, new.values]
        else:
            both = np.union1d(self.sites, new.sites)
            old = np.full((both.size, self.times.size), np.nan)
            old[np.searchsorted(both, self.sites)] = self.values
            more = np.full((both.size, new.times.size), np.nan)
            places = np.minimum(np.searchsorted(self.times, new.times), self.times.size - 1)
            kept = np.abs(self.times[places] - new.times) <= SAME * step
            more[:, kept] = old[:, places[kept]]
            more[np.searchsorted(both, new.sites)] = new.values
            values = [old[:, ~same], more]
        times = np.concatenate([self.times[~same], new.times])
        order = np.argsort(times, kind="stable")
        return replace(
            self, sites=both, times=times[order], values=np.concatenate(values, axis=1)[:, order]
        )


@dataclass(frozen=True, eq=False)
class LabelledValues:
    """Values with labels of nodes, of times, or of both, in any order.

    Attributes
    ----------
    values : array (s,), (t,) or (s, t)
        Numbers or texts.
    nodes : sequence of length s, or None
        Labels of the nodes.
    times : sequence of length t, or None
        Times, as a fit takes them.
    """

    values: Any
    nodes: Any = None
    times: Any = None


@dataclass(frozen=True, eq=False)
class CovariatePlaces:
    """Nodes and times to which covariates without labels belong.

    Attributes
    ----------
    nodes : list
        Labels (a,) of nodes, in the order of the data.
    sites : IntArray (a,)
        Their sites.
    axis : TimeAxis
        The axis of the model.
    times : FloatArray (b,)
        Times, in the order that was asked for.
    every : list
        Labels of all nodes, in the order of their sites.
    every_site : IntArray (N,)
        Sites of all nodes.
    """

    nodes: list[Any]
    sites: IntArray
    axis: TimeAxis
    times: FloatArray
    every: list[Any]
    every_site: IntArray

    def read(self, given: Any, known: tuple[Covariate, ...] | None = None) -> tuple[Covariate, ...]:
        """Covariates of a mapping, a table or a Dataset.

        Parameters
        ----------
        given
            Names and values. Values of nodes are arrays (a,) in the order of the data or (N,) in
            that of all nodes, or a dictionary; of times arrays (b,); of both arrays (a, b). A
            `Series`, a `DataArray`, a wide table or `LabelledValues` have labels, in any order and
            more of them.
        known
            Covariates of the fit, which further values must belong to; None: there are none.

        Raises
        ------
        InvalidInputError
            A name, shape, label or value is not as stated.
        """
        found = []
        by_name = None if known is None else {one.name: one for one in known}
        for name, values in named(given).items():
            if not isinstance(name, str) or not name:
                raise InvalidInputError(f"covariates: expected texts as names, got {name!r}")
            if by_name is not None and name not in by_name:
                raise InvalidInputError(
                    f"covariates: expected some of {sorted(by_name)}, as in the fit, got {name!r}"
                )
            old = None if by_name is None else by_name[name]
            found.append(self._one(name, values, old))
        return tuple(found)

    def _one(self, name: str, given: Any, known: Covariate | None) -> Covariate:
        where = f"covariates[{name!r}]"
        wanted = None if known is None else known.over
        over, sites, times, values = self._placed(given, where, wanted)
        if known is not None and over != known.over:
            raise InvalidInputError(
                f"{where}: expected values over {known.over}, as in the fit, got some over {over}"
            )
        kinds = () if known is None else known.kinds
        numbers, kinds = coded_kinds(values, where, kinds, known is not None)
        numbers = numbers.reshape(sites.size or 1, times.size or 1)
        rows, columns = np.argsort(sites, kind="stable"), np.argsort(times, kind="stable")
        if sites.size and (np.diff(sites[rows]) == 0).any():
            raise InvalidInputError(f"{where}: expected each node once, got one twice")
        if times.size and (np.diff(times[columns]) <= 0).any():
            raise InvalidInputError(f"{where}: expected each time once, got one twice")
        if sites.size:
            numbers, sites = numbers[rows], sites[rows]
        if times.size:
            numbers, times = numbers[:, columns], times[columns]
        return Covariate(name, over, kinds, sites, times, numbers)

    def _placed(
        self, given: Any, where: str, over: str | None
    ) -> tuple[str, IntArray, FloatArray, Any]:
        """What values are known of, their sites and times, and the values.

        `over` is what those of the fit are known of, where that is known.
        """
        no_sites, no_times = np.empty(0, dtype=np.int64), np.empty(0)
        if isinstance(given, Mapping):
            labels = list(given)
            return NODES, self._sites(labels, where), no_times, list(given.values())
        if isinstance(given, LabelledValues):
            return self._of_labelled(given, where)
        if hasattr(given, "dims") and hasattr(given, "coords"):
            return self._of_array(given, where)
        if hasattr(given, "iloc") and hasattr(given, "columns"):
            times = self.axis.numbers(given.index, where)
            return BOTH, self._sites(labels_of(given.columns, where), where), times, (
                given.to_numpy().T
            )  # fmt: skip
        if hasattr(given, "iloc"):
            sites, times = self._of_labels(given.index, where)
            return (NODES if sites.size else TIMES), sites, times, given.to_numpy()
        values = np.asarray(given)
        a, b, every = len(self.nodes), self.times.size, len(self.every)
        if values.ndim == 2 and values.shape in ((a, b), (every, b)):
            sites = self.sites if values.shape[0] == a else self.every_site
            return BOTH, sites, self.times, values
        if values.ndim == 1:
            may_be_nodes = values.size in (a, every) and over in (None, NODES)
            may_be_times = values.size == b and over in (None, TIMES)
            if may_be_nodes and may_be_times:
                raise InvalidInputError(
                    f"{where}: expected labels, such as those of a Series, since there are "
                    f"{b} nodes and as many times, got an array"
                )
            if may_be_times:
                return TIMES, no_sites, self.times, values
            if may_be_nodes:
                sites = self.sites if values.size == a else self.every_site
                return NODES, sites, no_times, values
        raise InvalidInputError(
            f"{where}: expected the shape ({a},) of the nodes, ({every},) of all nodes, ({b},) of "
            f"the times, or ({a}, {b}), got {values.shape}"
        )

    def _of_labelled(
        self, given: LabelledValues, where: str
    ) -> tuple[str, IntArray, FloatArray, Any]:
        sites, times = np.empty(0, dtype=np.int64), np.empty(0)
        if given.nodes is not None:
            sites = self._sites(labels_of(given.nodes, where), where)
        if given.times is not None:
            times = self.axis.numbers(given.times, where)
        over = TIMES if given.nodes is None else NODES if given.times is None else BOTH
        values = np.asarray(given.values)
        shape = tuple(part.size for part in (sites, times) if part.size)
        if values.shape != shape or not shape:
            raise InvalidInputError(
                f"{where}: expected the shape {shape} of its labels, got {values.shape}"
            )
        return over, sites, times, values

    def _of_array(self, given: Any, where: str) -> tuple[str, IntArray, FloatArray, Any]:
        """A `DataArray`, each of whose dimensions is nodes or times by its labels."""
        sites, times = np.empty(0, dtype=np.int64), np.empty(0)
        order = []
        for dim in given.dims:
            labels = given.coords[dim].values if dim in given.coords else range(given.sizes[dim])
            of_sites, of_times = self._of_labels(labels, where)
            order.append((bool(of_sites.size), dim))
            sites = of_sites if of_sites.size else sites
            times = of_times if of_times.size else times
        if len(order) not in (1, 2) or len({is_node for is_node, _ in order}) < len(order):
            raise InvalidInputError(
                f"{where}: expected a dimension of nodes, one of times, or both, got {given.dims}"
            )
        over = BOTH if len(order) == 2 else NODES if order[0][0] else TIMES
        dims = [dim for _, dim in sorted(order, key=lambda one: not one[0])]
        return over, sites, times, given.transpose(*dims).values

    def _of_labels(self, labels: Any, where: str) -> tuple[IntArray, FloatArray]:
        """Sites of labels if they hold all nodes, or times if they hold one of them."""
        listed = labels_of(labels, where)
        of_nodes = set(self.nodes) <= set(listed)
        times, of_times = np.empty(0), False
        try:
            times = self.axis.numbers(labels, where)
            of_times = bool(np.isin(self.times, times).any())
        except InvalidInputError:
            pass
        if of_nodes and of_times:
            raise InvalidInputError(
                f"{where}: expected labels that are nodes or times, got labels that are both; "
                "a dictionary is of nodes, an array by its length"
            )
        if not of_nodes and not of_times:
            raise InvalidInputError(
                f"{where}: expected the labels of all {len(self.nodes)} nodes, or times that are "
                f"asked for, got {shown(listed)}"
            )
        if of_times:
            return np.empty(0, dtype=np.int64), times
        return self._sites(listed, where), np.empty(0)

    def _sites(self, labels: list[Any], where: str) -> IntArray:
        number = dict(zip(self.every, self.every_site.tolist(), strict=True))
        number |= dict(zip(self.nodes, self.sites.tolist(), strict=True))
        unknown = [label for label in labels if label not in number]
        if unknown:
            raise InvalidInputError(f"{where}: expected nodes of the graph, got {shown(unknown)}")
        return np.array([number[label] for label in labels], dtype=np.int64)


def named(given: Any) -> dict[Any, Any]:
    """Covariates by name of a mapping, a table of pandas or a Dataset.

    Raises
    ------
    InvalidInputError
        It is none of these, or empty.
    """
    if hasattr(given, "data_vars"):
        found = {str(name): given[name] for name in given.data_vars}
    elif hasattr(given, "iloc") and hasattr(given, "columns"):
        found = {name: given[name] for name in given.columns}
    elif isinstance(given, Mapping):
        found = dict(given)
    else:
        raise InvalidInputError(
            "covariates: expected a dictionary of names and arrays, such as {'rain': rain}, a "
            f"table or a Dataset, got {given!r:.80}"
        )
    if not found:
        raise InvalidInputError("covariates: expected one or more, got none")
    return found


def coded_kinds(
    values: Any, where: str, kinds: tuple[str, ...], is_known: bool
) -> tuple[FloatArray, tuple[str, ...]]:
    """Values as numbers, and kinds: texts have codes in the order of their kinds.

    Raises
    ------
    InvalidInputError
        A value is missing or infinite, a kind is new, there are more than `MOST_KINDS`, or texts
        come where the fit had numbers.
    """
    array = np.asarray(values)
    flat = array.ravel()
    is_text = array.dtype.kind in "US" or (
        array.dtype.kind == "O" and any(isinstance(value, (str, bytes)) for value in flat)
    )
    if is_known and is_text != bool(kinds):
        raise InvalidInputError(
            f"{where}: expected {'texts' if kinds else 'numbers'} as in the fit, got others"
        )
    if not is_text:
        numbers = real_values(array, where)
        bad = np.argwhere(~np.isfinite(numbers))
        if len(bad):
            raise InvalidInputError(
                f"{where}: expected finite numbers, got {numbers[tuple(bad[0])]} at "
                f"{tuple(bad[0].tolist())} ({len(bad)} such values)"
            )
        check_magnitude(numbers, where)
        return numbers, ()
    missing = [value for value in flat if value is None or value != value]
    if missing:
        raise InvalidInputError(f"{where}: expected a text everywhere, got {missing[0]!r}")
    texts = np.array([str(value) for value in flat.tolist()])
    found = tuple(np.unique(texts).tolist())
    if not is_known:
        kinds = found
    unknown = [text for text in found if text not in kinds]
    if unknown:
        raise InvalidInputError(f"{where}: expected one of {list(kinds)}, got {unknown[0]!r}")
    if len(kinds) > MOST_KINDS:
        raise InvalidInputError(
            f"{where}: expected at most {MOST_KINDS} kinds, got {len(kinds)}: use numbers"
        )
    codes = np.searchsorted(np.array(kinds), texts)
    return codes.astype(np.float64).reshape(array.shape), kinds
