"""Playthroughs as a self-contained page, which can be opened from disk without a network.

The rules stay in Python. The page gets the first position and, for each step, the card, its source
and target piles, the points and the action's name; it moves cards and implements no rules.

The content of a playthrough file is embedded as JSON in a block that is not a script, with every
``<``, ``>`` and ``&`` escaped, and the page inserts it as text. A content security policy allows
the page's own script and style, by their hashes, and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from qv_env import render
from qv_env.actions import (
    ACTION_NAMES,
    COLUMN,
    DRAW,
    FOUNDATION,
    MOVE_TABLE,
    MOVES,
    NUM_COLUMNS,
    NUM_FOUNDATIONS,
    STOCK,
    WASTE,
)
from qv_env.cards import NUM_KINDS, NUM_SUITS, SUIT_LETTERS, card_text
from qv_env.compiling import compiled
from qv_env.playthroughs.playthrough import Likeliest, Playthrough, states
from qv_env.playthroughs.show import SPEEDS, STEPS_PER_SECOND
from qv_env.render.art import art_json
from qv_env.render.layout import LastMove, last_move, layout_json
from qv_env.rules import Game, accepting_foundation, attempt, foundation_top, play, top_card

STATIC = Path(__file__).parent / "static"
_STYLES = (render.STATIC / "page.css", render.STATIC / "table.css", STATIC / "viewer.css")
_SCRIPTS = (render.STATIC / "table.js", STATIC / "viewer.js")

_MAX_TEXT = 2000  # characters of a free text shown on the page


class DifferentDealsError(ValueError):
    """Two playthroughs to be shown side by side are not of the same deal."""


def check_same_deal(one: Playthrough, other: Playthrough) -> None:
    """Raise a DifferentDealsError unless two playthroughs start with the same cards."""
    if not np.array_equal(one.start(), other.start()):
        raise DifferentDealsError(
            "side by side stand games of one deal, not of"
            f" {one.deal or 'an explicit deck'} and {other.deal or 'an explicit deck'}"
        )


def aligned(one: Sequence[int], other: Sequence[int]) -> list[tuple[int, int]]:
    """Align two games of one deal as a list of moments, so that both draw at the same moments.

    Between two draws, the game with fewer moves waits for the other one.

    Args:
        one: The first game's actions.
        other: The second game's.

    Returns:
        For each moment, the number of steps taken in each game, from (0, 0) to all steps of both.
    """
    moments = [(0, 0)]
    # A stretch ends before the next draw or with the game. A game without further draws waits.
    stretches = [_stretches(one), _stretches(other)]
    for k in range(max(map(len, stretches))):
        (a, a_end), (b, b_end) = (s[k] if k < len(s) else (s[-1][1],) * 2 for s in stretches)
        moments += [
            (min(a + i, a_end), min(b + i, b_end)) for i in range(1, max(a_end - a, b_end - b) + 1)
        ]
    return moments


def _stretches(actions: Sequence[int]) -> list[tuple[int, int]]:
    """Return the stretches between draws, as steps taken before and after each stretch.

    Each stretch but the first starts with a draw.
    """
    cuts = [0, *(i for i, action in enumerate(actions) if action == DRAW), len(actions)]
    return list(pairwise(cuts))


def pile_name(kind: int, index: int) -> str:
    """Return a pile's name: ``stock``, ``w``, ``c1`` .. ``c10``, ``f1`` .. ``f8``."""
    if kind in (STOCK, WASTE):
        return "stock" if kind == STOCK else "w"
    return f"{'c' if kind == COLUMN else 'f'}{index + 1}"


# The tables that the numbers in a game's moves index, in the page as well: all piles, all cards,
# and for each action its source and its name.
_PILES = (
    pile_name(STOCK, 0),
    pile_name(WASTE, 0),
    *(pile_name(COLUMN, c) for c in range(NUM_COLUMNS)),
    *(pile_name(FOUNDATION, f) for f in range(NUM_FOUNDATIONS)),
)
_CARDS = tuple(card_text(card) for card in range(NUM_KINDS))
_ACTIONS = tuple(
    (pile_name(move.source, move.source_index), name)
    for move, name in zip(MOVES, ACTION_NAMES, strict=True)
)
_FIRST_PILE = np.array([0, 1, 2, 2 + NUM_COLUMNS])  # by kind of pile, the index in _PILES


@compiled
def _trace(states: np.ndarray, actions: np.ndarray, moves: np.ndarray) -> None:
    """Play legal actions (uint8 (n,)) on ``states[0]`` and write their effects (int32 (n, 4)).

    A row is the action, the target's index in ``_PILES``, the card (0..51) and the points.
    """
    game = states[0]
    for k in range(len(actions)):
        action = actions[k]
        target = MOVE_TABLE[action, 2]
        card_id = top_card(game, MOVE_TABLE[action, 0], MOVE_TABLE[action, 1])
        pile = MOVE_TABLE[action, 3]
        if target == FOUNDATION:  # the rules choose the foundation
            pile = accepting_foundation(game, card_id)
        moves[k, 0] = action
        moves[k, 1] = _FIRST_PILE[target] + pile
        moves[k, 2] = card_id - 1
        moves[k, 3] = play(game, action)


def _moves(playthrough: Playthrough) -> list[list[int]]:
    """Return a game's moves: action, target, card and points of each; see :func:`game_data`."""
    moves = np.empty((len(playthrough.actions), 4), dtype=np.int32)
    _trace(playthrough.start(), np.array(playthrough.actions, dtype=np.uint8), moves)
    listed: list[list[int]] = moves.tolist()
    return listed


def view_of(game: Game) -> dict[str, Any]:
    """Return the visible position, with the keys of ``Game.view`` that ``table.js`` draws."""
    tops = [int(foundation_top(game, f)) for f in range(len(game["foundations"]))]
    return {
        "columns": [
            [card_text(int(card) - 1) for card in column[:height]]
            for column, height in zip(game["columns"], game["heights"], strict=True)
        ],
        "foundations": [
            {
                "suit": SUIT_LETTERS[f % NUM_SUITS],
                "cards": int(game["foundations"][f]),
                "top": card_text(top - 1) if top else "",
            }
            for f, top in enumerate(tops)
        ],
        "waste": [card_text(int(card) - 1) for card in game["waste"][: game["waste_size"]]],
        "stock": int(game["stock_size"]),
        "score": int(game["score"]),
        "moves": int(game["moves"]),
    }


def game_data(playthrough: Playthrough, title: str = "") -> dict[str, Any]:
    """Return a playthrough as JSON values for the page.

    Args:
        playthrough: The game.
        title: A title in addition to the player's name, such as a file's name.

    Returns:
        Keys ``title``, ``player``, ``deal`` ("" for an explicit deck), ``score``, ``won``,
        ``start`` (a view), ``moves`` (per step the action, the target pile, the card and the
        points, all but the points as indices of the lists in :func:`viewer_frame`), ``values``
        and ``likeliest`` (per step [name, probability, source, target], the piles null if the
        rules refuse the action; null if nothing was recorded), and ``notes``, the file's further
        keys as pairs of texts.
    """
    likeliest = None
    if playthrough.likeliest is not None:
        positions = (state[0] for state in states(playthrough))
        likeliest = [
            _thoughts(game, pairs)
            for game, pairs in zip(positions, playthrough.likeliest, strict=False)
        ]
    return {
        "title": title[:_MAX_TEXT],
        "player": playthrough.player[:_MAX_TEXT],
        "deal": playthrough.deal or "",
        "score": playthrough.score,
        "won": playthrough.won,
        "start": view_of(playthrough.start()[0]),
        "moves": _moves(playthrough),
        "values": playthrough.values,
        "likeliest": likeliest,
        "notes": [[key[:100], _note(value)] for key, value in list(playthrough.extra.items())[:40]],
    }


def _piles(move: LastMove) -> tuple[str, str]:
    return (
        pile_name(move.source, move.source_index),
        pile_name(move.target, move.target_index),
    )


def _thoughts(game: Game, pairs: Likeliest) -> list[list[Any]]:
    """Return a player's likeliest actions: name, probability, source and target piles."""
    thoughts: list[list[Any]] = []
    for action, probability in pairs:
        source: str | None = pile_name(MOVES[action].source, MOVES[action].source_index)
        target: str | None = pile_name(MOVES[action].target, MOVES[action].target_index)
        # The rules choose the foundation; a recorded action may also be illegal.
        copied = np.array([game], dtype=game.dtype)
        attempt(copied[0], action)
        move = last_move(game, copied[0])
        source, target = (None, None) if move is None else _piles(move)
        thoughts.append([ACTION_NAMES[action], round(probability, 4), source, target])
    return thoughts


def _note(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + "…"


# -------------------------------------------------------------------------------------- the page


@dataclass(frozen=True)
class ViewerFrame:
    """The viewer's page without its data; ``before + data + after`` is the page.

    It is the same for all games. A page that shows many games contains it once, and combines it
    with the :func:`viewer_data` of the selected game.

    Attributes:
        before: The page before its data: policy, styles, markup, and how tables are drawn.
        after: The page after its data: the script.
    """

    before: str
    after: str

    def page(self, data: str) -> str:
        """Return the page that shows what :func:`viewer_data` returned."""
        return f"{self.before}{data}{self.after}"


def viewer_frame() -> ViewerFrame:
    """Return the viewer's page without its data.

    Its JSON block ``table`` has what all games have in common: ``layout`` and ``art``, which define
    how tables are drawn, and the lists that the numbers in a game's moves index: ``piles``,
    ``cards`` and ``actions`` (a source and a name each).
    """
    style = "\n".join(path.read_text(encoding="utf-8") for path in _STYLES)
    script = "\n".join(path.read_text(encoding="utf-8") for path in _SCRIPTS)
    policy = (
        f"default-src 'none'; script-src {_hash(script)}; style-src {_hash(style)};"
        " img-src data:; base-uri 'none'; form-action 'none'"
    )
    table = embedded_json(
        {
            "layout": layout_json(),
            "art": art_json(),
            "piles": _PILES,
            "cards": _CARDS,
            "actions": _ACTIONS,
        }
    )
    parts = {"policy": policy, "style": style, "table": table, "script": script}
    template = (STATIC / "viewer.html").read_text(encoding="utf-8")
    before, after = (_filled(part, parts) for part in template.split("{{data}}"))
    return ViewerFrame(before, after)


def _filled(template: str, parts: Mapping[str, str]) -> str:
    """Return a template in which names in double braces are replaced by the parts of those names.

    All are replaced in one pass, so braces inside a part are left alone.
    """
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template)


def viewer_data(
    playthrough: Playthrough,
    other: Playthrough | None = None,
    titles: Sequence[str] = ("", ""),
    speed: float = STEPS_PER_SECOND,
    step: int = 0,
) -> str:
    """Return the data of a viewer's page, as JSON that can be embedded in HTML.

    Args:
        playthrough: The game.
        other: A second game of the same deal, shown beside the first.
        titles: Titles of the games, in addition to their players' names.
        speed: The initial speed, in steps per second.
        step: The first step shown, 0 for the deal; with two games a moment, see ``aligned``.

    Returns:
        An object with the keys ``games`` (see :func:`game_data`), ``moments`` (see
        :func:`aligned`; null for one game), ``speeds`` (the choices, in increasing order),
        ``speed`` and ``step``.

    Raises:
        DifferentDealsError: The two are not of the same deal.
        ValueError: The game has no such step.
    """
    games = [game_data(playthrough, titles[0])]
    moments: list[tuple[int, int]] | None = None
    if other is not None:
        check_same_deal(playthrough, other)
        games.append(game_data(other, titles[1]))
        moments = aligned(playthrough.actions, other.actions)
    last = len(playthrough.actions) if moments is None else len(moments) - 1
    if not 0 <= step <= last:
        raise ValueError(f"there is no step {step}; the last one is {last}")
    return embedded_json(
        {
            "games": games,
            "moments": moments,
            "speeds": sorted({*SPEEDS, float(speed)}),
            "speed": float(speed),
            "step": step,
        }
    )


def viewer_page(
    playthrough: Playthrough,
    other: Playthrough | None = None,
    titles: Sequence[str] = ("", ""),
    speed: float = STEPS_PER_SECOND,
    step: int = 0,
) -> str:
    """Return the page: HTML that needs no other file.

    Args and errors are those of :func:`viewer_data`.
    """
    return viewer_frame().page(viewer_data(playthrough, other, titles, speed, step))


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


_ESCAPED = {c: f"\\u{ord(c):04x}" for c in "<>&\u2028\u2029"}


def embedded_json(value: Any) -> str:
    """Return a value as JSON that no HTML parser can mistake for markup.

    Characters with a meaning in HTML are written as JSON escapes, which leaves the value the same;
    so are lone surrogates, which UTF-8 cannot encode.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    text = re.sub(r"[\ud800-\udfff]", lambda match: f"\\u{ord(match[0]):04x}", text)
    for character, escape in _ESCAPED.items():  # several times as fast as ``translate``
        text = text.replace(character, escape)
    return text
