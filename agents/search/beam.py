"""Searches through whole games whose stock is known, made fast by incremental updates.

A *node* is a game with derived data: a hash and the set of cards of each pile, and the counts from
which most of ``features.FEATURES`` are computed. A move changes two piles, so a child's key and
value can be computed from its parent's data in a few operations. They are equal to those of
``stage`` (``position_key``; the weighted sum of the features that ``measure`` writes, except for
rounding); tests compare them. Legality and the effect of moves are left to ``qv_env.rules``.

``expand`` makes a beam's next layer; ``exhaust`` visits all reachable positions.
"""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np

from agents.search.features import INDEX
from agents.search.stage import best_places, fills_other, first_empty, longer, safe_action
from agents.search.tables import (
    CARD,
    FAR,
    IN_COLUMN,
    IN_WASTE,
    KINGS,
    LOWER,
    NEAR_OR_UP,
    NO_CARDS,
    ON_FOUNDATIONS,
    STOCK_LEFT,
    is_known,
    is_new,
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
# places, and the cards above a card have higher places.
NODE = np.dtype(
    [
        ("game", STATE),
        ("up", "<i4"),  # cards on the foundations
        ("key", "<u8"),
        ("hashes", "<u8", (NUM_COLUMNS,)),  # of each column
        ("once", "<u8", (NUM_COLUMNS,)),  # the cards in each column: bit i is card id i
        ("twice", "<u8", (NUM_COLUMNS,)),  # those of which the column has both copies
        ("waste_hash", "<u8"),
        ("waste_once", "<u8"),
        ("waste_twice", "<u8"),
        ("waste_places", "<u8"),  # bit i is place i
        ("links_in", "u1", (NUM_COLUMNS,)),  # "links" of each column
        ("links", "<i4"),  # this field and those below: see FEATURES
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

_BIT = np.uint64(1)
_NO_PLACE = STOCK_CARDS


class DrawingOrder(NamedTuple):
    """The places of the cards in the order of drawing; those of the waste come first."""

    # uint8 (2, 53), by card id: the earlier copy's place in row 0, the later copy's in row 1; 64 if
    # there is no such copy.
    places: np.ndarray
    size: int  # cards in waste and stock


def drawing_order(root: np.ndarray) -> DrawingOrder:
    """Return the order of drawing of a game.

    Args:
        root: STATE (1,), the order of its stock known. The waste was drawn from the bottom up.
    """
    game = root[0]
    waste = game["waste"][: game["waste_size"]]
    stock = game["stock"][: game["stock_size"]][::-1]
    places = np.full((COPIES, NUM_KINDS + 1), _NO_PLACE, dtype=np.uint8)
    for place, card_id in enumerate([*waste.tolist(), *stock.tolist()]):
        places[int(places[0, card_id] != _NO_PLACE), card_id] = place
    return DrawingOrder(places, waste.size + stock.size)


# ------------------------------------------------------------------------- incremental updates


@inlined
def _near(game: Game) -> np.uint64:
    """Return the cards that are near, and those below them, as bits."""
    near = NO_CARDS
    for s in range(NUM_SUITS):
        near |= NEAR_OR_UP[s, min(game["foundations"][s], game["foundations"][s + NUM_SUITS])]
    return near


@inlined
def _low_high(game: Game, s: int) -> tuple[int, int]:
    """Return the heights of a suit's lower and higher foundation."""
    one, other = int(game["foundations"][s]), int(game["foundations"][s + NUM_SUITS])
    return min(one, other), max(one, other)


@inlined
def _foundations_key(game: Game, s: int) -> np.uint64:
    low, high = _low_high(game, s)
    return ON_FOUNDATIONS[s, low, high]


@inlined
def _leave_column(node: Node, c: int, card_id: int, near: np.uint64) -> None:
    """Update a node before the top card of a column is removed."""
    row = int(node["game"]["heights"][c]) - 1
    card = CARD[card_id]
    old = node["hashes"][c]
    new = old ^ IN_COLUMN[row, card_id]
    node["hashes"][c] = new
    node["key"] += mixed(new) - mixed(old)
    if node["twice"][c] & card:
        node["twice"][c] ^= card
    else:
        node["once"][c] ^= card
    lower = node["once"][c] & LOWER[card_id]
    node["over"] -= lower != NO_CARDS
    node["over_near"] -= (lower & near) != NO_CARDS
    if row > 0:
        linked = awaited(node["game"]["columns"][c, row - 1]) == card_id
        node["links"] -= linked
        node["links_in"][c] -= linked
        node["kings"] -= (card & KINGS) != NO_CARDS


@inlined
def _enter_column(node: Node, c: int, card_id: int, near: np.uint64) -> None:
    """Update a node before a card is placed on a column."""
    row = int(node["game"]["heights"][c])
    card = CARD[card_id]
    old = node["hashes"][c]
    new = old ^ IN_COLUMN[row, card_id]
    node["hashes"][c] = new
    node["key"] += mixed(new) - mixed(old)
    lower = node["once"][c] & LOWER[card_id]
    node["over"] += lower != NO_CARDS
    node["over_near"] += (lower & near) != NO_CARDS
    if node["once"][c] & card:
        node["twice"][c] |= card
    else:
        node["once"][c] |= card
    if row > 0:
        linked = awaited(node["game"]["columns"][c, row - 1]) == card_id
        node["links"] += linked
        node["links_in"][c] += linked
        node["kings"] += (card & KINGS) != NO_CARDS


@inlined
def _leave_waste(node: Node, card_id: int, near: np.uint64, places: np.ndarray) -> None:
    """Update a node before the top card of the waste is removed."""
    size = int(node["game"]["waste_size"])
    card = CARD[card_id]
    old = node["waste_hash"]
    new = old ^ IN_WASTE[size - 1, card_id]
    node["waste_hash"] = new
    node["key"] += new - old
    if node["waste_twice"] & card:
        node["waste_twice"] ^= card
    else:
        node["waste_once"] ^= card
    node["waste_places"] ^= _BIT << np.uint64(_place_in_waste(node, card_id, places))
    lower = node["waste_once"] & LOWER[card_id]
    node["waste_over"] -= lower != NO_CARDS
    node["waste_over_near"] -= (lower & near) != NO_CARDS
    if size > 1:
        node["waste_links"] -= awaited(card_id) == node["game"]["waste"][size - 2]


@inlined
def _enter_waste(node: Node, card_id: int, near: np.uint64, place: int) -> None:
    """Update a node before a card is placed on the waste."""
    size = int(node["game"]["waste_size"])
    card = CARD[card_id]
    old = node["waste_hash"]
    new = old ^ IN_WASTE[size, card_id]
    node["waste_hash"] = new
    node["key"] += new - old
    lower = node["waste_once"] & LOWER[card_id]
    node["waste_over"] += lower != NO_CARDS
    node["waste_over_near"] += (lower & near) != NO_CARDS
    if node["waste_once"] & card:
        node["waste_twice"] |= card
    else:
        node["waste_once"] |= card
    node["waste_places"] |= _BIT << np.uint64(place)
    if size > 0:
        node["waste_links"] += awaited(card_id) == node["game"]["waste"][size - 1]


@inlined
def _place_in_waste(node: Node, card_id: int, places: np.ndarray) -> int:
    """Return the place of a waste card; of two copies in the waste, that of the upper one."""
    place = places[1, card_id]
    if place == _NO_PLACE or (node["waste_places"] >> np.uint64(place)) & _BIT == NO_CARDS:
        place = places[0, card_id]
    return int(place)


@inlined
def _follow(node: Node, action: int, near: np.uint64, places: np.ndarray, drawable: int) -> None:
    """Make a legal move and update the node, except for changes in which cards are near."""
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
        node["key"] += STOCK_LEFT[size - 1] - STOCK_LEFT[size]
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
    """Recompute the counts that depend on which cards are near."""
    game = node["game"]
    near = _near(game)
    over_near = 0
    for c in range(NUM_COLUMNS):
        if node["once"][c] & near == NO_CARDS:
            continue
        under = NO_CARDS
        for row in range(game["heights"][c]):
            card_id = game["columns"][c, row]
            over_near += (under & near & LOWER[card_id]) != NO_CARDS
            under |= CARD[card_id]
    node["over_near"] = over_near
    over_near = 0
    if node["waste_once"] & near != NO_CARDS:
        under = NO_CARDS
        for k in range(game["waste_size"]):
            card_id = game["waste"][k]
            over_near += (under & near & LOWER[card_id]) != NO_CARDS
            under |= CARD[card_id]
    node["waste_over_near"] = over_near


@inlined
def _make(
    child: np.ndarray, parent: np.ndarray, action: int, places: np.ndarray, drawable: int
) -> bool:
    """Write the node after a move and the safe cards that follow; return whether any followed."""
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
    """Return the key after a legal move, before any safe cards go up."""
    source, s = MOVE_TABLE[action, 0], int(MOVE_TABLE[action, 1])
    target, t = MOVE_TABLE[action, 2], int(MOVE_TABLE[action, 3])
    game = node["game"]
    card_id = int(top_card(game, source, s))
    key = node["key"]
    if source == COLUMN:
        old = node["hashes"][s]
        key += mixed(old ^ IN_COLUMN[int(game["heights"][s]) - 1, card_id]) - mixed(old)
    elif source == WASTE:
        old = node["waste_hash"]
        key += (old ^ IN_WASTE[int(game["waste_size"]) - 1, card_id]) - old
    elif source == STOCK:
        size = game["stock_size"]
        key += STOCK_LEFT[size - 1] - STOCK_LEFT[size]
    else:
        suit = s % NUM_SUITS
        low, high = _low_high(game, suit)
        key -= ON_FOUNDATIONS[suit, low, high]
        if game["foundations"][s] == high:
            high -= 1
        else:
            low -= 1
        key += ON_FOUNDATIONS[suit, min(low, high), max(low, high)]
    if target == COLUMN:
        old = node["hashes"][t]
        key += mixed(old ^ IN_COLUMN[int(game["heights"][t]), card_id]) - mixed(old)
    elif target == WASTE:
        old = node["waste_hash"]
        key += (old ^ IN_WASTE[int(game["waste_size"]), card_id]) - old
    else:
        suit = int(suit_of(card_id))
        low, high = _low_high(game, suit)
        key -= ON_FOUNDATIONS[suit, low, high]
        if rank_of(card_id) == high:
            high += 1
        else:
            low += 1
        key += ON_FOUNDATIONS[suit, low, high]
    return key


@compiled
def begin(nodes: np.ndarray, root: np.ndarray) -> None:
    """Write the node of a game.

    Args:
        nodes: NODE (n,); the first one is written.
        root: STATE (1,), the order of its stock known, safe cards up already.
    """
    node = nodes[0]
    node["game"] = root[0]
    game = node["game"]
    near = _near(game)
    node["up"] = foundation_cards(game)
    node["key"] = STOCK_LEFT[game["stock_size"]]
    for s in range(NUM_SUITS):
        node["key"] += _foundations_key(game, s)
    node["links"] = node["over"] = node["over_near"] = node["kings"] = 0
    node["waste_over"] = node["waste_over_near"] = node["waste_links"] = 0
    node["waste_hash"] = node["waste_once"] = node["waste_twice"] = NO_CARDS
    node["waste_places"] = NO_CARDS
    for c in range(NUM_COLUMNS):
        node["hashes"][c] = node["once"][c] = node["twice"][c] = NO_CARDS
        node["links_in"][c] = 0
        node["key"] += mixed(NO_CARDS)
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
    """Return a node's value: the weighted sum of its ``FEATURES``.

    Args:
        node: A record of NODE.
        weights: float32 (NUM_FEATURES,).
        promise: float32 (65, 53), by cards left in the stock; see ``features.measure``.
        places: See ``DrawingOrder``.
        depths: uint8 (53,), scratch space: by card id, how many cards lie above a needed card in a
            column.
    """
    game = node["game"]
    even = 0
    needed = NO_CARDS
    for s in range(NUM_SUITS):
        low, high = _low_high(game, s)
        even += low
        if low < NUM_RANKS:
            card_id = s * NUM_RANKS + low + 1
            needed |= CARD[card_id]
            depths[card_id] = FAR
        if high < NUM_RANKS:
            card_id = s * NUM_RANKS + high + 1
            needed |= CARD[card_id]
            depths[card_id] = FAR

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
        while wanted != NO_CARDS:
            card_id = int(game["columns"][c, height - 1 - above])
            if wanted & CARD[card_id]:
                wanted ^= CARD[card_id]
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
            in_column, in_waste = int(depths[card_id]), FAR
            if node["waste_once"] & CARD[card_id]:
                place = np.uint64(_place_in_waste(node, card_id, places))
                in_waste = int(count_bits((node["waste_places"] >> place) >> _BIT))
            if in_column == FAR and in_waste == FAR:
                in_stock += 1
            elif in_column <= in_waste:
                depth += in_column
            else:
                waste_depth += in_waste

    early = np.float32(size) / np.float32(STOCK_CARDS)
    return (
        (weights[INDEX.up] + weights[INDEX.up_early] * early) * node["up"]
        + weights[INDEX.even] * even
        + (weights[INDEX.empty] + weights[INDEX.empty_early] * early) * min(empty, 1)
        + weights[INDEX.more_empty] * max(empty - 1, 0)
        + weights[INDEX.links] * node["links"]
        + (weights[INDEX.over] + weights[INDEX.over_early] * early) * node["over"]
        + weights[INDEX.over_near] * node["over_near"]
        + weights[INDEX.waste_over] * node["waste_over"]
        + weights[INDEX.waste_over_near] * node["waste_over_near"]
        + weights[INDEX.depth] * depth
        + weights[INDEX.waste_depth] * waste_depth
        + weights[INDEX.in_stock] * in_stock
        + weights[INDEX.promise_up] * promise_up
        + weights[INDEX.promise_columns] * promise_columns
        + weights[INDEX.waste] * game["waste_size"]
        + weights[INDEX.clean] * clean
        + weights[INDEX.shortest] * (shortest if empty < NUM_COLUMNS else 0)
        + weights[INDEX.waste_links] * node["waste_links"]
        + weights[INDEX.kings] * node["kings"]
    )


# ----------------------------------------------------------------------------------- the beam

_BUCKET = 8  # keys per bucket: one cache line


@inlined
def _is_fresh(key: np.uint64, seen: np.ndarray) -> bool:
    """Add a key to the table; return whether it was not there before.

    If its bucket is full, the key replaces the oldest one there.
    """
    at = (key & np.uint64(seen.size // _BUCKET - 1)) * np.uint64(_BUCKET)
    for k in range(_BUCKET):
        if seen[at + np.uint64(k)] == key:
            return False
    for k in range(_BUCKET - 1):
        seen[at + np.uint64(k)] = seen[at + np.uint64(k + 1)]
    seen[at + np.uint64(_BUCKET - 1)] = key
    return True


class Layer(NamedTuple):
    """Positions of a beam that are equally many moves from the root."""

    nodes: np.ndarray  # NODE (width,)
    parents: np.ndarray  # int32 (width,): the parent's index in the preceding layer
    actions: np.ndarray  # uint8 (width,): the move from there, without the safe cards that follow


def new_layer(width: int) -> Layer:
    """Return a layer with room for ``width`` positions."""
    return Layer(
        np.zeros(width, dtype=NODE),
        np.zeros(width, dtype=np.int32),
        np.zeros(width, dtype=np.uint8),
    )


@compiled
def expand(
    nodes: np.ndarray,
    following: Layer,
    seen: np.ndarray,
    weights: np.ndarray,
    promise: np.ndarray,
    order: DrawingOrder,
    take_backs: bool,
) -> tuple[int, bool, int, int]:
    """Make the next layer of a beam: the best of the positions one move beyond a layer.

    Args:
        nodes: NODE (count,), the positions of the layer.
        following: The next layer, which is written.
        seen: uint64, a power of two long, at least 8: a table of the keys of recently seen
            positions. Zeros at first.
        weights: float32 (NUM_FEATURES,).
        promise: float32 (65, 53), by number of cards left in the stock and card id.
        order: The game's order of drawing.
        take_backs: Whether cards may be taken back from foundations.

    Returns:
        The number of positions in the next layer; whether a won position was found, which is then
        the only one in it; the number of new positions seen; the largest number of cards on the
        foundations in any of them.
    """
    places, drawable = order
    next_nodes, parents, actions = following
    width = next_nodes.size
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
    for parent in range(nodes.size):
        if candidates + NUM_ACTIONS > room:
            room *= 2
            values = longer(values, room)
            candidate_parents = longer(candidate_parents, room)
            candidate_actions = longer(candidate_actions, room)
        game = nodes[parent]["game"]
        write_legal_actions(game, words, legal_work)
        empty = first_empty(game)
        for word in range(words.size):
            if words[word] == NO_CARDS:
                continue
            for action in range(8 * word, 8 * word + 8):
                if mask[action] == 0 or fills_other(game, action, empty):
                    continue
                if not _is_fresh(_key_after(nodes[parent], action), seen):
                    continue
                more = _make(child, nodes[parent : parent + 1], action, places, drawable)
                if more and not _is_fresh(child[0]["key"], seen):
                    continue
                reached += 1
                most_up = max(most_up, child[0]["up"])
                if child[0]["up"] == NUM_CARDS:
                    next_nodes[0] = child[0]
                    parents[0] = parent
                    actions[0] = action
                    return 1, True, reached, most_up
                values[candidates] = node_value(child[0], weights, promise, places, depths)
                candidate_parents[candidates] = parent
                candidate_actions[candidates] = action
                candidates += 1

    end = 0
    for k in best_places(values[:candidates], width):
        parent = candidate_parents[k]
        action = int(candidate_actions[k])
        _make(next_nodes[end : end + 1], nodes[parent : parent + 1], action, places, drawable)
        parents[end] = parent
        actions[end] = action
        end += 1
    return end, False, reached, most_up


# --------------------------------------------------------------------------- exhaustive search

EXHAUSTED, FOUND, NOT_DONE = range(3)


class Path(NamedTuple):
    """The stack of ``exhaust``: the line of up to n positions to the current one."""

    nodes: np.ndarray  # NODE (n,), safe cards up; initially only the first is written
    masks: np.ndarray  # uint8 (n, 192), the legal actions; initially zeros
    next_actions: np.ndarray  # int16 (n,), the last action tried, the draw as 192; initially 0


def new_path(room: int) -> Path:
    """Return a path with room for ``room`` positions."""
    return Path(
        np.zeros(room, dtype=NODE),
        np.zeros((room, NUM_ACTIONS), dtype=np.uint8),
        np.zeros(room, dtype=np.int16),
    )


@compiled
def exhaust(
    path: Path, depth: int, seen: np.ndarray, most: int, order: DrawingOrder
) -> tuple[int, int, int]:
    """Visit all positions that can be reached from a position, depth first.

    All legal moves are tried, take-backs and draws included, with two exceptions that lose no
    winning line: safe cards go up at once, and of several empty columns only the first is filled.
    A call continues where the previous one stopped.

    Args:
        path: The line to the current position. Actions are tried in the order of their ids, the
            draw last.
        depth: The index of the path's last position; initially 0.
        seen: uint64, a power of two long, a hash table of the positions visited; initially zeros.
        most: Maximum number of new positions to visit.
        order: The game's order of drawing.

    Returns:
        A status, the index of the path's last position (-1 if exhausted), and the number of new
        positions visited. The status is EXHAUSTED if all reachable positions have been visited and
        none is won, FOUND if the path's last position is won, NOT_DONE if ``most`` positions were
        visited or the path is full.
    """
    nodes, masks, next_actions = path
    places, drawable = order
    work = np.zeros(WORK_SIZE, dtype=np.uint64)
    reached = 0
    if depth == 0 and next_actions[0] == 0:
        is_new(nodes[0]["key"], seen)
        reached = 1
        if nodes[0]["up"] == NUM_CARDS:
            return FOUND, 0, reached
        write_legal_actions(nodes[0]["game"], masks[0].view(np.uint64), work)
    while depth >= 0:
        if reached >= most or depth + 1 == nodes.size:
            return NOT_DONE, depth, reached
        game = nodes[depth]["game"]
        empty = first_empty(game)
        place = int(next_actions[depth])
        further = False
        while place < NUM_ACTIONS and not further:
            place += 1
            action = place % NUM_ACTIONS
            if masks[depth, action] == 0 or fills_other(game, action, empty):
                continue
            if is_known(_key_after(nodes[depth], action), seen):
                continue
            below = nodes[depth + 1 : depth + 2]
            _make(below, nodes[depth : depth + 1], action, places, drawable)
            further = is_new(below[0]["key"], seen)
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
