"""Temporary files beside the files whose place they take.

A temporary file is locked while its writer lives, whatever the writer's process number, container
or machine: the kernel frees the lock when the process ends. One without a lock is stale, left by a
process that was killed, and the next writer of the same target removes it.
"""

from __future__ import annotations

import errno
import hashlib
import os
import secrets
import shutil
import signal
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

_locks: ModuleType | None
try:
    import fcntl as _locks
except ImportError:  # Windows: nothing is locked, and nothing swept
    _locks = None

PREFIX, SUFFIX = ".coupledgp-", ".tmp"
# Signals that end a process, by default without a chance to remove anything.
ENDING = tuple(getattr(signal, n) for n in ("SIGTERM", "SIGHUP") if hasattr(signal, n))
# Errors of file systems that have no locks.
NO_LOCKS = (errno.ENOLCK, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EINVAL)
PRIVATE, USUAL = 0o600, 0o666

# Every temporary file of this process: its target as the caller named it, and the process.
_live: dict[Path, tuple[str, int]] = {}
# Folders that end with the process, and the process.
_folders: dict[str, int] = {}


class Temporary:
    """A temporary file of a target, which nobody but its owner can read until it takes its place.

    Parameters
    ----------
    target
        File whose place it takes, in an existing folder.
    name
        The target as messages name it.

    Raises
    ------
    OSError
        The folder takes no new file.
    """

    def __init__(self, target: Path, name: str) -> None:
        self._descriptor, self.usual_mode, self._process = -1, USUAL, os.getpid()
        while self._descriptor < 0:
            unique = f"{os.getpid()}-{secrets.token_hex(6)}"
            self.path = target.with_name(f"{_stem(target)}{unique}{SUFFIX}")
            # Known before it exists: a signal may come at any time.
            _live[self.path] = (name, os.getpid())
            try:
                self._open()
            except BaseException:
                self.discard()
                raise

    def _open(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
        descriptor = os.open(self.path, flags, USUAL)
        self.usual_mode = stat.S_IMODE(os.fstat(descriptor).st_mode)
        with suppress(OSError, AttributeError):
            os.fchmod(descriptor, PRIVATE)
        # Another writer may have taken it for a stale one between two calls: then another name.
        if _locks is not None and _locked(descriptor) and os.fstat(descriptor).st_nlink:
            self._descriptor = descriptor
            return
        os.close(descriptor)
        if _locks is None:
            self._descriptor = 0
        else:
            self.discard()

    def discard(self) -> None:
        """Remove the file where it is still there; a forked child leaves its parent's alone."""
        if self._process == os.getpid():
            _remove(self.path)
        _live.pop(self.path, None)
        if self._descriptor > 0:
            os.close(self._descriptor)
            self._descriptor = -1


def given_name(path: Path) -> str | None:
    """The target of a temporary file of this process as the caller named it; None for others."""
    found = _live.get(path)
    return None if found is None else found[0]


def discard_all() -> None:
    """Remove every temporary file of this process, which is about to end."""
    for path, (_, process) in list(_live.items()):
        if process == os.getpid():
            _remove(path)
    for folder, process in list(_folders.items()):
        if process == os.getpid():
            shutil.rmtree(folder, ignore_errors=True)


def ends_with_the_process(folder: str) -> None:
    """Note a folder of this process that signals remove, too."""
    _folders[folder] = os.getpid()


def sweep(target: Path) -> None:
    """Remove the temporary files of a target whose writers are no more."""
    if _locks is None:
        return
    stem = _stem(target)
    try:
        with os.scandir(target.parent) as entries:
            names = [entry.name for entry in entries if entry.name.startswith(stem)]
    except OSError:
        return
    for name in {found.partition(SUFFIX)[0] + SUFFIX for found in names}:
        _remove_stale(target.with_name(name))


@contextmanager
def removed_by_signals() -> Iterator[None]:
    """Let signals that would end the process at once remove its temporary files before.

    Handlers that a program has set stay; other threads than the main one cannot set any.
    """
    changed = []
    if threading.current_thread() is threading.main_thread():
        changed = [number for number in ENDING if signal.getsignal(number) is signal.SIG_DFL]
    for number in changed:
        signal.signal(number, _end)
    try:
        yield
    finally:
        for number in changed:
            if signal.getsignal(number) is _end:
                signal.signal(number, signal.SIG_DFL)


def _end(number: int, frame: Any) -> None:
    discard_all()
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _stem(target: Path) -> str:
    """Beginning of the names of a target's temporary files, short for names of any length."""
    digest = hashlib.blake2b(os.fsencode(target.name), digest_size=6).hexdigest()
    return f"{PREFIX}{digest}-"


def _locked(descriptor: int) -> bool:
    """Lock an open file; False if somebody else has. Where there are no locks, True."""
    assert _locks is not None
    try:
        _locks.flock(descriptor, _locks.LOCK_EX | _locks.LOCK_NB)
    except OSError as error:
        return error.errno in NO_LOCKS
    return True


def _remove_stale(path: Path) -> None:
    """Remove an unlocked temporary file of this user, or the folders of one that is gone."""
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(path, flags)
    except FileNotFoundError:
        _remove(path)
        return
    except OSError:
        return
    try:
        found = os.fstat(descriptor)
        own = stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid()
        if own and _lockable(descriptor):
            _remove(path)
    finally:
        os.close(descriptor)


def _lockable(descriptor: int) -> bool:
    """Whether nobody holds the lock of a file, on a file system that has locks."""
    assert _locks is not None
    try:
        _locks.flock(descriptor, _locks.LOCK_EX | _locks.LOCK_NB)
    except OSError:
        return False
    return True


def _remove(path: Path) -> None:
    """Remove a temporary file and the folders beside it that begin with its name."""
    with suppress(OSError):
        path.unlink()
    with suppress(OSError), os.scandir(path.parent) as entries:
        beside = [entry.path for entry in entries if entry.name.startswith(f"{path.name}.")]
        for folder in beside:
            shutil.rmtree(folder, ignore_errors=True)
