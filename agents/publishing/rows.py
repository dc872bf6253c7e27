"""The published rows included in the package: the results without the actions of the games."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from agents.publishing.entries import Entry
from qv_env.evaluation.published import PUBLISHED_SUITES
from qv_env.evaluation.results import ACTIONS, read_rows, write_rows
from qv_env.files import write_bytes

FOLDER = Path("qv_env", "data", "published")


def _wanted(entries: Sequence[Entry], root: Path) -> dict[Path, tuple[list[dict[str, Any]], bytes]]:
    """Return the files of rows, each with its rows and the content of the file beside it."""
    wanted = {}
    for entry in entries:
        if entry.suite in PUBLISHED_SUITES:
            frame = entry.results.frame.drop(columns=ACTIONS, errors="ignore")
            rows = [{str(key): row[key] for key in row} for row in frame.to_dict("records")]
            about = _beside(entry.path).read_bytes()
            wanted[root / FOLDER / entry.suite / entry.path.name] = rows, about
    return wanted


def _beside(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(".jsonl.gz") + ".json")


def outdated(entries: Sequence[Entry], root: Path) -> list[Path]:
    """Return the published files of rows that do not agree with the results.

    Such a file is missing, has other rows or another description, or belongs to no results.
    """
    wanted = _wanted(entries, root)
    old = [path for path in (root / FOLDER).glob("*/*.jsonl.gz") if path not in wanted]
    for path, (rows, about) in wanted.items():
        whole = path.is_file() and _beside(path).is_file()
        if not whole or _beside(path).read_bytes() != about or read_rows(path) != rows:
            old.append(path)
    return sorted(old)


def publish(entries: Sequence[Entry], root: Path) -> list[Path]:
    """Write the published files that are out of date, and return them.

    Raises:
        OSError: A file cannot be written.
    """
    wanted = _wanted(entries, root)
    old = outdated(entries, root)
    for path in old:
        if path not in wanted:
            path.unlink()
            _beside(path).unlink(missing_ok=True)
            continue
        rows, about = wanted[path]
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(_beside(path), about)
        write_rows(path, rows)
    return old
