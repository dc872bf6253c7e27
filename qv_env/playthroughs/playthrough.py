"""Playthroughs: games as files, which can be recorded, written, read, verified and replayed.

A file holds one JSON object, in UTF-8:

==================  ========================================================================
key                 content
==================  ========================================================================
``format``          ``"quarante-voleurs-playthrough"``
``version``         1
``deal``            the deal's code, or null for an explicit deck
``deck``            null, or 104 cards (0..51, each twice) in the order they are dealt
``player``          who played, free text
``actions``         action ids, 0..191; refused actions are not recorded
``score``, ``won``  the result of the actions: an integer, and true or false
``values``          optional: per step, the player's value estimate before the action
``likeliest``       optional: per step, a list of [action, probability], likeliest first
==================  ========================================================================

Any further keys are allowed and are kept. A ``Playthrough`` is replayed with ``qv_env.rules`` when
it is created, whether from a file or by hand, so every instance is a valid game.
"""

from __future__ import annotations

import contextlib
import json
import math
import operator
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from qv_env.actions import ACTION_NAMES, NUM_ACTIONS
from qv_env.cards import NUM_CARDS, NUM_KINDS
from qv_env.compiling import compiled
from qv_env.deals import checked_deck, deal_code, deal_number, deck_of, parse_code
from qv_env.files import write_bytes
from qv_env.rules import LEGAL, REFUSALS, is_won, new_game, play, refusal
from qv_env.strict_json import FormatError, parse_json, shown

FORMAT = "quarante-voleurs-playthrough"
VERSION = 1
MAX_FILE_SIZE = 8 << 20  # bytes; a game of 500 steps with all its arrays has some 100 KiB

_REQUIRED = ("format", "version", "deal", "deck", "player", "actions", "score", "won")
_KNOWN = (*_REQUIRED, "values", "likeliest")
_MAX_CODE_LENGTH = 64  # longer than any code with blanks around it; keeps messages short
_ROUNDING = 1e-6  # probabilities in single precision may exceed 1 by this much

Likeliest: TypeAlias = "tuple[tuple[int, float], ...]"
PathLike: TypeAlias = "str | os.PathLike[str]"


class PlaythroughError(ValueError):
    """A file, a text or an object is not a valid playthrough; the message says where and why."""


class Step(NamedTuple):
    """One move of a playthrough.

    Attributes:
        number: 1 for the first move.
        action: 0..191.
        name: The action's name, such as ``c3>c7``.
        points: The change of the score.
        score: The score after the move.
    """

    number: int
    action: int
    name: str
    points: int
    score: int


@compiled
def _replay(states: np.ndarray, actions: np.ndarray, points: np.ndarray) -> tuple[int, int]:
    """Play actions (uint8 (n,)) until one is refused; write each one's points (int32 (n,)).

    Returns:
        How many actions were played, and which rule refused the next one (0: all were played).
    """
    game = states[0]
    for k in range(len(actions)):
        reason = refusal(game, actions[k])
        if reason != LEGAL:
            return k, reason
        points[k] = play(game, actions[k])
    return len(actions), LEGAL


@dataclass(frozen=True)
class Playthrough:
    """A game that was played, verified by replaying it when the instance is created.

    Sequences may be given as lists; they are stored as tuples.

    Attributes:
        deal: The deal's code, or None where ``deck`` is given.
        deck: 104 cards (0..51, each twice), or None where ``deal`` is given.
        player: Who played.
        actions: Action ids, 0..191.
        score: The final score.
        won: Whether the game was won.
        values: Per action, the player's value estimate before it; None where not recorded.
        likeliest: Per action, (action, probability) pairs; None where not recorded.
        extra: Further keys of the file: any JSON values. They are stored as read back from JSON
            (tuples become lists), sorted by key.

    Raises:
        PlaythroughError: An argument has the wrong type or size, the rules refuse an action, or
            score or won are not the result of the actions.
    """

    deal: str | None
    deck: tuple[int, ...] | None
    player: str
    actions: tuple[int, ...]
    score: int
    won: bool
    values: tuple[float, ...] | None = None
    likeliest: tuple[Likeliest, ...] | None = None
    extra: Mapping[str, Any] = field(default_factory=dict, hash=False)

    def __post_init__(self) -> None:
        deal, deck = _checked_start(self.deal, self.deck)
        _checked_player(self.player)
        steps = len(_list("actions", self.actions))
        checked: dict[str, Any] = {
            "deal": deal,
            "deck": deck,
            "actions": _checked_actions(self.actions),
            "values": _checked_values(self.values, steps),
            "likeliest": _checked_likeliest(self.likeliest, steps),
            "extra": _checked_extra(self.extra),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)
        self._check_result()

    def _check_result(self) -> None:
        score = _integer("score", self.score, None)
        if not isinstance(self.won, (bool, np.bool_)):
            raise PlaythroughError(f"won is true or false, not {shown(self.won)}")
        object.__setattr__(self, "score", score)
        object.__setattr__(self, "won", bool(self.won))
        game = _played(self.start(), self.actions)[0][0]
        if score != game["score"]:
            raise PlaythroughError(
                f"score is {shown(score)}, but the actions lead to {game['score']}"
            )
        if self.won != is_won(game):
            raise PlaythroughError(
                f"won is {_json(self.won)}, but the game is {'' if is_won(game) else 'not '}won"
                f" after step {len(self.actions)}"
            )

    @classmethod
    def from_actions(
        cls,
        actions: Iterable[int],
        deal: int | str | None = None,
        deck: Sequence[int] | np.ndarray | None = None,
        player: str = "",
        values: Sequence[float] | np.ndarray | None = None,
        likeliest: Sequence[Sequence[tuple[int, float]]] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> Playthrough:
        """Return the playthrough of a deal or a deck; score and won are computed by the rules.

        Args:
            actions: Action ids, 0..191, or an integer array (n,).
            deal: The deal's code or number; or
            deck: 104 cards (0..51, each twice), as a list or an integer array (104,).
            player: Who played.
            values: Per action, the player's value estimate before it.
            likeliest: Per action, (action, probability) pairs.
            extra: Further keys for the file.

        Raises:
            PlaythroughError: The rules refuse an action, or an argument is invalid.
        """
        recorder = Recorder(deal, deck, player, extra)
        checked = _checked_actions(actions)
        game = _played(recorder.states, checked)[0][0]
        return cls(
            deal=recorder.deal,
            deck=recorder.deck,
            player=player,
            actions=checked,
            score=int(game["score"]),
            won=bool(is_won(game)),
            values=None if values is None else tuple(values),
            likeliest=None if likeliest is None else tuple(map(tuple, likeliest)),
            extra=extra or {},
        )

    def start(self) -> np.ndarray:
        """Return the game before the first action: ``qv_env.rules.STATE`` (1,)."""
        return new_game(_deck(self.deal, self.deck))

    def steps(self) -> list[Step]:
        """Return the moves with their names, points and scores."""
        steps, score = [], 0
        points = _played(self.start(), self.actions)[1]
        for number, (action, gain) in enumerate(zip(self.actions, points, strict=True), start=1):
            score += gain
            steps.append(Step(number, action, ACTION_NAMES[action], gain, score))
        return steps

    def text(self) -> str:
        """Return the file's content: one line of JSON, the keys always in the same order."""
        content: dict[str, Any] = {"format": FORMAT, "version": VERSION}
        content |= {name: getattr(self, name) for name in _REQUIRED[2:]}
        if self.values is not None:
            content["values"] = self.values
        if self.likeliest is not None:
            content["likeliest"] = self.likeliest
        return _json(content | dict(self.extra)) + "\n"

    def write(self, path: PathLike) -> None:
        """Write the playthrough to a file, whole or not at all.

        It is written to a temporary file in the same folder, which then takes the file's place;
        see ``qv_env.files.replacing``.

        Args:
            path: The file; an existing one is replaced.

        Raises:
            PlaythroughError: The file would be larger than ``MAX_FILE_SIZE`` and so unreadable.
            OSError: The folder is missing or cannot be written to; nothing is changed.
        """
        content = self.text().encode()
        if len(content) > MAX_FILE_SIZE:
            raise PlaythroughError(f"{os.fspath(path)}: {_too_large(len(content))}")
        write_bytes(path, content)


class Recorder:
    """Records a game while it is played, and refuses illegal actions.

    Args:
        deal: The deal's code or number; or
        deck: 104 cards (0..51, each twice), as a list or an integer array (104,).
        player: Who plays.
        extra: Further keys for the file.

    Attributes:
        deal: The deal's code, or None.
        deck: The explicit deck as a tuple, or None.
        states: The present state of the game: ``qv_env.rules.STATE`` (1,).

    Raises:
        PlaythroughError: The deal or the deck is not valid, or both or neither are given.
    """

    def __init__(
        self,
        deal: int | str | None = None,
        deck: Sequence[int] | np.ndarray | None = None,
        player: str = "",
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        if deal is not None and not isinstance(deal, str):
            try:
                deal = deal_code(deal)
            except ValueError as error:
                raise PlaythroughError(f"deal: {error}") from None
        if isinstance(deck, np.ndarray):
            deck = deck.tolist()
        self.deal, self.deck = _checked_start(deal, deck)
        self.player = _checked_player(player)
        self.extra = _checked_extra(extra or {})
        self.states = new_game(_deck(self.deal, self.deck))
        self._actions: list[int] = []
        self._values: list[float] = []
        self._likeliest: list[Sequence[tuple[int, float]]] = []

    def __len__(self) -> int:
        """Return how many actions are recorded."""
        return len(self._actions)

    def append(
        self,
        action: int,
        value: float | None = None,
        likeliest: Sequence[tuple[int, float]] | None = None,
    ) -> int:
        """Play and record an action.

        Args:
            action: 0..191.
            value: The player's value estimate before the action; given at every step or at none.
            likeliest: (action, probability) pairs; given at every step or at none.

        Returns:
            The change of the score.

        Raises:
            PlaythroughError: The rules refuse the action, or an argument is invalid; the game is
                unchanged.
        """
        number = len(self._actions) + 1
        action = _integer(f"step {number}: the action", action, NUM_ACTIONS)
        for name, given, kept in (
            ("value", value, self._values),
            ("likeliest", likeliest, self._likeliest),
        ):
            if self._actions and (given is None) == bool(kept):
                raise PlaythroughError(f"step {number}: {name} is given at every step or at none")
        if value is not None:
            value = _number(f"step {number}: value", value)
        if likeliest is not None:
            likeliest = _checked_pairs(f"step {number}: likeliest", likeliest)
        _, points = _played(self.states, (action,), number)
        self._actions.append(action)
        if value is not None:
            self._values.append(value)
        if likeliest is not None:
            self._likeliest.append(likeliest)
        return points[0]

    def playthrough(self) -> Playthrough:
        """Return the game so far as a playthrough."""
        game = self.states[0]
        return Playthrough(
            deal=self.deal,
            deck=self.deck,
            player=self.player,
            actions=tuple(self._actions),
            score=int(game["score"]),
            won=bool(is_won(game)),
            values=tuple(self._values) if self._values else None,
            likeliest=tuple(map(tuple, self._likeliest)) if self._likeliest else None,
            extra=self.extra,
        )


def states(playthrough: Playthrough) -> Iterator[np.ndarray]:
    """Yield the game before each action and at the end: n + 1 separate arrays STATE (1,)."""
    game = playthrough.start()
    yield game.copy()
    for action in playthrough.actions:
        play(game[0], action)
        yield game.copy()


# ------------------------------------------------------------------------------------ reading


def read_playthrough(path: PathLike) -> Playthrough:
    """Read a file and verify it by replaying it.

    Args:
        path: The file, of at most ``MAX_FILE_SIZE`` bytes.

    Raises:
        PlaythroughError: The file is not a valid playthrough; the message starts with its name and
            says where and why.
        OSError: The file cannot be read.
    """
    name = os.fspath(path)
    with open(path, "rb") as file:
        content = file.read(MAX_FILE_SIZE + 1)
    if len(content) > MAX_FILE_SIZE:
        raise PlaythroughError(f"{name}: {_too_large()}")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise PlaythroughError(f"{name}: byte {error.start} is not UTF-8") from None
    return parse_playthrough(text, name)


def parse_playthrough(text: str, name: str = "playthrough") -> Playthrough:
    """Read a file's content and verify it by replaying it.

    Args:
        text: JSON, of at most ``MAX_FILE_SIZE`` characters.
        name: The start of error messages.

    Raises:
        PlaythroughError: The text is not a valid playthrough; the message says where and why.
    """
    try:
        if len(text) > MAX_FILE_SIZE:
            raise PlaythroughError(_too_large(len(text)))
        return _playthrough(parse_json(text))
    except (PlaythroughError, FormatError) as error:
        raise PlaythroughError(f"{name}: {error}") from None


def _playthrough(content: Any) -> Playthrough:
    """Return the playthrough that a JSON value describes."""
    if not isinstance(content, dict):
        raise PlaythroughError(f"this is no playthrough: a JSON object is, not {shown(content)}")
    if "format" not in content:
        raise PlaythroughError("this is no playthrough: the key 'format' is missing")
    if content["format"] != FORMAT:
        raise PlaythroughError(
            f"this is no playthrough: format is {FORMAT!r}, not {shown(content['format'])}"
        )
    if "version" not in content:
        raise PlaythroughError("the key 'version' is missing")
    version = _integer("version", content["version"], None)
    if version > VERSION:
        raise PlaythroughError(
            f"version {shown(version)} is too new: this program reads version {VERSION}"
        )
    if version != VERSION:
        raise PlaythroughError(f"there is no version {shown(version)}: it is {VERSION}")
    missing = [key for key in _REQUIRED if key not in content]
    if missing:
        raise PlaythroughError(f"the key {missing[0]!r} is missing")
    known = {key: content[key] for key in _KNOWN[2:] if key in content}
    extra = {key: value for key, value in content.items() if key not in _KNOWN}
    return Playthrough(**known, extra=extra)


# ---------------------------------------------------------------- checks and their messages


def _checked_start(deal: Any, deck: Any) -> tuple[str | None, tuple[int, ...] | None]:
    """Check that exactly one of deal and deck is given; return both in their plain form."""
    if deal is None and deck is None:
        raise PlaythroughError("there is neither a deal nor a deck")
    if deal is not None and deck is not None:
        raise PlaythroughError("there are both a deal and a deck")
    if deal is not None:
        if not isinstance(deal, str):
            raise PlaythroughError(f"deal is a code, not {shown(deal)}")
        if len(deal) > _MAX_CODE_LENGTH:
            raise PlaythroughError(f"deal is a code, not {shown(deal)}")
        try:
            return deal_code(parse_code(deal)), None
        except ValueError as error:
            raise PlaythroughError(f"deal: {error}") from None
    if len(_list("deck", deck)) != NUM_CARDS:
        raise PlaythroughError(f"deck has {len(deck)} cards, not {NUM_CARDS}")
    cards = tuple(_integer(f"deck[{i}]", card, NUM_KINDS) for i, card in enumerate(deck))
    try:
        checked_deck(cards)
    except ValueError as error:
        raise PlaythroughError(f"deck: {error}") from None
    return None, cards


def _deck(deal: str | None, deck: tuple[int, ...] | None) -> np.ndarray:
    """Return the cards in dealing order: uint8 (104,)."""
    return deck_of(deal_number(deal)) if deal is not None else np.array(deck, dtype=np.uint8)


def _played(
    start: np.ndarray, actions: tuple[int, ...], number: int = 1
) -> tuple[np.ndarray, list[int]]:
    """Play actions on a game, in place; ``number`` is the first one's step number.

    Returns:
        The game, and each action's points.
    """
    points = np.zeros(len(actions), dtype=np.int32)
    done, reason = _replay(start, np.array(actions, dtype=np.uint8), points)
    if reason != LEGAL:
        raise PlaythroughError(
            f"step {number + done} ({ACTION_NAMES[actions[done]]}) is refused: {REFUSALS[reason]}"
        )
    return start, points.tolist()


def _checked_player(player: Any) -> str:
    if not isinstance(player, str):
        raise PlaythroughError(f"player is a text, not {shown(player)}")
    return player


def _checked_actions(actions: Iterable[Any]) -> tuple[int, ...]:
    given = tuple(actions)
    # Nearly always all are plain integers, which can be checked without a Python loop.
    if set(map(type, given)) == {int} and min(given) >= 0 and max(given) < NUM_ACTIONS:
        return given
    return tuple(_integer(f"actions[{i}]", action, NUM_ACTIONS) for i, action in enumerate(given))


def _checked_values(values: Any, steps: int) -> tuple[float, ...] | None:
    if values is None:
        return None
    if len(_list("values", values)) != steps:
        raise PlaythroughError(f"values has {len(values)} entries for {steps} actions")
    return tuple(_number(f"values[{i}]", value) for i, value in enumerate(values))


def _checked_likeliest(likeliest: Any, steps: int) -> tuple[Likeliest, ...] | None:
    if likeliest is None:
        return None
    if len(_list("likeliest", likeliest)) != steps:
        raise PlaythroughError(f"likeliest has {len(likeliest)} entries for {steps} actions")
    return tuple(_checked_pairs(f"likeliest[{i}]", pairs) for i, pairs in enumerate(likeliest))


def _checked_pairs(place: str, pairs: Any) -> Likeliest:
    checked = []
    for k, pair in enumerate(_list(place, pairs)):
        if not isinstance(pair, (list, tuple)) or len(pair) != 2:
            raise PlaythroughError(
                f"{place}[{k}] is a pair [action, probability], not {shown(pair)}"
            )
        probability = _number(f"{place}[{k}][1]", pair[1])
        if not 0 <= probability <= 1 + _ROUNDING:
            raise PlaythroughError(
                f"{place}[{k}][1] is a probability in 0..1, not {shown(pair[1])}"
            )
        checked.append((_integer(f"{place}[{k}][0]", pair[0], NUM_ACTIONS), probability))
    return tuple(checked)


def _checked_extra(extra: Any) -> dict[str, Any]:
    if not isinstance(extra, Mapping) or not all(isinstance(key, str) for key in extra):
        raise PlaythroughError(f"extra is a mapping with texts as keys, not {shown(extra)}")
    taken = [key for key in _KNOWN if key in extra]
    if taken:
        raise PlaythroughError(f"extra has the key {taken[0]!r}, which is the format's own")
    text = _json(dict(extra), sort_keys=True)
    return dict(json.loads(text))  # an independent copy, equal to what is read from the file


def _list(place: str, value: Any) -> Sequence[Any]:
    if not isinstance(value, (list, tuple)):
        raise PlaythroughError(f"{place} is a list, not {shown(value)}")
    return value


def _integer(place: str, value: Any, limit: int | None) -> int:
    """Return a value that is an integer (no bool, no float), in 0..limit - 1 if limit is given."""
    wanted = "an integer" if limit is None else f"an integer in 0..{limit - 1}"
    if not isinstance(value, (bool, np.bool_)):
        with contextlib.suppress(TypeError):
            number = operator.index(value)
            if limit is None or 0 <= number < limit:
                return number
    raise PlaythroughError(f"{place} is {wanted}, not {shown(value)}")


def _number(place: str, value: Any) -> float:
    """Return a value that is a finite number (no bool)."""
    if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        with contextlib.suppress(OverflowError):  # an integer too large for a float
            if math.isfinite(value):
                return float(value)
    raise PlaythroughError(f"{place} is a finite number, not {shown(value)}")


def _json(value: Any, sort_keys: bool = False) -> str:
    """Return a value as JSON on one line."""
    try:
        return json.dumps(value, separators=(",", ":"), allow_nan=False, sort_keys=sort_keys)
    except RecursionError:
        raise PlaythroughError("extra is nested too deeply") from None
    except (TypeError, ValueError) as error:
        raise PlaythroughError(f"extra holds what JSON cannot hold: {error}") from None


def _too_large(size: int | None = None) -> str:
    had = "more than" if size is None else f"{size} bytes, more than"
    return f"the file has {had} the {MAX_FILE_SIZE} bytes that a playthrough may have"
