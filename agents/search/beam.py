"""Searches through whole games whose stock is known, made fast by looking at changes only.

A *node* is a game and what is known about it: a hash and the set of cards of each pile, and the
counts that most of ``stage.FEATURES`` are made of. A move changes two piles, so a child's
key and value follow from its parent's with a few operations. They are those of ``stage``
(``position_key``, and the weighted sum of what ``measure`` writes, but for rounding); tests compare
them. What is legal and what a move does is asked of ``qv_env.rules``.

``expand`` makes a beam's next layer; ``exhaust`` goes through everything that can be reached.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np

from agents.search.stage import (
    _CARD,
    _IN_COLUMN,
    _IN_WASTE,
    _KINGS,
    _LOWER,
    _NEAR_OR_UP,
    _ON_FOUNDATIONS,
    _STOCK_LEFT,
    FEATURES,
    _is_new,
    _longer,
    safe_action,
)
from qv_env.actions import (
    COLUMN,
    FOUNDATION,
    MOVE_TABLE,
    NUM_ACTIONS,
    NUM_ACTIONS_WITHOUT_TAKE_BACK,
    NUM_COLUMNS,
    STOCK,
    WASTE,
)
from qv_env.cards import COPIES, NUM_CARDS, NUM_KINDS, NUM_RANKS, NUM_SUITS
from qv_env.compiling import compiled, inlined
from qv_env.deals import mixed
from qv_env.rules import (
    MAX_COLUMN,
    STATE,
    STOCK_CARDS,
    WORK_SIZE,
    Game,
    awaited,
    count_bits,
    foundation_cards,
    play,
    rank_of,
    suit_of,
    top_card,
    write_legal_actions,
)

# A waste card's *place* is its number in the order of drawing, so that the waste is a set of
# places, and the cards above one are the places behind it.
NODE = np.dtype(
    [
        ("game", STATE),
        ("up", "<i4"),  # cards on the foundations
        ("key", "<u8"),
        ("hashes", "<u8", (NUM_COLUMNS,)),  # of each column
        ("once", "<u8", (NUM_COLUMNS,)),  # the cards in each column: bit i is card id i
        ("twice", "<u8", (NUM_COLUMNS,)),  # those of which it has both copies
        ("waste_hash", "<u8"),
        ("waste_once", "<u8"),
        ("waste_twice", "<u8"),
        ("waste_places", "<u8"),  # bit i is place i
        ("links_in", "u1", (NUM_COLUMNS,)),  # "links" of each column
        ("links", "<i4"),  # these and the others: see FEATURES
        ("over", "<i4"),
        ("over_near", "<i4"),
        ("kings", "<i4"),
        ("waste_over", "<i4"),
        ("waste_over_near", "<i4"),
        ("waste_links", "<i4"),
    ],
    align=True,
)

Node: TypeAlias = Any  # a record of NODE

_NONE = np.uint64(0)
_BIT = np.uint64(1)
_FAR = 255  # deeper than any card lies
_NO_PLACE = STOCK_CARDS

# Where each feature's weight is.
(
    _UP,
    _EVEN,
    _EMPTY,
    _MORE_EMPTY,
    _LINKS,
    _OVER,
    _OVER_NEAR,
    _WASTE_OVER,
    _WASTE_OVER_NEAR,
    _DEPTH,
    _WASTE_DEPTH,
    _IN_STOCK,
    _PROMISE_UP,
    _PROMISE_COLUMNS,
    _WASTE,
    _CLEAN,
    _SHORTEST,
    _WASTE_LINKS,
    _KINGS_COVERING,
    _EMPTY_EARLY,
    _OVER_EARLY,
    _UP_EARLY,
) = range(len(FEATURES))


def drawing_places(root: np.ndarray) -> np.ndarray:
    """Return where the copies of each card come in the order of drawing: uint8 (2, 53).

    Args:
        root: STATE (1,), the order of its stock known. The waste counts as drawn from the bottom.

    Returns:
        By card id, the earlier copy's place in row 0 and the later one's in row 1; 64 for none.
    """
    game = root[0]
    waste = game["waste"][: game["waste_size"]]
    stock = game["stock"][: game["stock_size"]][::-1]
    places = np.full((COPIES, NUM_KINDS + 1), _NO_PLACE, dtype=np.uint8)
    for place, card_id in enumerate([*waste.tolist(), *stock.tolist()]):
        places[int(places[0, card_id] != _NO_PLACE), card_id] = place
    return places


# ------------------------------------------------------------------------- following the moves


@inlined
def _near(game: Game) -> np.uint64:
    """The cards that are near, and lower ones, as bits."""
    near = _NONE
    for s in range(NUM_SUITS):
        near |= _NEAR_OR_UP[s, min(game["foundations"][s], game["foundations"][s + NUM_SUITS])]
    return near


@inlined
def _low_high(game: Game, s: int) -> tuple[int, int]:
    """The heights of a suit's lower and higher foundation."""
    one, other = int(game["foundations"][s]), int(game["foundations"][s + NUM_SUITS])
    return min(one, other), max(one, other)


@inlined
def _foundations_key(game: Game, s: int) -> np.uint64:
    low, high = _low_high(game, s)
    return _ON_FOUNDATIONS[s, low, high]


@inlined
def _leave_column(node: Node, c: int, card_id: int, near: np.uint64) -> None:
    """Bring a node up to date before a column's top card leaves it."""
    row = int(node["game"]["heights"][c]) - 1
    card = _CARD[card_id]
    old = node["hashes"][c]
    new = old ^ _IN_COLUMN[row, card_id]
    node["hashes"][c] = new
    node["key"] += mixed(new) - mixed(old)
    if node["twice"][c] & card:
        node["twice"][c] ^= card
    else:
        node["once"][c] ^= card
    lower = node["once"][c] & _LOWER[card_id]
    node["over"] -= lower != _NONE
    node["over_near"] -= (lower & near) != _NONE
    if row > 0:
        linked = awaited(node["game"]["columns"][c, row - 1]) == card_id
        node["links"] -= linked
        node["links_in"][c] -= linked
        node["kings"] -= (card & _KINGS) != _NONE


@inlined
def _enter_column(node: Node, c: int, card_id: int, near: np.uint64) -> None:
    """Bring a node up to date before a card goes on a column."""
    row = int(node["game"]["heights"][c])
    card = _CARD[card_id]
    old = node["hashes"][c]
    new = old ^ _IN_COLUMN[row, card_id]
    node["hashes"][c] = new
    node["key"] += mixed(new) - mixed(old)
    lower = node["once"][c] & _LOWER[card_id]
    node["over"] += lower != _NONE
    node["over_near"] += (lower & near) != _NONE
    if node["once"][c] & card:
        node["twice"][c] |= card
    else:
        node["once"][c] |= card
    if row > 0:
        linked = awaited(node["game"]["columns"][c, row - 1]) == card_id
        node["links"] += linked
        node["links_in"][c] += linked
        node["kings"] += (card & _KINGS) != _NONE


@inlined
def _leave_waste(node: Node, card_id: int, near: np.uint64, places: np.ndarray) -> None:
    """Bring a node up to date before the waste's top card leaves it."""
    size = int(node["game"]["waste_size"])
    card = _CARD[card_id]
    old = node["waste_hash"]
    new = old ^ _IN_WASTE[size - 1, card_id]
    node["waste_hash"] = new
    node["key"] += new - old
    if node["waste_twice"] & card:
        node["waste_twice"] ^= card
    else:
        node["waste_once"] ^= card
    node["waste_places"] ^= _BIT << np.uint64(_place_in_waste(node, card_id, places))
    lower = node["waste_once"] & _LOWER[card_id]
    node["waste_over"] -= lower != _NONE
    node["waste_over_near"] -= (lower & near) != _NONE
    if size > 1:
        node["waste_links"] -= awaited(card_id) == node["game"]["waste"][size - 2]


@inlined
def _enter_waste(node: Node, card_id: int, near: np.uint64, place: int) -> None:
    """Bring a node up to date before a card goes on the waste."""
    size = int(node["game"]["waste_size"])
    card = _CARD[card_id]
    old = node["waste_hash"]
    new = old ^ _IN_WASTE[size, card_id]
    node["waste_hash"] = new
    node["key"] += new - old
    lower = node["waste_once"] & _LOWER[card_id]
    node["waste_over"] += lower != _NONE
    node["waste_over_near"] += (lower & near) != _NONE
    if node["waste_once"] & card:
        node["waste_twice"] |= card
    else:
        node["waste_once"] |= card
    node["waste_places"] |= _BIT << np.uint64(place)
    if size > 0:
        node["waste_links"] += awaited(card_id) == node["game"]["waste"][size - 1]


@inlined
def _place_in_waste(node: Node, card_id: int, places: np.ndarray) -> int:
    """The place of the higher copy of a card that is in the waste."""
    place = places[1, card_id]
    if place == _NO_PLACE or (node["waste_places"] >> np.uint64(place)) & _BIT == _NONE:
        place = places[0, card_id]
    return int(place)


@inlined
def _follow(node: Node, action: int, near: np.uint64, places: np.ndarray, drawable: int) -> None:
    """Make a legal move and bring the node up to date, but for a change of what is near."""
    source, s = MOVE_TABLE[action, 0], int(MOVE_TABLE[action, 1])
    target, t = MOVE_TABLE[action, 2], int(MOVE_TABLE[action, 3])
    game = node["game"]
    card_id = int(top_card(game, source, s))
    suit = int(suit_of(card_id))
    foundations = source == FOUNDATION or target == FOUNDATION
    if foundations:
        node["key"] -= _foundations_key(game, suit)
    if source == COLUMN:
        _leave_column(node, s, card_id, near)
    elif source == WASTE:
        _leave_waste(node, card_id, near, places)
    elif source == STOCK:
        size = game["stock_size"]
        node["key"] += _STOCK_LEFT[size - 1] - _STOCK_LEFT[size]
    else:
        node["up"] -= 1
    if target == COLUMN:
        _enter_column(node, t, card_id, near)
    elif target == WASTE:
        _enter_waste(node, card_id, near, drawable - int(game["stock_size"]))
    else:
        node["up"] += 1
    play(game, action)
    if foundations:
        node["key"] += _foundations_key(game, suit)


@compiled
def _count_near(node: Node) -> None:
    """Count anew what depends on which cards are near."""
    game = node["game"]
    near = _near(game)
    over_near = 0
    for c in range(NUM_COLUMNS):
        if node["once"][c] & near == _NONE:
            continue
        under = _NONE
        for row in range(game["heights"][c]):
            card_id = game["columns"][c, row]
            over_near += (under & near & _LOWER[card_id]) != _NONE
            under |= _CARD[card_id]
    node["over_near"] = over_near
    over_near = 0
    if node["waste_once"] & near != _NONE:
        under = _NONE
        for k in range(game["waste_size"]):
            card_id = game["waste"][k]
            over_near += (under & near & _LOWER[card_id]) != _NONE
            under |= _CARD[card_id]
    node["waste_over_near"] = over_near


@inlined
def _make(
    child: np.ndarray, parent: np.ndarray, action: int, places: np.ndarray, drawable: int
) -> bool:
    """Write the node that a move and the safe cards after it lead to; did any of those go up?"""
    child[0] = parent[0]
    node = child[0]
    near = _near(node["game"])
    _follow(node, action, near, places, drawable)
    action = safe_action(node["game"])
    if action < 0:
        return False
    while action >= 0:
        _follow(node, action, near, places, drawable)
        action = safe_action(node["game"])
    _count_near(node)
    return True


@inlined
def _key_after(node: Node, action: int) -> np.uint64:
    """The key after a legal move, safe cards left where they are."""
    source, s = MOVE_TABLE[action, 0], int(MOVE_TABLE[action, 1])
    target, t = MOVE_TABLE[action, 2], int(MOVE_TABLE[action, 3])
    game = node["game"]
    card_id = int(top_card(game, source, s))
    key = node["key"]
    if source == COLUMN:
        old = node["hashes"][s]
        key += mixed(old ^ _IN_COLUMN[int(game["heights"][s]) - 1, card_id]) - mixed(old)
    elif source == WASTE:
        old = node["waste_hash"]
        key += (old ^ _IN_WASTE[int(game["waste_size"]) - 1, card_id]) - old
    elif source == STOCK:
        size = game["stock_size"]
        key += _STOCK_LEFT[size - 1] - _STOCK_LEFT[size]
    else:
        suit = s % NUM_SUITS
        low, high = _low_high(game, suit)
        key -= _ON_FOUNDATIONS[suit, low, high]
        if game["foundations"][s] == high:
            high -= 1
        else:
            low -= 1
        key += _ON_FOUNDATIONS[suit, min(low, high), max(low, high)]
    if target == COLUMN:
        old = node["hashes"][t]
        key += mixed(old ^ _IN_COLUMN[int(game["heights"][t]), card_id]) - mixed(old)
    elif target == WASTE:
        old = node["waste_hash"]
        key += (old ^ _IN_WASTE[int(game["waste_size"]), card_id]) - old
    else:
        suit = int(suit_of(card_id))
        low, high = _low_high(game, suit)
        key -= _ON_FOUNDATIONS[suit, low, high]
        if rank_of(card_id) == high:
            high += 1
        else:
            low += 1
        key += _ON_FOUNDATIONS[suit, low, high]
    return key


@compiled
def begin(nodes: np.ndarray, root: np.ndarray) -> None:
    """Write the node of a game.

    Args:
        nodes: NODE (n,), whose first is written.
        root: STATE (1,), the order of its stock known, safe cards up already.
    """
    node = nodes[0]
    node["game"] = root[0]
    game = node["game"]
    near = _near(game)
    node["up"] = foundation_cards(game)
    node["key"] = _STOCK_LEFT[game["stock_size"]]
    for s in range(NUM_SUITS):
        node["key"] += _foundations_key(game, s)
    node["links"] = node["over"] = node["over_near"] = node["kings"] = 0
    node["waste_over"] = node["waste_over_near"] = node["waste_links"] = 0
    node["waste_hash"] = node["waste_once"] = node["waste_twice"] = _NONE
    node["waste_places"] = _NONE
    for c in range(NUM_COLUMNS):
        node["hashes"][c] = node["once"][c] = node["twice"][c] = _NONE
        node["links_in"][c] = 0
        node["key"] += mixed(_NONE)
        for row in range(root[0]["heights"][c]):
            game["heights"][c] = row
            _enter_column(node, c, int(game["columns"][c, row]), near)
        game["heights"][c] = root[0]["heights"][c]
    for k in range(root[0]["waste_size"]):
        game["waste_size"] = k
        _enter_waste(node, int(game["waste"][k]), near, k)
    game["waste_size"] = root[0]["waste_size"]


# ---------------------------------------------------------------------------------- the value


@compiled
def node_value(
    node: Node, weights: np.ndarray, promise: np.ndarray, places: np.ndarray, depths: np.ndarray
) -> float:
    """What a node is worth: the weighted sum of its ``FEATURES``.

    Args:
        node: A record of NODE.
        weights: float32 (NUM_FEATURES,).
        promise: float32 (65, 53), by cards left in the stock; see ``agents.search.stage.measure``.
        places: See ``drawing_places``.
        depths: uint8 (53,), of any content: how many cards lie above needed ones in columns.
    """
    game = node["game"]
    even = 0
    needed = _NONE
    for s in range(NUM_SUITS):
        low, high = _low_high(game, s)
        even += low
        if low < NUM_RANKS:
            card_id = s * NUM_RANKS + low + 1
            needed |= _CARD[card_id]
            depths[card_id] = _FAR
        if high < NUM_RANKS:
            card_id = s * NUM_RANKS + high + 1
            needed |= _CARD[card_id]
            depths[card_id] = _FAR

    size = int(game["stock_size"])
    empty = clean = 0
    shortest = MAX_COLUMN
    promise_columns = np.float32(0.0)
    for c in range(NUM_COLUMNS):
        height = int(game["heights"][c])
        if height == 0:
            empty += 1
            continue
        shortest = min(shortest, height)
        clean += int(node["links_in"][c]) == height - 1
        promise_columns += promise[size, awaited(game["columns"][c, height - 1])]
        wanted = node["once"][c] & needed
        above = 0
        while wanted != _NONE:
            card_id = int(game["columns"][c, height - 1 - above])
            if wanted & _CARD[card_id]:
                wanted ^= _CARD[card_id]
                depths[card_id] = min(depths[card_id], above)
            above += 1

    depth = waste_depth = in_stock = 0
    promise_up = np.float32(0.0)
    for s in range(NUM_SUITS):
        low, high = _low_high(game, s)
        for k in range(COPIES):
            height = low if k == 0 else high
            if height == NUM_RANKS or (k == 1 and low == high):
                continue
            card_id = s * NUM_RANKS + height + 1
            promise_up += promise[size, card_id]
            in_column, in_waste = int(depths[card_id]), _FAR
            if node["waste_once"] & _CARD[card_id]:
                place = np.uint64(_place_in_waste(node, card_id, places))
                in_waste = int(count_bits((node["waste_places"] >> place) >> _BIT))
            if in_column == _FAR and in_waste == _FAR:
                in_stock += 1
            elif in_column <= in_waste:
                depth += in_column
            else:
                waste_depth += in_waste

    early = np.float32(size) / np.float32(STOCK_CARDS)
    return (
        (weights[_UP] + weights[_UP_EARLY] * early) * node["up"]
        + weights[_EVEN] * even
        + (weights[_EMPTY] + weights[_EMPTY_EARLY] * early) * min(empty, 1)
        + weights[_MORE_EMPTY] * max(empty - 1, 0)
        + weights[_LINKS] * node["links"]
        + (weights[_OVER] + weights[_OVER_EARLY] * early) * node["over"]
        + weights[_OVER_NEAR] * node["over_near"]
        + weights[_WASTE_OVER] * node["waste_over"]
        + weights[_WASTE_OVER_NEAR] * node["waste_over_near"]
        + weights[_DEPTH] * depth
        + weights[_WASTE_DEPTH] * waste_depth
        + weights[_IN_STOCK] * in_stock
        + weights[_PROMISE_UP] * promise_up
        + weights[_PROMISE_COLUMNS] * promise_columns
        + weights[_WASTE] * game["waste_size"]
        + weights[_CLEAN] * clean
        + weights[_SHORTEST] * (shortest if empty < NUM_COLUMNS else 0)
        + weights[_WASTE_LINKS] * node["waste_links"]
        + weights[_KINGS_COVERING] * node["kings"]
    )


# ----------------------------------------------------------------------------------- the beam

_BUCKET = 8  # keys that are looked through for one: a cache line


@inlined
def _is_fresh(key: np.uint64, seen: np.ndarray) -> bool:
    """Note a key; was it not there? Of the eight that share its bucket, the oldest is forgotten."""
    at = (key & np.uint64(seen.size // _BUCKET - 1)) * np.uint64(_BUCKET)
    for k in range(_BUCKET):
        if seen[at + np.uint64(k)] == key:
            return False
    for k in range(_BUCKET - 1):
        seen[at + np.uint64(k)] = seen[at + np.uint64(k + 1)]
    seen[at + np.uint64(_BUCKET - 1)] = key
    return True


@compiled
def expand(
    nodes: np.ndarray,
    count: int,
    following: np.ndarray,
    parents: np.ndarray,
    actions: np.ndarray,
    seen: np.ndarray,
    weights: np.ndarray,
    promise: np.ndarray,
    places: np.ndarray,
    drawable: int,
    take_backs: bool,
) -> tuple[int, bool, int, int]:
    """Make the next layer of a beam: the best of the positions one move further.

    Args:
        nodes: NODE (width,), the layer, the first ``count`` of them.
        count: How many positions it has.
        following: NODE (width,), where the next layer is written.
        parents: int32 (width,), for each position of the next layer its parent's place.
        actions: uint8 (width,), the move in between; safe cards that go up are not noted.
        seen: uint64, a power of two long, at least 8: keys of positions, the latest of those that
            were seen. Zeros at first.
        weights: float32 (NUM_FEATURES,).
        promise: float32 (65, 53), by cards left in the stock.
        places, drawable: See ``drawing_places``; how many there are.
        take_backs: Whether cards may come back from foundations.

    Returns:
        How many positions the next layer has; whether its only one is won; how many new positions
        were seen; the most cards up of any.
    """
    width = following.size
    mask = np.zeros(NUM_ACTIONS if take_backs else NUM_ACTIONS_WITHOUT_TAKE_BACK, dtype=np.uint8)
    words = mask.view(np.uint64)
    legal_work = np.zeros(WORK_SIZE, dtype=np.uint64)
    depths = np.zeros(NUM_KINDS + 1, dtype=np.uint8)
    child = np.zeros(1, dtype=NODE)

    room = 4 * width + NUM_ACTIONS
    values = np.empty(room, dtype=np.float32)
    candidate_parents = np.empty(room, dtype=np.int32)
    candidate_actions = np.empty(room, dtype=np.uint8)
    candidates = reached = most_up = 0
    for parent in range(count):
        if candidates + NUM_ACTIONS > room:
            room *= 2
            values = _longer(values, room)
            candidate_parents = _longer(candidate_parents, room)
            candidate_actions = _longer(candidate_actions, room)
        game = nodes[parent]["game"]
        write_legal_actions(game, words, legal_work)
        empty = _first_empty(game)
        for word in range(words.size):
            if words[word] == _NONE:
                continue
            for action in range(8 * word, 8 * word + 8):
                if mask[action] == 0 or _fills_other(game, action, empty):
                    continue
                if not _is_fresh(_key_after(nodes[parent], action), seen):
                    continue
                more = _make(child, nodes[parent : parent + 1], action, places, drawable)
                if more and not _is_fresh(child[0]["key"], seen):
                    continue
                reached += 1
                most_up = max(most_up, child[0]["up"])
                if child[0]["up"] == NUM_CARDS:
                    following[0] = child[0]
                    parents[0] = parent
                    actions[0] = action
                    return 1, True, reached, most_up
                values[candidates] = node_value(child[0], weights, promise, places, depths)
                candidate_parents[candidates] = parent
                candidate_actions[candidates] = action
                candidates += 1

    threshold, ties = np.float32(-np.inf), candidates
    if candidates > width:
        place = candidates - width
        threshold = np.partition(values[:candidates], place)[place]
        ties = width - (values[:candidates] > threshold).sum()
    end = 0
    for k in range(candidates):
        if values[k] < threshold:
            continue
        if values[k] == threshold:
            if ties == 0:
                continue
            ties -= 1
        parent = candidate_parents[k]
        action = int(candidate_actions[k])
        _make(following[end : end + 1], nodes[parent : parent + 1], action, places, drawable)
        parents[end] = parent
        actions[end] = action
        end += 1
    return end, False, reached, most_up


@inlined
def _first_empty(game: Game) -> int:
    """The first empty column, or -1."""
    for c in range(NUM_COLUMNS):
        if game["heights"][c] == 0:
            return c
    return -1


@inlined
def _fills_other(game: Game, action: int, empty: int) -> bool:
    """Whether a move fills an empty column that is not the first: they are all alike."""
    if empty < 0 or MOVE_TABLE[action, 2] != COLUMN:
        return False
    target = int(MOVE_TABLE[action, 3])
    return target > empty and game["heights"][target] == 0


# ---------------------------------------------------------------------------------- everything

EXHAUSTED, FOUND, NOT_DONE = range(3)


@inlined
def _is_known(key: np.uint64, seen: np.ndarray) -> bool:
    """Whether a key is in the table that ``_is_new`` notes keys in."""
    last = np.uint64(seen.size - 1)
    at = key & last
    while seen[at] != _NONE:
        if seen[at] == key:
            return True
        at = (at + _BIT) & last
    return False


@compiled
def exhaust(
    nodes: np.ndarray,
    masks: np.ndarray,
    next_actions: np.ndarray,
    depth: int,
    seen: np.ndarray,
    most: int,
    places: np.ndarray,
    drawable: int,
) -> tuple[int, int, int]:
    """Go through everything that can be reached from a position, depth first.

    All that the rules allow is tried, take-backs and draws included; safe cards go up at once, and
    of empty columns only the first is filled, which loses no way to win. It goes on where the last
    call stopped.

    Args:
        nodes: NODE (n,): the line that is looked at; at first its first position, safe cards up.
        masks: uint8 (n, 192), what was legal in them; all zeros at first.
        next_actions: int16 (n,), which action each position tries next; 0 at first. An action is
            tried in the place of its id, the draw last.
        depth: The place of the line's last position; 0 at first.
        seen: uint64, a power of two long, the keys of positions that were seen; zeros at first.
        most: How many new positions to see at most.
        places, drawable: See ``drawing_places``; how many there are.

    Returns:
        EXHAUSTED: nothing can be reached that was not seen, and none was won. FOUND: the line's
        last position is won. NOT_DONE: ``most`` were seen, or the line is full. Then the place of
        the line's last position (-1 where exhausted), and how many new positions were seen.
    """
    work = np.zeros(WORK_SIZE, dtype=np.uint64)
    reached = 0
    if depth == 0 and next_actions[0] == 0:
        _is_new(nodes[0]["key"], seen)
        reached = 1
        if nodes[0]["up"] == NUM_CARDS:
            return FOUND, 0, reached
        write_legal_actions(nodes[0]["game"], masks[0].view(np.uint64), work)
    while depth >= 0:
        if reached >= most or depth + 1 == nodes.size:
            return NOT_DONE, depth, reached
        game = nodes[depth]["game"]
        empty = _first_empty(game)
        place = int(next_actions[depth])
        further = False
        while place < NUM_ACTIONS and not further:
            place += 1
            action = place % NUM_ACTIONS
            if masks[depth, action] == 0 or _fills_other(game, action, empty):
                continue
            if _is_known(_key_after(nodes[depth], action), seen):
                continue
            below = nodes[depth + 1 : depth + 2]
            _make(below, nodes[depth : depth + 1], action, places, drawable)
            further = _is_new(below[0]["key"], seen)
        next_actions[depth] = place
        if not further:
            depth -= 1
            continue
        reached += 1
        depth += 1
        if nodes[depth]["up"] == NUM_CARDS:
            return FOUND, depth, reached
        next_actions[depth] = 0
        write_legal_actions(nodes[depth]["game"], masks[depth].view(np.uint64), work)
    return EXHAUSTED, -1, reached
