"""The device on which tensors are computed: the CPU, or a CUDA device.

Draws come from generators of NumPy on the CPU on every device, so that one seed gives the same
frequencies; sums are formed in another order, so that results agree to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeAlias, TypeVar, cast

from coupledgp.errors import InvalidInputError
from coupledgp.ground.memory import check_memory
from coupledgp.ground.tensors import Tensor, TensorHolder, torch

DeviceLike: TypeAlias = "torch.device | str | None"
Record = TypeVar("Record")


class _Cpu(str):
    """The CPU as torch takes it, equal to `torch.device("cpu")`; it is named without torch."""

    __slots__ = ()
    type = "cpu"

    def __eq__(self, other: object) -> bool:
        return str(other) == "cpu"

    def __hash__(self) -> int:
        return hash("cpu")


CPU = cast("torch.device", _Cpu("cpu"))


def parse_device(device: DeviceLike, name: str = "device") -> torch.device:
    """Return the device that a parameter names; a CUDA device has a number.

    Parameters
    ----------
    device
        None or `"cpu"`, `"cuda"` (the current CUDA device), `"cuda:1"`, `"auto"` (the current CUDA
        device, or the CPU where there is none), or a `torch.device`.
    name
        Name of the parameter.

    Raises
    ------
    InvalidInputError
        The text names no device, a device of another kind, or one that torch does not find.
    """
    if device is None or (isinstance(device, str) and device == "cpu"):
        return CPU
    count, current = cuda_devices()
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda", current) if count else CPU
    expected = f"{name}: expected None or 'cpu', 'cuda', 'cuda:1', 'auto' or a torch.device"
    if not isinstance(device, (str, torch.device)):
        raise InvalidInputError(f"{expected}, got {device!r}")
    try:
        found = torch.device(device)
    except RuntimeError:
        raise InvalidInputError(f"{expected}, got {device!r}") from None
    if found.type == "cpu":
        return CPU
    if found.type != "cuda":
        raise InvalidInputError(f"{expected}, got {device!r}")
    number = current if found.index is None else found.index
    if not 0 <= number < count:
        raise InvalidInputError(
            f"{name}: expected a device that torch finds, got {str(device)!r}; {_devices(count)}. "
            "None means the CPU"
        )
    return torch.device("cuda", number)


def cuda_devices() -> tuple[int, int]:
    """Number of CUDA devices that torch finds, and number of the current one, zero without any."""
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return count, torch.cuda.current_device() if count else 0


def _devices(count: int) -> str:
    """The devices that torch found, as part of an error."""
    if count:
        return f"torch {torch.__version__} finds cuda:0" + f" to cuda:{count - 1}" * (count > 1)
    built = "" if torch.version.cuda else ", which is built without CUDA,"
    return f"torch {torch.__version__}{built} finds no CUDA device"


def free_bytes(device: torch.device) -> float:
    """Bytes that this process can still allocate on a CUDA device.

    The sum of the device's free bytes and of the bytes that torch holds without use.
    """
    held = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
    return float(torch.cuda.mem_get_info(device)[0] + held)


def check_device_memory(
    device: torch.device, needed: float, what: str, advice: str | Callable[[float], str]
) -> None:
    """Refuse a computation that needs more memory than a device has free.

    Parameters
    ----------
    device
        The device; for the CPU it is `memory.check_memory`.
    needed, what, advice
        As for `memory.check_memory`.

    Raises
    ------
    MemoryLimitError
        More bytes are needed than the device has free.
    """
    limit = None if device.type == "cpu" else free_bytes(device)
    check_memory(needed, what, advice, limit, f"are free on {device}")


def moved(value: Record, device: torch.device) -> Record:
    """The same frozen record with all its tensors on a device.

    Parameters
    ----------
    value
        A tensor, a feature map, a dataclass or a tuple of such;
        anything else is returned as it is.
    device
        The device.
    """
    found: Any = value
    if isinstance(value, (Tensor, TensorHolder)):
        found = value.to(device)
    elif is_dataclass(value) and not isinstance(value, type):
        parts = {f.name: moved(getattr(value, f.name), device) for f in fields(value)}
        found = replace(value, **parts)
    elif isinstance(value, tuple):
        parts_of_tuple = [moved(part, device) for part in value]
        named = hasattr(value, "_fields")
        found = type(value)(*parts_of_tuple) if named else tuple(parts_of_tuple)
    result: Record = found
    return result
