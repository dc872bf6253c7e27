"""Players on the same held-out deals: a row a game, intervals, a table and a plot.

    python -m agents.benchmark PLAYER [PLAYER ...] [--suite NAME | --deals DEALS] [--seeds SEEDS]

It is ``python -m qv_env benchmark`` with this repository's own players (``agents.players``) beside
those of the package. ``LABEL=PLAYER`` gives one another name in the results. All cores play. The
results go to a folder, which ``qv_env.evaluation.benchmark`` describes.
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
