"""Let a player play one deal and keep its playthrough: ``python -m agents.watch PLAYER``.

The file is what ``python -m qv_env show FILE`` plays in the terminal. It holds the player's value
estimates and likeliest actions, where the player has any.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

import torch

from agents.players import PLAYERS, make_player
from qv_env import MAX_EPISODE_STEPS, deal_code, suite
from qv_env.deals import typed_deal
from qv_env.evaluation.play import watch


def main(arguments: list[str] | None = None) -> int:
    """Run the program; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m agents.watch", description=__doc__)
    parser.add_argument("player", help=PLAYERS.forms)
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
