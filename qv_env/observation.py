"""What a player may see, as arrays.

``observation="cards"`` is a Dict of uint8 arrays of card ids and counts. ``"onehot"`` is the same
information as one flat binary vector, which consists of these sections in this order:

==============================  =====================  ========================================
section                         bits                   one bit set for
==============================  =====================  ========================================
each column, left to right      4 x 52 + 52 + 17       its four bottom cards (bottom first), its
                                                       top card, its height 0..16
foundations, left to right      8 x 14                 the number of cards on each, 0..13
waste top                       52                     the card
waste size, stock size          65 + 65                the number of cards, 0..64
waste (``memory``)              64 x 52                each card, bottom first
unseen (``memory``)             52 x 2                 at least one, at least two copies unseen
stock (``stock_visible``)       64 x 52                each card, next card first
==============================  =====================  ========================================

A place without a card has no bit set. The four bottom cards, the top card and the height determine
a whole column, since from the fifth card on it descends in suit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from gymnasium import spaces

from qv_env.actions import (
    COLUMN,
    MOVE_TABLE,
    NUM_COLUMNS,
    NUM_FOUNDATIONS,
    STOCK,
    WASTE,
)
from qv_env.cards import COPIES, NUM_KINDS, NUM_RANKS
from qv_env.compiling import compiled, inlined
from qv_env.rules import (
    CARDS_PER_COLUMN,
    MAX_COLUMN,
    NO_CARD,
    STATE,
    STOCK_CARDS,
    Game,
    column_top,
    count_unseen,
    waste_top,
)

OBSERVATIONS = ("cards", "onehot")

# The contents of an observation, as bits of the flags that compiled code takes.
ONEHOT, MEMORY, STOCK_VISIBLE = 1, 2, 4


class Field(NamedTuple):
    """One key of the ``cards`` observation: its name, shape and largest value."""

    name: str
    shape: tuple[int, ...]
    high: int

    @property
    def size(self) -> int:
        """Number of bytes."""
        return int(np.prod(self.shape))


_BASE_FIELDS = (
    Field("columns", (NUM_COLUMNS, MAX_COLUMN), NUM_KINDS),
    Field("foundations", (NUM_FOUNDATIONS,), NUM_RANKS),
    Field("waste_top", (1,), NUM_KINDS),
    Field("waste_size", (1,), STOCK_CARDS),
    Field("stock_size", (1,), STOCK_CARDS),
)
_MEMORY_FIELDS = (
    Field("waste", (STOCK_CARDS,), NUM_KINDS),
    Field("unseen", (NUM_KINDS,), COPIES),
)
_STOCK_FIELDS = (Field("stock", (STOCK_CARDS,), NUM_KINDS),)

_COLUMN_BITS = (CARDS_PER_COLUMN + 1) * NUM_KINDS + MAX_COLUMN + 1
_BASE_BITS = (
    NUM_COLUMNS * _COLUMN_BITS
    + NUM_FOUNDATIONS * (NUM_RANKS + 1)
    + NUM_KINDS
    + 2 * (STOCK_CARDS + 1)
)
_PILE_BITS = STOCK_CARDS * NUM_KINDS


# Offsets in a row of the `cards` observation.
_FOUNDATIONS_AT = NUM_COLUMNS * MAX_COLUMN
_WASTE_TOP_AT = _FOUNDATIONS_AT + NUM_FOUNDATIONS
_WASTE_SIZE_AT = _WASTE_TOP_AT + 1
_STOCK_SIZE_AT = _WASTE_SIZE_AT + 1
_EXTRAS_AT = _STOCK_SIZE_AT + 1  # memory's fields, then the stock


_COLUMNS_SHAPE = (NUM_COLUMNS, MAX_COLUMN)


class Encoding:
    """One variant of the observation: its space, and its layout in a row of bytes.

    An observation is written to one row of uint8; the arrays that users get are views of that row.

    Args:
        observation: ``"cards"`` or ``"onehot"``.
        memory: Whether the whole waste and the unseen cards are added.
        stock_visible: Whether the stock's order is added.

    Attributes:
        flags: ONEHOT | MEMORY | STOCK_VISIBLE, for ``encode``.
        size: Bytes of a row.
        space: The observation space of one environment.

    Raises:
        ValueError: ``observation`` is neither ``"cards"`` nor ``"onehot"``.
    """

    def __init__(self, observation: str, memory: bool, stock_visible: bool) -> None:
        if observation not in OBSERVATIONS:
            raise ValueError(f"observation is one of {OBSERVATIONS}, not {observation!r}")
        self.flags = (
            ONEHOT * (observation == "onehot") | MEMORY * memory | STOCK_VISIBLE * stock_visible
        )
        self.fields: tuple[Field, ...] = ()
        self.space: spaces.Space
        if self.flags & ONEHOT:
            self.size = (
                _BASE_BITS
                + (_PILE_BITS + COPIES * NUM_KINDS) * bool(memory)
                + _PILE_BITS * bool(stock_visible)
            )
            self.space = spaces.Box(0, 1, (self.size,), np.uint8)
            return
        self.fields = (
            _BASE_FIELDS + _MEMORY_FIELDS * bool(memory) + _STOCK_FIELDS * bool(stock_visible)
        )
        ends = np.cumsum([field.size for field in self.fields]).tolist()
        self.size = ends[-1]
        self._parts = [
            (field.name, slice(end - field.size, end))
            for field, end in zip(self.fields[1:], ends[1:], strict=True)
        ]
        self.space = spaces.Dict(
            {f.name: spaces.Box(0, f.high, f.shape, np.uint8) for f in self.fields}
        )

    def view(self, row: np.ndarray) -> np.ndarray | dict[str, np.ndarray]:
        """Return the observation in one row (uint8 (size,)), without copying.

        The result is that of ``views``, in half the time, which matters in a single step.
        """
        if not self.fields:
            return row
        observation = {"columns": row[:_FOUNDATIONS_AT].reshape(_COLUMNS_SHAPE)}
        for name, part in self._parts:
            observation[name] = row[part]
        return observation

    def views(self, rows: np.ndarray) -> np.ndarray | dict[str, np.ndarray]:
        """Return the observation in one row or several, without copying.

        Args:
            rows: uint8 (size,) for one environment, or (n, size) for n.
        """
        if not self.fields:
            return rows
        columns = rows[..., :_FOUNDATIONS_AT]
        observation = {"columns": columns.reshape(*rows.shape[:-1], NUM_COLUMNS, MAX_COLUMN)}
        for name, part in self._parts:  # all the others have one dimension
            observation[name] = rows[..., part]
        return observation


@compiled
def encode(game: Game, flags: int, row: np.ndarray) -> None:
    """Write what a player may see of a game into a row.

    Args:
        game: A record of STATE.
        flags: ONEHOT | MEMORY | STOCK_VISIBLE.
        row: uint8, of the variant's size; overwritten.
    """
    if flags & ONEHOT:
        _encode_onehot(game, flags, row)
        return
    for c in range(NUM_COLUMNS):
        for k in range(MAX_COLUMN):
            row[c * MAX_COLUMN + k] = game["columns"][c, k]
    _encode_piles(game, row)
    at = _EXTRAS_AT
    if flags & MEMORY:
        for k in range(STOCK_CARDS):
            row[at + k] = game["waste"][k]
        at += STOCK_CARDS
        count_unseen(game, row[at : at + NUM_KINDS])
        at += NUM_KINDS
    if flags & STOCK_VISIBLE:
        _encode_stock(game, row, at)


# Counts are converted to np.int64 before index arithmetic: in plain Python, NumPy's uint8 would
# wrap around or overflow, where compiled code widens it.


@inlined
def encode_move(game: Game, action: int, flags: int, row: np.ndarray) -> None:
    """Update a row after a move: the result is that of ``encode``, but only changes are written.

    Args:
        game: A record of STATE, in which the move was just made.
        action: The move.
        flags: ONEHOT | MEMORY | STOCK_VISIBLE.
        row: uint8, the observation before the move; updated in place.
    """
    if flags & ONEHOT:
        _encode_onehot(game, flags, row)
        return
    # All places that a move may have changed are copied: branching on those that did change would
    # cost branch mispredictions. If no column is concerned, column 0 is copied.
    source, target = MOVE_TABLE[action, 0], MOVE_TABLE[action, 2]
    left = int(MOVE_TABLE[action, 1]) if source == COLUMN else 0
    joined = int(MOVE_TABLE[action, 3]) if target == COLUMN else 0
    above_left = min(int(game["heights"][left]), MAX_COLUMN - 1)
    top_joined = max(int(game["heights"][joined]) - 1, 0)
    row[left * MAX_COLUMN + above_left] = game["columns"][left, above_left]
    row[joined * MAX_COLUMN + top_joined] = game["columns"][joined, top_joined]
    _encode_piles(game, row)
    if flags and source in (WASTE, STOCK):
        size = np.int64(game["waste_size"])
        at = _EXTRAS_AT
        if flags & MEMORY:
            if source == STOCK:
                row[at + size - 1] = waste_top(game)
                row[at + STOCK_CARDS + np.int64(waste_top(game)) - 1] -= 1
            else:
                row[at + size] = NO_CARD
            at += STOCK_CARDS + NUM_KINDS
        if flags & STOCK_VISIBLE and source == STOCK:
            _encode_stock(game, row, at)


@inlined
def _encode_piles(game: Game, row: np.ndarray) -> None:
    for f in range(NUM_FOUNDATIONS):
        row[_FOUNDATIONS_AT + f] = game["foundations"][f]
    row[_WASTE_TOP_AT] = waste_top(game)
    row[_WASTE_SIZE_AT] = game["waste_size"]
    row[_STOCK_SIZE_AT] = game["stock_size"]


@compiled
def _encode_stock(game: Game, row: np.ndarray, at: int) -> None:
    size = np.int64(game["stock_size"])
    for k in range(STOCK_CARDS):
        row[at + k] = game["stock"][size - 1 - k] if k < size else NO_CARD


@compiled
def _set_card(row: np.ndarray, at: int, card_id: int) -> None:
    if card_id != NO_CARD:
        row[at + np.int64(card_id) - 1] = 1


@compiled
def _encode_onehot(game: Game, flags: int, row: np.ndarray) -> None:
    row[:] = 0
    at = 0
    for c in range(NUM_COLUMNS):
        for k in range(CARDS_PER_COLUMN):
            _set_card(row, at, game["columns"][c, k])
            at += NUM_KINDS
        _set_card(row, at, column_top(game, c))
        at += NUM_KINDS
        row[at + np.int64(game["heights"][c])] = 1
        at += MAX_COLUMN + 1
    for f in range(NUM_FOUNDATIONS):
        row[at + np.int64(game["foundations"][f])] = 1
        at += NUM_RANKS + 1
    _set_card(row, at, waste_top(game))
    at += NUM_KINDS
    row[at + np.int64(game["waste_size"])] = 1
    at += STOCK_CARDS + 1
    row[at + np.int64(game["stock_size"])] = 1
    at += STOCK_CARDS + 1
    if flags & MEMORY:
        for k in range(STOCK_CARDS):
            _set_card(row, at, game["waste"][k])
            at += NUM_KINDS
        unseen = np.empty(NUM_KINDS, dtype=np.uint8)
        count_unseen(game, unseen)
        for card in range(NUM_KINDS):
            for copy in range(unseen[card]):
                row[at + copy] = 1
            at += COPIES
    if flags & STOCK_VISIBLE:
        for k in range(game["stock_size"]):
            _set_card(row, at, game["stock"][game["stock_size"] - 1 - k])
            at += NUM_KINDS


def visible_states(observation: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the games that ``cards`` observations show, for players that search with the rules.

    Cards that an observation does not show are 0 ("no card"): the stock, unless it is visible, and,
    without ``memory``, the waste below its top card. Score and move counter are 0. Such a game can
    be played with ``qv_env.rules`` as long as no draw is made and no unknown card is needed.

    Args:
        observation: A batch: ``columns`` (n, 10, 16), ``foundations`` (n, 8) and so on.

    Returns:
        STATE (n,).
    """
    columns = observation["columns"]
    states = np.zeros(len(columns), dtype=STATE)
    states["columns"] = columns
    states["heights"] = (columns != NO_CARD).sum(axis=-1)
    states["foundations"] = observation["foundations"]
    states["waste_size"] = observation["waste_size"][:, 0]
    states["stock_size"] = observation["stock_size"][:, 0]
    if "waste" in observation:
        states["waste"] = observation["waste"]
    else:
        shown = np.flatnonzero(states["waste_size"])
        states["waste"][shown, states["waste_size"][shown] - 1] = observation["waste_top"][shown, 0]
    if "stock" in observation:
        for k in range(STOCK_CARDS):
            left = states["stock_size"].astype(int) - 1 - k
            held = np.flatnonzero(left >= 0)
            states["stock"][held, left[held]] = observation["stock"][held, k]
    return states
