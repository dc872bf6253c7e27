"""Let a player play one deal and keep its playthrough: ``python -m agents.watch PLAYER``.

The file is what ``python -m qv_env show FILE`` plays in the terminal. It holds the player's value
estimates and likeliest actions, where the player has any.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path
from typing import Any

import torch

from agents.evaluation import Episode, play_deals
from agents.players import FORMS, Player, make_player
from qv_env import MAX_EPISODE_STEPS, deal_code, suite
from qv_env.deals import typed_deal
from qv_env.playthrough import Playthrough


def watch(player: Player, deal: int, seed: int = 0, max_episode_steps: int = MAX_EPISODE_STEPS
          ) -> Playthrough:  # fmt: skip
    """Return the playthrough of one deal.

    It is the game that ``agents.benchmark`` counts for the same player, deal, seed and step limit.

    Args:
        player: Who plays.
        deal: The deal's number.
        seed: Seeds the player's randomness, together with the deal's number.
        max_episode_steps: The step limit; -1 for none.
    """
    (episode,) = play_deals(player, [deal], seed, max_episode_steps, record=True)
    return playthrough_of(episode, player, seed)


def playthrough_of(
    episode: Episode, player: Player, seed: int, extra: dict[str, Any] | None = None
) -> Playthrough:
    """Return a recorded episode as a playthrough, with further keys where there are any."""
    return Playthrough.from_actions(
        episode.actions,
        deal=episode.deal,
        player=player.name,
        values=episode.values or None,
        likeliest=episode.likeliest or None,
        extra={
            "settings": player.settings,
            "seed": seed,
            "truncated": episode.truncated,
            **(extra or {}),
        },
    )


def main(arguments: list[str] | None = None) -> int:
    """Run the program; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m agents.watch", description=__doc__)
    parser.add_argument("player", help=FORMS)
    parser.add_argument(
        "--deal", default=str(suite("dev-200")[0]), help="code or number (default: dev-200's first)"
    )
    parser.add_argument("--seed", type=int, default=0, help="seeds the player (default: 0)")
    parser.add_argument("--max-episode-steps", type=int, default=MAX_EPISODE_STEPS)
    parser.add_argument("--out", type=Path, help="the file (default: PLAYER-CODE.json)")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)  # one game at a time leaves nothing to share
    try:
        deal = typed_deal(options.deal)
        player = make_player(options.player)
        playthrough = watch(player, deal, options.seed, options.max_episode_steps)
        path = options.out or Path(f"{player.name}-{deal_code(deal)}.json")
        playthrough.write(path)
    except (ValueError, OSError) as error:
        print(f"agents.watch: {error}", file=sys.stderr)
        return 2
    print(
        f"{player.name} on {deal_code(deal)}: score {playthrough.score},"
        f" {len(playthrough.actions)} moves{', won' if playthrough.won else ''}"
    )
    print(f"look at it: python -m qv_env show {shlex.quote(str(path))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
