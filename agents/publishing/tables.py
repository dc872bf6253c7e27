"""The tables of the committed results: the scoreboard as Markdown, as CSV and in the README."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from agents.publishing.entries import CSV, MARKDOWN, README, ROOT, Entry
from qv_env import MAX_EPISODE_STEPS
from qv_env.evaluation.comparison import Comparison
from qv_env.evaluation.reports.comparison import group_cells
from qv_env.evaluation.reports.tables import interval_text, markdown_rows, time_text
from qv_env.evaluation.results import Results, ResultsError, information_text
from qv_env.rules import MAX_SCORE
from qv_env.suites import SUITE_SIZES

_END = "<!-- end of scoreboard -->"


# --------------------------------------------------------------------------------------- tables


def scoreboard_cells(entries: Sequence[Entry]) -> list[list[str]]:
    """Return the scoreboard of one suite, with a header row."""
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
    """Return the table of one suite for the README, in Markdown, without constant columns."""
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
                Results(pd.concat([row.results.frame for row in rows], ignore_index=True)), groups
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
    """Return the agents with several training seeds, with their players."""
    groups: dict[str, list[str]] = {}
    for entry in entries:
        if entry.about["group"]:
            groups.setdefault(entry.about["group"], []).append(entry.summary.player)
    return {name: players for name, players in groups.items() if len(players) > 1}


def csv_text_of(entries: Sequence[Entry]) -> str:
    """Return the content of ``docs/scoreboard.csv``: a line per row, with unrounded numbers."""
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
        ResultsError: A scoreboard has no end marker, or its suite has no results.
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


def pages(entries: Sequence[Entry], root: Path = ROOT) -> dict[Path, str]:
    """Return the files made from the results, with their required contents."""
    texts = {root / MARKDOWN: markdown_text_of(entries), root / CSV: csv_text_of(entries)}
    readme = root / README
    if readme.is_file():
        text = readme.read_text(encoding="utf-8")
        replaced = readme_text_of(text, entries)
        if "<!-- scoreboard " in text:
            texts[readme] = replaced
    return texts
