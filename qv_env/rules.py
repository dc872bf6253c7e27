"""The rules of Quarante Voleurs: the state of a game, what is legal, what it does, what it scores.

The game
    Two packs, 104 cards. Ten columns of four cards, all face up; 64 cards face down in the stock;
    an empty waste; eight empty foundations with fixed suits, left to right spades, hearts,
    diamonds, clubs, spades, hearts, diamonds, clubs. One card moves at a time:

    ==================================  =============================================  ======
    move                                legal when                                     points
    ==================================  =============================================  ======
    draw: stock to waste                the stock is not empty                              0
    waste or column to a foundation     its suit, and the next rank from ace to king      +10
    waste to a column                   the column is empty, or its top card is of         +5
                                        the same suit and exactly one rank higher
    column to another column            the same condition                                  0
    foundation back to a column         the same condition                                -15
    ==================================  =============================================  ======

    Nothing goes on an ace in a column; an empty column takes any card; the stock is dealt once.
    Of two foundations that both accept a card, the left one gets it. The score never falls
    below 0. The game is won when all 104 cards are on the foundations, and stuck when no move is
    legal.

This module owns those rules and nothing else; everything that plays the game calls it. A game is
one record of ``STATE``; an array of records is a batch; a copy is an assignment. Functions take a
record (``states[i]``), and run compiled or, with ``NUMBA_DISABLE_JIT=1``, as plain Python.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from qv_env._jit import compiled, inlined
from qv_env.actions import (
    COLUMN,
    COLUMN_TO_COLUMN,
    COLUMN_TO_FOUNDATION,
    DRAW,
    FOUNDATION,
    FOUNDATION_TO_COLUMN,
    MOVE_TABLE,
    NUM_ACTIONS,
    NUM_COLUMNS,
    NUM_FOUNDATIONS,
    STOCK,
    WASTE,
    WASTE_TO_COLUMN,
    WASTE_TO_FOUNDATION,
)
from qv_env.cards import ACE, COPIES, NUM_CARDS, NUM_KINDS, NUM_RANKS, NUM_SUITS

# ------------------------------------------------------------------------------- the material

CARDS_PER_COLUMN = 4
COLUMN_CARDS = NUM_COLUMNS * CARDS_PER_COLUMN  # 40 cards are dealt to the columns
STOCK_CARDS = NUM_CARDS - COLUMN_CARDS  # 64 to the stock
MAX_COLUMN = (
    CARDS_PER_COLUMN + NUM_RANKS - 1
)  # no column grows beyond 16: king down to ace on three

NO_CARD = 0  # states hold card ids: card + 1

POINTS_TO_FOUNDATION = 10
POINTS_WASTE_TO_COLUMN = 5
POINTS_TAKE_BACK = -15
MAX_SCORE = POINTS_TO_FOUNDATION * NUM_CARDS + POINTS_WASTE_TO_COLUMN * STOCK_CARDS  # 1360

# One game. Places that hold no card are 0, so equal positions are equal bytes.
STATE = np.dtype(
    [
        ("score", "<i4"),
        ("moves", "<i4"),  # moves made, draws included
        ("columns", "u1", (NUM_COLUMNS, MAX_COLUMN)),  # card ids, bottom card first
        ("heights", "u1", (NUM_COLUMNS,)),  # cards in each column
        ("foundations", "u1", (NUM_FOUNDATIONS,)),  # cards on each foundation, 0..13
        ("waste_size", "u1"),
        ("stock_size", "u1"),
        ("waste", "u1", (STOCK_CARDS,)),  # card ids, bottom card first
        ("stock", "u1", (STOCK_CARDS,)),  # card ids, bottom card first: the next one drawn is last
    ]
)

Game: TypeAlias = Any  # a record of STATE


@inlined
def suit_of(card_id: int) -> int:
    """The suit (0..3) of a card id (1..52)."""
    return (card_id - 1) // NUM_RANKS


@inlined
def rank_of(card_id: int) -> int:
    """The rank (0 ace .. 12 king) of a card id (1..52)."""
    return (card_id - 1) % NUM_RANKS


@compiled
def deal_cards(game: Game, deck: np.ndarray) -> None:
    """Lay out a deck (uint8 (104,), cards 0..51) as a new game: columns row by row, then stock."""
    game["score"] = 0
    game["moves"] = 0
    for c in range(NUM_COLUMNS):
        for row in range(CARDS_PER_COLUMN):
            game["columns"][c, row] = deck[row * NUM_COLUMNS + c] + 1
        for row in range(CARDS_PER_COLUMN, MAX_COLUMN):
            game["columns"][c, row] = NO_CARD
        game["heights"][c] = CARDS_PER_COLUMN
    for f in range(NUM_FOUNDATIONS):
        game["foundations"][f] = 0
    for k in range(STOCK_CARDS):
        game["waste"][k] = NO_CARD
        game["stock"][STOCK_CARDS - 1 - k] = deck[COLUMN_CARDS + k] + 1
    game["waste_size"] = 0
    game["stock_size"] = STOCK_CARDS


# -------------------------------------------------------------------------- which card may move


@inlined
def column_top(game: Game, c: int) -> int:
    """The id of column c's top card, or 0."""
    height = game["heights"][c]
    return game["columns"][c, height - 1] if height > 0 else NO_CARD


@inlined
def waste_top(game: Game) -> int:
    """The id of the waste's top card, or 0."""
    size = game["waste_size"]
    return game["waste"][size - 1] if size > 0 else NO_CARD


@inlined
def foundation_top(game: Game, f: int) -> int:
    """The id of foundation f's top card, or 0."""
    height = game["foundations"][f]
    return (f % NUM_SUITS) * NUM_RANKS + height if height > 0 else NO_CARD


@inlined
def top_card(game: Game, kind: int, index: int) -> int:
    """The id of the card that would leave a pile (0: the pile is empty)."""
    if kind == COLUMN:
        return column_top(game, index)
    if kind == WASTE:
        return waste_top(game)
    if kind == FOUNDATION:
        return foundation_top(game, index)
    size = game["stock_size"]
    return game["stock"][size - 1] if size > 0 else NO_CARD


# ---------------------------------------------------------------------------- where it may go


# By a column's top card: the one card that goes on it, of its suit and one rank lower. Nothing
# goes on an ace.
_AWAITED_BY = np.array(
    [NO_CARD] + [NO_CARD if card % NUM_RANKS == ACE else card for card in range(NUM_KINDS)],
    dtype=np.uint8,
)


@inlined
def awaited(top: int) -> int:
    """The one card id that goes on a column's top card (0 on an ace: nothing does)."""
    return _AWAITED_BY[top]


@inlined
def accepting_foundation(game: Game, card_id: int) -> int:
    """The foundation that a card goes to, the left one of two, or -1 where none accepts it."""
    suit, rank = suit_of(card_id), rank_of(card_id)
    if game["foundations"][suit] == rank:
        return suit
    if game["foundations"][suit + NUM_SUITS] == rank:
        return suit + NUM_SUITS
    return -1


# Why a move is refused, as indices of REFUSALS.
LEGAL, STOCK_EMPTY, NOTHING_TO_MOVE, NOT_NEXT_ON_FOUNDATION, NOT_NEXT_IN_COLUMN, ON_AN_ACE = range(
    6
)

REFUSALS = (
    "",
    "the stock is empty and is not dealt again",
    "there is no card to move: that pile is empty",
    "a foundation takes the next card of its suit only, from the ace up to the king",
    "a column takes a card of its top card's suit only, exactly one rank lower",
    "nothing can be put on an ace in a column",
)


@inlined
def refusal(game: Game, action: int) -> int:
    """Which rule refuses an action (an index of REFUSALS), or 0 where it is legal.

    Args:
        game: A record of STATE.
        action: 0..191.
    """
    kind = MOVE_TABLE[action, 0]
    card_id = top_card(game, kind, MOVE_TABLE[action, 1])
    if card_id == NO_CARD:
        return STOCK_EMPTY if kind == STOCK else NOTHING_TO_MOVE
    target = MOVE_TABLE[action, 2]
    if target == WASTE:
        return LEGAL
    if target == FOUNDATION:
        return LEGAL if accepting_foundation(game, card_id) >= 0 else NOT_NEXT_ON_FOUNDATION
    top = column_top(game, MOVE_TABLE[action, 3])
    if top == NO_CARD or awaited(top) == card_id:
        return LEGAL
    return ON_AN_ACE if awaited(top) == NO_CARD else NOT_NEXT_IN_COLUMN


# ------------------------------------------------------------------- all legal actions at once

# A set of cards is one word, whose bit i stands for card id i. Most positions have few legal
# moves; whole sets tell at once which of the loops below have anything to find.
_CARD = np.array([0] + [1 << card_id for card_id in range(1, NUM_KINDS + 1)], dtype=np.uint64)
_AWAITED = _CARD[_AWAITED_BY]  # by a column's top card: the card that it awaits
_SHOWN = np.zeros((NUM_FOUNDATIONS, NUM_RANKS + 1), dtype=np.uint64)  # a foundation's top card
_NEXT = np.zeros((NUM_FOUNDATIONS, NUM_RANKS + 1), dtype=np.uint64)  # and the one that it awaits
for _f in range(NUM_FOUNDATIONS):
    _ids = 1 + (_f % NUM_SUITS) * NUM_RANKS + np.arange(NUM_RANKS)
    _SHOWN[_f, 1:] = _NEXT[_f, :-1] = _CARD[_ids]


@inlined
def _mark_columns(game: Game, card_id: int, mask: np.ndarray, first: int, source: int) -> int:
    """Mark the moves of a card to each column that accepts it; return how many there are.

    Args:
        game: A record of STATE.
        card_id: The card.
        mask: Gets the marks.
        first: The action that moves the card to column 0.
        source: The column that the card comes from, which its actions leave out; else 10.
    """
    count = 0
    for d in range(NUM_COLUMNS):
        top = column_top(game, d)
        if d != source and (top == NO_CARD or _AWAITED[top] == _CARD[card_id]):
            mask[first + (d if d < source else d - 1)] = 1
            count += 1
    return count


@inlined
def legal_actions(game: Game, mask: np.ndarray) -> int:
    """Write the mask of legal actions and return how many there are.

    Args:
        game: A record of STATE.
        mask: int8 (192,), or (112,) where take-backs are not allowed: 1 where legal, else 0.
    """
    for action in range(mask.size):
        mask[action] = 0
    count = 0
    if game["stock_size"] > 0:
        mask[DRAW] = 1
        count += 1

    tops = np.uint64(0)  # the columns' top cards
    in_columns = np.uint64(0)  # the cards that columns await
    on_foundations = np.uint64(0)  # the cards that foundations await
    shown = np.uint64(0)  # the foundations' top cards
    empty = False  # whether a column takes any card
    for c in range(NUM_COLUMNS):
        top = column_top(game, c)
        tops |= _CARD[top]
        in_columns |= _AWAITED[top]
        empty |= top == NO_CARD
    for f in range(NUM_FOUNDATIONS):
        height = game["foundations"][f]
        on_foundations |= _NEXT[f, height]
        shown |= _SHOWN[f, height]

    card_id = waste_top(game)
    if card_id != NO_CARD:
        if _CARD[card_id] & on_foundations:
            mask[WASTE_TO_FOUNDATION] = 1
            count += 1
        if empty or _CARD[card_id] & in_columns:
            count += _mark_columns(game, card_id, mask, WASTE_TO_COLUMN, NUM_COLUMNS)

    if tops & on_foundations:
        for s in range(NUM_COLUMNS):
            if _CARD[column_top(game, s)] & on_foundations:
                mask[COLUMN_TO_FOUNDATION + s] = 1
                count += 1
    if empty or tops & in_columns:
        for s in range(NUM_COLUMNS):
            card_id = column_top(game, s)
            if card_id != NO_CARD and (empty or _CARD[card_id] & in_columns):
                first = COLUMN_TO_COLUMN + (NUM_COLUMNS - 1) * s
                count += _mark_columns(game, card_id, mask, first, s)
    if mask.size == NUM_ACTIONS and (empty or shown & in_columns):
        for f in range(NUM_FOUNDATIONS):
            card_id = foundation_top(game, f)
            if card_id != NO_CARD and (empty or _CARD[card_id] & in_columns):
                first = FOUNDATION_TO_COLUMN + NUM_COLUMNS * f
                count += _mark_columns(game, card_id, mask, first, NUM_COLUMNS)
    return count


# ------------------------------------------------------------------------------- making a move


@inlined
def play(game: Game, action: int) -> int:
    """Make a legal move and return the change of the score.

    The caller has seen that the move is legal (``refusal`` gives 0).

    Args:
        game: A record of STATE; changed in place.
        action: 0..191.
    """
    source, s = MOVE_TABLE[action, 0], MOVE_TABLE[action, 1]
    target, t = MOVE_TABLE[action, 2], MOVE_TABLE[action, 3]
    card_id = top_card(game, source, s)

    if source == COLUMN:
        game["heights"][s] -= 1
        game["columns"][s, game["heights"][s]] = NO_CARD
    elif source == WASTE:
        game["waste_size"] -= 1
        game["waste"][game["waste_size"]] = NO_CARD
    elif source == STOCK:
        game["stock_size"] -= 1
        game["stock"][game["stock_size"]] = NO_CARD
    else:
        game["foundations"][s] -= 1

    if target == COLUMN:
        game["columns"][t, game["heights"][t]] = card_id
        game["heights"][t] += 1
    elif target == FOUNDATION:
        game["foundations"][accepting_foundation(game, card_id)] += 1
    else:
        game["waste"][game["waste_size"]] = card_id
        game["waste_size"] += 1

    points = 0
    if target == FOUNDATION:
        points = POINTS_TO_FOUNDATION
    elif source == WASTE:
        points = POINTS_WASTE_TO_COLUMN
    elif source == FOUNDATION:
        points = max(POINTS_TAKE_BACK, -game["score"])
    game["score"] += points
    game["moves"] += 1
    return points


@inlined
def attempt(game: Game, action: int) -> tuple[int, int]:
    """Make a move if it is legal; an illegal one changes nothing.

    Args:
        game: A record of STATE.
        action: 0..191.

    Returns:
        Which rule refused the action (an index of REFUSALS; 0 where none did), and the change of
        the score.
    """
    reason = refusal(game, action)
    if reason != LEGAL:
        return reason, 0
    return reason, play(game, action)


@inlined
def foundation_cards(game: Game) -> int:
    """How many cards are on the foundations (0..104)."""
    total = 0
    for f in range(NUM_FOUNDATIONS):
        total += game["foundations"][f]
    return total


@inlined
def is_won(game: Game) -> bool:
    """Whether all 104 cards are on the foundations."""
    return foundation_cards(game) == NUM_CARDS


# ------------------------------------------------------------------------------- hidden cards


@compiled
def count_unseen(game: Game, unseen: np.ndarray) -> None:
    """Write how many copies of each card are in no pile that lies face up.

    They are counted from what is seen alone; the order of the stock plays no part.

    Args:
        game: A record of STATE.
        unseen: uint8 (52,), by card: 0..2.
    """
    unseen[:] = COPIES
    for c in range(NUM_COLUMNS):
        for row in range(game["heights"][c]):
            unseen[game["columns"][c, row] - 1] -= 1
    for k in range(game["waste_size"]):
        unseen[game["waste"][k] - 1] -= 1
    for f in range(NUM_FOUNDATIONS):
        for rank in range(game["foundations"][f]):
            unseen[(f % NUM_SUITS) * NUM_RANKS + rank] -= 1


def new_game(deck: np.ndarray) -> np.ndarray:
    """Return a new game of a deck, as an array of one record: STATE (1,).

    Args:
        deck: uint8 (104,), cards 0..51 in the order they are dealt.
    """
    states = np.zeros(1, dtype=STATE)
    deal_cards(states[0], deck)
    return states


def determinize(states: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a copy of games with the unseen cards of each in a new random order.

    What is copied never depends on the hidden order: the unseen cards are counted from the piles
    that lie face up, sorted, and shuffled. A planner that searches the copy cannot see the stock.

    Args:
        states: STATE (n,) or one record.
        rng: Where the order is drawn from.
    """
    copies = np.array(states, dtype=STATE, ndmin=1)
    unseen = np.empty(NUM_KINDS, dtype=np.uint8)
    for i in range(len(copies)):
        game = copies[i]
        count_unseen(game, unseen)
        stock = np.repeat(np.arange(1, NUM_KINDS + 1, dtype=np.uint8), unseen)
        rng.shuffle(stock)
        game["stock"][: game["stock_size"]] = stock
    return copies
