"""The scoreboard: committed results, and the tables generated from them.

    python -m agents.scoreboard                    # write docs/scoreboard.md and .csv again
    python -m agents.scoreboard --add DIR          # first add the results of a benchmark
    python -m agents.scoreboard --check            # check that the tables are up to date
    python -m agents.scoreboard --verify 20        # play some deals again and compare the rows

Results are stored in ``results/SUITE/``, two files for each player: ``NAME.jsonl.gz``, the rows
described in ``qv_env.evaluation.results``, and ``NAME.json``, information about them:

========================  ====================================================================
``player``                the player's name in the rows
``kind``                  ``player``, or ``bound``: an upper bound, which knows the stock
``group``                 the agent's name if several files are of one agent, one file for each
                          training seed; else null
``spec``                  the player's name for ``agents.players``; null if it has none
``command``               the command line that makes the rows
``note``                  a remark for the table, or empty
``cpu_seconds_per_deal``  a number, or null
``date``, ``git_commit``, ``git_dirty``, ``versions``, ``files``, ``batch``
                          provenance; ``files``: SHA-256 of the files the player was made from
========================  ====================================================================

Only results on whole suites can be added. The rows of a bound may be written by any program:
``--add FILE --bound --command "..."``. In ``README.md``, the text between the lines
``<!-- scoreboard SUITE -->`` and ``<!-- end of scoreboard -->`` is replaced by a short table.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from agents.publishing.entries import ROOT, Entry, add_results, read_entries, verify
from agents.publishing.rows import outdated, publish
from agents.publishing.tables import pages
from qv_env import command_line
from qv_env.command_line import Parser, printable
from qv_env.evaluation.workers import WorkerError
from qv_env.files import write_text

_MOST_DEALS = 10**9


def _parser() -> Parser:
    parser = Parser(
        "python -m agents.scoreboard",
        "Make docs/scoreboard.md and .csv of the results in results/.",
    )
    action = parser.add_mutually_exclusive_group()
    action.add_argument(
        "--add",
        metavar="RESULTS",
        type=command_line.path,
        help="first add the results in a benchmark's folder or a file",
    )
    action.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 if a table is out of date"
    )
    action.add_argument(
        "--verify",
        metavar="N",
        type=command_line.integer(1, _MOST_DEALS),
        help="play the first N deals of each player again",
    )
    parser.add_argument(
        "--player",
        metavar="NAME",
        action="append",
        default=[],
        help="with --add and --verify: only this player; may be repeated",
    )
    parser.add_argument("--bound", action="store_true", help="with --add: it knows the stock")
    parser.add_argument(
        "--group", metavar="NAME", help="with --add: the agent whose training seeds these are"
    )
    parser.add_argument("--note", default="", help="with --add: a remark for the table")
    parser.add_argument("--command", help="with --add FILE: the command line that makes it")
    parser.add_argument(
        "--replace", action="store_true", help="with --add: replace results of the same player"
    )
    parser.add_argument(
        "--root",
        metavar="DIR",
        type=command_line.path,
        default=ROOT,
        help="the checkout (default: this one)",
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the program.

    Returns:
        Its exit status: 0; 1 if a table is out of date or a row differs; or a status described in
        ``qv_env.command_line.run``.
    """
    return command_line.run(_parser(), _scoreboard, arguments, errors=(WorkerError,))


def _scoreboard(options: argparse.Namespace) -> int:
    root: Path = options.root
    if not root.is_dir():
        raise ValueError(f"--root: there is no folder {root}")
    if options.add is not None:
        for path in add_results(
            options.add,
            root,
            players=options.player,
            bound=options.bound,
            group=options.group,
            note=options.note,
            command=options.command,
            replace=options.replace,
        ):
            print(f"wrote {printable(str(path))}")
    elif any([options.bound, options.group, options.note, options.command, options.replace]):
        raise ValueError("--bound, --group, --note, --command and --replace go with --add")
    entries = read_entries(root)
    if options.verify is not None:
        return _verify(entries, options.verify, options.player)
    texts = pages(entries, root)
    if options.check:
        old = [path for path, text in texts.items() if _content(path) != text]
        old += outdated(entries, root)
        for path in old:
            print(f"{printable(str(path))} is out of date: python -m agents.scoreboard")
        return 1 if old else 0
    for path, text in texts.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_text(path, text)
        print(f"wrote {printable(str(path))}")
    for path in publish(entries, root):
        print(f"wrote {printable(str(path))}")
    return 0


def _content(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


def _verify(entries: Sequence[Entry], deals: int, players: Sequence[str]) -> int:
    unknown = set(players) - {entry.summary.player for entry in entries}
    if unknown:
        raise ValueError(f"the results have no player {min(unknown)!r}")
    status = 0
    for entry in entries:
        name = printable(f"{entry.summary.player} on {entry.suite}")
        if players and entry.summary.player not in players:
            continue
        if entry.about["spec"] is None:
            print(f"{name}: no player of agents.players, not played")
            continue
        different = verify(entry, deals)
        print(f"{name}: {printable(different or 'the same')}", flush=True)
        status = status or int(different is not None)
    return status


if __name__ == "__main__":
    sys.exit(main())
