"""The 192 actions: the source and the target of each id, and its name.

=================  =======================================
ids                move
=================  =======================================
0                  draw: stock to waste
1 + c              waste to column c (0..9)
11                 waste to foundation
12 + c             column c to foundation
22 + 9 s + k       column s to column d (k = d if d < s else d - 1)
112 + 10 f + d     foundation f (0..7) back to column d
=================  =======================================

In names, columns and foundations are numbered from 1: ``draw``, ``w>c3``, ``w>f``, ``c3>f``,
``c3>c7``, ``f2>c5``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

NUM_COLUMNS = 10
NUM_FOUNDATIONS = 8

DRAW = 0
WASTE_TO_COLUMN = 1
WASTE_TO_FOUNDATION = 11
COLUMN_TO_FOUNDATION = 12
COLUMN_TO_COLUMN = 22
FOUNDATION_TO_COLUMN = 112

NUM_ACTIONS = 192
NUM_ACTIONS_WITHOUT_TAKE_BACK = FOUNDATION_TO_COLUMN

# Kinds of piles: the sources and targets of moves in the tables below.
STOCK, WASTE, COLUMN, FOUNDATION = range(4)


class Move(NamedTuple):
    """An action's source and target: the kind of pile, and its index (0 if there is only one).

    The index of a target foundation is always 0: the card's suit determines the foundation.
    """

    source: int
    source_index: int
    target: int
    target_index: int


def _moves() -> list[Move]:
    columns = range(NUM_COLUMNS)
    return [
        Move(STOCK, 0, WASTE, 0),
        *(Move(WASTE, 0, COLUMN, c) for c in columns),
        Move(WASTE, 0, FOUNDATION, 0),
        *(Move(COLUMN, c, FOUNDATION, 0) for c in columns),
        *(Move(COLUMN, s, COLUMN, d) for s in columns for d in columns if d != s),
        *(Move(FOUNDATION, f, COLUMN, d) for f in range(NUM_FOUNDATIONS) for d in columns),
    ]


MOVES = _moves()

# The same as an array, for compiled code: (192, 4) uint8, one row per Move.
MOVE_TABLE = np.array(MOVES, dtype=np.uint8)


def _pile_name(kind: int, index: int) -> str:
    if kind == WASTE:
        return "w"
    return f"{'c' if kind == COLUMN else 'f'}{index + 1}"


def _name(move: Move) -> str:
    if move.source == STOCK:
        return "draw"
    target = "f" if move.target == FOUNDATION else _pile_name(move.target, move.target_index)
    return f"{_pile_name(move.source, move.source_index)}>{target}"


ACTION_NAMES: tuple[str, ...] = tuple(_name(move) for move in MOVES)
_ACTION_IDS = {name: action for action, name in enumerate(ACTION_NAMES)}


def action_name(action: int) -> str:
    """Return the name of an action id, such as ``c3>c7``.

    Raises:
        ValueError: The number is not an action id (0..191).
    """
    if not 0 <= action < NUM_ACTIONS:
        raise ValueError(f"action {action!r} is outside 0..{NUM_ACTIONS - 1}")
    return ACTION_NAMES[action]


def parse_action(name: str) -> int:
    """Return the id (0..191) of an action's name; case and surrounding blanks are ignored.

    Raises:
        ValueError: The text is not the name of an action.
    """
    action = _ACTION_IDS.get(name.strip().lower())
    if action is None:
        raise ValueError(
            f"{name!r} names no action; names look like draw, w>c3, w>f, c3>f, c3>c7, f2>c5"
            f" with columns 1..{NUM_COLUMNS} and foundations 1..{NUM_FOUNDATIONS}"
        )
    return action
