"""What a benchmark plays, and its description in the benchmark's folder.

A :class:`Schedule` contains everything that determines a benchmark's rows: players, deals, seeds,
step limit. It is recorded in ``benchmark.json``, the first file written to a benchmark's folder, so
that a stopped benchmark can be resumed, and only that one.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import numpy as np
from pydantic import Field

from qv_env import ENV_ID, MAX_EPISODE_STEPS, deal_code, suite
from qv_env.deals import typed_deal
from qv_env.evaluation.players import Player, PlayerSpec
from qv_env.evaluation.provenance import git_state, package_versions
from qv_env.evaluation.results import LISTED, RESULTS, SUMMARY, ResultsError
from qv_env.evaluation.workers import Task
from qv_env.schema import Strict, checked
from qv_env.strict_json import FormatError, read_json
from qv_env.suites import deal_pool

# The files of a benchmark's folder, beside RESULTS and SUMMARY.
DESCRIPTION, TIMES, TABLE, PLOT = "benchmark.json", "times.jsonl", "table.md", "plot.png"

FILES = (DESCRIPTION, RESULTS, TIMES, SUMMARY, TABLE, PLOT)

MOST_GAMES = 1_000_000  # the row of each game is held in memory

SEED_END = 1 << 63  # JSON readers, pandas' too, take integers below this

FORMAT: Final = "quarante-voleurs-benchmark"
VERSION: Final = 2


# ------------------------------------------------------------------------------- what is played


@dataclass(frozen=True)
class Schedule:
    """What a benchmark plays: everything that determines its rows.

    Attributes:
        players: The player texts (see ``qv_env.evaluation.players.names``), by the players' names
            in the rows.
        suite: The name of the deals in the rows.
        deals: Deal numbers, each once.
        seeds: Seeds of the players' randomness, each once; each deal is played once with each.
        max_episode_steps: The step limit, at least 1, since players may move in circles.
        batch: How many games are played at a time; None: each player's own batch size.
        record: Whether rows contain the actions of the games.

    Raises:
        ValueError: There is no player, deal or seed, a deal or seed occurs twice, or there are
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
        if times > 1:  # intervals treat deals as independent
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
        """Return the schedule as JSON values; of a suite's deals, their number and a digest."""
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
                for path, digest in PlayerSpec.parse(spec).files().items()
            },
        }


class Description(Strict):
    """The content of ``benchmark.json``: a schedule (see :meth:`Schedule.to_dict`), and what it is
    played with.
    """

    format: Literal["quarante-voleurs-benchmark"] = FORMAT
    version: Literal[2] = VERSION
    players: dict[str, str]
    suite: str
    deals: Annotated[int, Field(ge=1, le=MOST_GAMES)] | list[int]
    deals_sha256: str
    seeds: list[Annotated[int, Field(ge=0, lt=SEED_END)]]
    max_episode_steps: Annotated[int, Field(ge=1, le=1 << 53)]
    batch: Annotated[int, Field(ge=1, le=MOST_GAMES)] | None
    record: bool
    environment: str
    files: dict[str, str]
    command: str = ""
    started: str = ""
    git_commit: str | None = None
    git_dirty: bool | None = None
    versions: dict[str, str] = Field(default_factory=dict)

    def schedule(self) -> Schedule:
        """Return the schedule.

        Raises:
            ValueError: There is no such suite, or it does not describe a schedule.
        """
        if isinstance(self.deals, int):
            deals: Sequence[int] | np.ndarray = named_deals(self.suite)[: self.deals]
        else:
            deals = self.deals
        return Schedule(
            players=self.players,
            suite=self.suite,
            deals=tuple(int(deal) for deal in deals),
            seeds=tuple(self.seeds),
            max_episode_steps=self.max_episode_steps,
            batch=self.batch,
            record=self.record,
        )


def named_deals(name: str) -> Sequence[int] | np.ndarray:
    """Return the deals of a suite or of a range ``LO:HI``."""
    return parse_deals(name)[1] if ":" in name else suite(name)


def description(schedule: Schedule, command: str) -> Description:
    """Return the content of ``benchmark.json``.

    Args:
        schedule: What is played.
        command: The command line.
    """
    commit, dirty = git_state()
    return Description(
        **schedule.to_dict(),
        command=command,
        started=now(),
        git_commit=commit,
        git_dirty=dirty,
        versions=package_versions(),
    )


def now() -> str:
    """Return the current time, in ISO 8601, UTC."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def read_description(folder: Path) -> Description:
    """Return the content of a folder's ``benchmark.json``.

    Raises:
        ResultsError: There is no such file, or it does not describe a benchmark.
        OSError: It cannot be read.
    """
    path = folder / DESCRIPTION
    try:
        return checked(Description, read_json(path), str(path))
    except FileNotFoundError:
        raise ResultsError(f"{folder} holds no benchmark to resume: no {DESCRIPTION}") from None
    except FormatError as error:
        raise ResultsError(str(error)) from None


def read_schedule(folder: Path) -> Schedule:
    """Return the schedule of a folder's benchmark.

    Raises:
        ResultsError: The folder has no valid schedule.
        OSError: It cannot be read.
    """
    said = read_description(folder)
    try:
        return said.schedule()
    except ValueError as error:
        raise ResultsError(f"{folder / DESCRIPTION}: {error}") from None


def check_same_schedule(folder: Path, schedule: Schedule) -> None:
    """Check that a folder's benchmark is the one to be resumed.

    Raises:
        ResultsError: The folder has another benchmark or none, or files of its players have
            changed; the message says what differs.
    """
    said, now = read_description(folder).model_dump(), schedule.to_dict()
    for key, value in now.items():
        if said.get(key) != value:
            before, after = (
                ("", "") if key == "deals_sha256" else (f" {said.get(key)!r}", f", not {value!r}")
            )
            raise ResultsError(
                f"{folder / DESCRIPTION} says {key}{before}{after}: a benchmark goes on as it began"
            )


def check_folder(folder: Path, overwrite: bool = False) -> None:
    """Check that results can be written to a folder.

    Raises:
        FileExistsError: The folder has results, and ``overwrite`` is not set.
        NotADirectoryError: The path is a file.
    """
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is no folder")
    there = [name for name in FILES if (folder / name).exists()]
    if there and not overwrite:
        raise FileExistsError(
            f"{folder} has results already ({', '.join(there)}): --resume or --overwrite"
        )


def parse_deals(text: str) -> tuple[str, Sequence[int]]:
    """Return the suite's name and the deal numbers that ``--deals`` describes.

    Args:
        text: ``LO:HI`` for the numbers LO to HI - 1, or codes and numbers, separated by commas or
            blanks.

    Raises:
        ValueError: The text does not describe deals; the message says what is wrong.
    """
    if ":" in text:
        pool = deal_pool(text)
        return f"{pool.start}:{pool.start + pool.size}", range(pool.start, pool.start + pool.size)
    words = text.replace(",", " ").split()
    if not words:
        raise ValueError("names no deal")
    return LISTED, [typed_deal(word) for word in words]


MOST_SEEDS = 1_000


def parse_seeds(text: str) -> tuple[int, ...]:
    """Return the seeds that a text names: integers and ranges such as ``0..4``, with commas.

    Raises:
        ValueError: The text names no seeds, too many, or an invalid one; the message says which.
    """
    seeds: list[int] = []
    for part in text.split(","):
        first, dots, last = part.partition("..")
        try:
            low = int(first)
            high = int(last) if dots else low
        except ValueError:
            raise ValueError(f"{part!r} is no integer and no range such as 0..4") from None
        if not 0 <= low <= high < SEED_END:
            raise ValueError(f"{part} is not between 0 and {SEED_END - 1}, rising")
        if high - low + 1 + len(seeds) > MOST_SEEDS:
            raise ValueError(f"more than {MOST_SEEDS:,} seeds")
        seeds += range(low, high + 1)
    return tuple(seeds)


def parse_player(text: str) -> tuple[str, str]:
    """Return a player's name in the results and its text, from ``LABEL=PLAYER`` or ``PLAYER``."""
    label, equals, spec = text.partition("=")
    if equals and label and not set(label) & set(":,"):
        return label, spec
    return text, text
