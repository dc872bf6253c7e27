"""Curves of a run for TensorBoard: losses, scores, speed."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path

from tensorboard.backend.event_processing.event_file_loader import RawEventFileLoader
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.summary.writer.record_writer import RecordWriter
from torch.utils.tensorboard import SummaryWriter

from qv_env.files import write_bytes
from qv_env.folders import sweep


class Curves:
    """The event files of a run, in a folder of their own.

    Points after the steps that the run goes on from are removed: they will come again. So a run
    that was killed draws the curves of one that was not, as long as :meth:`flush` is called before
    each state that it may go on from is kept.

    Args:
        folder: The folder; made where it is missing.
        steps: The environment steps that the run goes on from; 0 for a new one.

    Raises:
        OSError: A file cannot be read or written.
    """

    def __init__(self, folder: Path, steps: int) -> None:
        if folder.is_dir():
            sweep(folder)
            for path in sorted(folder.glob("events.out.tfevents.*")):
                _cut(path, steps)
        self._writer = SummaryWriter(str(folder))

    def add(self, values: Mapping[str, float], steps: int) -> None:
        """Add a point to each of some curves.

        Args:
            values: The points, by the names of their curves.
            steps: Environment steps so far.
        """
        for name in sorted(values):
            self._writer.add_scalar(name, values[name], steps)

    def flush(self) -> None:
        """Write what was added, so that a kill does not lose it."""
        self._writer.flush()

    def close(self) -> None:
        """Write what was added; nothing is added any more."""
        self._writer.close()


def _cut(path: Path, steps: int) -> None:
    """Leave out of an event file what came after some steps, and what a kill left half written."""
    kept = io.BytesIO()
    records = RecordWriter(kept)
    for record in RawEventFileLoader(str(path)).Load():
        if Event.FromString(record).step <= steps:
            records.write(record)
    if kept.tell() < path.stat().st_size:
        write_bytes(path, kept.getbuffer())
