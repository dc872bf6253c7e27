"""Search over the moves of a game: what the ``plan`` player and the solver know of positions.

A *stage* is what can be done between two draws. ``search_stage`` goes through it in layers: the
positions one move further than the last layer's, of which the best ``width`` by value are kept.
The ``plan`` player searches one stage from the position that it sees (``best_line``,
``agents.search.planner.find_candidates``); the solver searches all stages of a game in the same way
(``agents.search.beam``, which is faster).

Three things hold for both:

* A card is *safe* when it goes on the lower of its suit's two foundations. Both copies of every
  lower card of the suit are up then, so nothing will ever be put on it, and a game that can be won
  can be won after it went up. Safe cards go up at once, as a part of the move before.
* Positions that differ only in the order of columns, or in which of a suit's two foundations is
  the higher one, are one position. They are recognized by a hash of 64 bits.
* A position's value is a weighted sum of ``agents.search.features.FEATURES``.

The rules are those of ``qv_env.rules``; nothing here repeats them.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from agents.search.features import MEASURE_WORK, NUM_FEATURES, expected_promise, measure
from agents.search.tables import IN_COLUMN, IN_WASTE, ON_FOUNDATIONS, STOCK_LEFT, is_new
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
from qv_env.cards import NUM_KINDS, NUM_SUITS
from qv_env.compiling import compiled, inlined
from qv_env.deals import mixed
from qv_env.rules import (
    LEGAL,
    NO_CARD,
    STATE,
    WORK_SIZE,
    Game,
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
from qv_env.schema import DATACLASS

# ------------------------------------------------------------------------ one hash a position


@compiled
def table_key(game: Game) -> np.uint64:
    """A hash of columns and foundations, the same for those that differ in nothing that matters.

    It does not depend on the order of the columns, nor on which of a suit's two foundations is the
    higher one.
    """
    key = np.uint64(0)
    for c in range(NUM_COLUMNS):
        column = np.uint64(0)
        for row in range(game["heights"][c]):
            column ^= IN_COLUMN[row, game["columns"][c, row]]
        key += mixed(column)
    for s in range(NUM_SUITS):
        one, other = game["foundations"][s], game["foundations"][s + NUM_SUITS]
        key += ON_FOUNDATIONS[s, min(one, other), max(one, other)]
    return key


@compiled
def position_key(game: Game) -> np.uint64:
    """A hash that is the same for positions which differ in nothing that matters.

    It is made of ``table_key``, the waste, and the size of the stock, not its order; score and
    moves do not count. It is never 0.
    """
    key = table_key(game) + STOCK_LEFT[game["stock_size"]]
    waste = np.uint64(0)
    for k in range(game["waste_size"]):
        waste ^= IN_WASTE[k, game["waste"][k]]
    key += waste
    return key if key != np.uint64(0) else np.uint64(1)


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


# ------------------------------------------------------------------ what a search is given


class Beam(NamedTuple):
    """How far a stage is searched."""

    width: int  # positions of a layer that are kept
    depth: int  # layers, at most


NO_BEAM = Beam(0, 0)  # of a search that is not made


class Workspace(NamedTuple):
    """Where a search of a stage keeps its n positions: the first, then layer after layer."""

    states: np.ndarray  # STATE (n,)
    values: np.ndarray  # float64 (n,)
    parents: np.ndarray  # int32 (n,): the place of the position before
    actions: np.ndarray  # uint8 (n,): the move in between, without the safe cards that follow
    seen: np.ndarray  # uint64, a table of keys: see search_tables.is_new


class Search(NamedTuple):
    """A search of a stage: how far it goes, what it values positions by, what it works on."""

    beam: Beam
    weights: np.ndarray  # float64 (NUM_FEATURES,)
    workspace: Workspace


def new_search(beam: Beam, weights: np.ndarray) -> Search:
    """Return a search with a workspace of its own.

    Args:
        beam: How far it goes.
        weights: float64 (NUM_FEATURES,).
    """
    room = 1 + beam.width * beam.depth + 1
    keys = 1 << max(10, int(16 * room).bit_length())
    workspace = Workspace(
        states=np.zeros(room, dtype=STATE),
        values=np.zeros(room),
        parents=np.zeros(room, dtype=np.int32),
        actions=np.zeros(room, dtype=np.uint8),
        seen=np.zeros(keys, dtype=np.uint64),
    )
    return Search(beam, weights, workspace)


class Searches(NamedTuple):
    """The searches that a game is played with."""

    stage: Search  # of a stage while there is a stock
    end: Search  # once it is empty
    ahead: int  # how many of a stage's best positions by value are compared; see ``compare_ahead``
    after: Search  # after the next draw, to compare them; none where its beam is NO_BEAM


def game_searches(
    beam: Beam, end_beam: Beam, weights: np.ndarray, ahead: int = 1, ahead_beam: Beam = NO_BEAM
) -> Searches:
    """Return the searches of a game; those of its stages share all that they work on but ``seen``.

    Args:
        beam: How far a stage is searched while there is a stock. Its table of keys is its own,
            since a shorter one is cleared faster.
        end_beam: The same once the stock is empty.
        weights: float64 (NUM_FEATURES,).
        ahead: How many of a stage's best positions by value are compared.
        ahead_beam: How far the stage after the next draw is searched to compare them.
    """
    stage, end = new_search(beam, weights), new_search(end_beam, weights)
    larger = max(stage, end, key=lambda search: search.workspace.states.size).workspace
    stage = stage._replace(workspace=larger._replace(seen=stage.workspace.seen))
    end = end._replace(workspace=larger._replace(seen=end.workspace.seen))
    if ahead_beam == NO_BEAM:
        return Searches(stage, end, ahead, stage._replace(beam=NO_BEAM))
    return Searches(stage, end, ahead, new_search(ahead_beam, weights))


# ---------------------------------------------------------------------------- one stage's beam

NO_ACTION = NUM_ACTIONS  # how a line's first position was reached


class Stage(NamedTuple):
    """What a search of a stage found; its positions are in its workspace."""

    size: int  # how many positions there are
    won: int  # the place of a won one, or -1
    pruned: bool  # whether any were left out: beyond the width, or for want of keys' room
    reached: int  # how many new positions were seen, those left out included
    open: int  # the place of the first position from which the search did not go further


class _Moves(NamedTuple):
    """Moves to new positions, of which some become the next layer."""

    values: np.ndarray  # float64 (n,), of the positions
    parents: np.ndarray  # int32 (n,)
    actions: np.ndarray  # uint8 (n,)


class _Scratch(NamedTuple):
    """What is overwritten with each position that is looked at."""

    mask: np.ndarray  # uint8 (192,) or (112,): its legal actions
    legal: np.ndarray  # uint64 (WORK_SIZE,)
    measure: np.ndarray  # int64 (MEASURE_WORK,)
    features: np.ndarray  # float64 (NUM_FEATURES,)
    child: np.ndarray  # STATE (1,): where a move leads


@compiled
def search_stage(search: Search, promise: np.ndarray, take_backs: bool) -> Stage:
    """Search the positions that can be reached without a draw, layer by layer.

    The search ends with a won position, with a layer in which nothing is new, after
    ``search.beam.depth`` layers, or, layer and all, when the table of keys is half full.

    Args:
        search: The search. The first position of its workspace, with its safe cards up already, is
            where it begins; all others are written.
        promise: float64 (53,), how soon each card comes from the stock; see ``measure``.
        take_backs: Whether cards may come back from foundations.
    """
    states, values, parents, actions, seen = search.workspace
    width = search.beam.width
    num_actions = NUM_ACTIONS if take_backs else NUM_ACTIONS_WITHOUT_TAKE_BACK
    scratch = _Scratch(
        np.zeros(num_actions, dtype=np.uint8),
        np.zeros(WORK_SIZE, dtype=np.uint64),
        np.zeros(MEASURE_WORK, dtype=np.int64),
        np.zeros(NUM_FEATURES),
        np.zeros(1, dtype=STATE),
    )
    room = 4 * width + NUM_ACTIONS
    moves = _Moves(np.empty(room), np.empty(room, dtype=np.int32), np.empty(room, dtype=np.uint8))
    seen[:] = 0
    is_new(position_key(states[0]), seen)
    values[0] = _value(states[0], search.weights, promise, scratch.measure, scratch.features)
    if is_won(states[0]):
        return Stage(1, 0, False, 0, 0)
    pruned = False
    reached = 0
    first, end = 0, 1
    for _ in range(search.beam.depth):
        most = seen.size // 2 - 1 - reached
        moves, count, won = _find_moves(search, first, end, promise, most, scratch, moves)
        reached += count
        if won:
            states[end] = scratch.child[0]
            values[end] = moves.values[count - 1]
            parents[end] = moves.parents[count - 1]
            actions[end] = moves.actions[count - 1]
            return Stage(end + 1, end, pruned, reached, end)
        if count > most:
            return Stage(end, -1, True, reached, first)
        if count == 0:
            return Stage(end, -1, pruned, reached, end)
        pruned |= count > width
        first = end
        for k in range(_keep_best(moves, count, width)):
            parent = moves.parents[k]
            states[end] = states[parent]
            play(states[end], moves.actions[k])
            play_safe(states[end])
            values[end] = moves.values[k]
            parents[end] = parent
            actions[end] = moves.actions[k]
            end += 1
    return Stage(end, -1, pruned, reached, first)


@inlined
def _value(
    game: Game, weights: np.ndarray, promise: np.ndarray, work: np.ndarray, features: np.ndarray
) -> float:
    measure(game, promise, work, features)
    total = 0.0
    for k in range(NUM_FEATURES):
        total += weights[k] * features[k]
    return total


@inlined
def _find_moves(
    search: Search,
    first: int,
    end: int,
    promise: np.ndarray,
    most: int,
    scratch: _Scratch,
    moves: _Moves,
) -> tuple[_Moves, int, bool]:
    """Find the moves from a layer's positions that lead to new positions.

    It stops at a move that wins, and after the position with which there are too many.

    Args:
        search: The search.
        first, end: The layer's places.
        promise: See ``search_stage``.
        most: More moves than this are too many.
        scratch: What is worked on. Where a move wins, ``child`` is the won position.
        moves: What is overwritten.

    Returns:
        The moves, in longer arrays where need be; how many there are; whether the last one wins.
    """
    # Arrays are taken out of tuples once: each time costs an update of a reference count.
    states, seen, weights = search.workspace.states, search.workspace.seen, search.weights
    mask, legal_work, measure_work, features, child = scratch
    values, parents, actions = moves
    words = mask.view(np.uint64)
    count = 0
    for parent in range(first, end):
        if count + NUM_ACTIONS > values.size:
            values = longer(values, 2 * values.size)
            parents = longer(parents, 2 * parents.size)
            actions = longer(actions, 2 * actions.size)
        write_legal_actions(states[parent], words, legal_work)
        empty = first_empty(states[parent])
        for word in range(words.size):
            if words[word] == np.uint64(0):
                continue
            for action in range(8 * word, 8 * word + 8):
                if (
                    mask[action] == 0
                    or action == DRAW
                    or fills_other(states[parent], action, empty)
                ):
                    continue
                child[0] = states[parent]
                play(child[0], action)
                play_safe(child[0])
                if not is_new(position_key(child[0]), seen):
                    continue
                values[count] = _value(child[0], weights, promise, measure_work, features)
                parents[count] = parent
                actions[count] = action
                count += 1
                if is_won(child[0]):
                    return _Moves(values, parents, actions), count, True
        if count > most:
            break
    return _Moves(values, parents, actions), count, False


@inlined
def first_empty(game: Game) -> int:
    """The first empty column, or -1."""
    for c in range(NUM_COLUMNS):
        if game["heights"][c] == 0:
            return c
    return -1


@inlined
def fills_other(game: Game, action: int, empty: int) -> bool:
    """Whether a move fills an empty column that is not the first: they are all alike.

    Args:
        game: A record of STATE.
        action: A legal action.
        empty: Its first empty column, or -1.
    """
    if empty < 0 or MOVE_TABLE[action, 2] != COLUMN:
        return False
    target = int(MOVE_TABLE[action, 3])
    return target > empty and game["heights"][target] == 0


@inlined
def longer(array: np.ndarray, size: int) -> np.ndarray:
    """Return an array of ``size`` elements that begins with those of another one, (n,)."""
    copy = np.empty(size, dtype=array.dtype)
    copy[: array.size] = array
    return copy


@compiled
def best_places(values: np.ndarray, keep: int) -> np.ndarray:
    """Return the places of the ``keep`` largest values, of equals the first: int64, ascending.

    Args:
        values: float32 or float64 (n,).
        keep: How many, at least 1; all of them where there are no more.
    """
    if values.size <= keep:
        return np.arange(values.size)
    cut = values.size - keep
    threshold = np.partition(values, cut)[cut]
    ties = keep - (values > threshold).sum()
    places = np.empty(keep, dtype=np.int64)
    count = 0
    for k in range(values.size):
        if values[k] > threshold or (values[k] == threshold and ties > 0):
            ties -= values[k] == threshold
            places[count] = k
            count += 1
    return places[:count]


@inlined
def _keep_best(moves: _Moves, count: int, keep: int) -> int:
    """Leave out all but the ``keep`` best of ``count`` moves; return how many are left."""
    if count <= keep:
        return count
    values, parents, actions = moves
    places = best_places(values[:count], keep)
    for k in range(places.size):
        values[k] = values[places[k]]
        parents[k] = parents[places[k]]
        actions[k] = actions[places[k]]
    return places.size


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


@compiled
def play_to(workspace: Workspace, place: int, game: Game, line: np.ndarray, length: int) -> int:
    """Play from a stage's first position to another one of its positions; note all actions.

    Args:
        workspace: The positions that a search found.
        place: The place of the one to go to.
        game: A record of STATE, the first one; changed in place.
        line: uint8, where actions are noted from ``length`` on.
        length: How many are noted already.

    Returns:
        How many actions are noted now.
    """
    moves = 0
    at = place
    while at > 0:
        moves += 1
        at = workspace.parents[at]
    way = np.empty(moves, dtype=np.uint8)
    at = place
    for k in range(moves - 1, -1, -1):
        way[k] = workspace.actions[at]
        at = workspace.parents[at]
    for k in range(moves):
        length = play_out(game, way[k], line, length, True)
    return length


# Limits of what is searched.
MOST_POSITIONS = 5_000_000  # of a beam, all layers together: some 2 GB
Width = Annotated[int, Field(ge=1, le=100_000, strict=True)]
Depth = Annotated[int, Field(ge=1, le=10_000, strict=True)]


def check_beams(numbers: Any, *beams: tuple[str, str]) -> None:
    """See that beams need no more memory than a machine has.

    Args:
        numbers: What has them.
        beams: The names of each beam's width and depth.

    Raises:
        ValueError: One has more than ``MOST_POSITIONS`` positions.
    """
    for width, depth in beams:
        size = getattr(numbers, width) * getattr(numbers, depth)
        if size > MOST_POSITIONS:
            raise ValueError(f"{width} x {depth} is at most {MOST_POSITIONS:,}, not {size:,}")


@dataclass(frozen=True, config=DATACLASS)
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

    width: Width = 100
    depth: Depth = 24
    end_width: Width = 1000
    end_depth: Depth = 150
    ahead: Width = 1
    ahead_width: Width = 5
    ahead_depth: Depth = 4

    def __post_init__(self) -> None:
        check_beams(self, ("width", "depth"), ("end_width", "end_depth"))
        check_beams(self, ("ahead_width", "ahead_depth"))

    @property
    def beam(self) -> Beam:
        """How far a stage is searched while there is a stock."""
        return Beam(self.width, self.depth)

    @property
    def end_beam(self) -> Beam:
        """How far it is searched once the stock is empty."""
        return Beam(self.end_width, self.end_depth)

    def searches(self, weights: np.ndarray) -> Searches:
        """Return the searches of a game of the ``plan`` player.

        Args:
            weights: float64 (NUM_FEATURES,).
        """
        after = Beam(self.ahead_width, self.ahead_depth) if self.ahead > 1 else NO_BEAM
        return game_searches(self.beam, self.end_beam, weights, self.ahead, after)


WON_VALUE = 1e6  # more than any position that is not won is worth


@compiled
def worth_ahead(root: np.ndarray, search: Search) -> float:
    """What a position is worth after the next draw: a mean over all cards that it may turn up.

    For each of them, the best value that a small beam finds counts.

    Args:
        root: STATE (1,), with a stock, whose order is not read; unchanged.
        search: The search after the draw.
    """
    promise = np.empty(NUM_KINDS + 1)
    unseen = np.empty(NUM_KINDS, dtype=np.uint8)
    count_unseen(root[0], unseen)
    size = root[0]["stock_size"]
    states, values = search.workspace.states, search.workspace.values
    total = 0.0
    for card in range(NUM_KINDS):
        if unseen[card] == 0:
            continue
        states[0] = root[0]
        states[0]["stock"][size - 1] = card + 1
        play(states[0], DRAW)
        play_safe(states[0])
        expected_promise(states[0], promise)
        stage = search_stage(search, promise, False)
        worth = WON_VALUE if stage.won >= 0 else values[: stage.size].max()
        total += unseen[card] * worth
    return total / size


@compiled
def search_from(root: np.ndarray, search: Search, line: np.ndarray) -> tuple[Stage, int]:
    """Search a stage without any knowledge of the stock's order.

    Args:
        root: STATE (1,); its safe cards go up.
        search: The search.
        line: uint8 (MAX_LINE,), where the actions that move them are noted.

    Returns:
        What was found, and how many actions are noted.
    """
    promise = np.empty(NUM_KINDS + 1)
    expected_promise(root[0], promise)
    length = play_out(root[0], NO_ACTION, line, 0, True)
    search.workspace.states[0] = root[0]
    return search_stage(search, promise, False), length


@compiled
def compare_ahead(searches: Searches, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Find the best positions of a stage by value, and what they are worth after the next draw.

    Args:
        searches: The searches of the game, the positions being those of ``searches.stage``. Where
            there is no search after the draw, or one position only, positions are worth their
            values.
        count: How many positions were found.

    Returns:
        The places of the ``searches.ahead`` best, int64 (k,), ascending; what each is worth,
        float64 (k,).
    """
    states, values = searches.stage.workspace.states, searches.stage.workspace.values
    places = best_places(values[:count], searches.ahead)
    worth = values[places]
    if places.size > 1 and searches.after.beam.width > 0:
        for k in range(places.size):
            i = places[k]
            worth[k] = worth_ahead(states[i : i + 1], searches.after)
    return places, worth


@compiled
def best_line(root: np.ndarray, searches: Searches, line: np.ndarray) -> int:
    """Find what to do before the next draw, without any knowledge of the stock's order.

    While there is a stock, the line leads to the best position, or to a won one. The
    ``searches.ahead`` best by value are compared by what they are worth after the next draw
    (``worth_ahead``); if that is 1, value alone decides, and of equals the first is taken. Without
    a stock, the line leads to a won position, or to one with the highest score.

    Args:
        root: STATE (1,); the order of its stock is not read. Changed: at the line's end.
        searches: The searches of the game.
        line: uint8 (MAX_LINE,), where the actions are written.

    Returns:
        How many actions the line has.
    """
    has_stock = root[0]["stock_size"] > 0
    search = searches.stage if has_stock else searches.end
    stage, length = search_from(root, search, line)
    states, values = search.workspace.states, search.workspace.values
    best = max(stage.won, 0)
    if stage.won < 0 and has_stock and searches.ahead > 1:
        places, worth = compare_ahead(searches, stage.size)
        best = places[np.argmax(worth)]
    elif stage.won < 0:
        for i in range(1, stage.size):
            if has_stock:
                better = values[i] > values[best]
            else:
                gain = states[i]["score"] - states[best]["score"]
                better = gain > 0 or (gain == 0 and values[i] > values[best])
            if better:
                best = i
    return play_to(search.workspace, best, root[0], line, length)


@compiled
def play_game(game: np.ndarray, searches: Searches, line: np.ndarray) -> None:
    """Play a game to its end as the ``plan`` player does: for tuning, where speed counts.

    Args:
        game: STATE (1,); changed in place.
        searches, line: See ``best_line``.
    """
    while game[0]["stock_size"] > 0:
        best_line(game, searches, line)
        if is_won(game[0]):
            return
        play(game[0], DRAW)
    best_line(game, searches, line)
