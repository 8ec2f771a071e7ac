"""Files that are written whole or not at all.

Whatever goes wrong, a full disk, a limit, a signal, an error while a text is made, the old file
stays as it was. The new one is on the disk before it takes the old one's place, and has its
permissions.
"""

from __future__ import annotations

import errno
import os
import stat
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from coupledgp.ground.temporary import (
    PREFIX,
    Temporary,
    given_name,
    removed_by_signals,
    sweep,
)
from coupledgp.ground.warned import warn

ACCESS_LIST = "system.posix_acl_access"
GROUP, SET_IDS = 0o070, 0o6000
# Errors of file systems that cannot flush a file or a folder on request.
UNSYNCED = (errno.EINVAL, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EROFS)
Identity = tuple[object, ...]


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path whose file takes the place of `path` unless an error comes between.

    A symbolic link stays, and its target is replaced. Permissions, owner, group and access list of
    a file that is replaced are kept, those of a new one follow the umask. Another name (hard link)
    of the old file keeps the old content. A `path` that is no regular file, such as a pipe, is
    itself yielded, and so is one that is temporary already.

    Raises
    ------
    OSError
        `path` cannot be written, is a folder, or a circle of symbolic links; raised before the body
        runs, and naming `path`.
    """
    name = os.fspath(path)
    if given_name(Path(name)) is not None:
        yield Path(name)
        return
    target = _target(name)
    if target is None:
        yield Path(name)
        return
    sweep(target)
    with removed_by_signals():
        try:
            temporary = Temporary(target, name)
        except OSError as error:
            raise _system_error(error, name) from None
        try:
            yield temporary.path
            with _naming(name, str(temporary.path)):
                _put(temporary, target)
        finally:
            temporary.discard()


@contextmanager
def folder_written_whole(
    path: str | os.PathLike[str], marks: Sequence[str], kind: str
) -> Iterator[Path]:
    """Yield a temporary folder that takes the place of `path` unless an error comes between.

    An old folder is replaced only if it is of the same kind. It is moved away before the new one,
    which is complete, takes its name; a process that is killed between the two leaves no folder at
    `path`.

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
    sweep(target)
    with removed_by_signals():
        try:
            temporary = Temporary(target, name)
        except OSError as error:
            raise _system_error(error, name) from None
        try:
            # Beside a temporary file, with which it is removed.
            new, old = Path(f"{temporary.path}.new"), Path(f"{temporary.path}.old")
            with _naming(name, str(new)):
                new.mkdir()
                yield new
                if target.exists():
                    target.rename(old)
                new.rename(target)
        finally:
            temporary.discard()


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Name the user's file in errors of the system while `path` is written.

    Parameters
    ----------
    path
        The path that `written_whole` yielded, or any other path.
    """
    with _naming(given_name(path) or str(path), str(path)):
        yield


def write_text(path: str | os.PathLike[str], text: str, newline: str | None = None) -> None:
    r"""Write a text in UTF-8, whole or not at all.

    Bytes of a file's name that are no UTF-8 are written as escapes, `\udcff` for the byte 255.
    """
    with written_whole(path) as temporary, writing(temporary):
        temporary.write_text(text, "utf-8", errors="backslashreplace", newline=newline)


def text_written(text: str, path: str | os.PathLike[str] | None, **options: str) -> str:
    """Write a text to a path if one is given, and return it; options as of `write_text`."""
    if path is not None:
        write_text(path, text, **options)
    return text


def write_bytes(path: str | os.PathLike[str], content: bytes) -> None:
    """Write bytes, whole or not at all."""
    with written_whole(path) as temporary, writing(temporary):
        temporary.write_bytes(content)


def find_clash(outputs: Mapping[str, Path], inputs: Sequence[Path]) -> str | None:
    """Return the name of the first output that is an input or an earlier output, if there is one.

    Paths are the same if they lead to one file: through symbolic links, as hard links, or with
    other letters on a file system for which `A` and `a` are one.
    """
    taken = [(path, _identity(path)) for path in inputs]
    for name, path in outputs.items():
        found = _identity(path)
        for other, identity in taken:
            if identity == found or _is_same_new(path, other):
                return name
        taken.append((path, found))
    return None


def _target(name: str) -> Path | None:
    """The file to replace, behind symbolic links; None for a pipe or a device."""
    try:
        found = os.stat(name)
    except FileNotFoundError:
        return Path(os.path.realpath(name))
    except OSError as error:
        raise _system_error(error, name) from None
    if stat.S_ISDIR(found.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), name)
    effective = os.access in os.supports_effective_ids
    if not os.access(name, os.W_OK, effective_ids=effective):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), name)
    return Path(os.path.realpath(name)) if stat.S_ISREG(found.st_mode) else None


def _put(temporary: Temporary, target: Path) -> None:
    """Let a temporary file that is complete take the place of its target."""
    descriptor = os.open(temporary.path, os.O_RDWR)
    try:
        _dress(descriptor, temporary.usual_mode, target)
        _sync(descriptor)
    finally:
        os.close(descriptor)
    temporary.path.replace(target)
    with suppress(OSError):  # folders that cannot be opened, and Windows
        descriptor = os.open(target.parent, os.O_RDONLY)
        try:
            _sync(descriptor)
        finally:
            os.close(descriptor)


def _sync(descriptor: int) -> None:
    """Wait until a file is on the disk."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in UNSYNCED:
            raise


def _dress(descriptor: int, usual_mode: int, target: Path) -> None:
    """Give an open file the owner, group, access list and permissions of the one it replaces."""
    try:
        old = target.stat()
    except FileNotFoundError:
        _change_mode(descriptor, usual_mode)
        return
    mode = stat.S_IMODE(old.st_mode) & ~_lost_owner(descriptor, old, target)
    if not _copied_attributes(descriptor, target):
        mode &= ~GROUP  # with an access list they stand for its mask, not for the group's rights
    _change_mode(descriptor, mode)


def _change_mode(descriptor: int, mode: int) -> None:
    with suppress(PermissionError, AttributeError):  # file systems without permissions; Windows
        os.fchmod(descriptor, mode)


def _lost_owner(descriptor: int, old: os.stat_result, target: Path) -> int:
    """Restore owner and group; return the permission bits that have to go without them."""
    new = os.fstat(descriptor)
    if (new.st_uid, new.st_gid) == (old.st_uid, old.st_gid):
        return 0
    with suppress(OSError):
        os.fchown(descriptor, old.st_uid, old.st_gid)
        return 0
    lost, kept = SET_IDS, "owner"
    try:
        os.fchown(descriptor, -1, old.st_gid)
    except OSError:  # the new group may do what everybody may
        lost, kept = lost | GROUP & ~(stat.S_IMODE(old.st_mode) << 3), "owner or group"
    warn(f"{target}: this user cannot keep the {kept} of the file")
    return lost


def _copied_attributes(descriptor: int, target: Path) -> bool:
    """Copy the access list and the user's attributes; whether the access list is the same."""
    if not hasattr(os, "listxattr"):
        return True
    try:
        wanted, present = os.listxattr(target), os.listxattr(descriptor)
    except OSError:
        return True  # a file system without them
    for name in wanted:
        if name.startswith("user.") or name == ACCESS_LIST:
            try:
                os.setxattr(descriptor, name, os.getxattr(target, name))
            except OSError:
                if name == ACCESS_LIST:
                    return False
    if ACCESS_LIST in present and ACCESS_LIST not in wanted:  # inherited from the folder
        with suppress(OSError):
            os.removexattr(descriptor, ACCESS_LIST)
    return True


@contextmanager
def _naming(name: str, path: str) -> Iterator[None]:
    """Put `name` into errors of the system that concern `path` or name no file."""
    try:
        yield
    except OSError as error:
        found = error.filename
        if found is not None and (isinstance(found, int) or os.fsdecode(found) != path):
            raise
        raise _system_error(error, name) from error


def _system_error(error: OSError, name: str) -> OSError:
    text = error.strerror or f"not written whole ({' '.join(str(error).split())})"
    return OSError(error.errno or errno.EIO, text, name)


def _identity(path: Path) -> Identity:
    """Key that is equal for two paths to one file; of a new file its folder and name."""
    if "\0" in str(path):
        return (str(path),)  # no file has such a name
    try:
        found = os.stat(path)
        return found.st_dev, found.st_ino
    except OSError:
        target = Path(os.path.realpath(path))
    try:
        folder = os.stat(target.parent)
        return folder.st_dev, folder.st_ino, target.name
    except OSError:
        return (str(target),)


def _is_same_new(one: Path, other: Path) -> bool:
    """Whether two paths of new files would be one file, by the rules of the file system."""
    first, second = _identity(one), _identity(other)
    if len(first) != 3 or len(second) != 3 or first[:2] != second[:2]:
        return False
    names = [unicodedata.normalize("NFC", str(found[2])).casefold() for found in (first, second)]
    return names[0] == names[1] and _folds_names(Path(os.path.realpath(one)).parent)


def _folds_names(folder: Path) -> bool:
    """Whether a folder takes names that differ in case, or in forms of é, for one."""
    name = f"{PREFIX}probe-{os.getpid()}-\u00e9.tmp"
    try:
        os.close(os.open(folder / name, os.O_CREAT | os.O_EXCL, 0o600))
    except OSError:
        return False
    try:
        variants = name.upper(), unicodedata.normalize("NFD", name)
        return any((folder / variant).exists() for variant in variants)
    finally:
        (folder / name).unlink(missing_ok=True)
