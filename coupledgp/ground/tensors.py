"""torch, which is imported at its first use and need not be installed.

A file writes `from coupledgp.ground.tensors import Tensor, torch` where it would import them from
torch. Type checkers see the library itself. What needs no tensors never imports it, and what needs
them says how to install it where it is missing.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from copy import copy
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Self, TypeGuard

from coupledgp.ground.extras import named_extras


def imported() -> Any:
    """The library itself.

    Raises
    ------
    MissingLibraryError
        It is not installed; the message says how it can be.
    """
    with named_extras():
        return import_module("torch")


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


if TYPE_CHECKING:
    import torch as torch
    from torch import Tensor as Tensor
else:
    torch = _Torch()

    class Tensor(metaclass=_TensorType):
        """For annotations, and for `isinstance`, which does not import torch to answer."""


def is_module(value: object) -> TypeGuard[torch.nn.Module]:
    """Whether a value is a module of torch, anybody's; torch is not imported to answer."""
    found = sys.modules.get("torch")
    return found is not None and isinstance(value, found.nn.Module)


class TensorHolder:
    """An object that computes with the tensors among its attributes."""

    def state_dict(self) -> dict[str, Tensor]:
        """The tensors by name of the attribute; those of a part under `part.name`."""
        found: dict[str, Tensor] = {}
        for name, value in vars(self).items():
            if isinstance(value, TensorHolder):
                found |= {f"{name}.{own}": tensor for own, tensor in value.state_dict().items()}
            elif isinstance(value, Tensor):
                found[name] = value
        return found

    def with_tensors(self, tensors: Mapping[str, Tensor]) -> Self:
        """A copy with other tensors, under the names of `state_dict`."""
        made = copy(self)
        vars(made).update((name, tensor) for name, tensor in tensors.items() if "." not in name)
        for name, part in vars(self).items():
            if isinstance(part, TensorHolder):
                own = {f"{name}.{key}": key for key in part.state_dict()}
                changed = {own[key]: tensor for key, tensor in tensors.items() if key in own}
                vars(made)[name] = part.with_tensors(changed)
        return made

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> Self:
        """A copy on a device, its numbers that are no integers in a data type."""
        return self.with_tensors({
            name: tensor.to(device=device, dtype=dtype if tensor.is_floating_point() else None)
            for name, tensor in self.state_dict().items()
        })  # fmt: skip


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
