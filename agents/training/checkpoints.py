"""Checkpoints: saved states from which a run can be resumed."""

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
_DAMAGED = ".unreadable"  # the ending of damaged files, which are renamed


class DamagedError(Exception):
    """A file is not an intact checkpoint; the message describes the damage."""


class Checkpoints:
    """The newest checkpoints of a run, in a folder of their own.

    Args:
        folder: The folder. It must exist when ``write`` is called.
        keep: How many checkpoints are kept.
        say: Called with progress messages, one line each.
    """

    def __init__(self, folder: Path, keep: int, say: Callable[[str], None]) -> None:
        self._folder = folder
        self._keep = keep
        self._say = say

    def _files(self, ending: str = _ENDING) -> list[Path]:
        """Return the files, newest first."""
        return sorted(self._folder.glob(f"checkpoint-*{ending}"), reverse=True)

    def newest(self) -> dict[str, Any] | None:
        """Return the state of the newest intact checkpoint; None if none was ever written.

        Damaged files are renamed, so that they no longer count as checkpoints. A file is considered
        damaged only if its content is invalid, never because reading it failed (for instance, for
        lack of memory).

        Raises:
            RunError: All files are damaged, or an intact one cannot be loaded.
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
            state: The state.
            steps: The number of environment steps so far. A file with the same number is replaced.

        Raises:
            OSError: The file cannot be written; the existing files are unchanged.
        """
        buffer = io.BytesIO()
        torch.save({"version": _VERSION, **state}, buffer)
        write_bytes(self._folder / f"checkpoint-{steps:012d}{_ENDING}", buffer.getbuffer())
        for old in self._files()[self._keep :]:
            old.unlink()


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Return the state in a file, including its version.

    Args:
        path: The file.

    Raises:
        DamagedError: The file is not an intact checkpoint.
        RunError: It is intact, but cannot be loaded: there is not enough memory, or the sources
            have changed.
        OSError: The file cannot be read.
    """
    try:
        data = path.read_bytes()
        _check_archive(data)
        # A checkpoint contains pickled objects: load only checkpoints that you trust.
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
    """Check that bytes are an intact torch archive; torch itself does not verify its checksums.

    Raises:
        DamagedError: They are not an intact archive.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            damaged = archive.testzip()
            names = archive.namelist()
    except MemoryError:
        raise
    except Exception as error:  # the bytes are in memory, so any failure is due to their content
        raise DamagedError(" ".join(str(error).split()) or type(error).__name__) from None
    if damaged is not None:
        raise DamagedError(f"{damaged} is damaged")
    if not any(name.endswith("/data.pkl") for name in names):
        raise DamagedError("not a checkpoint of a run")
