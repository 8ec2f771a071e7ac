"""Files that are written whole or not at all: under a temporary name beside their own."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX, PRIVATE = ".coupledgp-", 0o600
# Temporary files and folders of this process.
TEMPORARY: set[Path] = set()


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
    with _temporary(name, target) as temporary:
        temporary.touch(exist_ok=False)
        mode = stat.S_IMODE((old or temporary.stat()).st_mode)
        temporary.chmod(PRIVATE)
        yield temporary
        with temporary.open("rb+") as file:
            os.fsync(file.fileno())
        temporary.chmod(mode)
        os.replace(temporary, target)


@contextmanager
def folder_written_whole(
    path: str | os.PathLike[str], marks: Sequence[str], kind: str
) -> Iterator[Path]:
    """Yield a temporary folder that takes the place of `path` unless an error comes between.

    An old folder is replaced only if it is of the same kind.

    Parameters
    ----------
    path
        The folder to write.
    marks
        Names of files of which a folder of this kind has one.
    kind
        The kind in words, such as `"a Zarr store"`.

    Raises
    ------
    OSError
        `path` is a file or a folder of another kind, or cannot be written; raised before the body
        runs, and naming `path`.
    """
    name, target = os.fspath(path), Path(os.path.realpath(path))
    if target.exists() and not (target.is_dir() and any((target / m).exists() for m in marks)):
        raise FileExistsError(errno.EEXIST, f"expected no file, or {kind} to replace", name)
    with _temporary(name, target) as temporary:
        temporary.mkdir()
        yield temporary
        if target.exists():
            target.rename(f"{temporary}.old")
        temporary.rename(target)


@contextmanager
def _temporary(name: str, target: Path) -> Iterator[Path]:
    path = target.with_name(f"{PREFIX}{secrets.token_hex(8)}.tmp")
    TEMPORARY.add(path)
    try:
        with _naming(name, path):
            yield path
    finally:
        _remove(path)
        TEMPORARY.discard(path)


def discard_all() -> None:
    """Remove the temporary files and folders of this process, which is about to end."""
    for path in list(TEMPORARY):
        _remove(path)


def _remove(path: Path) -> None:
    """Remove a temporary file or folder, and those whose names begin with its name."""
    with suppress(OSError):
        for found in path.parent.glob(f"{path.name}*"):
            if found.is_dir():
                shutil.rmtree(found, ignore_errors=True)
            else:
                found.unlink()


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


def find_clash(outputs: Mapping[str, Path], inputs: Sequence[Path]) -> str | None:
    """Return the name of the first output that is an input or an earlier output, if there is one.

    Paths are the same if they lead to one file, through symbolic links or as hard links.
    """
    taken = list(inputs)
    for name, path in outputs.items():
        if any(_is_same(path, other) for other in taken):
            return name
        taken.append(path)
    return None


def _is_same(one: Path, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return os.path.realpath(one) == os.path.realpath(other)
    except ValueError:  # no file has such a name
        return False
