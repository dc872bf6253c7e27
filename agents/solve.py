"""Look for a way to win a deal whose stock is known: ``python -m agents.solve --deal CODE``.

This is a tool and an upper bound, not a player: it sees the whole deck. A beam goes through the
whole game, a draw being a move like others (``agents.search.stage``), with more positions or other
weights each time, until the game is won or the time is up. A solution is replayed by the rules
before anybody gets to see it, and is saved as a playthrough.

A deal is called *lost* only where everything that can be reached was seen, take-backs included,
and nothing of it was won. (Positions are told apart by hashes of 64 bits: of 40 million positions,
any two share one with a chance of 1 in 20,000.) A deal for which time or memory ended first is
*given up*; nothing is known about it.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from pathlib import Path

from agents.search.solver import SECONDS, solve_deal
from qv_env.deals import deal_code, typed_deal


def main(arguments: list[str] | None = None) -> int:
    """Run the program.

    Returns:
        Its exit status: 0 where the deal was won or proven lost, 1 where it was given up, 2 where
        something that was asked for cannot be done, 130 after Ctrl-C.
    """
    parser = argparse.ArgumentParser(prog="python -m agents.solve", description=__doc__)
    parser.add_argument("--deal", required=True, help="code or number")
    parser.add_argument(
        "--seconds", type=float, default=SECONDS, help=f"search no longer (default: {SECONDS:g})"
    )
    parser.add_argument("--seed", type=int, default=0, help="seeds what is tried (default: 0)")
    parser.add_argument("--out", type=Path, help="the solution's file (default: solver-CODE.json)")
    options = parser.parse_args(arguments)
    try:
        deal = typed_deal(options.deal)
        if not options.seconds > 0 or options.seed < 0:
            raise ValueError("--seconds is above 0, --seed at least 0")
        solution, playthrough = solve_deal(deal, options.seconds, options.seed)
        code = deal_code(deal)
        effort = (
            f"{solution.positions:,} positions, {solution.attempts} attempts,"
            f" {solution.seconds:.1f} s"
        )
        if playthrough is None:
            print(f"{code}: {solution.verdict} ({effort})")
            return 0 if solution.verdict == "lost" else 1
        path = options.out or Path(f"solver-{code}.json")
        playthrough.write(path)
    except (ValueError, OSError) as error:
        print(f"agents.solve: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130
    print(f"{code}: won in {len(playthrough.actions)} moves, score {playthrough.score} ({effort})")
    print(" ".join(step.name for step in playthrough.steps()))
    print(f"look at it: python -m qv_env show {shlex.quote(str(path))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
