"""The command lines of benchmarks and comparisons.

``python -m qv_env benchmark`` and ``compare`` offer the players of the package; a project with
players of its own calls the same functions with its own :class:`PlayerNames`.
"""

from __future__ import annotations

import argparse
import shlex
import signal
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from qv_env import MAX_EPISODE_STEPS, suite
from qv_env.command_line import (
    MOST_STEPS,
    Parser,
    Stopped,
    add_workers,
    check_folder,
    cores,
    integer,
    path,
    printable,
    run,
    shortened,
)
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

MOST_BATCH = 65_536  # games that a worker plays at a time

# ----------------------------------------------------------------------------------- benchmarks


def _seeds(text: str) -> tuple[int, ...]:
    try:
        return parse_seeds(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _benchmark_parser(program: str, names: PlayerNames) -> Parser:
    parser = Parser(
        program,
        description="Play the same held-out deals with several players and compare their results.",
    )
    parser.add_argument(
        "players",
        metavar="PLAYER",
        nargs="*",
        help=f"{names.forms}; LABEL=PLAYER to change its name in the results",
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
        "--limit",
        metavar="N",
        type=integer(1, MOST_GAMES),
        help="play the first N of the deals only",
    )
    parser.add_argument(
        "--seeds",
        "--seed",
        metavar="SEEDS",
        type=_seeds,
        help="seeds of the players' randomness, such as 0,1,2 or 0..2; each deal is played once"
        " with each (default 0)",
    )
    parser.add_argument(
        "--max-episode-steps",
        metavar="N",
        type=integer(1, MOST_STEPS),
        help=f"the step limit (default {MAX_EPISODE_STEPS})",
    )
    parser.add_argument(
        "--record",
        action="store_true",
        default=None,
        help="keep the actions of the games in the rows, so that comparison reports can show them",
    )
    add_workers(
        parser,
        cores(),
        "number of processes that play, of one thread each (default: one per core; 0: play in"
        " this process, for debugging); rows do not depend on it",
    )
    parser.add_argument(
        "--batch",
        metavar="N",
        type=integer(1, MOST_BATCH),
        help="games that a worker plays at a time (default: the player's own batch size)",
    )
    parser.add_argument(
        "--out",
        metavar="DIR",
        type=path,
        help="folder of the results (default runs/benchmark/SUITE-TIME)",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="resume the benchmark in --out DIR; other options must be the same as before",
    )
    parser.add_argument(
        "--overwrite", action="store_true", help="replace existing results in the folder"
    )
    return parser


def benchmark(arguments: Sequence[str], program: str, names: PlayerNames) -> int:
    """Run the command line of a benchmark.

    Args:
        arguments: The arguments after the program's name.
        program: The program's name, such as ``python -m qv_env benchmark``.
        names: The available players.

    Returns:
        The exit status, see ``qv_env.command_line.run``.
    """
    return run(
        _benchmark_parser(program, names),
        lambda options: _benchmark(options, program, names),
        arguments,
    )


def _benchmark(options: argparse.Namespace, program: str, names: PlayerNames) -> int:
    command, folder = options.typed, options.out
    if options.resume:
        schedule = _resumed_schedule(options)
        if (folder / SUMMARY).is_file():
            check_same_schedule(folder, schedule)
            _print(f"{folder} is finished")
            return 0
        command = ""  # keeps the command recorded when the benchmark began
    else:
        schedule = _new_schedule(options)
        started = datetime.now().strftime("%Y%m%d-%H%M%S")
        label = schedule.suite.replace(":", "-")
        folder = options.out or Path("runs", "benchmark", f"{label}-{started}")
    try:
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
    except WorkerError as error:
        hint = f"the games so far are kept: {_resume_command(program, folder, options)}"
        raise ValueError(f"{shortened(str(error), 250)} ({hint})") from error
    except KeyboardInterrupt:
        begun = (folder / DESCRIPTION).is_file()
        on = _resume_command(program, folder, options) if begun else ""
        raise Stopped("interrupted", signal.SIGINT, on) from None
    frame = results.frame
    _print(f"Results on {deals_text(frame)}, {seeds_text(frame)}:\n")
    _print(markdown_table(summarize(results)))
    _print(f"{folder}: {', '.join(FILES)}")
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
    """Return the folder's schedule, with the settings given on the command line replaced."""
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
    """Run the command line that checks whether a player follows the protocol.

    Args:
        arguments: The arguments after the program's name.
        program: The program's name.
        names: The available players.

    Returns:
        The exit status, see ``qv_env.command_line.run``.
    """
    parser = Parser(
        program,
        description="Check that a player follows the protocol: its games are legal, are repeated"
        " with the same seed, and do not depend on other games or on hidden cards.",
    )
    parser.add_argument("player", metavar="PLAYER", help=names.forms)

    def body(options: argparse.Namespace) -> int:
        player = names.make(options.player)
        try:
            check_player(player)
        except ValueError as error:
            raise ValueError(f"{options.player}: {error}") from error
        _print(f"{options.player} follows the protocol")
        return 0

    return run(parser, body, arguments)


# ---------------------------------------------------------------------------------- comparisons


def _compare_parser(program: str) -> Parser:
    parser = Parser(
        program,
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
        help="players that are one agent trained with several seeds; a PLAYER may be a pattern",
    )
    parser.add_argument(
        "--baseline",
        metavar="NAME",
        help="compare with this player or group only; a player that is not in the results is taken"
        f" from the published rows ({', '.join(PUBLISHED_SUITES)})",
    )
    parser.add_argument(
        "--allow",
        choices=list(ALLOWED),
        action="append",
        default=[],
        help="a setting of the game in which the results may differ",
    )
    parser.add_argument(
        "--learning",
        metavar=("NAME", "RUN"),
        nargs="+",
        action="append",
        default=[],
        help="an agent's name and the folders of its training runs: draw its learning curve",
    )
    parser.add_argument("--out", metavar="DIR", type=path, help="write report, plots and figures")
    return parser


def compare(arguments: Sequence[str], program: str) -> int:
    """Run the command line of a comparison.

    Args:
        arguments: The arguments after the program's name.
        program: The program's name, such as ``python -m qv_env compare``.

    Returns:
        The exit status, see ``qv_env.command_line.run``.
    """
    return run(_compare_parser(program), _compare, arguments)


def _compare(options: argparse.Namespace) -> int:
    for name, *rest in (*options.group, *options.learning):
        if not rest:
            raise ValueError(f"{name!r} stands alone: NAME and what belongs to it")
    if options.out is not None:
        check_folder(options.out)
    allowed = [ALLOWED[name] for name in options.allow]
    results = load_results(options.results, allowed)
    groups = {name: players for name, *players in options.group}
    if options.baseline not in (None, *results.players, *groups):
        results = with_published(results, options.baseline, allowed)
    comparison = Comparison(results, groups, options.baseline)
    learning = {name: read_runs(runs) for name, *runs in options.learning}
    deals = deals_text(results.frame)
    _print(f"Results on {deals}:\n")
    _print(text_rows(table_cells(comparison.summaries)))
    if comparison.groups:
        _print(text_rows(group_cells(comparison.groups)))
    if comparison.pairs:
        _print(text_rows(pair_cells(comparison.pairs)))
    if options.out is not None:
        blocks = report_blocks(comparison, learning, options.typed)
        page = write_page(options.out, f"Comparison on {deals}", blocks)
        write_json(options.out / COMPARISON, comparison.to_dict())
        _print(f"report: {page}")
    return 0


def _print(text: str) -> None:
    """Print a text with the control characters in its lines escaped."""
    print("\n".join(map(printable, text.split("\n"))))
