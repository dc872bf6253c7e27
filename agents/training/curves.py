"""Curves of a run for TensorBoard: losses, scores, speed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from torch.utils.tensorboard import SummaryWriter

_FILES = "events.out.tfevents.*"


class Curves:
    """The event files of a run, in a folder of their own.

    A run that resumes from a checkpoint repeats the steps after it, and would add their points
    twice. The points after the checkpoint are therefore removed first, so that a run that was
    killed has the same curves as an uninterrupted one.

    Args:
        folder: The folder; created if missing.
        sizes: What :meth:`sizes` returned when the checkpoint was written; {} without a checkpoint;
            None (nothing is removed) if the checkpoint lacks it.

    Raises:
        OSError: A file cannot be truncated.
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
        """Add one point to each of several curves.

        Args:
            values: The points' values, by curve name.
            steps: Environment steps so far.
        """
        for name in sorted(values):
            self._writer.add_scalar(name, values[name], steps)

    def sizes(self) -> dict[str, int]:
        """Flush the points added so far; return each file's size in bytes, by file name."""
        self._writer.flush()
        return {path.name: path.stat().st_size for path in self._folder.glob(_FILES)}

    def close(self) -> None:
        """Flush the points and close the files."""
        self._writer.close()
