"""Players on the same held-out deals: a row a game, intervals, a table and a plot.

    python -m agents.benchmark PLAYER [PLAYER ...] [--suite NAME | --deals DEALS] [--seeds SEEDS]

``agents.players`` says how players are named; ``LABEL=PLAYER`` gives one another name in the
results. All cores play. The results go to a folder:

==================  ==========================================================================
``benchmark.json``  what is played, written first, and what it is made with
``results.jsonl``   a row a game, as ``qv_env.evaluation.results`` describes it; each is
                    appended when the game ends, and at the end the file is put in order
``times.jsonl``     what each batch of games took; differs from run to run
``summary.json``    the figures of each player with their intervals; written last, so a folder
                    that has it is whole
``table.md``        the same as a Markdown table
``plot.png``        how the scores are spread, and their means
==================  ==========================================================================

A benchmark that was stopped, by Ctrl-C or a kill, goes on with ``--resume --out DIR`` and ends with
the same ``results.jsonl``, byte for byte. A row depends on the player, the deal, the seed and the
step limit alone: not on the other players and deals, nor on the number of workers. (A network's
sums may round differently in batches of another size or on another processor, and there a near tie
can fall the other way. The deals are cut into batches before they are dealt to the workers, and a
batch that was interrupted is played again as a whole; so on one machine these rows are the same,
too.)
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from agents.players import FORMS
from qv_env import MAX_EPISODE_STEPS, suite
from qv_env.evaluation.benchmark import (
    _SEED_END,
    FILES,
    MOST_GAMES,
    PLAN,
    Plan,
    check_same_plan,
    parse_deals,
    planned,
    play_into,
)
from qv_env.evaluation.reports.tables import deals_text, markdown_table, seeds_text
from qv_env.evaluation.results import (
    SUMMARY,
)
from qv_env.evaluation.summary import summarize
from qv_env.evaluation.workers import WorkerError
from qv_env.suites import SUITE_SIZES

MOST_SEEDS = 1_000


def parse_seeds(text: str) -> tuple[int, ...]:
    """Return the seeds of a text: integers, and ranges such as ``0..4``, separated by commas.

    Raises:
        ValueError: It names none, too many, or one that cannot be; the message says which.
    """
    seeds: list[int] = []
    for part in text.split(","):
        first, dots, last = part.partition("..")
        try:
            low = int(first)
            high = int(last) if dots else low
        except ValueError:
            raise ValueError(f"{part!r} is no integer and no range such as 0..4") from None
        if not 0 <= low <= high < _SEED_END:
            raise ValueError(f"{part} is not between 0 and {_SEED_END - 1}, rising")
        if high - low + 1 + len(seeds) > MOST_SEEDS:
            raise ValueError(f"more than {MOST_SEEDS:,} seeds")
        seeds += range(low, high + 1)
    return tuple(seeds)


def parse_player(text: str) -> tuple[str, str]:
    """Return a player's name in the results and how it is made: ``LABEL=PLAYER`` or ``PLAYER``."""
    label, equals, spec = text.partition("=")
    if equals and label and not set(label) & set(":,"):
        return label, spec
    return text, text


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line, without the usage."""
        self.exit(2, f"{self.prog}: {message}\n")


def _integer(low: int, end: int | None = None) -> Callable[[str], int]:
    def convert(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{text!r} is no integer") from None
        if value < low or (end is not None and value >= end):
            limits = f"at least {low}" if end is None else f"between {low} and {end - 1}"
            raise argparse.ArgumentTypeError(f"{value} is not {limits}")
        return value

    return convert


def _seeds(text: str) -> tuple[int, ...]:
    try:
        return parse_seeds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def cores() -> int:
    """Return how many cores this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m agents.benchmark",
        description="Let players play the same held-out deals and compare their results.",
    )
    parser.add_argument(
        "players",
        metavar="PLAYER",
        nargs="*",
        help=f"{FORMS}; LABEL=PLAYER to call it something else",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--suite",
        help=f"{', '.join(SUITE_SIZES)} (default dev-200, for tuning; tables use test suites)",
    )
    which.add_argument(
        "--deals",
        help="instead of a suite: LO:HI for the numbers LO to HI - 1, or codes and numbers,"
        " separated by commas",
    )
    parser.add_argument(
        "--limit", metavar="N", type=_integer(1), help="play the first N of the deals only"
    )
    parser.add_argument(
        "--seeds",
        "--seed",
        metavar="SEEDS",
        type=_seeds,
        help="seed the players' randomness, such as 0,1,2 or 0..2: each deal is played with each"
        " (default 0)",
    )
    parser.add_argument(
        "--max-episode-steps",
        metavar="N",
        type=_integer(1),
        help=f"the step limit (default {MAX_EPISODE_STEPS})",
    )
    parser.add_argument(
        "--record",
        action="store_true",
        default=None,
        help="keep the games' actions in the rows, to look at with agents.compare's report",
    )
    parser.add_argument(
        "--workers",
        metavar="N",
        type=_integer(0),
        default=cores(),
        help="processes that play, a thread each (default: one a core; 0: play in this process,"
        " for debuggers); no row depends on it",
    )
    parser.add_argument(
        "--batch",
        metavar="N",
        type=_integer(1),
        help="games that a worker plays at a time (default: as the player says)",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=Path,
        help="where the results go (default runs/benchmark/SUITE-TIME)",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with the benchmark in --out DIR; what else is said must be as it was",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace results that the folder has"
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status: 0, or 130 after Ctrl-C.

    Raises:
        SystemExit: With status 2, when something that was asked for cannot be done.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = _parser()
    options = parser.parse_args(arguments)
    command = shlex.join(["python", "-m", "agents.benchmark", *arguments])
    folder = options.out
    try:
        if options.resume:
            plan = _resumed_plan(options)
            if (folder / SUMMARY).is_file():
                check_same_plan(folder, plan)
                print(f"{folder} is finished")
                return 0
            command = ""  # the one that it began with stays
        else:
            plan = _new_plan(options)
            started = datetime.now().strftime("%Y%m%d-%H%M%S")
            label = plan.suite.replace(":", "-")
            folder = options.out or Path("runs", "benchmark", f"{label}-{started}")
        frame = play_into(
            folder,
            plan,
            workers=options.workers,
            command=command,
            resume=options.resume,
            overwrite=options.overwrite,
            progress=True,
        )
    except (ValueError, OSError, WorkerError) as error:
        hint = ""
        if isinstance(error, WorkerError):
            hint = f" (the games so far are kept: {_resume_command(folder, options)})"
        parser.error(" ".join(str(error).split()) + hint)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        if folder is not None and (folder / PLAN).is_file():
            print(f"to go on: {_resume_command(folder, options)}", file=sys.stderr)
        return 130
    print(f"Results on {deals_text(frame)}, {seeds_text(frame)}:\n")
    print(markdown_table(summarize(frame)))
    print(f"{folder}: {', '.join(FILES)}")
    return 0


def _resume_command(folder: Path, options: argparse.Namespace) -> str:
    more = [] if options.workers == cores() else ["--workers", str(options.workers)]
    return shlex.join(["python", "-m", "agents.benchmark", "--resume", "--out", str(folder), *more])


def _new_plan(options: argparse.Namespace) -> Plan:
    if not options.players:
        raise ValueError("no PLAYER is named")
    name, deals = _chosen_deals(options)
    chosen = deals[: options.limit]
    if len(chosen) > MOST_GAMES:
        raise ValueError(f"{len(chosen):,} deals are more than {MOST_GAMES:,}: --limit")
    return Plan(
        players=_chosen_players(options.players),
        suite=name,
        deals=tuple(int(deal) for deal in chosen),
        seeds=options.seeds or (0,),
        max_episode_steps=options.max_episode_steps or MAX_EPISODE_STEPS,
        batch=options.batch,
        record=bool(options.record),
    )


def _resumed_plan(options: argparse.Namespace) -> Plan:
    """The folder's plan, with what the command line says in its place."""
    if options.out is None:
        raise ValueError("--resume needs --out DIR")
    if options.overwrite:
        raise ValueError("--resume and --overwrite exclude each other")
    plan = planned(options.out)
    said: dict[str, Any] = {
        "players": _chosen_players(options.players) or None,
        "seeds": options.seeds,
        "max_episode_steps": options.max_episode_steps,
        "batch": options.batch,
        "record": options.record,
    }
    if options.suite or options.deals:
        said["suite"], deals = _chosen_deals(options)
        said["deals"] = tuple(int(deal) for deal in deals[: options.limit or len(plan.deals)])
    elif options.limit:
        said["deals"] = plan.deals[: options.limit]
        if options.limit > len(plan.deals):
            raise ValueError(f"{options.out / PLAN} says {len(plan.deals)} deals")
    return Plan(
        **{**vars(plan), **{key: value for key, value in said.items() if value is not None}}
    )


def _chosen_deals(options: argparse.Namespace) -> tuple[str, Sequence[int] | np.ndarray]:
    if options.deals is None:
        name = options.suite or "dev-200"
        return name, suite(name)
    try:
        return parse_deals(options.deals)
    except ValueError as error:
        raise ValueError(f"--deals: {error}") from None


def _chosen_players(texts: Sequence[str]) -> dict[str, str]:
    players: dict[str, str] = {}
    for text in texts:
        name, spec = parse_player(text)
        if name in players:
            raise ValueError(f"player {name!r} is named twice")
        players[name] = spec
    return players


if __name__ == "__main__":
    sys.exit(main())
