"""The committed results: adding, reading, checking and verifying them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from agents.players import PLAYERS
from qv_env import MAX_EPISODE_STEPS
from qv_env.evaluation.comparison import differences
from qv_env.evaluation.players import PlayerSpec
from qv_env.evaluation.provenance import git_state, package_versions
from qv_env.evaluation.results import (
    SUMMARY,
    Results,
    ResultsError,
    environment_of,
    read_results,
    result_row,
    row_difference,
    write_rows,
)
from qv_env.evaluation.schedule import DESCRIPTION, Schedule, read_description, read_schedule
from qv_env.evaluation.summary import PlayerSummary, summarize
from qv_env.evaluation.workers import Spent, Workers
from qv_env.files import write_json
from qv_env.schema import OneOf, Strict, checked
from qv_env.strict_json import FormatError, read_json
from qv_env.suites import SUITE_SIZES

ROOT = Path(__file__).resolve().parents[2]

RESULTS_FOLDER, MARKDOWN, CSV, README = (
    Path("results"),
    Path("docs", "scoreboard.md"),
    Path("docs", "scoreboard.csv"),
    Path("README.md"),
)

PLAYER, BOUND = "player", "bound"


class _Made(Strict):
    """The part of a benchmark's summary that is read."""

    model_config = ConfigDict(extra="ignore")

    date: str
    git_commit: str | None
    git_dirty: bool | None
    versions: dict[str, str]


class About(Strict):
    """The description beside the rows of a player: what they are, and how they were made."""

    format: Literal["quarante-voleurs-result"] = "quarante-voleurs-result"
    version: Literal[1] = 1
    player: str
    kind: Annotated[str, OneOf((PLAYER, BOUND))]
    group: str | None
    spec: str | None
    command: str
    note: str
    cpu_seconds_per_deal: Annotated[float, Field(ge=0)] | None
    date: str
    git_commit: str | None
    git_dirty: bool | None
    versions: dict[str, str]
    files: dict[str, str]
    batch: Annotated[int, Field(ge=1)] | None


@dataclass(frozen=True)
class Entry:
    """One row of the scoreboard.

    Attributes:
        path: The file of rows.
        about: The content of the file beside it, as :class:`About` describes it.
        results: The rows, of one player.
        summary: Its figures.
    """

    path: Path
    about: Mapping[str, Any]
    results: Results
    summary: PlayerSummary

    @property
    def suite(self) -> str:
        """The suite that was played."""
        return self.results.suite

    @property
    def is_bound(self) -> bool:
        """Whether this is not a player, but a bound on what players can reach."""
        return bool(self.about["kind"] == BOUND)

    @property
    def version(self) -> str:
        """The package's version and the commit, with + if the checkout had changes."""
        parts = [self.about["versions"].get("qv-env", "")]
        if self.about["git_commit"]:
            parts.append(self.about["git_commit"][:7] + ("+" if self.about["git_dirty"] else ""))
        return " ".join(part for part in parts if part)


def read_entries(root: Path = ROOT) -> list[Entry]:
    """Read all committed results, sorted by suite, bounds before players, and the best mean first.

    Raises:
        ResultsError: Results are incomplete, or those of one suite are not comparable; the message
            says which.
        OSError: A file cannot be read.
    """
    entries = [_read_entry(path) for path in sorted((root / RESULTS_FOLDER).glob("*/*.jsonl.gz"))]
    for suite in SUITE_SIZES:
        frames = {entry.path.name: entry.results.frame for entry in entries if entry.suite == suite}
        found = list(differences(frames).values()) if frames else []
        if found:
            raise ResultsError(f"results of {suite} do not compare: {'; '.join(found)}")
    places = list(SUITE_SIZES)
    return sorted(
        entries,
        key=lambda entry: (
            places.index(entry.suite),
            not entry.is_bound,
            -entry.summary.mean_score.estimate,
            entry.path.name,
        ),
    )


def _read_entry(path: Path) -> Entry:
    beside = path.with_name(path.name.removesuffix(".jsonl.gz") + ".json")
    try:
        about = checked(About, read_json(beside), str(beside)).model_dump()
    except FileNotFoundError:
        raise ResultsError(f"{path} has no {beside.name} beside it") from None
    except FormatError as error:
        raise ResultsError(str(error)) from None
    results = read_results(path)
    check_whole_suite(path, results)
    if results.players != [about["player"]]:
        raise ResultsError(
            f"{path} has rows of {', '.join(results.players)}, not of {about['player']}"
        )
    if path.parent.name != results.suite:
        raise ResultsError(f"{path} has rows of {results.suite}")
    return Entry(path, about, results, summarize(results)[about["player"]])


def check_whole_suite(path: Path, results: Results) -> None:
    """Check that rows are of all deals of a named suite.

    Raises:
        ResultsError: They are not.
    """
    name, deals = results.suite, results.deals
    if name not in SUITE_SIZES:
        raise ResultsError(f"{path}: {name} is no suite; there are {', '.join(SUITE_SIZES)}")
    if deals != SUITE_SIZES[name]:
        raise ResultsError(f"{path} has {deals:,} of the {SUITE_SIZES[name]:,} deals of {name}")


# ---------------------------------------------------------------------------------- adding results


def add_results(
    source: Path,
    root: Path = ROOT,
    *,
    players: Sequence[str] = (),
    bound: bool = False,
    group: str | None = None,
    note: str = "",
    command: str | None = None,
    replace: bool = False,
) -> list[Path]:
    """Add results to ``results/``.

    Args:
        source: A benchmark's finished folder, or a file of rows.
        root: The checkout.
        players: Which of its players to add; none: all.
        bound: Whether they are bounds, not players.
        group: The agent of which they are training seeds.
        note: A note for the table.
        command: The command line that makes the rows; required for a file, which records none.
        replace: Whether existing results are replaced.

    Returns:
        The files of rows.

    Raises:
        ResultsError: The source has no such player, an incomplete suite or no command.
        FileExistsError: There are such results already.
        OSError: A file cannot be read or written.
    """
    results = read_results(source)
    check_whole_suite(source, results)
    frame, names = results.frame, results.players
    unknown = [name for name in players if name not in names]
    if unknown:
        raise ResultsError(f"{source} has no player {unknown[0]!r}; it has {', '.join(names)}")
    schedule = (
        read_schedule(source) if source.is_dir() and (source / DESCRIPTION).is_file() else None
    )
    if schedule is None and command is None:
        raise ResultsError(f"{source} does not say what made it: --command")
    made = _made_with(source)
    folder = root / RESULTS_FOLDER / results.suite
    chosen = list(players) or names
    paths = {name: folder / f"{file_name(name)}.jsonl.gz" for name in chosen}
    if len(set(paths.values())) < len(chosen):
        raise ResultsError(f"players of {source} would share a file: name them by LABEL=PLAYER")
    for path in paths.values():
        if path.exists() and not replace:
            raise FileExistsError(f"{path} is there already: --replace")
    folder.mkdir(parents=True, exist_ok=True)
    for name, path in paths.items():
        rows = frame[frame["player"] == name].to_dict("records")
        about = About(
            player=name,
            kind=BOUND if bound else PLAYER,
            group=group,
            spec=None if schedule is None else schedule.players[name],
            command=command or (player_command(schedule, name) if schedule else ""),
            note=note,
            cpu_seconds_per_deal=results.cpu_seconds.get(name),
            **made,
            files={} if schedule is None else PlayerSpec.parse(schedule.players[name]).files(),
            batch=None if schedule is None else schedule.batch,
        )
        path.unlink(missing_ok=True)  # old rows must not get the new description
        write_json(path.with_name(f"{file_name(name)}.json"), about.model_dump())
        write_rows(path, ({str(key): row[key] for key in row} for row in rows))
    return list(paths.values())


def file_name(player: str) -> str:
    """Return the name of a player's files without the suffix: letters, digits, ``. = + -``."""
    return re.sub(r"[^A-Za-z0-9.=+]+", "-", player).strip("-.") or "player"


def player_command(schedule: Schedule, player: str) -> str:
    """Return the command line that makes the rows of one player of a benchmark."""
    spec = schedule.players[player]
    command = ["python", "-m", "agents.benchmark", spec if spec == player else f"{player}={spec}"]
    command += ["--suite", schedule.suite]
    if schedule.seeds != (0,):
        command += ["--seeds", ",".join(map(str, schedule.seeds))]
    if schedule.max_episode_steps != MAX_EPISODE_STEPS:
        command += ["--max-episode-steps", str(schedule.max_episode_steps)]
    if schedule.batch is not None:
        command += ["--batch", str(schedule.batch)]
    if schedule.record:
        command += ["--record"]
    return shlex.join(command)


def _made_with(source: Path) -> dict[str, Any]:
    """Return date, commit and versions: those of the source, or for a file the present ones."""
    if source.is_dir():
        try:
            made = checked(_Made, read_json(source / SUMMARY), str(source / SUMMARY)).model_dump()
        except FormatError as error:
            raise ResultsError(str(error)) from None
        began = read_description(source) if (source / DESCRIPTION).is_file() else None
        if began is not None and began.git_commit != made["git_commit"]:
            made["git_dirty"] = True  # the sources changed while it played
        return {**made, "date": made["date"][:10]}
    commit, dirty = git_state()
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "git_commit": commit,
        "git_dirty": dirty,
        "versions": package_versions(),
    }


# -------------------------------------------------------------------------------------- verifying


def verify(entry: Entry, deals: int) -> str | None:
    """Repeat the first deals of an entry, as in its benchmark, and compare the rows.

    Only whole batches of games are played, so more deals than required may be repeated.

    Args:
        entry: A row of the scoreboard whose player ``agents.players`` can create.
        deals: The least number of deals to repeat, at least 1.

    Returns:
        None if all rows are the same; else a description of the difference.

    Raises:
        ValueError: The player cannot be created.
        WorkerError: The player failed.
    """
    spec, name = entry.about["spec"], entry.summary.player
    files = PlayerSpec.parse(spec).files()
    changed = [path for path, digest in entry.about["files"].items()
               if files.get(path) != digest]  # fmt: skip
    if changed:
        return f"{changed[0]} is not the file that it was made with"
    frame = entry.results.frame
    first = frame[frame["seed"] == entry.summary.seeds[0]].sort_values("index")
    schedule = Schedule(
        players={name: spec},
        suite=entry.suite,
        deals=tuple(first["deal"].tolist()),
        seeds=entry.summary.seeds,
        max_episode_steps=entry.summary.environment["max_episode_steps"],
        batch=entry.about["batch"],
        record="actions" in frame,
    )
    player = PLAYERS.make(spec)
    tasks = [task for task in schedule.tasks({name: player}) if task.first < deals]
    environment = environment_of(player, schedule.max_episode_steps)
    rows: dict[tuple[int, int], Any] = {
        (row["seed"], row["index"]): row for row in frame.to_dict("records")
    }
    with Workers(1, PLAYERS) as workers:
        for task, said in workers.play(tasks):
            if isinstance(said, Spent):
                continue
            row = result_row(
                name, player.settings, environment, schedule.suite, task.seed, said, schedule.record
            )
            different = row_difference(rows[task.seed, said.index], row)
            if different:
                return f"{row['code']}: {different}"
    return None
