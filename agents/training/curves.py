"""Curves of a run for TensorBoard: losses, scores, speed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from torch.utils.tensorboard import SummaryWriter

_FILES = "events.out.tfevents.*"


class Curves:
    """The event files of a run, in a folder of their own.

    A run that goes on from a checkpoint will come again to what it added after it. That is cut off
    first, so that a run that was killed draws the same curves as one that was not.

    Args:
        folder: The folder; made where it is missing.
        sizes: What :meth:`sizes` returned when the checkpoint was written; {} where there is no
            checkpoint, None (nothing is cut) where it does not say.

    Raises:
        OSError: A file cannot be cut.
    """

    def __init__(self, folder: Path, sizes: Mapping[str, int] | None) -> None:
        self._folder = folder
        if sizes is not None:
            for path in list(folder.glob(_FILES)):
                if path.name in sizes:
                    os.truncate(path, min(sizes[path.name], path.stat().st_size))
                else:
                    path.unlink()
        self._writer = SummaryWriter(str(folder))

    def add(self, values: Mapping[str, float], steps: int) -> None:
        """Add a point to each of some curves.

        Args:
            values: The points, by the names of their curves.
            steps: Environment steps so far.
        """
        for name in sorted(values):
            self._writer.add_scalar(name, values[name], steps)

    def sizes(self) -> dict[str, int]:
        """Write what was added so far; return how large each file is now, in bytes, by its name."""
        self._writer.flush()
        return {path.name: path.stat().st_size for path in self._folder.glob(_FILES)}

    def close(self) -> None:
        """Write what was added; nothing is added any more."""
        self._writer.close()
