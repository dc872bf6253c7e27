"""Let a player play one deal, and save the playthrough.

    python -m agents.watch PLAYER [--deal CODE] [--seed S] [--out FILE]

``python -m qv_env show FILE`` shows the playthrough in the terminal. The file also contains the
player's value estimates and most probable actions, if the player provides them.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import torch

from agents.players import PLAYERS, make_player
from qv_env import MAX_EPISODE_STEPS, command_line, deal_code, suite
from qv_env.command_line import MOST_STEPS, Parser, printable
from qv_env.deals import typed_deal
from qv_env.evaluation.play import watch


def _parser() -> Parser:
    parser = Parser("python -m agents.watch", __doc__)
    parser.add_argument("player", metavar="PLAYER", help=PLAYERS.forms)
    parser.add_argument(
        "--deal",
        metavar="CODE|NUMBER",
        default=str(suite("dev-200")[0]),
        help="the deal (default: dev-200's first)",
    )
    parser.add_argument(
        "--seed", type=command_line.seed, default=0, help="seeds the player (default: 0)"
    )
    parser.add_argument(
        "--max-episode-steps",
        metavar="N",
        type=command_line.integer(1, MOST_STEPS),
        default=MAX_EPISODE_STEPS,
        help=f"the step limit (default: {MAX_EPISODE_STEPS})",
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        type=command_line.path,
        help="the file (default: PLAYER-CODE.json)",
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; return its exit status, see ``qv_env.command_line.run``."""
    return command_line.run(_parser(), _watch, arguments)


def _watch(options: argparse.Namespace) -> int:
    torch.set_num_threads(1)  # a single game gains nothing from threads
    deal = typed_deal(options.deal)
    code = deal_code(deal)
    player = make_player(options.player)
    path = options.out or Path(f"{player.name}-{code}.json")
    command_line.check_file(path)
    playthrough = watch(player, deal, options.seed, options.max_episode_steps)
    playthrough.write(path)
    print(
        f"{printable(player.name)} on {code}: score {playthrough.score},"
        f" {len(playthrough.actions)} moves{', won' if playthrough.won else ''}"
    )
    print(f"look at it: python -m qv_env show {printable(shlex.quote(str(path)))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
