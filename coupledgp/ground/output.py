"""Files that are written whole or not at all: under a temporary name beside their own."""

from __future__ import annotations

import errno
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX, PRIVATE = ".coupledgp-", 0o600


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path whose file takes the place of `path` unless an error comes between.

    A symbolic link stays, and its target is replaced. Permissions of a file that is replaced are
    kept, those of a new one follow the umask. A `path` that is no regular file, such as a pipe, is
    itself yielded.

    Raises
    ------
    OSError
        `path` cannot be written, is a folder, or a circle of symbolic links; raised before the body
        runs, and naming `path`.
    """
    name = os.fspath(path)
    try:
        old = os.stat(name)
    except FileNotFoundError:
        old = None
    if old is not None:
        number = errno.EISDIR if stat.S_ISDIR(old.st_mode) else errno.EACCES
        if number == errno.EISDIR or not os.access(name, os.W_OK):
            raise OSError(number, os.strerror(number), name)
        if not stat.S_ISREG(old.st_mode):
            with _naming(name, Path(name)):
                yield Path(name)
            return
    target = Path(os.path.realpath(name))
    temporary = target.with_name(f"{PREFIX}{secrets.token_hex(8)}.tmp")
    try:
        with _naming(name, temporary):
            temporary.touch(exist_ok=False)
            mode = stat.S_IMODE((old or temporary.stat()).st_mode)
            temporary.chmod(PRIVATE)
            yield temporary
            with temporary.open("rb+") as file:
                os.fsync(file.fileno())
            temporary.chmod(mode)
            os.replace(temporary, target)
    finally:
        with suppress(OSError):
            temporary.unlink()


@contextmanager
def _naming(name: str, path: Path) -> Iterator[None]:
    """Put `name` into errors of the system that concern `path` or name no file."""
    try:
        yield
    except OSError as error:
        unnamed = error.filename is None and type(error) is OSError
        if not unnamed and error.filename not in (str(path), os.fsencode(path)):
            raise
        text = error.strerror or f"not written whole ({' '.join(str(error).split())})"
        raise OSError(error.errno or errno.EIO, text, name) from error


def write_text(path: str | os.PathLike[str], text: str, newline: str | None = None) -> None:
    r"""Write a text in UTF-8, whole or not at all.

    Bytes of a file's name that are no UTF-8 are written as escapes, `\udcff` for the byte 255.
    """
    with written_whole(path) as temporary:
        temporary.write_text(text, "utf-8", errors="backslashreplace", newline=newline)


def text_written(text: str, path: str | os.PathLike[str] | None, **options: str) -> str:
    """Write a text to a path if one is given, and return it; options as of `write_text`."""
    if path is not None:
        write_text(path, text, **options)
    return text


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Write bytes, whole or not at all."""
    with written_whole(path) as temporary:
        temporary.write_bytes(content)
