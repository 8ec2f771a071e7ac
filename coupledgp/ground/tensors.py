"""torch, which is imported at its first use and need not be installed.

A file writes `from coupledgp.ground.tensors import Tensor, torch` where it would import them from
torch. Type checkers see the library itself. What needs no tensors never imports it, and what needs
them says how to install it where it is missing.
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TypeGuard

from coupledgp.ground.extras import named_extras


def imported() -> Any:
    """The library itself.

    Raises
    ------
    MissingLibraryError
        It is not installed; the message says how it can be.
    """
    with named_extras():
        library = import_module("torch")
    if not issubclass(Module, library.nn.Module):
        Module.__bases__ = (library.nn.Module,)
    return library


def has_torch() -> bool:
    """Whether the library is installed; it is not imported to answer."""
    try:
        return find_spec("torch") is not None
    except (ImportError, ValueError):  # another finder says that it is not, or it is half loaded
        return False


class _Torch:
    """Stands for the library: each name is looked up once and kept."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name != "__version__":  # asked by copy, pickle and doctest
            raise AttributeError(name)
        value = getattr(imported(), name)
        setattr(self, name, value)
        return value


class _TensorType(type):
    def __instancecheck__(cls, value: object) -> bool:
        found = sys.modules.get("torch")
        return found is not None and isinstance(value, found.Tensor)


class _Later:
    """The base of `Module` until torch is used."""


if TYPE_CHECKING:
    import torch as torch
    from torch import Tensor as Tensor
    from torch.nn import Module as Module
else:
    torch = _Torch()

    class Tensor(metaclass=_TensorType):
        """For annotations, and for `isinstance`, which does not import torch to answer."""

    class Module(_Later):
        """`torch.nn.Module` as a base of classes, which are then written without importing it.

        It derives from torch's own class as soon as torch is used: its subclasses are modules of
        torch before the first one is made.
        """

        def __new__(cls, *_: Any, **__: Any) -> Any:
            imported()
            return object.__new__(cls)

    if sys.modules.get("torch") is not None:
        imported()


def is_module(value: object) -> TypeGuard[Module]:
    """Whether a value is a module of torch, anybody's; torch is not imported to answer."""
    found = sys.modules.get("torch")
    return found is not None and isinstance(value, found.nn.Module)


class Differentiable:
    """A function with a derivative of its own: `torch.autograd.Function`, made at its first use.

    A subclass states `forward(ctx, *inputs)` and `backward(ctx, *gradients)` as static methods.
    """

    @classmethod
    def apply(cls, *inputs: Any) -> Any:
        """Value of the function, whose derivative autograd knows."""
        return _function(cls).apply(*inputs)  # type: ignore[arg-type]


@cache
def _function(cls: type) -> Any:
    return type(cls.__name__, (torch.autograd.Function,), dict(vars(cls)))
