"""Label the deals of a suite by what the solver finds: ``python -m agents.label --suite NAME``.

Each deal is searched with a stated number of positions instead of seconds, so that the same labels
come out on every machine, whatever else it does. Rows are appended to ``OUT.part`` as deals are
finished; after a kill, the same command goes on with the deals that are missing. With the last
deal, ``OUT`` is written: a data file as ``qv_env.suites.difficulty`` reads it, and ``OUT.part``
goes.

    python -m agents.label --suite dev-200 --out qv_env/data/dev-200.csv
    python -m agents.label --suite dev-200 --rows results.jsonl.gz

The second command does not search: it writes the labels that are committed as a benchmark's rows,
the player being ``solver``. Where a deal was not won, its row has the game with the most cards up.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from agents.search.labels import POSITIONS, label_suite, result_rows
from qv_env.evaluation.results import write_rows


def main(arguments: list[str] | None = None) -> int:
    """Run the program.

    Returns:
        Its exit status: 0, 2 where something that was asked for cannot be done, 130 after Ctrl-C.
    """
    parser = argparse.ArgumentParser(
        prog="python -m agents.label",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--suite", default="dev-200", help="a suite's name (default: dev-200)")
    parser.add_argument("--out", type=Path, help="the data file (default: NAME.csv)")
    parser.add_argument("--rows", type=Path, help="write the committed labels as rows, and stop")
    parser.add_argument(
        "--positions",
        type=int,
        default=POSITIONS,
        help=f"looked at in a deal, about (default: {POSITIONS:,})",
    )
    parser.add_argument("--seed", type=int, default=0, help="seeds what is tried (default: 0)")
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--limit", type=int, help="the first so many deals only")
    options = parser.parse_args(arguments)
    try:
        if options.rows is not None:
            write_rows(options.rows, result_rows(options.suite))
            return 0
        if min(options.positions, options.jobs) < 1 or options.seed < 0:
            raise ValueError("--positions and --jobs are at least 1, --seed at least 0")
        counts = dict.fromkeys(("won", "lost", "given up"), 0)
        seconds = 0.0
        for label in label_suite(
            options.suite,
            options.out or Path(f"{options.suite}.csv"),
            options.positions,
            options.seed,
            options.jobs,
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
    except (ValueError, OSError) as error:
        print(f"agents.label: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; the same command goes on", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
