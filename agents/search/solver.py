"""The solver: searches for a winning line in a deal whose stock is known.

This is a tool and an upper bound, not a player: it sees the whole deck. Beam searches run through
the whole game, in which a draw is a move like any other (``agents.search.stage``), each with a
larger width or other weights, until the game is won or the time is up. A solution is replayed with
the rules of ``qv_env.rules`` before it is returned, and is saved as a playthrough.

A deal is *lost* only if every reachable position was visited, take-backs included, and none of
them is won. (Positions are identified by 64-bit hashes: among 40 million positions, the probability
that any two have the same hash is 1 in 20,000.) A deal whose search ran out of time or memory is
*given up*; whether it can be won remains unknown.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Literal

import numpy as np

from agents.search.beam import (
    EXHAUSTED,
    FOUND,
    begin,
    drawing_order,
    exhaust,
    expand,
    new_layer,
    new_path,
)
from agents.search.features import NUM_FEATURES, known_promise
from agents.search.settings import load_settings
from agents.search.stage import NO_ACTION, play_out, play_safe, position_key
from qv_env.actions import NUM_ACTIONS
from qv_env.cards import NUM_CARDS, NUM_KINDS
from qv_env.deals import deal_code, deck_of
from qv_env.playthroughs.playthrough import Playthrough
from qv_env.rules import STOCK_CARDS, legal_actions, new_game, play

WEIGHTS = Path(__file__).resolve().parents[2] / "configs" / "search" / "solver.yaml"

SECONDS = 30.0  # default time limit for a deal

_MOST_LAYERS = 600  # limit for an attempt; solutions have about 250 moves

_FEW, _SOME, _MANY = 200_000, 1_200_000, 45_000_000  # positions of each exhaustive search

_SLICE = 500_000  # positions between two checks of the time limit

_MOST_MOVES = 20_000  # maximum length of a line in an exhaustive search

_SHARE = 0.5  # fraction of the remaining time and positions that an exhaustive search may use

# Beams, in the order of use: width, and whether with take-backs.
_FIRST = ((300, False), (300, True), (1_000, False))  # with the original weights

_CHANGED = ((300, False), (300, True), (300, False), (1_000, False))  # with random changes

_TIMES = 24  # number of attempts with _CHANGED

_WIDE = ((1_000, True), (3_000, True), (20_000, True))  # with the original weights

_LAST = ((300, False), (1_000, True), (300, True), (3_000, False))  # random changes, until the end

_CHANGE = 0.8  # standard deviation of the random changes of the weights' logarithms

_DIGITS = 4  # changed weights are rounded to these, to hide differences between machines

_KEYS = 32  # keys in the table of seen positions, per position of the beam's width

Verdict = Literal["won", "lost", "given up"]


@dataclass(frozen=True, eq=False)
class Attempt:
    """The settings of one beam search through the game.

    Attributes:
        width: Positions kept per layer.
        weights: float64 (NUM_FEATURES,), the weights of the positions' values.
        take_backs: Whether cards may be taken back from foundations.
    """

    width: int
    weights: np.ndarray
    take_backs: bool = True


def changed_attempts(
    weights: np.ndarray, shapes: Sequence[tuple[int, bool]], seed: int = 0
) -> Iterator[Attempt]:
    """Yield an endless sequence of attempts with randomly changed weights.

    Args:
        weights: float64 (NUM_FEATURES,), the original weights.
        shapes: The attempts' widths, and whether they take cards back; repeated cyclically.
        seed: Seeds the changes.
    """
    rng = np.random.default_rng(seed)
    for width, take_backs in cycle(shapes):
        factors = np.exp(rng.normal(0.0, _CHANGE, NUM_FEATURES))
        yield Attempt(width, (weights * factors).round(_DIGITS), take_backs)


@dataclass(frozen=True)
class Solution:
    """The result of a search.

    Attributes:
        verdict: "won", "lost" (proven) or "given up".
        actions: The winning actions, from the root position on; empty unless won.
        best: The winning actions if won; else the actions that lead to the position with the most
            cards on the foundations among those that a beam kept.
        positions: Number of positions examined.
        attempts: Number of attempts begun.
        seconds: CPU time of the search, in seconds.
    """

    verdict: Verdict
    actions: tuple[int, ...]
    best: tuple[int, ...]
    positions: int
    attempts: int
    seconds: float


def solve_game(
    root: np.ndarray,
    seconds: float = SECONDS,
    seed: int = 0,
    positions: int | None = None,
) -> Solution:
    """Search a game from its current position.

    With a limit for ``positions`` and enough time to reach it, the result is the same on every
    machine. With less time, the first attempts are the same, but the extent of the second
    exhaustive search depends on the speed of the machine, and so do the attempts after it.

    Args:
        root: STATE (1,), the order of its stock known; unchanged.
        seconds: Time limit, in seconds of CPU time of this thread. The limit is checked between
            layers, so that the search may take slightly longer.
        seed: Seeds the changes of the weights.
        positions: Approximate number of positions to examine: no attempt is begun after these.
            None: no limit.
    """
    started = time.thread_time()
    deadline = started + seconds
    most = float("inf") if positions is None else positions
    weights = load_settings(WEIGHTS).weights
    looked = tried = 0
    best: list[int] = []
    best_up = -1
    long_way: list[int] | None = None  # a winning line found by an exhaustive search: a long one

    def solution(verdict: Verdict, actions: Sequence[int] = ()) -> Solution:
        line = tuple(actions)
        took = time.thread_time() - started
        return Solution(verdict, line, line or tuple(best), looked, tried, took)

    def tries() -> Iterator[Attempt | int]:
        """Yield the attempts in order; a number is an exhaustive search of that many positions."""
        yield _FEW
        for shape in _FIRST:
            yield Attempt(shape[0], weights, shape[1])
        yield from islice(changed_attempts(weights, _CHANGED, seed), _TIMES)
        yield _SOME
        for shape in _WIDE:
            yield Attempt(shape[0], weights, shape[1])
        yield _MANY
        yield from changed_attempts(weights, _LAST, seed + 1)

    for attempt in tries():
        if isinstance(attempt, int) and long_way is not None:
            continue
        tried += 1
        if isinstance(attempt, int):
            now = time.thread_time()
            count = int(min(attempt, _SHARE * (most - looked)))
            course = search_all(root, count, now + _SHARE * (deadline - now))
        else:
            course = try_game(root, attempt, deadline)
        looked += course.positions
        if course.best and course.best_up > best_up:
            best, best_up = course.best, course.best_up
        if course.actions is not None:
            if not isinstance(attempt, int):
                return solution("won", course.actions)
            long_way = course.actions
        elif course.whole:
            return solution("lost")
        elif long_way is not None and tried > len(_FIRST) + _TIMES:
            break
        if looked >= most or time.thread_time() > deadline:
            break
    return solution("given up") if long_way is None else solution("won", long_way)


@dataclass(frozen=True)
class Course:
    """The result of an attempt.

    Attributes:
        actions: The winning actions, or None.
        whole: Whether every reachable position was visited, so that the game cannot be won.
        positions: Number of positions visited.
        most_up: The largest number of cards on the foundations in any of them, 0..104.
        best: Actions that lead to the position with the most cards on the foundations among those
            that were kept; empty if these were not recorded.
        best_up: The number of cards on the foundations in that position.
    """

    actions: list[int] | None
    whole: bool
    positions: int
    most_up: int
    best: list[int] = field(default_factory=list)
    best_up: int = 0


def search_all(root: np.ndarray, most: int, deadline: float = float("inf")) -> Course:
    """Visit all reachable positions of a game, up to limits of time and memory.

    Args:
        root: STATE (1,), the order of its stock known; unchanged.
        most: Maximum number of positions; each takes 12 to 24 bytes.
        deadline: When to stop, as a value of ``time.thread_time``.
    """
    path = new_path(_MOST_MOVES)
    seen = np.zeros(1 << int(1.4 * most + 8).bit_length(), dtype=np.uint64)
    game = root.copy()
    play_safe(game[0])
    order = drawing_order(game)
    begin(path.nodes, game)
    depth = positions = most_up = 0
    while True:
        slice_size = min(_SLICE, most - positions)
        found, depth, reached = exhaust(path, depth, seen, slice_size, order)
        positions += reached
        if found == FOUND:
            way = [int(place) % NUM_ACTIONS for place in path.next_actions[:depth]]
            return Course(_line(root, _shortened(root, way)), False, positions, NUM_CARDS)
        most_up = max(most_up, int(path.nodes["up"][: depth + 1].max(initial=0)))
        if found == EXHAUSTED:
            return Course(None, True, positions, most_up)
        full = positions >= most or depth + 1 == _MOST_MOVES
        if full or time.thread_time() > deadline:
            return Course(None, False, positions, most_up)


def try_game(root: np.ndarray, attempt: Attempt, deadline: float = float("inf")) -> Course:
    """Search a game once with a beam.

    Args:
        root: STATE (1,), the order of its stock known; unchanged.
        attempt: The settings of the search.
        deadline: When to stop, as a value of ``time.thread_time``.
    """
    width = attempt.width
    layer, following = new_layer(width), new_layer(width)
    seen = np.zeros(1 << (_KEYS * width).bit_length(), dtype=np.uint64)
    exact = np.zeros((STOCK_CARDS + 1, NUM_KINDS + 1))
    known_promise(root[0], exact)
    weights, promise = attempt.weights.astype(np.float32), exact.astype(np.float32)
    game = root.copy()
    play_safe(game[0])
    order = drawing_order(game)
    begin(layer.nodes, game)
    most_up = int(layer.nodes[0]["up"])
    if most_up == NUM_CARDS:
        return Course(_line(root, []), False, 1, most_up)

    best_up, best_layer, best_place = most_up, 0, 0
    history: list[tuple[np.ndarray, np.ndarray]] = []
    count = positions = 1
    while len(history) < _MOST_LAYERS:
        count, won, reached, up = expand(
            layer.nodes[:count], following, seen, weights, promise, order, attempt.take_backs
        )
        positions += reached
        most_up = max(most_up, up)
        history.append((following.parents[:count].copy(), following.actions[:count].copy()))
        if won:
            return Course(_line(root, _way(history, 0)), False, positions, most_up)
        if count == 0 or time.thread_time() > deadline:
            break
        layer, following = following, layer
        if up > best_up:  # the maximum over all new positions, which may not have been kept
            heights = layer.nodes["up"][:count]
            place = int(heights.argmax())
            if heights[place] > best_up:
                best_up, best_layer, best_place = int(heights[place]), len(history), place
    best = _line(root, _way(history[:best_layer], best_place))
    return Course(None, False, positions, most_up, best, best_up)


def _way(history: list[tuple[np.ndarray, np.ndarray]], place: int) -> list[int]:
    """Return the moves that lead from the root to a position of the last layer."""
    way: list[int] = []
    for parents, actions in reversed(history):
        way.append(int(actions[place]))
        place = int(parents[place])
    return way[::-1]


def _shortened(root: np.ndarray, way: list[int]) -> list[int]:
    """Return a sequence of moves from the root to the same end, without detours.

    From each position, the move is chosen that leads furthest along the given sequence. (Positions
    are compared by ``position_key``: their columns may be in a different order.)
    """
    game = root.copy()
    play_safe(game[0])
    places = {int(position_key(game[0])): 0}
    for place, action in enumerate(way, start=1):
        play(game[0], action)
        play_safe(game[0])
        places[int(position_key(game[0]))] = place
    here = root.copy()
    play_safe(here[0])
    mask = np.zeros(NUM_ACTIONS, dtype=np.int8)
    shorter: list[int] = []
    place = 0
    while place < len(way):
        legal_actions(here[0], mask)
        moves = []
        for action in np.flatnonzero(mask).tolist():
            there = here.copy()
            play(there[0], action)
            play_safe(there[0])
            moves.append((places.get(int(position_key(there[0])), -1), action, there))
        place, action, here = max(moves, key=lambda move: move[0])
        shorter.append(action)
    return shorter


def _line(root: np.ndarray, way: list[int]) -> list[int]:
    """Return all actions of a sequence of moves, with the safe cards that go up in between.

    Waste cards that go up are first moved to a column that accepts them, if any, for the score.
    """
    game = root.copy()
    # At most: every move, every card that goes up after a move, every detour over a column.
    line = np.zeros(3 * len(way) + 3 * NUM_CARDS, dtype=np.uint8)
    length = play_out(game[0], NO_ACTION, line, 0, True)
    for action in way:
        length = play_out(game[0], action, line, length, True)
    return line[:length].tolist()


def solve_deal(
    deal: int, seconds: float = SECONDS, seed: int = 0
) -> tuple[Solution, Playthrough | None]:
    """Search a deal.

    Args:
        deal: The deal's number.
        seconds: Time limit, in seconds of CPU time.
        seed: Seeds the changes of the weights.

    Returns:
        The result, and the winning game, replayed with the rules, or None if there is none.
    """
    solution = solve_game(new_game(deck_of(deal)), seconds, seed)
    if solution.verdict != "won":
        return solution, None
    playthrough = Playthrough.from_actions(
        solution.actions, deal=deal, player="solver", extra={"stock_known": True, "seed": seed}
    )
    if not playthrough.won:
        raise AssertionError(f"the solution of {deal_code(deal)} does not win")
    return solution, playthrough
