"""Search for a winning line in a deal whose stock is known.

    python -m agents.solve --deal CODE [--seconds S] [--out FILE]

The solver is a tool and an upper bound, not a player: it sees the whole deck. A solution is
printed and saved as a playthrough. For the method, and the meaning of *lost* and *given up*, see
``agents.search.solver``.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from agents.search.solver import SECONDS, solve_deal
from qv_env import command_line
from qv_env.command_line import Parser, printable
from qv_env.deals import deal_code, typed_deal

_MOST_SECONDS = 1e9


def _parser() -> Parser:
    parser = Parser("python -m agents.solve", __doc__)
    parser.add_argument("--deal", metavar="CODE|NUMBER", required=True, help="the deal")
    parser.add_argument(
        "--seconds",
        metavar="S",
        type=command_line.number(0, _MOST_SECONDS, above=True),
        default=SECONDS,
        help=f"time limit of the search (default: {SECONDS:g})",
    )
    parser.add_argument(
        "--seed", type=command_line.seed, default=0, help="seeds the search (default: 0)"
    )
    parser.add_argument(
        "--out",
        metavar="FILE",
        type=command_line.path,
        help="the solution's file (default: solver-CODE.json)",
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program.

    Returns:
        Its exit status: 0 if the deal was won or proven lost, 1 if it was given up, or a status
        described in ``qv_env.command_line.run``.
    """
    return command_line.run(_parser(), _solve, arguments)


def _solve(options: argparse.Namespace) -> int:
    deal = typed_deal(options.deal)
    code = deal_code(deal)
    path = options.out or Path(f"solver-{code}.json")
    command_line.check_file(path)
    solution, playthrough = solve_deal(deal, options.seconds, options.seed)
    effort = (
        f"{solution.positions:,} positions, {solution.attempts} attempts, {solution.seconds:.1f} s"
    )
    if playthrough is None:
        print(f"{code}: {solution.verdict} ({effort})")
        return 0 if solution.verdict == "lost" else 1
    playthrough.write(path)
    print(f"{code}: won in {len(playthrough.actions)} moves, score {playthrough.score} ({effort})")
    print(" ".join(step.name for step in playthrough.steps()))
    print(f"look at it: python -m qv_env show {printable(shlex.quote(str(path)))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
