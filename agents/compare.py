"""Compare results: tables, paired differences on the same deals, plots, a page with all games.

    python -m agents.compare RESULTS [RESULTS ...] [--group NAME PLAYER ...] [--out DIR]

This is ``python -m qv_env compare``, run from a checkout. RESULTS are folders of benchmarks or
files of rows (``qv_env.evaluation.results``). Results on different deals, or of different games
(step limit, take-backs, the environment's version), are refused; the message gives the difference.

``--group NAME PLAYER ...`` treats players as one agent that was trained several times; a pattern
such as ``'ppo:runs/long/seed-*'`` stands for all players that match it. ``--out`` writes

===================  =========================================================================
``report.html``      the complete report; recorded games are linked to their playthroughs
``games/``           these playthroughs, which ``report.html`` loads when they are opened
``report.md``        the same report in Markdown, with its plots as image files
``comparison.json``  the figures
===================  =========================================================================
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from qv_env.evaluation.commands import compare


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line; see ``qv_env.evaluation.commands.compare``."""
    return compare(sys.argv[1:] if argv is None else argv, "python -m agents.compare")


if __name__ == "__main__":
    sys.exit(main())
