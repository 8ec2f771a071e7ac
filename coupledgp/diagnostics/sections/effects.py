"""Effects of columns on a model's function, and their shares of its variance, in a report."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import comb
from typing import TYPE_CHECKING, Any, NamedTuple

from coupledgp.diagnostics.effects.moves import ColumnMoves
from coupledgp.diagnostics.effects.results import Effects, Importance, Share
from coupledgp.diagnostics.scoring.subject import process_of
from coupledgp.diagnostics.sections.section import ReportTable, Section
from coupledgp.errors import CoupledGPError
from coupledgp.gp.transformed import mixed_parts

if TYPE_CHECKING:
    from coupledgp.diagnostics.pages.picture import Picture

# Seconds that effects may take in a report by their forecast, and of one entry of a covariance
# between the rows and the points over which they are averaged.
MOST_SECONDS, ENTRY_SECONDS, AVERAGED = 3.0, 25e-9, 512
# Parts among which pairs are looked at, and pairs and parts that are shown.
PAIRED, SHOWN_PAIRS, SHOWN = 4, 3, 12
TITLE = "What its function hangs on"


class ColumnEffects(NamedTuple):
    """Main effects and shares of variance of the parts of a table."""

    effects: Effects
    importance: Importance


@dataclass(eq=False)
class EffectsOf:
    """Effects of a fitted model, computed when they are first asked for.

    Attributes
    ----------
    model : object
        A fitted model with `effects` and `importance`.
    seconds : float
        Forecast of the work.
    """

    model: Any
    seconds: float

    @classmethod
    def of(cls, model: Any) -> EffectsOf | None:
        """The effects of a model of one output; None for one that has none, or knows no rows."""
        process = process_of(model)
        if process is None or process is model or not hasattr(model, "importance"):
            return None
        try:
            n_rows, n_outputs = process.data.targets.shape
        except CoupledGPError:
            return None
        dim = process.data.points.shape[1]
        if n_outputs > 1 or dim < 2:
            return None
        members = len(mixed_parts(process))
        evaluated = 1 + 2 * dim + comb(min(dim, PAIRED), 2)
        entries = AVERAGED * (n_rows + AVERAGED) * dim * evaluated * members
        return cls(model, ENTRY_SECONDS * entries)

    @property
    def is_cheap(self) -> bool:
        """Whether a report has them."""
        return self.seconds <= MOST_SECONDS

    @cached_property
    def found(self) -> ColumnEffects:
        """The effects."""
        return ColumnEffects(self.model.effects(), self.model.importance(paired=PAIRED))

    @cached_property
    def moves(self) -> ColumnMoves:
        """How far values of other rows move predictions, which is cheap for every model."""
        return ColumnMoves.of(self.model.process_, self.model.fitted_.columns)

    def __getstate__(self) -> dict[str, Any]:
        """The effects without the model."""
        state = {"model": None, "seconds": self.seconds}
        return state | ({"found": self.found} if self.is_cheap else {"moves": self.moves})


def effects(report: Any) -> Section | None:
    """Effects and shares of variance of a report's model; None where it has none."""
    own: EffectsOf | None = getattr(report, "effects", None)
    if own is None:
        return None
    if not own.is_cheap:
        moves = own.moves
        figures = {"moves": dict(zip(moves.names, moves.mean.tolist(), strict=True))}
        rows = [
            [name, f"{mean:.3g} ± {error:.2g}"]
            for name, mean, error in zip(moves.names, moves.mean, moves.error, strict=True)
        ]
        table = ReportTable(
            "How far values of other rows move predictions", ("", "units of y"), rows[:SHOWN],
            "effects", note="model.effects() and model.importance() say more, and take about "
            f"{own.seconds:.0f} s.",
        )  # fmt: skip
        return Section("effects", TITLE, moves.text(), figures, [table], [moves.picture])
    found = own.found
    if len(found.importance.first) < 2:
        return None

    def bars() -> Picture:
        from coupledgp.diagnostics.pages.effects import share_bars

        return share_bars(found.importance)

    def curves() -> Picture:
        from coupledgp.diagnostics.pages.effects import effect_panels

        return effect_panels(found.effects, sorted_parts(found.importance))

    importance = found.importance
    figures = {
        "first": {name: one.mean for name, one in importance.first.items()},
        "total": {name: one.mean for name, one in importance.total.items()},
        "pairs": {" x ".join(names): one.mean for names, one in importance.pairs.items()},
        "rest": importance.rest.mean,
    }
    sentence = " ".join([_leading(importance), *importance.remarks[1:]])
    return Section("effects", TITLE, sentence, figures, [_table(importance)], [bars, curves])


def sorted_parts(importance: Importance) -> list[str]:
    """Names of the parts, that of the greatest total share first."""
    return sorted(importance.total, key=lambda name: -importance.total[name].mean)


def _leading(importance: Importance) -> str:
    """The greatest share in words."""
    name = sorted_parts(importance)[0]
    share, alone = importance.total[name], importance.first[name]
    return (
        f"{share.mean:.0%} of the variance of its function hangs on {name}, {alone.mean:.0%} on "
        "this column alone."
    )


def _table(importance: Importance) -> ReportTable:
    """Shares of columns, the greatest first, and of the largest pairs."""
    rows = [
        [name, _cell(importance.first[name]), _cell(importance.total[name])]
        for name in sorted_parts(importance)[:SHOWN]
    ]
    pairs = sorted(importance.pairs.items(), key=lambda item: -item[1].mean)[:SHOWN_PAIRS]
    rows += [[f"pair {' x '.join(names)}", _cell(share), ""] for names, share in pairs]
    note = (
        f"Sobol indices with {importance.level:.0%} intervals, by {importance.method}; intervals "
        "are conditional on the hyperparameters"
    )
    columns, title = ("", "alone", "with others"), "Shares of the variance of its function"
    return ReportTable(title, columns, rows, "effects", note=note)


def _cell(share: Share) -> str:
    return f"{share.mean:.3f} ({share.low:.3f} to {share.high:.3f})"
