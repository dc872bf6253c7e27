"""Compare players on the same held-out deals: one row per game, intervals, a table and a plot.

    python -m agents.benchmark PLAYER [PLAYER ...] [--suite NAME | --deals DEALS] [--seeds SEEDS]

This is ``python -m qv_env benchmark`` with this repository's own players (``agents.players``) in
addition to those of the package. ``LABEL=PLAYER`` gives a player another name in the results. All
cores are used. The results are written to a folder, described in ``qv_env.evaluation.benchmark``.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from agents.players import PLAYERS
from qv_env.evaluation.commands import benchmark


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; see ``qv_env.evaluation.commands.benchmark``."""
    arguments = sys.argv[1:] if argv is None else argv
    return benchmark(arguments, "python -m agents.benchmark", PLAYERS)


if __name__ == "__main__":
    sys.exit(main())
