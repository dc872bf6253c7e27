"""A comparison's report: tables, pictures and a page with all games."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field

from qv_env import Playthrough
from qv_env.evaluation.comparison import Comparison, Group, Pair
from qv_env.evaluation.reports.page import (
    Block,
    Bullets,
    Code,
    GameTable,
    Heading,
    Paragraph,
    Picture,
    Table,
)
from qv_env.evaluation.reports.plots import (
    effort_plot,
    learning_curves_plot,
    pair_plot,
    profile_plot,
    score_plot,
)
from qv_env.evaluation.reports.tables import deals_text, interval_text, p_text, table_cells
from qv_env.evaluation.results import (
    ACTIONS,
    EVALUATIONS,
    ResultsError,
    information_text,
    row_playthrough,
)
from qv_env.evaluation.stats import CONFIDENCE, Interval, mean_interval
from qv_env.rules import MAX_SCORE
from qv_env.schema import Strict, checked_lines
from qv_env.strict_json import FormatError

COMPARISON = "comparison.json"

MOST_PAIR_PLOTS = 6


# --------------------------------------------------------------------------------------- tables


def group_cells(groups: Mapping[str, Group]) -> list[list[str]]:
    """Return the table of agents trained with several seeds, with a header row."""
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
    """Return the table of paired differences, with a header row."""
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
    """Return the content of the report.

    Args:
        comparison: The figures.
        learning: The evaluations of agents' training runs, by agent name.
        command: The command line that makes the report.
    """
    frame = comparison.results.frame
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
    notes = comparison.results.notes
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
    """Return the table of all deals, with links from scores to recorded games."""
    frame = comparison.results.frame
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
    return [Paragraph(text), GameTable(rows, games)]


# --------------------------------------------------------------------------------- command line


class Evaluation(Strict):
    """What is read of a line of a run's ``evaluations.jsonl``; there may be more."""

    model_config = ConfigDict(extra="ignore")

    steps: Annotated[int, Field(ge=0)]
    seconds: Annotated[float, Field(ge=0)]
    mean_score: Annotated[float, Field(ge=0, le=MAX_SCORE)]
    low: float | None = None
    high: float | None = None


def read_runs(paths: Sequence[str | Path]) -> list[list[dict[str, Any]]]:
    """Read the evaluations of training runs.

    Args:
        paths: Folders of ``agents.train``: of one run, or of several (``runs/NAME`` with its
            ``seed-0``, ...).

    Raises:
        ResultsError: A folder holds no evaluations, or a line is not a valid evaluation.
        OSError: A file cannot be read.
    """
    runs = []
    for path in map(Path, paths):
        files = [path / EVALUATIONS]
        if not files[0].is_file():
            files = sorted(path.glob(f"*/{EVALUATIONS}"))
        if not files:
            raise ResultsError(f"{path} holds no {EVALUATIONS}, nor does a folder in it")
        for file in files:
            try:
                lines = checked_lines(Evaluation, file.read_bytes(), str(file))
            except FormatError as error:
                raise ResultsError(str(error)) from None
            if not lines:
                raise ResultsError(f"{file} holds no evaluation yet")
            runs.append([point for point, _ in lines])
    return runs
