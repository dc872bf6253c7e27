"""Files that are either whole or not there: written beside their place, then moved into it."""

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
except ImportError:  # not a POSIX system: folders are not held
    fcntl = None  # type: ignore[assignment]

KEPT_FOLDER = "playthroughs"  # in a store: people's finished and abandoned games

_TEMPORARY = re.compile(r"\.[0-9a-f]{16}\.tmp")


def default_store() -> Path:
    """Return the folder of people's games: ``~/.local/share/quarante-voleurs``, or as XDG says."""
    base = os.environ.get("XDG_DATA_HOME", "")
    root = Path(base) if os.path.isabs(base) else Path.home() / ".local" / "share"
    return root / "quarante-voleurs"


@contextmanager
def temporary_file(folder: str | os.PathLike[str]) -> Iterator[Path]:
    """Give an empty file of a passing name; at the end it is removed, if it is still there.

    The name is hidden, ends in ``.tmp`` and is shorter than most: no lister takes the file for one
    of a folder's own, and it fits wherever they do. The file is locked as long as the block runs,
    so that :func:`qv_env.folders.sweep` knows the ones that a killed process left. (Systems
    without POSIX locks have no such lock.)

    Args:
        folder: Where the file lies.

    Raises:
        OSError: No file can be made there.
    """
    path, descriptor = _new_temporary(Path(folder))
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)  # the lock is still on it
        if descriptor is not None:
            os.close(descriptor)


def _new_temporary(folder: Path) -> tuple[Path, int | None]:
    """A new temporary file, and the descriptor that has it locked, where the system can."""
    while True:
        path = folder / f".{secrets.token_hex(8)}.tmp"
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o666)
        if fcntl is None:
            os.close(descriptor)  # there, open files can be neither moved nor removed
            return path, None
        with contextlib.suppress(OSError):  # not every file system has locks
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        if os.fstat(descriptor).st_nlink:
            return path, descriptor
        os.close(descriptor)  # it was swept away before it was locked


def is_temporary(name: str) -> bool:
    """Return whether a file's name is one that :func:`temporary_file` gives."""
    return _TEMPORARY.fullmatch(name) is not None


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path; what was written there takes the file's place when all went well.

    Whoever reads the file sees the old content or the new, never a part: the new content reaches
    the disk before the name is moved to it. When the block raises (Ctrl-C included), the old file
    stays and the temporary one goes. A symbolic link stays as well: the file that it leads to is
    replaced.

    Args:
        path: The file to write. Its folder exists.

    Yields:
        An empty file in the same folder, for the block to fill. Its name says nothing of the
        format: a writer that goes by names has to be told.

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
                if not said.st_size and not said.st_mtime_ns:  # as it was made
                    raise FileNotFoundError(errno.ENOENT, "nothing was written")
                os.fsync(file.fileno())
            os.replace(temporary, place)
    _sync_folder(place.parent)


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """Let errors of the system name a file, where they name none or a temporary one.

    Args:
        path: What they name then. (A write to a full disk names nothing by itself.)
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
    """The file that a path leads to, which need not exist."""
    place = os.path.realpath(path)
    if os.path.islink(place):  # it leads round in a circle
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return Path(place)


def check_writable(path: str | os.PathLike[str]) -> None:
    """See that a file can be written, before work is spent on what it is to hold.

    Nothing is changed; a disk that is full by then is found out then.

    Args:
        path: The file, which may exist.

    Raises:
        OSError: It cannot: its folder is missing or closed to us, it is a folder, its name is too
            long.
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
    """Make a new name in a folder last through a power cut, where the system can."""
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
    """Write a text file whole or not at all, as UTF-8 with the line ends that the text has.

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
    """Write to a file that was opened without a buffer, all of it.

    The system has it when this returns, whatever becomes of this process.

    Raises:
        OSError: It cannot be written, or only in part; the error names the file.
    """
    with naming(file.name):
        while data:
            data = data[file.write(data) :]


class InUseError(OSError):
    """Another process holds a folder or a file."""


@contextmanager
def held(folder: str | os.PathLike[str]) -> Iterator[None]:
    """Hold a folder: whoever else wants to hold it, in this process or another, is refused.

    Whatever ends the process lets go of it, too; nothing is left behind in the folder. On systems
    without POSIX locks it does nothing.

    Args:
        folder: An existing folder.

    Raises:
        InUseError: It is held already.
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
    """Hold an open file or folder until it is closed; see :func:`held`.

    Args:
        descriptor: The open file.
        path: What the error calls it.

    Raises:
        InUseError: It is held already.
    """
    if fcntl is None:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise InUseError(f"{os.fspath(path)} is in use by another process") from None
