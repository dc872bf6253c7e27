"""The table that is stored: one game, kept in a folder from change to change."""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

from qv_env.deals import deal_code, deal_number
from qv_env.files import KEPT_FOLDER, InUseError
from qv_env.folders import listed, taken
from qv_env.play.game import Game, Outcome
from qv_env.playthroughs.playthrough import PlaythroughError, read_playthrough

MAX_KEPT = 5_000  # playthroughs in the store

_TABLE_FILE = "table.json"
_VERSION_BITS = 52  # what JavaScript's numbers hold exactly, with room to count on


class PlayError(ValueError):
    """What keeps the table from being served or stored, in one line."""


class StaleError(Exception):
    """A request was made for a table that has changed since."""


class GestureError(ValueError):
    """A gesture that cannot be: there is no such pile, no such deal."""


class Reply(NamedTuple):
    """What a gesture led to: its outcome, a text to show ("" for none), and the view after it."""

    outcome: Outcome
    notice: str
    view: dict[str, Any]


class Table:
    """The one game on the table, and the folder it is stored in. Threads may share it.

    The folder holds ``table.json`` (the game as ``Game.saved`` gives it, with the version) and
    ``playthroughs/`` (finished and abandoned games); one server holds it.

    Args:
        store: The folder; made where it is missing.
        deal: A deal's code or number. It is put on the table unless it lies there, not yet won.
            None: what lies there, or a random deal.

    Raises:
        PlayError: Another server uses the store, or what lies there is no stored table.
        ValueError: The deal is none.
        OSError: The store cannot be read or written.
    """

    def __init__(self, store: Path, deal: int | str | None = None) -> None:
        self.store = store
        self._mutex = threading.Lock()
        self._game: Game
        self._version = 0
        self._kept: str | None = None  # the name of the game's playthrough, where it is kept
        code = None if deal is None else deal_code(deal_number(deal))
        with ExitStack() as stack:
            try:
                stack.enter_context(taken(store, KEPT_FOLDER, mode=0o700))
            except InUseError:
                raise PlayError(f"another server is playing at {store}") from None
            self._open(code)
            self._hold = stack.pop_all()

    def close(self) -> None:
        """Let go of the store."""
        self._hold.close()

    @property
    def folder(self) -> Path:
        """Where finished and abandoned games are kept."""
        return self.store / KEPT_FOLDER

    def view(self) -> dict[str, Any]:
        """Return the view of the table as it stands."""
        with self._mutex:
            return self._view()

    def act(self, version: int, gesture: Callable[[Game], Outcome]) -> Reply:
        """Do a gesture, and store what it changed.

        Raises:
            StaleError: The table has another version.
            PlayError: It could not be stored; nothing has changed.
            GestureError: The gesture raised a ValueError.
        """
        with self._at(version):
            try:
                outcome = gesture(self._game)
            except ValueError as error:
                raise GestureError(str(error)) from None
            if not outcome.moved:
                return Reply(outcome, "", self._view())
            notice = ""
            if self._game.won:
                try:
                    self._keep()
                except (PlayError, OSError) as error:
                    notice = f"The game is won, but it is not kept yet: {_one_line(error)}"
            self._store()
            return Reply(outcome, notice, self._view())

    def new(self, version: int, deal: int | str | None = None, deck: Any = None) -> Reply:
        """Put another game on the table; the present one is kept.

        Raises:
            StaleError: The table has another version.
            PlayError: One of the two could not be stored; nothing has changed.
            GestureError: Deal or deck is none.
        """
        with self._at(version):
            try:
                game = self._game.new(deal, deck)
            except ValueError as error:
                raise GestureError(str(error)) from None
            try:
                self._keep()
            except OSError as error:
                raise PlayError(f"the game could not be kept: {_one_line(error)}") from None
            self._game, self._kept = game, None
            self._store()
            return Reply(Outcome(), "", self._view())

    def settle(self, version: int, settings: dict[str, bool]) -> Reply:
        """Change settings, by the names of ``Game``'s attributes.

        Raises:
            StaleError: The table has another version.
            PlayError: It could not be stored; nothing has changed.
        """
        with self._at(version):
            for name, value in settings.items():
                setattr(self._game, name, value)
            self._store()
            return Reply(Outcome(), "", self._view())

    @contextlib.contextmanager
    def _at(self, version: int) -> Iterator[None]:
        """Hold the table, which has to have this version; what fails leaves it as it was."""
        with self._mutex:
            if version != self._version:
                raise StaleError
            before = self._game.saved(), self._kept, self._version
            try:
                yield
            except BaseException:
                saved, self._kept, self._version = before
                self._game = Game.restored(saved)
                raise

    def _view(self) -> dict[str, Any]:
        return {**self._game.view(), "version": self._version, "kept": self._kept}

    def _open(self, code: str | None) -> None:
        path = self.store / _TABLE_FILE
        if not path.exists():
            self._game = Game(code)
            # Not from 1: a page left over from another store does not fit by chance.
            self._version = secrets.randbelow(1 << _VERSION_BITS)
            self._store()
            return
        try:
            saved = read_playthrough(path)
            self._game = Game.restored(saved)
            self._version, self._kept = _checked_page(saved.extra.get("page"), self._game)
        except PlaythroughError as error:
            text = str(error).removeprefix(f"{path}: ")
            raise PlayError(f"{path}: {text} (move the file away to begin anew)") from None
        if code is not None and (self._game.deal != code or self._game.won):
            self.new(self._version, code)

    def _store(self) -> None:
        """Write the table to its file, one version up."""
        self._version += 1
        page = {"version": self._version, "kept": self._kept is not None}
        try:
            self._game.saved({"page": page}).write(self.store / _TABLE_FILE)
        except OSError as error:
            raise PlayError(f"the table could not be stored: {_one_line(error)}") from None

    def _keep(self) -> None:
        """Write the game's playthrough, if it is not there yet and there is something to keep."""
        folder = self.folder
        name = self._game.file_name
        if self._kept is not None or not self._game.actions:
            return
        if folder.is_dir():
            others = sum(file.name != name for file in listed(folder))
            if others >= MAX_KEPT:
                raise PlayError(f"{folder} holds {others} games; move some of them away")
        self._game.keep(folder)
        self._kept = name


def _checked_page(page: Any, game: Game) -> tuple[int, str | None]:
    """The version and the kept file's name, as a table's file has them."""
    if not isinstance(page, dict):
        raise PlaythroughError("the key 'page' is missing")
    version, kept = page.get("version"), page.get("kept")
    if isinstance(version, bool) or not isinstance(version, int) or not 0 <= version < 1 << 53:
        raise PlaythroughError("page.version is an integer from 0 up")
    if not isinstance(kept, bool):
        raise PlaythroughError("page.kept is true or false")
    return version, game.file_name if kept else None


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return " ".join(str(error).split())
