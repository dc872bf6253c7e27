"""Playouts over sampled stocks, by which the ``sample`` player compares positions.

The candidates before a draw are the positions that ``planner.find_candidates`` finds, the ``plan``
player's choice first. Each is played to the end on the same sampled stocks, by the ``plan`` player
with a small beam (``play_stocks``). That player knows only the cards that it has drawn, so its
scores can be reached without knowledge of the stock. All candidates are played on the same stocks,
so that much of the random variation cancels in their differences.

The remaining variation is large, since a difference is a mean over few games; ``posterior``
therefore combines it with the ``plan`` player's values of the two positions.
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
    """The number of playouts, their searches, and the parameters of their comparison.

    Attributes:
        candidates: Maximum number of positions that are compared.
        games: Approximate maximum number of playouts for a choice.
        width: Positions kept per layer in the playouts' searches.
        depth: Maximum number of layers between two draws.
        end_width: Positions kept per layer once the stock is empty.
        end_depth: Maximum number of layers then.
        bonus: Points added to the score of a won game.
        slope: Expected difference between the outcomes of two candidates, in points, per unit of
            the difference between the plan player's values of them.
        spread: Standard deviation of the difference around that expectation, in points.
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
        """Return the searches of a playout.

        Args:
            weights: float64 (NUM_FEATURES,), the weights of the positions' values.
        """
        beam, end_beam = Beam(self.width, self.depth), Beam(self.end_width, self.end_depth)
        return game_searches(beam, end_beam, weights)


# --------------------------------------------------------------------------------- sampled stocks


def sample_stocks(root: np.ndarray, count: int, rng: np.random.Generator) -> np.ndarray:
    """Return possible orders of the stock: random permutations of the unseen cards.

    Each row is uniformly distributed over all orders, but the first draws of the rows are
    stratified: among as many successive rows as there are unseen cards, each of these cards is
    drawn first exactly once.

    Args:
        root: A record of STATE; the order of its stock is not read.
        count: Number of orders.
        rng: The random generator.

    Returns:
        uint8 (count, stock size), card ids, the next card drawn last.
    """
    unseen = np.empty(NUM_KINDS, dtype=np.uint8)
    count_unseen(root, unseen)
    cards = rng.permutation(np.repeat(np.arange(1, NUM_KINDS + 1, dtype=np.uint8), unseen))
    # Row k begins with the k-th card of one common permutation; its other cards are shuffled.
    rows = cards[(np.arange(count)[:, None] + np.arange(cards.size)) % cards.size]
    rows[:, 1:] = rng.permuted(rows[:, 1:], axis=1)
    return np.ascontiguousarray(rows[:, ::-1])


# -------------------------------------------------------------------------------------- playouts


@compiled
def play_stocks(
    found: np.ndarray,
    left: np.ndarray,
    stocks: np.ndarray,
    searches: Searches,
    bonus: float,
    outcomes: np.ndarray,
) -> int:
    """Play every given candidate to the end on every given stock.

    If two games on the same stock reach the same position, they continue identically. The later
    game then stops, and its outcome is computed from that of the earlier game.

    Args:
        found: STATE (n,), the candidates, each before a draw.
        left: int64 (k,), the indices of the candidates to play.
        stocks: uint8 (m, stock size), orders of the stock, the next card last.
        searches: The searches of the playouts.
        bonus: Points added to the score of a won game.
        outcomes: float64 (k, m), receives the scores, with bonuses.

    Returns:
        The number of draws made.
    """
    game = np.zeros(1, dtype=STATE)
    line = np.empty(MAX_LINE, dtype=np.uint8)
    size = stocks.shape[1]
    # By number of cards left in the stock and by candidate: key of the position, and score there.
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

_KNOWN = 4.0  # the weight of the prior variance of a difference, as a number of games
_VARIANCE = 50.0**2  # the prior variance of a difference in one game, in points squared
_APART = 2.0  # a candidate is dropped when it is this many standard deviations behind the best


def posterior(
    differences: np.ndarray, worth: np.ndarray, slope: float, spread: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return the posterior means and standard deviations of the differences to the first candidate.

    The prior of a candidate's expected difference is normal, with the mean ``slope`` times the
    difference of worth and the standard deviation ``spread``. The mean difference over the games
    is normal around the expected difference.

    Args:
        differences: float64 (k, n), outcomes minus those of the first candidate on the same stock,
            n >= 1.
        worth: float64 (k,), worth minus that of the first candidate, at most 0.
        slope, spread: See ``Rollouts``.

    Returns:
        Means, float64 (k,), and standard deviations, float64 (k,), in points.
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
    """Find the best candidate by successive halving, and return its index.

    In each round, the remaining candidates are played on new stocks, and the better half by
    ``posterior`` is kept. The first candidate, to which the others are compared, always remains.

    Args:
        worth: float64 (n,), the plan player's values of the candidates, best first.
        rollouts: The number of playouts and the parameters of the comparison.
        played: Called with the indices of candidates, int64 (k,), and the number of stocks m;
            returns their outcomes on m new stocks, float64 (k, m).
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
            break  # all candidates have equal outcomes
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
    """A chooser that compares candidates by playouts; see ``agents.search.planner``.

    Args:
        rollouts: The number of playouts, their searches, and the parameters of the comparison.
        weights: float64 (NUM_FEATURES,), the weights of the positions' values in playouts.
    """

    def __init__(self, rollouts: Rollouts, weights: np.ndarray) -> None:
        self._rollouts = rollouts
        self._searches = rollouts.searches(weights)

    def __call__(self, choices: Sequence[Choice]) -> list[int]:
        """Return the index of the best candidate of each choice."""
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
