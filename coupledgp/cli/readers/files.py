"""Files that commands read: regular ones where they are, pipes once, into a file of their own."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from coupledgp.errors import CoupledGPError, DataNotFoundError, InvalidInputError
from coupledgp.ground.memory import available_bytes, check_memory
from coupledgp.ground.output import TEMPORARY
from coupledgp.ground.visible import visible

# Seconds that a named pipe may take until a program opens it for writing.
PATIENCE = 10.0
CHUNK_BYTES = 2**20
# Bytes of a file up to which nobody asks whether there is memory for it.
SMALL = 2**26
# Free bytes, of memory and of the disk, of which a pipe may take this share.
PIPE_SHARE = 0.25
# Standard input, which the path - of an input stands for.
STDIN = Path("/dev/stdin")

_copies: dict[str, Path] = {}
_folder: list[str] = []


def on_disk(path: Path, whole: bool = True) -> Path:
    """Path of a regular file with the content of `path`, which is itself unless it is a pipe.

    A file whose name is no UTF-8, or has control characters, is given by a link of another name.

    A pipe, such as a process substitution or /dev/stdin, is read at the first call, and the file
    of its content is there until the end of `pipes_kept`.

    Parameters
    ----------
    path
        The file.
    whole
        Whether it is read whole, and has to fit into memory.

    Raises
    ------
    OSError
        There is no such file, it is a folder, or it may not be read.
    InvalidInputError
        It is a device, nobody writes into the pipe, or the content does not fit in memory.
    """
    if str(path) in _copies:
        return _copies[str(path)]
    try:
        found = path.stat()
    except ValueError:  # such as a null character
        raise InvalidInputError(f"{str(path)!r}: expected the name of a file") from None
    if stat.S_ISFIFO(found.st_mode):
        _copies[str(path)] = _copied(path)
        return _copies[str(path)]
    if not (stat.S_ISREG(found.st_mode) or stat.S_ISDIR(found.st_mode)):
        raise InvalidInputError(f"{path}: expected a file or a pipe, got a device or a socket")
    path.open("rb").close()  # an error of the system names the file
    if whole and found.st_size > SMALL:
        check_memory(found.st_size, f"{path}: {found.st_size} bytes", "give a part of the file")
    if visible(str(path)) == str(path):
        return path
    _copies[str(path)] = own_folder() / f"file{_ending(path)}"  # libraries take names of UTF-8
    _copies[str(path)].symlink_to(path.absolute())
    return _copies[str(path)]


def _ending(path: Path) -> str:
    """Ending of a name, such as .csv.gz, as far as it can be shown."""
    both = "".join(path.suffixes[-2:])
    return both if visible(both) == both else path.suffix


def is_pipe(path: Path) -> bool:
    """Whether a path is a pipe or standard input, whose name need not state its format."""
    try:
        return path == STDIN or stat.S_ISFIFO(path.stat().st_mode)
    except (OSError, ValueError):
        return False


@contextmanager
def about(*paths: Path | None) -> Iterator[None]:
    """Name the files in errors of the body that name neither a file nor an option."""
    names = [str(path) for path in paths if path is not None]
    try:
        yield
    except DataNotFoundError:
        raise
    except CoupledGPError as error:
        text = str(error)
        for name, copy in _copies.items():
            text = text.replace(str(copy), name)
        if text.startswith("--") or any(name in text for name in names):
            raise type(error)(text) from error
        raise type(error)(f"{', '.join(names)}: {text}") from error


@contextmanager
def pipes_kept() -> Iterator[None]:
    """Keep the content of pipes as long as the body runs."""
    try:
        yield
    finally:
        _copies.clear()
        while _folder:
            shutil.rmtree(_folder.pop(), ignore_errors=True)


def _copied(path: Path) -> Path:
    """A file with the content of a pipe, of the same name."""
    folder = own_folder()
    limit = PIPE_SHARE * min(available_bytes(), shutil.disk_usage(folder).free)
    copy, size = folder / (path.name or "pipe"), 0
    with copy.open("wb") as file:
        for chunk in _chunks(path):
            size += len(chunk)
            if size > limit:
                raise InvalidInputError(f"{path}: expected at most {limit:.0f} bytes in this pipe")
            file.write(chunk)
    return copy


def own_folder() -> Path:
    """A new folder, which is removed with all others at the end of `pipes_kept`."""
    if not _folder:
        _folder.append(tempfile.mkdtemp(prefix="coupledgp-"))
        TEMPORARY.add(Path(_folder[0]))
    return Path(tempfile.mkdtemp(dir=_folder[0]))


def _chunks(path: Path) -> Iterator[bytes]:
    """Content of a pipe, from the first write of a program until the last program has closed it."""
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        yield _first_chunk(path, handle)
        os.set_blocking(handle, True)
        while chunk := os.read(handle, CHUNK_BYTES):
            yield chunk
    finally:
        os.close(handle)


def _first_chunk(path: Path, handle: int) -> bytes:
    """Bytes that are in the pipe already; empty if a program has opened it and not written yet."""
    start = time.monotonic()
    while True:
        try:
            chunk = os.read(handle, CHUNK_BYTES)
        except OSError as error:
            if error.errno != errno.EAGAIN:
                raise
            return b""  # a program has opened it
        # Without a writer a read ends at once, as it does after the last one has gone.
        if chunk or not path.is_fifo() or path.parts[:2] in (("/", "dev"), ("/", "proc")):
            return chunk
        if time.monotonic() - start > PATIENCE:
            raise InvalidInputError(
                f"{path}: expected a program that writes into this pipe, got none in "
                f"{PATIENCE:.0f} s"
            )
        time.sleep(0.01)


def read_model(path: Path) -> Any:
    """Read a model from a file or a pipe; see `coupledgp.load_model`."""
    from coupledgp.models import load_model  # slow to import

    source = on_disk(path)
    with about(path):
        return load_model(source)
