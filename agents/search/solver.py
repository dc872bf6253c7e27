"""The solver: looks for a way to win a deal whose stock is known.

This is a tool and an upper bound, not a player: it sees the whole deck. A beam goes through the
whole game, a draw being a move like others (``agents.search.stage``), with more positions or other
weights each time, until the game is won or the time is up. A solution is replayed by the rules
before anybody gets to see it, and is saved as a playthrough.

A deal is called *lost* only where everything that can be reached was seen, take-backs included,
and nothing of it was won. (Positions are told apart by hashes of 64 bits: of 40 million positions,
any two share one with a chance of 1 in 20,000.) A deal for which time or memory ended first is
*given up*; nothing is known about it.
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

SECONDS = 30.0  # how long a deal is searched where nothing else is said

_MOST_LAYERS = 600  # no attempt goes further; solutions have some 250 moves

_FEW, _SOME, _MANY = 200_000, 1_200_000, 45_000_000  # positions seen in search of a proof

_SLICE = 500_000  # positions between two looks at the clock

_MOST_MOVES = 20_000  # in the line of that search

_SHARE = 0.5  # of what is left, which it may take

# Beams: how wide, and whether with take-backs.
_FIRST = ((300, False), (300, True), (1_000, False))  # with the weights as they are

_CHANGED = ((300, False), (300, True), (300, False), (1_000, False))  # changed at random:

_TIMES = 24  # so many of these; after another search for a proof, as they are:

_WIDE = ((1_000, True), (3_000, True), (20_000, True))

_LAST = ((300, False), (1_000, True), (300, True), (3_000, False))  # changed, to the end

_CHANGE = 0.8  # standard deviation of the logarithms of changed weights

_DIGITS = 4  # they are rounded to: no machine's rounding shows

_KEYS = 32  # a position of the beam's width that are remembered

Verdict = Literal["won", "lost", "given up"]


@dataclass(frozen=True, eq=False)
class Attempt:
    """One way through the game.

    Attributes:
        width: Positions of a layer that are kept.
        weights: float64 (NUM_FEATURES,), what positions are valued by.
        take_backs: Whether cards may come back from foundations.
    """

    width: int
    weights: np.ndarray
    take_backs: bool = True


def changed_attempts(
    weights: np.ndarray, shapes: Sequence[tuple[int, bool]], seed: int = 0
) -> Iterator[Attempt]:
    """Yield attempts with weights that are changed at random: an endless sequence.

    Args:
        weights: float64 (NUM_FEATURES,), what is changed.
        shapes: The attempts' widths, and whether they take cards back, over and over.
        seed: Seeds the changes.
    """
    rng = np.random.default_rng(seed)
    for width, take_backs in cycle(shapes):
        factors = np.exp(rng.normal(0.0, _CHANGE, NUM_FEATURES))
        yield Attempt(width, (weights * factors).round(_DIGITS), take_backs)


@dataclass(frozen=True)
class Solution:
    """What a search found.

    Attributes:
        verdict: "won", "lost" (proven) or "given up".
        actions: The winning game's actions from where it stood; empty where there is none.
        best: The same where it was won; else the actions that lead to the most cards on the
            foundations that a beam kept.
        positions: How many positions were looked at.
        attempts: How many attempts were begun.
        seconds: How long it took, in seconds of one core.
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
    """Search a game from where it stands.

    With ``positions`` and as many seconds as that takes, what is found does not depend on the
    machine. With less time the first attempts are the same, but how far the second search for a
    proof gets depends on the clock, and so do what follows it and how much is tried.

    Args:
        root: STATE (1,), the order of its stock known; unchanged.
        seconds: How long to search at most, in seconds of one core, whatever else it does. The
            clock is looked at between layers: it may take a little longer.
        seed: Seeds the changes of the weights.
        positions: How many positions to look at, about: nothing new is begun after these. No
            limit where None.
    """
    started = time.thread_time()
    deadline = started + seconds
    most = float("inf") if positions is None else positions
    weights = load_settings(WEIGHTS).weights
    looked = tried = 0
    best: list[int] = []
    best_up = -1
    long_way: list[int] | None = None  # a win that a search for a proof ran into: long and winding

    def solution(verdict: Verdict, actions: Sequence[int] = ()) -> Solution:
        line = tuple(actions)
        took = time.thread_time() - started
        return Solution(verdict, line, line or tuple(best), looked, tried, took)

    def tries() -> Iterator[Attempt | int]:
        """What is tried, one after the other; a number: so many positions for a proof."""
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
    """What came of an attempt.

    Attributes:
        actions: The winning actions, or None.
        whole: Whether everything that can be reached was seen, so that without winning actions
            there is no way to win.
        positions: How many positions were seen.
        most_up: The most cards on the foundations that were seen, 0..104.
        best: Actions that lead to the most cards on the foundations in a position that was kept;
            empty where that was not noted.
        best_up: How many those are.
    """

    actions: list[int] | None
    whole: bool
    positions: int
    most_up: int
    best: list[int] = field(default_factory=list)
    best_up: int = 0


def search_all(root: np.ndarray, most: int, deadline: float = float("inf")) -> Course:
    """Go through all that can be reached in a game, as far as time and memory allow.

    Args:
        root: STATE (1,), the order of its stock known; unchanged.
        most: How many positions are seen at most; each takes 12 to 24 bytes.
        deadline: When to stop, by ``time.thread_time``.
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
    """Go through a game once with a beam.

    Args:
        root: STATE (1,), the order of its stock known; unchanged.
        attempt: How to.
        deadline: When to stop, by ``time.thread_time``.
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
        if up > best_up:  # of all that were seen; was one of them kept?
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
    """Return a way from the root to the same end that leaves out detours.

    From each position it makes the move that leads furthest along the old way. (Positions are
    those of ``position_key``: the same columns may stand in another order.)
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
    """Return all actions of the moves on the way, with the safe cards that go up in between.

    Waste cards that go up take the way over a column where one accepts them, for the score.
    """
    game = root.copy()
    # Each move once, each card that goes up with another move or on the way over a column.
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
        seconds: How long to search at most, in seconds of one core.
        seed: Seeds the changes of the weights.

    Returns:
        What was found, and the winning game where there is one, replayed by the rules.
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
