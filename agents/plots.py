"""Plots of results, as PNG files: how scores are spread, and how they grew in training."""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from agents.stats import Interval
from qv_env.rules import MAX_SCORE

# Okabe and Ito's colours, told apart by colour-blind people as well; black and yellow are left
# out since one of them vanishes on each background. Line styles tell the same apart in grey.
_LIGHT_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")
_DARK_COLORS = ("#56B4E9", "#E69F00", "#2BC09A", "#E59AC4", "#F0E442", "#F08A4B")
_STYLES = ("-", "--", "-.", ":")

_DPI = 150
_LONGEST_LABEL = 60


@dataclass(frozen=True)
class _Theme:
    colors: Sequence[str]
    text: str
    faint: str
    background: str


_THEMES = {
    False: _Theme(_LIGHT_COLORS, "#222222", "#d0d0d0", "#ffffff"),
    True: _Theme(_DARK_COLORS, "#e8e8e8", "#4a4a4a", "#1b1d21"),
}


def _label(text: str) -> str:
    """A text as matplotlib shows it whole.

    Dollars would begin a formula, what begins with "_" is left out of legends, and long texts do
    not fit: these are cut in the middle.
    """
    if len(text) > _LONGEST_LABEL:
        half = _LONGEST_LABEL // 2 - 1
        text = f"{text[:half]}…{text[-half:]}"
    text = text.replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def _styled(axes: Axes, theme: _Theme) -> None:
    axes.set_facecolor(theme.background)
    for name, spine in axes.spines.items():
        spine.set_visible(name in ("left", "bottom"))
        spine.set_color(theme.text)
    axes.tick_params(colors=theme.text)
    axes.grid(True, color=theme.faint, linewidth=0.6)
    axes.set_axisbelow(True)
    for text in (axes.xaxis.label, axes.yaxis.label, axes.title):
        text.set_color(theme.text)


def _png(figure: Figure) -> bytes:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=_DPI, facecolor=figure.get_facecolor())
    return buffer.getvalue()


def _look(theme: _Theme, place: int) -> tuple[str, str]:
    """The colour and line style of the curve at a place; no two alike among the first twelve."""
    return theme.colors[place % len(theme.colors)], _STYLES[place % len(_STYLES)]


def score_plot(
    scores: Mapping[str, np.ndarray],
    means: Mapping[str, Interval],
    title: str = "",
    dark: bool = False,
) -> bytes:
    """Draw how each player's scores are spread, and the means with their intervals.

    Args:
        scores: Each player's final scores, 0..1360, in the order of the legend.
        means: Each player's mean score.
        title: A line above.
        dark: Whether the background is dark.

    Returns:
        A PNG file.
    """
    theme = _THEMES[dark]
    rows = 0.1 + 0.5 * len(scores)  # inches
    figure = Figure(figsize=(8, 4.4 + rows), layout="constrained", facecolor=theme.background)
    spread, averages = figure.subplots(2, 1, sharex=True, height_ratios=[4.0, rows])
    for place, (player, values) in enumerate(scores.items()):
        color, style = _look(theme, place)
        ordered = np.sort(np.asarray(values, dtype=float))
        share = np.arange(len(ordered) + 1) / len(ordered)
        # The curve begins at 0 and runs on to the right edge, as a distribution does.
        spread.step(
            np.concatenate([ordered[:1], ordered, [MAX_SCORE]]),
            np.concatenate([[0.0], share[1:], [1.0]]),
            where="post",
            color=color,
            linestyle=style,
            linewidth=1.8,
        )
        mean = means[player]
        # Each row is the legend as well: a piece of the player's line, its name, its figures; the
        # mean stands below them, where no name can cover it.
        across = averages.get_yaxis_transform()
        averages.plot(
            [0.01, 0.06],
            [place - 0.2, place - 0.2],
            color=color,
            linestyle=style,
            linewidth=1.8,
            transform=across,
        )
        averages.text(
            0.07,
            place - 0.2,
            f"{_label(player)}: {mean.estimate:.1f} ({mean.low:.1f} to {mean.high:.1f})",
            transform=across,
            color=theme.text,
            va="center",
            fontsize=9,
        )
        averages.plot([mean.low, mean.high], [place + 0.2] * 2, color=color, linewidth=3, alpha=0.6)
        averages.plot([mean.estimate], [place + 0.2], "o", color=color, markersize=6)
    spread.set_ylabel("share of deals at or below")
    spread.set_ylim(0, 1.02)
    spread.set_title(_label(title))
    averages.set_xlabel("score, and its mean with 95 % interval (0 to 1,360)")
    averages.set_ylim(len(scores) - 0.5, -0.6)
    averages.set_yticks([])
    averages.set_xlim(-10, MAX_SCORE)
    _styled(spread, theme)
    _styled(averages, theme)
    return _png(figure)


def learning_plot(
    curve: Iterable[Mapping[str, Any]],
    baselines: Mapping[str, Interval],
    title: str = "",
    dark: bool = False,
) -> bytes:
    """Draw a learning curve: the mean score on held-out deals against the steps trained.

    Args:
        curve: Evaluations: ``steps``, ``mean_score`` and, where known, ``low``, ``high`` and
            ``play``; each kind of play gets a line.
        baselines: Mean scores of other players, drawn as level lines with their intervals.
        title: A line above.
        dark: Whether the background is dark.

    Returns:
        A PNG file.
    """
    theme = _THEMES[dark]
    figure = Figure(figsize=(8, 4.2), layout="constrained", facecolor=theme.background)
    axes = figure.subplots()
    lines: dict[str, list[tuple[float, float, float, float]]] = {}
    for point in curve:
        mean = float(point["mean_score"])
        low, high = (
            mean if point.get(end) is None else float(point[end]) for end in ("low", "high")
        )
        kind = str(point.get("play") or "")
        lines.setdefault(kind, []).append((float(point["steps"]), mean, low, high))
    for place, (kind, points) in enumerate(lines.items()):
        color, style = _look(theme, place)
        steps, mean_line, low_line, high_line = np.array(sorted(points)).T
        axes.fill_between(steps, low_line, high_line, color=color, alpha=0.2, linewidth=0)
        label = _label(f"agent ({kind})" if kind else "agent")
        axes.plot(steps, mean_line, style, color=color, marker="o", markersize=3.5, label=label)
    for place, (name, level) in enumerate(baselines.items(), start=len(lines)):
        color, style = _look(theme, place)
        axes.axhspan(level.low, level.high, color=color, alpha=0.12, linewidth=0)
        label = f"{_label(name)}: {level.estimate:.1f}"
        axes.axhline(level.estimate, linestyle=style, color=color, linewidth=1.5, label=label)
    axes.set_xlabel("environment steps trained")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axes.set_xlim(left=0)
    axes.set_ylabel("mean score on held-out deals")
    axes.set_ylim(bottom=0)
    axes.set_title(_label(title))
    _styled(axes, theme)
    if lines or baselines:
        legend = axes.legend(frameon=False, labelcolor=theme.text, fontsize=9)
        legend.set_zorder(5)
    return _png(figure)
