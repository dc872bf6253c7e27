"""A table for people: what the app around the game does, without any page.

A ``Game`` is one deal that somebody plays. The rules are ``qv_env.rules``; this module adds what
surrounds them: gestures, refusals in words, undo, the move counter, records, saves.

Piles are named as actions name them: ``stock``, ``w`` (the waste), ``c1`` .. ``c10``, ``f1`` ..
``f8``. What the gestures do:

tap
    The stock draws. A column's card goes to a foundation that accepts it, and nowhere else. The
    waste's card goes to a foundation, else to the best column.
double click
    To a foundation, else to the longest column that accepts the card (of equal ones the left one),
    else to the leftmost empty column. This order is what "best" means everywhere. On the stock it
    draws once. Double clicks can be switched off; then they are refused, and taps stay.
drop
    Drag and drop: to the pile it is dropped on. Dropped beside all piles, or on the pile it comes
    from, the card stays and nothing is refused. Where both foundations of a suit accept a card,
    the rules give it to the left one, wherever of the two it was dropped. The stock's card can be
    dropped on the waste: that draws.
automatic placing
    Off at first. A waste or column card that is dropped anywhere but on its own pile goes to the
    best place. Nothing accepts it: the rule is named that refuses the pile it was dropped on.
taking back
    A foundation's card moves only when it is dragged to a column: no tap and no double click takes
    it back, and with automatic placing, too, it has to be dropped on a column (the best one gets
    it), since it costs points.
undo
    Takes back the last action, move or draw, up to 100 of them in a row; what lies further back
    cannot be undone any more. The score returns to its earlier value. The move counter counts
    every move that was made, undone or not, and does not count undoing. There is no redo.
the end
    A won game takes no more moves, but its last moves can be undone. A stuck one is told as such
    (the app does not; a page need not show it).

A refused gesture changes nothing, and its outcome names the rule that refused it: one of
``qv_env.rules.REFUSALS`` where the rules of the game refuse it (two, where a card was refused by
foundations and columns), or one of the texts below where the table does.

``python -c "from qv_env.play.game import *; play_in_terminal(Game())"`` plays by typed commands.
"""

from __future__ import annotations

import importlib
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from qv_env.actions import NUM_ACTIONS, action_name, parse_action
from qv_env.deals import HELD_OUT_FROM, NUM_DEALS, deal_code
from qv_env.play import gestures
from qv_env.play.gestures import (
    DRAG_TO_TAKE_BACK,
    NOT_BETWEEN_FOUNDATIONS,
    NOT_ONTO_STOCK_OR_WASTE,
    STOCK_TO_WASTE_ONLY,
)
from qv_env.play.history import UNDO_LIMIT, History
from qv_env.play.piles import PILES, named_pile
from qv_env.play.saves import PLAYER, now, parse_save
from qv_env.play.views import last_move, open_cards
from qv_env.playthroughs.playthrough import (
    PathLike,
    Playthrough,
    PlaythroughError,
    Recorder,
    parse_playthrough,
    read_playthrough,
)
from qv_env.rules import is_won, legal_actions
from qv_env.text import board_text

__all__ = [
    "DRAG_TO_TAKE_BACK",
    "GAME_WON",
    "NOTHING_TO_UNDO",
    "NOT_BETWEEN_FOUNDATIONS",
    "NOT_ONTO_STOCK_OR_WASTE",
    "NO_DOUBLE_CLICKS",
    "PILES",
    "STOCK_TO_WASTE_ONLY",
    "TOO_MANY_ACTIONS",
    "UNDO_EXHAUSTED",
    "UNDO_LIMIT",
    "Game",
    "Outcome",
    "play_in_terminal",  # noqa: F822
    "random_deal",
]

MAX_ACTIONS = 5_000  # a won game has some 250; this bounds what a save takes

# What refuses a gesture where neither the rules of the game nor those of gestures have a say.
NO_DOUBLE_CLICKS = "double clicks are switched off"
GAME_WON = "the game is won"
TOO_MANY_ACTIONS = f"a game has at most {MAX_ACTIONS} moves"
NOTHING_TO_UNDO = "there is nothing to undo"
UNDO_EXHAUSTED = f"only the last {UNDO_LIMIT} actions can be undone"

_ANY_FOUNDATION = "f"  # as action names have it


class Outcome(NamedTuple):
    """What a gesture did.

    Attributes:
        action: The action that was played (or undone), 0..191; None where nothing moved.
        points: The change of the score.
        refusal: The rule that refused it; "" where something moved, or where nothing was tried.
    """

    action: int | None = None
    points: int = 0
    refusal: str = ""

    @property
    def moved(self) -> bool:
        """Whether the table has changed."""
        return self.action is not None


def random_deal(held_out: bool = False) -> str:
    """Return the code of a random deal.

    Args:
        held_out: Whether it is one of those kept for benchmarks, instead of one for training.
    """
    low, high = (HELD_OUT_FROM, NUM_DEALS) if held_out else (0, HELD_OUT_FROM)
    return deal_code(low + secrets.randbelow(high - low))


class Game:
    """One deal on the table, and all that a person can do with it (see the module).

    Args:
        deal: The deal's code (case and blanks do not matter) or number; None, and no deck, for a
            random deal of the training half. Or
        deck: 104 cards (0..51, each twice) in the order they are dealt.
        automatic_placing: Whether a dropped card goes to the best place.
        double_clicks: Whether double clicks do anything.

    Attributes:
        automatic_placing: As above; can be changed at any time.
        double_clicks: The same.
        deal: The deal's code, or "" for an explicit deck.
        deck: The explicit deck, or None.
        identity: 16 hexadecimal digits of its own, random.
        started: When it began: UTC, such as ``2026-01-31T09:30:00Z``.
        finished: When it was won, or None.
        undos: How many actions were undone.

    Raises:
        PlaythroughError: Deal or deck is none, or both are given; a ValueError.
    """

    def __init__(
        self,
        deal: int | str | None = None,
        deck: Sequence[int] | np.ndarray | None = None,
        *,
        automatic_placing: bool = False,
        double_clicks: bool = True,
    ) -> None:
        if deal is None and deck is None:
            deal = random_deal()
        recorder = Recorder(deal, deck)
        self.automatic_placing = automatic_placing
        self.double_clicks = double_clicks
        self.deal = recorder.deal or ""
        self.deck = recorder.deck
        self.identity = secrets.token_hex(8)
        self.started = now()
        self.finished: str | None = None
        self.undos = 0
        self._history = History(recorder.states)

    def new(
        self,
        deal: int | str | None = None,
        deck: Sequence[int] | np.ndarray | None = None,
    ) -> Game:
        """Return a new game with this one's settings; this one is left as it is.

        Args:
            deal: The deal's code or number; None, and no deck, for a random one of the training
                half.
            deck: 104 cards, instead of a deal.

        Raises:
            PlaythroughError: Deal or deck is none, or both are given; a ValueError.
        """
        return Game(
            deal,
            deck,
            automatic_placing=self.automatic_placing,
            double_clicks=self.double_clicks,
        )

    # -------------------------------------------------------------------------- how it stands

    @property
    def actions(self) -> tuple[int, ...]:
        """The actions that led here, 0..191; what was undone is not among them."""
        return tuple(self._history.actions)

    @property
    def score(self) -> int:
        """The score."""
        return self._history.score

    @property
    def moves(self) -> int:
        """The move counter: every move made, draws and undone moves included."""
        return len(self._history.actions) + self.undos

    @property
    def won(self) -> bool:
        """Whether all cards are on the foundations."""
        return bool(is_won(self._history.game))

    @property
    def stuck(self) -> bool:
        """Whether the game is not won and no move is legal, take-backs included."""
        mask = np.empty(NUM_ACTIONS, dtype=np.int8)
        return not self.won and legal_actions(self._history.game, mask) == 0

    @property
    def undoable(self) -> int:
        """How many actions can be undone, 0..100."""
        return self._history.undoable

    def accepting(self, source: str) -> tuple[str, ...]:
        """Return the piles that accept a pile's card, the best first (the placing help).

        A foundation is named where the card would lie: of two that accept it, the left one.
        Nothing is said where the pile is empty or the game is won.

        Raises:
            ValueError: There is no such pile.
        """
        pile = named_pile(source)
        return () if self._held_back() else gestures.accepting(self._history.game, pile)

    def view(self) -> dict[str, Any]:
        """Return all that lies open, as JSON can hold it; nothing in it depends on hidden cards.

        =====================  ==================================================================
        key                    value
        =====================  ==================================================================
        ``deal``               the deal's code, "" for an explicit deck
        ``columns``            ten lists of cards such as ``"TD"``, bottom card first
        ``foundations``        eight of ``{"suit": "S", "cards": 0..13, "top": "3S" or ""}``
        ``waste``              list of cards, bottom card first
        ``stock``              how many cards are in the stock
        ``score``, ``moves``   the score, the move counter
        ``foundation_cards``   how many cards are on the foundations
        ``won``, ``stuck``     true or false
        ``undoable``           how many actions can be undone, 0..100
        ``can_undo``           whether any can
        ``last_move``          null, or ``{"action": 51, "name": "c4>c6", "source": "c4",
                               "target": "c6"}``; a foundation is named as ``f1`` .. ``f8`` in
                               ``target``
        ``accepting``          for each pile that has a card to move: the piles that accept it,
                               the best first; ``{"c4": ["c6"], "stock": ["w"], ...}``
        ``automatic_placing``  true or false
        ``double_clicks``      true or false
        =====================  ==================================================================
        """
        return {
            "deal": self.deal,
            **open_cards(self._history.game),
            "score": self.score,
            "moves": self.moves,
            "won": self.won,
            "stuck": self.stuck,
            "undoable": self.undoable,
            "can_undo": self.undoable > 0,
            "last_move": last_move(self._history),
            "accepting": {name: list(found) for name in PILES if (found := self.accepting(name))},
            "automatic_placing": self.automatic_placing,
            "double_clicks": self.double_clicks,
        }

    def text(self, color: bool = False) -> str:
        """Return the board as text for people.

        Args:
            color: Whether red suits are printed in red, by terminal escapes.
        """
        shown = self._history.states.copy()
        shown[0]["moves"] = self.moves
        return board_text(shown[0], self.deal, color)

    # ------------------------------------------------------------------------------- gestures

    def tap(self, pile: str) -> Outcome:
        """Tap a pile's top card: to a foundation; the waste's card else to the best column.

        Raises:
            ValueError: There is no such pile.
        """
        return self._try(gestures.tapped(self._history.game, named_pile(pile)))

    def double_click(self, pile: str) -> Outcome:
        """Double-click a pile's top card: to the best place.

        Raises:
            ValueError: There is no such pile.
        """
        source = named_pile(pile)
        if not self.double_clicks:
            return Outcome(refusal=NO_DOUBLE_CLICKS)
        return self._try(gestures.sent_off(self._history.game, source))

    def drop(self, source: str, target: str | None) -> Outcome:
        """Drag a pile's top card and drop it.

        Args:
            source: The pile it comes from.
            target: The pile it is dropped on (``f`` will do for the foundations), or None where it
                is dropped beside all of them.

        Raises:
            ValueError: There is no such pile.
        """
        pile = named_pile(source)
        aim = None if target in (None, _ANY_FOUNDATION) else named_pile(target)
        if aim == pile:
            return Outcome()
        game = self._history.game
        missing = gestures.missing(game, pile)
        if missing:
            return Outcome(refusal=missing)
        if self.automatic_placing and gestures.is_placed(pile, aim):
            outcome = self._try(gestures.candidates(game, pile))
            if outcome.moved or target is None:
                return outcome
        if target is None:
            return Outcome()
        return self._try(gestures.dropped(game, pile, aim))

    def play(self, action: int | str) -> Outcome:
        """Play an action by its id, 0..191, or its name, such as ``c3>c7``.

        Raises:
            ValueError: There is no such action.
        """
        number = parse_action(action) if isinstance(action, str) else int(action)
        action_name(number)
        return self._try([number])

    def undo(self) -> Outcome:
        """Take back the last action; the outcome has the action undone, and points given back."""
        if not self.undoable:
            return Outcome(refusal=UNDO_EXHAUSTED if self.actions else NOTHING_TO_UNDO)
        action, points = self._history.undo()
        self.undos += 1
        self.finished = None
        return Outcome(action, points)

    def _held_back(self) -> str:
        """What keeps the game from taking any move at all, or ""."""
        if self.won:
            return GAME_WON
        return TOO_MANY_ACTIONS if len(self._history.actions) >= MAX_ACTIONS else ""

    def _try(self, meant: list[int] | str) -> Outcome:
        """Play the first legal one of the actions that a gesture means, or say what refuses it."""
        if isinstance(meant, str):
            return Outcome(refusal=meant)
        held_back = self._held_back()
        if held_back:
            return Outcome(refusal=held_back)
        action = gestures.first_legal(self._history.game, meant)
        if isinstance(action, str):
            return Outcome(refusal=action)
        points = self._history.play(action)
        if self.won:
            self.finished = now()
        return Outcome(action, points)

    # ------------------------------------------------------------------------------- records

    def playthrough(self) -> Playthrough:
        """Return the game so far as a playthrough: what was undone is not in it.

        Its player is ``human``. Further keys: ``game`` (the identity), ``started``, ``finished``
        (when it was won; else the present time), ``moves`` (the move counter), ``undos``.
        """
        return self._record({"finished": self.finished or now()})

    @property
    def file_name(self) -> str:
        """What its playthrough's file is called: when it began and its identity, ``.json``."""
        return f"{re.sub('[-:]', '', self.started)}-{self.identity}.json"

    def keep(self, folder: PathLike) -> Path | None:
        """Write the playthrough into a folder, which is made where it is missing.

        A game has one file there; keeping it again replaces it.

        Returns:
            The file, or None where no move was made (or all were undone).

        Raises:
            OSError: It could not be written.
        """
        if not self._history.actions:
            return None
        path = Path(folder) / self.file_name
        path.parent.mkdir(parents=True, exist_ok=True)
        self.playthrough().write(path)
        return path

    def saved(self, extra: Mapping[str, Any] | None = None) -> Playthrough:
        """Return all there is to go on later, undo included, as a playthrough with more keys.

        Args:
            extra: Further keys to keep with it.
        """
        table = {
            "undoable": self.undoable,
            "automatic_placing": bool(self.automatic_placing),
            "double_clicks": bool(self.double_clicks),
        }
        return self._record({"finished": self.finished, "table": table, **(extra or {})})

    @classmethod
    def restored(cls, saved: Playthrough) -> Game:
        """Return the game that ``saved`` made, exactly as it was.

        Raises:
            PlaythroughError: It is not such a save, or something in it cannot be true.
        """
        save = parse_save(saved)
        if len(saved.actions) > MAX_ACTIONS:
            raise PlaythroughError(f"actions: {TOO_MANY_ACTIONS}, not {len(saved.actions)}")
        game = cls(
            saved.deal,
            saved.deck,
            automatic_placing=save.automatic_placing,
            double_clicks=save.double_clicks,
        )
        for number, action in enumerate(saved.actions, start=1):
            if game.won:
                raise PlaythroughError(f"step {number} comes after the game was won")
            game._history.play(action)
        if (save.finished is not None) != game.won:
            raise PlaythroughError("finished is the time when the game was won, else null")
        game.identity, game.started = save.identity, save.started
        game.finished, game.undos = save.finished, save.undos
        game._history.shorten(save.undoable)
        return game

    def dumps(self) -> str:
        """Return ``saved`` as text: one line of JSON."""
        return self.saved().text()

    @classmethod
    def loads(cls, text: str, name: str = "saved game") -> Game:
        """Return the game that ``dumps`` wrote.

        Args:
            text: One JSON object.
            name: What error messages start with.

        Raises:
            PlaythroughError: The text is no saved game, or not a true one.
        """
        return cls._named(name, lambda: parse_playthrough(text, name))

    def write(self, path: PathLike) -> None:
        """Write ``saved`` to a file, whole or not at all.

        Raises:
            OSError: It cannot be written; nothing has changed.
        """
        self.saved().write(path)

    @classmethod
    def read(cls, path: PathLike) -> Game:
        """Return the game that ``write`` wrote.

        Raises:
            PlaythroughError: The file is no saved game, or not a true one.
            OSError: The file cannot be read.
        """
        return cls._named(str(path), lambda: read_playthrough(path))

    @classmethod
    def _named(cls, name: str, read: Callable[[], Playthrough]) -> Game:
        saved = read()
        try:
            return cls.restored(saved)
        except PlaythroughError as error:
            raise PlaythroughError(f"{name}: {error}") from None

    def _record(self, extra: Mapping[str, Any]) -> Playthrough:
        return Playthrough(
            deal=self.deal or None,
            deck=self.deck,
            player=PLAYER,
            actions=tuple(self._history.actions),
            score=self.score,
            won=self.won,
            extra={
                "game": self.identity,
                "started": self.started,
                "moves": self.moves,
                "undos": self.undos,
                **extra,
            },
        )


def __getattr__(name: str) -> Any:
    # Playing in a terminal stands above the game, and can be imported from here as well.
    if name == "play_in_terminal":
        return importlib.import_module("qv_env.play.terminal").play_in_terminal
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
