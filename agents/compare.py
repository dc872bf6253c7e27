"""Results compared: tables, paired differences on the same deals, plots, a page with all games.

    python -m agents.compare RESULTS [RESULTS ...] [--group NAME PLAYER ...] [--out DIR]

It is ``python -m qv_env compare``, from a checkout. RESULTS are folders of benchmarks or files of
rows (``qv_env.evaluation.results``). Results of different deals, or of games that differ (step
limit, take-backs, the environment's version), are refused; the message says which differ and where.

``--group NAME PLAYER ...`` takes players as one agent that was trained several times; a pattern
such as ``'ppo:runs/long/seed-*'`` stands for all players that it fits. ``--out`` writes

===================  =========================================================================
``report.html``      all of it; where games were recorded, each leads to its playthrough
``games/``           these playthroughs, which ``report.html`` loads when they are opened
``report.md``        the same beside its pictures
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
