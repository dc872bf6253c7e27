"""Tuning of the weights of the plan player or the solver.

CMA-ES (Hansen), from the package ``cmaes``, optimizes the weights of the features of positions
(``agents.search.features``). The objective is the mean number of cards on the foundations, counted
twice for a won deal. All samples of a generation play the same deals, and each generation plays
new ones; all are training deals, with numbers below 2^34. The result after each generation is the
centre of the distribution, not the best sample, whose results owe most to chance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import numpy as np
from cmaes import CMA

from agents.search.features import FEATURES
from agents.search.solver import Attempt, try_game
from agents.search.stage import MAX_LINE, Effort, play_game
from qv_env.cards import NUM_CARDS
from qv_env.deals import HELD_OUT_FROM, deck_of
from qv_env.rules import foundation_cards, is_won, new_game

# Initial scale of the variation of each weight.
SCALES: Mapping[str, float] = {
    "up": 1.0,
    "even": 0.5,
    "empty": 2.0,
    "more_empty": 1.5,
    "links": 0.3,
    "over": 0.4,
    "over_near": 0.4,
    "waste_over": 0.3,
    "waste_over_near": 0.3,
    "depth": 0.15,
    "waste_depth": 0.1,
    "in_stock": 0.4,
    "promise_up": 0.5,
    "promise_columns": 0.5,
    "waste": 0.2,
    "clean": 0.5,
    "shortest": 0.2,
    "waste_links": 0.2,
    "kings": 0.3,
    "empty_early": 1.0,
    "over_early": 0.3,
    "up_early": 0.5,
}

SIGMA = 0.5


Play: TypeAlias = "Callable[[np.ndarray, Sequence[int]], np.ndarray]"


class PlanBench:
    """Plays deals with the plan player and given weights.

    Args:
        effort: The player's search limits.
    """

    def __init__(self, effort: Effort) -> None:
        self._effort = effort

    def __call__(self, weights: np.ndarray, deals: Sequence[int]) -> np.ndarray:
        """Play deals; return cards on the foundations, and 1 if won, for each: int64 (n, 2).

        Args:
            weights: float64 (NUM_FEATURES,).
            deals: Deal numbers.
        """
        rows = np.zeros((len(deals), 2), dtype=np.int64)
        searches = self._effort.searches(weights)
        line = np.zeros(MAX_LINE, dtype=np.uint8)
        for i, deal in enumerate(deals):
            game = new_game(deck_of(deal))
            play_game(game, searches, line)
            rows[i] = foundation_cards(game[0]), is_won(game[0])
        return rows


def solver_bench(width: int) -> Play:
    """Return a function that searches deals once with the solver's beam; see ``PlanBench``.

    Args:
        width: The width of the beam.
    """

    def results(weights: np.ndarray, deals: Sequence[int]) -> np.ndarray:
        rows = np.zeros((len(deals), 2), dtype=np.int64)
        for i, deal in enumerate(deals):
            course = try_game(new_game(deck_of(deal)), Attempt(width, weights, take_backs=False))
            rows[i] = course.most_up, course.actions is not None
        return rows

    return results


def tune(
    start: np.ndarray,
    bench: Play,
    deals: int,
    seed: int,
    population: int | None = None,
    sigma: float = SIGMA,
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the centre of the distribution after each generation, endlessly.

    Args:
        start: float64 (NUM_FEATURES,), the initial weights.
        bench: Returns the results of weights on deals; see ``PlanBench``.
        deals: Number of deals that each sample plays.
        seed: Seeds the samples and the deals.
        population: Samples per generation; None: the default of CMA-ES.
        sigma: The initial standard deviation, in units of ``SCALES``.

    Yields:
        The weights, float64 (NUM_FEATURES,), and each sample's mean number of cards on the
        foundations and mean number of wins, float64 (population, 2).
    """
    scales = np.array([SCALES[name] for name in FEATURES])
    optimizer = CMA(mean=start / scales, sigma=sigma, seed=seed, population_size=population)
    rng = np.random.default_rng(seed)
    while True:
        numbers = rng.integers(0, HELD_OUT_FROM, deals).tolist()
        samples, means = [], []
        for _ in range(optimizer.population_size):
            sample = optimizer.ask()
            mean = bench(sample * scales, numbers).mean(axis=0)
            samples.append((sample, -(mean[0] + NUM_CARDS * mean[1])))
            means.append(mean)
        optimizer.tell(samples)
        yield optimizer.mean * scales, np.array(means)
