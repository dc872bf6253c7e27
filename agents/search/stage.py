"""Search over the moves of a game: what the ``plan`` player and the solver know of positions.

A *stage* is what can be done between two draws. ``search_stage`` goes through it in layers: the
positions one move further than the last layer's, of which the best ``width`` by value are kept.
The ``plan`` player searches one stage from the position that it sees (``best_line``); the solver
goes through all stages of a game in the same way (``agents.search.beam``, which is faster).

Three things hold for both:

* A card is *safe* when it goes on the lower of its suit's two foundations. Both copies of every
  lower card of the suit are up then, so nothing will ever be put on it, and a game that can be won
  can be won after it went up. Safe cards go up at once, as a part of the move before.
* Positions that differ only in the order of columns, or in which of a suit's two foundations is
  the higher one, are one position. They are recognized by a hash of 64 bits.
* A position's value is a weighted sum of ``FEATURES``.

The rules are those of ``qv_env.rules``; nothing here repeats them.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np

from qv_env.actions import (
    COLUMN,
    COLUMN_TO_FOUNDATION,
    DRAW,
    MOVE_TABLE,
    NUM_ACTIONS,
    NUM_ACTIONS_WITHOUT_TAKE_BACK,
    NUM_COLUMNS,
    WASTE_TO_COLUMN,
    WASTE_TO_FOUNDATION,
)
from qv_env.cards import NUM_KINDS, NUM_RANKS, NUM_SUITS
from qv_env.compiling import compiled, inlined
from qv_env.deals import mixed
from qv_env.rules import (
    LEGAL,
    MAX_COLUMN,
    NO_CARD,
    STATE,
    STOCK_CARDS,
    WORK_SIZE,
    Game,
    awaited,
    column_top,
    count_unseen,
    is_won,
    play,
    rank_of,
    refusal,
    suit_of,
    waste_top,
    write_legal_actions,
)

# --------------------------------------------------------------------------- what is looked at

# What a position is valued by, in the order of the weights. "Lower": the card of the same suit
# with the lower rank. "Needed": a card that a foundation takes next; "near": the lower foundation
# of its suit takes it next or after the next. A promise is how soon a card comes from the stock:
# 1 for the next card drawn, PATIENCE less for each draw more, an average where that is not known.
FEATURES = (
    "up",  # cards on the foundations
    "even",  # cards on the lower foundation of each suit
    "empty",  # 1 where a column is empty
    "more_empty",  # empty columns beyond the first
    "links",  # cards in columns that lie on the next higher one of their suit
    "over",  # cards in columns that lie above a lower one
    "over_near",  # those of them whose lower one is near
    "waste_over",  # cards in the waste that lie above a lower one
    "waste_over_near",  # those of them whose lower one is near
    "depth",  # cards above needed cards in columns
    "waste_depth",  # cards above needed cards in the waste
    "in_stock",  # needed cards of which no copy is in sight
    "promise_up",  # promises of needed cards
    "promise_columns",  # promises of the cards that go on columns
    "waste",  # cards in the waste
    "clean",  # columns that hold one run in suit
    "shortest",  # cards in the shortest column that is not empty
    "waste_links",  # cards in the waste that lie on the next lower one, as they will in a column
    "kings",  # kings in columns that lie on other cards
    "empty_early",  # "empty" times the share of the stock that is left
    "over_early",  # "over" times that share
    "up_early",  # "up" times that share
)
NUM_FEATURES = len(FEATURES)
PATIENCE = 0.9

_FAR = 255  # deeper than any card lies
_NEAR = 2  # how many cards of a suit are near, counted from what its lower foundation takes next

# Sets of cards as bits of a word: bit i is card id i. By card id, the card, and the lower cards of
# its suit; by suit and height of the lower foundation, the cards below those beyond near.
_BIT = np.uint64(1)
_CARD = np.array([0] + [1 << i for i in range(1, NUM_KINDS + 1)], dtype=np.uint64)
_LOWER = np.zeros(NUM_KINDS + 1, dtype=np.uint64)
_NEAR_OR_UP = np.zeros((NUM_SUITS, NUM_RANKS + 1), dtype=np.uint64)
for _s in range(NUM_SUITS):
    for _r in range(NUM_RANKS):
        _LOWER[1 + _s * NUM_RANKS + _r] = _CARD[1 + _s * NUM_RANKS :][:_r].sum()
    for _h in range(NUM_RANKS + 1):
        _NEAR_OR_UP[_s, _h] = _CARD[1 + _s * NUM_RANKS :][: min(_h + _NEAR, NUM_RANKS)].sum()
_KINGS = _CARD[NUM_RANKS::NUM_RANKS].sum()

# What `measure` works on: by card id, how many cards lie above its highest copy in a column; then
# the same for the waste. Only what needed cards have is in use.
_WASTE_AT = NUM_KINDS + 1
_MEASURE_WORK = 2 * _WASTE_AT


@compiled
def measure(game: Game, promise: np.ndarray, work: np.ndarray, out: np.ndarray) -> None:
    """Write a position's ``FEATURES``.

    Args:
        game: A record of STATE. The order of its stock is not looked at.
        promise: float64 (53,), by card id, how soon it comes from the stock; 0 at "no card".
        work: int64 (_MEASURE_WORK,), of any content.
        out: float64 (NUM_FEATURES,), what is written.
    """
    up = 0
    even = 0
    near = np.uint64(0)  # and lower cards, which are up
    needed = np.uint64(0)
    for s in range(NUM_SUITS):
        one, other = int(game["foundations"][s]), int(game["foundations"][s + NUM_SUITS])
        up += one + other
        even += min(one, other)
        near |= _NEAR_OR_UP[s, min(one, other)]
        for height in (one, other):
            if height < NUM_RANKS:
                card_id = s * NUM_RANKS + height + 1
                needed |= _CARD[card_id]
                work[card_id] = _FAR
                work[_WASTE_AT + card_id] = _FAR

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
        under = _CARD[below]
        if needed & under:
            work[below] = min(work[below], height - 1)
        in_suit = 0
        for row in range(1, height):
            card_id = int(game["columns"][c, row])
            in_suit += awaited(below) == card_id
            lower = under & _LOWER[card_id]
            over += lower != np.uint64(0)
            over_near += (lower & near) != np.uint64(0)
            card = _CARD[card_id]
            kings += (card & _KINGS) != np.uint64(0)
            under |= card
            if needed & card:
                work[card_id] = min(work[card_id], height - 1 - row)
            below = card_id
        links += in_suit
        clean += in_suit == height - 1
        promise_columns += promise[awaited(below)]

    waste_over = waste_over_near = waste_links = 0
    size = int(game["waste_size"])
    under = np.uint64(0)
    below = NO_CARD
    for k in range(size):
        card_id = int(game["waste"][k])
        lower = under & _LOWER[card_id]
        waste_over += lower != np.uint64(0)
        waste_over_near += (lower & near) != np.uint64(0)
        waste_links += awaited(card_id) == below
        card = _CARD[card_id]
        under |= card
        if needed & card:  # from the bottom up: the highest copy stays
            work[_WASTE_AT + card_id] = size - 1 - k
        below = card_id
    if size > 0 and awaited(game["waste"][0]) == NO_CARD:
        waste_links -= 1  # nothing lies below the lowest card, and nothing goes on an ace

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
            if in_column == _FAR and in_waste == _FAR:
                in_stock += 1
            elif in_column <= in_waste:
                depth += in_column
            else:
                waste_depth += in_waste
            promise_up += promise[card_id]

    early = game["stock_size"] / STOCK_CARDS
    out[0] = up
    out[1] = even
    out[2] = min(empty, 1)
    out[3] = max(empty - 1, 0)
    out[4] = links
    out[5] = over
    out[6] = over_near
    out[7] = waste_over
    out[8] = waste_over_near
    out[9] = depth
    out[10] = waste_depth
    out[11] = in_stock
    out[12] = promise_up
    out[13] = promise_columns
    out[14] = size
    out[15] = clean
    out[16] = shortest if empty < NUM_COLUMNS else 0
    out[17] = waste_links
    out[18] = kings
    out[19] = min(empty, 1) * early
    out[20] = over * early
    out[21] = up * early


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


# ------------------------------------------------------------------------ one hash a position

_rng = np.random.Generator(np.random.PCG64(0x51_56))
_IN_COLUMN = _rng.integers(0, 1 << 64, (MAX_COLUMN, NUM_KINDS + 1), dtype=np.uint64)
_IN_WASTE = _rng.integers(0, 1 << 64, (STOCK_CARDS, NUM_KINDS + 1), dtype=np.uint64)
_ON_FOUNDATIONS = _rng.integers(
    0, 1 << 64, (NUM_SUITS, NUM_RANKS + 1, NUM_RANKS + 1), dtype=np.uint64
)
_STOCK_LEFT = _rng.integers(0, 1 << 64, STOCK_CARDS + 1, dtype=np.uint64)


@compiled
def position_key(game: Game) -> np.uint64:
    """A hash that is the same for positions which differ in nothing that matters.

    It does not depend on the order of the columns, on which of a suit's two foundations is the
    higher one, on score and moves, nor on the order of the stock. It is never 0.
    """
    key = _STOCK_LEFT[game["stock_size"]]
    for c in range(NUM_COLUMNS):
        column = np.uint64(0)
        for row in range(game["heights"][c]):
            column ^= _IN_COLUMN[row, game["columns"][c, row]]
        key += mixed(column)
    for s in range(NUM_SUITS):
        one, other = game["foundations"][s], game["foundations"][s + NUM_SUITS]
        key += _ON_FOUNDATIONS[s, min(one, other), max(one, other)]
    waste = np.uint64(0)
    for k in range(game["waste_size"]):
        waste ^= _IN_WASTE[k, game["waste"][k]]
    key += waste
    return key if key != np.uint64(0) else np.uint64(1)


@inlined
def _is_new(key: np.uint64, seen: np.ndarray) -> bool:
    """Note a key in an open hash table (uint64, a power of two long, 0: free); was it not there?"""
    last = np.uint64(seen.size - 1)
    at = key & last
    while seen[at] != np.uint64(0):
        if seen[at] == key:
            return False
        at = (at + np.uint64(1)) & last
    seen[at] = key
    return True


# ------------------------------------------------------------------------------- forced moves


@inlined
def _is_safe(game: Game, card_id: int) -> bool:
    """Whether a card goes on the lower of its suit's two foundations."""
    suit = suit_of(card_id)
    one, other = game["foundations"][suit], game["foundations"][suit + NUM_SUITS]
    return card_id != NO_CARD and rank_of(card_id) == min(one, other)


@compiled
def safe_action(game: Game) -> int:
    """The first action that moves a safe card up, or -1: columns left to right, then the waste."""
    for c in range(NUM_COLUMNS):
        if _is_safe(game, column_top(game, c)):
            return COLUMN_TO_FOUNDATION + c
    if _is_safe(game, waste_top(game)):
        return WASTE_TO_FOUNDATION
    return -1


@compiled
def play_safe(game: Game) -> None:
    """Move safe cards up until there are none."""
    action = safe_action(game)
    while action >= 0:
        play(game, action)
        action = safe_action(game)


# ---------------------------------------------------------------------------- one stage's beam

NO_ACTION = NUM_ACTIONS  # how a line's first position was reached


@compiled
def _put_value(
    states: np.ndarray,
    i: int,
    values: np.ndarray,
    weights: np.ndarray,
    promise: np.ndarray,
    work: np.ndarray,
    features: np.ndarray,
) -> None:
    values[i] = _value(states[i], weights, promise, work, features)


@inlined
def _value(
    game: Game, weights: np.ndarray, promise: np.ndarray, work: np.ndarray, features: np.ndarray
) -> float:
    measure(game, promise[game["stock_size"]], work, features)
    total = 0.0
    for k in range(NUM_FEATURES):
        total += weights[k] * features[k]
    return total


@compiled
def search_stage(
    states: np.ndarray,
    values: np.ndarray,
    parents: np.ndarray,
    actions: np.ndarray,
    count: int,
    base: int,
    width: int,
    depth: int,
    weights: np.ndarray,
    promise: np.ndarray,
    seen: np.ndarray,
    take_backs: bool,
    draws: bool,
) -> tuple[int, int, bool, int, int]:
    """Search the positions that can be reached without a draw, layer by layer.

    Args:
        states: STATE (at least count + width * depth,); the first ``count`` are where the search
            begins, safe cards already up; the others are written, layer by layer.
        values: float64, their values, likewise.
        parents: int32, for each position written the one before it, counted from -``base``.
        actions: uint8, the move in between; safe cards that go up after it are not noted.
        count: How many positions there are to begin with, each different.
        base: What is added to a position's place to get its number in ``parents``.
        width: How many positions of a layer are kept.
        depth: How many layers there are at most.
        weights: float64 (NUM_FEATURES,).
        promise: float64 (65, 53), by cards left in the stock; see ``measure``.
        seen: uint64, a power of two long, the keys of positions that were seen, those of the
            first ``count`` included (``begin_stage``).
        take_backs: Whether cards may come back from foundations.
        draws: Whether to draw, too: through the whole game instead of one stage of it. The order
            of the stock is known then.

    Returns:
        How many positions there are now; the place of a won one, or -1; whether anything was left
        out (positions beyond ``width``, or, with ``seen`` half full, a layer and what follows);
        how many positions were seen; the place of the first position from which the search did
        not go further (there are none left where it is the number of positions).
    """
    mask = np.zeros(NUM_ACTIONS if take_backs else NUM_ACTIONS_WITHOUT_TAKE_BACK, dtype=np.uint8)
    words = mask.view(np.uint64)
    legal_work = np.zeros(WORK_SIZE, dtype=np.uint64)
    work = np.zeros(_MEASURE_WORK, dtype=np.int64)
    features = np.zeros(NUM_FEATURES)
    scratch = np.zeros(1, dtype=STATE)

    room = 4 * max(width, count) + NUM_ACTIONS
    candidate_values = np.empty(room)
    candidate_parents = np.empty(room, dtype=np.int32)
    candidate_actions = np.empty(room, dtype=np.uint8)

    pruned = False
    reached = 0
    first, end = 0, count
    for i in range(count):
        if is_won(states[i]):
            return count, i, False, 0, 0
    for _ in range(depth):
        candidates = 0
        for parent in range(first, end):
            if candidates + NUM_ACTIONS > room:
                room *= 2
                candidate_values = _longer(candidate_values, room)
                candidate_parents = _longer(candidate_parents, room)
                candidate_actions = _longer(candidate_actions, room)
            write_legal_actions(states[parent], words, legal_work)
            empty = -1  # the first empty column; the others are like it
            for c in range(NUM_COLUMNS):
                if states[parent]["heights"][c] == 0:
                    empty = c
                    break
            for word in range(words.size):
                if words[word] == np.uint64(0):
                    continue
                for action in range(8 * word, 8 * word + 8):
                    if mask[action] == 0 or (action == DRAW and not draws):
                        continue
                    if empty >= 0 and MOVE_TABLE[action, 2] == COLUMN:
                        target = int(MOVE_TABLE[action, 3])
                        if target > empty and states[parent]["heights"][target] == 0:
                            continue
                    scratch[0] = states[parent]
                    play(scratch[0], action)
                    play_safe(scratch[0])
                    if not _is_new(position_key(scratch[0]), seen):
                        continue
                    reached += 1
                    if is_won(scratch[0]):
                        states[end] = scratch[0]
                        parents[end] = base + parent
                        actions[end] = action
                        _put_value(states, end, values, weights, promise, work, features)
                        return end + 1, end, pruned, reached, end
                    candidate_values[candidates] = _value(
                        scratch[0], weights, promise, work, features
                    )
                    candidate_parents[candidates] = parent
                    candidate_actions[candidates] = action
                    candidates += 1
            if 2 * (count + reached) > seen.size:  # the table is half full
                return end, -1, True, reached, first
        if candidates == 0:
            return end, -1, pruned, reached, end
        first = end
        threshold, ties = -np.inf, candidates
        if candidates > width:
            pruned = True
            threshold, ties = _threshold(candidate_values[:candidates], width)
        for k in range(candidates):
            if candidate_values[k] < threshold:
                continue
            if candidate_values[k] == threshold:
                if ties == 0:
                    continue
                ties -= 1
            parent = candidate_parents[k]
            states[end] = states[parent]
            play(states[end], candidate_actions[k])
            play_safe(states[end])
            values[end] = candidate_values[k]
            parents[end] = base + parent
            actions[end] = candidate_actions[k]
            end += 1
    return end, -1, pruned, reached, first


@inlined
def _longer(array: np.ndarray, size: int) -> np.ndarray:
    longer = np.empty(size, dtype=array.dtype)
    longer[: array.size] = array
    return longer


@compiled
def _threshold(values: np.ndarray, keep: int) -> tuple[float, int]:
    """The ``keep``-th largest value, and how many of those equal to it are to be kept."""
    place = values.size - keep
    threshold = np.partition(values, place)[place]
    return threshold, keep - (values > threshold).sum()


@compiled
def begin_stage(
    states: np.ndarray,
    values: np.ndarray,
    count: int,
    weights: np.ndarray,
    promise: np.ndarray,
    seen: np.ndarray,
) -> None:
    """Note the first ``count`` positions of a stage as seen, and write their values."""
    work = np.zeros(_MEASURE_WORK, dtype=np.int64)
    features = np.zeros(NUM_FEATURES)
    seen[:] = 0
    for i in range(count):
        _is_new(position_key(states[i]), seen)
        _put_value(states, i, values, weights, promise, work, features)


# -------------------------------------------------------------------------------------- lines


@compiled
def play_out(game: Game, action: int, line: np.ndarray, length: int, score: bool) -> int:
    """Play a move and the safe cards that go up after it; note all actions.

    Args:
        game: A record of STATE; changed in place.
        action: A legal action; NO_ACTION for the safe cards alone.
        line: uint8, where actions are noted from ``length`` on.
        length: How many are noted already.
        score: Whether a waste card that goes up takes the way over a column where one accepts it:
            the same position with 5 points more.

    Returns:
        How many actions are noted now.
    """
    if action == NO_ACTION:
        action = safe_action(game)
    while action >= 0:
        if score and action == WASTE_TO_FOUNDATION:
            for c in range(NUM_COLUMNS):
                if refusal(game, WASTE_TO_COLUMN + c) == LEGAL:
                    play(game, WASTE_TO_COLUMN + c)
                    line[length] = WASTE_TO_COLUMN + c
                    length += 1
                    action = COLUMN_TO_FOUNDATION + c
                    break
        play(game, action)
        line[length] = action
        length += 1
        action = safe_action(game)
    return length


MAX_LINE = 1024  # actions; no line that a search returns is as long


@dataclass(frozen=True)
class Effort:
    """How far a player looks.

    Attributes:
        width: Positions of a layer that are kept.
        depth: Layers between two draws.
        end_width: The same once the stock is empty.
        end_depth: Likewise.
        ahead: How many of the best positions are compared by what they are worth after the next
            draw; 1: value alone decides.
        ahead_width: Of the beam after that draw.
        ahead_depth: Likewise.
    """

    width: int = 100
    depth: int = 24
    end_width: int = 1000
    end_depth: int = 150
    ahead: int = 1
    ahead_width: int = 5
    ahead_depth: int = 4

    def __post_init__(self) -> None:
        for field in fields(self):
            if getattr(self, field.name) < 1:
                raise ValueError(f"{field.name} is at least 1, not {getattr(self, field.name)}")


class Memory:
    """What searches of a stage work on, so that it is not allocated for each.

    Args:
        width: Positions of a layer, at most.
        depth: Layers, at most.
        start: Positions that a stage begins with, at most.

    Attributes:
        states, values, parents, actions, seen: See ``search_stage``.
    """

    def __init__(self, width: int, depth: int, start: int = 1) -> None:
        room = start + width * depth + 1
        self.states = np.zeros(room, dtype=STATE)
        self.values = np.zeros(room)
        self.parents = np.zeros(room, dtype=np.int32)
        self.actions = np.zeros(room, dtype=np.uint8)
        keys = 1 << max(10, int(16 * room).bit_length())
        self.seen = np.zeros(keys, dtype=np.uint64)


WON_VALUE = 1e6  # more than any position that is not won is worth


@compiled
def _best_ahead(
    states: np.ndarray,
    values: np.ndarray,
    count: int,
    ahead: int,
    width: int,
    depth: int,
    weights: np.ndarray,
) -> int:
    """The place of the position that is worth most after the next draw, among the best by value."""
    memory = np.zeros(1 + width * depth + 1, dtype=STATE)
    memory_values = np.zeros(memory.size)
    parents = np.zeros(memory.size, dtype=np.int32)
    actions = np.zeros(memory.size, dtype=np.uint8)
    keys = 1024
    while keys < 16 * memory.size:
        keys *= 2
    seen = np.zeros(keys, dtype=np.uint64)

    threshold, ties = -np.inf, count
    if count > ahead:
        threshold, ties = _threshold(values[:count], ahead)
    best, most = 0, -np.inf
    for i in range(count):
        if values[i] < threshold:
            continue
        if values[i] == threshold:
            if ties == 0:
                continue
            ties -= 1
        worth = worth_ahead(
            states[i : i + 1],
            width,
            depth,
            weights,
            memory,
            memory_values,
            parents,
            actions,
            seen,
        )
        if worth > most:
            best, most = i, worth
    return best


@compiled
def worth_ahead(
    root: np.ndarray,
    width: int,
    depth: int,
    weights: np.ndarray,
    states: np.ndarray,
    values: np.ndarray,
    parents: np.ndarray,
    actions: np.ndarray,
    seen: np.ndarray,
) -> float:
    """What a position is worth after the next draw: a mean over all cards that it may turn up.

    For each of them, the best value that a small beam finds counts.

    Args:
        root: STATE (1,), with a stock, whose order is not looked at; unchanged.
        width, depth, weights, states, values, parents, actions, seen: See ``search_stage``.
    """
    promise = np.zeros((STOCK_CARDS + 1, NUM_KINDS + 1))
    unseen = np.empty(NUM_KINDS, dtype=np.uint8)
    count_unseen(root[0], unseen)
    size = root[0]["stock_size"]
    total = 0.0
    for card in range(NUM_KINDS):
        if unseen[card] == 0:
            continue
        states[0] = root[0]
        states[0]["stock"][size - 1] = card + 1
        play(states[0], DRAW)
        play_safe(states[0])
        expected_promise(states[0], promise[size - 1])
        begin_stage(states, values, 1, weights, promise, seen)
        count, won, _, _, _ = search_stage(
            states,
            values,
            parents,
            actions,
            1,
            0,
            width,
            depth,
            weights,
            promise,
            seen,
            False,
            False,
        )
        worth = WON_VALUE if won >= 0 else values[:count].max()
        total += unseen[card] * worth
    return total / size


@compiled
def best_line(
    root: np.ndarray,
    width: int,
    depth: int,
    weights: np.ndarray,
    states: np.ndarray,
    values: np.ndarray,
    parents: np.ndarray,
    actions: np.ndarray,
    seen: np.ndarray,
    ahead: int,
    ahead_width: int,
    ahead_depth: int,
    line: np.ndarray,
) -> int:
    """Find what to do before the next draw, without any knowledge of the stock's order.

    While there is a stock, the line leads to the best position, or to a won one. The ``ahead``
    best by value are compared by what they are worth after the next draw (``worth_ahead``); with
    ``ahead`` 1, value alone decides, and of equals the first is taken. Without a stock, the line
    leads to a won position, or to one with the highest score.

    Args:
        root: STATE (1,); its stock is not looked at. Changed: at the line's end.
        width, depth, weights, states, values, parents, actions, seen: See ``search_stage``.
        ahead, ahead_width, ahead_depth: See ``Effort``.
        line: uint8 (MAX_LINE,), where the actions are written.

    Returns:
        How many actions the line has.
    """
    promise = np.zeros((STOCK_CARDS + 1, NUM_KINDS + 1))
    expected_promise(root[0], promise[root[0]["stock_size"]])
    length = play_out(root[0], NO_ACTION, line, 0, True)
    states[0] = root[0]
    begin_stage(states, values, 1, weights, promise, seen)
    count, won, _, _, _ = search_stage(
        states, values, parents, actions, 1, 0, width, depth, weights, promise, seen, False, False
    )
    best = won
    if won < 0:
        best = 0
        for i in range(1, count):
            if root[0]["stock_size"] > 0:
                better = values[i] > values[best]
            else:
                gain = states[i]["score"] - states[best]["score"]
                better = gain > 0 or (gain == 0 and values[i] > values[best])
            if better:
                best = i
    if won < 0 and ahead > 1 and count > 1 and root[0]["stock_size"] > 0:
        best = _best_ahead(states, values, count, ahead, ahead_width, ahead_depth, weights)
    way = np.empty(depth + 1, dtype=np.uint8)
    moves = 0
    while best > 0:
        way[moves] = actions[best]
        moves += 1
        best = parents[best]
    for k in range(moves):
        length = play_out(root[0], way[moves - 1 - k], line, length, True)
    return length


@compiled
def play_game(
    game: np.ndarray,
    width: int,
    depth: int,
    end_width: int,
    end_depth: int,
    weights: np.ndarray,
    states: np.ndarray,
    values: np.ndarray,
    parents: np.ndarray,
    actions: np.ndarray,
    seen: np.ndarray,
    few_seen: np.ndarray,
    ahead: int,
    ahead_width: int,
    ahead_depth: int,
    line: np.ndarray,
) -> None:
    """Play a game to its end as the ``plan`` player does: for tuning, where speed counts.

    Args:
        game: STATE (1,); changed in place.
        width, depth, end_width, end_depth, ahead, ahead_width, ahead_depth: See ``Effort``.
        weights, states, values, parents, actions, seen, line: See ``best_line``.
        few_seen: What is used in place of ``seen`` as long as there is a stock: a shorter table
            is cleared faster.
    """
    while game[0]["stock_size"] > 0:
        best_line(
            game,
            width,
            depth,
            weights,
            states,
            values,
            parents,
            actions,
            few_seen,
            ahead,
            ahead_width,
            ahead_depth,
            line,
        )
        if is_won(game[0]):
            return
        play(game[0], DRAW)
    best_line(
        game,
        end_width,
        end_depth,
        weights,
        states,
        values,
        parents,
        actions,
        seen,
        1,
        1,
        1,
        line,
    )
