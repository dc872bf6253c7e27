"""Play-outs over sampled stocks: what the ``sample`` player compares positions by.

Between two draws, the player may go to any of the positions that ``planner.find_candidates`` finds,
the ``plan`` player's choice first. Each is played to the end on the same sampled stocks, by the
``plan`` player with a small beam (``play_stocks``). That policy sees of a stock what it has drawn
and no more, so an outcome is one that a player could have had, not one of clairvoyance; and all
positions meet the same stocks, so that the luck in them cancels out of their differences.

What is left of the luck decides nothing by itself: a difference is a mean over few games, and
``posterior`` weighs it against what the ``plan`` player thinks of the two positions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Annotated

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from agents.search.planner import Choice
from agents.search.stage import (
    MAX_LINE,
    Beam,
    Depth,
    Searches,
    Width,
    best_line,
    check_beams,
    game_searches,
    position_key,
)
from qv_env.actions import DRAW
from qv_env.cards import NUM_KINDS
from qv_env.compiling import compiled
from qv_env.rules import STATE, count_unseen, is_won, play
from qv_env.schema import DATACLASS


@dataclass(frozen=True, config=DATACLASS)
class Rollouts:
    """How much is played out, and what is made of it.

    Attributes:
        candidates: How many positions are compared, at most.
        games: How many games are played out for a choice, at most about.
        width: Of the beam that plays out.
        depth: Likewise.
        end_width: The same once the stock is empty.
        end_depth: Likewise.
        bonus: What a won game counts beside its score, in points.
        slope: How many points the difference between two candidates is expected to be for each
            unit of the difference between what the plan player values them at.
        spread: The standard deviation of what is left, in points.
    """

    candidates: Annotated[int, Field(ge=1, le=10_000, strict=True)] = 8
    games: Annotated[int, Field(ge=1, le=1_000_000, strict=True)] = 100
    width: Width = 12
    depth: Depth = 10
    end_width: Width = 50
    end_depth: Depth = 100
    bonus: Annotated[float, Field(ge=0, le=1e6, strict=True)] = 300.0
    slope: Annotated[float, Field(ge=0, le=1e6, strict=True)] = 5.0
    spread: Annotated[float, Field(gt=0, le=1e6, strict=True)] = 20.0

    def __post_init__(self) -> None:
        check_beams(self, ("width", "depth"), ("end_width", "end_depth"))

    def searches(self, weights: np.ndarray) -> Searches:
        """Return the searches of a game that is played out.

        Args:
            weights: float64 (NUM_FEATURES,), what positions are valued by.
        """
        beam, end_beam = Beam(self.width, self.depth), Beam(self.end_width, self.end_depth)
        return game_searches(beam, end_beam, weights)


# --------------------------------------------------------------------------------- sampled stocks


def sample_stocks(root: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return orders that the stock may have: the unseen cards, shuffled.

    Each order is as likely as any other; together they are spread evenly: of as many successive
    rows as there are unseen cards, each begins with another one.

    Args:
        root: A record of STATE; the order of its stock is not looked at.
        count: How many.
        rng: Where they are drawn from.

    Returns:
        uint8 (count, stock size), card ids, the next card drawn last.
    """
    unseen = np.empty(NUM_KINDS, dtype=np.uint8)
    count_unseen(root, unseen)
    cards = rng.permutation(np.repeat(np.arange(1, NUM_KINDS + 1, dtype=np.uint8), unseen))
    # Row k is the same order from its k-th card on, the others shuffled.
    rows = cards[(np.arange(count)[:, None] + np.arange(cards.size)) % cards.size]
    rows[:, 1:] = rng.permuted(rows[:, 1:], axis=1)
    return np.ascontiguousarray(rows[:, ::-1])


# ------------------------------------------------------------------------------------- play-outs


@compiled
def play_stocks(
    found: np.ndarray,
    left: np.ndarray,
    stocks: np.ndarray,
    searches: Searches,
    bonus: float,
    outcomes: np.ndarray,
) -> int:
    """Play candidates to the end on stocks, each on each.

    Two games on one stock that meet in a position go on alike, so the later one is not played on:
    it gets what the earlier one got from there.

    Args:
        found: STATE (n,), positions with a stock before a draw.
        left: int64 (k,), the places of those that are played.
        stocks: uint8 (m, stock size), orders of the stock, the next card last.
        searches: The searches that they are played with.
        bonus: What a won game counts beside its score.
        outcomes: float64 (k, m), where scores and bonus are written.

    Returns:
        How many draws were made.
    """
    game = np.zeros(1, dtype=STATE)
    line = np.empty(MAX_LINE, dtype=np.uint8)
    size = stocks.shape[1]
    # By cards left in the stock and candidate: where its game was, and the score that it had.
    keys = np.zeros((size + 1, left.size), dtype=np.uint64)
    scores = np.zeros((size + 1, left.size))
    draws = 0
    for k in range(stocks.shape[0]):
        keys[:] = 0
        for i in range(left.size):
            game[0] = found[left[i]]
            for place in range(size):
                game[0]["stock"][place] = stocks[k, place]
            met = -1
            cards = size
            while cards > 0:
                play(game[0], DRAW)
                draws += 1
                cards -= 1
                best_line(game, searches, line)
                if is_won(game[0]):
                    break
                key = position_key(game[0])
                for other in range(i):
                    if keys[cards, other] == key:
                        met = other
                        break
                if met >= 0:
                    break
                keys[cards, i] = key
                scores[cards, i] = game[0]["score"]
            if met >= 0:
                outcomes[i, k] = outcomes[met, k] + game[0]["score"] - scores[cards, met]
            else:
                outcomes[i, k] = game[0]["score"] + bonus * is_won(game[0])
    return draws


# ------------------------------------------------------------------------------------ comparison

_KNOWN = 4.0  # how many games' worth of knowledge there is of a difference's variance before any,
_VARIANCE = 50.0**2  # and what it says, in points squared
_APART = 2.0  # standard deviations by which a candidate is behind when it is left out early


def posterior(
    differences: np.ndarray, worth: np.ndarray, slope: float, spread: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return what is to be thought of differences to the first candidate: means and deviations.

    Before any game, the difference is normal around ``slope`` times the difference of worth, with
    the deviation ``spread``. The mean over the games is normal around the difference.

    Args:
        differences: float64 (k, n), outcomes minus those of the first candidate on the same stock,
            n >= 1.
        worth: float64 (k,), worth minus that of the first candidate, at most 0.
        slope, spread: See ``Rollouts``.

    Returns:
        float64 (k,) and (k,), in points.
    """
    games = differences.shape[1]
    means = differences.mean(axis=1)
    squares = ((differences - means[:, None]) ** 2).sum(axis=1)
    noise = (squares + _KNOWN * _VARIANCE) / (games + _KNOWN) / games
    precision = 1 / noise + 1 / spread**2
    return (means / noise + slope * worth / spread**2) / precision, precision**-0.5


def choose(
    worth: np.ndarray,
    rollouts: Rollouts,
    played: Callable[[np.ndarray, int], np.ndarray],
) -> int:
    """Find the best candidate by successive halving, and return its place.

    In each round, the candidates that are left meet new stocks; the better half by ``posterior``
    stays, and always the first, to which the others are compared.

    Args:
        worth: float64 (n,), what the plan player thinks of the candidates, best first.
        rollouts: How much is played.
        played: Called with the places of candidates, int64 (k,), and the number of stocks m: gives
            outcomes on the next m stocks, float64 (k, m).
    """
    left = np.arange(worth.size)
    best = 0
    behind = np.minimum(worth - worth[0], 0.0)
    outcomes = np.zeros((worth.size, 0))
    rounds = max(1, math.ceil(math.log2(worth.size)))
    while left.size > 1:
        count = math.ceil(rollouts.games / rounds / left.size)
        outcomes = np.concatenate([outcomes, played(left, count)], axis=1)
        differences = outcomes - outcomes[0]
        if not differences.any():
            break  # it makes no difference
        means, deviations = posterior(differences, behind[left], rollouts.slope, rollouts.spread)
        means[0] = deviations[0] = 0.0
        best = int(left[means.argmax()])
        if left.size == 2:
            break
        others = 1 + np.argsort(-means[1:], kind="stable")[: math.ceil(left.size / 2) - 1]
        others = others[means[others] + _APART * deviations[others] > means.max()]
        kept = np.concatenate([[0], others])
        left, outcomes = left[kept], outcomes[kept]
    return best


class RolloutChooser:
    """Chooses where to go by play-outs on sampled stocks; see ``agents.search.planner``.

    Args:
        rollouts: How much is played out.
        weights: float64 (NUM_FEATURES,), what positions in play-outs are valued by.
    """

    def __init__(self, rollouts: Rollouts, weights: np.ndarray) -> None:
        self._rollouts = rollouts
        self._searches = rollouts.searches(weights)

    def __call__(self, choices: Sequence[Choice]) -> list[int]:
        """Return the place of the best position of each choice."""
        return [self._best(choice) for choice in choices]

    def _best(self, choice: Choice) -> int:
        if len(choice.worth) == 1:
            return 0

        def played(places: np.ndarray, count: int) -> np.ndarray:
            outcomes = np.zeros((places.size, count))
            stocks = sample_stocks(choice.root[0], count, choice.rng)
            play_stocks(
                choice.positions, places, stocks, self._searches, self._rollouts.bonus, outcomes
            )
            return outcomes

        return choose(choice.worth, self._rollouts, played)
