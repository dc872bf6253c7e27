"""Running benchmarks: players on the same deals, in this process or in workers.

==================  ==========================================================================
``benchmark.json``  written first: what is played, and versions and machine
``results.jsonl``   a row per game, as ``qv_env.evaluation.results`` describes it; each is
                    appended when the game ends, and at the end the file is sorted
``times.jsonl``     the time of each batch of games; differs from run to run
``summary.json``    the figures of each player with their intervals; written last, so that its
                    presence marks a complete folder
``table.md``        the same as a Markdown table
``plot.png``        the distributions of the scores, and their means
==================  ==========================================================================

A benchmark that was stopped by Ctrl-C or a kill can be resumed, and ends with the same
``results.jsonl``, byte for byte. A row depends on the player, the deal, the seed and the step limit
only, not on the other players and deals or on the number of workers. (Sums in a network may be
rounded differently in batches of another size or on another processor, which can decide a near tie
differently. But the deals are divided into batches before they are assigned to workers, and an
interrupted batch is repeated as a whole, so on one machine these rows are the same as well.)
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import numpy as np
from pydantic import Field
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from qv_env import MAX_EPISODE_STEPS
from qv_env.evaluation.players import Player, PlayerNames
from qv_env.evaluation.players.base import Episode
from qv_env.evaluation.provenance import git_state
from qv_env.evaluation.reports.benchmark import write_figures
from qv_env.evaluation.results import (
    RESULTS,
    Results,
    ResultsError,
    Row,
    environment_of,
    frame_of,
    result_row,
    row_difference,
    row_line,
    sorted_rows,
    write_rows,
)
from qv_env.evaluation.schedule import (
    DESCRIPTION,
    FILES,
    TIMES,
    Schedule,
    check_folder,
    check_same_schedule,
    description,
    read_description,
)
from qv_env.evaluation.workers import Spent, Task, Workers, play_task
from qv_env.files import append, write_json
from qv_env.folders import taken
from qv_env.schema import Strict, checked_lines
from qv_env.strict_json import FormatError

Answers: TypeAlias = "Iterator[tuple[Task, Episode | Spent]]"

# ------------------------------------------------------------------------------------- playing


def run_benchmark(
    players: Mapping[str, Player],
    deals: Sequence[int] | np.ndarray,
    suite: str,
    *,
    seeds: Sequence[int] = (0,),
    max_episode_steps: int = MAX_EPISODE_STEPS,
    batch: int | None = None,
    record: bool = False,
    progress: bool = False,
) -> Results:
    """Let each player play the same deals, in this process, and return one row per game.

    Args:
        players: The players, by their names in the rows.
        deals: Deal numbers, each once.
        suite: The name of the deals in the rows.
        seeds: Seeds of the players' randomness, combined with each deal's number; each deal is
            played once with each.
        max_episode_steps: The step limit, at least 1.
        batch: How many games are played at a time; None: each player's own batch size.
        record: Whether rows contain the actions of the games.
        progress: Whether to show progress on standard error: a bar on a terminal, a line per
            player elsewhere.

    Returns:
        The rows in the order of players, seeds and deals, and the CPU seconds per deal.

    Raises:
        ValueError: There is no player or no deal, or a deal occurs twice.
    """
    schedule = Schedule(
        players=dict.fromkeys(players, ""),
        suite=suite,
        deals=tuple(int(deal) for deal in deals),
        seeds=tuple(seeds),
        max_episode_steps=max_episode_steps,
        batch=batch,
        record=record,
    )

    rows: list[dict[str, Any]] = []
    times: list[dict[str, Any]] = []
    with _Shown(schedule, progress) as shown:
        for task, said in _play_here(schedule.tasks(players), players):
            if isinstance(said, Spent):
                times.append(_time_row(task, said))
            else:
                rows.append(_row(schedule, players, task, said))
                shown.add(rows[-1])
    frame = frame_of(sorted_rows(rows, list(schedule.players), schedule.seeds))
    return Results(frame, _seconds_per_deal(times))


def _play_here(tasks: Iterable[Task], players: Mapping[str, Player]) -> Answers:
    """Play tasks in this process; see ``qv_env.evaluation.workers.Workers.play``."""
    warm = set()
    for task in tasks:
        for said in play_task(players[task.player], task, task.player in warm):
            yield task, said
        warm.add(task.player)


def _row(
    schedule: Schedule, players: Mapping[str, Player], task: Task, episode: Episode
) -> dict[str, Any]:
    player = players[task.player]
    environment = environment_of(player, schedule.max_episode_steps)
    return result_row(
        task.player,
        player.settings,
        environment,
        schedule.suite,
        task.seed,
        episode,
        schedule.record,
    )


class TimeRow(Strict):
    """The time of a batch of games: a line of ``times.jsonl``."""

    player: str
    seed: Annotated[int, Field(ge=0)]
    first: Annotated[int, Field(ge=0)]
    deals: Annotated[int, Field(ge=1)]
    cpu_seconds: Annotated[float, Field(ge=0)]
    wall_seconds: Annotated[float, Field(ge=0)]


def _time_row(task: Task, spent: Spent) -> dict[str, Any]:
    return {
        "player": task.player,
        "seed": task.seed,
        "first": task.first,
        "deals": len(task.deals),
        **asdict(spent),
    }


def _seconds_per_deal(times: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """Return each player's CPU seconds per deal; of a repeated batch the last time counts."""
    last = {(row["player"], row["seed"], row["first"]): row for row in times}
    seconds: Counter[str] = Counter()
    deals: Counter[str] = Counter()
    for row in last.values():
        seconds[row["player"]] += row["cpu_seconds"]
        deals[row["player"]] += row["deals"]
    return {player: seconds[player] / deals[player] for player in deals}


class _Shown:
    """Progress on standard error: a bar on a terminal, a line per player elsewhere."""

    def __init__(self, schedule: Schedule, wanted: bool) -> None:
        console = Console(stderr=True)
        self._lines = wanted and not console.is_terminal
        self._games = len(schedule.deals) * len(schedule.seeds)
        self._played = dict.fromkeys(schedule.players, 0)
        self._points = dict.fromkeys(schedule.players, 0)
        self._before: Counter[str] = Counter()
        self._bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("mean score {task.fields[mean]:.1f}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not wanted or self._lines,
        )
        self._tasks = {
            name: self._bar.add_task(name, total=self._games, mean=0.0, start=False)
            for name in schedule.players
        }

    def __enter__(self) -> _Shown:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def add(self, row: Mapping[str, Any]) -> None:
        """Count a game."""
        name = row["player"]
        if not self._played[name]:
            self._bar.start_task(self._tasks[name])
        self._played[name] += 1
        self._points[name] += row["score"]
        mean = self._points[name] / self._played[name]
        self._bar.update(self._tasks[name], completed=self._played[name], mean=mean)
        if self._lines and self._played[name] == self._games:
            print(f"{name}: {self._games:,} games, mean score {mean:.1f}", file=sys.stderr)


# --------------------------------------------------------------------------- playing in a folder


def play_into(
    folder: Path,
    schedule: Schedule,
    *,
    names: PlayerNames,
    workers: int,
    command: str = "",
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = False,
) -> Results:
    """Play a benchmark in worker processes and write its rows and figures to a folder.

    Args:
        folder: The folder; created if it is missing.
        schedule: What to play.
        names: Creates the players, here and in the workers.
        workers: The number of worker processes; 0: play in this process.
        command: The command line, recorded in the files.
        resume: Whether to continue from the folder's rows.
        overwrite: Whether to discard results in the folder.
        progress: Whether to show progress.

    Returns:
        The rows, as :func:`run_benchmark` returns them.

    Raises:
        FileExistsError: The folder has results, and neither ``resume`` nor ``overwrite`` is set.
        ResultsError: The folder's rows do not belong to this schedule.
        InUseError: Another process runs a benchmark in the folder.
        ValueError: A player cannot be created or cannot play these deals.
        WorkerError: A player failed, or a worker died; the rows so far are kept.
        OSError: The folder cannot be written to.
    """
    players = {name: names.make(spec) for name, spec in schedule.players.items()}
    for player in players.values():
        player.played(schedule.deals)  # raises if a player of recorded games lacks a deal
    check_folder(folder, overwrite or resume)
    if resume:
        check_same_schedule(folder, schedule)
    with taken(folder):
        if not resume:
            for name in reversed(FILES):
                (folder / name).unlink(missing_ok=True)
            write_json(folder / DESCRIPTION, description(schedule, command).model_dump())
        elif read_description(folder).git_commit != git_state()[0]:
            print(f"note: the sources have changed since {folder} was begun", file=sys.stderr)

        def play(stack: contextlib.ExitStack, tasks: Sequence[Task]) -> Answers:
            if workers and tasks:
                return stack.enter_context(Workers(min(workers, len(tasks)), names)).play(tasks)
            if "torch" in sys.modules:
                sys.modules["torch"].set_num_threads(1)  # as in workers
            return _play_here(tasks, players)

        results = _play_on(folder, schedule, players, play, progress)
        write_figures(folder, results, command or read_description(folder).command)
    return results


def _play_on(
    folder: Path,
    schedule: Schedule,
    players: Mapping[str, Player],
    play: Callable[[contextlib.ExitStack, Sequence[Task]], Answers],
    progress: bool,
) -> Results:
    """Play the games that the folder does not have yet, and sort its rows."""
    rows = {_key(row): row for row in _journal(folder / RESULTS, Row)}
    times = _journal(folder / TIMES, TimeRow)
    tasks = list(schedule.tasks(players))
    expected = {(task.player, task.seed, task.first + k) for task in tasks
                for k in range(len(task.deals))}  # fmt: skip
    strange = [key for key in rows if key not in expected]
    if strange:
        raise ResultsError(f"{folder / RESULTS} has a row of another benchmark: {strange[0]}")
    waiting = [
        task
        for task in tasks
        if any((task.player, task.seed, task.first + k) not in rows for k in range(len(task.deals)))
    ]
    with contextlib.ExitStack() as stack:
        shown = stack.enter_context(_Shown(schedule, progress))
        for row in rows.values():
            shown.add(row)
        journal = stack.enter_context(open(folder / RESULTS, "ab", buffering=0))
        clock = stack.enter_context(open(folder / TIMES, "ab", buffering=0))
        for task, said in play(stack, waiting):
            if isinstance(said, Spent):
                times.append(_time_row(task, said))
                append(clock, row_line(times[-1]).encode())
                continue
            row = _row(schedule, players, task, said)
            before = rows.setdefault(_key(row), row)
            different = row_difference(before, row)
            if before is row:
                append(journal, row_line(row).encode())
                shown.add(row)
            elif different:  # in a batch that was interrupted and is repeated
                raise ResultsError(
                    f"{folder}: {row['player']} does not play {row['code']} as it did before the"
                    f" interruption ({different}): --overwrite begins anew"
                )
    ordered = sorted_rows(rows.values(), list(schedule.players), schedule.seeds)
    write_rows(folder / RESULTS, ordered)
    return Results(frame_of(ordered), _seconds_per_deal(times))


def _key(row: Mapping[str, Any]) -> tuple[str, int, int]:
    return row["player"], row["seed"], row["index"]


def _journal(path: Path, kind: type[Strict]) -> list[dict[str, Any]]:
    """Return the rows of a growing file; an incomplete last line, left by a kill, is removed.

    Raises:
        ResultsError: Another line is not a valid row; the message names file and line.
    """
    if not path.exists():
        return []
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        os.truncate(path, len(whole))
    try:
        return [row for row, _ in checked_lines(kind, whole, str(path))]
    except FormatError as error:
        raise ResultsError(str(error)) from None
