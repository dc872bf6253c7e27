"""Playthroughs of an agent in training: its games on the same few deals at regular intervals."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from agents.players import Player
from qv_env import MAX_EPISODE_STEPS, deal_code
from qv_env.evaluation.play import play_deals, playthrough_of


def record_deals(
    player: Player,
    deals: Sequence[int] | np.ndarray,
    folder: Path,
    steps: int,
    seed: int = 0,
    max_episode_steps: int = MAX_EPISODE_STEPS,
) -> list[Path]:
    """Let a player play deals, and write a playthrough of each game.

    Files are named by steps and deal, ``000000050000-FT1-N-QAAAAAA.json``, so that a folder's
    listing is in the order of training, and a run that resumes from a checkpoint replaces the files
    that it had written after it. Each file has the same game as ``agents.watch`` gives for this
    player, deal, seed and step limit.

    Args:
        player: The player, in its current state.
        deals: Deal numbers.
        folder: Where the files are written; created if missing.
        steps: Number of environment steps that the player has been trained for.
        seed: Seeds the player's randomness, together with each deal's number.
        max_episode_steps: The step limit; -1 for none.

    Returns:
        The files, in the order of the deals.

    Raises:
        OSError: The folder cannot be written to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = {}
    for episode in play_deals(player, deals, seed, max_episode_steps, record=True):
        playthrough = playthrough_of(episode, player, seed, {"trained_steps": steps})
        paths[episode.index] = folder / f"{steps:012d}-{deal_code(episode.deal)}.json"
        playthrough.write(paths[episode.index])
    return [paths[index] for index in sorted(paths)]
