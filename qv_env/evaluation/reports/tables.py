"""Tables of results as texts: for terminals and in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from qv_env.evaluation.results import LISTED
from qv_env.evaluation.stats import (
    CONFIDENCE,
    Interval,
)
from qv_env.evaluation.summary import PlayerSummary
from qv_env.rules import MAX_SCORE
from qv_env.suites import SUITE_SIZES

# --------------------------------------------------------------------------------------- texts


def interval_text(interval: Interval, scale: float = 1.0, unit: str = "", digits: int = 1) -> str:
    """Return an interval for people, such as ``345.1 (338.0 to 352.3)``.

    Args:
        interval: The interval.
        scale: The factor of its numbers, such as 100 for per cent.
        unit: The text after the last number.
        digits: Digits after the decimal point.
    """
    estimate, low, high = (
        f"{scale * value:.{digits}f}" for value in (interval.estimate, interval.low, interval.high)
    )
    return f"{estimate} ({low} to {high}){unit}"


def table_cells(summaries: Mapping[str, PlayerSummary]) -> list[list[str]]:
    """Return the table of results as rows of texts, the first one the header."""
    level = f"{100 * CONFIDENCE:.0f} % interval"
    cells = [
        [
            "player",
            f"mean score ({level})",
            f"% of {MAX_SCORE:,}",
            "wins",
            f"win rate ({level})",
            f"cards up ({level})",
            "steps",
            "truncated",
            "CPU s a deal",
        ]
    ]
    cells += [
        [
            summary.player,
            interval_text(summary.mean_score),
            f"{100 * summary.share_of_maximum:.1f} %",
            f"{summary.wins:,} of {summary.games:,}",
            interval_text(summary.win_rate, 100, " %", digits=2),
            interval_text(summary.mean_foundation_cards),
            f"{summary.mean_steps:.1f}",
            f"{100 * summary.truncated:.1f} %",
            time_text(summary.cpu_seconds_per_deal),
        ]
        for summary in summaries.values()
    ]
    return cells


def time_text(seconds: float | None) -> str:
    """Return seconds per deal with two significant digits, such as ``0.28``; "" if unknown."""
    if seconds is None:
        return ""
    if seconds >= 9.95:
        return f"{seconds:,.0f}"
    digits = 1 if seconds >= 0.995 else 2 if seconds >= 0.0995 else 3 if seconds >= 0.00995 else 4
    return f"{seconds:.{digits}f}"


_MARKDOWN = str.maketrans(
    {
        "&": "&amp;",
        "<": "&lt;",
        ">": "&gt;",
        "\n": " ",
        **{sign: "\\" + sign for sign in "\\`*_[]|#$~"},
    }
)


def markdown_text(text: str) -> str:
    """Return a text escaped so that Markdown shows it literally: one line, no markup, no HTML."""
    return text.translate(_MARKDOWN)


def markdown_table(summaries: Mapping[str, PlayerSummary]) -> str:
    """Return the table of results in Markdown."""
    return markdown_rows(table_cells(summaries))


def markdown_rows(rows: Sequence[Sequence[str]]) -> str:
    """Return rows as a Markdown table, its columns aligned for readers of the source.

    Args:
        rows: Rows of texts, the first one the header; all columns but the first are right-aligned.
    """
    heading, *body = ([markdown_text(cell) for cell in row] for row in rows)
    widths = [max(len(row[k]) for row in (heading, *body)) for k in range(len(heading))]

    def line(row: list[str]) -> str:
        first, *rest = (
            cell.rjust(width) if k else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        return "| " + " | ".join([first, *rest]) + " |"

    rule = "|" + "|".join("-" * (width + 1) + (":" if k else "-") for k, width in enumerate(widths))
    return "\n".join([line(heading), rule + "|", *(line(row) for row in body)]) + "\n"


def text_rows(rows: Sequence[Sequence[str]]) -> str:
    """Return rows, the first one the header, as an aligned table for a terminal."""
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.rjust(width) if k else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return "\n".join([lines[0], "-" * max(map(len, lines)), *lines[1:]]) + "\n"


def _only(frame: pd.DataFrame, column: str) -> Any:
    values = frame[column].unique()
    if len(values) != 1:
        raise ValueError(f"results of different {column}s do not belong in one summary")
    return values[0]


def deals_text(frame: pd.DataFrame) -> str:
    """Return a description of the rows' deals, such as ``the first 50 deals of test-1000``."""
    name, count = str(_only(frame, "suite")), int(frame["index"].max()) + 1
    deals = f"{count:,} deal{'' if count == 1 else 's'}"
    if name == LISTED:
        return deals
    low, colon, high = name.partition(":")
    size = int(high) - int(low) if colon else SUITE_SIZES.get(name, count)
    return f"the {deals} of {name}" if count == size else f"the first {deals} of {name}"


def seeds_text(frame: pd.DataFrame) -> str:
    """Return a description of the rows' seeds, such as ``seed 0`` or ``seeds 0, 1, 2``."""
    seeds = [str(seed) for seed in dict.fromkeys(frame["seed"])]
    if len(seeds) > 10:
        seeds = [*seeds[:3], "...", seeds[-1]]
    return f"seed{'s' if len(seeds) > 1 else ''} {', '.join(seeds)}"


def p_text(p_value: float) -> str:
    """Return a p-value for people, such as ``p = 0.0123``."""
    return "p < 0.0001" if p_value < 0.0001 else f"p = {p_value:.4f}"
