"""Reports as text: numbers and sentences, tables as they are read, JSON, LaTeX and ArviZ."""

from __future__ import annotations

import textwrap
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from coupledgp.diagnostics.tables import NATS, Check, Tables
from coupledgp.ground.extras import named_extras
from coupledgp.ground.validation import json_values
from coupledgp.ground.visible import visible

if TYPE_CHECKING:
    from coupledgp.diagnostics.report import Report
    from coupledgp.diagnostics.study import Study

# A space within a number, and one between a number and its unit: lines do not break there.
THIN, SPACE, MINUS = "\N{NARROW NO-BREAK SPACE}", "\N{NO-BREAK SPACE}", "\N{MINUS SIGN}"
SUPERSCRIPTS = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
# Scores and distances as tables name them; those of users have their own names.
LABELS = {
    "rmse": "RMSE", "mae": "MAE", "crps": "CRPS", "nlpd": "NLPD", "log_crps": "log CRPS",
    "log_loss": "log loss", "brier": "root of the Brier score", "accuracy": "accuracy",
    "bias": "bias", "coverage_95": f"in 95{SPACE}%", "width_95": f"width of 95{SPACE}%",
    "kl": "KL(exact ‖ model)",
    "kl_per_point": "KL, nats per point", "reverse_kl": "KL(model ‖ exact)",
    "prior_kl": "KL between the priors",
}  # fmt: skip
# Rivals as tables and sentences name them.
RIVALS = {
    "mean": "mean of the targets", "nearest": "nearest row", "linear": "linear model",
    "shares": "shares of the classes", "harmonic": "harmonic interpolation",
}  # fmt: skip
# Scores that tables and JSON have and pages leave out.
UNSHOWN = ("nlpd_joint", "sharpness", "bias")
# Scores that are shares, and those of which the greater is the better.
SHARES = ("coverage_95", "accuracy")
# Beginnings of the names of rivals that use no inputs.
TRIVIAL = ("mean", "shares", "most frequent")
# Sign and word of a colour.
SIGNS = {
    "green": ("✓", "good"), "amber": ("!", "look at it"), "red": ("✕", "act on it"),
    "grey": ("\N{EN DASH}", "not judged"),
}  # fmt: skip
# How the gain of a remedy is known.
BASES = {
    "held out": "learned and tried on other rows", "paired": "tried at the same points",
    "measured": "refitted and measured", "estimated": "estimated from the residuals",
    "closed form": "in closed form at these points",
}  # fmt: skip
# Rows of a table of groups before the fold, and letters of a line of text.
OPEN_ROWS, WIDTH = 5, 110
# Log densities are scattered by so many nats over draws, lest the Pareto diagnostic of `arviz.loo`
# warns of a tail of equal values.
SCATTER = 1e-9
NONE = (np.nan, np.nan)
# Distances below which there is none but rounding.
ROUNDING = 1e-12


def number(value: float, digits: int = 3) -> str:
    """A number of some significant digits as people write it: `1 730`, `0.0523`, `6.2·10⁻⁶`.

    Examples
    --------
    >>> number(1730.2), number(0.5), number(-12.345), number(6.2e-6)
    ('1\u202f730', '0.500', '−12.3', '6.20·10⁻⁶')
    """
    if not np.isfinite(value):
        return "" if np.isnan(value) else f"{MINUS if value < 0 else ''}∞"
    sign, size = MINUS if value < 0 else "", abs(float(f"{value:.{digits - 1}e}"))
    if size == 0:
        return "0"
    power = int(np.floor(np.log10(size)))
    if power < -4 or power > 8:
        return f"{sign}{size / 10.0**power:.{digits - 1}f}·10{str(power).translate(SUPERSCRIPTS)}"
    return sign + f"{size:,.{max(digits - 1 - power, 0)}f}".replace(",", THIN)


def count(n: float) -> str:
    """A whole number: `1 730`."""
    return f"{n:,.0f}".replace(",", THIN)


def amount(value: float, unit: str = "") -> str:
    """A number and its unit."""
    return f"{number(value)}{SPACE}{unit}" if unit else number(value)


def with_error(value: float, error: float, sign: bool = False) -> str:
    """A value to the second digit of its standard error: `+0.31 ± 0.05`."""
    plus = "+" if sign and value > 0 else ""
    if not (np.isfinite(error) and error > 0):
        return plus + number(value)
    decimals = 1 - int(np.floor(np.log10(error)))
    if decimals > 6:
        return f"{plus}{number(value)}{SPACE}±{SPACE}{number(error, 2)}"
    shown = (f"{one:,.{max(decimals, 0)}f}".replace(",", THIN) for one in (abs(value), error))
    return f"{MINUS if value < 0 else plus}{f'{SPACE}±{SPACE}'.join(shown)}"


def per_cent(share: float, digits: int = 0) -> str:
    """A share in per cent."""
    return "" if np.isnan(share) else f"{100 * share:.{digits}f}{SPACE}%"


def p_value(p: float) -> str:
    """A p-value of two digits; nothing for NaN."""
    return "" if np.isnan(p) else f"<{SPACE}0.0001" if p < 1e-4 else number(p, 2)


def p_text(p: float) -> str:
    """A p-value in a sentence: `p = 0.0031`, `p < 0.0001`."""
    return f"p {p_value(p)}" if p < 1e-4 else f"p = {p_value(p)}"


def label(value: Any) -> str:
    """A group, level or name as it is read: numbers of four digits, local times without seconds."""
    if isinstance(value, pd.Timestamp | datetime | np.datetime64):
        return f"{pd.Timestamp(value):%a %-d %b %Y %H:%M}"
    if isinstance(value, float | np.floating):
        return f"{value:.4g}" if value != round(value) else f"{value:.0f}"
    return visible(str(value))


def worth(gain: float, is_of_classes: bool = False) -> str:
    """What a gain in nats per point means: by how much intervals become narrower."""
    if np.isnan(gain):
        return ""
    if is_of_classes:
        return f"chances of the labels {per_cent(np.expm1(gain))} higher"
    return f"intervals {per_cent(-np.expm1(-gain))} narrower"


def figure(t: Tables, metric: str, model: str = "", part: str = "") -> float:
    """A score of a model at all points or a part of them; NaN where there is none."""
    s, name = t.scores, model or t.predictions.name
    found = s.value[(s.metric == metric) & (s.model == name) & (s.part == part) & (s.group == "")]
    return float(found.iloc[0]) if len(found) else np.nan


def named(rival: str) -> str:
    """A rival as tables and sentences name it."""
    return RIVALS.get(rival, rival)


def has_classes(t: Tables) -> bool:
    """Whether targets are classes."""
    return bool((t.scores.metric == "accuracy").any())


def answer(t: Tables) -> tuple[str, str]:
    """How far off predictions typically are, and how far off the mean and the best rival are."""
    p = t.predictions
    if p.y is None or not len(t.scores):
        return f"{count(len(p))} predictions of {p.target}, without targets to compare with.", ""
    classes = has_classes(t)
    metric, verb, subject = _typical(t)

    def shown(value: float) -> str:
        return f"for {per_cent(value)} of points" if classes else amount(value, p.unit)

    parts = _asked([one for one in t.scores.part.unique() if one]) or [""]
    own = [f"{shown(figure(t, metric, part=one))} {one}".rstrip() for one in parts]
    best = [(part, *_best_rival(t, metric, part)) for part in parts]
    rivals = [f"{shown(value)} {part} ({named(name)})".replace("  ", " ")
              for part, name, value in best if name]  # fmt: skip
    told = []
    trivial = next((one.name for one in t.rivals if one.name in TRIVIAL), "")
    if trivial and parts == [""]:
        told.append(f"the {named(trivial)} would be {verb} {shown(figure(t, metric, trivial))}")
    if rivals:
        subject_of = "best other method" if len(rivals) == 1 else "best other methods"
        told.append(f"the {subject_of} {'' if told else f'would be {verb} '}{_listed(rivals)}")
    sentences = [", ".join(told)] if told else []
    width = figure(t, "width_95")
    if not classes and np.isfinite(width):
        sentences.append(f"95{SPACE}% intervals are {amount(width, p.unit)} wide on average")
    why = " ".join(f"{one[0].upper()}{one[1:]}." for one in sentences)
    return f"{subject} {verb} {_listed(own)}.", why


def _typical(t: Tables) -> tuple[str, str, str]:
    """The metric that an answer states, its verb, and what is right or off by so much."""
    target = t.predictions.target
    if has_classes(t):
        return "accuracy", "right", f"The most probable class of {target} is"
    metric = next((one for one in ("rmse", "mae") if np.isfinite(figure(t, one))), "crps")
    how = "typically" if metric == "rmse" else "on average"
    return metric, "off by", f"Predictions of {target} are {how}"


def _asked(parts: list[str]) -> list[str]:
    """The parts that a sentence tells: at most two places, and the farthest time ahead."""
    ahead = [one for one in parts if one.endswith(" ahead")]
    return [one for one in parts if one not in ahead][-2:] + ahead[-1:]


def _best_rival(t: Tables, metric: str, part: str) -> tuple[str, float]:
    """Name and score of the rival that predicts best at a part, but for the trivial ones."""
    found = {one.name: figure(t, metric, one.name, part) for one in t.rivals}
    found = {name: value for name, value in found.items()
             if np.isfinite(value) and name not in TRIVIAL}  # fmt: skip
    sign = -1 if metric in SHARES else 1
    name = min(found, key=lambda one: sign * found[one], default="")
    return name, found.get(name, np.nan)


def _listed(texts: Sequence[str]) -> str:
    return " and ".join([", ".join(texts[:-1]), texts[-1]] if len(texts) > 1 else texts)


def do_next(report: Report) -> str:
    """The first remedy and what it is worth; empty where nothing is known to help."""
    if not report.advice:
        return ""
    first: Check = report.advice[0]
    gain = worth(first.gain, has_classes(report.tables))
    return first.remedy.rstrip(".") + (f" ({gain})." if gain else ".")


class Shown(NamedTuple):
    """A table as it is read.

    Attributes
    ----------
    name, title, note : str
        Name of the table of figures, heading, and a sentence above the table.
    heads : list of str
        Heads of the columns.
    rows : list of list of str
        Cells; the first of each row names it.
    n_open : int or None
        Rows before the fold; None: all.
    n_strong : int
        Leading rows that are those of the model itself.
    bars : list of (float, float, float) or None
        For each row the start and the end of an interval and the place of zero, in per cent.
    """

    name: str
    title: str
    note: str
    heads: list[str]
    rows: list[list[str]]
    n_open: int | None = None
    n_strong: int = 0
    bars: list[tuple[float, float, float] | None] | None = None

    def is_text(self, k: int) -> bool:
        """Whether a column holds words instead of numbers."""
        cells = [row[k] for row in self.rows if row[k]]
        return k == 0 or any(sum(map(str.isalpha, cell)) > 12 for cell in cells)


def shown_tables(report: Report) -> Iterator[Shown]:
    """The tables of a report in the order in which they are read."""
    t = report.tables
    found = (
        _scores(t), _parts(t), _groups(t), _coverage(t), _coverage_of_groups(t), _fired(t),
        _passed(t), _distance(t),
    )  # fmt: skip
    yield from (one for one in found if one is not None and one.rows)


def _models(t: Tables, metric: str, part: str = "") -> list[str]:
    """Names of the models, the own one first, the others from the best to the worst."""
    s = t.scores[(t.scores.metric == metric) & (t.scores.part == part) & (t.scores.group == "")]
    order = s.sort_values("value", ascending=metric not in SHARES, kind="stable").model
    own = t.predictions.name
    return [own, *(name for name in order if name != own)]


def _ordered(metrics: Iterable[str]) -> list[str]:
    """Metrics, each once, in the order of `LABELS`, those of users last."""
    known = list(LABELS)
    found = dict.fromkeys(metrics)
    return sorted(found, key=lambda one: known.index(one) if one in known else len(known))


def _heads(scores: pd.DataFrame, metrics: Sequence[str]) -> list[str]:
    """Heads of columns of scores, with their units but for nats."""
    units = scores.drop_duplicates("metric").set_index("metric").unit
    return [
        LABELS.get(one, one)
        + ("" if units[one] in ("", "nats per point") or one in SHARES else f", {units[one]}")
        for one in metrics
    ]


def _cell(metric: str, value: float) -> str:
    return per_cent(value) if metric in SHARES else number(value)


def _scores(t: Tables) -> Shown | None:
    whole = t.scores[(t.scores.part == "") & (t.scores.group == "")]
    if not len(whole):
        return None
    if len(whole.model.unique()) == 1 and (t.scores.part != "").any():
        return _own_parts(t)
    gains = t.gains[t.gains.part == ""]
    by = next((one for one in NATS if (gains.metric == one).any()), next(iter(gains.metric), ""))
    gains = gains[gains.metric == by].set_index("rival")
    metrics = _ordered(one for one in whole.metric if one not in UNSHOWN)
    models = _models(t, by if by in metrics else metrics[0])
    heads = ["", *_heads(whole, metrics)]
    cells = {(row.model, row.metric): _cell(row.metric, row.value) for row in whole.itertuples()}
    rows = [[named(name), *(cells.get((name, one), "") for one in metrics)]
            for name in models]  # fmt: skip
    rows[0][0] = "this model"
    bars = None
    if by:
        heads.append(f"{LABELS.get(by, by)} {MINUS} this")
        ends = {}
        for row, name in zip(rows, models, strict=True):
            gain, error = gains.loc[name, ["gain", "error"]] if name in gains.index else NONE
            row.append(with_error(-gain, error, sign=True))
            ends[name] = (-gain - 2 * np.nan_to_num(error), -gain + 2 * np.nan_to_num(error))
        bars = _bars([ends[name] for name in models])
    note = f"All at the same {count(whole.n.max())} points."
    if by:
        note += (
            f" The bar is the {LABELS.get(by, by)} of the rival minus that of this model with two "
            "standard errors, which allow for errors that near points share: right of the line "
            "this model is better."
        )
    return Shown("scores", "Scores of this model and its rivals", note, heads, rows,
                 n_strong=1, bars=bars)  # fmt: skip


def _own_parts(t: Tables) -> Shown:
    """Scores of the model by part, where rivals have none at all points together."""
    own = t.scores[(t.scores.model == t.predictions.name) & (t.scores.group == "")]
    metrics = _ordered(one for one in own.metric if one not in UNSHOWN)
    cells = {(row.part, row.metric): _cell(row.metric, row.value) for row in own.itertuples()}
    rows = [
        [part or "all", *(cells.get((part, one), "") for one in metrics)]
        for part in dict.fromkeys(own.part)
    ]
    rows.sort(key=lambda row: row[0] == "all")
    return Shown("scores", "Scores of this model by what was asked", "",
                 ["", *_heads(own, metrics)], rows)  # fmt: skip


def _bars(ends: list[tuple[float, float]]) -> list[tuple[float, float, float] | None]:
    """Starts, ends and zeros of intervals in per cent of a common scale."""
    known = np.array([one for one in ends if np.isfinite(one).all()])
    if not known.size:
        return [None] * len(ends)
    most = 5 * float(np.median(np.abs(known).max(axis=1)))
    low, high = max(min(known.min(), 0.0), -most), min(max(known.max(), 0.0), most)
    scale = 100 / ((high - low) or 1.0)
    return [
        (*((np.clip(one, low, high) - low) * scale).round(1).tolist(), round(-low * scale, 1))
        if np.isfinite(one).all()
        else None
        for one in ends
    ]


def _parts(t: Tables) -> Shown | None:
    """The typical error of each model at each part of the points."""
    metric = "accuracy" if has_classes(t) else "rmse"
    s = t.scores[(t.scores.part != "") & (t.scores.group == "") & (t.scores.metric == metric)]
    if not len(s):
        return None
    parts = list(dict.fromkeys(s.part))
    own = t.predictions.name
    names = [own, *(name for name in dict.fromkeys(s.model) if name != own)]
    cells = {(row.model, row.part): _cell(metric, row.value) for row in s.itertuples()}
    better = {(row.rival, row.part) for row in t.gains.itertuples() if row.gain > 2 * row.error}
    rows = [
        [
            named(name),
            *(cells.get((name, one), "") + " ▲" * ((name, one) in better) for one in parts),
        ]
        for name in names
    ]
    rows[0][0] = "this model"
    counts = s[s.model == own].set_index("part").n
    rows.append(["points", *(count(counts.get(part, 0)) for part in parts)])
    heads = [*_heads(s, [metric]), *parts]
    note = "▲: better than this model by more than two standard errors." if "▲" in str(rows) else ""
    return Shown("parts", f"{LABELS[metric]} by what was asked", note, heads, rows, n_strong=1)


def _groups(t: Tables) -> Shown | None:
    """Scores of the model by group, the worst first."""
    s = t.scores[(t.scores.group != "") & (t.scores.model == t.predictions.name)]
    if not len(s):
        return None
    wide = s.pivot_table("value", "group", "metric", sort=False)
    wide = wide[_ordered(one for one in wide if one == "bias" or one not in UNSHOWN)]
    first = wide.columns[0]
    wide = wide.sort_values(first, ascending=first in SHARES, kind="stable")
    heads = ["", *_heads(s, wide.columns)]
    rows = [
        [label(name), *(_cell(one, value) for one, value in row.items())]
        for name, row in wide.iterrows()
    ]
    cluster = t.predictions.cluster
    what = "group" if cluster is None else cluster.columns[0]
    return Shown("groups", f"Scores by {what}, the worst first", "", heads, rows, OPEN_ROWS)


def _coverage(t: Tables) -> Shown | None:
    c = t.coverage[t.coverage.grouping == ""]
    heads = ["interval", "targets inside", "expected by chance",
             f"mean width{f', {t.predictions.unit}' if t.predictions.unit else ''}"]  # fmt: skip
    rows = [
        [per_cent(row.level), per_cent(row.share),
         f"{per_cent(row.level)}{SPACE}±{SPACE}{per_cent(row.chance, 1)}", number(row.width)]
        for row in c.itertuples()
    ]  # fmt: skip
    return Shown("coverage", "Calibration of intervals", "", heads, rows)


def _coverage_of_groups(t: Tables) -> Shown | None:
    c = t.coverage[t.coverage.grouping != ""]
    rows = [
        [f"{row.grouping} {label(row.group)}", per_cent(row.level), per_cent(row.share),
         f"±{SPACE}{per_cent(row.chance, 1)}", count(row.n)]
        for row in c.itertuples()
    ]  # fmt: skip
    heads = ["group", "interval", "targets inside", "chance", "points"]
    return Shown("coverage-of-groups", "Coverage by group", "", heads, rows, n_open=0)


def _fired(t: Tables) -> Shown | None:
    fired = t.checks[t.checks.fired.astype(bool)]
    n_passed = len(t.checks) - len(fired)
    heads = ["finding", "worth", "nats per point", "p", "remedy", "how its worth is known"]
    of_classes = has_classes(t)
    rows = [
        [row.sentence, worth(row.gain, of_classes), with_error(row.gain, row.gain_error),
         p_value(row.p), row.remedy, BASES.get(row.basis, row.basis)]
        for row in sorted(fired.itertuples(), key=lambda one: (not one.remedy, -one.gain))
    ]  # fmt: skip
    note = f"{len(t.checks)} checks were made, {n_passed} of them found nothing."
    return Shown("checks", "Findings and remedies", note, heads, rows, OPEN_ROWS)


def _passed(t: Tables) -> Shown | None:
    passed = t.checks[~t.checks.fired.astype(bool)]
    heads = ["check", "about", "result", "p"]
    rows = [[row.rule, row.column, row.sentence, p_value(row.p)] for row in passed.itertuples()]
    title = f"{len(rows)} checks that found nothing"
    return Shown("passed", title, "", heads, rows, n_open=0)


def _distance(t: Tables) -> Shown | None:
    heads = ["", "nats per point", "between", "as a shift of each prediction"]
    rows = []
    is_same = t.distance.value.abs().max() < ROUNDING
    for row in t.distance[t.distance.metric.isin([*LABELS])].itertuples():
        between = [number(one) for one in (row.value - row.below, row.value + row.above)]
        bounds = " and ".join(between) if between[0] != between[1] else ""
        shift = float(np.sqrt(2 * max(row.value, 0.0)))
        is_kl = row.metric == "kl"
        rows.append([
            f"NLPD of the exact model {MINUS} this" if row.metric == "nlpd" else LABELS[row.metric],
            with_error(row.value, row.error), bounds,
            f"{number(shift)} standard deviations" if is_kl else "",
        ])  # fmt: skip
    return (
        None if is_same else Shown("distance", "Distance from the exact posterior", "", heads, rows)
    )


def study_table(study: Study) -> Shown:
    """Means over draws of a study of couplings, by size and distance."""
    means = study.summary().sort_values(["size", "kl_per_point"], kind="stable")
    heads = ["coupling", study.size_name, *(LABELS.get(name, name) for name in study.figures)]
    rows = [
        [row["coupling"], count(row["size"]),
         *(with_error(row[name], row[f"{name}_error"]) for name in study.figures)]
        for _, row in means.iterrows()
    ]  # fmt: skip
    if study.exact:
        scores = [number(study.exact[name], 4) for name in study.figures if name in study.exact]
        rows.append(["exact process", "", "0", *scores])
    n_draws = int(means.n_draws.iloc[0])
    title = f"Means over {n_draws} draws and their standard errors, {study.n_test} test points"
    return Shown("couplings", title, "", heads, rows)


def text_of(report: Report, width: int = WIDTH) -> str:
    """A report as plain text: answer, verdicts and what to do next, then the tables."""
    lead, why = answer(report.tables)
    lines = [report.title, *report.warnings, "", lead, why, ""]
    for one in report.verdicts:
        sign, word = SIGNS[one.colour]
        lines.append(f"{sign} {one.question} {word}: {one.sentence}")
    todo = do_next(report)
    lines += [f"Do next: {todo}"] if todo else []
    text = "\n".join(textwrap.fill(line, width) for line in lines)
    tables = (one for one in shown_tables(report) if one.n_open != 0)
    return visible("\n\n".join([text.rstrip(), *(table_text(one, width) for one in tables)]))


def table_text(shown: Shown, width: int = WIDTH) -> str:
    """A table as lines; where cells are long, a paragraph a row."""
    rows = [shown.heads, *shown.rows[: shown.n_open]]
    sizes = [max(map(len, column)) for column in zip(*rows, strict=True)]
    title = shown.title
    if sum(sizes) + 2 * len(sizes) > width:
        told = [
            "; ".join(f"{head}: {cell}".removeprefix(": ") for head, cell in
                      zip(shown.heads, row, strict=True) if cell)
            for row in rows[1:]
        ]  # fmt: skip
        return "\n".join([title, *(textwrap.fill(f"- {one}", width) for one in told)])
    texts = [shown.is_text(k) for k in range(len(sizes))]
    lines = [
        "  ".join(cell.ljust(size) if is_text else cell.rjust(size) for cell, size, is_text in
                  zip(row, sizes, texts, strict=True)).rstrip()
        for row in rows
    ]  # fmt: skip
    more = len(shown.rows) - (len(rows) - 1)
    return "\n".join([title, *lines, *([f"and {more} more"] if more else [])])


def dict_of(report: Report) -> dict[str, Any]:
    """All tables, verdicts and the provenance of a report as plain values that JSON holds."""
    t = report.tables
    names = ("scores", "gains", "coverage", "pit", "distance", "checks")
    return json_values({
        "title": report.title,
        "answer": " ".join(filter(None, answer(t))),
        "verdicts": [asdict(one) for one in report.verdicts],
        "advice": [asdict(one) for one in report.advice],
        "warnings": list(report.warnings),
        "tables": {name: _records(getattr(t, name)) for name in names},
        "provenance": dict(report.provenance),
    })  # fmt: skip


def _records(frame: pd.DataFrame) -> list[dict[str, Any]]:
    """Rows as plain values, None in place of NaN."""
    plain = frame.astype(object).where(frame.notna(), None)
    return [
        {name: one.item() if isinstance(one, np.generic) else one for name, one in row.items()}
        for row in plain.to_dict("records")
    ]


def latex_of(frame: pd.DataFrame, caption: str = "", name: str = "") -> str:
    """A frame as a table for a paper, in LaTeX with the package booktabs."""
    styled = frame.style.format(
        lambda cell: number(cell).replace(THIN, r"\,") if isinstance(cell, float) else cell,
        escape="latex",
    )
    return styled.hide(axis="index").to_latex(
        hrules=True, caption=caption or None, label=name or None, position_float="centering"
    )


def arviz_of(report: Report, n_chains: int = 4, n_draws: int = 250, seed: int = 0) -> Any:
    """Draws of the predictive distribution, targets and log densities in the groups of ArviZ.

    | group | variables |
    |---|---|
    | `posterior`, `posterior_predictive` | `y`: draws of observations at the test points |
    | `observed_data` | `y`: the targets, if there are any |
    | `log_likelihood` | `y`: log predictive density of each target, the same for each draw |
    | `constant_data` | `mean`, `std` |

    Each point has its quantiles at even chances, in the order of normal numbers of the law's
    correlations where these are known. The points are held out already, so that `arviz.loo` gives
    the sum of the log predictive densities.

    Raises
    ------
    MissingLibraryError
        xarray is not installed.
    """
    with named_extras():
        import xarray as xr
    p, rng = report.tables.predictions, np.random.default_rng(seed)
    n, k = p.law.mean.shape
    count = n_chains * n_draws
    white = rng.standard_normal((n, k, count))
    if p.correlation is not None:
        values, vectors = np.linalg.eigh(np.moveaxis(p.correlation, 2, 0))
        roots = vectors * np.sqrt(np.maximum(values, 0.0))[:, None]
        white = np.einsum("kij,jkc->ikc", roots, white)
    ranks = white.argsort(axis=2).argsort(axis=2)
    drawn = np.take_along_axis(p.law.ppf((np.arange(count) + 0.5) / count), ranks, axis=2)
    drawn = np.moveaxis(drawn, 2, 0).reshape(n_chains, n_draws, n, k)

    def data(**values: Any) -> Any:
        """Arrays (..., n, k) or (..., n) as a data set; a single output has no axis of its own."""
        named = {}
        for name, value in values.items():
            value = value[..., 0] if k == 1 and value.shape[-2:] == (n, 1) else value
            axes = ("chain", "draw", "point", "output") if value.shape[0] == n_chains else (
                "point", "output")  # fmt: skip
            named[name] = (axes[: value.ndim], value)
        return xr.Dataset(named)

    groups = {"posterior": data(y=drawn), "posterior_predictive": data(y=drawn)}
    if p.y is not None:
        groups["observed_data"] = data(y=p.y)
        if p.law.has_density:
            scatter = rng.uniform(0, SCATTER, (n_chains, n_draws, n))
            groups["log_likelihood"] = data(y=p.law.log_density(p.y) + scatter)
    groups["constant_data"] = data(mean=p.law.mean, std=p.law.std)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # it announces its next version
            import arviz
    except ImportError:
        return xr.DataTree.from_dict(groups)
    if hasattr(arviz, "InferenceData"):
        return arviz.InferenceData(**groups)
    return xr.DataTree.from_dict(groups)
