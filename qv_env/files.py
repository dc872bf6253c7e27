"""Files that are either whole or not there: written beside their place, then moved into it."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # not a POSIX system: folders are not held
    fcntl = None  # type: ignore[assignment]

KEPT_FOLDER = "playthroughs"  # in a store: people's finished and abandoned games


def default_store() -> Path:
    """Return the folder of people's games: ``~/.local/share/quarante-voleurs``, or as XDG says."""
    base = os.environ.get("XDG_DATA_HOME", "")
    root = Path(base) if os.path.isabs(base) else Path.home() / ".local" / "share"
    return root / "quarante-voleurs"


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Give a temporary path; what was written there takes the file's place when all went well.

    Whoever reads the file sees the old content or the new, never a part: the new content reaches
    the disk before the name is moved to it. When the block raises (Ctrl-C included), the old file
    stays and the temporary one goes.

    Args:
        path: The file to write. Its folder exists; the temporary file lies in it and has the same
            suffix, since some writers choose or add one.

    Yields:
        A path at which nothing exists yet; the block writes a file there.

    Raises:
        OSError: The file cannot be written.
    """
    path = Path(path)
    temporary = path.with_name(f".{path.stem}.{secrets.token_hex(4)}.tmp{path.suffix}")
    try:
        yield temporary
        with open(temporary, "rb+") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(path.parent)


def _sync_folder(folder: Path) -> None:
    """Make a new name in a folder last through a power cut, where the system can."""
    with contextlib.suppress(OSError):  # not every system lets a folder be synced
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def write_bytes(path: str | os.PathLike[str], data: bytes) -> None:
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


class InUseError(OSError):
    """Another process holds a folder."""


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
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InUseError(f"{os.fspath(folder)} is in use by another process") from None
        yield
    finally:
        os.close(descriptor)
