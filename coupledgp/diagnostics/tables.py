"""Tables of a report: what was measured, as frames that rules read and pages show."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from coupledgp.diagnostics.calibration.classes import Reliability
from coupledgp.diagnostics.calibration.coverage import Calibration
from coupledgp.diagnostics.calibration.whitened import Whitened
from coupledgp.diagnostics.predictions import Law, Predictions
from coupledgp.random import FloatArray

# Questions of a report, in the order of its badges.
BETTER = "Could it predict better?"
HONEST = "Are its intervals right?"
CLOSE = "Is the approximation close enough?"
QUESTIONS = (BETTER, HONEST, CLOSE)
# Colours, the best first; grey: not judged.
GREEN, AMBER, RED, GREY = COLOURS = ("green", "amber", "red", "grey")
# Nats per point from which a difference matters, and from which it is serious.
MATTERS, SERIOUS = 0.01, 0.1
# Standard errors that a difference lies away from zero, one that is looked for and one stated.
LOST, TOLD = 2.5, 2.0
# Fewest points that are judged.
FEWEST = 8
# The metrics in which gains are nats per point, the first that there is.
NATS = ("nlpd", "log_loss", "log_crps")


@dataclass(frozen=True)
class Check:
    """What one rule found: a row of `checks`.

    Attributes
    ----------
    question, rule : str
        The question of the report, and the name of the rule.
    column : str
        The column, group or rival that it is about; empty: all points.
    statistic, expected : float
        The measured figure, and what a right law gives on average.
    p, limit : float
        Its p-value, adjusted for all that was looked at, and the value at which the rule fires;
        NaN of rules without one.
    gain, gain_error : float
        Nats per point that the remedy gains, and its standard error; NaN where it is not known.
    basis : str
        How the gain is known: `"held out"`, `"paired"`, `"measured"`, `"estimated"`,
        `"closed form"`.
    remedy : str
        What to do, in words, with arguments where there are any; empty: nothing is known.
    colour : str
        `"green"`, `"amber"`, `"red"` or `"grey"`.
    sentence : str
        The finding with its figures, one sentence.
    fired : bool
        Whether it is a fault.

    Examples
    --------
    >>> from coupledgp.diagnostics import Check
    >>> check = Check("Could it predict better?", "own", "amber", "It drifts.", True, gain=0.1)
    >>> check.fired, check.gain
    (True, 0.1)
    """

    question: str
    rule: str
    colour: str
    sentence: str
    fired: bool = False
    column: str = ""
    statistic: float = np.nan
    expected: float = np.nan
    p: float = np.nan
    limit: float = np.nan
    gain: float = np.nan
    gain_error: float = np.nan
    basis: str = ""
    remedy: str = ""


@dataclass(frozen=True)
class Verdict:
    """The answer to a question: its worst check.

    Attributes
    ----------
    question, colour, sentence : str
    numbers : dict of str to float
        The figures of the check.

    Examples
    --------
    >>> from coupledgp.diagnostics import Verdict
    >>> Verdict("Are its intervals right?", "green", "They hold what they say.").colour
    'green'
    """

    question: str
    colour: str
    sentence: str
    numbers: Mapping[str, float] = field(default_factory=dict)


class Score(NamedTuple):
    """A score of predictive distributions; lower is better.

    Attributes
    ----------
    losses : callable
        Losses (p, k) or (p,) of a law and targets (p, k).
    label, unit : str
        Text in tables; the unit `"y"` stands for that of the targets.
    root : bool
        The score is the root of the mean loss.
    paired : bool
        It has a standard error, and its gains over rivals are given.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from coupledgp.diagnostics import SCORES, Score
    >>> cubed = Score(lambda law, y: np.abs(y - law.mean) ** 3, "cubed error", "y^3")
    >>> X, y = np.arange(40.0)[:, None], np.arange(40.0)
    >>> given = X[1::2], y[1::2], X[::2], y[::2]
    >>> found = cgp.audit((y[::2] + 2, np.ones(20)), *given, scores=SCORES | {"cubed": cubed})
    >>> found.score("cubed")
    8.0
    """

    losses: Callable[[Law, FloatArray], FloatArray]
    label: str = ""
    unit: str = "y"
    root: bool = False
    paired: bool = True


@dataclass(frozen=True, eq=False)
class Rival:
    """Predictions of another model at the same points.

    Attributes
    ----------
    predictions : Predictions
        Its law and name.
    kind : str
        `"simple"`, `"flexible"`, or `"nearby"` for a nearby kernel.
    uses : str
        What it uses that the model lacks, in words, empty where nothing.
    remedy : str
        How to get it: the call, or the change of arguments.
    seconds : float
        Time of fit and prediction.

    Examples
    --------
    >>> import numpy as np
    >>> from coupledgp.diagnostics import Normal, Predictions, Rival
    >>> law = Normal(np.zeros((3, 1)), np.ones((3, 1)))
    >>> Rival(Predictions(law, name="zero")).name
    'zero'
    """

    predictions: Predictions
    kind: str = "simple"
    uses: str = ""
    remedy: str = ""
    seconds: float = np.nan

    @property
    def name(self) -> str:
        """Name of the model."""
        return self.predictions.name


class Overlap(NamedTuple):
    """How many test rows are training rows.

    Attributes
    ----------
    n_test : int
    n_rows : int or None
        Those with the inputs and the targets of a training row, rounding aside; None: not known.
    n_inputs : int or None
        Those with the inputs of a training row and other targets.
    left_out : bool
        Whether the `n_rows` rows are left out of all figures.
    n_near : int
        Those of the `n_rows` that differ by rounding.
    """

    n_test: int
    n_rows: int | None
    n_inputs: int | None
    left_out: bool = False
    n_near: int = 0


@dataclass(frozen=True, eq=False)
class Tables:
    """All tables of a report, and the predictions that they were computed from.

    Attributes
    ----------
    predictions : Predictions
    exact : Predictions or None
        Those of the exact model.
    rivals : tuple of Rival
    scores : DataFrame
        model, part, group, metric, value, error, below, above, unit, n.
    gains : DataFrame
        rival, part, metric, gain, error, n, seconds: losses of the model minus losses of the rival,
        so that a positive gain speaks for the rival; squared errors for the metric `"rmse"`, and
        `"log_crps"`, the log of the ratio of the mean CRPS, where one has no density.
    coverage : DataFrame
        grouping, group, level, share, chance, width, n.
    pit : DataFrame
        place, share, low, high.
    distance : DataFrame
        metric, value, below, above, error, unit.
    checks : DataFrame
        The attributes of `Check`, a row for each look and rule, fired or not.
    source : Source or None
        The model at the points, with its training rows.
    left_out : LeftOutRows or None
        Where the points are training rows that are left out.
    judged : Predictions or None
        Those at which calibration was measured, at most a thousand, with their correlations.
    calibration, whitened, reliability
        What rules read besides; None where it is not known.
    overlap : Overlap
        Test rows that are training rows.
    looks : tuple of Look
    seed : int

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> X, y = np.arange(40.0)[:, None], np.arange(40.0)
    >>> found = cgp.audit((y[::2] + 1, np.ones(20)), X[1::2], y[1::2], X[::2], y[::2])
    >>> found.tables.figure("scores", metric="rmse").value
    1.0
    >>> round(found.tables.gain("mean").gain, 2) < 0  # the mean would lose
    True
    """

    predictions: Predictions
    exact: Predictions | None = None
    rivals: tuple[Rival, ...] = ()
    scores: pd.DataFrame = field(default_factory=lambda: empty("scores"))
    gains: pd.DataFrame = field(default_factory=lambda: empty("gains"))
    coverage: pd.DataFrame = field(default_factory=lambda: empty("coverage"))
    pit: pd.DataFrame = field(default_factory=lambda: empty("pit"))
    distance: pd.DataFrame = field(default_factory=lambda: empty("distance"))
    checks: pd.DataFrame = field(default_factory=lambda: empty("checks"))
    source: Any = None
    left_out: Any = None
    judged: Predictions | None = None
    calibration: Calibration | None = None
    whitened: Whitened | None = None
    reliability: Reliability | None = None
    overlap: Overlap = field(default_factory=lambda: Overlap(0, None, None))
    looks: tuple[Any, ...] = ()
    seed: int = 0

    def figure(self, table: str, **at: Any) -> Any:
        """The first row of a table with some values, as an object; None where there is none."""
        found = getattr(self, table)
        for name, value in at.items():
            found = found[found[name] == value]
        return next(found.itertuples(index=False), None)

    def gain(self, rival: str) -> Any:
        """The gain of a rival over all points in nats per point, as a row; None if unknown."""
        rows = (self.figure("gains", rival=rival, part="", metric=one) for one in NATS)
        return next((one for one in rows if one is not None), None)


COLUMNS: dict[str, tuple[str, ...]] = {
    "scores": (
        "model", "part", "group", "metric", "value", "error", "below", "above", "unit", "n",
    ),
    "gains": ("rival", "part", "metric", "gain", "error", "n", "seconds"),
    "coverage": ("grouping", "group", "level", "share", "chance", "width", "n"),
    "pit": ("place", "share", "low", "high"),
    "distance": ("metric", "value", "below", "above", "error", "unit"),
    "checks": tuple(one.name for one in fields(Check)),
}  # fmt: skip


class Rule(NamedTuple):
    """A rule of a report.

    Attributes
    ----------
    question, name : str
    test : callable
        Checks from tables, fired or not.
    depth : str
        `"scores"`, `"checks"` or `"full"`: the least depth of a report that applies it.

    Examples
    --------
    >>> import numpy as np
    >>> import coupledgp as cgp
    >>> from coupledgp.diagnostics import RULES, Check, Rule
    >>> def biased(t):
    ...     shift = float((t.predictions.y - t.predictions.law.mean).mean())
    ...     sentence = f"Targets are {shift:+.2g} off on average."
    ...     return [Check("Could it predict better?", "biased", "red", sentence, abs(shift) > 0.5)]
    >>> X, y = np.arange(40.0)[:, None], np.arange(40.0)
    >>> own = Rule("Could it predict better?", "biased", biased)
    >>> given = X[1::2], y[1::2], X[::2], y[::2]
    >>> found = cgp.audit((y[::2] + 1, np.ones(20)), *given, rules=[own, *RULES])
    >>> found.verdicts[0].sentence
    'Targets are -1 off on average.'
    """

    question: str
    name: str
    test: Callable[[Tables], list[Check]]
    depth: str = "checks"


def empty(table: str) -> pd.DataFrame:
    """A table without rows."""
    return pd.DataFrame(columns=list(COLUMNS[table]))


def table_of(name: str, rows: list[dict[str, Any]]) -> pd.DataFrame:
    """A table of rows, in the order of its columns."""
    return pd.DataFrame(rows, columns=list(COLUMNS[name]))


def frame_of_checks(checks: list[Check]) -> pd.DataFrame:
    """The table of checks."""
    return table_of("checks", [asdict(one) for one in checks])
