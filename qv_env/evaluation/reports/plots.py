"""Plots of results, as PNG files.

==========================  ================================================================
``score_plot``              the distributions of players' scores, and their means
``profile_plot``            performance profiles: the share of games above each score
``pair_plot``               two players deal by deal
``learning_plot``           one run's mean score against steps, with other players' levels
``learning_curves_plot``    agents trained with several seeds, against steps and time
``effort_plot``             win rates against the time that a deal takes
==========================  ================================================================
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from qv_env.evaluation.stats import Interval, clustered_proportion_interval
from qv_env.rules import MAX_SCORE

# Okabe and Ito's colours, which colour-blind people can tell apart; black and yellow are left out,
# since each is invisible on one of the backgrounds. Line styles distinguish them in greyscale.
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
    """Return a text in a form that matplotlib shows literally.

    Dollar signs would begin a formula, labels that begin with "_" are left out of legends, and
    long texts do not fit: they are shortened in the middle.
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
    """Return a figure as a PNG with 256 colours, which looks the same at a third of the size."""
    canvas = FigureCanvasAgg(figure)
    figure.set_dpi(_DPI)
    canvas.draw()
    image = Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB")
    buffer = io.BytesIO()
    image.quantize(256, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE).save(buffer, "png")
    return buffer.getvalue()


def _look(theme: _Theme, place: int) -> tuple[str, str]:
    """Return the colour and line style of a curve; the first twelve are all different."""
    return theme.colors[place % len(theme.colors)], _STYLES[place % len(_STYLES)]


def score_plot(
    scores: Mapping[str, np.ndarray],
    means: Mapping[str, Interval],
    title: str = "",
    dark: bool = False,
) -> bytes:
    """Draw the distribution of each player's scores, and the means with their intervals.

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
        # The curve begins at 0 and continues to the right edge, as a distribution function does.
        spread.step(
            np.concatenate([ordered[:1], ordered, [MAX_SCORE]]),
            np.concatenate([[0.0], share[1:], [1.0]]),
            where="post",
            color=color,
            linestyle=style,
            linewidth=1.8,
        )
        mean = means[player]
        # Each row also serves as the legend: a piece of the player's line, its name, its figures;
        # the mean is drawn below them, where no name can cover it.
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
        curve: Evaluations: ``steps``, ``mean_score`` and, if known, ``low``, ``high`` and
            ``play``; each kind of play gets a line.
        baselines: Mean scores of other players, drawn as horizontal lines with their intervals.
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


def profile_plot(
    scores: Mapping[str, np.ndarray],
    title: str = "",
    dark: bool = False,
) -> bytes:
    """Draw performance profiles: for each score, the share of a player's games above it.

    The bands are pointwise Wilson intervals over deals.

    Args:
        scores: Each player's final scores, 0..1360, (deals, games of each deal) or (deals,), in
            the order of the legend.
        title: A line above.
        dark: Whether the background is dark.

    Returns:
        A PNG file.

    Source:
        Agarwal et al. (2021), "Deep Reinforcement Learning at the Edge of the Statistical
        Precipice", section 4.2.
    """
    theme = _THEMES[dark]
    figure, axes = _single(theme)
    thresholds = np.arange(0, MAX_SCORE + 1, 10)
    for place, (player, values) in enumerate(scores.items()):
        color, style = _look(theme, place)
        games = np.asarray(values, dtype=float)
        games = games[:, None] if games.ndim == 1 else games
        bands = []
        for threshold in thresholds:
            share = (games > threshold).mean(axis=1)
            bands.append(clustered_proportion_interval(share, games.shape[1]))
        axes.fill_between(
            thresholds,
            [band.low for band in bands],
            [band.high for band in bands],
            color=color,
            alpha=0.2,
            linewidth=0,
        )
        axes.plot(
            thresholds,
            [band.estimate for band in bands],
            style,
            color=color,
            linewidth=1.8,
            label=_label(player),
        )
    axes.set_xlabel("score (0 to 1,360)")
    axes.set_ylabel("share of games above it")
    axes.set_xlim(0, MAX_SCORE)
    axes.set_ylim(0, 1.02)
    return _finished(figure, axes, theme, title)


def pair_plot(
    first: np.ndarray,
    second: np.ndarray,
    names: tuple[str, str],
    title: str = "",
    dark: bool = False,
) -> bytes:
    """Draw a point for each deal, above the diagonal if the second player's score is higher.

    Args:
        first: The first player's scores, 0..1360, (deals,): the x axis.
        second: The second's on the same deals, in the same order: the y axis.
        names: The players' names.
        title: A line above.
        dark: Whether the background is dark.

    Returns:
        A PNG file.
    """
    theme = _THEMES[dark]
    figure = Figure(figsize=(6, 6), layout="constrained", facecolor=theme.background)
    axes = figure.subplots()
    axes.plot([0, MAX_SCORE], [0, MAX_SCORE], "--", color=theme.text, linewidth=1)
    one, other = np.asarray(first, dtype=float), np.asarray(second, dtype=float)
    axes.scatter(one, other, s=14, color=theme.colors[0], alpha=0.45, linewidths=0)
    axes.plot(
        [one.mean()], [other.mean()], "+", color=theme.colors[1], markersize=16, markeredgewidth=2.5
    )
    axes.set_xlabel(f"score of {_label(names[0])}")
    axes.set_ylabel(f"score of {_label(names[1])}")
    axes.set_xlim(-25, MAX_SCORE + 25)
    axes.set_ylim(-25, MAX_SCORE + 25)
    axes.set_aspect("equal")
    axes.set_title(_label(title), fontsize=10)
    _styled(axes, theme)
    return _png(figure)


def learning_curves_plot(
    agents: Mapping[str, Sequence[Sequence[Mapping[str, Any]]]],
    title: str = "",
    dark: bool = False,
) -> bytes:
    """Draw learning curves of agents trained with several seeds, against steps and time.

    A line is the mean over an agent's training seeds, its band extends from the lowest seed to the
    highest, and thin lines are the seeds. Lines are straight between evaluations, and an agent's
    mean ends where its first seed ends. The band of an agent with one seed is the interval of its
    evaluations.

    Args:
        agents: For each agent its runs, each a list of evaluations: ``steps``, ``seconds``,
            ``mean_score``, and if known ``low`` and ``high``.
        title: A line above.
        dark: Whether the background is dark.

    Returns:
        A PNG file.
    """
    theme = _THEMES[dark]
    figure = Figure(figsize=(10, 4.2), layout="constrained", facecolor=theme.background)
    panels = figure.subplots(1, 2, sharey=True)
    for axes, key, unit in zip(panels, ("steps", "seconds"), (1.0, 3600.0), strict=True):
        for place, (name, runs) in enumerate(agents.items()):
            color, style = _look(theme, place)
            curves = [_curve(run, key, unit) for run in runs if run]
            if not curves:
                continue
            grid, mean, low, high = _band(curves)
            axes.fill_between(grid, low, high, color=color, alpha=0.2, linewidth=0)
            for across, score, *_ in curves if len(curves) > 1 else ():
                axes.plot(across, score, color=color, linewidth=0.6, alpha=0.6)
            label = _label(name)
            if len(curves) > 1:
                label += f" ({len(curves)} seeds)"
            axes.plot(grid, mean, style, color=color, linewidth=1.8, label=label)
        axes.set_xlim(left=0)
        axes.set_ylim(bottom=0)
        _styled(axes, theme)
    panels[0].set_xlabel("environment steps trained")
    panels[0].xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    panels[0].set_ylabel("mean score on held-out deals")
    panels[1].set_xlabel("hours of training")
    for axes in panels:
        for text in (axes.xaxis.label, axes.yaxis.label):
            text.set_color(theme.text)
    panels[0].legend(frameon=False, labelcolor=theme.text, fontsize=9)
    heading = figure.suptitle(_label(title))
    heading.set_color(theme.text)
    return _png(figure)


def _curve(run: Sequence[Mapping[str, Any]], key: str, unit: float) -> np.ndarray:
    """Return a run's evaluations in increasing order: x, mean, low, high; (4, n)."""
    points = []
    for point in run:
        mean = float(point["mean_score"])
        low, high = (
            mean if point.get(end) is None else float(point[end]) for end in ("low", "high")
        )
        points.append((float(point[key]) / unit, mean, low, high))
    return np.array(sorted(points)).T


def _band(curves: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Return x, mean, lowest and highest value over the range that all curves share."""
    if len(curves) == 1:
        across, mean, low, high = curves[0]
        return across, mean, low, high
    begin, end = max(c[0][0] for c in curves), min(c[0][-1] for c in curves)
    grid = np.unique(np.concatenate([c[0] for c in curves]))
    grid = grid[(grid >= begin) & (grid <= end)]
    lines = np.array([np.interp(grid, c[0], c[1]) for c in curves])
    return grid, lines.mean(axis=0), lines.min(axis=0), lines.max(axis=0)


def effort_plot(
    points: Mapping[str, tuple[float, Interval]],
    families: Mapping[str, str],
    title: str = "",
    dark: bool = False,
) -> bytes:
    """Draw win rates against the time per deal, on a logarithmic time axis.

    Args:
        points: For each player the CPU seconds per deal, above 0, and the win rate with its
            interval, 0..1.
        families: For each player the family of which it is a variant; a family's points are joined
            by a line in the order of time.
        title: A line above.
        dark: Whether the background is dark.

    Returns:
        A PNG file.
    """
    theme = _THEMES[dark]
    figure, axes = _single(theme)
    for place, family in enumerate(dict.fromkeys(families[player] for player in points)):
        color, style = _look(theme, place)
        members = sorted(
            ((*point, player) for player, point in points.items() if families[player] == family),
            key=lambda member: member[0],
        )
        seconds = [member[0] for member in members]
        rates = [100 * member[1].estimate for member in members]
        axes.plot(seconds, rates, style, marker="o", color=color, linewidth=1.4, label=None)
        for second, rate, name in members:
            axes.plot([second] * 2, [100 * rate.low, 100 * rate.high], color=color, linewidth=1.2)
            axes.annotate(
                _label(name),
                (second, 100 * rate.estimate),
                xytext=(5, 5),
                textcoords="offset points",
                fontsize=8,
                color=theme.text,
            )
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axes.margins(x=0.15)
    axes.set_xlabel("CPU seconds a deal")
    axes.set_ylabel("deals won, %, with 95 % interval")
    axes.set_ylim(bottom=0)
    return _finished(figure, axes, theme, title)


def _single(theme: _Theme) -> tuple[Figure, Axes]:
    figure = Figure(figsize=(8, 4.6), layout="constrained", facecolor=theme.background)
    return figure, figure.subplots()


def _finished(figure: Figure, axes: Axes, theme: _Theme, title: str) -> bytes:
    axes.set_title(_label(title))
    _styled(axes, theme)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(frameon=False, labelcolor=theme.text, fontsize=9)
    return _png(figure)
