"""Features of positions: what the searches value positions by.

A position's value is a weighted sum of its ``FEATURES``. ``measure`` counts them from scratch;
``agents.search.beam`` follows most of them from move to move.
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
    """The place of each feature of a position, in features as in weights.

    "Lower" cards are those of the same suit with a lower rank. A card is "needed" if a foundation
    takes it next, and "near" if the lower foundation of its suit takes it next or after the next.
    A card's promise is how soon it comes from the stock: 1 for the next card drawn, ``PATIENCE``
    times as much for each draw more, and the average where the order is not known.
    """

    up: int  # cards on the foundations
    even: int  # cards on the lower foundation of each suit
    empty: int  # 1 where a column is empty
    more_empty: int  # empty columns beyond the first
    links: int  # cards in columns that lie on the next higher one of their suit
    over: int  # cards in columns that lie above a lower one
    over_near: int  # those of them whose lower one is near
    waste_over: int  # cards in the waste that lie above a lower one
    waste_over_near: int  # those of them whose lower one is near
    depth: int  # cards above needed cards in columns
    waste_depth: int  # cards above needed cards in the waste
    in_stock: int  # needed cards of which no copy is in sight
    promise_up: int  # promises of needed cards
    promise_columns: int  # promises of the cards that go on columns
    waste: int  # cards in the waste
    clean: int  # columns that hold one run in suit
    shortest: int  # cards in the shortest column that is not empty
    waste_links: int  # cards in the waste on the next lower one, as they will lie in a column
    kings: int  # kings in columns that lie on other cards
    empty_early: int  # "empty" times the share of the stock that is left
    over_early: int  # "over" times that share
    up_early: int  # "up" times that share


FEATURES = FeatureIndex._fields
NUM_FEATURES = len(FEATURES)
INDEX = FeatureIndex(*range(NUM_FEATURES))
PATIENCE = 0.9

# What `measure` works on: by card id, how many cards lie above its highest copy in a column; then
# the same for the waste. Only the entries of needed cards are used.
_WASTE_AT = NUM_KINDS + 1
MEASURE_WORK = 2 * _WASTE_AT


@compiled
def measure(game: Game, promise: np.ndarray, work: np.ndarray, out: np.ndarray) -> None:
    """Write a position's ``FEATURES``.

    Args:
        game: A record of STATE. The order of its stock is not read.
        promise: float64 (53,), by card id, how soon it comes from the stock; 0 at "no card".
        work: int64 (MEASURE_WORK,), of any content.
        out: float64 (NUM_FEATURES,), what is written.
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
    """Return the cards that are near or below those, and those that are needed."""
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
        if needed & card:  # from the bottom up: the highest copy stays
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
    """Write how soon each card comes from a stock whose order is not known.

    Args:
        game: A record of STATE; which cards are unseen is counted from those in sight.
        promise: float64 (53,), by card id: the mean over all orders of the sum over its unseen
            copies of PATIENCE to the number of cards drawn before.
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
    """Write how soon each card comes from a known stock: what ``expected_promise`` averages.

    Args:
        game: A record of STATE, the order of its stock known.
        promise: float64 (65, 53), by cards left in the stock and card id.
    """
    promise[:] = 0.0
    for size in range(1, game["stock_size"] + 1):
        for card_id in range(1, NUM_KINDS + 1):
            promise[size, card_id] = PATIENCE * promise[size - 1, card_id]
        promise[size, game["stock"][size - 1]] += 1.0
