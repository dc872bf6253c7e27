"""The command lines of benchmarks and comparisons, whichever program they belong to.

``python -m qv_env benchmark`` and ``compare`` know the players of the package; a project with
players of its own calls the same functions with its own :class:`PlayerNames`.
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

from qv_env import MAX_EPISODE_STEPS, suite
from qv_env.evaluation.benchmark import play_into
from qv_env.evaluation.checks import check_player
from qv_env.evaluation.comparison import ALLOWED, Comparison, load_results
from qv_env.evaluation.players import PlayerNames
from qv_env.evaluation.published import PUBLISHED_SUITES, with_published
from qv_env.evaluation.reports.comparison import (
    COMPARISON,
    group_cells,
    pair_cells,
    read_runs,
    report_blocks,
)
from qv_env.evaluation.reports.page import write_page
from qv_env.evaluation.reports.tables import (
    deals_text,
    markdown_table,
    seeds_text,
    table_cells,
    text_rows,
)
from qv_env.evaluation.results import SUMMARY
from qv_env.evaluation.schedule import (
    DESCRIPTION,
    FILES,
    MOST_GAMES,
    Schedule,
    check_same_schedule,
    parse_deals,
    parse_player,
    parse_seeds,
    read_schedule,
)
from qv_env.evaluation.summary import summarize
from qv_env.evaluation.workers import WorkerError
from qv_env.files import write_json
from qv_env.suites import SUITE_SIZES


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line, without the usage."""
        self.exit(2, f"{self.prog}: {message}\n")


# ----------------------------------------------------------------------------------- benchmarks


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


def _benchmark_parser(program: str, names: PlayerNames) -> argparse.ArgumentParser:
    parser = _Parser(
        prog=program,
        description="Let players play the same held-out deals and compare their results.",
    )
    parser.add_argument(
        "players",
        metavar="PLAYER",
        nargs="*",
        help=f"{names.forms}; LABEL=PLAYER to call it something else",
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
        help="keep the games' actions in the rows, to look at with the comparison's report",
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


def benchmark(arguments: Sequence[str], program: str, names: PlayerNames) -> int:
    """Run the command line of a benchmark.

    Args:
        arguments: What stands after the program's name.
        program: How the program is called, such as ``python -m qv_env benchmark``.
        names: The players that there are.

    Returns:
        The exit status: 0, or 130 after Ctrl-C.

    Raises:
        SystemExit: With status 2, when something that was asked for cannot be done.
    """
    parser = _benchmark_parser(program, names)
    options = parser.parse_args(arguments)
    command = shlex.join([*program.split(), *arguments])
    folder = options.out
    try:
        if options.resume:
            schedule = _resumed_schedule(options)
            if (folder / SUMMARY).is_file():
                check_same_schedule(folder, schedule)
                print(f"{folder} is finished")
                return 0
            command = ""  # the one that it began with stays
        else:
            schedule = _new_schedule(options)
            started = datetime.now().strftime("%Y%m%d-%H%M%S")
            label = schedule.suite.replace(":", "-")
            folder = options.out or Path("runs", "benchmark", f"{label}-{started}")
        results = play_into(
            folder,
            schedule,
            names=names,
            workers=options.workers,
            command=command,
            resume=options.resume,
            overwrite=options.overwrite,
            progress=True,
        )
    except (ValueError, OSError, WorkerError) as error:
        hint = ""
        if isinstance(error, WorkerError):
            hint = f" (the games so far are kept: {_resume_command(program, folder, options)})"
        parser.error(" ".join(str(error).split()) + hint)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        if folder is not None and (folder / DESCRIPTION).is_file():
            print(f"to go on: {_resume_command(program, folder, options)}", file=sys.stderr)
        return 130
    frame = results.frame
    print(f"Results on {deals_text(frame)}, {seeds_text(frame)}:\n")
    print(markdown_table(summarize(results)))
    print(f"{folder}: {', '.join(FILES)}")
    return 0


def _resume_command(program: str, folder: Path, options: argparse.Namespace) -> str:
    more = [] if options.workers == cores() else ["--workers", str(options.workers)]
    return shlex.join([*program.split(), "--resume", "--out", str(folder), *more])


def _new_schedule(options: argparse.Namespace) -> Schedule:
    if not options.players:
        raise ValueError("no PLAYER is named")
    name, deals = _chosen_deals(options)
    chosen = deals[: options.limit]
    if len(chosen) > MOST_GAMES:
        raise ValueError(f"{len(chosen):,} deals are more than {MOST_GAMES:,}: --limit")
    return Schedule(
        players=_chosen_players(options.players),
        suite=name,
        deals=tuple(int(deal) for deal in chosen),
        seeds=options.seeds or (0,),
        max_episode_steps=options.max_episode_steps or MAX_EPISODE_STEPS,
        batch=options.batch,
        record=bool(options.record),
    )


def _resumed_schedule(options: argparse.Namespace) -> Schedule:
    """The folder's schedule, with what the command line says in its place."""
    if options.out is None:
        raise ValueError("--resume needs --out DIR")
    if options.overwrite:
        raise ValueError("--resume and --overwrite exclude each other")
    schedule = read_schedule(options.out)
    said: dict[str, Any] = {
        "players": _chosen_players(options.players) or None,
        "seeds": options.seeds,
        "max_episode_steps": options.max_episode_steps,
        "batch": options.batch,
        "record": options.record,
    }
    if options.suite or options.deals:
        said["suite"], deals = _chosen_deals(options)
        said["deals"] = tuple(int(deal) for deal in deals[: options.limit or len(schedule.deals)])
    elif options.limit:
        said["deals"] = schedule.deals[: options.limit]
        if options.limit > len(schedule.deals):
            raise ValueError(f"{options.out / DESCRIPTION} says {len(schedule.deals)} deals")
    return Schedule(
        **{**vars(schedule), **{key: value for key, value in said.items() if value is not None}}
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


# ------------------------------------------------------------------------------------ protocol


def check(arguments: Sequence[str], program: str, names: PlayerNames) -> int:
    """Run the command line that checks whether a player keeps the protocol; return 0.

    Args:
        arguments: What stands after the program's name.
        program: How the program is called.
        names: The players that there are.

    Raises:
        SystemExit: With status 2, when the player breaks the protocol or cannot be made.
    """
    parser = _Parser(
        prog=program,
        description="Check that a player keeps the protocol: its games replay by the rules, repeat"
        " with the same seed, and do not depend on other games or on hidden cards.",
    )
    parser.add_argument("player", metavar="PLAYER", help=names.forms)
    options = parser.parse_args(arguments)
    try:
        check_player(names.make(options.player))
    except (ValueError, OSError) as error:
        parser.error(" ".join(f"{options.player}: {error}".split()))
    print(f"{options.player} keeps the protocol")
    return 0


# ---------------------------------------------------------------------------------- comparisons


def _compare_parser(program: str) -> argparse.ArgumentParser:
    parser = _Parser(
        prog=program,
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
    parser.add_argument(
        "--baseline",
        metavar="NAME",
        help="compare with this player or group only; one that the results do not have is taken"
        f" from the published rows ({', '.join(PUBLISHED_SUITES)})",
    )
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


def compare(arguments: Sequence[str], program: str) -> int:
    """Run the command line of a comparison.

    Args:
        arguments: What stands after the program's name.
        program: How the program is called, such as ``python -m qv_env compare``.

    Returns:
        The exit status.

    Raises:
        SystemExit: With status 2, when something that was asked for cannot be done.
    """
    parser = _compare_parser(program)
    options = parser.parse_args(arguments)
    try:
        for name, *rest in (*options.group, *options.learning):
            if not rest:
                raise ValueError(f"{name!r} stands alone: NAME and what belongs to it")
        allowed = [ALLOWED[name] for name in options.allow]
        results = load_results(options.results, allowed)
        groups = {name: players for name, *players in options.group}
        if options.baseline not in (None, *results.players, *groups):
            results = with_published(results, options.baseline, allowed)
        comparison = Comparison(results, groups, options.baseline)
        learning = {name: read_runs(runs) for name, *runs in options.learning}
        if options.out is not None:
            command = shlex.join([*program.split(), *arguments])
            title = f"Comparison on {deals_text(results.frame)}"
            page = write_page(options.out, title, report_blocks(comparison, learning, command))
            write_json(options.out / COMPARISON, comparison.to_dict())
    except (ValueError, OSError) as error:
        parser.error(" ".join(str(error).split()))
    print(f"Results on {deals_text(results.frame)}:\n")
    print(text_rows(table_cells(comparison.summaries)))
    if comparison.groups:
        print(text_rows(group_cells(comparison.groups)))
    if comparison.pairs:
        print(text_rows(pair_cells(comparison.pairs)))
    if options.out is not None:
        print(f"report: {page}")
    return 0
