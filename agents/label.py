"""Label the deals of a suite with the solver's results.

    python -m agents.label --suite dev-200 --out qv_env/data/dev-200.csv
    python -m agents.label --suite dev-200 --rows results.jsonl.gz

Each search is limited by a number of positions rather than by time, so that the labels are the same
on every machine. Rows are appended to ``OUT.part`` as deals are finished; if the program is killed,
the same command continues with the remaining deals. After the last deal, the data file ``OUT`` is
written, which ``qv_env.suites.difficulty`` can read, and ``OUT.part`` is removed.

The second command does not search: it writes the committed labels as rows of a benchmark, with the
player ``solver``. For a deal that was not won, the row has the game with the most cards on the
foundations.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from agents.search.labels import POSITIONS, label_suite, result_rows
from qv_env import command_line, suite
from qv_env.command_line import Parser
from qv_env.evaluation.results import write_rows

_MOST_POSITIONS, _MOST_DEALS = 10**12, 10**9


def _parser() -> Parser:
    parser = Parser("python -m agents.label", __doc__)
    parser.add_argument(
        "--suite", metavar="NAME", default="dev-200", help="a suite's name (default: dev-200)"
    )
    parser.add_argument(
        "--out", metavar="FILE", type=command_line.path, help="the data file (default: NAME.csv)"
    )
    parser.add_argument(
        "--rows",
        metavar="FILE",
        type=command_line.path,
        help="write the committed labels as rows, and stop",
    )
    parser.add_argument(
        "--positions",
        metavar="N",
        type=command_line.integer(1, _MOST_POSITIONS),
        default=POSITIONS,
        help=f"approximate number of positions examined per deal (default: {POSITIONS:,})",
    )
    parser.add_argument(
        "--seed", type=command_line.seed, default=0, help="seeds the search (default: 0)"
    )
    command_line.add_workers(
        parser, 1, "processes that search (default: 1, as 0: this one itself)", old="--jobs"
    )
    parser.add_argument(
        "--limit",
        metavar="N",
        type=command_line.integer(1, _MOST_DEALS),
        help="label only the first N deals",
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program; return its exit status, see ``qv_env.command_line.run``."""
    return command_line.run(_parser(), _label, arguments, interrupted="the same command goes on")


def _label(options: argparse.Namespace) -> int:
    suite(options.suite)  # raises ValueError if there is no such suite
    if options.rows is not None:
        write_rows(options.rows, result_rows(options.suite))
        return 0
    out = options.out or Path(f"{options.suite}.csv")
    command_line.check_file(out)
    counts = dict.fromkeys(("won", "lost", "given up"), 0)
    seconds = 0.0
    for label in label_suite(
        options.suite,
        out,
        options.positions,
        options.seed,
        max(options.workers, 1),
        options.limit,
    ):
        counts[label.record.verdict] += 1
        seconds += label.seconds
        text = ", ".join(f"{count:,} {verdict}" for verdict, count in counts.items())
        print(
            f"{sum(counts.values()):5,}  {text}  {seconds:,.0f} s of CPU time",
            file=sys.stderr,
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
