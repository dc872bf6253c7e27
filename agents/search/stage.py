"""Beam search over the moves of a game, for the ``plan`` player and the solver.

A *stage* is the part of a game between two draws. ``search_stage`` searches it layer by layer: each
layer consists of the positions one move beyond those of the previous layer, of which the best
``width`` by value are kept. The ``plan`` player searches one stage from the position that it sees
(``best_line``, ``agents.search.planner.find_candidates``). The solver searches all stages of a game
by the same method, with a faster implementation (``agents.search.beam``).

Both share three principles:

* A card is *safe* when it can go on the lower of its suit's two foundations. Both copies of every
  lower card of the suit are then on the foundations, so no card will ever need to be placed on it
  in a column, and a game that can be won can still be won after the card has gone up. Safe cards
  are moved up at once, as a part of the preceding move.
* Positions that differ only in the order of the columns, or in which of a suit's two foundations
  is the higher one, are treated as one position. They are identified by a 64-bit hash.
* A position's value is a weighted sum of ``agents.search.features.FEATURES``.

The rules of the game are implemented in ``qv_env.rules`` alone.
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

# ------------------------------------------------------------------------ hashes of positions


@compiled
def table_key(game: Game) -> np.uint64:
    """Return a hash of the columns and foundations, equal for equivalent arrangements.

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
    """Return a hash of a position, equal for equivalent positions, and never 0.

    It combines ``table_key``, the waste and the size of the stock. The order of the stock, the
    score and the number of moves do not enter.
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
    """Return whether a card can go on the lower of its suit's two foundations."""
    suit = suit_of(card_id)
    one, other = game["foundations"][suit], game["foundations"][suit + NUM_SUITS]
    return card_id != NO_CARD and rank_of(card_id) == min(one, other)


@compiled
def safe_action(game: Game) -> int:
    """Return the first action that moves a safe card up, or -1 if there is none.

    The columns are tried from left to right, then the waste.
    """
    for c in range(NUM_COLUMNS):
        if _is_safe(game, column_top(game, c)):
            return COLUMN_TO_FOUNDATION + c
    if _is_safe(game, waste_top(game)):
        return WASTE_TO_FOUNDATION
    return -1


@compiled
def play_safe(game: Game) -> None:
    """Move safe cards up until none is left."""
    action = safe_action(game)
    while action >= 0:
        play(game, action)
        action = safe_action(game)


# --------------------------------------------------------------------- searches and their memory


class Beam(NamedTuple):
    """The limits of a stage's search."""

    width: int  # positions kept per layer
    depth: int  # maximum number of layers


NO_BEAM = Beam(0, 0)  # stands for "no search"


class Workspace(NamedTuple):
    """Memory for the n positions of a stage's search: the first one, then layer after layer."""

    states: np.ndarray  # STATE (n,)
    values: np.ndarray  # float64 (n,)
    parents: np.ndarray  # int32 (n,): the index of the preceding position
    actions: np.ndarray  # uint8 (n,): the move from there, without the safe cards that follow
    seen: np.ndarray  # uint64, a hash table of keys: see agents.search.tables.is_new


class Search(NamedTuple):
    """A search of a stage: its limits, the weights of its values, and its memory."""

    beam: Beam
    weights: np.ndarray  # float64 (NUM_FEATURES,)
    workspace: Workspace


def new_search(beam: Beam, weights: np.ndarray) -> Search:
    """Return a search with a workspace of its own.

    Args:
        beam: Its limits.
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

    stage: Search  # for stages while the stock is not empty
    end: Search  # for the last stage, with the stock empty
    ahead: int  # how many of a stage's best positions by value are compared; see ``compare_ahead``
    after: Search  # for the stage after the next draw, to compare them; unused if NO_BEAM


def game_searches(
    beam: Beam, end_beam: Beam, weights: np.ndarray, ahead: int = 1, ahead_beam: Beam = NO_BEAM
) -> Searches:
    """Return the searches of a game.

    ``stage`` and ``end`` share their memory, except for the hash table ``seen``: that of the
    smaller search is smaller, and therefore cleared faster.

    Args:
        beam: Limits of the search while the stock is not empty.
        end_beam: Limits of the search once the stock is empty.
        weights: float64 (NUM_FEATURES,).
        ahead: How many of a stage's best positions by value are compared.
        ahead_beam: Limits of the search after the next draw, by which they are compared.
    """
    stage, end = new_search(beam, weights), new_search(end_beam, weights)
    larger = max(stage, end, key=lambda search: search.workspace.states.size).workspace
    stage = stage._replace(workspace=larger._replace(seen=stage.workspace.seen))
    end = end._replace(workspace=larger._replace(seen=end.workspace.seen))
    if ahead_beam == NO_BEAM:
        return Searches(stage, end, ahead, stage._replace(beam=NO_BEAM))
    return Searches(stage, end, ahead, new_search(ahead_beam, weights))


# ---------------------------------------------------------------------------- one stage's beam

NO_ACTION = NUM_ACTIONS  # stands for "no move", see ``play_out``


class Stage(NamedTuple):
    """The result of a stage's search; the positions are in the workspace."""

    size: int  # number of positions
    won: int  # the index of a won position, or -1
    pruned: bool  # whether any were dropped: beyond the width, or because the hash table was full
    reached: int  # number of new positions generated, those dropped included
    open: int  # the index of the first position that was not expanded


class _Moves(NamedTuple):
    """Moves to new positions, the candidates for the next layer."""

    values: np.ndarray  # float64 (n,), of the positions
    parents: np.ndarray  # int32 (n,)
    actions: np.ndarray  # uint8 (n,)


class _Scratch(NamedTuple):
    """Scratch space, overwritten for each position examined."""

    mask: np.ndarray  # uint8 (192,) or (112,): the position's legal actions
    legal: np.ndarray  # uint64 (WORK_SIZE,)
    measure: np.ndarray  # int64 (MEASURE_WORK,)
    features: np.ndarray  # float64 (NUM_FEATURES,)
    child: np.ndarray  # STATE (1,): the position after a move


@compiled
def search_stage(search: Search, promise: np.ndarray, take_backs: bool) -> Stage:
    """Search the positions that can be reached without a draw, layer by layer.

    The search ends at a won position, when a layer leads to no new position, or after
    ``search.beam.depth`` layers. It also ends when the hash table is half full; the incomplete
    layer is then discarded.

    Args:
        search: The search. It starts from the first position of its workspace, whose safe cards
            are already up; the other positions are overwritten.
        promise: float64 (53,), how soon each card comes from the stock; see ``measure``.
        take_backs: Whether cards may be taken back from foundations.
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

    The function returns at the first move that wins, or after the position at which the number of
    moves exceeds ``most``.

    Args:
        search: The search.
        first, end: The layer's positions are those at indices first..end - 1.
        promise: See ``search_stage``.
        most: The limit for the number of moves.
        scratch: Scratch space. If a move wins, ``child`` is the won position.
        moves: Arrays to be overwritten.

    Returns:
        The moves, in longer arrays if these were too short; the number of moves; whether the last
        one wins.
    """
    # Arrays are unpacked from tuples only once: each access updates a reference count.
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
    """Return the first empty column, or -1."""
    for c in range(NUM_COLUMNS):
        if game["heights"][c] == 0:
            return c
    return -1


@inlined
def fills_other(game: Game, action: int, empty: int) -> bool:
    """Return whether a move is to an empty column other than the first one.

    Empty columns are equivalent, so only moves to the first one need to be searched.

    Args:
        game: A record of STATE.
        action: A legal action.
        empty: The game's first empty column, or -1.
    """
    if empty < 0 or MOVE_TABLE[action, 2] != COLUMN:
        return False
    target = int(MOVE_TABLE[action, 3])
    return target > empty and game["heights"][target] == 0


@inlined
def longer(array: np.ndarray, size: int) -> np.ndarray:
    """Return a copy of an array (n,), extended to ``size`` elements; the new ones are undefined."""
    copy = np.empty(size, dtype=array.dtype)
    copy[: array.size] = array
    return copy


@compiled
def best_places(values: np.ndarray, keep: int) -> np.ndarray:
    """Return the indices of the ``keep`` largest values: int64, ascending.

    Among equal values, earlier ones take precedence.

    Args:
        values: float32 or float64 (n,).
        keep: How many, at least 1. If n is not larger, all indices are returned.
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
    """Keep only the ``keep`` best of ``count`` moves; return how many there are then."""
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
    """Play a move and the safe cards that go up after it; append all actions to a line.

    Args:
        game: A record of STATE; changed in place.
        action: A legal action; NO_ACTION to move up safe cards only.
        line: uint8, receives the actions from index ``length`` on.
        length: The line's length before the call.
        score: Whether a waste card that goes up is first moved to a column that accepts it, if
            there is one: the position is the same, with 5 points more.

    Returns:
        The line's length after the call.
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


MAX_LINE = 1024  # actions; all lines that searches return are shorter


@compiled
def play_to(workspace: Workspace, place: int, game: Game, line: np.ndarray, length: int) -> int:
    """Play from a stage's first position to another one; append all actions to a line.

    Args:
        workspace: The positions of a finished search.
        place: The index of the target position.
        game: A record of STATE, the first position; changed in place.
        line: uint8, receives the actions from index ``length`` on.
        length: The line's length before the call.

    Returns:
        The line's length after the call.
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


# Limits of settings.
MOST_POSITIONS = 5_000_000  # of a beam, in all layers together: about 2 GB
Width = Annotated[int, Field(ge=1, le=100_000, strict=True)]
Depth = Annotated[int, Field(ge=1, le=10_000, strict=True)]


def check_beams(numbers: Any, *beams: tuple[str, str]) -> None:
    """Check that beams do not need an excessive amount of memory.

    Args:
        numbers: An object with the widths and depths as attributes.
        beams: The names of each beam's width and depth.

    Raises:
        ValueError: A beam has more than ``MOST_POSITIONS`` positions.
    """
    for width, depth in beams:
        size = getattr(numbers, width) * getattr(numbers, depth)
        if size > MOST_POSITIONS:
            raise ValueError(f"{width} x {depth} is at most {MOST_POSITIONS:,}, not {size:,}")


@dataclass(frozen=True, config=DATACLASS)
class Effort:
    """The search limits of a player.

    Attributes:
        width: Positions kept per layer while the stock is not empty.
        depth: Maximum number of layers between two draws.
        end_width: Positions kept per layer once the stock is empty.
        end_depth: Maximum number of layers then.
        ahead: How many of the best positions are compared by their expected value after the next
            draw; 1: the position with the highest value is chosen without comparison.
        ahead_width: Positions kept per layer in the search after that draw.
        ahead_depth: Maximum number of layers of that search.
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
        """The limits of a stage's search while the stock is not empty."""
        return Beam(self.width, self.depth)

    @property
    def end_beam(self) -> Beam:
        """The limits of the search once the stock is empty."""
        return Beam(self.end_width, self.end_depth)

    def searches(self, weights: np.ndarray) -> Searches:
        """Return the searches of a game of the ``plan`` player.

        Args:
            weights: float64 (NUM_FEATURES,).
        """
        after = Beam(self.ahead_width, self.ahead_depth) if self.ahead > 1 else NO_BEAM
        return game_searches(self.beam, self.end_beam, weights, self.ahead, after)


WON_VALUE = 1e6  # larger than the value of any position that is not won


@compiled
def worth_ahead(root: np.ndarray, search: Search) -> float:
    """Return a position's expected value after the next draw: a mean over the cards it may draw.

    For each card, the value is the highest that a small beam search finds after the draw.

    Args:
        root: STATE (1,), with a non-empty stock, whose order is not read; unchanged.
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
    """Search a stage without knowledge of the stock's order.

    Args:
        root: STATE (1,); changed in place: its safe cards go up.
        search: The search.
        line: uint8 (MAX_LINE,), receives the actions that move the safe cards.

    Returns:
        The result of the search, and the number of actions in the line.
    """
    promise = np.empty(NUM_KINDS + 1)
    expected_promise(root[0], promise)
    length = play_out(root[0], NO_ACTION, line, 0, True)
    search.workspace.states[0] = root[0]
    return search_stage(search, promise, False), length


@compiled
def compare_ahead(searches: Searches, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Find the best positions of a stage by value, and their expected values after the next draw.

    Args:
        searches: The searches of the game; the positions are those of ``searches.stage``. Without
            a search after the draw, or with a single position, the positions' own values are
            returned instead of expected values.
        count: The number of positions in the workspace.

    Returns:
        The indices of the ``searches.ahead`` best positions by value, int64 (k,), ascending; their
        expected values, float64 (k,).
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
    """Find the line to play before the next draw, without knowledge of the stock's order.

    If a won position is found, the line leads there. Otherwise, while the stock is not empty, the
    ``searches.ahead`` best positions by value are compared by their expected values after the next
    draw (``worth_ahead``), and the line leads to the best of them; if ``searches.ahead`` is 1, it
    leads to the first position with the highest value. With an empty stock, it leads to the
    position with the highest score.

    Args:
        root: STATE (1,); the order of its stock is not read. Changed in place to the position at
            the end of the line.
        searches: The searches of the game.
        line: uint8 (MAX_LINE,), receives the actions.

    Returns:
        The number of actions in the line.
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
    """Play a game to its end as the ``plan`` player does; used by tuning, which needs the speed.

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
