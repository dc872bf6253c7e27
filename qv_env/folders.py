"""Folders that one process works in: held, swept of what a kill left, listed."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from qv_env.files import InUseError, held, hold, is_temporary


@contextmanager
def taken(folder: str | os.PathLike[str], *inner: str, mode: int = 0o777) -> Iterator[None]:
    """Take a folder to work in: make it, hold it, and sweep it.

    What it may hold already is for the block to check, which nobody else can change by then.

    Args:
        folder: The folder.
        inner: Names of folders in it that are swept as well.
        mode: Its permissions where it is made, less what the process's mask forbids.

    Raises:
        InUseError: Another process works in it.
        OSError: It cannot be made or read.
    """
    folder = Path(folder)
    folder.mkdir(mode=mode, parents=True, exist_ok=True)
    with held(folder):
        sweep(folder)
        for name in inner:
            sweep(folder / name)
        yield


def sweep(folder: str | os.PathLike[str]) -> None:
    """Remove the temporary files that killed processes left in a folder.

    Those that a process is writing stay: they are locked, see ``qv_env.files.temporary_file``. So
    a folder that others use at the same time can be swept, too. What cannot be removed stays.

    Args:
        folder: The folder; a missing one is as good as an empty one.
    """
    if os.name != "posix":  # there are no locks to tell them apart
        return
    names: list[str] = []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        names = os.listdir(folder)
    for name in filter(is_temporary, names):
        path = os.path.join(folder, name)
        with contextlib.suppress(OSError):  # in use, somebody else's, or gone by now
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
            try:
                hold(descriptor, path)
                os.unlink(path)
            finally:
                os.close(descriptor)


def is_unused(folder: str | os.PathLike[str]) -> bool:
    """Return whether there is no file in a folder or below it, temporary ones aside.

    A missing folder is unused, and so is one of empty folders.

    Raises:
        OSError: It is no folder, or cannot be read.
    """
    if not os.path.lexists(folder):
        return True
    entries = list(os.scandir(folder))
    return all(
        is_unused(entry.path) if entry.is_dir(follow_symlinks=False) else is_temporary(entry.name)
        for entry in entries
    )


def listed(folder: str | os.PathLike[str], ending: str = ".json") -> list[Path]:
    """Return what lies in a folder under names with an ending, sorted by name.

    Hidden names are left out: temporary files, and what other systems put beside files.

    Args:
        folder: The folder.
        ending: What names end with.

    Raises:
        OSError: The folder cannot be read.
    """
    names = sorted(os.listdir(folder))
    return [Path(folder, n) for n in names if n.endswith(ending) and not n.startswith(".")]


__all__ = ["InUseError", "held", "is_unused", "listed", "sweep", "taken"]
