"""The table network's layout: the rows of its table, its inputs, and the order of its scores.

The plain network (:mod:`agents.networks.table`) and its compiled passes
(:mod:`agents.networks.kernels`) share these numbers.

A card is embedded as the sum of five rows of one table:

* its id, 0 for no card;
* its distance to its suit's lower foundation, and its distance to the higher one. A distance is
  rank - height, -13..12; one more row stands for "no card";
* the place of the next higher card of its suit, and that of the next lower one.

A column is embedded by three rows: its height, how many cards lie above the nearest card that a
foundation takes next (with an extra row if the column has no such card), and how many of its cards
lie above a lower one of their suit.

The place of a card is one of 20, 4 * column + elsewhere, for the nearer of its two copies.
``column`` is 0 if it is in no column, else 1 + the number of cards on top of it, at most 4.
``elsewhere`` is 1 if it is the waste's top, 2 if it is under at most WASTE_DEPTH - 1 cards of the
waste, 3 if it is unseen, else 0. There are two more places: for a neighbour that does not exist (a
king has no next higher card), and for the neighbours of "no card".
"""

from __future__ import annotations

import numpy as np

from qv_env.actions import COLUMN, FOUNDATION, MOVES, NUM_COLUMNS, NUM_FOUNDATIONS, STOCK, WASTE
from qv_env.cards import NUM_KINDS, NUM_RANKS, NUM_SUITS
from qv_env.rules import CARDS_PER_COLUMN, MAX_COLUMN

# Places of a card.
PLACES_IN_COLUMNS = 5
PLACES_ELSEWHERE = 4
ON_TOP, NEAR_TOP, UNSEEN = 1, 2, 3
NO_NEIGHBOUR = PLACES_IN_COLUMNS * PLACES_ELSEWHERE  # the neighbour does not exist
NO_CARD = NO_NEIGHBOUR + 1  # the neighbour of "no card"
NEIGHBOURS = NO_NEIGHBOUR + 2
WASTE_DEPTH = 4  # with `memory`: how many cards under the waste's top are read

# Offsets of the rows of each kind; those of card ids begin at 0.
DISTANCES = 2 * NUM_RANKS + 1
LOWER = NUM_KINDS + 1
HIGHER = LOWER + DISTANCES
ABOVE = HIGHER + DISTANCES
BELOW = ABOVE + NEIGHBOURS
HEIGHT = BELOW + NEIGHBOURS
WANTED = HEIGHT + MAX_COLUMN + 1
OVER = WANTED + MAX_COLUMN + 1
ROWS = OVER + MAX_COLUMN

# Inputs from columns and piles.
CARD_ROWS = 5
WHOLE_ROWS = 3  # rows for a column as a whole
CARDS_READ = CARDS_PER_COLUMN + 1  # cards read from a column: the first four, and the top card
SLOTS = CARDS_READ + 1  # these cards, and the column as a whole
PILES = 1 + NUM_FOUNDATIONS  # waste and foundations

# The numbers among the context's features, in this order: heights of the four lower foundations,
# one a suit, and of the four higher ones, / 13; sizes of waste and stock, / 64; suit by suit, for
# the next card of the lower foundation and then of the higher one, how near it is in the columns
# and in the waste (1 on top, 1/2 under one card, 0 if it is not there), and 1 if it is in neither;
# the number of empty columns, / 3, and 1 if there is one; cards of the waste above a lower one of
# their suit, / 16. Then, with `memory`, the copies of each card that are unseen.
NUMBERS = 2 * NUM_SUITS + 2 + 3 * 2 * NUM_SUITS + 3

# Moves go from a source (waste, columns, foundations) to a target (columns, then "foundation").
SOURCES = 1 + NUM_COLUMNS + NUM_FOUNDATIONS
TARGETS = NUM_COLUMNS + 1

ILLEGAL_LOGIT = -1e8  # the logit of an illegal action: its probability is exactly 0


def _next_higher() -> np.ndarray:
    following = np.arange(1, NUM_KINDS + 2, dtype=np.uint8)
    following[NUM_RANKS::NUM_RANKS] = NUM_KINDS + 1
    following[0] = NUM_KINDS + 2
    return following


def _next_lower() -> np.ndarray:
    following = np.arange(-1, NUM_KINDS).astype(np.uint8)
    following[1::NUM_RANKS] = NUM_KINDS + 1
    following[0] = NUM_KINDS + 2
    return following


# Tables by card id (0: no card), uint8 (53,): the suit (4 for no card); the ids of the next higher
# and the next lower card of the suit, 53 if there is no such card, 54 for neighbours of "no card".
SUIT_OF = np.append(np.uint8(NUM_SUITS), np.arange(NUM_KINDS, dtype=np.uint8) // NUM_RANKS)
NEXT_HIGHER = _next_higher()
NEXT_LOWER = _next_lower()


def pair_table() -> np.ndarray:
    """For each action, its index in [draw, sources x targets]: int64 (192,).

    Sources are the waste, the columns, the foundations; targets the columns, then "foundation".
    """
    first = {WASTE: 0, COLUMN: 1, FOUNDATION: 1 + NUM_COLUMNS}
    places = []
    for move in MOVES:
        if move.source == STOCK:
            places.append(0)
            continue
        source = first[move.source] + move.source_index
        target = NUM_COLUMNS if move.target == FOUNDATION else move.target_index
        places.append(1 + source * TARGETS + target)
    return np.array(places, dtype=np.int64)
