"""Features of positions, from which searches compute the positions' values.

A position's value is a weighted sum of its ``FEATURES``. ``measure`` computes them from scratch;
``agents.search.beam`` updates most of them incrementally, move by move.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from agents.search.tables import CARD, FAR, KINGS, LOWER, NEAR_OR_UP, NO_CARDS
from qv_env.actions import NUM_COLUMNS
from qv_env.cards import NUM_KINDS, NUM_RANKS, NUM_SUITS
from qv_env.compiling import compiled, inlined
from qv_env.rules import MAX_COLUMN, NO_CARD, STOCK_CARDS, Game, awaited, count_unseen


class FeatureIndex(NamedTuple):
    """The index of each feature of a position, in arrays of features and of weights.

    "Lower" cards are those of the same suit with a lower rank. A card is "needed" if it is the next
    one to go on a foundation, and "near" if it is the next, or the one after that, to go on the
    lower foundation of its suit. A card's promise measures how soon it comes from the stock: 1 for
    the next card drawn, multiplied by ``PATIENCE`` for each further draw, and the average over all
    orders if the order is not known.
    """

    up: int  # cards on the foundations
    even: int  # cards on the lower foundation of each suit
    empty: int  # 1 if any column is empty
    more_empty: int  # empty columns beyond the first
    links: int  # cards in columns that lie on the next higher one of their suit
    over: int  # cards in columns that lie above a lower one
    over_near: int  # cards in columns that lie above a lower one that is near
    waste_over: int  # cards in the waste that lie above a lower one
    waste_over_near: int  # cards in the waste that lie above a lower one that is near
    depth: int  # cards above needed cards in columns
    waste_depth: int  # cards above needed cards in the waste
    in_stock: int  # needed cards of which no copy is in a column or the waste
    promise_up: int  # sum of the promises of needed cards
    promise_columns: int  # sum of the promises of the cards that the columns accept next
    waste: int  # cards in the waste
    clean: int  # columns that consist of a single run in suit
    shortest: int  # cards in the shortest column that is not empty
    waste_links: int  # waste cards on the next lower one of their suit: will be links in a column
    kings: int  # kings in columns that lie on other cards
    empty_early: int  # "empty" times the fraction of the stock that is left
    over_early: int  # "over" times that fraction
    up_early: int  # "up" times that fraction


FEATURES = FeatureIndex._fields
NUM_FEATURES = len(FEATURES)
INDEX = FeatureIndex(*range(NUM_FEATURES))
PATIENCE = 0.9

# Layout of the scratch space of `measure`: by card id, the number of cards above its highest copy
# in a column; then the same for the waste. Only the entries of needed cards are used.
_WASTE_AT = NUM_KINDS + 1
MEASURE_WORK = 2 * _WASTE_AT


@compiled
def measure(game: Game, promise: np.ndarray, work: np.ndarray, out: np.ndarray) -> None:
    """Write a position's ``FEATURES``.

    Args:
        game: A record of STATE. The order of its stock is not read.
        promise: float64 (53,), by card id, the card's promise; 0 for "no card".
        work: int64 (MEASURE_WORK,), scratch space.
        out: float64 (NUM_FEATURES,), receives the features.
    """
    near, needed = _measure_foundations(game, work, out)
    _measure_columns(game, promise, near, needed, work, out)
    _measure_waste(game, near, needed, work, out)
    _measure_needed(game, promise, work, out)
    early = game["stock_size"] / STOCK_CARDS
    out[INDEX.empty_early] = out[INDEX.empty] * early
    out[INDEX.over_early] = out[INDEX.over] * early
    out[INDEX.up_early] = out[INDEX.up] * early


@inlined
def _measure_foundations(
    game: Game, work: np.ndarray, out: np.ndarray
) -> tuple[np.uint64, np.uint64]:
    """Write ``up`` and ``even``; return the cards that are near or lower, and the needed cards."""
    up = 0
    even = 0
    near = NO_CARDS
    needed = NO_CARDS
    for s in range(NUM_SUITS):
        one, other = int(game["foundations"][s]), int(game["foundations"][s + NUM_SUITS])
        up += one + other
        even += min(one, other)
        near |= NEAR_OR_UP[s, min(one, other)]
        for height in (one, other):
            if height < NUM_RANKS:
                card_id = s * NUM_RANKS + height + 1
                needed |= CARD[card_id]
                work[card_id] = FAR
                work[_WASTE_AT + card_id] = FAR
    out[INDEX.up] = up
    out[INDEX.even] = even
    return near, needed


@inlined
def _measure_columns(
    game: Game,
    promise: np.ndarray,
    near: np.uint64,
    needed: np.uint64,
    work: np.ndarray,
    out: np.ndarray,
) -> None:
    empty = links = over = over_near = clean = kings = 0
    shortest = MAX_COLUMN
    promise_columns = 0.0
    for c in range(NUM_COLUMNS):
        height = int(game["heights"][c])
        if height == 0:
            empty += 1
            continue
        shortest = min(shortest, height)
        below = int(game["columns"][c, 0])
        under = CARD[below]
        if needed & under:
            work[below] = min(work[below], height - 1)
        in_suit = 0
        for row in range(1, height):
            card_id = int(game["columns"][c, row])
            in_suit += awaited(below) == card_id
            lower = under & LOWER[card_id]
            over += lower != NO_CARDS
            over_near += (lower & near) != NO_CARDS
            card = CARD[card_id]
            kings += (card & KINGS) != NO_CARDS
            under |= card
            if needed & card:
                work[card_id] = min(work[card_id], height - 1 - row)
            below = card_id
        links += in_suit
        clean += in_suit == height - 1
        promise_columns += promise[awaited(below)]
    out[INDEX.empty] = min(empty, 1)
    out[INDEX.more_empty] = max(empty - 1, 0)
    out[INDEX.links] = links
    out[INDEX.over] = over
    out[INDEX.over_near] = over_near
    out[INDEX.promise_columns] = promise_columns
    out[INDEX.clean] = clean
    out[INDEX.shortest] = shortest if empty < NUM_COLUMNS else 0
    out[INDEX.kings] = kings


@inlined
def _measure_waste(
    game: Game, near: np.uint64, needed: np.uint64, work: np.ndarray, out: np.ndarray
) -> None:
    waste_over = waste_over_near = waste_links = 0
    size = int(game["waste_size"])
    under = NO_CARDS
    below = NO_CARD
    for k in range(size):
        card_id = int(game["waste"][k])
        lower = under & LOWER[card_id]
        waste_over += lower != NO_CARDS
        waste_over_near += (lower & near) != NO_CARDS
        waste_links += awaited(card_id) == below
        card = CARD[card_id]
        under |= card
        if needed & card:  # from the bottom up: the highest copy is written last
            work[_WASTE_AT + card_id] = size - 1 - k
        below = card_id
    if size > 0 and awaited(game["waste"][0]) == NO_CARD:
        waste_links -= 1  # nothing lies below the lowest card, and nothing goes on an ace
    out[INDEX.waste_over] = waste_over
    out[INDEX.waste_over_near] = waste_over_near
    out[INDEX.waste] = size
    out[INDEX.waste_links] = waste_links


@inlined
def _measure_needed(game: Game, promise: np.ndarray, work: np.ndarray, out: np.ndarray) -> None:
    depth = waste_depth = in_stock = 0
    promise_up = 0.0
    for s in range(NUM_SUITS):
        one, other = int(game["foundations"][s]), int(game["foundations"][s + NUM_SUITS])
        for k in range(2):
            height = one if k == 0 else other
            if height == NUM_RANKS or (k == 1 and one == other):
                continue
            card_id = s * NUM_RANKS + height + 1
            in_column, in_waste = work[card_id], work[_WASTE_AT + card_id]
            if in_column == FAR and in_waste == FAR:
                in_stock += 1
            elif in_column <= in_waste:
                depth += in_column
            else:
                waste_depth += in_waste
            promise_up += promise[card_id]
    out[INDEX.depth] = depth
    out[INDEX.waste_depth] = waste_depth
    out[INDEX.in_stock] = in_stock
    out[INDEX.promise_up] = promise_up


@compiled
def expected_promise(game: Game, promise: np.ndarray) -> None:
    """Write the promise of each card for a stock whose order is not known.

    Args:
        game: A record of STATE; the unseen cards are derived from the visible ones.
        promise: float64 (53,), by card id: the sum over the card's unseen copies of PATIENCE to the
            power of the number of cards drawn before it, averaged over all orders.
    """
    unseen = np.empty(NUM_KINDS, dtype=np.uint8)
    count_unseen(game, unseen)
    size = game["stock_size"]
    mean = 0.0
    if size > 0:
        mean = (1.0 - PATIENCE**size) / (1.0 - PATIENCE) / size
    promise[0] = 0.0
    for card in range(NUM_KINDS):
        promise[card + 1] = unseen[card] * mean


@compiled
def known_promise(game: Game, promise: np.ndarray) -> None:
    """Write the promise of each card for a known stock; ``expected_promise`` is its average.

    Args:
        game: A record of STATE, the order of its stock known.
        promise: float64 (65, 53), by number of cards left in the stock and card id.
    """
    promise[:] = 0.0
    for size in range(1, game["stock_size"] + 1):
        for card_id in range(1, NUM_KINDS + 1):
            promise[size, card_id] = PATIENCE * promise[size - 1, card_id]
        promise[size, game["stock"][size - 1]] += 1.0
