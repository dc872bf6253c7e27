"""Deals in the forms that other solvers read, so that they can check ours.

    python -m agents.interchange {solvitaire,solvitaire-rules,pysol} [--deal CODE]

Solvitaire (Blake and Gent) reads a deal as JSON: ``"tableau piles"`` and ``"stock"``, each pile
from its bottom to its top, cards as ``"10H"``; the stock's last card is drawn first. What the
game's rules are is a second file, ``SOLVITAIRE_RULES``. (Read from its sources:
``deal_parser.cpp``, ``rules_parser.cpp``, ``card.cpp``.)

PySolFC's boards as text, which Freecell Solver's tools write and ``pysol_cards`` deals: a line
``Talon:`` with the stock, next card first, then a line a column, bottom card first, cards as
``10H`` or ``TH``. It has no place for a waste and says a deal only. (Read from the sources of
``pysol_cards``: ``deal_game.py``, ``cards.py``.)

Two cards alike are one and the same to all of them, as to us.
"""

from __future__ import annotations

import argparse
import json
import sys

from qv_env.deals import deck_of, typed_deal
from qv_env.interchange import SOLVITAIRE_RULES, pysol_text, solvitaire_json


def main(arguments: list[str] | None = None) -> int:
    """Run the program: print a deal, or Solvitaire's rules; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m agents.interchange", description=__doc__)
    parser.add_argument("form", choices=["solvitaire", "solvitaire-rules", "pysol"])
    parser.add_argument("--deal", default="0", help="code or number (default: 0)")
    options = parser.parse_args(arguments)
    if options.form == "solvitaire-rules":
        print(json.dumps(SOLVITAIRE_RULES, indent=1))
        return 0
    try:
        text = options.deal
        deck = deck_of(typed_deal(text))
    except ValueError as error:
        print(f"agents.interchange: {error}", file=sys.stderr)
        return 2
    print({"solvitaire": solvitaire_json, "pysol": pysol_text}[options.form](deck), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
