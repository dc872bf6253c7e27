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
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from qv_env.actions import (
    ACTION_NAMES,
    COLUMN,
    DRAW,
    FOUNDATION,
    MOVES,
    NUM_ACTIONS,
    NUM_COLUMNS,
    NUM_FOUNDATIONS,
    STOCK,
    WASTE,
    Move,
    action_name,
    parse_action,
)
from qv_env.cards import NUM_SUITS, SUIT_LETTERS, card_text
from qv_env.deals import HELD_OUT_FROM, NUM_DEALS, deal_code
from qv_env.playthroughs.playthrough import (
    PathLike,
    Playthrough,
    PlaythroughError,
    Recorder,
    parse_playthrough,
    read_playthrough,
)
from qv_env.rules import (
    LEGAL,
    NO_CARD,
    NOT_NEXT_IN_COLUMN,
    NOT_NEXT_ON_FOUNDATION,
    NOTHING_TO_MOVE,
    ON_AN_ACE,
    REFUSALS,
    STOCK_EMPTY,
    accepting_foundation,
    foundation_cards,
    foundation_top,
    is_won,
    legal_actions,
    play,
    refusal,
    top_card,
)
from qv_env.text import board_text

__all__ = ["PILES", "UNDO_LIMIT", "Game", "Outcome", "play_in_terminal", "random_deal"]  # noqa: F822

UNDO_LIMIT = 100  # actions that can be undone in a row
MAX_ACTIONS = 5_000  # a won game has some 250; this bounds what a save takes
PLAYER = "human"

# What refuses a gesture where the rules of the game have no say.
DRAG_TO_TAKE_BACK = "a card is taken back from a foundation only by dragging it to a column"
NO_DOUBLE_CLICKS = "double clicks are switched off"
NOT_ONTO_STOCK_OR_WASTE = "no card is put on the stock, and only the stock's next one on the waste"
NOT_BETWEEN_FOUNDATIONS = "no card moves from one foundation to another"
STOCK_TO_WASTE_ONLY = "the stock's next card goes to the waste only"
GAME_WON = "the game is won"
TOO_MANY_ACTIONS = f"a game has at most {MAX_ACTIONS} moves"
NOTHING_TO_UNDO = "there is nothing to undo"
UNDO_EXHAUSTED = f"only the last {UNDO_LIMIT} actions can be undone"

_TIME = "%Y-%m-%dT%H:%M:%SZ"
_TIME_TEXT = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", re.ASCII)
_IDENTITY = re.compile(r"[0-9a-f]{16}", re.ASCII)


class Pile(NamedTuple):
    """A place for cards: its kind (as ``qv_env.actions`` numbers them), and which one of them."""

    kind: int
    number: int  # from 0


# Every pile by its name, in the order they stand on the table.
PILES: dict[str, Pile] = {
    "stock": Pile(STOCK, 0),
    "w": Pile(WASTE, 0),
    **{f"f{f + 1}": Pile(FOUNDATION, f) for f in range(NUM_FOUNDATIONS)},
    **{f"c{c + 1}": Pile(COLUMN, c) for c in range(NUM_COLUMNS)},
}
_NAMES = {pile: name for name, pile in PILES.items()}
_ANY_FOUNDATION = "f"  # as action names have it
_ACTION_IDS = {move: action for action, move in enumerate(MOVES)}


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
        self.started = _now()
        self.finished: str | None = None
        self.undos = 0
        self._states = recorder.states
        self._actions: list[int] = []
        self._landings: list[str] = []  # per action, the pile its card went to
        self._before: deque[np.ndarray] = deque(maxlen=UNDO_LIMIT)  # the states to go back to

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
        return tuple(self._actions)

    @property
    def score(self) -> int:
        """The score."""
        return int(self._states[0]["score"])

    @property
    def moves(self) -> int:
        """The move counter: every move made, draws and undone moves included."""
        return len(self._actions) + self.undos

    @property
    def won(self) -> bool:
        """Whether all cards are on the foundations."""
        return bool(is_won(self._states[0]))

    @property
    def stuck(self) -> bool:
        """Whether the game is not won and no move is legal, take-backs included."""
        mask = np.empty(NUM_ACTIONS, dtype=np.int8)
        return not self.won and legal_actions(self._states[0], mask) == 0

    @property
    def undoable(self) -> int:
        """How many actions can be undone, 0..100."""
        return len(self._before)

    def accepting(self, source: str) -> tuple[str, ...]:
        """Return the piles that accept a pile's card, the best first (the placing help).

        A foundation is named where the card would lie: of two that accept it, the left one.
        Nothing is said where the pile is empty or the game is won.

        Raises:
            ValueError: There is no such pile.
        """
        pile = _pile(source)
        if self._held_back():
            return ()
        return tuple(
            self._landing(action)
            for action in self._candidates(pile)
            if refusal(self._states[0], action) == LEGAL
        )

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
        game = self._states[0]
        tops = [foundation_top(game, f) for f in range(NUM_FOUNDATIONS)]
        return {
            "deal": self.deal,
            "columns": [
                _texts(game["columns"][c, : game["heights"][c]]) for c in range(NUM_COLUMNS)
            ],
            "foundations": [
                {
                    "suit": SUIT_LETTERS[f % NUM_SUITS],
                    "cards": int(game["foundations"][f]),
                    "top": card_text(top - 1) if top != NO_CARD else "",
                }
                for f, top in enumerate(tops)
            ],
            "waste": _texts(game["waste"][: game["waste_size"]]),
            "stock": int(game["stock_size"]),
            "score": self.score,
            "moves": self.moves,
            "foundation_cards": int(foundation_cards(game)),
            "won": self.won,
            "stuck": self.stuck,
            "undoable": self.undoable,
            "can_undo": self.undoable > 0,
            "last_move": self._last_move(),
            "accepting": {name: list(found) for name in PILES if (found := self.accepting(name))},
            "automatic_placing": self.automatic_placing,
            "double_clicks": self.double_clicks,
        }

    def text(self, color: bool = False) -> str:
        """Return the board as text for people.

        Args:
            color: Whether red suits are printed in red, by terminal escapes.
        """
        shown = self._states.copy()
        shown[0]["moves"] = self.moves
        return board_text(shown[0], self.deal, color)

    def _last_move(self) -> dict[str, Any] | None:
        if not self._actions:
            return None
        action = self._actions[-1]
        return {
            "action": action,
            "name": ACTION_NAMES[action],
            "source": _NAMES[Pile(MOVES[action].source, MOVES[action].source_index)],
            "target": self._landings[-1],
        }

    # ------------------------------------------------------------------------------- gestures

    def tap(self, pile: str) -> Outcome:
        """Tap a pile's top card: to a foundation; the waste's card else to the best column.

        Raises:
            ValueError: There is no such pile.
        """
        kind, index = _pile(pile)
        if kind == COLUMN:
            return self._try([_ACTION_IDS[Move(COLUMN, index, FOUNDATION, 0)]])
        return self._send_off(Pile(kind, index))

    def double_click(self, pile: str) -> Outcome:
        """Double-click a pile's top card: to the best place.

        Raises:
            ValueError: There is no such pile.
        """
        source = _pile(pile)
        if not self.double_clicks:
            return Outcome(refusal=NO_DOUBLE_CLICKS)
        return self._send_off(source)

    def drop(self, source: str, target: str | None) -> Outcome:
        """Drag a pile's top card and drop it.

        Args:
            source: The pile it comes from.
            target: The pile it is dropped on (``f`` will do for the foundations), or None where it
                is dropped beside all of them.

        Raises:
            ValueError: There is no such pile.
        """
        pile = _pile(source)
        aim = None if target in (None, _ANY_FOUNDATION) else _pile(target)
        if aim == pile:
            return Outcome()
        reason = self._empty(pile)
        if reason != LEGAL:
            return Outcome(refusal=REFUSALS[reason])
        places = pile.kind in (WASTE, COLUMN) or (
            pile.kind == FOUNDATION and aim is not None and aim.kind == COLUMN
        )
        if self.automatic_placing and places:
            outcome = self._try(self._candidates(pile))
            if outcome.moved or target is None:
                return outcome
        if target is None:
            return Outcome()
        action, text = self._aimed(pile, aim)
        return Outcome(refusal=text) if action is None else self._try([action])

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
        if not self._before:
            return Outcome(refusal=UNDO_EXHAUSTED if self._actions else NOTHING_TO_UNDO)
        score = self.score
        self._states = self._before.pop()
        self._landings.pop()
        self.undos += 1
        self.finished = None
        return Outcome(self._actions.pop(), self.score - score)

    # --------------------------------------------------------------------- how gestures decide

    def _send_off(self, pile: Pile) -> Outcome:
        """Move a pile's card to the best place; a foundation's stays."""
        if pile.kind == FOUNDATION:
            reason = self._empty(pile)
            return Outcome(refusal=DRAG_TO_TAKE_BACK if reason == LEGAL else REFUSALS[reason])
        return self._try(self._candidates(pile))

    def _candidates(self, pile: Pile) -> list[int]:
        """All actions that would move a pile's card, legal or not, the best first."""
        if pile.kind == STOCK:
            return [DRAW]
        # Empty columns have height 0, so they come last.
        heights = self._states[0]["heights"].tolist()
        columns = sorted(range(NUM_COLUMNS), key=lambda c: -heights[c])
        moves = [Move(*pile, COLUMN, c) for c in columns if pile != (COLUMN, c)]
        if pile.kind != FOUNDATION:
            moves.insert(0, Move(*pile, FOUNDATION, 0))
        return [_ACTION_IDS[move] for move in moves]

    def _aimed(self, pile: Pile, aim: Pile | None) -> tuple[int | None, str]:
        """The action that a drop on another pile (None: any foundation) means, or what refuses it.

        Whether the rules allow the action is not yet said, but for which foundation it is.
        """
        if pile.kind == STOCK:
            draws = aim is not None and aim.kind == WASTE
            return (DRAW, "") if draws else (None, STOCK_TO_WASTE_ONLY)
        if aim is None or aim.kind == FOUNDATION:
            if pile.kind == FOUNDATION:
                return None, NOT_BETWEEN_FOUNDATIONS
            if aim is not None and not self._foundation_accepts(aim.number, pile):
                return None, REFUSALS[NOT_NEXT_ON_FOUNDATION]
            return _ACTION_IDS[Move(*pile, FOUNDATION, 0)], ""
        if aim.kind != COLUMN:
            return None, NOT_ONTO_STOCK_OR_WASTE
        return _ACTION_IDS[Move(*pile, *aim)], ""

    def _foundation_accepts(self, f: int, pile: Pile) -> bool:
        """Whether a pile's card may be dropped on foundation f."""
        game = self._states[0]
        left = accepting_foundation(game, top_card(game, *pile))
        if left < 0:
            return False
        heights = game["foundations"]
        return bool(f % NUM_SUITS == left % NUM_SUITS and heights[f] == heights[left])

    def _empty(self, pile: Pile) -> int:
        """Why no card can leave a pile (an index of REFUSALS); LEGAL where there is one."""
        if top_card(self._states[0], *pile) != NO_CARD:
            return LEGAL
        return STOCK_EMPTY if pile.kind == STOCK else NOTHING_TO_MOVE

    def _held_back(self) -> str:
        """What keeps the game from taking any move at all, or ""."""
        if self.won:
            return GAME_WON
        return TOO_MANY_ACTIONS if len(self._actions) >= MAX_ACTIONS else ""

    def _try(self, actions: list[int]) -> Outcome:
        """Play the first legal one of some actions, or name the rules that refuse them all."""
        held_back = self._held_back()
        if held_back:
            return Outcome(refusal=held_back)
        reasons = set()
        for action in actions:
            reason = int(refusal(self._states[0], action))
            if reason == LEGAL:
                return Outcome(action, self._play(action))
            reasons.add(reason)
        if NOT_NEXT_IN_COLUMN in reasons:  # which an ace among the columns is a case of
            reasons.discard(ON_AN_ACE)
        return Outcome(refusal="; ".join(REFUSALS[reason] for reason in sorted(reasons)))

    def _play(self, action: int) -> int:
        """Play a legal action; return its points."""
        self._before.append(self._states.copy())
        self._landings.append(self._landing(action))
        self._actions.append(action)
        points = int(play(self._states[0], action))
        if self.won:
            self.finished = _now()
        return points

    def _landing(self, action: int) -> str:
        """The name of the pile that a legal action's card goes to."""
        move = MOVES[action]
        if move.target != FOUNDATION:
            return _NAMES[Pile(move.target, move.target_index)]
        game = self._states[0]
        card_id = top_card(game, move.source, move.source_index)
        return _NAMES[Pile(FOUNDATION, int(accepting_foundation(game, card_id)))]

    # ------------------------------------------------------------------------------- records

    def playthrough(self) -> Playthrough:
        """Return the game so far as a playthrough: what was undone is not in it.

        Its player is ``human``. Further keys: ``game`` (the identity), ``started``, ``finished``
        (when it was won; else the present time), ``moves`` (the move counter), ``undos``.
        """
        return self._record({"finished": self.finished or _now()})

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
        if not self._actions:
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
        extra = saved.extra
        table = extra.get("table")
        if not isinstance(table, dict):
            raise PlaythroughError("this is no saved game: the key 'table' is missing")
        game = cls(saved.deal, saved.deck)
        game.automatic_placing = _flag("table.automatic_placing", table.get("automatic_placing"))
        game.double_clicks = _flag("table.double_clicks", table.get("double_clicks"))
        if saved.player != PLAYER:
            raise PlaythroughError(f"player is {PLAYER!r}, not {saved.player[:40]!r}")
        if len(saved.actions) > MAX_ACTIONS:
            raise PlaythroughError(f"actions: {TOO_MANY_ACTIONS}, not {len(saved.actions)}")
        identity = extra.get("game")
        if not isinstance(identity, str) or not _IDENTITY.fullmatch(identity):
            raise PlaythroughError("game is 16 hexadecimal digits")
        for number, action in enumerate(saved.actions, start=1):
            if game.won:
                raise PlaythroughError(f"step {number} comes after the game was won")
            game._play(action)
        game.identity = identity
        game.started = _time("started", extra.get("started"))
        finished = extra.get("finished")
        if (finished is not None) != game.won:
            raise PlaythroughError("finished is the time when the game was won, else null")
        game.finished = None if finished is None else _time("finished", finished)
        game.undos = _count("undos", extra.get("undos"))
        if _count("moves", extra.get("moves")) != game.moves:
            raise PlaythroughError(
                f"moves is {extra['moves']}, but {len(saved.actions)} actions and"
                f" {game.undos} undone ones make {game.moves}"
            )
        undoable = _count("table.undoable", table.get("undoable"))
        # Where moves have sunk out of reach, the reach was full, and only undoing shortens it.
        sunk = len(saved.actions) - undoable
        if undoable > UNDO_LIMIT or sunk < 0 or (sunk and undoable + game.undos < UNDO_LIMIT):
            raise PlaythroughError(
                f"table.undoable cannot be {undoable} after {len(saved.actions)} actions and"
                f" {game.undos} undone ones"
            )
        while len(game._before) > undoable:
            game._before.popleft()
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
            actions=tuple(self._actions),
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


def _pile(name: Any) -> Pile:
    pile = PILES.get(name) if isinstance(name, str) else None
    if pile is None:
        raise ValueError(
            f"there is no pile {name if not isinstance(name, str) else name[:40]!r}; there are"
            f" stock, w, c1..c{NUM_COLUMNS} and f1..f{NUM_FOUNDATIONS}"
        )
    return pile


def _texts(card_ids: np.ndarray) -> list[str]:
    return [card_text(card_id - 1) for card_id in card_ids.tolist()]


def _now() -> str:
    return datetime.now(UTC).strftime(_TIME)


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


def __getattr__(name: str) -> Any:
    # Playing in a terminal stands above the game, and can be imported from here as well.
    if name == "play_in_terminal":
        return importlib.import_module("qv_env.play.terminal").play_in_terminal
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
