"""The rules of Quarante Voleurs: the state of a game, legal moves, their effects and points.

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
    If two foundations accept a card, it goes to the left one. The score never falls below 0. The
    game is won when all 104 cards are on the foundations, and stuck when no move is legal.

This module defines the rules and nothing else; everything that plays the game calls it. A game is
one record of ``STATE``, and a batch is an array of records; assigning a record copies the game.
Functions take a record (``states[i]``), and run compiled or, with ``NUMBA_DISABLE_JIT=1``, as plain
Python.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from qv_env.actions import (
    COLUMN,
    COLUMN_TO_COLUMN,
    COLUMN_TO_FOUNDATION,
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
from qv_env.compiling import compiled, inlined

# ----------------------------------------------------------------------- cards and the state

CARDS_PER_COLUMN = 4
COLUMN_CARDS = NUM_COLUMNS * CARDS_PER_COLUMN  # 40 cards are dealt to the columns
STOCK_CARDS = NUM_CARDS - COLUMN_CARDS  # 64 go to the stock
MAX_COLUMN = (
    CARDS_PER_COLUMN + NUM_RANKS - 1
)  # no column is longer than 16: three cards, then a king and its suit down to the ace

NO_CARD = 0  # states hold card ids: card + 1

POINTS_TO_FOUNDATION = 10
POINTS_WASTE_TO_COLUMN = 5
POINTS_TAKE_BACK = -15
MAX_SCORE = POINTS_TO_FOUNDATION * NUM_CARDS + POINTS_WASTE_TO_COLUMN * STOCK_CARDS  # 1360

# One game. Places without a card are 0, so equal positions have equal bytes.
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


# Indexed by a column's top card: the one card that may be put on it, of its suit and one rank
# lower; 0 for an ace.
_AWAITED_BY = np.array(
    [NO_CARD] + [NO_CARD if card % NUM_RANKS == ACE else card for card in range(NUM_KINDS)],
    dtype=np.uint8,
)


@inlined
def awaited(top: int) -> int:
    """The one card id that may be put on a column's top card (0 for an ace: none)."""
    return _AWAITED_BY[top]


@inlined
def accepting_foundation(game: Game, card_id: int) -> int:
    """The foundation that accepts a card, the left one of two, or -1 if none does."""
    suit, rank = suit_of(card_id), rank_of(card_id)
    if game["foundations"][suit] == rank:
        return suit
    if game["foundations"][suit + NUM_SUITS] == rank:
        return suit + NUM_SUITS
    return -1


# The reasons for refusing a move, as indices of REFUSALS.
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
    """The rule that refuses an action (an index of REFUSALS), or 0 if the action is legal.

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

# The same rules for all actions at once, with bit sets in 64-bit words, so that the time taken does
# not depend on which actions are legal. There are sets of columns (bit c: column c), of cards (bit
# i: card id i) and of actions (three words; action a is bit a % 64 of word a // 64).
_NO_BITS = np.uint64(0)
_BIT = np.uint64(1)
_WORD = 64
_BYTE = np.uint64(255)
_MASK_WORDS = NUM_ACTIONS // 8
_BEFORE_TAKE_BACKS = (_BIT << np.uint64(FOUNDATION_TO_COLUMN - _WORD)) - _BIT  # in the middle word

# Indexed by foundation and height: the id of the top card, and the bit of the next card it accepts.
_FOUNDATION_TOP = np.zeros((NUM_FOUNDATIONS, NUM_RANKS + 1), dtype=np.uint8)
_FOUNDATION_AWAITS = np.zeros((NUM_FOUNDATIONS, NUM_RANKS + 1), dtype=np.uint64)
for _f in range(NUM_FOUNDATIONS):
    _ids = 1 + _f % NUM_SUITS * NUM_RANKS + np.arange(NUM_RANKS, dtype=np.uint64)
    _FOUNDATION_TOP[_f, 1:] = _ids
    _FOUNDATION_AWAITS[_f, :-1] = _BIT << _ids

# Maps eight bits to the eight bytes of a mask word, on machines of either byte order.
_SPREAD = (
    np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little")
    .view(np.uint64)
    .ravel()
)

# The workspace of `write_legal_actions`: for each card id the columns that await the card, then the
# top card of each column. All zeros between calls.
_TOPS_AT = NUM_KINDS + 1
WORK_SIZE = _TOPS_AT + NUM_COLUMNS


@inlined
def _accepting_columns(card_id: int, awaiting: np.ndarray, empty: np.uint64) -> np.uint64:
    """The set of columns that accept a card: those that await it, and the empty ones."""
    return awaiting[card_id] | (empty if card_id != NO_CARD else _NO_BITS)


@inlined
def _spread(bits: np.uint64, mask_words: np.ndarray, at: int, size: int) -> None:
    """Write bits as the bytes of mask words at..at + size - 1."""
    for k in range(size):
        mask_words[at + k] = _SPREAD[(bits >> np.uint64(8 * k)) & _BYTE]


@inlined
def _is_awaited(card_id: int, cards: np.uint64) -> np.uint64:
    """Whether a card is in a set of cards: 0 or 1."""
    return (cards >> np.uint64(card_id)) & _BIT


@inlined
def write_legal_actions(game: Game, mask_words: np.ndarray, work: np.ndarray) -> int:
    """Do what ``legal_actions`` does, with a workspace that the caller provides.

    Args:
        game: A record of STATE.
        mask_words: The mask as uint64 (24,), or (14,) if take-backs are not allowed.
        work: uint64 (WORK_SIZE,), all zeros before and after.
    """
    on_foundations = _NO_BITS  # the cards that foundations await
    for f in range(NUM_FOUNDATIONS):
        on_foundations |= _FOUNDATION_AWAITS[f, game["foundations"][f]]
    empty = _NO_BITS  # the columns that take any card
    for c in range(NUM_COLUMNS):
        top = column_top(game, c)
        work[_TOPS_AT + c] = top
        work[awaited(top)] |= _BIT << np.uint64(c)
        empty |= np.uint64(top == NO_CARD) << np.uint64(c)
    work[NO_CARD] = 0  # set by empty columns and by columns whose top card is an ace

    low = np.uint64(game["stock_size"] > 0)  # the words of actions
    middle = _NO_BITS
    high = _NO_BITS

    card_id = waste_top(game)
    low |= _accepting_columns(card_id, work, empty) << np.uint64(WASTE_TO_COLUMN)
    low |= _is_awaited(card_id, on_foundations) << np.uint64(WASTE_TO_FOUNDATION)

    for s in range(NUM_COLUMNS):
        card_id = work[_TOPS_AT + s]
        low |= _is_awaited(card_id, on_foundations) << np.uint64(COLUMN_TO_FOUNDATION + s)
        columns = _accepting_columns(card_id, work, empty)
        left = columns & ((_BIT << np.uint64(s)) - _BIT)
        row = left | ((columns ^ left) >> _BIT)  # a column's row leaves out the column itself
        at = COLUMN_TO_COLUMN + (NUM_COLUMNS - 1) * s
        if at < _WORD:
            low |= row << np.uint64(at)
            if at > _WORD - NUM_COLUMNS:
                middle |= row >> np.uint64(_WORD - at)
        else:
            middle |= row << np.uint64(at - _WORD)

    for f in range(NUM_FOUNDATIONS):
        card_id = _FOUNDATION_TOP[f, game["foundations"][f]]
        row = _accepting_columns(card_id, work, empty)
        at = FOUNDATION_TO_COLUMN + NUM_COLUMNS * f
        if at < 2 * _WORD:
            middle |= row << np.uint64(at - _WORD)
            if at > 2 * _WORD - NUM_COLUMNS:
                high |= row >> np.uint64(2 * _WORD - at)
        else:
            high |= row << np.uint64(at - 2 * _WORD)

    for c in range(NUM_COLUMNS):
        work[awaited(work[_TOPS_AT + c])] = 0
        work[_TOPS_AT + c] = 0

    _spread(low, mask_words, 0, 8)
    if mask_words.size == _MASK_WORDS:
        _spread(middle, mask_words, 8, 8)
        _spread(high, mask_words, 16, 8)
    else:  # without take-backs, which are the last actions
        middle &= _BEFORE_TAKE_BACKS
        high = _NO_BITS
        _spread(middle, mask_words, 8, 6)
    return count_bits(low) + count_bits(middle) + count_bits(high)


@inlined
def count_bits(word: np.uint64) -> int:
    """How many bits of a word are set (compilers recognize this form as one instruction)."""
    word -= (word >> _BIT) & np.uint64(0x5555555555555555)
    twos = np.uint64(0x3333333333333333)
    word = (word & twos) + ((word >> np.uint64(2)) & twos)
    word = (word + (word >> np.uint64(4))) & np.uint64(0x0F0F0F0F0F0F0F0F)
    return int((word * np.uint64(0x0101010101010101)) >> np.uint64(56))


@compiled
def legal_actions(game: Game, mask: np.ndarray) -> int:
    """Write the mask of legal actions and return how many there are.

    Args:
        game: A record of STATE.
        mask: int8 (192,), or (112,) if take-backs are not allowed: 1 for legal actions, else 0.
    """
    return write_legal_actions(game, mask.view(np.uint64), np.zeros(WORK_SIZE, dtype=np.uint64))


# ------------------------------------------------------------------------------- making a move


@inlined
def play(game: Game, action: int) -> int:
    """Make a legal move and return the change of the score.

    The caller must have checked that the move is legal (``refusal`` returns 0).

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
        Which rule refused the action (an index of REFUSALS; 0 if none did), and the change of the
        score.
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
    """Write how many copies of each card are not in any face-up pile.

    Only the face-up piles are read, never the stock.

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
    """Return a new game with a given deck, as an array of one record: STATE (1,).

    Args:
        deck: uint8 (104,), cards 0..51 in the order in which they are dealt.
    """
    states = np.zeros(1, dtype=STATE)
    deal_cards(states[0], deck)
    return states


def determinize(states: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Return a copy of games with the unseen cards of each in a new random order.

    The copy never depends on the hidden order: the unseen cards are counted from the face-up piles,
    sorted, and shuffled. So a planner that searches the copy cannot see the stock.

    Args:
        states: STATE (n,) or one record.
        rng: The generator that shuffles the cards.
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
