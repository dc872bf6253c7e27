"""Planning from one draw to the next, shared by the ``plan`` player and the players built on it.

Before each draw, a ``Planner`` finds the best few positions that a seat's game can reach, the
*candidates* (``find_candidates``), and lets a *chooser* select one of them. It then plays the
actions that lead there, followed by the draw.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from agents.search.stage import MAX_LINE, Searches, best_line, compare_ahead, play_to, search_from
from qv_env.actions import DRAW
from qv_env.compiling import compiled
from qv_env.observation import visible_states
from qv_env.rules import STATE, is_won

# ----------------------------------------------------------------------------------- candidates


class Candidates(NamedTuple):
    """Arrays for up to n candidate positions, best first."""

    found: np.ndarray  # STATE (n,), the positions
    worth: np.ndarray  # float64 (n,), their values for the plan player; 0 for a won position
    lines: np.ndarray  # uint8 (n, MAX_LINE), the actions that lead there
    lengths: np.ndarray  # int64 (n,), the number of these actions


def new_candidates(room: int) -> Candidates:
    """Return arrays with room for ``room`` candidates, at least 1."""
    return Candidates(
        found=np.zeros(room, dtype=STATE),
        worth=np.zeros(room),
        lines=np.zeros((room, MAX_LINE), dtype=np.uint8),
        lengths=np.zeros(room, dtype=np.int64),
    )


@compiled
def find_candidates(root: np.ndarray, searches: Searches, candidates: Candidates) -> int:
    """Find the candidate positions before the next draw, the plan player's choice first.

    Of the ``searches.ahead`` best positions by value, they are those with the highest expected
    values after the next draw (``compare_ahead``). If a won position is found, it is the only
    candidate.

    Args:
        root: STATE (1,), with a non-empty stock, whose order is not read; unchanged.
        searches: The searches of the game.
        candidates: Receives the candidates.

    Returns:
        The number of candidates, at least 1.
    """
    found, worth, lines, lengths = candidates
    workspace = searches.stage.workspace
    scratch = np.zeros(1, dtype=STATE)
    scratch[0] = root[0]
    stage, start = search_from(scratch, searches.stage, lines[0])
    if stage.won >= 0:
        places = np.array([stage.won])
        worths = np.zeros(1)
    else:
        places, worths = compare_ahead(searches, stage.size)
    order = np.argsort(-worths, kind="mergesort")[: found.size]
    for k in range(order.size):
        worth[k] = worths[order[k]]
        found[k] = scratch[0]
        lines[k, :start] = lines[0, :start]
        lengths[k] = play_to(workspace, places[order[k]], found[k], lines[k], start)
    return order.size


# ------------------------------------------------------------------------------------- planning


class Choice(NamedTuple):
    """A seat's choice between candidates before a draw."""

    root: np.ndarray  # STATE (1,), the current position; the cards of the stock are not known
    positions: np.ndarray  # STATE (n,), n >= 1, the candidates, the plan player's choice first
    worth: np.ndarray  # float64 (n,), their values for the plan player
    lines: list[list[int]]  # the actions that lead to each
    rng: np.random.Generator  # the random generator of the seat's game


# Takes the choices of several seats; returns the index of the chosen candidate for each.
Chooser: TypeAlias = Callable[[Sequence[Choice]], Sequence[int]]


def plan_choice(choices: Sequence[Choice]) -> list[int]:
    """Choose as the plan player does: always the first candidate."""
    return [0] * len(choices)


class Planner:
    """Plans the games of many seats, each from one draw to the next.

    Once the stock is empty, a seat plays the line that ``best_line`` returns.

    Args:
        searches: The searches that the games are played with.
        choose: Selects a candidate before each draw; called once for all seats that need a plan.
        candidates: Maximum number of candidates.
    """

    def __init__(
        self, searches: Searches, choose: Chooser = plan_choice, candidates: int = 1
    ) -> None:
        self._searches = searches
        self._choose = choose
        self._candidates = new_candidates(candidates)
        self._line = np.zeros(MAX_LINE, dtype=np.uint8)

    def prepare(self, num_seats: int) -> None:
        """Prepare for games at seats 0..num_seats - 1."""
        self._planned: list[list[int]] = [[] for _ in range(num_seats)]  # in reverse order
        self._ended = np.zeros(num_seats, dtype=np.bool_)  # whether the last line is planned
        self._generators: list[np.random.Generator | None] = [None] * num_seats

    def start(self, seat: int, rng: np.random.Generator) -> None:
        """Begin a new game at a seat; ``rng`` is the game's random generator."""
        self._planned[seat] = []
        self._ended[seat] = False
        self._generators[seat] = rng

    def act(self, seats: np.ndarray, observation: Any, mask: np.ndarray) -> np.ndarray:
        """Return the next action of each seat; plan for seats that have no planned action left.

        Args:
            seats: int (k,), the seats that are to act.
            observation: The observations of their k games: ``cards`` with ``memory``.
            mask: int8 (k, num_actions), their legal actions.

        Returns:
            Actions, int (k,), each legal.
        """
        idle = [
            k
            for k, seat in enumerate(seats.tolist())
            if not self._planned[seat] and not self._ended[seat]
        ]
        if idle:
            states = visible_states({key: array[idle] for key, array in observation.items()})
            self._plan(seats[idle].tolist(), states)
        # After the last line, the legal action with the smallest id is played: take-backs, which
        # cost points, have the largest ids.
        actions = np.argmax(mask, axis=1)
        for k, seat in enumerate(seats.tolist()):
            if self._planned[seat]:
                actions[k] = self._planned[seat].pop()
        return actions

    def _plan(self, seats: Sequence[int], states: np.ndarray) -> None:
        """Plan the actions of seats up to and including their next draws, from STATE (k,)."""
        choosing: list[int] = []
        choices: list[Choice] = []
        for k, (seat, stock_size) in enumerate(zip(seats, states["stock_size"], strict=True)):
            root = states[k : k + 1]
            if stock_size > 0:
                choosing.append(seat)
                choices.append(self._choice(seat, root))
            else:
                length = best_line(root, self._searches, self._line)
                self._planned[seat] = self._line[:length].tolist()[::-1]
                self._ended[seat] = True
        places = self._choose(choices) if choices else []
        for seat, choice, place in zip(choosing, choices, places, strict=True):
            line = choice.lines[place]
            if not is_won(choice.positions[place]):
                line.append(DRAW)
            self._planned[seat] = line[::-1]

    def _choice(self, seat: int, root: np.ndarray) -> Choice:
        rng = self._generators[seat]
        assert rng is not None, "a seat plays before its game has started"
        found, worth, lines, lengths = self._candidates
        count = find_candidates(root, self._searches, self._candidates)
        return Choice(
            root,
            found[:count].copy(),
            worth[:count].copy(),
            [lines[k, :length].tolist() for k, length in enumerate(lengths[:count].tolist())],
            rng,
        )
