"""The report of a training run: what its agent can do, said with intervals, and how to repeat it.

One page, ``report.html``, has all in it (styles and plots too, so that the file can be sent), and
``report.md`` says the same beside ``scores.png`` and ``learning.png``. Both are made from one list
of blocks, so that they cannot come to differ.
"""

from __future__ import annotations

import base64
import html
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import pandas as pd

from agents.plots import learning_plot, score_plot
from agents.stats import CONFIDENCE, PairedDifference
from agents.tables import (
    PlayerSummary,
    compare_scores,
    deal_values,
    deals_text,
    interval_text,
    markdown_rows,
    markdown_text,
    summarize,
    table_cells,
)
from qv_env.files import write_bytes, write_text

REPORT_HTML, REPORT_MARKDOWN = "report.html", "report.md"

PLAYS = {
    "sample": "its actions are sampled from the policy's probabilities",
    "argmax": "it takes the likeliest action, even where that goes round in circles",
    "argmax-new": "it takes the likeliest action that does not return to a position already seen"
    " in the episode; where there is none, it goes to the one seen least often",
}


def write_report(
    folder: Path,
    *,
    title: str,
    frame: pd.DataFrame,
    agent: str,
    baselines: Sequence[str] = ("greedy", "random"),
    curve: Sequence[Mapping[str, Any]] = (),
    config: Mapping[str, Any] | None = None,
    playthrough_path: str | Path | None = None,
    commands: Sequence[str] = (),
    notes: Sequence[str] = (),
) -> Path:
    """Write ``report.html`` and ``report.md``, with its plots, into a folder.

    Args:
        folder: Where to; made where it is missing. Reports that it has are replaced.
        title: The report's title.
        frame: What ``agents.benchmark.run_benchmark`` returned for the agent and the baselines.
        agent: The agent's name in it.
        baselines: Other players in it; the headline compares the agent with the first.
        curve: Evaluations during training, a dict each: ``steps``, ``mean_score``, and where
            known ``low``, ``high``, ``seconds``, ``play`` and ``suite``.
        config: The run's settings, printed as JSON.
        playthrough_path: A playthrough file of the agent, as a command would name it.
        commands: The command lines that repeat it.
        notes: Remarks, a line each.

    Returns:
        The path of ``report.html``.

    Raises:
        ValueError: A player is not in the frame, the players did not play the same deals, or no
            baseline is named.
        OSError: The folder cannot be written to.
    """
    if not baselines:
        raise ValueError("a report compares the agent with at least one baseline")
    summaries = summarize(frame)
    for name in (agent, *baselines):
        if name not in summaries:
            raise ValueError(f"the results have no player {name!r}")
    blocks = _blocks(
        frame, summaries, agent, baselines, curve, config, playthrough_path, commands, notes
    )
    folder.mkdir(parents=True, exist_ok=True)
    for block in blocks:
        if isinstance(block, _Picture):
            write_bytes(folder / block.file, block.light)
    write_text(folder / REPORT_MARKDOWN, _markdown(title, blocks))
    write_text(folder / REPORT_HTML, _html(title, blocks))
    return folder / REPORT_HTML


# -------------------------------------------------------------------------------- what is said


def claim(
    difference: PairedDifference, agent: PlayerSummary, baseline: PlayerSummary, deals: str
) -> str:
    """Say whether an agent's mean score is above a baseline's, and how sure that is.

    Three cases: the paired difference's interval lies above 0, below 0, or around it. In the last,
    the deals do not tell the two apart, which is not said to mean that they are equal.

    Args:
        difference: The agent's scores minus the baseline's, deal by deal.
        agent: The agent's figures.
        baseline: The baseline's.
        deals: Which deals those are, for the sentence.
    """
    mean = difference.difference
    if mean.low > 0:
        verdict = f"{agent.player} beats {baseline.player}"
        reading = "The interval lies above 0."
    elif mean.high < 0:
        verdict = f"{agent.player} does not beat {baseline.player}: it scores less"
        reading = "The interval lies below 0."
    else:
        verdict = f"{agent.player} and {baseline.player} are not told apart"
        reading = (
            "The interval includes 0: these deals neither show that the agent's mean score is"
            " higher nor that it is lower."
        )
    level = f"{100 * CONFIDENCE:.0f} % interval"
    return (
        f"{verdict}. On {deals}, {agent.player} scores {interval_text(agent.mean_score)} on average"
        f" and {baseline.player} {interval_text(baseline.mean_score)}, each with its {level}. Deal"
        f" by deal the difference is {mean.estimate:+.1f} points ({level} {mean.low:+.1f} to"
        f" {mean.high:+.1f}). {reading} {agent.player} is ahead on {difference.higher:,} deals,"
        f" behind on {difference.lower:,}, level on {difference.equal:,} (two-sided sign test:"
        f" {_p_text(difference.p_value)})."
    )


def _p_text(p_value: float) -> str:
    return "p < 0.0001" if p_value < 0.0001 else f"p = {p_value:.4f}"


def play_text(settings: Mapping[str, Any]) -> str:
    """Say which kind of play an agent's settings describe, with all that they say."""
    said = ", ".join(f"{key}={value}" for key, value in settings.items()) or "no settings"
    play = settings.get("play")
    if play not in PLAYS:
        return f"Kind of play: {said}."
    how = PLAYS[str(play)]
    temperature = settings.get("temperature")
    if play == "sample" and temperature is not None:
        plain = float(temperature) == 1.0
        how += ", as they are (temperature 1)" if plain else f" at temperature {temperature}"
    return f"Kind of play: {play}: {how} ({said})."


# ---------------------------------------------------------------------------------- the blocks


@dataclass(frozen=True)
class _Heading:
    text: str


@dataclass(frozen=True)
class _Paragraph:
    text: str
    lead: bool = False


@dataclass(frozen=True)
class _List:
    items: Sequence[str]


@dataclass(frozen=True)
class _Table:
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class _Code:
    text: str
    summary: str = ""  # where there is one, a page shows it folded under this


@dataclass(frozen=True)
class _Picture:
    file: str
    alt: str
    light: bytes
    dark: bytes


_Block: TypeAlias = _Heading | _Paragraph | _List | _Table | _Code | _Picture


def _blocks(
    frame: pd.DataFrame,
    summaries: Mapping[str, PlayerSummary],
    agent: str,
    baselines: Sequence[str],
    curve: Sequence[Mapping[str, Any]],
    config: Mapping[str, Any] | None,
    playthrough_path: str | Path | None,
    commands: Sequence[str],
    notes: Sequence[str],
) -> list[_Block]:
    deals = deals_text(frame)
    claims = [
        claim(compare_scores(frame, agent, name), summaries[agent], summaries[name], deals)
        for name in baselines
    ]
    blocks: list[_Block] = [
        _Paragraph(claims[0], lead=True),
        _Paragraph(play_text(summaries[agent].settings)),
        _Paragraph(
            "The intervals are about which deals were dealt and how the players' chances fell."
            " They say nothing about training again with another seed."
        ),
        _Heading("Results"),
        _Table(table_cells(summaries)),
        *(_Paragraph(text) for text in claims[1:]),
    ]
    scores = {name: deal_values(frame, name, "score") for name in summaries}
    means = {name: summary.mean_score for name, summary in summaries.items()}
    title = f"Scores on {deals}"
    blocks.append(
        _Picture(
            "scores.png",
            f"{title}: the share of deals at or below each score, for each player",
            score_plot(scores, means, title),
            score_plot(scores, means, title, dark=True),
        )
    )
    if curve:
        blocks += _learning(curve, {name: summaries[name] for name in baselines}, deals)
    if playthrough_path is not None:
        shown = shlex.quote(str(playthrough_path))
        blocks += [
            _Heading("A game to look at"),
            _Paragraph(f"One of the agent's games is in {playthrough_path}; in a terminal:"),
            _Code(f".venv/bin/python -m qv_env show {shown}"),
        ]
    if commands:
        blocks += [_Heading("To repeat it"), _Code("\n".join(commands))]
    if notes:
        blocks += [_Heading("Notes"), _List(notes)]
    if config is not None:
        written = json.dumps(config, indent=2, ensure_ascii=False, default=str)
        blocks += [_Heading("Settings"), _Code(written, summary="the run's settings")]
    return blocks


def _learning(
    curve: Sequence[Mapping[str, Any]], baselines: Mapping[str, PlayerSummary], deals: str
) -> list[_Block]:
    levels = {name: summary.mean_score for name, summary in baselines.items()}
    last = max(curve, key=lambda point: point["steps"])
    seconds = last.get("seconds")
    length = f"{last['steps']:,} steps" + ("" if seconds is None else f" in {seconds:,.0f} seconds")
    suites = ", ".join(dict.fromkeys(str(point["suite"]) for point in curve if "suite" in point))
    text = (
        f"Training took {length}. Each point is an evaluation during training"
        + (f", on deals of {suites}," if suites else " on held-out deals")
        + f" with its interval; the level lines are the other players' means on {deals}."
    )
    title = "Mean score in training"
    return [
        _Heading("Learning"),
        _Picture(
            "learning.png",
            f"{title}: mean score on held-out deals against steps trained",
            learning_plot(curve, levels, title),
            learning_plot(curve, levels, title, dark=True),
        ),
        _Paragraph(text),
    ]


# ------------------------------------------------------------------------------------ Markdown


def _markdown(title: str, blocks: Sequence[_Block]) -> str:
    parts = [f"# {markdown_text(title)}", *(_markdown_block(block) for block in blocks)]
    return "\n\n".join(part.rstrip("\n") for part in parts) + "\n"


def _markdown_block(block: _Block) -> str:
    match block:
        case _Heading(text):
            return f"## {markdown_text(text)}"
        case _Paragraph(text, lead):
            return f"**{markdown_text(text)}**" if lead else markdown_text(text)
        case _List(items):
            return "\n".join(f"- {markdown_text(item)}" for item in items)
        case _Table(rows):
            return markdown_rows(rows)
        case _Code(text):
            longest = max((len(run) for run in re.findall("`+", text)), default=0)
            fence = "`" * max(3, longest + 1)
            return f"{fence}\n{text}\n{fence}"
        case _Picture(file, alt):
            return f"![{markdown_text(alt)}]({file})"


# ---------------------------------------------------------------------------------------- HTML

_STYLE = """
:root { color-scheme: light dark; --text: #222; --page: #fff; --box: #f3f4f6; --line: #d4d7dc; }
@media (prefers-color-scheme: dark) {
  :root { --text: #e8e8e8; --page: #1b1d21; --box: #272a30; --line: #4a4d55; }
}
body { margin: 0 auto; padding: 1rem; max-width: 52rem; font: 1rem/1.55 system-ui, sans-serif;
  color: var(--text); background: var(--page); overflow-wrap: break-word; }
h1 { font-size: 1.6rem; line-height: 1.25; } h2 { font-size: 1.2rem; margin-top: 2rem; }
.lead { padding: .8rem 1rem; background: var(--box); border-left: .3rem solid #0072b2; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .35rem .6rem; border-bottom: 1px solid var(--line); text-align: right; }
th { vertical-align: bottom; } td { white-space: nowrap; }
th:first-child, td:first-child { text-align: left; white-space: normal; min-width: 6rem; }
pre { padding: .7rem 1rem; background: var(--box); overflow-x: auto; font-size: .85rem; }
img { max-width: 100%; height: auto; }
"""


_LEAD = ' class="lead"'


def _html(title: str, blocks: Sequence[_Block]) -> str:
    body = "\n".join(_html_block(block) for block in blocks)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{html.escape(title)}</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>{html.escape(title)}</h1>
{body}
</body>
</html>
"""


def _html_block(block: _Block) -> str:
    match block:
        case _Heading(text):
            return f"<h2>{html.escape(text)}</h2>"
        case _Paragraph(text, lead):
            return f"<p{_LEAD if lead else ''}>{html.escape(text)}</p>"
        case _List(items):
            return "<ul>" + "".join(f"<li>{html.escape(item)}</li>" for item in items) + "</ul>"
        case _Table(rows):
            return _html_table(rows)
        case _Code(text, summary):
            code = f"<pre><code>{html.escape(text)}</code></pre>"
            if not summary:
                return code
            return f"<details><summary>{html.escape(summary)}</summary>{code}</details>"
        case _Picture(_, alt, light, dark):
            return (
                "<picture>"
                f'<source media="(prefers-color-scheme: dark)" srcset="{_data_uri(dark)}">'
                f'<img alt="{html.escape(alt)}" src="{_data_uri(light)}">'
                "</picture>"
            )


def _html_table(rows: Sequence[Sequence[str]]) -> str:
    heading, *body = rows
    head = "".join(f'<th scope="col">{html.escape(cell)}</th>' for cell in heading)
    lines = (
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in body
    )
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table></div>"
    )


def _data_uri(png: bytes) -> str:
    return "data:image/png;base64," + base64.b64encode(png).decode("ascii")
