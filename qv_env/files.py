"""Atomic file writes: a file is written under a temporary name, then renamed."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # not a POSIX system: folders are not locked
    fcntl = None  # type: ignore[assignment]

KEPT_FOLDER = "playthroughs"  # in a store: people's finished and abandoned games

_TEMPORARY = re.compile(r"\.[0-9a-f]{16}\.tmp")


def default_store() -> Path:
    """Return the folder of people's games: ``quarante-voleurs`` in ``$XDG_DATA_HOME``.

    Without that variable it is in ``~/.local/share``.
    """
    base = os.environ.get("XDG_DATA_HOME", "")
    root = Path(base) if os.path.isabs(base) else Path.home() / ".local" / "share"
    return root / "quarante-voleurs"


@contextmanager
def temporary_file(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """Create an empty temporary file; on exit it is removed, if it still exists.

    Its name is hidden, short and ends in ``.tmp``, so that listings of the folder leave it out and
    it does not exceed a limit on the length of names. The file is locked while the block runs, so
    that :func:`qv_env.folders.sweep` can recognize files that a killed process left. (On systems
    without POSIX locks it is not locked.)

    Args:
        folder: The folder of the file.

    Raises:
        OSError: No file can be created there.
    """
    path, descriptor = _new_temporary(Path(folder))
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)  # the lock is still on it
        if descriptor is not None:
            os.close(descriptor)


def _new_temporary(folder: Path) -> tuple[Path, int | None]:
    """Create a temporary file; return its path and the descriptor that locks it, if supported."""
    while True:
        path = folder / f".{secrets.token_hex(8)}.tmp"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        if fcntl is None:
            os.close(descriptor)  # such systems can neither move nor remove an open file
            return path, None
        with contextlib.suppress(OSError):  # not every file system has locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return path, descriptor
        os.close(descriptor)  # another process removed the file before it was locked


def is_temporary(name: str) -> bool:
    """Return whether a name has the form that :func:`temporary_file` uses."""
    return _TEMPORARY.fullmatch(name) is not None


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Replace a file atomically with what the block writes to a temporary path.

    Readers see the old content or the new, never a part of it: the new content is synced to disk
    before the file is renamed. If the block raises (Ctrl-C included), the old file remains and the
    temporary one is removed. A symbolic link remains as well: its target is replaced.

    Args:
        path: The file to write, in an existing folder.

    Yields:
        The path of an empty file in the same folder, for the block to fill. Its suffix is ``.tmp``,
        so a library that infers the format from the suffix has to be told the format.

    Raises:
        OSError: The file cannot be written; the error names it, not the temporary one.
    """
    with naming(path):
        place = _followed(path)
        with temporary_file(place.parent) as temporary:
            os.utime(temporary, ns=(0, 0))
            yield temporary
            with open(temporary, "rb+") as file:
                said = os.fstat(file.fileno())
                if not said.st_size and not said.st_mtime_ns:  # unchanged since its creation
                    raise FileNotFoundError(errno.ENOENT, "nothing was written")
                os.fsync(file.fileno())
            os.replace(temporary, place)
    _sync_folder(place.parent)


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Make an OSError name a file, if it names none or a temporary one.

    Args:
        path: The file to name. (The error of a write to a full disk names no file.)
    """
    try:
        yield
    except OSError as error:
        name = error.filename
        unnamed = not name or (isinstance(name, str) and is_temporary(os.path.basename(name)))
        if error.errno is None or not unnamed:
            raise
        raise OSError(error.errno, error.strerror, os.fspath(path)) from error


def _followed(path: str | os.PathLike[str]) -> Path:
    """Return the target of a path after following symbolic links; it need not exist."""
    place = os.path.realpath(path)
    if os.path.islink(place):  # the links form a cycle
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return Path(place)


def check_writable(path: str | os.PathLike[str]) -> None:
    """Check that a file can be written, before work is spent on its content.

    Nothing is changed. A disk that becomes full later is not foreseen.

    Args:
        path: The file, which may exist.

    Raises:
        OSError: It cannot be written: its folder is missing or not writable, the path is a folder,
            or the name is too long.
    """
    with naming(path):
        place = _followed(path)
        if place.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        with contextlib.suppress(FileNotFoundError):
            os.lstat(place)  # the name alone may be too long
        with temporary_file(place.parent):
            pass


def _sync_folder(folder: Path) -> None:
    """Sync a folder, if the system can, so that a new name in it survives a power failure."""
    with contextlib.suppress(OSError):  # not every system lets a folder be synced
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_bytes(path: str | os.PathLike[str], data: bytes | memoryview) -> None:
    """Write a file whole or not at all.

    Raises:
        OSError: The file cannot be written.
    """
    with replacing(path) as temporary:
        temporary.write_bytes(data)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write a text file whole or not at all, as UTF-8 and without converting line ends.

    Raises:
        OSError: The file cannot be written.
    """
    write_bytes(path, text.encode("utf-8"))


def write_json(path: str | os.PathLike[str], value: Any) -> None:
    """Write a JSON file whole or not at all, indented for people.

    Raises:
        ValueError, TypeError: The value has no JSON form (NaN has none).
        OSError: The file cannot be written.
    """
    write_text(path, json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False) + "\n")


def append(file: FileIO, data: bytes) -> None:
    """Write all of the data to a file that was opened without a buffer.

    On return the operating system has the data, so it is not lost if this process is killed.

    Raises:
        OSError: The data could not be written, or only a part; the error names the file.
    """
    with naming(file.name):
        while data:
            data = data[file.write(data) :]


class InUseError(OSError):
    """Another process has locked a folder or a file."""


@contextmanager
def held(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Lock a folder for the duration of the block, against this process and others.

    The lock ends with the process, however it ends, and leaves no file in the folder. On systems
    without POSIX locks this function does nothing.

    Args:
        folder: An existing folder.

    Raises:
        InUseError: The folder is locked already.
        OSError: There is no such folder.
    """
    if fcntl is None:
        yield
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        hold(descriptor, folder)
        yield
    finally:
        os.close(descriptor)


def hold(descriptor: int, path: str | os.PathLike[str]) -> None:
    """Lock an open file or folder until it is closed; see :func:`held`.

    Args:
        descriptor: The open file.
        path: Its path, for the error.

    Raises:
        InUseError: It is locked already.
    """
    if fcntl is None:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InUseError(f"{os.fspath(path)} is in use by another process") from None
