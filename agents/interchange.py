"""Print a deal in a format that other solvers read, in order to check this project's solver.

    python -m agents.interchange {solvitaire,solvitaire-rules,pysol} [--deal CODE]

The formats are described in ``qv_env.interchange``.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from qv_env import command_line
from qv_env.command_line import Parser
from qv_env.deals import deck_of, typed_deal
from qv_env.interchange import SOLVITAIRE_RULES, pysol_text, solvitaire_json


def _parser() -> Parser:
    parser = Parser("python -m agents.interchange", __doc__)
    parser.add_argument(
        "form",
        choices=["solvitaire", "solvitaire-rules", "pysol"],
        help="a deal for Solvitaire, the game's rules for it, or a deal for PySolFC",
    )
    parser.add_argument(
        "--deal", metavar="CODE|NUMBER", default="0", help="the deal (default: number 0)"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; return its exit status, see ``qv_env.command_line.run``."""
    return command_line.run(_parser(), _print, arguments)


def _print(options: argparse.Namespace) -> int:
    if options.form == "solvitaire-rules":
        print(json.dumps(SOLVITAIRE_RULES, indent=1))
        return 0
    deck = deck_of(typed_deal(options.deal))
    print({"solvitaire": solvitaire_json, "pysol": pysol_text}[options.form](deck), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
