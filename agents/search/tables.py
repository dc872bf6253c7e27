"""Tables shared by the searches: sets of cards, random words for hashing, hash tables.

A set of cards is a 64-bit word, in which bit i stands for card id i. A position's hash combines
random words, one for each card in each place; ``stage.position_key`` and the solver's ``beam``
combine them in the same way.
"""

from __future__ import annotations

import numpy as np

from qv_env.cards import NUM_KINDS, NUM_RANKS, NUM_SUITS
from qv_env.compiling import inlined
from qv_env.rules import MAX_COLUMN, STOCK_CARDS

# ----------------------------------------------------------------------------------- card sets

NO_CARDS = np.uint64(0)
FAR = 255  # the depth of a card that is in no column and not in the waste: more than any depth
_NEAR = 2  # how many cards of a suit are near: the next ones to go on its lower foundation

# By card id: the card alone, and the lower cards of its suit.
CARD = np.array([0] + [1 << i for i in range(1, NUM_KINDS + 1)], dtype=np.uint64)
LOWER = np.zeros(NUM_KINDS + 1, dtype=np.uint64)
# By suit and height of its lower foundation: the cards of the suit that are near, and lower ones.
NEAR_OR_UP = np.zeros((NUM_SUITS, NUM_RANKS + 1), dtype=np.uint64)
for _s in range(NUM_SUITS):
    _suit = CARD[1 + _s * NUM_RANKS :]
    for _r in range(NUM_RANKS):
        LOWER[1 + _s * NUM_RANKS + _r] = _suit[:_r].sum()
    for _h in range(NUM_RANKS + 1):
        NEAR_OR_UP[_s, _h] = _suit[: min(_h + _NEAR, NUM_RANKS)].sum()
KINGS = CARD[NUM_RANKS::NUM_RANKS].sum()

# -------------------------------------------------------------------------------------- hashes

_rng = np.random.Generator(np.random.PCG64(0x51_56))
# By place (counted from the bottom) and card id.
IN_COLUMN = _rng.integers(0, 1 << 64, (MAX_COLUMN, NUM_KINDS + 1), dtype=np.uint64)
IN_WASTE = _rng.integers(0, 1 << 64, (STOCK_CARDS, NUM_KINDS + 1), dtype=np.uint64)
# By suit, height of its lower foundation, and height of the higher one.
ON_FOUNDATIONS = _rng.integers(
    0, 1 << 64, (NUM_SUITS, NUM_RANKS + 1, NUM_RANKS + 1), dtype=np.uint64
)
# By number of cards left.
STOCK_LEFT = _rng.integers(0, 1 << 64, STOCK_CARDS + 1, dtype=np.uint64)


@inlined
def is_new(key: np.uint64, seen: np.ndarray) -> bool:
    """Add a key to a table; return whether it was not there before.

    Args:
        key: Any word but 0.
        seen: uint64, a power of two long: a hash table with linear probing; 0 marks a free slot. It
            must not be full.
    """
    last = np.uint64(seen.size - 1)
    at = key & last
    while seen[at] != np.uint64(0):
        if seen[at] == key:
            return False
        at = (at + np.uint64(1)) & last
    seen[at] = key
    return True


@inlined
def is_known(key: np.uint64, seen: np.ndarray) -> bool:
    """Return whether a key is in a table that is filled by ``is_new``."""
    last = np.uint64(seen.size - 1)
    at = key & last
    while seen[at] != np.uint64(0):
        if seen[at] == key:
            return True
        at = (at + np.uint64(1)) & last
    return False
