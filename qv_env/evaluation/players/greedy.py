"""The greedy player: the moves of the app's double click, and otherwise a draw."""

from __future__ import annotations

from typing import Any

import numpy as np

from qv_env.actions import (
    COLUMN,
    COLUMN_TO_COLUMN,
    COLUMN_TO_FOUNDATION,
    DRAW,
    FOUNDATION_TO_COLUMN,
    MOVE_TABLE,
    NUM_COLUMNS,
    WASTE_TO_COLUMN,
    WASTE_TO_FOUNDATION,
)
from qv_env.cards import NUM_RANKS
from qv_env.evaluation.players.base import Player
from qv_env.rules import MAX_COLUMN

_COLUMNS = np.arange(NUM_COLUMNS)
_BETWEEN = np.arange(COLUMN_TO_COLUMN, FOUNDATION_TO_COLUMN)
_SOURCES, _TARGETS = MOVE_TABLE[_BETWEEN, 1].astype(int), MOVE_TABLE[_BETWEEN, 3].astype(int)
assert (MOVE_TABLE[_BETWEEN, 0] == COLUMN).all()

# Priorities of the kinds of moves, spaced to leave room for the order within each kind.
_TO_FOUNDATION, _JOIN, _FROM_WASTE, _DRAW = 4000, 2000, 1000, 500


class GreedyPlayer(Player):
    """Makes the first move available, in the order of the app's double click.

    1. A card to a foundation: from the leftmost column possible, else from the waste.
    2. A column's top card, unless it is already on the next higher card of its suit, to the longest
       column whose top card is that; from the shortest column first.
    3. The waste card to the longest column that accepts it, else to the leftmost empty one.
    4. A draw.
    5. If nothing else is possible: the legal action with the smallest id.

    It uses no randomness.
    """

    name = "greedy"
    batch = 256

    def act(self, seats: np.ndarray, observation: Any, mask: np.ndarray) -> np.ndarray:
        """Choose an action for each seat; see :meth:`Player.act`."""
        columns = observation["columns"].astype(np.int64)
        heights = (columns != 0).sum(axis=2)
        top = np.take_along_axis(columns, np.maximum(heights - 1, 0)[:, :, None], axis=2)[:, :, 0]
        under = np.take_along_axis(columns, np.maximum(heights - 2, 0)[:, :, None], axis=2)[:, :, 0]
        in_suit = (heights >= 2) & (under == top + 1) & (top % NUM_RANKS != 0)

        priority = np.tile(-np.arange(mask.shape[1]), (len(seats), 1))
        priority[:, COLUMN_TO_FOUNDATION + _COLUMNS] = _TO_FOUNDATION - _COLUMNS
        priority[:, WASTE_TO_FOUNDATION] = _TO_FOUNDATION - NUM_COLUMNS
        joins = (heights[:, _TARGETS] > 0) & ~in_suit[:, _SOURCES]
        order = (MAX_COLUMN + 1) * (MAX_COLUMN - heights[:, _SOURCES]) + heights[:, _TARGETS]
        priority[:, _BETWEEN] = np.where(joins, _JOIN + order, priority[:, _BETWEEN])
        priority[:, WASTE_TO_COLUMN + _COLUMNS] = (
            _FROM_WASTE + NUM_COLUMNS * heights + NUM_COLUMNS - _COLUMNS
        )
        priority[:, DRAW] = _DRAW
        return np.where(mask != 0, priority, np.iinfo(np.int64).min).argmax(axis=1)
