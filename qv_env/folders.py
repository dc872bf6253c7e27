"""Folders that one process works in: locking, removal of leftover temporary files, listing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from qv_env.files import InUseError, held, hold, is_temporary


@contextmanager
def taken(folder: str | os.PathLike[str], *inner: str, mode: int = 0o777) -> Iterator[None]:
    """Prepare a folder to work in: create it, lock it, and remove leftover temporary files.

    The block itself checks the present content; the lock keeps other processes from changing it.

    Args:
        folder: The folder.
        inner: Names of folders in it from which temporary files are removed as well.
        mode: Permissions of a folder that is created, before the process's umask is applied.

    Raises:
        InUseError: Another process works in the folder.
        OSError: The folder cannot be created or read.
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

    Files that a process is still writing are locked (see ``qv_env.files.temporary_file``) and are
    kept, so other processes may use the folder at the same time. Files that cannot be removed are
    skipped.

    Args:
        folder: The folder; it may be missing.
    """
    if os.name != "posix":  # without locks, leftover files cannot be told from those in use
        return
    names: list[str] = []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        names = os.listdir(folder)
    for name in filter(is_temporary, names):
        path = os.path.join(folder, name)
        with contextlib.suppress(OSError):  # locked, owned by another user, or gone by now
            descriptor = os.open(path, os.O_RDWR | os.O_NOFOLLOW)
            try:
                hold(descriptor, path)
                os.unlink(path)
            finally:
                os.close(descriptor)


def is_unused(folder: str | os.PathLike[str]) -> bool:
    """Return whether a folder and its subfolders contain no files except temporary ones.

    A missing folder is unused, and so is one that contains only empty folders.

    Raises:
        OSError: The path is not a folder, or it cannot be read.
    """
    if not os.path.lexists(folder):
        return True
    entries = list(os.scandir(folder))
    return all(
        is_unused(entry.path) if entry.is_dir(follow_symlinks=False) else is_temporary(entry.name)
        for entry in entries
    )


def listed(folder: str | os.PathLike[str], ending: str = ".json") -> list[Path]:
    """Return the paths in a folder whose names have a given ending, sorted by name.

    Hidden names are left out: temporary files, and metadata files of other systems.

    Args:
        folder: The folder.
        ending: The ending of the names.

    Raises:
        OSError: The folder cannot be read.
    """
    names = sorted(os.listdir(folder))
    return [Path(folder, n) for n in names if n.endswith(ending) and not n.startswith(".")]


__all__ = ["InUseError", "held", "is_unused", "listed", "sweep", "taken"]
