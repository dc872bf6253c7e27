"""Results compared: tables, paired differences on the same deals, plots, a page with all games.

    python -m agents.compare RESULTS [RESULTS ...] [--group NAME PLAYER ...] [--out DIR]

RESULTS are folders of ``agents.benchmark`` or files of rows (``qv_env.evaluation.results``).
Results of different deals, or of games that differ (step limit, take-backs, the environment's
version), are refused; the message says which differ and where.

``--group NAME PLAYER ...`` takes players as one agent that was trained several times; a pattern
such as ``'ppo:runs/long/seed-*'`` stands for all players that it fits. ``--out`` writes

===================  =========================================================================
``report.html``      all of it, one file; where games were recorded, each leads to its playthrough
``report.md``        the same beside its pictures
``comparison.json``  the figures
===================  =========================================================================
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from qv_env.evaluation.comparison import ALLOWED, Comparison, Group, Pair, differences, load_results
from qv_env.evaluation.reports.comparison import (
    COMPARISON,
    group_cells,
    pair_cells,
    read_runs,
    report_blocks,
)
from qv_env.evaluation.reports.page import (
    write_page,
)
from qv_env.evaluation.reports.tables import (
    deals_text,
    table_cells,
    text_rows,
)
from qv_env.evaluation.summary import PlayerSummary
from qv_env.files import write_json


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line, without the usage."""
        self.exit(2, f"{self.prog}: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m agents.compare",
        description="Compare results on the same deals.",
    )
    parser.add_argument(
        "results", metavar="RESULTS", nargs="+", help="a benchmark's folder, or a file of rows"
    )
    parser.add_argument(
        "--group",
        metavar=("NAME", "PLAYER"),
        nargs="+",
        action="append",
        default=[],
        help="players that are one agent, trained with several seeds; a PLAYER may be a pattern",
    )
    parser.add_argument("--baseline", metavar="NAME", help="compare with this player or group only")
    parser.add_argument(
        "--allow",
        choices=list(ALLOWED),
        action="append",
        default=[],
        help="a setting of the game in which the results may differ all the same",
    )
    parser.add_argument(
        "--learning",
        metavar=("NAME", "RUN"),
        nargs="+",
        action="append",
        default=[],
        help="an agent's name and the folders of its training runs: draw its learning curve",
    )
    parser.add_argument("--out", metavar="DIR", type=Path, help="write report, plots and figures")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status.

    Raises:
        SystemExit: With status 2, when something that was asked for cannot be done.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        for name, *rest in (*options.group, *options.learning):
            if not rest:
                raise ValueError(f"{name!r} stands alone: NAME and what belongs to it")
        frame = load_results(options.results, [ALLOWED[name] for name in options.allow])
        groups = {name: players for name, *players in options.group}
        comparison = Comparison(frame, groups, options.baseline)
        learning = {name: read_runs(runs) for name, *runs in options.learning}
        if options.out is not None:
            command = shlex.join(["python", "-m", "agents.compare", *arguments])
            title = f"Comparison on {deals_text(frame)}"
            page = write_page(options.out, title, report_blocks(comparison, learning, command))
            write_json(options.out / COMPARISON, comparison.to_dict())
    except (ValueError, OSError) as error:
        parser.error(" ".join(str(error).split()))
    print(f"Results on {deals_text(frame)}:\n")
    print(text_rows(table_cells(comparison.summaries)))
    if comparison.groups:
        print(text_rows(group_cells(comparison.groups)))
    if comparison.pairs:
        print(text_rows(pair_cells(comparison.pairs)))
    if options.out is not None:
        print(f"report: {page}")
    return 0


__all__ = [
    "Comparison",
    "Group",
    "Pair",
    "PlayerSummary",
    "differences",
    "group_cells",
    "load_results",
    "main",
    "pair_cells",
    "read_runs",
    "report_blocks",
]

if __name__ == "__main__":
    sys.exit(main())
