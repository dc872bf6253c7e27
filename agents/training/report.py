"""The report of a training run: the agent's results with intervals, and how to reproduce them.

``report.html`` is a single self-contained page, styles and plots included. ``report.md`` has the
same content, with its plots in ``scores.png`` and ``learning.png``. Both are rendered from the same
list of blocks, so their content cannot diverge.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.players.ppo import PLAYS
from qv_env.evaluation.reports.page import (
    Block,
    Bullets,
    Code,
    Heading,
    Paragraph,
    Picture,
    Table,
    write_page,
)
from qv_env.evaluation.reports.plots import learning_plot, score_plot
from qv_env.evaluation.reports.tables import deals_text, interval_text, p_text, table_cells
from qv_env.evaluation.results import Results
from qv_env.evaluation.stats import CONFIDENCE, PairedDifference
from qv_env.evaluation.summary import PlayerSummary, compare_scores, deal_values, summarize


@dataclass(frozen=True, kw_only=True)
class Report:
    """The content of a report of a training run.

    Attributes:
        title: The report's title.
        results: The benchmark of the agent and the baselines.
        agent: The agent's name in the results.
        baselines: Names of other players in the results; the headline compares the agent with the
            first of them.
        curve: Evaluations during training, one mapping each: ``steps``, ``mean_score`` and, if
            known, ``low``, ``high``, ``seconds``, ``play`` and ``suite``.
        config: The run's settings, printed as JSON.
        playthrough_path: A playthrough file of the agent, as it is written in a command line.
        commands: The command lines that reproduce the results.
        notes: Remarks, one line each.
    """

    title: str
    results: Results
    agent: str
    baselines: Sequence[str] = ("greedy", "random")
    curve: Sequence[Mapping[str, Any]] = ()
    config: Mapping[str, Any] | None = None
    playthrough_path: str | Path | None = None
    commands: Sequence[str] = ()
    notes: Sequence[str] = ()


def write_report(folder: Path, report: Report) -> Path:
    """Write ``report.html`` and ``report.md``, with its plots, to a folder.

    Args:
        folder: The folder; created if missing. An existing report is replaced.
        report: The report's content.

    Returns:
        The path of ``report.html``.

    Raises:
        ValueError: A player is not in the results, the players did not play the same deals, or no
            baseline is named.
        OSError: The folder cannot be written to.
    """
    if not report.baselines:
        raise ValueError("a report compares the agent with at least one baseline")
    summaries = summarize(report.results)
    for name in (report.agent, *report.baselines):
        if name not in summaries:
            raise ValueError(f"the results have no player {name!r}")
    return write_page(folder, report.title, _blocks(report, summaries))


# ------------------------------------------------------------------------------ the statements


def claim(
    difference: PairedDifference, agent: PlayerSummary, baseline: PlayerSummary, deals: str
) -> str:
    """Return a statement of whether an agent's mean score is above a baseline's, with evidence.

    There are three cases: the interval of the paired difference lies above 0, lies below 0, or
    includes 0. In the third case the statement is that these deals do not distinguish the two
    players, not that the players are equal.

    Args:
        difference: The agent's scores minus the baseline's, paired by deal.
        agent: The agent's summary.
        baseline: The baseline's summary.
        deals: A description of the deals, used in the statement.
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
        f" {p_text(difference.p_value)})."
    )


def play_text(settings: Mapping[str, Any]) -> str:
    """Return a sentence that describes an agent's kind of play and lists all its settings."""
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


def _blocks(report: Report, summaries: Mapping[str, PlayerSummary]) -> list[Block]:
    frame, agent = report.results.frame, report.agent
    deals = deals_text(frame)
    claims = [
        claim(compare_scores(frame, agent, name), summaries[agent], summaries[name], deals)
        for name in report.baselines
    ]
    blocks: list[Block] = [
        Paragraph(claims[0], lead=True),
        Paragraph(play_text(summaries[agent].settings)),
        Paragraph(
            "The intervals are about which deals were dealt and how the players' chances fell."
            " They say nothing about training again with another seed."
        ),
        Heading("Results"),
        Table(table_cells(summaries)),
        *(Paragraph(text) for text in claims[1:]),
    ]
    scores = {name: deal_values(frame, name, "score") for name in summaries}
    means = {name: summary.mean_score for name, summary in summaries.items()}
    title = f"Scores on {deals}"
    blocks.append(
        Picture(
            "scores.png",
            f"{title}: the share of deals at or below each score, for each player",
            score_plot(scores, means, title),
            score_plot(scores, means, title, dark=True),
        )
    )
    if report.curve:
        blocks += _learning(
            report.curve, {name: summaries[name] for name in report.baselines}, deals
        )
    if report.playthrough_path is not None:
        shown = shlex.quote(str(report.playthrough_path))
        blocks += [
            Heading("A game to look at"),
            Paragraph(f"One of the agent's games is in {report.playthrough_path}; in a terminal:"),
            Code(f".venv/bin/python -m qv_env show {shown}"),
        ]
    if report.commands:
        blocks += [Heading("To repeat it"), Code("\n".join(report.commands))]
    if report.notes:
        blocks += [Heading("Notes"), Bullets(report.notes)]
    if report.config is not None:
        written = json.dumps(report.config, indent=2, ensure_ascii=False, default=str)
        blocks += [Heading("Settings"), Code(written, summary="the run's settings")]
    return blocks


def _learning(
    curve: Sequence[Mapping[str, Any]], baselines: Mapping[str, PlayerSummary], deals: str
) -> list[Block]:
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
        Heading("Learning"),
        Picture(
            "learning.png",
            f"{title}: mean score on held-out deals against steps trained",
            learning_plot(curve, levels, title),
            learning_plot(curve, levels, title, dark=True),
        ),
        Paragraph(text),
    ]
