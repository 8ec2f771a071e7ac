"""A device that is not there: tensors in the CPU's memory that refuse to meet others.

Within `pretend_device()` the device `DEVICE` can be named wherever torch takes one. Its tensors
answer to `.device` with it, operations that mix them with other tensors fail as on an accelerator,
and so does `.numpy()`. What leaves the device, by `.cpu()` or `.to()`, is listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_flatten, tree_map

from coupledgp.tables import conditionals

DEVICE = torch.device("cuda", 7)  # no machine of ours has so many


class OnDevice(Tensor):
    """A tensor that stands for one on the device."""

    __torch_function__ = torch._C._disabled_torch_function_impl


class PretendDevice(TorchFunctionMode):
    """Watches every call of torch; `left` are the shapes of the tensors that left the device."""

    def __init__(self) -> None:
        super().__init__()
        self.left: list[tuple[int, ...]] = []
        self.sparse: list[Tensor] = []  # which are of no class of ours

    def is_here(self, value: Any) -> bool:
        """Whether a value is a tensor on the device."""
        return isinstance(value, OnDevice) or any(value is own for own in self.sparse)

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", str(func))
        if func == Tensor.device.__get__:  # type: ignore[attr-defined]
            return DEVICE if self.is_here(args[0]) else func(*args)
        if name == "__deepcopy__" and isinstance(args[0], OnDevice):
            copied = self._marked(args[0].detach().as_subclass(Tensor).clone())
            return args[1].setdefault(id(args[0]), copied)
        tensors = [x for x in tree_flatten((args, kwargs))[0] if isinstance(x, Tensor)]
        here = [x for x in tensors if self.is_here(x)]
        if name in ("to", "cpu", "numpy", "__array__"):
            return self._moved(name, func, args, kwargs)
        # A number in a tensor of no dimension may come from anywhere, as on an accelerator.
        others = [x for x in tensors if not self.is_here(x) and x.ndim]
        assert not (here and others) or name == "as_subclass", (
            f"{name}: tensors on {DEVICE} with tensors on the CPU of shapes "
            f"{[tuple(x.shape) for x in others]}"
        )
        device = kwargs.get("device")
        made_here = bool(here) if device is None else torch.device(device) == DEVICE
        if device is not None and torch.device(device) == DEVICE:
            kwargs["device"] = "cpu"
        return self._marked(func(*args, **kwargs)) if made_here else func(*args, **kwargs)

    def _moved(
        self, name: str, func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        source, *rest = args
        if name in ("numpy", "__array__"):
            assert not isinstance(source, OnDevice), f"a tensor on {DEVICE} as an array"
            return func(*args, **kwargs)
        target = torch.device("cpu") if name == "cpu" else _target(rest, kwargs)
        plain = source.as_subclass(Tensor) if isinstance(source, OnDevice) else source
        rest = [_as_cpu(x) for x in rest]
        moved = func(plain, *rest, **{k: _as_cpu(v) for k, v in kwargs.items()})
        if target is None:
            target = DEVICE if isinstance(source, OnDevice) else torch.device("cpu")
        if target == DEVICE:
            return moved.as_subclass(OnDevice)
        if isinstance(source, OnDevice):
            self.left.append(tuple(source.shape))
        return moved

    def _marked(self, result: Any) -> Any:
        def mark(value: Any) -> Any:
            if not isinstance(value, Tensor):
                return value
            if value.layout is torch.strided:
                return value.as_subclass(OnDevice)
            self.sparse.append(value)
            return value

        return tree_map(mark, result)


def _target(rest: Sequence[Any], kwargs: dict[str, Any]) -> torch.device | None:
    """The device that `.to` is asked for, if one."""
    for value in (*rest, kwargs.get("other"), kwargs.get("device")):
        if isinstance(value, Tensor):
            return DEVICE if isinstance(value, OnDevice) else torch.device("cpu")
        if isinstance(value, (str, torch.device)):
            return torch.device(value)
    return None


def _as_cpu(value: Any) -> Any:
    if isinstance(value, OnDevice):
        return value.as_subclass(Tensor)
    if isinstance(value, (str, torch.device)) and torch.device(value) == DEVICE:
        return torch.device("cpu")
    return value


@contextmanager
def pretend_device(free: float = 2.0**40) -> Iterator[PretendDevice]:
    """Let `DEVICE` be there, the current and last of its kind, with that many bytes free."""
    found = {"cuda_devices": lambda: (DEVICE.index + 1, DEVICE.index), "free_bytes": lambda _: free}
    with patch.multiple("coupledgp.ground.devices", **found), PretendDevice() as mode:
        yield mode


def on_device(array: Any) -> Tensor:
    """A tensor of numbers on the device."""
    return torch.as_tensor(np.asarray(array)).to(DEVICE)


@contextmanager
def gradients_on(device: torch.device) -> Iterator[None]:
    """Let gradients that torch hands to closed-form derivatives be on the device, as theirs are."""
    original = conditionals._Conditionals.backward

    def backward(ctx: Any, *upstream: Tensor) -> Any:
        there = any(isinstance(part.weights, OnDevice) for part in ctx.parts)
        return original(ctx, *(u.as_subclass(OnDevice) if there else u for u in upstream))

    with patch.object(conditionals._Conditionals, "backward", staticmethod(backward)):
        yield
