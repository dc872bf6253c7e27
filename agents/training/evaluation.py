"""Play on held-out deals during training, as a row of ``evaluations.jsonl``."""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.players import Player
from agents.training.config import EvaluationConfig
from qv_env import suite
from qv_env.evaluation.play import play_deals
from qv_env.evaluation.stats import mean_interval, proportion_interval


def evaluate(
    player: Player, config: EvaluationConfig, seed: int, max_episode_steps: int
) -> dict[str, Any]:
    """Let a player play held-out deals.

    Args:
        player: The player, in its current state.
        config: Determines the deals.
        seed: Seeds the player's randomness, together with each deal's number.
        max_episode_steps: The step limit; -1 for none.

    Returns:
        ``suite``, ``deals`` (their number), ``play``; ``mean_score``, and its interval ``low`` to
        ``high``; ``wins``, and the win rate's interval ``win_rate_low`` to ``win_rate_high``; the
        means ``foundation_cards`` and ``mean_steps``.
    """
    deals = suite(config.suite)[: config.limit]
    episodes = list(play_deals(player, deals, seed=seed, max_episode_steps=max_episode_steps))
    episodes.sort(key=lambda episode: episode.index)
    score = mean_interval([episode.score for episode in episodes])
    wins = sum(episode.won for episode in episodes)
    win_rate = proportion_interval(wins, len(episodes))
    return {
        "suite": config.suite,
        "deals": len(episodes),
        "play": " ".join(str(value) for value in player.settings.values()),
        "mean_score": score.estimate,
        "low": score.low,
        "high": score.high,
        "wins": wins,
        "win_rate_low": win_rate.low,
        "win_rate_high": win_rate.high,
        "foundation_cards": float(np.mean([e.foundation_cards for e in episodes])),
        "mean_steps": float(np.mean([e.steps for e in episodes])),
    }
