"""Checkpoints: the states that a run goes on from."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch

from agents.training.config import RunError
from qv_env.files import write_bytes

_VERSION = 1
_ENDING = ".pt"
_DAMAGED = ".unreadable"  # the ending of those that are put aside


class DamagedError(Exception):
    """A file is no whole checkpoint; the message says what is wrong with it."""


class Checkpoints:
    """The newest checkpoints of a run, in a folder of their own.

    Args:
        folder: The folder. It exists by the time something is written.
        keep: How many are kept.
        say: Takes lines for people.
    """

    def __init__(self, folder: Path, keep: int, say: Callable[[str], None]) -> None:
        self._folder = folder
        self._keep = keep
        self._say = say

    def _files(self, ending: str = _ENDING) -> list[Path]:
        """The files, newest first."""
        return sorted(self._folder.glob(f"checkpoint-*{ending}"), reverse=True)

    def newest(self) -> dict[str, Any] | None:
        """Return the newest state that can be read whole; None where none was ever written.

        Those that are damaged are put aside, lest they count as the newest from now on. A file
        counts as damaged where its own bytes show it, never because it could not be read here and
        now.

        Raises:
            RunError: All are damaged, or one that is whole cannot be loaded.
            OSError: A file cannot be read.
        """
        for path in self._files():
            try:
                state = read_checkpoint(path)
            except DamagedError as error:
                self._say(f"{path.name} cannot be read ({error}); trying an older one")
                path.rename(path.with_suffix(_DAMAGED))
                continue
            if state["version"] != _VERSION:
                raise RunError(
                    f"{path}: checkpoint format {state['version']!r}, this is {_VERSION}"
                )
            return state
        if self._files(_DAMAGED):
            raise RunError(
                f"no checkpoint of {self._folder.parent} can be read: those in"
                f" {self._folder.name}/ are damaged; --out begins anew elsewhere"
            )
        return None

    def write(self, state: Mapping[str, Any], steps: int) -> None:
        """Write a state, and remove the oldest files.

        Args:
            state: What to go on from.
            steps: How many environment steps led to it; a file of as many is replaced.

        Raises:
            OSError: It cannot be written; the files are what they were.
        """
        buffer = io.BytesIO()
        torch.save({"version": _VERSION, **state}, buffer)
        write_bytes(self._folder / f"checkpoint-{steps:012d}{_ENDING}", buffer.getbuffer())
        for old in self._files()[self._keep :]:
            old.unlink()


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Return the state of a file, with its version.

    Args:
        path: The file.

    Raises:
        DamagedError: The file is not what a run wrote.
        RunError: It is, but cannot be loaded: memory is short, or the sources have changed.
        OSError: It cannot be read.
    """
    try:
        data = path.read_bytes()
        _check_archive(data)
        # A checkpoint holds pickled games: load only runs of your own.
        state = torch.load(io.BytesIO(data), map_location="cpu", weights_only=False)
    except (DamagedError, OSError):
        raise
    except MemoryError:
        raise RunError(f"{path} cannot be loaded: out of memory") from None
    except Exception as error:  # whatever an unpickled class raises
        reason = " ".join(str(error).split())
        if "PytorchStreamReader" in reason and "alloc" not in reason:  # the archive's format
            raise DamagedError(reason) from None
        raise RunError(
            f"{path} is whole, but cannot be loaded: {type(error).__name__}: {reason}"
        ) from error
    if not isinstance(state, dict) or "version" not in state:
        raise DamagedError("not a checkpoint of a run")
    return state


def _check_archive(data: bytes) -> None:
    """See that bytes are a whole archive of torch; torch itself does not look at the checksums.

    Raises:
        DamagedError: They are not.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            damaged = archive.testzip()
            names = archive.namelist()
    except MemoryError:
        raise
    except Exception as error:  # the bytes are in memory: whatever zipfile finds is in them
        raise DamagedError(" ".join(str(error).split()) or type(error).__name__) from None
    if damaged is not None:
        raise DamagedError(f"{damaged} is damaged")
    if not any(name.endswith("/data.pkl") for name in names):
        raise DamagedError("not a checkpoint of a run")
