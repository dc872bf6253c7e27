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

import contextlib
import hashlib
import json
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pandas as pd
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from agents.players import Player, make_player, player_files
from qv_env import ENV_ID, MAX_EPISODE_STEPS, deal_code, suite
from qv_env.deals import typed_deal
from qv_env.evaluation.players.base import Episode
from qv_env.evaluation.provenance import git_state, package_versions
from qv_env.evaluation.results import (
    LISTED,
    RESULTS,
    SUMMARY,
    ResultsError,
    environment_of,
    frame_of,
    parse_row,
    result_row,
    row_line,
    sorted_rows,
    write_rows,
)
from qv_env.evaluation.workers import Spent, Task, Workers, play_task
from qv_env.files import held, write_json
from qv_env.suites import deal_pool

PLAN, TIMES, TABLE, PLOT = "benchmark.json", "times.jsonl", "table.md", "plot.png"

FILES = (PLAN, RESULTS, TIMES, SUMMARY, TABLE, PLOT)

MOST_GAMES = 1_000_000  # a row of each is held in memory

_SEED_END = 1 << 63  # JSON readers, pandas' too, take integers below this

_FORMAT, _VERSION = "quarante-voleurs-benchmark", 2


# ------------------------------------------------------------------------------- what is played


@dataclass(frozen=True)
class Plan:
    """What a benchmark plays: all that decides its rows.

    Attributes:
        players: How ``agents.players.make_player`` makes each player, by the name that the rows
            carry.
        suite: What the deals are called in the rows.
        deals: Deal numbers, each once.
        seeds: Seeds of the players' randomness, each once; each deal is played with each.
        max_episode_steps: The step limit, at least 1: players may go round in circles.
        batch: How many games are played at a time; None: as the player says.
        record: Whether rows hold the games' actions.

    Raises:
        ValueError: There is no player, deal or seed, a deal or seed is there twice, or there are
            more games than ``MOST_GAMES``.
    """

    players: Mapping[str, str]
    suite: str
    deals: tuple[int, ...]
    seeds: tuple[int, ...] = (0,)
    max_episode_steps: int = MAX_EPISODE_STEPS
    batch: int | None = None
    record: bool = False

    def __post_init__(self) -> None:
        if not self.players or not self.deals or not self.seeds:
            raise ValueError("a benchmark needs at least one player, one deal and one seed")
        (deal, times), *_ = Counter(self.deals).most_common(1)
        if times > 1:  # intervals count each deal as a new one
            raise ValueError(f"deal {deal_code(deal)} is there twice")
        (seed, times), *_ = Counter(self.seeds).most_common(1)
        if times > 1:
            raise ValueError(f"seed {seed} is there twice")
        games = len(self.players) * len(self.deals) * len(self.seeds)
        if games > MOST_GAMES:
            raise ValueError(f"{games:,} games are more than {MOST_GAMES:,}: --limit")

    def tasks(self, players: Mapping[str, Player]) -> Iterator[Task]:
        """Yield the games in batches, in the order of files.

        Args:
            players: The players, by their names in the rows.
        """
        for name, spec in self.players.items():
            size = self.batch or players[name].batch
            for seed in self.seeds:
                for first in range(0, len(self.deals), size):
                    yield Task(
                        player=name,
                        spec=spec,
                        seed=seed,
                        first=first,
                        deals=self.deals[first : first + size],
                        max_episode_steps=self.max_episode_steps,
                        batch=size,
                        record=self.record,
                    )

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as JSON's values: deals that a name says are said by it and a digest."""
        digest = hashlib.sha256(np.array(self.deals, dtype="<i8").tobytes()).hexdigest()
        return {
            "players": dict(self.players),
            "suite": self.suite,
            "deals": list(self.deals) if self.suite == LISTED else len(self.deals),
            "deals_sha256": digest,
            "seeds": list(self.seeds),
            "max_episode_steps": self.max_episode_steps,
            "batch": self.batch,
            "record": self.record,
            "environment": ENV_ID,
            "files": {
                path: digest
                for spec in self.players.values()
                for path, digest in player_files(spec).items()
            },
        }

    @classmethod
    def from_dict(cls, said: Mapping[str, Any]) -> Plan:
        """Return the plan that :meth:`to_dict` described.

        Raises:
            ValueError: It is none.
        """
        try:
            deals = said["deals"]
            if isinstance(deals, int):
                deals = named_deals(said["suite"])[:deals]
            return cls(
                players=dict(said["players"]),
                suite=said["suite"],
                deals=tuple(int(deal) for deal in deals),
                seeds=tuple(said["seeds"]),
                max_episode_steps=said["max_episode_steps"],
                batch=said["batch"],
                record=said["record"],
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"no benchmark's plan: {type(error).__name__}: {error}") from None


def named_deals(name: str) -> Sequence[int] | np.ndarray:
    """Return the deals of a suite or of a range ``LO:HI``."""
    return parse_deals(name)[1] if ":" in name else suite(name)


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
) -> pd.DataFrame:
    """Let each player play the same deals, in this process, and return a row a game.

    Args:
        players: The players, by the names that the rows carry.
        deals: Deal numbers, each once.
        suite: What the deals are called in the rows.
        seeds: Seed the players' randomness, together with each deal's number; each deal is
            played with each.
        max_episode_steps: The step limit, at least 1.
        batch: How many games are played at a time; None: as each player says.
        record: Whether the rows hold the games' actions.
        progress: Whether to show on standard error how far it is: a bar on a terminal, a line a
            player elsewhere.

    Returns:
        The rows, as ``results`` describes them, in the order of players, seeds and deals.
        ``attrs["cpu_seconds"]`` has the CPU seconds a deal of each player.

    Raises:
        ValueError: There is no player or no deal, or a deal is there twice.
    """
    plan = Plan(
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
    with _Shown(plan, progress) as shown:
        for task, said in _play_here(plan.tasks(players), players):
            if isinstance(said, Spent):
                times.append(_time_row(task, said))
            else:
                rows.append(_row(plan, players, task, said))
                shown.add(rows[-1])
    frame = frame_of(sorted_rows(rows, list(plan.players), plan.seeds))
    frame.attrs["cpu_seconds"] = _seconds_per_deal(times)
    return frame


def _play_here(
    tasks: Iterable[Task], players: Mapping[str, Player]
) -> Iterator[tuple[Task, Episode | Spent]]:
    """Play tasks in this process; see ``qv_env.evaluation.workers.Workers.play``."""
    warm = set()
    for task in tasks:
        for said in play_task(players[task.player], task, task.player in warm):
            yield task, said
        warm.add(task.player)


def _row(plan: Plan, players: Mapping[str, Player], task: Task, episode: Episode) -> dict[str, Any]:
    player = players[task.player]
    environment = environment_of(player, plan.max_episode_steps)
    return result_row(
        task.player, player.settings, environment, plan.suite, task.seed, episode, plan.record
    )


def _time_row(task: Task, spent: Spent) -> dict[str, Any]:
    return {
        "player": task.player,
        "seed": task.seed,
        "first": task.first,
        "deals": len(task.deals),
        **asdict(spent),
    }


def _seconds_per_deal(times: Iterable[Mapping[str, Any]]) -> dict[str, float]:
    """The CPU seconds that a deal took each player; of a batch that was played twice the last."""
    last = {(row["player"], row["seed"], row["first"]): row for row in times}
    seconds: Counter[str] = Counter()
    deals: Counter[str] = Counter()
    for row in last.values():
        seconds[row["player"]] += row["cpu_seconds"]
        deals[row["player"]] += row["deals"]
    return {player: seconds[player] / deals[player] for player in deals}


class _Shown:
    """How far a benchmark is, on standard error: a bar on a terminal, a line a player elsewhere."""

    def __init__(self, plan: Plan, wanted: bool) -> None:
        console = Console(stderr=True)
        self._lines = wanted and not console.is_terminal
        self._games = len(plan.deals) * len(plan.seeds)
        self._played = dict.fromkeys(plan.players, 0)
        self._points = dict.fromkeys(plan.players, 0)
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
            for name in plan.players
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
    plan: Plan,
    *,
    workers: int,
    command: str = "",
    resume: bool = False,
    overwrite: bool = False,
    progress: bool = False,
) -> pd.DataFrame:
    """Play a benchmark in worker processes, its rows into a folder; write figures at the end.

    Args:
        folder: Where to; made where it is missing.
        plan: What to play.
        workers: How many processes play; 0: this one does.
        command: The command line, for the files.
        resume: Whether to go on with what the folder has.
        overwrite: Whether results that the folder has are thrown away.
        progress: Whether to show how far it is.

    Returns:
        The rows, as :func:`run_benchmark` returns them.

    Raises:
        FileExistsError: The folder has results and neither ``resume`` nor ``overwrite`` is on.
        ResultsError: What the folder has is not of this plan.
        InUseError: Another process plays into the folder.
        ValueError: A player cannot be made or cannot play these deals.
        WorkerError: A player failed, or a worker died; the rows so far are kept.
        OSError: The folder cannot be written to.
    """
    from qv_env.evaluation.reports.benchmark import write_figures  # which imports this module

    players = {name: make_player(spec) for name, spec in plan.players.items()}
    for player in players.values():
        player.played(plan.deals)  # an error where games that it should have are missing
    check_folder(folder, overwrite or resume)
    if resume:
        check_same_plan(folder, plan)
    folder.mkdir(parents=True, exist_ok=True)
    with held(folder):
        if not resume:
            for name in reversed(FILES):
                (folder / name).unlink(missing_ok=True)
            write_json(folder / PLAN, _plan_file(plan, command))
        elif _read_plan(folder)["git_commit"] != git_state()[0]:
            print(f"note: the sources have changed since {folder} was begun", file=sys.stderr)
        frame = _play_on(folder, plan, players, workers, progress)
        write_figures(folder, frame, command or _read_plan(folder).get("command", ""))
    return frame


def _play_on(
    folder: Path, plan: Plan, players: Mapping[str, Player], workers: int, progress: bool
) -> pd.DataFrame:
    """Play what the folder does not have yet, and put its rows in order."""
    rows = {_key(row): row for row in _journal(folder / RESULTS, parse_row)}
    times = _journal(folder / TIMES, json.loads)
    tasks = list(plan.tasks(players))
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
        shown = stack.enter_context(_Shown(plan, progress))
        for row in rows.values():
            shown.add(row)
        journal = stack.enter_context(open(folder / RESULTS, "ab", buffering=0))
        clock = stack.enter_context(open(folder / TIMES, "ab", buffering=0))
        count = min(workers, len(waiting))
        if count:
            answers = stack.enter_context(Workers(count)).play(waiting)
        else:
            if "torch" in sys.modules:
                sys.modules["torch"].set_num_threads(1)  # as workers have it
            answers = _play_here(waiting, players)
        for task, said in answers:
            if isinstance(said, Spent):
                times.append(_time_row(task, said))
                _append(clock, times[-1])
                continue
            row = _row(plan, players, task, said)
            before = rows.setdefault(_key(row), row)
            if before is row:
                _append(journal, row)
                shown.add(row)
            elif before != row:  # of a batch that was interrupted
                raise ResultsError(_difference(folder, before, row))
    ordered = sorted_rows(rows.values(), list(plan.players), plan.seeds)
    write_rows(folder / RESULTS, ordered)
    frame = frame_of(ordered)
    frame.attrs["cpu_seconds"] = _seconds_per_deal(times)
    return frame


def _key(row: Mapping[str, Any]) -> tuple[str, int, int]:
    return row["player"], row["seed"], row["index"]


def _difference(folder: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    keys = [key for key in before if before[key] != now.get(key)]
    return (
        f"{folder}: {now['player']} does not play {now['code']} as it did before the interruption"
        f" ({keys[0]} was {before[keys[0]]!r} and is {now.get(keys[0])!r}): --overwrite begins anew"
    )


def _append(file: BinaryIO, row: Mapping[str, Any]) -> None:
    """Add a line: the system has it when this returns, whatever becomes of this process."""
    line = row_line(row).encode("utf-8")
    while line:
        line = line[file.write(line) :]


def _journal(path: Path, parse: Callable[[str], dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows of a file that grows; what a kill left of a last line is cut off.

    Raises:
        ResultsError: Another line is no row; the message names file and line.
    """
    if not path.exists():
        return []
    content = path.read_bytes()
    whole = content[: content.rfind(b"\n") + 1]
    if len(whole) < len(content):
        os.truncate(path, len(whole))
    rows = []
    for number, line in enumerate(whole.splitlines(), start=1):
        try:
            rows.append(parse(line.decode("utf-8")))
        except ValueError as error:
            raise ResultsError(f"{path}, line {number}: {error}") from None
    return rows


def _plan_file(plan: Plan, command: str) -> dict[str, Any]:
    commit, dirty = git_state()
    return {
        "format": _FORMAT,
        "version": _VERSION,
        **plan.to_dict(),
        "command": command,
        "started": _now(),
        "git_commit": commit,
        "git_dirty": dirty,
        "versions": package_versions(),
    }


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def _read_plan(folder: Path) -> dict[str, Any]:
    path = folder / PLAN
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ResultsError(f"{folder} holds no benchmark to resume: no {PLAN}") from None
    except ValueError as error:
        raise ResultsError(f"{path}: {error}") from None
    if not isinstance(said, dict) or said.get("format") != _FORMAT:
        raise ResultsError(f"{path} is no benchmark's plan")
    if said.get("version") != _VERSION:
        raise ResultsError(f"{path}: format {said.get('version')!r}, this is {_VERSION}")
    return said


def planned(folder: Path) -> Plan:
    """Return the plan of a folder's benchmark.

    Raises:
        ResultsError: The folder has none.
        OSError: It cannot be read.
    """
    said = _read_plan(folder)
    try:
        return Plan.from_dict(said)
    except ValueError as error:
        raise ResultsError(f"{folder / PLAN}: {error}") from None


def check_same_plan(folder: Path, plan: Plan) -> None:
    """See that a folder's benchmark is the one that is to go on.

    Raises:
        ResultsError: It is another one, of files that have changed, or there is none; the message
            says what differs.
    """
    said, now = _read_plan(folder), plan.to_dict()
    for key, value in now.items():
        if said.get(key) != value:
            before, after = (
                ("", "") if key == "deals_sha256" else (f" {said.get(key)!r}", f", not {value!r}")
            )
            raise ResultsError(
                f"{folder / PLAN} says {key}{before}{after}: a benchmark goes on as it began"
            )


def check_folder(folder: Path, overwrite: bool = False) -> None:
    """See that results can go to a folder.

    Raises:
        FileExistsError: It has results already, which are not to be replaced.
        NotADirectoryError: It is a file.
    """
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is no folder")
    there = [name for name in FILES if (folder / name).exists()]
    if there and not overwrite:
        raise FileExistsError(
            f"{folder} has results already ({', '.join(there)}): --resume or --overwrite"
        )


# --------------------------------------------------------------------------------- command line


def parse_deals(text: str) -> tuple[str, Sequence[int]]:
    """Return the suite's name and the deal numbers that ``--deals`` describes.

    Args:
        text: ``LO:HI`` for the numbers LO to HI - 1, or codes and numbers, separated by commas or
            blanks.

    Raises:
        ValueError: It describes no deals; the message says what is wrong.
    """
    if ":" in text:
        pool = deal_pool(text)
        return f"{pool.start}:{pool.start + pool.size}", range(pool.start, pool.start + pool.size)
    words = text.replace(",", " ").split()
    if not words:
        raise ValueError("names no deal")
    return LISTED, [typed_deal(word) for word in words]
