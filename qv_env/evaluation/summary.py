"""Figures of results: the performance of each player, with intervals.

If players played each deal with several seeds, a deal's value is the mean over its seeds, and
intervals are over deals, since the games of one deal are not independent samples.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from qv_env.evaluation.results import Results
from qv_env.evaluation.stats import (
    Interval,
    PairedDifference,
    clustered_proportion_interval,
    mean_intervals,
    paired_difference,
    paired_wins,
)
from qv_env.rules import MAX_SCORE

# ------------------------------------------------------------------------------------- figures


@dataclass(frozen=True)
class PlayerSummary:
    """A player's figures on the deals of a benchmark.

    Attributes:
        player: The player's name.
        settings: The player's settings.
        environment: The player's environment: id, keywords, step limit.
        deals: The number of different deals played.
        seeds: The seeds with which each deal was played.
        mean_score: Mean of the final scores, 0..1360, with bootstrap interval.
        share_of_maximum: Mean score divided by 1,360, which no game can exceed.
        wins: Games won.
        games: Games played: deals times seeds.
        win_rate: Wins divided by games, with Wilson interval.
        mean_foundation_cards: Mean of the cards on the foundations at the end, 0..104, with
            bootstrap interval.
        mean_steps: Mean number of steps.
        truncated: Share of the games that the step limit ended.
        cpu_seconds_per_deal: Average CPU time of a game; the time of a batch is divided equally
            among its games. None if unknown.
    """

    player: str
    settings: dict[str, Any]
    environment: dict[str, Any]
    deals: int
    seeds: tuple[int, ...]
    mean_score: Interval
    share_of_maximum: float
    wins: int
    games: int
    win_rate: Interval
    mean_foundation_cards: Interval
    mean_steps: float
    truncated: float
    cpu_seconds_per_deal: float | None


def summarize(results: Results, seed: int = 0) -> dict[str, PlayerSummary]:
    """Return each player's figures, in the order of the players in the rows.

    Args:
        results: The rows, and the CPU seconds per deal if known.
        seed: Seeds the bootstrap.
    """
    summaries = {}
    frame, names = results.frame, list(results.players)
    means = mean_intervals(
        [deal_values(frame, name, key) for key in ("score", "foundation_cards") for name in names],
        seed=seed,
    )
    for name, score, cards in zip(names, means[: len(names)], means[len(names) :], strict=True):
        rows = frame[frame["player"] == name]
        seeds = tuple(int(seed) for seed in dict.fromkeys(rows["seed"]))
        summaries[name] = PlayerSummary(
            player=name,
            settings=dict(rows["settings"].iloc[0]),
            environment=dict(rows["environment"].iloc[0]),
            deals=len(rows) // len(seeds),
            seeds=seeds,
            mean_score=score,
            share_of_maximum=score.estimate / MAX_SCORE,
            wins=int(rows["won"].sum()),
            games=len(rows),
            win_rate=clustered_proportion_interval(deal_values(frame, name, "won"), len(seeds)),
            mean_foundation_cards=cards,
            mean_steps=float(rows["steps"].mean()),
            truncated=float(rows["truncated"].mean()),
            cpu_seconds_per_deal=results.cpu_seconds.get(name),
        )
    return summaries


def deal_values(frame: pd.DataFrame, player: str, column: str) -> np.ndarray:
    """Return a player's value for each deal, the mean over its seeds: float64, in suite order.

    Raises:
        ValueError: The rows have no such player.
    """
    rows = frame[frame["player"] == player]
    if rows.empty:
        raise ValueError(f"the results have no player {player!r}")
    values: np.ndarray = (
        rows[column].astype(np.float64).groupby(rows["index"]).mean().sort_index().to_numpy()
    )
    return values


def compare_scores(
    frame: pd.DataFrame, first: str, second: str, seed: int = 0, column: str = "score"
) -> PairedDifference:
    """Return the difference of two players on the same deals: first minus second.

    Args:
        frame: Rows, as ``qv_env.evaluation.results`` describes them.
        first: A player's name in the rows.
        second: Another player's name.
        seed: Seeds the bootstrap.
        column: The value compared: ``score``, ``won`` (then the sign test is McNemar's exact test)
            or ``foundation_cards``.

    Raises:
        ValueError: The two did not play the same deals, or the rows have no such player.
    """
    one_values, other_values = (deal_values(frame, name, column) for name in (first, second))
    one, other = (
        dict(zip(rows["index"], rows["deal"], strict=True))
        for rows in (frame[frame["player"] == name] for name in (first, second))
    )
    if one != other:
        raise ValueError(f"{first!r} and {second!r} did not play the same deals")
    compare = paired_wins if column == "won" else paired_difference
    return compare(one_values, other_values, seed=seed)
