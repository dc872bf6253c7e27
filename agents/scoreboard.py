"""The scoreboard: committed results, and the tables that are made of them.

    python -m agents.scoreboard                    # write docs/scoreboard.md and .csv again
    python -m agents.scoreboard --add DIR          # take a benchmark's results in, then the same
    python -m agents.scoreboard --check            # are the tables those of the results?
    python -m agents.scoreboard --verify 20        # play some deals again: the same rows?

Results lie in ``results/SUITE/``, two files for each player: ``NAME.jsonl.gz``, the rows as
``agents.results`` describes them, and ``NAME.json``, what they were made with:

========================  ====================================================================
``player``                what the rows call it
``kind``                  ``player``, or ``bound``: it knows the stock, no player reaches it
``group``                 what the agent is called that has several such files, one a training
                          seed; else null
``spec``                  how ``agents.players`` makes it; null where that does not
``command``               the command line that makes the rows
``note``                  a remark for the table, or empty
``cpu_seconds_per_deal``  a number, or null
``date``, ``git_commit``, ``git_dirty``, ``versions``, ``files``, ``batch``
                          when and with what; SHA-256 of the files that the player was made of
========================  ====================================================================

Only whole suites are taken in. A bound's rows may come from anywhere that writes such rows:
``--add FILE --bound --command "..."``. In ``README.md``, what stands between the lines
``<!-- scoreboard SUITE -->`` and ``<!-- end of scoreboard -->`` is replaced by a short table.
"""

from __future__ import annotations

import argparse
import csv
import io
import json
import re
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import pandas as pd

from agents.benchmark import PLAN, Plan, planned
from agents.compare import Comparison, differences, group_cells
from agents.players import make_player, player_files
from agents.provenance import git_state, package_versions
from agents.results import (
    SUMMARY,
    ResultsError,
    environment_of,
    information_text,
    read_results,
    result_row,
    write_rows,
)
from agents.tables import (
    PlayerSummary,
    interval_text,
    markdown_rows,
    summarize,
    time_text,
)
from agents.workers import Spent, WorkerError, Workers
from qv_env import MAX_EPISODE_STEPS
from qv_env.files import write_json, write_text
from qv_env.rules import MAX_SCORE
from qv_env.suites import SUITE_SIZES

_ROOT = Path(__file__).resolve().parent.parent
RESULTS_FOLDER, MARKDOWN, CSV, README = (
    Path("results"),
    Path("docs", "scoreboard.md"),
    Path("docs", "scoreboard.csv"),
    Path("README.md"),
)
PLAYER, BOUND = "player", "bound"
_FORMAT, _VERSION = "quarante-voleurs-result", 1
_END = "<!-- end of scoreboard -->"


@dataclass(frozen=True)
class Entry:
    """One row of the scoreboard.

    Attributes:
        path: The file of rows.
        about: What the file beside it says.
        frame: The rows, of one player.
        summary: Its figures.
    """

    path: Path
    about: Mapping[str, Any]
    frame: pd.DataFrame
    summary: PlayerSummary

    @property
    def suite(self) -> str:
        """The suite that was played."""
        return str(self.frame["suite"].iloc[0])

    @property
    def is_bound(self) -> bool:
        """Whether it is no player, but a bound to what players can reach."""
        return bool(self.about["kind"] == BOUND)

    @property
    def version(self) -> str:
        """The package's version and the commit, with + where the checkout had changes."""
        parts = [self.about["versions"].get("qv-env", "")]
        if self.about["git_commit"]:
            parts.append(self.about["git_commit"][:7] + ("+" if self.about["git_dirty"] else ""))
        return " ".join(part for part in parts if part)


def read_entries(root: Path = _ROOT) -> list[Entry]:
    """Read all committed results: by suite, bounds first, then players, the best mean first.

    Raises:
        ResultsError: Results are not whole, or those of one suite do not compare; the message says
            which.
        OSError: A file cannot be read.
    """
    entries = [_read_entry(path) for path in sorted((root / RESULTS_FOLDER).glob("*/*.jsonl.gz"))]
    for suite in SUITE_SIZES:
        frames = {entry.path.name: entry.frame for entry in entries if entry.suite == suite}
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
        about = json.loads(beside.read_text(encoding="utf-8"))
        if about["format"] != _FORMAT or about["version"] != _VERSION:
            raise ValueError("another format")
        for key, kinds in (
            ("player", str), ("kind", str), ("group", (str, type(None))), ("command", str),
            ("spec", (str, type(None))), ("note", str), ("date", str), ("versions", dict),
            ("git_commit", (str, type(None))), ("git_dirty", (bool, type(None))),
            ("cpu_seconds_per_deal", (int, float, type(None))), ("files", dict),
            ("batch", (int, type(None))),
        ):  # fmt: skip
            if not isinstance(about[key], kinds):
                raise ValueError(f"{key} is {about[key]!r}")
    except FileNotFoundError:
        raise ResultsError(f"{path} has no {beside.name} beside it") from None
    except (ValueError, KeyError, TypeError) as error:
        raise ResultsError(f"{beside}: {type(error).__name__}: {error}") from None
    frame = read_results(path)
    check_whole_suite(path, frame)
    players = list(frame["player"].unique())
    if players != [about["player"]]:
        raise ResultsError(f"{path} has rows of {', '.join(players)}, not of {about['player']}")
    if path.parent.name != frame["suite"].iloc[0]:
        raise ResultsError(f"{path} has rows of {frame['suite'].iloc[0]}")
    return Entry(path, about, frame, summarize(frame)[about["player"]])


def check_whole_suite(path: Path, frame: pd.DataFrame) -> None:
    """See that rows are of all deals of a named suite.

    Raises:
        ResultsError: They are not.
    """
    name, deals = str(frame["suite"].iloc[0]), frame["index"].nunique()
    if name not in SUITE_SIZES:
        raise ResultsError(f"{path}: {name} is no suite; there are {', '.join(SUITE_SIZES)}")
    if deals != SUITE_SIZES[name]:
        raise ResultsError(f"{path} has {deals:,} of the {SUITE_SIZES[name]:,} deals of {name}")


# ---------------------------------------------------------------------------------- taking results


def add_results(
    source: Path,
    root: Path = _ROOT,
    *,
    players: Sequence[str] = (),
    bound: bool = False,
    group: str | None = None,
    note: str = "",
    command: str | None = None,
    replace: bool = False,
) -> list[Path]:
    """Take results into ``results/``.

    Args:
        source: A benchmark's finished folder, or a file of rows.
        root: The checkout.
        players: Which of its players; none: all.
        bound: Whether they are bounds, not players.
        group: The agent of which they are training seeds.
        note: A remark for the table.
        command: The command line that makes the rows; needed for a file, which knows none.
        replace: Whether results that are there already are replaced.

    Returns:
        The files of rows.

    Raises:
        ResultsError: The source has no such player, no whole suite or no command.
        FileExistsError: There are such results already.
        OSError: A file cannot be read or written.
    """
    frame = read_results(source)
    check_whole_suite(source, frame)
    names = list(frame["player"].unique())
    unknown = [name for name in players if name not in names]
    if unknown:
        raise ResultsError(f"{source} has no player {unknown[0]!r}; it has {', '.join(names)}")
    plan = planned(source) if source.is_dir() and (source / PLAN).is_file() else None
    if plan is None and command is None:
        raise ResultsError(f"{source} does not say what made it: --command")
    made = _made_with(source)
    folder = root / RESULTS_FOLDER / str(frame["suite"].iloc[0])
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
        about = {
            "format": _FORMAT,
            "version": _VERSION,
            "player": name,
            "kind": BOUND if bound else PLAYER,
            "group": group,
            "spec": None if plan is None else plan.players[name],
            "command": command or (player_command(plan, name) if plan else ""),
            "note": note,
            "cpu_seconds_per_deal": frame.attrs["cpu_seconds"].get(name),
            **made,
            "files": {} if plan is None else player_files(plan.players[name]),
            "batch": None if plan is None else plan.batch,
        }
        path.unlink(missing_ok=True)  # rows without their description are refused
        write_json(path.with_name(f"{file_name(name)}.json"), about)
        write_rows(path, ({str(key): row[key] for key in row} for row in rows))
    return list(paths.values())


def file_name(player: str) -> str:
    """Return the name of a player's files, without an ending: letters, digits, ``. = + -``."""
    return re.sub(r"[^A-Za-z0-9.=+]+", "-", player).strip("-.") or "player"


def player_command(plan: Plan, player: str) -> str:
    """Return the command line that makes the rows of one player of a benchmark."""
    spec = plan.players[player]
    command = ["python", "-m", "agents.benchmark", spec if spec == player else f"{player}={spec}"]
    command += ["--suite", plan.suite]
    if plan.seeds != (0,):
        command += ["--seeds", ",".join(map(str, plan.seeds))]
    if plan.max_episode_steps != MAX_EPISODE_STEPS:
        command += ["--max-episode-steps", str(plan.max_episode_steps)]
    if plan.batch is not None:
        command += ["--batch", str(plan.batch)]
    if plan.record:
        command += ["--record"]
    return shlex.join(command)


def _made_with(source: Path) -> dict[str, Any]:
    """Date, commit and versions: the source's own, or, of a file, those of now."""
    if source.is_dir():
        said = json.loads((source / SUMMARY).read_text(encoding="utf-8"))
        began = json.loads((source / PLAN).read_text(encoding="utf-8"))
        made = {key: said[key] for key in ("date", "git_commit", "git_dirty", "versions")}
        if began["git_commit"] != said["git_commit"]:  # the sources changed while it played
            made["git_dirty"] = True
        return {**made, "date": str(made["date"])[:10]}
    commit, dirty = git_state()
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "git_commit": commit,
        "git_dirty": dirty,
        "versions": package_versions(),
    }


# --------------------------------------------------------------------------------------- tables


def scoreboard_cells(entries: Sequence[Entry]) -> list[list[str]]:
    """Return the scoreboard of one suite, the heading first."""
    cells = [
        [
            "player",
            "sees",
            "mean score",
            f"% of {MAX_SCORE:,}",
            "won",
            "win rate",
            "cards up",
            "CPU s a deal",
            "version",
            "date",
        ]
    ]
    for entry in entries:
        summary = entry.summary
        name = f"{summary.player} (bound)" if entry.is_bound else summary.player
        cells.append(
            [
                name + (f"; {entry.about['note']}" if entry.about["note"] else ""),
                information_text(summary.environment),
                interval_text(summary.mean_score),
                f"{100 * summary.share_of_maximum:.1f} %",
                f"{summary.wins:,} of {summary.games:,}",
                interval_text(summary.win_rate, 100, " %"),
                interval_text(summary.mean_foundation_cards),
                time_text(summary.cpu_seconds_per_deal),
                entry.version,
                str(entry.about["date"]),
            ]
        )
    return cells


def short_table(entries: Sequence[Entry]) -> str:
    """Return the table of one suite for the README, in Markdown: what is in all rows left out."""
    cells = scoreboard_cells(entries)
    return markdown_rows([row[:8] for row in cells])


_HEAD = f"""# Scoreboard

Made by `python -m agents.scoreboard` from the files in [`results/`](../results); the same as
numbers is in [`scoreboard.csv`](scoreboard.csv). [How to enter a player](new-player.md).

Scores are means over all deals of a suite with 95 % intervals: bootstrap (BCa) for means, Wilson's
for win rates. Intervals are over deals; they say nothing about training again. A game's maximum is
{MAX_SCORE:,} points; games end after {MAX_EPISODE_STEPS} steps at the latest. Time is CPU time of
one core, of whatever machine played. A commit with "+" had changes that were not committed. A
*bound* knows the order of the stock: it says what could be reached, no player plays so.
"""


def markdown_text_of(entries: Sequence[Entry]) -> str:
    """Return the content of ``docs/scoreboard.md``."""
    parts = [_HEAD]
    for suite in SUITE_SIZES:
        rows = [entry for entry in entries if entry.suite == suite]
        if not rows:
            continue
        parts.append(f"## {suite}\n\n{markdown_rows(scoreboard_cells(rows))}")
        groups = _groups(rows)
        if groups:
            comparison = Comparison(
                pd.concat([row.frame for row in rows], ignore_index=True), groups
            )
            parts.append(
                "Agents trained with several seeds; [what the intervals"
                f" mean](new-player.md#training-seeds):\n\n"
                f"{markdown_rows(group_cells(comparison.groups))}"
            )
        commands = "\n".join(f"{row.about['command']}" for row in rows)
        parts.append(f"Each row's command, in the table's order:\n\n```console\n{commands}\n```\n")
    if not entries:
        parts.append("There are no results yet.\n")
    return "\n".join(parts)


def _groups(entries: Sequence[Entry]) -> dict[str, list[str]]:
    """The agents with several training seeds, and their players."""
    groups: dict[str, list[str]] = {}
    for entry in entries:
        if entry.about["group"]:
            groups.setdefault(entry.about["group"], []).append(entry.summary.player)
    return {name: players for name, players in groups.items() if len(players) > 1}


def csv_text_of(entries: Sequence[Entry]) -> str:
    """Return the content of ``docs/scoreboard.csv``: a line a row, numbers in full."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    intervals = ("mean_score", "win_rate", "mean_foundation_cards")
    writer.writerow(
        ["suite", "player", "kind", "group", "sees", "deals", "seeds", "games", "wins"]
        + [f"{name}{end}" for name in intervals for end in ("", "_low", "_high")]
        + ["share_of_maximum", "mean_steps", "truncated", "cpu_seconds_per_deal"]
        + ["version", "git_commit", "git_dirty", "date", "command", "note"]
    )
    for entry in entries:
        summary, about = entry.summary, entry.about
        figures: list[Any] = []
        for name in intervals:
            interval = getattr(summary, name)
            figures += [
                _number(value) for value in (interval.estimate, interval.low, interval.high)
            ]
        time = summary.cpu_seconds_per_deal
        writer.writerow(
            [
                entry.suite,
                summary.player,
                about["kind"],
                about["group"] or "",
                information_text(summary.environment),
                summary.deals,
                " ".join(map(str, summary.seeds)),
                summary.games,
                summary.wins,
                *figures,
                _number(summary.share_of_maximum),
                _number(summary.mean_steps),
                _number(summary.truncated),
                "" if time is None else _number(time),
                about["versions"].get("qv-env", ""),
                about["git_commit"] or "",
                "" if about["git_dirty"] is None else about["git_dirty"],
                about["date"],
                about["command"],
                about["note"],
            ]
        )
    return buffer.getvalue()


def _number(value: float) -> str:
    return f"{value:.6g}"


def readme_text_of(text: str, entries: Sequence[Entry]) -> str:
    """Return a README with its scoreboards replaced by those of the results.

    Raises:
        ResultsError: A place begins and does not end, or its suite has no results.
    """

    def table(match: re.Match[str]) -> str:
        rows = [entry for entry in entries if entry.suite == match[1]]
        if not rows:
            raise ResultsError(f"README: there are no results of {match[1]}")
        return f"<!-- scoreboard {match[1]} -->\n\n{short_table(rows)}\n{_END}"

    pattern = rf"<!-- scoreboard (\S+) -->(?:(?!<!-- scoreboard).)*?{re.escape(_END)}"
    replaced = re.sub(pattern, table, text, flags=re.DOTALL)
    if len(re.findall("<!-- scoreboard ", replaced)) != replaced.count(_END):
        raise ResultsError(f"README: a scoreboard has no {_END}")
    return replaced


def pages(entries: Sequence[Entry], root: Path = _ROOT) -> dict[Path, str]:
    """Return the files that are made of the results, and what they are to hold."""
    texts = {root / MARKDOWN: markdown_text_of(entries), root / CSV: csv_text_of(entries)}
    readme = root / README
    if readme.is_file():
        text = readme.read_text(encoding="utf-8")
        replaced = readme_text_of(text, entries)
        if "<!-- scoreboard " in text:
            texts[readme] = replaced
    return texts


# -------------------------------------------------------------------------------------- verifying


def verify(entry: Entry, deals: int) -> str | None:
    """Play the first deals of an entry again, as its benchmark did, and compare the rows.

    Batches of games are played whole: at least so many deals are played.

    Args:
        entry: A row of the scoreboard whose player ``agents.players`` can make.
        deals: How many deals, at least 1.

    Returns:
        None where all rows are the same; else what differs.

    Raises:
        ValueError: The player cannot be made.
        WorkerError: It failed.
    """
    spec, name = entry.about["spec"], entry.summary.player
    changed = [path for path, digest in entry.about["files"].items()
               if player_files(spec).get(path) != digest]  # fmt: skip
    if changed:
        return f"{changed[0]} is not the file that it was made with"
    frame = entry.frame
    first = frame[frame["seed"] == entry.summary.seeds[0]].sort_values("index")
    plan = Plan(
        players={name: spec},
        suite=entry.suite,
        deals=tuple(first["deal"].tolist()),
        seeds=entry.summary.seeds,
        max_episode_steps=entry.summary.environment["max_episode_steps"],
        batch=entry.about["batch"],
        record="actions" in frame,
    )
    player = make_player(spec)
    tasks = [task for task in plan.tasks({name: player}) if task.first < deals]
    environment = environment_of(player, plan.max_episode_steps)
    rows = {(row["seed"], row["index"]): row for row in frame.to_dict("records")}
    with Workers(1) as workers:
        for task, said in workers.play(tasks):
            if isinstance(said, Spent):
                continue
            row = result_row(
                name, player.settings, environment, plan.suite, task.seed, said, plan.record
            )
            before = rows[task.seed, said.index]
            for key, value in row.items():
                if before[key] != value:
                    return f"{row['code']}: {key} was {before[key]!r} and is {value!r}"
    return None


# ------------------------------------------------------------------------------------ command line


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line, without the usage."""
        self.exit(2, f"{self.prog}: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m agents.scoreboard",
        description="Make docs/scoreboard.md and .csv of the results in results/.",
    )
    action = parser.add_mutually_exclusive_group()
    action.add_argument(
        "--add", metavar="RESULTS", type=Path, help="take a benchmark's folder or a file in first"
    )
    action.add_argument(
        "--check", action="store_true", help="write nothing; exit 1 where a table is out of date"
    )
    action.add_argument(
        "--verify", metavar="N", type=int, help="play the first N deals of each row again"
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
        "--root", metavar="DIR", type=Path, default=_ROOT, help="the checkout (default: this one)"
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status.

    Raises:
        SystemExit: With status 2, when something that was asked for cannot be done.
    """
    parser = _parser()
    options = parser.parse_args(argv)
    root: Path = options.root
    try:
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
                print(f"wrote {path}")
        elif any([options.bound, options.group, options.note, options.command, options.replace]):
            raise ValueError("--bound, --group, --note, --command and --replace go with --add")
        entries = read_entries(root)
        if options.verify is not None:
            return _verify(entries, options.verify, options.player)
        texts = pages(entries, root)
        if options.check:
            old = [path for path, text in texts.items() if _content(path) != text]
            for path in old:
                print(f"{path} is out of date: python -m agents.scoreboard")
            return 1 if old else 0
        for path, text in texts.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_text(path, text)
            print(f"wrote {path}")
    except (ValueError, OSError, WorkerError) as error:
        parser.error(" ".join(str(error).split()))
    return 0


def _content(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


def _verify(entries: Sequence[Entry], deals: int, players: Sequence[str]) -> int:
    if deals < 1:
        raise ValueError(f"--verify: {deals} is not at least 1")
    unknown = set(players) - {entry.summary.player for entry in entries}
    if unknown:
        raise ValueError(f"the results have no player {min(unknown)!r}")
    status = 0
    for entry in entries:
        name = f"{entry.summary.player} on {entry.suite}"
        if players and entry.summary.player not in players:
            continue
        if entry.about["spec"] is None:
            print(f"{name}: no player of agents.players, not played")
            continue
        different = verify(entry, deals)
        print(f"{name}: {different or 'the same'}", flush=True)
        status = status or int(different is not None)
    return status


if __name__ == "__main__":
    sys.exit(main())
