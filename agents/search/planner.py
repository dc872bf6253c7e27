"""Planning from one draw to the next: what the ``plan`` player and those that build on it share.

Before each draw, a ``Planner`` finds the best few positions that a seat may go to, the *candidates*
(``find_candidates``), and asks a *chooser* for one of them. It then plays the actions that lead
there, and the draw.
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
    """Positions to choose from, best first, with room for n of them."""

    found: np.ndarray  # STATE (n,), the positions
    worth: np.ndarray  # float64 (n,), what the plan player thinks of them; 0 for a won one
    lines: np.ndarray  # uint8 (n, MAX_LINE), the actions that lead there
    lengths: np.ndarray  # int64 (n,), how many


def new_candidates(room: int) -> Candidates:
    """Return room for so many candidates, at least 1."""
    return Candidates(
        found=np.zeros(room, dtype=STATE),
        worth=np.zeros(room),
        lines=np.zeros((room, MAX_LINE), dtype=np.uint8),
        lengths=np.zeros(room, dtype=np.int64),
    )


@compiled
def find_candidates(root: np.ndarray, searches: Searches, candidates: Candidates) -> int:
    """Find the positions to choose from before the next draw, the plan player's choice first.

    They are the best by what they are worth after the next draw (``compare_ahead``) among the
    ``searches.ahead`` best by value. Where a won position is found, it is the only one.

    Args:
        root: STATE (1,), with a stock, whose order is not read; unchanged.
        searches: The searches of the game.
        candidates: What is written.

    Returns:
        How many candidates there are, at least 1.
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
    """What a seat chooses from before a draw."""

    root: np.ndarray  # STATE (1,), where its game stands; the cards of the stock are not known
    positions: np.ndarray  # STATE (n,), n >= 1, where it may go, the plan player's choice first
    worth: np.ndarray  # float64 (n,), what the plan player thinks of them
    lines: list[list[int]]  # the actions that lead to each
    rng: np.random.Generator  # of the seat's game


# Given the choices of some seats, returns the place of the position that each goes to.
Chooser: TypeAlias = Callable[[Sequence[Choice]], Sequence[int]]


def plan_choice(choices: Sequence[Choice]) -> list[int]:
    """Choose as the plan player does: the first position, everywhere."""
    return [0] * len(choices)


class Planner:
    """Plans the games of many seats, each from one draw to the next.

    With the stock empty, a seat goes where ``best_line`` leads.

    Args:
        searches: The searches that the games are played with.
        choose: Chooses where to go before a draw; is asked for all seats at once that have nothing
            planned.
        candidates: How many positions it chooses from, at most.
    """

    def __init__(
        self, searches: Searches, choose: Chooser = plan_choice, candidates: int = 1
    ) -> None:
        self._searches = searches
        self._choose = choose
        self._candidates = new_candidates(candidates)
        self._line = np.zeros(MAX_LINE, dtype=np.uint8)

    def prepare(self, num_seats: int) -> None:
        """Get ready for games at seats 0..num_seats - 1."""
        self._planned: list[list[int]] = [[] for _ in range(num_seats)]  # the next action last
        self._ended = np.zeros(num_seats, dtype=np.bool_)  # whether the last line is planned
        self._generators: list[np.random.Generator | None] = [None] * num_seats

    def start(self, seat: int, rng: np.random.Generator) -> None:
        """Begin a new game at a seat, whose randomness comes from ``rng``."""
        self._planned[seat] = []
        self._ended[seat] = False
        self._generators[seat] = rng

    def act(self, seats: np.ndarray, observation: Any, mask: np.ndarray) -> np.ndarray:
        """Return the next action of each seat, planned where nothing is.

        Args:
            seats: int (k,), the seats whose turn it is.
            observation: What they see: ``cards`` with ``memory``, k games.
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
        # Where nothing is left to plan, the smallest id: take-backs, which cost points, are last.
        actions = np.argmax(mask, axis=1)
        for k, seat in enumerate(seats.tolist()):
            if self._planned[seat]:
                actions[k] = self._planned[seat].pop()
        return actions

    def _plan(self, seats: Sequence[int], states: np.ndarray) -> None:
        """Plan what seats do up to their next draws, from STATE (k,)."""
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
