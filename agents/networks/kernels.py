"""Compiled passes of the table network: everything between its matrix products.

They compute what the plain network (:mod:`agents.networks.table`) computes; the tests compare the
two. :mod:`agents.networks.accelerator` calls them. All arrays are C-contiguous. ``n`` is the number
of games, ``real`` float32 or float64.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from agents.networks.layout import (
    ABOVE,
    BELOW,
    CARD_ROWS,
    CARDS_READ,
    DISTANCES,
    HEIGHT,
    ILLEGAL_LOGIT,
    LOWER,
    NEAR_TOP,
    NEXT_HIGHER,
    NEXT_LOWER,
    NO_CARD,
    NO_NEIGHBOUR,
    NUMBERS,
    ON_TOP,
    OVER,
    PILES,
    PLACES_ELSEWHERE,
    PLACES_IN_COLUMNS,
    ROWS,
    SOURCES,
    SUIT_OF,
    TARGETS,
    UNSEEN,
    WANTED,
    WASTE_DEPTH,
    WHOLE_ROWS,
    pair_table,
)
from qv_env.actions import NUM_COLUMNS, NUM_FOUNDATIONS
from qv_env.cards import NUM_KINDS, NUM_RANKS, NUM_SUITS
from qv_env.compiling import compiled, inlined
from qv_env.rules import CARDS_PER_COLUMN, MAX_COLUMN, STOCK_CARDS

COLUMN_ROWS = CARD_ROWS * CARDS_READ + WHOLE_ROWS

_PLACES = pair_table()
_LANES = 16  # the number of targets, rounded up to the width of a vector register
_FAR = 255  # a depth below that of any card

# Of each card id, the rows of its distances to foundations of height 0.
_LOWER_OF = np.full(NUM_KINDS + 1, LOWER + 2 * NUM_RANKS, dtype=np.uint16)
_LOWER_OF[1:] = LOWER + NUM_RANKS + np.arange(NUM_KINDS) % NUM_RANKS
_HIGHER_OF = (_LOWER_OF + DISTANCES).astype(np.uint16)


class Observation(NamedTuple):
    """A ``cards`` observation of n games; all arrays are uint8.

    Attributes:
        columns: (n, 10, 16).
        foundations: (n, 8).
        waste_top, waste_size, stock_size: (n, 1).
        waste: (n, 64) with memory, else (n, 0).
        unseen: (n, 52) with memory, else (n, 0).
    """

    columns: np.ndarray
    foundations: np.ndarray
    waste_top: np.ndarray
    waste_size: np.ndarray
    stock_size: np.ndarray
    waste: np.ndarray
    unseen: np.ndarray


class FeatureArrays(NamedTuple):
    """The features of n positions, in the form that the compiled passes use.

    Attributes:
        column_index: uint16 (n, 10, 28): rows of ``Weights.table`` (6 * ROWS rows, ROWS for each
            slot): five cards with five rows each, then three rows of the column as a whole.
        other_index: uint16 (n, 9, 5), with memory (n, 13, 5): rows of the network's table for the
            waste's top, the eight foundations and, with memory, the cards under the waste's top.
        context: real (n, features), the input of the context's layers: mean (column) and maximum
            (column) of the encoded columns, the waste's vector (card), the numbers (37, or 89 with
            memory; :mod:`agents.networks.layout` lists them) and, with memory, the vectors of the
            cards under the waste's top (4 * card). :func:`read_features` writes the numbers,
            :func:`pool` the rest.
    """

    column_index: np.ndarray
    other_index: np.ndarray
    context: np.ndarray


class HeadOffsets(NamedTuple):
    """Where the parts of ``heads`` begin along its second axis; the columns' part begins at 0.

    Attributes:
        waste: The term added to the waste's vector as a source.
        foundations: The term added to each foundation's vector as a source.
        target: The vector of "foundation" as a target.
        draw: The score of drawing.
        value: The hidden layer of the value.
        end: The length of the axis.
    """

    waste: int
    foundations: int
    target: int
    draw: int
    value: int
    end: int


class Scorer(NamedTuple):
    """All that the scores of actions are computed from.

    Attributes:
        ends: real (n, 10, 2 * pair): the columns' vectors as sources, then as targets.
        heads: real (n, offsets.end): linear functions of the context.
        cards: real (ROWS, pair): the network's table times the weights of cards as sources.
        bias: real (pair,): the bias of the cards as sources.
        other_index: See :class:`FeatureArrays`.
        offsets: Where the heads' parts begin.
        scale: Factor of the scalar products.
    """

    ends: np.ndarray
    heads: np.ndarray
    cards: np.ndarray
    bias: np.ndarray
    other_index: np.ndarray
    offsets: HeadOffsets
    scale: float


class ScorerGradients(NamedTuple):
    """Gradients of a :class:`Scorer`'s first four arrays, with their shapes and dtypes.

    Kernels write ``ends`` and ``heads`` (but for the parts of the heads that belong to columns and
    value), and add to ``cards`` and ``bias``.
    """

    ends: np.ndarray
    heads: np.ndarray
    cards: np.ndarray
    bias: np.ndarray


class Evaluation(NamedTuple):
    """The result of :func:`evaluate`: log-probabilities of actions, and their distributions.

    Attributes:
        log_probs: real (n,), of the actions.
        entropies: real (n,), of the distributions.
        starts: int64 (n + 1,): where each game's entries in the next two begin.
        legal_actions: int16 (n * num_actions,): legal actions of one game after the other.
        legal_log_probs: real (n * num_actions,): their log-probabilities.
    """

    log_probs: np.ndarray
    entropies: np.ndarray
    starts: np.ndarray
    legal_actions: np.ndarray
    legal_log_probs: np.ndarray


# ---------------------------------------------------------------------------------------- features


class _Position(NamedTuple):
    """Intermediate results for one position, from which its features are written.

    Attributes:
        lower, higher: int64 (5,): heights of each suit's foundations, and 0.
        heights: int64 (10,), of the columns.
        in_columns, in_waste: int64 (53,): by card id, how many cards lie above the nearer copy;
            _FAR if there is none.
        places: int64 (55,): by card id, where the card lies; then NO_NEIGHBOUR and NO_CARD.
        wanted: bool (53,): by card id, whether a foundation takes it next.
    """

    lower: np.ndarray
    higher: np.ndarray
    heights: np.ndarray
    in_columns: np.ndarray
    in_waste: np.ndarray
    places: np.ndarray
    wanted: np.ndarray


@compiled
def read_features(observation: Observation, features: FeatureArrays, numbers_at: int) -> None:
    """Turn observations into rows of tables, and into the numbers among the context's features.

    Args:
        observation: The positions.
        features: Written: both indices, and the context's numbers.
        numbers_at: Where the numbers begin in the context's features.
    """
    position = _Position(
        np.zeros(NUM_SUITS + 1, dtype=np.int64),
        np.zeros(NUM_SUITS + 1, dtype=np.int64),
        np.zeros(NUM_COLUMNS, dtype=np.int64),
        np.zeros(NUM_KINDS + 1, dtype=np.int64),
        np.zeros(NUM_KINDS + 1, dtype=np.int64),
        np.zeros(NUM_KINDS + 3, dtype=np.int64),
        np.zeros(NUM_KINDS + 1, dtype=np.bool_),
    )
    for i in range(len(observation.columns)):
        _find_cards(observation, i, position)
        _find_places(observation, i, position)
        _write_numbers(observation, i, position, features.context[i, numbers_at:])
        for c in range(NUM_COLUMNS):
            _write_column(
                observation.columns[i, c], position.heights[c], position,
                features.column_index[i, c],
            )  # fmt: skip
        _write_piles(observation, i, position, features.other_index[i].reshape(-1))


@inlined
def _find_cards(observation: Observation, i: int, position: _Position) -> None:
    """Fill in the position of one game, except ``places``."""
    columns, waste = observation.columns, observation.waste
    lower, higher, wanted = position.lower, position.higher, position.wanted
    heights, in_columns, in_waste = position.heights, position.in_columns, position.in_waste
    wanted[:] = False
    for suit in range(NUM_SUITS):
        one = observation.foundations[i, suit]
        other = observation.foundations[i, suit + NUM_SUITS]
        lower[suit], higher[suit] = min(one, other), max(one, other)
        for height in (lower[suit], higher[suit]):
            if height < NUM_RANKS:
                wanted[suit * NUM_RANKS + height + 1] = True
    in_columns[:] = _FAR
    for c in range(NUM_COLUMNS):
        height = 0
        for k in range(MAX_COLUMN):
            height += columns[i, c, k] != 0
        heights[c] = height
        for k in range(height):
            card = columns[i, c, k]
            in_columns[card] = min(in_columns[card], height - 1 - k)
    in_waste[:] = _FAR
    size = _waste_read(observation, i)
    for k in range(size):
        in_waste[waste[i, k]] = size - 1 - k
    in_waste[observation.waste_top[i, 0]] = 0


@inlined
def _waste_read(observation: Observation, i: int) -> int:
    """How many cards of a game's waste are read: all with memory, else none."""
    return min(int(observation.waste_size[i, 0]), observation.waste.shape[1])


@inlined
def _find_places(observation: Observation, i: int, position: _Position) -> None:
    """Fill in the ``places`` of one game's position from the rest of it."""
    in_columns, in_waste, unseen = position.in_columns, position.in_waste, observation.unseen
    places = position.places
    for card in range(1, NUM_KINDS + 1):
        column = min(in_columns[card] + 1, PLACES_IN_COLUMNS - 1)
        column = 0 if in_columns[card] == _FAR else column
        elsewhere = 0
        if in_waste[card] == 0:
            elsewhere = ON_TOP
        elif in_waste[card] < WASTE_DEPTH:
            elsewhere = NEAR_TOP
        elif unseen.shape[1] > 0 and unseen[i, card - 1] > 0:
            elsewhere = UNSEEN
        places[card] = PLACES_ELSEWHERE * column + elsewhere
    places[NUM_KINDS + 1] = NO_NEIGHBOUR
    places[NUM_KINDS + 2] = NO_CARD


@inlined
def _write_numbers(
    observation: Observation, i: int, position: _Position, numbers: np.ndarray
) -> None:
    """Write the numbers among one game's features: real (at least 37, with memory 89)."""
    lower, higher = position.lower, position.higher
    in_columns, in_waste, unseen = position.in_columns, position.in_waste, observation.unseen
    for suit in range(NUM_SUITS):
        numbers[suit] = lower[suit] / NUM_RANKS
        numbers[NUM_SUITS + suit] = higher[suit] / NUM_RANKS
    numbers[2 * NUM_SUITS] = observation.waste_size[i, 0] / STOCK_CARDS
    numbers[2 * NUM_SUITS + 1] = observation.stock_size[i, 0] / STOCK_CARDS
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
    empty = 0
    for c in range(NUM_COLUMNS):
        empty += position.heights[c] == 0
    numbers[to] = empty / 3
    numbers[to + 1] = empty > 0
    numbers[to + 2] = _over_lower(observation.waste[i], _waste_read(observation, i)) / 16
    for k in range(unseen.shape[1]):
        numbers[NUMBERS + k] = unseen[i, k]


@inlined
def _over_lower(cards: np.ndarray, size: int) -> int:
    """How many of the first ``size`` cards of a pile lie above a lower one of their suit."""
    over = 0
    lowest = np.full(NUM_SUITS + 1, NUM_KINDS + 1, dtype=np.int64)
    for k in range(size):
        card = cards[k]
        suit = SUIT_OF[card]
        over += lowest[suit] < card
        lowest[suit] = min(lowest[suit], card)
    return over


@inlined
def _write_column(cards: np.ndarray, height: int, position: _Position, rows: np.ndarray) -> None:
    """Write the rows of a column: uint16 (28,)."""
    for k in range(CARDS_READ):
        place = max(height - 1, 0) if k == CARDS_PER_COLUMN else k
        _write_card(rows, CARD_ROWS * k, cards[place], k * ROWS, position)
    above = MAX_COLUMN
    for k in range(height):
        if position.wanted[cards[k]]:
            above = height - 1 - k
    start = CARDS_READ * ROWS
    rows[COLUMN_ROWS - 3] = start + HEIGHT + height
    rows[COLUMN_ROWS - 2] = start + WANTED + above
    rows[COLUMN_ROWS - 1] = start + OVER + _over_lower(cards, height)


@inlined
def _write_piles(observation: Observation, i: int, position: _Position, rows: np.ndarray) -> None:
    """Write the rows of one game's waste, foundations and cards under the waste's top, uint16."""
    _write_card(rows, 0, observation.waste_top[i, 0], 0, position)
    for f in range(NUM_FOUNDATIONS):
        grown = observation.foundations[i, f]
        card = f % NUM_SUITS * NUM_RANKS + grown if grown > 0 else 0
        _write_card(rows, CARD_ROWS * (1 + f), card, 0, position)
    for k in range(len(rows) // CARD_ROWS - PILES):
        place = int(observation.waste_size[i, 0]) - 2 - k
        card = observation.waste[i, place] if place >= 0 else 0
        _write_card(rows, CARD_ROWS * (PILES + k), card, 0, position)


@inlined
def _write_card(rows: np.ndarray, to: int, card: int, start: int, position: _Position) -> None:
    """Write the five rows of a card (an id, 0 for none) from ``to`` on; ``start`` is added."""
    suit = SUIT_OF[card]
    rows[to] = start + int(card)
    rows[to + 1] = start + _LOWER_OF[card] - position.lower[suit]
    rows[to + 2] = start + _HIGHER_OF[card] - position.higher[suit]
    rows[to + 3] = start + ABOVE + position.places[NEXT_HIGHER[card]]
    rows[to + 4] = start + BELOW + position.places[NEXT_LOWER[card]]


# ------------------------------------------------------------------------------ columns, context


@compiled
def sum_columns(
    table: np.ndarray, bias: np.ndarray, column_index: np.ndarray, hidden: np.ndarray
) -> None:
    """Write each column's hidden layer: the sum of a bias and of its rows, or 0 where negative.

    Args:
        table: real (SLOTS * ROWS, hidden): the network's table times the encoder's weights, slot
            by slot.
        bias: real (hidden,).
        column_index: As :class:`FeatureArrays` has it.
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
            for k in range(0, COLUMN_ROWS - 4, 4):  # their number is a multiple of four
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
    """Add up the gradients that :func:`sum_columns` passes back.

    Args:
        column_index, hidden: As in :func:`sum_columns`.
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
def pool(encoded: np.ndarray, rows: np.ndarray, features: FeatureArrays) -> None:
    """Write the context's features that are vectors.

    Args:
        encoded: real (n, 10, column).
        rows: real (ROWS, card).
        features: Its ``context`` is written: mean and maximum over the columns, the waste's vector,
            and, at the end, those of the cards under the waste's top.
    """
    context, other_index = features.context, features.other_index
    column, card = encoded.shape[2], rows.shape[1]
    share = encoded.dtype.type(1 / NUM_COLUMNS)
    depth = other_index.shape[1] - PILES
    below = context.shape[1] - depth * card
    for i in range(len(encoded)):
        for j in range(column):
            context[i, j] = encoded[i, 0, j]
            context[i, column + j] = encoded[i, 0, j]
        for c in range(1, NUM_COLUMNS):
            for j in range(column):
                one = encoded[i, c, j]
                most = context[i, column + j]
                context[i, j] += one
                context[i, column + j] = one if one > most else most
        for j in range(column):
            context[i, j] *= share
        _sum_card(rows, other_index[i, 0], context[i, 2 * column : 2 * column + card])
        for k in range(depth):
            to = below + k * card
            _sum_card(rows, other_index[i, PILES + k], context[i, to : to + card])


@compiled
def pool_back(
    encoded: np.ndarray,
    features: FeatureArrays,
    d_context: np.ndarray,
    d_encoded: np.ndarray,
    d_bias: np.ndarray,
    d_rows: np.ndarray,
) -> None:
    """Pass gradients back through :func:`pool`, and through the encoder's last rectifier.

    Equal maxima share their gradient.

    Args:
        encoded, features: As in :func:`pool`.
        d_context: The gradient of ``features.context``, of its shape and dtype.
        d_encoded: real, as ``encoded``: its gradient from elsewhere; becomes the gradient of the
            rectifier's input.
        d_bias: real (column,): the sum of that; added to.
        d_rows: real (ROWS, card): the gradient of the network's table; added to.
    """
    context, other_index = features.context, features.other_index
    column, card = encoded.shape[2], d_rows.shape[1]
    zero, unit = encoded.dtype.type(0), encoded.dtype.type(1)
    share = encoded.dtype.type(1 / NUM_COLUMNS)
    depth = other_index.shape[1] - PILES
    below = context.shape[1] - depth * card
    ties = np.empty(column, dtype=encoded.dtype)
    sums = np.empty(column, dtype=encoded.dtype)
    for i in range(len(encoded)):
        most = context[i, column : 2 * column]
        for j in range(column):
            ties[j] = zero
            sums[j] = zero
        for c in range(NUM_COLUMNS):
            for j in range(column):
                ties[j] += unit if encoded[i, c, j] == most[j] else zero
        for j in range(column):
            ties[j] = d_context[i, column + j] / ties[j]
        for c in range(NUM_COLUMNS):
            for j in range(column):
                gradient = d_encoded[i, c, j] + d_context[i, j] * share
                gradient += ties[j] if encoded[i, c, j] == most[j] else zero
                gradient = gradient if encoded[i, c, j] > zero else zero
                d_encoded[i, c, j] = gradient
                sums[j] += gradient
        for j in range(column):
            d_bias[j] += sums[j]
        for row in other_index[i, 0]:
            for j in range(card):
                d_rows[row, j] += d_context[i, 2 * column + j]
        for k in range(depth):
            for row in other_index[i, PILES + k]:
                for j in range(card):
                    d_rows[row, j] += d_context[i, below + k * card + j]


@compiled
def refine(refined: np.ndarray, heads: np.ndarray) -> None:
    """Add the context's part to each column, and rectify the sum, in place.

    Args:
        refined: real (n, 10, column); becomes the columns' refined vectors.
        heads: As :class:`Scorer` has it; the columns' part, its first ``column`` entries, is added.
    """
    zero = refined.dtype.type(0)
    for i in range(len(refined)):
        for c in range(NUM_COLUMNS):
            for j in range(refined.shape[2]):
                total = refined[i, c, j] + heads[i, j]
                refined[i, c, j] = total if total > zero else zero


@compiled
def refine_back(refined: np.ndarray, d_refined: np.ndarray, d_heads: np.ndarray) -> None:
    """Pass gradients back through :func:`refine`.

    Args:
        refined: As :func:`refine` left it.
        d_refined: Its gradient, of its shape; becomes the gradient of the rectifier's input.
        d_heads: real (n, offsets.end), the heads' gradient; the columns' part is written.
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
    """Pass gradients back through the rectifier of a linear layer.

    Args:
        outputs: real (n, width): the layer's, rectified.
        gradients: real (n, width): their gradients; become those of the rectifier's input.
        d_bias: real (width,): the gradient of the layer's bias; added to.
    """
    zero = outputs.dtype.type(0)
    for i in range(len(outputs)):
        for j in range(outputs.shape[1]):
            gradient = gradients[i, j] if outputs[i, j] > zero else zero
            gradients[i, j] = gradient
            d_bias[j] += gradient


# ---------------------------------------------------------------------------------- scores of moves


class _Pairs(NamedTuple):
    """The vectors of one game's moves, or their gradients.

    Attributes:
        sources: real (19, pair).
        targets: real (11, pair).
    """

    sources: np.ndarray
    targets: np.ndarray


@inlined
def _new_pairs(scorer: Scorer) -> _Pairs:
    pair = len(scorer.bias)
    return _Pairs(
        np.empty((SOURCES, pair), dtype=scorer.heads.dtype),
        np.empty((TARGETS, pair), dtype=scorer.heads.dtype),
    )


@compiled
def _gather_pairs(scorer: Scorer, i: int, pairs: _Pairs) -> None:
    """Write the vectors of one game's sources and targets."""
    sources, targets = pairs.sources, pairs.targets
    ends, heads, index = scorer.ends[i], scorer.heads[i], scorer.other_index[i]
    cards, bias, offsets = scorer.cards, scorer.bias, scorer.offsets
    pair = len(bias)
    _sum_card(cards, index[0], sources[0])
    for j in range(pair):
        sources[0, j] += bias[j] + heads[offsets.waste + j]
    for c in range(NUM_COLUMNS):
        for j in range(pair):
            sources[1 + c, j] = ends[c, j]
            targets[c, j] = ends[c, pair + j]
    for f in range(NUM_FOUNDATIONS):
        to = sources[1 + NUM_COLUMNS + f]
        _sum_card(cards, index[1 + f], to)
        for j in range(pair):
            to[j] += bias[j] + heads[offsets.foundations + j]
    for j in range(pair):
        targets[NUM_COLUMNS, j] = heads[offsets.target + j]


@compiled
def _spread_pairs(scorer: Scorer, i: int, d_pairs: _Pairs, gradients: ScorerGradients) -> None:
    """Pass gradients back through :func:`_gather_pairs`."""
    d_sources, d_targets = d_pairs.sources, d_pairs.targets
    d_ends, d_heads = gradients.ends[i], gradients.heads[i]
    d_cards, d_bias = gradients.cards, gradients.bias
    index, offsets = scorer.other_index[i], scorer.offsets
    pair = len(d_bias)
    for j in range(pair):
        d_heads[offsets.waste + j] = d_sources[0, j]
        d_heads[offsets.foundations + j] = 0
        d_heads[offsets.target + j] = d_targets[NUM_COLUMNS, j]
    for c in range(NUM_COLUMNS):
        for j in range(pair):
            d_ends[c, j] = d_sources[1 + c, j]
            d_ends[c, pair + j] = d_targets[c, j]
    for f in range(NUM_FOUNDATIONS):
        for j in range(pair):
            d_heads[offsets.foundations + j] += d_sources[1 + NUM_COLUMNS + f, j]
    for j in range(pair):
        d_bias[j] += d_heads[offsets.waste + j] + d_heads[offsets.foundations + j]
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
def score_all(scorer: Scorer, logits: np.ndarray) -> None:
    """Score all actions, legal or not.

    Args:
        scorer: The arrays that determine the scores.
        logits: real (n, num_actions); written.
    """
    pair = len(scorer.bias)
    heads, offsets = scorer.heads, scorer.offsets
    real = heads.dtype
    factor = real.type(scorer.scale)
    pairs = _new_pairs(scorer)
    sources, targets = pairs.sources, pairs.targets
    turned = np.zeros((pair, _LANES), dtype=real)
    scores = np.zeros((SOURCES, _LANES), dtype=real)
    for i in range(len(logits)):
        _gather_pairs(scorer, i, pairs)
        for t in range(TARGETS):
            for j in range(pair):
                turned[j, t] = targets[t, j]
        scores[:] = 0
        for s in range(SOURCES):
            for j in range(pair):
                weight = sources[s, j] * factor
                for t in range(_LANES):
                    scores[s, t] += weight * turned[j, t]
        logits[i, 0] = heads[i, offsets.draw]
        for a in range(1, logits.shape[1]):
            s, t = divmod(_PLACES[a] - 1, TARGETS)
            logits[i, a] = scores[s, t]


@inlined
def _add_products(a: int, gradient: float, pairs: _Pairs, d_pairs: _Pairs) -> None:
    """Pass the gradient of an action's scalar product to its source and its target."""
    sources, targets = pairs.sources, pairs.targets
    d_sources, d_targets = d_pairs.sources, d_pairs.targets
    s, t = divmod(_PLACES[a] - 1, TARGETS)
    for j in range(sources.shape[1]):
        d_sources[s, j] += gradient * targets[t, j]
        d_targets[t, j] += gradient * sources[s, j]


@compiled
def score_all_back(scorer: Scorer, d_logits: np.ndarray, gradients: ScorerGradients) -> None:
    """Pass gradients back through :func:`score_all`.

    Actions whose gradient is 0 (illegal ones) are skipped.

    Args:
        scorer: As in :func:`score_all`.
        d_logits: real (n, num_actions): the logits' gradient.
        gradients: Written, or added to.
    """
    d_heads, offsets = gradients.heads, scorer.offsets
    factor = scorer.heads.dtype.type(scorer.scale)
    pairs, d_pairs = _new_pairs(scorer), _new_pairs(scorer)
    for i in range(len(d_logits)):
        _gather_pairs(scorer, i, pairs)
        d_pairs.sources[:] = 0
        d_pairs.targets[:] = 0
        d_heads[i, offsets.draw] = d_logits[i, 0]
        for a in range(1, d_logits.shape[1]):
            if d_logits[i, a] != 0:
                gradient = d_logits[i, a] * factor
                _add_products(a, gradient, pairs, d_pairs)
        _spread_pairs(scorer, i, d_pairs, gradients)


# ------------------------------------------------------------------------ probabilities of actions


@inlined
def _score_legal(
    mask: np.ndarray,
    draw: float,
    pairs: _Pairs,
    factor: float,
    actions: np.ndarray,
    log_probs: np.ndarray,
) -> int:
    """Write one game's legal actions and their log-probabilities; return how many there are.

    Args:
        mask: bool (num_actions,).
        draw: The score of drawing.
        pairs: The vectors of the game's moves.
        factor: Of the scalar products, of their dtype.
        actions, log_probs: Integers, and real; at least as long as there are legal actions.
    """
    sources, targets = pairs.sources, pairs.targets
    legal = 0
    for a in range(len(mask)):
        if mask[a]:
            actions[legal] = a
            legal += 1
    most = log_probs.dtype.type(-np.inf)
    for k in range(legal):
        a = actions[k]
        if a == 0:
            log_probs[k] = draw
        else:
            s, t = divmod(_PLACES[a] - 1, TARGETS)
            log_probs[k] = _dot(sources[s], targets[t]) * factor
        most = max(most, log_probs[k])
    total = log_probs.dtype.type(0)
    for k in range(legal):
        total += np.exp(log_probs[k] - most)
    offset = most + np.log(total)
    for k in range(legal):
        log_probs[k] -= offset
    return legal


@compiled
def choose(
    scorer: Scorer,
    masks: np.ndarray,
    uniforms: np.ndarray,
    actions: np.ndarray,
    log_probs: np.ndarray,
) -> None:
    """Draw a legal action in each game from the network's distribution.

    Args:
        scorer: What actions are scored by.
        masks: bool (n, num_actions). Where nothing is legal, all actions are equally likely.
        uniforms: float64 (n,), one in [0, 1) a game; or (0,): take the most likely action.
        actions: int64 (n,); written.
        log_probs: real (n,), of these actions; written.
    """
    heads, offsets = scorer.heads, scorer.offsets
    real = heads.dtype
    factor = real.type(scorer.scale)
    num_actions = masks.shape[1]
    pairs = _new_pairs(scorer)
    legal_actions = np.empty(num_actions, dtype=np.int64)
    scores = np.empty(num_actions, dtype=real)
    for i in range(len(masks)):
        _gather_pairs(scorer, i, pairs)
        draw = heads[i, offsets.draw]
        legal = _score_legal(masks[i], draw, pairs, factor, legal_actions, scores)
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
    scorer: Scorer, masks: np.ndarray, actions: np.ndarray, evaluation: Evaluation
) -> None:
    """Find the log-probabilities of actions, and the entropies of the distributions.

    Args:
        scorer: What actions are scored by.
        masks: bool (n, num_actions). Where nothing is legal, all actions are equally likely.
        actions: int64 (n,).
        evaluation: Written.
    """
    heads, offsets = scorer.heads, scorer.offsets
    log_probs, entropies, starts = evaluation.log_probs, evaluation.entropies, evaluation.starts
    legal_actions, legal_log_probs = evaluation.legal_actions, evaluation.legal_log_probs
    real = heads.dtype
    factor = real.type(scorer.scale)
    pairs = _new_pairs(scorer)
    starts[0] = 0
    for i in range(len(masks)):
        _gather_pairs(scorer, i, pairs)
        start = starts[i]
        draw = heads[i, offsets.draw]
        legal = _score_legal(
            masks[i], draw, pairs, factor, legal_actions[start:], legal_log_probs[start:]
        )
        starts[i + 1] = start + legal
        uniform = real.type(np.log(masks.shape[1]))
        log_probs[i] = real.type(ILLEGAL_LOGIT) if legal > 0 else -uniform
        entropies[i] = 0 if legal > 0 else uniform
        for k in range(start, start + legal):
            log_prob = legal_log_probs[k]
            entropies[i] -= np.exp(log_prob) * log_prob
            if legal_actions[k] == actions[i]:
                log_probs[i] = log_prob


@compiled
def evaluate_back(
    scorer: Scorer,
    actions: np.ndarray,
    evaluation: Evaluation,
    d_log_probs: np.ndarray,
    d_entropies: np.ndarray,
    gradients: ScorerGradients,
) -> None:
    """Pass gradients back through :func:`evaluate`.

    Args:
        scorer, actions, evaluation: As in :func:`evaluate`.
        d_log_probs, d_entropies: real (n,): gradients of ``evaluation.log_probs`` and
            ``evaluation.entropies``.
        gradients: Written, or added to.
    """
    d_heads, offsets = gradients.heads, scorer.offsets
    entropies, starts = evaluation.entropies, evaluation.starts
    legal_actions, legal_log_probs = evaluation.legal_actions, evaluation.legal_log_probs
    real = scorer.heads.dtype
    factor = real.type(scorer.scale)
    pairs, d_pairs = _new_pairs(scorer), _new_pairs(scorer)
    zero, unit = real.type(0), real.type(1)
    for i in range(len(actions)):
        _gather_pairs(scorer, i, pairs)
        d_pairs.sources[:] = 0
        d_pairs.targets[:] = 0
        d_heads[i, offsets.draw] = 0
        for k in range(starts[i], starts[i + 1]):
            a, log_prob = legal_actions[k], legal_log_probs[k]
            probability = np.exp(log_prob)
            taken = unit if a == actions[i] else zero
            gradient = d_log_probs[i] * (taken - probability)
            gradient -= d_entropies[i] * probability * (log_prob + entropies[i])
            if a == 0:
                d_heads[i, offsets.draw] = gradient
            else:
                gradient *= factor
                _add_products(a, gradient, pairs, d_pairs)
        _spread_pairs(scorer, i, d_pairs, gradients)
