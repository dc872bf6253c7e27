"""What a stored game holds beside its playthrough, and the check of it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Any, NamedTuple

from qv_env.play.history import UNDO_LIMIT
from qv_env.playthroughs.playthrough import Playthrough, PlaythroughError

PLAYER = "human"

_TIME = "%Y-%m-%dT%H:%M:%SZ"
_TIME_TEXT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", re.ASCII)
_IDENTITY = re.compile(r"[0-9a-f]{16}", re.ASCII)


class Save(NamedTuple):
    """What a stored game holds beside its playthrough.

    Attributes:
        identity: The game's own 16 hexadecimal digits.
        started: When it began: UTC, such as ``2026-01-31T09:30:00Z``.
        finished: When it was won, or None.
        undos: How many actions were undone.
        undoable: How many actions can be undone, 0..100.
        automatic_placing: Whether a dropped card goes to the best place.
        double_clicks: Whether double clicks do anything.
    """

    identity: str
    started: str
    finished: str | None
    undos: int
    undoable: int
    automatic_placing: bool
    double_clicks: bool


def now() -> str:
    """Return the time as saves have it."""
    return datetime.now(UTC).strftime(_TIME)


def parse_save(saved: Playthrough) -> Save:
    """Return what a stored game holds beside its playthrough.

    Raises:
        PlaythroughError: It is no stored game, or something in it cannot be true.
    """
    extra = saved.extra
    table = extra.get("table")
    if not isinstance(table, dict):
        raise PlaythroughError("this is no saved game: the key 'table' is missing")
    automatic_placing = _flag("table.automatic_placing", table.get("automatic_placing"))
    double_clicks = _flag("table.double_clicks", table.get("double_clicks"))
    if saved.player != PLAYER:
        raise PlaythroughError(f"player is {PLAYER!r}, not {saved.player[:40]!r}")
    identity = extra.get("game")
    if not isinstance(identity, str) or not _IDENTITY.fullmatch(identity):
        raise PlaythroughError("game is 16 hexadecimal digits")
    started = _time("started", extra.get("started"))
    finished = extra.get("finished")
    if finished is not None:
        finished = _time("finished", finished)
    made = len(saved.actions)
    undos = _count("undos", extra.get("undos"))
    if _count("moves", extra.get("moves")) != made + undos:
        raise PlaythroughError(
            f"moves is {extra['moves']}, but {made} actions and"
            f" {undos} undone ones make {made + undos}"
        )
    undoable = _count("table.undoable", table.get("undoable"))
    # Where moves have sunk out of reach, the reach was full, and only undoing shortens it.
    sunk = made - undoable
    if undoable > UNDO_LIMIT or sunk < 0 or (sunk and undoable + undos < UNDO_LIMIT):
        raise PlaythroughError(
            f"table.undoable cannot be {undoable} after {made} actions and {undos} undone ones"
        )
    return Save(identity, started, finished, undos, undoable, automatic_placing, double_clicks)


def _time(place: str, value: Any) -> str:
    if isinstance(value, str) and _TIME_TEXT.fullmatch(value):
        try:
            datetime.strptime(value, _TIME)
        except ValueError:
            pass
        else:
            return value
    raise PlaythroughError(f"{place} is a time such as 2026-01-31T09:30:00Z")


def _count(place: str, value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise PlaythroughError(f"{place} is an integer from 0 up")
    return value


def _flag(place: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise PlaythroughError(f"{place} is true or false")
    return value
