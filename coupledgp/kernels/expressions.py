"""Texts of kernels, and covariances of rows under expressions.

    text    = product { "+" product }
    product = factor { "*" factor }
    factor  = ( kernel | "(" text ")" ) [ JSON list of columns ]
    kernel  = [ "nodes:" | "times:" ] name [ JSON object of parameters ]

`gaussian["area", "age"] + matern-3/2[2] * laplace[0]`, `nodes:heat * times:matern-1/2`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from coupledgp.errors import InvalidInputError
from coupledgp.expressions import (
    Column,
    Domain,
    Evaluated,
    Kernel,
    On,
    Product,
    RowKernel,
    Sum,
    leaves,
)
from coupledgp.kernels.graph.base import GraphKernel
from coupledgp.kernels.graph.registry import (
    graph_kernel_from,
    graph_kernel_state,
    parse_graph_kernel,
)
from coupledgp.kernels.time import (
    TimeKernel,
    parse_time_kernel,
    time_kernel_from,
    time_kernel_state,
)
from coupledgp.random import FloatArray
from coupledgp.spectra import Spectrum, parse_spectrum, spectrum_text

# A name of a kernel, of any characters but those of expressions.
NAME = re.compile(r"[^\s+*()\[\]{}]+")
# Deepest nesting of parentheses in a text.
DEEPEST = 16


def parse_kernel(kernel: str | Kernel, domain: Domain = "rows", name: str = "kernel") -> Kernel:
    """The kernel of a text, or the kernel itself.

    Parameters
    ----------
    kernel
        Text or kernel; names are those of `parse_spectrum` for rows, of `parse_graph_kernel`
        after `nodes:`, and of `parse_time_kernel` after `times:`.
    domain
        Domain of names without a prefix: "rows", "nodes" or "times".
    name
        Name of the argument in error messages.

    Raises
    ------
    InvalidInputError
        The text is no expression, or a name is not known; the choices are listed.
    """
    if isinstance(kernel, Kernel):
        return kernel
    if not isinstance(kernel, str):
        raise InvalidInputError(f"{name}: expected a text or a kernel, got {type(kernel).__name__}")
    return _Parser(kernel, domain, name).parsed()


def kernel_text(kernel: Kernel) -> str:
    """The text from which `parse_kernel` makes an equal kernel, for files.

    Raises
    ------
    InvalidInputError
        A kernel is not registered, so that no text names it.
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
    if isinstance(kernel, TimeKernel):
        return "times:" + _with_parameters(time_kernel_state(kernel))
    text = spectrum_text(kernel) if isinstance(kernel, Spectrum) else None
    if text is None:
        raise InvalidInputError(
            f"kernel: expected one that a text names, got {kernel!r}; register it under a name"
        )
    return text


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
        if domain == "times":
            if parameters is None:
                return parse_time_kernel(word, self.name)
            return time_kernel_from({"class": word, **parameters})
        if domain != "rows" or parameters is not None:
            raise self._wrong(f"a kernel of rows, nodes: or times: before {match[0]!r}, not after")
        return parse_spectrum(word, self.name)

    def _json(self, kind: type[Any]) -> Any:
        try:
            found, end = json.JSONDecoder().raw_decode(self.text, self.place)
        except (ValueError, RecursionError):
            raise self._wrong(f"a {kind.__name__} as JSON") from None
        self.place = end
        return found


class RowCovariance:
    """Covariances of rows under an expression, and their gradient.

    Hyperparameters (q,) are logarithms: of the lengthscales of each kernel, in its order of
    columns; in a sum, of the variance of each term, before those of the term.

    Parameters
    ----------
    kernel
        Expression of kernels of rows, or its text.
    columns
        Names of the columns, or their number.

    Attributes
    ----------
    names : list of str
        Name of each hyperparameter.

    Raises
    ------
    InvalidInputError
        A kernel is none of rows, or a column is not there.
    """

    def __init__(self, kernel: str | Kernel, columns: Sequence[str] | int) -> None:
        self.kernel = parse_kernel(kernel)
        self.columns: list[Column] = (
            list(range(columns)) if isinstance(columns, int) else list(columns)
        )
        others = [leaf for leaf in leaves(self.kernel) if not isinstance(leaf, (RowKernel, On))]
        if others:
            raise InvalidInputError(
                f"kernel: expected kernels of rows, got {others[0]}; kernels of nodes and times "
                "belong to models of graphs"
            )
        self.names = self._names(self.kernel)

    def evaluate(self, a: FloatArray, b: FloatArray, theta: FloatArray) -> Evaluated:
        """Covariances (n, p) of rows a (n, d) and b (p, d), and their gradients, at theta (q,)."""
        if theta.shape != (len(self.names),):
            raise InvalidInputError(
                f"theta: expected {len(self.names)} numbers ({', '.join(self.names)}), got shape "
                f"{theta.shape}"
            )
        return self._evaluated(self.kernel, a, b, theta)

    def gram(self, a: FloatArray, b: FloatArray, theta: FloatArray) -> FloatArray:
        """Covariances (n, p) of rows a (n, d) and b (p, d) at hyperparameters theta (q,)."""
        return self.evaluate(a, b, theta).covariance

    def diagonal(self, a: FloatArray, theta: FloatArray) -> FloatArray:
        """Variances (n,) of rows a (n, d), which do not depend on where they are."""
        found = self.gram(a[:1], a[:1], theta)
        return np.full(len(a), found[0, 0] if len(a) else 0.0)

    def pull(self, a: FloatArray, cotangent: FloatArray, theta: FloatArray) -> FloatArray:
        """Gradient (q,) of `sum_ij G_ij K_ij` for rows a (n, d) and a cotangent G (n, n)."""
        return self.evaluate(a, a, theta).pull(cotangent)

    def _numbers(self, kernel: On) -> list[int]:
        """Numbers of the columns of a kernel."""
        found = []
        for column in kernel.columns:
            if isinstance(column, int) and 0 <= column < len(self.columns):
                found.append(column)
            elif column in self.columns:
                found.append(self.columns.index(column))
            else:
                raise InvalidInputError(
                    f"kernel: expected columns among {self.columns}, got {column!r}"
                )
        return found

    def _names(self, kernel: Kernel) -> list[str]:
        if isinstance(kernel, Sum):
            return [
                name
                for term in kernel.terms
                for name in (f"variance of {term}", *self._names(term))
            ]
        if isinstance(kernel, Product):
            return [name for factor in kernel.factors for name in self._names(factor)]
        numbers = self._numbers(kernel) if isinstance(kernel, On) else range(len(self.columns))
        return [f"lengthscale of {kernel} in {self.columns[number]}" for number in numbers]

    def _evaluated(
        self, kernel: Kernel, a: FloatArray, b: FloatArray, theta: FloatArray
    ) -> Evaluated:
        if isinstance(kernel, Sum):
            return self._summed(kernel, a, b, theta)
        if isinstance(kernel, Product):
            return self._multiplied(kernel, a, b, theta)
        if isinstance(kernel, On):
            numbers = self._numbers(kernel)
            return kernel.kernel.evaluate(
                a[:, numbers], b[:, numbers], theta, np.arange(len(numbers))
            )
        assert isinstance(kernel, RowKernel)  # as was checked when this was made
        return kernel.evaluate(a, b, theta, np.arange(a.shape[1]))

    def _parts(self, kernels: Sequence[Kernel], theta: FloatArray, own: int) -> list[FloatArray]:
        """Hyperparameters of each part, the first `own` for its place in the whole."""
        sizes = [own + len(self._names(part)) for part in kernels]
        return np.split(theta, np.cumsum(sizes)[:-1])

    def _summed(self, kernel: Sum, a: FloatArray, b: FloatArray, theta: FloatArray) -> Evaluated:
        parts = self._parts(kernel.terms, theta, 1)
        variances = [float(np.exp(part[0])) for part in parts]
        found = [
            self._evaluated(term, a, b, part[1:])
            for term, part in zip(kernel.terms, parts, strict=True)
        ]
        total = sum(v * each.covariance for v, each in zip(variances, found, strict=True))

        def pull(cotangent: FloatArray) -> FloatArray:
            gradients: list[FloatArray] = []
            for variance, each in zip(variances, found, strict=True):
                scaled = variance * cotangent
                own = (scaled * each.covariance).sum()
                gradients += [np.array([own]), each.pull(scaled)]
            return np.concatenate(gradients)

        return Evaluated(np.asarray(total), pull)

    def _multiplied(
        self, kernel: Product, a: FloatArray, b: FloatArray, theta: FloatArray
    ) -> Evaluated:
        parts = self._parts(kernel.factors, theta, 0)
        found = [
            self._evaluated(factor, a, b, part)
            for factor, part in zip(kernel.factors, parts, strict=True)
        ]
        covariances = [each.covariance for each in found]

        def pull(cotangent: FloatArray) -> FloatArray:
            gradients = []
            for place, each in enumerate(found):
                others = covariances[:place] + covariances[place + 1 :]
                gradients.append(each.pull(np.prod([cotangent, *others], axis=0)))
            return np.concatenate(gradients)

        return Evaluated(np.asarray(np.prod(covariances, axis=0)), pull)
