"""Compiled parts of the table network: everything between its matrix products.

All arrays are C-contiguous. ``n`` is the number of games, ``real`` float32 or float64. The layouts:

* ``column_index``, uint16 (n, 10, 28): rows of the column encoder's table, five cards with five
  rows each, then three of the column as a whole.
* ``other_index``, uint16 (n, m, 5): rows of the cards' table, for the waste's top, the eight
  foundations and, with memory, the cards under the waste's top.
* ``heads``, real (n, at.end): linear functions of the context, at the places that a
  :class:`HeadPlaces` names.
* ``ends``, real (n, 10, 2 * pair): the columns' vectors as sources, then as targets.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from qv_env.actions import COLUMN, FOUNDATION, MOVES, NUM_COLUMNS, NUM_FOUNDATIONS, STOCK, WASTE
from qv_env.cards import NUM_KINDS, NUM_RANKS, NUM_SUITS
from qv_env.compiling import compiled, inlined
from qv_env.rules import CARDS_PER_COLUMN, MAX_COLUMN, STOCK_CARDS

# What a card is embedded by, a row each: its id; its distance to the lower foundation, to the
# higher; where the next higher card of its suit lies, and where the next lower. A distance is
# rank - height, -13..12; one index more stands for "no card". A column is embedded by its cards,
# its height, how many cards lie above a card that a foundation takes next (one index more: it holds
# none), and how many lie above a lower one of their suit.
DISTANCES = 2 * NUM_RANKS + 1
LOWER = NUM_KINDS + 1
HIGHER = LOWER + DISTANCES
ABOVE = HIGHER + DISTANCES

# Where a card lies, of its two copies whichever is nearer: how many cards lie on it in a column,
# 0, 1, 2 or more, or it is in none; and where else: nowhere in sight, on top of the waste, not far
# below that, or unseen. Then: there is no such card; there is no card whose neighbour it would be.
_PLACES_IN_COLUMNS = 5
_PLACES_ELSEWHERE = 4
_ON_TOP, _NEAR_TOP, _UNSEEN = 1, 2, 3
_NO_NEIGHBOUR = _PLACES_IN_COLUMNS * _PLACES_ELSEWHERE
NEIGHBOURS = _NO_NEIGHBOUR + 2
BELOW = ABOVE + NEIGHBOURS
HEIGHT = BELOW + NEIGHBOURS
WANTED = HEIGHT + MAX_COLUMN + 1
OVER = WANTED + MAX_COLUMN + 1
ROWS = OVER + MAX_COLUMN

CARD_ROWS = 5
CARDS_READ = CARDS_PER_COLUMN + 1  # of a column: the first four, and the top card
SLOTS = CARDS_READ + 1  # that, and the column as a whole
COLUMN_ROWS = CARD_ROWS * CARDS_READ + 3
WASTE_DEPTH = 4  # with `memory`: how many cards under the waste's top are read
PILES = 1 + NUM_FOUNDATIONS  # waste and foundations
SOURCES = 1 + NUM_COLUMNS + NUM_FOUNDATIONS
TARGETS = NUM_COLUMNS + 1
# The context's features that are numbers: heights of foundations, sizes of waste and stock; where
# the cards are that foundations take next, three numbers each; empty columns; then what is unseen.
NUMBERS = 2 * NUM_SUITS + 2 + 3 * 2 * NUM_SUITS + 3
_LANES = 16  # targets, rounded up to what a vector register holds

_ILLEGAL = -1e8  # the logit of an illegal action: its probability is exactly 0

# Of each card id, 0 for no card: its suit (4 for none, whose foundations have no height), and the
# rows of its distances to foundations of height 0.
_SUIT_OF = np.full(NUM_KINDS + 1, NUM_SUITS, dtype=np.uint8)
_LOWER_OF = np.full(NUM_KINDS + 1, LOWER + 2 * NUM_RANKS, dtype=np.uint16)
_SUIT_OF[1:] = np.arange(NUM_KINDS) // NUM_RANKS
_LOWER_OF[1:] = LOWER + NUM_RANKS + np.arange(NUM_KINDS) % NUM_RANKS
_HIGHER_OF = (_LOWER_OF + DISTANCES).astype(np.uint16)

# Of each card id, the next higher and the next lower one of its suit; NUM_KINDS + 1 where there is
# no such card, NUM_KINDS + 2 for no card's.
_NEXT_HIGHER = np.arange(1, NUM_KINDS + 2, dtype=np.uint8)
_NEXT_HIGHER[NUM_RANKS::NUM_RANKS] = NUM_KINDS + 1
_NEXT_LOWER = np.arange(-1, NUM_KINDS).astype(np.uint8)
_NEXT_LOWER[1::NUM_RANKS] = NUM_KINDS + 1
_NEXT_HIGHER[0] = _NEXT_LOWER[0] = NUM_KINDS + 2
_FAR = 255  # further down than any card lies


class HeadPlaces(NamedTuple):
    """Where the parts of ``heads`` begin; the columns' part begins at 0.

    Attributes:
        waste: What is added to the waste's vector as a source.
        foundations: What is added to each foundation's vector as a source.
        target: The vector of "foundation" as a target.
        draw: The score of drawing.
        value: The hidden layer of the value.
        end: The size of it all.
    """

    waste: int
    foundations: int
    target: int
    draw: int
    value: int
    end: int


def pair_table() -> np.ndarray:
    """For each action, its place in [draw, sources x targets]: int64 (192,).

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


_PLACES = pair_table()


# ------------------------------------------------------------------------------- what is looked at


@inlined
def _write_card(
    rows: np.ndarray,
    at: int,
    card: int,
    start: int,
    lower: np.ndarray,
    higher: np.ndarray,
    lies: np.ndarray,
) -> None:
    """Write the rows of a card at five places from ``at`` on.

    Args:
        rows: uint16; written.
        at: Where.
        card: Its id.
        start: Where its table begins.
        lower, higher: Heights of each suit's foundations, and 0.
        lies: By card id, where the card lies.
    """
    suit = _SUIT_OF[card]
    rows[at] = start + int(card)
    rows[at + 1] = start + _LOWER_OF[card] - lower[suit]
    rows[at + 2] = start + _HIGHER_OF[card] - higher[suit]
    rows[at + 3] = start + ABOVE + lies[_NEXT_HIGHER[card]]
    rows[at + 4] = start + BELOW + lies[_NEXT_LOWER[card]]


@inlined
def _over(cards: np.ndarray, size: int) -> int:
    """How many of the first ``size`` cards of a pile lie above a lower one of their suit."""
    over = 0
    lowest = np.full(NUM_SUITS + 1, NUM_KINDS + 1, dtype=np.int64)
    for k in range(size):
        card = cards[k]
        suit = _SUIT_OF[card]
        over += lowest[suit] < card
        lowest[suit] = min(lowest[suit], card)
    return over


@compiled
def look(
    columns: np.ndarray,
    foundations: np.ndarray,
    waste_top: np.ndarray,
    waste_size: np.ndarray,
    stock_size: np.ndarray,
    waste: np.ndarray,
    unseen: np.ndarray,
    column_index: np.ndarray,
    other_index: np.ndarray,
    features: np.ndarray,
    at: int,
) -> None:
    """Turn observations into rows of tables, and into the numbers among the context's features.

    Args:
        columns, foundations, waste_top, waste_size, stock_size, waste, unseen: uint8, as the
            ``cards`` observation has them; ``waste`` (n, 0) and ``unseen`` (n, 0) without memory.
        column_index, other_index: As the module describes them; written.
        features: real (n, features); written from ``at`` on: NUMBERS numbers, the lower and the
            higher foundation of each suit, sizes of waste and stock, for the next card of each
            suit's lower and then higher foundation how near it is in the columns and in the waste
            (1 on top, 1/2 under one card, 0 not there) and whether it is neither; the number of
            empty columns, whether there is one, cards of the waste above a lower one of their
            suit. Then the cards unseen.
        at: Where the numbers begin.
    """
    lower = np.zeros(NUM_SUITS + 1, dtype=np.int64)
    higher = np.zeros(NUM_SUITS + 1, dtype=np.int64)
    heights = np.zeros(NUM_COLUMNS, dtype=np.int64)
    in_columns = np.zeros(NUM_KINDS + 1, dtype=np.int64)  # cards above the nearer copy
    in_waste = np.zeros(NUM_KINDS + 1, dtype=np.int64)
    lies = np.zeros(NUM_KINDS + 3, dtype=np.int64)
    wanted = np.zeros(NUM_KINDS + 1, dtype=np.bool_)
    depth = other_index.shape[1] - PILES
    for i in range(len(columns)):
        numbers = features[i, at:]
        wanted[:] = False
        for suit in range(NUM_SUITS):
            one, other = foundations[i, suit], foundations[i, suit + NUM_SUITS]
            lower[suit], higher[suit] = min(one, other), max(one, other)
            numbers[suit] = lower[suit] / NUM_RANKS
            numbers[NUM_SUITS + suit] = higher[suit] / NUM_RANKS
            for height in (lower[suit], higher[suit]):
                if height < NUM_RANKS:
                    wanted[suit * NUM_RANKS + height + 1] = True
        numbers[2 * NUM_SUITS] = waste_size[i, 0] / STOCK_CARDS
        numbers[2 * NUM_SUITS + 1] = stock_size[i, 0] / STOCK_CARDS

        in_columns[:] = _FAR
        in_waste[:] = _FAR
        empty = 0
        for c in range(NUM_COLUMNS):
            height = 0
            for k in range(MAX_COLUMN):
                height += columns[i, c, k] != 0
            heights[c] = height
            empty += height == 0
            for k in range(height):
                card = columns[i, c, k]
                in_columns[card] = min(in_columns[card], height - 1 - k)
        size = min(int(waste_size[i, 0]), waste.shape[1])
        for k in range(size):
            in_waste[waste[i, k]] = size - 1 - k
        in_waste[waste_top[i, 0]] = 0
        for card in range(1, NUM_KINDS + 1):
            place = min(in_columns[card] + 1, _PLACES_IN_COLUMNS - 1)
            place = 0 if in_columns[card] == _FAR else place
            elsewhere = 0
            if in_waste[card] == 0:
                elsewhere = _ON_TOP
            elif in_waste[card] < WASTE_DEPTH:
                elsewhere = _NEAR_TOP
            elif unseen.shape[1] > 0 and unseen[i, card - 1] > 0:
                elsewhere = _UNSEEN
            lies[card] = _PLACES_ELSEWHERE * place + elsewhere
        lies[NUM_KINDS + 1] = _NO_NEIGHBOUR
        lies[NUM_KINDS + 2] = _NO_NEIGHBOUR + 1

        to = 2 * NUM_SUITS + 2
        for suit in range(NUM_SUITS):
            for height in (lower[suit], higher[suit]):
                card = min(suit * NUM_RANKS + height + 1, NUM_KINDS)
                column = height < NUM_RANKS and in_columns[card] != _FAR
                pile = height < NUM_RANKS and in_waste[card] != _FAR
                numbers[to] = 1 / (1 + in_columns[card]) if column else 0
                numbers[to + 1] = 1 / (1 + in_waste[card]) if pile else 0
                numbers[to + 2] = height < NUM_RANKS and not column and not pile
                to += 3
        numbers[to] = empty / 3
        numbers[to + 1] = empty > 0
        numbers[to + 2] = _over(waste[i], size) / 16
        for k in range(unseen.shape[1]):
            numbers[NUMBERS + k] = unseen[i, k]

        for c in range(NUM_COLUMNS):
            rows = column_index[i, c]
            height = heights[c]
            for k in range(CARDS_READ):
                place = max(height - 1, 0) if k == CARDS_PER_COLUMN else k
                card = columns[i, c, place]
                _write_card(rows, CARD_ROWS * k, card, k * ROWS, lower, higher, lies)
            above = MAX_COLUMN
            for k in range(height):
                if wanted[columns[i, c, k]]:
                    above = height - 1 - k
            start = CARDS_READ * ROWS
            rows[COLUMN_ROWS - 3] = start + HEIGHT + height
            rows[COLUMN_ROWS - 2] = start + WANTED + above
            rows[COLUMN_ROWS - 1] = start + OVER + _over(columns[i, c], height)
        others = other_index[i].reshape(-1)
        _write_card(others, 0, waste_top[i, 0], 0, lower, higher, lies)
        for f in range(NUM_FOUNDATIONS):
            grown = foundations[i, f]
            card = f % NUM_SUITS * NUM_RANKS + grown if grown > 0 else 0
            _write_card(others, CARD_ROWS * (1 + f), card, 0, lower, higher, lies)
        for k in range(depth):
            place = int(waste_size[i, 0]) - 2 - k
            card = waste[i, place] if place >= 0 else 0
            _write_card(others, CARD_ROWS * (PILES + k), card, 0, lower, higher, lies)


@compiled
def sum_columns(
    table: np.ndarray, bias: np.ndarray, column_index: np.ndarray, hidden: np.ndarray
) -> None:
    """Write each column's hidden layer: the sum of a bias and of its rows, or 0 where negative.

    Args:
        table: real (SLOTS * ROWS, hidden): the cards' table times the encoder's weights, slot by
            slot.
        bias: real (hidden,).
        column_index: As the module describes it.
        hidden: real (n, 10, hidden); written.
    """
    width = table.shape[1]
    zero = table.dtype.type(0)
    sums = np.empty(width, dtype=table.dtype)
    for i in range(len(hidden)):
        for c in range(NUM_COLUMNS):
            rows = column_index[i, c]
            for j in range(width):
                sums[j] = bias[j]
            for k in range(0, COLUMN_ROWS - 4, 4):  # there is a multiple of four
                one, two, three, four = rows[k], rows[k + 1], rows[k + 2], rows[k + 3]
                for j in range(width):
                    sums[j] += (table[one, j] + table[two, j]) + (table[three, j] + table[four, j])
            one, two = rows[COLUMN_ROWS - 4], rows[COLUMN_ROWS - 3]
            three, four = rows[COLUMN_ROWS - 2], rows[COLUMN_ROWS - 1]
            for j in range(width):
                total = sums[j] + (
                    (table[one, j] + table[two, j]) + (table[three, j] + table[four, j])
                )
                hidden[i, c, j] = total if total > zero else zero


@compiled
def sum_columns_back(
    column_index: np.ndarray,
    hidden: np.ndarray,
    d_hidden: np.ndarray,
    d_table: np.ndarray,
    d_bias: np.ndarray,
) -> None:
    """Add up what :func:`sum_columns` passes back.

    Args:
        column_index, hidden: As they were there.
        d_hidden: real, as ``hidden``: its gradient; overwritten.
        d_table, d_bias: Gradients of table and bias; added to.
    """
    width = hidden.shape[2]
    zero = hidden.dtype.type(0)
    for i in range(len(hidden)):
        for c in range(NUM_COLUMNS):
            for j in range(width):
                if not hidden[i, c, j] > zero:
                    d_hidden[i, c, j] = zero
            for j in range(width):
                d_bias[j] += d_hidden[i, c, j]
            for k in range(COLUMN_ROWS):
                row = column_index[i, c, k]
                for j in range(width):
                    d_table[row, j] += d_hidden[i, c, j]


@inlined
def _sum_card(rows: np.ndarray, index: np.ndarray, sums: np.ndarray) -> None:
    """Write the sum of a card's rows of a table."""
    a, b, c, d, e = index[0], index[1], index[2], index[3], index[4]
    for j in range(len(sums)):
        sums[j] = ((rows[a, j] + rows[b, j]) + (rows[c, j] + rows[d, j])) + rows[e, j]


@compiled
def pool(
    encoded: np.ndarray, rows: np.ndarray, other_index: np.ndarray, features: np.ndarray
) -> None:
    """Write the context's features that are vectors.

    Args:
        encoded: real (n, 10, column).
        rows: real (ROWS, card).
        other_index: As the module describes it.
        features: real (n, features); written: mean and maximum over the columns, the waste's
            vector, and, at the end, those of the cards under the waste's top.
    """
    column, card = encoded.shape[2], rows.shape[1]
    share = encoded.dtype.type(1 / NUM_COLUMNS)
    depth = other_index.shape[1] - PILES
    below = features.shape[1] - depth * card
    for i in range(len(encoded)):
        for j in range(column):
            features[i, j] = encoded[i, 0, j]
            features[i, column + j] = encoded[i, 0, j]
        for c in range(1, NUM_COLUMNS):
            for j in range(column):
                one = encoded[i, c, j]
                most = features[i, column + j]
                features[i, j] += one
                features[i, column + j] = one if one > most else most
        for j in range(column):
            features[i, j] *= share
        _sum_card(rows, other_index[i, 0], features[i, 2 * column : 2 * column + card])
        for k in range(depth):
            to = below + k * card
            _sum_card(rows, other_index[i, PILES + k], features[i, to : to + card])


@compiled
def pool_back(
    encoded: np.ndarray,
    other_index: np.ndarray,
    features: np.ndarray,
    d_features: np.ndarray,
    d_encoded: np.ndarray,
    d_bias: np.ndarray,
    d_rows: np.ndarray,
) -> None:
    """Pass back what :func:`pool` gave, and through the encoder's last rectifier.

    Equal maxima share their gradient.

    Args:
        encoded, other_index, features: As they were there.
        d_features: real, as ``features``: their gradient.
        d_encoded: real, as ``encoded``: the gradient of other uses of it; becomes that of what
            the rectifier was given.
        d_bias: real (column,): the sum of that; added to.
        d_rows: The gradient of the cards' table; added to.
    """
    column, card = encoded.shape[2], d_rows.shape[1]
    zero, unit = encoded.dtype.type(0), encoded.dtype.type(1)
    share = encoded.dtype.type(1 / NUM_COLUMNS)
    depth = other_index.shape[1] - PILES
    below = features.shape[1] - depth * card
    ties = np.empty(column, dtype=encoded.dtype)
    sums = np.empty(column, dtype=encoded.dtype)
    for i in range(len(encoded)):
        most = features[i, column : 2 * column]
        for j in range(column):
            ties[j] = zero
            sums[j] = zero
        for c in range(NUM_COLUMNS):
            for j in range(column):
                ties[j] += unit if encoded[i, c, j] == most[j] else zero
        for j in range(column):
            ties[j] = d_features[i, column + j] / ties[j]
        for c in range(NUM_COLUMNS):
            for j in range(column):
                gradient = d_encoded[i, c, j] + d_features[i, j] * share
                gradient += ties[j] if encoded[i, c, j] == most[j] else zero
                gradient = gradient if encoded[i, c, j] > zero else zero
                d_encoded[i, c, j] = gradient
                sums[j] += gradient
        for j in range(column):
            d_bias[j] += sums[j]
        for row in other_index[i, 0]:
            for j in range(card):
                d_rows[row, j] += d_features[i, 2 * column + j]
        for k in range(depth):
            for row in other_index[i, PILES + k]:
                for j in range(card):
                    d_rows[row, j] += d_features[i, below + k * card + j]


@compiled
def refine(refined: np.ndarray, heads: np.ndarray) -> None:
    """Add to each column what the context says, and rectify it, in place.

    Args:
        refined: real (n, 10, column); becomes the columns' refined vectors.
        heads: As the module describes it.
    """
    zero = refined.dtype.type(0)
    for i in range(len(refined)):
        for c in range(NUM_COLUMNS):
            for j in range(refined.shape[2]):
                total = refined[i, c, j] + heads[i, j]
                refined[i, c, j] = total if total > zero else zero


@compiled
def refine_back(refined: np.ndarray, d_refined: np.ndarray, d_heads: np.ndarray) -> None:
    """Pass back through :func:`refine`.

    Args:
        refined: As it was there.
        d_refined: Its gradient; becomes that of what was rectified.
        d_heads: The heads' gradient, real (n, at.end); the columns' part is written.
    """
    zero = refined.dtype.type(0)
    column = refined.shape[2]
    for i in range(len(refined)):
        for j in range(column):
            d_heads[i, j] = zero
        for c in range(NUM_COLUMNS):
            for j in range(column):
                gradient = d_refined[i, c, j] if refined[i, c, j] > zero else zero
                d_refined[i, c, j] = gradient
                d_heads[i, j] += gradient


@compiled
def rectify_back(outputs: np.ndarray, gradients: np.ndarray, d_bias: np.ndarray) -> None:
    """Pass back through a linear layer's rectifier.

    Args:
        outputs: real (n, width): the layer's, rectified.
        gradients: Theirs; become those of what was rectified.
        d_bias: real (width,): the gradient of the layer's bias; added to.
    """
    zero = outputs.dtype.type(0)
    for i in range(len(outputs)):
        for j in range(outputs.shape[1]):
            gradient = gradients[i, j] if outputs[i, j] > zero else zero
            gradients[i, j] = gradient
            d_bias[j] += gradient


# ----------------------------------------------------------------------------------- moves' scores


@compiled
def _gather_ends(
    ends: np.ndarray,
    heads: np.ndarray,
    cards: np.ndarray,
    bias: np.ndarray,
    index: np.ndarray,
    at: HeadPlaces,
    sources: np.ndarray,
    targets: np.ndarray,
) -> None:
    """Write the vectors of one game's sources (19, pair) and targets (11, pair).

    Args:
        ends: real (10, 2 * pair), of the game; heads, index: likewise.
        cards: real (ROWS, pair): the cards' table times the weights of cards as sources.
        bias: real (pair,), of that.
        at: Where the heads' parts are.
        sources, targets: Written.
    """
    pair = len(bias)
    _sum_card(cards, index[0], sources[0])
    for j in range(pair):
        sources[0, j] += bias[j] + heads[at.waste + j]
    for c in range(NUM_COLUMNS):
        for j in range(pair):
            sources[1 + c, j] = ends[c, j]
            targets[c, j] = ends[c, pair + j]
    for f in range(NUM_FOUNDATIONS):
        to = sources[1 + NUM_COLUMNS + f]
        _sum_card(cards, index[1 + f], to)
        for j in range(pair):
            to[j] += bias[j] + heads[at.foundations + j]
    for j in range(pair):
        targets[NUM_COLUMNS, j] = heads[at.target + j]


@compiled
def _spread_ends(
    d_sources: np.ndarray,
    d_targets: np.ndarray,
    index: np.ndarray,
    at: HeadPlaces,
    d_ends: np.ndarray,
    d_heads: np.ndarray,
    d_cards: np.ndarray,
    d_bias: np.ndarray,
) -> None:
    """Pass back through :func:`_gather_ends`: write ``d_ends`` and ``d_heads``, add to the rest."""
    pair = len(d_bias)
    for j in range(pair):
        d_heads[at.waste + j] = d_sources[0, j]
        d_heads[at.foundations + j] = 0
        d_heads[at.target + j] = d_targets[NUM_COLUMNS, j]
    for c in range(NUM_COLUMNS):
        for j in range(pair):
            d_ends[c, j] = d_sources[1 + c, j]
            d_ends[c, pair + j] = d_targets[c, j]
    for f in range(NUM_FOUNDATIONS):
        for j in range(pair):
            d_heads[at.foundations + j] += d_sources[1 + NUM_COLUMNS + f, j]
    for j in range(pair):
        d_bias[j] += d_heads[at.waste + j] + d_heads[at.foundations + j]
    for pile in range(PILES):
        gradient = d_sources[0 if pile == 0 else NUM_COLUMNS + pile]
        for k in range(CARD_ROWS):
            row = index[pile, k]
            for j in range(pair):
                d_cards[row, j] += gradient[j]


@inlined
def _dot(one: np.ndarray, other: np.ndarray) -> float:
    """The scalar product, as four sums."""
    zero = one.dtype.type(0)
    a = b = c = d = zero
    whole = len(one) // 4 * 4
    for j in range(0, whole, 4):
        a += one[j] * other[j]
        b += one[j + 1] * other[j + 1]
        c += one[j + 2] * other[j + 2]
        d += one[j + 3] * other[j + 3]
    for j in range(whole, len(one)):
        a += one[j] * other[j]
    return (a + b) + (c + d)


@compiled
def score_all(
    ends: np.ndarray,
    heads: np.ndarray,
    cards: np.ndarray,
    bias: np.ndarray,
    other_index: np.ndarray,
    at: HeadPlaces,
    scale: float,
    logits: np.ndarray,
) -> None:
    """Score all actions, legal or not.

    Args:
        ends, heads, other_index: As the module describes them.
        cards: real (ROWS, pair): the cards' table times the weights of cards as sources.
        bias: real (pair,), of that.
        at: Where the heads' parts are.
        scale: Of the scalar products.
        logits: real (n, num_actions); written.
    """
    pair = len(bias)
    real = heads.dtype
    factor = real.type(scale)
    sources = np.empty((SOURCES, pair), dtype=real)
    targets = np.empty((TARGETS, pair), dtype=real)
    turned = np.zeros((pair, _LANES), dtype=real)
    scores = np.zeros((SOURCES, _LANES), dtype=real)
    for i in range(len(logits)):
        _gather_ends(ends[i], heads[i], cards, bias, other_index[i], at, sources, targets)
        for t in range(TARGETS):
            for j in range(pair):
                turned[j, t] = targets[t, j]
        scores[:] = 0
        for s in range(SOURCES):
            for j in range(pair):
                weight = sources[s, j] * factor
                for t in range(_LANES):
                    scores[s, t] += weight * turned[j, t]
        logits[i, 0] = heads[i, at.draw]
        for a in range(1, logits.shape[1]):
            s, t = divmod(_PLACES[a] - 1, TARGETS)
            logits[i, a] = scores[s, t]


@inlined
def _add_products(
    a: int,
    gradient: float,
    sources: np.ndarray,
    targets: np.ndarray,
    d_sources: np.ndarray,
    d_targets: np.ndarray,
) -> None:
    """Pass the gradient of an action's scalar product to its source and its target."""
    s, t = divmod(_PLACES[a] - 1, TARGETS)
    for j in range(sources.shape[1]):
        d_sources[s, j] += gradient * targets[t, j]
        d_targets[t, j] += gradient * sources[s, j]


@compiled
def score_all_back(
    ends: np.ndarray,
    heads: np.ndarray,
    cards: np.ndarray,
    bias: np.ndarray,
    other_index: np.ndarray,
    at: HeadPlaces,
    scale: float,
    d_logits: np.ndarray,
    d_ends: np.ndarray,
    d_heads: np.ndarray,
    d_cards: np.ndarray,
    d_bias: np.ndarray,
) -> None:
    """Pass back through :func:`score_all`; actions whose gradient is 0 (illegal ones) cost nothing.

    Args:
        ends, heads, cards, bias, other_index, at, scale: As they were there.
        d_logits: The logits' gradient.
        d_ends, d_heads: Written, but for the parts of the heads that are no moves'.
        d_cards, d_bias: Added to.
    """
    pair = len(bias)
    real = heads.dtype
    factor = real.type(scale)
    sources = np.empty((SOURCES, pair), dtype=real)
    targets = np.empty((TARGETS, pair), dtype=real)
    d_sources = np.empty((SOURCES, pair), dtype=real)
    d_targets = np.empty((TARGETS, pair), dtype=real)
    for i in range(len(d_logits)):
        _gather_ends(ends[i], heads[i], cards, bias, other_index[i], at, sources, targets)
        d_sources[:] = 0
        d_targets[:] = 0
        d_heads[i, at.draw] = d_logits[i, 0]
        for a in range(1, d_logits.shape[1]):
            if d_logits[i, a] != 0:
                gradient = d_logits[i, a] * factor
                _add_products(a, gradient, sources, targets, d_sources, d_targets)
        _spread_ends(
            d_sources, d_targets, other_index[i], at, d_ends[i], d_heads[i], d_cards, d_bias
        )


# ------------------------------------------------------------------------ probabilities of actions


@inlined
def _score_legal(
    mask: np.ndarray,
    draw: float,
    sources: np.ndarray,
    targets: np.ndarray,
    factor: float,
    actions: np.ndarray,
    scores: np.ndarray,
) -> int:
    """Write one game's legal actions and their log-probabilities; return how many there are."""
    legal = 0
    for a in range(len(mask)):
        if mask[a]:
            actions[legal] = a
            legal += 1
    most = scores.dtype.type(-np.inf)
    for k in range(legal):
        a = actions[k]
        if a == 0:
            scores[k] = draw
        else:
            s, t = divmod(_PLACES[a] - 1, TARGETS)
            scores[k] = _dot(sources[s], targets[t]) * factor
        most = max(most, scores[k])
    total = scores.dtype.type(0)
    for k in range(legal):
        total += np.exp(scores[k] - most)
    offset = most + np.log(total)
    for k in range(legal):
        scores[k] -= offset
    return legal


@compiled
def choose(
    ends: np.ndarray,
    heads: np.ndarray,
    cards: np.ndarray,
    bias: np.ndarray,
    other_index: np.ndarray,
    at: HeadPlaces,
    scale: float,
    masks: np.ndarray,
    uniforms: np.ndarray,
    actions: np.ndarray,
    log_probs: np.ndarray,
) -> None:
    """Draw a legal action in each game, as likely as the network says.

    Args:
        ends, heads, cards, bias, other_index, at, scale: As for :func:`score_all`.
        masks: bool (n, num_actions). Where nothing is legal, all actions are equally likely.
        uniforms: float64 (n,), one in [0, 1) a game; or (0,): take the most likely action.
        actions: int64 (n,); written.
        log_probs: real (n,), of these actions; written.
    """
    pair = len(bias)
    real = heads.dtype
    factor = real.type(scale)
    num_actions = masks.shape[1]
    sources = np.empty((SOURCES, pair), dtype=real)
    targets = np.empty((TARGETS, pair), dtype=real)
    legal_actions = np.empty(num_actions, dtype=np.int64)
    scores = np.empty(num_actions, dtype=real)
    for i in range(len(masks)):
        _gather_ends(ends[i], heads[i], cards, bias, other_index[i], at, sources, targets)
        draw = heads[i, at.draw]
        legal = _score_legal(masks[i], draw, sources, targets, factor, legal_actions, scores)
        if legal == 0:
            legal = num_actions
            legal_actions[:] = np.arange(num_actions)
            scores[:] = -np.log(num_actions)
        best = 0
        if len(uniforms) == 0:
            for k in range(1, legal):
                if scores[k] > scores[best]:
                    best = k
        else:
            best = legal - 1
            total = 0.0
            for k in range(legal - 1):
                total += np.exp(scores[k])
                if uniforms[i] < total:
                    best = k
                    break
        actions[i] = legal_actions[best]
        log_probs[i] = scores[best]


@compiled
def evaluate(
    ends: np.ndarray,
    heads: np.ndarray,
    cards: np.ndarray,
    bias: np.ndarray,
    other_index: np.ndarray,
    at: HeadPlaces,
    scale: float,
    masks: np.ndarray,
    actions: np.ndarray,
    log_probs: np.ndarray,
    entropies: np.ndarray,
    starts: np.ndarray,
    legal_actions: np.ndarray,
    legal_log_probs: np.ndarray,
) -> None:
    """Give the log-probabilities of actions, and the entropies of the distributions.

    Args:
        ends, heads, cards, bias, other_index, at, scale: As for :func:`score_all`.
        masks: bool (n, num_actions).
        actions: int64 (n,).
        log_probs, entropies: real (n,); written.
        starts: int64 (n + 1,): where a game's entries in the next two begin; written.
        legal_actions: int64 (n * num_actions,): legal actions of one game after the other; written.
        legal_log_probs: real, theirs; written.
    """
    pair = len(bias)
    real = heads.dtype
    factor = real.type(scale)
    sources = np.empty((SOURCES, pair), dtype=real)
    targets = np.empty((TARGETS, pair), dtype=real)
    starts[0] = 0
    for i in range(len(masks)):
        _gather_ends(ends[i], heads[i], cards, bias, other_index[i], at, sources, targets)
        start = starts[i]
        draw = heads[i, at.draw]
        legal = _score_legal(
            masks[i], draw, sources, targets, factor,
            legal_actions[start:], legal_log_probs[start:],
        )  # fmt: skip
        starts[i + 1] = start + legal
        uniform = real.type(np.log(masks.shape[1]))
        log_probs[i] = real.type(_ILLEGAL) if legal > 0 else -uniform
        entropies[i] = 0 if legal > 0 else uniform
        for k in range(start, start + legal):
            log_prob = legal_log_probs[k]
            entropies[i] -= np.exp(log_prob) * log_prob
            if legal_actions[k] == actions[i]:
                log_probs[i] = log_prob


@compiled
def evaluate_back(
    ends: np.ndarray,
    heads: np.ndarray,
    cards: np.ndarray,
    bias: np.ndarray,
    other_index: np.ndarray,
    at: HeadPlaces,
    scale: float,
    actions: np.ndarray,
    entropies: np.ndarray,
    starts: np.ndarray,
    legal_actions: np.ndarray,
    legal_log_probs: np.ndarray,
    d_log_probs: np.ndarray,
    d_entropies: np.ndarray,
    d_ends: np.ndarray,
    d_heads: np.ndarray,
    d_cards: np.ndarray,
    d_bias: np.ndarray,
) -> None:
    """Pass back through :func:`evaluate`.

    Args:
        ends, heads, cards, bias, other_index, at, scale, actions, entropies, starts,
            legal_actions, legal_log_probs: As they were there.
        d_log_probs, d_entropies: Gradients of what it gave, real (n,).
        d_ends, d_heads: Written, but for the parts of the heads that are no moves'.
        d_cards, d_bias: Added to.
    """
    pair = len(bias)
    real = heads.dtype
    factor = real.type(scale)
    sources = np.empty((SOURCES, pair), dtype=real)
    targets = np.empty((TARGETS, pair), dtype=real)
    d_sources = np.empty((SOURCES, pair), dtype=real)
    d_targets = np.empty((TARGETS, pair), dtype=real)
    zero, unit = real.type(0), real.type(1)
    for i in range(len(actions)):
        _gather_ends(ends[i], heads[i], cards, bias, other_index[i], at, sources, targets)
        d_sources[:] = 0
        d_targets[:] = 0
        d_heads[i, at.draw] = 0
        for k in range(starts[i], starts[i + 1]):
            a, log_prob = legal_actions[k], legal_log_probs[k]
            probability = np.exp(log_prob)
            taken = unit if a == actions[i] else zero
            gradient = d_log_probs[i] * (taken - probability)
            gradient -= d_entropies[i] * probability * (log_prob + entropies[i])
            if a == 0:
                d_heads[i, at.draw] = gradient
            else:
                gradient *= factor
                _add_products(a, gradient, sources, targets, d_sources, d_targets)
        _spread_ends(
            d_sources, d_targets, other_index[i], at, d_ends[i], d_heads[i], d_cards, d_bias
        )
