"""Results compared: tables, paired differences on the same deals, plots, a page with all games.

    python -m agents.compare RESULTS [RESULTS ...] [--group NAME PLAYER ...] [--out DIR]

RESULTS are folders of ``agents.benchmark`` or files of rows, as ``agents.results`` describes them.
Results of different deals, or of games that differ (step limit, take-backs, the environment's
version), are refused; the message says which differ and where.

``--group NAME PLAYER ...`` takes players as one agent that was trained several times; a pattern
such as ``'ppo:runs/long/seed-*'`` stands for all players that it fits. ``--out`` writes

===================  =========================================================================
``report.html``      all of it, one file; where games were recorded, each leads to its playthrough
``report.md``        the same beside its pictures
``comparison.json``  the figures
===================  =========================================================================
"""

from __future__ import annotations

import argparse
import fnmatch
import json
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pandas as pd

from agents.page import Block, Bullets, Code, Games, Heading, Paragraph, Picture, Table, write_page
from agents.plots import effort_plot, learning_curves_plot, pair_plot, profile_plot, score_plot
from agents.report import p_text
from agents.results import (
    ACTIONS,
    ResultsError,
    game_settings,
    information_text,
    read_results,
    row_playthrough,
)
from agents.stats import (
    CONFIDENCE,
    Interval,
    PairedDifference,
    Runs,
    clustered_proportion_interval,
    mean_interval,
    paired_difference,
    paired_wins,
    runs_summary,
    student_interval,
)
from agents.tables import (
    PlayerSummary,
    deal_values,
    deals_text,
    interval_text,
    summarize,
    table_cells,
    text_rows,
)
from qv_env import Playthrough, deal_code
from qv_env.files import write_json
from qv_env.rules import MAX_SCORE

COMPARISON = "comparison.json"
MOST_PAIR_PLOTS = 6
ALLOWED = {"step-limit": "step limit", "take-backs": "take-backs"}


# --------------------------------------------------------------------------------- what compares


def load_results(paths: Sequence[str | Path], allowed: Iterable[str] = ()) -> pd.DataFrame:
    """Read results that compare, as one table.

    Args:
        paths: Files or folders, see ``agents.results.read_results``.
        allowed: Settings of the game that may differ all the same: ``step limit``,
            ``take-backs``.

    Returns:
        The rows of all; a player that several files have is told apart by the path.
        ``attrs["cpu_seconds"]`` as ``read_results`` has it, ``attrs["notes"]`` what differs and
        was allowed.

    Raises:
        ResultsError: The results are of different deals or games, or not whole; the message says
            what differs and where.
        OSError: A file cannot be read.
    """
    frames = {str(path): read_results(path) for path in paths}
    if len(frames) < len(paths):
        raise ResultsError("a path is there twice")
    found = differences(frames)
    refused = [text for name, text in found.items() if name not in set(allowed)]
    if refused:
        raise ResultsError("results that do not compare: " + "; ".join(refused))
    names = [name for frame in frames.values() for name in frame["player"].unique()]
    times: dict[str, float] = {}
    parts = []
    for path, frame in frames.items():
        labels = {
            name: f"{name} ({path})" if names.count(name) > 1 else name
            for name in frame["player"].unique()
        }
        seconds = frame.attrs["cpu_seconds"]
        times |= {labels[name]: seconds[name] for name in labels if name in seconds}
        parts.append(frame.assign(player=frame["player"].map(labels)))
        parts[-1].attrs = {}
    merged = pd.concat(parts, ignore_index=True)
    merged.attrs = {"cpu_seconds": times, "notes": list(found.values())}
    return merged


def differences(frames: Mapping[str, pd.DataFrame]) -> dict[str, str]:
    """Return in what results differ that must be the same, by name, with where each is so.

    Args:
        frames: Rows, by the paths that they come from.
    """
    found: dict[str, str] = {}
    where: dict[str, dict[Any, list[str]]] = {}
    deals: dict[str, dict[int, int]] = {}
    for path, frame in frames.items():
        where.setdefault("suite", {}).setdefault(frame["suite"].iloc[0], []).append(path)
        deals[path] = dict(zip(frame["index"], frame["deal"], strict=True))
        for player, rows in frame.groupby("player", sort=False):
            for name, value in game_settings(rows["environment"].iloc[0]).items():
                where.setdefault(name, {}).setdefault(value, []).append(f"{player} of {path}")
    for name, values in where.items():
        if len(values) > 1:
            found[name] = f"{name}: " + ", ".join(
                f"{_shown(value)} in {places[0]}"
                + (f" and {len(places) - 1} more" if len(places) > 1 else "")
                for value, places in values.items()
            )
    first, *others = deals
    for path in others:
        missing = sorted(set(deals[first].values()) - set(deals[path].values()))
        more = sorted(set(deals[path].values()) - set(deals[first].values()))
        if missing or more:
            sides = [
                f"{len(only):,} of {len(deals[there]):,} only in {there}"
                f" ({deal_code(only[0])}{' ...' if len(only) > 1 else ''})"
                for only, there in ((missing, first), (more, path))
                if only
            ]
            found["deals"] = "deals: " + ", ".join(sides)
            break
        if deals[path] != deals[first]:
            found["deals"] = f"deals: {path} has those of {first} in another order"
            break
    return found


def _shown(value: object) -> str:
    return {True: "allowed", False: "not allowed"}[value] if isinstance(value, bool) else str(value)


# ----------------------------------------------------------------------------------- the figures


@dataclass(frozen=True)
class Group:
    """An agent that was trained several times, each of its policies a player.

    Attributes:
        name: What it is called.
        players: The players.
        runs: Figures over training seeds; scores divided by 1,360.
        mean_score: The mean score in points, with Student's interval over training seeds.
        win_rate: The win rate of all its games, with its interval over deals.
        win_rates: The win rate of each player.
    """

    name: str
    players: tuple[str, ...]
    runs: Runs
    mean_score: Interval
    win_rate: Interval
    win_rates: tuple[float, ...]


@dataclass(frozen=True)
class Pair:
    """Two players or groups on the same deals, first minus second.

    Attributes:
        first: A player's or group's name.
        second: Another's.
        score: How the scores differ.
        wins: How the wins differ; the sign test is then McNemar's exact test, over the deals that
            one of them won more often than the other.
        cards: How the cards on the foundations differ.
    """

    first: str
    second: str
    score: PairedDifference
    wins: PairedDifference
    cards: PairedDifference


class Comparison:
    """Results side by side.

    Args:
        frame: What :func:`load_results` returned.
        groups: For each group's name its players, or patterns of them.
        baseline: A player or group that the others are compared with; None: each with each.

    Attributes:
        frame: The rows.
        summaries: Each player's figures.
        groups: The groups' figures.
        entries: For each player that is in no group and for each group, its players.
        pairs: How entries differ.

    Raises:
        ValueError: A group has fewer than two players or none that fits, or a name is none.
    """

    def __init__(
        self,
        frame: pd.DataFrame,
        groups: Mapping[str, Sequence[str]] | None = None,
        baseline: str | None = None,
    ) -> None:
        self.frame = frame
        self.summaries = summarize(frame)
        members = {name: self._members(name, asked) for name, asked in (groups or {}).items()}
        grouped = {player for players in members.values() for player in players}
        alone = {name: (name,) for name in self.summaries if name not in grouped}
        taken = set(members) & set(alone)
        if taken:
            raise ValueError(f"{taken.pop()!r} is the name of a player, not of a group")
        self.entries: dict[str, tuple[str, ...]] = {**members, **alone}
        self.groups = {name: self._group(name, players) for name, players in members.items()}
        if baseline is None:
            names = list(combinations(self.entries, 2))
        elif baseline in self.entries:
            names = [(name, baseline) for name in self.entries if name != baseline]
        else:
            raise ValueError(f"no player or group {baseline!r}; there are {_listed(self.entries)}")
        self.pairs = [
            Pair(
                first,
                second,
                score=paired_difference(*self._both(first, second, "score")),
                wins=paired_wins(*self._both(first, second, "won")),
                cards=paired_difference(*self._both(first, second, "foundation_cards")),
            )
            for first, second in names
        ]

    def _members(self, group: str, asked: Sequence[str]) -> tuple[str, ...]:
        players: dict[str, None] = {}
        for text in asked:
            found = [name for name in self.summaries if name == text]
            found = found or [name for name in self.summaries if fnmatch.fnmatchcase(name, text)]
            if not found:
                raise ValueError(
                    f"group {group!r}: no player {text!r}; there are {_listed(self.summaries)}"
                )
            players |= dict.fromkeys(found)
        if len(players) < 2:
            raise ValueError(f"group {group!r} has one player; training seeds are at least two")
        return tuple(players)

    def _group(self, name: str, players: tuple[str, ...]) -> Group:
        scores = np.array([deal_values(self.frame, player, "score") for player in players])
        rates = [float(deal_values(self.frame, player, "won").mean()) for player in players]
        runs = runs_summary(scores / MAX_SCORE)
        return Group(
            name=name,
            players=players,
            runs=runs,
            mean_score=student_interval(scores.mean(axis=1)),
            win_rate=self._win_rate(players),
            win_rates=tuple(rates),
        )

    def _both(self, first: str, second: str, column: str) -> tuple[np.ndarray, np.ndarray]:
        return self.values(first, column), self.values(second, column)

    def values(self, entry: str, column: str) -> np.ndarray:
        """Return an entry's value of each deal, the mean over seeds and players: float64 (n,)."""
        players = self.entries[entry]
        mean: np.ndarray = np.mean(
            [deal_values(self.frame, name, column) for name in players], axis=0
        )
        return mean

    def games(self, players: Sequence[str], column: str) -> np.ndarray:
        """Return some players' value of each game: float64 (deals, games of a deal)."""
        rows = self.frame[self.frame["player"].isin(players)]
        ordered = rows.sort_values("index", kind="stable")
        values: np.ndarray = ordered[column].to_numpy(dtype=np.float64)
        return values.reshape(rows["index"].nunique(), -1)

    def _win_rate(self, players: Sequence[str]) -> Interval:
        games = self.games(players, "won")
        return clustered_proportion_interval(games.mean(axis=1), games.shape[1])

    def win_rate(self, entry: str) -> Interval:
        """Return an entry's win rate, 0..1, with its interval over deals."""
        return self._win_rate(self.entries[entry])

    def seconds(self, entry: str) -> float | None:
        """Return the CPU seconds a deal of an entry, where they are known."""
        times = [self.summaries[name].cpu_seconds_per_deal for name in self.entries[entry]]
        known = [time for time in times if time is not None]
        return float(np.mean(known)) if len(known) == len(times) else None

    def to_dict(self) -> dict[str, Any]:
        """Return the figures as JSON's values."""
        return {
            "format": "quarante-voleurs-comparison",
            "version": 1,
            "suite": str(self.frame["suite"].iloc[0]),
            "deals": int(self.frame["index"].nunique()),
            "confidence": CONFIDENCE,
            "players": [asdict(summary) for summary in self.summaries.values()],
            "groups": [asdict(group) for group in self.groups.values()],
            "pairs": [asdict(pair) for pair in self.pairs],
            "notes": list(self.frame.attrs.get("notes", [])),
        }


def _listed(names: Iterable[str]) -> str:
    return ", ".join(names)


# --------------------------------------------------------------------------------------- tables


def group_cells(groups: Mapping[str, Group]) -> list[list[str]]:
    """Return the table of agents trained several times, the heading first."""
    cells = [
        [
            "agent",
            "training seeds",
            "mean score (over seeds)",
            "IQM, % (stratified)",
            "IQM, % (seeds and deals)",
            "win rate (over deals)",
            "seeds' win rates",
        ]
    ]
    cells += [
        [
            group.name,
            str(group.runs.seeds),
            interval_text(group.mean_score),
            interval_text(group.runs.iqm, 100),
            interval_text(group.runs.iqm_trained_again, 100),
            interval_text(group.win_rate, 100, " %", digits=2),
            f"{100 * min(group.win_rates):.1f} to {100 * max(group.win_rates):.1f} %",
        ]
        for group in groups.values()
    ]
    return cells


def pair_cells(pairs: Sequence[Pair]) -> list[list[str]]:
    """Return the table of paired differences, the heading first."""
    cells = [
        [
            "first - second",
            "score",
            "ahead / level / behind",
            "sign test",
            "cards up",
            "win rate",
            "more wins: first / second",
            "sign test of wins",
        ]
    ]
    for pair in pairs:
        score, wins = pair.score, pair.wins
        cells.append(
            [
                f"{pair.first} - {pair.second}",
                _signed(score.difference),
                f"{score.higher} / {score.equal} / {score.lower}",
                p_text(score.p_value),
                _signed(pair.cards.difference),
                _signed(wins.difference, 100, " %"),
                f"{wins.higher} / {wins.lower}",
                p_text(wins.p_value),
            ]
        )
    return cells


def _signed(interval: Interval, scale: float = 1.0, unit: str = "") -> str:
    estimate, low, high = (
        f"{scale * value:+.1f}" for value in (interval.estimate, interval.low, interval.high)
    )
    return f"{estimate} ({low} to {high}){unit}"


# --------------------------------------------------------------------------------------- report


def report_blocks(
    comparison: Comparison,
    learning: Mapping[str, Sequence[Sequence[Mapping[str, Any]]]] | None = None,
    command: str = "",
) -> list[Block]:
    """Return what the report says.

    Args:
        comparison: The figures.
        learning: For agents by name the evaluations of their training runs.
        command: The command line that made it.
    """
    frame = comparison.frame
    deals = deals_text(frame)
    level = f"{100 * CONFIDENCE:.0f} %"
    blocks: list[Block] = [
        Paragraph(
            f"Results on {deals}. Intervals ({level}) are over deals, means by bootstrap and win"
            " rates by Wilson's formula; they say nothing about training again."
        ),
        Table(table_cells(comparison.summaries)),
        Bullets(
            [
                f"{name} sees {information_text(summary.environment)}."
                for name, summary in comparison.summaries.items()
            ]
        ),
    ]
    notes = frame.attrs.get("notes", [])
    if notes:
        blocks.append(Paragraph("These results differ in " + "; ".join(notes) + "."))
    if comparison.groups:
        blocks += [
            Heading("Training again"),
            Table(group_cells(comparison.groups)),
            Paragraph(
                "IQM: the interquartile mean of all scores in per cent of 1,360. The stratified"
                " interval is Agarwal et al.'s (2021), with deals as tasks; it takes the games of"
                " one training seed as independent, which they are not, and so is too short. The"
                " other draws training seeds and deals; with few seeds it is too short as well."
                " The mean score has Student's interval over seeds, the win rate one over deals."
            ),
        ]
    if comparison.pairs:
        blocks += [
            Heading("Deal by deal"),
            Table(pair_cells(comparison.pairs)),
            Paragraph(
                "Differences on the same deals. The sign test of wins is McNemar's exact test. Each"
                " interval and test stands for itself: of twenty pairs that do not differ, one is"
                " expected outside."
            ),
        ]
    blocks += [Heading("Scores"), *_score_pictures(comparison, deals)]
    if learning:
        title = "Mean score in training"
        blocks += [
            Heading("Learning"),
            _picture("learning.png", title, lambda dark: learning_curves_plot(learning, "", dark)),
            Paragraph("Bands reach from the lowest training seed to the highest."),
        ]
    blocks += [Heading("Deals"), *_games(comparison)]
    if command:
        blocks += [Heading("To repeat it"), Code(command)]
    return blocks


def _picture(file: str, alt: str, draw: Callable[[bool], bytes], narrow: bool = False) -> Picture:
    return Picture(file, alt, draw(False), draw(True), narrow)


def _score_pictures(comparison: Comparison, deals: str) -> list[Block]:
    entries = list(comparison.entries)
    means = {name: comparison.values(name, "score") for name in entries}
    games = {
        name: comparison.games(players, "score") for name, players in comparison.entries.items()
    }
    intervals = {name: _mean(comparison, name) for name in entries}
    title = f"Scores on {deals}"
    flat = {name: matrix.ravel() for name, matrix in games.items()}
    blocks: list[Block] = [
        _picture("scores.png", title, lambda dark: score_plot(flat, intervals, title, dark)),
        _picture(
            "profile.png",
            "Performance profiles: the share of games above each score",
            lambda dark: profile_plot(games, "Performance profiles", dark),
        ),
    ]
    times = {name: comparison.seconds(name) for name in entries}
    points = {
        name: (time, comparison.win_rate(name)) for name, time in times.items() if time is not None
    }
    if len(points) > 1:
        families = {name: re.split("[:,]", name)[0] for name in points}
        title = "Wins against time"
        blocks.append(
            _picture("effort.png", title, lambda dark: effort_plot(points, families, title, dark))
        )
    for number, pair in enumerate(comparison.pairs[:MOST_PAIR_PLOTS], start=1):
        names = (pair.first, pair.second)
        title = f"{pair.second} against {pair.first}, deal by deal"

        def draw(dark: bool, names: tuple[str, str] = names, title: str = title) -> bytes:
            return pair_plot(means[names[0]], means[names[1]], names, title, dark)

        blocks.append(_picture(f"pair-{number}.png", title, draw, narrow=True))
    if len(comparison.pairs) > MOST_PAIR_PLOTS:
        blocks.append(
            Paragraph(f"Of {len(comparison.pairs)} pairs the first {MOST_PAIR_PLOTS} are drawn.")
        )
    return blocks


def _mean(comparison: Comparison, entry: str) -> Interval:
    if entry in comparison.summaries:
        return comparison.summaries[entry].mean_score
    return mean_interval(comparison.values(entry, "score"))


def _games(comparison: Comparison) -> list[Block]:
    """The table of all deals, each score leading to its game where that was recorded."""
    frame = comparison.frame
    columns = [
        (player, seed) for player, summary in comparison.summaries.items() for seed in summary.seeds
    ]
    heading = ["deal", "code"]
    for player, seed in columns:
        several = len(comparison.summaries[player].seeds) > 1
        heading.append(f"{player}, seed {seed}" if several else player)
    place = {key: k for k, key in enumerate(columns, start=2)}
    rows = [heading]
    games: dict[tuple[int, int], Playthrough] = {}
    for row in frame.sort_values("index", kind="stable").to_dict("records"):
        index = row["index"]
        if index == len(rows) - 1:
            rows.append([str(index + 1), row["code"], *[""] * len(columns)])
        column = place[row["player"], row["seed"]]
        rows[index + 1][column] = f"{row['score']}{' won' if row['won'] else ''}"
        if isinstance(row.get(ACTIONS), str):
            games[index + 1, column] = row_playthrough({str(key): row[key] for key in row})
    text = (
        "Scores lead to the games that were recorded."
        if games
        else "No games were recorded: agents.benchmark --record keeps them."
    )
    return [Paragraph(text), Games(rows, games)]


# --------------------------------------------------------------------------------- command line


def read_runs(paths: Sequence[str | Path]) -> list[list[dict[str, Any]]]:
    """Read the evaluations of training runs.

    Args:
        paths: Folders of ``agents.train``: of a run, or of several (``runs/NAME`` with its
            ``seed-0``, ...).

    Raises:
        ResultsError: A folder holds no evaluations, or a line is none.
        OSError: A file cannot be read.
    """
    runs = []
    for path in map(Path, paths):
        files = [path / "evaluations.jsonl"]
        if not files[0].is_file():
            files = sorted(path.glob("*/evaluations.jsonl"))
        if not files:
            raise ResultsError(f"{path} holds no evaluations.jsonl, nor does a folder in it")
        for file in files:
            run = []
            lines = file.read_text(encoding="utf-8").splitlines()
            for number, line in enumerate(lines, start=1):
                try:
                    point = json.loads(line)
                    [float(point[key]) for key in ("steps", "seconds", "mean_score")]
                except (ValueError, KeyError, TypeError) as error:
                    raise ResultsError(f"{file}, line {number}: no evaluation: {error}") from None
                run.append(point)
            runs.append(run)
    return runs


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Say what is wrong in one line, without the usage."""
        self.exit(2, f"{self.prog}: {message}\n")


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="python -m agents.compare",
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
    parser.add_argument("--baseline", metavar="NAME", help="compare with this player or group only")
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


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit status.

    Raises:
        SystemExit: With status 2, when something that was asked for cannot be done.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    parser = _parser()
    options = parser.parse_args(arguments)
    try:
        for name, *rest in (*options.group, *options.learning):
            if not rest:
                raise ValueError(f"{name!r} stands alone: NAME and what belongs to it")
        frame = load_results(options.results, [ALLOWED[name] for name in options.allow])
        groups = {name: players for name, *players in options.group}
        comparison = Comparison(frame, groups, options.baseline)
        learning = {name: read_runs(runs) for name, *runs in options.learning}
        if options.out is not None:
            command = shlex.join(["python", "-m", "agents.compare", *arguments])
            title = f"Comparison on {deals_text(frame)}"
            page = write_page(options.out, title, report_blocks(comparison, learning, command))
            write_json(options.out / COMPARISON, comparison.to_dict())
    except (ValueError, OSError) as error:
        parser.error(" ".join(str(error).split()))
    print(f"Results on {deals_text(frame)}:\n")
    print(text_rows(table_cells(comparison.summaries)))
    if comparison.groups:
        print(text_rows(group_cells(comparison.groups)))
    if comparison.pairs:
        print(text_rows(pair_cells(comparison.pairs)))
    if options.out is not None:
        print(f"report: {page}")
    return 0


__all__ = [
    "Comparison",
    "Group",
    "Pair",
    "PlayerSummary",
    "differences",
    "group_cells",
    "load_results",
    "main",
    "pair_cells",
    "read_runs",
    "report_blocks",
]

if __name__ == "__main__":
    sys.exit(main())
