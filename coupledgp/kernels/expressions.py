"""Texts of kernels.

    text    = product { "+" product }
    product = factor { "*" factor }
    factor  = ( kernel | "(" text ")" ) [ JSON list of columns, whose quotes may be single ]
    kernel  = name [ "(" argument { "," argument } ")" ]
            | "nodes:" name [ JSON object of parameters ]
    argument = [ field "=" ] ( number | word )

`gaussian["area", "age"] + matern-3/2[2] * laplace[0]`, `matern(1.5) + additive(2, gaussian)`,
`nodes:heat * nodes:matern`.
"""

from __future__ import annotations

import ast
import json
import re
from dataclasses import fields, is_dataclass
from typing import Any

from coupledgp.errors import InvalidInputError
from coupledgp.expressions import (
    Domain,
    Kernel,
    On,
    Product,
    RowKernel,
    Sum,
)
from coupledgp.ground.codec import stored_as
from coupledgp.ground.validation import unknown_choice, wrong
from coupledgp.kernels.graph import GraphKernel
from coupledgp.kernels.graph_families import (
    graph_kernel_from,
    graph_kernel_state,
    parse_graph_kernel,
)
from coupledgp.kernels.rows import ROW_KERNELS
from coupledgp.spectra import SPECTRA, MaternSpectrum, Spectrum, find_spectrum, spectrum_text

# A name of a kernel, of any characters but those of expressions.
NAME = re.compile(r"[^\s+*()\[\]{}]+")
# Columns in single quotes, as Python writes them; JSON, which files hold, has double ones.
_ITEM = r"""\s*(?:'[^'\\]*'|"[^"\\]*"|\d+)\s*"""
QUOTED_NAMES = re.compile(rf"\[{_ITEM}(?:,{_ITEM})*\]")
# Deepest nesting of parentheses in a text.
DEEPEST = 16


def parse_kernel(kernel: str | Kernel, domain: Domain = "rows", name: str = "kernel") -> Kernel:
    """The kernel of a text, or the kernel itself.

    Parameters
    ----------
    kernel
        Text or kernel. Names are those of `parse_spectrum` and `ROW_KERNELS` for rows, and of
        `parse_graph_kernel` after `nodes:`.
    domain
        Domain of names without a prefix: "rows" or "nodes".
    name
        Name of the argument in error messages.

    Raises
    ------
    InvalidInputError
        The text is no expression, or a name is not known; the choices are listed.

    Examples
    --------
    >>> from coupledgp.kernels import parse_kernel
    >>> str(parse_kernel('matern-3/2 * laplace["age"] + linear'))
    "matern-3/2 * laplace['age'] + linear"
    """
    if isinstance(kernel, Kernel):
        return kernel
    if not isinstance(kernel, str):
        raise wrong(name, "a text or a kernel", type(kernel))
    return _Parser(kernel, domain, name).parsed()


def kernel_text(kernel: Kernel) -> str:
    """The text from which `parse_kernel` makes an equal kernel, for files.

    Raises
    ------
    InvalidInputError
        A kernel is not registered, so that no text names it.

    Examples
    --------
    >>> from coupledgp.kernels import kernel_text, parse_kernel
    >>> kernel = parse_kernel("nodes:heat")
    >>> kernel_text(kernel)
    'nodes:HeatKernel{"time": 1.0}'
    >>> parse_kernel(kernel_text(kernel)) == kernel
    True
    """
    if isinstance(kernel, Sum):
        return " + ".join(map(kernel_text, kernel.terms))
    if isinstance(kernel, Product):
        texts = [(kernel_text(factor), isinstance(factor, Sum)) for factor in kernel.factors]
        return " * ".join(f"({text})" if is_sum else text for text, is_sum in texts)
    if isinstance(kernel, On):
        return kernel_text(kernel.kernel) + json.dumps(list(kernel.columns))
    if isinstance(kernel, GraphKernel):
        return "nodes:" + _with_parameters(graph_kernel_state(kernel))
    text = spectrum_text(kernel) if isinstance(kernel, Spectrum) else str(kernel)
    if text is not None and (isinstance(kernel, Spectrum) or _names(text, kernel)):
        return text
    raise InvalidInputError(
        f"kernel: expected one that a text names, got {kernel!r}; register it under a name, with "
        "register_row_kernel, and let str(kernel) be a text of this name"
    )


def _names(text: str, kernel: Kernel) -> bool:
    """Whether a text makes an equal kernel."""
    try:
        return parse_kernel(text) == kernel
    except InvalidInputError:
        return False


def _with_parameters(state: dict[str, Any]) -> str:
    own = dict(state)
    name = str(own.pop("class"))
    return name + json.dumps(own)


class _Parser:
    """Reads the text of an expression from left to right."""

    def __init__(self, text: str, domain: Domain, name: str) -> None:
        self.text, self.domain, self.name = text, domain, name
        self.place = self.depth = 0

    def parsed(self) -> Kernel:
        found = self._sum()
        if self._next():
            raise self._wrong("'+' or '*'")
        return found

    def _next(self) -> str:
        """The next character that is no space; empty at the end."""
        while self.text[self.place : self.place + 1].isspace():
            self.place += 1
        return self.text[self.place : self.place + 1]

    def _wrong(self, expected: str) -> InvalidInputError:
        rest = self.text[self.place : self.place + 20]
        got = repr(rest) if rest else "the end"
        return InvalidInputError(
            f"{self.name}: expected {expected} at character {self.place + 1}, got {got}"
        )

    def _sum(self) -> Kernel:
        found = self._product()
        while self._next() == "+":
            self.place += 1
            found = found + self._product()
        return found

    def _product(self) -> Kernel:
        found = self._factor()
        while self._next() == "*":
            self.place += 1
            found = found * self._factor()
        return found

    def _factor(self) -> Kernel:
        if self._next() == "(":
            self.place += 1
            self.depth += 1
            if self.depth > DEEPEST:
                raise self._wrong(f"at most {DEEPEST} parentheses in each other")
            found = self._sum()
            if self._next() != ")":
                raise self._wrong("')'")
            self.place += 1
            self.depth -= 1
        else:
            found = self._leaf()
        return found.on(*self._json(list)) if self._next() == "[" else found

    def _leaf(self) -> Kernel:
        match = NAME.match(self.text, self.place)
        if match is None:
            raise self._wrong("the name of a kernel")
        self.place = match.end()
        prefix, _, word = match[0].rpartition(":")
        domain = prefix or self.domain
        parameters = self._json(dict) if self._next() == "{" else None
        if domain == "nodes":
            if parameters is None:
                return parse_graph_kernel(word, self.name)
            return graph_kernel_from({"class": word, **parameters})
        if domain != "rows" or parameters is not None:
            raise self._wrong(f"a kernel of rows or nodes: before {match[0]!r}, not after")
        return self._row_kernel(word)

    def _row_kernel(self, word: str) -> RowKernel:
        """The kernel of a name, with the arguments that follow in parentheses."""
        given = self._arguments() if self._next() == "(" else ()
        if word == "matern":
            if len(given) != 1:
                raise self._wrong("matern(NU) with one number before")
            return MaternSpectrum(given[0][1])
        kernel = find_spectrum(word) or ROW_KERNELS.find(word)
        if kernel is None:
            known = [*SPECTRA.choices(), "matern(NU)", *ROW_KERNELS.available()]
            raise InvalidInputError(unknown_choice(word, known, self.name))
        return self._with_arguments(kernel, given) if given else kernel

    def _arguments(self) -> tuple[tuple[str | None, Any], ...]:
        """Name, or None, and value of each argument in the parentheses that open here."""
        end = self.text.find(")", self.place)
        if end < 0:
            raise self._wrong("')' after arguments")
        inside, self.place = self.text[self.place + 1 : end], end + 1
        found = []
        for part in filter(str.strip, inside.split(",")):
            name, equals, value = part.partition("=")
            found.append((name.strip() if equals else None, _value(value if equals else part)))
        return tuple(found)

    def _with_arguments(
        self, kernel: RowKernel, given: tuple[tuple[str | None, Any], ...]
    ) -> RowKernel:
        """A kernel of the same class whose fields are the arguments."""
        own_fields: tuple[Any, ...] = fields(kernel) if is_dataclass(kernel) else ()
        names: list[str] = [each.name for each in own_fields if each.init and each.repr]
        values: dict[str, Any] = {}
        for place, (name, value) in enumerate(given):
            own = name or (names[place] if place < len(names) else "")
            if own not in names or own in values:
                listed = ", ".join(names) or "none"
                raise self._wrong(f"arguments of {kernel} among {listed}, each once, before")
            values[own] = value
        return type(kernel)(**values)

    def _json(self, kind: type[Any]) -> Any:
        try:
            found, end = json.JSONDecoder().raw_decode(self.text, self.place)
        except (ValueError, RecursionError):
            quoted = QUOTED_NAMES.match(self.text, self.place) if kind is list else None
            if quoted is None:
                raise self._wrong(f"a {kind.__name__} as JSON") from None
            found, end = ast.literal_eval(quoted.group()), quoted.end()
        self.place = end
        return found


def _value(text: str) -> Any:
    """The number, flag or word that a text stands for."""
    word = text.strip()
    if word in ("true", "false"):
        return word == "true"
    above, slash, below = word.partition("/")
    for kind in (int, float):
        try:
            return kind(word) if not slash else float(above) / float(below)
        except (ValueError, ZeroDivisionError):
            continue
    return word


stored_as(Kernel, kernel_text, parse_kernel)
